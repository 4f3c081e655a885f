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

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Kept is what the policies in force keep from others, as their lists name it.
type Kept struct {
	resources      []string // how names of resources begin
	podClasses     []string // device classes that pods may not ask for as for a resource
	classes        []string // device classes that claims may not ask for
	gpuSpaces      []string // namespaces whose pods may have GPUs
	claimSpaces    []string // namespaces whose claims may
	prioritySpaces []string // namespaces whose pods may have any priority
}

// systemSpace is the namespace of the cluster's own pods, which the policies let have all.
const systemSpace = "kube-system"

// maxNamed is how many claims of a namespace are named.
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
		classes: list(ofClaims, "gpuDeviceClasses"), gpuSpaces: list(ofPods, "gpuNamespaces"),
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

// refused says why the policies would refuse a pod of others if it were made again, and which of
// their lists would let it in; "": they would not.
func (k *Kept) refused(pod *corev1.Pod) (why, list string) {
	if p := pod.Spec.Priority; p != nil && *p >= pods.Priority && !slices.Contains(k.prioritySpaces, pod.Namespace) {
		return fmt.Sprintf("has priority %d", *p), "priorityNamespaces"
	}
	if slices.Contains(k.gpuSpaces, pod.Namespace) {
		return "", ""
	}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if n := c.Resources.Limits[name]; k.hasResource(string(name)) && !n.IsZero() {
				return fmt.Sprintf("asks for %s %s", n.String(), name), "gpuNamespaces"
			}
		}
		for _, v := range c.Env {
			harmless := v.ValueFrom == nil && slices.Contains([]string{"", "void", "none"}, v.Value)
			if slices.Contains(pods.DeviceVariables(), v.Name) && !harmless {
				return "sets " + v.Name, "gpuNamespaces"
			}
		}
	}
	return "", ""
}

// othersOf is what a namespace has that the policies would refuse.
type othersOf struct {
	space, list string // list would let it in
}

// checkOthers looks for pods and claims of others, from before the policies or from where they are
// not applied, that the policies would refuse. It says nothing where it may not look at all
// namespaces.
func (c checker) checkOthers(ctx context.Context) (list Checks, err error) {
	kept, ok, err := c.Kept(ctx)
	if err != nil {
		return nil, err
	}
	if !ok { // what they will name, at the least
		kept.resources = pods.Resources
	}
	found, err := c.podsOfOthers(ctx, kept)
	if err != nil {
		return nil, err
	}
	claims, err := c.claimsOfOthers(ctx, kept)
	if err != nil {
		return nil, err
	}
	classes, err := c.openClasses(ctx, kept)
	list = slices.Concat(found, claims, classes)
	slices.SortFunc(list, func(a, b Check) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Next, b.Next))
	})
	return list, err
}

// podsOfOthers are those of each namespace that the policies would refuse. One is named, with why.
func (c checker) podsOfOthers(ctx context.Context, kept Kept) (list Checks, err error) {
	first, count := map[othersOf][2]string{}, map[othersOf]int{}
	err = c.everywhere(ctx, "/api/v1/pods", func(raw []byte) (metav1.ListMeta, error) {
		var page corev1.PodList
		err := json.Unmarshal(raw, &page)
		for i := range page.Items {
			p := &page.Items[i]
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			if _, ours := p.Labels[pods.ClusterLabel]; ours || ended || p.Namespace == systemSpace {
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
		list = append(list, Check{Kind: "pods of others", Name: andMore(first[of][0], n), Namespace: of.space,
			Optional: true,
			Problem: fmt.Sprintf("in namespace %s, where it would be refused if it were made again, since it %s",
				of.space, first[of][1]),
			Next: fmt.Sprintf("name %s in %s of ValidatingAdmissionPolicy %s, or end what is not to run there",
				of.space, of.list, podPolicy)})
	}
	return list, err
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
	err = c.everywhere(ctx, groupPath+"/resourceclaims", func(raw []byte) (metav1.ListMeta, error) {
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []foreignClaim  `json:"items"`
		}
		err := json.Unmarshal(raw, &page)
		for i := range page.Items {
			if m := &page.Items[i].Metadata; page.Items[i].of(kept.classes) && m.Namespace != systemSpace &&
				!slices.Contains(kept.claimSpaces, m.Namespace) && !strings.HasPrefix(m.Name, "comb-") {
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
	return list, err
}

// openClasses are the device classes of GPUs whose devices pods may ask for by the name of a
// resource that the policies let through.
func (c checker) openClasses(ctx context.Context, kept Kept) (list Checks, err error) {
	err = c.everywhere(ctx, groupPath+"/deviceclasses", func(raw []byte) (metav1.ListMeta, error) {
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
				Spec     struct {
					Resource string `json:"extendedResourceName"`
				} `json:"spec"`
			} `json:"items"`
		}
		err := json.Unmarshal(raw, &page)
		for _, class := range page.Items {
			name, resource := class.Metadata.Name, class.Spec.Resource
			if resource != "" && slices.Contains(kept.classes, name) && !kept.hasResource(resource) {
				list = append(list, Check{Kind: "DeviceClass", Name: name,
					Problem: "pods of others may ask for its devices as " + resource,
					Next:    "name it in gpuResources of ValidatingAdmissionPolicy " + podPolicy})
			}
		}
		return page.Metadata, err
	})
	return list, err
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

// everywhere reads the objects of all namespaces, a page at a time. It reads none where there are
// none of that kind, or Comb may not.
func (c checker) everywhere(ctx context.Context, path string, read func(raw []byte) (metav1.ListMeta, error)) error {
	err := c.pages(ctx, path, nil, read)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
