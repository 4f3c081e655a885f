package lab

import (
	"strconv"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const (
	deepNodes  = 64
	deepJobs   = 2000 // submissions that are measured
	deepAsked  = 5    // explanations
	deepShapes = 4
)

// deep measures submissions, and explanations of a job that waits, in a full cluster in which so
// many wait already, of some shapes and priorities.
func (b *bench) deep(waiting int) {
	w := newCoreWorld(coreConfig(deepNodes, "fifo"))
	for range 2 * deepNodes {
		w.submit(coreShape{vc: w.emptiest(), gpus: 4, prio: prodPriority})
	}
	shape := func(i int) coreShape {
		return coreShape{vc: i % coreVCs, gpus: 8 << w.rng.IntN(deepShapes), prio: cell.Priority(w.rng.IntN(3)) + testPriority}
	}
	for i := range waiting {
		w.submit(shape(i))
	}
	w.reset()
	var all []time.Duration
	for i := range deepJobs {
		sh := shape(i)
		began := w.clock()
		w.s.Check(model.Submit{Job: w.describe(sh, w.next)}, w.now)
		check := w.clock() - began
		w.submit(sh)
		all = append(all, check+w.first)
	}
	label := []string{"waiting", strconv.Itoa(waiting)}
	b.fine("comb_core_submission", all, label...)
	all = all[:0]
	for i := range deepAsked {
		began := w.clock()
		c := w.s.At(w.now)
		id := w.next - 1 - model.JobID(i*waiting/deepAsked)
		c.Explain(id)
		c.Estimate(id, nil)
		all = append(all, w.clock()-began)
	}
	b.fine("comb_core_explain", all, label...)
	c, began := w.s.At(w.now), w.clock()
	for _, j := range c.Jobs() {
		c.Why(j.ID)
	}
	b.fine("comb_core_reasons", []time.Duration{w.clock() - began}, label...) // one list of all
}
