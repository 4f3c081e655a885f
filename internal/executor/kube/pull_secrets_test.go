package kube_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/test/simapi"
)

// pullsOf are the pull secrets of a task's pod, as the API server has it. A job's own is called
// NAME-pull after its pod, and here own.
func (d *driver) pullsOf(at model.AttemptID) (names []string) {
	d.t.Helper()
	d.until("its pod is there", func() bool { return d.podOf(at, 0) != "" && slices.Contains(d.api.Objects("pods"), d.podOf(at, 0)) })
	client, err := api.Open(api.Options{Kubeconfig: filepath.Join(d.dir, "kubeconfig"), Namespace: simapi.Home, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	space, name, found := strings.Cut(d.podOf(at, 0), "/")
	if !found {
		space, name = simapi.Home, space
	}
	pod, err := client.In(space).Get(d.t.Context(), name)
	if err != nil || pod == nil {
		d.t.Fatalf("pod %s: %v", name, err)
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		gang := name[:strings.LastIndexByte(name, '-')]
		names = append(names, strings.Replace(s.Name, gang+"-pull-0", "own", 1))
	}
	return names
}

// TestPullSecrets: a job's own password for a registry, the server's secrets and those of the
// service account of the namespace are all named by a pod, each once. Kubernetes adds an account's
// to no pod that names one.
func TestPullSecrets(t *testing.T) {
	d := newDriver(t, 3)
	d.api.Linger()
	d.api.Account("comb", "of-the-account", "shared")
	d.api.Account("red")
	withLogin := func(model.JobID) (map[string]string, error) {
		return map[string]string{"\x00login image:1": `{"user":"ada","password":"canary"}`}, nil
	}
	for _, c := range []struct {
		what    string
		pulls   []string
		secrets func(model.JobID) (map[string]string, error)
		comb    []string
		red     []string
	}{
		{"nobody has any", nil, nil, nil, nil},
		{"the server has some", []string{"shared", "site"}, nil, []string{"shared", "site", "of-the-account"}, []string{"shared", "site"}},
		{"the job has one, too", []string{"shared", "site"}, withLogin, []string{"own", "shared", "site", "of-the-account"}, []string{"own", "shared", "site"}},
		{"the job alone has one", nil, withLogin, []string{"own", "of-the-account", "shared"}, []string{"own"}},
	} {
		d.pulls, d.secrets = c.pulls, c.secrets
		d.restart()
		if got := d.pullsOf(d.of("v", "n0")); !slices.Equal(got, c.comb) {
			t.Errorf("%s: a pod of namespace comb has the pull secrets %q, want %q", c.what, got, c.comb)
		}
		if got := d.pullsOf(d.of("red", "n0")); !slices.Equal(got, c.red) {
			t.Errorf("%s: a pod of namespace red has the pull secrets %q, want %q", c.what, got, c.red)
		}
	}
	if n := d.api.Asked()["GET serviceaccounts"]; n == 0 || n > 6 {
		t.Errorf("the service accounts of two namespaces were asked for %d times by three servers", n)
	}
}
