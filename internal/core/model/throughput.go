package model

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds of a table of throughputs.
const (
	MaxThroughputs = 100_000
	MaxRate        = int64(1) << 50
)

// CheckThroughputs returns what is wrong with a table of throughputs, nil for nothing. most is the
// largest number of GPUs of an entry.
func CheckThroughputs(list []Throughput, most int32) error {
	if len(list) > MaxThroughputs {
		return fmt.Errorf("the table of throughputs has %d entries, more than %d", len(list), MaxThroughputs)
	}
	for i, t := range list {
		switch {
		case t.Model == "" || t.GPUs < 1 || t.GPUs > most || t.Rate < 1 || t.Rate > MaxRate:
			return fmt.Errorf("throughput %d of model %q on %d GPUs: a model, GPUs and a rate above 0 are needed",
				t.Rate, t.Model, t.GPUs)
		case i > 0 && list[i-1].Compare(t) >= 0:
			return fmt.Errorf("throughputs of model %q on %d GPUs are out of order, or there twice", t.Model, t.GPUs)
		}
	}
	return nil
}

// Speeds returns the entries of a table for a model, or else those for AnyModel.
func Speeds(list []Throughput, model string) []Throughput {
	for _, model := range [2]string{model, AnyModel} {
		byModel := func(t Throughput, m string) int { return strings.Compare(t.Model, m) }
		from, found := slices.BinarySearchFunc(list, model, byModel)
		if !found {
			continue
		}
		to := from
		for to < len(list) && list[to].Model == model {
			to++
		}
		return list[from:to:to]
	}
	return nil
}
