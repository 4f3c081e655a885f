package perf_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// What policies plan by is what the model of speeds says, where it says something.
func TestOfflineAgreesWithTheModel(t *testing.T) {
	f := &perf.Factors{GPUs: []perf.Scale{{Model: "vgg", GPUs: 1, Rate: 100}, {Model: "vgg", GPUs: 4, Rate: 340}, {Model: "vgg", GPUs: 8, Rate: 500}, {Model: "*", GPUs: 8, Rate: 8}},
		Types: []perf.Factor{{Model: "vgg", Key: "K80", Speed: perf.FullSpeed / 4}}}
	f.Sort()
	gavel := perf.NewThroughputs([]perf.Alone{
		{Worker: "v100", Work: perf.Work{Model: "lstm", Scale: 1}, Rate: 10 * perf.PerSecond},
		{Worker: "v100", Work: perf.Work{Model: "lstm", Scale: 2}, Rate: 18 * perf.PerSecond},
		{Worker: "k80", Work: perf.Work{Model: "lstm", Scale: 1}, Rate: 2 * perf.PerSecond},
		{Worker: "p100", Work: perf.Work{Model: "lstm", Scale: 1}, Rate: 5 * perf.PerSecond}}, nil)
	types := []cell.TypeName{"K80", "V100"}
	m := &perf.Model{Factors: f, Throughputs: gavel, Off: perf.OnLocality}
	all := m.PlanningTable(types)
	of := func(model string) (out []model.Throughput) {
		for _, s := range all {
			if s.Model == model {
				out = append(out, s)
			}
		}
		return out
	}
	for _, has := range []int32{1, 2, 3, 4, 6, 8, 12} {
		for _, sku := range types {
			want := m.Speed(&perf.SpeedInput{Model: "vgg", Type: string(sku), Has: has, Wants: 4})
			rate, usual := perf.RateOn(of("vgg"), sku, has), perf.RateOn(of("vgg"), "V100", 4)
			if got := perf.Speed(rate * int64(perf.FullSpeed) / usual); got < want*98/100 || got > want*102/100 {
				t.Errorf("vgg on %d %s: speed %d, the model says %d", has, sku, got, want)
			}
		}
	}
	if a, b, c := perf.RateOn(of("lstm"), "V100", 2), perf.RateOn(of("lstm"), "V100", 1), perf.RateOn(of("lstm"), "K80", 1); a*10 != b*18 || b != c*5 {
		t.Errorf("lstm: rates %d on 2 V100, %d on one, %d on a K80, want 18, 10 and 2", a, b, c)
	}
	if got := perf.RateOn(of("*"), "K80", 2) * 4; got != perf.RateOn(of("*"), "", 8) {
		t.Errorf("a quarter of the GPUs of any model makes %d", got)
	}
	if n := perf.RateOn(nil, "V100", 4); n != 0 {
		t.Errorf("nothing is known, and it is %d", n)
	}
	for i := 1; i < len(all); i++ {
		if all[i-1].Compare(all[i]) >= 0 {
			t.Errorf("%v stands before %v", all[i-1], all[i])
		}
	}
	if off := (&perf.Model{Factors: f, Off: perf.OnGPUs}).PlanningTable(types); off != nil {
		t.Errorf("numbers of GPUs make no difference, and policies are told %v", off)
	}
}

// Between entries a rate is on the line between them, beyond the last it stays, and of a model
// that is known none is 0: so says a walk through the whole table, too.
func TestRatesBetweenEntries(t *testing.T) {
	if got := perf.RateOn([]model.Throughput{{Model: "m", GPUs: 8, Rate: 3}}, "V100", 1); got != 1 {
		t.Errorf("an eighth of a rate of 3 is %d, as if nothing were known", got)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var table []model.Throughput
		for _, sku := range []cell.TypeName{"", "A", "B"}[r.IntN(2):] {
			for n := int32(1); n < 9; n++ {
				if r.IntN(3) == 0 {
					table = append(table, model.Throughput{Model: "m", SKU: sku, GPUs: 4 * n, Rate: 1000 + r.Int64N(1<<20)})
				}
			}
		}
		for gpus := int32(1); gpus < 40; gpus++ {
			sku := []cell.TypeName{"A", "B", "C"}[r.IntN(3)]
			if got, want := perf.RateOn(table, sku, gpus), walked(table, sku, gpus); got > want+1 || got < want-1 {
				t.Fatalf("on %d %s of %v: %d, want %d", gpus, sku, table, got, want)
			}
		}
	}
}

// walked is the same by reading the whole table.
func walked(table []model.Throughput, sku cell.TypeName, gpus int32) int64 {
	own := func(t model.Throughput) bool { return t.SKU == sku }
	if !slices.ContainsFunc(table, own) {
		sku = ""
	}
	x, y := int32(0), int64(0)
	for _, e := range table {
		if !own(e) {
			continue
		}
		if gpus <= e.GPUs {
			return y + int64(float64(e.Rate-y)*float64(gpus-x)/float64(e.GPUs-x))
		}
		x, y = e.GPUs, e.Rate
	}
	return y
}
