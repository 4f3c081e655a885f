package local

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/test/executortest"
	"github.com/combsched/comb/internal/test/testkit"
)

// runTests runs the tests of this package; with an engine it does so in namespaces.
var runTests = (*testing.M).Run

// TestMain makes the test binary its own supervisor, and process 1 of containers.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "supervise" {
		os.Exit(Supervise(os.Args[2:]))
	}
	if len(os.Args) >= 3 && os.Args[1] == "inside" {
		os.Exit(ContainerInit(os.Args[2:]))
	}
	if len(os.Args) == 2 && os.Args[1] == "listen" {
		os.Exit(listen())
	}
	if order := os.Getenv(killedServer); order != "" {
		os.Exit(runKilledServer(order))
	}
	os.Exit(runTests(m))
}

// world is one jobs folder with the executor that works on it.
type world struct {
	testing.TB
	o     Options
	e     *Executor
	facts chan model.Fact
	said  executortest.Reports
	next  model.JobID
}

const patience = testkit.Patience

// ample is a grace for what ends when it is asked to: on a busy machine that may take seconds.
const ample = model.Duration(patience / time.Microsecond)

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, facts: make(chan model.Fact, 10_000)}
	w.o = Options{
		Dir: filepath.Join(t.TempDir(), "jobs"), Self: self, Leftover: 300 * time.Millisecond,
		Cluster: fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()),
		Tell:    func(f model.Fact) { w.said.Hear(f); w.facts <- f },
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, f := range change {
		f(&w.o)
	}
	w.open()
	t.Cleanup(func() {
		w.e.Close()
		w.settle()
		if left := w.e.EndStrays(nil); !t.Failed() && len(left) > 0 {
			t.Errorf("tasks were left running: %v", left)
		}
		for _, p := range w.e.parents {
			if _, err := os.Stat(p.Dir); err == nil {
				t.Errorf("the cgroup %s was left behind", p.Dir)
			}
		}
	})
	return w
}

// settle gives supervisors that have told their end a moment to go.
func (w *world) settle() {
	testkit.Within(patience, func() bool { // what stays is found by others
		all, err := process.All()
		if err != nil {
			w.Fatal(err)
		}
		busy := false
		for pid := range all {
			_, _, ok := w.e.supervises(pid)
			busy = busy || ok
		}
		return !busy
	})
}

func (w *world) open() {
	w.Helper()
	var err error
	if w.e, err = New(w.o); err != nil {
		w.Fatal(err)
	}
}

// restart drops the executor, as a dying server does, and opens another one.
func (w *world) restart() {
	w.Helper()
	w.e.Close()
	w.open()
}

func gpu() cell.SKU { return cell.SKU{Name: "V100", GPU: 1, Device: cell.NVIDIA, Pretended: true} }

// action is the start of a gang of one role whose tasks run the lines.
func (w *world) action(tasks int32, lines ...string) model.Action {
	w.next++
	job := &model.Job{Name: model.JobName(fmt.Sprintf("job-%d", w.next)), User: "tester", VC: "default",
		Roles: []model.Role{{Name: "worker", Tasks: tasks, Leaves: 1, MinFailed: 1, MinSucceeded: -1,
			Launch: model.Launch{Command: lines}}}}
	start := &model.Start{ID: w.next, Job: job}
	for i := range tasks {
		start.Tasks = append(start.Tasks, model.TaskStart{Task: i, Index: i, SKU: gpu(),
			Place: cell.Task{Node: "n1", SKU: "V100", Leaves: []cell.LeafID{cell.LeafID(i)}, Devices: []int32{i}}})
	}
	return model.Action{Attempt: model.AttemptID{Job: w.next, N: 1}, Start: start}
}

// want returns the next fact of a type, and drops others.
func want[F model.Fact](w *world) F {
	w.Helper()
	timeout := time.After(patience)
	for {
		select {
		case f := <-w.facts:
			if got, ok := f.(F); ok {
				return got
			}
			if r, ok := f.(model.TaskRefused); ok {
				w.Fatalf("refused: %s", r.Reason)
			}
			w.Logf("passed over %+v", f)
		case <-timeout:
			var f F
			w.Fatalf("no %T came", f)
		}
	}
}

func (w *world) exit() model.Exit {
	w.Helper()
	x := want[model.TaskExited](w)
	w.Logf("exited: %+v", x)
	return w.timeless(x.Exit)
}

// timeless is an exit to compare: without its time, which one that was seen has.
func (w *world) timeless(x model.Exit) model.Exit {
	w.Helper()
	seen := x.Cause != model.SupervisorLost && x.Cause != model.NodeRebooted && x.Cause != model.NeverStarted
	if since := now() - x.At; seen && (since < 0 || since > model.Time(time.Hour.Microseconds())) {
		w.Errorf("%+v ended at %d", x, x.At)
	}
	x.At = 0
	return x
}

// ref names a stream.
func ref(a model.AttemptID, task int32, stream string) executor.LogRef {
	return executor.LogRef{Attempt: a, Task: task, Stream: stream}
}

// output returns a whole stream.
func (w *world) output(a model.AttemptID, task int32, stream string) string {
	w.Helper()
	var out strings.Builder
	if _, err := w.e.copyLog(ref(a, task, stream), 0, make([]byte, 64<<10), func(p []byte) { out.Write(p) }); err != nil {
		w.Fatal(err)
	}
	return out.String()
}

// ready waits until an attempt's only task has printed so many lines "ready".
func (w *world) ready(a model.AttemptID, lines int) {
	w.Helper()
	w.eventually("it is ready", func() bool {
		w.line(a, "ready")
		return strings.Count(w.output(a, 0, Stdout), "ready\n") >= lines
	})
}

// line waits until a stream holds a line with the prefix and returns its rest.
func (w *world) line(a model.AttemptID, prefix string) string {
	w.Helper()
	rest := ""
	testkit.WaitFor(w, func() string { return fmt.Sprintf("a line %q in %q", prefix, w.output(a, 0, Stdout)) }, func() bool {
		log, err := w.e.openLog(ref(a, 0, Stdout), 0)
		if err != nil {
			return false // it has not started yet
		}
		log.Close()
		for l := range strings.Lines(w.output(a, 0, Stdout)) {
			after, ok := strings.CutPrefix(l, prefix)
			if rest = strings.TrimSpace(after); ok && strings.HasSuffix(after, "\n") {
				return true
			}
		}
		return false
	})
	return rest
}

// processes are those of all jobs that run a program.
func (w *world) processes(program string) (n int) {
	w.Helper()
	all, err := process.All()
	if err != nil {
		w.Fatal(err)
	}
	for pid, st := range all {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may be gone
		if !st.Dead() && strings.TrimSpace(string(name)) == program && strings.HasPrefix(process.MarkerIn(pid), w.o.Cluster+"/") {
			n++
		}
	}
	return n
}

func (w *world) supervisor(a model.AttemptID) process.ID {
	w.Helper()
	var c claim
	if err := safefile.Read(w.e.place.task(a, 0), claimFile, &c); err != nil {
		w.Fatal(err)
	}
	return c.Supervisor
}

func number(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dead requires that processes are gone.
func dead(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if s, ok := process.ReadStat(pid); ok && !s.Dead() {
			t.Errorf("process %d still lives: %+v", pid, s)
		}
	}
}

func TestConformance(t *testing.T) {
	executortest.Run(t, func(t *testing.T) *executortest.Harness {
		nodes := []cell.NodeName{"a", "b"}
		w := newWorld(t, func(o *Options) { o.HasNode = func(n cell.NodeName) bool { return slices.Contains(nodes, n) } }, keepsToken)
		return w.harness(nodes)
	})
}

const openpaiFiles = "../../../testdata/openpai"

// The shapes of OpenPAI's public job files do and find what they do and find there, but for the
// folder and the user of a process.
func TestShapesOfOpenPAI(t *testing.T) {
	bin := t.TempDir()
	for name, text := range executortest.Stubs(t, openpaiFiles) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := executortest.ShapesIn{Folder: openpaiFiles,
		Dir: "/.*/jobs/1/[0-9]+\\.1/[0-9]+/work", User: fmt.Sprint(os.Getuid()),
		Fresh: func(t *testing.T, secrets map[string]string) *executortest.Harness {
			w := newWorld(t, func(o *Options) {
				o.Path = bin + ":/usr/sbin:/usr/bin:/sbin:/bin"
				o.Secrets = func(model.JobID) (map[string]string, error) { return secrets, nil }
				o.Storage = folderFor(t)
			})
			return w.harness([]cell.NodeName{"n1"})
		}}
	in.Run(t)
}

// folderFor is a storage for each name.
func folderFor(t *testing.T) func(cell.VCName, string) (model.Storage, bool) {
	dir := t.TempDir()
	return func(_ cell.VCName, name string) (model.Storage, bool) {
		return model.Storage{Name: name, Folder: dir}, true
	}
}

// token is a secret of every job of a world that keepsToken.
const token = "c4n4ry-91b2"

func keepsToken(o *Options) {
	o.Secrets = func(model.JobID) (map[string]string, error) { return map[string]string{"token": token}, nil }
}

func (w *world) harness(nodes []cell.NodeName) *executortest.Harness {
	return &executortest.Harness{
		Executor: doer{w: w},
		Next:     w.nextTaskFact,
		Restart:  w.restart, Nodes: nodes, SKU: gpu(),
		Now: now, Rotates: true, Ready: w.ready, Token: token, Said: w.said.Of, Keeps: true,
		Log:      func(id model.AttemptID, task int32, stream string) string { return w.output(id, task, stream) },
		Patience: patience, Silence: 500 * time.Millisecond,
	}
}

// nextTaskFact returns the next fact about a task, nil when none comes within d.
func (w *world) nextTaskFact(d time.Duration) model.Fact {
	for timeout := time.After(d); ; {
		select {
		case f := <-w.facts:
			switch f.(type) {
			case model.TaskStarted, model.TaskExited, model.TaskRefused, model.TaskUnknown:
				return f
			}
		case <-timeout:
			return nil
		}
	}
}

// doer hands actions on to whichever executor is the present one; image is given to every role, ""
// to none.
type doer struct {
	w     *world
	image string
}

func (d doer) Do(a model.Action) {
	if a.Start != nil {
		start, job := *a.Start, *a.Start.Job // the tasks of an action before may still read theirs
		job.Roles = slices.Clone(job.Roles)
		start.Job, a.Start = &job, &start
		for i := range job.Roles {
			l := &job.Roles[i].Launch
			if l.Image = d.image; d.image != "" && l.MilliCPU == 0 {
				l.MilliCPU = 1000 // process 1 starts within it
			}
		}
	}
	d.w.e.Do(a)
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		line string
		want model.Exit
	}{
		{"exit 0", model.Exit{Own: true}},
		{"exit 42", model.Exit{Code: 42, Own: true}},
		{"false\ntrue", model.Exit{Own: true}}, // the shell goes on behind an error
		{"kill -SEGV $$", model.Exit{Code: 139, Signal: 11, Own: true}},
		{"no-such-program", model.Exit{Code: 127, Own: true, Message: "line 1: no-such-program: command not found"}},
		{"(sleep 0.2; exit 9) & wait $!", model.Exit{Code: 9, Own: true}},
	} {
		w := newWorld(t)
		a := w.action(1, c.line)
		w.e.Do(a)
		if s := want[model.TaskStarted](w); s.PID <= 0 || s.Host != "127.0.0.1" {
			t.Errorf("%q: started %+v", c.line, s)
		}
		if got := w.exit(); got != c.want {
			t.Errorf("%q: exit %+v, want %+v", c.line, got, c.want)
		}
	}
}

func TestStreamsAndPlace(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo to out", "echo to err >&2", "pwd", "ls -l /proc/self/fd | grep -c -- '->'", "read x || echo no input")
	w.e.Do(a)
	w.exit()
	dir := filepath.Join(w.e.place.task(a.Attempt, 0), workDir)
	// Descriptors 0 to 2, and the one of the listing itself.
	if got, want := w.output(a.Attempt, 0, Stdout), "to out\n"+dir+"\n4\nno input\n"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got := w.output(a.Attempt, 0, Stderr); got != "to err\n" {
		t.Errorf("stderr %q", got)
	}
}

// TestStopIsPassedOn: a shell that catches the signal is the only one that gets it, and
// passes it on.
func TestStopIsPassedOn(t *testing.T) {
	w := newWorld(t)
	a := w.action(1,
		`trap 'echo asked; kill $!; wait; exit 7' TERM`,
		`sh -c 'trap "echo child asked; exit 0" TERM; echo ready; while :; do sleep 0.05; done' &`, `wait; wait`)
	w.e.Do(a)
	w.line(a.Attempt, "ready")
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
	if got := w.exit(); got != (model.Exit{Code: 7}) {
		t.Errorf("exit %+v", got)
	}
	out := w.output(a.Attempt, 0, Stdout)
	if !strings.Contains(out, "child asked\n") || !strings.Contains(out, "\nasked\n") {
		t.Errorf("output %q", out)
	}
}

// Without a grace a task is killed at once: nothing of it is asked.
func TestStopWithoutGrace(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, `trap 'echo asked; exit 7' TERM`, "echo ready", "while :; do sleep 0.05; done")
	w.e.Do(a)
	w.line(a.Attempt, "ready")
	w.e.Do(model.Action{Attempt: a.Attempt})
	if got := w.exit(); got.Signal != 9 || got.Cause != model.GraceOver {
		t.Errorf("exit %+v", got)
	}
	if out := w.output(a.Attempt, 0, Stdout); out != "ready\n" {
		t.Errorf("output %q", out)
	}
}

// TestGraceOutlivesTheShell: the shell does not go on, and what it ran has the whole
// grace to write its checkpoint.
func TestGraceOutlivesTheShell(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, `sh -c 'trap "sleep 1; echo saved; exit 0" TERM; echo ready; while :; do sleep 0.05; done'`, "echo not reached")
	w.e.Do(a)
	w.line(a.Attempt, "ready")
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
	if got := w.exit(); got.Signal != 15 {
		t.Errorf("exit %+v", got)
	}
	if out := w.output(a.Attempt, 0, Stdout); out != "ready\nsaved\n" {
		t.Errorf("output %q", out)
	}
}

func TestIgnoredStop(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "trap '' TERM INT HUP", "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' &", "echo child $!", "echo ready", "while :; do sleep 0.05; done")
	w.e.Do(a)
	child := number(t, w.line(a.Attempt, "child "))
	w.line(a.Attempt, "ready")
	begin := time.Now()
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: 300 * model.Millisecond})
	if got := w.exit(); got.Signal != 9 || got.Own {
		t.Errorf("exit %+v", got)
	}
	if d := time.Since(begin); d < 300*time.Millisecond { // a busy machine only adds to it
		t.Errorf("killed after %v, before the grace was over", d)
	}
	dead(t, child)
}

// daemon detaches a process by double fork and setsid, and without the marker. When it has said its
// number there is a file up.
const daemon = `env -i setsid sh -c '(trap "" TERM HUP; echo $$ >/dev/null; echo daemon $(cut -d" " -f4 /proc/self/stat); : > up; exec sleep 600) & '`

func TestDaemonsEndWithTheirTask(t *testing.T) {
	for _, groups := range []bool{true, false} {
		w := newWorld(t, func(o *Options) { o.NoCgroups = !groups })
		a := w.action(1, daemon, "until [ -e up ]; do sleep 0.02; done", "exit 5")
		w.e.Do(a)
		pid := number(t, w.line(a.Attempt, "daemon "))
		if got := w.exit(); got != (model.Exit{Code: 5, Own: true}) {
			t.Errorf("exit %+v", got)
		}
		dead(t, pid)
	}
}

func TestForkBombEnds(t *testing.T) {
	for _, groups := range []bool{true, false} {
		w := newWorld(t, func(o *Options) { o.Pids, o.NoCgroups = 60, !groups })
		// A shell that may not fork any more exits: what it began stays, and so does the first one.
		bomb := "trap 'exec sleep 600' EXIT; bomb() { while :; do sleep 600 & sleep 0.01; bomb & done; }"
		if !groups { // nothing but the script bounds this one
			bomb = "bomb() { if [ $1 -gt 0 ]; then bomb $(($1-1)) & bomb $(($1-1)) & fi; while :; do setsid sleep 1; done; }"
		}
		a := w.action(1, bomb, "echo ready", "bomb 6")
		w.e.Do(a)
		w.line(a.Attempt, "ready")
		w.eventually("it forks", func() bool { return w.processes("sleep") >= 20 })
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: 100 * model.Millisecond})
		w.exit()
		all, err := process.All()
		if err != nil {
			t.Fatal(err)
		}
		for pid := range all {
			if strings.HasPrefix(process.MarkerIn(pid), w.o.Cluster) {
				t.Errorf("process %d was left", pid)
			}
		}
	}
}

func TestSupervisorKilled(t *testing.T) {
	for _, groups := range []bool{true, false} {
		w := newWorld(t, func(o *Options) { o.NoCgroups = !groups })
		lines := []string{"(setsid sleep 600 &)", "sleep 600 &", "echo child $!", "echo main $$", "sleep 600"}
		if groups && len(w.e.parents) > 0 {
			lines = append([]string{daemon}, lines...) // only its cgroup names it
		}
		a := w.action(1, lines...)
		w.e.Do(a)
		want[model.TaskStarted](w)
		pids := []int{number(t, w.line(a.Attempt, "child ")), number(t, w.line(a.Attempt, "main "))}
		if strings.HasPrefix(lines[0], "env") {
			pids = append(pids, number(t, w.line(a.Attempt, "daemon ")))
		}
		w.eventually("all that it starts runs", func() bool { return w.processes("sleep") == 3 })
		w.supervisor(a.Attempt).Signal(unix.SIGKILL)
		if got := w.exit(); got.Cause != model.SupervisorLost || got.Code == 0 {
			t.Errorf("exit %+v", got)
		}
		dead(t, pids...)
		w.restart()
		a.Known = true
		w.e.Do(a)
		if got := w.exit(); got.Cause != model.SupervisorLost {
			t.Errorf("the next server says %+v", got)
		}
	}
}

// TestSupervisorTold: a SIGTERM that the server did not send is the platform's
// doing, and the task gets its chance to end well.
func TestSupervisorTold(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "trap 'echo asked; exit 3' TERM", "echo ready", "while :; do sleep 0.05; done")
	w.e.Do(a)
	w.line(a.Attempt, "ready")
	w.supervisor(a.Attempt).Signal(unix.SIGTERM)
	if got := w.exit(); got.Cause != model.SupervisorLost || got.Code != 3 {
		t.Errorf("exit %+v", got)
	}
}

func TestAdoption(t *testing.T) {
	w := newWorld(t)
	runs := w.action(1, "echo main $$", "sleep 600")
	ends := w.action(1, "sleep 0.5", "exit 6")
	loses := w.action(1, "sleep 600")
	stops := w.action(1, "sleep 600")
	for i, a := range []model.Action{runs, ends, loses, stops} {
		a.Start.Tasks[0].Place.Devices = []int32{int32(i)}
		w.e.Do(a)
		want[model.TaskStarted](w)
	}
	pid := number(t, w.line(runs.Attempt, "main "))
	w.e.Close()
	lost := w.supervisor(loses.Attempt)
	lost.Signal(unix.SIGKILL)
	w.eventually("one ends, and one loses its supervisor", func() bool {
		_, err := os.Stat(filepath.Join(w.e.place.task(ends.Attempt, 0), outcomeFile))
		return err == nil && !lost.Alive()
	})
	w.open()
	for _, a := range []model.Action{runs, ends, loses, stops} {
		a.Known = true
		w.e.Do(a)
	}
	w.e.Do(model.Action{Attempt: stops.Attempt, Grace: ample, Known: true})
	exits := map[model.AttemptID]model.Exit{}
	for len(exits) < 3 {
		e := want[model.TaskExited](w)
		exits[e.Attempt] = w.timeless(e.Exit)
	}
	if e := exits[ends.Attempt]; e != (model.Exit{Code: 6, Own: true}) {
		t.Errorf("ended meanwhile: %+v", e)
	}
	if e := exits[loses.Attempt]; e.Cause != model.SupervisorLost {
		t.Errorf("lost meanwhile: %+v", e)
	}
	if e := exits[stops.Attempt]; e.Signal != 15 || e.Cause != "" {
		t.Errorf("stopped: %+v", e)
	}
	if s, ok := process.ReadStat(pid); !ok || s.Dead() {
		t.Error("the running task did not survive")
	}
	w.e.Do(model.Action{Attempt: runs.Attempt, Grace: model.Second})
	w.exit()
	dead(t, pid)
}

func TestReboot(t *testing.T) {
	w := newWorld(t)
	a, gone := w.action(1, "sleep 600"), w.action(1, "sleep 600")
	w.e.Do(a)
	want[model.TaskStarted](w)
	w.e.Close()
	w.supervisor(a.Attempt).Signal(unix.SIGKILL)
	w.e.EndStrays(nil) // the machine is off
	// What the files of another boot look like.
	dir := w.e.place.task(a.Attempt, 0)
	var c claim
	if err := safefile.Read(dir, claimFile, &c); err != nil {
		t.Fatal(err)
	}
	c.Boot = "another"
	turn := filepath.Join(w.o.Dir, locksFolder, "0123."+a.Attempt.String()) // as one who took turns leaves it
	if err := os.WriteFile(turn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(safefile.Write(dir, claimFile, c), safefile.Write(w.o.Dir, bootFile, c.Boot)); err != nil {
		t.Fatal(err)
	}
	w.open()
	if _, err := os.Stat(turn); !os.IsNotExist(err) {
		t.Errorf("a lock of another boot stays: %v", err)
	}
	a.Known, gone.Known = true, true // the files of one did not reach the disk
	w.e.Do(a)
	w.e.Do(gone)
	for range 2 {
		if got := want[model.TaskExited](w); got.Exit.Cause != model.NodeRebooted {
			t.Errorf("got %+v", got)
		}
	}
	w.e.EndStrays(nil)
	w.restart()
	if w.e.rebooted {
		t.Error("the new boot was not remembered")
	}
}

func TestSweepKillsStrangers(t *testing.T) {
	for _, groups := range []bool{true, false} {
		w := newWorld(t, func(o *Options) { o.NoCgroups = !groups })
		mine, stranger := w.action(1, "echo main $$", "sleep 600"), w.action(1, "echo main $$", "setsid sleep 600 & echo child $!", "sleep 600")
		stranger.Start.Tasks[0].Place.Devices = []int32{1}
		w.e.Do(mine)
		w.e.Do(stranger)
		pids := []int{number(t, w.line(stranger.Attempt, "main ")), number(t, w.line(stranger.Attempt, "child "))}
		pid := number(t, w.line(mine.Attempt, "main "))
		w.e.Close()
		for len(w.facts) > 0 {
			<-w.facts
		}
		w.open()
		mine.Known = true
		w.e.Do(mine)
		if got := w.e.EndStrays([]model.AttemptID{mine.Attempt}); len(got) != 1 || got[0] != stranger.Attempt.String()+"/0" {
			t.Errorf("swept %v", got)
		}
		dead(t, pids...)
		if s, ok := process.ReadStat(pid); !ok || s.Dead() {
			t.Error("a known task was swept away")
		}
		w.e.Do(model.Action{Attempt: mine.Attempt, Grace: model.Second})
		w.exit()
	}
}

func TestRemoveJob(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "ln -s / link", "echo x > file; sleep 600")
	w.e.Do(a)
	want[model.TaskStarted](w)
	if err := w.e.Forget(a.Attempt.Job); err == nil {
		t.Error("a live job's files were removed")
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	w.exit()
	var err error
	testkit.Within(testkit.Patience, func() bool { // the attempt is forgotten just after its exit was told
		err = w.e.Forget(a.Attempt.Job)
		return err == nil
	})
	if _, stat := os.Stat(w.e.place.job(a.Attempt.Job)); err != nil || !errors.Is(stat, fs.ErrNotExist) {
		t.Errorf("%v, %v", err, stat)
	}
}
