// Package local runs tasks as processes of this machine. A task belongs to a
// detached supervisor, so it outlives the server, and is found again by files
// in the jobs folder. The package reports facts and never judges: it must not
// choose where a task runs, retry one, or call one dead without proof.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/process"
)

// Options say where and how an Executor runs tasks. Zero values of the limits
// stand for the defaults in brackets.
type Options struct {
	Dir     string // the jobs folder of the data directory; absolute
	Cluster string // the data directory's cluster id, in every marker
	Self    string // path of the comb binary, which is also the supervisor
	// Tell takes a fact. It may block for a moment and is called from many goroutines; facts
	// about one task come in order.
	Tell func(model.Fact)
	// Secrets returns the values that a job's commands refer to; nil: none. An EIO error is the
	// disk's: the start waits until they can be read.
	Secrets func(model.JobID) (map[string]string, error)
	// Storage returns a storage that jobs of a virtual cluster may use in the present
	// configuration; nil: none.
	Storage func(vc cell.VCName, name string) (model.Storage, bool)
	// Identity says as which user and group the tasks of a user run now; see executor.IdentityOf.
	Identity func(user model.Subject) (executor.Identity, error)
	// Code puts a job's upload at a path among the job's files; nil: none.
	Code func(job *model.Job, path string) error
	// Room says why nothing more should be put on the disk of the jobs folder: no task is started
	// until it returns nil. It must be quick, and may be called from many goroutines. A nil Room
	// means that the disk always has room.
	Room func() error
	// Leaves are those of the present configuration; their devices are checked now and then. nil:
	// none are. A start checks its devices in either case.
	Leaves func() []machine.Leaf
	// HasNode says whether tasks of a node run here; nil takes every node.
	HasNode      func(cell.NodeName) bool
	RequireImage bool // refuse a job with a dockerImage instead of warning, where there is no Engine
	// Engine runs tasks of jobs that name an image, in containers; nil ignores images. It need
	// not answer yet: until it does, starts in containers are refused.
	Engine *docker.Engine
	Images docker.ImageOptions // of the engine; its Log is set from Log below
	// ContainerDiskMB is what a container may write to its own disk: the most, and the default of
	// a task that asks for nothing. 0 is no limit.
	ContainerDiskMB int64
	Log             *slog.Logger

	Path        string        // PATH of tasks [the usual system folders]
	Pids        int64         // processes and threads of one task [4,096]
	LogFile     int64         // bytes of one log file [8 MiB]
	LogFiles    int           // log files kept for each stream [8]
	LogRate     int64         // bytes a second taken from one stream [16 MiB]
	Leftover    time.Duration // time for what the main process leaves behind [2 s]
	PortMin     int32         // first port given to tasks [20000]
	PortMax     int32         // last one [31999]
	NoCgroups   bool          // leave cgroups alone
	Sampler     string        // program that reports on GPUs, as nvidia-smi does [nvidia-smi]
	SampleEvery time.Duration // how often [10 s]
	Dev         string        // folder of the machine's device files; tests have another [/dev]
	NoSuspend   bool          // say that tasks cannot be suspended here
	ProveWithin time.Duration // how long a kill may take before the task is called unknown [5 s]
}

func (o *Options) fill() error {
	switch {
	case o.Dir == "" || !filepath.IsAbs(o.Dir):
		return fmt.Errorf("the jobs folder %q is not an absolute path", o.Dir)
	case o.Self == "" || o.Tell == nil || o.Cluster == "":
		return errors.New("an executor needs its own binary, a cluster id and someone to tell facts to")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Images.Log = o.Log
	if o.HasNode == nil {
		o.HasNode = func(cell.NodeName) bool { return true }
	}
	if o.Path == "" {
		o.Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	def(&o.Pids, 4096)
	def(&o.LogFile, 8<<20)
	def(&o.LogFiles, 8)
	def(&o.LogRate, 16<<20)
	def(&o.Leftover, 2*time.Second)
	def(&o.PortMin, 20000)
	def(&o.PortMax, 31999)
	def(&o.ProveWithin, 5*time.Second)
	def(&o.SampleEvery, 10*time.Second)
	if o.Sampler == "" {
		o.Sampler = "nvidia-smi"
	}
	if o.Dev == "" {
		o.Dev = "/dev"
	}
	if o.PortMin < 1024 || o.PortMax > 65535 || o.PortMin > o.PortMax {
		return fmt.Errorf("ports %d to %d are not a range within 1024 to 65535", o.PortMin, o.PortMax)
	}
	return nil
}

func def[T int | int32 | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Executor carries out the core's actions on this machine. It implements
// executor.Executor.
type Executor struct {
	o        Options
	place    place
	boot     string
	rebooted bool // the machine was rebooted since this folder was last used
	shell    string
	parents  []cgroup.Parent
	missing  map[string]string // limits that cannot be enforced, and why

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ports  portRegister
	*process.Meter

	containers containers
	samples    *sampler
	guard      *machine.Guard
	roster     roster
	// diskWaits is true while starts wait for the disk.
	diskWaits atomic.Bool

	mu       sync.Mutex
	attempts map[model.AttemptID]*attempt
	// early are stops that came before their start.
	early       map[model.AttemptID]model.Duration
	suspendOnce sync.Once
	canSuspend  bool
	// turns are rotations that came before their start.
	turns map[model.AttemptID]*model.Rotation
	// jobs counts the live attempts of each job.
	jobs map[model.JobID]int
	// adopted are closed when it is known whether the tasks from before the start live.
	adopted []<-chan struct{}
}

// attempt is a gang's attempt that was started and is not known to be over.
type attempt struct {
	id    model.AttemptID
	start *model.Start // nil when only its files are known
	tasks []*liveTask
	left  int
	ends  orderedEnds
	whose func() (executor.Identity, error) // the user that its tasks run as
}

const (
	bootFile    = "boot"
	locksFolder = "locks"
)

// New opens the jobs folder. Nothing runs and nothing is told before Do.
func New(o Options) (*Executor, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, locksFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make the jobs folder: %w", err)
	}
	boot, err := process.BootID()
	if err != nil {
		return nil, err
	}
	e := &Executor{o: o, place: place(o.Dir), boot: boot, shell: findShell(),
		missing: map[string]string{}, attempts: map[model.AttemptID]*attempt{},
		early: map[model.AttemptID]model.Duration{}, turns: map[model.AttemptID]*model.Rotation{}, jobs: map[model.JobID]int{}}
	if e.shell == "" {
		return nil, errors.New("neither /bin/bash nor /bin/sh can be run: tasks need a shell")
	}
	if err := e.compareBoot(); err != nil {
		return nil, err
	}
	if o.NoCgroups {
		for _, c := range cgroup.Wanted() {
			e.missing[c] = "cgroups are switched off"
		}
	} else {
		e.parents, e.missing = cgroup.Find("comb-" + safeName(o.Cluster))
	}
	e.ports.Open(o.PortMin, o.PortMax)
	e.roster = roster{e: e, jobs: map[model.JobID]*jobMembers{}}
	e.samples = newSampler(e, o.Sampler)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.Meter = process.NewMeter(e.ctx, o.SampleEvery)
	e.guard = machine.NewGuard(machine.GuardOptions{Dir: o.Dir, Boot: boot, Dev: o.Dev, Program: o.Sampler, Every: o.SampleEvery,
		Leaves: o.Leaves, HasNode: o.HasNode, Log: o.Log, Tell: func(f model.LeafHealth) { e.tell(f) }})
	if err := e.containers.open(e, o.Engine); err != nil {
		e.cancel()
		return nil, fmt.Errorf("make ready for containers: %w", err)
	}
	if o.Leaves != nil {
		e.wg.Go(func() { e.guard.Run(e.ctx) })
	}
	return e, nil
}

// safeName keeps letters, digits and "-" of a name, as a part of a file name.
func safeName(name string) string {
	keep := []byte(name)
	for i, c := range keep {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
			keep[i] = '_'
		}
	}
	return string(keep[:min(len(keep), 40)])
}

// compareBoot notes whether the machine was rebooted since the folder was last used. Sweep
// replaces the file, when the ends of the first round are recorded.
func (e *Executor) compareBoot() error {
	var before string
	err := safefile.Read(e.o.Dir, bootFile, &before)
	if errors.Is(err, fs.ErrNotExist) {
		return e.rememberBoot()
	}
	e.rebooted = err != nil || before != e.boot // a power cut may leave a damaged file
	if err == nil && e.rebooted {
		// No process of that time lives; locks of turns would stay for ever, a file for each
		// attempt.
		locks := filepath.Join(e.o.Dir, locksFolder)
		if err := errors.Join(os.RemoveAll(locks), os.Mkdir(locks, 0o700)); err != nil {
			return fmt.Errorf("empty the folder of locks after a reboot: %w", err)
		}
	}
	return nil
}

func (e *Executor) rememberBoot() error {
	if err := safefile.Write(e.o.Dir, bootFile, e.boot); err != nil {
		return fmt.Errorf("remember this boot: %w", err)
	}
	f, err := os.Open(filepath.Join(e.o.Dir, bootFile))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return safefile.SyncDir(e.o.Dir)
}

// Close stops watching. The tasks run on; the next Executor over the same folder
// finds them.
func (e *Executor) Close() {
	e.cancel()
	e.wg.Wait()
}

// Do carries out one action, at once and without blocking: a start makes a supervisor for each
// task, a stop asks the supervisors. Repeating an action only tells the end again.
func (e *Executor) Do(a model.Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil || a.Lost != nil { // what ran on a lost node is gone
		return
	}
	if a.Start != nil {
		e.begin(a)
		return
	}
	if a.Rotation != nil {
		e.rotate(a.Attempt, a.Rotation)
		return
	}
	if at := e.attempts[a.Attempt]; at != nil {
		at.stop(a.Grace)
		return
	}
	if tasks := e.onDisk(a.Attempt); len(tasks) > 0 {
		e.adopt(a.Attempt, tasks, a.Known)
		if at := e.attempts[a.Attempt]; at != nil {
			at.stop(a.Grace)
		}
		return
	}
	e.early[a.Attempt] = a.Grace
}

// begin starts the goroutines of a gang's tasks.
func (e *Executor) begin(a model.Action) {
	if e.attempts[a.Attempt] != nil {
		return
	}
	at := &attempt{id: a.Attempt, start: a.Start, left: len(a.Start.Tasks),
		whose: executor.IdentityOf(a.Start.Job, e.o.Identity)}
	if at.left == 0 {
		return
	}
	if a.Known {
		e.ports.Adopt(e.place.job(a.Start.ID), a.Start.ID)
	}
	turn := turnOrder{rotation: a.Start.Rotation, given: a.Known || a.Start.Rotation != nil}
	if r, ok := e.turns[a.Attempt]; ok {
		delete(e.turns, a.Attempt)
		turn = turnOrder{rotation: r, given: true}
	}
	for i := range a.Start.Tasks {
		t := newTask(e, at, a.Start.Tasks[i].Task)
		if a.Known {
			t = newKnown(e, at, t.n)
		}
		t.start, t.turn = &a.Start.Tasks[i], turn
		at.tasks = append(at.tasks, t)
		if a.Known {
			e.roster.expect(t)
		}
	}
	e.run(at)
	if grace, ok := e.early[a.Attempt]; ok {
		delete(e.early, a.Attempt)
		at.stop(grace)
	}
	for _, t := range at.tasks {
		e.wg.Go(t.run)
	}
}

// Adopted implements engine.Adopter. A task whose files cannot be read at once does not delay it.
func (e *Executor) Adopted(ctx context.Context) {
	e.roster.adopted()
	ctx, cancel := context.WithTimeout(ctx, adoptWithin)
	defer cancel()
	e.mu.Lock()
	adopted := e.adopted
	e.adopted = nil
	e.mu.Unlock()
	for _, judged := range adopted {
		select {
		case <-judged:
		case <-ctx.Done():
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// adoptWithin bounds the search for tasks from before the start.
const adoptWithin = 5 * time.Second

// LookAgain looks at all devices again, as a new configuration names them.
func LookAgain(e *Executor) { e.guard.Renew() }

func (e *Executor) run(at *attempt) {
	e.attempts[at.id] = at
	e.jobs[at.id.Job]++
}

// adopt takes up an attempt of which only the files are known. Tasks that are over were told
// already, so they are left out. known: the start was before a restart, which may have lost that.
func (e *Executor) adopt(id model.AttemptID, ordinals []int32, known bool) {
	at := &attempt{id: id}
	for _, n := range ordinals {
		var done outcome
		if !known && safefile.Read(e.place.task(id, n), outcomeFile, &done) == nil {
			continue
		}
		at.tasks = append(at.tasks, newKnown(e, at, n))
	}
	at.left = len(at.tasks)
	if at.left == 0 {
		return
	}
	e.ports.Adopt(e.place.job(id.Job), id.Job)
	e.run(at)
	for _, t := range at.tasks {
		e.wg.Go(t.run)
	}
}

// over is called once by each task at its end. It forgets an attempt that has ended, and releases
// the ports of a job without a live attempt.
func (e *Executor) over(at *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.left--; at.left > 0 {
		return
	}
	delete(e.attempts, at.id)
	if e.jobs[at.id.Job]--; e.jobs[at.id.Job] <= 0 {
		delete(e.jobs, at.id.Job)
		e.ports.Release(at.id.Job)
		e.containers.leave(at)
	}
}

// lives says whether a job has attempts here.
func (e *Executor) lives(job int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.jobs[model.JobID(job)] > 0
}

func (at *attempt) stop(grace model.Duration) {
	for _, t := range at.tasks {
		t.e.roster.leaving(t)
		t.stop(grace)
	}
}

// tell passes a fact on, unless the executor is closed.
func (e *Executor) tell(f model.Fact) {
	if e.ctx.Err() == nil {
		e.o.Tell(f)
	}
}

// Checkpoints implements executor.Executor.
func (e *Executor) Checkpoints(id model.JobID) string { return e.place.checkpoints(id) }

// Forget implements executor.Executor: it deletes logs, work and checkpoints.
func (e *Executor) Forget(id model.JobID) error {
	e.mu.Lock()
	live := e.jobs[id]
	e.mu.Unlock()
	if live > 0 {
		return fmt.Errorf("job %d still has %d live attempts: its files stay", id, live)
	}
	root, err := os.OpenRoot(e.o.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(filepath.Base(e.place.job(id)))
}
