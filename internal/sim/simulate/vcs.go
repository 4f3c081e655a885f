package simulate

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/trace"
)

// Demand is what one VC of a trace asks for in all.
type Demand struct {
	Name       cell.VCName
	Jobs       int
	Largest    int32 // gang, in GPUs
	GPUSeconds int64
}

// Demands sums a trace by VC, in order of name.
func Demands(jobs iter.Seq2[trace.Job, error]) ([]Demand, error) {
	at := map[string]*Demand{}
	var out []*Demand
	for j, err := range jobs {
		if err != nil {
			return nil, err
		}
		d := at[j.VC]
		if d == nil {
			d = &Demand{Name: cell.VCName(j.VC)}
			at[j.VC] = d
			out = append(out, d)
		}
		d.Jobs++
		d.Largest = max(d.Largest, j.GPUs)
		d.GPUSeconds += int64(j.Duration) / 1_000_000 * int64(j.GPUs)
	}
	slices.SortFunc(out, func(a, b *Demand) int { return strings.Compare(string(a.Name), string(b.Name)) })
	list := make([]Demand, len(out))
	for i, d := range out {
		list[i] = *d
	}
	return list, nil
}

// Divide first gives each VC the nodes of its largest gang. Each further node goes to the VC
// with the most GPU-seconds per node so far, ties by name. It is an error when the largest
// gangs need more nodes than there are.
func Divide(demands []Demand, nodes, gpus int32) ([]Share, error) {
	var shares []Share
	need := int32(0)
	for _, d := range demands {
		n := (d.Largest + gpus - 1) / gpus
		need += n
		shares = append(shares, Share{Name: d.Name, Own: []int32{n}})
	}
	if need > nodes {
		return nil, fmt.Errorf("the largest gangs of the trace's %d virtual clusters need %d nodes of %d GPUs, but there are %d: give the cluster more nodes, or leave out --vcs from-trace", len(demands), need, gpus, nodes)
	}
	for ; len(shares) > 0 && need < nodes; need++ {
		best := 0
		for i := range shares {
			if perNode(demands[i].GPUSeconds, shares[i].Own[0]) > perNode(demands[best].GPUSeconds,
				shares[best].Own[0]) {
				best = i
			}
		}
		shares[best].Own[0]++
	}
	return shares, nil
}

// perNode is GPU-seconds per node, in thousandths of a GPU-second.
func perNode(seconds int64, nodes int32) int64 { return seconds * 1000 / int64(max(nodes, 1)) }

// missingVCs is an error that names virtual clusters of the trace's jobs which the cluster
// lacks; nil when it lacks none.
func (p *plan) missingVCs(t *Trace) error {
	demands, err := Demands(t.each())
	if err != nil {
		return err
	}
	var lacks []string
	without := 0
	for i := range demands {
		d := &demands[i]
		switch {
		case d.Name == "":
			without = d.Jobs
		case !slices.ContainsFunc(p.config.VCs, func(v model.VCConfig) bool { return v.Name == d.Name }):
			lacks = append(lacks, fmt.Sprintf("%s (%d)", d.Name, d.Jobs))
		}
	}
	var wrong problems
	if len(lacks) > shownVCs {
		lacks = append(lacks[:shownVCs], fmt.Sprintf("and %d others", len(lacks)-shownVCs))
	}
	if len(lacks) > 0 {
		wrong.add(fmt.Errorf("the cluster file lacks virtual clusters of the trace %s (with their jobs): %s; it has %s: name them alike, or leave out the file's with --cluster NODESxGPUS",
			t.Path, strings.Join(lacks, ", "), vcNames(p.config)))
	}
	if without > 0 {
		wrong.add(fmt.Errorf("the trace %s names no virtual cluster for %d of its jobs: --vc NAME puts them into one; the cluster file has %s", t.Path, without, vcNames(p.config)))
	}
	return wrong.all()
}

// shownVCs is how many virtual clusters an error names.
const shownVCs = 10
