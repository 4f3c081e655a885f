package api

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Other is a pod that is not of this Comb, on a node: as much of it as concerns Comb.
type Other struct {
	Namespace, Name, Node string
	// Devices are what it asks for of device plugins, by the resource's name; nil: nothing.
	Devices            map[string]int64
	MilliCPU, MemoryMB int64
	// OnEachNode says that a DaemonSet made it, or a kubelet by itself: there is one on each node
	// of a kind.
	OnEachNode bool
	Ending     bool // it was asked to end
}

// Key is NAMESPACE/NAME.
func (o *Other) Key() string { return o.Namespace + "/" + o.Name }

// maxDevices is of how many resources is kept what a pod asks for. Tenants may name as many as
// they like; whole GPUs are kept first.
const maxDevices = 8

// OtherOf reads a pod that is not of this Comb.
func OtherOf(p *corev1.Pod) Other {
	o := Other{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName,
		OnEachNode: onEachNode(p), Ending: p.DeletionTimestamp != nil,
		MilliCPU: askedFor(p, milliCPU), MemoryMB: askedFor(p, memoryMB)}
	names := map[string]bool{}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for name, q := range list[i].Resources.Requests {
				if q.Sign() > 0 && isDevice(string(name)) {
					names[string(name)] = true
				}
			}
		}
	}
	whole := func(name string) int { return slices.Index(pods.Resources, name) }
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(whole(b), whole(a)), strings.Compare(a, b))
	})
	for _, name := range sorted[:min(len(sorted), maxDevices)] {
		if o.Devices == nil {
			o.Devices = map[string]int64{}
		}
		o.Devices[name] = askedFor(p, func(l corev1.ResourceList) int64 {
			q := l[corev1.ResourceName(name)]
			return q.Value()
		})
	}
	return o
}

// isDevice reports whether a resource is a device plugin's: Kubernetes' own have no domain, or its.
func isDevice(name string) bool {
	domain, _, has := strings.Cut(name, "/")
	return has && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

func milliCPU(l corev1.ResourceList) int64 {
	if whole := l.Cpu().Value(); whole > 1<<20 { // its thousandths may be too many to count
		return whole
	}
	return l.Cpu().MilliValue()
}

func memoryMB(l corev1.ResourceList) int64 { return (max(l.Memory().Value(), 0) + 1<<20 - 1) >> 20 }

// askedFor is how much of a resource a pod asks for, as kube-scheduler counts it: the sum of its
// containers, or what one of its init containers needs beside those that go on beside the others.
func askedFor(p *corev1.Pod, of func(corev1.ResourceList) int64) int64 {
	var run, beside, most int64
	for i := range p.Spec.Containers {
		run = sum(run, of(p.Spec.Containers[i].Resources.Requests))
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		n := of(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			beside = sum(beside, n)
			n = 0
		}
		most = max(most, sum(beside, n))
	}
	most = max(most, sum(run, beside))
	if p.Spec.Resources != nil { // of the pod as a whole
		if n := of(p.Spec.Resources.Requests); n > 0 {
			most = sum(n, 0)
		}
	}
	return sum(most, of(p.Spec.Overhead))
}

// sum adds amounts that a tenant chose. The sums of all pods of a cluster fit into an int64.
func sum(a, b int64) int64 {
	const most = 1 << 40
	return min(max(a, 0), most) + min(max(b, 0), most)
}

// onEachNode reports whether a DaemonSet made a pod, or a kubelet.
func onEachNode(p *corev1.Pod) bool {
	if p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// Others takes the pods of others, as they are heard of.
type Others interface {
	All([]Other) // these, and no more
	Changed(Other)
	Gone(key string)
}

// onNodes selects pods that are on a node, and have not ended.
const onNodes = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// WatchOthers tells of the pods of the whole cluster that are on a node, have not ended and do not
// have a label with a value. It returns what watches until a context ends, and whether all are
// known. It calls asked with the result of each request for them. What it holds of a pod does not
// grow with the pod.
func (c *Client) WatchOthers(label, cluster string, to Others,
	asked func(error)) (run func(context.Context), synced func() bool) {
	store := &otherStore{to: to}
	ask := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.FieldSelector, o.LabelSelector = onNodes, label+"!="+cluster
		if o.ResourceVersion == "0" {
			o.ResourceVersion = "" // else all come at once, whatever the limit is
		}
		list := &corev1.PodList{}
		err := c.rest.Get().Resource("pods").VersionedParams(&o, c.params).Do(ctx).Into(list)
		asked(err)
		for i := range list.Items {
			shrink(&list.Items[i])
		}
		return list, err
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: ask,
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector, o.LabelSelector = onNodes, label+"!="+cluster
			o.Watch = true
			w, err := c.rest.Get().Resource("pods").VersionedParams(&o, c.params).Watch(ctx)
			asked(err)
			return w, err
		},
	}
	r := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, store, cache.ReflectorOptions{Name: "pods of others"})
	return r.RunWithContext, store.synced.Load
}

// shrink drops of a listed pod what OtherOf does not read.
func shrink(p *corev1.Pod) {
	var made []metav1.OwnerReference
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		made = []metav1.OwnerReference{*owner}
	}
	var notes map[string]string
	if mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror != "" {
		notes = map[string]string{corev1.MirrorPodAnnotationKey: mirror}
	}
	*p = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			ResourceVersion: p.ResourceVersion, DeletionTimestamp: p.DeletionTimestamp, OwnerReferences: made, Annotations: notes},
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, Resources: p.Spec.Resources, Overhead: p.Spec.Overhead,
			Containers: asking(p.Spec.Containers), InitContainers: asking(p.Spec.InitContainers)}}
}

func asking(list []corev1.Container) (out []corev1.Container) {
	for i := range list {
		if c := &list[i]; len(c.Resources.Requests) > 0 {
			asks := corev1.ResourceRequirements{Requests: c.Resources.Requests}
			out = append(out, corev1.Container{RestartPolicy: c.RestartPolicy, Resources: asks})
		}
	}
	return out
}

// otherStore turns what a watch says into pods of others.
type otherStore struct {
	to     Others
	synced atomic.Bool
}

var _ cache.TransformingStore = (*otherStore)(nil)

// Transformer implements cache.TransformingStore: what is listed is kept small, too.
func (s *otherStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return read(obj), nil }
}

func read(obj any) Other {
	switch o := obj.(type) {
	case Other:
		return o
	case *corev1.Pod:
		return OtherOf(o)
	}
	return Other{}
}

// Add implements cache.ReflectorStore.
func (s *otherStore) Add(obj any) error {
	s.to.Changed(read(obj))
	return nil
}

// Update implements cache.ReflectorStore.
func (s *otherStore) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *otherStore) Delete(obj any) error {
	o := read(obj)
	s.to.Gone(o.Key())
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *otherStore) Replace(list []any, _ string) error {
	all := make([]Other, 0, len(list))
	for _, obj := range list {
		all = append(all, read(obj))
	}
	s.to.All(all)
	s.synced.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *otherStore) Resync() error { return nil }

// Others asks the API server for the pods of others, all of them. label and cluster are as in
// WatchOthers; "" asks for all pods.
func (c *Client) Others(ctx context.Context, label, cluster string) ([]Other, error) {
	o := metav1.ListOptions{FieldSelector: onNodes}
	if label != "" {
		o.LabelSelector = label + "!=" + cluster
	}
	return c.others(ctx, o)
}

// Labelled asks for pods that are on a node, have not ended, have a label with a value, and are in
// none of some namespaces.
func (c *Client) Labelled(ctx context.Context, label, value string, notIn []string) ([]Other, error) {
	o := metav1.ListOptions{FieldSelector: onNodes, LabelSelector: label + "=" + value}
	for _, space := range notIn {
		o.FieldSelector += ",metadata.namespace!=" + space
	}
	return c.others(ctx, o)
}

func (c *Client) others(ctx context.Context, o metav1.ListOptions) (all []Other, err error) {
	for o.Limit = 500; ; {
		list := &corev1.PodList{}
		if err := c.rest.Get().Resource("pods").VersionedParams(&o, c.params).Do(ctx).Into(list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, OtherOf(&list.Items[i]))
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return all, nil
		}
	}
}
