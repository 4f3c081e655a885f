package script_test

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// Where who is guaranteed a lease runs: on the type of which it is.

// leased checks, when a batch is whole, that nobody who is guaranteed leases of one type has,
// or was promised, cells of another. Who was measured on another leaves it as soon as it has
// run for the VC's minimum run time.
func (c *checker) leased(now model.Time) {
	for id, a := range c.live {
		p, j := c.promises[id.Job], c.jobs[id.Job]
		if !p.kept() || a.stop || a.lazy || j.Priority < 0 {
			continue
		}
		for _, t := range a.place.Tasks {
			if t.SKU == p.sku {
				if len(c.memory) > 1 {
					c.met.leased++
				}
			} else if !c.measuredThere(id, a, now) {
				c.fail("C4: job %s is guaranteed leases of %s (%s), and attempt %v is on %s", j.Name, p.sku, p.word, id, t.SKU)
			}
		}
	}
}

// measuredThere reports whether an attempt is where its job was measured, and may not be
// stopped yet.
func (c *checker) measuredThere(id model.AttemptID, a *attempt, now model.Time) bool {
	v, ok := c.chronusOf(c.jobs[id.Job].VC)
	first := c.live[model.AttemptID{Job: id.Job, N: c.last[gangKey{id.Job, 0}]}]
	if !ok || first == nil || !c.promises[id.Job].told {
		return false
	}
	return first.started == 0 || now < first.started.Add(v.MinRun)
}

// The same under chronus where GPUs are of several types, with faults and other
// configurations.
func TestMixedSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/8)
	found := newFailures(mixed, seeds.Unit/8)
	found.tryAll(t, from, to)
	if !t.Failed() && to-from+1 >= seeds.Unit/8 && found.met.leased < 100 {
		t.Errorf("who is guaranteed leases of a type was met %d times", found.met.leased)
	}
	t.Logf("who is guaranteed leases of a type was met %d times", found.met.leased)
}

// overtakes reports whether a job may have come to stand before another by time alone, which is
// seen when something happens in its VC, at the latest at the end of a lease: themis orders by rho,
// which grows faster for the short. Somebody holds cells there, or all would be free.
func (c *checker) overtakes(j model.JobStatus) bool {
	themis := slices.ContainsFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == j.VC && v.Policy == "themis" })
	for id, a := range c.live {
		if themis && a.placed && c.jobs[id.Job].VC == j.VC {
			return true
		}
	}
	return false
}
