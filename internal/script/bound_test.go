package script_test

import (
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/sched"
)

// What bounds preemption, by the checker's own books: nobody is stopped for whom it
// makes no room, so one event stops no more gangs than leaves are promised for it;
// within a priority nobody loses its cells, or their guarantee, before the minimum run
// time, and under capacity no more in a round than it says.

// needed checks that an attempt is preempted for one that was promised its cells, or
// ends with its minimum.
func (c *checker) needed(r sched.Record, e sched.StopSent) {
	if !slices.Contains(c.victims[*e.By], e.Attempt) && !c.minimumStops(e) {
		c.fail("I6: event %d preempts attempt %v for %v, which was not promised its cells", r.Seq, e.Attempt, *e.By)
	}
}

// taking is what was taken back in a VC under capacity: in one round, and when before.
type taking struct{ round, before, leaves int64 }

// within checks an attempt that loses its cells, or its guarantee, to its own priority.
func (c *checker) within(r sched.Record, by, of sched.AttemptID) {
	p, l := c.jobs[by.Job], c.jobs[of.Job]
	if p.VC != l.VC || p.Priority != l.Priority || l.Gangs[of.Gang].Extra {
		return
	}
	i := slices.IndexFunc(c.state.Config().VCs, func(v sched.VCConfig) bool { return v.Name == l.VC })
	if i < 0 {
		return
	}
	v := c.state.Config().VCs[i]
	if started := c.live[of].started; v.MinRun > 0 && (started == 0 || started.Add(v.MinRun) > r.Time) {
		c.fail("I6: event %d: attempt %v loses its guarantee to its own priority before the minimum run time", r.Seq, of)
	}
	if v.Policy == "capacity" {
		c.inRound(r, v, by, of)
	}
}

// inRound checks that the rounds for which a gang has waited, since cells were last
// taken back, allow what is taken in this one.
func (c *checker) inRound(r sched.Record, v sched.VCConfig, by, of sched.AttemptID) {
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
