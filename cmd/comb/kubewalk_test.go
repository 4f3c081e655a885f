//go:build kube

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/walk"
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
	if *kubeconfig == "" {
		t.Fatal("no cluster is named: make test-kube makes one")
	}
	image := combImage(t)
	folder := t.TempDir()
	for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o1777); err != nil { // the user of pods is not this one
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", *kubeconfig)
	tell := func(in string, argv ...string) {
		t.Helper()
		c := exec.Command(argv[0], argv[1:]...)
		c.Stdin = strings.NewReader(in)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	_, at, _ := strings.Cut(os.Getenv("CLUSTER_AT"), " ") // see test/kube/run
	tell("", "ctr", "-a", filepath.Join(at, "cri/containerd.sock"), "-n", "k8s.io", "images", "import", image)
	tell(strings.ReplaceAll(claimed, "FOLDER", folder), "kubectl", "apply", "-n", "comb", "-f", "-")
	t.Cleanup(func() { clearPods(t) })
	const box = "local.test/busybox:1"
	if err := walk.InPods(t.Context(), walk.Options{Bin: filepath.Dir(image), Out: t.Output(), Images: [2]string{box, box}, Pods: &walk.Pods{
		Node: "real1", Claim: "walk", Folder: folder,
		Args: []string{"--executor", "kubernetes", "--checkpoint-claim", "walk", "--pod-image", "local.test/comb:test", "--pod-url", "https://10.215.0.1:18422", "--pod-listen", "10.215.0.1:18422"},
	}}); err != nil {
		t.Fatal(err)
	}
}
