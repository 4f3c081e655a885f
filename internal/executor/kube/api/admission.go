package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// What deploy/kubernetes/admission.yaml brings. The types of these groups are not in this program:
// what is read of them are a few fields.
const (
	podPolicy      = "comb-pods"
	claimPolicy    = "comb-claims"
	policyGroup    = "admissionregistration.k8s.io"
	policyPath     = "/apis/" + policyGroup + "/v1"
	classPath      = "/apis/scheduling.k8s.io/v1/priorityclasses/" + pods.PriorityClass
	probeLabel     = pods.LabelPrefix + "probe" // the policies refuse it to everybody, also to Comb
	inForce        = "the policy is in force"   // their message about it
	writerGroup    = "comb.dev"                 // who may create its tasks is not held to the policies
	writerResource = "tasks"
	revisionNote   = pods.LabelPrefix + "revision" // on a policy: what of it this program knows
	revision       = 1                             // the least that this program needs; one more with each change that it relies on
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
		for i++; i < len(l) && l[i].Kind == first.Kind && l[i].Problem == first.Problem && l[i].Next == first.Next; i++ {
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

// policyWait is how long a policy that is there may take until the API server applies it. It looks
// for new ones each second.
const policyWait = 15 * time.Second

// CheckAdmission looks whether the API server keeps others from GPUs and from what only Comb
// writes: the PriorityClass of Comb's pods, the policies with their bindings, and whether it applies
// them, also that Comb itself may do what they refuse to others. The error is one of asking.
func (c *Client) CheckAdmission(ctx context.Context) (list Checks, err error) {
	class, err := c.checkClass(ctx)
	if err != nil {
		return nil, err
	}
	list = Checks{class}
	served, err := c.serves(ctx, policyPath, "validatingadmissionpolicies", "validatingadmissionpolicybindings")
	if err != nil {
		return nil, err
	}
	if !served {
		return append(list, Check{Kind: "API", Name: policyPath[len("/apis/"):] + " ValidatingAdmissionPolicy",
			Problem: "the API server does not serve it: it is older than Kubernetes 1.30, or was started without it (--runtime-config)",
			Next:    "switch it on, and " + ApplyAdmission}), nil
	}
	there := true
	for _, name := range []string{podPolicy, claimPolicy} {
		for _, one := range []func(context.Context, string) (Check, error){c.checkPolicy, c.checkBinding} {
			check, err := one(ctx, name)
			if err != nil {
				return nil, err
			}
			list, there = append(list, check), there && check.OK
		}
	}
	if !there {
		return list, nil
	}
	for _, one := range []func(context.Context) (Check, error){c.checkWriter, c.checkApplied} {
		check, err := one(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, check)
	}
	return list, nil
}

// object reads an object of the cluster. The text says why there is none to read.
func (c *Client) object(ctx context.Context, path string, into any) (why, next string, err error) {
	raw, err := c.plain.Get().AbsPath(path).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return "it is missing", ApplyAdmission, nil
	case apierrors.IsForbidden(err):
		return "Comb may not read it", c.rightsCommand(), nil
	case err != nil:
		return "", "", err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return "", "", fmt.Errorf("%s does not show %s: %w", c.host, path, err)
	}
	return "", "", nil
}

func (c *Client) rightsCommand() string { return fmt.Sprintf(applyRights, c.namespace) }

// checkClass looks at the class of Comb's pods.
func (c *Client) checkClass(ctx context.Context) (Check, error) {
	check := Check{Kind: "PriorityClass", Name: pods.PriorityClass}
	var has struct {
		Value            int64  `json:"value"`
		PreemptionPolicy string `json:"preemptionPolicy"`
		GlobalDefault    bool   `json:"globalDefault"`
	}
	why, next, err := c.object(ctx, classPath, &has)
	again := "kubectl delete priorityclass " + pods.PriorityClass + " && " + ApplyAdmission
	switch {
	case why != "" || err != nil:
	case has.Value != pods.Priority: // no update may change it
		why, next = fmt.Sprintf("its value is %d, and not %d, so other pods may take the room of Comb's, or Comb's that of the cluster's own", has.Value, pods.Priority), again
	case has.PreemptionPolicy != string(corev1.PreemptNever):
		why, next = "its preemptionPolicy is not Never, so kube-scheduler would end pods that Comb did not choose", again
	case has.GlobalDefault:
		why, next = "it is the default of all pods", ApplyAdmission
	}
	check.OK, check.Problem, check.Next = why == "" && err == nil, why, next
	return check, err
}

// checkPolicy looks at a policy.
func (c *Client) checkPolicy(ctx context.Context, name string) (Check, error) {
	check := Check{Kind: "ValidatingAdmissionPolicy", Name: name}
	var has struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			FailurePolicy string            `json:"failurePolicy"`
			Validations   []json.RawMessage `json:"validations"`
		} `json:"spec"`
	}
	why, next, err := c.object(ctx, policyPath+"/validatingadmissionpolicies/"+name, &has)
	switch {
	case why != "" || err != nil:
	case has.Spec.FailurePolicy != "Fail":
		why, next = fmt.Sprintf("its failurePolicy is %s, and not Fail, so what it cannot judge is let in", has.Spec.FailurePolicy), ApplyAdmission
	case len(has.Spec.Validations) == 0:
		why, next = "it refuses nothing", ApplyAdmission
	case revisionOf(has.Metadata.Annotations) < revision:
		why, next = "it is of an older Comb", ApplyAdmission
	}
	check.OK, check.Problem, check.Next = why == "" && err == nil, why, next
	return check, err
}

// revisionOf is the revision of a policy, 0 where it has none.
func revisionOf(annotations map[string]string) int {
	n, err := strconv.Atoi(annotations[revisionNote])
	if err != nil {
		return 0
	}
	return n
}

// checkBinding looks at what puts a policy into force: for all namespaces, and to refuse.
func (c *Client) checkBinding(ctx context.Context, name string) (Check, error) {
	check := Check{Kind: "ValidatingAdmissionPolicyBinding", Name: name}
	var has struct {
		Spec struct {
			PolicyName        string   `json:"policyName"`
			ValidationActions []string `json:"validationActions"`
			MatchResources    *struct {
				NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
				ObjectSelector    *metav1.LabelSelector `json:"objectSelector"`
				Resources         []json.RawMessage     `json:"resourceRules"`
				Excluded          []json.RawMessage     `json:"excludeResourceRules"`
			} `json:"matchResources"`
		} `json:"spec"`
	}
	why, next, err := c.object(ctx, policyPath+"/validatingadmissionpolicybindings/"+name, &has)
	selects := func(s *metav1.LabelSelector) bool {
		return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
	}
	m := has.Spec.MatchResources
	switch {
	case why != "" || err != nil:
	case has.Spec.PolicyName != name:
		why = fmt.Sprintf("it is of policy %s", has.Spec.PolicyName)
	case !slices.Contains(has.Spec.ValidationActions, "Deny"):
		why = fmt.Sprintf("its validationActions are %s, without Deny: what the policy finds is let in", strings.Join(has.Spec.ValidationActions, ", "))
	case m != nil && (selects(m.NamespaceSelector) || selects(m.ObjectSelector) || len(m.Resources)+len(m.Excluded) > 0):
		why = "its matchResources leave something out: name namespaces in the lists of the policy"
	}
	if why != "" && next == "" {
		next = ApplyAdmission
	}
	check.OK, check.Problem, check.Next = why == "" && err == nil, why, next
	return check, err
}

// checkWriter looks whether Comb may do what the policies refuse to others.
func (c *Client) checkWriter(ctx context.Context) (Check, error) {
	check := Check{Kind: "right", Name: "create " + writerResource + "." + writerGroup, OK: true}
	missing, err := c.missing(ctx, []right{{"create", writerResource, "", true, writerGroup}})
	if len(missing) > 0 {
		check.OK, check.Problem, check.Next = false, "Comb lacks the right, so the policies refuse its own pods", c.rightsCommand()
	}
	return check, err
}

// checkApplied asks for a pod that the policy refuses to everybody, and makes none. That proves
// that the API server applies policies, which may be switched off there (admission plugins), and
// that this one was made by this version. Where something else refuses the pod nothing is known.
func (c *Client) checkApplied(ctx context.Context) (Check, error) {
	check := Check{Kind: "admission plugin", Name: "ValidatingAdmissionPolicy", OK: true}
	wait, cancel := context.WithTimeout(ctx, policyWait)
	defer cancel()
	for {
		err := c.probe(ctx)
		switch {
		case err == nil: // let in
		case strings.Contains(ErrorText(err), inForce), NeverAccepts(err):
			return check, nil
		default:
			return check, err
		}
		select {
		case <-ctx.Done():
			return check, ctx.Err()
		case <-wait.Done():
			check.OK, check.Problem = false, "the API server does not apply the policy "+podPolicy+", or it is not this version's"
			check.Next = ApplyAdmission + "; and see that the API server is not started with --disable-admission-plugins=ValidatingAdmissionPolicy"
			return check, nil
		case <-time.After(time.Second / 2):
		}
	}
}

// probe asks whether a pod with the label of the probe would be let in. Nothing is made.
func (c *Client) probe(ctx context.Context) error {
	no, yes, uid := false, true, int64(1000)
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "comb-probe-", Labels: map[string]string{probeLabel: ""}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no, RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: pods.Container, Image: "none", Resources: corev1.ResourceRequirements{Requests: little, Limits: little},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
		},
	}
	return c.rest.Post().Namespace(c.namespace).Resource("pods").Param("dryRun", metav1.DryRunAll).Body(pod).Do(ctx).Error()
}

// serves reports whether the API server serves resources of a version of a group.
func (c *Client) serves(ctx context.Context, path string, resources ...string) (bool, error) {
	raw, err := c.plain.Get().AbsPath(path).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return false, fmt.Errorf("%s does not say what it serves: %w", c.host, err)
	}
	for _, name := range resources {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			return false, nil
		}
	}
	return true, nil
}

// optionalRights are those that jobs run without, and what each is for.
var optionalRights = []struct {
	right
	use string
}{
	{right{"create", "pods", "exec", false, ""}, "comb job exec"},
	{right{"patch", "pods", "resize", false, ""}, "policies by which jobs take turns"},
	{claimRights[0], "dynamic resource allocation"},
	{claimRights[1], "dynamic resource allocation"},
	{claimRights[2], "dynamic resource allocation"},
	{claimRights[3], "dynamic resource allocation"},
	{claimRights[4], "dynamic resource allocation"},
}

// CheckCluster looks at all that a server needs of the Kubernetes cluster. The error is one of
// asking.
func (c *Client) CheckCluster(ctx context.Context) (list Checks, err error) {
	version, err := c.Version(ctx)
	check := Check{Kind: "version", Name: version, OK: true}
	if tooOld := (*TooOld)(nil); errors.As(err, &tooOld) {
		check.Name, check.OK, check.Problem, check.Next = tooOld.Version, false, fmt.Sprintf("Comb needs 1.%d or later", Oldest), "upgrade the Kubernetes cluster"
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
		if list, err = c.checkRight(ctx, list, r, ""); err != nil {
			return nil, err
		}
	}
	for _, r := range optionalRights {
		if list, err = c.checkRight(ctx, list, r.right, r.use); err != nil {
			return nil, err
		}
	}
	kept, err := c.CheckAdmission(ctx)
	return append(list, kept...), err
}

// checkRight adds what was found of a right. use is what an optional one is for.
func (c *Client) checkRight(ctx context.Context, list Checks, r right, use string) (Checks, error) {
	allowed, err := c.allowed(ctx, r)
	check := Check{Kind: "right", Name: r.String(), OK: allowed, Optional: use != ""}
	if !r.nodes {
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
