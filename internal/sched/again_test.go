package sched_test

import (
	"testing"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/sched"
)

// Decisions that ask for another one without end would be a defect: after 10,000 in a row the
// next is a second later, also when the state was saved and loaded meanwhile, until one asks for
// none.
func TestAgainWithoutEnd(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 1}))
	decided := func(again bool) sched.Time {
		e := sched.Decided{Now: w.s.Now() + 1, Version: sched.Version, Again: again}
		w.s.Apply(sched.Record{Seq: w.s.Seq() + 1, Time: e.Now, Event: e})
		return w.s.Wake() - e.Now
	}
	for n := range 10_000 {
		if n == 5_000 {
			var err error
			if w.s, err = sched.Load(w.s.Save(), policy.New); err != nil {
				t.Fatal(err)
			}
		}
		if d := decided(true); d != 1 {
			t.Fatalf("decision %d asks for another one %d microseconds later", n+1, d)
		}
	}
	want(t, "after 10,000", decided(true), sched.Time(sched.Second))
	decided(false)
	want(t, "after one that asks for none", decided(true), 1)
}
