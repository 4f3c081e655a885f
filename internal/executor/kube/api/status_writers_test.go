package api

import (
	"slices"
	"strings"
	"testing"
)

// Accounts besides Kubernetes' own that may say that a pod of a job has ended are named, in each
// namespace where no policy refuses it.
func TestStatusWriters(t *testing.T) {
	answers := whole()
	answers["/api/v1/namespaces/red"] = `{}`
	answers["/api/v1/namespaces/blue"] = `{"metadata": {"labels": {"comb.dev/guard": "status"}}}`
	answers[rolePath+"/clusterroles"] = `{"items": [
		{"metadata": {"name": "cluster-admin"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
		{"metadata": {"name": "edit"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]},
		{"metadata": {"name": "one"}, "rules": [{"apiGroups": [""], "resources": ["pods/status"], "resourceNames": ["x"], "verbs": ["patch"]}]},
		{"metadata": {"name": "reads"}, "rules": [{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"]}]},
		{"metadata": {"name": "lb"}, "rules": [{"apiGroups": [""], "resources": ["*/status"], "verbs": ["patch"]}]}]}`
	answers[rolePath+"/clusterrolebindings"] = `{"items": [
		{"metadata": {"name": "admins"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [{"kind": "User", "name": "ops"}]},
		{"metadata": {"name": "lb"}, "roleRef": {"kind": "ClusterRole", "name": "lb"}, "subjects": [{"kind": "ServiceAccount", "name": "lb", "namespace": "net"},
			{"kind": "ServiceAccount", "name": "gc", "namespace": "kube-system"}, {"kind": "Group", "name": "system:nodes"}]}]}`
	answers[rolePath+"/namespaces/red/roles"] = `{"items": [{"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]}`
	answers[rolePath+"/namespaces/red/rolebindings"] = `{"items": [
		{"metadata": {"name": "team"}, "roleRef": {"kind": "Role", "name": "all"}, "subjects": [{"kind": "User", "name": "mia"}]},
		{"metadata": {"name": "lead"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [{"kind": "Group", "name": "leads"}]},
		{"metadata": {"name": "reads"}, "roleRef": {"kind": "ClusterRole", "name": "reads"}, "subjects": [{"kind": "User", "name": "leo"}]},
		{"metadata": {"name": "edits"}, "roleRef": {"kind": "ClusterRole", "name": "edit"}, "subjects": [{"kind": "User", "name": "ada"}]},
		{"metadata": {"name": "ones"}, "roleRef": {"kind": "ClusterRole", "name": "one"}, "subjects": [{"kind": "User", "name": "bo"}]}]}`
	lines := func() []string {
		list, err := checker{cluster(t, answers)}.checkStatusWriters(t.Context(), []string{"red", "blue", "gone"})
		if err != nil {
			t.Fatal(err)
		}
		return list.Lines()
	}
	want := []string{
		"right of others patch pods/status: in namespace comb service account net/lb (clusterrolebinding lb) may say that a pod of a job has ended, while it runs on: take the right away, or kubectl label namespace comb comb.dev/guard=status",
		"right of others patch pods/status: in namespace red user mia (rolebinding team), group leads (rolebinding lead), service account net/lb (clusterrolebinding lb) may say that a pod of a job has ended, while it runs on: take the right away, or kubectl label namespace red comb.dev/guard=status",
	}
	if got := lines(); !slices.Equal(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	answers[rolePath+"/clusterroles"] = "403 no"
	if got := lines(); len(got) != 1 || !strings.HasPrefix(got[0], "clusterroles of others: Comb may not list them in the whole cluster, so it is not known which accounts may say") {
		t.Errorf("without the right to look it says %q", got)
	}
}
