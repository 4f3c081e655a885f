package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
)

// Exit codes of the supervisor itself; the files tell the rest.
const (
	exitDone    = 0 // the outcome is recorded
	exitNotMine = 3 // another supervisor, or the server, owns the start
	exitUnable  = 4 // nothing was started; the reason is on its standard error
	exitDisk    = 5 // the same, because of the server's disk
	exitTaken   = 6 // of process 1: errTaken
)

// statusFD is where a supervisor tells the server that started it how the start went. That server
// may be gone.
const statusFD = 3

// Bounds of what the server sends through the pipe, in bytes.
const (
	maxScript       = 16 << 20
	maxSurroundings = 4 << 20
)

// Supervise runs one task to its end: `comb supervise DIR`. It is a process of its own so that
// the task outlives the server. What no file may hold comes on standard input, as private.encode
// writes it.
func Supervise(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "supervise takes the directory of one task; the server starts it")
		return exitUnable
	}
	s, code, err := newSupervisor(args[0])
	if s != nil && s.spec.Container != nil {
		return (&caretaker{supervisor: s}).care()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if s == nil {
		return code
	}
	if refused, job := s.start(); refused != "" {
		return s.refuse(refused, job)
	}
	return s.run()
}

// supervisor owns one task.
//
//	        +-- stop, own SIGTERM --> stopping --grace over-+
//	running +                                               +-> killing --no child left-> recorded
//	        +-- main process ends --> leftovers --2 s over--+
//	        (from every state: no child left -> recorded)
//
// It is a subreaper: every descendant that loses its parent becomes its child. When wait(2) says
// that it has no child, then no descendant exists.
type supervisor struct {
	dir     string
	file    string        // the name of the outcome's file
	account *task.Account // the user that the task runs as; nil: the supervisor's
	spec    *spec
	private *private
	status  *os.File
	signals chan os.Signal

	children chan os.Signal // signals that children have ended
	killer   process.Killer // kills what is left, once that has begun
	looks    int64          // how often all processes were listed before the end began

	locks      []*os.File
	part       suspension
	captures   []*task.Capture
	order      *task.Order // the order in which the two captures were printed
	unenforced []string
	main       int
	entry      *EntryServer

	ended       *unix.WaitStatus // of the main process; nil while it runs
	endedAt     model.Time
	forks       forkRefusals // refused by its limit of processes, while the main process ran
	looked      time.Time
	deadln      time.Time     // when to begin killing; zero is never
	grace       time.Duration // of the stop
	killing     bool
	ask         stopRequest
	stopped     bool   // it was asked to end
	toldByOther bool   // not by the server: the supervisor itself was told to end
	endedItself bool   // the main process ended without being asked
	oom         bool   // the memory limit ended it
	trouble     string // why the outcome could not be recorded yet
}

// newSupervised is a supervisor that takes signals, and nothing else yet.
func newSupervised(dir, file string) *supervisor {
	s := &supervisor{dir: dir, file: file, spec: &spec{}, signals: make(chan os.Signal, 16)}
	// The handlers come before the claim: a server signals only the owner of a claim.
	signal.Notify(s.signals, unix.SIGUSR1, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	return s
}

func newSupervisor(dir string) (s *supervisor, code int, err error) {
	_ = unix.CloseRange(statusFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) // on old kernels all files are close-on-exec
	unix.CloseOnExec(statusFD)
	s = newSupervised(dir, outcomeFile)
	s.status = os.NewFile(statusFD, "status")
	if err := safefile.Read(dir, specFile, s.spec); err != nil {
		return nil, notStarted(err), err
	}
	if s.spec.Container != nil {
		return s, 0, nil
	}
	if s.private, err = readPrivate(os.Stdin); err != nil {
		return nil, exitUnable, err
	}
	if s.account = s.spec.As; s.account != nil {
		s.account.Groups = s.spec.Groups
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	task.SetLimits(s.spec.Each.NoFile, s.spec.Each.StackMB, s.spec.Each.MemLockMB)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, exitUnable, fmt.Errorf("become a subreaper: %w", err)
	}
	if err := reserveOutcome(dir); err != nil {
		return nil, notStarted(err), err
	}
	mine, err := writeClaim(dir, claim{Boot: s.spec.Boot, Supervisor: process.Of(os.Getpid())})
	if err == nil && mine {
		return s, 0, nil
	}
	os.Remove(reservePath(dir))
	if err != nil {
		return nil, notStarted(err), err
	}
	return nil, exitNotMine, nil
}

// notStarted is the exit code of a supervisor that an error kept from starting anything.
func notStarted(err error) int {
	if ofDisk(err) {
		return exitDisk
	}
	return exitUnable
}

// encode writes "<script's length> <surroundings' length>
// " and both; zero bytes separate the variables.
func (p *private) encode() []byte {
	env := strings.Join(p.surroundings, "\x00")
	out := fmt.Appendf(nil, "%d %d\n", len(p.script), len(env))
	return append(append(out, p.script...), env...)
}

// readPrivate wants all of it: a server that died while writing leaves a part, and a part of a
// script must not run.
func readPrivate(r io.Reader) (*private, error) {
	b := bufio.NewReader(io.LimitReader(r, maxScript+maxSurroundings+64))
	head, err := b.ReadString('\n')
	if err != nil {
		return nil, errors.New("the server ended before it sent the script")
	}
	first, second, _ := strings.Cut(strings.TrimSuffix(head, "\n"), " ")
	n, err := strconv.Atoi(first)
	m, err2 := strconv.Atoi(second)
	if err != nil || err2 != nil || n < 0 || n > maxScript || m < 0 || m > maxSurroundings {
		return nil, fmt.Errorf("the lengths %q are not those of a script of 0 to %d bytes and of variables of 0 to %d bytes",
			strings.TrimSpace(head), maxScript, maxSurroundings)
	}
	all := make([]byte, n+m)
	if _, err := io.ReadFull(b, all); err != nil {
		return nil, errors.New("the server ended before it sent the whole script")
	}
	p := &private{script: all[:n]}
	if m > 0 {
		p.surroundings = strings.Split(string(all[n:]), "\x00")
	}
	return p, nil
}

// start starts the task, or says why it could not.
func (s *supervisor) start() (refused string, job bool) {
	var order stopOrder
	if safefile.Read(s.dir, stopFile, &order) == nil {
		s.stopped = true // the stop came before the start
		return "", false
	}
	err := s.patiently(s.lock)
	if s.stopped {
		return "", false
	}
	if err != nil {
		return err.Error(), false
	}
	if err := s.unpack(); err != nil { // a full disk is not the job's fault
		return err.Error(), !strings.Contains(err.Error(), unix.ENOSPC.Error())
	}
	if s.stopped {
		return "", false
	}
	if err := task.Enterable(s.account, s.spec.Dir); err != nil {
		return fmt.Sprintf("the working directory %s %v", s.spec.Dir, err), true
	}
	s.unenforced = cgroup.Make(s.spec.Parents, s.spec.groupName(), s.spec.Limits)
	var writers []*os.File
	s.order = task.NewOrder(s.dir)
	for i, stream := range []string{Stdout, Stderr} {
		c, w, err := task.NewCapture(s.dir, stream, s.spec.Logs)
		if err != nil {
			return "capture output: " + err.Error(), false
		}
		defer w.Close()
		s.order.Join(c, i)
		err = s.patiently(c.Rotate)
		if s.stopped {
			return "", false
		}
		if err != nil {
			return "open the log: " + err.Error(), false
		}
		s.captures, writers = append(s.captures, c), append(writers, w)
	}
	s.part.had, s.part.fresh = s.inTurn(), true
	s.openEntry()
	if s.inContainer() {
		startThreads(insideThreads)
	}
	pid, err := startMain(s.spec, s.private, writers[0], writers[1], s.account)
	s.private.script = nil
	if fault := s.startFault(err); fault != "" {
		return fault, true
	}
	if err != nil {
		return fmt.Sprintf("start %s: %v", s.spec.program(), err), false
	}
	s.main = pid
	for _, c := range s.captures {
		go c.Run()
	}
	s.tellStarted()
	return "", false
}

// lockPatience is how long a start of an attempt that shares its devices waits for their holder
// to share them: the holder is told at the same time.
const lockPatience = 30 * time.Second

// lock takes the task's devices, or says why it cannot; a stop ends the wait.
func (s *supervisor) lock() (err error) {
	var r model.Rotation
	if safefile.Read(s.dir, rotationFile, &r) != nil || !shares(&r) {
		s.locks, err = takeLocks(s.spec.Locks, s.spec.marker(), unix.LOCK_EX)
		return err
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		s.locks, err = takeLocks(s.spec.Locks, s.spec.marker(), unix.LOCK_SH)
		if err == nil || ofDisk(err) || time.Now().After(until) {
			return err
		}
		var order stopOrder
		if safefile.Read(s.dir, stopFile, &order) == nil {
			s.stopped = true
			return nil
		}
	}
}

// tellStarted records the task's main process and tells the server.
func (s *supervisor) tellStarted() {
	id := identity{Main: process.Of(s.main), Unenforced: s.unenforced}
	if s.inContainer() {
		if err := safefile.Write(s.dir, runsFile, identity{Host: s.spec.Host, Unenforced: s.unenforced}); err != nil {
			s.note("record that the task runs: %v", err)
		}
		return
	}
	if err := safefile.Write(s.dir, identityFile, id); err != nil {
		s.note("record the task's process: %v", err) // the marker still finds the task's processes
	}
	data, err := json.Marshal(id)
	if err == nil {
		_, _ = s.status.Write(append(data, '\n')) // a server that is gone reads the file
	}
	s.status.Close()
}

// inContainer reports whether this is process 1 of a container.
func (s *supervisor) inContainer() bool { return s.spec.Container != nil }

func (s *supervisor) note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// refuse records that nothing was started.
func (s *supervisor) refuse(reason string, job bool) int {
	cgroup.Remove(s.spec.groupDirs())
	s.record(outcome{Refused: reason, Job: job})
	return exitDone
}

// reapAtOnce bounds how many ends are collected in a row: a task whose children end all the time
// must not keep the supervisor from everything else.
const reapAtOnce = 10_000

// reap collects the ends of all children that have ended, and reports whether any child is left.
// If the main process was among them, the other processes are told to end.
func (s *supervisor) reap() (left bool) {
	running := s.ended == nil
	if left = s.takeEnds(); left && running && s.ended != nil && s.endedItself {
		s.leftovers()
	}
	return left
}

func (s *supervisor) takeEnds() (left bool) {
	for range reapAtOnce {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		default:
			s.entry.Ended(pid, status)
			if pid == s.main {
				s.mainEnded(status)
			}
		}
	}
	select {
	case s.children <- unix.SIGCHLD:
	default:
	}
	return true
}

// mainEnded notes what is known of the main process, before anything else of the task is ended.
func (s *supervisor) mainEnded(status unix.WaitStatus) {
	s.ended, s.endedAt, s.endedItself = &status, wallClock(), !s.stopped && !s.killing
	if s.endedItself {
		s.forks.end(s.spec.refusedForks(), time.Now())
	}
}

// run waits for the end of the task and of everything it started.
func (s *supervisor) run() int {
	s.children = make(chan os.Signal, 1)
	signal.Notify(s.children, unix.SIGCHLD)
	s.takeOrder()
	s.follow()
	trimMemory()
	s.looked = time.Now()
	for pause := 10 * time.Millisecond; ; {
		s.startCommands()
		if !s.reap() {
			return s.finish()
		}
		select {
		case <-s.entry.CommandWaits():
		case <-s.children:
		case sig := <-s.signals:
			if sig == unix.SIGUSR1 {
				s.takeOrder()
				s.follow()
			} else if !s.stopped {
				s.toldByOther = true
				s.stop(10 * time.Second)
			}
		case <-s.nextLook(pause):
			s.looked = time.Now()
			if !s.reap() {
				return s.finish()
			}
			s.look()
			if s.killing {
				pause = min(2*pause, 200*time.Millisecond)
			}
		}
	}
}

// nextLook fires when to look again: at the deadline; often while killing; once a second where
// the kernel does not report memory kills; now and then where it counts refused forks. It counts
// from the last look, so that a task whose children end all the time cannot put it off.
func (s *supervisor) nextLook(pause time.Duration) <-chan time.Time {
	var next time.Time
	switch {
	case s.killing:
		next = s.looked.Add(pause)
	case s.watchesMemory():
		next = s.looked.Add(time.Second)
	case s.watchesForks():
		next = s.looked.Add(forksPause)
	}
	if !s.killing && !s.deadln.IsZero() && (next.IsZero() || s.deadln.Before(next)) {
		next = s.deadln
	}
	for _, other := range []time.Time{s.part.next, s.nextAsk()} {
		if !other.IsZero() && (next.IsZero() || other.Before(next)) {
			next = other
		}
	}
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// watchesMemory reports whether memory kills must be looked for: cgroup version 1 kills one
// process of a group and leaves the others waiting for it. A container may be in such a group.
func (s *supervisor) watchesMemory() bool {
	if s.inContainer() && s.spec.Limits.MemoryMB > 0 {
		return true
	}
	for _, p := range s.spec.Parents {
		if !p.V2 && s.spec.Limits.MemoryMB > 0 && cgroup.HasController([]cgroup.Parent{p}, "memory") {
			return true
		}
	}
	return false
}

// watchesForks is true while a refused fork can make the main process fail.
func (s *supervisor) watchesForks() bool {
	return s.ended == nil && !s.killing && s.spec.countsForks()
}

func (s *supervisor) look() {
	if s.watchesForks() {
		s.forks.look(s.spec.refusedForks(), time.Now())
	}
	if turn := s.part.next; !turn.IsZero() && !time.Now().Before(turn) {
		s.follow()
	}
	if s.watchesMemory() && !s.oom && s.spec.outOfMemory() > 0 {
		s.oom, s.killing = true, true
	}
	if !s.deadln.IsZero() && !time.Now().Before(s.deadln) {
		s.killing = true
	}
	s.followUp()
	if s.killing {
		s.beginEnd()
		s.killer.Step()
	}
}

// descendants are all living processes below this one, and those in the task's groups.
func (s *supervisor) descendants() map[int]process.Stat {
	all, err := process.All()
	if err != nil {
		s.note("list processes: %v", err)
		return nil
	}
	return s.among(all)
}

// among picks the task's processes from a list of all.
func (s *supervisor) among(all map[int]process.Stat) map[int]process.Stat {
	found := map[int]bool{os.Getpid(): true}
	process.Descend(all, found)
	for _, pid := range s.grouped() {
		found[pid] = true
	}
	members := map[int]process.Stat{}
	for pid := range found {
		if st, ok := all[pid]; ok && pid != os.Getpid() {
			members[pid] = st
		}
	}
	return members
}

// grouped are the processes in the task's groups.
func (s *supervisor) grouped() (pids []int) {
	for _, dir := range s.spec.groupDirs() {
		pids = append(pids, cgroup.Members(dir)...)
	}
	return pids
}

// takeOrder obeys a stop that the server left.
func (s *supervisor) takeOrder() {
	var order stopOrder
	if err := safefile.Read(s.dir, stopFile, &order); err == nil {
		s.toldByOther = false
		s.stop(time.Duration(max(order.Grace, 0)) * time.Microsecond)
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.note("read the stop: %v", err)
	}
}

// stop asks the task to end within the grace. A later stop may only shorten it.
func (s *supervisor) stop(grace time.Duration) {
	until := time.Now().Add(grace)
	if s.stopped && !s.deadln.IsZero() && !until.Before(s.deadln) {
		return
	}
	again := s.stopped
	s.stopped, s.deadln, s.grace = true, until, grace
	s.beginEnd()
	s.wake()
	// Without a grace nothing could answer: it is killed at once.
	if grace > 0 && (!again || len(s.ask.asked) == 0) {
		s.terminate()
	}
}

// leftovers leaves a short time to descendants that outlive the main process; during a stop they
// have the rest of the grace.
func (s *supervisor) leftovers() {
	s.deadln = time.Now().Add(time.Duration(s.spec.Leftover) * time.Microsecond)
	s.beginEnd()
	s.wake()
	s.tellAll(unix.SIGTERM)
}

// beginEnd notes that the end begins: from there on, listings of all processes are counted.
func (s *supervisor) beginEnd() {
	if s.killer.Below == nil {
		s.killer = process.Killer{Groups: s.spec.groupDirs(), Below: s.descendants}
		s.looks = process.Looks()
	}
}

// finish records the end: no descendant is left.
func (s *supervisor) finish() int {
	s.entry.StopAll(taskEnded)
	s.entry.Close()
	for _, c := range s.captures {
		c.Finish()
	}
	if s.order != nil {
		s.order.Close()
	}
	exit := s.exit()
	s.part.locks.remove()
	cgroup.Remove(s.spec.groupDirs())
	for _, f := range s.locks {
		f.Close() // a reader of the outcome may start another task there before this process is gone
	}
	s.locks = nil
	end := outcome{Exit: &exit, Forks: s.forks.refused}
	if s.killer.Below != nil {
		end.Looks = process.Looks() - s.looks
	}
	s.record(end)
	return exitDone
}

func (s *supervisor) exit() model.Exit {
	if s.main == 0 {
		return model.Exit{Cause: model.NeverStarted, Message: "it was stopped before it was started"}
	}
	e := model.Exit{Own: s.endedItself, At: s.endedAt}
	st := s.ended
	if said := s.ask.said; st != nil && said != nil && st.Signaled() && *said != 0 {
		st = said // the shell was stopped after it; a 0 does not tell the rest
	}
	switch {
	case st == nil:
		return model.Exit{Code: 1, Cause: model.SupervisorLost, Message: "its exit was not seen"}
	case st.Signaled():
		e.Signal = int32(st.Signal())
		e.Code = 128 + e.Signal
	default:
		e.Code = int32(st.ExitStatus())
	}
	switch {
	case s.part.failure != "" && !s.endedItself:
		e.Cause, e.Message = model.SuspendTimeout, s.part.failure
	case e.Code == 0:
	case s.stopped && !s.toldByOther && s.killing && !s.oom && st.Signaled() && st.Signal() == unix.SIGKILL:
		e.Cause = model.GraceOver
		e.Message = fmt.Sprintf("it had not ended when its grace of %v was over, and was killed", s.grace)
	case (s.oom || s.spec.outOfMemory() > 0) && (!s.stopped || s.oom):
		e.Cause = model.OutOfMemory
		e.Message = fmt.Sprintf("it needed more than its %d MiB of memory", s.spec.Limits.MemoryMB)
	case s.endedItself && s.forks.causedEnd:
		e.Cause, e.Message = model.TooManyProcesses, tooMany(s.spec.Limits.Pids)
	case s.endedItself && e.Code != 0 && s.part.justWoken(s.endedAt):
		e.Message = fmt.Sprintf("it failed just after a suspension of %v: a time-out of its own may be shorter than that", s.part.slept.Round(time.Second))
	case s.toldByOther:
		e.Cause = model.SupervisorLost
		e.Message = "its supervisor was told to end, not by the server"
	}
	return e
}

// recordWithin bounds the tries to record an outcome that fail for another reason than a full
// disk. After it the server proves the end by itself.
const recordWithin = time.Minute

// record writes the outcome. Until a full disk takes it, the task counts as running. Where the
// directory is gone there is nothing to tell.
func (s *supervisor) record(o outcome) {
	for began := time.Now(); ; {
		err := writeOutcome(s.dir, s.file, o)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if errors.Is(err, fs.ErrPermission) {
			_ = os.Chmod(s.dir, 0o700) // a task may have removed the right to write
		}
		if full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT); !full &&
			time.Since(began) > recordWithin {
			return
		}
		if s.trouble != err.Error() {
			s.trouble = err.Error()
			s.note("record the outcome: %v", err)
		}
		time.Sleep(time.Second)
	}
}

// ofDisk reports whether an error comes from the disk that holds the jobs folder: full, at its
// quota, read-only or broken.
func ofDisk(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// diskPause is how often the disk is tried again.
const diskPause = 500 * time.Millisecond

// patiently repeats what fails because of the server's disk, until it succeeds, fails for another
// reason, or the start is stopped.
func (s *supervisor) patiently(f func() error) error {
	for {
		err := f()
		if !ofDisk(err) {
			return err
		}
		if s.trouble != err.Error() {
			s.trouble = err.Error()
			s.note("the start waits for the server's disk: %v", err)
		}
		select {
		case sig := <-s.signals:
			s.stopped = s.stopped || sig != sigOrder // without room for an order it is a plain end
		case <-time.After(diskPause):
		}
		var order stopOrder
		s.stopped = s.stopped || safefile.Read(s.dir, stopFile, &order) == nil
		if s.stopped {
			return err
		}
	}
}

// sigOrder tells a supervisor to read its orders.
const sigOrder = unix.SIGUSR1
