// Package sim simulates executors and their clock: it implements engine.Executor and
// engine.Inputs with one heap of future events. It has no goroutine, no wall clock and no
// randomness of its own, so that a run depends only on what the caller puts in. It checks by
// itself, without trusting the core, that no device has two owners and that no task runs twice.
// It must not decide anything and must not look into the core's state.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/engine"
)

// roundsPerInstant bounds how many rounds the loop may take without time passing.
const roundsPerInstant = 10000

// Behavior is how one task behaves in one attempt.
type Behavior struct {
	// Refuse, when set, makes the start fail with this reason; RefuseJob says
	// that it is the job's own fault.
	Refuse    string
	RefuseJob bool
	// Speed is how much work is done in a second; 0 is full speed. In each run StartUp passes
	// before any work is done.
	Speed   perf.Speed
	StartUp model.Duration
	// StartDelay passes between the action and the process.
	StartDelay model.Duration
	// RunFor is the work after which the task ends by itself, as the time that it takes at full
	// speed. 0: it runs until it is told to end.
	RunFor model.Duration
	// Tell, when above 0, is when the first task of a job reports its progress, once: after that
	// much work in this run, in milliseconds.
	Tell model.Duration
	// Code is the exit code at the end of RunFor; Exit, when set, replaces the whole exit.
	Code int32
	Exit *model.Exit
	// StopDelay passes between SIGTERM and the exit. Stubborn ignores SIGTERM:
	// the task dies when the grace is over.
	StopDelay model.Duration
	Stubborn  bool
	// Stopped, when set, is its exit StopDelay after it was told to end, whatever its grace is
	// and whether it has started. OwnEnd says that it ends by itself if it finishes its work
	// before that.
	Stopped *model.Exit
	OwnEnd  bool
	// Packed is its speed beside others on the same devices, in millionths of its own; 0 is as
	// fast as alone. Switch is the time that it loses of each of its turns.
	Packed perf.Speed
	Switch model.Duration
	// Report is how often it reports its progress, 0 never: the work done in milliseconds as its
	// steps, and its use of devices (see model.DeviceUse). With Shared it reports only while
	// others are on the same devices.
	Report model.Duration
	Shared bool
	// Loss, when set, gives the loss that its reports tell after the work of all its runs; their
	// steps then count all of it, too.
	Loss     func(work model.Duration) string
	Util     int32
	MemoryMB int64
}

// Task is what a Behave hook sees of a task that is about to start.
type Task struct {
	Attempt model.AttemptID
	Job     *model.Job
	Retry   int32
	Start   model.TaskStart
	Gang    []model.TaskStart // all that start with it
	// Served is the work that earlier attempts of this task did: how long they ran after their
	// start-up, at their speed.
	Served model.Duration
}

// Options are the parts of a world.
type Options struct {
	// Start is the first instant; it must not be 0.
	Start model.Time
	// Behave says how a task behaves; nil is Default.
	Behave func(Task) Behavior
	// Nodes are the nodes that exist; none means that every node does.
	Nodes []cell.NodeName
	// Feed, when set, is asked for one input after the other, as they come due; false ends it.
	// Their times must not fall.
	Feed func() (model.Time, engine.Input, bool)
	// Forget drops what cannot be asked for again unless an engine is opened anew: attempts that
	// are over, and the work of tasks that ended by themselves.
	Forget bool
	// Prompt reports what happens to a task in the round in which it happens, with everything
	// else that is due. Without it, each is reported in a round of its own at that instant.
	Prompt bool
	// Idle is called by Next when nothing is left to happen up to the horizon.
	// It may give commands or faults or move the horizon. Returning false ends
	// the inputs.
	Idle func() bool
}

// Default lets a task run for its job's hinted duration, less what earlier
// attempts served when the job keeps checkpoints. It exits 0 at once on SIGTERM.
func Default(t Task) Behavior {
	b := Behavior{RunFor: t.Job.Hints.Duration}
	if b.RunFor > 0 && t.Job.Hints.Checkpoint {
		b.RunFor = max(b.RunFor-t.Served, 1)
	}
	return b
}

// World is the simulated machine room with its clock. It outlives engines: a new engine may be
// opened on the same journal and world.
type World struct {
	opt     Options
	now     model.Time
	horizon model.Time
	future  future
	order   uint64
	pending []engine.Input
	given   []engine.Input // what Next returned last; its memory is reused
	feed    feedInput      // the next input of Options.Feed
	rounds  int

	runs    map[model.AttemptID][]*run
	stopped map[model.AttemptID]model.Duration // stops that came before their start
	living  map[taskKey]*run
	served  map[taskKey]model.Duration
	nodes   map[cell.NodeName]*node
	leaves  map[device]model.LeafHealth
	healthy []cell.NodeName // in order of first mention, for Reopen
	marked  []device        // the same for leaves
	quiet   bool            // an engine was reopened and has not asked for input yet
	breach  []error
	launch  int
}

// New returns a world in which nothing runs.
func New(o Options) *World {
	if o.Behave == nil {
		o.Behave = Default
	}
	w := &World{
		opt: o, now: o.Start, horizon: o.Start,
		runs:    map[model.AttemptID][]*run{},
		stopped: map[model.AttemptID]model.Duration{},
		living:  map[taskKey]*run{},
		served:  map[taskKey]model.Duration{},
		nodes:   map[cell.NodeName]*node{},
		leaves:  map[device]model.LeafHealth{},
	}
	w.refeed()
	return w
}

// feedInput is the next input of the feed, if there is one.
type feedInput struct {
	some bool
	at   model.Time
	in   engine.Input
}

// refeed takes the next input of the feed.
func (w *World) refeed() {
	w.feed = feedInput{}
	if w.opt.Feed == nil {
		return
	}
	if at, in, ok := w.opt.Feed(); ok {
		w.feed = feedInput{true, max(at, w.now), in}
	}
}

// Abilities implements engine.AbilityReporter: the simulated world can do everything.
func (w *World) Abilities(engine.Leaves) ([]model.Ability, string) {
	return []model.Ability{model.CanSuspend, model.CanPack}, ""
}

// Now returns the present instant.
func (w *World) Now() model.Time { return w.now }

// Launches returns how many tasks were started so far, repeats not counted.
func (w *World) Launches() int { return w.launch }

// Err returns every violation seen so far: a device with two owners, a task that runs twice, a
// loop that does not settle, an engine that sends new actions after a restart.
func (w *World) Err() error { return errors.Join(w.breach...) }

// Extend moves the horizon: Next lets time pass up to it, never beyond.
func (w *World) Extend(to model.Time) { w.horizon = max(w.horizon, to) }

// NotBefore moves the clock forward to an instant that the loop has reached already.
func (w *World) NotBefore(t model.Time) {
	if t > w.now {
		w.now, w.horizon, w.rounds = t, max(w.horizon, t), 0
	}
}

// Give hands an input to the loop at the present instant.
func (w *World) Give(in engine.Input) { w.pending = append(w.pending, in) }

// give returns what is pending.
func (w *World) give() []engine.Input {
	in := w.pending
	clear(w.given)
	w.pending, w.given = w.given[:0], in
	return in
}

// Next implements engine.Inputs: commands first, then everything that happens at
// the next instant up to the horizon, then Idle.
func (w *World) Next(ctx context.Context, wake model.Time) (model.Time, []engine.Input, error) {
	w.quiet = false
	for ctx.Err() == nil {
		if len(w.pending) > 0 {
			return w.now, w.give(), w.count()
		}
		if w.advance(wake) {
			if len(w.pending) == 0 && (wake == 0 || wake > w.now) {
				continue // an event without a fact, such as the end of a grace
			}
			return w.now, w.give(), w.count()
		}
		if w.horizon > w.now {
			w.now, w.rounds = w.horizon, 0
		}
		if w.opt.Idle == nil || !w.opt.Idle() {
			return w.now, nil, io.EOF
		}
	}
	return w.now, nil, ctx.Err()
}

// count fails when the loop spins at one instant.
func (w *World) count() error {
	if w.rounds++; w.rounds <= roundsPerInstant {
		return nil
	}
	err := fmt.Errorf("sim: the loop came back %d times at one instant", w.rounds)
	w.breach = append(w.breach, err)
	return err
}

// advance moves to the next instant up to the horizon and lets everything due happen; false when
// there is none.
func (w *World) advance(wake model.Time) bool {
	next, found := w.horizon, false
	if len(w.future) > 0 && w.future[0].at <= next {
		next, found = w.future[0].at, true
	}
	if w.feed.some && w.feed.at <= next {
		next, found = w.feed.at, true
	}
	if wake != 0 && wake <= next {
		next, found = wake, true
	}
	if !found {
		return false
	}
	if next > w.now {
		w.now, w.rounds = next, 0
	}
	// Only what is due now: what these events cause at this very instant comes in
	// the next round, as it would from a real executor.
	for due := w.order; len(w.future) > 0 && w.future[0].at <= w.now && w.future[0].order <= due; {
		w.happen(w.future.pop())
	}
	for w.feed.some && w.feed.at <= w.now {
		w.Give(w.feed.in)
		w.refeed()
	}
	return true
}

// after schedules f for d from now.
func (w *World) after(d model.Duration, f func()) {
	w.plan(d, happening{what: isOther, do: f})
}

// plan schedules a happening for d from now.
func (w *World) plan(d model.Duration, h happening) {
	w.order++
	h.at, h.order = w.now.Add(d), w.order
	w.future.push(h)
}

// happen executes a happening.
func (w *World) happen(h happening) {
	switch r := h.run; h.what {
	case begins:
		w.begin(r)
	case finishes:
		if h.order == r.due { // else its speed has changed since
			w.end(r, r.ownExit())
		}
	case obeys:
		w.end(r, r.stopExit())
	case isKilled:
		w.end(r, model.Exit{Code: 137, Signal: 9, Cause: model.GraceOver})
	case reports:
		w.observe(r)
	default:
		h.do()
	}
}

// tell hands a fact to the loop.
func (w *World) tell(f model.Fact) { w.pending = append(w.pending, engine.Input{Fact: f}) }

// fail records a violation.
func (w *World) fail(format string, args ...any) {
	w.breach = append(w.breach, fmt.Errorf("sim: "+format, args...))
}

// happening is one future event; at equal times the order of scheduling counts.
type happening struct {
	at    model.Time
	order uint64
	what  kind
	run   *run   // the run to which it happens
	do    func() // for isOther
}

// kind is the kind of a happening: to a run, or isOther.
type kind uint8

const (
	isOther  kind = iota
	begins        // it starts
	finishes      // its work is done
	obeys         // it ends after it was asked to
	isKilled      // it did not end in time
	reports       // it tells its progress
)

func (h *happening) before(o *happening) bool {
	return h.at < o.at || h.at == o.at && h.order < o.order
}

// future is a heap of happenings.
type future []happening

func (f *future) push(h happening) {
	*f = append(*f, h)
	q := *f
	for i := len(q) - 1; i > 0 && q[i].before(&q[(i-1)/2]); i = (i - 1) / 2 {
		q[i], q[(i-1)/2] = q[(i-1)/2], q[i]
	}
}

func (f *future) pop() happening {
	q := *f
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], happening{}
	q = q[:last]
	*f = q
	for at := 0; ; {
		least := at
		for k := 2*at + 1; k <= 2*at+2 && k < last; k++ {
			if q[k].before(&q[least]) {
				least = k
			}
		}
		if least == at {
			return first
		}
		q[at], q[least] = q[least], q[at]
		at = least
	}
}
