package simulate

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/trace"
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

// Divide gives each VC first the nodes of its largest gang, and then each node that
// is left to the VC with the most GPU-seconds for each node that it has, ties by
// name. It is an error when the largest gangs need more nodes than there are.
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
			if perNode(demands[i].GPUSeconds, shares[i].Own[0]) > perNode(demands[best].GPUSeconds, shares[best].Own[0]) {
				best = i
			}
		}
		shares[best].Own[0]++
	}
	return shares, nil
}

// perNode is GPU-seconds for each node, as a fraction that compares exactly enough:
// in thousandths of a GPU-second.
func perNode(seconds int64, nodes int32) int64 { return seconds * 1000 / int64(max(nodes, 1)) }
