package local

import (
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/executor/local/cgroup"
	"github.com/combsched/comb/internal/executor/local/process"
	"github.com/combsched/comb/internal/executor/local/record"
	"github.com/combsched/comb/internal/exit"
	"github.com/combsched/comb/internal/sched"
)

// many is a script that starts so many processes and one, and is ready when all are there. They end
// by SIGKILL alone where its first line is not left out.
func many(n int) []string {
	return []string{"trap '' TERM", "mkfifo hold; : > up",
		// Each starts those of half of its numbers: one after the other takes a shell a minute.
		"f() { if [ $1 -gt 1 ]; then f $(($1/2)) & f $(($1-$1/2)) & else echo >> up; fi; read x < hold; }",
		"f " + itoa((n+1)/2) + " & until [ $(wc -l < up) -ge " + itoa((n+1)/2) + " ]; do sleep 0.1; done", "echo ready"}
}

// looks is how often the end of an attempt's only task looked at all processes.
func (w *world) looks(a sched.AttemptID) int64 {
	w.Helper()
	var o outcome
	if err := record.Read(w.e.place.task(a, 0), outcomeFile, &o); err != nil {
		w.Fatal(err)
	}
	return o.Looks
}

// A task of hundreds of processes ends with one look at all processes at most, whether its group is
// killed by the kernel, member by member, or there is none.
func TestManyProcessesEnd(t *testing.T) {
	const n = 200
	for name, groups := range map[string]func(cgroup.Parent) bool{
		"cgroups":              func(cgroup.Parent) bool { return true },
		"cgroups of version 1": func(p cgroup.Parent) bool { return !p.V2 },
		"no cgroups":           func(cgroup.Parent) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.e.parents = slices.DeleteFunc(w.e.parents, func(p cgroup.Parent) bool { return !groups(p) })
			stopped := w.start(append(many(n), "wait")...)
			w.ready(stopped.Attempt, 1)
			w.e.Do(sched.Action{Attempt: stopped.Attempt, Grace: 100 * sched.Millisecond})
			if x := w.exit(); x.Signal != 9 && x.Code == 0 {
				t.Errorf("stopped it ended with %+v", x)
			}
			if got := w.looks(stopped.Attempt); got > 1 {
				t.Errorf("its stop looked %d times", got)
			}
			left := w.action(1, append(many(n), "exit 3")...)
			w.e.Do(left)
			if x := w.exit(); x != (sched.Exit{Code: 3, Own: true}) {
				t.Errorf("by itself it ended with %+v", x)
			}
			if got := w.looks(left.Attempt); got > 1 {
				t.Errorf("the end of what it left looked %d times", got)
			}
			w.none()
		})
	}
}

// A fork bomb whose first process ends at once ends as well, and the job of one that fails by its
// limit of processes is not tried again.
func TestLimitOfProcesses(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Pids = 300 })
	bomb := w.action(1, "mkfifo hold; : > said", "f() { f | f & }", "f 2> said",
		"until [ -s said ]; do read -t 0.1 x <> hold; done; exit 3") // no fork succeeds
	limited := cgroup.Held(w.e.parents, "pids")
	if !limited { // nothing would bound it
		role(bomb).Command = []string{"exit 3"}
	}
	w.e.Do(bomb)
	x := w.exit()
	if x.Code != 3 || !x.Own || limited != (x.Cause == sched.TooManyProcesses) ||
		limited != strings.Contains(x.Message, "300 processes") {
		t.Errorf("it ended with %+v", x)
	}
	v := exit.Judge(exit.Seen{Code: x.Code, Cause: string(x.Cause), Own: x.Own, End: "failed"})
	if limited != (v.Class == exit.Resource && v.Retry == exit.Never) {
		t.Errorf("which means %+v", v)
	}
	if got := w.looks(bomb.Attempt); got > 1 {
		t.Errorf("its end looked %d times", got)
	}
	w.none()
}

// none requires that no process of any task is left.
func (w *world) none() {
	w.Helper()
	all, err := process.All()
	if err != nil {
		w.Fatal(err)
	}
	for pid := range all {
		if strings.HasPrefix(process.MarkerIn(pid), w.o.Cluster) {
			w.Errorf("process %d was left", pid)
		}
	}
}
