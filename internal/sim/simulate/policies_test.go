package simulate_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

var update = flag.Bool("update", false, "rewrite testdata/simulate/policies.txt")

// mixed writes a generated trace with apps, classes, deadlines and estimates, from two
// teams, at a load that makes most jobs wait.
func mixed(t *testing.T, seed uint64, jobs int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	w, err := trace.Create(file, trace.Comb)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trace.Generate(trace.Spec{Kind: "poisson", Jobs: jobs, Seed: seed, LoadMilli: 1300, AppJobs: 4, Survey: true, Mix: [3]int64{35, 35, 30},
		Cluster: []trace.NodeGroup{{Nodes: 6, GPUs: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for j := range all {
		j.VC, j.Duration = []string{"red", "blue", "blue"}[n%3], max(j.Duration/8, model.Second)
		j.Submit /= 8
		for i := range j.Deadlines {
			j.Deadlines[i].After = max(j.Deadlines[i].After/8, model.Duration(i+1))
		}
		n++
		if err := w.Write(&j); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// table of speeds of the golden reports: those of neighbours and places.
const goldenSpeeds = `{"comb_speeds": 1, "localities": {"*": {"node": 0.95, "rack": 0.8}}, "host": {"*": 0.98}}`

// under simulates a trace under a policy. A run that does not end by itself within
// minutes fails instead of hanging.
func under(t *testing.T, spec simulate.Spec, file string) *simulate.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := simulate.Run(ctx, spec, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New})
	if err != nil {
		t.Fatalf("%s: %v", spec.Policy, err)
	}
	return r
}

// A golden report for each policy: a change of any figure is a difference to read.
// "go test ./internal/sim/simulate -run GoldenReports -update" writes it.
func TestGoldenReports(t *testing.T) {
	trace, speeds := mixed(t, 3, 300), written(t, "speeds.json", goldenSpeeds)
	var b strings.Builder
	b.WriteString("# 300 generated jobs of two virtual clusters on 6x4 GPUs under each policy, with its defaults:\n# a restart costs log2:10, users estimate as in the survey, places and neighbours cost speed.\n")
	for _, p := range policy.Names() {
		r := under(t, simulate.Spec{Cluster: "6x4", VCs: "from-trace", Policy: p, RestartCost: "log2:10", Noise: "survey", Throughputs: speeds, Seed: 1}, trace)
		fmt.Fprintf(&b, "\n%s\n", p)
		writeFigures(t, &b, "  ", &r.Summary.Figures)
		for _, vc := range []string{"blue", "red"} {
			f := r.Summary.VC[vc]
			fmt.Fprintf(&b, "  %s: jobs %d, finished %d, jct_avg_s %s, rho_max %s\n", vc, f.Jobs, f.Finished, number(t, f.JCTAvg), number(t, f.RhoMax))
		}
		fmt.Fprintf(&b, "  events %d, records %d, refused %d\n", r.Summary.Events, r.Records, r.Refused)
	}
	name := filepath.Join("..", "..", "..", "testdata", "simulate", "policies.txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("reports differ from %s in lines:\n%sread them; -update writes the file", name, changes(string(want), got))
	}
}

// writeFigures writes all figures, four on a line.
func writeFigures(t *testing.T, b *strings.Builder, indent string, f *metrics.Figures) {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.Trim(string(text), "{}"), ",")
	for i, kv := range list {
		sep := ", "
		if i%4 == 3 || i == len(list)-1 {
			sep = "\n"
		}
		if i%4 == 0 {
			b.WriteString(indent)
		}
		b.WriteString(strings.Replace(strings.ReplaceAll(kv, `"`, ""), ":", " ", 1) + sep)
	}
}

func number(t *testing.T, n metrics.Number) string {
	t.Helper()
	text, err := n.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// changes shows the lines that differ, each with its policy.
func changes(want, got string) string {
	a, b := blocks(want), blocks(got)
	var out strings.Builder
	for _, p := range slices.Sorted(maps.Keys(merged(a, b))) {
		for i := range max(len(a[p]), len(b[p])) {
			was, is := at(a[p], i), at(b[p], i)
			if was != is {
				fmt.Fprintf(&out, "%s\n  -%s\n  +%s\n", p, was, is)
			}
		}
	}
	return out.String()
}

// blocks are the lines of each policy.
func blocks(text string) map[string][]string {
	out := map[string][]string{}
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		out[lines[0]] = lines
	}
	return out
}

func merged(a, b map[string][]string) map[string][]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// When arrivals stop, every policy drains every queue: all jobs end, with nodes and
// devices that fail and come back meanwhile, with costs of starts, wrong estimates, and a
// cluster that is asked for more than it has.
func TestEveryPolicyDrainsEveryQueue(t *testing.T) {
	for _, p := range policy.Names() {
		t.Run(p, func(t *testing.T) {
			for seed := range uint64(3) {
				spec := simulate.Spec{Cluster: "6x4", VCs: "from-trace", Policy: p, RestartCost: "20", Noise: "survey", Faults: "40000,900", Seed: seed}
				if seed == 1 {
					spec.Shape, spec.Faults = simulate.GPUShape, ""
				}
				r := under(t, spec, mixed(t, 10+seed, 150))
				s := &r.Summary
				if r.Refused != 0 || s.Jobs != 150 || s.Finished != s.Jobs {
					t.Errorf("seed %d: of %d jobs %d ended, %d were refused (%v)", seed, s.Jobs, s.Finished, r.Refused, r.Refusals)
				}
				if waited := float64(s.QueueAvg); math.IsNaN(waited) || waited < 1 {
					t.Errorf("seed %d: jobs waited %g s on average: that checks little", seed, waited)
				}
			}
		})
	}
}
