package sim

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// runKey is one task of one attempt: a repeated action has the same key.
type runKey struct {
	attempt model.AttemptID
	task    int32
}

// taskKey is one task of a job over all of its attempts.
type taskKey struct {
	job  model.JobID
	task int32
}

// device is one leaf as the machine knows it.
type device struct {
	node  cell.NodeName
	sku   cell.TypeName
	index int32
	part  int32
}

// run is one task of one attempt:
//
//	launched -> running -> gone
//	    \----------------/      refused runs are gone at once
//
// From launched to gone it owns its devices.
type run struct {
	key      runKey
	place    cell.Task
	space    string  // what the indices of its devices count
	division []int32 // in how many parts each of its devices was divided when it was started
	node     *node
	devices  uint64 // bits of its devices, by index modulo 64: without a common bit none is shared
	behavior Behavior
	running  bool
	telling  bool // its next report is scheduled
	pace     perf.Pace
	turns    *model.Rotation // by which it runs; nil: all the time
	due      uint64          // the order of the happening that finishes its work
	gone     bool
	told     bool   // its end was told
	lost     string // why its state is unknown; "": it is known
	stopping bool
	last     model.Fact // the last report about it, repeated after a restart
}

// node is a machine; tasks on one that is down live on, but nothing is heard of them.
type node struct {
	down   bool
	runs   []*run // that own devices here
	fact   model.NodeHealth
	held   []func() // actions and reports that wait until the node is reachable
	refuse []refusal
}

// refusal makes later starts on a node fail.
type refusal struct {
	reason string
	job    bool
	times  int // how many more starts; -1: all
}

func (w *World) node(name cell.NodeName) *node {
	n, ok := w.nodes[name]
	if !ok {
		n = &node{}
		w.nodes[name] = n
	}
	return n
}

// Do implements engine.Executor.
func (w *World) Do(a model.Action) {
	if w.quiet && !a.Known {
		w.fail("attempt %v: a new action while an engine recovers", a.Attempt)
	}
	switch {
	case a.Lost != nil:
		return
	case a.Start == nil && a.Rotation != nil:
		w.rotate(a.Attempt, a.Rotation)
		return
	case a.Start == nil:
		w.stop(a.Attempt, a.Grace)
		return
	}
	for i := range a.Start.Tasks {
		w.start(&a, &a.Start.Tasks[i])
	}
}

// start launches one task once. A repeat tells again what was told last.
func (w *World) start(a *model.Action, t *model.TaskStart) {
	runs := w.runs[a.Attempt]
	for _, r := range runs {
		if r.key.task != t.Task {
			continue
		}
		if t := a.Start.Rotation; t != nil && (r.turns == nil || !r.turns.Equal(t) || r.turns.Epoch != t.Epoch) {
			w.rotate(a.Attempt, t)
		}
		if a.Known && r.last != nil {
			w.report(r, r.last)
		}
		return
	}
	r := &run{key: runKey{a.Attempt, t.Task}, place: t.Place, space: t.SKU.IndexSpace(), division: t.Division, node: w.node(t.Place.Node), turns: a.Start.Rotation}
	w.runs[a.Attempt] = append(slices.Grow(runs, max(len(a.Start.Tasks)-len(runs), 1)), r)
	if _, ok := w.stopped[a.Attempt]; ok {
		w.end(r, model.Exit{Cause: model.NeverStarted})
		return
	}
	if reason, job, refused := w.refused(t.Place.Node); refused {
		w.deny(r, reason, job)
		return
	}
	task := taskKey{a.Attempt.Job, t.Task}
	r.behavior = w.opt.Behave(Task{Attempt: a.Attempt, Job: a.Start.Job,
		Retry: a.Start.Retry, Start: *t, Gang: a.Start.Tasks, Served: w.served[task]})
	if b := &r.behavior; b.Refuse != "" {
		if b.StartDelay == 0 {
			w.deny(r, b.Refuse, b.RefuseJob)
		} else {
			w.after(b.StartDelay, func() { w.deny(r, b.Refuse, b.RefuseJob) })
		}
		return
	}
	w.own(r, task)
	w.launch++
	w.plan(r.behavior.StartDelay, happening{what: begins, run: r})
}

// own takes the run's devices and checks that they have no other owner.
func (w *World) own(r *run, task taskKey) {
	if other, ok := w.living[task]; ok {
		w.fail("task %d of job %d runs twice: attempts %v and %v", task.task, task.job, other.key.attempt, r.key.attempt)
	}
	w.living[task] = r
	for _, d := range r.place.Devices {
		r.devices |= 1 << (uint32(d) % 64)
	}
	for _, other := range r.node.runs {
		if r.devices&other.devices == 0 {
			continue
		}
		for n, d := range r.place.Devices {
			if other.owns(r, n) && !r.sharing(other) {
				w.fail("device %s %s:%d has two owners: attempts %v and %v", r.place.SKU, r.place.Node, d, other.key.attempt, r.key.attempt)
			}
		}
	}
	r.node.runs = append(r.node.runs, r)
}

// owns reports whether a run has the n-th device of another run on its node: the same part, or
// any part where one of them has it whole or divides it otherwise. A whole device under another
// SKU is not seen here: a file may give one index to two SKUs of a node.
func (r *run) owns(o *run, n int) bool {
	for k, d := range r.place.Devices {
		if d == o.place.Devices[n] && r.clash(k, o, n) {
			return true
		}
	}
	return false
}

// clash reports whether the k-th device of a run and the n-th of another, of the same index,
// overlap.
func (r *run) clash(k int, o *run, n int) bool {
	mine, theirs := k < len(r.place.Parts), n < len(o.place.Parts)
	switch {
	case !mine && !theirs:
		return r.place.SKU == o.place.SKU
	case r.space != o.space:
		return false
	case !mine || !theirs:
		return true
	}
	return r.place.Parts[k] == o.place.Parts[n] || r.in(k) != o.in(n)
}

// in is in how many parts the k-th device of a run is divided, 0 where that is not known.
func (r *run) in(k int) int32 {
	if k < len(r.division) {
		return r.division[k]
	}
	return 0
}

// refused says whether a start on the node fails now.
func (w *World) refused(name cell.NodeName) (reason string, job, refused bool) {
	if len(w.opt.Nodes) > 0 && !slices.Contains(w.opt.Nodes, name) {
		return fmt.Sprintf("there is no node %q", name), false, true
	}
	n := w.node(name)
	if n.down {
		return "node is not reachable", false, true
	}
	if len(n.refuse) == 0 {
		return "", false, false
	}
	first := n.refuse[0]
	if first.times > 0 {
		n.refuse[0].times--
	}
	if n.refuse[0].times == 0 {
		n.refuse = n.refuse[1:]
	}
	return first.reason, first.job, true
}

// deny refuses a start, unless the run was stopped meanwhile.
func (w *World) deny(r *run, reason string, job bool) {
	if r.gone {
		return
	}
	r.gone = true
	r.last = model.TaskRefused{Attempt: r.key.attempt, Task: r.key.task, Reason: reason, Job: job}
	w.after(0, func() { w.tell(r.last); w.forget(r) })
}

// begin makes a launched run a running one.
func (w *World) begin(r *run) {
	if r.gone {
		return
	}
	r.running = true
	r.pace = perf.NewPace(w.now, r.behavior.StartUp, w.speedOf(r))
	if r.turns != nil {
		r.pace.Rotate(w.now, w.speedOf(r), r.turns, r.key.attempt)
	}
	r.last = model.TaskStarted{Attempt: r.key.attempt, Task: r.key.task, Host: string(r.place.Node)}
	w.report(r, r.last)
	w.planEnd(r)
	if r.behavior.Tell > 0 && r.key.task == 0 {
		w.after(r.behavior.Tell, func() { w.tellWork(r) })
	}
	w.listen(r)
}

// tellWork reports the progress of a run, if it still lives.
func (w *World) tellWork(r *run) {
	if r.gone || r.node.down || r.lost != "" {
		return
	}
	served := w.served[taskKey{r.key.attempt.Job, r.key.task}]
	w.tell(model.Progress{Attempt: r.key.attempt, Task: r.key.task,
		Step:  int64((served + r.pace.Done(w.now)) / model.Millisecond),
		Total: int64((served + r.behavior.RunFor) / model.Millisecond)})
}

// planEnd schedules the end of a running task's work, at its present pace.
func (w *World) planEnd(r *run) {
	if r.behavior.RunFor > 0 {
		w.plan(r.pace.Takes(r.behavior.RunFor), happening{what: finishes, run: r})
		r.due = w.order
	}
}

// SetSpeed changes the speed of an attempt's tasks from now on, to at least 1, such as because
// its neighbours changed. Work done so far counts at the earlier speed.
func (w *World) SetSpeed(id model.AttemptID, speed perf.Speed) {
	for _, r := range w.runs[id] {
		if r.gone || r.behavior.Speed == speed {
			continue
		}
		r.behavior.Speed = speed
		if r.running {
			r.pace.Change(w.now, w.speedOf(r))
			w.planEnd(r)
		}
	}
}

// end makes a run gone, frees its devices and says so.
func (w *World) end(r *run, e model.Exit) {
	if r.gone {
		return
	}
	r.gone, r.lost = true, ""
	task := taskKey{r.key.attempt.Job, r.key.task}
	w.serve(r, task, e)
	if w.living[task] == r {
		delete(w.living, task)
	}
	if i := slices.Index(r.node.runs, r); i >= 0 {
		r.node.runs = slices.Delete(r.node.runs, i, i+1)
	}
	r.last = model.TaskExited{Attempt: r.key.attempt, Task: r.key.task, Exit: e}
	w.report(r, r.last)
}

// stopExit is the exit of a run that was told to end.
func (r *run) stopExit() model.Exit {
	e := model.Exit{Code: 143, Signal: 15}
	if x := r.behavior.Stopped; x != nil && !(r.running && x.Cause == model.NeverStarted) {
		e = *x
	}
	return e
}

// ownExit is the exit of a run whose work is done.
func (r *run) ownExit() model.Exit {
	e := model.Exit{Code: r.behavior.Code}
	if r.behavior.Exit != nil {
		e = *r.behavior.Exit
	}
	e.Own = !r.stopping || r.behavior.OwnEnd
	return e
}

// serve counts the work that a run did.
func (w *World) serve(r *run, task taskKey, e model.Exit) {
	if w.opt.Forget && e.Own {
		if len(w.served) > 0 {
			delete(w.served, task)
		}
		return
	}
	if r.running {
		w.served[task] += r.pace.Done(w.now)
	}
}

// forget drops an attempt whose tasks are all gone and told of.
func (w *World) forget(r *run) {
	r.told = r.gone
	if !w.opt.Forget {
		return
	}
	for _, other := range w.runs[r.key.attempt] {
		if !other.told {
			return
		}
	}
	delete(w.runs, r.key.attempt)
}

// report tells a fact about a run, once its node is reachable.
func (w *World) report(r *run, f model.Fact) {
	switch {
	case r.node.down:
		r.node.held = append(r.node.held, w.telling(r, f))
	case r.lost != "":
		w.hear(r, model.TaskUnknown{Attempt: r.key.attempt, Task: r.key.task, Reason: r.lost})
	default:
		w.hear(r, f)
	}
}

// hear tells a fact about a run now, or in a round of its own.
func (w *World) hear(r *run, f model.Fact) {
	if !w.opt.Prompt {
		w.after(0, w.telling(r, f))
		return
	}
	w.tell(f)
	w.forget(r)
}

// telling returns a function that tells a fact about a run.
func (w *World) telling(r *run, f model.Fact) func() {
	return func() { w.tell(f); w.forget(r) }
}

// stop asks all tasks of an attempt to end. A stop of one that was never started is remembered,
// so that a late start does not run it.
func (w *World) stop(id model.AttemptID, grace model.Duration) {
	runs := w.runs[id]
	if len(runs) == 0 {
		if !w.opt.Forget {
			w.stopped[id] = grace
		}
		return
	}
	for _, r := range runs {
		w.terminate(r, grace)
	}
}

// terminate sends SIGTERM to one run, and SIGKILL after the grace.
func (w *World) terminate(r *run, grace model.Duration) {
	if r.gone {
		w.report(r, r.last)
		return
	}
	if n := r.node; n.down {
		n.held = append(n.held, func() { w.terminate(r, grace) })
		return
	}
	if r.stopping {
		return
	}
	r.stopping = true
	b := &r.behavior
	if !r.running && b.StartDelay > 0 && b.Stopped == nil {
		w.end(r, model.Exit{Cause: model.NeverStarted})
		return
	}
	if b.Stopped != nil || !b.Stubborn && b.StopDelay <= grace {
		w.plan(b.StopDelay, happening{what: obeys, run: r})
		return
	}
	w.plan(grace, happening{what: isKilled, run: r})
}
