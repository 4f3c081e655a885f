package simulate_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/simulate"
)

// speedTable makes a k80 so many hundredths as fast as a v100.
func speedTable(k80 int) string {
	return fmt.Sprintf(`{"comb_speeds": 1, "types": {"k80": {"m": %d.%02d}}, "gpus": {"m": {"1": 10, "2": 19, "4": 34, "8": 50}}}`, k80/100, k80%100)
}

// mixedDeadlines are jobs of 1 to 8 GPUs, each second one elastic, which run for half an hour to
// four hours on v100s and have deadlines that most can meet on one of two types only, or with
// more GPUs.
func mixedDeadlines() string {
	out := []string{`{"comb_trace":1}`}
	for i := range 240 {
		run := 1800 + 977*i%12600
		gpus := 1 << (i % 4)
		more := fmt.Sprintf(`,"vc":"default","model":"m","class":"strict","deadlines":[{"after_us":%d,"value":1}]`, int64(run)*int64(150+37*i%350)/100*1_000_000)
		if i%2 == 1 {
			more += `,"gpus_min":1,"gpus_max":8`
		}
		out = append(out, line(fmt.Sprintf("j%d", i), 400*i, run, gpus, more))
	}
	return strings.Join(out, "\n")
}

// said is what chronus noted of the jobs of a run.
type said struct {
	promised map[model.JobID]string // the type
	broken   map[string]int         // guarantees, by type
	early    int                    // promises of another size, or on the slow type
	miss     float64
	finished int
}

func underChronus(t *testing.T, spec simulate.Spec, file string) said {
	t.Helper()
	s := said{promised: map[model.JobID]string{}, broken: map[string]int{}}
	count := func(b engine.Batch) {
		for _, r := range b.Records {
			n, ok := r.Event.(model.Noted)
			if !ok || n.Job == 0 {
				continue
			}
			if at := bytes.Index(n.Data, []byte("promised ")); at >= 0 {
				if s.promised[n.Job] == "" && bytes.Contains(n.Data, []byte("takes ")) {
					s.early++
				}
				words := strings.Fields(string(n.Data[at:]))
				s.promised[n.Job] = words[2]
			}
			if bytes.Contains(n.Data, []byte("demoted outran")) || bytes.Contains(n.Data, []byte("demoted its guarantee")) {
				s.broken[s.promised[n.Job]]++
			}
		}
	}
	r, err := simulate.Run(context.Background(), spec, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New, OnBatch: count})
	if err != nil {
		t.Fatal(err)
	}
	s.miss, s.finished = float64(r.Summary.SLOMissRate), int(r.Summary.Finished)
	return s
}

// Where the table is the truth, what is extrapolated from a profile is, too: no guarantee is
// broken, on either type and with any size, though with noise no declaration is right.
func TestChronusExtrapolatesExactly(t *testing.T) {
	file, table := written(t, "jobs.jsonl", mixedDeadlines()), written(t, "speeds.json", speedTable(40))
	for _, p := range []string{"chronus", "chronus:profiler=1"} {
		spec := simulate.Spec{Cluster: "3x8:k80,3x8:v100", Policy: published(p), Throughputs: table}
		if p != "chronus" {
			spec.Noise = "uniform:50"
		}
		s := underChronus(t, spec, file)
		types := map[string]int{}
		for _, of := range s.promised {
			types[of]++
		}
		t.Logf("%s: %v promised, %d of them extrapolated, broken %v, %.3f missed", p, types, s.early, s.broken, s.miss)
		if s.finished != 240 || len(s.broken) > 0 {
			t.Errorf("%s: %d of 240 jobs ended, guarantees broken: %v", p, s.finished, s.broken)
		}
	}
}

// clusterTable is the same cluster with what is believed of its speeds.
func clusterTable(k80 int) string {
	var b strings.Builder
	b.WriteString("physicalCluster:\n  skuTypes:\n    k80: {gpu: 1, cpu: 4, memory: 16Gi}\n    v100: {gpu: 1, cpu: 4, memory: 16Gi}\n")
	b.WriteString("  cellTypes:\n    k80-node: {childCellType: k80, childCellNumber: 8, isNodeLevel: true}\n    v100-node: {childCellType: v100, childCellNumber: 8, isNodeLevel: true}\n  physicalCells:\n")
	for i := range 6 {
		fmt.Fprintf(&b, "  - {cellType: %s-node, cellAddress: n%d}\n", []string{"k80", "v100"}[i/3], i)
	}
	b.WriteString("virtualClusters:\n  default:\n    virtualCells:\n    - {cellType: k80-node, cellNumber: 3}\n    - {cellType: v100-node, cellNumber: 3}\n")
	fmt.Fprintf(&b, "throughputs:\n  m:\n    k80: {1: %d, 2: %d, 4: %d, 8: %d}\n    v100: {1: 1000, 2: 1900, 4: 3400, 8: 5000}\n", 10*k80, 19*k80, 34*k80, 50*k80)
	return b.String()
}

// Where the table is wrong: most are measured on the k80s, which come first by name. What is an
// error on the safe side, or within the margin of safety, breaks nothing. If k80s are much faster
// than believed, who holds leases of the v100s needs longer there than was extrapolated: such
// guarantees are broken, of nobody else, and these jobs go on as best effort until they end.
func TestChronusExtrapolatesWrongly(t *testing.T) {
	file := written(t, "jobs.jsonl", mixedDeadlines())
	truths := []int{60, 28, 40, 42}
	if testing.Short() {
		truths = truths[:1]
	}
	for _, truth := range truths {
		spec := simulate.Spec{Cluster: written(t, "cluster.yaml", clusterTable(40)), Policy: "chronus:profiler=1",
			Throughputs: written(t, "speeds.json", speedTable(truth)), Noise: "uniform:50"}
		s := underChronus(t, spec, file)
		t.Logf("believed 0.40, true 0.%d: broken %v, %.3f missed", truth, s.broken, s.miss)
		if s.finished != 240 || s.broken["k80"] > 0 || (s.broken["v100"] > 0) != (truth == 60) {
			t.Errorf("true 0.%d: %d of 240 jobs ended, guarantees broken: %v", truth, s.finished, s.broken)
		}
	}
}
