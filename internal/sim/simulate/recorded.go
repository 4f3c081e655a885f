package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// Journal is a journal to replay: that of a data directory, or of a simulation.
type Journal struct {
	Path string
	// Replay calls f for every record after seq, in order. It is read twice.
	Replay func(ctx context.Context, after uint64, f func(model.Record) error) error
}

// ReplayCounts count what of a journal a replay repeats, and what it does not.
type ReplayCounts struct {
	Jobs int `json:"jobs"` // submitted in the journal
	// Censored had not ended when the journal did: their work is what they had done by then.
	// LeftOut had not run at all and declared no run time. Their work is unknown, and they
	// are not submitted.
	Censored   int `json:"censored"`
	LeftOut    int `json:"left_out"`
	Stops      int `json:"stops"`       // by users, repeated at their times
	NodeFaults int `json:"node_faults"` // nodes that went down or rebooted, repeated at their times
	LeafFaults int `json:"leaf_faults"` // devices that went bad, repeated at their times
	// NotRepeated counts by kind what is not repeated: faults of a single start, since the
	// task may now be on another node, and what jobs reported.
	NotRepeated Tally `json:"not_repeated,omitempty"`
}

// The kinds of what is not repeated.
const (
	missedRefusal  = "start that a node refused"
	missedLoss     = "task whose supervisor was lost"
	missedUnknown  = "task that was unknown for a time"
	missedTurn     = "task that did not acknowledge its suspension in time"
	missedProgress = "progress report"
	missedEnd      = "end of a job by its policy or by a fault; it ends when it has done as much"
	missedFailure  = "decision that failed"
)

// recordedWork is what a journal says about the work of its jobs.
type recordedWork struct {
	origin, end model.Time
	config      *model.Config // the first one of the journal
	jobs        map[model.JobID]*recordedJob
	reboots     map[uint64][]cell.NodeName // by number of the event at which they are repeated
	counts      ReplayCounts
	digest      string
}

// recordedJob is the work of one job.
type recordedJob struct {
	tasks []recordedTask
	gpus  int32
	// checkpoint says that work survives a preemption, so the work of its attempts adds up.
	checkpoint bool
	open       bool           // it had not ended when the journal did
	declared   model.Duration // run time that the job declared; 0 is none
	retry      int32          // attempts of the job so far, less one
	// cutShort says that the job was ended by something that a replay does not repeat: not by a
	// task of its last attempt, not by its user and not by its time limit. succeeded is
	// whether it succeeded.
	cutShort, succeeded bool
}

// recordedTask is the work of one task, in time at full speed. runs are those that the task ended
// by itself. unfinished is its work since the last of these. starts are all of its starts but those
// that a node refused.
type recordedTask struct {
	runs       []recordedRun
	unfinished model.Duration
	starts     []recordedStart
}

// recordedRun is a run that a task ended by itself. retry is the attempt of its job, from 0.
// refused is the reason where the start was refused through the job's own fault, else "".
type recordedRun struct {
	retry   int32
	work    model.Duration
	exit    model.Exit
	refused string
}

// recordedStart is one start of a task. delay is how long it took to start. work is the work done
// where the task did not end by itself. stopped is how it ended after it was told to, nil
// where it was not told. stopDelay is how long that took.
type recordedStart struct {
	delay, work, stopDelay model.Duration
	stopped                *model.Exit
}

// stopRepeats reports whether a running task that is told to end would end like this at any time:
// not by itself, and not before it had started.
func (s *recordedStart) stopRepeats() bool {
	return s.stopped != nil && !s.stopped.Own && s.stopped.Cause != model.NeverStarted
}

// run is the n-th run, from 0, that a task ended in one attempt of its job. Where there were
// fewer it is the last of that attempt, and nil where there was none.
func (t *recordedTask) run(retry int32, n int) *recordedRun {
	var last *recordedRun
	for i := range t.runs {
		if t.runs[i].retry != retry {
			continue
		}
		if last = &t.runs[i]; n == 0 {
			break
		}
		n--
	}
	return last
}

// longest is the most work that any task did in one run.
func (j *recordedJob) longest() model.Duration {
	most := model.Duration(0)
	for i := range j.tasks {
		most = max(most, j.tasks[i].unfinished)
		for _, r := range j.tasks[i].runs {
			most = max(most, r.work)
		}
	}
	return most
}

// workUnknown reports whether nothing tells how much work a job is.
func (j *recordedJob) workUnknown() bool { return j.open && j.longest() == 0 && j.declared == 0 }

// journalReader folds a journal into a past.
type journalReader struct {
	*recordedWork
	occupancy *occupancy
	open      map[model.JobID]*model.Job
	live      map[model.AttemptID]*recordedAttempt
	up        map[cell.NodeName]model.Record // the last event with which a node came up
	down      map[cell.NodeName]bool
	hash      hash.Hash
	last      model.Record
}

// recordedAttempt is an attempt that has not ended.
type recordedAttempt struct {
	job        *recordedJob
	tasks      []int32         // of the gang
	nodes      []cell.NodeName // of each task
	paces      []*perf.Pace    // of each task; nil while it does not run
	startUp    model.Duration
	speed      perf.Speed
	retry      int32 // of the job
	placed     model.Time
	startNoted []bool     // of each task: its start is recorded
	stopSent   model.Time // 0 is never
	stopped    model.Time // the attempt's clock right after stopSent
	// rotation is the rotation that the attempt follows, nil while it runs all the time. ran is
	// how long it had run at since, when it began to follow turns.
	rotation *model.Rotation
	ran      model.Duration
	since    model.Time
}

// clock is how long an attempt has run, as an instant. Paces go by this clock, since an
// attempt does no work during the turns of others.
func (a *recordedAttempt) clock(id model.AttemptID, now model.Time) model.Time {
	ran := model.Duration(now - a.since)
	if a.rotation != nil {
		ran = a.rotation.Ran(id, a.since, now)
	}
	return model.Time(a.ran + ran)
}

// readRecorded reads a journal once. A task's work is the time that it ran, less start-up, times
// its speed; the plan says what start-up costs and how fast a placement is.
func readRecorded(ctx context.Context, j *Journal, p *plan) (*recordedWork, error) {
	r := &journalReader{recordedWork: &recordedWork{jobs: map[model.JobID]*recordedJob{}, reboots: map[uint64][]cell.NodeName{}},
		open: map[model.JobID]*model.Job{}, live: map[model.AttemptID]*recordedAttempt{}, up: map[cell.NodeName]model.Record{},
		down: map[cell.NodeName]bool{}, hash: sha256.New()}
	r.occupancy = newOccupancy(p, r.setSpeed)
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
		if j.workUnknown() {
			r.counts.LeftOut++
		} else {
			r.counts.Censored++
		}
	}
	return r.recordedWork, nil
}

// add folds one record.
func (r *journalReader) add(rec model.Record) error {
	kind, version, data, err := model.EncodeEvent(rec.Event)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.hash, "%d %d %s/%d %d ", rec.Seq, rec.Time, kind, version, len(data))
	r.hash.Write(data)
	r.last = rec
	switch e := rec.Event.(type) {
	case model.Configured:
		if r.config == nil {
			r.config, r.origin = e.Config, rec.Time
		}
		r.occupancy.configure(&e.Config.Cluster)
	case model.NodeHealth, model.LeafHealth:
		r.health(e)
	default:
		if r.config == nil {
			return errors.New("the journal does not begin with a configuration")
		}
		r.job(e)
	}
	return nil
}

// job folds the events of jobs.
func (r *journalReader) job(e model.Event) {
	switch e := e.(type) {
	case model.JobSubmitted:
		r.submitted(e)
	case model.StopRequested:
		r.counts.Stops++
	case model.JobRetried:
		if j := r.jobs[e.Job]; j != nil {
			j.retry++
		}
	case model.JobEnded:
		r.jobEnded(e)
	case model.Placed:
		r.placed(e.Attempt, &e.Placement)
	case model.Joined:
		r.placed(e.Attempt, &e.Placement)
	case model.StopSent:
		if a := r.live[e.Attempt]; a != nil && a.stopSent == 0 {
			a.stopSent, a.stopped = r.last.Time, a.clock(e.Attempt, r.last.Time+1)
		}
	case model.AttemptEnded:
		delete(r.live, e.Attempt)
		r.occupancy.leave(e.Attempt)
	case model.Rotated:
		r.rotated(&e.Rotation)
	case model.TaskRefused:
		r.refused(e)
	case model.TaskStarted:
		r.started(e)
	case model.TaskExited:
		r.exited(e)
	default:
		r.countNotRepeated(e)
	}
}

// countNotRepeated counts events that are not repeated and say nothing about work.
func (r *journalReader) countNotRepeated(e model.Event) {
	switch e := e.(type) {
	case model.TaskUnknown:
		if a, i := r.liveTask(e.Attempt, e.Task); i >= 0 && i < len(a.nodes) && !r.down[a.nodes[i]] {
			r.counts.NotRepeated.add(missedUnknown)
		}
	case model.Progress:
		r.counts.NotRepeated.add(missedProgress)
	case model.Quarantined, model.PolicyFailed:
		r.counts.NotRepeated.add(missedFailure)
	}
}

// jobEnded notes how a job ended.
func (r *journalReader) jobEnded(e model.JobEnded) {
	delete(r.open, e.Job)
	r.occupancy.forget(e.Job)
	j := r.jobs[e.Job]
	if j == nil || e.Cause == model.EndStopped || e.Cause == model.EndTimeLimit {
		return
	}
	ends := func(t recordedTask) bool { return t.run(j.retry, 0) != nil }
	if j.succeeded = e.Phase == model.Succeeded; !slices.ContainsFunc(j.tasks, ends) {
		j.cutShort = true
		if e.Cause != model.EndSucceeded { // it ended well within the grace of a preemption
			r.counts.NotRepeated.add(missedEnd)
		}
	}
}

// noteStart records the start of a task, once for each attempt, and returns it.
func (r *journalReader) noteStart(a *recordedAttempt, i int, delay model.Duration) *recordedStart {
	t := &a.job.tasks[a.tasks[i]]
	if !a.startNoted[i] {
		a.startNoted[i] = true
		t.starts = append(t.starts, recordedStart{delay: delay})
	}
	return &t.starts[len(t.starts)-1]
}

// refused counts a start that a node refused. A refusal through the job's own fault is an end
// like any other, and is repeated.
func (r *journalReader) refused(e model.TaskRefused) {
	if !e.Job {
		r.counts.NotRepeated.add(missedRefusal)
		return
	}
	if a, i := r.liveTask(e.Attempt, e.Task); i >= 0 && int(a.tasks[i]) < len(a.job.tasks) {
		s := r.noteStart(a, i, model.Duration(r.last.Time-a.placed))
		if a.stopSent > 0 { // the refusal came before the stop did
			s.stopDelay, s.stopped = model.Duration(r.last.Time-a.stopSent)+1, &model.Exit{Cause: model.NeverStarted}
		}
		t := &a.job.tasks[a.tasks[i]]
		t.runs = append(t.runs, recordedRun{retry: a.retry, refused: e.Reason})
	}
}

func (r *journalReader) submitted(e model.JobSubmitted) {
	j := &recordedJob{checkpoint: e.Job.Hints.Checkpoint, declared: e.Job.Hints.Duration}
	n := int32(0)
	for i := range e.Job.Roles {
		n += e.Job.Roles[i].Tasks
	}
	j.gpus = leavesOf(e.Job)
	j.tasks = make([]recordedTask, n)
	r.jobs[e.ID], r.open[e.ID] = j, e.Job
	r.counts.Jobs++
}

func (r *journalReader) placed(id model.AttemptID, p *cell.Placement) {
	spec := r.open[id.Job]
	if spec == nil || int(id.Gang) >= len(spec.Gangs) {
		return
	}
	a := &recordedAttempt{job: r.jobs[id.Job], tasks: spec.Gangs[id.Gang].Tasks, speed: perf.FullSpeed, since: r.last.Time, placed: r.last.Time}
	a.retry, a.paces, a.startNoted = a.job.retry, make([]*perf.Pace, len(a.tasks)), make([]bool, len(a.tasks))
	for i := range min(len(p.Tasks), len(a.tasks)) {
		a.nodes = append(a.nodes, p.Tasks[i].Node)
	}
	r.live[id] = a
	a.speed = r.occupancy.enter(id, spec, p.Tasks)
	a.startUp = r.occupancy.startUp(id, a.job.gpus)
}

// setSpeed changes the speed of an attempt from now on.
func (r *journalReader) setSpeed(id model.AttemptID, speed perf.Speed) {
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

// rotated sets the turns of attempts that share GPUs from now on.
func (r *journalReader) rotated(turns *model.Rotation) {
	for _, turn := range turns.Turns {
		for _, id := range turn {
			if a := r.live[id]; a != nil {
				a.ran = model.Duration(a.clock(id, r.last.Time))
				a.since, a.rotation = r.last.Time, turns
				if a.stopSent == r.last.Time {
					a.stopped = a.clock(id, r.last.Time+1)
				}
			}
		}
	}
	r.occupancy.rotate(turns)
}

// liveTask finds a task of a live attempt. i is its index in the attempt, and -1 where there is
// none.
func (r *journalReader) liveTask(id model.AttemptID, task int32) (a *recordedAttempt, i int) {
	if a = r.live[id]; a == nil {
		return nil, -1
	}
	return a, slices.Index(a.tasks, task)
}

func (r *journalReader) started(e model.TaskStarted) {
	if a, i := r.liveTask(e.Attempt, e.Task); i >= 0 && a.paces[i] == nil && int(a.tasks[i]) < len(a.job.tasks) {
		r.noteStart(a, i, model.Duration(r.last.Time-a.placed))
		p := perf.NewPace(a.clock(e.Attempt, r.last.Time), a.startUp, a.speed)
		a.paces[i] = &p
	}
}

// noteUnseenStart records the start of a task of which the journal has only the end. That
// happens to a task that starts while its attempt is being stopped.
func (r *journalReader) noteUnseenStart(id model.AttemptID, a *recordedAttempt, i int) {
	delay, clock := model.Duration(0), a.clock(id, a.placed)
	if a.stopSent > 0 {
		delay, clock = model.Duration(min(a.stopSent+1, r.last.Time)-a.placed), a.stopped
	}
	r.noteStart(a, i, delay)
	p := perf.NewPace(clock, a.startUp, a.speed)
	a.paces[i] = &p
}

func (r *journalReader) exited(e model.TaskExited) {
	a, i := r.liveTask(e.Attempt, e.Task)
	if i < 0 || int(a.tasks[i]) >= len(a.job.tasks) {
		return
	}
	x := e.Exit
	if !a.startNoted[i] && x.Cause != model.NeverStarted {
		r.noteUnseenStart(e.Attempt, a, i)
	}
	if x.Cause.Accountable() || x.Cause == model.NeverStarted {
		s := r.noteStart(a, i, model.Duration(r.last.Time-a.placed)+1) // one that never started ended after its stop
		if a.stopSent > 0 {
			s.stopDelay, s.stopped = model.Duration(r.last.Time-a.stopSent), &x
		}
	}
	switch x.Cause {
	case model.NodeRebooted, model.NodeLost:
		if i < len(a.nodes) {
			r.rebooted(a.nodes[i])
		}
	case model.SupervisorLost:
		r.counts.NotRepeated.add(missedLoss)
	case model.SuspendTimeout:
		r.counts.NotRepeated.add(missedTurn)
	}
	if !x.Own && (a.stopSent > 0 || !x.Cause.Accountable()) {
		r.runEnds(e.Attempt, a, i, nil)
		return
	}
	r.runEnds(e.Attempt, a, i, &x)
}

// runEnds adds the work of a run that ends now. exit is nil where the task did not end by
// itself.
func (r *journalReader) runEnds(id model.AttemptID, a *recordedAttempt, i int, exit *model.Exit) {
	p := a.paces[i]
	if p == nil {
		return
	}
	a.paces[i] = nil
	t := &a.job.tasks[a.tasks[i]]
	if !a.job.checkpoint {
		t.unfinished = 0
	}
	did := p.Done(a.clock(id, r.last.Time))
	t.unfinished += did
	if exit == nil {
		t.starts[len(t.starts)-1].work = did
	} else {
		t.runs = append(t.runs, recordedRun{retry: a.retry, work: t.unfinished, exit: *exit})
		t.unfinished = 0
	}
}

// health counts faults.
func (r *journalReader) health(e model.Event) {
	switch e := e.(type) {
	case model.NodeHealth:
		if r.down[e.Node] = !e.Up; e.Up {
			r.up[e.Node] = r.last
		} else {
			r.counts.NodeFaults++
		}
	case model.LeafHealth:
		if !e.Good {
			r.counts.LeafFaults++
		}
	}
}

// rebooted notes the reboot of a node: at the event with which it came up at this instant, or
// else at the present event.
func (r *journalReader) rebooted(n cell.NodeName) {
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

// medianService is the median over jobs of their GPU-seconds.
func (p *recordedWork) medianService() (int64, error) {
	var all []int64
	for _, j := range p.jobs {
		all = append(all, int64(j.longest()/model.Second)*int64(j.gpus))
	}
	if len(all) == 0 {
		return 0, errors.New("the journal has no jobs, so no median")
	}
	slices.Sort(all)
	return max(all[len(all)/2], 1), nil
}

// horizon is when a replay ends at the latest. By then all jobs could have run one after the
// other a hundred times.
func (p *recordedWork) horizon() model.Time {
	at := p.end
	for _, j := range p.jobs {
		at = at.Add(100 * min(max(j.longest(), j.declared, model.Hour), 1<<50))
	}
	return at.Add(100 * model.Duration(p.end-p.origin))
}
