package script_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/test/seeds"
)

// The journal of every random run can be read by a program that cannot make any of its
// policies but fifo, from its first event and from a snapshot: what runs keeps its cells, and
// fifo goes on from there.
func TestUnmadeSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/8)
	unmade := 0
	for seed := from; seed <= to && !t.Failed(); seed++ {
		for _, kind := range []kindOfRun{plain, shared, crowd, trials, mixed, divided} {
			unmade += foldWithout(t, seed, kind)
		}
	}
	if t.Logf("%d policies could not be made", unmade); unmade == 0 {
		t.Error("all policies could be made")
	}
}

// onlyFifo are the policies of a program that has no others.
func onlyFifo(c model.VCConfig) (model.Policy, error) {
	if c.Policy != "" && c.Policy != "fifo" {
		return nil, errors.New("it is not known")
	}
	return policy.New(c)
}

// foldWithout reads the journal of a run anew at several of its events, and returns how many
// policies were unmade then.
func foldWithout(t *testing.T, seed uint64, kind kindOfRun) (unmade int) {
	g := newGenerator(seed, kind)
	g.sc.check.blind = true // others check these runs
	s := core.New(onlyFifo)
	batches, had := 0, g.sc.s.OnBatch
	g.sc.s.OnBatch = func(b engine.Batch) {
		had(b)
		for _, r := range b.Records {
			s.Apply(r)
		}
		s.DropEnded()
		if batches++; batches%16 == 0 && !g.ending && !t.Failed() {
			unmade += goOn(t, seed, kind, s.Clone(), "read")
			loaded, err := core.Load(g.sc.check.state.Save(), onlyFifo)
			if err != nil {
				t.Errorf("seed %d, kind %d, event %d: the snapshot cannot be read: %v", seed, kind, s.Seq(), err)
				return
			}
			goOn(t, seed, kind, loaded, "loaded")
		}
	}
	g.run()
	return unmade
}

// goOn lets fifo serve whose policy is unmade, and decides.
func goOn(t *testing.T, seed uint64, kind kindOfRun, s *core.State, how string) int {
	now := s.Now() + 1
	check := func(when string) {
		if err := s.Verify(); err != nil {
			t.Errorf("seed %d, kind %d, %s to event %d, %s: %v", seed, kind, how, s.Seq(), when, err)
		}
	}
	check("at first")
	unmade := slices.Clone(s.FailedToMake())
	for _, e := range unmade {
		s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
	}
	check("with fifo")
	if len(s.FailedToMake()) > 0 {
		t.Errorf("seed %d: %v are unmade", seed, s.FailedToMake())
	}
	for range patience {
		s.Decide(now)
		if now = s.Wake(); now == 0 {
			break
		}
	}
	check("decided")
	return len(unmade)
}
