package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
