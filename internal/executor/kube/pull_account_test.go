package kube

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// TestAccountThatCannotBeRead: without the right to read its service account a pod gets the site's
// secrets all the same, and the log says so once; while the API server fails it waits; an account
// with more secrets than anybody needs gives some of them.
func TestAccountThatCannotBeRead(t *testing.T) {
	asked, code, body := 0, http.StatusForbidden, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := api.Open(api.Options{Kubeconfig: file, Namespace: "red"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var secrets pullSecrets
	for range 2 {
		var pod corev1.Pod
		if err := secrets.add(t.Context(), c, []string{"site"}, &pod, logger); err != nil || len(pod.Spec.ImagePullSecrets) != 1 {
			t.Fatalf("%v, %v", pod.Spec.ImagePullSecrets, err)
		}
	}
	if got := log.String(); asked != 1 || strings.Count(got, "lacks the right get serviceaccounts") != 1 || !strings.Contains(got, "namespace=red") {
		t.Errorf("after %d requests the log says %q", asked, got)
	}
	var pod corev1.Pod
	if err := secrets.add(t.Context(), c, nil, &pod, logger); err != nil || pod.Spec.ImagePullSecrets != nil {
		t.Errorf("a pod without secrets gets %v, %v: Kubernetes adds those of the account itself", pod.Spec.ImagePullSecrets, err)
	}

	secrets, code, body = pullSecrets{}, http.StatusInternalServerError, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}`
	if err := secrets.add(t.Context(), c, []string{"site"}, &pod, logger); err == nil || !strings.Contains(err.Error(), "service account of the pods in namespace red") {
		t.Errorf("an API server that fails: %v", err)
	}
	code, body = http.StatusOK, `{"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}, "imagePullSecrets": [`+strings.TrimSuffix(strings.Repeat(`{"name": "x"}, {"name": "y"}, `, 500), ", ")+`, {"name": "last"}]}`
	if err := secrets.add(t.Context(), c, []string{"site"}, &pod, logger); err != nil || len(pod.Spec.ImagePullSecrets) != 3 {
		t.Errorf("of an account with many: %v, %v", pod.Spec.ImagePullSecrets, err)
	}
}
