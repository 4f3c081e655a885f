package sched

import (
	"slices"
	"strings"
)

// The bounds of a table of throughputs.
const (
	MaxThroughputs = 100_000
	MaxRate        = int64(1) << 50
)

// checkThroughputs says what is wrong with a configuration's table.
func checkThroughputs(list []Throughput) *Refusal {
	if len(list) > MaxThroughputs {
		return refuse(Invalid, "the table of throughputs has %d entries, more than %d", len(list), MaxThroughputs)
	}
	for i, t := range list {
		switch {
		case t.Model == "" || t.GPUs < 1 || t.GPUs > maxLeaves || t.Rate < 1 || t.Rate > MaxRate:
			return refuse(Invalid, "throughput %d of model %q on %d GPUs: a model, GPUs and a rate above 0 are needed", t.Rate, t.Model, t.GPUs)
		case i > 0 && list[i-1].Compare(t) >= 0:
			return refuse(Invalid, "throughputs of model %q on %d GPUs are out of order, or there twice", t.Model, t.GPUs)
		}
	}
	return nil
}

// Measured implements View.
func (v view) Measured() bool { return len(v.s.cfg.Throughputs) > 0 }

// Elastic implements View.
func (v view) Elastic() bool { return v.s.tallies[v.space].partials > 0 }

// speedsOf returns the part of the table that is about a job's model.
func (s *State) speedsOf(j *Job) []Throughput {
	list := s.cfg.Throughputs
	for _, model := range [2]string{j.Hints.Model, AnyModel} {
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
