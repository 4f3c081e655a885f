// Package perf holds what is known about how fast jobs run: tables of throughputs
// measured alone and side by side, and of the speed that is left when a gang is
// spread over nodes. It is pure: internal/spec/trace reads the tables from files, and it
// must not know files, clusters or policies. Numbers are integers, so that every
// machine compares them alike.
package perf

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// Rate is a throughput in billionths of a step per second.
type Rate int64

// PerSecond is the Rate of one step per second.
const PerSecond Rate = 1_000_000_000

// Time is how long a number of steps takes, rounded up to a microsecond. A rate of
// 0 never ends: the longest Duration.
func (r Rate) Time(steps int64) model.Duration {
	const longest = model.Duration(1<<63 - 1)
	if r <= 0 || steps < 0 {
		return longest
	}
	// A step takes 1e9/r seconds, that is 1e15/r microseconds.
	hi, lo := bits.Mul64(uint64(steps), 1_000_000_000_000_000)
	if hi >= uint64(r) {
		return longest
	}
	q, rest := bits.Div64(hi, lo, uint64(r))
	if rest > 0 {
		q++
	}
	if q > uint64(longest) {
		return longest
	}
	return model.Duration(q)
}

// Work is what a throughput was measured of: a model on a number of GPUs.
type Work struct {
	Model string
	Scale int32 // GPUs
}

func (w Work) compare(o Work) int {
	return cmp.Or(strings.Compare(w.Model, o.Model), cmp.Compare(w.Scale, o.Scale))
}

// Alone is the throughput of a work that has one type of worker for itself. A worker is a GPU
// type, such as "v100", or that type with GPUs on different nodes, such as "v100_unconsolidated"
// (Gavel's names).
type Alone struct {
	Worker string
	Work   Work
	Rate   Rate
}

func (a Alone) compare(o Alone) int {
	return cmp.Or(strings.Compare(a.Worker, o.Worker), a.Work.compare(o.Work))
}

// Pair is the rates of two works that share the same GPUs. Both are 0 if they do not fit
// together.
type Pair struct {
	Worker string
	A, B   Work
	RateA  Rate
	RateB  Rate
}

func (p Pair) compare(o Pair) int {
	return cmp.Or(strings.Compare(p.Worker, o.Worker), p.A.compare(o.A), p.B.compare(o.B))
}

// Throughputs is a table of measured speeds, as Gavel (Narayanan et al., OSDI'20)
// publishes one. Both lists are sorted and hold no two entries for the same thing;
// NewThroughputs makes them so.
type Throughputs struct {
	Alone   []Alone
	Pairs   []Pair
	workers []string // of Alone, sorted
}

// NewThroughputs sorts both lists. Of several entries for the same thing the first
// one given stays.
func NewThroughputs(alone []Alone, pairs []Pair) *Throughputs {
	slices.SortStableFunc(alone, Alone.compare)
	slices.SortStableFunc(pairs, Pair.compare)
	t := &Throughputs{
		Alone: slices.CompactFunc(alone, func(a, b Alone) bool { return a.compare(b) == 0 }),
		Pairs: slices.CompactFunc(pairs, func(a, b Pair) bool { return a.compare(b) == 0 }),
	}
	for _, a := range t.Alone {
		if n := len(t.workers); n == 0 || t.workers[n-1] != a.Worker {
			t.workers = append(t.workers, a.Worker)
		}
	}
	return t
}

// Rate is the throughput of a work that has its GPUs for itself. It is false where
// the table does not have it.
func (t *Throughputs) Rate(worker string, w Work) (Rate, bool) {
	i, found := slices.BinarySearchFunc(t.Alone, Alone{Worker: worker, Work: w}, Alone.compare)
	if !found {
		return 0, false
	}
	return t.Alone[i].Rate, true
}

// Together is the throughputs of a and b on the same GPUs. It is false where the
// table has them in neither order.
func (t *Throughputs) Together(worker string, a, b Work) (rateA, rateB Rate, ok bool) {
	if i, found := slices.BinarySearchFunc(t.Pairs, Pair{Worker: worker, A: a, B: b}, Pair.compare); found {
		return t.Pairs[i].RateA, t.Pairs[i].RateB, true
	}
	if i, found := slices.BinarySearchFunc(t.Pairs, Pair{Worker: worker, A: b, B: a}, Pair.compare); found {
		return t.Pairs[i].RateB, t.Pairs[i].RateA, true
	}
	return 0, 0, false
}

// Workers lists the types of workers, sorted.
func (t *Throughputs) Workers() []string { return slices.Clone(t.workers) }

// Has reports whether the table has a GPU type, in capitals or not.
func (t *Throughputs) Has(gpu string) bool { return t.worker(gpu) != "" }

// Works lists what was measured on a worker, sorted.
func (t *Throughputs) Works(worker string) []Work {
	var out []Work
	for _, a := range t.Alone {
		if a.Worker == worker {
			out = append(out, a.Work)
		}
	}
	return out
}
