package simulate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/sim/metrics"
)

// Replay repeats a journal on its own cluster: submissions, stops by users, changes of the
// configuration and faults of nodes and devices happen at their recorded times. Each task
// works as long as it did then. A policy in the spec replaces those of the virtual clusters:
// the result is what would have happened under it. Of the spec it reads Policy ("" is the
// journal's own), VCPolicies, RestartCost, Noise, Spreads and Seed.
func Replay(ctx context.Context, spec Spec, j *Journal, o Options) (*Result, error) {
	p, old, err := spec.planReplay(ctx, j)
	if err != nil {
		return nil, err
	}
	return p.replay(ctx, &spec, j, old, o)
}

// planReplay makes a plan for the replay of a journal.
func (s *Spec) planReplay(ctx context.Context, j *Journal) (*plan, *recordedWork, error) {
	p := &plan{}
	if err := s.readFlags(p).all(); err != nil {
		return nil, nil, err
	}
	old, err := readRecorded(ctx, j, p)
	if err == nil {
		p.policies, err = s.overrides(old)
	}
	return p, old, err
}

// replay reads a journal for the second time and repeats it.
func (p *plan) replay(ctx context.Context, spec *Spec, j *Journal, old *recordedWork, o Options) (*Result, error) {
	p.config = p.policies(old.config)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, stop := iter.Pull2(func(yield func(model.Record, error) bool) {
		err := j.Replay(ctx, 0, func(r model.Record) error {
			if !yield(r, nil) {
				return context.Canceled
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			yield(model.Record{}, err)
		}
	})
	defer stop()
	s := &replayWorkload{recordedWork: old, next: next, policies: p.policies, noise: p.noise, byJob: map[*model.Job]*replayedJob{},
		byID: map[model.JobID]*replayedJob{}, byOldID: map[model.JobID]*replayedJob{}, names: map[ownName]bool{}}
	r, err := p.runWorkload(ctx, cmp.Or(spec.Policy, ownPolicies(old.config)), s,
		timeframe{old.origin, old.horizon()}, o)
	if err == nil {
		r.Replayed = &old.counts
	}
	return r, err
}

// ownPolicies names the policies of a configuration.
func ownPolicies(c *model.Config) string {
	var names []string
	for i := range c.VCs {
		names = append(names, cmp.Or(c.VCs[i].Policy, "fifo"))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "+")
}

// overrides returns a function that puts the policies of the flags into a configuration. What
// a flag does not name stays as the virtual cluster has it: backfill, least run time, moves
// for defragmentation and budget of preemptions.
func (s *Spec) overrides(old *recordedWork) (func(*model.Config) *model.Config, error) {
	if err := s.checkVCNames(old.config); err != nil {
		return nil, err
	}
	var wrong problems
	texts := map[cell.VCName]string{}
	for i := range old.config.VCs {
		if name := old.config.VCs[i].Name; s.Policy != "" {
			texts[name] = s.Policy
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.VCPolicies)) {
		texts[cell.VCName(name)] = s.VCPolicies[name]
	}
	read := map[string]model.VCConfig{}
	for _, text := range texts {
		if _, done := read[text]; !done {
			vc, err := readPolicy(text, old.medianService)
			wrong.add(err)
			read[text] = vc
		}
	}
	return func(c *model.Config) *model.Config {
		out := *c
		out.VCs = slices.Clone(c.VCs)
		for i := range out.VCs {
			vc := &out.VCs[i]
			text, ok := texts[vc.Name]
			if !ok && s.Policy != "" { // a virtual cluster that came later
				text, ok = s.Policy, true
			}
			if ok {
				override(vc, text, read[text])
			}
		}
		return &out
	}, wrong.all()
}

// override puts a policy into a virtual cluster.
func override(vc *model.VCConfig, text string, by model.VCConfig) {
	vc.Policy, vc.Params = by.Policy, by.Params
	_, keys, _ := strings.Cut(text, ":")
	for _, kv := range strings.Split(keys, ",") {
		switch key, _, _ := strings.Cut(kv, "="); key {
		case "backfill":
			vc.Backfill = by.Backfill
		case "minRun":
			vc.MinRun = by.MinRun
		case "defragmentation":
			vc.Moves = by.Moves
		case "budget":
			vc.Budget = by.Budget
		}
	}
}

// replayWorkload is the workload of a journal that is replayed.
type replayWorkload struct {
	*recordedWork
	next     func() (model.Record, error, bool)
	policies func(*model.Config) *model.Config
	noise    func(uint64) int64
	began    bool
	done     bool
	byJob    map[*model.Job]*replayedJob
	byID     map[model.JobID]*replayedJob // by the id in the replay
	byOldID  map[model.JobID]*replayedJob // by the id in the journal
	names    map[ownName]bool             // taken by jobs that have not ended
}

// ownName is a user's name of a job.
type ownName struct {
	user model.Subject
	name model.JobName
}

// replayedJob is a job of the journal that was submitted again and has not ended.
type replayedJob struct {
	recorded *recordedJob
	job      *model.Job
	oldID    model.JobID
	id       model.JobID
	tasks    []replayedTask
	stop     bool // its user stops it as soon as it is accepted
}

func (a *replayedJob) name() ownName { return ownName{a.job.User, a.job.Name} }

// replayedTask is the progress of a task in the replay. starts counts its starts. ended counts
// the runs that it ended by itself in the attempt retry of its job.
type replayedTask struct {
	starts, ended int
	retry         int32
	last          model.AttemptID // that it ended by itself: a stop makes the world repeat that fact
}

// nextInput implements story: the next command of the journal. Events before it that came from no
// command are scheduled for their times.
func (s *replayWorkload) nextInput(r *runner) (model.Time, engine.Input, bool) {
	for {
		rec, err, ok := s.next()
		if err != nil {
			r.fail(err)
		}
		if err != nil || !ok {
			s.done = true
			return 0, engine.Input{}, false
		}
		if in, is := s.input(r, rec); is {
			return rec.Time, in, true
		}
		if s.began { // nothing else comes before the configuration
			s.scheduleEvent(r, rec)
		}
	}
}

// input turns an event that a command caused into that command.
func (s *replayWorkload) input(r *runner, rec model.Record) (engine.Input, bool) {
	switch e := rec.Event.(type) {
	case model.Configured:
		s.began = true
		return engine.Input{Reply: r.configured, Command: model.Reconfigure{Meta: meta(), Config: s.policies(e.Config),
			Renamed: e.Renamed, RenamedNodes: e.RenamedNodes}}, true
	case model.NodeCordoned:
		return engine.Input{Command: model.Cordon{Meta: meta(), Node: e.Node, On: e.On, Drain: e.Drain, Reason: e.Reason}}, true
	case model.JobSubmitted:
		old := s.jobs[e.ID]
		if old == nil || old.workUnknown() || !r.fits(e.Job, old.gpus) {
			return engine.Input{}, false
		}
		return s.submit(r, old, &e), true
	}
	return engine.Input{}, false
}

// submit submits a job again, under its old name. It gets another name where a job of its
// user and that name still runs, though it had ended by then in the journal.
func (s *replayWorkload) submit(r *runner, old *recordedJob, e *model.JobSubmitted) engine.Input {
	a := &replayedJob{recorded: old, job: e.Job, oldID: e.ID, tasks: make([]replayedTask, len(old.tasks))}
	for s.names[a.name()] {
		a.job.Name = model.JobName(fmt.Sprintf("%s-%d", a.job.Name, e.ID))
	}
	if most := old.longest(); s.noise != nil && most > 0 {
		a.job.Hints.Duration = max(most/1000*model.Duration(s.noise(uint64(e.ID))), 1)
	}
	s.names[a.name()] = true
	s.byJob[a.job], s.byOldID[e.ID] = a, a
	r.result.Submitted++
	return engine.Input{Command: model.Submit{Meta: meta(), Job: a.job}, Reply: func(reply engine.Reply) {
		if !r.accepted(a.job, reply) {
			s.forget(a)
			return
		}
		a.id = reply.Answer.Job
		s.byID[a.id] = a
		if a.stop {
			s.stopNow(r, a)
		}
	}}
}

func (s *replayWorkload) stopNow(r *runner, a *replayedJob) {
	r.world.Give(engine.Input{Command: model.Stop{Meta: meta(), Job: a.id}})
}

func (s *replayWorkload) forget(a *replayedJob) {
	delete(s.byJob, a.job)
	delete(s.byOldID, a.oldID)
	delete(s.names, a.name())
	delete(s.byID, a.id)
}

// scheduleEvent schedules the other events: faults, and what users did to single jobs. These may
// have another id now, or may have ended.
func (s *replayWorkload) scheduleEvent(r *runner, rec model.Record) {
	w := r.world
	at := func(f func()) { w.At(model.Duration(rec.Time-w.Now()), f) }
	rebooted := s.reboots[rec.Seq]
	wish := func(id model.JobID, as func(model.JobID) model.Command) {
		at(func() {
			if a := s.byOldID[id]; a != nil && a.id != 0 {
				w.Give(engine.Input{Command: as(a.id)})
			}
		})
	}
	switch e := rec.Event.(type) {
	case model.JobHeld:
		wish(e.Job, func(id model.JobID) model.Command {
			return model.Hold{Meta: meta(), Job: id, On: e.On, Reason: e.Reason}
		})
	case model.JobRequeued:
		wish(e.Job, func(id model.JobID) model.Command {
			return model.Requeue{Meta: meta(), Job: id, Hold: e.Hold, Reason: e.Reason}
		})
	case model.JobUpdated:
		wish(e.Job, func(id model.JobID) model.Command {
			return model.Update{Meta: meta(), Job: id, Priority: e.Priority, TimeLimit: e.TimeLimit}
		})
	case model.StopRequested:
		at(func() {
			if a := s.byOldID[e.Job]; a != nil && a.id == 0 {
				a.stop = true
			} else if a != nil {
				s.stopNow(r, a)
			}
		})
	case model.NodeHealth:
		switch {
		case slices.Contains(rebooted, e.Node) || e.Up && e.Reason == "rebooted":
			at(func() { w.Reboot(e.Node) })
		case e.Up:
			at(func() { w.Up(e.Node) })
		default:
			at(func() { w.Down(e.Node, e.Reason) })
		}
	case model.LeafHealth:
		at(func() { w.Leaf(e) })
	case model.TaskExited:
		for _, n := range rebooted {
			at(func() { w.Reboot(n) })
		}
	}
}

// work implements workload. A task that ended by itself does as much work again, in the same
// attempt of its job, and ends as it did. One that did not runs until it is stopped. Where
// the end was not seen or is not repeated it works as long as is known of its job.
func (s *replayWorkload) work(t *sim.Task) (model.Duration, int32) {
	a := s.byJob[t.Job]
	task := &a.recorded.tasks[t.Start.Task]
	work, code := model.Duration(0), int32(0)
	switch run := a.run(t); {
	case run != nil:
		work, code = run.work, run.exit.Code
	case a.recorded.open:
		work = cmp.Or(task.unfinished, a.recorded.longest(), a.recorded.declared)
	case a.recorded.cutShort:
		work = max(task.unfinished, a.recorded.longest())
		if !a.recorded.succeeded {
			code = 1
		}
	default:
		return 0, 0
	}
	if a.recorded.checkpoint {
		work -= t.Served
	}
	if n := a.tasks[t.Start.Task].starts; n < len(task.starts) && task.starts[n].work > 0 {
		work = max(work, task.starts[n].work+1) // in the journal it was not done after that much work
	}
	return max(work, 1), code
}

// run is the recorded run that the starting task repeats: that of the same attempt of its
// job, or of the last one there was. It is nil where the task did not end by itself.
func (a *replayedJob) run(t *sim.Task) *recordedRun {
	now := &a.tasks[t.Start.Task]
	if now.retry != t.Retry {
		now.retry, now.ended = t.Retry, 0
	}
	return a.recorded.tasks[t.Start.Task].run(min(t.Retry, a.recorded.retry), now.ended)
}

// jobFacts implements story.
func (s *replayWorkload) jobFacts(_ model.JobID, j *model.Job) metrics.Facts {
	a := s.byJob[j]
	return metrics.Facts{Duration: a.recorded.longest(), TraceID: strconv.FormatInt(int64(a.oldID), 10), App: j.Hints.App, Model: j.Hints.Model}
}

// fillBehavior implements story. A task takes as long to start, and to end once it is told to, as
// it did at that start. Where it was not told to end then, the last earlier start counts at
// which it was. What jobs reported is not repeated.
func (s *replayWorkload) fillBehavior(t *sim.Task, b *sim.Behavior) {
	a := s.byJob[t.Job]
	starts := a.recorded.tasks[t.Start.Task].starts
	n := a.tasks[t.Start.Task].starts
	if run := a.run(t); run != nil && (run.refused == "" || n >= len(starts) || !starts[n].stopRepeats()) {
		b.Exit, b.Refuse, b.RefuseJob = &run.exit, run.refused, true
	}
	a.tasks[t.Start.Task].starts++
	if len(starts) == 0 {
		return
	}
	n = min(n, len(starts)-1)
	b.StartDelay = starts[n].delay
	told := n
	for told >= 0 && (starts[told].stopped == nil || told < n && !starts[told].stopRepeats()) {
		told--
	}
	if told < 0 {
		return
	}
	was := &starts[told]
	b.StopDelay, b.Stopped = was.stopDelay, was.stopped
	if was.stopped.Own { // it was done before the stop reached it
		b.StopDelay, b.Stopped, b.OwnEnd = was.stopDelay+1, &model.Exit{Code: 143, Signal: 15}, true
	}
}

// gpus implements story.
func (s *replayWorkload) gpus(t *sim.Task) int32 { return s.byJob[t.Job].recorded.gpus }

// factHappened implements story: it counts the runs that tasks ended by themselves.
func (s *replayWorkload) factHappened(f model.Fact) {
	var id model.AttemptID
	task := int32(-1)
	switch e := f.(type) {
	case model.TaskExited:
		if e.Exit.Own {
			id, task = e.Attempt, e.Task
		}
	case model.TaskRefused:
		if e.Job {
			id, task = e.Attempt, e.Task
		}
	}
	if a := s.byID[id.Job]; task >= 0 && a != nil {
		if now := &a.tasks[task]; now.last != id {
			now.last = id
			now.ended++
		}
	}
}

// dropJob implements story.
func (s *replayWorkload) dropJob(id model.JobID) {
	if a := s.byID[id]; a != nil {
		s.forget(a)
	}
}

// busy implements story.
func (s *replayWorkload) busy() bool { return !s.done || len(s.byJob) > 0 }
