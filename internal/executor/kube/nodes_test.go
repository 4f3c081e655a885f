package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func node(ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "no runtime"}}}}
}

// A node is down at once when it says so, after a while when nothing is heard of it, and up only
// when nothing lost is left there and it does not flap.
func TestWhenANodeIsDown(t *testing.T) {
	const up, no, silent = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	now := time.Unix(1_000_000, 0)
	s := &nodeSeen{lost: map[string]bool{}}
	look := func(what string, n *corev1.Node, after time.Duration, down, again bool) {
		t.Helper()
		now = now.Add(after)
		why, wait := s.look(n, now)
		if (why != "") != down || (wait > 0) != again {
			t.Errorf("%s: it is %q, and looked at again after %v", what, why, wait)
		}
		if why != "" && s.why == "" {
			s.downs = append(s.downs, now)
		}
		s.told, s.why = true, why
	}
	look("ready", node(up), 0, false, false)
	look("silent at first", node(silent), time.Second, false, true)
	look("heard again", node(up), time.Second, false, false)
	look("silent", node(silent), time.Second, false, true)
	look("silent for long", node(silent), silence, true, false)
	look("back", node(up), time.Second, false, false)
	look("not ready", node(no), time.Second, true, false)
	s.lost["pod"] = true
	look("back, with a lost pod", node(up), time.Second, true, false)
	delete(s.lost, "pod")
	look("without it", node(up), time.Second, false, false)
	look("down a third time", node(no), time.Second, true, false)
	look("it flaps", node(up), time.Second, true, true)
	look("it has stayed ready", node(up), steady, false, false)
	look("gone", nil, time.Second, true, false)
	look("here again", node(up), oftenWithin, false, false)
}

func TestADevicePluginThatIsAway(t *testing.T) {
	n := node(corev1.ConditionTrue)
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}
	if got := resourceOf(n); got != "nvidia.com/gpu" {
		t.Errorf("its GPUs are %q", got)
	}
}
