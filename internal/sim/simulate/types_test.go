package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/simulate"
)

// traceOf writes a comb trace of lines.
func traceOf(t *testing.T, lines ...string) *simulate.Trace {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(file, []byte("{\"comb_trace\":1}\n"+strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return &simulate.Trace{Path: file}
}

// placed runs a trace and tells on which type of GPU each job ran.
func placed(spec simulate.Spec, trace *simulate.Trace) (*simulate.Result, map[string]string, error) {
	names, ran := map[model.JobID]string{}, map[string]string{}
	see := func(b engine.Batch) {
		for _, rec := range b.Records {
			switch e := rec.Event.(type) {
			case model.JobSubmitted:
				names[e.ID] = string(e.Job.Name)
			case model.Placed:
				ran[names[e.Attempt.Job]] = string(e.Placement.Tasks[0].SKU)
			case model.Joined:
				ran[names[e.Attempt.Job]] = string(e.Placement.Tasks[0].SKU)
			}
		}
	}
	r, err := simulate.Run(context.Background(), spec, trace, simulate.Options{Policies: policy.New, OnBatch: see})
	return r, ran, err
}

// A job runs on the types of GPUs that it asks for and on no other: where the cluster has
// none of them it is refused and told of, also where only the parts of its gang name them.
func TestOnlyTheTypesAskedFor(t *testing.T) {
	job := func(id, rest string) string {
		return fmt.Sprintf(`{"id":%q,"submit_us":0,"duration_us":60000000,"gpus":2%s}`, id, rest)
	}
	lines := []string{job("a", `,"skus":["A100"]`), job("v", `,"skus":["v100"]`), job("either", `,"skus":["A100","T4"]`), job("any", ""),
		job("part", `,"tasks":[{"name":"w","instances":2,"gpu_milli":1000,"sku":"P100"}]`),
		job("elastic", `,"gpus_min":1,"gpus_max":4,"skus":["A100"]`)}
	for _, test := range []struct {
		cluster string
		want    map[string]string // where jobs run; those that are not here are refused
		reasons []string
	}{
		{"1x8:V100", map[string]string{"v": "V100", "any": "V100"},
			[]string{"2 a: it can never start: the cluster has no SKU A100", "1 either: it can never start: the cluster has no SKU A100 or T4", "1 part: it can never start: the cluster has no SKU P100"}},
		{"1x8:T4,1x8:P100", map[string]string{"either": "T4", "any": "T4 P100", "part": "P100"},
			[]string{"2 a: it can never start: the cluster has no SKU A100", "1 v: it can never start: the cluster has no SKU v100"}},
		{"2x8", map[string]string{"a": "GPU", "v": "GPU", "either": "GPU", "any": "GPU", "part": "GPU", "elastic": "GPU"}, nil},
		{"1x4:V100,2x8", map[string]string{"a": "GPU", "v": "V100 GPU", "either": "GPU", "any": "GPU V100", "part": "GPU", "elastic": "GPU"}, nil},
	} {
		r, ran, err := placed(simulate.Spec{Cluster: test.cluster, Policy: "fifo"}, traceOf(t, lines...))
		if err != nil {
			t.Fatal(err)
		}
		for name, types := range ran {
			if !strings.Contains(test.want[name], types) {
				t.Errorf("%s: job %s runs on %s, want %s", test.cluster, name, types, test.want[name])
			}
		}
		var reasons []string
		for _, f := range r.Refusals {
			reasons = append(reasons, fmt.Sprintf("%d %s: %s", f.N, f.First, f.What))
		}
		if !slices.Equal(reasons, test.reasons) || len(ran) != len(test.want) || r.Refused != len(lines)-len(ran) {
			t.Errorf("%s: %d ran; refused are %q", test.cluster, len(ran), reasons)
		}
	}
}

// A throughput of 0 means that a model cannot run on a type of GPUs, or not on several
// machines of it: under every policy it is never placed there, and what has no other type
// is refused.
func TestThroughputOfZero(t *testing.T) {
	table := filepath.Join(t.TempDir(), "speeds.json")
	if err := os.WriteFile(table, []byte(`{"v100": {"('m', 1)": {"null": 10}, "('n', 1)": {"null": 0}, "('m', 2)": {"null": 18}},
		"k80": {"('m', 1)": {"null": 0}, "('n', 1)": {"null": 0}, "('m', 2)": {"null": 2}},
		"k80_unconsolidated": {"('m', 2)": {"null": 0}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	job := func(id, model string, gpus int, rest string) string {
		return fmt.Sprintf(`{"id":%q,"submit_us":0,"duration_us":60000000,"model":%q,"gpus":%d,"milli_cpu":4000%s}`, id, model, gpus, rest)
	}
	lines := []string{job("m1", "m", 1, ""), job("m2", "m", 1, ""), job("m3", "m", 1, ""), job("m4", "m", 1, `,"skus":["K80"]`), job("n", "n", 1, ""),
		job("apart", "m", 2, ""), job("other", "o", 1, `,"skus":["K80"]`)}
	for _, p := range policy.Names() {
		r, ran, err := placed(simulate.Spec{Cluster: "2x1:V100,4x1:K80", Policy: p, Throughputs: table, GPU: "v100"}, traceOf(t, lines...))
		if err != nil {
			t.Fatal(err)
		}
		for name, on := range ran {
			if (on == "V100") == (name == "other") {
				t.Errorf("%s: %s runs on %s", p, name, on)
			}
		}
		if len(ran) != 5 || r.Refused != 2 || r.Summary.Finished != 5 || r.Summary.Makespan > 1000 {
			t.Errorf("%s: %d ran, %d finished in %v s, refused %v", p, len(ran), r.Summary.Finished, r.Summary.Makespan, r.Refusals)
		}
		if got := fmt.Sprint(r.KeptOff, r.Ignored, r.Refusals[1]); got != `[{K80 4}] [{CPUs 7}] 1 job, the first "n": model "n" cannot run on the types that it may have: the throughput of ('n', 1) there is 0` {
			t.Errorf("%s: %s", p, got)
		}
	}
}

// A run in which no job can ever start is an error that says why.
func TestNoJobFits(t *testing.T) {
	trace := traceOf(t, `{"id":"a","submit_us":0,"gpus":1,"skus":["A100"]}`, `{"id":"b","submit_us":0,"gpus":1,"skus":["A100"]}`, `{"id":"c","submit_us":0,"gpus":9}`)
	_, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "1x4:V100", Policy: "fifo"}, trace, simulate.Options{Policies: policy.New})
	for _, want := range []string{"no job can run: all 3 were refused", `2 jobs, the first "a": it can never start: the cluster has no SKU A100`, `1 job, the first "c": it can never start`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A trace whose virtual clusters the cluster file lacks is an error that names them all.
func TestVCsThatTheFileLacks(t *testing.T) {
	trace := traceOf(t, `{"id":"a","submit_us":0,"gpus":1,"vc":"red"}`, `{"id":"b","submit_us":0,"gpus":1,"vc":"green"}`,
		`{"id":"c","submit_us":0,"gpus":1,"vc":"green"}`, `{"id":"d","submit_us":0,"gpus":1,"vc":"grey"}`, `{"id":"e","submit_us":0,"gpus":1}`)
	file := clusterFile(t, "", "")
	for _, spec := range []simulate.Spec{{Cluster: file}, {Cluster: "6x4:V100,2x2:K80", VCs: file}} {
		spec.Policy = "fifo"
		_, err := simulate.Run(context.Background(), spec, trace, simulate.Options{Policies: policy.New})
		for _, want := range []string{"(with their jobs): green (2), grey (1); it has blue, red, red.sun:", "names no virtual cluster for 1 of its jobs: --vc NAME puts them into one"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", spec.Cluster, err, want)
			}
		}
	}
}
