package workloads

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// kind is a kind of objects that make pods.
type kind struct {
	api.ObjectKind
	// want is how many pods it makes now, and end whether it has ended and how.
	want func(*unstructured.Unstructured) int64
	end  func(*unstructured.Unstructured) (over, good bool, why string)
}

// kinds are all that Comb knows. Each has the field spec.suspend.
var kinds = []kind{
	{api.ObjectKind{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job"}, podsOfJob, endOfJob},
}

// podsOfJob is how many pods a Job has at once.
func podsOfJob(u *unstructured.Unstructured) int64 {
	n := number(u, 1, "spec", "parallelism")
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
