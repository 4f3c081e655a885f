package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// settleSaved looks at a gang that was told to make room and of which the last task has ended. In
// many gangs one task reports for all: when all ended with 0, and each that announced its steps has
// done them, those that announced none are done, too. That is known only now, since facts of
// several tasks come in any order.
func settleSaved(s *tables, a *attempt) {
	j := &s.jobs[a.job]
	tasks := j.spec.Gangs[a.id.Gang].Tasks
	did := false
	for _, o := range tasks {
		t := &j.tasks[o]
		if !t.exit.zero() || t.counts() && !t.didAll(a) {
			return
		}
		did = did || t.counts()
	}
	for _, o := range tasks {
		if t := &j.tasks[o]; did && t.exit.Saved {
			t.state = model.TaskSucceeded
		}
	}
}

// isNews reports whether a fact tells something new.
func (s *fold) isNews(f Fact) bool {
	switch f := f.(type) {
	case TaskStarted:
		t := s.present(f.Attempt, f.Task)
		return t != nil && (t.state == model.TaskStarting || t.state == model.TaskIsUnknown)
	case TaskExited:
		return s.present(f.Attempt, f.Task) != nil
	case TaskRefused:
		t := s.present(f.Attempt, f.Task)
		return t != nil && t.state != model.TaskRunning && t.runs().pid == 0
	case TaskUnknown:
		t := s.present(f.Attempt, f.Task)
		return t != nil && t.state != model.TaskIsUnknown
	case Progress:
		return s.present(f.Attempt, f.Task) != nil
	case Notice:
		j := s.find(f.Job)
		return j != nil && rare(j.odd).news(f)
	case NodeHealth:
		return s.cl != nil && s.cl.Forest().NodeIndex(f.Node) != cell.None && s.noted(f.Node).Down == f.Up
	case LeafHealth:
		if s.cl == nil || s.cl.Forest().FindPart(f.Node, f.SKU, f.Device, f.Part) == cell.None {
			return false
		}
		i, bad := s.findLeafNote(f)
		return bad == f.Good || bad && s.leaves[i].Reason != f.Reason
	}
	return false
}

// present returns the task of a live attempt that is not proven dead.
func (s *fold) present(id model.AttemptID, ordinal int32) *taskRun {
	a := s.live(id)
	if a == nil || a.state == model.AttemptReserving {
		return nil
	}
	if t := s.task(a, ordinal); t != nil && !t.dead {
		return t
	}
	return nil
}

// applyFact applies a fact; false when the event is none.
func (s *fold) applyFact(e Event) bool {
	switch e := e.(type) {
	case TaskStarted:
		s.applyStarted(e)
	case TaskExited:
		s.applyExited(e.Attempt, e.Task, e.Exit)
	case TaskRefused:
		s.applyRefused(e)
	case TaskUnknown:
		s.applyUnknown(e.Attempt, e.Task)
	case Progress:
		s.applyProgress(e)
	case Notice:
		s.applyNotice(e)
	case NodeHealth:
		s.applyNodeHealth(e)
	case LeafHealth:
		s.applyLeafHealth(e)
	default:
		return false
	}
	return true
}

func (s *fold) applyStarted(e TaskStarted) {
	a := s.live(e.Attempt)
	t := s.task(a, e.Task)
	t.state, t.begun = model.TaskRunning, s.arenas.begun.Keep(begun{host: e.Host, pid: e.PID, ports: e.Ports})
	j := &s.jobs[a.job]
	if a.cause != 0 {
		t.state = model.TaskStopping
	}
	if j.started == 0 {
		j.started = s.now
	}
	if a.started == 0 {
		a.started, a.checkpoint = s.now, s.now
		s.stir(j.space)
		s.rerun(a)
		if len(s.booked) > 0 {
			s.lookIn(j.space, j.spec.Priority) // its end is known now, and with it what may start before
			s.lookIn(j.space, cell.Opportunistic)
		} else if j.spec.Priority < cell.MinGuaranteed && s.looks.always[j.space] && len(s.queues[j.space]) > 0 {
			s.lookIn(j.space, cell.MinGuaranteed) // what is lent may say who is first, who may hold others up
		}
		s.timeLimit(a)
		s.timeMinRun(a)
	}
	s.refreshState(a)
	s.touch(a.job)
}

// refreshState derives an attempt's state from its tasks.
func (s *fold) refreshState(a *attempt) {
	j := &s.jobs[a.job]
	before := a.state
	unknown, starting := false, false
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := &j.tasks[o]
		unknown = unknown || !t.dead && t.state == model.TaskIsUnknown
		starting = starting || !t.dead && t.state == model.TaskStarting
	}
	switch {
	case unknown:
		a.state = model.AttemptUnknown
	case a.cause != 0:
		a.state = model.AttemptStopping
	case starting:
		a.state = model.AttemptStarting
	default:
		a.state = model.AttemptRunning
	}
	s.setMood(a)
	if (before == model.AttemptUnknown) != (a.state == model.AttemptUnknown) {
		s.lookAll() // it can be lifted again, or no longer
		s.stir(j.space)
		s.rerun(a)
	}
}

func (s *fold) applyExited(id model.AttemptID, ordinal int32, x Exit) {
	a := s.live(id)
	t := s.task(a, ordinal)
	t.dead = true
	t.exit = s.arenas.exits.Keep(x)
	a.alive--
	switch {
	case a.cause.Resumes() && t.finished(a, &x, &s.jobs[a.job].spec.Hints):
		t.state = model.TaskSucceeded // within its grace: there is nothing left to run again
	case a.cause != 0 && !x.Own:
		t.state = model.TaskEnded
	case !x.Cause.Accountable():
		why := string(x.Cause)
		if x.Cause == SuspendTimeout {
			s.jobs[a.job].gangs[a.id.Gang].alone = true
			why = fmt.Sprintf("%s of task %s-%d: %s", why, s.jobs[a.job].spec.Roles[t.role].Name, t.index, x.Message)
		}
		t.state = model.TaskEnded
		a.platform = true
		a.say(why)
	case x.Code == 0:
		t.state = model.TaskSucceeded
	default:
		t.state = model.TaskFailed
	}
	if a.alive == 0 && a.cause.Resumes() {
		settleSaved(&s.tables, a)
	}
	s.refreshState(a)
	s.touch(a.job)
}

func (s *fold) applyRefused(e TaskRefused) {
	a := s.live(e.Attempt)
	if e.Job {
		s.applyExited(e.Attempt, e.Task, e.Exit())
		return
	}
	t := s.task(a, e.Task)
	t.dead, t.state = true, model.TaskEnded
	t.exit = s.arenas.exits.Keep(e.Exit())
	a.alive--
	a.refused = true
	a.say(e.Reason)
	s.refreshState(a)
	s.touch(a.job)
}

func (s *fold) applyUnknown(id model.AttemptID, ordinal int32) {
	a := s.live(id)
	t := s.task(a, ordinal)
	t.state = model.TaskIsUnknown
	s.refreshState(a)
	s.touch(a.job)
	s.lookAll()
}

func (s *fold) applyProgress(e Progress) {
	a := s.live(e.Attempt)
	t := s.task(a, e.Task)
	p := model.TaskProgress{}
	if t.progress != nil {
		p = *t.progress
	}
	p.At = s.now
	if e.Step != 0 {
		if p.FromAt < a.started || e.Step < p.Step {
			p.From, p.FromAt = e.Step, s.now
		}
		p.Step, p.StepAt = e.Step, s.now
	}
	p.Total = cmp.Or(e.Total, p.Total)
	if e.Loss != "" {
		p.Loss, p.LossAt = e.Loss, s.now
	}
	p.MemoryMB = cmp.Or(e.MemoryMB, p.MemoryMB)
	if e.Use != nil {
		use := *e.Use
		if p.Use != nil {
			use.MemoryMB = max(use.MemoryMB, p.Use.MemoryMB)
		}
		if s.shared(a) { // what is seen is of all who are there
			use.MemoryMB = 0
			if p.Use != nil {
				use.MemoryMB = p.Use.MemoryMB
			}
		}
		p.Use = &use
	}
	if e.Checkpoint {
		p.Checkpoint = s.now
		a.checkpoint = s.now
	}
	if t.progress == nil { // from now on it can be watched
		s.realloc(a)
	}
	t.progress = &p
	s.stir(s.jobs[a.job].space) // how long it is measured, or still has to run, may follow from it
	if _, ok := s.pol[s.jobs[a.job].space].(Watcher); ok {
		s.touch(a.job)
	}
}

func (s *fold) applyNotice(e Notice) {
	o := alter(&s.find(e.Job).odd)
	if e.About == "" {
		o.notices = append(slices.Clip(o.notices), e.Message)
		return
	}
	kept := slices.DeleteFunc(slices.Clone(o.lasting), func(l lasting) bool { return l.About == e.About })
	if o.lasting = kept; e.Message != "" {
		o.lasting = append(kept, lasting{About: e.About, Message: e.Message})
	}
}

// applyNodeHealth also makes what runs on a node that went down unknown.
func (s *fold) applyNodeHealth(e NodeHealth) {
	n := s.node(e.Node)
	n.Down, n.Reason = !e.Up, e.Reason
	s.blame(n)
	s.lookAll()
	if e.Up {
		return
	}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.state == model.AttemptReserving {
			continue
		}
		j := &s.jobs[a.job]
		for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
			if t := &j.tasks[o]; !t.dead && t.place.Node == e.Node {
				s.applyUnknown(a.id, o)
			}
		}
	}
}

func (s *fold) findLeafNote(f LeafHealth) (int, bool) {
	return slices.BinarySearchFunc(s.leaves, leafNote{Node: f.Node, SKU: f.SKU, Device: f.Device, Part: f.Part}, leafNote.compare)
}

func (s *fold) applyLeafHealth(e LeafHealth) {
	i, bad := s.findLeafNote(e)
	note := leafNote{Node: e.Node, SKU: e.SKU, Device: e.Device, Part: e.Part, Reason: e.Reason}
	if e.Good && bad {
		s.leaves = slices.Delete(s.leaves, i, i+1)
	} else if !e.Good && !bad {
		s.leaves = slices.Insert(s.leaves, i, note)
	} else if bad {
		s.leaves[i].Reason = e.Reason // another fault of the same leaf
	}
	s.blameLeaf(&note, !e.Good)
	s.lookAll()
}

func (s *fold) blameLeaf(n *leafNote, bad bool) {
	l := s.cl.Forest().FindPart(n.Node, n.SKU, n.Device, n.Part)
	if l == cell.None {
		return
	}
	s.setLeafBad(l, bad || s.drains(l))
}

func (s *fold) setLeafBad(l cell.LeafID, bad bool) {
	s.cl.SetLeafBad(l, bad)
	s.health++
	if s.empty != nil {
		s.empty.SetLeafBad(l, bad)
	}
}
