package api

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// whole are the objects of a cluster in which all is as it should be.
func whole() map[string]string {
	policy := `{"metadata": {"annotations": {"comb.dev/revision": "3"}}, "spec": {"failurePolicy": "Fail", "validations": [{}]}}`
	binding := `{"spec": {"policyName": "%s", "validationActions": ["Deny"], "matchResources": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}}}`
	return map[string]string{
		policyPath: `{"resources": [{"name": "validatingadmissionpolicies"}, {"name": "validatingadmissionpolicybindings"}]}`,
		classPath:  `{"value": 1000000000, "preemptionPolicy": "Never"}`,
		policyPath + "/validatingadmissionpolicies/comb-pods":         policy,
		policyPath + "/validatingadmissionpolicies/comb-claims":       policy,
		policyPath + "/validatingadmissionpolicies/comb-status":       policy,
		policyPath + "/validatingadmissionpolicybindings/comb-status": fmt.Sprintf(binding, "comb-status"),
		policyPath + "/validatingadmissionpolicybindings/comb-pods":   fmt.Sprintf(binding, "comb-pods"),
		policyPath + "/validatingadmissionpolicybindings/comb-claims": fmt.Sprintf(binding, "comb-claims"),
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":      `{"status": {"allowed": true}}`,
		"/api/v1/namespaces/comb/pods/comb-probe/binding":             `403 pods is forbidden: denied request: the policy is in force`,
		"/version":                `{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}`,
		"/api/v1/namespaces/comb": `{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`,
	}
}

// cluster is a client of an API server that answers so.
func cluster(t *testing.T, said map[string]string) *Client {
	t.Helper()
	c, err := newClient(&rest.Config{Host: answering(t, said)}, "comb", &answers{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answering is the address of an API server that answers so. An answer that begins with a number
// is that status, with a message.
func answering(t *testing.T, said map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text, ok := said[r.URL.Path]
		if !ok {
			text = "404 " + r.URL.Path + " not found"
		}
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/v1/") && (r.URL.Query().Get("dryRun") != "All" || !strings.Contains(string(body), probeLabel)) {
			t.Errorf("something would be made: %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		var status int32
		if n, _ := fmt.Sscanf(text, "%d", &status); n == 1 {
			reason := map[int32]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound}[status]
			about := (*metav1.StatusDetails)(nil)
			if status == 404 {
				about = &metav1.StatusDetails{Kind: "pods", Name: strings.TrimSuffix(strings.TrimPrefix(text, `404 pods "`), `" not found`)}
			}
			text, _ := json.Marshal(metav1.Status{Details: about, TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: status, Reason: reason, Message: text[4:]})
			w.WriteHeader(int(status))
			_, _ = w.Write(text)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Each thing that would let others take GPUs is found, and said with what mends it.
func TestCheckAdmission(t *testing.T) {
	const binds = "/api/v1/namespaces/comb/pods/comb-probe/binding"
	pod, binding := policyPath+"/validatingadmissionpolicies/comb-pods", policyPath+"/validatingadmissionpolicybindings/comb-pods"
	for name, one := range map[string]struct {
		path, answer string // "" is that it is missing
		want         string // in what is wrong, "" for nothing
	}{
		"whole":              {"/", "", ""},
		"no class":           {classPath, "", "PriorityClass comb-jobs: it is missing: kubectl apply -f deploy/kubernetes/admission.yaml"},
		"unreadable class":   {classPath, "403 no", "PriorityClass comb-jobs: Comb may not read it: kubectl apply -n comb -f deploy/kubernetes/rights.yaml"},
		"low class":          {classPath, `{"value": 5, "preemptionPolicy": "Never"}`, "its value is 5, and not 1000000000"},
		"preempting class":   {classPath, `{"value": 1000000000, "preemptionPolicy": "PreemptLowerPriority"}`, "its preemptionPolicy is not Never"},
		"default class":      {classPath, `{"value": 1000000000, "preemptionPolicy": "Never", "globalDefault": true}`, "it is the default of all pods"},
		"no API":             {policyPath, `{"resources": [{"name": "validatingwebhookconfigurations"}]}`, "the API server does not serve it"},
		"no group":           {policyPath, "", "the API server does not serve it"},
		"no policy":          {pod, "", "ValidatingAdmissionPolicy comb-pods: it is missing"},
		"ignoring policy":    {pod, `{"metadata": {"annotations": {"comb.dev/revision": "3"}}, "spec": {"failurePolicy": "Ignore", "validations": [{}]}}`, "its failurePolicy is Ignore"},
		"empty policy":       {pod, `{"metadata": {"annotations": {"comb.dev/revision": "3"}}, "spec": {"failurePolicy": "Fail"}}`, "it refuses nothing"},
		"old policy":         {pod, `{"spec": {"failurePolicy": "Fail", "validations": [{}]}}`, "it is of an older Comb"},
		"newer policy":       {pod, `{"metadata": {"annotations": {"comb.dev/revision": "99"}}, "spec": {"failurePolicy": "Fail", "validations": [{}]}}`, ""},
		"no binding":         {binding, "", "ValidatingAdmissionPolicyBinding comb-pods: it is missing"},
		"warning binding":    {binding, `{"spec": {"policyName": "comb-pods", "validationActions": ["Warn", "Audit"]}}`, "its validationActions are Warn, Audit, without Deny"},
		"denying binding":    {binding, `{"spec": {"policyName": "comb-pods", "validationActions": ["Audit", "Deny"]}}`, ""},
		"binding of another": {binding, `{"spec": {"policyName": "other", "validationActions": ["Deny"]}}`, "it is of policy other"},
		"selecting binding":  {binding, `{"spec": {"policyName": "comb-pods", "validationActions": ["Deny"], "matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}}`, "its matchResources leave something out"},
		"excluding binding":  {binding, `{"spec": {"policyName": "comb-pods", "validationActions": ["Deny"], "matchResources": {"excludeResourceRules": [{}]}}}`, "its matchResources leave something out"},
		"no right":           {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"status": {"allowed": false}}`, "right create tasks.comb.dev: Comb lacks the right, so the policies refuse its own pods: kubectl apply -n comb -f deploy/kubernetes/rights.yaml"},
		"another refusal":    {binds, "403 no such verb", ""}, // nothing is known then: see TestCheckApplied
	} {
		t.Run(name, func(t *testing.T) {
			answers := whole()
			if answers[one.path] = one.answer; one.answer == "" {
				delete(answers, one.path)
			}
			list, err := cluster(t, answers).CheckAdmission(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			failed := list.Failed()
			if text := strings.Join(failed.Lines(), "\n"); one.want == "" && text != "" || !strings.Contains(text, one.want) || len(failed) > 1 {
				t.Errorf("it says %q, want %q alone", text, one.want)
			}
			if has := list.Has("PriorityClass", pods.PriorityClass); has != !strings.Contains(one.want, "lass comb-jobs") && one.path != classPath {
				t.Errorf("the class is there: %v", has)
			}
			for _, c := range failed {
				if c.Next == "" {
					t.Errorf("%s: nothing says what to do", c)
				}
			}
		})
	}
	answers := whole()
	answers[binding] = "500 it is slow"
	if _, err := cluster(t, answers).CheckAdmission(t.Context()); err == nil {
		t.Error("an API server that cannot answer is taken for one that has no binding")
	}
}

// An API server that does not apply policies lets the probe in: then only the pod is missing. Where
// something else refuses it nothing is known, and that is said, with why.
func TestCheckApplied(t *testing.T) {
	for said, want := range map[string]Check{
		"403 the policy is in force":      {OK: true},
		`404 pods "comb-probe" not found`: {Problem: "the API server does not apply policy comb-pods", Next: "--disable-admission-plugins"},
		`{"kind": "Status"}`:              {Problem: "the API server does not apply policy comb-pods", Next: "--disable-admission-plugins"},
		`404 namespaces "comb" not found`: {Unknown: true, Problem: `could not be found out whether .* another reason .*: namespaces "comb" not found`, Next: "check again"},
		"403 a webhook says no":           {Unknown: true, Problem: "could not be found out whether .* another reason .*: a webhook says no", Next: "check again"},
	} {
		answers := whole()
		answers["/api/v1/namespaces/comb/pods/comb-probe/binding"] = said
		got, err := checker{cluster(t, answers)}.checkApplied(t.Context(), 0)
		if err != nil || got.OK != want.OK || got.Unknown != want.Unknown || !regexp.MustCompile(want.Problem).MatchString(got.Problem) || !strings.Contains(got.Next, want.Next) {
			t.Errorf("%s: found is %+v, %v", said, got, err)
		}
	}
	answers := whole()
	answers["/api/v1/namespaces/comb/pods/comb-probe/binding"] = "403 a webhook says no"
	list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{})
	if err != nil || len(list.Failed()) > 0 || len(list.Unsure()) != 1 {
		t.Errorf("failed are %v, not known %v (%v)", list.Failed(), list.Unsure(), err)
	}
}

// variables is a policy with some of them: names and expressions in turn.
func variables(t *testing.T, list ...string) string {
	t.Helper()
	all := []map[string]string{}
	for i := 0; i < len(list); i += 2 {
		all = append(all, map[string]string{"name": list[i], "expression": list[i+1]})
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{revisionNote: "3"}},
		"spec": map[string]any{"failurePolicy": "Fail", "validations": []any{1}, "variables": all}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const policies = policyPath + "/validatingadmissionpolicies/"

// listing are the answers of a whole cluster whose policies have lists.
func listing(t *testing.T) map[string]string {
	answers := whole()
	answers[policies+podPolicy] = variables(t, "other", "1 + 1", "gpuResources", `["nvidia.com/"]`, "gpuDeviceClasses", `["a"]`, "gpuNamespaces", `["gpus"]`, "priorityNamespaces", `["high"]`, "gpuRuntimeClasses", `["nvidia"]`)
	answers[policies+claimPolicy] = variables(t, "gpuDeviceClasses", `["a","b"]`, "gpuNamespaces", "[]")
	return answers
}

// What the lists of the policies leave out is said, for each way to ask for it.
func TestKept(t *testing.T) {
	answers := listing(t)
	kept, ok, err := cluster(t, answers).Kept(t.Context())
	if err != nil || !ok {
		t.Fatalf("the lists are not read: %v, %v", ok, err)
	}
	for _, one := range [][2]string{
		{kept.LetsResource("nvidia.com/mig-1g.5gb"), ""},
		{kept.LetsResource("other.com/gpu"), "pods of others may ask for other.com/gpu: name it in gpuResources of ValidatingAdmissionPolicy comb-pods"},
		{kept.LetsClass("a"), ""},
		{kept.LetsClass("b"), "pods of others may ask for devices of class b as for a resource: name it in gpuDeviceClasses of ValidatingAdmissionPolicy comb-pods"},
		{kept.LetsClass("c"), "others may claim devices of class c: name it in gpuDeviceClasses of ValidatingAdmissionPolicy comb-claims, and of comb-pods"},
	} {
		if one[0] != one[1] {
			t.Errorf("it says %q, want %q", one[0], one[1])
		}
	}
	for name, text := range map[string]string{"missing": "404 no", "unreadable": "403 no", "without": variables(t),
		"written otherwise": variables(t, "gpuDeviceClasses", "['a']", "gpuNamespaces", "[]")} {
		answers[policies+claimPolicy] = text
		if _, ok, err := cluster(t, answers).Kept(t.Context()); ok || err != nil {
			t.Errorf("a policy that is %s is read: %v, %v", name, ok, err)
		}
	}
	answers[policies+claimPolicy] = "500 slow"
	if _, _, err := cluster(t, answers).Kept(t.Context()); err == nil {
		t.Error("an API server that cannot answer is taken for one without the policy")
	}
}

// Pods and claims of others that the policies would refuse are named, so that nothing is missing
// after an upgrade of theirs, and nothing from before keeps GPUs.
func TestCheckOthers(t *testing.T) {
	answers := listing(t)
	pod := func(space, name, labels, spec, phase string) string {
		return fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q, "labels": {%s}}, "spec": {%s}, "status": {"phase": %q}}`, space, name, labels, spec, phase)
	}
	const high, gpu, device = `"priority": 2000000000`, `"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"cpu": "1", "nvidia.com/gpu": "2"}}}]`,
		`"initContainers": [{"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]`
	answers["/api/v1/pods"] = `{"items": [` + strings.Join([]string{
		pod("net", "calico-1", "", high, "Running"), pod("net", "calico-2", "", high, "Running"), pod("high", "ok", "", high, "Running"),
		pod("kube-system", "proxy", "", high+","+gpu, "Running"), pod("operator", "plugin", "", device, "Running"), pod("gpus", "ok", "", gpu, "Running"),
		pod("old", "ended", "", gpu, "Succeeded"), pod("red", "comb-1", `"comb.dev/cluster": "x"`, high+","+gpu, "Running"), pod("thief", "train", "", gpu, "Pending"),
		pod("runs", "image", "", `"runtimeClassName": "nvidia"`, "Running"), pod("plain", "kata", "", `"runtimeClassName": "kata"`, "Running"),
		pod("extended", "class", "", `"containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/a": "1", "deviceclass.resource.kubernetes.io/nic": "1"}}}]`, "Running"),
		pod("gpus", "copy", `"comb.dev/job": "7"`, gpu, "Running"), pod("claims", "shares", "", `"resourceClaims": [{"name": "g", "resourceClaimName": "comb-1-0"}]`, "Running"),
		pod("class", "jobs", "", `"priorityClassName": "comb-jobs"`, "Running"),
		pod("plain", "void", "", `"containers": [{"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "resources": {"limits": {"nvidia.com/gpu": "0"}}}]`, "Running"),
	}, ",") + `]}`
	claim := func(space, name, class string) string {
		return fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q}, "spec": {"devices": {"requests": [{"firstAvailable": [{"deviceClassName": "nic"}, {"deviceClassName": %q}]}]}}}`, space, name, class)
	}
	answers[groupPath+"/resourceclaims"] = `{"items": [` + strings.Join([]string{claim("thief", "one", "b"), claim("thief", "two", "b"), claim("plain", "nic", "c"), claim("red", "comb-1-0", "b")}, ",") + `]}`
	answers[groupPath+"/deviceclasses"] = `{"items": [{"metadata": {"name": "a"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}, {"metadata": {"name": "b"}, "spec": {"extendedResourceName": "example.com/gpu"}},
		{"metadata": {"name": "c"}, "spec": {"extendedResourceName": "example.com/nic", "selectors": [{"cel": {"expression": "device.driver == \"nic.example\""}}]}},
		{"metadata": {"name": "my-gpus"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'a' && device.attributes['a'].model == 'H100'"}}]}},
		{"metadata": {"name": "any"}, "spec": {}}]}`
	answers["/api/v1/pods"] = strings.Replace(answers["/api/v1/pods"], `"priority": 2000000000,"containers"`, `"priority": 2000000000, "nodeName": "n1", "containers"`, 1)
	list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{})
	if err != nil || len(list.Failed()) != 2 {
		t.Fatalf("it lacks %v (%v)", list.Failed(), err)
	}
	want := []string{
		"DeviceClass my-gpus: others may claim devices of driver a by it, which gives GPUs: name it in gpuDeviceClasses of ValidatingAdmissionPolicy comb-claims, and of comb-pods",
		"DeviceClass any: its selectors name no driver, so others may be able to claim GPUs by it: name it in gpuDeviceClasses of ValidatingAdmissionPolicy comb-claims, and of comb-pods",
		"DeviceClass b: pods of others may ask for its devices as example.com/gpu: name it in gpuResources of ValidatingAdmissionPolicy comb-pods",
		"GPUs held by others proxy: in namespace kube-system, with 2 GPUs on n1: Comb gives no GPU there meanwhile: end them, or leave these nodes out of the cluster file",
		"claims of others one and 1 more: in namespace thief, of GPUs, and pods there may still name it: kubectl delete resourceclaim -n thief one two",
		"pods of others shares: in namespace claims, where it would be refused if it were made again, since it names the claim comb-1-0 of a job of Comb: no list lets it in: end it, and make it again without that",
		"pods of others jobs: in namespace class, where it would be refused if it were made again, since it has the PriorityClass comb-jobs: name class in priorityNamespaces of ValidatingAdmissionPolicy comb-pods, or end what is not to run there",
		"pods of others class: in namespace extended, where it would be refused if it were made again, since it asks for 1 deviceclass.resource.kubernetes.io/a: name extended in gpuNamespaces of ValidatingAdmissionPolicy comb-pods, or end what is not to run there",
		"pods of others copy: in namespace gpus, where it would be refused if it were made again, since it has the label comb.dev/job, which only Comb sets: no list lets it in: end it, and make it again without that",
		"pods of others calico-1 and 1 more: in namespace net, where it would be refused if it were made again, since it has priority 2000000000: name net in priorityNamespaces of ValidatingAdmissionPolicy comb-pods, or end what is not to run there",
		"pods of others plugin: in namespace operator, where it would be refused if it were made again, since it sets NVIDIA_VISIBLE_DEVICES: name operator in gpuNamespaces of ValidatingAdmissionPolicy comb-pods, or end what is not to run there",
		"pods of others image: in namespace runs, where it would be refused if it were made again, since it has the RuntimeClass nvidia, which gives it the GPUs that its image names: name runs in gpuNamespaces of ValidatingAdmissionPolicy comb-pods, or end what is not to run there",
		"pods of others train: in namespace thief, where it would be refused if it were made again, since it asks for 2 nvidia.com/gpu: name thief in gpuNamespaces of ValidatingAdmissionPolicy comb-pods, or end what is not to run there",
	}
	got := slices.DeleteFunc(list, func(c Check) bool { return c.OK }).Lines()
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The right to read service accounts is asked for the one to which it is given.
func TestNamedRight(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Spec struct {
				ResourceAttributes struct{ Resource, Name string }
			}
		}
		err := json.NewDecoder(r.Body).Decode(&asked)
		of := asked.Spec.ResourceAttributes
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status": {"allowed": %v}}`, err == nil && (of.Resource != "serviceaccounts" || of.Name == "default"))
	}))
	defer server.Close()
	c, err := newClient(&rest.Config{Host: server.URL}, "comb", &answers{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := checker{c}.checkRights(t.Context(), nil)
	if lacks := slices.DeleteFunc(list, func(c Check) bool { return c.OK }); err != nil || len(lacks) > 0 {
		t.Errorf("it lacks %v (%v)", lacks, err)
	}
}

// Before the policies are there, what others have is found by what they will name; and what
// may not be looked at is said.
func TestCheckOthersBefore(t *testing.T) {
	answers := whole()
	delete(answers, policies+podPolicy)
	delete(answers, policies+claimPolicy)
	answers["/api/v1/pods"] = `{"items": [{"metadata": {"namespace": "thief", "name": "train"}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": "2"}}}]}}]}`
	answers[groupPath+"/resourceclaims"] = `{"items": [{"metadata": {"namespace": "thief", "name": "one"}, "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}]}`
	answers[groupPath+"/deviceclasses"] = "403 no"
	list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{})
	text := strings.Join(slices.DeleteFunc(list, func(c Check) bool { return c.OK }).Lines(), "\n")
	for _, want := range []string{"pods of others train: in namespace thief", "claims of others one: in namespace thief",
		"deviceclasses of others: Comb may not list them in the whole cluster, so it is not known which"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v: it says\n%s\nand not %q", err, text, want)
		}
	}
}

// Namespaces of a cluster file that are missing, or in which Comb lacks rights, are named with what
// mends it.
func TestCheckSpaces(t *testing.T) {
	answers := whole()
	answers["/api/v1/namespaces/red"] = `{}`
	list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{Namespaces: []string{"red", "gone", "comb"}})
	if got := list.Failed().Lines(); err != nil || !slices.Equal(got, []string{"namespace gone: it is missing: kubectl create namespace gone"}) ||
		!list.Has("namespace", "red") {
		t.Errorf("%v: it says %q", err, got)
	}
	answers["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = `{"status": {"allowed": false}}`
	list, err = checker{cluster(t, answers)}.checkSpaces(t.Context(), nil, ClusterFile{Namespaces: []string{"red"}, SKUs: []cell.SKU{{DRA: cell.DRA{Class: "a"}}}})
	text := strings.Join(list.Lines(), "\n")
	for _, want := range []string{"namespace red: Comb lacks rights there: create pods, get pods, ", "delete resourceclaims: kubectl apply -n red -f deploy/kubernetes/team.yaml"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v: it says %s, and not %q", err, text, want)
		}
	}
}

// GPUs of a cluster file that the policies do not name are named before a server has the file.
func TestCheckClusterFile(t *testing.T) {
	skus := []cell.SKU{{Name: "H100", DRA: cell.DRA{Class: "own", Driver: "gpus.example"}}, {Name: "A", Resource: "other.com/gpu"},
		{Name: "B", Resource: "nvidia.com/gpu"}}
	answers := listing(t)
	answers[groupPath+"/deviceclasses"] = `{"items": [{"metadata": {"name": "mine"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == \"gpus.example\""}}]}}]}`
	list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{SKUs: skus})
	want := []string{
		"DeviceClass mine: others may claim devices of driver gpus.example by it, which gives GPUs: name it in gpuDeviceClasses of ValidatingAdmissionPolicy comb-claims, and of comb-pods",
		"cluster file skuTypes.H100: others may claim devices of class own: name it in gpuDeviceClasses of ValidatingAdmissionPolicy comb-claims, and of comb-pods",
		"cluster file skuTypes.A: pods of others may ask for other.com/gpu: name it in gpuResources of ValidatingAdmissionPolicy comb-pods",
	}
	if got := list.Failed().Lines(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: it lacks\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// All that a cluster lacks is named at once; what jobs run without does not count.
func TestCheckCluster(t *testing.T) {
	c := cluster(t, whole())
	list, err := c.CheckCluster(t.Context(), ClusterFile{})
	if err != nil || len(list.Failed()) > 0 || len(list) < 20 {
		t.Fatalf("a whole cluster has %d things, and lacks %s (%v)", len(list), list.Failed(), err)
	}
	lacking := maps.Clone(whole())
	delete(lacking, "/api/v1/namespaces/comb")
	delete(lacking, policyPath)
	lacking["/version"] = `{"major": "1", "minor": "29", "gitVersion": "v1.29.1"}`
	lacking["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = `{"status": {"allowed": false}}`
	if list, err = cluster(t, lacking).CheckCluster(t.Context(), ClusterFile{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"version v1.29.1: Comb needs 1.34 or later: upgrade the Kubernetes cluster",
		"namespace comb: it is missing: kubectl create namespace comb",
		"right list nodes, watch nodes, list pods of all namespaces, watch pods of all namespaces, create pods, get pods, list pods, watch pods, patch pods, delete pods, get pods/log, create pods/binding, create secrets, delete secrets, create configmaps, delete configmaps, create services, delete services: Comb lacks the right: kubectl apply -n comb -f deploy/kubernetes/rights.yaml",
		"API admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy: the API server does not serve it: it is older than Kubernetes 1.30, or was started without it (--runtime-config): switch it on, and kubectl apply -f deploy/kubernetes/admission.yaml",
	}
	if got := list.Failed().Lines(); !slices.Equal(got, want) {
		t.Errorf("it lacks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	optional := slices.DeleteFunc(list, func(c Check) bool { return !c.Optional })
	if text := optional.String(); len(optional) != len(optionalRights)+len(issuerPaths) || !strings.Contains(text, "right create pods/exec: Comb lacks the right; it is for comb job exec") ||
		!strings.Contains(text, "right get /openid/v1/jwks: Comb lacks the right; it is for --pod-image") {
		t.Errorf("optional are %q", text)
	}
}

// What the program looks for is what the file brings.
func TestAdmissionFile(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/kubernetes/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, pattern := range map[string]string{
		"the class":     fmt.Sprintf(`kind: PriorityClass\nmetadata: \{name: %s\}\n.*\nvalue: %d\npreemptionPolicy: Never\n`, pods.PriorityClass, pods.Priority),
		"pods":          fmt.Sprintf(`kind: ValidatingAdmissionPolicy\nmetadata: \{name: %s, annotations: \{%s: "%d"\}\}\nspec:\n  failurePolicy: Fail\n`, podPolicy, revisionNote, revision),
		"claims":        fmt.Sprintf(`kind: ValidatingAdmissionPolicy\nmetadata: \{name: %s, annotations: \{%s: "%d"\}\}\nspec:\n  failurePolicy: Fail\n`, claimPolicy, revisionNote, revision),
		"statuses":      fmt.Sprintf(`kind: ValidatingAdmissionPolicy\nmetadata: \{name: %s, annotations: \{%s: "%d"\}\}\nspec:\n  failurePolicy: Fail\n`, statusPolicy, revisionNote, revision),
		"the probe":     fmt.Sprintf(`expression: '!\("%s" in .*\n    reason: Forbidden\n    message: %s\n`, probeLabel, inForce),
		"the right":     fmt.Sprintf(`!authorizer.group\("%s"\).resource\("%s"\).check\("create"\).allowed\(\)`, writerGroup, writerResource),
		"the priority":  fmt.Sprintf(`object.spec.\?priority.orValue\(0\) >= %d `, pods.Priority),
		"the finalizer": fmt.Sprintf(`f.startsWith\("%s"\)`, pods.LabelPrefix),
		"the classes":   `(?s)gpuDeviceClasses, expression: '\["` + strings.Join(filed.classes, `","`) + `"\]'.*gpuDeviceClasses, expression: '\["` + strings.Join(filed.podClasses, `","`) + `"\]'`,
		"the resources": `gpuResources, expression: '\["` + strings.Join(filed.resources, `","`) + `"\]'`,
		"the variables": `deviceVariables, expression: '\["` + strings.Join(pods.DeviceVariables(), `","`) + `"\]'`,
	} {
		if !regexp.MustCompile(pattern).Match(text) {
			t.Errorf("%s is not in it: %s", name, pattern)
		}
	}
	for _, resource := range pods.Resources {
		if !regexp.MustCompile(`gpuResources, expression: '.*"` + regexp.QuoteMeta(resource[:strings.Index(resource, "/")+1])).Match(text) {
			t.Errorf("%s is let in", resource)
		}
	}
}
