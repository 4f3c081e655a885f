package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
)

// start starts one task and waits until its line "ready" is out.
func (w *world) start(lines ...string) model.Action {
	w.Helper()
	a := w.action(1, append(lines, "echo ready", "sleep 600")...)
	w.e.Do(a)
	want[model.TaskStarted](w)
	return a
}

// TestStopReachesAHostileTask: whatever a task does to its own directory, a stop
// returns at once and ends it.
func TestStopReachesAHostileTask(t *testing.T) {
	const dir = `d="$(dirname $COMB_PROGRESS_FILE)"; `
	for name, line := range map[string]string{
		"a pipe for the stop":      dir + `mkfifo $d/stop.json.new`,
		"a link for the stop":      dir + `ln -s $COMB_CHECKPOINT_DIR/hit $d/stop.json.new`,
		"a folder for the stop":    dir + `mkdir -p $d/stop.json/x $d/stop.json.new/x`,
		"no claim":                 dir + `rm $d/started`,
		"a damaged claim":          dir + `echo x > $d/started`,
		"no directory":             dir + `rm -rf $d`,
		"a pipe for the outcome":   dir + `for f in $d/outcome.tmp.*; do rm $f; mkfifo $f; done`,
		"a folder for the outcome": dir + `mkdir -p $d/outcome.json/x`,
		"a stopped supervisor":     `kill -STOP $PPID`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(line)
			if name != "no directory" {
				w.line(a.Attempt, "ready")
			} else {
				w.eventually("its folder is gone", func() bool { _, err := os.Stat(w.e.place.task(a.Attempt, 0)); return os.IsNotExist(err) })
			}
			called := make(chan struct{})
			go func() {
				w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
				close(called)
			}()
			select {
			case <-called:
			case <-time.After(patience):
				t.Fatal("the call that stops a task hangs")
			}
			w.exit()
			if _, err := os.Stat(filepath.Join(w.e.place.job(a.Attempt.Job), "checkpoint", "hit")); err == nil {
				t.Error("the stop was written through a link")
			}
		})
	}
}

// TestHeldSupervisor: one that is stopped again and again still ends its task, or
// is given up.
func TestHeldSupervisor(t *testing.T) {
	w := newWorld(t)
	a := w.start(`(echo ready; sleep 0.2; while kill -STOP $PPID; do :; done) & sleep 600`)
	w.line(a.Attempt, "ready")
	held := w.supervisor(a.Attempt).PID
	w.eventually("its supervisor is held", func() bool { st, ok := process.ReadStat(held); return ok && st.Stopped() })
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.exit()
}

// quiet requires that no end of a task is told for a second.
func (w *world) quiet() {
	w.Helper()
	for timeout := time.After(time.Second); ; {
		select {
		case f := <-w.facts:
			if x, ok := f.(model.TaskExited); ok {
				w.Fatalf("told the end of a living task: %+v", x)
			}
		case <-timeout:
			return
		}
	}
}

// TestForgedOutcome: a task's own word about its end frees nothing.
func TestForgedOutcome(t *testing.T) {
	for name, line := range map[string]string{
		"alive":  "",
		"killed": `kill -KILL $PPID`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.action(1, "echo main $$", `echo '{"exit":{"Code":0}}' > $(dirname $COMB_PROGRESS_FILE)/outcome.json`, "echo forged", "sleep 1", line, "sleep 600")
			w.e.Do(a)
			want[model.TaskStarted](w)
			main := number(t, w.line(a.Attempt, "main "))
			w.line(a.Attempt, "forged")
			w.restart()
			a.Known = true
			w.e.Do(a)
			if name == "alive" {
				w.quiet()
				w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
			}
			w.exit()
			if len(w.e.parents) > 0 || name == "alive" {
				dead(t, main)
			} else if st, ok := process.ReadStat(main); ok {
				process.ID{PID: main, Start: st.Start}.Signal(unix.SIGKILL)
			}
		})
	}
}

// TestForgedOutcomeWithoutClaim: a task that forges its end and removes its start
// record as well is ended, not believed.
func TestForgedOutcomeWithoutClaim(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.NoCgroups = true })
	a := w.start("echo main $$", "cd $(dirname $COMB_PROGRESS_FILE)", `echo '{"exit":{"Code":0}}' > outcome.json; rm started`)
	w.line(a.Attempt, "ready")
	main := number(t, w.line(a.Attempt, "main "))
	w.restart()
	a.Known = true
	w.e.Do(a)
	for told := false; !told; {
		switch f := (<-w.facts).(type) {
		case model.TaskExited:
			told = true
			if f.Exit.Cause != model.SupervisorLost {
				t.Errorf("exit %+v", f.Exit)
			}
		case model.TaskUnknown:
			told = true // without cgroups, another process of this user may stand against the proof
		}
	}
	dead(t, main)
}

// TestEmptyClaimAfterPowerCut: a claim that did not reach the disk, of a boot
// that is over, ends its task.
func TestEmptyClaimAfterPowerCut(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	w.line(a.Attempt, "ready")
	w.e.Close()
	w.supervisor(a.Attempt).Signal(unix.SIGKILL)
	w.e.EndStrays(nil) // the machine is off
	dir := w.e.place.task(a.Attempt, 0)
	var s spec
	if err := safefile.Read(dir, specFile, &s); err != nil {
		t.Fatal(err)
	}
	s.Boot = "another"
	if err := safefile.Write(dir, specFile, s); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, claimFile), 0); err != nil {
		t.Fatal(err)
	}
	w.open()
	a.Known = true
	w.e.Do(a)
	if got := w.exit(); got.Cause != model.NodeRebooted {
		t.Errorf("exit %+v", got)
	}
}

// TestEndWithoutClaim: a task that ended while no server ran, and whose claim is
// gone, is not started again.
func TestEndWithoutClaim(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, `rm $(dirname $COMB_PROGRESS_FILE)/started`, "echo run >> $COMB_CHECKPOINT_DIR/runs", "exit 7")
	w.e.Do(a)
	want[model.TaskStarted](w)
	w.exit()
	w.restart()
	a.Known = true
	w.e.Do(a)
	if got := w.exit(); got.Code != 7 {
		t.Errorf("exit %+v", got)
	}
	runs, err := os.ReadFile(filepath.Join(w.e.place.job(a.Attempt.Job), "checkpoint", "runs"))
	if err != nil || string(runs) != "run\n" {
		t.Errorf("it ran: %q, %v", runs, err)
	}
}

// TestStrayWithoutCgroups: without cgroups, what cleaned its environment and left
// its session before the supervisor died keeps the task's leaves held.
func TestStrayWithoutCgroups(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.NoCgroups = true })
	a := w.action(1, `(env -i setsid sh -c 'echo $$ > '$COMB_CHECKPOINT_DIR'/new; mv '$COMB_CHECKPOINT_DIR/new' '$COMB_CHECKPOINT_DIR'/pid; exec sleep 600' &)`,
		"while ! [ -f $COMB_CHECKPOINT_DIR/pid ]; do sleep 0.01; done", "kill -KILL $PPID", "sleep 600")
	w.e.Do(a)
	u := want[model.TaskUnknown](w)
	text, err := os.ReadFile(filepath.Join(w.e.place.job(a.Attempt.Job), "checkpoint", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid := number(t, strings.TrimSpace(string(text)))
	if !strings.Contains(u.Reason, "may be the task's") {
		t.Errorf("unknown because %s", u.Reason)
	}
	process.Of(pid).Signal(unix.SIGKILL)
	if got := w.exit(); got.Cause != model.SupervisorLost {
		t.Errorf("exit %+v", got)
	}
}

// hides are lines of a script: it goes to a group below each of the task's groups, and a process
// that leaves what names it goes to one below that and says its number.
func (w *world) hides(a model.AttemptID) []string {
	s := spec{Attempt: a, Parents: w.e.parents}
	into := "for g in " + strings.Join(s.groupDirs(), " ") + "; do mkdir -p $g/a/b; echo $$ > $g/a"
	return []string{into + "/cgroup.procs; done",
		`(env -i setsid sh -c 'trap "" TERM HUP; ` + into + `/b/cgroup.procs; done; echo hidden $$; exec sleep 600' &)`}
}

// What a task moved to groups below its own is killed with it, and no end is told before. Nothing
// of the groups stays.
func TestGroupsBelowATask(t *testing.T) {
	for name, groups := range map[string]func(cgroup.Parent) bool{
		"both versions": func(cgroup.Parent) bool { return true },
		"version 1":     func(p cgroup.Parent) bool { return !p.V2 },
		"version 2":     func(p cgroup.Parent) bool { return p.V2 },
	} {
		for _, end := range []string{"stopped", "its supervisor is killed", "its end is forged"} {
			t.Run(name+", "+end, func(t *testing.T) {
				w := newWorld(t)
				w.e.parents = slices.DeleteFunc(w.e.parents, func(p cgroup.Parent) bool { return !groups(p) })
				if len(w.e.parents) == 0 {
					return // TestStrayWithoutCgroups has the rest
				}
				a := w.action(1, "")
				role(a).Command = append(w.hides(a.Attempt), "sleep 600")
				if end == "its end is forged" {
					role(a).Command = append([]string{
						`echo '{"exit":{"Code":0}}' > $(dirname $COMB_PROGRESS_FILE)/outcome.json`}, role(a).Command...)
				}
				w.e.Do(a)
				want[model.TaskStarted](w)
				pid := number(t, w.line(a.Attempt, "hidden "))
				if end == "stopped" {
					w.e.Do(model.Action{Attempt: a.Attempt, Grace: 100 * model.Millisecond})
				} else {
					w.supervisor(a.Attempt).Signal(unix.SIGKILL)
				}
				if x := w.exit(); x.Code == 0 {
					t.Errorf("exit %+v", x)
				}
				dead(t, pid)
			})
		}
	}
}
