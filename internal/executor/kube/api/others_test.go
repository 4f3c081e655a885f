package api

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wants is a container that asks for something: pairs of a resource and an amount.
func wants(pairs ...string) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for i := 0; i < len(pairs); i += 2 {
		c.Resources.Requests[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return c
}

func beside(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// TestWhatAPodAsksFor: it is counted as kube-scheduler does, whether the pod was watched or listed.
func TestWhatAPodAsksFor(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	pod := func(init []corev1.Container, containers ...corev1.Container) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "p"},
			Spec: corev1.PodSpec{NodeName: "n", InitContainers: init, Containers: containers}}
	}
	whole := pod(nil, wants("cpu", "1", "memory", "1Gi"))
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: wants("cpu", "3").Resources.Requests}
	whole.Spec.Overhead = wants("cpu", "250m", "memory", "64Mi").Resources.Requests
	many := wants()
	for i := range 40 {
		many.Resources.Requests[corev1.ResourceName(fmt.Sprintf("a.test/%d", i))] = resource.MustParse("1")
	}
	many.Resources.Requests[gpu] = resource.MustParse("2")
	many.Resources.Requests["requests.kubernetes.io/x"] = resource.MustParse("1")
	huge := wants(gpu, "9223372036854775807", "cpu", "9E", "memory", "9E")
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want Other
	}{
		"nothing":      {pod(nil, wants()), Other{}},
		"a sum":        {pod(nil, wants(gpu, "2", "cpu", "500m"), wants(gpu, "1", "memory", "1500Ki")), Other{Devices: map[string]int64{gpu: 3}, MilliCPU: 500, MemoryMB: 2}},
		"first":        {pod([]corev1.Container{wants(gpu, "4")}, wants(gpu, "1")), Other{Devices: map[string]int64{gpu: 4}}},
		"beside":       {pod([]corev1.Container{beside(wants(gpu, "1")), wants(gpu, "3")}, wants(gpu, "2")), Other{Devices: map[string]int64{gpu: 4}}},
		"beside later": {pod([]corev1.Container{wants(gpu, "3"), beside(wants(gpu, "1"))}, wants(gpu, "2")), Other{Devices: map[string]int64{gpu: 3}}},
		"as a whole":   {whole, Other{MilliCPU: 3250, MemoryMB: 1088}},
		"none":         {pod(nil, wants(gpu, "0")), Other{}},
	} {
		c.want.Namespace, c.want.Name, c.want.Node = "s", "p", "n"
		if got := OtherOf(c.pod); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if shrink(c.pod); !reflect.DeepEqual(OtherOf(c.pod), c.want) {
			t.Errorf("%s: when listed %+v, want %+v", name, OtherOf(c.pod), c.want)
		}
	}
	if got := OtherOf(pod(nil, many)); len(got.Devices) != maxDevices || got.Devices[gpu] != 2 {
		t.Errorf("of 41 resources are kept %v", got.Devices)
	}
	const pods = 100_000
	got := OtherOf(pod([]corev1.Container{huge, beside(huge)}, huge, huge))
	for _, n := range []int64{got.Devices[gpu], got.MilliCPU, got.MemoryMB} {
		if n <= 0 || n > math.MaxInt64/pods {
			t.Errorf("of too much is kept %+v", got)
		}
	}
}

// TestPodsOfEachNode: made by a DaemonSet, or by a kubelet by itself.
func TestPodsOfEachNode(t *testing.T) {
	is := true
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nobody's":    {func(*corev1.Pod) {}, false},
		"a set's":     {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &is}} }, true},
		"a node's":    {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Controller: &is}} }, true},
		"a mirror":    {func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, true},
		"a job's":     {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Controller: &is}} }, false},
		"only an end": {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}} }, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "p", Labels: map[string]string{"big": strings.Repeat("x", 63)}}}
		c.change(p)
		if got := OtherOf(p).OnEachNode; got != c.want {
			t.Errorf("%s is %t", name, got)
		}
		if shrink(p); OtherOf(p).OnEachNode != c.want || p.Labels != nil {
			t.Errorf("%s, listed, is %t with the labels %v", name, OtherOf(p).OnEachNode, p.Labels)
		}
	}
}
