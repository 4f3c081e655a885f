package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
)

// Commands that mend what is missing.
const (
	ApplyAdmission = "kubectl apply -f deploy/kubernetes/admission.yaml"
	applyRights    = "kubectl apply -n %s -f deploy/kubernetes/rights.yaml"
)

// Check is one thing that Comb needs of a Kubernetes cluster, and what was found.
type Check struct {
	Kind      string `json:"kind"` // right, namespace, or the kind of an object
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"` // "" is the whole cluster
	OK        bool   `json:"ok"`
	Optional  bool   `json:"optional,omitempty"` // jobs run without it
	Unknown   bool   `json:"unknown,omitempty"`  // it could not be found out whether it is OK
	Problem   string `json:"problem,omitempty"`  // in words, where it is not OK
	Next      string `json:"next,omitempty"`     // what mends it: a command, where there is one
}

// String says what is wrong.
func (c Check) String() string { return c.Kind + " " + c.Name + ": " + c.Problem }

// Checks are some of them.
type Checks []Check

// Failed are those that are not OK, but for optional ones, and those that are not known to be.
func (l Checks) Failed() Checks {
	return slices.DeleteFunc(slices.Clone(l), func(c Check) bool { return c.OK || c.Optional || c.Unknown })
}

// Unsure are those of which it could not be found out whether they are OK, but for optional ones.
func (l Checks) Unsure() Checks {
	return slices.DeleteFunc(slices.Clone(l), func(c Check) bool { return !c.Unknown || c.Optional })
}

// String says what is wrong, in one line.
func (l Checks) String() string {
	var parts []string
	for _, c := range l {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "; ")
}

// Lines say what is wrong and what mends it. What has the same problem is in one line.
func (l Checks) Lines() (lines []string) {
	for i := 0; i < len(l); {
		first, names := l[i], []string{l[i].Name}
		same := func(c Check) bool { return c.Kind == first.Kind && c.Problem == first.Problem && c.Next == first.Next }
		for i++; i < len(l) && same(l[i]); i++ {
			names = append(names, l[i].Name)
		}
		first.Name = strings.Join(names, ", ")
		lines = append(lines, first.String()+": "+first.Next)
	}
	return lines
}

// Has reports whether one is there and OK.
func (l Checks) Has(kind, name string) bool {
	return slices.ContainsFunc(l, func(c Check) bool { return c.Kind == kind && c.Name == name && c.OK })
}

func (c *Client) rightsCommand() string { return fmt.Sprintf(applyRights, c.namespace) }

// optionalRights are those that jobs run without, and what each is for.
var optionalRights = []struct {
	right
	use string
}{
	{right{"create", "pods", "exec", false, ""}, "comb job exec"},
	{right{"patch", "pods", "resize", false, ""}, "policies by which jobs take turns"},
	{right{"create", "events", "", false, ""}, "events on pods that say why Comb ends them"},
	{right{"get", "serviceaccounts", "", false, ""}, "the pull secrets of service accounts, besides those of jobs"},
	{claimRights[0], "dynamic resource allocation"},
	{claimRights[1], "dynamic resource allocation"},
	{claimRights[2], "dynamic resource allocation"},
	{claimRights[3], "dynamic resource allocation"},
	{claimRights[4], "dynamic resource allocation"},
	{claimRights[5], "dynamic resource allocation"},
	{right{"list", "deviceclasses", "", true, Group}, "a word of device classes by which others could claim GPUs"},
}

// bindIssuer lets the server's account read the issuer's keys, where a cluster has taken that right
// away from service accounts.
const bindIssuer = "kubectl create clusterrolebinding comb-issuer " +
	"--clusterrole=system:service-account-issuer-discovery --serviceaccount=%s:comb"

// standard is the label by which Kubernetes holds the pods of a namespace to a standard of
// security.
const standard = "pod-security.kubernetes.io/enforce"

// checker looks, for a client, at what a server needs of the cluster.
type checker struct{ *Client }

// ClusterFile is what is looked at of a server's cluster file; the zero ClusterFile is of none.
type ClusterFile struct {
	SKUs       []cell.SKU
	Namespaces []string // of virtual clusters
	Rooms      []Room
}

// CheckCluster looks at all that a server needs of the Kubernetes cluster. The error is one of
// asking.
func (c *Client) CheckCluster(ctx context.Context, file ClusterFile) (list Checks, err error) {
	version, err := c.Version(ctx)
	check := Check{Kind: "version", Name: version, OK: true}
	if tooOld := (*TooOld)(nil); errors.As(err, &tooOld) {
		check.Name, check.OK, check.Next = tooOld.Version, false, "upgrade the Kubernetes cluster"
		check.Problem = fmt.Sprintf("Comb needs 1.%d or later", Oldest)
	} else if err != nil {
		return nil, err
	}
	list = append(list, check)
	steps := []func(context.Context, Checks) (Checks, error){checker{c}.checkNamespace, checker{c}.checkRights,
		func(ctx context.Context, list Checks) (Checks, error) { return checker{c}.checkSpaces(ctx, list, file) },
		func(ctx context.Context, list Checks) (Checks, error) {
			kept, err := c.CheckAdmission(ctx)
			return append(list, kept...), err
		},
		func(ctx context.Context, list Checks) (Checks, error) {
			others, err := checker{c}.checkOthers(ctx, file.SKUs)
			return append(list, others...), err
		},
		func(ctx context.Context, list Checks) (Checks, error) {
			writers, err := checker{c}.checkStatusWriters(ctx, file.Namespaces)
			return append(list, writers...), err
		},
		func(ctx context.Context, list Checks) (Checks, error) {
			rooms, err := checker{c}.checkRooms(ctx, file.Rooms)
			return append(list, rooms...), err
		},
	}
	for _, step := range steps {
		if list, err = step(ctx, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// checkNamespace adds what was found of the server's namespace.
func (c checker) checkNamespace(ctx context.Context, list Checks) (Checks, error) {
	var has struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	check := Check{Kind: "namespace", Name: c.namespace, OK: true}
	raw, err := c.plain.Get().Resource("namespaces").Name(c.namespace).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		check.OK, check.Problem, check.Next = false, "it is missing", "kubectl create namespace "+c.namespace
	case apierrors.IsForbidden(err):
		check.OK, check.Unknown, check.Optional = false, true, true // the first pod will show it
		check.Problem, check.Next = "Comb may not read it", c.rightsCommand()
	case err != nil:
		return nil, err
	}
	if list = append(list, check); !check.OK {
		return list, nil
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		return nil, fmt.Errorf("%s does not show namespace %s: %w", c.host, c.namespace, err)
	}
	label := Check{Kind: "label", Name: standard, Namespace: c.namespace, Optional: true,
		OK: has.Metadata.Labels[standard] != ""}
	if !label.OK {
		label.Problem = "the namespace has none, so unless the whole cluster has a standard Kubernetes lets " +
			"privileged pods of others into it"
		label.Next = fmt.Sprintf("kubectl label namespace %s %s=restricted", c.namespace, standard)
	}
	return append(list, label), nil
}

// checkRights adds what was found of each right.
func (c checker) checkRights(ctx context.Context, list Checks) (Checks, error) {
	var err error
	for _, r := range rights {
		if list, err = c.checkRight(ctx, list, r, ""); err != nil {
			return nil, err
		}
	}
	for _, r := range optionalRights {
		if list, err = c.checkRight(ctx, list, r.right, r.use); err != nil {
			return nil, err
		}
	}
	missing, err := c.MissingForTokens(ctx)
	for _, path := range issuerPaths {
		check := Check{Kind: "right", Name: "get " + path, Optional: true, OK: !slices.Contains(missing, "get "+path)}
		if !check.OK {
			check.Problem = "Comb lacks the right; it is for --pod-image: " +
				"by the issuer's keys the server knows which pod speaks"
			check.Next = fmt.Sprintf(bindIssuer, c.namespace)
		}
		list = append(list, check)
	}
	return list, err
}

// checkSpaces adds what was found of each other namespace that the cluster file names.
func (c checker) checkSpaces(ctx context.Context, list Checks, file ClusterFile) (Checks, error) {
	claims := slices.ContainsFunc(file.SKUs, func(s cell.SKU) bool { return s.DRA.Class != "" })
	for _, space := range slices.Sorted(slices.Values(file.Namespaces)) {
		if space == c.namespace {
			continue
		}
		in := c.In(space)
		check := Check{Kind: "namespace", Name: space}
		there, err := in.HasNamespace(ctx)
		if err != nil {
			return nil, err
		}
		var missing []string
		if there {
			if missing, err = in.MissingHere(ctx, claims); err != nil {
				return nil, err
			}
		}
		switch {
		case !there:
			check.Problem, check.Next = "it is missing", "kubectl create namespace "+space
		case len(missing) > 0:
			check.Problem = "Comb lacks rights there: " + strings.Join(missing, ", ")
			check.Next = fmt.Sprintf("kubectl apply -n %s -f deploy/kubernetes/team.yaml", space)
		default:
			check.OK = true
		}
		list = append(list, check)
	}
	return list, nil
}

// checkRight adds what was found of a right. use is what an optional one is for.
func (c checker) checkRight(ctx context.Context, list Checks, r right, use string) (Checks, error) {
	allowed, err := c.hasRight(ctx, r)
	check := Check{Kind: "right", Name: r.String(), OK: allowed, Optional: use != ""}
	if !r.everywhere {
		check.Namespace = c.namespace
	}
	if !allowed {
		check.Problem, check.Next = "Comb lacks the right", c.rightsCommand()
	}
	if !allowed && use != "" {
		check.Problem += "; it is for " + use
	}
	return append(list, check), err
}
