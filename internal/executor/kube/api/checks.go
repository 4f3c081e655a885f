package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Problem   string `json:"problem,omitempty"`  // in words, where it is not OK
	Next      string `json:"next,omitempty"`     // what mends it: a command, where there is one
}

// String says what is wrong.
func (c Check) String() string { return c.Kind + " " + c.Name + ": " + c.Problem }

// Checks are some of them.
type Checks []Check

// Failed are those that are not OK, but for optional ones.
func (l Checks) Failed() Checks {
	return slices.DeleteFunc(slices.Clone(l), func(c Check) bool { return c.OK || c.Optional })
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
}

// checker looks, for a client, at what a server needs of the cluster.
type checker struct{ *Client }

// CheckCluster looks at all that a server needs of the Kubernetes cluster. The error is one of
// asking.
func (c *Client) CheckCluster(ctx context.Context) (list Checks, err error) {
	version, err := c.Version(ctx)
	check := Check{Kind: "version", Name: version, OK: true}
	if tooOld := (*TooOld)(nil); errors.As(err, &tooOld) {
		check.Name, check.OK, check.Next = tooOld.Version, false, "upgrade the Kubernetes cluster"
		check.Problem = fmt.Sprintf("Comb needs 1.%d or later", Oldest)
	} else if err != nil {
		return nil, err
	}
	list = append(list, check)
	check = Check{Kind: "namespace", Name: c.namespace}
	if check.OK, err = c.HasNamespace(ctx); err != nil {
		return nil, err
	}
	if !check.OK {
		check.Problem, check.Next = "it is missing", "kubectl create namespace "+c.namespace
	}
	list = append(list, check)
	for _, r := range rights {
		if list, err = (checker{c}).checkRight(ctx, list, r, ""); err != nil {
			return nil, err
		}
	}
	for _, r := range optionalRights {
		if list, err = (checker{c}).checkRight(ctx, list, r.right, r.use); err != nil {
			return nil, err
		}
	}
	kept, err := c.CheckAdmission(ctx)
	if err != nil {
		return nil, err
	}
	others, err := checker{c}.checkOthers(ctx)
	return slices.Concat(list, kept, others), err
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
