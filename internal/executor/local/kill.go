package local

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// strike stops and then kills everything that find names. Stopping comes first
// because a stopped process cannot fork: once a look finds nobody new, the
// kills leave nobody behind, however fast the tree grows. It returns how many
// processes it found.
func strike(find func() map[int]stat) int {
	held := map[proc]bool{}
	for range 50 {
		grown := false
		for pid, s := range find() {
			p := proc{PID: pid, Start: s.start}
			if held[p] {
				continue
			}
			held[p], grown = true, true
			p.signal(unix.SIGSTOP)
		}
		if !grown {
			break
		}
	}
	for p := range held {
		p.signal(unix.SIGKILL)
	}
	return len(held)
}

// tree is what is known of a task whose supervisor is gone.
type tree struct {
	marker string
	main   proc     // zero when it is not known
	groups []string // its cgroups' directories
	since  uint64   // when the supervisor started: nothing of the task is older
}

// find returns the living processes of the tree: members of its cgroups, those
// that carry its marker, its main process and its session, and the descendants
// of all of these.
func (t tree) find() (map[int]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	found := map[int]bool{}
	for _, dir := range t.groups {
		for _, pid := range groupMembers(dir) {
			found[pid] = true
		}
	}
	for pid, s := range all {
		if t.owns(all, pid, s) {
			found[pid] = true
		}
	}
	delete(found, os.Getpid())
	descend(all, found)
	members := map[int]stat{}
	for pid := range found {
		if s, ok := all[pid]; ok && pid != os.Getpid() {
			members[pid] = s
		}
	}
	return members, nil
}

func (t tree) owns(all map[int]stat, pid int, s stat) bool {
	if t.main.PID > 0 {
		if pid == t.main.PID {
			return s.start == t.main.Start
		}
		// While a session has members its number is not given to another process,
		// so a leader that started at another time means another session.
		if leader, ok := all[t.main.PID]; s.session == t.main.PID && (!ok || leader.start == t.main.Start) {
			return true
		}
	}
	return markerIn(pid) == t.marker
}

// end kills the tree and returns true when two looks in a row find nobody of it.
// When that does not come within d it returns false and what stands against it.
func (t tree) end(d time.Duration) (proven bool, why string) {
	until := time.Now().Add(d)
	// A group can be removed only when nobody is in it: one that goes away
	// meanwhile proves as much as an empty one.
	grouped := slices.ContainsFunc(t.groups, isDir)
	clean := 0
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		for _, dir := range t.groups {
			killGroup(dir)
		}
		var failed error
		n := strike(func() map[int]stat {
			found, err := t.find()
			failed = err
			for _, s := range found {
				if t.since == 0 || s.start < t.since {
					t.since = s.start
				}
			}
			return found
		})
		switch {
		case failed != nil:
			return false, "the list of processes cannot be read: " + failed.Error()
		case n > 0:
			clean = 0
		default:
			clean++
		}
		if clean == 2 && grouped {
			return true, ""
		}
		if clean == 2 {
			return t.doubts()
		}
		if time.Now().After(until) {
			return false, "processes of the task do not die of SIGKILL"
		}
		time.Sleep(pause)
	}
}

// doubts says whether finding nobody proves that nobody is there, where no cgroup
// does: what a task started with an environment of its own, in a session of its
// own, carries no mark when its supervisor is gone.
func (t tree) doubts() (proven bool, why string) {
	all, err := processes()
	if err != nil {
		return false, "the list of processes cannot be read: " + err.Error()
	}
	above := ancestors(all)
	older := sessionsBefore(all, t.since)
	for pid, s := range all {
		switch {
		case s.start < t.since || pid == os.Getpid() || above[pid] || older[s.session]:
		case hidden(pid):
			return false, "there is no cgroup, and a process of this user may not be looked into"
		case above[s.parent] && t.stray(pid):
			return false, fmt.Sprintf("there is no cgroup, and process %d of this user, which started later and belongs to nothing else, may be the task's", pid)
		}
	}
	return true, ""
}

// ancestors are the processes that inherit what a supervisor of this process
// leaves: the first one, and all between it and this process.
func ancestors(all map[int]stat) map[int]bool {
	found := map[int]bool{1: true}
	for pid := os.Getppid(); pid > 1 && !found[pid]; pid = all[pid].parent {
		found[pid] = true
	}
	return found
}

// sessionsBefore are the sessions that were there before the moment since: nobody
// joins a session but by birth, and a supervisor opens its own, so what is in them
// is nobody's of the task's. Session 0 stands for all those whose leader lives
// outside of this namespace of processes.
func sessionsBefore(all map[int]stat, since uint64) map[int]bool {
	older := map[int]bool{0: true}
	for _, s := range all {
		if s.start < since {
			older[s.session] = true
		}
	}
	return older
}

// stray tells a process of our user that does not say of itself whose it is.
func (t tree) stray(pid int) bool {
	if supervised(pid) != "" || markerIn(pid) != "" {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Getuid()
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
