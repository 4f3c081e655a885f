package kube_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/combsched/comb/internal/executor/kube"
)

// TestLeftOnANode: a node with a pod of a workload whose attempt is over is down until that pod is
// gone. While it is not known whether there is one, nothing is told of the node.
func TestLeftOnANode(t *testing.T) {
	d := newDriver(t, 31)
	var unknown atomic.Bool
	var left atomic.Pointer[string]
	is := func(pod string) { left.Store(&pod); kube.LookAtNode(d.e, "") }
	none := ""
	left.Store(&none)
	unknown.Store(true)
	var ups atomic.Int64
	d.change = func(o *kube.Options) {
		o.CameUp = func(node string) {
			if node == "n0" {
				ups.Add(1)
			}
		}
		o.LeftOn = func(node string) (string, bool) {
			if node != "n0" {
				return "", true
			}
			return *left.Load(), !unknown.Load()
		}
	}
	up := d.upSince("n0")
	d.restart()
	others := d.upSince("n1")
	d.until("the other nodes are told", func() bool { _, told := others(); return told })
	if _, told := up(); told {
		t.Error("a node is told to be up before it is known what is left there")
	}
	is("tenant/train-0")
	unknown.Store(false)
	is("tenant/train-0")
	d.until("n0 is down", func() bool {
		return d.isDown("n0") && strings.HasSuffix(d.whyDown("n0"), "are still there: tenant/train-0")
	})
	before := ups.Load()
	is("")
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.until("what runs there is told again", func() bool { return ups.Load() > 0 })
	if before > 0 {
		t.Error("a node that is down is said to have come up")
	}
	d.finish()
}
