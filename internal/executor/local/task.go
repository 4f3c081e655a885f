package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
)

// liveTask is the server's side of one task. It is one goroutine, which starts or finds the
// supervisor, waits for its end, and tells.
type liveTask struct {
	e     *Executor
	at    *attempt
	n     int32
	start *model.TaskStart // nil when only its files are known
	known bool
	dir   string

	mu          sync.Mutex
	made        bool // its directory exists: a stop is left there
	order       *stopOrder
	turn        turnOrder
	owner       process.ID      // its supervisor, once that takes signals; zero before
	said        string          // the last error of leaving a stop, as it was logged
	starting    context.Context // ends when it is stopped, and with the executor
	halt        context.CancelFunc
	fateKnown   func() // called once it is known whether the task lives; an end was told before
	fateDecided func() // called once that is known, or cannot be known soon
}

func newTask(e *Executor, at *attempt, n int32) *liveTask {
	starting, halt := context.WithCancel(e.ctx)
	return &liveTask{e: e, at: at, n: n, dir: e.place.task(at.id, n), starting: starting, halt: halt, fateKnown: func() {}, fateDecided: func() {}}
}

// newKnown is a task that an earlier server may have started; e.mu is held.
func newKnown(e *Executor, at *attempt, n int32) *liveTask {
	t := newTask(e, at, n)
	judged := make(chan struct{})
	t.known, t.fateKnown = true, sync.OnceFunc(func() { close(judged) })
	at.ends.undecided++
	t.fateDecided = sync.OnceFunc(at.ends.decideOne)
	e.adopted = append(e.adopted, judged)
	return t
}

// stop asks for the end. It leaves the order in the task's directory before it looks for the
// supervisor, and a supervisor looks for orders after claiming the start: one of the two sees the
// other.
func (t *liveTask) stop(grace model.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.order != nil && t.order.Grace <= grace {
		grace = t.order.Grace
	}
	t.order = &stopOrder{Grace: grace}
	t.halt()
	if t.made {
		t.leaveOrder()
	}
}

// leaveOrder writes the stop and wakes the supervisor; t.mu is held.
func (t *liveTask) leaveOrder() {
	if err := safefile.Write(t.dir, stopFile, t.order); err != nil {
		if t.said != err.Error() {
			t.said = err.Error()
			t.e.o.Log.Warn("leave a stop", "attempt", t.at.id, "task", t.n, "error", err)
		}
		// A full disk must not keep a task alive: its supervisor takes SIGTERM as the end of
		// itself and ends the task with it.
		defer t.signalOwner(false)
		return
	}
	t.signalOwner(true)
}

// supervisor is the task's supervisor. Its file is read only while it is not known otherwise,
// since the task may remove the file. t.mu is held.
func (t *liveTask) supervisor() process.ID {
	var c claim
	if t.owner.PID == 0 && safefile.Read(t.dir, claimFile, &c) == nil && c.Boot == t.e.boot && c.Supervisor.PID > 0 {
		return c.Supervisor
	}
	return t.owner
}

// signalOwner wakes the supervisor.
func (t *liveTask) signalOwner(ordered bool) {
	sig := sigOrder
	if !ordered {
		sig = sigEnd
	}
	t.supervisor().Signal(sig)
}

// owned remembers a supervisor that takes signals.
func (t *liveTask) owned(p process.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner = p
	if t.order != nil && t.made {
		t.leaveOrder() // the first signal may have missed it
	}
	t.leaveRotation()
}

// open makes the directory known to stops.
func (t *liveTask) open() (stopped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = true
	t.leaveRotation()
	if t.order != nil {
		t.leaveOrder()
	}
	return t.order != nil
}

// run brings the task from whatever is on disk to its end.
func (t *liveTask) run() {
	defer t.e.over(t.at)
	defer t.halt()
	defer t.e.roster.leave(t)
	defer t.fateDecided()
	if !t.claimed() {
		t.unclaimed()
	}
}

// claimed takes up a task whose start is claimed; false when there was no claim.
func (t *liveTask) claimed() bool {
	var c claim
	switch err := safefile.Read(t.dir, claimFile, &c); {
	case err == nil:
		t.open()
		t.follow(c)
	case errors.Is(err, fs.ErrNotExist):
		return false
	default:
		t.unreadable(err)
	}
	return true
}

// unclaimed takes up a task whose start was not claimed at the last look. A supervisor that a
// killed server left behind may claim it at any moment, so no process is killed or started before
// trying for the claim.
func (t *liveTask) unclaimed() {
	switch {
	case t.lostByReboot():
		t.exited(model.Exit{Code: 1, Cause: model.NodeRebooted, Message: "the machine was rebooted"}, true)
	case t.known && t.orphaned():
		t.endOrphans()
	case t.known && t.endedBefore():
		t.follow(claim{}) // only the claim is gone
	case t.start == nil:
		t.neverStarted() // it was prepared and not started, and is stopped
	default:
		t.launch()
	}
}

// lostByReboot is true for a task that may have run before a reboot that took its files: without
// a trace of it, the reboot is the proof of its death.
func (t *liveTask) lostByReboot() bool {
	var s spec
	err := safefile.Read(t.dir, specFile, &s)
	return t.known && (err == nil && s.Boot != t.e.boot || err != nil && t.e.rebooted)
}

// unreadable ends a task whose claim was damaged, by a power cut or by the task. Its supervisor,
// if any, is killed: it can be told nothing any more.
func (t *liveTask) unreadable(err error) {
	var s spec
	if specErr := safefile.Read(t.dir, specFile, &s); specErr == nil && s.Boot != t.e.boot || specErr != nil && t.e.rebooted {
		t.exited(model.Exit{Code: 1, Cause: model.NodeRebooted, Message: "the machine was rebooted"}, true)
		return
	}
	t.e.o.Log.Warn("a task's start record cannot be read; the task is ended", "attempt", t.at.id, "task", t.n, "error", err)
	all, listErr := process.All()
	if listErr != nil {
		t.unknown("its start record cannot be read: " + err.Error())
	}
	for pid, st := range all {
		attempt, n, ok := t.e.supervises(pid)
		if ok && attempt == t.at.id.String() && n == fmt.Sprint(t.n) {
			process.ID{PID: pid, Start: st.Start}.Signal(unix.SIGKILL)
		}
	}
	t.lost(t.spec(), process.ID{})
}

// endedBefore is true when the end of a task is recorded.
func (t *liveTask) endedBefore() bool {
	_, ok := t.outcome(t.spec())
	return ok
}

// orphaned is true when processes of a task live, or when that cannot be known.
func (t *liveTask) orphaned() bool {
	found, err := treeOf(t.spec(), process.ID{}).Find()
	return err != nil || len(found) > 0
}

// endOrphans ends processes of a task that has no claim. The claim comes before the first
// process. So either it was removed, or it was made after the look for it, and then a supervisor
// is at work that must not be disturbed. Only taking the claim tells one from the other, and it
// keeps out a later supervisor.
func (t *liveTask) endOrphans() {
	err := os.MkdirAll(t.dir, 0o700)
	mine := false
	if err == nil {
		mine, err = writeClaim(t.dir, claim{Boot: t.e.boot, Supervisor: process.ID{PID: pidOrphans}})
	}
	if err != nil {
		t.e.o.Log.Warn("claim a task whose start record is gone", "attempt", t.at.id, "task", t.n, "error", err)
	}
	if mine || !t.claimed() {
		t.lost(t.spec(), process.ID{})
	}
}

// tryLaunch starts a task and follows it to its end, or says why it cannot be started.
func (t *liveTask) tryLaunch() *outcome {
	if t.e.o.Room != nil {
		if err := t.e.o.Room(); err != nil {
			return &outcome{Refused: err.Error(), disk: true}
		}
	}
	s, own, refusal := t.prepare()
	if refusal != nil {
		return refusal
	}
	if t.open() {
		t.neverStarted()
		return nil
	}
	child, status, err := t.spawn(own)
	if err != nil {
		return serverFault("start its supervisor", err)
	}
	p := process.Of(child.Pid)
	started := t.awaitStatus(status, p)
	if started != nil {
		t.e.diskWell()
		t.started(s, *started)
		t.owned(p)
	}
	t.await(s, p, started != nil)
	if t.e.ctx.Err() != nil {
		return nil // the next server goes on
	}
	end, _ := child.Wait() // it has ended: this only collects its exit
	return t.supervisorGone(s, p, end)
}

// awaitStatus waits for the supervisor's message; nil when none comes. The task may disturb its
// supervisor from its first instruction on.
func (t *liveTask) awaitStatus(f *os.File, p process.ID) *identity {
	word := make(chan *identity, 1)
	go func() { word <- readStatus(f) }()
	care := supervisorGuard{t: t, p: p}
	for {
		select {
		case id := <-word:
			return id
		case <-t.e.ctx.Done():
			f.Close() // ends the read
			return <-word
		case <-time.After(time.Second):
			care.look()
		}
	}
}

// supervisorGone ends a task whose supervisor, started by this server, is gone, or says why it did
// not start.
func (t *liveTask) supervisorGone(s *spec, p process.ID, end *os.ProcessState) *outcome {
	if o, ok := t.outcome(s); ok {
		t.tellOutcome(o)
		return nil
	}
	reason := "its supervisor did not start: " + cmp.Or(lastLine(filepath.Join(t.dir, noteFile)), "it left no reason")
	if _, err := os.Lstat(filepath.Join(t.dir, claimFile)); end.ExitCode() == exitDisk &&
		errors.Is(err, fs.ErrNotExist) {
		return &outcome{Refused: reason, disk: true}
	}
	mine, err := writeClaim(t.dir, claim{Boot: t.e.boot})
	if err == nil && mine {
		return &outcome{Refused: reason}
	}
	var c claim
	if err := safefile.Read(t.dir, claimFile, &c); err != nil || c.Supervisor == p {
		t.lost(s, p) // also when its files are gone: the marker finds the processes
		return nil
	}
	t.follow(c) // another supervisor was first
	return nil
}

// follow takes up a task whose start is claimed.
func (t *liveTask) follow(c claim) {
	s := t.spec()
	lives := c.Boot == t.e.boot && c.Supervisor.Alive()
	// While its supervisor lives, an outcome may be the task's own forgery.
	if o, ok := t.outcome(s); ok && !lives {
		if t.known {
			t.identified(s)
		}
		t.tellOutcome(o)
		return
	}
	switch {
	case c.Boot != t.e.boot:
		t.exited(model.Exit{Code: 1, Cause: model.NodeRebooted, Message: "the machine was rebooted"}, true)
	case c.Supervisor.PID == 0:
		t.exited(model.Exit{Code: 1, Cause: model.NeverStarted, Message: "it was never started"}, true)
	default:
		told := t.identified(s)
		if lives {
			t.fateKnown()
			t.fateDecided()
			t.owned(c.Supervisor)
			t.await(s, c.Supervisor, told)
		}
		t.inherited(s, c)
	}
}

// inherited ends a task whose supervisor, found on disk, is gone.
func (t *liveTask) inherited(s *spec, c claim) {
	if o, ok := t.outcome(s); ok {
		t.tellOutcome(o)
		return
	}
	if t.e.ctx.Err() == nil && !c.Supervisor.Alive() {
		t.lost(s, c.Supervisor)
	}
}

// outcome reads the recorded end. A supervisor records it when the task's groups are empty: while
// they are not, the record is not a supervisor's.
func (t *liveTask) outcome(s *spec) (o outcome, ok bool) {
	if safefile.Read(t.dir, outcomeFile, &o) != nil {
		return o, false
	}
	mine := spec{Attempt: t.at.id, Task: t.n, Parents: append(slices.Clone(t.e.parents), s.Parents...)}
	return o, cgroup.NotEmpty(mine.groupDirs()) == ""
}

// spec reads what was started. Where that fails, it has what is needed to find the task's
// processes.
func (t *liveTask) spec() *spec {
	s := &spec{}
	if safefile.Read(t.dir, specFile, s) != nil || s.Attempt != t.at.id || s.Task != t.n || s.Cluster != t.e.o.Cluster {
		return &spec{Cluster: t.e.o.Cluster, Attempt: t.at.id, Task: t.n, Parents: t.e.parents, Host: localHost}
	}
	return s
}

// identified tells the start when the supervisor has recorded it.
func (t *liveTask) identified(s *spec) bool {
	var id identity
	if safefile.Read(t.dir, identityFile, &id) != nil {
		return false
	}
	t.started(s, id)
	return true
}

// await waits for the end of the supervisor, and tells progress meanwhile. It also returns when
// the executor is closed.
func (t *liveTask) await(s *spec, p process.ID, told bool) {
	w, ok := process.Watch(p)
	if !ok { // it ended before there was time to look
		if !told {
			t.identified(s)
		}
		newProgress(t).last()
		return
	}
	defer w.Close()
	defer context.AfterFunc(t.e.ctx, w.Interrupt)()
	progress, care := newProgress(t), &supervisorGuard{t: t, p: p}
	defer progress.last()
	defer t.e.samples.watch(t)()
	defer t.e.Watch(t.at.id, t.n, p, filepath.Join(t.dir, containerFile))()
	for t.e.ctx.Err() == nil {
		care.look()
		pause := progressEvery
		if !told {
			pause = 10 * time.Millisecond
		}
		if w.Wait(pause) {
			if !told {
				t.identified(s)
			}
			return
		}
		if !told {
			told = t.identified(s)
		}
		progress.look()
	}
}

// supervisorGuard keeps a supervisor able to work, whatever its task does to it: both may run as
// the same user.
type supervisorGuard struct {
	t    *liveTask
	p    process.ID
	next time.Time
	held int // looks in a row at which the supervisor was stopped
}

// maxHeld is how many looks a supervisor may stay stopped. After it the supervisor counts as
// dead, and is killed.
const maxHeld = 5

// look repeats a stop, so that none is lost, and wakes a stopped supervisor, once a second.
func (k *supervisorGuard) look() {
	now := time.Now()
	if now.Before(k.next) {
		return
	}
	k.next = now.Add(time.Second)
	k.t.remind()
	st, ok := process.ReadStat(k.p.PID)
	if !ok || st.Start != k.p.Start || st.State != 'T' && st.State != 't' {
		k.held = 0
		return
	}
	if k.held++; k.held > maxHeld {
		k.p.Signal(unix.SIGKILL)
		return
	}
	k.p.Signal(unix.SIGCONT)
}

// remind repeats a stop to a supervisor that has not ended its task.
func (t *liveTask) remind() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.order != nil && t.made && t.owner.PID > 0 {
		t.leaveOrder()
	}
	if t.turn.late {
		t.leaveRotation()
	}
}

func treeOf(s *spec, supervisor process.ID) process.Tree {
	return process.Tree{Marker: s.marker(), Groups: s.groupDirs(), Since: supervisor.Start}
}

// lost kills what a dead supervisor left. Only a proof frees the task's leaves: without one the
// task stays unknown and is looked at again.
func (t *liveTask) lost(s *spec, supervisor process.ID) {
	if s.Container != nil {
		t.takeUp(s)
		return
	}
	t.fateKnown() // what it left may take long to end
	tr := treeOf(s, supervisor)
	var id identity
	if safefile.Read(t.dir, identityFile, &id) == nil {
		tr.Main = id.Main
	}
	said := ""
	for t.e.ctx.Err() == nil {
		proven, why := tr.End(t.e.o.ProveWithin)
		if proven {
			cgroup.Remove(tr.Groups)
			t.dropTurnLocks()
			t.exited(model.Exit{Code: 1, Cause: model.SupervisorLost,
				Message: "its supervisor died; everything it had started was killed"}, true)
			return
		}
		if why != said {
			said = why
			t.unknown(why)
		}
		t.fateDecided()
		select {
		case <-time.After(time.Second):
		case <-t.e.ctx.Done():
		}
	}
}

// dropTurnLocks removes what a dead supervisor left among the locks. It uses what the server
// knows of the start, since the task can write its own folder.
func (t *liveTask) dropTurnLocks() {
	if t.start == nil {
		return
	}
	for _, l := range locksFor(filepath.Join(t.e.o.Dir, locksFolder), *t.start) {
		os.Remove(turnPath(l, t.at.id))
	}
}

// neverStarted claims the start, so that no supervisor ever can, and tells.
func (t *liveTask) neverStarted() {
	if err := os.MkdirAll(t.dir, 0o700); err == nil {
		mine, err := writeClaim(t.dir, claim{Boot: t.e.boot})
		var c claim
		if err == nil && !mine && safefile.Read(t.dir, claimFile, &c) == nil {
			t.follow(c)
			return
		}
	}
	t.exited(model.Exit{Code: 1, Cause: model.NeverStarted, Message: "it was stopped before it was started"}, true)
}

func (t *liveTask) started(s *spec, id identity) {
	host := cmp.Or(id.Host, s.Host)
	t.e.roster.join(t, host, t.top(s, id))
	t.e.tell(model.TaskStarted{Attempt: t.at.id, Task: t.n, Host: host, PID: int32(id.Main.PID), Ports: s.Ports})
	for _, u := range id.Unenforced {
		if noteOnce(t.e.place.job(t.at.id.Job), "limit-"+safeName(u)) {
			t.notice("not enforced: " + u)
		}
	}
}

func (t *liveTask) notice(text string) { t.e.tell(model.Notice{Job: t.at.id.Job, Message: text}) }

// exited tells an end. An end that the server itself found is recorded first, so that the next
// server tells the same.
func (t *liveTask) exited(x model.Exit, record bool) {
	if record {
		t.recordOutcome(outcome{Exit: &x})
	}
	t.ended(model.TaskExited{Attempt: t.at.id, Task: t.n, Exit: x}, x.At)
}

// ended tells the task's end, after earlier ends of its attempt.
func (t *liveTask) ended(f model.Fact, at model.Time) {
	t.at.ends.add(end{t.n, at, func() {
		t.e.tell(f)
		t.fateKnown()
	}})
}

func (t *liveTask) recordOutcome(o outcome) {
	err := os.MkdirAll(t.dir, 0o700)
	if err == nil {
		err = writeOutcome(t.dir, outcomeFile, o)
	}
	if err != nil {
		t.e.o.Log.Warn("record a task's end", "attempt", t.at.id, "task", t.n, "error", err)
	}
}

// refused records and tells that the task did not start.
func (t *liveTask) refused(o outcome) {
	t.recordOutcome(o)
	t.tellOutcome(o)
}

func (t *liveTask) tellOutcome(o outcome) {
	if o.Exit == nil {
		if o.Job {
			t.sayWhy(o.Refused)
		}
		t.ended(model.TaskRefused{Attempt: t.at.id, Task: t.n, Reason: o.Refused, Job: o.Job, Fetch: o.Fetch}, 0)
		return
	}
	x := *o.Exit
	if x.Own && x.Code != 0 && x.Cause == "" {
		words := t.lastWords()
		switch {
		case o.Forks > 0 && exit.SaysNoProcess(words): // also long after the limit refused one
			x.Cause, x.Message = model.TooManyProcesses, tooMany(t.e.o.Pids)
		case words != "" && x.Message != "":
			x.Message = words + "; " + x.Message
		default:
			x.Message += words
		}
	}
	t.exited(x, false)
}

// sayWhy writes into the log of a task why it did not start: users look there first. A log that
// is not empty has the reason already.
func (t *liveTask) sayWhy(why string) {
	path := filepath.Join(t.dir, task.LogName(Stderr, 0))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err == nil {
		var st os.FileInfo
		if st, err = f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() == 0 {
			_, err = fmt.Fprintf(f, "comb: the task did not start: %s\n", why)
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.e.o.Log.Warn("write why a task did not start", "attempt", t.at.id, "task", t.n, "error", err)
	}
}

func (t *liveTask) unknown(why string) {
	t.e.roster.leave(t)
	t.e.o.Log.Warn("a task's fate is unknown", "attempt", t.at.id, "task", t.n, "reason", why)
	t.e.tell(model.TaskUnknown{Attempt: t.at.id, Task: t.n, Reason: why})
}
