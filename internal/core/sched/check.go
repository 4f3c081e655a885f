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

func (s *tables) vcNames() []string {
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

func (s *fold) checkStop(c Stop) ([]Event, Answer, *Refusal) {
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

func (s *index) checkCordon(c Cordon) ([]Event, Answer, *Refusal) {
	if s.cl == nil || s.cl.Forest().NodeIndex(c.Node) == cell.None {
		return nil, Answer{}, noNode(&s.tables, c.Node)
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
	events := append([]Event{e}, foresight{s}.warn(&e)...)
	if !c.On && n.Suspect > 0 {
		events = append(events, NodeSuspected{Node: c.Node, Reason: "uncordoned"}) // takes its reason along
	}
	return events, Answer{}, nil
}

// so reports whether a node is in placement, or out of it, as a command wants to have it.
func (n *nodeNote) so(on bool, drain model.Time, reason string) bool {
	if !on {
		return !n.Cordon && n.Suspect == 0 && len(n.Refused) == 0
	}
	return n.Cordon && !n.Dead && n.Drain == drain && n.Cordoned == reason
}
