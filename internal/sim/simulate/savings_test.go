package simulate_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// savingRuns are what is compared with the first: the same jobs on the same nodes.
var savingRuns = []string{"philly", "philly:early=stop", "philly:early=stop,epsilon=0.02", "philly:early=stop,epsilon=0.05",
	"philly:probe=2", "philly:probe=2,early=stop,epsilon=0.05", "chronus:profiler=off", "chronus:profiler=1", "chronus:profiler=4"}

// flattening is a generated trace whose jobs report losses that flatten.
func flattening(t *testing.T) string {
	t.Helper()
	return generatedTrace(t, trace.Spec{Kind: "philly", Jobs: 1000, Seed: 1, LoadMilli: 900, Cluster: []trace.NodeGroup{{Nodes: 16, GPUs: 8}}, Loss: true, Elastic: 4})
}

// retryRuns retry failures in vain, retry none of the user's making, and let them show on
// a small pool first.
var retryRuns = []string{"philly", "philly:permanent=1", "philly:permanent=1,probe=2"}

// saving runs the trace under one policy.
func saving(t *testing.T, file, policy, failures string) *metrics.Summary {
	t.Helper()
	return &run(t, file, simulate.Spec{Cluster: "16x8", Policy: published(policy), Failures: failures}).Summary
}

// heldHours is the GPU-time that jobs held, in hours.
func heldHours(s *metrics.Summary) float64 {
	return float64(s.GPUUtilization) * 16 * 8 * float64(s.Makespan) / 3600
}

// savings is the section on what is saved.
func savings(t *testing.T) (string, []*metrics.Summary) {
	var b strings.Builder
	b.WriteString("\n## What early stops and first attempts save\n\nA generated trace of 1,000 jobs whose losses flatten (`comb trace generate --kind philly --jobs 1000 --load 0.9 --cluster 16x8 --loss --elastic 4`), on 16 nodes of 8 with `--failures 20,300` (20 % of the jobs fail, most of them early). What a run holds and what its early stops save are together what the first run holds. What first attempts save is that of jobs that ended in the pool; that less is held than this comes from who proved itself on fewer GPUs, which costs no time without a table of speeds.\n\n| policy | jobs | average JCT, s | GPU-hours held | saved by early stops | saved by first attempts | taken by the profiler |\n|---|---|---|---|---|---|---|\n")
	file := flattening(t)
	var all []*metrics.Summary
	for _, policy := range savingRuns {
		s := saving(t, file, policy, "20,300")
		all = append(all, s)
		fmt.Fprintf(&b, "| `%s` | %d | %.0f | %.1f | %.1f | %.1f | %.1f |\n", policy, s.Finished, float64(s.JCTAvg), heldHours(s), float64(s.EarlySaved), float64(s.ProbeSaved), float64(s.Profiler))
	}
	retries, less := retrySavings(t, file)
	b.WriteString(retries)
	return b.String(), append(all, less...)
}

// retrySavings is the section on failures that are not retried.
func retrySavings(t *testing.T, file string) (string, []*metrics.Summary) {
	var b strings.Builder
	b.WriteString("\n## What is saved by not retrying what the user did wrong\n\nThe same trace with `--failures 20,3600,3`: 20 % of the jobs fail with exit code 1, and again each of three times that they are retried.\n\n| policy | jobs | average JCT, s | GPU-hours held |\n|---|---|---|---|\n")
	var all []*metrics.Summary
	for _, policy := range retryRuns {
		s := saving(t, file, policy, "20,3600,3")
		all = append(all, s)
		fmt.Fprintf(&b, "| `%s` | %d | %.0f | %.1f |\n", policy, s.Finished, float64(s.JCTAvg), heldHours(s))
	}
	return b.String(), all
}

// What early stops are said to save is what jobs hold less than without them; who proves
// itself on a pool holds less than at its usual size; a profiler says what it takes. The
// page of results has the same rows of philly.
func TestSavings(t *testing.T) {
	text, all := savings(t)
	all, retried := all[:len(savingRuns)], all[len(savingRuns):]
	if a, b, c := heldHours(retried[0]), heldHours(retried[1]), heldHours(retried[2]); b >= a || c >= b {
		t.Errorf("%.1f GPU-hours are held with retries, %.1f without those of user errors, %.1f with first attempts on a pool: want less each time", a, b, c)
	}
	of := func(policy string) *metrics.Summary { return all[slices.Index(savingRuns, policy)] }
	whole := heldHours(of("philly"))
	for i, s := range all {
		policy := savingRuns[i]
		early, probe, profiler := strings.Contains(policy, "early"), strings.Contains(policy, "probe"), strings.Contains(policy, "profiler=") && !strings.Contains(policy, "off")
		if s.EarlySaved > 0 != early || s.ProbeSaved > 0 != probe || s.Profiler > 0 != profiler {
			t.Errorf("%s: %v GPU-hours saved by early stops, %v by first attempts, %v for the profiler", policy, s.EarlySaved, s.ProbeSaved, s.Profiler)
		}
		if got := heldHours(s) + float64(s.EarlySaved); early && !probe && math.Abs(got/whole-1) > 1e-4 {
			t.Errorf("%s: %.3f GPU-hours held and %.3f saved, without early stops %.3f are held", policy, heldHours(s), float64(s.EarlySaved), whole)
		}
	}
	if less := whole - heldHours(of("philly:probe=2")); less < float64(of("philly:probe=2").ProbeSaved) {
		t.Errorf("first attempts hold %.3f GPU-hours less, and say that they save %.3f", less, float64(of("philly:probe=2").ProbeSaved))
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(text) {
		if *resultsPage == "" && strings.HasPrefix(row, "| `philly") && !strings.Contains(string(page), row) {
			t.Errorf("docs/results.md does not have this row; make reproduce writes it:\n%s", row)
		}
	}
}
