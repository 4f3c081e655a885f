package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/spec/config"
	"github.com/combsched/comb/internal/test/simapi"
)

// What a Kubernetes cluster lacks of a cluster file is told all at once: nodes, rights in
// namespaces, and those to claim devices.
func TestLacksAreToldAtOnce(t *testing.T) {
	const file = `
physicalCluster:
  skuTypes: {T4: {gpu: 1, cpu: 1, memory: 1Gi, dra: {deviceClass: gpu, driver: gpu.sim.test, device: "gpu-%d", attribute: uuid}}}
  cellTypes: {T4-NODE: {childCellType: T4, childCellNumber: 1, isNodeLevel: true}}
  physicalCells: [{cellType: T4-NODE, cellAddress: there}, {cellType: T4-NODE, cellAddress: away}]
virtualClusters:
  red: {namespace: team-red, virtualCells: [{cellType: T4-NODE, cellNumber: 2}]}
`
	c, _, problems := config.Parse("cluster.yaml", []byte(file), config.Policies{Names: policy.Names(), New: policy.New, Named: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	sim := simapi.New(1)
	t.Cleanup(sim.Close)
	sim.AddNode("there")
	sim.Review(func(string) (allowed, answers bool) { return false, true })
	dir := t.TempDir()
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", sim.URL)
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	client, err := api.Open(api.Options{Kubeconfig: filepath.Join(dir, "kubeconfig"), Namespace: "comb", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := kube.New(kube.Options{API: client, Dir: filepath.Join(dir, "jobs"), KeyFile: filepath.Join(dir, "key"), Cluster: "c", Tell: func(model.Fact) {}, Limits: kube.Within(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pods.Close)
	d := &daemon{pods: pods, log: log}
	err = d.checkNodes(c.Config)
	for _, want := range []string{"lacks nodes of the cluster file: away;", "virtual cluster red: namespace team-red: Comb lacks rights", "skuTypes.T4.dra: Comb lacks rights"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("it is refused without %q: %v", want, err)
		}
	}
}
