package perf

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// PlanningTable is what a model of speeds knows of types and numbers of GPUs, for the types of a
// cluster, as policies may plan by it (model.Config.Throughputs). It lacks effects that are
// switched off. If both have an entry for the same model, type and number, the table of
// throughputs counts.
func (m *Model) PlanningTable(types []cell.TypeName) []model.Throughput {
	if m == nil || m.Off&OnGPUs != 0 {
		return nil
	}
	var out []model.Throughput
	if t := m.Throughputs; t != nil {
		for _, sku := range types {
			worker := t.worker(string(sku))
			for _, a := range t.Alone {
				if a.Worker == worker && a.Rate > 0 {
					out = append(out, model.Throughput{Model: a.Work.Model, SKU: sku, GPUs: a.Work.Scale, Rate: min(int64(a.Rate), model.MaxRate)})
				}
			}
		}
	}
	if f := m.Factors; f != nil {
		for _, s := range f.GPUs {
			for _, sku := range f.typesOf(s.Model, types, m.Off&OnType != 0) {
				rate := s.Rate.times(find(f.Types, s.Model, string(sku)))
				out = append(out, model.Throughput{Model: s.Model, SKU: sku, GPUs: s.GPUs, Rate: int64(rate)})
			}
		}
	}
	slices.SortStableFunc(out, model.Throughput.Compare)
	out = slices.CompactFunc(out, func(a, b model.Throughput) bool { return a.Compare(b) == 0 })
	return out[:min(len(out), model.MaxThroughputs)]
}

// typesOf are the types on which a model has speeds of its own, else "", which stands for all.
func (f *Factors) typesOf(model string, types []cell.TypeName, off bool) []cell.TypeName {
	for _, t := range types {
		if !off && find(f.Types, model, string(t)) != FullSpeed {
			return types
		}
	}
	return []cell.TypeName{""}
}

// RateOn is the throughput of one model on a number of GPUs of a type, from its part of a table
// (model.GangView.Speeds). It is linear between two entries and constant beyond the last. Below
// the first it falls with the GPUs, but not below 1. It is 0 if nothing is known.
func RateOn(speeds []model.Throughput, sku cell.TypeName, gpus int32) int64 {
	for _, of := range [2]cell.TypeName{sku, ""} {
		at := sort.Search(len(speeds), func(i int) bool {
			return cmp.Or(strings.Compare(string(speeds[i].SKU), string(of)), cmp.Compare(speeds[i].GPUs, gpus)) >= 0
		})
		var low model.Throughput
		if at > 0 && speeds[at-1].SKU == of {
			low = speeds[at-1]
		}
		if at < len(speeds) && speeds[at].SKU == of {
			high := &speeds[at]
			// Rates are at most 2^50: the product may need more than 63 bits.
			return max(low.Rate+scaled(high.Rate-low.Rate, int64(gpus-low.GPUs), int64(high.GPUs-low.GPUs)), int64(min(gpus, 1)))
		}
		if low.Rate > 0 {
			return low.Rate
		}
	}
	return 0
}

// scaled is n * a / b for 0 <= a <= b, rounded toward zero.
func scaled(n, a, b int64) int64 { return n/b*a + n%b*a/b }
