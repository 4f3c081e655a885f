package simulate_test

import (
	"context"
	"testing"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// located is what a run made of the gangs of 2 to 8 GPUs of a trace.
type located struct {
	fragmentation float64 // mean delay for want of a place, in seconds
	nodes         float64 // mean nodes that a gang is on
	bySize        map[int32]float64
}

func locate(t *testing.T, file, policyText string) located {
	t.Helper()
	out := located{bySize: map[int32]float64{}}
	n, of := 0, map[int32]int{}
	_, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "16x8", Policy: policyText, Shape: simulate.GPUShape}, &simulate.Trace{Path: file},
		simulate.Options{Policies: policy.New, Ended: func(r *metrics.Row) {
			if r.GPUs < 2 || r.GPUs > 8 {
				return
			}
			n, of[int32(r.GPUs)] = n+1, of[int32(r.GPUs)]+1
			out.fragmentation += float64(r.Fragmentation) / 1e6
			out.nodes += float64(r.Nodes)
			out.bySize[int32(r.GPUs)] += float64(r.Fragmentation) / 1e6
		}})
	if err != nil || n < 100 {
		t.Fatalf("%d gangs of several GPUs: %v", n, err)
	}
	out.fragmentation, out.nodes = out.fragmentation/float64(n), out.nodes/float64(n)
	for size := range out.bySize {
		out.bySize[size] /= float64(of[size])
	}
	return out
}

// Locality that relaxes cuts the delay for want of a place and spreads gangs over more
// nodes; one that never does keeps each gang on one node, and the larger wait longer.
func TestRelaxing(t *testing.T) {
	file := generatedTrace(t, trace.Spec{Kind: "philly", Jobs: 3000, Seed: 3, LoadMilli: 950, Cluster: []trace.NodeGroup{{Nodes: 16, GPUs: 8}}})
	never, soon := locate(t, file, "philly:node=never"), locate(t, file, "philly:node=60,rack=60")
	t.Logf("never %+v, soon %+v", never, soon)
	if never.nodes != 1 || soon.nodes <= never.nodes {
		t.Errorf("gangs are on %.3f nodes where locality never relaxes, and on %.3f where it does", never.nodes, soon.nodes)
	}
	if soon.fragmentation > never.fragmentation/2 {
		t.Errorf("the delay for want of a place is %.0f s where locality never relaxes, and %.0f s where it does", never.fragmentation, soon.fragmentation)
	}
	if b := never.bySize; b[2] > b[4] || b[4] > b[8] || b[8] == 0 {
		t.Errorf("the delay does not grow with the size of gangs: %v", b)
	}
}
