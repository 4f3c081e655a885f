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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// What deploy/kubernetes/admission.yaml brings. The types of these groups are not in this program:
// what is read of them are a few fields.
const (
	podPolicy      = "comb-pods"
	claimPolicy    = "comb-claims"
	statusPolicy   = "comb-status"
	policyGroup    = "admissionregistration.k8s.io"
	policyPath     = "/apis/" + policyGroup + "/v1"
	classPath      = "/apis/scheduling.k8s.io/v1/priorityclasses/" + pods.PriorityClass
	probeLabel     = pods.LabelPrefix + "probe" // the policies refuse it to all, also to Comb
	inForce        = "the policy is in force"   // their message about it
	writerGroup    = "comb.dev"                 // the right to create its tasks is that to pass the policies
	writerResource = "tasks"
	revisionNote   = pods.LabelPrefix + "revision" // on a policy
	// revision is the least that this program needs: one more with each change that it relies on.
	revision = 3
)

// policyWait is how long a policy that is there may take until the API server applies it. It looks
// for new ones each second.
const policyWait = 15 * time.Second

// CheckAdmission looks whether the API server keeps others from GPUs and from what only Comb
// writes: the PriorityClass of Comb's pods, the policies with their bindings, whether it applies
// them, and whether Comb itself may do what they refuse to others. The error is one of asking.
func (c *Client) CheckAdmission(ctx context.Context) (list Checks, err error) {
	class, err := checker{c}.checkClass(ctx)
	if err != nil {
		return nil, err
	}
	list = Checks{class}
	served, err := checker{c}.serves(ctx, policyPath, "validatingadmissionpolicies", "validatingadmissionpolicybindings")
	if err != nil {
		return nil, err
	}
	if !served {
		return append(list, Check{Kind: "API", Name: policyPath[len("/apis/"):] + " ValidatingAdmissionPolicy",
			Problem: "the API server does not serve it: it is older than Kubernetes 1.30, " +
				"or was started without it (--runtime-config)",
			Next: "switch it on, and " + ApplyAdmission}), nil
	}
	there := true
	for _, name := range []string{podPolicy, claimPolicy, statusPolicy} {
		for _, one := range []func(context.Context, string) (Check, error){checker{c}.checkPolicy, checker{c}.checkBinding} {
			check, err := one(ctx, name)
			if err != nil {
				return nil, err
			}
			list, there = append(list, check), there && check.OK
		}
	}
	writer, err := checker{c}.checkWriter(ctx)
	if list = append(list, writer); err != nil || !there {
		return list, err
	}
	applied, err := checker{c}.checkApplied(ctx, policyWait)
	return append(list, applied), err
}

// object reads an object of the cluster. The text says why there is none to read.
func (c checker) object(ctx context.Context, path string, into any) (why, next string, err error) {
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

// checkClass looks at the class of Comb's pods.
func (c checker) checkClass(ctx context.Context) (Check, error) {
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
		why = fmt.Sprintf("its value is %d, and not %d, so other pods may take the room of Comb's, "+
			"or Comb's that of the cluster's own", has.Value, pods.Priority)
		next = again
	case has.PreemptionPolicy != string(corev1.PreemptNever):
		why = "its preemptionPolicy is not Never, so kube-scheduler would end pods that Comb did not choose"
		next = again
	case has.GlobalDefault:
		why, next = "it is the default of all pods", ApplyAdmission
	}
	check.OK, check.Problem, check.Next = why == "" && err == nil, why, next
	return check, err
}

// checkPolicy looks at a policy.
func (c checker) checkPolicy(ctx context.Context, name string) (Check, error) {
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
		why = fmt.Sprintf("its failurePolicy is %s, and not Fail, so what it cannot judge is let in",
			has.Spec.FailurePolicy)
		next = ApplyAdmission
	case len(has.Spec.Validations) == 0:
		why, next = "it refuses nothing", ApplyAdmission
	case revisionOf(has.Metadata.Annotations) < revision:
		why, next = "it is of an older Comb", ApplyAdmission+" with your lists in it, or helm upgrade"
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
func (c checker) checkBinding(ctx context.Context, name string) (Check, error) {
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
		why = fmt.Sprintf("its validationActions are %s, without Deny: what the policy finds is let in",
			strings.Join(has.Spec.ValidationActions, ", "))
	case m == nil:
	case selects(m.NamespaceSelector), selects(m.ObjectSelector), len(m.Resources)+len(m.Excluded) > 0:
		why = "its matchResources leave something out: name namespaces in the lists of the policy"
	}
	if why != "" && next == "" {
		next = ApplyAdmission
	}
	check.OK, check.Problem, check.Next = why == "" && err == nil, why, next
	return check, err
}

// checkWriter looks whether Comb may do what the policies refuse to others.
func (c checker) checkWriter(ctx context.Context) (Check, error) {
	check := Check{Kind: "right", Name: "create " + writerResource + "." + writerGroup, OK: true}
	missing, err := c.missing(ctx, []right{{"create", writerResource, "", true, writerGroup}})
	if len(missing) > 0 {
		check.OK, check.Next = false, c.rightsCommand()
		check.Problem = "Comb lacks the right, so the policies refuse its own pods"
	}
	return check, err
}

// probePod is the name of a pod that is asked about, and not there.
const probePod = "comb-probe"

// checkApplied asks to bind a pod that is not there, which the policy refuses to all. That proves
// that the API server applies policies, which may be switched off there (admission plugins).
// Neither quotas, limit ranges nor pod security look at a binding, and nothing is made of it. Where
// something else refuses it nothing is known.
func (c checker) checkApplied(ctx context.Context, within time.Duration) (Check, error) {
	check := Check{Kind: "admission plugin", Name: "ValidatingAdmissionPolicy", OK: true}
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := c.probe(ctx)
		switch {
		case err == nil, noProbePod(err): // let in
		case strings.Contains(ErrorText(err), inForce):
			return check, nil
		case NeverAccepts(err):
			check.OK, check.Unknown = false, true
			check.Problem = fmt.Sprintf("it could not be found out whether the API server applies policy %s, "+
				"since it refuses for another reason what the policy refuses: %s", podPolicy, ErrorText(err))
			check.Next = "mend that, and check again"
			return check, nil
		default:
			return check, err
		}
		select {
		case <-ctx.Done():
			return check, ctx.Err()
		case <-wait.Done():
			check.OK, check.Problem = false, "the API server does not apply policy "+podPolicy
			check.Next = "see that it is not started with --disable-admission-plugins=ValidatingAdmissionPolicy, and " +
				ApplyAdmission
			return check, nil
		case <-time.After(time.Second / 2):
		}
	}
}

// noProbePod reports whether nothing but the lack of the pod that is asked about keeps it from
// being bound.
func noProbePod(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	about := status.Status().Details
	return about != nil && about.Kind == "pods" && about.Name == probePod
}

// probe asks whether a pod would be bound with the label of the probe. Nothing is made.
func (c checker) probe(ctx context.Context) error {
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: probePod, Labels: map[string]string{probeLabel: ""}},
		Target: corev1.ObjectReference{Kind: "Node", Name: probePod}}
	r := c.rest.Post().Namespace(c.namespace).Resource("pods").Name(probePod).SubResource("binding")
	return r.Param("dryRun", metav1.DryRunAll).Body(b).Do(ctx).Error()
}

// serves reports whether the API server serves resources of a version of a group.
func (c checker) serves(ctx context.Context, path string, resources ...string) (bool, error) {
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
