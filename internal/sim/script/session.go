package script

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
)

// epochStart is the instant at which every script begins: times are printed as
// the difference to it.
const epochStart = model.Time(1_000_000_000 * model.Second)

// errCrash stands for the death of the process around an append.
var errCrash = fmt.Errorf("%w: a crash that the script asked for", engine.ErrFenced)

// Session is one scenario: simulated machines, a journal that survives, and the engine that
// runs between two restarts.
type Session struct {
	ctx     context.Context // the script ends early when it is done
	world   *sim.World
	journal *crashingJournal
	engine  *engine.Engine
	epoch   uint64
	// resume lets the engine run until nothing is left to happen; false when it ended.
	resume func() (struct{}, bool)
	halt   func()
	yield  func(struct{}) bool
	ended  error // error of the engine that ended last

	seq       uint64 // of the last record seen
	jobs      map[model.JobID]*model.Job
	latest    map[string]model.JobID // by the job's name in the script
	owners    owners
	finished  map[model.JobID]model.JobStatus
	lastEnded map[model.GangRef]int32 // the last ended attempt of a gang
	behaviors map[[2]string]behavior  // by user and name
	defaults  sim.Behavior
	waits     map[model.JobID]string
	reaction  strings.Builder
	merged    merger
	failed    int
	keys      int
	dir       string // folder of the files that a script names
	cluster   *cell.Spec
	forest    *cell.Forest // of the cluster; nil until a cell is named
	// OnBatch, when set, sees every durable batch before it is printed.
	OnBatch func(engine.Batch)
	// Quiet leaves out why jobs wait, which a script prints after every command.
	Quiet bool
}

// behavior overrides how a job's tasks behave.
type behavior struct {
	stop     *model.Duration
	stubborn bool
	code     int32
	start    *model.Duration
	runs     model.Duration // 0 is what the job declares
	packed   int64          // speed beside others in parts per hundred; 0 is full speed
}

// crashingJournal is a journal in memory whose appends may fail or crash the process.
type crashingJournal struct {
	*engine.Memory
	when     string // "", "before" or "after"
	in       int32  // appends that succeed before the crash
	every    int32  // afterwards each Nth append crashes; 0 is none
	left     int    // appends that the present command may still cause
	failures int32  // number of further appends that fail, and keep nothing
}

// errDisk is the error of a disk that cannot be written for a while.
var errDisk = errors.New("the disk cannot be written: the script wants it so")

// maxAppends bounds the appends of one command.
const maxAppends = 200_000

// errEndless ends a scenario that does not come to rest.
var errEndless = fmt.Errorf("%w: one command caused more than %d batches of events", engine.ErrFenced, maxAppends)

// Append implements engine.Journal.
func (c *crashingJournal) Append(ctx context.Context, b engine.Batch) error {
	if c.left--; c.left < 0 {
		return errEndless
	}
	if c.failures > 0 {
		c.failures--
		return errDisk
	}
	when := c.when
	switch {
	case when == "":
	case c.in > 0:
		c.in--
		when = ""
	case c.every > 0:
		c.in = c.every - 1
	default:
		c.when = ""
	}
	if when == "before" {
		return errCrash
	}
	if err := c.Memory.Append(ctx, b); err != nil {
		return err
	}
	if when == "after" {
		return errCrash
	}
	return nil
}

// New returns a session without a cluster.
func New() *Session {
	s := &Session{
		ctx:     context.Background(),
		journal: &crashingJournal{Memory: engine.NewMemory()},
		jobs:    map[model.JobID]*model.Job{},
		latest:  map[string]model.JobID{}, owners: owners{},
		finished:  map[model.JobID]model.JobStatus{},
		lastEnded: map[model.GangRef]int32{},
		behaviors: map[[2]string]behavior{},
		defaults:  sim.Behavior{StopDelay: model.Second},
		waits:     map[model.JobID]string{},
	}
	s.world = sim.New(sim.Options{
		Start:  epochStart,
		Behave: s.behave,
		Idle:   func() bool { return s.yield(struct{}{}) },
	})
	return s
}

// Close ends the engine.
func (s *Session) Close() {
	if s.halt != nil {
		s.halt()
	}
}

// World returns the simulated machines.
func (s *Session) World() *sim.World { return s.world }

// Journal returns the journal.
func (s *Session) Journal() *engine.Memory { return s.journal.Memory }

// MostSteps returns the most steps that one check or decision of the last command took.
func MostSteps(s *Session) int64 {
	if s.engine == nil {
		return 0
	}
	return s.engine.Heaviest()
}

// behave is how a task behaves: by its job's hints, overridden by the script.
func (s *Session) behave(t sim.Task) sim.Behavior {
	b := sim.Default(t)
	b.StartDelay, b.StopDelay, b.Stubborn = s.defaults.StartDelay, s.defaults.StopDelay, s.defaults.Stubborn
	own, ok := s.behaviors[jobKey(t.Job)]
	if !ok {
		return b
	}
	if own.stop != nil {
		b.StopDelay = *own.stop
	}
	if own.start != nil {
		b.StartDelay = *own.start
	}
	if own.runs > 0 {
		b.RunFor = own.runs
		if t.Job.Hints.Checkpoint {
			b.RunFor = max(b.RunFor-t.Served, 1)
		}
	}
	b.Stubborn = b.Stubborn || own.stubborn
	b.Code, b.Packed = own.code, perf.Speed(own.packed*10_000)
	return b
}

// open recovers an engine from the journal, and lets it run until it waits for input.
func (s *Session) open() error {
	s.epoch++
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Options{
		Inputs: s.world, Executor: s.world, Journal: s.journal,
		Policies: policy.New, Epoch: s.epoch, OnBatch: s.onBatch,
	})
	if err != nil {
		return err
	}
	s.engine, s.ended = e, nil
	// The loop runs as a coroutine: it is resumed by settle and yields in Next
	// when nothing is left to happen, so the script stays deterministic.
	s.resume, s.halt = iter.Pull(func(yield func(struct{}) bool) {
		s.yield = yield
		s.ended = e.Run(s.ctx)
	})
	return nil
}

// runUntilIdle lets everything happen up to the world's horizon.
func (s *Session) runUntilIdle() error {
	if s.engine == nil {
		return nil
	}
	for {
		if _, alive := s.resume(); alive {
			return s.world.Err()
		}
		if !errors.Is(s.ended, errCrash) {
			return errors.Join(fmt.Errorf("the engine ended: %w", s.ended), s.world.Err())
		}
		s.reopenLine("crash")
		if err := s.reopen(true); err != nil {
			return err
		}
	}
}

// reopen drops the engine and recovers another from the journal.
func (s *Session) reopen(crashed bool) error {
	s.halt()
	if err := s.catchUp(); err != nil {
		return err
	}
	s.world.Reopen(crashed)
	if err := s.open(); err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	return nil
}

// catchUp prints a batch that became durable, but whose engine died before it could report
// it.
func (s *Session) catchUp() error {
	b := engine.Batch{First: s.seq + 1}
	err := s.journal.Replay(context.Background(), s.seq, func(r model.Record) error {
		b.Records = append(b.Records, r)
		return nil
	})
	if err != nil || len(b.Records) == 0 {
		return err
	}
	for _, j := range s.journal.Ended() {
		if _, seen := s.finished[j.ID]; !seen {
			b.Ended = append(b.Ended, j)
		}
	}
	s.onBatch(b)
	return nil
}

func (s *Session) reopenLine(what string) {
	s.line(s.world.Now(), "%s; recovered from the journal", what)
}

// maxTries is how often a command is given. maxDiskFailures bounds how many appends in a row may
// fail, and must be less.
const (
	maxTries        = 5
	maxDiskFailures = 3
)

// give passes a command to the engine and waits for its durable outcome. After a crash, or
// when the disk failed, it gives the command again with its key, as a client would.
func (s *Session) give(in engine.Input) (engine.Reply, error) {
	var last error
	for range maxTries {
		var got *engine.Reply
		in.Reply = func(r engine.Reply) { got = &r }
		s.world.Give(in)
		if err := s.runUntilIdle(); err != nil {
			return engine.Reply{}, err
		}
		if got != nil && got.Err == nil {
			return *got, nil
		} else if got != nil {
			last = got.Err
		}
	}
	return engine.Reply{}, fmt.Errorf("%T was not answered: %v", in.Command, last)
}

// meta is the identity of a command of the script.
func (s *Session) meta(a *args) model.Meta {
	s.keys++
	return model.Meta{
		Subject: model.Subject(a.text("user", "user")),
		Key:     a.text("key", fmt.Sprintf("line-%d", s.keys)),
	}
}

// read calls f with the state as of the last record.
func (s *Session) read(f func(*core.State)) error {
	return s.engine.Replica().Read(context.Background(), s.seq, f)
}

// onBatch prints a durable batch.
func (s *Session) onBatch(b engine.Batch) {
	if s.OnBatch != nil {
		s.OnBatch(b)
	}
	for _, r := range b.Records {
		s.seq = r.Seq
		s.record(r)
	}
	for _, j := range b.Ended {
		s.finished[j.ID] = j
	}
}
