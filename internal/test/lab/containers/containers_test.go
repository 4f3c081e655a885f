package containers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/enginetest"
	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/testkit"
)

const image = "local.test/busybox:1"

// bin is the folder with the programs under test.
var bin string

// TestMain builds the programs where there is a network, and runs the tests where there is none.
func TestMain(m *testing.M) { os.Exit(withPrograms(m)) }

func withPrograms(m *testing.M) int {
	flag.Parse()
	has, err := testkit.Has("container")
	if err == nil && !has {
		fmt.Println("not run: tests of containers need -live container")
		return 0
	}
	defer testkit.Drop()
	if err == nil {
		bin, err = testkit.Programs()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return enginetest.Main(m)
}

// world is a server over an engine.
type world struct {
	testing.TB
	engine *enginetest.Engine
	server *lab.Server
	client *rest.Client
	dir    string
	// patience is how long a job is waited for.
	patience time.Duration
}

func newWorld(t testing.TB, cluster string, flags ...string) *world {
	t.Helper()
	return newWorldOn(t, cluster, nil, flags...)
}

// newWorldOn is one whose server has arguments of its own; flags are the engine's.
func newWorldOn(t testing.TB, cluster string, args []string, flags ...string) *world {
	t.Helper()
	w := &world{TB: t, engine: enginetest.Start(t, flags...), dir: t.TempDir(), patience: 2 * testkit.Patience}
	t.Setenv("DOCKER_HOST", w.engine.Host())
	w.engine.Import(image, nil, `CMD ["/bin/sh"]`)
	file := filepath.Join(w.dir, "cluster.yaml")
	if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	w.server = &lab.Server{Bin: bin, Data: filepath.Join(w.dir, "data"), Log: filepath.Join(w.dir, "log"),
		Args: append([]string{"--cluster", file, "--overcommit", "--virtual-gpus", "2", "--runtime", "container"}, args...)}
	t.Cleanup(w.server.Kill)
	w.start()
	return w
}

func (w *world) start() {
	w.Helper()
	err := w.server.Start(w.Context())
	if err == nil {
		w.client, err = w.server.Client()
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) submit(source string) string {
	w.Helper()
	out, err := w.client.Submit(w.Context(), rest.SubmitRequest{Source: source}, rest.NewKey())
	if err != nil {
		w.Fatal(err)
	}
	return rest.JobRef(out.ID)
}

// until polls the job until a condition holds.
func (w *world) until(ref, what string, ok func(*rest.Job) bool) *rest.Job {
	w.Helper()
	var j rest.Job
	if !testkit.Within(w.patience, func() bool {
		var err error
		if j, err = w.client.Job(w.Context(), ref); err != nil {
			w.Fatal(err)
		}
		return ok(&j)
	}) {
		w.Fatalf("never: %s; the job is %+v\n%s", what, j, w.log())
	}
	return &j
}

// says waits until a command says something.
func (w *world) says(want string, args ...string) {
	w.Helper()
	out := ""
	testkit.WaitFor(w, func() string { return fmt.Sprintf("%v says %q; it says\n%s\n%s", args, want, out, w.log()) }, func() bool {
		out, _, _ = w.cli(args...)
		return strings.Contains(out, want)
	})
}

func (w *world) log() string {
	data, _ := os.ReadFile(w.server.Log)
	return string(data)
}

func (w *world) cli(args ...string) (stdout, stderr string, code int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), w.patience)
	defer cancel()
	stdout, stderr, code, err := w.server.CLI(ctx, args...)
	if err != nil {
		w.Fatal(err)
	}
	return stdout, stderr, code
}

// noContainers fails while the engine knows a container: one is removed right behind its end, or by
// a look each 20 s where the engine was away then.
func (w *world) noContainers() {
	w.Helper()
	var left []string
	testkit.WaitFor(w, func() string { return fmt.Sprintf("no containers are left; there are %v", left) }, func() bool {
		left = w.engine.Containers()
		return len(left) == 0
	})
}

// supervisors are the processes that care for a task in this world.
func (w *world) supervisors() []int {
	w.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.Fatal(err)
	}
	var pids []int
	for _, f := range files {
		data, _ := os.ReadFile(f) // of a process that is gone
		if args := strings.Split(string(data), "\x00"); len(args) > 2 && args[1] == "supervise" && strings.HasPrefix(args[2], w.dir) {
			var pid int
			if _, err := fmt.Sscanf(f, "/proc/%d/", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func running(n int) func(*rest.Job) bool {
	return func(j *rest.Job) bool {
		runs := 0
		for _, t := range j.Tasks {
			if t.State == model.TaskRunning {
				runs++
			}
		}
		return runs == n
	}
}

const fakes = `
physicalCluster:
  skuTypes:
    FAKE: {gpu: 1, cpu: 1, memory: 512Mi, deviceFiles: ["%NAME%%d"]}
  cellTypes:
    FAKE-NODE: {childCellType: FAKE, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
    - {cellType: FAKE-NODE, cellAddress: here}
virtualClusters:
  default: {virtualCells: [{cellType: FAKE-NODE, cellNumber: 1}]}
`

// devices makes two character devices and a cluster that has them: files of a SKU are below /dev.
func devices(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("/dev/comb-test-%d-fake", time.Now().UnixNano())
	for i := range 2 {
		path := fmt.Sprint(name, i)
		// 1:3 is the null device, 1:5 the one of zeros.
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|3+2*i); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(path) })
	}
	return strings.ReplaceAll(fakes, "%NAME%", name)
}

// Server and supervisors are killed in the middle of a gang of two containers: each goes on,
// sees its device and no other, and neither exit code nor output is lost or told twice.
func TestGangOutlivesServerAndSupervisors(t *testing.T) {
	w := newWorld(t, devices(t), "--live-restore")
	ref := w.submit(`
protocolVersion: 2
name: gang
type: job
prerequisites:
  - {type: dockerimage, name: box, uri: ` + image + `}
taskRoles:
  worker:
    instances: 2
    dockerImage: box
    completion: {minFailedInstances: 2}
    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 128}
    commands:
      - echo "device $COMB_DEVICE_FILES"
      - for d in $(echo $COMB_DEVICE_FILES | sed 's/.$//')*; do test -c $d && echo "sees $d"; done
      - i=0; while [ ! -e /comb/checkpoint/go ] || [ $i -lt 5000 ]; do i=$((i+1)); echo "line $i"; test $i -lt 5000 || sleep 0.1; done
      - echo last >&2
      - exit $((7 + PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX))
`)
	w.until(ref, "both tasks run", running(2))
	before := w.supervisors()
	if len(before) != 2 {
		t.Fatalf("the supervisors are %v", before)
	}
	w.server.Kill()
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.until(ref, "both tasks run under new supervisors", func(j *rest.Job) bool {
		return running(2)(j) && len(w.supervisors()) == 2
	})
	if err := os.WriteFile(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
	for i, task := range j.Tasks {
		if task.Exit == nil || task.Exit.Code != int32(7+i) || task.Attempt != j.Tasks[0].Attempt {
			t.Errorf("task %d ended with %+v in attempt %v", i, task.Exit, task.Attempt)
		}
		w.output(ref, i)
	}
	w.noContainers()
}

// TestFailureIsToldOfAGangTakenUp: a task fails while neither server nor supervisors live, and the
// other one would wait for it for ever. The next server tells the failure, though the other's
// container goes on.
func TestFailureIsToldOfAGangTakenUp(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(fmt.Sprintf(gang, "waits") + `
      - while [ $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX = 0 ] || [ ! -e /comb/checkpoint/fail ]; do sleep 0.1; done; exit 3
`)
	w.until(ref, "both tasks run", running(2))
	before := w.supervisors()
	w.server.Kill()
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", "fail"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	j := w.until(ref, "it fails", func(j *rest.Job) bool { return j.Phase == model.Failed })
	if e := j.Tasks[1].Exit; e == nil || e.Code != 3 || j.Exit == nil || j.Exit.Code != 3 {
		t.Errorf("it failed of %+v, task 1 ended with %+v", j.Exit, e)
	}
	w.noContainers()
}

// TestClaimsAreLost: what says which supervisor cares for a task is damaged, or gone, while neither
// server nor supervisors live. The containers go on, and their leaves are free when they have
// ended.
func TestClaimsAreLost(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(waiting("claims"))
	j := w.until(ref, "both tasks run", running(2))
	pids := [2]int32{j.Tasks[0].PID, j.Tasks[1].PID}
	w.server.Kill()
	for _, pid := range w.supervisors() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := filepath.Glob(filepath.Join(w.dir, "data", "jobs", ref, "*", "*", "started"))
	if err != nil || len(claims) != 2 {
		t.Fatalf("%v, %v", claims, err)
	}
	if err := errors.Join(os.WriteFile(claims[0], []byte("{"), 0o600), os.Remove(claims[1])); err != nil {
		t.Fatal(err)
	}
	w.start()
	if j := w.until(ref, "both tasks run", running(2)); !alive(j) || j.Tasks[0].PID != pids[0] || j.Tasks[1].PID != pids[1] {
		t.Errorf("%v ran, and now %+v", pids, j.Tasks)
	}
	w.letGo(ref)
	j = w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	for i, task := range j.Tasks {
		if task.Exit == nil || task.Exit.Code != int32(7+i) {
			t.Errorf("task %d ended with %+v", i, task.Exit)
		}
	}
	if n := w.held(); n != 0 {
		t.Errorf("%d leaves are held", n)
	}
	w.noContainers()
}

// output checks what a task of the gang printed: each line once and in order.
func (w *world) output(ref string, task int) {
	w.Helper()
	out, _, code := w.cli("job", "logs", ref, "--task", fmt.Sprintf("worker-%d", task))
	if code != 0 {
		w.Fatalf("the logs of task %d: code %d", task, code)
	}
	w.Logf("task %d printed %d bytes", task, len(out))
	n, sees := 0, 0
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		var k int
		switch {
		case strings.HasPrefix(line, "sees "):
			if sees++; !strings.HasSuffix(line, fmt.Sprintf("fake%d", task)) {
				w.Errorf("task %d: %s", task, line)
			}
		case strings.HasPrefix(line, "line "):
			if _, err := fmt.Sscanf(line, "line %d", &k); err != nil || k != n+1 {
				w.Fatalf("task %d: %q behind line %d", task, line, n)
			}
			n = k
		}
	}
	if n < 5000 || sees != 1 {
		w.Errorf("task %d printed %d lines and saw %d devices:\n%.300s", task, n, sees, out)
	}
}
