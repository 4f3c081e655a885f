package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/test/testkit"
)

// asTrain makes the test's own binary run the program, so that every test here
// works with real processes and builds nothing.
const asTrain = "RUN_AS_TRAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asTrain) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// proc is one running task.
type proc struct {
	t   *testing.T
	cmd *exec.Cmd
	out testkit.Output
}

// waitFor waits until the output contains s.
func (p *proc) waitFor(s string) {
	p.t.Helper()
	testkit.WaitFor(p.t, func() string { return fmt.Sprintf("%q in the output:\n%s", s, &p.out) },
		func() bool { return strings.Contains(p.out.String(), s) })
}

// end waits for the exit and returns its code.
func (p *proc) end() int {
	p.t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func start(t *testing.T, env []string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	p.cmd.Env = append([]string{asTrain + "=1"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// gangEnv is the environment that Comb gives to task i of n workers.
func gangEnv(i, n, port int, dir string) []string {
	env := []string{
		"PAI_JOB_NAME=test", "PAI_TASK_ROLE_LIST=worker", "PAI_TASK_ROLE_TASK_COUNT_worker=" + strconv.Itoa(n),
		"PAI_CURRENT_TASK_ROLE_NAME=worker", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=" + strconv.Itoa(i),
		"PAI_HOST_IP_worker_0=127.0.0.1", fmt.Sprintf("PAI_PORT_LIST_worker_0_train=%d,%d", port, port+1),
	}
	if dir != "" {
		env = append(env, "COMB_CHECKPOINT_DIR="+dir, "COMB_PROGRESS_FILE="+filepath.Join(dir, "progress-"+strconv.Itoa(i)))
	}
	return env
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func startGang(t *testing.T, n int, dir string, args ...string) []*proc {
	t.Helper()
	port := freePort(t)
	gang := make([]*proc, n)
	for i := range gang {
		gang[i] = start(t, gangEnv(i, n, port, dir), args...)
	}
	return gang
}

func wantCodes(t *testing.T, gang []*proc, want int) {
	t.Helper()
	for i, p := range gang {
		if got := p.end(); got != want {
			t.Fatalf("task %d exits with %d, want %d:\n%s", i, got, want, &p.out)
		}
	}
}

var doneLine = regexp.MustCompile(`done: step (\d+) loss (\S+) weights (\w+)`)

// result reads the last line of the output: the loss and the weights' checksum.
func result(t *testing.T, p *proc) (loss float64, weights string) {
	t.Helper()
	m := doneLine.FindStringSubmatch(p.out.String())
	if m == nil {
		t.Fatalf("no result in the output:\n%s", &p.out)
	}
	loss, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		t.Fatal(err)
	}
	return loss, m[3]
}

// reference trains in this process, with no gang and no program around it.
func reference(steps uint64) float64 {
	m := newModel(1)
	for step := range steps {
		var g [modelSize]float64
		m.gradient(1, step*batchSize, (step+1)*batchSize, g[:])
		m.move(g[:])
	}
	return m.evaluate(1)
}

func TestAnyNumberOfTasksTrainsTheSameModel(t *testing.T) {
	const steps = 400
	want := reference(steps)
	if first := reference(0); want > first/3 {
		t.Fatalf("training does not learn: loss %g, at first %g", want, first)
	}
	for _, n := range []int{1, 3} {
		gang := startGang(t, n, "", "-steps", strconv.Itoa(steps))
		wantCodes(t, gang, 0)
		for i, p := range gang {
			if got, _ := result(t, p); got < want*(1-1e-9) || got > want*(1+1e-9) {
				t.Errorf("%d tasks, task %d: loss %g, the reference has %g", n, i, got, want)
			}
		}
	}
}

func TestStopAndResumeChangeNothing(t *testing.T) {
	args := []string{"-steps", "150", "-step-time", "5ms", "-log-every", "5"}
	whole := startGang(t, 3, t.TempDir(), args...)
	wantCodes(t, whole, 0)
	_, want := result(t, whole[0])

	dir := t.TempDir()
	gang := startGang(t, 3, dir, args...)
	gang[1].waitFor("step 20/150")
	gang[2].cmd.Process.Signal(syscall.SIGTERM) // one is enough: all agree on the step
	wantCodes(t, gang, exitStopped)
	gang = startGang(t, 3, dir, args...)
	wantCodes(t, gang, 0)
	for i, p := range gang {
		m := regexp.MustCompile(`resumed at step (\d+)`).FindStringSubmatch(p.out.String())
		if m == nil || m[1] == "0" || len(m[1]) > 2 && m[1] >= "150" {
			t.Fatalf("task %d did not resume in the middle:\n%s", i, &p.out)
		}
		if _, got := result(t, p); got != want {
			t.Errorf("task %d: weights %s after a stop, %s without", i, got, want)
		}
	}
	progress, err := os.ReadFile(filepath.Join(dir, "progress-0"))
	if err != nil || strings.Count(string(progress), `"checkpoint":true`) != 1 || !strings.Contains(string(progress), `"step":150,"total":150`) {
		t.Errorf("progress of task 0 (%v):\n%s", err, progress)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.ckpt.*")); len(left) > 0 {
		t.Errorf("half-written checkpoints are left: %v", left)
	}
}

// A training that waits for a file makes half of its steps, says so, and is stopped as any other;
// when the file is there it goes on.
func TestUntil(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "go")
	args := []string{"-steps", "40", "-log-every", "1", "-until", file}
	gang := startGang(t, 2, dir, args...)
	gang[0].waitFor("waiting at step 20 for " + file)
	for _, p := range gang {
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	wantCodes(t, gang, exitStopped)
	gang = startGang(t, 2, dir, args...)
	gang[0].waitFor("waiting at step 21 for " + file)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, gang, 0)
	if loss, _ := result(t, gang[1]); loss < reference(40)*(1-1e-9) || loss > reference(40)*(1+1e-9) {
		t.Errorf("loss %g, the reference has %g", loss, reference(40))
	}
}

func TestPartialGangHangsAndSaysSo(t *testing.T) {
	port := freePort(t)
	first := start(t, gangEnv(0, 3, port, ""))
	second := start(t, gangEnv(2, 3, port, ""))
	first.waitFor("waiting for worker 1 ...")
	second.waitFor("waiting for worker 0 ...")
	if strings.Contains(first.out.String(), "training") {
		t.Fatalf("a partial gang trains:\n%s", &first.out)
	}
	first.cmd.Process.Signal(syscall.SIGTERM)
	second.cmd.Process.Signal(syscall.SIGTERM)
	wantCodes(t, []*proc{first, second}, exitStopped)
}

func TestConnectTimeout(t *testing.T) {
	port := freePort(t)
	gang := []*proc{
		start(t, gangEnv(0, 3, port, ""), "-connect-timeout", "300ms"),
		start(t, gangEnv(1, 3, port, ""), "-connect-timeout", "300ms"),
	}
	wantCodes(t, gang, exitTimeout)
}

func TestStrangersOnThePort(t *testing.T) {
	port := freePort(t)
	first := start(t, gangEnv(0, 2, port, ""), "-steps", "50")
	first.waitFor("waiting for worker 1 ...")
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	long := bytes.Repeat([]byte{0xff}, 1<<20)
	wrongJob := (&peers{world: &world{job: "other", tasks: make([]task, 2)}}).hello(1)
	wrongRank := (&peers{world: &world{job: "test", tasks: make([]task, 2)}}).hello(7)
	for _, say := range [][]byte{nil, []byte("GET / HTTP/1.1\r\n\r\n"), long, wrongJob, wrongRank, []byte(magic)} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write(say) // the answer of a well-behaved task is to hang up: an error is fine
	}
	second := start(t, gangEnv(1, 2, port, ""), "-steps", "50")
	wantCodes(t, []*proc{first, second}, 0)
	if got, _ := result(t, first); got != 0 {
		want := reference(50)
		if got < want*(1-1e-9) || got > want*(1+1e-9) {
			t.Errorf("loss %g, the reference has %g", got, want)
		}
	}
}

func TestLostPeerIsAFailure(t *testing.T) {
	gang := startGang(t, 2, "", "-steps", "100000", "-step-time", "2ms", "-log-every", "1")
	gang[0].waitFor("step 3/")
	gang[1].cmd.Process.Kill()
	gang[1].cmd.Wait()
	if code := gang[0].end(); code != exitFailed || !strings.Contains(gang[0].out.String(), "lost worker 1 in step") {
		t.Errorf("exits with %d:\n%s", code, &gang[0].out)
	}
}

func TestWrongUse(t *testing.T) {
	good := slices.Clip(gangEnv(0, 2, 1, ""))
	cases := []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"flag", nil, []string{"-stpes", "3"}, "-stpes"},
		{"argument", nil, []string{"now"}, `unexpected argument "now"`},
		{"negative", nil, []string{"-step-time", "-1s"}, "cannot be negative"},
		{"count", append(good, "PAI_TASK_ROLE_TASK_COUNT_worker=99999999"), nil, "PAI_TASK_ROLE_TASK_COUNT_worker"},
		{"index", append(good, "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=2"), nil, "is not among the tasks"},
		{"port", append(good, "PAI_PORT_LIST_worker_0_train="), nil, "resourcePerInstance.ports.train"},
		{"host", append(good, "PAI_HOST_IP_worker_0="), nil, "PAI_HOST_IP_worker_0 is not set"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := run(context.Background(), c.args, c.env, io.Discard)
			if !errors.Is(err, errUsage) || exitCode(err) != exitUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a usage error with %q", err, c.want)
			}
		})
	}
}

func TestCheckpointThatCannotBeRight(t *testing.T) {
	dir := t.TempDir()
	env := []string{"COMB_CHECKPOINT_DIR=" + dir}
	if err := run(context.Background(), []string{"-steps", "10", "-checkpoint-every", "5"}, env, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{"-steps", "20", "-seed", "2"}, env, io.Discard); err == nil || !strings.Contains(err.Error(), "-seed 1") {
		t.Errorf("another seed: %v", err)
	}
	name := filepath.Join(dir, "train-worker-0.ckpt")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{"-steps", "20"}, env, io.Discard); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("one bit changed: %v", err)
	}
	gone := []string{"COMB_CHECKPOINT_DIR=" + filepath.Join(dir, "gone")}
	if err := run(context.Background(), []string{"-steps", "10", "-checkpoint-every", "5"}, gone, io.Discard); err == nil || exitCode(err) != exitFailed {
		t.Errorf("no such folder: %v", err)
	}
}
