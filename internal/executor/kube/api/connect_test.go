package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
