package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/simulate"
)

// BenchmarkLoop measures the loop alone, with the trace in memory and without results:
// on Philly's trace where COMB_DATA has it, else on a generated one.
func BenchmarkLoop(b *testing.B) {
	file := filepath.Join(os.Getenv("COMB_DATA"), "philly", "philly_jobs.csv.gz")
	if _, err := os.Stat(file); err != nil {
		file = generated(b, 80_000)
	}
	t := &simulate.Trace{Path: file}
	if err := t.Keep(); err != nil {
		b.Fatal(err)
	}
	for _, p := range []string{"fifo", "firstfit", "srtf", "las"} {
		b.Run(p, func(b *testing.B) {
			var events int64
			for b.Loop() {
				r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "64x8", VCs: "from-trace", Policy: p}, t, simulate.Options{Policies: policy.New})
				if err != nil {
					b.Fatal(err)
				}
				events += r.Summary.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkTrials measures experiments of hypersched on 32 GPUs: what an event costs should
// not grow with how many trials wait.
func BenchmarkTrials(b *testing.B) {
	for _, n := range []int{200, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := &simulate.Trace{Path: filepath.Join(b.TempDir(), "trials.jsonl")}
			if err := os.WriteFile(t.Path, []byte(trials(n)), 0o600); err != nil {
				b.Fatal(err)
			}
			if err := t.Keep(); err != nil {
				b.Fatal(err)
			}
			var events int64
			for b.Loop() {
				r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "8x4", Policy: "hypersched"}, t, simulate.Options{Policies: policy.New})
				if err != nil {
					b.Fatal(err)
				}
				events += r.Summary.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// trials is a trace of two experiments that come at once, of so many trials in all.
func trials(n int) string {
	var out strings.Builder
	out.WriteString("{\"comb_trace\":1}\n")
	for i := range n {
		seconds, best := 600+i*7919%13_800, 100+i*6007%900
		fmt.Fprintf(&out, `{"id":"%d","submit_us":%d,"duration_us":%d,"gpus":1,"user":"u","vc":"v","app":"a%d","loss":{"first":3,"last":0.%03d,"half_us":%d}}`+"\n",
			i, i/50*1_000_000, seconds*1_000_000, i%2, best, seconds*100_000)
	}
	return out.String()
}
