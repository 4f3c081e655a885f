package server

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// mostAttempts is how many attempts are kept: the last ones.
const mostAttempts = 1000

// The first so many nodes, failed tasks and successful tasks of each attempt are kept. Once
// all attempts together have more than MostLines, older ones keep only a few, so that even
// mostAttempts attempts stay within MostLines.
const (
	MostLines = 15_000
	many, few = 1000, MostLines / mostAttempts / 3
)

// attemptFold folds a job's events, in order, into its attempts.
type attemptFold struct {
	job   *model.Job
	retry int32
	live  map[model.AttemptID]*foldedAttempt
	all   []*foldedAttempt
	lines int             // nodes and tasks of all attempts
	cut   int             // how many of the first attempts are shortened already
	left  int             // attempts that are no longer kept
	roles []int32         // role of each task
	first map[int32]int32 // first task of each role
	asked string          // why and by which user a stop was requested last
	carry leafCarry
}

// leafCarry returns how many GPUs one leaf of a SKU has; false for an unknown SKU.
type leafCarry func(cell.TypeName) (int64, bool)

// foldedAttempt is an attempt that is kept.
type foldedAttempt struct {
	rest.PastAttempt
	exits []model.Exit // of its tasks; none once it has ended
	saved bool         // a preempted task of it ended with 0 before its work was done: that is saved
	most  int          // bound on its nodes, failures and successes each
	count [2]int       // kept successes and failures
}

// newAttemptFold returns an empty fold.
func newAttemptFold(carry leafCarry) *attemptFold {
	return &attemptFold{carry: carry, live: map[model.AttemptID]*foldedAttempt{}, first: map[int32]int32{}}
}

// Add folds the next event.
func (f *attemptFold) Add(r *model.Record) {
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		f.submitted(&e)
	case model.Placed:
		f.placed(r.Time, e.Attempt, e.Placement.Tasks)
	case model.Joined:
		f.placed(r.Time, e.Attempt, e.Placement.Tasks)
	case model.JobRetried:
		f.retry++
	case model.TaskStarted:
		if a := f.live[e.Attempt]; a != nil && a.Started == 0 {
			a.Started = r.Time
		}
	case model.Progress:
		if a := f.live[e.Attempt]; a != nil && e.Checkpoint {
			a.Checkpoint = r.Time
		}
	case model.TaskExited:
		f.exited(e.Attempt, e.Task, e.Exit)
	case model.TaskRefused:
		f.exited(e.Attempt, e.Task, e.Exit())
	case model.StopSent:
		if a := f.live[e.Attempt]; a != nil {
			a.Told, a.Cause, a.By = r.Time, e.Cause, e.By
			if e.Cause == model.EndStopped || e.Cause == model.EndRequeued {
				a.Why = f.asked
			}
			if e.Cause == model.EndDrained {
				a.Why = "its node is drained"
			}
			if e.For != "" {
				a.Why = fmt.Sprintf("virtual cluster %s lends nothing", e.For)
			}
		}
	case model.StopRequested:
		f.asked = askedBy(e.Meta.Subject, e.Reason)
	case model.JobUpdated:
		if f.job != nil {
			f.job = e.On(f.job)
		}
	case model.JobRequeued:
		f.asked = askedBy(e.Meta.Subject, e.Reason)
	case model.LazilyPreempted:
		f.lend(&e.Attempt, e.With, true)
	case model.Upgraded:
		f.lend(&e.Attempt, e.With, false)
	case model.AttemptEnded:
		f.ended(r.Time, &e)
	case model.JobEnded:
		f.over()
	}
}

// lend notes whether attempts run without their guarantee.
func (f *attemptFold) lend(one *model.AttemptID, with []model.AttemptID, lazy bool) {
	for _, id := range append(slices.Clone(with), *one) {
		if a := f.live[id]; a != nil {
			a.Lazy = lazy
		}
	}
}

func (f *attemptFold) submitted(e *model.JobSubmitted) {
	f.job = e.Job
	for i := range e.Job.Roles {
		f.first[int32(i)] = int32(len(f.roles))
		for range e.Job.Roles[i].Tasks {
			f.roles = append(f.roles, int32(i))
		}
	}
}

func (f *attemptFold) placed(at model.Time, id model.AttemptID, tasks []cell.Task) {
	nodes := nodesOf(tasks)
	a := &foldedAttempt{PastAttempt: rest.PastAttempt{ID: id, Retry: f.retry, Placed: at, Nodes: nodes, GPUs: f.gpus(id.Gang, tasks)}, most: many}
	f.live[id] = a
	if f.all = append(f.all, a); len(f.all) > mostAttempts {
		old := f.all[0]
		f.lines -= len(old.Nodes) + len(old.Tasks)
		delete(f.live, old.ID)
		f.all, f.left, f.cut = f.all[1:], f.left+1, max(f.cut-1, 0)
	}
	f.lines += len(nodes)
	f.shorten(a, many)
	f.bound()
}

// bound shortens the oldest attempts while all together have too many lines.
func (f *attemptFold) bound() {
	for f.lines > MostLines && f.cut < len(f.all) {
		f.shorten(f.all[f.cut], few)
		f.cut++
	}
}

// shorten keeps only the first nodes, failures and successes of an attempt, at most this many
// of each.
func (f *attemptFold) shorten(a *foldedAttempt, most int) {
	f.lines -= len(a.Nodes) + len(a.Tasks)
	if n := len(a.Nodes); n > most {
		a.Nodes, a.MoreNodes = slices.Clone(a.Nodes[:most]), a.MoreNodes+n-most
	}
	tasks, exits := a.Tasks, a.exits
	a.Tasks, a.exits, a.count, a.most = nil, nil, [2]int{}, most
	for i, t := range tasks {
		if !a.takes(t.Exit.Code != 0 || t.Exit.Cause != "") {
			a.MoreTasks++
			continue
		}
		if a.Tasks = append(a.Tasks, t); exits != nil {
			a.exits = append(a.exits, exits[i])
		}
	}
	f.lines += len(a.Nodes) + len(a.Tasks)
}

// takes reports whether one more failed, or successful, task fits, and counts it.
func (a *foldedAttempt) takes(failed bool) bool {
	n := &a.count[0]
	if failed {
		n = &a.count[1]
	}
	if *n == a.most {
		return false
	}
	*n++
	return true
}

// gpus counts the GPUs of the leaves that a gang was given, since a job that asks for leaves
// of a SKU names no GPUs. For an unknown SKU it counts the GPUs that its tasks ask for.
func (f *attemptFold) gpus(gang int32, tasks []cell.Task) (n int64) {
	for i := range tasks {
		each, ok := f.carry(tasks[i].SKU)
		if !ok {
			return f.named(gang)
		}
		n += each * int64(len(tasks[i].Leaves))
	}
	return n
}

// named counts the GPUs for which the tasks of a gang ask.
func (f *attemptFold) named(gang int32) (n int64) {
	if f.job == nil || int(gang) >= len(f.job.Gangs) {
		return 0
	}
	for _, o := range f.job.Gangs[gang].Tasks {
		n += f.job.Roles[f.roles[o]].Launch.GPU
	}
	return n
}

func (f *attemptFold) exited(id model.AttemptID, task int32, x model.Exit) {
	a := f.live[id]
	if a != nil {
		kept := a.Told > 0 && x.Code == 0 && x.Cause == "" && !x.Own && f.job != nil && f.job.Hints.Checkpoint
		a.saved = a.saved || x.Saved || kept
	}
	switch {
	case a == nil:
	case !a.takes(failed(&x)):
		a.MoreTasks++
	default:
		a.Tasks = append(a.Tasks, rest.PastTask{Task: f.name(task), Exit: rest.ExitOf(&x)})
		a.exits = append(a.exits, x)
		f.lines++
		f.bound()
	}
}

func failed(x *model.Exit) bool { return x.Code != 0 || x.Cause != "" }

// name is the name of a task, such as "main-0".
func (f *attemptFold) name(task int32) string {
	if f.job == nil || int(task) >= len(f.roles) {
		return fmt.Sprint(task)
	}
	role := f.roles[task]
	return fmt.Sprintf("%s-%d", f.job.Roles[role].Name, task-f.first[role])
}

func (f *attemptFold) ended(at model.Time, e *model.AttemptEnded) {
	a := f.live[e.Attempt]
	if a == nil {
		return
	}
	delete(f.live, e.Attempt)
	a.Ended, a.Cause, a.Message = at, e.Cause, e.Message
	for i := range a.Tasks {
		if x := &a.exits[i]; failed(x) {
			a.Tasks[i].ExitClass = rest.ClassOf(x, e.Cause)
		}
	}
	a.exits = nil
	if a.Started == 0 || e.Cause == model.EndSucceeded || a.saved && a.count[1] == 0 {
		return
	}
	saved := max(a.Started, a.Checkpoint)
	a.Lost = a.GPUs * int64((at-saved)/model.Time(model.Second))
}

// over marks the last attempt of each gang as final.
func (f *attemptFold) over() {
	seen := map[int32]bool{}
	for _, a := range slices.Backward(f.all) {
		for i := range a.Tasks {
			if !seen[a.ID.Gang] {
				a.Tasks[i].ExitClass.Final()
			}
		}
		seen[a.ID.Gang] = true
	}
}

// Attempts returns the job's attempts, the oldest first. left is how many older ones are left
// out.
func (f *attemptFold) Attempts() (attempts []rest.PastAttempt, left int) {
	for _, a := range f.all {
		attempts = append(attempts, a.PastAttempt)
	}
	return attempts, f.left
}

// nodesOf lists the nodes of tasks, each once.
func nodesOf(tasks []cell.Task) []cell.NodeName {
	var out []cell.NodeName
	seen := map[cell.NodeName]bool{}
	for i := range tasks {
		if n := tasks[i].Node; !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// otherJob is the job for which an attempt was preempted.
type otherJob struct {
	Ref      string // in the reader's form
	VC       cell.VCName
	Priority cell.Priority
}

// Why says by which job and rule an attempt was preempted.
func (f *attemptFold) Why(a *rest.PastAttempt, by otherJob) string {
	switch {
	case f.job == nil || a.By == nil:
		return ""
	case f.job.Priority < cell.MinGuaranteed || a.Lazy:
		return fmt.Sprintf("its GPUs were borrowed from VC %s, and job %s there needed them", by.VC, by.Ref)
	case by.VC != f.job.VC:
		return fmt.Sprintf("its GPUs are guaranteed to VC %s, and job %s there needed them", by.VC, by.Ref)
	case by.Priority > f.job.Priority:
		return fmt.Sprintf("job %s has a higher priority (%d, and this one %d)", by.Ref, by.Priority, f.job.Priority)
	}
	return fmt.Sprintf("the policy of VC %s put job %s first", by.VC, by.Ref)
}

func askedBy(by model.Subject, reason string) string {
	text := "asked by " + string(by)
	if reason != "" {
		text += ": " + reason
	}
	return text
}
