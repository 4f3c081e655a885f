// Command kubebench measures Comb on a Kubernetes cluster of simulated nodes, and beside it bare
// pods that a parallel client makes:
//
//	kubebench -bin bin -nodes 500      (KUBECONFIG and CLUSTER_AT say which; see make bench-kube)
//
// Each load is measured the same way: pods a second until all run, the processor time of each part
// of the cluster, and the calls of the API server by verb. It prints one figure a line and judges
// none.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/test/lab"
)

const gpus = 8 // of a node

func main() {
	bin, nodes := flag.String("bin", "bin", "folder with comb"), flag.Int("nodes", 500, "simulated nodes of 8 GPUs")
	flag.Parse()
	if err := run(context.Background(), *bin, *nodes); err != nil {
		fmt.Fprintln(os.Stderr, "kubebench:", err)
		os.Exit(1)
	}
}

type bench struct {
	lab.Figures
	client *rest.Client
	server *exec.Cmd
	nodes  int
	kube   *api.Client
	parts  *parts
	label  string // of what is measured now
}

func run(ctx context.Context, bin string, nodes int) error {
	dir, err := os.MkdirTemp("", "comb-kubebench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kube, err := api.Open(api.Options{Namespace: "comb"})
	if err != nil {
		return err
	}
	parts, err := openParts(os.Getenv("CLUSTER_AT"))
	if err != nil {
		return err
	}
	b := &bench{Figures: lab.Figures{Out: os.Stdout}, nodes: nodes, kube: kube, parts: parts}
	if err := b.idle(ctx); err != nil {
		return err
	}
	if err := b.bare(ctx); err != nil {
		return err
	}
	err = b.serving(ctx, bin, filepath.Join(dir, "plain"), "comb", b.small, b.gang, b.reclaim, b.never, b.memory)
	if err != nil {
		return err
	}
	// The program of simulated pods is never started: what it costs the nodes is not measured.
	return b.serving(ctx, bin, filepath.Join(dir, "linked"), "comb_with_pod_image", b.small, b.gang, b.memory)
}

// idle prints what each part uses in a second while there are no pods: a load that takes longer has
// more of it.
func (b *bench) idle(ctx context.Context) error {
	const long = 10 * time.Second
	before := b.parts.now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
	}
	used := b.parts.now().since(before)
	for _, name := range slices.Sorted(maps.Keys(used.cpu)) {
		b.Print("idle_cpu_of_a_second", used.cpu[name].Seconds()*1000/long.Seconds(), "ms", "part", name)
	}
	return nil
}

// serving runs the steps of one server, and removes its pods.
func (b *bench) serving(ctx context.Context, bin, dir, label string, steps ...func(context.Context) error) error {
	var more []string
	if label == "comb_with_pod_image" {
		more = []string{"--pod-image", "local.test/comb:1", "--pod-url", "https://127.0.0.1:8421",
			"--pod-listen", "127.0.0.1:0"}
	}
	if err := b.serve(ctx, bin, dir, more...); err != nil {
		return err
	}
	b.label, b.parts.pid["comb"] = label, b.server.Process.Pid
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return errors.Join(err, b.stop())
		}
	}
	if err := b.stop(); err != nil {
		return err
	}
	return b.clear(ctx)
}

// stop ends the server. Its pods run on.
func (b *bench) stop() error {
	delete(b.parts.pid, "comb")
	return errors.Join(b.server.Process.Signal(os.Interrupt), b.server.Wait())
}

// clear removes all pods, whatever keeps them.
func (b *bench) clear(ctx context.Context) error {
	for {
		list, err := b.kube.Pods(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		err = inParallel(len(list), func(i int) error {
			pod := &list[i]
			if len(pod.Finalizers) > 0 {
				if err := b.kube.Release(ctx, pod, pod.Finalizers[0]); err != nil {
					return err
				}
			}
			return b.kube.Delete(ctx, pod.Name, pod.UID, 0)
		})
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

// memory prints what the server holds.
func (b *bench) memory(context.Context) error {
	kib, err := lab.Resident(b.server.Process.Pid)
	if err == nil {
		b.Print(b.label+"_resident_memory", float64(kib)/1024, "MiB", "nodes", fmt.Sprint(b.nodes))
	}
	return err
}

// requests is how many requests for pods are under way at a time, as many as Comb makes.
const requests = 24

// inParallel does a piece of work n times.
func inParallel(n int, do func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, requests)
	for w := range errs {
		group.Go(func() {
			for i := w; i < n && errs[w] == nil; i += requests {
				errs[w] = do(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// bare makes a pod on each GPU without Comb, and measures until all run.
func (b *bench) bare(ctx context.Context) error {
	total := b.nodes * gpus
	await, stop := b.watch(ctx, total)
	defer stop()
	began, cost := time.Now(), b.parts.now()
	pods := make([]*corev1.Pod, total)
	err := inParallel(total, func(i int) (err error) {
		pods[i], err = b.kube.Create(ctx, plainPod(fmt.Sprintf("bare-%d", i), fmt.Sprintf("fake-%d", i%b.nodes)))
		return err
	})
	if err != nil {
		return err
	}
	if err := await(); err != nil {
		return err
	}
	b.label = "bare"
	b.printLoad(began, cost, total)
	if err := b.bareGang(ctx, pods); err != nil {
		return err
	}
	return b.clear(ctx)
}

// bareGang does without Comb what gang asks of the cluster: it removes some of the pods, and when
// they are gone it makes as many in their place.
func (b *bench) bareGang(ctx context.Context, pods []*corev1.Pod) error {
	n := b.gangSize()
	store, watch := b.kube.WatchPods(func(string) {}, func(error) {})
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go watch.RunWithContext(watching)
	began := time.Now()
	err := inParallel(n, func(i int) error { return b.kube.Delete(ctx, pods[i].Name, pods[i].UID, 30*time.Second) })
	if err != nil {
		return err
	}
	for left := len(pods); left != len(pods)-n; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			return fmt.Errorf("%d pods are left of %d", left, len(pods))
		}
		left = len(store.ListKeys())
	}
	gone := time.Now()
	await, stopped := b.watch(ctx, len(pods))
	defer stopped()
	err = inParallel(n, func(i int) error {
		_, err := b.kube.Create(ctx, plainPod(fmt.Sprintf("new-%d", i), fmt.Sprintf("fake-%d", i%b.nodes)))
		return err
	})
	if err == nil {
		err = await()
	}
	b.Print("bare_gang_gone", gone.Sub(began).Seconds(), "s", "pods", fmt.Sprint(n))
	b.Print("bare_gang_runs", time.Since(began).Seconds(), "s", "pods", fmt.Sprint(n), "takes_back", "yes")
	return err
}

// gangSize is how many tasks of one GPU the gang has that takes cells back.
func (b *bench) gangSize() int { return min(512, b.nodes/2*gpus) }

// watch returns what waits until so many pods run, by a watch of its own: so nothing is asked of
// the server meanwhile. stop ends the watch.
func (b *bench) watch(ctx context.Context, pods int) (await func() error, stop context.CancelFunc) {
	changed := make(chan string, 100*pods)
	store, watch := b.kube.WatchPods(func(name string) { changed <- name }, func(error) {})
	ctx, stop = context.WithCancel(ctx)
	go watch.RunWithContext(ctx)
	return func() error {
		for runs := map[string]bool{}; len(runs) < pods; {
			select {
			case name := <-changed:
				if obj, ok, _ := store.GetByKey("comb/" + name); ok && obj.(*corev1.Pod).Status.Phase == corev1.PodRunning {
					runs[name] = true
				}
			case <-time.After(time.Minute):
				return fmt.Errorf("%d of %d pods run", len(runs), pods)
			}
		}
		return nil
	}, stop
}

// printLoad prints what a load of so many pods cost.
func (b *bench) printLoad(began time.Time, before usage, pods int) {
	took := time.Since(began)
	b.Print(b.label+"_pods", float64(pods)/took.Seconds(), "1/s", "pods", fmt.Sprint(pods))
	b.parts.now().since(before).print(&b.Figures, b.label, pods)
}

func plainPod(name, node string) *corev1.Pod {
	no, yes, uid := false, true, int64(1000)
	p := &corev1.Pod{}
	p.Name = name
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("1"),
		"memory": resource.MustParse("1Gi")}
	p.Spec = corev1.PodSpec{AutomountServiceAccountToken: &no, NodeSelector: map[string]string{corev1.LabelHostname: node},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: "task", Image: "none", Command: []string{"sh", "-c", "sleep 1000"},
			Resources:       corev1.ResourceRequirements{Limits: gpu, Requests: gpu},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}
	return p
}

// serve starts a server with the nodes, half of them a team's.
func (b *bench) serve(ctx context.Context, bin, dir string, more ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cluster := filepath.Join(dir, "cluster.yaml")
	text := "physicalCluster:\n  skuTypes: {A100: {gpu: 1, cpu: 8, memory: 64Gi}}\n  cellTypes: {NODE: {childCellType: A100, childCellNumber: 8, isNodeLevel: true}}\n  physicalCells:\n"
	for i := range b.nodes {
		text += fmt.Sprintf("  - {cellType: NODE, cellAddress: fake-%d}\n", i)
	}
	text += fmt.Sprintf("virtualClusters:\n  a: {virtualCells: [{cellType: NODE, cellNumber: %d}]}\n  b: {virtualCells: [{cellType: NODE, cellNumber: %d}]}\n", b.nodes/2, b.nodes-b.nodes/2)
	if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
		return err
	}
	b.server = exec.Command(filepath.Join(bin, "comb"), "serve", "--data", filepath.Join(dir, "data"), "--executor", "kubernetes", "--listen", "127.0.0.1:0", "--cluster", cluster)
	b.server.Args = append(b.server.Args, more...)
	b.server.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
	b.server.Stderr = os.Stderr
	if err := b.server.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		e, err := contexts.ReadEndpoint(filepath.Join(dir, "data", contexts.EndpointFile))
		if err != nil {
			continue
		}
		token, err := contexts.ReadToken(e.TokenFile)
		if err != nil {
			return err
		}
		b.client, err = rest.NewClient(e.URL, token)
		return err
	}
	return fmt.Errorf("the server did not start within a minute")
}

// job is a job of so many tasks of so many GPUs.
func job(name, vc, priority string, tasks, gpus int) string {
	return fmt.Sprintf(`protocolVersion: 2
name: %s
type: job
prerequisites:
- {type: dockerimage, name: box, uri: "local.test/busybox:1"}
taskRoles:
  worker:
    instances: %d
    dockerImage: box
    resourcePerInstance: {gpu: %d, cpu: 1, memoryMB: 1024}
    commands: [sleep 100000]
defaults: {virtualCluster: %s}
extras: {hivedScheduler: {jobPriorityClass: %s}}
`, name, tasks, gpus, vc, priority)
}

// small starts a job of one GPU on each GPU of the cluster, all of them opportunistic.
func (b *bench) small(ctx context.Context) error {
	total := b.nodes * gpus
	await, stop := b.watch(ctx, total)
	defer stop()
	began, cost := time.Now(), b.parts.now()
	err := inParallel(total, func(i int) error {
		_, err := b.client.Submit(ctx, rest.SubmitRequest{Source: job(fmt.Sprintf("small-%d", i), "a", "oppo", 1, 1)},
			"")
		return err
	})
	if err != nil {
		return err
	}
	b.Print(b.label+"_accepted", time.Since(began).Seconds(), "s", "jobs", fmt.Sprint(total))
	if err := await(); err != nil {
		return errors.Join(err, b.waiting(ctx))
	}
	b.printLoad(began, cost, total)
	return nil
}

// waiting tells of the jobs that do not run: how many, and why the last of them waits.
func (b *bench) waiting(ctx context.Context) error {
	list, err := b.client.Jobs(ctx, rest.JobQuery{States: []model.Phase{model.Waiting}})
	if err != nil || len(list.Jobs) == 0 {
		return err
	}
	why, err := b.client.Explain(ctx, rest.JobRef(list.Jobs[0].ID))
	if err != nil {
		return err
	}
	text, err := json.Marshal(why)
	if err != nil {
		return err
	}
	return fmt.Errorf("%d jobs wait, %s: %s", len(list.Jobs), list.Jobs[0].Name, text)
}

// gang takes 64 nodes of team b back for one job of 512 tasks, and then stops it.
func (b *bench) gang(ctx context.Context) error {
	tasks := b.gangSize()
	began, cost := time.Now(), b.parts.now()
	s, err := b.client.Submit(ctx, rest.SubmitRequest{Source: job("gang", "b", "prod", tasks, 1)}, "")
	if err == nil {
		err = b.runs(ctx, rest.JobRef(s.ID), tasks)
	}
	if err != nil {
		return err
	}
	b.Print(b.label+"_gang_runs", time.Since(began).Seconds(), "s", "pods", fmt.Sprint(tasks), "takes_back", "yes")
	b.parts.now().since(cost).print(&b.Figures, b.label+"_gang", tasks)
	began, cost = time.Now(), b.parts.now()
	if _, err := b.client.Stop(ctx, rest.JobRef(s.ID), ""); err != nil {
		return err
	}
	for {
		j, err := b.client.Job(ctx, rest.JobRef(s.ID))
		if err != nil {
			return err
		}
		if j.Phase.Ended() {
			b.Print(b.label+"_gang_ends", time.Since(began).Seconds(), "s", "pods", fmt.Sprint(tasks))
			b.parts.now().since(cost).print(&b.Figures, b.label+"_gang_end", tasks)
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// reclaim takes all of team b's nodes back at once.
func (b *bench) reclaim(ctx context.Context) error {
	tasks := b.nodes / 2
	began := time.Now()
	s, err := b.client.Submit(ctx, rest.SubmitRequest{Source: job("reclaim", "b", "prod", tasks, gpus)}, "")
	if err == nil {
		err = b.runs(ctx, rest.JobRef(s.ID), tasks)
	}
	if err != nil {
		return err
	}
	b.Print(b.label+"_reclaim", time.Since(began).Seconds(), "s", "gpus", fmt.Sprint(tasks*gpus))
	return nil
}

// never measures how soon it is said that a job cannot run.
func (b *bench) never(ctx context.Context) error {
	began := time.Now()
	if _, err := b.client.Submit(ctx, rest.SubmitRequest{Source: job("never", "b", "prod", b.nodes, gpus)}, ""); err == nil {
		return fmt.Errorf("a job of all nodes is accepted from a team that owns half of them")
	}
	b.Print(b.label+"_says_never", time.Since(began).Seconds()*1000, "ms")
	return nil
}

// runs waits until all tasks of a job run.
func (b *bench) runs(ctx context.Context, ref string, tasks int) error {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		j, err := b.client.Job(ctx, ref)
		if err != nil {
			return err
		}
		n := 0
		for _, t := range j.Tasks {
			if t.State == model.TaskRunning {
				n++
			}
		}
		if n == tasks {
			return nil
		}
	}
	return fmt.Errorf("job %s did not start within 10 minutes", ref)
}
