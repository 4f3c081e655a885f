package simulate

import (
	"context"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/metrics"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/trace"
)

// Isolation says what sharing did to the jobs of one VC: their times in the shared
// cluster against those on a private cluster that is made of the VC's cells.
type Isolation struct {
	VC        cell.VCName
	Nodes     int32
	Jobs      int
	Different int            // jobs whose start or end differs
	Late      sched.Duration // sum of how much later those ended that ended later
	Early     sched.Duration // sum of how much earlier those ended that ended earlier
	First     string         // the first job by submission that differs, and how
}

// times are when a job began and ended.
type times struct{ start, end sched.Time }

// Isolated replays a trace once with all VCs on one cluster, and then each VC of
// those named (none: all) alone on the nodes that are its share. Where VCs own cells
// every job must start and end at the same instant in both: what a team gets does not
// depend on others (the sharing anomaly of HiveD, OSDI'20, stated as an equality).
// The spec must divide a cluster in the short form with --vcs from-trace; faults and
// racks belong to one cluster and are refused.
func Isolated(ctx context.Context, spec Spec, t *Trace, o Options, vcs ...cell.VCName) ([]Isolation, error) {
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
	shapes, err := trace.ParseShapes(spec.Cluster)
	if err != nil {
		return nil, err
	}
	shared, err := p.times(ctx, &spec, t, o)
	if err != nil {
		return nil, err
	}
	var out []Isolation
	for i := range p.config.VCs {
		name := p.config.VCs[i].Name
		if len(vcs) > 0 && !slices.Contains(vcs, name) {
			continue
		}
		own := p.config.Cluster.VCs[i].Quota[0].Number
		if owns := (spec.Placement == "count" || spec.Quota == "count"); owns {
			own /= shapes[0].GPUs
		}
		one, err := p.private(&spec, i, trace.Shape{Nodes: own, GPUs: shapes[0].GPUs, Type: shapes[0].Type})
		if err != nil {
			return nil, err
		}
		part := t.only(name)
		alone, err := one.times(ctx, &spec, part, o)
		if err != nil {
			return nil, fmt.Errorf("virtual cluster %q alone: %w", name, err)
		}
		d := Isolation{VC: name, Nodes: own, Jobs: len(part.kept)}
		for k := range part.kept {
			d.compare(part.kept[k].ID, shared[part.kept[k].ID], alone[part.kept[k].ID])
		}
		out = append(out, d)
	}
	return out, nil
}

// private is the plan of the i-th VC alone on nodes of its own.
func (p *plan) private(spec *Spec, i int, own trace.Shape) (*plan, error) {
	l := Layout{Count: spec.Placement == "count", CountQuota: spec.Quota == "count"}
	one := *p
	share := Share{Name: p.config.VCs[i].Name, Own: []int32{p.config.Cluster.VCs[i].Quota[0].Number}}
	var err error
	one.config, err = l.Cluster([]trace.Shape{own}, []Share{share}, p.config.VCs[i])
	return &one, err
}

// times runs a plan and returns when each job began and ended.
func (p *plan) times(ctx context.Context, spec *Spec, t *Trace, o Options) (map[string]times, error) {
	all := make(map[string]times, len(t.kept))
	o.Ended = func(r *metrics.Row) { all[r.TraceID] = times{r.Start, r.End} }
	_, err := p.run(ctx, spec, t, o)
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
	if late := sched.Duration(shared.end - alone.end); late > 0 {
		d.Late += late
	} else {
		d.Early -= late
	}
}

// span is an instant in seconds of the run.
func span(t sched.Time) string {
	return fmt.Sprintf("%.1f s", float64(t-Origin)/float64(sched.Second))
}
