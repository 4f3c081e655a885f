package api

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
