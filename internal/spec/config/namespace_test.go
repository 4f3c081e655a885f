package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// ofVCs is a cluster of one node with some virtual clusters.
func ofVCs(vcs string) []byte {
	return fmt.Appendf(nil, "physicalCluster:\n  cellTypes: {N: {childCellType: G, childCellNumber: 1, isNodeLevel: true}}\n"+
		"  physicalCells: [{cellType: N, cellAddress: n}]\nvirtualClusters:\n  %s\n", vcs)
}

func TestNamespaces(t *testing.T) {
	c, _, problems := Parse("f", ofVCs("a: {namespace: team-a, virtualClusters: {x: , y: {namespace: y-1, virtualClusters: {z: }}}}\n  b: \n  c: {namespace: team-a}"), known)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for vc, want := range map[cell.VCName]string{"a": "team-a", "a.x": "team-a", "a.y": "y-1", "a.y.z": "y-1", "b": "", "c": "team-a", "gone": ""} {
		if got := model.NamespaceOf(c.Config, vc); got != want {
			t.Errorf("the pods of %s are in %q, want %q", vc, got, want)
		}
	}
	if got, want := model.Namespaces(c.Config), map[string]cell.VCName{"team-a": "a", "y-1": "a.y"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if text := Summary(c); !strings.Contains(text, "virtual cluster a (policy fifo, namespace team-a)") {
		t.Errorf("the summary does not name it:\n%s", text)
	}
	if err := CheckNoPods(c.Config); err == nil || !strings.Contains(err.Error(), "virtual cluster a: namespace: ") {
		t.Errorf("on one machine: %v", err)
	}
	if c, _, _ := Parse("f", ofVCs("b: {}"), known); CheckNoPods(c.Config) != nil {
		t.Errorf("on one machine, without a namespace: %v", CheckNoPods(c.Config))
	}
	for text, want := range map[string]string{
		"a: {namespace: Team}":                            `f:5:18: virtualClusters.a.namespace: "Team" cannot be a namespace of Kubernetes: `,
		"a: {namespace: a.b}":                             `virtualClusters.a.namespace: "a.b" cannot be`,
		"a: {namespace: -a}":                              `"-a" cannot be`,
		"a: {namespace: a-}":                              `"a-" cannot be`,
		`a: {namespace: ""}`:                              `"" cannot be`,
		"a: {namespace: [b]}":                             "virtualClusters.a.namespace: expected a string, found a list",
		"a: {namespace: " + strings.Repeat("a", 64) + "}": "cannot be",
		"a: {virtualClusters: {x: {namespace: X}}}":       `virtualClusters.a.virtualClusters.x.namespace: "X" cannot be`,
	} {
		_, _, problems := Parse("f", ofVCs(text), known)
		if got := problems.Error(); len(problems) != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if _, _, problems := Parse("f", ofVCs("a: {namespace: "+strings.Repeat("a", 63)+"}"), known); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestWorkloads(t *testing.T) {
	c, _, problems := Parse("f", ofVCs("a: {workloads: {namespaces: [vision, speech]}, virtualClusters: {x: {workloads: {namespaces: [x-1]}}}}\n  b: {}"), known)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got, want := model.WorkloadVCs(c.Config), map[string]cell.VCName{"vision": "a", "speech": "a", "x-1": "a.x"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if text := Summary(c); !strings.Contains(text, "virtual cluster a (policy fifo, workloads of speech, vision)") {
		t.Errorf("the summary does not name them:\n%s", text)
	}
	if err := CheckNoPods(c.Config); err == nil || !strings.Contains(err.Error(), "virtual cluster a: workloads: ") {
		t.Errorf("on one machine: %v", err)
	}
	for text, want := range map[string]string{
		"a: {workloads: [vision]}":                                               "virtualClusters.a.workloads: expected the workloads as a map",
		"a: {workloads: {}}":                                                     `the workloads needs the key "namespaces"`,
		"a: {workloads: {namespaces: vision}}":                                   "virtualClusters.a.workloads.namespaces: expected a list",
		"a: {workloads: {namespaces: [Vision]}}":                                 `"Vision" cannot be a namespace`,
		"a: {workloads: {namespaces: [v, v]}}":                                   "the workloads of namespace v are already those of virtual cluster a",
		"a: {workloads: {namespaces: [v]}}\n  b: {workloads: {namespaces: [v]}}": "virtualClusters.b.workloads.namespaces[0]: the workloads of namespace v are already those of virtual cluster a",
		"a: {namespace: v}\n  b: {workloads: {namespaces: [v]}}":                 "virtualClusters.b.workloads.namespaces[0]: namespace v is for the pods of Comb's own jobs, of virtual cluster a",
		"a: {workloads: {namespaces: [v]}}\n  b: {namespace: v}":                 "virtualClusters.a.workloads.namespaces[0]: namespace v is for the pods of Comb's own jobs",
		"a: {workloads: {namespaces: [v], queues: [a]}}":                         "unknown key in the workloads",
	} {
		_, _, problems := Parse("f", ofVCs(text), known)
		if got := problems.Error(); len(problems) != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
