package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
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
func (w *world) looks(a model.AttemptID) int64 {
	w.Helper()
	var o outcome
	if err := safefile.Read(w.e.place.task(a, 0), outcomeFile, &o); err != nil {
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
			w.e.Do(model.Action{Attempt: stopped.Attempt, Grace: 100 * model.Millisecond})
			if x := w.exit(); x.Signal != 9 {
				t.Errorf("stopped it ended with %+v", x)
			}
			if got := w.looks(stopped.Attempt); got > 1 {
				t.Errorf("its stop looked %d times", got)
			}
			left := w.action(1, append(many(n), "exit 3")...)
			w.e.Do(left)
			if x := w.exit(); x != (model.Exit{Code: 3, Own: true}) {
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
// limit of processes is not tried again. The first process forks once, before the bomb is there: it
// would fail itself else.
func TestLimitOfProcesses(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Pids = 300 })
	bomb := w.action(1, "mkfifo hold; : > said", "f() { f | f & }", "f 2> said &",
		"until [ -s said ]; do read -t 0.1 x <> hold; done; exit 3") // no fork succeeds
	limited := cgroup.HasController(w.e.parents, "pids")
	if !limited { // nothing would bound it
		role(bomb).Command = []string{"exit 3"}
	}
	w.e.Do(bomb)
	x := w.exit()
	if x.Code != 3 || !x.Own || limited != (x.Cause == model.TooManyProcesses) ||
		limited != strings.Contains(x.Message, "300 processes") {
		t.Errorf("it ended with %+v", x)
	}
	v := exit.Judge(exit.Observed{Code: x.Code, Cause: string(x.Cause), EndedItself: x.Own, End: "failed"})
	if limited != (v.Class == exit.Resource && v.Retry == exit.Never) {
		t.Errorf("which means %+v", v)
	}
	if got := w.looks(bomb.Attempt); got > 1 {
		t.Errorf("its end looked %d times", got)
	}
	w.none()
}

// A task whose fork another limit refused than its own is not said to have met its own.
func TestLimitOfOthers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Pids = 300 })
	i := slices.IndexFunc(w.e.parents, func(p cgroup.Parent) bool { return cgroup.HasController([]cgroup.Parent{p}, "pids") })
	if i < 0 {
		return // nothing would bound it
	}
	above := w.e.parents[i].Dir
	err := os.MkdirAll(above, 0o755)
	if err := errors.Join(err, os.WriteFile(filepath.Join(above, "pids.max"), []byte("40"), 0)); err != nil {
		t.Fatal(err)
	}
	a := w.action(1, "mkfifo hold; : > said", "f() { f | f & }", "f 2> said &",
		"until [ -s said ]; do read -t 0.1 x <> hold; done; exit 3")
	w.e.Do(a)
	if x := w.exit(); x.Code != 3 || !x.Own || x.Cause != "" {
		t.Errorf("it ended with %+v", x)
	}
	w.none()
}

// A refused fork is the cause of an end that comes within a minute, and of no later one.
func TestForksBeforeTheEnd(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		looks []int64 // each after 10 s
		final bool
	}{
		"none":                       {[]int64{0, 0, 0}, false},
		"at the end":                 {[]int64{0, 0, 4}, true},
		"before the first look":      {[]int64{4}, true},
		"a minute before":            {[]int64{0, 4, 4, 4, 4, 4, 4, 4}, true},
		"more than a minute before":  {[]int64{0, 4, 4, 4, 4, 4, 4, 4, 4}, false},
		"at the beginning and again": {[]int64{4, 4, 4, 4, 4, 4, 4, 4, 4, 5}, true},
	} {
		var f forkRefusals
		now := begin
		for _, n := range c.looks[:len(c.looks)-1] {
			now = now.Add(forksPause)
			f.look(n, now)
		}
		if f.end(c.looks[len(c.looks)-1], now.Add(forksPause)); f.causedEnd != c.final {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// Forks that are refused when the rest of a task is killed say nothing of why it failed.
func TestForksAfterTheEnd(t *testing.T) {
	for _, before := range []bool{true, false} {
		s := &supervisor{main: 1, spec: &spec{Limits: cgroup.Limits{Pids: 9},
			Parents: []cgroup.Parent{{Dir: t.TempDir(), V2: true, Controllers: []string{"pids"}}}}}
		refused := func(n string) {
			dir := s.spec.groupDirs()[0]
			err := os.MkdirAll(dir, 0o700)
			for file, text := range map[string]string{"pids.max": "9", "pids.peak": "9", "pids.events": "max " + n} {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		refused("0")
		if before {
			refused("2")
		}
		s.mainEnded(unix.WaitStatus(3 << 8))
		refused("7")
		s.killing = true
		s.look()
		if x := s.exit(); x.Code != 3 || !x.Own || (x.Cause == model.TooManyProcesses) != before {
			t.Errorf("refused before: %v; it ended with %+v", before, x)
		}
	}
}

// A task that says at its end that it could start no process, and whose limit refused one once, met
// that limit, however long it took.
func TestForksInLastWords(t *testing.T) {
	for words, cause := range map[string]model.ExitCause{
		"RuntimeError: can't start new thread": model.TooManyProcesses, "ValueError: no data": ""} {
		w := newWorld(t)
		a := w.action(1, `echo "`+words+`" >&2; exit 1`)
		w.e.Do(a)
		if x := w.exit(); x.Cause != "" || x.Message != words {
			t.Errorf("%s: with no fork refused it ended with %+v", words, x)
		}
		var o outcome
		dir := w.e.place.task(a.Attempt, 0)
		err := safefile.Read(dir, outcomeFile, &o)
		o.Forks = 3
		if err := errors.Join(err, safefile.Write(dir, outcomeFile, o)); err != nil {
			t.Fatal(err)
		}
		w.restart()
		a.Known = true
		w.e.Do(a)
		if x := w.exit(); x.Cause != cause {
			t.Errorf("%s: with three forks refused it ended with %+v", words, x)
		}
	}
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
