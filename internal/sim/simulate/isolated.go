package simulate

import (
	"context"
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/spec/trace"
)

// Isolation says what sharing did to the jobs of one VC: their times in the shared
// cluster against those on a private cluster that is made of the VC's cells.
type Isolation struct {
	VC        cell.VCName
	Nodes     int32
	Jobs      int
	Different int            // jobs with another start or end
	Late      model.Duration // sum of how much later those ended that ended later
	Early     model.Duration // sum of how much earlier those ended that ended earlier
	First     string         // the first job by submission that differs, and how
}

// times are when a job began and ended.
type times struct{ start, end model.Time }

// Isolated replays a trace once with all VCs on one cluster, and then each VC alone
// on the nodes that are its share. Where VCs own cells every job must start and end
// at the same instant in both: what a team gets does not depend on others (the
// sharing anomaly of HiveD, OSDI'20, stated as an equality). The spec must divide a
// cluster in the short form with --vcs from-trace; faults and racks belong to one
// cluster and are refused.
func Isolated(ctx context.Context, spec Spec, t *Trace, o Options) ([]Isolation, error) {
	if isFile(spec.Cluster) || spec.VCs != "from-trace" || spec.Faults != "" || spec.Racks != 0 {
		return nil, fmt.Errorf("a comparison with private clusters needs --cluster NODESxGPUS and --vcs from-trace, without --faults and --racks")
	}
	if err := t.Keep(); err != nil {
		return nil, err
	}
	p, err := spec.read(t)
	if err != nil {
		return nil, err
	}
	shapes, err := trace.ParseNodeGroups(spec.Cluster)
	if err != nil {
		return nil, err
	}
	c := comparison{plan: p, spec: &spec, o: o, shape: shapes[0]}
	if c.shared, err = c.times(ctx, p, t); err != nil {
		return nil, err
	}
	out := make([]Isolation, len(p.config.VCs))
	for i := range out {
		if out[i], err = c.alone(ctx, t, i); err != nil {
			return nil, fmt.Errorf("virtual cluster %q alone: %w", p.config.VCs[i].Name, err)
		}
	}
	return out, nil
}

// comparison is what the private runs of Isolated have in common.
type comparison struct {
	plan   *plan
	spec   *Spec
	o      Options
	shape  trace.NodeGroup // of the nodes
	shared map[string]times
}

// alone runs the i-th VC on a cluster of its own, and compares.
func (c *comparison) alone(ctx context.Context, t *Trace, i int) (Isolation, error) {
	vc, own := c.plan.config.VCs[i], c.plan.config.Cluster.VCs[i].Quota[0].Number
	l := Layout{Count: c.spec.Placement == "count", CountQuota: c.spec.Quota == "count"}
	d := Isolation{VC: vc.Name, Nodes: own}
	if l.Count || l.CountQuota {
		d.Nodes /= c.shape.GPUs
	}
	private := *c.plan
	var err error
	private.config, err = l.Cluster([]trace.NodeGroup{{Nodes: d.Nodes, GPUs: c.shape.GPUs, Type: c.shape.Type}}, []Share{{vc.Name, []int32{own}}}, vc)
	if err != nil {
		return d, err
	}
	part := t.only(vc.Name)
	alone, err := c.times(ctx, &private, part)
	if err != nil {
		return d, err
	}
	d.Jobs = len(part.kept)
	for k := range part.kept {
		id := part.kept[k].ID
		d.compare(id, c.shared[id], alone[id])
	}
	return d, nil
}

// times runs a plan and returns when each job began and ended, by its id.
func (c *comparison) times(ctx context.Context, p *plan, t *Trace) (map[string]times, error) {
	all := make(map[string]times, len(t.kept))
	o := c.o
	o.Ended = func(r *metrics.Row) { all[r.TraceID] = times{r.Start, r.End} }
	_, err := p.run(ctx, c.spec, t, o)
	return all, err
}

// compare counts one job.
func (d *Isolation) compare(id string, shared, alone times) {
	if shared == alone {
		return
	}
	if d.Different++; d.First == "" {
		d.First = fmt.Sprintf("%s: %s to %s shared, %s to %s alone", id, span(shared.start), span(shared.end), span(alone.start), span(alone.end))
	}
	if late := model.Duration(shared.end - alone.end); late > 0 {
		d.Late += late
	} else {
		d.Early -= late
	}
}

// span writes an instant as seconds since Origin.
func span(t model.Time) string {
	return fmt.Sprintf("%.1f s", float64(t-Origin)/float64(model.Second))
}
