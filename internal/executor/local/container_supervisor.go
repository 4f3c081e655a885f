package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/process"
)

// containerSpec says that a task runs in a container, and how.
type containerSpec struct {
	Engine   string   `json:"engine"`            // the engine's address
	InitUser int      `json:"keeper"`            // the user of process 1, which owns the task's folder
	Image    string   `json:"image"`             // as the job names it
	CPU      string   `json:"cpu"`               // the architecture that the image is for; "": unknown
	User     string   `json:"user"`              // the image's, as which the task runs
	OwnDir   bool     `json:"own_dir,omitempty"` // the task starts in the WORKDIR of its image
	Runs     []string `json:"runs,omitempty"`    // the image's program, where the role has no commands
	Gang     []int32  `json:"gang"`              // tasks whose addresses it awaits, with itself; empty: none
	// Own are the limits of each process that the role itself sets.
	Own        cell.TaskLimits  `json:"own,omitzero"`
	Disk       docker.DiskLimit `json:"disk"`
	StartSlots string           `json:"turns"` // the folder of docker.AwaitStart
	Box        docker.Box       `json:"box"`
}

// Files of a task in a container, besides those of every task. Only process 1 may use the task's
// own folder; what the task may write is in the shared folder below it.
const (
	careFile      = "caretaker"   // locked by the supervisor in charge
	containerFile = "box.json"    // supervisor: process 1, by its number on this machine
	insideFile    = "inside.json" // process 1: how the task ended
	runsFile      = "runs.json"   // process 1: the task was started
	sharedDir     = "shared"      // of supervisor and task: progress, acknowledged suspensions

	sharedMembers = "members" // of a job: its running tasks, as containers see them
	gangDir       = "gang"    // of an attempt: the addresses of its tasks
)

// Where things are inside a container.
const (
	insideTop        = "/comb"
	insideProgram    = insideTop + "/bin/comb"   // this program, read-only
	insideLibraries  = insideTop + "/lib"        // its libraries, read-only, where it needs some
	insidePrivate    = insideTop + "/private"    // the task's folder, which the task cannot reach
	insideLocks      = insideTop + "/locks"      // locks of all devices, out of the task's reach
	insideShared     = insideTop + "/shared"     // sharedDir
	insideWork       = insideTop + "/work"       // the task's own directory
	insideCheckpoint = insideTop + "/checkpoint" // the job's
	insideGang       = insideTop + "/gang"       // the gang's addresses, out of the task's reach
	insideMembers    = insideTop + "/members"    // sharedMembers, read-only
	insideCode       = insideTop + "/code.tar"   // the job's upload, read-only
)

// caretaker is the supervisor of a task in a container. Process 1 in there does what the
// supervisor of a process does. The caretaker starts the container, notices when it is dead,
// kills it when it does not end in time, and tells the server. When it dies another caretaker
// takes over.
type caretaker struct {
	*supervisor
	engine *docker.Engine
	first  bool       // nothing was started before
	one    process.ID // process 1
	kill   string     // why it was killed; "": not by this caretaker
	until  time.Time  // when it is to be killed; zero is never
}

// startPause bounds the time between looks whether the task runs: until then its gang counts as
// starting.
const startPause = 200 * time.Millisecond

// overdue is how long process 1 may take, after a task's grace, to record the end.
const overdue = 10 * time.Second

// care takes a task to its end.
func (c *caretaker) care() int {
	lock, err := os.OpenFile(filepath.Join(c.dir, careFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return exitNotMine
	}
	defer lock.Close()
	var script *private
	runs := safefile.Read(c.dir, containerFile, &c.one) == nil // it was started, whatever the claim says
	if _, err := os.Lstat(filepath.Join(c.dir, claimFile)); err != nil && !runs {
		if script, err = readPrivate(os.Stdin); err != nil {
			c.note("%v", err)
			return exitUnable
		}
	}
	if code := c.claim(); code != exitDone {
		return code
	}
	if !runs { // else its death is seen without the engine, too
		if end := c.begin(script); end != nil {
			return c.conclude(*end)
		}
	}
	return c.conclude(c.watch())
}

// claim claims the start, or takes over from a dead supervisor; the lock is held.
func (c *caretaker) claim() int {
	me := claim{Boot: c.spec.Boot, Supervisor: process.Of(os.Getpid())}
	mine, err := writeClaim(c.dir, me)
	if err != nil {
		c.note("%v", err)
		return exitUnable
	}
	if c.first = mine; mine {
		return exitDone
	}
	var before claim
	err = safefile.Read(c.dir, claimFile, &before)
	if p := before.Supervisor; err == nil && (p.PID == 0 || p.PID > 0 && p.Alive()) {
		return exitNotMine // the server took it, so nothing may start; or another caretaker is at work
	}
	if err != nil { // its owner is dead, since the lock was free; the engine knows what was started
		c.note("take over with a claim that cannot be read: %v", err)
	}
	if err := safefile.Write(c.dir, claimFile, me); err != nil {
		c.note("%v", err)
		return exitUnable
	}
	return exitDone
}

// begin starts the container, or finds the one that was started. It returns the end where there
// is nothing to wait for.
func (c *caretaker) begin(script *private) *outcome {
	for said := ""; ; time.Sleep(time.Second) {
		var err error
		if c.engine, err = docker.OpenEngine(context.Background(), c.spec.Container.Engine); err == nil {
			break
		}
		if c.first {
			return &outcome{Refused: err.Error()}
		}
		if said != err.Error() {
			said = err.Error()
			c.note("%s: what became of the container is not known until it does", said)
		}
	}
	if c.first {
		if refused := c.start(script); refused != nil {
			return refused
		}
	}
	return c.find()
}

// start creates the container and starts it, once it is its turn among all starts.
func (c *caretaker) start(script *private) *outcome {
	leave, mine := docker.AwaitStart(c.spec.Container.StartSlots, c.toldToStop)
	if !mine {
		return &outcome{Exit: &model.Exit{Cause: model.NeverStarted, Message: "it was stopped before it was started"}}
	}
	defer leave()
	ctx, b := context.Background(), &c.spec.Container.Box
	err := c.engine.Create(ctx, b)
	if errors.Is(err, docker.ErrExists) {
		return &outcome{Refused: "this attempt was started before: " + err.Error()}
	}
	if err == nil {
		err = c.engine.Start(ctx, b.Name, script.encode())
	}
	if errors.Is(err, docker.ErrInTheWay) {
		return unfit(c.spec.Container.Image, errTaken)
	}
	if errors.Is(err, docker.ErrUnfit) {
		return unfit(c.spec.Container.Image, err)
	}
	if errors.Is(err, docker.ErrUnsure) {
		c.note("%v", err)
		return nil // the engine is asked when it answers again
	}
	if err != nil {
		return c.unstarted(err.Error())
	}
	return nil
}

// unstarted is the refusal of a container that the engine did not start.
func (c *caretaker) unstarted(why string) *outcome {
	if refused, job := ungiven(c.spec.Each, c.spec.Container.Own, why); refused != "" {
		return &outcome{Refused: refused, Job: job}
	}
	return &outcome{Refused: why}
}

// find asks the engine for process 1.
func (c *caretaker) find() *outcome {
	for said := ""; ; time.Sleep(time.Second) {
		st, err := c.engine.State(context.Background(), c.spec.Container.Box.Name)
		switch {
		case err == nil && st.Running:
			c.one = process.Of(st.PID)
			if err := safefile.Write(c.dir, containerFile, c.one); err != nil {
				c.note("%v", err)
			}
			return nil
		case err == nil && !st.Began:
			// It may be about to start: only after its removal it certainly never will.
			if err = c.engine.Remove(context.Background(), c.spec.Container.Box.Name); err == nil {
				return c.unstarted("its container was made and not started" + colon(st.Error))
			}
		case err == nil || errors.Is(err, docker.ErrGone):
			end := c.ended(st)
			return &end
		}
		if said != err.Error() {
			said = err.Error()
			c.note("%s", said)
		}
	}
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// watch waits for the end of process 1: everything in the container dies with it, whatever became
// of the engine. It tells the start, if there was one.
func (c *caretaker) watch() outcome {
	w, lives := process.Watch(c.one)
	disk := c.spec.Container.Disk.Watch(c.spec.Container.Engine, c.spec.Container.Box.Name, func() { c.one.Signal(unix.SIGKILL) })
	if c.engine != nil {
		_ = c.engine.Close() // frees its connection: the next request may be days away
	}
	told := false
	for pause := 5 * time.Millisecond; lives; pause = min(2*pause, time.Second) {
		if !told {
			if told = c.tellStarted(); told {
				trimMemory()
			}
			pause = min(pause, startPause)
		}
		c.look()
		lives = !w.Wait(pause)
	}
	if w != nil {
		w.Close()
	}
	c.kill = cmp.Or(c.kill, disk.End())
	c.tellStarted()
	if o, ok := c.recorded(); ok {
		return o
	}
	return c.ended(c.engineState())
}

// seenWithin is how long an engine may take to notice that process 1 is dead.
const seenWithin = 10 * time.Second

// engineState is the engine's state of a container whose process 1 is dead, once the engine has
// noticed that. It only explains an end that was not recorded: the state is empty where no engine
// answers.
func (c *caretaker) engineState() docker.State {
	for end := time.Now().Add(seenWithin); c.kill == "" && c.connect() == nil; time.Sleep(20 * time.Millisecond) {
		st, err := c.engine.State(context.Background(), c.spec.Container.Box.Name)
		if err != nil {
			break
		}
		if !st.Running {
			return st
		}
		if time.Now().After(end) {
			c.note("the engine did not see within %v that the container's process 1 is dead", seenWithin)
			break
		}
	}
	return docker.State{}
}

// recorded is the end that process 1 recorded.
func (c *caretaker) recorded() (o outcome, ok bool) {
	ok = safefile.Read(c.dir, insideFile, &o) == nil && (o.Exit != nil || o.Refused != "")
	return o, ok
}

func (c *caretaker) connect() (err error) {
	if c.engine == nil {
		c.engine, err = docker.OpenEngine(context.Background(), c.spec.Container.Engine)
	}
	return err
}

// tellStarted tells that the task runs, once process 1 says so.
func (c *caretaker) tellStarted() bool {
	id := identity{}
	if safefile.Read(c.dir, runsFile, &id) != nil {
		return false
	}
	if _, err := os.Lstat(filepath.Join(c.dir, identityFile)); err == nil {
		return true
	}
	id.Main = c.one
	if err := safefile.Write(c.dir, identityFile, id); err != nil {
		c.note("record the container's process: %v", err)
	}
	if data, err := json.Marshal(id); err == nil {
		_, _ = c.status.Write(append(data, '\n')) // a server that is gone reads the file
	}
	c.status.Close()
	return true
}

// look kills a container that does not end in time, and forwards a signal to end.
func (c *caretaker) look() {
	select {
	case sig := <-c.signals:
		if sig != unix.SIGUSR1 { // the stop order could not be written to a full disk
			c.one.Signal(unix.SIGTERM)
			c.expect(overdue)
		}
	default:
	}
	var order stopOrder
	if safefile.Read(c.dir, stopFile, &order) == nil {
		c.expect(time.Duration(max(order.Grace, 0)) * time.Microsecond)
	}
	if c.until.IsZero() || time.Now().Before(c.until) {
		return
	}
	c.kill = "process 1 of its container had not ended the task when its grace was over"
	c.one.Signal(unix.SIGKILL) // before the engine is asked, which may answer late or never
	if c.connect() == nil {
		_ = c.engine.Kill(context.Background(), c.spec.Container.Box.Name) // tried again later
	}
}

// expect sets when the task must be over. A later call may only shorten it.
func (c *caretaker) expect(grace time.Duration) {
	if until := time.Now().Add(grace + overdue); c.until.IsZero() || until.Before(c.until) {
		c.until = until
	}
}

func (c *caretaker) toldToStop() bool {
	var order stopOrder
	return safefile.Read(c.dir, stopFile, &order) == nil
}

// ended is how the task ended; process 1 is dead.
func (c *caretaker) ended(st docker.State) outcome {
	if o, ok := c.recorded(); ok {
		return o
	}
	x := model.Exit{Code: 137, Signal: 9, Cause: model.SupervisorLost, Message: "process 1 of its container was killed, not by the server"}
	switch {
	case c.kill != "":
		x.Cause, x.Message = "", c.kill
		return outcome{Exit: &x}
	case st.OOM:
		x.Cause, x.Message = model.OutOfMemory, fmt.Sprintf("it needed more than its %d MiB of memory", c.spec.Limits.MemoryMB)
		return outcome{Exit: &x}
	}
	words := c.words()
	if strings.Contains(words, noThread) {
		x.Cause, x.Message = model.TooManyProcesses, tooMany(c.spec.Limits.Pids)
		return outcome{Exit: &x}
	}
	_, err := os.Lstat(filepath.Join(c.dir, runsFile))
	if st.Code == exitTaken && err != nil {
		return *unfit(c.spec.Container.Image, errTaken)
	}
	if st.Code == exitUnable && err != nil {
		return outcome{Refused: "process 1 of its container could not start the task" + colon(words)}
	}
	if words != "" {
		x.Message = "process 1 of its container ended and recorded no end; it said: " + words
	}
	return outcome{Exit: &x}
}

// noThread is what process 1 says last where the task's processes left it no thread.
const noThread = "newosproc"

// words is what process 1 printed itself; "" where that is not known.
func (c *caretaker) words() (text string) {
	err := c.connect()
	if err == nil {
		text, err = c.engine.Words(context.Background(), c.spec.Container.Box.Name)
	}
	if err != nil {
		c.note("%v", err)
	}
	return text
}

// conclude records the end and removes the container. Where no engine answers, the server removes
// it when one does.
func (c *caretaker) conclude(o outcome) int {
	c.record(o)
	if c.connect() != nil || c.engine.Remove(context.Background(), c.spec.Container.Box.Name) != nil {
		c.note("the container %s is not removed: no engine answers", c.spec.Container.Box.Name)
	}
	return exitDone
}

// unfit is a refusal that is the image's fault, and so the job's, or else the engine's.
func unfit(image string, err error) *outcome {
	if errors.Is(err, docker.ErrUnfit) {
		return &outcome{Job: true, Refused: fmt.Sprintf("the image %s %v", image, err)}
	}
	return &outcome{Refused: err.Error()}
}
