package walk

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// podsClusterFile has the real node of pods with its two GPUs, and one whose eight GPUs a device
// plugin gives, so that others may hold them.
const podsClusterFile = `physicalCluster:
  skuTypes:
    WALK-GPU: {gpu: 1, cpu: 1, memory: 512Mi}
    WALK-A100: {gpu: 1, cpu: 8, memory: 64Gi}
  cellTypes:
    WALK-NODE: {childCellType: WALK-GPU, childCellNumber: 2, isNodeLevel: true}
    WALK-EIGHT: {childCellType: WALK-A100, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
  - {cellType: WALK-NODE, cellAddress: %s}
  - {cellType: WALK-EIGHT, cellAddress: %s}
virtualClusters:
  red:
    virtualCells: [{cellType: WALK-NODE, cellNumber: 1}]
  green:
    virtualCells: [{cellType: WALK-EIGHT, cellNumber: 1}]
storages:
  data: {claim: %s, folder: data-set, readOnly: true}
`

// podOfOthers is a pod with GPUs that is not Comb's.
const podOfOthers = `apiVersion: v1
kind: Pod
metadata: {name: thief, namespace: tenant}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  automountServiceAccountToken: false
  containers:
  - {name: main, image: %s, command: [sh, -c, sleep 1000], resources: {limits: {nvidia.com/gpu: 8}}}
`

// kubectl runs kubectl by the settings of a file in the user's folder; "" is the administrator.
func (w *walk) kubectl(ctx context.Context, settings, input string, args ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	if settings != "" {
		cmd.Args = append(cmd.Args, "--kubeconfig", w.path(settings))
	}
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return answer{}, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), errors.Join(err, ctx.Err()))
	}
	return answer{out.String(), errs.String(), cmd.ProcessState.ExitCode()}, nil
}

// mustKubectl is kubectl that has to succeed for the walk to go on.
func (w *walk) mustKubectl(ctx context.Context, input string, args ...string) (answer, error) {
	a, err := w.kubectl(ctx, "", input, args...)
	if err == nil && a.code != 0 {
		err = fmt.Errorf("kubectl %s ends with %d: %s", strings.Join(args, " "), a.code, a.all())
	}
	return a, err
}

// says repeats a command until what it prints is as wanted, and expects that.
func (w *walk) says(ctx context.Context, what string, ok func(answer) bool, ask func() (answer, error)) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * glance) {
		a, err := ask()
		if err != nil {
			return err
		}
		if good := ok(a); good || time.Now().After(end) || ctx.Err() != nil {
			w.expect(good, what, "%s", a.all())
			return ctx.Err()
		}
	}
}

// told repeats a command of comb until it prints some texts, and expects that.
func (w *walk) told(ctx context.Context, what string, texts []string, args ...string) error {
	return w.says(ctx, what, has(texts...), func() (answer, error) { return w.comb(ctx, args...) })
}

// has reports of an answer whether it has all of some texts.
func has(texts ...string) func(answer) bool {
	return func(a answer) bool {
		for _, t := range texts {
			if !strings.Contains(a.all(), t) {
				return false
			}
		}
		return true
	}
}

// checked: what Comb needs of the cluster is looked at, for the account that asks, for one without
// rights, and for one that was given them.
func checked(ctx context.Context, w *walk) error {
	own, err := w.comb(ctx, "cluster", "check")
	if err != nil {
		return err
	}
	w.expect(own.code == 0 && !strings.Contains(own.all(), "not ok"),
		"nothing is missing for the server's account", "exit code %d: %.300s", own.code, own.all())
	other, err := w.comb(ctx, "cluster", "check", "--as", "system:serviceaccount:tenant:mia")
	if err != nil {
		return err
	}
	named := has("Comb lacks the right", "create pods", "create tasks.comb.dev",
		"kubectl apply -n comb -f deploy/kubernetes/rights.yaml")
	w.expect(other.code == 1 && named(other),
		"for an account without rights each that is missing is named, and what gives it",
		"exit code %d: ...%s", other.code, last(other.all(), 500))
	if _, err := w.mustKubectl(ctx, "", "apply", "-n", "comb", "-f", w.Pods.Rights); err != nil {
		return err
	}
	given, err := w.comb(ctx, "cluster", "check", "--as", "system:serviceaccount:comb:comb")
	if err != nil {
		return err
	}
	w.expect(given.code == 0 && !strings.Contains(given.out, "Comb lacks the right"),
		"that gives it all of them", "exit code %d: ...%s", given.code, last(given.all(), 300))
	return nil
}

// last is the end of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }

// tenantFile is the kubeconfig of a tenant of the cluster, with its API server's address and a
// token.
const tenantFile = `{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}],
  users: [{name: u, user: {token: %s}}],
  contexts: [{name: c, context: {cluster: c, user: u}}]}`

// tenantRefused: a tenant with a kubeconfig of its own runs pods, and gets no GPU.
func tenantRefused(ctx context.Context, w *walk) error {
	for _, args := range [][]string{
		{"create", "namespace", "tenant"}, {"create", "serviceaccount", "mia", "-n", "tenant"},
		{"create", "rolebinding", "mia", "-n", "tenant", "--clusterrole=edit", "--serviceaccount=tenant:mia"},
	} {
		if _, err := w.mustKubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	token, err := w.mustKubectl(ctx, "", "create", "token", "-n", "tenant", "mia")
	if err != nil {
		return err
	}
	at, err := w.mustKubectl(ctx, "", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	if err != nil {
		return err
	}
	if _, err := w.write("mia.kube", fmt.Sprintf(tenantFile, at.out, strings.TrimSpace(token.out))); err != nil {
		return err
	}
	pod := fmt.Sprintf(podOfOthers, w.Pods.Others, w.Images[0])
	a, err := w.kubectl(ctx, "mia.kube", pod, "apply", "-f", "-")
	if err != nil {
		return err
	}
	refused := has("container main asks for 8 nvidia.com/gpu, and Comb alone gives the GPUs of this cluster: " +
		"ask it for them with comb job submit")
	w.expect(a.code != 0 && refused(a), "its pod with GPUs is refused, and it reads what to do instead",
		"exit code %d: %s", a.code, a.all())
	plain := strings.Replace(pod, "nvidia.com/gpu: 8", "cpu: 1", 1)
	free, err := w.kubectl(ctx, "mia.kube", plain, "apply", "-f", "-")
	if err != nil {
		return err
	}
	w.expect(free.code == 0, "the same pod without GPUs is taken", "exit code %d: %s", free.code, free.all())
	if _, err = w.mustKubectl(ctx, "", "delete", "pod", "-n", "tenant", "thief", "--wait=false"); err != nil {
		return err
	}
	none := func(a answer) bool { return a.all() == "" }
	return w.says(ctx, "and goes when it is deleted", none, func() (answer, error) {
		return w.kubectl(ctx, "", "", "get", "pods", "-n", "tenant", "-o", "name")
	})
}

// heldByOthers: an administrator of the cluster makes a pod with the GPUs of a node, which the
// policies let pass, and takes it away again.
func heldByOthers(ctx context.Context, w *walk) error {
	node := w.Pods.Others
	holds := "8 GPUs held by tenant/thief"
	pod := fmt.Sprintf(podOfOthers, node, w.Images[0])
	if _, err := w.mustKubectl(ctx, pod, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := w.told(ctx, "node get says which pod holds its GPUs", []string{holds}, "node", "get", node); err != nil {
		return err
	}
	if err := w.told(ctx, "and node list", []string{"up,held by others", holds}, "node", "list"); err != nil {
		return err
	}
	// Its command ends as it should on a simulated node (test/kube/stages).
	if _, err := w.must(ctx, "job", "run", "-d", "--vc", "green", "--name", "eight", "--image", w.Images[0],
		"--gpus", "8", "--", "sh", "-c", "sleep 600; exit 0"); err != nil {
		return err
	}
	waits := []string{"Waiting HeldByOthers"}
	if err := w.told(ctx, "job list says what a job waits for", waits, "job", "list"); err != nil {
		return err
	}
	why := []string{"it would fit if others held no devices of " + node + " (" + node + ": " + holds + ")",
		"HELD BY OTHERS"}
	if err := w.told(ctx, "and explain, with the pod", why, "job", "explain", "eight"); err != nil {
		return err
	}
	if _, err := w.mustKubectl(ctx, "", "delete", "pod", "-n", "tenant", "thief", "--wait=false"); err != nil {
		return err
	}
	runs := func(j rest.Job) bool { return running(j) || j.Phase.Ended() }
	if _, err := w.until(ctx, "eight", "running", runs); err != nil {
		return err
	}
	a, err := w.must(ctx, "node", "get", node)
	if err != nil {
		return err
	}
	w.expect(!strings.Contains(a.out, "held by"), "the job starts when the pod is gone, and the node is free of others",
		"%s", a.all())
	return w.stop(ctx, "eight")
}

// seenByKubectl: a job's pod is found by the job's name, and says why it ends; its log comes while
// it runs.
func seenByKubectl(ctx context.Context, w *walk) error {
	if _, err := w.must(ctx, "job", "run", "-d", "--vc", "red", "--name", "train", "--image", w.Images[0],
		"--gpus", "1", "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo step $i; sleep 0.2; done"); err != nil {
		return err
	}
	if err := w.told(ctx, "its log comes while it runs", []string{"step 3"}, "job", "logs", "train"); err != nil {
		return err
	}
	j, err := w.job(ctx, "train")
	if err != nil {
		return err
	}
	w.expect(running(j), "the job runs then", "%s", j.Phase)
	found, err := w.mustKubectl(ctx, "", "get", "pods", "-n", "comb", "-l", "comb.dev/name=train", "-o", "name")
	if err != nil {
		return err
	}
	pod, one := strings.CutPrefix(strings.TrimSpace(found.out), "pod/")
	w.expect(one && !strings.ContainsAny(pod, " \n"), "kubectl finds its pod by the job's name", "%s", found.all())
	logs := func() (answer, error) { return w.kubectl(ctx, "", "", "logs", "-n", "comb", pod) }
	if err := w.says(ctx, "kubectl logs shows the same", has("step 1", "step 3"), logs); err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "stop", "train", "--reason", "not needed", "--wait"); err != nil {
		return err
	}
	ended := has("CombEnds", "its job is stopped by admin: not needed")
	return w.says(ctx, "an event on the pod says why it ended", ended, func() (answer, error) {
		return w.kubectl(ctx, "", "", "get", "events", "-n", "comb", "--field-selector", "involvedObject.name="+pod)
	})
}

// apiServerAway: Kubernetes' API server goes and comes back under a job; what is shown says so.
func apiServerAway(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "through", "--vc", "red", "--image", w.Images[0], "--gpus", "1"); err != nil {
		return err
	}
	if err := w.Pods.API(ctx, false); err != nil {
		return err
	}
	away := []string{"warning: the API server of Kubernetes has not answered since "}
	for _, list := range []string{"node", "job"} {
		if err := w.told(ctx, "comb "+list+" list says that what it shows is old", away, list, "list"); err != nil {
			return err
		}
	}
	if _, err := w.must(ctx, "job", "run", "-d", "--vc", "red", "--name", "later", "--image", w.Images[0],
		"--gpus", "1", "--", "echo", "there"); err != nil {
		return err
	}
	if err := w.Pods.API(ctx, true); err != nil {
		return err
	}
	later, err := w.ended(ctx, "later")
	if err != nil {
		return err
	}
	w.expect(later.Phase == model.Succeeded, "a job that was submitted meanwhile runs", "%s", later.Phase)
	quiet := func(a answer) bool { return a.code == 0 && a.errs == "" }
	if err := w.says(ctx, "the warning is gone", quiet, func() (answer, error) {
		return w.comb(ctx, "node", "list")
	}); err != nil {
		return err
	}
	j, err := w.until(ctx, "through", "running", running)
	if err != nil {
		return err
	}
	w.expect(j.Tasks[0].Attempt == 1, "what ran all the time runs on in its first attempt",
		"attempt %d", j.Tasks[0].Attempt)
	return w.stop(ctx, "through")
}
