package script_test

import (
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// joined checks that an attempt joins one that runs, on exactly its leaves, and that
// both belong to one VC and priority.
func (c *checker) joined(r model.Record, e model.Joined) {
	c.met.joins++
	host := c.attempt(r, e.Host)
	a, h := c.jobs[e.Attempt.Job], c.jobs[e.Host.Job]
	switch {
	case !host.placed || host.stop || host.lazy:
		c.fail("S1: event %d lets attempt %v join %v, which does not run with a guarantee", r.Seq, e.Attempt, e.Host)
	case a == nil || h == nil || a.VC != h.VC || a.Priority != h.Priority:
		c.fail("S1: event %d lets attempt %v join %v of another VC or priority", r.Seq, e.Attempt, e.Host)
	case !reflect.DeepEqual(host.place.Tasks, e.Placement.Tasks) || len(e.Placement.Binds) > 0:
		c.fail("S1: event %d lets attempt %v join %v on other leaves", r.Seq, e.Attempt, e.Host)
	case c.alone[gangKey{e.Attempt.Job, e.Attempt.Gang}]:
		c.fail("S1: event %d lets attempt %v join, of a gang that shares with nobody", r.Seq, e.Attempt)
	}
	c.placed(r, model.Placed{Attempt: e.Attempt, Placement: e.Placement})
	c.owns(r, e.Attempt, e.Host, e.Placement)
}

// rotated keeps who runs when, and counts what each ran before.
func (c *checker) rotated(r model.Record, e model.Rotated) {
	if err := e.Check(); err != nil || e.Epoch != r.Time {
		c.fail("S2: event %d: %v, epoch %d at %d", r.Seq, err, e.Epoch, r.Time)
		return
	}
	for _, turn := range e.Turns {
		for _, id := range turn {
			a := c.attempt(r, id)
			a.had, a.since = c.had(id, a, r.Time), r.Time
			a.turns = &e.Rotation
		}
	}
}

// had is how long an attempt ran by a time, read turn by turn.
func (c *checker) had(id model.AttemptID, a *attempt, now model.Time) model.Duration {
	if a.started == 0 {
		return 0
	}
	if a.turns == nil {
		return model.Duration(now - a.started)
	}
	d := a.had
	for at := max(a.since, a.started); at < now; {
		next := now
		if change := a.turns.Change(at); change > 0 {
			next = min(now, change)
		}
		if a.turns.Runs(id, at) {
			d += model.Duration(next - at)
		}
		at = next
	}
	return d
}

// shares checks everybody who is not alone on a device: both stand in one rotation,
// each once, all its members hold the same leaves, and their memory fits.
func (c *checker) shares(one, other model.AttemptID) {
	a, b := c.live[one], c.live[other]
	if a.turns == nil || b.turns == nil || !reflect.DeepEqual(a.turns, b.turns) || a.turns.Turn(other) < 0 || a.turns.Turn(one) < 0 {
		c.fail("I2: attempts %v and %v have a device in common, and no rotation has both", one, other)
		return
	}
	if !slices.EqualFunc(a.place.Tasks, b.place.Tasks, func(x, y placedTask) bool { return slices.Equal(x.Leaves, y.Leaves) }) {
		c.fail("S3: attempts %v and %v share some leaves and not all", one, other)
	}
	if a.lazy != b.lazy {
		c.fail("S3: attempts %v and %v share leaves, and one is guaranteed", one, other)
	}
	x, y := &c.jobs[one.Job].Hints, &c.jobs[other.Job].Hints
	together := a.turns.Turn(one) == a.turns.Turn(other)
	if together && !(x.Packable && y.Packable) || len(a.turns.Turns) > 1 && !(x.Suspendable && y.Suspendable) {
		c.fail("S4: attempts %v and %v share leaves, and a job does not let itself", one, other)
	}
	of := c.memory[a.place.Tasks[0].SKU]
	if m, n := x.GPUMemoryMB, y.GPUMemoryMB; of > 0 && m > 0 && n > 0 && m+n > of && (together || x.Suspend == nil && y.Suspend == nil) {
		c.fail("S4: attempts %v and %v share %d MiB and need %d and %d", one, other, of, m, n)
	}
}
