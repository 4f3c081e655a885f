package lab

import (
	"fmt"
	"slices"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// timeline is what the event stream showed, by job and run. Times are the
// server's.
type timeline struct {
	events []rest.Event
	jobs   map[model.JobID]*jobLine
	byName map[model.JobName]*jobLine // the latest of a name
}

// jobLine is one job's history.
type jobLine struct {
	id        model.JobID
	spec      *model.Job
	submitted model.Time
	ended     model.Time // 0 while it lives
	phase     model.Phase
	runs      []*taskRun
	stops     []stopLine
	steps     int64 // last step reported
}

// taskRun is one task in one attempt.
type taskRun struct {
	attempt model.AttemptID
	task    int32
	role    string
	index   int32
	node    cell.NodeName
	machine cell.NodeName // see machine
	devices []int32
	pid     int32
	placed  model.Time
	started model.Time // 0: never
	exited  model.Time // 0: not yet
	freed   model.Time // 0: its leaves are held
	exit    model.Exit
}

type stopLine struct {
	at   model.Time
	stop model.StopSent
}

func newTimeline() *timeline {
	return &timeline{jobs: map[model.JobID]*jobLine{}, byName: map[model.JobName]*jobLine{}}
}

// add folds one event and returns it decoded.
func (t *timeline) add(e rest.Event) (model.Event, error) {
	event, err := model.DecodeEvent(e.Kind, e.Version, e.Data)
	if err != nil {
		return nil, err
	}
	t.events = append(t.events, e)
	switch v := event.(type) {
	case model.JobSubmitted:
		j := &jobLine{id: v.ID, spec: v.Job, submitted: e.Time}
		t.jobs[v.ID], t.byName[v.Job.Name] = j, j
	case model.Placed:
		t.place(e.Time, v)
	case model.TaskStarted:
		if r := t.run(v.Attempt, v.Task); r != nil && r.started == 0 {
			r.started, r.pid = e.Time, v.PID
		}
	case model.TaskExited:
		if r := t.run(v.Attempt, v.Task); r != nil {
			r.exited, r.exit = e.Time, v.Exit
		}
	case model.StopSent:
		j := t.job(v.Attempt.Job)
		j.stops = append(j.stops, stopLine{e.Time, v})
	case model.AttemptEnded:
		for _, r := range t.job(v.Attempt.Job).runs {
			if r.attempt == v.Attempt {
				r.freed = e.Time
			}
		}
	case model.Progress:
		j := t.job(v.Attempt.Job)
		j.steps = max(j.steps, v.Step)
	case model.JobEnded:
		j := t.job(v.Job)
		j.ended, j.phase = e.Time, v.Phase
	}
	return event, nil
}

// job returns a job's line; one that nobody reads for a job that was submitted
// before the stream began.
func (t *timeline) job(id model.JobID) *jobLine {
	if j := t.jobs[id]; j != nil {
		return j
	}
	return &jobLine{id: id}
}

func (t *timeline) place(at model.Time, p model.Placed) {
	j := t.jobs[p.Attempt.Job]
	if j == nil {
		return
	}
	for i, task := range j.spec.Gangs[p.Attempt.Gang].Tasks {
		role, index := taskName(j.spec, task)
		place := p.Placement.Tasks[i]
		j.runs = append(j.runs, &taskRun{attempt: p.Attempt, task: task, role: role, index: index,
			node: place.Node, machine: machine(&place), devices: place.Devices, placed: at})
	}
}

// machine is what the experiments take for a machine: a node, and of one with several GPUs the one
// that the task has.
func machine(at *cell.Task) cell.NodeName {
	if len(at.Devices) > 0 && at.Devices[0] > 0 {
		return cell.NodeName(fmt.Sprintf("%s/%d", at.Node, at.Devices[0]))
	}
	return at.Node
}

func (t *timeline) run(a model.AttemptID, task int32) *taskRun {
	for _, r := range t.job(a.Job).runs {
		if r.attempt == a && r.task == task {
			return r
		}
	}
	return nil
}

// taskName gives the role and the index of a task's ordinal.
func taskName(j *model.Job, task int32) (string, int32) {
	for _, r := range j.Roles {
		if task < r.Tasks {
			return r.Name, task
		}
		task -= r.Tasks
	}
	return "?", task
}

// started returns the runs of a job that started, in order of start.
func (j *jobLine) started() []*taskRun {
	var out []*taskRun
	for _, r := range j.runs {
		if r.started > 0 {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *taskRun) int { return int(a.started - b.started) })
	return out
}

// nodes returns the machines that runs used, sorted, each once.
func nodes(runs []*taskRun) []cell.NodeName {
	var out []cell.NodeName
	for _, r := range runs {
		out = append(out, r.machine)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// most returns how many of the runs were alive at once, from start to exit.
func most(runs []*taskRun) int {
	best := 0
	for _, r := range runs {
		n := 0
		for _, o := range runs {
			if o.started <= r.started && (o.exited == 0 || o.exited > r.started) {
				n++
			}
		}
		best = max(best, n)
	}
	return best
}

// twoOwners returns a device that two runs held at the same time, "" if none.
// Holding is from placement to the proof of death.
func (t *timeline) twoOwners() string {
	type device struct {
		node  cell.NodeName
		index int32
	}
	held := map[device][]*taskRun{}
	for _, j := range t.jobs {
		for _, r := range j.runs {
			for _, d := range r.devices {
				held[device{r.node, d}] = append(held[device{r.node, d}], r)
			}
		}
	}
	for d, runs := range held {
		slices.SortFunc(runs, func(a, b *taskRun) int { return int(a.placed - b.placed) })
		for i := 1; i < len(runs); i++ {
			if runs[i-1].freed == 0 || runs[i-1].freed > runs[i].placed {
				return string(d.node) + ": " + runs[i-1].attempt.String() + " and " + runs[i].attempt.String()
			}
		}
	}
	return ""
}

// between is the time from a to b.
func between(a, b model.Time) time.Duration { return time.Duration(b-a) * time.Microsecond }
