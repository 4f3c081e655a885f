package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
)

// EndStrays implements executor.Executor. It looks only at processes with this cluster's marker, at
// this jobs folder's supervisors and at this cluster's cgroups. It returns the names of the tasks
// that it killed; the log has them, too.
func (e *Executor) EndStrays(live []model.AttemptID) []string {
	known := map[string]bool{}
	for _, a := range live {
		known[a.String()] = true
	}
	// What starts or ends meanwhile is known, too.
	e.addPresent(known)
	strangers, err := e.foundTasks()
	e.addPresent(known)
	if err != nil {
		e.o.Log.Warn("look for tasks that nobody knows", "error", err)
		return nil
	}
	var names []string
	for name, s := range strangers {
		if attempt, _, _ := strings.Cut(name, "/"); known[attempt] {
			continue
		}
		for _, p := range s.supervisors {
			p.Signal(unix.SIGKILL) // before its task: it would only watch it die
		}
		t := process.Tree{Marker: e.o.Cluster + "/" + name, Groups: s.groups, Since: s.since}
		proven, why := t.End(e.o.ProveWithin)
		if proven {
			cgroup.Remove(s.groups)
		}
		e.o.Log.Warn("killed a task of an attempt that the server does not know", "task", name, "gone", proven, "reason", why)
		names = append(names, name)
	}
	names = append(names, e.containers.sweep(known)...)
	if err := e.rememberBoot(); err != nil {
		e.o.Log.Warn("remember this boot", "error", err)
	}
	return names
}

// addPresent adds the attempts that this executor was told of.
func (e *Executor) addPresent(known map[string]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range e.attempts {
		known[a.String()] = true
	}
}

// foundTask is what was found of one task.
type foundTask struct {
	supervisors []process.ID
	groups      []string
	since       uint64 // the earliest start of any of its processes
}

func (s *foundTask) add(st process.Stat) {
	if s.since == 0 || st.Start < s.since {
		s.since = st.Start
	}
}

// foundTasks finds all tasks that have processes or groups here, by "attempt/task".
func (e *Executor) foundTasks() (map[string]*foundTask, error) {
	all, err := process.All()
	if err != nil {
		return nil, err
	}
	found := map[string]*foundTask{}
	get := func(attempt, task string) *foundTask {
		name := attempt + "/" + task
		if !plainTask(attempt, task) {
			return nil
		}
		if found[name] == nil {
			found[name] = &foundTask{}
		}
		return found[name]
	}
	for pid, st := range all {
		if rest, ok := strings.CutPrefix(process.MarkerIn(pid), e.o.Cluster+"/"); ok {
			attempt, task, _ := strings.Cut(rest, "/")
			if s := get(attempt, task); s != nil {
				s.add(st)
			}
		}
		if attempt, task, ok := e.supervises(pid); ok {
			if s := get(attempt, task); s != nil {
				s.add(st)
				s.supervisors = append(s.supervisors, process.ID{PID: pid, Start: st.Start})
			}
		}
	}
	for _, p := range e.parents {
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			attempt, task, ok := strings.Cut(entry.Name(), "-")
			if !ok || !entry.IsDir() {
				continue
			}
			if s := get(attempt, task); s != nil {
				s.groups = append(s.groups, filepath.Join(p.Dir, entry.Name()))
			}
		}
	}
	return found, nil
}

// plainTask accepts only names that this package makes.
func plainTask(attempt, task string) bool {
	var a model.AttemptID
	var n int32
	_, err := fmt.Sscanf(attempt+" "+task, "%d.%d.%d %d", &a.Job, &a.Gang, &a.N, &n)
	return err == nil && a.String() == attempt && fmt.Sprint(n) == task
}

// supervises reads a supervisor's task from its arguments.
func (e *Executor) supervises(pid int) (attempt, task string, ok bool) {
	dir := process.Supervised(pid)
	if dir == "" {
		return "", "", false
	}
	rel, err := filepath.Rel(e.o.Dir, dir)
	parts := strings.Split(rel, "/")
	if err != nil || len(parts) != 3 {
		return "", "", false
	}
	return parts[0] + "." + parts[1], parts[2], true
}
