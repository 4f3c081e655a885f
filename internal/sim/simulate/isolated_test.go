package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// isolated compares the VCs of a trace with private clusters of their own.
func isolated(t *testing.T, file string, s simulate.Spec) []simulate.Isolation {
	t.Helper()
	s.VCs = "from-trace"
	list, err := simulate.Isolated(context.Background(), s, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// equal demands that nobody noticed the others.
func equal(t *testing.T, list []simulate.Isolation) {
	t.Helper()
	for _, d := range list {
		if d.Different > 0 {
			t.Errorf("VC %s with %d nodes: %d of %d jobs differ; the first: %s", d.VC, d.Nodes, d.Different, d.Jobs, d.First)
		}
	}
}

// generated writes a contended trace with several VCs.
func generated(t testing.TB, jobs int64) string {
	t.Helper()
	all, err := trace.Generate(trace.Spec{Kind: "philly", Jobs: jobs, Seed: 7, LoadMilli: 1100, Cluster: []trace.NodeGroup{{Nodes: 40, GPUs: 8}}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("job_id,submit_s,duration_s,num_gpus,vc\n")
	for j := range all {
		fmt.Fprintf(&b, "%s,%d,%d,%d,%s\n", j.ID, j.Submit/1_000_000, max(j.Duration/1_000_000, 1), min(j.GPUs, 16), j.VC)
	}
	file := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// threeTeams writes a contended trace of three virtual clusters with what policies read: users,
// apps, deadlines, estimates, models, losses and elastic jobs. Several of their jobs come at one
// instant. Above a load of 1.1 every job reports losses; else one in ten, since each report is an
// event.
func threeTeams(t testing.TB, jobs, loadMilli int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	w, err := trace.Create(file, trace.Comb)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trace.Generate(trace.Spec{Kind: "philly", Jobs: jobs, Seed: 7, LoadMilli: loadMilli, AppJobs: 3, Survey: true, Mix: [3]int64{35, 35, 30},
		Elastic: 2, Loss: true, Cluster: []trace.NodeGroup{{Nodes: 24, GPUs: 8}}})
	if err != nil {
		t.Fatal(err)
	}
	teams, n := []string{"red", "green", "blue"}, 0
	for j := range all {
		if n++; n%5 > 0 {
			j.MinGPUs, j.MaxGPUs = 0, 0
			j.GPUs = min(j.GPUs, 16)
		}
		if n/10%10 > 0 && loadMilli <= 1100 {
			j.Loss = nil
		}
		j.VC, j.Interval = teams[n%7%3], max(j.Duration/5, model.Minute)
		j.Submit -= j.Submit % model.Time(time.Minute/time.Microsecond)
		if err := w.Write(&j); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// What a VC with cells of its own gets does not depend on the others, whatever its policy: every
// job starts and ends at the same instant as on a private cluster of these cells. With numbers of
// GPUs instead of cells it does.
func TestSharingChangesNothing(t *testing.T) {
	jobs := int64(3000)
	if testing.Short() {
		jobs = 300
	}
	file, hard := threeTeams(t, jobs, 1100), threeTeams(t, jobs, 1500)
	short := [2]string{threeTeams(t, jobs/5, 1100), threeTeams(t, jobs/5, 1500)}
	for _, p := range append(policy.Names(), "themis:auction=off", "themis:round=0", "fifo:preempt", "tetris:fairness=0,depth=2", "capacity:preempt",
		"drf:by=team", "philly:probe=1,early=stop", "las:limits=3600/36000", "gandiva:moves=100,settle=60,free=0.25",
		"firstfit:defragmentation=10", "las:limits=3600/36000,defragmentation=100,minRun=60", "fifo:backfill=easy") {
		t.Run(p, func(t *testing.T) {
			files := [2]string{file, hard}
			if p == "hypersched" { // decides whenever a trial reports
				files = short
			}
			for _, file := range files {
				equal(t, isolated(t, file, simulate.Spec{Cluster: "24x8", Policy: p, Noise: "survey", RestartCost: "30"}))
			}
		})
	}
	different := 0
	for _, d := range isolated(t, file, simulate.Spec{Cluster: "24x8", Policy: "fifo", Quota: "count"}) {
		different += d.Different
	}
	if different == 0 {
		t.Error("numbers of GPUs guarantee as much as cells: the trace is not contended")
	}
}

// The same on the public Philly trace, all 15 VCs. On 80 nodes gangs move for others whenever
// the budget of moves has some left again.
func TestSharingChangesNothingOnPhilly(t *testing.T) {
	if file := data(t, "philly/philly_jobs.csv.gz"); file != "" && !testing.Short() {
		equal(t, isolated(t, file, simulate.Spec{Cluster: "64x8", Policy: "fifo"}))
		equal(t, isolated(t, file, simulate.Spec{Cluster: "80x8", Policy: "gandiva"}))
	}
}

func TestIsolatedWantsADividedCluster(t *testing.T) {
	_, err := simulate.Isolated(context.Background(), simulate.Spec{Cluster: "4x8", Policy: "fifo"}, &simulate.Trace{}, simulate.Options{Policies: policy.New})
	if err == nil || !strings.Contains(err.Error(), "--vcs from-trace") {
		t.Errorf("got %v", err)
	}
}
