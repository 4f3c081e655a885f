package script_test

import (
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What philly promises: nodes for those who want them for themselves, and who is stopped
// because its loss no longer falls.

// dedicated reports whether a job has its nodes for itself.
func (c *checker) dedicated(j *model.Job) bool {
	i := slices.IndexFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == j.VC })
	return j.Hints.Dedicated && i >= 0 && c.state.Config().VCs[i].Policy == "philly"
}

// undisturbed checks an attempt that is placed or promised cells anew: nobody else has
// anything on the nodes of a job that wants them for itself, and it comes to no such
// job's nodes but by a higher priority, or its own VC's guarantee.
func (c *checker) undisturbed(r model.Record, id model.AttemptID, p cell.Placement) {
	j := c.jobs[id.Job]
	nodes := nodesOf(p)
	if c.dedicated(j) {
		c.met.alone++
	}
	for other, a := range c.live {
		o := c.jobs[other.Job]
		if other.Job == id.Job || !slices.ContainsFunc(nodesOf(a.place), func(n cell.NodeName) bool { return slices.Contains(nodes, n) }) {
			continue
		}
		if c.dedicated(j) {
			c.fail("D1: event %d: attempt %v wants its nodes for itself, and %v is there", r.Seq, id, other)
		}
		if c.dedicated(o) && o.Priority >= j.Priority && (o.VC == j.VC || j.Priority < cell.MinGuaranteed) {
			c.fail("D1: event %d: attempt %v comes to a node that %v has for itself", r.Seq, id, other)
		}
	}
}

func nodesOf(p cell.Placement) []cell.NodeName {
	var out []cell.NodeName
	for _, t := range p.Tasks {
		out = append(out, t.Node)
	}
	return out
}

// falling is how the loss of a job went, as it reported it.
type falling struct {
	best    float64
	reports int
	seen    model.Time
	unheard bool // it has reported nothing since its policy may be another
}

// heard takes the reports that a decision sees: of several of one task the last.
func (c *checker) heard() {
	for i, r := range c.reports {
		e := r.Event.(model.Progress)
		if !slices.ContainsFunc(c.reports[i+1:], func(later model.Record) bool {
			l := later.Event.(model.Progress)
			return l.Attempt == e.Attempt && l.Task == e.Task && l.Loss != ""
		}) {
			c.reported(r, e)
		}
	}
	c.reports = c.reports[:0]
}

// reported keeps the losses that a job's first task reports while it runs.
func (c *checker) reported(r model.Record, e model.Progress) {
	id := e.Attempt.Job
	v, early := c.early(c.jobs[id])
	if a := c.live[e.Attempt]; a != nil && a.started == 0 { // nobody looks before it is known to run
		early = ""
	}
	if e.Attempt.Gang != 0 || e.Task != c.jobs[id].Gangs[0].Tasks[0] {
		return
	}
	if old := c.lastLoss[e.Attempt]; e.Loss == "" && early != "" && c.losses[id] == nil && old != nil {
		c.losses[id] = old // it was told before the policy looked, which begins with it
	}
	if e.Loss == "" {
		return
	}
	loss, err := strconv.ParseFloat(e.Loss, 64)
	if err != nil || loss != loss {
		loss = math.Inf(1)
	}
	c.lastLoss[e.Attempt] = &falling{best: loss, seen: r.Time}
	if early == "" {
		return
	}
	f := c.losses[id]
	if f == nil {
		f = &falling{best: loss, seen: r.Time}
		c.losses[id] = f
		return
	}
	if f.seen == r.Time {
		return
	}
	epsilon := 0.001
	if x, err := strconv.ParseFloat(parameter(v, "epsilon"), 64); err == nil {
		epsilon = x
	}
	f.seen, f.unheard = r.Time, false
	falls := loss < f.best-math.Abs(f.best)*epsilon || math.IsInf(f.best, 1) && loss < f.best
	if f.reports++; falls {
		f.best, f.reports = loss, 0
	}
}

// begins takes what a job had reported when its policy looks for the first time.
func (c *checker) begins(id model.JobID) {
	for a, f := range c.lastLoss {
		if old := c.losses[id]; a.Job == id && (old == nil || old.seen < f.seen) {
			c.losses[id] = f
		}
	}
}

// early is the VC of a job, and whether that stops early, "" where it does not.
func (c *checker) early(j *model.Job) (model.VCConfig, string) {
	for _, v := range c.state.Config().VCs {
		if v.Name == j.VC && v.Policy == "philly" {
			return v, parameter(v, "early")
		}
	}
	return model.VCConfig{}, ""
}

// patienceOf is how many reports a job may make that bring nothing.
func patienceOf(v model.VCConfig) int {
	if n, err := strconv.Atoi(parameter(v, "patience")); err == nil {
		return n
	}
	return 10
}

// stoppedEarly checks that who is stopped for its loss had its patience, and stops.
func (c *checker) stoppedEarly(r model.Record, e model.JobCompleting) {
	if e.Cause != model.EndEarly {
		return
	}
	if c.late(r, e.Job) {
		c.met.lates++
		return
	}
	v, mode := c.early(c.jobs[e.Job])
	f := c.losses[e.Job]
	if mode != "stop" || f == nil || f.reports < patienceOf(v) {
		c.fail("E1: event %d: job %d is stopped early (%q), after %+v", r.Seq, e.Job, mode, f)
	}
	c.met.earlies++
}

// patient checks that nobody goes on whose patience is at its end.
func (c *checker) patient() {
	for _, s := range c.state.Jobs() {
		f := c.losses[s.ID]
		v, mode := c.early(c.jobs[s.ID])
		if f != nil && mode == "stop" && !f.unheard && f.reports >= patienceOf(v) && s.Cause == 0 && !s.Stopping && c.tells(s) {
			c.fail("E1: job %s goes on, after %d reports that brought nothing", s.Name, f.reports)
		}
	}
}

// tells reports whether the first gang of a job runs and reported since that began.
func (c *checker) tells(s model.JobStatus) bool {
	for id, a := range c.live {
		if id.Job == s.ID && id.Gang == 0 && a.placed && !a.stop && a.started > 0 && c.losses[s.ID].seen >= a.started {
			return true
		}
	}
	return false
}
