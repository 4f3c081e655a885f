package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/test/testkit"
)

// strangers are pods of others that come and go in a random run.
type strangers struct {
	there []*stranger
	held  map[string]bool // nodes whose leaves are told to be held by others
	made  int
	gpus  int // of those that were made, how many asked for GPUs
}

// stranger is one of them.
type stranger struct {
	pod    *corev1.Pod
	key    string // as in reasons
	gpus   int64
	forged bool // it has the label of this Comb
	known  bool // it was told that it holds its node
}

// heard takes what is told of a leaf: it is not good while a pod is there of which the server has
// said that it holds it.
func (s *strangers) heard(t *testing.T, f model.LeafHealth) {
	if s.held == nil {
		s.held = map[string]bool{}
	}
	s.held[string(f.Node)] = f.HeldByOthers
	for _, o := range s.there {
		switch {
		case o.pod.Spec.NodeName != string(f.Node):
		case f.Good && o.known:
			t.Errorf("leaf %d of node %s is told to be good, and %s, which is known, has %d GPUs there", f.Device, f.Node, o.key, o.gpus)
		case slices.Contains(strings.Fields(strings.ReplaceAll(f.Reason, ",", " ")), o.key):
			o.known = true
		}
	}
}

// restarted notes that the next server may look later for those with a forged label.
func (s *strangers) restarted() {
	for _, o := range s.there {
		o.known = o.known && !o.forged
	}
}

// stranger lets a pod of others come to a node, with GPUs or only with CPUs.
func (d *driver) stranger(node string) {
	d.mu.Lock()
	o := &stranger{gpus: int64(d.r.IntN(3)), forged: d.r.IntN(3) == 0}
	space, full := []string{"tenant", "comb", "red"}[d.r.IntN(3)], len(d.others.there) > 2
	d.others.made++
	name := fmt.Sprint("other-", d.others.made)
	d.mu.Unlock()
	if full {
		return
	}
	o.key, o.pod = space+"/"+name, other(space, name, node, o.gpus)
	if o.gpus == 0 {
		o.pod.Spec.Containers[0].Resources.Requests = asksFor(corev1.ResourceCPU, 1)
	}
	if o.forged {
		maker := pods.Maker{Cluster: "c"}
		o.pod.Labels = map[string]string{pods.ClusterLabel: maker.Short()}
	}
	d.api.Put(o.pod)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others.there = append(d.others.there, o)
	if o.gpus > 0 {
		d.others.gpus++
	}
}

// strangerGoes takes a pod of others away, by the key that it has in the API server or any for "",
// and reports whether there is one.
func (d *driver) strangerGoes(key string) bool {
	d.mu.Lock()
	i := slices.IndexFunc(d.others.there, func(o *stranger) bool {
		return key == "" || key == o.key || key == o.pod.Name
	})
	if i < 0 {
		d.mu.Unlock()
		return false
	}
	o := d.others.there[i]
	d.others.there = slices.Delete(d.others.there, i, i+1)
	d.mu.Unlock()
	d.api.Drop(o.pod)
	return true
}

// strangersAreKnown wants all nodes to be held that pods of others hold, and no other. Then it
// takes these pods away.
func (d *driver) strangersAreKnown() {
	d.t.Helper()
	var wrong string
	right := func() bool {
		kube.LookForForged(d.e)
		d.mu.Lock()
		defer d.mu.Unlock()
		hold := map[string]bool{}
		for _, o := range d.others.there {
			if o.gpus > 0 && !d.removed[o.pod.Spec.NodeName] {
				hold[o.pod.Spec.NodeName] = true
			}
		}
		for i := range simNodes {
			if node := nodeOf(i); d.others.held != nil && !d.removed[node] && d.others.held[node] != hold[node] {
				wrong = fmt.Sprintf("node %s is told to be held by others: %v, want %v", node, d.others.held[node], hold[node])
				return false
			}
		}
		return true
	}
	if !testkit.Within(testkit.Patience, right) {
		d.t.Error(wrong)
	}
	for d.strangerGoes("") {
	}
	if !testkit.Within(testkit.Patience, right) {
		d.t.Error("when they are gone, ", wrong)
	}
}
