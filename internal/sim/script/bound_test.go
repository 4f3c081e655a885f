package script_test

import (
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// What bounds preemption, by the checker's own books: nobody is stopped for whom it
// makes no room, so one event stops no more gangs than leaves are promised for it;
// within a priority nobody loses its cells, or their guarantee, before the minimum run
// time or the quantum of the policy, and under capacity no more in a round than it says.
// Under a policy that stops nobody within a priority nobody is (order_test.go).

// needed checks that an attempt is preempted for one that was promised its cells, or
// ends with its minimum.
func (c *checker) needed(r model.Record, e model.StopSent) {
	if !slices.Contains(c.victims[*e.By], e.Attempt) && !c.minimumStops(e) && c.cleared[e.Attempt] != *e.By {
		c.fail("I6: event %d preempts attempt %v for %v, which was not promised its cells", r.Seq, e.Attempt, *e.By)
	}
}

// demoted notes who loses its guarantee for whom.
func (c *checker) demoted(e model.LazilyPreempted) {
	for _, id := range append(e.With, e.Attempt) {
		c.attempt(model.Record{}, id).lazy = true
		if e.By != nil {
			c.cleared[id] = *e.By
		}
	}
}

// clear checks, when a decision ends, that who lost its guarantee goes on only if its job allows
// that.
func (c *checker) clear() {
	for id, by := range c.cleared {
		a, j := c.live[id], c.jobs[id.Job]
		if a != nil && !a.stop && !j.LazyPreempt && !j.Gangs[id.Gang].Extra {
			c.fail("I6: attempt %v lost its guarantee for %v and goes on, which its job does not allow", id, by)
		}
	}
	clear(c.cleared)
}

// taking is what was taken back in a VC under capacity: in one round, and when before.
type taking struct{ round, before, leaves int64 }

// within checks an attempt that loses its cells, or its guarantee, to its own priority.
func (c *checker) within(r model.Record, by, of model.AttemptID) {
	p, l := c.jobs[by.Job], c.jobs[of.Job]
	if p.VC != l.VC || p.Priority != l.Priority || l.Gangs[of.Gang].Extra {
		return
	}
	i := slices.IndexFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == l.VC })
	if i < 0 {
		return
	}
	v := c.state.Config().VCs[i]
	if c.young(r, v, by, of) {
		c.fail("I6: event %d: attempt %v loses its guarantee to its own priority before it has run for %d s", r.Seq, of, c.least(v, by)/model.Second)
	}
	if _, lazy := r.Event.(model.LazilyPreempted); !lazy { // whose cell may go with others in it
		c.taken(r, by, of)
	}
	if v.Policy == "capacity" {
		c.inRound(r, v, by, of)
	}
}

// quantumOf is how long a policy lets a gang run before its own priority may stop it: so much
// where its parameters do not say, and 0 where it stops nobody or has leases or rounds of its own.
func quantumOf(v model.VCConfig) model.Duration {
	switch v.Policy {
	case "fifo":
		if parameter(v, "preempt") != "true" {
			return 0
		}
	case "edf":
		if parameter(v, "preempt") == "no" {
			return 0
		}
	case "srtf", "srsf", "las", "gittins", "genie", "chronus":
	default:
		return 0
	}
	return seconds(v, "quantum", 60)
}

// least is how long a gang of a VC must have run before another of its priority may have it
// stopped. Who holds a lease of chronus does not wait for the quantum.
func (c *checker) least(v model.VCConfig, by model.AttemptID) model.Duration {
	if v.Policy == "chronus" && c.promises[by.Job].word == "holds" {
		return v.MinRun
	}
	return max(v.MinRun, quantumOf(v))
}

// young reports whether an attempt has not run for so long since its start.
func (c *checker) young(r model.Record, v model.VCConfig, by, of model.AttemptID) bool {
	least, started := c.least(v, by), c.live[of].started
	return least > 0 && (started == 0 || started.Add(least) > r.Time)
}

// taken checks that one gang makes no more of its own priority leave than it gets leaves,
// gangs that share their leaves counted once. Parts of devices that a configuration made
// otherwise are left out: two of what they were may lie in one of what they are.
func (c *checker) taken(r model.Record, by, of model.AttemptID) {
	if c.takes.by != by {
		c.takes = takes{by: by, from: map[device]bool{}}
	}
	if first := c.live[of].place.Tasks[0]; len(first.Parts) == 0 && len(first.Devices) > 0 {
		c.takes.from[device{node: first.Node, sku: first.SKU, index: first.Devices[0]}] = true
	}
	if most := c.leaves(by); int64(len(c.takes.from)) > most {
		c.fail("I6: event %d: %d gangs leave for %v, which gets %d leaves", r.Seq, len(c.takes.from), by, most)
	}
}

// takes are the gangs that left last, in one decision, for one of their priority, each by its
// first device.
type takes struct {
	by   model.AttemptID
	from map[device]bool
}

// inRound checks that the rounds for which a gang has waited, since cells were last
// taken back, allow what is taken in this one.
func (c *checker) inRound(r model.Record, v model.VCConfig, by, of model.AttemptID) {
	interval, wait := seconds(v, "interval", 3), seconds(v, "wait", 15)
	part := 0.1
	if x, err := strconv.ParseFloat(parameter(v, "round"), 64); err == nil {
		part = x
	}
	t, now := c.rounds[v.Name], int64(r.Time)/int64(interval)
	if t.round != now {
		t = taking{round: now, before: t.round}
	}
	t.leaves += int64(c.leavesTimes(gangKey{of.Job, of.Gang}, 1))
	c.rounds[v.Name] = t
	since := max(c.submitted[by.Job], c.ended[gangKey{by.Job, by.Gang}])
	first := int64(since.Add(wait+interval-1)) / int64(interval)
	total := int32(0)
	for _, s := range c.state.VCs() {
		if s.Name == v.Name {
			total = s.Guaranteed
		}
	}
	rounds := now - max(first-1, t.before)
	if most := float64(total) * min(float64(rounds)*part, 1); rounds < 1 || float64(t.leaves) > most+1e-6 {
		c.fail("I6: event %d: %s takes %d leaves back, and %d rounds allow %.2f of %d", r.Seq, v.Name, t.leaves, rounds, most, total)
	}
}
