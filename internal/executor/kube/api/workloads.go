package api

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Workloads is a Client for pods that others make, and for what makes these.
type Workloads struct{ *Client }

// ByOwner is the index of WatchWorkloads and WatchKind by the UID of what made an object: its
// controller.
const ByOwner = "owner"

// ByUID is the index of WatchKind by the UID of an object.
const ByUID = "uid"

// ByNode is the index of WatchWorkloads by the name of a pod's node.
const ByNode = "node"

func byNode(obj any) ([]string, error) {
	if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}, nil
	}
	return nil, nil
}

// ByOpened is the index of WatchWorkloads by the attempt for which Comb opened a pod.
const ByOpened = "opened"

func byOpened(obj any) ([]string, error) {
	if p, ok := obj.(*corev1.Pod); ok && p.Labels[pods.OpenedLabel] != "" {
		return []string{p.Labels[pods.OpenedLabel]}, nil
	}
	return nil, nil
}

func byUID(obj any) ([]string, error) {
	if m, ok := obj.(metav1.Object); ok {
		return []string{string(m.GetUID())}, nil
	}
	return nil, nil
}

// byOwner lists the UID of an object's controller.
func byOwner(obj any) ([]string, error) {
	if m, ok := obj.(metav1.Object); ok {
		if owner := metav1.GetControllerOf(m); owner != nil {
			return []string{string(owner.UID)}, nil
		}
	}
	return nil, nil
}

// handle calls changed with each object that comes, changes or goes, as it is or was last.
func handle[T any](changed func(T)) cache.ResourceEventHandlerFuncs {
	one := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(T); ok {
			changed(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: one, UpdateFunc: func(_, obj any) { one(obj) }, DeleteFunc: one}
}

// WatchWorkloads keeps a copy of all pods of the namespace, indexed ByOwner, ByUID, ByNode and
// ByOpened, as pods of others need it: without what their containers run. It calls changed with
// each pod that came, changed or went, and asked with the result of each request.
func (c Workloads) WatchWorkloads(changed func(*corev1.Pod), asked func(error)) (cache.Indexer, cache.Controller) {
	ask := func(o metav1.ListOptions) *rest.Request {
		return c.rest.Get().Namespace(c.namespace).Resource("pods").VersionedParams(&o, c.params)
	}
	store, run := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list := &corev1.PodList{}
				err := ask(o).Do(ctx).Into(list)
				asked(err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.Watch = true
				w, err := ask(o).Watch(ctx)
				asked(err)
				return w, err
			},
		},
		ObjectType: &corev1.Pod{}, Handler: handle(changed),
		Indexers: cache.Indexers{ByOwner: byOwner, ByNode: byNode, ByUID: byUID, ByOpened: byOpened},
		Transform: func(obj any) (any, error) {
			if p, ok := obj.(*corev1.Pod); ok {
				slimWorkload(p)
			}
			return obj, nil
		},
	})
	return store.(cache.Indexer), run
}

// slimWorkload drops what its containers run.
func slimWorkload(p *corev1.Pod) {
	p.ManagedFields, p.Spec.Volumes, p.Spec.EphemeralContainers = nil, nil, nil
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			list[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources,
				RestartPolicy: c.RestartPolicy}
		}
	}
}

// ObjectKind is a kind of objects that make pods, of one version.
type ObjectKind struct{ Group, Version, Resource, Kind string }

func (k ObjectKind) path() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
}

// WatchKind keeps a copy of all objects of a kind in the namespace, indexed ByOwner. It calls
// changed with each that came, changed or went, and asked with the result of each request.
func (c Workloads) WatchKind(k ObjectKind, changed func(*unstructured.Unstructured),
	asked func(error)) (cache.Indexer, cache.Controller) {
	of := c.dynamic.Resource(k.path()).Namespace(c.namespace)
	store, run := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := of.List(ctx, o)
				asked(err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := of.Watch(ctx, o)
				asked(err)
				return w, err
			},
		},
		ObjectType: &unstructured.Unstructured{}, Handler: handle(changed),
		Indexers: cache.Indexers{ByOwner: byOwner, ByUID: byUID},
		Transform: func(obj any) (any, error) {
			if m, ok := obj.(metav1.Object); ok {
				m.SetManagedFields(nil)
			}
			return obj, nil
		},
	})
	return store.(cache.Indexer), run
}

// PatchKind merges fields into an object of a kind, if it is still that with a UID.
func (c Workloads) PatchKind(ctx context.Context, k ObjectKind, name string, uid types.UID,
	fields map[string]any) error {
	body := map[string]any{"metadata": map[string]any{"uid": uid}}
	for key, value := range fields {
		body[key] = value
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	of := c.dynamic.Resource(k.path()).Namespace(c.namespace)
	_, err = of.Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
	return err
}

// Change is one operation of a JSON patch (RFC 6902).
type Change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Pointer is a path of a Change to a key of a map, such as an annotation.
func Pointer(path, key string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// ChangePod changes a pod, if it is still that with a UID. The result is the pod as it is then.
func (c Workloads) ChangePod(ctx context.Context, name string, uid types.UID, list []Change) (*corev1.Pod, error) {
	raw, err := json.Marshal(append([]Change{{"test", "/metadata/uid", uid}}, list...))
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	r := c.rest.Patch(types.JSONPatchType).Namespace(c.namespace).Resource("pods").Name(name)
	err = r.Body(raw).Do(ctx).Into(pod)
	return pod, err
}
