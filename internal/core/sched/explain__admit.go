package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Limits on what one job and all jobs together may be.
const (
	maxTasks   = 10_000
	maxWaiting = 200_000 // jobs that have not ended
	maxLeaves  = 1 << 20
)

// admit is Check of all commands but a new configuration.
func (s *explainer) admit(c Command) ([]Event, Answer, *Refusal) {
	switch c := c.(type) {
	case Submit:
		return s.checkSubmit(c)
	case Stop:
		return s.checkStop(c)
	case Hold:
		return s.checkHold(c)
	case Requeue:
		return s.checkRequeue(c)
	case Update:
		return s.checkUpdate(c)
	case Cordon:
		return s.checkCordon(c)
	case DeclareDead:
		return s.checkDead(c)
	}
	return nil, Answer{}, refuse(Invalid, "unknown command %T", c)
}

func refuse(k RefusalKind, format string, a ...any) *Refusal {
	return &Refusal{Kind: k, Message: fmt.Sprintf(format, a...)}
}

func (s *explainer) checkSubmit(c Submit) ([]Event, Answer, *Refusal) {
	if s.cl == nil {
		return nil, Answer{}, refuse(Busy, "the cluster has no configuration yet: apply a cluster file first")
	}
	if r := checkJob(c.Job); r != nil {
		return nil, Answer{}, r
	}
	if s.cl.SpaceOf(c.Job.VC) == cell.None {
		return nil, Answer{}, refuse(Invalid, "there is no virtual cluster %q; there are: %s", c.Job.VC, strings.Join(s.vcNames(), ", "))
	}
	if id, ok := s.ByName(c.Job.User, c.Job.Name); ok {
		return nil, Answer{}, refuse(Conflict, "job %q (id %d) has not ended yet: stop it first, or choose another name", c.Job.Name, id)
	}
	if s.slots.N >= maxWaiting {
		return nil, Answer{}, refuse(Busy, "there are %d jobs that have not ended, which is the limit; try again when some have", s.slots.N)
	}
	j := s.newJob(s.nextJob, c.Job, s.now, s.arenas.rooms.take())
	defer s.arenas.rooms.leave(&j)
	for g := range j.gangs {
		if g > 0 && j.gangs[g].shape.text == j.gangs[g-1].shape.text {
			continue
		}
		if why := s.whyNever(&j, g); why != nil {
			return nil, Answer{}, &Refusal{Kind: Never, Message: why.Message, Reason: why}
		}
	}
	if no := s.checkLimits(&j); no != nil {
		return nil, Answer{}, no
	}
	return []Event{JobSubmitted{ID: s.nextJob, Job: c.Job, Meta: c.Meta}}, Answer{Job: s.nextJob}, nil
}

func (s *explainer) vcNames() []string {
	var names []string
	for i := int32(1); i < s.cl.NumSpaces(); i++ {
		names = append(names, string(s.cl.Space(i).Name))
	}
	return names
}

// checkJob checks that a job is whole in itself; the edges have checked more and
// said it better, so one message is enough.
func checkJob(j *model.Job) *Refusal {
	if j == nil || j.Name == "" || len(j.Name) > 255 {
		return refuse(Invalid, "a job needs a name of 1 to 255 characters")
	}
	if j.Priority < cell.Opportunistic || j.Priority > cell.MaxGuaranteed {
		return refuse(Invalid, "priority %d is outside -1 to %d", j.Priority, cell.MaxGuaranteed)
	}
	if j.Grace < 0 || j.TimeLimit < 0 || j.Retries < -2 {
		return refuse(Invalid, "grace, time limit and retries must not be negative (retries: not below -2)")
	}
	var tasks, leaves int64
	for _, r := range j.Roles {
		if r.Tasks < 1 || r.Leaves < 1 || r.Tasks > maxTasks || r.Leaves > maxLeaves {
			return refuse(Invalid, "role %q asks for %d tasks of %d GPUs or CPU slots; it may have 1 to %d tasks, of 1 to %d each", r.Name, r.Tasks, r.Leaves, maxTasks, maxLeaves)
		}
		if r.MinFailed < -1 || r.MinSucceeded < -1 || r.TaskRetries < -2 {
			return refuse(Invalid, "role %q has a completion policy below -1", r.Name)
		}
		if r.Pinned != "" && j.Priority < cell.MinGuaranteed {
			return refuse(Invalid, "role %q: an opportunistic job cannot use pinned cell %q", r.Name, r.Pinned)
		}
		tasks += int64(r.Tasks)
		leaves += int64(r.Tasks) * int64(r.Leaves)
	}
	if tasks < 1 || tasks > maxTasks || leaves > maxLeaves {
		return refuse(Invalid, "the job asks for %d tasks with %d GPUs or CPU slots; the limits are %d and %d", tasks, leaves, maxTasks, maxLeaves)
	}
	if z := j.Size; z != 0 && (!j.Partial() || z < j.Sizes().Least || z > j.Sizes().Most) {
		return refuse(Invalid, "the job begins with %d tasks, which is not between its minimum and all of them", z)
	}
	seen := make([]bool, tasks)
	for i, g := range j.Gangs {
		if g.Extra != (j.Partial() && i > 0) || g.Extra && len(g.Tasks) != 1 {
			return refuse(Invalid, "gang %q: in a partial gang the first gang is the minimum, and all others are single extra members", g.Name)
		}
		if len(g.Tasks) == 0 {
			return refuse(Invalid, "gang %q has no tasks", g.Name)
		}
		for i, t := range g.Tasks {
			if t < 0 || int64(t) >= tasks || seen[t] || i > 0 && g.Tasks[i-1] > t {
				return refuse(Invalid, "gang %q: task %d does not exist, is listed twice or is out of order", g.Name, t)
			}
			seen[t] = true
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return refuse(Invalid, "task %d is in no gang", i)
	}
	return nil
}

func (s *explainer) checkStop(c Stop) ([]Event, Answer, *Refusal) {
	j := s.find(c.Job)
	if j == nil {
		if c.Job > 0 && c.Job < s.nextJob {
			return nil, Answer{}, refuse(Conflict, "job %d has ended already", c.Job)
		}
		return nil, Answer{}, refuse(NotFound, "there is no job %d", c.Job)
	}
	if j.stop {
		return nil, Answer{Job: c.Job, Repeated: true}, nil
	}
	return []Event{StopRequested{Job: c.Job, Reason: c.Reason, Meta: c.Meta}}, Answer{Job: c.Job}, nil
}

func (s *explainer) checkCordon(c Cordon) ([]Event, Answer, *Refusal) {
	if s.cl == nil || s.cl.Forest().NodeIndex(c.Node) == cell.None {
		return nil, Answer{}, noNode(&s.fold, c.Node)
	}
	n := s.noted(c.Node)
	if n.Dead && n.Down && !c.On {
		return nil, Answer{}, refuse(Conflict, "node %s was declared dead, and does not answer: it can be taken back when it does", c.Node)
	}
	drain := model.Time(0)
	if c.On && c.Drain != 0 {
		drain = max(c.Drain, 1)
	}
	if n.so(c.On, drain, c.Reason) {
		return nil, Answer{Repeated: true}, nil
	}
	e := NodeCordoned{Node: c.Node, On: c.On, Drain: drain, Reason: c.Reason, Meta: c.Meta}
	events := append([]Event{e}, foresight{fold: &s.fold}.warn(&e)...)
	if !c.On && n.Suspect > 0 {
		events = append(events, NodeSuspected{Node: c.Node, Reason: "uncordoned"}) // takes its reason along
	}
	return events, Answer{}, nil
}

// checkDead turns the word that a node is dead into what it means: the node is cordoned, and each
// task of it that is not known to live has ended by the loss of its node.
func (s *explainer) checkDead(c DeclareDead) ([]Event, Answer, *Refusal) {
	if s.cl == nil || s.cl.Forest().NodeIndex(c.Node) == cell.None {
		return nil, Answer{}, noNode(&s.fold, c.Node)
	}
	down := s.noted(c.Node).Down
	out := []Event{NodeCordoned{Node: c.Node, On: true, Dead: true, Reason: c.Reason, Meta: c.Meta}}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.state == model.AttemptReserving {
			continue
		}
		j := &s.jobs[a.job]
		for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
			if t := &j.tasks[o]; t.place != nil && !t.dead && t.place.Node == c.Node && (down || t.state == model.TaskIsUnknown) {
				out = append(out, TaskExited{Attempt: a.id, Task: o, Exit: Exit{Cause: NodeLost, Message: "its node was declared dead" + inBrackets(c.Reason)}})
			}
		}
	}
	if len(out) == 1 && !down {
		return nil, Answer{}, refuse(Conflict, "node %s is up, and nothing there is unknown: comb node drain has what runs there leave", c.Node)
	}
	return out, Answer{}, nil
}

// noNode refuses a command about a node that is not in the configuration.
func noNode(s *fold, name cell.NodeName) *Refusal {
	if slices.ContainsFunc(s.orphans(), func(o orphan) bool { return o.node == name }) {
		return refuse(Conflict,
			"node %s is no longer in the cluster file: its jobs may finish there; comb job stop ends them", name)
	}
	return refuse(NotFound, "there is no node %q", name)
}

// wishedJob finds a job that has not ended and does not end, about which a user wishes something.
func (s *explainer) wishedJob(id model.JobID) (*job, *Refusal) {
	j := s.find(id)
	switch {
	case j == nil && id > 0 && id < s.nextJob:
		return nil, refuse(Conflict, "job %d has ended already", id)
	case j == nil:
		return nil, refuse(NotFound, "there is no job %d", id)
	case j.stop || j.completing != nil:
		return nil, refuse(Conflict, "job %d is ending", id)
	}
	return j, nil
}

// standing reports whether an attempt of a job lives; promised, whether cells are being freed for
// one.
func (s *explainer) standing(j *job) (runs, promised bool) {
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none {
			reserving := s.attempts[at].state == model.AttemptReserving
			runs, promised = runs || !reserving, promised || reserving
		}
	}
	return runs, promised
}

func (s *explainer) checkHold(c Hold) ([]Event, Answer, *Refusal) {
	j, no := s.wishedJob(c.Job)
	if no != nil {
		return nil, Answer{}, no
	}
	if j.held() == c.On {
		return nil, Answer{Job: c.Job, Repeated: true}, nil
	}
	if runs, _ := s.standing(j); runs && c.On {
		return nil, Answer{}, refuse(Conflict, "job %d runs: only a job that waits can be held; comb job requeue --hold stops it and holds it then", c.Job)
	}
	return []Event{JobHeld{Job: c.Job, On: c.On, Reason: c.Reason, Meta: c.Meta}}, Answer{Job: c.Job}, nil
}

func (s *explainer) checkRequeue(c Requeue) ([]Event, Answer, *Refusal) {
	j, no := s.wishedJob(c.Job)
	if no != nil {
		return nil, Answer{}, no
	}
	if runs, _ := s.standing(j); !runs {
		return nil, Answer{}, refuse(Conflict, "nothing of job %d runs: it waits already", c.Job)
	}
	return []Event{JobRequeued{Job: c.Job, Hold: c.Hold, Reason: c.Reason, Meta: c.Meta}}, Answer{Job: c.Job}, nil
}

func (s *explainer) checkUpdate(c Update) ([]Event, Answer, *Refusal) {
	j, no := s.wishedJob(c.Job)
	if no != nil {
		return nil, Answer{}, no
	}
	e := JobUpdated{Job: c.Job, Meta: c.Meta}
	if p := c.Priority; p != nil && *p != j.spec.Priority {
		if no := s.checkPriority(j, *p); no != nil {
			return nil, Answer{}, no
		}
		e.Priority = p
	}
	if d := c.TimeLimit; d != nil && *d != j.spec.TimeLimit {
		if *d < 0 {
			return nil, Answer{}, refuse(Invalid, "a time limit must not be negative")
		}
		for g := range j.gangs {
			if at := j.gangs[g].attempt; at != none && *d > 0 && s.attempts[at].started > 0 && s.reaches(&s.attempts[at], *d) <= s.now {
				return nil, Answer{}, refuse(Conflict, "job %d has run for longer than that already: give it more time, or stop it", c.Job)
			}
		}
		e.TimeLimit = d
	}
	if e.Priority == nil && e.TimeLimit == nil {
		return nil, Answer{Job: c.Job, Repeated: true}, nil
	}
	return []Event{e}, Answer{Job: c.Job}, nil
}

// checkPriority refuses a priority that a job cannot have, or not now.
func (s *explainer) checkPriority(j *job, p cell.Priority) *Refusal {
	if runs, promised := s.standing(j); runs {
		return refuse(Conflict, "job %d runs: only a job that waits can get another priority; comb job requeue --hold stops it first", j.id)
	} else if promised {
		return refuse(Conflict, "cells are being freed for job %d, and it starts soon: its priority cannot change now; comb job hold gives them back", j.id)
	}
	spec := *j.spec
	spec.Priority = p
	if no := checkJob(&spec); no != nil {
		return no
	}
	if no := s.checkCap(j, p); no != nil {
		return no
	}
	tried := s.newJob(j.id, &spec, s.now, s.arenas.rooms.take())
	defer s.arenas.rooms.leave(&tried)
	for g := range tried.gangs {
		if why := s.whyNever(&tried, g); why != nil {
			return &Refusal{Kind: Never, Message: fmt.Sprintf("with priority %d %s", p, why.Message), Reason: why}
		}
	}
	return nil
}
