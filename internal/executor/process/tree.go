package process

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/cgroup"
)

// KillAll stops and then kills everything that find returns. Stopping comes first because a
// stopped process cannot fork: once find returns no new process, the kills leave none behind,
// however fast the tree grows. It returns how many processes it found.
func KillAll(find func() map[int]Stat) int {
	held := map[ID]bool{}
	for range 50 {
		grown := false
		for pid, s := range find() {
			p := ID{PID: pid, Start: s.Start}
			if held[p] {
				continue
			}
			held[p], grown = true, true
			p.Signal(unix.SIGSTOP)
		}
		if !grown {
			break
		}
	}
	for p := range held {
		p.Signal(unix.SIGKILL)
	}
	return len(held)
}

// Tree is what is known of a task whose supervisor is gone.
type Tree struct {
	Marker string
	Main   ID       // zero when it is not known
	Groups []string // its cgroups' directories
	Since  uint64   // when the supervisor started: no process of the task is older
}

// Find returns the living processes of the tree: members of its cgroups, those
// that carry its marker, its main process and its session, and the descendants
// of all of these.
func (t Tree) Find() (map[int]Stat, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	found := map[int]bool{}
	for _, dir := range t.Groups {
		for _, pid := range cgroup.Members(dir) {
			found[pid] = true
		}
	}
	for pid, s := range all {
		if t.owns(all, pid, s) {
			found[pid] = true
		}
	}
	delete(found, os.Getpid())
	Descend(all, found)
	members := map[int]Stat{}
	for pid := range found {
		if s, ok := all[pid]; ok && pid != os.Getpid() {
			members[pid] = s
		}
	}
	return members, nil
}

func (t Tree) owns(all map[int]Stat, pid int, s Stat) bool {
	if t.Main.PID > 0 {
		if pid == t.Main.PID {
			return s.Start == t.Main.Start
		}
		// While a session has members its number is not given to another process,
		// so a leader that started at another time means another session.
		if leader, ok := all[t.Main.PID]; s.Session == t.Main.PID && (!ok || leader.Start == t.Main.Start) {
			return true
		}
	}
	return MarkerIn(pid) == t.Marker
}

// End kills the tree. It returns true when two looks in a row find no process of it, and the
// kernel says that its groups are empty. When that is not so within d it returns false, and why.
func (t Tree) End(d time.Duration) (proven bool, why string) {
	until := time.Now().Add(d)
	// A group can be removed only when it is empty: one that disappears meanwhile proves as much
	// as an empty one.
	grouped := slices.ContainsFunc(t.Groups, isDir)
	clean, why := 0, ""
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if cgroup.Kill(t.Groups) > 0 && time.Now().Before(until) {
			clean = 0
			time.Sleep(pause) // they are dying: listing all processes would find nothing else
			continue
		}
		var failed error
		n := KillAll(func() map[int]Stat {
			found, err := t.Find()
			failed = err
			for _, s := range found {
				if t.Since == 0 || s.Start < t.Since {
					t.Since = s.Start
				}
			}
			return found
		})
		switch {
		case failed != nil:
			return false, "the list of processes cannot be read: " + failed.Error()
		case n > 0:
			clean, why = 0, "processes of the task do not die of SIGKILL"
		default:
			clean++
		}
		if clean >= 2 && !grouped {
			return t.provesEnd()
		}
		if clean >= 2 {
			left := cgroup.NotEmpty(t.Groups)
			if left == "" {
				return true, ""
			}
			why = "the kernel does not say that its cgroup " + left + " is empty"
		}
		if time.Now().After(until) {
			return false, cmp.Or(why, "processes of the task do not die of SIGKILL")
		}
		time.Sleep(pause)
	}
}

// provesEnd says whether finding no process proves that there is none, where no cgroup proves it:
// after the death of its supervisor, a process that the task started with another environment and
// in a session of its own carries no mark.
func (t Tree) provesEnd() (proven bool, why string) {
	all, err := All()
	if err != nil {
		return false, "the list of processes cannot be read: " + err.Error()
	}
	above := ancestors(all)
	older := sessionsBefore(all, t.Since)
	for pid, s := range all {
		switch {
		case s.Start < t.Since || pid == os.Getpid() || above[pid] || older[s.Session]:
		case hidden(pid):
			return false, "there is no cgroup, and a process of this user may not be looked into"
		case above[s.Parent] && t.stray(pid):
			return false, fmt.Sprintf("there is no cgroup, and process %d of this user, which started later and belongs to nothing else, may be the task's", pid)
		}
	}
	return true, ""
}

// ancestors are the processes that inherit what a supervisor leaves: process 1, and all between
// it and this process.
func ancestors(all map[int]Stat) map[int]bool {
	found := map[int]bool{1: true}
	for pid := os.Getppid(); pid > 1 && !found[pid]; pid = all[pid].Parent {
		found[pid] = true
	}
	return found
}

// sessionsBefore are the sessions that existed before since. A process is in a session by birth
// only, and a supervisor opens its own, so what is in these sessions is not the task's. Session 0
// stands for all those whose leader lives outside this PID namespace.
func sessionsBefore(all map[int]Stat, since uint64) map[int]bool {
	older := map[int]bool{0: true}
	for _, s := range all {
		if s.Start < since {
			older[s.Session] = true
		}
	}
	return older
}

// stray reports whether a process of our user carries no marker that says whose it is.
func (t Tree) stray(pid int) bool {
	if Supervised(pid) != "" || MarkerIn(pid) != "" {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Getuid()
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Supervised returns the directory that a supervisor was started with; "" for any other process.
func Supervised(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	args := bytes.Split(bytes.TrimSuffix(data, []byte{0}), []byte{0})
	if len(args) != 3 || string(args[1]) != "supervise" {
		return ""
	}
	return string(args[2])
}
