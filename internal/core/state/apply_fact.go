package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// completeSaved looks at a gang that was told to make room when its last task has ended. In many
// gangs one task reports for all. So if all ended with code 0, and each that announced its steps
// has done them, those that announced none are done, too. That is known only now, since facts
// about several tasks come in any order.
func completeSaved(s *tables.Tables, a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	tasks := j.Spec.Gangs[a.ID.Gang].Tasks
	did := false
	for _, o := range tasks {
		t := &j.Tasks[o]
		if !t.Exit.Zero() || t.AnnouncesSteps() && !t.DidAll(a) {
			return
		}
		did = did || t.AnnouncesSteps()
	}
	for _, o := range tasks {
		if t := &j.Tasks[o]; did && t.Exit.Saved {
			t.State = model.TaskSucceeded
		}
	}
}

// IsNews reports whether a fact tells something new.
func (s *State) IsNews(f model.Fact) bool {
	switch f := f.(type) {
	case model.TaskStarted:
		t := s.present(f.Attempt, f.Task)
		return t != nil && (t.State == model.TaskStarting || t.State == model.TaskIsUnknown)
	case model.TaskExited:
		return s.present(f.Attempt, f.Task) != nil
	case model.TaskRefused:
		t := s.present(f.Attempt, f.Task)
		return t != nil && t.State != model.TaskRunning && t.StartReport().Pid == 0
	case model.TaskUnknown:
		t := s.present(f.Attempt, f.Task)
		return t != nil && t.State != model.TaskIsUnknown
	case model.Progress:
		return s.present(f.Attempt, f.Task) != nil
	case model.Notice:
		j := s.Find(f.Job)
		return j != nil && tables.RareOf(j.Rare).News(f)
	case model.NodeHealth:
		return s.Cluster != nil && s.Cluster.Forest().NodeIndex(f.Node) != cell.None && s.NodeNote(f.Node).Down == f.Up
	case model.LeafHealth:
		if s.Cluster == nil || s.Cluster.Forest().FindPart(f.Node, f.SKU, f.Device, f.Part) == cell.None {
			return false
		}
		i, bad := s.FindLeafNote(f)
		return bad == f.Good || bad && s.Leaves[i] != noteOf(&f)
	}
	return false
}

// present returns the task of a live attempt that is not proven dead.
func (s *State) present(id model.AttemptID, ordinal int32) *tables.TaskRun {
	a := s.Live(id)
	if a == nil || a.State == model.AttemptReserving {
		return nil
	}
	if t := s.Task(a, ordinal); t != nil && !t.Dead {
		return t
	}
	return nil
}

// applyFact applies a fact; false when the event is none.
func (s *State) applyFact(e model.Event) bool {
	switch e := e.(type) {
	case model.TaskStarted:
		s.applyStarted(e)
	case model.TaskExited:
		s.applyExited(e.Attempt, e.Task, e.Exit)
	case model.TaskRefused:
		s.applyRefused(e)
	case model.TaskUnknown:
		s.applyUnknown(e.Attempt, e.Task)
	case model.Progress:
		s.applyProgress(e)
	case model.Notice:
		s.applyNotice(e)
	case model.NodeHealth:
		s.applyNodeHealth(e)
	case model.LeafHealth:
		s.applyLeafHealth(e)
	default:
		return false
	}
	return true
}

func (s *State) applyStarted(e model.TaskStarted) {
	a := s.Live(e.Attempt)
	t := s.Task(a, e.Task)
	t.State, t.Begun = model.TaskRunning, s.Arenas.Begun.Keep(tables.Begun{Host: e.Host, Pid: e.PID, Ports: e.Ports})
	j := &s.Jobs[a.Job]
	if a.Cause != 0 {
		t.State = model.TaskStopping
	}
	if j.Started == 0 {
		j.Started = s.Now
	}
	if a.Started == 0 {
		a.Started, a.Checkpoint = s.Now, s.Now
		s.ForgetNextChange(j.Space)
		s.NoteChanged(a)
		if len(s.Booked) > 0 {
			s.DirtyVC(j.Space, j.Spec.Priority) // its end is known now, and what may start before it
			s.DirtyVC(j.Space, cell.Opportunistic)
		} else if j.Spec.Priority < cell.MinGuaranteed && s.Dirty.Backfills[j.Space] && len(s.Queues[j.Space]) > 0 {
			s.DirtyVC(j.Space, cell.MinGuaranteed) // what is lent may decide which gang is first
		}
		s.timeLimit(a)
		s.TimeMinRun(a)
	}
	s.refreshState(a)
	s.Touch(a.Job)
}

// refreshState derives an attempt's state from its tasks.
func (s *State) refreshState(a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	before := a.State
	unknown, starting := false, false
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		t := &j.Tasks[o]
		unknown = unknown || !t.Dead && t.State == model.TaskIsUnknown
		starting = starting || !t.Dead && t.State == model.TaskStarting
	}
	switch {
	case unknown:
		a.State = model.AttemptUnknown
	case a.Cause != 0:
		a.State = model.AttemptStopping
	case starting:
		a.State = model.AttemptStarting
	default:
		a.State = model.AttemptRunning
	}
	s.setIntent(a)
	if (before == model.AttemptUnknown) != (a.State == model.AttemptUnknown) {
		s.DirtyAll() // it can be preempted again, or no longer
		s.ForgetNextChange(j.Space)
		s.NoteChanged(a)
	}
}

func (s *State) applyExited(id model.AttemptID, ordinal int32, x model.Exit) {
	a := s.Live(id)
	t := s.Task(a, ordinal)
	t.Dead = true
	t.Exit = s.Arenas.Exits.Keep(x)
	a.Alive--
	switch {
	case a.Cause.Resumes() && t.Finished(a, &x, &s.Jobs[a.Job].Spec.Hints):
		t.State = model.TaskSucceeded // it ended within its grace with nothing left to do
	case a.Cause != 0 && !x.Own:
		t.State = model.TaskEnded
	case !x.Cause.Accountable():
		why := string(x.Cause)
		if x.Cause == model.SuspendTimeout {
			s.Jobs[a.Job].Gangs[a.ID.Gang].NeverShares = true
		}
		if x.Cause == model.SuspendTimeout || x.Cause == model.PodDeleted {
			why = fmt.Sprintf("%s of task %s-%d: %s", why, s.Jobs[a.Job].Spec.Roles[t.Role].Name, t.Index, x.Message)
		}
		if x.Cause == model.PodDeleted {
			why += "; it starts again by itself, no retry is used, and its node is not blamed"
		}
		t.State = model.TaskEnded
		a.Platform = true
		a.Say(why)
	case x.Code == 0:
		t.State = model.TaskSucceeded
	default:
		t.State = model.TaskFailed
	}
	if a.Alive == 0 && a.Cause.Resumes() {
		completeSaved(&s.Tables, a)
	}
	s.refreshState(a)
	s.Touch(a.Job)
}

func (s *State) applyRefused(e model.TaskRefused) {
	a := s.Live(e.Attempt)
	if e.Job {
		s.applyExited(e.Attempt, e.Task, e.Exit())
		return
	}
	t := s.Task(a, e.Task)
	t.Dead, t.State = true, model.TaskEnded
	t.Exit = s.Arenas.Exits.Keep(e.Exit())
	a.Alive--
	a.Refused = true
	a.Say(e.Reason)
	s.refreshState(a)
	s.Touch(a.Job)
}

func (s *State) applyUnknown(id model.AttemptID, ordinal int32) {
	a := s.Live(id)
	t := s.Task(a, ordinal)
	t.State = model.TaskIsUnknown
	s.refreshState(a)
	s.Touch(a.Job)
	s.DirtyAll()
}

func (s *State) applyProgress(e model.Progress) {
	a := s.Live(e.Attempt)
	t := s.Task(a, e.Task)
	p := model.TaskProgress{}
	if t.Progress != nil {
		p = *t.Progress
	}
	p.At = s.Now
	if e.Step != 0 {
		if p.FromAt < a.Started || e.Step < p.Step {
			p.From, p.FromAt = e.Step, s.Now
		}
		p.Step, p.StepAt = e.Step, s.Now
	}
	p.Total = cmp.Or(e.Total, p.Total)
	if e.Loss != "" {
		p.Loss, p.LossAt = e.Loss, s.Now
	}
	p.MemoryMB = cmp.Or(e.MemoryMB, p.MemoryMB)
	if e.Use != nil {
		use := *e.Use
		if p.Use != nil {
			use.MemoryMB = max(use.MemoryMB, p.Use.MemoryMB)
		}
		if s.Shared(a) { // the measured memory is that of all members
			use.MemoryMB = 0
			if p.Use != nil {
				use.MemoryMB = p.Use.MemoryMB
			}
		}
		p.Use = &use
	}
	if e.Checkpoint {
		p.Checkpoint = s.Now
		a.Checkpoint = s.Now
	}
	if t.Progress == nil { // policies see that it reports from now on
		s.NoteAllocChanged(a)
	}
	t.Progress = &p
	s.ForgetNextChange(s.Jobs[a.Job].Space) // how long it is measured, or still runs, may follow
	if _, ok := s.Policies[s.Jobs[a.Job].Space].(model.ProgressWatcher); ok {
		s.Touch(a.Job)
	}
}

func (s *State) applyNotice(e model.Notice) {
	o := tables.SetRare(&s.Find(e.Job).Rare)
	if e.About == "" {
		o.Notices = append(slices.Clip(o.Notices), e.Message)
		return
	}
	kept := slices.DeleteFunc(slices.Clone(o.Lasting), func(l tables.Lasting) bool { return l.About == e.About })
	if o.Lasting = kept; e.Message != "" {
		o.Lasting = append(kept, tables.Lasting{About: e.About, Message: e.Message})
	}
}

// applyNodeHealth notes a node's health. If the node is down, the tasks on it become unknown.
func (s *State) applyNodeHealth(e model.NodeHealth) {
	n := s.node(e.Node)
	n.Down, n.Reason = !e.Up, e.Reason
	s.updateNodeHealth(n)
	s.DirtyAll()
	if e.Up {
		return
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.State == model.AttemptReserving {
			continue
		}
		j := &s.Jobs[a.Job]
		for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
			if t := &j.Tasks[o]; !t.Dead && t.Place.Node == e.Node {
				s.applyUnknown(a.ID, o)
			}
		}
	}
}

// FindLeafNote returns the index of the note about a bad leaf, or where it belongs and false.
func (s *State) FindLeafNote(f model.LeafHealth) (int, bool) {
	return slices.BinarySearchFunc(s.Leaves, tables.LeafNote{Node: f.Node, SKU: f.SKU, Device: f.Device,
		Part: f.Part}, tables.LeafNote.Compare)
}

// noteOf is the note about a leaf that is not good.
func noteOf(f *model.LeafHealth) tables.LeafNote {
	return tables.LeafNote{Node: f.Node, SKU: f.SKU, Device: f.Device, Part: f.Part, HeldByOthers: f.HeldByOthers,
		Cordoned: f.Cordoned, Reason: f.Reason}
}

func (s *State) applyLeafHealth(e model.LeafHealth) {
	i, bad := s.FindLeafNote(e)
	note := noteOf(&e)
	if e.Good && bad {
		s.Leaves = slices.Delete(s.Leaves, i, i+1)
	} else if !e.Good && !bad {
		s.Leaves = slices.Insert(s.Leaves, i, note)
	} else if bad {
		s.Leaves[i] = note // another fault of the same leaf
	}
	s.updateLeafHealth(&note, !e.Good)
	s.DirtyAll()
}

func (s *State) updateLeafHealth(n *tables.LeafNote, bad bool) {
	l := s.Cluster.Forest().FindPart(n.Node, n.SKU, n.Device, n.Part)
	if l == cell.None {
		return
	}
	s.setLeafBad(l, bad || s.isDraining(l))
}

func (s *State) setLeafBad(l cell.LeafID, bad bool) {
	s.Cluster.SetLeafBad(l, bad)
	s.Health++
	if s.Empty != nil {
		s.Empty.SetLeafBad(l, bad)
	}
}
