package process

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/cgroup"
)

// Killer ends all that runs below this process, a step at a time, until its caller finds that it
// has no child any more. It kills by what needs no look at all processes: the namespace of which
// this is process 1, the task's cgroups, the process groups that are known. It looks where
// something lives on behind that.
type Killer struct {
	Groups []string // directories of the task's cgroups, made or not
	// Below names the processes below this one; it looks at all processes.
	Below func() map[int]Stat

	known  []ID      // what a look found, and was not dead since
	struck time.Time // when they were killed
	looked bool      // by a step
	idle   bool      // the last step found nothing that was dying
	least  int       // so few were dying at the least
	since  time.Time
}

// dyingWithin is how long no process of those that were killed may have died before something else
// is tried: thousands take seconds on a busy machine.
const dyingWithin = 2 * time.Second

// Know notes what a look found that was made for something else.
func (k *Killer) Know(members map[int]Stat) {
	k.known, k.struck = k.known[:0], time.Time{}
	for pid, st := range members {
		k.known = append(k.known, ID{PID: pid, Start: st.Start})
	}
}

// Step kills what is there. All that ended was reaped before, so that no zombie is waited for.
func (k *Killer) Step() {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, unix.SIGKILL) // everything in this namespace at once: no fork escapes it
		return
	}
	dying := cgroup.Kill(k.Groups)
	if dying == 0 {
		dying = k.left()
	}
	if k.waits(dying) {
		return
	}
	if dying == 0 && !k.idle {
		k.idle = true // what has just died is reaped first
		return
	}
	k.idle, k.since = false, time.Time{}
	if k.looked { // what leaves its group as fast as it forks is held first
		Strike(func() map[int]Stat {
			members := k.Below()
			k.Know(members)
			return members
		})
		return
	}
	k.looked = true
	k.Know(k.Below())
	k.left()
}

// waits reports whether so many that are dying are worth waiting for: they become fewer.
func (k *Killer) waits(dying int) bool {
	if dying == 0 {
		k.since = time.Time{}
		return false
	}
	if now := time.Now(); k.since.IsZero() || dying < k.least {
		k.since, k.least = now, dying
	}
	return time.Since(k.since) < dyingWithin
}

// left returns how many of the known may live. It kills them now and then, since one may leave its
// group meanwhile. Between, it waits for the first of them alone: to read the state of thousands in
// each step would slow their end.
func (k *Killer) left() int {
	if time.Since(k.struck) > dyingWithin/2 {
		k.struck = time.Now()
		return k.strike()
	}
	first := slices.IndexFunc(k.known, ID.Alive)
	if first < 0 {
		first = len(k.known)
	}
	k.known = k.known[first:]
	return len(k.known)
}

// strike kills the process groups of the known, each in one step that no fork escapes, and those
// that have none of their own. It forgets those that are dead, and returns how many are not: one
// that leaves its group meanwhile is found in the next step's.
func (k *Killer) strike() int {
	own, done := unix.Getpgrp(), map[int]bool{}
	k.known = slices.DeleteFunc(k.known, func(p ID) bool {
		st, ok := ReadStat(p.PID)
		if !ok || st.Start != p.Start || st.Dead() {
			return true
		}
		g := st.Group
		if g <= 1 || g == own {
			p.Signal(unix.SIGKILL)
			return false
		}
		if !done[g] {
			_ = unix.Kill(-g, unix.SIGKILL) // a group that is gone is what is wanted
			done[g] = true
		}
		return false
	})
	return len(k.known)
}
