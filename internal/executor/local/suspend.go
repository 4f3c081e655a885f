package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
)

// phase is how far a suspension is.
//
//	running --not its turn--> asked --acknowledged--> freezing --all still--> frozen
//	   ^  \----(it is not asked)-------------------------^                       |
//	   +------------its turn, and the others of the rotation are frozen----------+
//
// A task that acknowledges too late, or is not still in time, is stopped. A stop leads from every
// phase to running.
type phase uint8

const (
	running phase = iota
	asked
	freezing
	frozen
)

// The pace of looks at a suspension.
const (
	askedPause  = 20 * time.Millisecond
	freezePause = 20 * time.Millisecond
	turnPause   = 20 * time.Millisecond // for others that have not left yet
	latePause   = 100 * time.Millisecond
	clockPause  = time.Second // so that a jump of the wall clock is noticed
)

// stillWithin bounds the tries to hold a tree still. A process may escape SIGSTOP: it waits
// inside the kernel, or is woken again and again. It would keep the devices from the other turns
// for ever.
const stillWithin = time.Minute

// wakening is how soon after a suspension a failure may be due to it.
const wakening = 10 * time.Second

// contract is how a task is asked to release memory.
type contract struct {
	Signal  int            `json:"signal"`
	Timeout model.Duration `json:"timeout"`
}

// contractOf reads a job's contract; nil when it has none.
func contractOf(j *model.Job) *contract {
	c := j.Hints.Suspend
	if c == nil {
		return nil
	}
	sig := unix.SignalNum("SIG" + c.Signal)
	if sig == 0 {
		sig = unix.SIGUSR1
	}
	return &contract{Signal: int(sig), Timeout: c.Timeout}
}

// suspension is a supervisor's part in a rotation.
type suspension struct {
	turns      turns
	phase      phase
	had        bool                // it ran before, so it has memory to release
	fresh      bool                // it has just started: others may still have the turn before
	until      time.Time           // when an asked task must have acknowledged, or a freezing one be still
	told       map[process.ID]bool // processes that were asked
	ackMayCome bool                // it was called off after it was asked: an acknowledgement may come
	stops      map[process.ID]bool // processes held by SIGSTOP
	locks      turnLocks
	next       time.Time  // when to look again; zero is never
	since      model.Time // when it was last frozen
	woken      model.Time // when it last went on in its turn; slept is how long it had been frozen
	slept      time.Duration
	// lostUntil is the end of a turn that it lost, since it was suspended so late: else it would
	// keep the devices from the other turns for ever.
	lostUntil model.Time
	failure   string // what it failed to do in time; "": nothing
}

// follow takes up the rotation that the server left.
func (s *supervisor) follow() {
	var r model.Rotation
	if err := safefile.Read(s.dir, rotationFile, &r); err != nil {
		return // there is none, or it is damaged: the present one stays
	}
	if shares(&r) {
		// Others may come in only once this attempt holds its lock of turns, or is frozen.
		defer shareLocks(s.locks)
	}
	p := &s.part
	if !r.Equal(&p.turns.r) || r.Epoch != p.turns.r.Epoch {
		p.lostUntil = 0
	}
	p.turns = turnsOf(r, s.spec.Attempt)
	if p.turns.always() {
		p.locks.leave()
	} else if err := p.locks.open(s.spec.Locks, s.spec.Attempt); err != nil {
		s.note("take turns: %v", err)
	}
	s.takeTurn()
}

// wallClock is the time by which rotations go.
func wallClock() model.Time { return model.Time(time.Now().UnixMicro()) }

// inTurn reports whether a task that starts now may run.
func (s *supervisor) inTurn() bool {
	var r model.Rotation
	if safefile.Read(s.dir, rotationFile, &r) != nil {
		return true
	}
	turns := turnsOf(r, s.spec.Attempt)
	mine, _ := turns.at(wallClock())
	return mine
}

// takeTurn brings the task to what the rotation says now, one step at a time.
func (s *supervisor) takeTurn() {
	p := &s.part
	p.next = time.Time{}
	if s.stopped || s.killing || s.ended != nil || s.main == 0 {
		return
	}
	now := time.Now()
	s.dropLate()
	wall := wallClock()
	mine, until := p.turns.at(wall)
	pause := clockPause
	if left := until - wall; left < model.Time(clockPause.Microseconds()) {
		pause = time.Duration(left) * time.Microsecond
	}
	switch {
	case p.phase == running:
		pause = s.stayOrGo(mine, pause)
	case p.phase == frozen || p.turns.always():
		pause = s.comeBack(mine && wall >= p.lostUntil, pause)
	case p.phase == asked:
		pause = s.awaitAck(now)
	default:
		pause = s.freeze()
	}
	if p.turns.always() && p.phase == running && !p.ackMayCome || s.stopped {
		return
	}
	if p.ackMayCome {
		pause = min(pause, max(latePause, now.Sub(p.until)/8)) // less often, but never not at all
	}
	p.next = now.Add(max(pause, time.Millisecond))
}

// stayOrGo begins a suspension when the turn is over. A task that has not run yet has no memory
// to release.
func (s *supervisor) stayOrGo(mine bool, pause time.Duration) time.Duration {
	p := &s.part
	fresh := p.fresh
	p.fresh = false
	switch {
	case mine && fresh && !p.turns.always() && !p.locks.enterAlone(&p.turns):
		p.had = false
		return s.freeze()
	case mine:
		p.locks.enter()
		return pause
	case p.had:
		p.locks.enter() // it runs until it is still, also when it was alone until now
	}
	c := s.spec.Suspend
	if c == nil || !p.had {
		return s.freeze()
	}
	_ = os.Remove(s.ackPath()) // a folder that is not empty stays, and is no acknowledgement
	p.phase, p.told, p.ackMayCome = asked, map[process.ID]bool{}, false
	p.until = time.Now().Add(time.Duration(c.Timeout) * time.Microsecond)
	return s.awaitAck(time.Now())
}

// awaitAck asks the processes that catch the signal, and looks for the acknowledgement.
func (s *supervisor) awaitAck(now time.Time) time.Duration {
	p, c := &s.part, s.spec.Suspend
	if len(p.told) == 0 {
		for _, one := range s.catchers(unix.Signal(c.Signal)) {
			p.told[one] = true
			one.Signal(unix.Signal(c.Signal))
		}
	}
	if st, err := os.Lstat(s.ackPath()); err == nil && st.Mode().IsRegular() {
		return s.freeze()
	}
	if now.Before(p.until) {
		return min(askedPause, time.Until(p.until))
	}
	return s.expire(fmt.Sprintf("it did not acknowledge its suspension within %v", time.Duration(c.Timeout)*time.Microsecond))
}

// expire stops a task that cannot be suspended, with its grace for a checkpoint.
func (s *supervisor) expire(why string) time.Duration {
	s.part.failure = why
	s.stop(time.Duration(s.spec.Grace) * time.Microsecond)
	return 0
}

func (s *supervisor) ackPath() string {
	if s.inContainer() {
		return filepath.Join(insideShared, ackFile)
	}
	return filepath.Join(s.spec.files(s.dir), ackFile)
}

// freeze holds the whole tree still; when that is done the others may run.
func (s *supervisor) freeze() time.Duration {
	if s.part.phase != freezing {
		s.part.phase, s.part.until = freezing, time.Now().Add(stillWithin)
	}
	for range 20 {
		if s.holdAll() {
			s.part.phase, s.part.since = frozen, wallClock()
			s.part.locks.leave()
			if mine, until := s.part.turns.at(wallClock()); mine && s.part.had {
				s.part.lostUntil = until
			}
			return turnPause
		}
		time.Sleep(time.Millisecond)
	}
	if time.Now().After(s.part.until) {
		return s.expire(fmt.Sprintf("its processes could not be held still within %v", stillWithin))
	}
	return freezePause
}

// holdAll freezes what moves, and reports whether nothing did. The cgroup is frozen. Processes
// outside it are stopped, or cannot go on before a stopped one does. Stopped processes cannot
// fork, so repeated calls come to an end.
func (s *supervisor) holdAll() bool {
	dir := s.freezer()
	if dir != "" {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1"), 0) // checked below
	}
	members := s.descendants()
	quiet := members != nil && (dir == "" || isFrozen(dir))
	for pid, st := range members {
		if st.Stopped() || dir != "" && inGroup(pid, dir) {
			continue
		}
		one := process.ID{PID: pid, Start: st.Start}
		if s.part.stops[one] && st.State == 'D' && process.WaitsForStart(pid, members) {
			continue
		}
		if s.part.stops == nil {
			s.part.stops = map[process.ID]bool{}
		}
		s.part.stops[one], quiet = true, false
		one.Signal(unix.SIGSTOP)
	}
	return quiet
}

// comeBack lets the tree go on when its turn has come and no attempt of another turn runs. Until
// then it makes sure that nothing has woken it.
func (s *supervisor) comeBack(mine bool, pause time.Duration) time.Duration {
	p := &s.part
	if !mine {
		s.holdAll()
		return pause
	}
	if !p.turns.always() && !p.locks.enterAlone(&p.turns) {
		return min(turnPause, max(pause, time.Millisecond))
	}
	if p.phase == frozen && p.had {
		p.woken = wallClock()
		p.slept = time.Duration(p.woken-p.since) * time.Microsecond
	}
	p.had, p.ackMayCome = true, p.phase == asked
	s.removeAck()
	s.wake()
	for one := range p.told {
		one.Signal(unix.SIGCONT)
	}
	p.told = nil
	return pause
}

// removeAck tells a suspended task that its turn has come, by removing its acknowledgement. A stop
// does not: the turn and the memory of the devices belong to another attempt.
func (s *supervisor) removeAck() {
	_ = os.Remove(s.ackPath()) // what cannot be removed was no acknowledgement
}

// justWoken reports whether a time is so soon after a suspension that a failure may be a time-out
// of the task's own, which counts the time that it was frozen.
func (p *suspension) justWoken(at model.Time) bool {
	return p.slept >= time.Second && at-p.woken < model.Time(wakening.Microseconds())
}

// dropLate removes an acknowledgement that came after its suspension was called off: the task
// waits for the removal.
func (s *supervisor) dropLate() {
	p := &s.part
	if !p.ackMayCome || p.phase != running {
		return
	}
	if st, err := os.Lstat(s.ackPath()); err == nil && st.Mode().IsRegular() {
		s.removeAck()
		p.ackMayCome = false
	}
}

// wake ends a suspension, whatever its phase. An acknowledgement stays: a task that is stopped
// may have released its memory already.
func (s *supervisor) wake() {
	p := &s.part
	if p.phase == running {
		return
	}
	if dir := s.freezer(); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0); err != nil {
			s.note("thaw %s: %v", dir, err)
		}
	}
	for one := range p.stops {
		one.Signal(unix.SIGCONT)
	}
	p.phase, p.stops, p.next = running, nil, time.Time{}
}

// freezer is the task's cgroup that can be frozen; "" when there is none.
func (s *supervisor) freezer() string {
	for i, dir := range s.spec.groupDirs() {
		if !s.spec.Parents[i].V2 {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err == nil {
			return dir
		}
	}
	return ""
}

// isFrozen asks the kernel whether everything in a group is still.
func isFrozen(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains("\n"+string(data), "\nfrozen 1\n")
}

// inGroup reports whether a process is in a task's group of version 2, or below it.
func inGroup(pid int, dir string) bool {
	data, err := os.ReadFile("/proc/" + itoa(pid) + "/cgroup")
	if err != nil {
		return true // it is gone
	}
	path := cgroup.ParseOwn(string(data))[""] + "/"
	return strings.Contains(path, "/"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)+"/")
}

// catchers are the task's processes that a signal is for.
func (s *supervisor) catchers(sig unix.Signal) []process.ID {
	all, err := process.All()
	if err != nil {
		s.note("list processes: %v", err)
		return nil
	}
	return process.CatchersBelow(s.entry.WithoutCommands(all), os.Getpid(), sig)
}
