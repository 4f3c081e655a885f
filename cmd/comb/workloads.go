package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/workloads"
)

// overPods makes the executor of workloads of others, over that of Comb's own pods.
func (d *daemon) overPods() *workloads.Executor {
	return workloads.New(workloads.Options{API: d.kube, Own: d.pods, Cluster: kube.Label(d.pods), Tell: d.live.Tell,
		Give: func(ctx context.Context, c model.Command) engine.Reply { return d.live.Do(ctx, c, nil) },
		Read: d.readState, LookAt: func(node string) { kube.LookAtNode(d.pods, node) },
		Resource: resourceOf, Log: d.log,
		WhyEnded: func(a model.Action) string {
			return d.whyEnded(kube.Ending{Attempt: a.Attempt, Cause: a.Cause, By: a.By})
		}})
}

// readState reads the present state; false while there is none.
func (d *daemon) readState(f func(*core.State)) bool {
	r := d.replica.Load()
	return r != nil && r.Read(context.Background(), 0, f) == nil
}

// resourceOf is how a device plugin calls the devices of a SKU where its cluster file does not say.
func resourceOf(s cell.SKU) string {
	usual := map[cell.DeviceKind]string{cell.NVIDIA: "nvidia.com/gpu", cell.AMD: "amd.com/gpu",
		cell.TPU: "google.com/tpu"}
	return cmp.Or(s.Resource, usual[s.Device])
}

// checkWorkloads refuses workloads in the namespace of Comb's own pods.
func (d *daemon) checkWorkloads(c *model.Config) error {
	if d.kube == nil {
		return nil
	}
	vc, both := model.WorkloadVCs(c)[d.kube.Namespace()]
	if !both {
		return nil
	}
	return fmt.Errorf("virtual cluster %s: workloads.namespaces: namespace %s is the server's own, with the pods of "+
		"Comb's jobs; name another", vc, d.kube.Namespace())
}

// leftOn names a pod of a workload that is left on a node; see kube.Options.
func (d *daemon) leftOn(node string) (pod string, known bool) {
	if w := d.workloads.Load(); w != nil {
		return w.LeftOn(node)
	}
	return "", false
}

// cameUp has it told again what runs of workloads on a node that is up again.
func (d *daemon) cameUp(node string) {
	if w := d.workloads.Load(); w != nil {
		w.CameUp(node)
	}
}

// workloadSpaces are the namespaces whose pods of others are jobs, in the present configuration.
func (d *daemon) workloadSpaces() (names []string) {
	d.readState(func(s *core.State) {
		if c := s.Config(); c != nil {
			names = slices.Sorted(maps.Keys(model.WorkloadVCs(c)))
		}
	})
	return names
}
