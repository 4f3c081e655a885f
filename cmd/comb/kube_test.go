package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/combsched/comb/internal/test/testkit"
)

var kubeconfig = flag.String("kubeconfig", "", "the cluster of test/kube/cluster")

// clearPods removes what a test that failed left: pods outlive their server, on purpose.
func clearPods(t *testing.T) {
	const script = `case $(kubectl get secrets -n comb -o name) in *helm.release*) kubectl delete statefulsets,secrets -n comb --all >&2;; esac # a server would come again
for space in $(kubectl get namespaces comb team-red team-new tenant --ignore-not-found -o name | cut -d/ -f2); do
kubectl delete jobs -n $space --all --wait=false >&2
kubectl delete pods -n $space --all --wait=false >&2
for pod in $(kubectl get pods -n $space -o name); do kubectl patch -n $space "$pod" -p '{"metadata": {"finalizers": null}}'; done
kubectl wait -n $space pods --all --for=delete --timeout=60s
done
kubectl delete namespace team-red team-new --ignore-not-found --timeout=2m
kubectl delete namespace tenant --ignore-not-found --timeout=60s
kubectl delete --ignore-not-found -f ../../deploy/kubernetes/workloads-admission.yaml
kubectl get priorityclass comb-jobs >&2 && kubectl get validatingadmissionpolicybinding comb-pods comb-claims comb-status >&2 || kubectl apply -f ../../deploy/kubernetes/admission.yaml
kubectl delete pvc,secrets -n comb --all && kubectl delete pv --all && kubectl delete resourceslices,deviceclasses --all`
	c := exec.Command("sh", "-c", script)
	c.Env = append(os.Environ(), "KUBECONFIG="+*kubeconfig)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("cannot clear the namespace: %v\n%s", err, out)
	}
}

// serveRegistry is a registry of images in memory whose user must have a password: registry ADDRESS
// USER PASSWORD. It ends by a signal.
func serveRegistry() {
	address, user, password := os.Args[1], os.Args[2], os.Args[3]
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	})}
	go func() { <-ended.Done(); _ = s.Close() }()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// TestKube runs the command line against a server whose tasks are pods of a real Kubernetes
// cluster.
func TestKube(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	if *kubeconfig == "" {
		t.Fatal("no cluster is named: make test-kube makes one")
	}
	files, err := filepath.Glob("testdata/kube/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	image := combImage(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runKube(t, file, image) }) // one after the other: they share the cluster
	}
}

// combImage is a file with the image local.test/comb:test of this program.
func combImage(t *testing.T) string {
	dir := t.TempDir()
	file := filepath.Join(dir, "comb.tar")
	command(t, "", "go", "run", "../../internal/test/boximage", filepath.Join(testkit.Bin(t), "comb"), "local.test/comb:test", file)
	return file
}

func runKube(t *testing.T, file, image string) {
	testscript.Run(t, testscript.Params{
		Files: []string{file},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("KUBECONFIG", *kubeconfig)
			root, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			e.Setenv("ROOT", root)
			e.Setenv("COMB_IMAGE", image)
			for _, name := range []string{"CLUSTER", "CLUSTER_AT"} {
				e.Setenv(name, os.Getenv(name)) // see test/kube/run
			}
			e.Defer(func() { clearPods(t) })
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serving": untilServing, "eventually": eventually, "fetch": fetch, "certify": certify,
		},
	})
}
