package podinit

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/process"
)

// Turns says how a task shares its devices with others by turns.
type Turns struct {
	Attempt  model.AttemptID `json:"attempt"`
	Rotation model.Rotation  `json:"rotation"` // without turns it runs all the time
	// Signal asks its programs to release memory before they are suspended. They acknowledge by
	// making File within Timeout. "" asks for nothing.
	Signal  string         `json:"signal,omitempty"`
	Timeout model.Duration `json:"timeout,omitempty"`
	File    string         `json:"file,omitempty"`
	Grace   model.Duration `json:"grace"` // of a stop of a task that cannot be suspended in time
}

// phase is how far a suspension is.
//
//	running --not its turn--> asked --acknowledged--> freezing --all still--> frozen
//	   ^  \-------(it is not asked)----------------------^                       |
//	   +---its turn, and the server says that those of the other turns are still-+
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

const (
	freezePause = 20 * time.Millisecond
	clockPause  = time.Second // so that a jump of the clock is noticed
	// stillWithin bounds the tries to hold all processes still: some may be woken again and
	// again, and would keep the devices from others for ever.
	stillWithin = time.Minute
	// firstGuard is how long tasks of the turn before may take to be suspended, until the server
	// has told how long.
	firstGuard = time.Second
	// away is how long the server must be silent to count as away.
	away = 3 * time.Second
)

// suspender suspends a task while others have its devices. It follows the clock. It asks the server
// whether the tasks of the turn before are suspended. While the server is away, it waits as long
// as their suspension may take.
type suspender struct {
	o          Turns
	line       *turnReporter
	phase      phase
	had        bool                // it ran: there is something to hold
	until      time.Time           // when it must have acknowledged, or be still
	wants      time.Time           // since when it has had its turn without running
	lostUntil  model.Time          // the end of a turn that it lost, since it was suspended so late
	ackMayCome bool                // it was called off after it was asked: an acknowledgement may come
	told       map[process.ID]bool // processes that were asked
	stops      map[process.ID]bool // processes that are held
	finished   bool                // it is being stopped, and follows no turns any more
}

// wallClock is the time by which rotations go.
func wallClock() model.Time { return model.Time(time.Now().UnixMicro()) }

func (t *suspender) always() bool { return len(t.o.Rotation.Turns) < 2 || t.o.Rotation.Check() != nil }

// now says whether the task has its turn, and how long that lasts.
func (t *suspender) now() (mine bool, until model.Time, pause time.Duration) {
	if t.always() {
		return true, 0, clockPause
	}
	wall := wallClock()
	until = t.o.Rotation.Change(wall)
	left := time.Duration(until-wall) * time.Microsecond
	return t.o.Rotation.Runs(t.o.Attempt, wall) && wall >= t.lostUntil, until, max(min(left, clockPause),
		time.Millisecond)
}

// await waits until the task may begin; false says that it was stopped instead.
func (t *suspender) await(stops <-chan os.Signal) bool {
	for {
		mine, _, pause := t.now()
		if mine && t.allowed() {
			t.had = true
			t.line.tell(t.state())
			return true
		}
		if mine {
			pause = freezePause
		} else {
			t.wants = time.Time{}
		}
		t.line.tell(t.state())
		select {
		case got := <-stops:
			if got == unix.SIGTERM || got == unix.SIGINT {
				return false
			}
		case says := <-t.line.says:
			t.take(says)
		case <-time.After(pause):
		}
	}
}

// state is what the server is told of the task.
func (t *suspender) state() link.TurnReport {
	return link.TurnReport{Holds: t.had && t.phase != frozen, Wants: !t.wants.IsZero()}
}

// allowed reports whether a task that has its turn may run, and asks the server: others may still
// have its devices.
func (t *suspender) allowed() bool {
	if t.always() {
		t.wants = time.Time{}
		return true
	}
	if t.wants.IsZero() {
		t.wants = time.Now()
		return false
	}
	if t.line.entered(t.wants) || t.line.serverAway(t.wants, time.Duration(t.o.Rotation.Quantum)*time.Microsecond/2) {
		t.wants = time.Time{}
		return true
	}
	return false
}

// take follows a new rotation.
func (t *suspender) take(says link.TurnAnswer) {
	if says.Rotation != nil {
		t.o.Rotation, t.lostUntil = *says.Rotation, 0
	}
}

// step brings the task nearer to what the rotation says, and returns when to look again. A why
// that is not empty says what the task failed to do in time: it must be stopped.
func (t *suspender) step() (pause time.Duration, why string) {
	if t.finished {
		return clockPause, ""
	}
	mine, until, pause := t.now()
	switch {
	case t.phase == running && mine:
		t.dropLate()
	case t.phase == running:
		pause, why = t.suspend()
	case (t.phase == frozen || t.always()) && mine:
		if pause = freezePause; t.allowed() {
			t.wake(true)
		} else {
			t.holdAll()
		}
	case t.phase == frozen:
		t.wants = time.Time{}
		t.holdAll() // in case some were woken
	case t.phase == asked:
		pause, why = t.answer()
	default:
		pause, why = t.freeze(mine, until)
	}
	t.line.tell(t.state())
	return pause, why
}

// suspend begins a suspension.
func (t *suspender) suspend() (time.Duration, string) {
	if t.o.Signal == "" {
		t.phase, t.until = freezing, time.Now().Add(stillWithin)
		return time.Millisecond, ""
	}
	_ = os.Remove(t.o.File) // a folder that is not empty stays, and is no acknowledgement
	t.phase, t.told, t.ackMayCome = asked, map[process.ID]bool{}, false
	t.until = time.Now().Add(time.Duration(t.o.Timeout) * time.Microsecond)
	return t.answer()
}

// answer asks the programs that catch the signal, and looks for their acknowledgement.
func (t *suspender) answer() (time.Duration, string) {
	sig := unix.SignalNum("SIG" + t.o.Signal)
	if all, err := process.All(); err == nil && len(t.told) == 0 {
		for _, p := range process.CatchersBelow(all, os.Getpid(), sig) {
			t.told[p] = true
			p.Signal(sig)
		}
	}
	if t.acknowledged() {
		t.phase, t.until = freezing, time.Now().Add(stillWithin)
		return time.Millisecond, ""
	}
	if left := time.Until(t.until); left > 0 {
		return min(left, askPause), ""
	}
	return clockPause, fmt.Sprintf("it did not acknowledge its suspension within %v", time.Duration(t.o.Timeout)*time.Microsecond)
}

func (t *suspender) acknowledged() bool {
	st, err := os.Lstat(t.o.File)
	return err == nil && st.Mode().IsRegular()
}

// freeze holds the whole task. A task whose next turn has come by then was so late that it loses
// that turn: else it would keep the devices from others for ever.
func (t *suspender) freeze(mine bool, until model.Time) (time.Duration, string) {
	for range 20 {
		if t.holdAll() {
			if t.phase = frozen; mine {
				t.lostUntil = until
			}
			return time.Millisecond, ""
		}
		time.Sleep(time.Millisecond)
	}
	if time.Now().After(t.until) {
		return clockPause, fmt.Sprintf("its processes could not be held still within %v", stillWithin)
	}
	return freezePause, ""
}

// holdAll stops what moves, and reports whether nothing did. Stopped processes cannot fork, so
// repeated calls come to an end.
func (t *suspender) holdAll() bool {
	all, err := process.All()
	if err != nil {
		return false
	}
	found := map[int]bool{os.Getpid(): true}
	process.Descend(all, found)
	members := map[int]process.Stat{}
	for pid := range found {
		if st := all[pid]; pid != os.Getpid() && !st.Dead() {
			members[pid] = st
		}
	}
	quiet := true
	for pid, st := range members {
		one := process.ID{PID: pid, Start: st.Start}
		if st.Stopped() || t.stops[one] && st.State == 'D' && process.WaitsForStart(pid, members) {
			continue
		}
		if t.stops == nil {
			t.stops = map[process.ID]bool{}
		}
		t.stops[one], quiet = true, false
		one.Signal(unix.SIGSTOP)
	}
	return quiet
}

// wake lets the task go on, whatever phase its suspension is in. allowed says that its turn has
// come: the task learns that from the removal of its file. A stop removes no file, since the
// devices are another task's.
func (t *suspender) wake(allowed bool) {
	if allowed {
		_ = os.Remove(t.o.File)
		t.ackMayCome = t.phase == asked
	}
	for p := range t.stops {
		p.Signal(unix.SIGCONT)
	}
	for p := range t.told {
		p.Signal(unix.SIGCONT)
	}
	t.phase, t.stops, t.told, t.wants = running, nil, nil, time.Time{}
}

// dropLate removes an acknowledgement that came after its suspension was called off.
func (t *suspender) dropLate() {
	if t.ackMayCome && t.acknowledged() {
		_ = os.Remove(t.o.File)
		t.ackMayCome = false
	}
}

// end ends the turns of a task that is being stopped.
func (t *suspender) end() {
	t.finished = true
	t.wake(false)
}
