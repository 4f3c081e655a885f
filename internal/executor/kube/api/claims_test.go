package api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// Slices come in pages, of the node and the driver that are asked for.
func TestSlicesInPages(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("fieldSelector")+" "+q.Get("limit")+" "+q.Get("continue"))
		next := map[string]string{"": "b", "b": "c", "c": ""}[q.Get("continue")]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1", "metadata": {"continue": %q}, "items": [{"spec": {"driver": "d", "nodeName": "n%s"}}]}`, next, q.Get("continue"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := api.Open(api.Options{Kubeconfig: file, Namespace: "comb", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ node, driver, selector string }{{"", "", ""}, {"", "d", "spec.driver=d"}, {"n", "d", "spec.nodeName=n,spec.driver=d"}} {
		asked = nil
		list, err := c.Slices(t.Context(), of.node, of.driver)
		if err != nil || len(list) != 3 || list[2].Spec.NodeName != "nc" {
			t.Errorf("%v: %+v, %v", of, list, err)
		}
		want := []string{of.selector + " 500 ", of.selector + " 500 b", of.selector + " 500 c"}
		if fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
}
