// Command kubebench measures Comb on a Kubernetes cluster of simulated nodes, and beside it what
// the API server itself does:
//
//	kubebench -bin bin -nodes 500      (KUBECONFIG says which; see make bench-kube)
//
// It prints one figure a line and judges none.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

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
}

func run(ctx context.Context, bin string, nodes int) error {
	dir, err := os.MkdirTemp("", "comb-kubebench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{Figures: lab.Figures{Out: os.Stdout}, nodes: nodes}
	if err := b.alone(ctx); err != nil {
		return err
	}
	if err := b.serve(ctx, bin, dir); err != nil {
		return err
	}
	defer b.server.Wait()
	defer b.server.Process.Signal(os.Interrupt)
	for _, step := range []func(context.Context) error{b.small, b.gang, b.reclaim, b.never} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	kib, err := lab.Resident(b.server.Process.Pid)
	if err == nil {
		b.Print("comb_kube_resident_memory", float64(kib)/1024, "MiB", "nodes", fmt.Sprint(nodes))
	}
	return err
}

// alone measures how fast pods are made and bound without Comb: by as many requests at a time as
// Comb makes.
func (b *bench) alone(ctx context.Context) error {
	client, err := api.Open(api.Options{Namespace: "comb"})
	if err != nil {
		return err
	}
	const pods, workers = 1000, 24
	bound := make(chan string, 100*pods)
	store, watch := client.WatchPods(func(name string) { bound <- name }, func(error) {})
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go watch.RunWithContext(stop)
	began := time.Now()
	var group sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		group.Go(func() {
			for i := w; i < pods && errs[w] == nil; i += workers {
				_, errs[w] = client.Create(ctx, plainPod(fmt.Sprintf("alone-%d", i), fmt.Sprintf("fake-%d", i%b.nodes)))
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	is, runs := map[string]bool{}, map[string]bool{}
	for len(runs) < pods {
		select {
		case name := <-bound:
			obj, ok, _ := store.GetByKey("comb/" + name)
			if ok && obj.(*corev1.Pod).Spec.NodeName != "" && !is[name] {
				if is[name] = true; len(is) == pods {
					b.Print("kubernetes_alone_create_and_bind", pods/time.Since(began).Seconds(), "1/s", "pods", fmt.Sprint(pods))
				}
			}
			if ok && obj.(*corev1.Pod).Status.Phase == corev1.PodRunning {
				runs[name] = true
			}
		case <-time.After(time.Minute):
			return fmt.Errorf("%d of %d pods were bound, and %d run", len(is), pods, len(runs))
		}
	}
	b.Print("kubernetes_alone_until_they_run", pods/time.Since(began).Seconds(), "1/s", "pods", fmt.Sprint(pods))
	for name := range is {
		obj, _, _ := store.GetByKey("comb/" + name)
		if err := client.Delete(ctx, name, obj.(*corev1.Pod).UID, 0); err != nil {
			return err
		}
	}
	return nil
}

func plainPod(name, node string) *corev1.Pod {
	no, yes, uid := false, true, int64(1000)
	p := &corev1.Pod{}
	p.Name = name
	p.Spec = corev1.PodSpec{AutomountServiceAccountToken: &no, NodeSelector: map[string]string{corev1.LabelHostname: node},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: "task", Image: "none", Command: []string{"sh", "-c", "sleep 1000"},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}
	return p
}

// serve starts a server with the nodes, half of them a team's.
func (b *bench) serve(ctx context.Context, bin, dir string) error {
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
	began, cpu := time.Now(), b.cpu()
	errs, ids := make([]error, 32), make([]model.JobID, total)
	var group sync.WaitGroup
	for w := range errs {
		group.Go(func() {
			for i := w; i < total && errs[w] == nil; i += len(errs) {
				var s rest.Submitted
				s, errs[w] = b.client.Submit(ctx, rest.SubmitRequest{Source: job(fmt.Sprintf("small-%d", i), "a", "oppo", 1, 1)}, "")
				ids[i] = s.ID
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	b.Print("comb_kube_accepted", time.Since(began).Seconds(), "s", "jobs", fmt.Sprint(total))
	if err := b.running(ctx, ids); err != nil {
		return err
	}
	b.Print("comb_kube_jobs_run", time.Since(began).Seconds(), "s", "jobs", fmt.Sprint(total))
	b.Print("comb_kube_pods", float64(total)/time.Since(began).Seconds(), "1/s")
	b.Print("comb_kube_cpu_of_a_pod", (b.cpu()-cpu).Seconds()*1000/float64(total), "ms")
	return nil
}

// gang takes 64 nodes of team b back for one job of 512 tasks.
func (b *bench) gang(ctx context.Context) error {
	tasks := min(512, b.nodes/2*gpus)
	began := time.Now()
	s, err := b.client.Submit(ctx, rest.SubmitRequest{Source: job("gang", "b", "prod", tasks, 1)}, "")
	if err == nil {
		err = b.runs(ctx, rest.JobRef(s.ID), tasks)
	}
	if err != nil {
		return err
	}
	b.Print("comb_kube_gang_runs", time.Since(began).Seconds(), "s", "pods", fmt.Sprint(tasks), "takes_back", "yes")
	if _, err := b.client.Stop(ctx, rest.JobRef(s.ID), ""); err != nil {
		return err
	}
	for {
		j, err := b.client.Job(ctx, rest.JobRef(s.ID))
		if err != nil {
			return err
		}
		if j.Phase.Ended() {
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
	b.Print("comb_kube_reclaim", time.Since(began).Seconds(), "s", "gpus", fmt.Sprint(tasks*gpus))
	return nil
}

// never measures how soon it is said that a job cannot run.
func (b *bench) never(ctx context.Context) error {
	began := time.Now()
	if _, err := b.client.Submit(ctx, rest.SubmitRequest{Source: job("never", "b", "prod", b.nodes, gpus)}, ""); err == nil {
		return fmt.Errorf("a job of all nodes is accepted from a team that owns half of them")
	}
	b.Print("comb_kube_says_never", time.Since(began).Seconds()*1000, "ms")
	return nil
}

// running waits until jobs run. It asks for each until that one does: lists of them all would be
// what the server does most.
func (b *bench) running(ctx context.Context, ids []model.JobID) error {
	end := time.Now().Add(20 * time.Minute)
	for _, id := range ids {
		for {
			j, err := b.client.Job(ctx, rest.JobRef(id))
			if err != nil {
				return err
			}
			if j.Started > 0 {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("job %d did not start within 20 minutes", id)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
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

// cpu is the processor time of the server so far.
func (b *bench) cpu() time.Duration {
	d, err := lab.CPUTime(b.server.Process.Pid)
	if err != nil {
		return 0
	}
	return d
}
