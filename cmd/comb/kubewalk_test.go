package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/lab/image"
	"github.com/combsched/comb/internal/test/testkit"
	"github.com/combsched/comb/internal/test/walk"
)

// claimed is a claim named walk whose volume is a folder of this machine.
const claimed = `apiVersion: v1
kind: PersistentVolume
metadata: {name: comb-walk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: FOLDER}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: walk}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: comb-walk
  resources: {requests: {storage: 1Gi}}
`

// TestKubeWalk goes the way of a user whose jobs become pods, as a black box.
func TestKubeWalk(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	if *kubeconfig == "" {
		t.Fatal("no cluster is named: make test-kube makes one")
	}
	image := combImage(t)
	folder := claim(t)
	load(t, image)
	const box = "local.test/busybox:1"
	if err := walk.InPods(t.Context(), walk.Options{Bin: testkit.Bin(t), Out: t.Output(), Images: [2]string{box, box}, Pods: &walk.Pods{
		Node: "real1", Others: "fake-0", Rights: "../../deploy/kubernetes/rights.yaml", Claim: "walk", Folder: folder, Args: inPods, API: apiServer,
	}}); err != nil {
		t.Fatal(err)
	}
}

// apiServer ends the API server of the cluster, or starts it; see test/kube/run.
func apiServer(ctx context.Context, up bool) error {
	args := strings.Fields(os.Getenv("CLUSTER_AT"))
	if up {
		args = append([]string{"serve"}, args...)
	} else {
		args = append(append([]string{"end"}, args...), "apiserver")
	}
	out, err := exec.CommandContext(ctx, os.Getenv("CLUSTER"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", os.Getenv("CLUSTER"), args, err, out)
	}
	return nil
}

// inPods are the arguments of a server whose tasks become pods with the caretaker.
var inPods = []string{"--executor", "kubernetes", "--checkpoint-claim", "walk", "--pod-image", "local.test/comb:test", "--pod-url", "https://10.215.0.1:18422", "--pod-listen", "10.215.0.1:18422"}

var allExperiments = flag.Bool("experiments", false, "run all five experiments as pods, and not only those that pods may change")

// TestKubeDemo runs experiments on two GPUs of a real node.
func TestKubeDemo(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	if *kubeconfig == "" {
		t.Fatal("no cluster is named: make test-kube makes one")
	}
	comb := combImage(t)
	bin := testkit.Bin(t)
	claim(t)
	train := filepath.Join(t.TempDir(), "train.tar")
	if err := image.Save(t.Context(), "local.test/train:test", train, filepath.Join(bin, "train")); err != nil {
		t.Fatal(err)
	}
	load(t, comb)
	load(t, train)
	var which []int // all
	if !*allExperiments {
		which = []int{2, 4} // a job is preempted and goes on, a gang starts as a whole: what pods may do otherwise
	}
	if err := lab.Demo(t.Context(), lab.Options{Bin: bin, Files: "../../testdata/lab", Evidence: "../../bin/demo-kube-evidence", Out: t.Output(), Experiments: which,
		Pods: &lab.Pods{Args: inPods, Image: "local.test/train:test"}}); err != nil {
		t.Fatal(err)
	}
}

// command runs a program, which must succeed.
func command(t *testing.T, in string, argv ...string) {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = strings.NewReader(in)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// load gives an image to the real node.
func load(t *testing.T, file string) {
	t.Helper()
	rig, at, _ := strings.Cut(os.Getenv("CLUSTER_AT"), " ") // see test/kube/run
	command(t, "", filepath.Join(rig, "ctr"), "-a", filepath.Join(at, "cri/containerd.sock"), "-n", "k8s.io", "images", "import", file)
}

// claim makes the claim walk, whose volume is the folder that is returned.
func claim(t *testing.T) string {
	t.Helper()
	t.Setenv("KUBECONFIG", *kubeconfig)
	folder := t.TempDir()
	for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o1777); err != nil { // the user of pods is not this one
			t.Fatal(err)
		}
	}
	command(t, strings.ReplaceAll(claimed, "FOLDER", folder), "kubectl", "apply", "-n", "comb", "-f", "-")
	t.Cleanup(func() {
		clearPods(t)
		command(t, "", "kubectl", "delete", "-n", "comb", "pvc", "walk", "--ignore-not-found")
		command(t, "", "kubectl", "delete", "pv", "comb-walk", "--ignore-not-found")
	})
	return folder
}
