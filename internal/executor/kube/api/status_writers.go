package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// guardLabel lets policy comb-status hold in a namespace, with the value "status".
const guardLabel = pods.LabelPrefix + "guard"

const rolePath = "/apis/rbac.authorization.k8s.io/v1"

// whichWriters is what is not known where roles may not be listed.
const whichWriters = "which accounts may say that a pod of a job has ended"

// role is what is read of a Role or ClusterRole.
type role struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Rules    []struct {
		Groups    []string `json:"apiGroups"`
		Resources []string `json:"resources"`
		Verbs     []string `json:"verbs"`
		Names     []string `json:"resourceNames"`
	} `json:"rules"`
}

// gives reports whether a role gives one of some verbs on a resource of a group; sub is a part of
// it, "" for none.
func (r *role) gives(group, resource, sub string, verbs ...string) bool {
	whole := strings.TrimSuffix(resource+"/"+sub, "/")
	for i := range r.Rules {
		rule := &r.Rules[i]
		has := func(list []string, names ...string) bool {
			return slices.ContainsFunc(list, func(s string) bool { return s == "*" || slices.Contains(names, s) })
		}
		resources := []string{whole}
		if sub != "" {
			resources = append(resources, "*/"+sub)
		}
		if len(rule.Names) == 0 && has(rule.Groups, group) && has(rule.Resources, resources...) &&
			has(rule.Verbs, verbs...) {
			return true
		}
	}
	return false
}

// roleBinding is what is read of a RoleBinding or ClusterRoleBinding.
type roleBinding struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	RoleRef  struct{ Kind, Name string }
	Subjects []struct{ Kind, Name, Namespace string }
}

// others are the accounts that are no part of Kubernetes itself.
func (b *roleBinding) others() (list []string) {
	for _, s := range b.Subjects {
		switch {
		case s.Kind == "ServiceAccount" && s.Namespace == systemSpace:
		case s.Kind != "ServiceAccount" && strings.HasPrefix(s.Name, "system:"):
		case s.Kind == "ServiceAccount":
			list = append(list, fmt.Sprintf("service account %s/%s", s.Namespace, s.Name))
		default:
			list = append(list, strings.ToLower(s.Kind)+" "+s.Name)
		}
	}
	return list
}

// checkStatusWriters looks for accounts besides Kubernetes' own that may say what pods of jobs do,
// in namespaces where no policy refuses it. By default there are none; a role with * in a namespace
// gives the right.
func (c checker) checkStatusWriters(ctx context.Context, spaces []string) (list Checks, err error) {
	wide, unseen, err := c.statusWriters(ctx, "clusterrole", "", nil)
	if err != nil || len(unseen) > 0 {
		return unseen, err
	}
	for _, space := range slices.Compact(slices.Sorted(slices.Values(append(spaces, c.namespace)))) {
		var has struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		raw, err := c.plain.Get().Resource("namespaces").Name(space).Do(ctx).Raw()
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			continue
		case err != nil:
			return nil, err
		}
		if err := json.Unmarshal(raw, &has); err != nil {
			return nil, fmt.Errorf("%s does not show namespace %s: %w", c.host, space, err)
		}
		if has.Metadata.Labels[guardLabel] == "status" {
			continue
		}
		here, unseen, err := c.statusWriters(ctx, "role", space, wide)
		if err != nil || len(unseen) > 0 {
			return append(list, unseen...), err
		}
		if by := slices.Concat(here.by, wide.by); len(by) > 0 {
			list = append(list, Check{Kind: "right of others", Name: "patch pods/status", Namespace: space,
				Optional: true,
				Problem: fmt.Sprintf("in namespace %s %s may say that a pod of a job has ended, while it runs on",
					space, FirstFew(by)),
				Next: fmt.Sprintf("take the right away, or kubectl label namespace %s %s=status", space, guardLabel)})
		}
	}
	return list, nil
}

// writers are the accounts that may write pods/status.
type writers struct {
	roles map[string]bool // those that give the right
	by    []string        // accounts, each with the binding that gives it the right
}

// statusWriters reads roles and their bindings, of the whole cluster or of a namespace. wide are
// those of the whole cluster.
func (c checker) statusWriters(ctx context.Context, kind, space string,
	wide *writers) (found *writers, unseen Checks, err error) {
	found = &writers{roles: map[string]bool{}}
	as := map[string]bool{} // roles whose accounts count as Comb, if they have them in the whole cluster
	path := rolePath
	if space != "" {
		path += "/namespaces/" + space
	}
	unseen, err = c.everywhere(ctx, path+"/"+kind+"s", whichWriters, func(raw []byte) (metav1.ListMeta, error) {
		var page pageOf[role]
		err := json.Unmarshal(raw, &page)
		for i := range page.Items {
			r := &page.Items[i]
			found.roles[r.Metadata.Name] = r.gives("", "pods", "status", "patch", "update")
			as[r.Metadata.Name] = r.gives(writerGroup, writerResource, "", "create")
		}
		return page.Metadata, err
	})
	if err != nil || len(unseen) > 0 {
		return found, unseen, err
	}
	unseen, err = c.everywhere(ctx, path+"/"+kind+"bindings", whichWriters, func(raw []byte) (metav1.ListMeta, error) {
		var page pageOf[roleBinding]
		err := json.Unmarshal(raw, &page)
		for i := range page.Items {
			b := &page.Items[i]
			gives := found.roles[b.RoleRef.Name] && (space != "" || !as[b.RoleRef.Name])
			if space != "" && b.RoleRef.Kind == "ClusterRole" {
				gives = wide.roles[b.RoleRef.Name]
			}
			for _, account := range b.others() {
				if gives {
					found.by = append(found.by, fmt.Sprintf("%s (%sbinding %s)", account, kind, b.Metadata.Name))
				}
			}
		}
		return page.Metadata, err
	})
	return found, unseen, err
}
