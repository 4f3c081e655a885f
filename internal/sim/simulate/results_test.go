package simulate_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

// data returns a file of the public traces, "" where they are not at hand; what was
// not checked is then printed.
func data(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("COMB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		t.Logf("not checked, since the public traces are not at hand (COMB_DATA): %v", err)
		return ""
	}
	return file
}

func run(t *testing.T, trace string, s simulate.Spec) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(context.Background(), s, &simulate.Trace{Path: trace}, simulate.Options{Policies: policy.New})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near compares a figure with its reference; share is relative to it.
func near(t *testing.T, what string, got metrics.Number, want, slack float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > slack {
		t.Errorf("%s is %.4f, want %.4f +- %.4f", what, float64(got), want, slack)
	}
}

// tiresiasRow is a row of the public Tiresias simulator's results.
type tiresiasRow struct {
	trace, cluster, policy     string
	avg, p50, p95, makespan, q float64
	preempted                  int64
	tolerance                  float64
}

// loose tells that makespan and preemptions are only printed: the reference mixes
// seconds and GPU-seconds when it computes when a job leaves its queue.
func (c *tiresiasRow) loose() bool { return c.tolerance > 0.01 }

func tiresiasRows(t *testing.T) []tiresiasRow {
	return []tiresiasRow{
		{"60_job.csv", "15x4", "fifo", 178.4, 125.0, 308.1, 3271, 0, 0, 0.0005},
		{"60_job.csv", "32x4", "srtf", 178.4, 125.0, 308.1, 3271, 0, 0, 0.0005},
		{"60_job.csv", "15x4", "las", 178.4, 125.0, 308.1, 3271, 0, 0, 0.0005},
		{"60_job.csv", "4x4", "fifo", 200.8, 149.5, 366.1, 3335, 22.4, 0, 0.005},
		{"60_job.csv", "4x4", "firstfit", 190.7, 130.0, 366.1, 3271, 12.3, 0, 0.005},
		{"60_job.csv", "4x4", "srtf", 192.1, 126.5, 386.8, 3271, 13.7, 4, 0.005},
		{"60_job.csv", "4x4", "srsf", 195.9, 126.5, 461.9, 3315, 17.5, 7, 0.01},
		{"480_synth_job.csv", "15x4", "fifo", 5672.4, 4285.0, 13647.6, 29938, 4833.4, 0, 0.005},
		{"480_synth_job.csv", "15x4", "firstfit", 2238.3, 794.0, 9913.2, 30615, 1399.3, 0, 0.005},
		{"480_synth_job.csv", "15x4", "srtf", 1525.3, 521.0, 8300.6, 30760, 686.3, 826, 0.005},
		{"480_synth_job.csv", "15x4", "srsf", 1416.6, 512.5, 5672.7, 31005, 577.5, 190, 0.005},
		{"480_synth_job.csv", "15x4", "las:limits=3250/7200", 2049.0, 529.5, 12886.6, 31833, 1210.0, 332, 0.03},
		{"480_synth_job.csv", "15x4", "gittins:limits=3250/7200,history=@" + data(t, "tiresias/yarn-gput1000.csv"), 1979.0, 534.5, 12822.2, 29842, 1140.0, 1219, 0.03},
	}
}

// The results of the public Tiresias simulator, which counts free GPUs: average JCT
// within the tolerance of the reference, other times by as many seconds, p95 by its
// own tolerance, preemptions equal where the tolerance is small. The page of results
// has these rows.
func TestTiresias(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	if *resultsPage == "" && (!strings.HasPrefix(string(page), resultsHead+chronusHead) || !strings.Contains(string(page), tiresiasHead)) {
		t.Error("docs/results.md does not begin as make reproduce writes it")
	}
	for _, c := range tiresiasRows(t) {
		file := data(t, "tiresias/"+c.trace)
		if file == "" {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%.12s", c.trace, c.cluster, c.policy), func(t *testing.T) {
			s := run(t, file, simulate.Spec{Cluster: c.cluster, Placement: "count", Policy: published(c.policy)}).Summary
			if rows := c.rows(&s); *resultsPage == "" && !strings.Contains(string(page), rows) {
				t.Errorf("docs/results.md does not have these rows; make reproduce ONLY=tiresias writes them:\n%s", rows)
			}
			slack := c.tolerance * c.avg
			near(t, "the average JCT", s.JCTAvg, c.avg, slack)
			near(t, "the median JCT", s.JCTP50, c.p50, max(slack, 0.5))
			near(t, "p95 of the JCT", s.JCTP95, c.p95, max(c.tolerance*c.p95, 0.5))
			near(t, "the average queueing", s.QueueAvg, c.q, max(slack, 0.1))
			if !c.loose() {
				near(t, "the makespan", s.Makespan, c.makespan, max(slack, 0.5))
				if s.Preemptions != c.preempted {
					t.Errorf("%d preemptions, want %d", s.Preemptions, c.preempted)
				}
			}
		})
	}
}

// Nodes that fail lose nothing but time: every job ends, and the same seed gives the
// same run. (An order that preempts may by chance do better with faults.)
// brokenDevices watches what happens to devices in a run.
type brokenDevices struct {
	t    *testing.T
	bad  map[[2]any]model.Time
	list []model.Record
}

func (d *brokenDevices) see(r model.Record) {
	switch e := r.Event.(type) {
	case model.LeafHealth:
		key := [2]any{e.Node, e.Device}
		since, was := d.bad[key]
		if was != e.Good || e.Good && model.Duration(r.Time-since) != 1800*model.Second {
			d.t.Errorf("%+v at %d, bad since %d", e, r.Time, since)
		}
		d.bad[key] = r.Time
		if e.Good {
			delete(d.bad, key)
		}
		d.list = append(d.list, model.Record{Time: r.Time, Event: e})
	case model.NodeHealth:
		d.t.Errorf("a node fails: %+v", e)
	case model.Placed:
		for i := range e.Placement.Tasks {
			d.starts(&e.Placement.Tasks[i])
		}
	}
}

func (d *brokenDevices) starts(task *cell.Task) {
	for _, device := range task.Devices {
		if _, is := d.bad[[2]any{task.Node, device}]; is {
			d.t.Errorf("something starts on %s:%d, which is bad", task.Node, device)
		}
	}
}

// Devices that fail: nothing starts on one that is bad, what runs there goes on, and
// each is repaired after the time given. The same seed gives the same faults.
func TestFaultsOfDevices(t *testing.T) {
	file := mixed(t, 5, 200)
	faults := func(seed uint64) []model.Record {
		d := brokenDevices{t: t, bad: map[[2]any]model.Time{}}
		r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "6x4", Policy: "firstfit", Faults: "leaf:90000,1800", Seed: seed},
			&simulate.Trace{Path: file}, simulate.Options{Policies: policy.New, OnBatch: func(b engine.Batch) {
				for _, r := range b.Records {
					d.see(r)
				}
			}})
		if err != nil || r.Summary.Finished != 200 || r.Summary.Preemptions != 0 {
			t.Fatalf("%+v %v", r, err)
		}
		return d.list
	}
	a, b := faults(3), faults(3)
	if len(a) < 20 || !slices.Equal(a, b) {
		t.Errorf("%d faults, then %d", len(a), len(b))
	}
	if slices.Equal(a, faults(4)) {
		t.Error("another seed makes no difference")
	}
}

func TestFaultsAreChecked(t *testing.T) {
	for _, text := range []string{"1000", "leaf:", "leaf:10,10/leaf:10,10", "10,10/20,20", "gpu:10,10", "10,0.5", "10,10,10", "10,10/"} {
		s := simulate.Spec{Cluster: "1x1", Policy: "fifo", Faults: text}
		if err := s.Check(policy.New); err == nil || !strings.Contains(err.Error(), "--faults: want MTBF,REPAIR") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	var rows strings.Builder
	rows.WriteString("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n")
	for i := range 40 {
		fmt.Fprintf(&rows, "%d,%d,%d,10,vgg16,%d,10\n", i, 1+i%7, 30*i, 200+37*(i%11))
	}
	if err := os.WriteFile(file, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"fifo", "srtf", "las:limits=100/1000"} {
		s := simulate.Spec{Cluster: "4x4", Policy: p, Faults: "1000,60", Seed: 3}
		a, b := run(t, file, s), run(t, file, s)
		if a.Summary.Finished != 40 || a.Records != b.Records || a.Summary.JCTAvg != b.Summary.JCTAvg {
			t.Errorf("%s: %d jobs ended; %d and %d records, JCT %v and %v", p, a.Summary.Finished, a.Records, b.Records, a.Summary.JCTAvg, b.Summary.JCTAvg)
		}
		s.Faults = "leaf:2000,100/1000,60"
		if both := run(t, file, s); both.Summary.Finished != 40 || both.Records <= a.Records {
			t.Errorf("%s: with bad devices as well %d jobs ended, in %d records after %d", p, both.Summary.Finished, both.Records, a.Records)
		}
		// Jobs may even end earlier, since others are placed otherwise; but faults cost attempts.
		s.Faults = ""
		if calm := run(t, file, s); calm.Summary.Events >= a.Summary.Events {
			t.Errorf("%s: %d starts and ends with faults, %d without", p, a.Summary.Events, calm.Summary.Events)
		}
	}
}
