// Package history tells the attempts of a job from its events: where and when each ran, how it ended, what it was
// stopped for, and how much work was lost. It must not know where events are kept.
package history

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// Most is how many attempts are kept: the last ones.
const Most = 1000

// Fold takes a job's events in order.
type Fold struct {
	job   *sched.Job
	retry int32
	live  map[sched.AttemptID]*rest.PastAttempt
	exits map[sched.AttemptID][]sched.Exit // of live ones, as their tasks
	all   []*rest.PastAttempt
	left  int             // attempts that are not kept any more
	roles []int32         // of each task
	first map[int32]int32 // a role's first task
	asked string          // of the stop that was asked last
}

// New begins with the first event.
func New() *Fold {
	return &Fold{live: map[sched.AttemptID]*rest.PastAttempt{}, first: map[int32]int32{}, exits: map[sched.AttemptID][]sched.Exit{}}
}

// Add takes the next event.
func (f *Fold) Add(r *sched.Record) {
	switch e := r.Event.(type) {
	case sched.JobSubmitted:
		f.submitted(&e)
	case sched.Placed:
		f.placed(r.Time, e.Attempt, nodesOf(e.Placement.Tasks))
	case sched.Joined:
		f.placed(r.Time, e.Attempt, nodesOf(e.Placement.Tasks))
	case sched.JobRetried:
		f.retry++
	case sched.TaskStarted:
		if a := f.live[e.Attempt]; a != nil && a.Started == 0 {
			a.Started = r.Time
		}
	case sched.Progress:
		if a := f.live[e.Attempt]; a != nil && e.Checkpoint {
			a.Checkpoint = r.Time
		}
	case sched.TaskExited:
		f.exited(e.Attempt, e.Task, e.Exit)
	case sched.TaskRefused:
		f.exited(e.Attempt, e.Task, sched.Exit{Cause: sched.StartRefused, Message: e.Reason})
	case sched.StopSent:
		if a := f.live[e.Attempt]; a != nil {
			a.Told, a.Cause, a.By = r.Time, e.Cause, e.By
			if e.Cause == sched.EndStopped {
				a.Why = f.asked
			}
		}
	case sched.StopRequested:
		if f.asked = "asked by " + string(e.Meta.Subject); e.Reason != "" {
			f.asked += ": " + e.Reason
		}
	case sched.LazilyPreempted:
		f.lend(&e.Attempt, e.With, true)
	case sched.Upgraded:
		f.lend(&e.Attempt, e.With, false)
	case sched.AttemptEnded:
		f.ended(r.Time, &e)
	}
}

// lend notes of attempts whether they run without their guarantee.
func (f *Fold) lend(one *sched.AttemptID, with []sched.AttemptID, lazy bool) {
	for _, id := range append(slices.Clone(with), *one) {
		if a := f.live[id]; a != nil {
			a.Lazy = lazy
		}
	}
}

func (f *Fold) submitted(e *sched.JobSubmitted) {
	f.job = e.Job
	for i := range e.Job.Roles {
		f.first[int32(i)] = int32(len(f.roles))
		for range e.Job.Roles[i].Tasks {
			f.roles = append(f.roles, int32(i))
		}
	}
}

func (f *Fold) placed(at sched.Time, id sched.AttemptID, nodes []cell.NodeName) {
	a := &rest.PastAttempt{ID: id, Retry: f.retry, Placed: at, Nodes: nodes, GPUs: f.gpus(id.Gang)}
	f.live[id] = a
	if f.all = append(f.all, a); len(f.all) > Most {
		f.all, f.left = f.all[1:], f.left+1
	}
}

// gpus are those that the tasks of a gang take.
func (f *Fold) gpus(gang int32) int64 {
	if f.job == nil || int(gang) >= len(f.job.Gangs) {
		return 0
	}
	n := int64(0)
	for _, o := range f.job.Gangs[gang].Tasks {
		n += f.job.Roles[f.roles[o]].Launch.GPU
	}
	return n
}

func (f *Fold) exited(id sched.AttemptID, task int32, x sched.Exit) {
	if a := f.live[id]; a != nil {
		a.Tasks = append(a.Tasks, rest.PastTask{Task: f.name(task), Exit: rest.ExitOf(&x)})
		f.exits[id] = append(f.exits[id], x)
	}
}

// name is a task's, such as "main-0".
func (f *Fold) name(task int32) string {
	if f.job == nil || int(task) >= len(f.roles) {
		return fmt.Sprint(task)
	}
	role := f.roles[task]
	return fmt.Sprintf("%s-%d", f.job.Roles[role].Name, task-f.first[role])
}

func (f *Fold) ended(at sched.Time, e *sched.AttemptEnded) {
	a := f.live[e.Attempt]
	if a == nil {
		return
	}
	defer delete(f.exits, e.Attempt)
	delete(f.live, e.Attempt)
	a.Ended, a.Cause, a.Message = at, e.Cause, e.Message
	for i := range a.Tasks {
		x := f.exits[e.Attempt][i]
		if x.Code != 0 || x.Cause != "" {
			a.Tasks[i].ExitClass = rest.ClassOf(&x, e.Cause)
		}
	}
	if a.Started == 0 || e.Cause == sched.EndSucceeded {
		return
	}
	saved := max(a.Started, a.Checkpoint)
	a.Lost = a.GPUs * int64((at-saved)/sched.Time(sched.Second))
}

// Attempts are those of the job, the oldest first; left is how many older ones are left out.
func (f *Fold) Attempts() (attempts []rest.PastAttempt, left int) {
	for _, a := range f.all {
		attempts = append(attempts, *a)
	}
	return attempts, f.left
}

// nodesOf are the machines of tasks, each once.
func nodesOf(tasks []cell.Task) []cell.NodeName {
	var out []cell.NodeName
	for _, t := range tasks {
		if !slices.Contains(out, t.Node) {
			out = append(out, t.Node)
		}
	}
	return out
}

// Other is the job that an attempt made room for.
type Other struct {
	Ref      string // as the reader calls it
	VC       cell.VCName
	Priority cell.Priority
}

// Why says by which job and rule an attempt was stopped that made room for another job.
func (f *Fold) Why(a *rest.PastAttempt, by Other) string {
	switch {
	case f.job == nil || a.By == nil:
		return ""
	case f.job.Priority < cell.MinGuaranteed || a.Lazy:
		return fmt.Sprintf("job %s of VC %s got cells back that were lent to it", by.Ref, by.VC)
	case by.VC != f.job.VC:
		return fmt.Sprintf("VC %s is guaranteed the cells, for job %s", by.VC, by.Ref)
	case by.Priority > f.job.Priority:
		return fmt.Sprintf("job %s has a higher priority: %d, its own is %d", by.Ref, by.Priority, f.job.Priority)
	}
	return fmt.Sprintf("the policy of VC %s put job %s first", by.VC, by.Ref)
}
