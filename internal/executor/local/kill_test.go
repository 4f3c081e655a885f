package local

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/process"
)

// killedServer, in the environment of the test binary, makes it a server that
// does some actions and then waits to be killed.
const killedServer = "COMB_TEST_KILLED_SERVER"

type killedOrder struct {
	Dir, Cluster string
	Actions      []model.Action
}

func runKilledServer(text string) int {
	var k killedOrder
	self, err := os.Executable()
	if err == nil {
		err = json.Unmarshal([]byte(text), &k)
	}
	if err == nil {
		var e *Executor
		if e, err = New(Options{Dir: k.Dir, Cluster: k.Cluster, Self: self, Tell: func(model.Fact) {}}); err == nil {
			fmt.Println("ready")
			for _, a := range k.Actions {
				e.Do(a)
			}
			select {}
		}
	}
	fmt.Println(err)
	return 1
}

// TestServerKilledAtEveryMoment kills a server -9 at many moments of a start.
// The next one brings the task to its end, and it ran exactly once.
func TestServerKilledAtEveryMoment(t *testing.T) {
	w := newWorld(t)
	early, late := 0, 0
	for i := range 30 {
		a := w.action(1, "echo ran >> $COMB_CHECKPOINT_DIR/runs", "sleep 0.05", "exit 4")
		w.killedServer(time.Duration(i)*700*time.Microsecond, a)
		if _, err := os.Stat(filepath.Join(w.e.place.task(a.Attempt, 0), claimFile)); err == nil {
			late++
		} else {
			early++
		}
		a.Known = true
		w.e.Do(a)
		if got := w.exit(); got != (model.Exit{Code: 4, Own: true}) {
			t.Errorf("killed after %d: exit %+v", i, got)
		}
		runs, err := os.ReadFile(filepath.Join(w.e.place.job(a.Attempt.Job), "checkpoint", "runs"))
		if err != nil || string(runs) != "ran\n" {
			t.Errorf("killed after %d: %d runs, %v", i, strings.Count(string(runs), "\n"), err)
		}
	}
	t.Logf("%d kills before the start was claimed, %d after", early, late)
}

// killedServer runs a server that does the actions and is killed -9 after a while.
func (w *world) killedServer(after time.Duration, actions ...model.Action) {
	w.Helper()
	order, err := json.Marshal(killedOrder{w.o.Dir, w.o.Cluster, actions})
	if err != nil {
		w.Fatal(err)
	}
	server := exec.Command(w.o.Self)
	server.Env = append(os.Environ(), killedServer+"="+string(order))
	out, err := server.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := server.Start(); err != nil {
		w.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "ready\n" {
		w.Fatalf("%q, %v", buf[:n], err)
	}
	time.Sleep(after) // the moment of the kill
	_ = server.Process.Kill()
	_ = server.Wait() // it was killed
}

// TestServerKilledInARotation kills servers -9 at many moments of handing out
// rotations. Whatever each of them left, the last one's holds, and nobody ever runs
// in another's turn.
func TestServerKilledInARotation(t *testing.T) {
	w := newWorld(t)
	one, two := w.action(1, ticking()...), w.action(1, ticking()...)
	epoch := now()
	turns := [][]model.AttemptID{{one.Attempt}, {two.Attempt}}
	r := &model.Rotation{Turns: turns, Quantum: quantum, Epoch: epoch}
	one.Start.Rotation, two.Start.Rotation = r, r
	w.e.Do(one)
	w.e.Do(two)
	w.grows(1)
	w.grows(2)
	w.e.Close()
	one.Known, two.Known = true, true
	for i := range 12 {
		next := &model.Rotation{Turns: turns, Quantum: quantum + model.Duration(i%3)*model.Millisecond, Epoch: epoch + model.Time(i)}
		w.killedServer(time.Duration(i)*3*time.Millisecond, one, two,
			model.Action{Attempt: one.Attempt, Rotation: next}, model.Action{Attempt: two.Attempt, Rotation: next})
	}
	w.open()
	w.e.Do(one)
	w.e.Do(two)
	w.grows(1)
	w.grows(2)
	rounds := int((now()-epoch)/model.Time(quantum)) + 1
	w.end(one.Attempt, two.Attempt)
	apart(t, w.ticks(1), w.ticks(2), rounds+12) // each new rotation may change the turn
}

// TestClaimedAfterTheLook: a server saw no claim, and before it looked further
// the supervisor that a killed server had left behind claimed the start. That
// supervisor's task goes on, or its end is told, whatever it has done meanwhile.
func TestClaimedAfterTheLook(t *testing.T) {
	for name, wait := range map[string]func(w *world, a model.Action){
		"runs":  func(w *world, a model.Action) { w.line(a.Attempt, "ran") },
		"ended": func(w *world, _ model.Action) { w.exit() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.action(1, "echo ran", "sleep 0.4", "exit 4")
			w.e.Do(a)
			wait(w, a)
			w.restart()
			at := &attempt{id: a.Attempt, start: a.Start, left: 1}
			tk := newTask(w.e, at, 0)
			tk.start, tk.known = &a.Start.Tasks[0], true
			tk.unclaimed()
			if got := w.exit(); got != (model.Exit{Code: 4, Own: true}) {
				t.Errorf("exit %+v", got)
			}
			if out := w.output(a.Attempt, 0, Stdout); out != "ran\n" {
				t.Errorf("output %q", out)
			}
		})
	}
}

// TestOrphansKeepTheirClaim: once a server ends what runs without a claim, no
// supervisor can claim that start any more, and the next server ends it too.
func TestOrphansKeepTheirClaim(t *testing.T) {
	w := newWorld(t)
	a := w.start("echo main $$", `rm $(dirname $COMB_PROGRESS_FILE)/started`)
	w.line(a.Attempt, "ready")
	main := number(t, w.line(a.Attempt, "main "))
	w.e.Close()
	dir := w.e.place.task(a.Attempt, 0)
	if mine, err := writeClaim(dir, claim{Boot: w.e.boot, Supervisor: process.ID{PID: pidOrphans}}); !mine || err != nil {
		t.Fatal(mine, err) // and the server that claimed it was killed
	}
	w.open()
	a.Known = true
	w.e.Do(a)
	if got := w.exit(); got.Cause != model.SupervisorLost {
		t.Errorf("exit %+v", got)
	}
	dead(t, main)
}

// TestFilesRemovedByTheTask: a task that removes its own directory is not run a
// second time while it lives.
func TestFilesRemovedByTheTask(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		a := w.action(1, "echo main $$ > $COMB_CHECKPOINT_DIR/pid", `cd /; d="$(dirname $COMB_PROGRESS_FILE)"; while [ -e $d ]; do rm -rf $d; done`, // its supervisor may just be writing there
			"touch $COMB_CHECKPOINT_DIR/done", "sleep 600")
		w.e.Do(a)
		want[model.TaskStarted](w)
		points := filepath.Join(w.e.place.job(a.Attempt.Job), "checkpoint")
		w.eventually("it has removed them", func() bool { _, err := os.Stat(filepath.Join(points, "done")); return err == nil })
		text, err := os.ReadFile(filepath.Join(points, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		if restart {
			w.restart()
			a.Known = true
			w.e.Do(a)
		} else {
			pid := number(t, strings.TrimSpace(strings.TrimPrefix(string(text), "main ")))
			process.Of(pid).Signal(9)
		}
		if got := w.exit(); got.Cause != model.SupervisorLost {
			t.Errorf("exit %+v", got)
		}
		dead(t, number(t, strings.TrimSpace(strings.TrimPrefix(string(text), "main "))))
		if mine, err := writeClaim(w.e.place.task(a.Attempt, 0), claim{}); restart && (mine || err != nil) {
			t.Errorf("a supervisor could still claim the start: %v, %v", mine, err)
		}
	}
}
