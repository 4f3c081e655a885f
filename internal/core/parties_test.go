package core_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// plainDRF is drf as its paper has it: it reads every gang that waits, and wishes
// for each of them.
type plainDRF struct{}

func (plainDRF) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		waits := slices.Collect(v.Waiting())
		for len(waits) > 0 {
			best := 0 // of each user the first counts, and they come in order of submission
			for i := range waits {
				if v.Share(model.ByUser, model.Party{User: waits[i].User}) < v.Share(model.ByUser, model.Party{User: waits[best].User}) {
					best = i
				}
			}
			if !yield(model.Wish{Gang: waits[best].Ref}) {
				return
			}
			waits = slices.Delete(waits, best, best+1)
		}
	}
}

// Whoever passes over gangs by their shapes decides as one that tries each of them.
func TestPartiesLeaveOutNobodyWhoCouldStart(t *testing.T) {
	drf := func(cfg *model.Config) *model.Config {
		for i := range cfg.VCs {
			cfg.VCs[i].Policy = "drf"
		}
		return cfg
	}
	cfgs := []*model.Config{drf(cluster(4, map[cell.VCName]int32{"a": 2, "b": 1})), drf(cluster(6, map[cell.VCName]int32{"a": 2, "b": 2}))}
	passed := 0
	for seed := range seeds.Of(t, 200) {
		plain := &world{t: t, now: 1_000_000, s: core.New(func(model.VCConfig) (model.Policy, error) { return plainDRF{}, nil })}
		fast := &world{t: t, now: 1_000_000, s: core.New(policy.New)}
		for _, w := range []*world{plain, fast} {
			w.do(model.Reconfigure{Config: cfgs[0]})
			r := rand.New(rand.NewPCG(seed, 17))
			for step := range 100 {
				w.now += model.Time(r.IntN(3_000_000))
				if k := r.IntN(8); k > 0 && k < 4 { // more wait than random histories have
					job := gangJob(fmt.Sprintf("more%d", step), "a", cell.Priority(r.IntN(2)), 1, 1+r.Int32N(4))
					job.User = model.Subject(fmt.Sprintf("u%d", r.IntN(3)))
					events, _, _ := w.s.Check(model.Submit{Job: job}, w.now)
					w.apply(events)
				}
				w.step(r, cfgs, step)
			}
		}
		if len(plain.log) != len(fast.log) {
			t.Fatalf("seed %d: %d events, but %d when each gang is tried", seed, len(fast.log), len(plain.log))
		}
		for i := range fast.log {
			if a, b := encoded(t, fast.log[i]), encoded(t, plain.log[i]); a != b {
				t.Fatalf("seed %d: %s\nbut when each gang is tried: %s", seed, a, b)
			}
		}
		if waits := fast.s.Waiting(); len(waits) > 3 {
			passed++
		}
	}
	if passed < 5 && seeds.Modest() {
		t.Errorf("only %d histories end with many who wait: they show nothing", passed)
	}
}

// Who gets cells that were promised to another with a lower priority lowers the share of
// the other, who comes next at once.
func TestPartiesLoseSharesToOthers(t *testing.T) {
	for name, v := range map[string]model.VCConfig{"drf": {Policy: "drf"}, "offers": {Policy: "offers"},
		"hoards": {Policy: "offers", Params: []model.Param{{Key: "hoard", Value: "true"}}}} {
		t.Run(name, func(t *testing.T) { losesShare(t, v) })
	}
}

func losesShare(t *testing.T, v model.VCConfig) {
	cfg := cluster(2, map[cell.VCName]int32{"a": 1})
	cfg.VCs[0].Policy, cfg.VCs[0].Params = v.Policy, v.Params
	w := newWorld(t, cfg)
	of := func(user model.Subject, name string, prio cell.Priority, leaves int32) *model.Job {
		j := gangJob(name, "a", prio, 1, leaves)
		j.User = user
		return j
	}
	w.start(w.submit(of("cid", "borrows", -1, 4)))
	w.start(w.submit(of("cid", "too", -1, 4)))
	low := w.submit(of("ann", "low", 0, 4))
	want(t, "low", w.reason(low), model.WaitingPreemption)
	for _, j := range []*model.Job{of("ann", "hers", 10, 2), of("bob", "one", 10, 2), of("bob", "two", 10, 2)} {
		events, _, no := w.s.Check(model.Submit{Job: j}, w.now)
		if no != nil {
			t.Fatal(no.Message)
		}
		w.record(events)
	}
	w.decide()
	want(t, "low", w.reason(low), model.VCBusy)
	want(t, "hers", w.reason(low+1), model.WaitingPreemption)
	want(t, "one", w.reason(low+2), model.WaitingPreemption)
	want(t, "two", w.reason(low+3), model.VCBusy)
}
