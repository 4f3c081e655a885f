package core_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// event is one thing that can happen; events gives what is to be applied, nothing
// when the state takes no notice.
type event struct {
	name   string
	events func(*core.State) []model.Event
}

func command(s *core.State, c model.Command) []model.Event {
	events, _, _ := s.Check(c, s.Now())
	return events
}

func fact(name string, f model.Fact) event {
	return event{name, func(s *core.State) []model.Event { return s.Accept(f) }}
}

// events lists what can happen in a state. Of a gang's tasks that are in one
// state only the first is told of: the others are like it.
func (x *explorer) events(s *core.State) []event {
	var out []event
	for _, j := range x.jobs {
		if id, known := s.ByName(j.User, j.Name); known {
			out = append(out, event{"stop " + string(j.Name), func(s *core.State) []model.Event { return command(s, model.Stop{Job: id}) }})
		} else {
			out = append(out, event{fmt.Sprintf("submit %s vc=%s prio=%d w=%dx%d", j.Name, j.VC, j.Priority, j.Roles[0].Tasks, j.Roles[0].Leaves),
				func(s *core.State) []model.Event { return command(s, model.Submit{Job: j}) }})
		}
	}
	for _, h := range s.Held() {
		if h.State != model.AttemptReserving {
			out = append(out, tasks(&h)...)
		}
		if h.Spec.Hints.Packable && h.State == model.AttemptRunning && h.Cause == 0 {
			out = append(out, reports(s, &h)...)
		}
	}
	for _, n := range s.Nodes() {
		word := map[bool]string{true: "down", false: "up"}[n.Up]
		out = append(out, fact(fmt.Sprintf("node %s %s", n.Name, word), model.NodeHealth{Node: n.Name, Up: !n.Up}))
	}
	bad := s.Cluster().LeafBad(0)
	word := map[bool]string{true: "good", false: "bad"}[bad]
	out = append(out, fact("leaf n0:0 "+word, model.LeafHealth{Node: "n0", SKU: "G", Device: 0, Good: bad}))
	if s.Wake() > s.Now() {
		out = append(out, event{name: "wait for the next timer"})
	}
	return out
}

// reports lets a gang tell that it makes progress, a few times, and what is seen of its devices.
func reports(s *core.State, h *core.Held) []event {
	j, _ := s.Job(h.ID.Job)
	step := int64(0)
	if p := j.Tasks[0].Progress; p != nil {
		step = p.Step
	}
	if step >= 30 {
		return nil
	}
	return []event{fact(fmt.Sprintf("progress %s step=%d", h.Spec.Name, step+10),
		model.Progress{Attempt: h.ID, Step: step + 10, Use: &model.DeviceUse{Util: 200, MemoryMB: 5000}})}
}

// tasks lists what can happen to an attempt's tasks.
func tasks(h *core.Held) []event {
	var out []event
	at := func(want ...model.TaskState) (int32, bool) {
		i := slices.IndexFunc(h.Tasks, func(s model.TaskState) bool { return slices.Contains(want, s) })
		return int32(i), i >= 0
	}
	name := func(what string, task int32) string { return fmt.Sprintf("%s %s task=w[%d]", what, h.Spec.Name, task) }
	if i, ok := at(model.TaskStarting); ok {
		out = append(out, fact(name("started", i), model.TaskStarted{Attempt: h.ID, Task: i, PID: 1}),
			fact(name("refuse", i), model.TaskRefused{Attempt: h.ID, Task: i, Reason: "no"}))
	}
	if i, ok := at(model.TaskRunning); ok {
		out = append(out, fact(name("exit code=0", i), model.TaskExited{Attempt: h.ID, Task: i}))
		if h.Spec.Priority >= 5 { // one that fails is enough
			out = append(out, fact(name("exit code=1", i), model.TaskExited{Attempt: h.ID, Task: i, Exit: model.Exit{Code: 1}}))
		}
	}
	if i, ok := at(model.TaskStopping); ok {
		out = append(out, fact(name("exit code=143", i), model.TaskExited{Attempt: h.ID, Task: i, Exit: model.Exit{Code: 143, Signal: 15}}))
	} else if i, ok := at(model.TaskStarting); ok && h.Cause != 0 {
		out = append(out, fact(name("never started", i), model.TaskExited{Attempt: h.ID, Task: i, Exit: model.Exit{Cause: model.NeverStarted}}))
	}
	if i, ok := at(model.TaskIsUnknown); ok {
		out = append(out, fact(name("found", i), model.TaskStarted{Attempt: h.ID, Task: i, PID: 1}),
			fact(name("dead on its node", i), model.TaskExited{Attempt: h.ID, Task: i, Exit: model.Exit{Cause: model.NodeRebooted}}))
	} else if i, ok := at(model.TaskStarting, model.TaskRunning, model.TaskStopping); ok {
		out = append(out, fact(name("lose", i), model.TaskUnknown{Attempt: h.ID, Task: i, Reason: "lost"}))
	}
	return out
}

// outcome is what an event led to; no state when nobody takes notice of it.
type outcome struct {
	state   *core.State
	applied []model.Event
	records []model.Record // decisions
	due     model.Time
	err     error
}

// transit applies an event to a copy of a state, decides, and checks what must
// hold of every step.
func (x *explorer) transit(s *core.State, e event) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out.err = fmt.Errorf("panic: %v", p)
		}
	}()
	to := s.Clone()
	now := max(s.Now(), 1)
	if e.events == nil {
		now = s.Wake()
	} else if out.applied = e.events(to); len(out.applied) == 0 {
		return outcome{}
	}
	for _, ev := range out.applied {
		to.Apply(model.Record{Seq: to.Seq() + 1, Time: now, Event: ev})
		if err := to.Verify(); err != nil {
			return outcome{err: fmt.Errorf("before the decisions: %w", err)}
		}
	}
	out.state, out.due = to, now
	for rounds := 0; ; rounds++ {
		st := newStep(to)
		records := to.Decide(now)
		if out.err = st.check(to, records); out.err != nil {
			return out
		}
		out.records = append(out.records, records...)
		if to.Wake() != to.Now()+1 {
			break
		}
		if now++; rounds > 20 {
			out.err = errors.New("L2: it asks for another look again and again")
			return out
		}
	}
	to.TakeEnded()
	out.err = twice(to, out.applied)
	return out
}

// replay is transit without the checks, on the state itself.
func replay(s *core.State, e event, due model.Time) []model.Record {
	now := max(s.Now(), 1)
	if e.events == nil {
		now = due
	} else {
		for _, ev := range e.events(s) {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: ev})
		}
	}
	records := s.Decide(now)
	for s.Wake() == s.Now()+1 {
		now++
		records = append(records, s.Decide(now)...)
	}
	return records
}

// twice checks that a fact told again changes nothing (I16).
func twice(s *core.State, applied []model.Event) error {
	for _, e := range applied {
		switch e := e.(type) {
		case model.Progress: // the last one counts, however often it is told
		case model.Fact:
			if again := s.Accept(e); len(again) > 0 {
				return fmt.Errorf("I16: %T is accepted a second time", e)
			}
		case model.JobSubmitted:
			if events, _, refusal := s.Check(model.Submit{Job: e.Job}, s.Now()); s.Attempts(e.ID) != nil && (refusal == nil || len(events) > 0) {
				return fmt.Errorf("I16: job %q is accepted a second time", e.Job.Name)
			}
		case model.StopRequested:
			if events := command(s, model.Stop{Job: e.Job}); s.Attempts(e.Job) == nil && len(events) > 0 {
				return fmt.Errorf("I16: job %d, which is over, can be stopped", e.Job)
			}
		}
	}
	return nil
}

func reload(s *core.State) (*core.State, error) {
	back, err := core.Load(s.Save(), policy.New)
	if err != nil {
		return nil, fmt.Errorf("I12: %w", err)
	}
	if back.Key() != s.Key() {
		return nil, fmt.Errorf("I12: read back, the state is another:\n%s\ninstead of\n%s", back.Save(), s.Save())
	}
	return back, nil
}

// restarted checks that an event after a restart leads to what it led to without.
func restarted(back *core.State, to outcome, key [16]byte, e event) error {
	again := back.Clone()
	records := replay(again, e, to.due)
	if again.Key() == key || len(to.applied) == 0 && idle(records) && idle(to.records) {
		return nil // a timer that is of no use any more is not kept
	}
	return fmt.Errorf("I12: after a restart the event leads to something else:\nwith:    %s\nwithout: %s", kinds(records), kinds(to.records))
}

// idle reports whether nothing was decided about any cell: a booking moves with
// the estimates that it stands on, and a policy notes what it sees when it is asked.
func idle(rs []model.Record) bool {
	return !slices.ContainsFunc(rs, func(r model.Record) bool {
		kind := model.KindOf(r.Event)
		return kind != "Decided" && kind != "Booked" && kind != "Noted"
	})
}

func kinds(rs []model.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s%+v", model.KindOf(r.Event), r.Event))
	}
	return out
}

// leavesOf is the set of leaves of a placement, as bits.
func leavesOf(pl cell.Placement) uint64 {
	var out uint64
	for _, t := range pl.Tasks {
		for _, l := range t.Leaves {
			out |= 1 << l
		}
	}
	return out
}
