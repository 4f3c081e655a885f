package sim

import (
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Exit makes a living task end with a code; false when it does not run.
func (w *World) Exit(job model.JobID, task, code int32) bool {
	r, ok := w.living[taskKey{job, task}]
	if !ok {
		return false
	}
	if !r.running {
		w.begin(r)
	}
	w.end(r, model.Exit{Code: code, Own: !r.stopping})
	return true
}

// Lose makes the state of a living task unknown. It lives on and owns its devices until Exit or a
// stop ends it, or Find finds it.
func (w *World) Lose(job model.JobID, task int32, reason string) bool {
	r, ok := w.living[taskKey{job, task}]
	if !ok || r.lost != "" {
		return false
	}
	r.lost = reason
	w.report(r, r.last)
	return true
}

// Find undoes Lose: the task was alive all the time.
func (w *World) Find(job model.JobID, task int32) bool {
	r, ok := w.living[taskKey{job, task}]
	if !ok || r.lost == "" {
		return false
	}
	r.lost = ""
	if r.last != nil {
		w.report(r, r.last)
	}
	return true
}

// Refuse makes the next starts on a node fail; times -1 is every start. job says that the reason
// is the job's own fault. times 0 ends all refusals.
func (w *World) Refuse(name cell.NodeName, reason string, times int, job bool) {
	n := w.node(name)
	if times == 0 {
		n.refuse = nil
		return
	}
	n.refuse = append(n.refuse, refusal{reason, job, times})
}

// Down makes a node unreachable: its tasks live on, but nothing is heard of them.
func (w *World) Down(name cell.NodeName, reason string) {
	w.node(name).down = true
	w.health(model.NodeHealth{Node: name, Reason: reason})
}

// Up makes a node reachable again. What happened meanwhile is reported now, and living tasks are
// reported as started again.
func (w *World) Up(name cell.NodeName) {
	n := w.node(name)
	wasDown := n.down
	n.down = false
	w.health(model.NodeHealth{Node: name, Up: true})
	if !wasDown {
		return
	}
	held := n.held
	n.held = nil
	for _, r := range w.on(name) {
		if r.last != nil {
			w.report(r, r.last)
		}
	}
	for _, f := range held {
		f()
	}
}

// Reboot ends all tasks of a node and makes it reachable.
func (w *World) Reboot(name cell.NodeName) {
	n := w.node(name)
	n.down, n.held = false, nil
	runs := w.on(name)
	w.health(model.NodeHealth{Node: name, Up: true, Reason: "rebooted"})
	for _, r := range runs {
		w.end(r, model.Exit{Code: 137, Cause: model.NodeRebooted})
	}
	// What ended while the node was unreachable is told now.
	for _, r := range w.all() {
		if r.place.Node == name && r.gone && r.last != nil {
			w.report(r, r.last)
		}
	}
}

// Dead does what a user declares about a dead node: it ends, without a report, all tasks of an
// unreachable node, else those whose state is unknown. They do not come back with the node.
func (w *World) Dead(name cell.NodeName) {
	n := w.node(name)
	for _, r := range w.on(name) {
		if n.down || r.lost != "" {
			w.end(r, model.Exit{Code: 137, Cause: model.NodeLost})
		}
	}
}

// Leaf makes one device bad or good.
func (w *World) Leaf(h model.LeafHealth) {
	d := device{h.Node, h.SKU, h.Device, h.Part}
	if _, seen := w.leaves[d]; !seen {
		w.marked = append(w.marked, d)
	}
	w.leaves[d] = h
	w.tell(h)
}

// Reopen tells the world that a new engine takes over. Facts that the old one may have lost are
// told again, and actions before the first Next must be repeats. With drop, inputs that were not
// taken are lost, as in a crash.
func (w *World) Reopen(drop bool) {
	if drop {
		w.pending = nil
	}
	w.quiet = true
	for _, name := range w.healthy {
		w.tell(w.node(name).fact)
	}
	for _, d := range w.marked {
		w.tell(w.leaves[d])
	}
}

// Living returns how many tasks own devices now.
func (w *World) Living() int { return len(w.living) }

// Heal makes every node reachable and every device good, and ends all refusals.
func (w *World) Heal() {
	for _, name := range w.healthy {
		w.Up(name)
	}
	for _, d := range w.marked {
		w.Leaf(model.LeafHealth{Node: d.node, SKU: d.sku, Device: d.index, Part: d.part, Good: true})
	}
	for _, n := range w.nodes {
		n.refuse = nil
	}
	for _, r := range w.all() {
		if !r.gone && r.lost != "" {
			w.Find(r.key.attempt.Job, r.key.task)
		}
	}
}

// health keeps and tells a node's health.
func (w *World) health(h model.NodeHealth) {
	n := w.node(h.Node)
	if n.fact.Node == "" {
		w.healthy = append(w.healthy, h.Node)
	}
	n.fact = h
	w.tell(h)
}

// on returns the living runs of a node in a fixed order.
func (w *World) on(name cell.NodeName) []*run {
	var out []*run
	for _, r := range w.all() {
		if r.place.Node == name && !r.gone {
			out = append(out, r)
		}
	}
	return out
}

// all returns every run ever seen in a fixed order.
func (w *World) all() []*run {
	out := make([]*run, 0, len(w.runs))
	for _, rs := range w.runs {
		out = append(out, rs...)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].key, out[j].key
		if a.attempt.Job != b.attempt.Job {
			return a.attempt.Job < b.attempt.Job
		}
		if a.attempt.Gang != b.attempt.Gang {
			return a.attempt.Gang < b.attempt.Gang
		}
		if a.attempt.N != b.attempt.N {
			return a.attempt.N < b.attempt.N
		}
		return a.task < b.task
	})
	return out
}

// Progress tells what a running task reports about itself; the identity in p is
// filled in.
func (w *World) Progress(job model.JobID, task int32, p model.Progress) bool {
	r, ok := w.living[taskKey{job, task}]
	if !ok || !r.running {
		return false
	}
	p.Attempt, p.Task = r.key.attempt, task
	w.tell(p)
	return true
}

// At schedules a fault, or anything else that happens to the machines, for d from now.
func (w *World) At(d model.Duration, f func()) { w.after(d, f) }
