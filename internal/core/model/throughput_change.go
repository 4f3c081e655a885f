package model

import (
	"cmp"
	"fmt"
	"strings"
)

// throughputs compares the tables of throughputs, which are both in order.
func (d *ConfigPair) throughputs() []ThroughputChange {
	out := []ThroughputChange{}
	was, is := d.Before.Throughputs, d.After.Throughputs
	for len(was)+len(is) > 0 {
		var c ThroughputChange
		switch {
		case len(is) == 0 || len(was) > 0 && was[0].Compare(is[0]) < 0:
			c = ThroughputChange{Model: was[0].Model, SKU: was[0].SKU, GPUs: was[0].GPUs, Before: was[0].Rate}
			was = was[1:]
		case len(was) == 0 || is[0].Compare(was[0]) < 0:
			c = ThroughputChange{Model: is[0].Model, SKU: is[0].SKU, GPUs: is[0].GPUs, After: is[0].Rate}
			is = is[1:]
		default:
			c = ThroughputChange{Model: is[0].Model, SKU: is[0].SKU, GPUs: is[0].GPUs, Before: was[0].Rate,
				After: is[0].Rate}
			was, is = was[1:], is[1:]
		}
		if c.Before != c.After {
			out = append(out, c)
		}
	}
	return out
}

// throughputSentences are the changes of throughputs in words: a line for each model, for up to 20.
func throughputSentences(list []ThroughputChange) (out []string) {
	const most = 20
	models := 0
	for len(list) > 0 {
		model, texts := list[0].Model, []string(nil)
		for len(list) > 0 && list[0].Model == model {
			texts, list = append(texts, list[0].String()), list[1:]
		}
		if model == AnyModel {
			model = "all other models"
		}
		if models++; models <= most {
			out = append(out, fmt.Sprintf("throughputs of %s: %s", model, fewNames(texts)))
		}
	}
	if models > most {
		out = append(out, fmt.Sprintf("throughputs of %s change",
			Plural(int32(models-most), "more model", "more models")))
	}
	return out
}

// String says one change, such as "2 GPUs of v100 190 -> 150".
func (c ThroughputChange) String() string {
	rate := func(n int64) string { return cmp.Or(strings.TrimPrefix(fmt.Sprint(n), "0"), "none") }
	text := Plural(c.GPUs, "GPU", "GPUs")
	if c.SKU != "" {
		text += " of " + string(c.SKU)
	}
	return strings.Join([]string{text, rate(c.Before), "->", rate(c.After)}, " ")
}
