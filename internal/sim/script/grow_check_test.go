package script_test

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// How jobs grow under gandiva, by the checker's own books.

// growth is a job that gets more members than usual, in the decision that runs.
type growth struct {
	job    model.JobID
	before int32 // members that it had
}

// sized checks that a job grows beyond its usual size only where nobody waits who could be
// placed, and not before its GPUs, and its size, have stayed as they are for the delay.
func (c *checker) sized(r model.Record, e model.Sized) {
	j := c.jobs[e.Job]
	was, last := c.sizes[e.Job], c.resizedAt[e.Job]
	c.sizes[e.Job], c.resizedAt[e.Job] = e.Size, r.Time
	i := slices.IndexFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == j.VC })
	if i < 0 || c.state.Config().VCs[i].Policy != "gandiva" || e.Size <= usual(j) {
		return
	}
	v := c.state.Config().VCs[i]
	c.grows = append(c.grows, growth{e.Job, max(was, usual(j))})
	c.met.grows++
	for id, a := range c.live {
		if id.Job == e.Job && id.Gang == 0 {
			last = max(last, a.started)
		}
	}
	if parameter(v, "grow") == "never" || last.Add(seconds(v, "grow", 300)) > r.Time {
		c.fail("G1: event %d: job %s grows to %d members, and it is so large since %d s", r.Seq, j.Name, e.Size, (r.Time-last)/model.Time(model.Second))
	}
	for id, o := range c.jobs {
		if o.VC == j.VC && o.Priority >= 0 && !c.over[id] && c.couldStart(id) {
			c.fail("G1: event %d: job %s grows to %d members while %s waits", r.Seq, j.Name, e.Size, o.Name)
		}
	}
}

// usual is with how many members a job begins.
func usual(j *model.Job) int32 {
	if j.Size > 0 {
		return j.Size
	}
	return int32(len(j.Gangs[0].Tasks) + len(j.Gangs) - 1)
}

// couldStart reports whether a full gang of a job waits for nothing but room.
func (c *checker) couldStart(id model.JobID) bool {
	e, _ := c.state.Why(id)
	return slices.ContainsFunc(e.Gangs, func(g model.GangReason) bool {
		code := g.Reason.Code
		return !c.jobs[id].Gangs[g.Gang].Extra && (code == model.VCBusy || code == model.Fragmented || code == model.NotYetDecided)
	})
}

// besideIts checks that a member with which a job grows starts on a node of its job.
func (c *checker) besideIts(r model.Record, id model.AttemptID, place cell.Placement) {
	j := c.jobs[id.Job]
	i := slices.IndexFunc(c.grows, func(g growth) bool { return g.job == id.Job })
	if i < 0 || int32(len(j.Gangs[0].Tasks))+id.Gang <= c.grows[i].before {
		return
	}
	for other, a := range c.live {
		if other.Job == id.Job && other != id && !a.stop && a.place.Tasks[0].Node == place.Tasks[0].Node {
			return
		}
	}
	c.fail("G2: event %d: job %s grows onto %s, where it does not run", r.Seq, j.Name, place.Tasks[0].Node)
}

// mayShrink reports whether a member may leave for its own priority: under gandiva only one
// above the usual size.
func (c *checker) mayShrink(v model.VCConfig, id model.AttemptID) bool {
	j := c.jobs[id.Job]
	return v.Policy != "gandiva" || int32(len(j.Gangs[0].Tasks))+id.Gang > usual(j) || c.minimumStops(model.StopSent{Attempt: id})
}
