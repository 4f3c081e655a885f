package process

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/cgroup"
)

// Killer ends all processes below this one, a step at a time, until its caller finds that no
// child is left. First it uses what needs no list of all processes: the namespace of which this
// is process 1, the task's cgroups, and the known process groups. It lists all processes only
// when something survives that.
type Killer struct {
	Groups []string // directories of the task's cgroups; they may not exist
	// Below returns the processes below this one, from a list of all.
	Below func() map[int]Stat

	known  []ID      // those of the last list that were not dead since
	struck time.Time // when these were last killed
	looked bool      // all processes were listed by a step
	idle   bool      // the last step found nothing dying
	least  int       // the smallest number of dying processes so far
	since  time.Time
}

// dyingWithin is how long to wait without the death of any killed process before something else
// is tried: thousands of them take seconds on a busy machine.
const dyingWithin = 2 * time.Second

// Know takes a list that was made for another purpose.
func (k *Killer) Know(members map[int]Stat) {
	k.known, k.struck = k.known[:0], time.Time{}
	for pid, st := range members {
		k.known = append(k.known, ID{PID: pid, Start: st.Start})
	}
}

// Step kills what is there. The caller has reaped all ended children before, so it waits for no
// zombie.
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
	if k.looked { // what leaves its group as fast as it forks is stopped first
		KillAll(func() map[int]Stat {
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

// waits reports whether to wait for the dying processes, since they become fewer.
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

// left returns how many of the known processes may live. It kills them again now and then, since
// one may leave its group meanwhile. In between it checks them only up to the first that lives:
// reading the state of thousands in each step would delay their end.
func (k *Killer) left() int {
	if time.Since(k.struck) > dyingWithin/2 {
		k.struck = time.Now()
		return k.killGroups()
	}
	first := slices.IndexFunc(k.known, ID.Alive)
	if first < 0 {
		first = len(k.known)
	}
	k.known = k.known[first:]
	return len(k.known)
}

// killGroups kills the process groups of the known processes, each in one step that no fork
// escapes, and single processes in groups that must not be killed. It forgets the dead ones, and
// returns how many are left. One that leaves its group meanwhile is found by the next strike.
func (k *Killer) killGroups() int {
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
