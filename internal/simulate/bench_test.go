package simulate_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/simulate"
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
