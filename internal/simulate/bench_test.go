package simulate_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/simulate"
)

func BenchmarkPhilly(b *testing.B) {
	file := os.Getenv("COMB_DATA") + "/philly/philly_jobs.csv.gz"
	for _, p := range []string{"fifo", "firstfit", "srtf", "las"} {
		b.Run(p, func(b *testing.B) {
			for range b.N {
				r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "64x8", VCs: "from-trace", Policy: p}, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Summary.Events)/b.Elapsed().Seconds(), "events/s")
				_ = fmt.Sprint()
			}
		})
	}
}
