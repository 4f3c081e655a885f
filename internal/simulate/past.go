package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/perf"
	"github.com/combsched/comb/internal/sched"
)

// Journal is a journal to replay: that of a data directory, or of a simulation.
type Journal struct {
	Path string
	// Replay calls f for every record after seq, in order. It is read twice.
	Replay func(ctx context.Context, after uint64, f func(sched.Record) error) error
}

// PastCounts say what of a journal is repeated, and what is not.
type PastCounts struct {
	Jobs int `json:"jobs"` // submitted in the journal
	// Censored had not ended when the journal did: their work is what they had done by
	// then. LeftOut had not run at all and declared no run time: nothing is known of
	// their work, and they are not submitted.
	Censored   int `json:"censored"`
	LeftOut    int `json:"left_out"`
	Stops      int `json:"stops"`       // by users, repeated at their times
	NodeFaults int `json:"node_faults"` // nodes that went down or rebooted, likewise
	LeafFaults int `json:"leaf_faults"` // devices that went bad, likewise
	// Dropped are starts that were refused and tasks whose supervisor was lost: faults of
	// one start, which belong to a place where the task need not be now.
	Dropped int `json:"dropped"`
}

// past is what a journal says about the work of its jobs.
type past struct {
	origin, end sched.Time
	config      *sched.Config // the first
	jobs        map[sched.JobID]*pastJob
	reboots     map[uint64][]cell.NodeName // by the event at which they are repeated
	counts      PastCounts
	digest      string
}

// pastJob is the work of one job.
type pastJob struct {
	tasks []pastTask
	gpus  int32
	// checkpoint says that work is kept over a preemption, so that what its attempts did
	// adds up.
	checkpoint bool
	open       bool           // it had not ended
	declared   sched.Duration // what it said about its run time
}

// pastTask is the work of one task, at full speed: of each run that it ended by
// itself, and since the last of these.
type pastTask struct {
	runs []pastRun
	tail sched.Duration
}

type pastRun struct {
	work sched.Duration
	code int32
}

// longest is the most work that any task did in one run.
func (j *pastJob) longest() sched.Duration {
	most := sched.Duration(0)
	for i := range j.tasks {
		most = max(most, j.tasks[i].tail)
		for _, r := range j.tasks[i].runs {
			most = max(most, r.work)
		}
	}
	return most
}

// unknown reports whether nothing tells how much work a job would have been.
func (j *pastJob) unknown() bool { return j.open && j.longest() == 0 && j.declared == 0 }

// pastReader folds a journal into a past.
type pastReader struct {
	*past
	crowd *crowd
	open  map[sched.JobID]*sched.Job
	live  map[sched.AttemptID]*pastAttempt
	up    map[cell.NodeName]sched.Record // the last time that a node came up
	hash  hash.Hash
	last  sched.Record
}

// pastAttempt is an attempt that has not ended.
type pastAttempt struct {
	job      *pastJob
	tasks    []int32         // of the gang
	nodes    []cell.NodeName // of each
	paces    []*perf.Pace    // of those that run
	startUp  sched.Duration
	speed    perf.Speed
	stopping bool
	// turns is the rotation that it follows, nil when it runs all the time; ran is how
	// long it ran until since, when that began.
	turns *sched.Rotation
	ran   sched.Duration
	since sched.Time
}

// clock is how long an attempt ran, as an instant: paces go by it, since nobody works
// while others have their turn.
func (a *pastAttempt) clock(id sched.AttemptID, now sched.Time) sched.Time {
	ran := sched.Duration(now - a.since)
	if a.turns != nil {
		ran = a.turns.Ran(id, a.since, now)
	}
	return sched.Time(a.ran + ran)
}

// readPast reads a journal once. The plan says what starts and places cost: the work
// that a task did is the time that it ran, less start-up, times its speed.
func readPast(ctx context.Context, j *Journal, p *plan) (*past, error) {
	r := &pastReader{past: &past{jobs: map[sched.JobID]*pastJob{}, reboots: map[uint64][]cell.NodeName{}},
		open: map[sched.JobID]*sched.Job{}, live: map[sched.AttemptID]*pastAttempt{}, up: map[cell.NodeName]sched.Record{}, hash: sha256.New()}
	r.crowd = newCrowd(p, r.faster)
	if err := j.Replay(ctx, 0, r.add); err != nil {
		return nil, err
	}
	if r.config == nil {
		return nil, fmt.Errorf("%s has no configuration: nothing happened there yet", j.Path)
	}
	r.end, r.digest = r.last.Time, hex.EncodeToString(r.hash.Sum(nil))
	for id, a := range r.live {
		for i := range a.tasks {
			r.runEnds(id, a, i, nil)
		}
	}
	for id := range r.open {
		j := r.jobs[id]
		j.open = true
		if j.unknown() {
			r.counts.LeftOut++
		} else {
			r.counts.Censored++
		}
	}
	return r.past, nil
}

// add folds one record.
func (r *pastReader) add(rec sched.Record) error {
	kind, version, data, err := sched.EncodeEvent(rec.Event)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.hash, "%d %d %s/%d %d ", rec.Seq, rec.Time, kind, version, len(data))
	r.hash.Write(data)
	r.last = rec
	switch e := rec.Event.(type) {
	case sched.Configured:
		if r.config == nil {
			r.config, r.origin = e.Config, rec.Time
		}
		r.crowd.configure(&e.Config.Cluster)
	case sched.NodeHealth, sched.LeafHealth:
		r.health(e)
	default:
		if r.config == nil {
			return errors.New("the journal does not begin with a configuration")
		}
		r.job(e)
	}
	return nil
}

// job folds what happens to jobs.
func (r *pastReader) job(e sched.Event) {
	switch e := e.(type) {
	case sched.JobSubmitted:
		r.submitted(e)
	case sched.StopRequested:
		r.counts.Stops++
	case sched.JobEnded:
		delete(r.open, e.Job)
		r.crowd.forget(e.Job)
	case sched.Placed:
		r.placed(e.Attempt, &e.Placement)
	case sched.Joined:
		r.placed(e.Attempt, &e.Placement)
	case sched.StopSent:
		if a := r.live[e.Attempt]; a != nil {
			a.stopping = true
		}
	case sched.AttemptEnded:
		delete(r.live, e.Attempt)
		r.crowd.leave(e.Attempt)
	case sched.Rotated:
		r.rotated(&e.Rotation)
	case sched.TaskRefused:
		r.counts.Dropped++
	case sched.TaskStarted:
		r.started(e)
	case sched.TaskExited:
		r.exited(e)
	}
}

func (r *pastReader) submitted(e sched.JobSubmitted) {
	j := &pastJob{checkpoint: e.Job.Hints.Checkpoint, declared: e.Job.Hints.Duration}
	n := int32(0)
	for i := range e.Job.Roles {
		n += e.Job.Roles[i].Tasks
	}
	j.gpus = leavesOf(e.Job)
	j.tasks = make([]pastTask, n)
	r.jobs[e.ID], r.open[e.ID] = j, e.Job
	r.counts.Jobs++
}

func (r *pastReader) placed(id sched.AttemptID, p *cell.Placement) {
	spec := r.open[id.Job]
	if spec == nil || int(id.Gang) >= len(spec.Gangs) {
		return
	}
	a := &pastAttempt{job: r.jobs[id.Job], tasks: spec.Gangs[id.Gang].Tasks, speed: perf.FullSpeed, since: r.last.Time}
	a.paces = make([]*perf.Pace, len(a.tasks))
	for i := range min(len(p.Tasks), len(a.tasks)) {
		a.nodes = append(a.nodes, p.Tasks[i].Node)
	}
	r.live[id] = a
	a.speed = r.crowd.enter(id, spec, p.Tasks)
	a.startUp = r.crowd.startUp(id, a.job.gpus)
}

// faster lets an attempt work at another speed from now on.
func (r *pastReader) faster(id sched.AttemptID, speed perf.Speed) {
	a := r.live[id]
	if a == nil {
		return
	}
	a.speed = speed
	for _, p := range a.paces {
		if p != nil {
			p.Change(a.clock(id, r.last.Time), speed)
		}
	}
}

// rotated lets attempts that share GPUs take turns from now on.
func (r *pastReader) rotated(turns *sched.Rotation) {
	for _, turn := range turns.Turns {
		for _, id := range turn {
			if a := r.live[id]; a != nil {
				a.ran = sched.Duration(a.clock(id, r.last.Time))
				a.since, a.turns = r.last.Time, turns
			}
		}
	}
	r.crowd.rotate(turns)
}

// at finds a task of a live attempt; i is below 0 where there is none.
func (r *pastReader) at(id sched.AttemptID, task int32) (a *pastAttempt, i int) {
	if a = r.live[id]; a == nil {
		return nil, -1
	}
	return a, slices.Index(a.tasks, task)
}

func (r *pastReader) started(e sched.TaskStarted) {
	if a, i := r.at(e.Attempt, e.Task); i >= 0 && a.paces[i] == nil {
		p := perf.NewPace(a.clock(e.Attempt, r.last.Time), a.startUp, a.speed)
		a.paces[i] = &p
	}
}

func (r *pastReader) exited(e sched.TaskExited) {
	a, i := r.at(e.Attempt, e.Task)
	if i < 0 {
		return
	}
	x := e.Exit
	switch x.Cause {
	case sched.NodeRebooted, sched.NodeLost:
		if i < len(a.nodes) {
			r.rebooted(a.nodes[i])
		}
	case sched.SupervisorLost:
		r.counts.Dropped++
	}
	if !x.Own && (a.stopping || !x.Cause.Accountable()) {
		r.runEnds(e.Attempt, a, i, nil)
		return
	}
	r.runEnds(e.Attempt, a, i, &x)
}

// runEnds counts the work of a run that ends now; exit is that of a task which ended by
// itself.
func (r *pastReader) runEnds(id sched.AttemptID, a *pastAttempt, i int, exit *sched.Exit) {
	p := a.paces[i]
	if p == nil || int(a.tasks[i]) >= len(a.job.tasks) {
		return
	}
	a.paces[i] = nil
	t := &a.job.tasks[a.tasks[i]]
	if !a.job.checkpoint {
		t.tail = 0
	}
	t.tail += p.Done(a.clock(id, r.last.Time))
	if exit != nil {
		t.runs = append(t.runs, pastRun{t.tail, exit.Code})
		t.tail = 0
	}
}

// health counts faults.
func (r *pastReader) health(e sched.Event) {
	switch e := e.(type) {
	case sched.NodeHealth:
		if e.Up {
			r.up[e.Node] = r.last
		} else {
			r.counts.NodeFaults++
		}
	case sched.LeafHealth:
		if !e.Good {
			r.counts.LeafFaults++
		}
	}
}

// rebooted notes that a node was: when it came up at this instant, or else now.
func (r *pastReader) rebooted(n cell.NodeName) {
	up, known := r.up[n]
	if !known || up.Time != r.last.Time {
		up = r.last
		r.up[n] = up
		r.counts.NodeFaults++
	}
	if !slices.Contains(r.reboots[up.Seq], n) {
		r.reboots[up.Seq] = append(r.reboots[up.Seq], n)
	}
}

// medianService is the median GPU-seconds of a job.
func (p *past) medianService() (int64, error) {
	var all []int64
	for _, j := range p.jobs {
		all = append(all, int64(j.longest()/sched.Second)*int64(j.gpus))
	}
	if len(all) == 0 {
		return 0, errors.New("the journal has no jobs, so no median")
	}
	slices.Sort(all)
	return max(all[len(all)/2], 1), nil
}

// horizon is when a replay is over at the latest: all jobs could have run one after the
// other a hundred times by then.
func (p *past) horizon() sched.Time {
	at := p.end
	for _, j := range p.jobs {
		at = at.Add(100 * min(max(j.longest(), j.declared, sched.Hour), 1<<50))
	}
	return at.Add(100 * sched.Duration(p.end-p.origin))
}
