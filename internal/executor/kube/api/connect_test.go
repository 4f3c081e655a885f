package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// What flags contradict each other is said by their names.
func TestFlagsThatAreWrong(t *testing.T) {
	on := Flags{Executor: "kubernetes"}
	for want, change := range map[string]func(*Flags){
		"":                                       func(k *Flags) { k.PullSecrets = []string{"registry", "other.one"} },
		`--pod-pull-secret "a_b": want names of`: func(k *Flags) { k.PullSecrets = []string{"a_b"} },
		"--pod-pull-secret is for --executor kube":    func(k *Flags) { k.Executor, k.PullSecrets = "local", []string{"a"} },
		`--pod-url "http://x": want https://NAME`:     func(k *Flags) { k.Image, k.URL = "self", "http://x" },
		"--pod-image and --pod-url are given both or": func(k *Flags) { k.URL = "https://x" },
	} {
		k := on
		change(&k)
		if err := k.Check(false); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", k, err, want)
		}
	}
}

// The server's own container is told from those that others put beside it.
func TestOwnImage(t *testing.T) {
	for want, names := range map[string][]string{"comb:1": {"mesh", "comb"}, "server:1": {"server"}, "": {"mesh", "server"}} {
		pod := &corev1.Pod{}
		for _, name := range names {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name + ":1"})
		}
		if got, ok := ownImage(pod); got != want || ok != (want != "") {
			t.Errorf("of %v it is %q, %v; want %q", names, got, ok, want)
		}
	}
}

// Without the right to the issuer's keys no pod could be heard: the server says which is missing,
// and does not start.
func TestRightsForTokens(t *testing.T) {
	denied := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Spec struct {
				NonResourceAttributes struct{ Verb, Path string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Spec.NonResourceAttributes.Verb != "get" {
			t.Errorf("%s is asked: %+v, %v", r.URL, asked, err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status": {"allowed": %v}}`, !denied[asked.Spec.NonResourceAttributes.Path])
	}))
	defer s.Close()
	c, err := newClient(&rest.Config{Host: s.URL}, "comb", &answers{})
	if err != nil {
		t.Fatal(err)
	}
	k := Flags{Image: "comb:1", URL: "https://a:1", Listen: "127.0.0.1:0"}
	link, l, err := k.ServerLink(t.Context(), c, t.TempDir(), 1)
	if err != nil || link.Image != "comb:1" {
		t.Fatalf("%+v, %v", link, err)
	}
	l.Close()
	denied["/openid/v1/jwks"] = true
	_, _, err = k.ServerLink(t.Context(), c, t.TempDir(), 1)
	for _, want := range []string{"get /openid/v1/jwks", "--pod-image", "system:service-account-issuer-discovery"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "well-known") {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
}

// A server does not start in a cluster whose GPUs others may take, unless its flag accepts that;
// and in none that is too old, or in which it lacks rights, each of which it names.
func TestStartWithoutPolicies(t *testing.T) {
	const rights = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	for name, c := range map[string]struct {
		change       func(map[string]string)
		refused      string // why it does not start; "": it does
		accepted     string // what its flag accepts, in the log
		neverRefused bool   // it starts without the flag
	}{
		"no policies are served": {change: func(a map[string]string) { delete(a, policyPath) },
			refused:  "(?s)pods of others may take GPUs that Comb gives:.*the API server does not serve it: it is older than Kubernetes 1.30, or was started without it .--runtime-config.: switch it on, and kubectl apply -f deploy/kubernetes/admission.yaml\n--without-admission-policies starts the server all the same",
			accepted: "pods of others may take GPUs that Comb gives; --without-admission-policies accepts that"},
		"a policy is missing": {change: func(a map[string]string) { delete(a, policies+statusPolicy) },
			refused:  "ValidatingAdmissionPolicy comb-status: it is missing: kubectl apply",
			accepted: "--without-admission-policies accepts that"},
		"something else refuses": {change: func(a map[string]string) {
			a["/api/v1/namespaces/comb/pods/comb-probe/binding"] = "403 a webhook says no"
		}, neverRefused: true, accepted: "it is not known whether pods of others are kept from GPUs.*a webhook says no"},
		"it is too old": {change: func(a map[string]string) { a["/version"] = `{"major": "1", "minor": "29", "gitVersion": "v1.29.1"}` },
			refused: "the Kubernetes cluster has version v1.29.1: Comb needs 1.34 or later"},
		"rights are missing": {change: func(a map[string]string) { a[rights] = `{"status": {"allowed": false}}` },
			refused: "Comb lacks rights .*: list nodes, watch nodes, .*create pods/binding.*; deploy/kubernetes/rights.yaml has them"},
	} {
		t.Run(name, func(t *testing.T) {
			said := whole()
			c.change(said)
			file := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", answering(t, said))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, unkept := range []bool{false, true} {
				var log strings.Builder
				k := Flags{Executor: "kubernetes", File: file, Space: "comb", Unkept: unkept}
				_, _, err := k.Open(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
				starts := c.neverRefused || unkept && c.accepted != ""
				if starts && (err != nil || !regexp.MustCompile(c.accepted).MatchString(log.String())) {
					t.Errorf("with the flag %v it does not start: %v; its log is\n%s", unkept, err, log.String())
				}
				if !starts && (err == nil || !regexp.MustCompile(c.refused).MatchString(err.Error())) {
					t.Errorf("with the flag %v it says %v", unkept, err)
				}
			}
		})
	}
}
