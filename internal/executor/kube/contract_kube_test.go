package kube_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/test/executortest"
	"github.com/combsched/comb/internal/test/testkit"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "the cluster of test/kube/cluster")
	realNode   = flag.String("real", "real1", "its node with a kubelet and containers")
	fakeNodes  = flag.String("fake", "fake-0,fake-1", "two of its simulated nodes")
)

const image = "local.test/busybox:1"

// TestConformance runs the suite of all executors on simulated nodes, and on a real one.
func TestConformance(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	if *kubeconfig == "" {
		t.Fatal("no cluster is named: make test-kube makes one")
	}
	fakes := strings.Split(*fakeNodes, ",")
	t.Run("simulated nodes", func(t *testing.T) {
		executortest.Run(t, func(t *testing.T) *executortest.Harness {
			return harness(t, []cell.NodeName{cell.NodeName(fakes[0]), cell.NodeName(fakes[1])})
		})
	})
	t.Run("a real node", func(t *testing.T) {
		executortest.Run(t, func(t *testing.T) *executortest.Harness {
			return harness(t, []cell.NodeName{cell.NodeName(*realNode), cell.NodeName(fakes[0])})
		})
	})
}

// secret is that of each job of the suite.
const secret = "a-word-that-only-tasks-know"

// TestConformanceWithComb runs the suite where process 1 of each pod is Comb: its tasks are
// suspended, too, and stopped as on one machine.
func TestConformanceWithComb(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	laid := loadComb(t)
	claim := shareFolder(t)
	executortest.Run(t, func(t *testing.T) *executortest.Harness {
		listener, err := net.Listen("tcp", "10.215.0.1:0") // the address of the real node, which its pods reach
		if err != nil {
			t.Fatal(err)
		}
		cert, pin, err := link.Identity(filepath.Join(t.TempDir(), "pod-cert.pem"))
		if err != nil {
			t.Fatal(err)
		}
		way := &pods.ServerLink{Image: laid, URL: "https://" + listener.Addr().String(), Pin: pin, Limit: 1 << 20}
		var now atomic.Pointer[kube.Executor]
		said := &executortest.Reports{}
		h := harnessOver(t, []cell.NodeName{cell.NodeName(*realNode), cell.NodeName(*realNode)}, func(o *kube.Options) {
			tell := o.Tell
			o.Tell, o.Work = func(f model.Fact) { said.Hear(f); tell(f) }, claim
			o.ServerLink, o.Secrets = way, func(model.JobID) (map[string]string, error) { return map[string]string{"token": secret}, nil }
		}, now.Store)
		h.Rotates, h.OneStream, h.Token, h.Said, h.Keeps = true, true, secret, said.Of, true
		h.Log = func(id model.AttemptID, task int32, stream string) string {
			l, err := now.Load().OpenLog(executor.LogRef{Attempt: id, Task: task, Stream: stream}, 0)
			if err != nil {
				return ""
			}
			defer l.Close()
			text, err := io.ReadAll(l)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		h.Ready = func(id model.AttemptID, lines int) {
			t.Helper()
			testkit.Wait(t, fmt.Sprintf("attempt %v has printed ready %d times", id, lines), func() bool {
				return strings.Count(h.Log(id, 0, executor.Stdout), "ready\n") >= lines
			})
		}
		handler := func(pod string) *link.Handler { return now.Load().PodHandler() }
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		go (&link.Handler{
			Admit:   func(ctx context.Context, pod, token string) error { return handler(pod).Admit(ctx, pod, token) },
			Code:    func(pod string) (io.ReadCloser, int64, error) { return handler(pod).Code(pod) },
			Gang:    func(pod string) (map[string]string, error) { return handler(pod).Gang(pod) },
			Members: func(pod string) (executor.Membership, error) { return handler(pod).Members(pod) },
			Log:     func(pod string, b link.LogBlock) (int64, error) { return handler(pod).Log(pod, b) },
			Told:    func(pod string, lines []byte) error { return handler(pod).Told(pod, lines) },
			Took:    func(pod string, u link.Usage) error { return handler(pod).Took(pod, u) },
			Turn:    func(pod string, ask link.TurnReport) (link.TurnAnswer, error) { return handler(pod).Turn(pod, ask) },
		}).Serve(ctx, tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}), slog.New(slog.DiscardHandler))
		return h
	})
}

// shareFolder makes a claim of a folder, and returns its name. It goes with the test.
func shareFolder(t *testing.T) string {
	t.Helper()
	const name = "suite-checkpoints"
	dir := t.TempDir()
	for at := dir; at != "/"; at = filepath.Dir(at) { // a pod's user walks down to it
		if err := os.Chmod(at, 0o1777); err != nil {
			t.Fatal(err)
		}
		if at == os.TempDir() {
			break
		}
	}
	volume := fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %[1]s}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: \"\", persistentVolumeReclaimPolicy: Retain, hostPath: {path: %[2]s}}\n"+
		"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %[1]s, namespace: comb}\nspec: {accessModes: [ReadWriteMany], storageClassName: \"\", volumeName: %[1]s, resources: {requests: {storage: 1Gi}}}\n", name, dir)
	kubectl := func(in string, argv ...string) {
		cmd := exec.Command("kubectl", append([]string{"--kubeconfig", *kubeconfig}, argv...)...)
		cmd.Stdin = strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", argv, err, out)
		}
	}
	kubectl(volume, "apply", "-f", "-")
	t.Cleanup(func() { kubectl(volume, "delete", "-f", "-", "--wait=true") })
	return name
}

// loadComb brings an image of this program to the real node, and returns its name.
func loadComb(t *testing.T) string {
	t.Helper()
	at := strings.Fields(os.Getenv("CLUSTER_AT")) // see test/kube/run
	if len(at) != 2 {
		t.Fatal("CLUSTER_AT does not say where the cluster is: make test-kube does")
	}
	const name = "local.test/comb:suite"
	file := filepath.Join(t.TempDir(), "comb.tar")
	for _, argv := range [][]string{
		{"go", "run", "../../test/boximage", filepath.Join(testkit.Bin(t), "comb"), name, file},
		{filepath.Join(at[0], "ctr"), "-a", filepath.Join(at[1], "cri", "containerd.sock"), "-n", "k8s.io", "images", "import", file},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	return name
}

// harness is an executor in a namespace that no other test uses.
func harness(t *testing.T, nodes []cell.NodeName) *executortest.Harness {
	return harnessOver(t, nodes, func(*kube.Options) {}, func(*kube.Executor) {})
}

// harnessOver is one whose executors are made in a way, each of which is told.
func harnessOver(t *testing.T, nodes []cell.NodeName, change func(*kube.Options), made func(*kube.Executor)) *executortest.Harness {
	client, err := api.Open(api.Options{Kubeconfig: *kubeconfig, Namespace: "comb"})
	if err != nil {
		t.Fatal(err)
	}
	dir, cluster := t.TempDir(), fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	facts := make(chan model.Fact, 10_000)
	open := func() *kube.Executor {
		o := kube.Options{API: client, Dir: filepath.Join(dir, "jobs"), KeyFile: filepath.Join(dir, "key"), Cluster: cluster,
			Tell: func(f model.Fact) { facts <- f }, Limits: kube.Limits{Binding: 3 * time.Second, Image: time.Minute, Log: 10 * time.Second, Gone: time.Second}}
		change(&o)
		e, err := kube.New(o)
		if err != nil {
			t.Fatal(err)
		}
		made(e)
		return e
	}
	h := &executortest.Harness{Nodes: nodes, SKU: cell.SKU{Name: "CPU", Device: cell.CPU},
		Now:      func() model.Time { return model.Time(time.Now().UnixMicro()) },
		Patience: time.Minute, Silence: 700 * time.Millisecond, Beside: true, // pods of another Comb are none of its
	}
	var now *kube.Executor
	begin := func() {
		now = open()
		h.Executor = withImage{now}
	}
	begin()
	h.Next = func(d time.Duration) model.Fact {
		for end := time.After(d); ; {
			select {
			case f := <-facts:
				switch f.(type) {
				case model.TaskStarted, model.TaskExited, model.TaskRefused, model.TaskUnknown:
					return f
				}
			case <-end:
				return nil
			}
		}
	}
	h.Restart = func() {
		now.Close()
		begin()
	}
	t.Cleanup(func() {
		testkit.Wait(t, "the pods of the test are gone", func() bool {
			now.EndStrays(nil)
			return now.Forget(1) == nil && now.Forget(2) == nil
		})
		now.Close()
	})
	return h
}

// withImage gives the jobs of the suite an image, where they have none.
type withImage struct{ *kube.Executor }

func (e withImage) Do(a model.Action) {
	if a.Start != nil {
		for i := range a.Start.Job.Roles {
			if l := &a.Start.Job.Roles[i].Launch; l.Image == "" {
				l.Image = image
			}
		}
	}
	e.Executor.Do(a)
}

// TestRealContainers: what a container prints and how it ends comes back, also over a server that
// was gone meanwhile.
func TestRealContainers(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	h := harness(t, []cell.NodeName{cell.NodeName(*realNode)})
	at := model.AttemptID{Job: 1, N: 1}
	job := &model.Job{Name: "talker", User: "tester", VC: "default", Grace: 2 * model.Second,
		Roles: []model.Role{{Name: "worker", Tasks: 1, Launch: model.Launch{MilliCPU: 100, MemoryMB: 64,
			Command: []string{"echo $$ $(echo in) $COMB_JOB_NAME", "sleep 3; echo later; exit 5"}}}}}
	a := model.Action{Attempt: at, Start: &model.Start{ID: 1, Job: job, Tasks: []model.TaskStart{{SKU: h.SKU, Place: cell.Task{Node: h.Nodes[0]}}}}}
	h.Executor.Do(a)
	if f, ok := h.Next(h.Patience).(model.TaskStarted); !ok || f.Host == "" {
		t.Fatalf("got %#v, want its start with an address", f)
	}
	h.Restart()
	a.Known = true
	h.Executor.Do(a)
	var exit *model.Exit
	for exit == nil {
		switch f := h.Next(h.Patience).(type) {
		case model.TaskExited:
			exit = &f.Exit
		case model.TaskStarted:
		default:
			t.Fatalf("got %#v, want its end", f)
		}
	}
	if exit.Code != 5 || !exit.Own || exit.Cause != "" {
		t.Errorf("it ended with %+v, want 5 of its own", exit)
	}
	l, err := h.Executor.(withImage).OpenLog(executor.LogRef{Attempt: at, Stream: executor.Stdout}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text, err := io.ReadAll(l)
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) != 3 || !strings.HasSuffix(lines[0], " in talker") || strings.HasPrefix(lines[0], "$") || lines[1] != "later" {
		t.Errorf("its log is %q, %v", text, err)
	}
}

// The shapes of OpenPAI's public job files do and find what they do and find there, but for the
// user, in an image that test/kube/cluster packs.
func TestShapesOfOpenPAIAsPods(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	in := executortest.ShapesIn{Folder: "../../../testdata/openpai",
		Image: "local.test/app:1", Dir: "/app", User: "1000", NoStorages: true, Fresh: func(t *testing.T, secrets map[string]string) *executortest.Harness {
			var now atomic.Pointer[kube.Executor]
			h := harnessOver(t, []cell.NodeName{cell.NodeName(*realNode)}, func(o *kube.Options) {
				o.Secrets = func(model.JobID) (map[string]string, error) { return secrets, nil }
			}, now.Store)
			h.Log = func(id model.AttemptID, task int32, stream string) string {
				l, err := now.Load().OpenLog(executor.LogRef{Attempt: id, Task: task, Stream: stream}, 0)
				if err != nil {
					return ""
				}
				defer l.Close()
				text, err := io.ReadAll(l)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			return h
		}}
	in.Run(t)
}

// TestWhatOfAnImageReachesAPod: the table of docs/kubernetes.md, by images that test/kube/cluster
// packs.
func TestWhatOfAnImageReachesAPod(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	h := harness(t, []cell.NodeName{cell.NodeName(*realNode)})
	run := func(id model.JobID, launch model.Launch) (model.Exit, string) {
		t.Helper()
		launch.MilliCPU, launch.MemoryMB = 100, 64
		at := model.AttemptID{Job: id, N: 1}
		h.Executor.Do(model.Action{Attempt: at, Start: &model.Start{ID: id,
			Tasks: []model.TaskStart{{SKU: h.SKU, Place: cell.Task{Node: h.Nodes[0]}}},
			Job: &model.Job{Name: "says", User: "tester", VC: "default", Grace: 2 * model.Second,
				Roles: []model.Role{{Name: "worker", Tasks: 1, Launch: launch}}}}})
		for {
			switch f := h.Next(h.Patience).(type) {
			case model.TaskExited:
				l, err := h.Executor.(withImage).OpenLog(executor.LogRef{Attempt: at, Stream: executor.Stdout}, 0)
				if err != nil {
					return f.Exit, ""
				}
				defer l.Close()
				text, err := io.ReadAll(l)
				if err != nil {
					t.Fatal(err)
				}
				return f.Exit, string(text)
			case model.TaskStarted:
			default:
				t.Fatalf("got %#v, want its end", f)
			}
		}
	}
	show := []string{"pwd; cat train.txt; id -u; echo $OWN"}
	exit, out := run(1, model.Launch{Image: "local.test/app:1", Command: show})
	if exit.Code != 0 || out != "/app\nok\n1000\nown\n" {
		t.Errorf("it ended with %+v, and printed %q", exit, out)
	}
	exit, out = run(2, model.Launch{Image: "local.test/private:1", Command: []string{"pwd; id -u; echo $OWN"}})
	// runc enters it before it takes the user on, where it can; it fails with "chdir to cwd" else.
	const why = "its working directory cannot be entered by its user"
	begins := exit.Code == 0 && out == "/private\n1000\n\n"
	if !begins && (exit.Code != 126 || exit.Cause != "" || !strings.HasPrefix(exit.Message, why)) {
		t.Errorf("of a WORKDIR that its user may not enter it ended with %+v, and printed %q", exit, out)
	}
}

// A pod that no task is known of is ended, whatever its record says, and its node is told to be up
// only then.
func TestStrays(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	client, err := api.Open(api.Options{Kubeconfig: *kubeconfig, Namespace: "comb"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	facts := make(chan model.Fact, 10_000)
	var log testkit.Output
	open := func() *kube.Executor {
		e, err := kube.New(kube.Options{API: client, Dir: filepath.Join(dir, "jobs"), KeyFile: filepath.Join(dir, "key"), Cluster: "strays", Log: slog.New(slog.NewTextHandler(&log, nil)),
			Tell: func(f model.Fact) { facts <- f }, Limits: kube.Within(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	at := model.AttemptID{Job: 7, N: 1}
	job := &model.Job{Name: "stray", User: "ada", VC: "default", Roles: []model.Role{{Name: "main", Tasks: 1, Launch: model.Launch{Image: image, Command: []string{"sleep 1000"}, MilliCPU: 100}}}}
	withImage{e}.Do(model.Action{Attempt: at, Start: &model.Start{ID: 7, Job: job, Tasks: []model.TaskStart{{Place: cell.Task{Node: cell.NodeName(*realNode)}, SKU: cell.SKU{Name: "CPU", Device: cell.CPU}}}}})
	started := func() bool {
		select {
		case f := <-facts:
			_, ok := f.(model.TaskStarted)
			return ok
		default:
			return false
		}
	}
	testkit.Wait(t, "the task has started", started)
	e.Close()
	record := filepath.Join(dir, "jobs", "7", "0.1", "pods")
	if err := os.WriteFile(record, []byte("\n0 {\"exit\":{\"code\":3}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e = open()
	defer e.Close()
	named := false
	testkit.Wait(t, "the stray is named, by the sweep or, where the pods were not seen yet, by the log", func() bool {
		named = named || slices.Contains(e.EndStrays(nil), at.String()+"/0") || strings.Contains(log.String(), "task="+at.String()+"/0")
		return named
	})
	testkit.Wait(t, "the stray is gone", func() bool { return e.Forget(7) == nil })
}
