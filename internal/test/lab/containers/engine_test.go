package containers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// waiting is a gang of two whose tasks print, wait for the file "go" and end with 7 and 8.
func waiting(name string) string {
	return strings.Replace(fmt.Sprintf(gang, name), "minSucceededInstances: 2", "minFailedInstances: 2", 1) + `
      - echo "pid $$ waits"
      - while [ ! -e /comb/checkpoint/go ]; do sleep 0.05; done
      - echo last; exit $((7 + PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX))
`
}

func (w *world) letGo(ref string) { w.put(ref, "go", "") }

// put writes a file of a job's checkpoints, as which its tasks see it.
func (w *world) put(ref, name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// left is what a file of a job's checkpoints says; "" where there is none.
func (w *world) left(ref, name string) string {
	data, _ := os.ReadFile(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", name))
	return strings.TrimSpace(string(data))
}

// alive reports whether process 1 of every task of a job lives.
func alive(j *rest.Job) bool {
	for _, t := range j.Tasks {
		if t.PID == 0 || syscall.Kill(int(t.PID), 0) != nil {
			return false
		}
	}
	return true
}

// held are the leaves that are not free.
func (w *world) held() int {
	w.Helper()
	nodes, err := w.client.Nodes(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	n := 0
	for _, node := range nodes.Nodes {
		for _, s := range node.SKUs {
			n += int(s.Used)
		}
	}
	return n
}

// The engine is killed in the middle of a gang, and the gang ends while there is none: it goes
// on, its leaves stay held until it is over, and no exit code and no line is lost.
func TestGangOutlivesEngine(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(waiting("outlives"))
	w.until(ref, "both tasks run", running(2))
	w.engine.Kill()
	time.Sleep(2 * time.Second) // caretakers look again, which nothing tells; on a busy machine that comes later and does no harm
	if j := w.until(ref, "both tasks still run", running(2)); !alive(j) || w.held() != 2 {
		t.Fatalf("%d leaves are held by %+v", w.held(), j.Tasks)
	}
	w.letGo(ref)
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
	for i, task := range j.Tasks {
		if task.Exit == nil || task.Exit.Code != int32(7+i) || task.Attempt != 1 {
			t.Errorf("task %d ended with %+v in attempt %v", i, task.Exit, task.Attempt)
		}
		out, _, _ := w.cli("job", "logs", ref, "--task", fmt.Sprintf("worker-%d", i))
		if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || lines[1] != "last" {
			t.Errorf("task %d printed %q", i, out)
		}
	}
	if n := w.held(); n != 0 {
		t.Errorf("%d leaves are held by a job that is over", n)
	}
	w.engine.Run() // what could not be removed is, while the server runs
	w.noContainers()
}

// The engine is killed while it starts a container: whatever had come of that, the job runs once at
// a time, ends well, and no container is left. Only two: a node that refused three starts within an
// hour rests for five minutes.
func TestEngineIsKilledInAStart(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	for i, after := range []time.Duration{200, 450} {
		ref := w.submit(with(fmt.Sprintf("start-%d", i), image, "mkdir /comb/checkpoint/runs || exit 9", "sleep 1", "rmdir /comb/checkpoint/runs"))
		time.Sleep(after * time.Millisecond) // the moment of the kill
		w.engine.Kill()
		time.Sleep(500 * time.Millisecond) // without an engine
		w.engine.Run()
		j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
		if j.Phase != model.Succeeded {
			t.Errorf("killed after %v ms it is %s: %+v", int(after), j.Phase, j.Tasks[0].Exit)
		}
		t.Logf("killed after %v ms: %d attempts", int(after), j.Tasks[0].Attempt)
	}
	w.server.Kill()
	w.start() // what an engine that was away could not remove, the next server does
	w.noContainers()
}

// A server that starts while its engine is away knows what runs in containers, and lets what is to
// start in one wait: as a process it could reach everything that the server can.
func TestServerStartsWithoutEngine(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(waiting("knows"))
	w.until(ref, "both tasks run", running(2))
	w.engine.Kill()
	w.server.Kill()
	w.server.Args[len(w.server.Args)-1] = "auto"
	w.start()
	w.until(ref, "both tasks run under the next server", running(2))
	later := w.submit(with("later", image, "test -e /comb/bin/comb"))
	out := ""
	testkit.WaitFor(t, func() string { return fmt.Sprintf("it is refused:\n%s\n%s", out, w.log()) }, func() bool {
		out, _, _ = w.cli("job", "get", later)
		return strings.Contains(out, "attempt 2.0.1: ") && strings.Contains(out, "docker.sock")
	})
	nodes, _, _ := w.cli("node", "list")
	if !strings.Contains(nodes, "no engine answers at "+w.engine.Host()+" now: what is to start in a container waits for it") {
		t.Error(nodes)
	}
	w.letGo(ref)
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
	if x := j.Tasks[1].Exit; x == nil || x.Code != 8 || j.Tasks[1].Attempt != 1 {
		t.Errorf("it ended with %+v", x)
	}
	w.engine.Run()
	j = w.until(later, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if j.Phase != model.Succeeded {
		t.Errorf("the later one is %s: %+v", j.Phase, j.Tasks[0].Exit)
	}
}

// A job is stopped while there is no engine: it has its grace, and its own exit code.
func TestStopWithoutEngine(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(with("stopped", image, "trap 'echo saved > /comb/checkpoint/saved; exit 5' TERM", "echo ready", "while :; do sleep 0.05; done"))
	w.until(ref, "it runs", running(1))
	w.says("ready", "job", "logs", ref)
	w.engine.Kill()
	w.cli("job", "stop", ref, "--wait")
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Stopped })
	if x := j.Tasks[0].Exit; x == nil || x.Code != 5 {
		t.Errorf("it ended with %+v", x)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", "saved")); err != nil {
		t.Error("it saved nothing: ", err)
	}
}

// An engine without live restore ends its containers when it starts again. Then the gang starts
// again, with no task of the attempt before left, and as no failure of its own.
func TestEngineEndsItsContainers(t *testing.T) {
	w := newWorld(t, plain)
	ref := w.submit(waiting("ends"))
	first := w.until(ref, "both tasks run", running(2))
	w.engine.Kill()
	w.engine.Run()
	j := w.until(ref, "both tasks run in the second attempt", func(j *rest.Job) bool { return j.Tasks[0].Attempt == 2 && running(2)(j) })
	if alive(first) {
		t.Errorf("the first attempt lives: %+v", first.Tasks)
	}
	if j.Counted != 0 {
		t.Errorf("%d failures count as its own", j.Counted)
	}
	w.letGo(ref)
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
	w.noContainers()
}
