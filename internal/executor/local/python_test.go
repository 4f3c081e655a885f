package local

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// program is a changed copy of a file of examples/, and the command that runs it.
func (w *world) program(name string, changes ...string) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", name))
	if err != nil {
		w.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(text, changes[i]) != 1 {
			w.Fatalf("%s has not one %q", name, changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	path := filepath.Join(w.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return "python3 " + path
}

// late makes rank 1 hear of a signal half a second after rank 0: supervisors ask their tasks each
// by itself.
var late = []string{"    signal.signal(sig, note)\n", `    signal.signal(sig, note if rank == 0 else later)
`, "def receive(", `def later(*args):
    import threading
    threading.Timer(0.5, note, args).start()

def receive(`}

// single makes each rank answer for itself, as a program of one process does.
var single = []string{"if all_asked == size:", "if asked:"}

// pausing keeps rank 0 of gang.py at a step until it is asked for something, while there is a file:
// else it may have ended before a busy machine has asked it. From then on its steps are slow.
func (w *world) pausing() (file string, changes []string) {
	w.Helper()
	file = filepath.Join(w.TempDir(), "hold")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		w.Fatal(err)
	}
	step := "    time.sleep(0.02)  # a step of a real training takes longer\n"
	return file, []string{step, fmt.Sprintf(`    time.sleep(0.02)
    while rank == 0 and state["step"] >= 20 and os.path.exists(%[1]q) and not (asked or stopping):
        time.sleep(0.02)
    if state["step"] >= 20 and os.path.exists(%[1]q):
        time.sleep(0.1)
`, file)}
}

// training is a gang of two ranks of a program that may be asked.
func (w *world) training(timeout model.Duration, changes ...string) model.Action {
	a := cooperative(w.action(2, w.program("gang.py", changes...)), timeout)
	a.Start.Job.Grace = model.Second
	role(a).Env = []model.EnvVar{{Name: "STEPS", Value: "150"}}
	w.e.Do(a)
	for range a.Start.Tasks {
		want[model.TaskStarted](w)
	}
	return a
}

// acknowledged waits until tasks have said that they are small, or may be large again.
func (w *world) acknowledged(a model.Action, small bool, tasks ...int32) {
	w.Helper()
	for _, n := range tasks {
		w.eventually(fmt.Sprintf("task %d is small: %v", n, small), func() bool {
			_, err := os.Stat(filepath.Join(w.e.place.task(a.Attempt, n), ackFile))
			return small == (err == nil)
		})
	}
}

var parameters = regexp.MustCompile(`(?m)^parameters (.+)$`)

// trained waits for the ends of both ranks and returns their parameters.
func (w *world) trained(a model.Action) (out [2]string) {
	w.Helper()
	for range out {
		if x := w.exit(); x != (model.Exit{Own: true}) {
			w.Errorf("a rank ended with %+v", x)
		}
	}
	for n := range out {
		m := parameters.FindStringSubmatch(w.output(a.Attempt, int32(n), Stdout))
		if m == nil {
			w.Fatalf("rank %d printed no parameters: %s", n, w.output(a.Attempt, int32(n), Stderr))
		}
		out[n] = m[1]
	}
	return out
}

// A data-parallel gang whose ranks agree is suspended at one step, and comes to the parameters of a
// run that was not disturbed. One whose ranks answer each for itself is not: rank 0 waits at a
// step, and rank 1 in the sum of the next.
func TestPythonGangIsSuspendedAtOneStep(t *testing.T) {
	if !testkit.Live(t, "python") {
		return
	}
	w := newWorld(t)
	whole := w.trained(w.training(60 * model.Second))
	if whole[0] != whole[1] {
		t.Errorf("the ranks have %v", whole)
	}
	hold, pause := w.pausing()
	a := w.training(60*model.Second, append(pause, late...)...)
	for range 2 {
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
		w.acknowledged(a, true, 0, 1)
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
		w.acknowledged(a, false, 0, 1) // each has heard of it
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if got := w.trained(a); got != whole {
		t.Errorf("suspended and resumed it has %v, undisturbed %v", got, whole)
	}
	_, pause = w.pausing()
	b := w.training(5*model.Second, append(append(append(pause, single...), late...),
		"peers = connect()\n", "peers = connect()\nprint('ready', flush=True)\n")...)
	w.ready(b.Attempt, 1) // else the time to suspend passes while Python starts
	w.e.Do(model.Action{Attempt: b.Attempt, Rotation: never(b.Attempt)})
	w.acknowledged(b, true, 0)
	x := want[model.TaskExited](w)
	if x.Task != 1 || x.Exit.Cause != model.SuspendTimeout || !strings.Contains(x.Exit.Message, "within 5s") {
		t.Errorf("the first end is %+v", x)
	}
	w.e.Do(model.Action{Attempt: b.Attempt, Grace: model.Second})
	w.exit()
}

// A stop that finds the gang suspended, or at work, ends all ranks with a checkpoint of one step,
// and what goes on from it comes to the parameters of a run that was not disturbed.
func TestPythonStopOfAGangSavesOneStep(t *testing.T) {
	if !testkit.Live(t, "python") {
		return
	}
	w := newWorld(t)
	whole := w.trained(w.training(60 * model.Second))
	for _, suspend := range []bool{true, false} {
		hold, pause := w.pausing()
		a := w.training(60*model.Second,
			append(append(pause, late...), "peers = connect()\n", "peers = connect()\nprint('ready', flush=True)\n")...)
		w.ready(a.Attempt, 1)
		if suspend {
			w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
			w.acknowledged(a, true, 0, 1)
		}
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: 60 * model.Second})
		for range a.Start.Tasks {
			// A rank hears of the stop from the other one, too: one that ends before it was asked
			// itself leaves its shell to be asked, which dies of the signal.
			if x := w.exit(); x != (model.Exit{Code: 143}) && x != (model.Exit{Code: 143, Signal: 15}) {
				t.Errorf("suspended %v: %+v", suspend, x)
			}
		}
		if err := os.Remove(hold); err != nil {
			t.Fatal(err)
		}
		again := a
		again.Attempt.N++
		w.e.Do(again)
		if got := w.trained(again); got != whole {
			t.Errorf("suspended %v: resumed it has %v, undisturbed %v", suspend, got, whole)
		}
		if out := w.output(again.Attempt, 0, Stdout); !strings.HasPrefix(out, "goes on at step ") {
			t.Errorf("suspended %v: the second attempt says %q", suspend, out)
		}
	}
}

// A failure just after a suspension says so: a time-out of the program may have counted while it
// was frozen.
func TestPythonTimeoutShorterThanATurnIsTold(t *testing.T) {
	if !testkit.Live(t, "python") {
		return
	}
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		program := filepath.Join(t.TempDir(), "collective.py")
		text := `
import time
print("ready", flush=True)
last = time.monotonic()
while time.monotonic() - last < 3:
    last = time.monotonic()
    time.sleep(0.05)
raise TimeoutError("all_reduce took longer than 3 s")
`
		if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := w.action(1, "python3 "+program)
		w.e.Do(a)
		w.ready(a.Attempt, 1)
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
		w.suspended(1)
		time.Sleep(4 * time.Second) // of a suspension: longer than the program bears
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
		x := w.exit()
		if x.Code != 1 || !strings.HasPrefix(x.Message, "TimeoutError: all_reduce took longer than 3 s; it failed just after a suspension of ") {
			t.Errorf("%+v", x)
		}
	})
}
