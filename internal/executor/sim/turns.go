package sim

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// rotate makes the tasks of an attempt run by a rotation from now on. Work done so far keeps its
// value. The cost does not depend on the number of future turns.
func (w *World) rotate(id model.AttemptID, r *model.Rotation) {
	for _, run := range w.runs[id] {
		run.turns = r
		if run.running && !run.gone {
			run.pace.Rotate(w.now, w.speedOf(run), r, id)
			w.planEnd(run)
			if !run.telling {
				w.listen(run)
			}
		}
	}
}

// shares reports whether others are on the devices of a run.
func (r *run) shares() bool {
	return r.turns != nil && (len(r.turns.Turns) > 1 || len(r.turns.Turns) == 1 && len(r.turns.Turns[0]) > 1)
}

// listen schedules the next report of a run that reports, if none is scheduled.
func (w *World) listen(r *run) {
	b := &r.behavior
	if r.telling = !r.gone && b.Report > 0 && (!b.Shared || r.shares()); r.telling {
		w.plan(b.Report, happening{what: reports, run: r})
	}
}

// speedOf is how fast a run works while it runs: its own speed, times what is left of it beside
// the others of its turn, less the cost of switches.
func (w *World) speedOf(r *run) perf.Speed {
	speed := r.behavior.Speed
	if speed == 0 {
		speed = perf.FullSpeed
	}
	t := r.turns
	if t == nil {
		return speed
	}
	if k := t.Turn(r.key.attempt); k >= 0 && len(t.Turns[k]) > 1 && r.behavior.Packed > 0 {
		speed = max(speed*r.behavior.Packed/perf.FullSpeed, 1)
	}
	if len(t.Turns) > 1 && r.behavior.Switch > 0 {
		cost := min(r.behavior.Switch, t.Quantum)
		speed = max(speed*perf.Speed((t.Quantum-cost)*1000/t.Quantum)/1000, 1)
	}
	return speed
}

// sharing reports whether two runs may own one device: one's rotation names the other.
func (r *run) sharing(o *run) bool {
	return r.turns != nil && r.turns.Turn(o.key.attempt) >= 0
}

// observe reports a task's progress and its use of devices, and schedules the next report.
func (w *World) observe(r *run) {
	b := &r.behavior
	if r.gone || r.stopping || r.lost != "" || b.Shared && !r.shares() {
		r.telling = false
		return
	}
	if r.turns == nil || r.turns.Runs(r.key.attempt, w.now) {
		p := model.Progress{Attempt: r.key.attempt, Task: r.key.task, Step: int64(r.pace.Done(w.now) / model.Millisecond)}
		if b.Loss != nil {
			served := w.served[taskKey{r.key.attempt.Job, r.key.task}]
			done := served + r.pace.Done(w.now)
			p.Step, p.Total, p.Loss = int64(done/model.Millisecond), int64((served+b.RunFor)/model.Millisecond), b.Loss(done)
		}
		if b.Util > 0 || b.MemoryMB > 0 {
			p.Use = &model.DeviceUse{Util: b.Util, MemoryMB: b.MemoryMB}
		}
		if !r.node.down {
			w.tell(p)
		}
	}
	w.listen(r)
}
