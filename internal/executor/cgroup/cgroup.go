// Package cgroup makes, limits, kills and removes the control groups of tasks, of version
// 1 and 2. It must not know what a task is.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
)

// Limits bound one task; 0 is no limit.
type Limits struct {
	model.Limits
	Pids int64 `json:"pids,omitempty"`
}

// Parent is a directory of a cgroup hierarchy below which each task gets a group. Version 1 has a
// hierarchy for each controller, version 2 one for all. A machine may have both: then version 2
// is used to kill.
type Parent struct {
	Dir         string   `json:"dir"`
	V2          bool     `json:"v2,omitempty"`
	Controllers []string `json:"controllers,omitempty"`
}

// Wanted are the controllers of the limits.
func Wanted() []string { return []string{"cpu", "memory", "pids"} }

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	root, dir string
	V2        bool
	Options   []string
}

// Find finds where the groups of this data directory can be. It also returns, by controller, why
// something cannot be limited. It leaves nothing behind: supervisors make the groups.
func Find(name string) ([]Parent, map[string]string) {
	missing := map[string]string{}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	own, err2 := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err, err2); err != nil {
		for _, c := range Wanted() {
			missing[c] = err.Error()
		}
		return nil, missing
	}
	list, paths := ParseMounts(string(mounts)), ParseOwn(string(own))
	var parents []Parent
	for _, m := range list {
		if m.V2 {
			parents = append(parents, openV2(m, paths[""], name, missing)...)
		}
	}
	for _, c := range Wanted() {
		if HasController(parents, c) {
			delete(missing, c)
			continue
		}
		parents = openV1(parents, list, paths, v1Want{c, name}, missing)
	}
	for _, p := range parents {
		os.Remove(p.Dir) // fails while tasks of an earlier server are in it
	}
	return parents, missing
}

// HasController reports whether one of the parents has a controller.
func HasController(parents []Parent, controller string) bool {
	return slices.ContainsFunc(parents, func(p Parent) bool { return slices.Contains(p.Controllers, controller) })
}

type v1Want struct{ controller, name string }

// openV1 adds the parent for one controller of version 1.
func openV1(parents []Parent, list []Mount, paths map[string]string, w v1Want, missing map[string]string) []Parent {
	i := slices.IndexFunc(list, func(m Mount) bool { return !m.V2 && slices.Contains(m.Options, w.controller) })
	if i < 0 {
		if missing[w.controller] == "" {
			missing[w.controller] = "this machine has no cgroup controller for it"
		}
		return parents
	}
	dir := filepath.Join(list[i].Below(paths[w.controller]), w.name)
	if p := slices.IndexFunc(parents, func(p Parent) bool { return p.Dir == dir }); p >= 0 {
		parents[p].Controllers = append(parents[p].Controllers, w.controller)
		return parents
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		missing[w.controller] = err.Error()
		return parents
	}
	delete(missing, w.controller)
	return append(parents, Parent{Dir: dir, Controllers: []string{w.controller}})
}

// openV2 makes the parent in the version 2 hierarchy: below the server's own
// group when controllers can be handed down there, else below the top.
func openV2(m Mount, own, name string, missing map[string]string) []Parent {
	var best []Parent
	for _, base := range []string{m.delegated(own), m.dir} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			for _, c := range Wanted() {
				missing[c] = err.Error()
			}
			continue
		}
		leaveForServer(base)
		p := Parent{Dir: dir, V2: true, Controllers: handDown(base, dir)}
		if best == nil || len(p.Controllers) > len(best[0].Controllers) {
			if best != nil {
				os.Remove(best[0].Dir)
			}
			best = []Parent{p}
		} else if dir != best[0].Dir {
			os.Remove(dir)
		}
		if len(p.Controllers) == len(Wanted()) || base == m.dir {
			break
		}
	}
	if best != nil {
		for _, c := range Wanted() {
			if !slices.Contains(best[0].Controllers, c) {
				missing[c] = "the controller is not handed down to " + best[0].Dir
			}
		}
	}
	return best
}

// handDown enables the controllers for the children of dir and returns those
// that it got.
func handDown(base, dir string) []string {
	for _, c := range Wanted() {
		_ = os.WriteFile(filepath.Join(base, "cgroup.subtree_control"), []byte("+"+c), 0) // what is missing shows below
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	on := strings.Fields(string(data))
	return slices.DeleteFunc(Wanted(), func(c string) bool { return !slices.Contains(on, c) })
}

// serverGroup is a child group in which a server is alone. A unit of systemd starts it there
// (DelegateSubgroup). A server that is started later could not be in the unit's own group, which
// passes controllers down to the groups of living tasks.
const serverGroup = "comb-server"

// delegated is the group below which a server's groups are: its own, or the group above where it
// is already in its child.
func (m Mount) delegated(own string) string {
	dir := m.Below(own)
	if filepath.Base(own) == serverGroup && dir != filepath.Clean(m.dir) {
		return filepath.Dir(dir)
	}
	return dir
}

// leaveForServer moves this process into a child when it is alone in its group: version 2 passes
// controllers down only from a group without processes. A group with other processes in it is
// left as it is.
func leaveForServer(base string) {
	members := direct(base)
	if len(members) != 1 || members[0] != os.Getpid() {
		return
	}
	server := filepath.Join(base, serverGroup)
	if err := os.Mkdir(server, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
		_ = os.WriteFile(filepath.Join(server, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
	}
}

// Below returns the directory of a process's group in a mount that may show
// only a part of the hierarchy.
func (m Mount) Below(path string) string {
	if m.root != "/" {
		rest, ok := strings.CutPrefix(path, m.root)
		if !ok {
			return m.dir
		}
		path = rest
	}
	return filepath.Join(m.dir, path)
}

// ParseMounts reads the control groups of a mountinfo.
func ParseMounts(text string) []Mount {
	var list []Mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		list = append(list, Mount{root: l[3], dir: l[4], V2: r[0] == "cgroup2", Options: strings.Split(r[2], ",")})
	}
	return list
}

// ParseOwn returns the process's group by controller, "" for version 2.
func ParseOwn(text string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			paths[c] = f[2]
		}
	}
	return paths
}

// Dirs are the directories of a task's groups, whether they exist or not.
func Dirs(parents []Parent, name string) []string {
	dirs := make([]string, len(parents))
	for i, p := range parents {
		dirs[i] = filepath.Join(p.Dir, name)
	}
	return dirs
}

// Make makes a task's groups with their limits and returns what could not
// be set, in words.
func Make(parents []Parent, name string, l Limits) (unenforced []string) {
	for i, dir := range Dirs(parents, name) {
		p := parents[i]
		err := os.MkdirAll(dir, 0o755)
		for range 10 { // another supervisor may just have removed the empty parent
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil && p.V2 && len(p.Controllers) > 0 {
			handDown(filepath.Dir(p.Dir), p.Dir)
		}
		for _, c := range p.Controllers {
			if err == nil {
				err = setLimit(dir, c, p.V2, l)
			}
			if err != nil {
				unenforced = append(unenforced, fmt.Sprintf("%s limit: %v", c, err))
			}
		}
	}
	return unenforced
}

const cpuPeriod = 100_000 // microseconds

func setLimit(dir, controller string, v2 bool, l Limits) error {
	set := func(file string, v string) error {
		return os.WriteFile(filepath.Join(dir, file), []byte(v), 0)
	}
	switch {
	case controller == "pids" && l.Pids > 0:
		return set("pids.max", fmt.Sprint(l.Pids))
	case controller == "cpu" && l.MilliCPU > 0:
		quota := max(l.MilliCPU*(cpuPeriod/1000), 1000) // the kernel's least quota
		if v2 {
			return set("cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod))
		}
		if err := set("cpu.cfs_period_us", fmt.Sprint(cpuPeriod)); err != nil {
			return err
		}
		return set("cpu.cfs_quota_us", fmt.Sprint(quota))
	case controller == "memory" && l.MemoryMB > 0:
		bytes := fmt.Sprint(l.MemoryMB << 20)
		if !v2 {
			err := set("memory.limit_in_bytes", bytes)
			_ = set("memory.memsw.limit_in_bytes", bytes) // absent without swap accounting
			return err
		}
		_ = set("memory.swap.max", "0") // absent without swap
		_ = set("memory.oom.group", "1")
		return set("memory.max", bytes)
	}
	return nil
}

// OutOfMemory counts the kernel's kills for a group's own memory limit. Process 1 of a container
// passes no parents, and sees its own group.
func OutOfMemory(parents []Parent, name string) (kills int64) {
	files := []string{"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"}
	if len(parents) > 0 {
		files = nil
	}
	for i, dir := range Dirs(parents, name) {
		file := "memory.oom_control"
		if parents[i].V2 {
			file = "memory.events"
		}
		files = append(files, filepath.Join(dir, file))
	}
	return counted(files, "oom_kill ")
}

// counted is the largest number that follows a word at the beginning of a line of the files.
func counted(files []string, word string) (most int64) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), word); ok {
				v, _ := strconv.ParseInt(n, 10, 64)
				most = max(most, v)
			}
		}
	}
	return most
}

// Members returns the processes of a group and of those below it; none when it does not exist. An
// empty result is no proof: a process that moves to another group meanwhile may be missed.
func Members(dir string) (pids []int) {
	for _, group := range below(dir) {
		pids = append(pids, direct(group)...)
	}
	return pids
}

// below are a group and all groups below it, the deepest first: a task may make some.
func below(dir string) (groups []string) {
	entries, _ := os.ReadDir(dir) // a group that is gone has none
	for _, e := range entries {
		if e.IsDir() {
			groups = append(groups, below(filepath.Join(dir, e.Name()))...)
		}
	}
	return append(groups, dir)
}

// direct returns the processes of one group. Of a threaded group of version 2 the kernel lists
// only threads: each stands for its process.
func direct(dir string) (pids []int) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		data, _ = os.ReadFile(filepath.Join(dir, "cgroup.threads"))
	}
	for line := range strings.Lines(string(data)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill forbids further forks in a task's groups and kills all that is in and below them. It
// returns how many processes there were: they may take a moment to die. A kernel that can kill a
// group does it in one step. Else each member is killed, and what they had started meanwhile.
func Kill(dirs []string) (found int) {
	for _, dir := range dirs {
		_ = os.WriteFile(filepath.Join(dir, "pids.max"), []byte("0"), 0) // where it has that controller
	}
	for _, dir := range dirs {
		n := len(Members(dir))
		// Written even if the list is empty: it does not show all that the kernel kills.
		if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
			found = max(found, n)
		}
	}
	if found > 0 {
		return found
	}
	for _, dir := range dirs {
		found = max(found, killEach(dir))
	}
	return found
}

// killEach kills the members of a group one by one, until a look finds no new one.
func killEach(dir string) int {
	killed := map[int]bool{}
	for round, grown := 0, true; grown && round < 50; round++ {
		grown = false
		for _, pid := range Members(dir) {
			if !killed[pid] {
				killed[pid], grown = true, true
				killMember(pid, dir)
			}
		}
	}
	return len(killed)
}

// killMember kills that very process: a pidfd pins its number before its group is read.
func killMember(pid int, dir string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	text, gone := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if gone != nil || !within(string(text), dir) {
		return
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // a thread's number, or a kernel without pidfd; it may be gone
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// within reports whether one of a process's groups is that of a directory, or is below it.
func within(text, dir string) bool {
	group := "/" + filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir) + "/"
	for line := range strings.Lines(text) {
		if strings.Contains(strings.TrimSpace(line)+"/", group) {
			return true
		}
	}
	return false
}

// NotEmpty names a group in or below which something may be left; "": none. Only the kernel is
// believed: version 2 tells, and only empty groups can be removed.
func NotEmpty(dirs []string) string {
	for _, dir := range dirs {
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		if err == nil && strings.Contains("\n"+string(events), "\npopulated 0\n") {
			continue
		}
		if err == nil || !remove(dir) {
			return dir
		}
	}
	return ""
}

// Refused counts the forks that a group's own limit of processes refused, until Kill. Process 1
// of a container passes no parents, and sees its own group.
func Refused(parents []Parent, name string) (forks int64) {
	dirs := []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"}
	if len(parents) > 0 {
		dirs = Dirs(parents, name)
	}
	for _, dir := range dirs {
		if !reached(dir) {
			continue
		}
		file := filepath.Join(dir, "pids.events.local") // counts only its own limit
		if _, err := os.Stat(file); err != nil {
			// A kernel before 6.11, or version 1: it counts its own limit and those above it.
			file = filepath.Join(dir, "pids.events")
		}
		forks = max(forks, counted([]string{file}, "max "))
	}
	return forks
}

// reached reports whether a group has ever had as many processes as it may: else a limit above it
// refused the fork. A kernel before 6.1 does not tell. Then no limit may be set above.
func reached(dir string) bool {
	limit, ok := number(dir, "pids.max")
	if !ok || limit == 0 { // there is none, or it is Kill's
		return false
	}
	if peak, ok := number(dir, "pids.peak"); ok {
		return peak >= limit
	}
	for {
		dir = filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(dir, "pids.max")); err != nil {
			return true // the top has none
		}
		if _, limited := number(dir, "pids.max"); limited {
			return false
		}
	}
}

// number reads a file of a group that holds a number; false where it holds "max" or is missing.
func number(dir, file string) (int64, bool) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// Remove removes a task's empty groups, with those that it made below them. The kernel may need a
// moment after the last process is gone. The last task removes the parents as well, so that a
// killed server leaves nothing behind.
func Remove(dirs []string) {
	for _, dir := range dirs {
		for range 50 {
			if remove(dir) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		os.Remove(filepath.Dir(dir)) // fails while other tasks are in it
	}
}

// remove reports whether a group is gone, with all below it: those that are not empty stay.
func remove(dir string) bool {
	var err error
	for _, group := range below(dir) {
		err = os.Remove(group)
	}
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
