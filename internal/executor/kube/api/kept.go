package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Kept is what the policies in force keep from others, as their lists name it.
type Kept struct {
	resources      []string // how names of resources begin
	podClasses     []string // device classes that pods may not ask for as for a resource
	classes        []string // device classes that claims may not ask for
	runtimes       []string // RuntimeClasses that give GPUs by what an image says
	gpuSpaces      []string // namespaces whose pods may have GPUs
	claimSpaces    []string // namespaces whose claims may
	prioritySpaces []string // namespaces whose pods may have any priority
}

// filed is what deploy/kubernetes/admission.yaml names before its lists are changed.
var filed = Kept{
	resources: []string{"nvidia.com/", "amd.com/", "google.com/tpu", "habana.ai/", "huawei.com/Ascend",
		"mthreads.com/", "gpu.intel.com/"},
	podClasses: gpuClasses, classes: gpuClasses, runtimes: []string{"nvidia", "nvidia-cdi", "nvidia-legacy"},
}

// deviceClassPrefix begins the name of a resource by which a pod asks for devices of a class.
const deviceClassPrefix = "deviceclass.resource.kubernetes.io/"

var gpuClasses = []string{"gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com", "gpu.amd.com",
	"gpu.intel.com", "tpu.google.com"}

// systemSpace is the namespace of the cluster's own pods, which the policies let have all.
const systemSpace = "kube-system"

// maxNamed is how many of many names are listed.
const maxNamed = 10

// Kept reads the lists of the policies. ok is false where one is not there, may not be read, or
// writes a list in another way.
func (c *Client) Kept(ctx context.Context) (kept Kept, ok bool, err error) {
	ofPods, err := checker{c}.lists(ctx, podPolicy)
	if err != nil {
		return Kept{}, false, err
	}
	ofClaims, err := checker{c}.lists(ctx, claimPolicy)
	if err != nil {
		return Kept{}, false, err
	}
	ok = true
	list := func(of map[string][]string, name string) []string {
		ok = ok && of[name] != nil
		return of[name]
	}
	kept = Kept{resources: list(ofPods, "gpuResources"), podClasses: list(ofPods, "gpuDeviceClasses"),
		classes: list(ofClaims, "gpuDeviceClasses"), runtimes: list(ofPods, "gpuRuntimeClasses"),
		gpuSpaces:   list(ofPods, "gpuNamespaces"),
		claimSpaces: list(ofClaims, "gpuNamespaces"), prioritySpaces: list(ofPods, "priorityNamespaces")}
	return kept, ok, nil
}

// lists are the variables of a policy that are lists of texts.
func (c checker) lists(ctx context.Context, policy string) (map[string][]string, error) {
	var has struct {
		Spec struct {
			Variables []struct {
				Name       string `json:"name"`
				Expression string `json:"expression"`
			} `json:"variables"`
		} `json:"spec"`
	}
	if _, _, err := c.object(ctx, policyPath+"/validatingadmissionpolicies/"+policy, &has); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, v := range has.Spec.Variables {
		var list []string
		if json.Unmarshal([]byte(v.Expression), &list) == nil {
			out[v.Name] = list
		}
	}
	return out, nil
}

// LetsResource says how others may have GPUs that a device plugin offers by a name; "": they may
// not.
func (k *Kept) LetsResource(name string) string {
	if k.hasResource(name) {
		return ""
	}
	return fmt.Sprintf("pods of others may ask for %s: name it in gpuResources of ValidatingAdmissionPolicy %s",
		name, podPolicy)
}

// LetsClass says how others may have GPUs of a device class; "": they may not.
func (k *Kept) LetsClass(name string) string {
	const next = ": name it in gpuDeviceClasses of ValidatingAdmissionPolicy "
	switch {
	case !slices.Contains(k.classes, name):
		return "others may claim devices of class " + name + next + claimPolicy + ", and of " + podPolicy
	case !slices.Contains(k.podClasses, name):
		return "pods of others may ask for devices of class " + name + " as for a resource" + next + podPolicy
	}
	return ""
}

func (k *Kept) hasResource(name string) bool {
	return slices.ContainsFunc(k.resources, func(p string) bool { return strings.HasPrefix(name, p) })
}

// takesGPUs reports whether a pod that asks for a resource of this name asks for GPUs.
func (k *Kept) takesGPUs(name string) bool {
	class, of := strings.CutPrefix(name, deviceClassPrefix)
	return k.hasResource(name) || of && slices.Contains(k.podClasses, class)
}

// refused says why the policies would refuse a pod of others if it were made again, and which of
// their lists would let it in: "" for none of them. Without a reason they would not refuse it.
func (k *Kept) refused(pod *corev1.Pod) (why, list string) {
	if p := pod.Spec.Priority; !slices.Contains(k.prioritySpaces, pod.Namespace) {
		switch {
		case p != nil && *p >= pods.Priority:
			return fmt.Sprintf("has priority %d", *p), "priorityNamespaces"
		case pod.Spec.PriorityClassName == pods.PriorityClass:
			return "has the PriorityClass " + pods.PriorityClass, "priorityNamespaces"
		}
	}
	if !slices.Contains(k.gpuSpaces, pod.Namespace) {
		if why := k.ofGPUs(pod); why != "" {
			return why, "gpuNamespaces"
		}
	}
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil && strings.HasPrefix(*name, claimPrefix) {
			return "names the claim " + *name + " of a job of Comb", ""
		}
	}
	for _, label := range slices.Sorted(maps.Keys(pod.Labels)) {
		if strings.HasPrefix(label, pods.LabelPrefix) {
			return "has the label " + label + ", which only Comb sets", ""
		}
	}
	for _, f := range pod.Finalizers {
		if strings.HasPrefix(f, pods.LabelPrefix) {
			return "has the finalizer " + f + ", which only Comb sets", ""
		}
	}
	return "", ""
}

// claimPrefix begins the names of Comb's claims.
const claimPrefix = "comb-"

// ofGPUs says by what a pod gets GPUs, as the policies see it; "": by nothing.
func (k *Kept) ofGPUs(pod *corev1.Pod) string {
	if class := pod.Spec.RuntimeClassName; class != nil && slices.Contains(k.runtimes, *class) {
		return "has the RuntimeClass " + *class + ", which gives it the GPUs that its image names"
	}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if n := c.Resources.Limits[name]; k.takesGPUs(string(name)) && !n.IsZero() {
				return fmt.Sprintf("asks for %s %s", n.String(), name)
			}
		}
		for _, v := range c.Env {
			harmless := v.ValueFrom == nil && slices.Contains([]string{"", "void", "none"}, v.Value)
			if slices.Contains(pods.DeviceVariables(), v.Name) && !harmless {
				return "sets " + v.Name
			}
		}
	}
	return ""
}

// othersOf is what a namespace has that the policies would refuse.
type othersOf struct {
	space, list string // list would let it in
}

// checkOthers looks for pods and claims of others, from before the policies or from where they are
// not applied, that the policies would refuse, and for what of GPUs they do not name. It says where
// it may not look at all namespaces. skus are those of the cluster file.
func (c checker) checkOthers(ctx context.Context, skus []cell.SKU) (list Checks, err error) {
	kept, ok, err := c.Kept(ctx)
	if err != nil {
		return nil, err
	}
	if !ok {
		kept = filed
	}
	for _, look := range []func(context.Context, Kept) (Checks, error){c.podsOfOthers, c.claimsOfOthers,
		func(ctx context.Context, kept Kept) (Checks, error) { return c.openClasses(ctx, kept, skus) }} {
		found, err := look(ctx, kept)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	for i := range skus {
		if problem, next, open := strings.Cut(kept.Lets(&skus[i]), ": "); open {
			list = append(list, Check{Kind: "cluster file", Name: "skuTypes." + string(skus[i].Name),
				Problem: problem, Next: next})
		}
	}
	slices.SortStableFunc(list, func(a, b Check) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Next, b.Next))
	})
	return list, err
}

// Lets says how others may have GPUs of a SKU; "": they may not.
func (k *Kept) Lets(s *cell.SKU) string {
	switch {
	case s.DRA.Class != "":
		return k.LetsClass(s.DRA.Class)
	case s.Resource != "":
		return k.LetsResource(s.Resource)
	}
	return ""
}

// holding is what pods of others of a namespace hold.
type holding struct {
	first string // a pod
	pods  int
	gpus  int64
	nodes map[string]bool
}

// hold notes what a pod on a node holds.
func (k *Kept) hold(of map[string]*holding, p *corev1.Pod) {
	gpus := int64(0)
	for name, n := range OtherOf(p).Devices {
		if k.hasResource(name) {
			gpus += n
		}
	}
	if gpus == 0 || p.Spec.NodeName == "" {
		return
	}
	h := of[p.Namespace]
	if h == nil {
		h = &holding{first: p.Name, nodes: map[string]bool{}}
		of[p.Namespace] = h
	}
	h.pods, h.gpus, h.nodes[p.Spec.NodeName] = h.pods+1, h.gpus+gpus, true
}

// held says what pods of others hold of each namespace.
func held(of map[string]*holding) (list Checks) {
	for space, h := range of {
		list = append(list, Check{Kind: "GPUs held by others", Name: andMore(h.first, h.pods), Namespace: space,
			Optional: true,
			Problem: fmt.Sprintf("in namespace %s, with %d GPUs on %s: Comb gives no GPU there meanwhile",
				space, h.gpus, FirstFew(slices.Sorted(maps.Keys(h.nodes)))),
			Next: "end them, or leave these nodes out of the cluster file"})
	}
	return list
}

// FirstFew lists the first of many names, in words.
func FirstFew(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// podsOfOthers are those of each namespace that the policies would refuse, and those that hold
// GPUs. One is named, with why.
func (c checker) podsOfOthers(ctx context.Context, kept Kept) (list Checks, err error) {
	first, count, holds := map[othersOf][2]string{}, map[othersOf]int{}, map[string]*holding{}
	unseen, err := c.everywhere(ctx, "/api/v1/pods", whichGPUs, func(raw []byte) (metav1.ListMeta, error) {
		var page corev1.PodList
		err := json.Unmarshal(raw, &page)
		for i := range page.Items {
			p := &page.Items[i]
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			if _, ours := p.Labels[pods.ClusterLabel]; ours || ended {
				continue
			}
			if kept.hold(holds, p); p.Namespace == systemSpace {
				continue
			}
			if why, by := kept.refused(p); why != "" {
				of := othersOf{p.Namespace, by}
				if count[of]++; count[of] == 1 {
					first[of] = [2]string{p.Name, why}
				}
			}
		}
		return page.ListMeta, err
	})
	for of, n := range count {
		next := fmt.Sprintf("name %s in %s of ValidatingAdmissionPolicy %s, or end what is not to run there",
			of.space, of.list, podPolicy)
		if of.list == "" {
			next = "no list lets it in: end it, and make it again without that"
		}
		list = append(list, Check{Kind: "pods of others", Name: andMore(first[of][0], n), Namespace: of.space,
			Optional: true,
			Problem: fmt.Sprintf("in namespace %s, where it would be refused if it were made again, since it %s",
				of.space, first[of][1]),
			Next: next})
	}
	return slices.Concat(list, held(holds), unseen), err
}

// andMore names the first of some.
func andMore(first string, number int) string {
	if number == 1 {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, number-1)
}

// claimsOfOthers are those of GPUs of each namespace.
func (c checker) claimsOfOthers(ctx context.Context, kept Kept) (list Checks, err error) {
	claims := map[string][]string{}
	unseen, err := c.everywhere(ctx, groupPath+"/resourceclaims", whichGPUs, func(raw []byte) (metav1.ListMeta, error) {
		var page pageOf[foreignClaim]
		err := json.Unmarshal(raw, &page)
		for i := range page.Items {
			if m := &page.Items[i].Metadata; page.Items[i].of(kept.classes) && m.Namespace != systemSpace &&
				!slices.Contains(kept.claimSpaces, m.Namespace) && !strings.HasPrefix(m.Name, claimPrefix) {
				claims[m.Namespace] = append(claims[m.Namespace], m.Name)
			}
		}
		return page.Metadata, err
	})
	for space, names := range claims {
		list = append(list, Check{Kind: "claims of others", Name: andMore(names[0], len(names)), Namespace: space,
			Optional: true,
			Problem:  fmt.Sprintf("in namespace %s, of GPUs, and pods there may still name it", space),
			Next: fmt.Sprintf("kubectl delete resourceclaim -n %s %s", space,
				strings.Join(names[:min(len(names), maxNamed)], " "))})
	}
	return append(list, unseen...), err
}

// foreignClaim is what is read of a claim that Comb did not make.
type foreignClaim struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Devices struct {
			Requests []struct {
				Exactly        Exactly   `json:"exactly"`
				FirstAvailable []Exactly `json:"firstAvailable"`
			} `json:"requests"`
		} `json:"devices"`
	} `json:"spec"`
}

// of reports whether a claim asks for a device of some classes.
func (f *foreignClaim) of(classes []string) bool {
	for _, r := range f.Spec.Devices.Requests {
		for _, e := range append(r.FirstAvailable, r.Exactly) {
			if slices.Contains(classes, e.Class) {
				return true
			}
		}
	}
	return false
}

// whichGPUs is what is not known where others' objects may not be listed.
const whichGPUs = "which of them concern GPUs"

// everywhere reads the objects of all namespaces, a page at a time. It reads none where there are
// none of that kind. Where Comb may not it says so, and what is not known then.
func (c checker) everywhere(ctx context.Context, path, unknown string,
	read func(raw []byte) (metav1.ListMeta, error)) (unseen Checks, err error) {
	switch err := c.pages(ctx, path, nil, read); {
	case apierrors.IsForbidden(err):
		what := path[strings.LastIndexByte(path, '/')+1:]
		return Checks{{Kind: what, Name: "of others", Optional: true, Unknown: true,
			Problem: "Comb may not list them in the whole cluster, so it is not known " + unknown,
			Next:    "check again as an administrator of the cluster"}}, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	default:
		return nil, err
	}
}
