package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// Limits on what one job and all jobs together may be.
const (
	maxTasks   = 10_000
	maxWaiting = 200_000 // jobs that have not ended
	MaxLeaves  = 1 << 20
)

// Admit checks any command but a new configuration: it returns the events that carry it out and the
// answer, or a refusal.
func (s *Explainer) Admit(c model.Command) ([]model.Event, model.Answer, *model.Refusal) {
	switch c := c.(type) {
	case model.Submit:
		return s.checkSubmit(c)
	case model.Stop:
		return s.checkStop(c)
	case model.Hold:
		return s.checkHold(c)
	case model.Requeue:
		return s.checkRequeue(c)
	case model.Update:
		return s.checkUpdate(c)
	case model.Cordon:
		return s.CheckCordon(c)
	case model.DeclareDead:
		return s.checkDead(c)
	}
	return nil, model.Answer{}, Refuse(model.Invalid, "unknown command %T", c)
}

// Refuse makes a refusal of a kind with a formatted message.
func Refuse(k model.RefusalKind, format string, a ...any) *model.Refusal {
	return &model.Refusal{Kind: k, Message: fmt.Sprintf(format, a...)}
}

func (s *Explainer) checkSubmit(c model.Submit) ([]model.Event, model.Answer, *model.Refusal) {
	if s.Cluster == nil {
		return nil, model.Answer{}, Refuse(model.Busy, "the cluster has no configuration yet: apply a cluster file first")
	}
	if r := checkJob(c.Job); r != nil {
		return nil, model.Answer{}, r
	}
	if s.Cluster.SpaceOf(c.Job.VC) == cell.None {
		return nil, model.Answer{}, Refuse(model.Invalid, "there is no virtual cluster %q; there are: %s", c.Job.VC,
			strings.Join(s.vcNames(), ", "))
	}
	if id, ok := s.ByName(c.Job.User, c.Job.Name); ok {
		return nil, model.Answer{}, Refuse(model.Conflict, "job %q (id %d) has not ended yet: stop it first, or choose another name", c.Job.Name, id)
	}
	if s.Slots.N >= maxWaiting {
		return nil, model.Answer{}, Refuse(model.Busy, "there are %d jobs that have not ended, which is the limit; try again when some have", s.Slots.N)
	}
	j := s.NewJob(s.NextJob, c.Job, s.Now, s.Arenas.JobMemories.Take())
	defer s.Arenas.JobMemories.Recycle(&j)
	for g := range j.Gangs {
		if g > 0 && j.Gangs[g].Shape.Text == j.Gangs[g-1].Shape.Text {
			continue
		}
		if why := s.neverWithMost(&j, g); why != nil {
			return nil, model.Answer{}, &model.Refusal{Kind: model.Never, Message: why.Message, Reason: why}
		}
	}
	if no := s.checkLimits(&j); no != nil {
		return nil, model.Answer{}, no
	}
	return []model.Event{model.JobSubmitted{ID: s.NextJob, Job: c.Job, Meta: c.Meta}}, model.Answer{Job: s.NextJob}, nil
}

func (s *Explainer) vcNames() []string {
	var names []string
	for i := int32(1); i < s.Cluster.NumSpaces(); i++ {
		names = append(names, string(s.Cluster.Space(i).Name))
	}
	return names
}

// checkJob checks that a job is consistent in itself. The API has checked more, with
// better messages, so the first error is enough.
func checkJob(j *model.Job) *model.Refusal {
	if j == nil || j.Name == "" || len(j.Name) > 255 {
		return Refuse(model.Invalid, "a job needs a name of 1 to 255 characters")
	}
	if j.Priority < cell.Opportunistic || j.Priority > cell.MaxGuaranteed {
		return Refuse(model.Invalid, "priority %d is outside -1 to %d", j.Priority, cell.MaxGuaranteed)
	}
	if j.Grace < 0 || j.TimeLimit < 0 || j.Retries < -2 {
		return Refuse(model.Invalid, "grace, time limit and retries must not be negative (retries: not below -2)")
	}
	var tasks, leaves int64
	for _, r := range j.Roles {
		if r.Tasks < 1 || r.Leaves < 1 || r.Tasks > maxTasks || r.Leaves > MaxLeaves {
			return Refuse(model.Invalid, "role %q asks for %d tasks of %d GPUs or CPU slots; it may have 1 to %d tasks, of 1 to %d each", r.Name, r.Tasks, r.Leaves, maxTasks, MaxLeaves)
		}
		if r.MinFailed < -1 || r.MinSucceeded < -1 || r.TaskRetries < -2 {
			return Refuse(model.Invalid, "role %q has a completion policy below -1", r.Name)
		}
		if r.Pinned != "" && j.Priority < cell.MinGuaranteed {
			return Refuse(model.Invalid, "role %q: an opportunistic job cannot use pinned cell %q", r.Name, r.Pinned)
		}
		tasks += int64(r.Tasks)
		leaves += int64(r.Tasks) * int64(r.Leaves)
	}
	if tasks < 1 || tasks > maxTasks || leaves > MaxLeaves {
		return Refuse(model.Invalid, "the job asks for %d tasks with %d GPUs or CPU slots; the limits are %d and %d",
			tasks, leaves, maxTasks, MaxLeaves)
	}
	if z := j.Size; z != 0 && (!j.Partial() || z < j.Sizes().Least || z > j.Sizes().Most) {
		return Refuse(model.Invalid, "the job begins with %d tasks, which is not between its minimum and all of them",
			z)
	}
	seen := make([]bool, tasks)
	for i, g := range j.Gangs {
		if g.Extra != (j.Partial() && i > 0) || g.Extra && len(g.Tasks) != 1 {
			return Refuse(model.Invalid, "gang %q: in a partial gang the first gang is the minimum, and all others are single extra members", g.Name)
		}
		if len(g.Tasks) == 0 {
			return Refuse(model.Invalid, "gang %q has no tasks", g.Name)
		}
		for i, t := range g.Tasks {
			if t < 0 || int64(t) >= tasks || seen[t] || i > 0 && g.Tasks[i-1] > t {
				return Refuse(model.Invalid, "gang %q: task %d does not exist, is listed twice or is out of order",
					g.Name, t)
			}
			seen[t] = true
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return Refuse(model.Invalid, "task %d is in no gang", i)
	}
	return nil
}

func (s *Explainer) checkStop(c model.Stop) ([]model.Event, model.Answer, *model.Refusal) {
	j := s.Find(c.Job)
	if j == nil {
		if c.Job > 0 && c.Job < s.NextJob {
			return nil, model.Answer{}, Refuse(model.Conflict, "job %d has ended already", c.Job)
		}
		return nil, model.Answer{}, Refuse(model.NotFound, "there is no job %d", c.Job)
	}
	if j.Stop {
		return nil, model.Answer{Job: c.Job, Repeated: true}, nil
	}
	return []model.Event{model.StopRequested{Job: c.Job, Reason: c.Reason, Meta: c.Meta}}, model.Answer{Job: c.Job}, nil
}

// CheckCordon checks a cordon, a drain or their end.
func (s *Explainer) CheckCordon(c model.Cordon) ([]model.Event, model.Answer, *model.Refusal) {
	if s.Cluster == nil || s.Cluster.Forest().NodeIndex(c.Node) == cell.None {
		return nil, model.Answer{}, noNode(&s.Status, c.Node)
	}
	n := s.NodeNote(c.Node)
	if n.Dead && n.Down && !c.On {
		return nil, model.Answer{}, Refuse(model.Conflict, "node %s was declared dead, and does not answer: it can be taken back when it does", c.Node)
	}
	drain := model.Time(0)
	if c.On && c.Drain != 0 {
		drain = max(c.Drain, 1)
	}
	if n.AlreadySo(c.On, drain, c.Reason) {
		return nil, model.Answer{Repeated: true}, nil
	}
	e := model.NodeCordoned{Node: c.Node, On: c.On, Drain: drain, Reason: c.Reason, Meta: c.Meta}
	events := append([]model.Event{e}, status.Foresight{Status: &s.Status}.Warn(&e)...)
	if !c.On && n.Suspect > 0 {
		// ends the suspicion
		events = append(events, model.NodeSuspected{Node: c.Node, Reason: "uncordoned"})
	}
	return events, model.Answer{}, nil
}

// checkDead turns a declaration that a node is dead into events: the node is cordoned, and each
// task there that is unknown, or any if the node is down, has ended by the loss of its node.
func (s *Explainer) checkDead(c model.DeclareDead) ([]model.Event, model.Answer, *model.Refusal) {
	if s.Cluster == nil || s.Cluster.Forest().NodeIndex(c.Node) == cell.None {
		return nil, model.Answer{}, noNode(&s.Status, c.Node)
	}
	down := s.NodeNote(c.Node).Down
	out := []model.Event{model.NodeCordoned{Node: c.Node, On: true, Dead: true, Reason: c.Reason, Meta: c.Meta}}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.State == model.AttemptReserving {
			continue
		}
		j := &s.Jobs[a.Job]
		for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
			if t := &j.Tasks[o]; t.Place != nil && !t.Dead && t.Place.Node == c.Node &&
				(down || t.State == model.TaskIsUnknown) {
				out = append(out, model.TaskExited{Attempt: a.ID, Task: o, Exit: model.Exit{Cause: model.NodeLost, Message: "its node was declared dead" + state.InBrackets(c.Reason)}})
			}
		}
	}
	if len(out) == 1 && !down {
		return nil, model.Answer{}, Refuse(model.Conflict, "node %s is up, and nothing there is unknown: comb node drain has what runs there leave", c.Node)
	}
	return out, model.Answer{}, nil
}

// noNode refuses a command about a node that is not in the configuration.
func noNode(s *status.Status, name cell.NodeName) *model.Refusal {
	if slices.ContainsFunc(s.Orphans(), func(o status.Orphan) bool { return o.Node == name }) {
		return Refuse(model.Conflict,
			"node %s is no longer in the cluster file: its jobs may finish there; comb job stop ends them", name)
	}
	return Refuse(model.NotFound, "there is no node %q", name)
}

// commandedJob finds the job of a user's command, if it has not ended and is not ending.
func (s *Explainer) commandedJob(id model.JobID) (*tables.Job, *model.Refusal) {
	j := s.Find(id)
	switch {
	case j == nil && id > 0 && id < s.NextJob:
		return nil, Refuse(model.Conflict, "job %d has ended already", id)
	case j == nil:
		return nil, Refuse(model.NotFound, "there is no job %d", id)
	case j.Stop || j.Completing != nil:
		return nil, Refuse(model.Conflict, "job %d is ending", id)
	}
	return j, nil
}

// liveOrPromised reports whether an attempt of a job lives, and whether cells are promised to one.
func (s *Explainer) liveOrPromised(j *tables.Job) (runs, promised bool) {
	for g := range j.Gangs {
		if at := j.Gangs[g].Attempt; at != tables.None {
			reserving := s.Attempts[at].State == model.AttemptReserving
			runs, promised = runs || !reserving, promised || reserving
		}
	}
	return runs, promised
}

func (s *Explainer) checkHold(c model.Hold) ([]model.Event, model.Answer, *model.Refusal) {
	j, no := s.commandedJob(c.Job)
	if no != nil {
		return nil, model.Answer{}, no
	}
	if j.Held() == c.On {
		return nil, model.Answer{Job: c.Job, Repeated: true}, nil
	}
	if runs, _ := s.liveOrPromised(j); runs && c.On {
		return nil, model.Answer{}, Refuse(model.Conflict, "job %d runs: only a job that waits can be held; comb job requeue --hold stops it and holds it then", c.Job)
	}
	return []model.Event{model.JobHeld{Job: c.Job, On: c.On, Reason: c.Reason,
		Meta: c.Meta}}, model.Answer{Job: c.Job}, nil
}

func (s *Explainer) checkRequeue(c model.Requeue) ([]model.Event, model.Answer, *model.Refusal) {
	j, no := s.commandedJob(c.Job)
	if no != nil {
		return nil, model.Answer{}, no
	}
	if runs, _ := s.liveOrPromised(j); !runs {
		return nil, model.Answer{}, Refuse(model.Conflict, "nothing of job %d runs: it waits already", c.Job)
	}
	return []model.Event{model.JobRequeued{Job: c.Job, Hold: c.Hold, Reason: c.Reason,
		Meta: c.Meta}}, model.Answer{Job: c.Job}, nil
}

func (s *Explainer) checkUpdate(c model.Update) ([]model.Event, model.Answer, *model.Refusal) {
	j, no := s.commandedJob(c.Job)
	if no != nil {
		return nil, model.Answer{}, no
	}
	e := model.JobUpdated{Job: c.Job, Meta: c.Meta}
	if p := c.Priority; p != nil && *p != j.Spec.Priority {
		if no := s.checkPriority(j, *p); no != nil {
			return nil, model.Answer{}, no
		}
		e.Priority = p
	}
	if d := c.TimeLimit; d != nil && *d != j.Spec.TimeLimit {
		if *d < 0 {
			return nil, model.Answer{}, Refuse(model.Invalid, "a time limit must not be negative")
		}
		for g := range j.Gangs {
			if at := j.Gangs[g].Attempt; at != tables.None && *d > 0 && s.Attempts[at].Started > 0 &&
				s.Reaches(&s.Attempts[at], *d) <= s.Now {
				return nil, model.Answer{}, Refuse(model.Conflict,
					"job %d has run for longer than that already: give it more time, or stop it", c.Job)
			}
		}
		e.TimeLimit = d
	}
	if e.Priority == nil && e.TimeLimit == nil {
		return nil, model.Answer{Job: c.Job, Repeated: true}, nil
	}
	return []model.Event{e}, model.Answer{Job: c.Job}, nil
}

// checkPriority refuses a priority that a job cannot have, or not now.
func (s *Explainer) checkPriority(j *tables.Job, p cell.Priority) *model.Refusal {
	if runs, promised := s.liveOrPromised(j); runs {
		return Refuse(model.Conflict, "job %d runs: only a job that waits can get another priority; comb job requeue --hold stops it first", j.ID)
	} else if promised {
		return Refuse(model.Conflict, "cells are being freed for job %d, and it starts soon: its priority cannot change now; comb job hold gives them back", j.ID)
	}
	spec := *j.Spec
	spec.Priority = p
	if no := checkJob(&spec); no != nil {
		return no
	}
	if no := s.checkCap(j, p); no != nil {
		return no
	}
	tried := s.NewJob(j.ID, &spec, s.Now, s.Arenas.JobMemories.Take())
	defer s.Arenas.JobMemories.Recycle(&tried)
	for g := range tried.Gangs {
		if why := s.neverWithMost(&tried, g); why != nil {
			return &model.Refusal{Kind: model.Never, Message: fmt.Sprintf("with priority %d %s", p, why.Message),
				Reason: why}
		}
	}
	return nil
}

// checkCap refuses a priority above the highest that a job's VC lets its users have.
func (s *Explainer) checkCap(j *tables.Job, p cell.Priority) *model.Refusal {
	l := s.UserLimits(j)
	if l == nil || l.Priority == nil || p <= *l.Priority {
		return nil
	}
	return Refuse(model.Never, "the priority is %d, and jobs in %s may have at most %d", p, j.Spec.VC, *l.Priority)
}

// checkLimits refuses a job beyond its VC's limits of users.
func (s *Explainer) checkLimits(j *tables.Job) *model.Refusal {
	l := s.UserLimits(j)
	if l == nil {
		return nil
	}
	if no := s.checkCap(j, j.Spec.Priority); no != nil {
		return no
	}
	for g := range j.Gangs {
		if n := int64(j.Gangs[g].Leaves); l.GPUs > 0 && n > l.GPUs {
			why := s.newReason(j, int32(g)).Say(model.UserLimit, "it can never start: it asks for %d GPUs or CPU slots at once, more than the %d of one user in %s", n, l.GPUs, j.Spec.VC)
			return &model.Refusal{Kind: model.Never, Message: why.Message, Reason: &why}
		}
	}
	if l.Waiting == 0 {
		return nil
	}
	var waits []model.JobID
	for _, q := range s.Queues[j.Space] {
		if o := &s.Jobs[q.Slot]; o.Spec.User == j.Spec.User && s.Phase(o) == model.Waiting &&
			!slices.Contains(waits, o.ID) {
			if waits = append(waits, o.ID); int64(len(waits)) >= l.Waiting {
				return Refuse(model.Busy, "%s has %d waiting jobs in %s, the most for one user: stop one, or submit this one when one has started", j.Spec.User, l.Waiting, j.Spec.VC)
			}
		}
	}
	return nil
}
