package api

import (
	"slices"
	"strings"
	"testing"
)

// Nodes of a cluster file that are not there, or that DaemonSets leave less than it says, are
// named.
func TestRooms(t *testing.T) {
	answers := whole()
	answers["/api/v1/nodes"] = `{"apiVersion": "v1", "kind": "NodeList", "items": [
		{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "4Gi"}}},
		{"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "4", "memory": "4Gi"}}}]}`
	answers["/api/v1/pods"] = `{"apiVersion": "v1", "kind": "PodList", "items": [
		{"metadata": {"namespace": "mon", "name": "exporter", "ownerReferences": [{"kind": "DaemonSet", "controller": true}]},
			"spec": {"nodeName": "n2", "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}},
		{"metadata": {"namespace": "mia", "name": "web"}, "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "2"}}}]}}]}`
	rooms := []Room{{"n1", 4000, 4096}, {"n2", 4000, 3072}, {"n3", 1, 1}, {"n4", 1, 1}}
	list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{Rooms: rooms})
	want := []string{
		"nodes of the cluster file: the Kubernetes cluster has none named n3, n4: take them out of the file, or let them join",
		"nodes with less room: for jobs they have less than the cluster file says, since pods of DaemonSets ask for the rest: n2 (3.5 CPUs of 4): " +
			"lower cpu and memory in skuTypes, else jobs that ask for all of such a node are refused there",
	}
	if got := slices.DeleteFunc(slices.Clone(list), func(c Check) bool { return c.OK }).Lines(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: it says\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(list.Failed()) != 1 {
		t.Errorf("failed are %v", list.Failed())
	}
	answers["/api/v1/nodes"] = "403 no"
	if list, err := cluster(t, answers).CheckCluster(t.Context(), ClusterFile{Rooms: rooms}); err != nil || len(list.Failed()) > 0 {
		t.Errorf("without the right to read nodes: %v, %v", list.Failed(), err)
	}
}
