package workloads

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// kind is a kind of objects that make pods.
type kind struct {
	api.ObjectKind
	// want is how many pods it makes now, and end whether it has ended and how.
	want func(*unstructured.Unstructured) int64
	end  func(*unstructured.Unstructured) (over, good bool, why string)
}

// podKind is that of a pod that nothing makes: it stands for itself. It cannot be suspended, and is
// deleted instead.
var podKind = kind{api.ObjectKind{Version: "v1", Resource: "pods", Kind: "Pod"},
	func(*unstructured.Unstructured) int64 { return 1 }, endOfPod}

// asObject is a pod as what makes it.
func asObject(p *corev1.Pod) *unstructured.Unstructured {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil { // it came from the API server, so it can be written
		return nil
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	return u
}

func endOfPod(u *unstructured.Unstructured) (over, good bool, why string) {
	switch phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return true, true, ""
	case corev1.PodFailed:
		reason, _, _ := unstructured.NestedString(u.Object, "status", "reason")
		message, _, _ := unstructured.NestedString(u.Object, "status", "message")
		return true, false, cmp.Or(message, reason, "its pod failed")
	}
	return false, false, ""
}

// knows reports whether what makes a pod is of one of the kinds, or the pod makes itself.
func knows(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner == nil || slices.ContainsFunc(kinds, func(k kind) bool {
		return k.Kind == owner.Kind && strings.HasPrefix(owner.APIVersion, k.Group+"/")
	})
}

// kinds are all that Comb knows, besides podKind. Each has the field spec.suspend.
var kinds = []kind{
	{api.ObjectKind{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job"}, podsOfJob, endOfJob},
}

// podsOfJob is how many pods a Job has at once.
func podsOfJob(u *unstructured.Unstructured) int64 {
	n := number(u, 1, "spec", "parallelism")
	_, set, _ := unstructured.NestedInt64(u.Object, "spec", "completions")
	if !set && number(u, 0, "status", "succeeded") > 0 {
		return min(n, number(u, 0, "status", "active")) // once one has succeeded no more are made
	}
	if left := number(u, n, "spec", "completions") - number(u, 0, "status", "succeeded"); left < n {
		n = left
	}
	return max(n, 0)
}

func endOfJob(u *unstructured.Unstructured) (over, good bool, why string) {
	if c := condition(u, "Complete"); c != nil {
		return true, true, ""
	}
	if c := condition(u, "Failed"); c != nil {
		return true, false, cmp.Or(c["message"], c["reason"])
	}
	return false, false, ""
}

// condition returns the texts of a condition that is true; nil where there is none.
func condition(u *unstructured.Unstructured, name string) map[string]string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range list {
		c, _ := one.(map[string]any)
		if c["type"] != name || c["status"] != "True" {
			continue
		}
		texts := map[string]string{}
		for key, value := range c {
			if text, ok := value.(string); ok {
				texts[key] = text
			}
		}
		return texts
	}
	return nil
}

// number is a whole number of an object.
func number(u *unstructured.Unstructured, otherwise int64, path ...string) int64 {
	if n, ok, err := unstructured.NestedInt64(u.Object, path...); ok && err == nil {
		return n
	}
	return otherwise
}

func suspended(u *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return is
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
