package core_test

import (
	"iter"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// Decisions that ask for another one without end would be a defect: after 10,000 in a row the
// next is a second later, also when the state was saved and loaded meanwhile, until one asks for
// none.
func TestAgainWithoutEnd(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 1}))
	decided := func(again bool) model.Time {
		e := model.Decided{Now: w.s.Now() + 1, Version: model.Version, Again: again}
		w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: e.Now, Event: e})
		return w.s.Wake() - e.Now
	}
	for n := range 10_000 {
		if n == 5_000 {
			var err error
			if w.s, err = core.Load(w.s.Save(), policy.New); err != nil {
				t.Fatal(err)
			}
		}
		if d := decided(true); d != 1 {
			t.Fatalf("decision %d asks for another one %d microseconds later", n+1, d)
		}
	}
	want(t, "after 10,000", decided(true), model.Time(model.Second))
	decided(false)
	want(t, "after one that asks for none", decided(true), 1)
}

// late is a policy that names an instant that has passed whenever it is asked.
type late struct{ whim }

func (late) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for g := range v.Waiting() {
			if !yield(model.Wish{Gang: g.Ref}) {
				return
			}
		}
	}
}

func (late) NextChange(v model.View) model.Time { return v.Now() }

// A policy that always names an instant that has passed is looked at once a second, also when
// the state was saved and loaded meanwhile.
func TestChangeThatHasPassed(t *testing.T) {
	w := &world{t: t, now: 1_000_000, policies: func(model.VCConfig) (model.Policy, error) { return late{}, nil }}
	w.s = core.New(w.policies)
	w.do(model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 1})})
	w.start(w.submit(gangJob("runs", "a", 10, 1, 4)))
	w.start(w.submit(gangJob("runs, too", "a", 10, 1, 4)))
	w.submit(gangJob("waits", "a", 10, 1, 4))
	looks := 0
	for end := w.now + model.Time(10*model.Second); w.now < end; looks++ {
		if looks > 20 {
			t.Fatalf("%d looks until %d, %d before the end", looks, w.now, end-w.now)
		}
		again, err := core.Load(w.s.Save(), w.policies)
		if err != nil {
			t.Fatal(err)
		}
		wake := w.s.Wake()
		want(t, "after a load", again.Wake(), wake)
		if wake <= w.now {
			t.Fatalf("it is to be looked at at %d, when it was at %d", wake, w.now)
		}
		w.now = wake
		w.decide()
	}
	if looks < 10 {
		t.Errorf("%d looks in 10 seconds", looks)
	}
}
