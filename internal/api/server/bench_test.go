package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// BenchmarkSubmit measures durable submissions over REST by 64 clients.
func BenchmarkSubmit(b *testing.B) {
	w := newWorld(b, 1)
	ctx := context.Background()
	n := atomic.Int64{}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := rest.SubmitRequest{Quick: &rest.QuickJob{Name: fmt.Sprintf("job-%d", n.Add(1)), GPUs: 1, CPUs: "1",
				MemoryMB: 10, Command: []string{"true"}}}
			if _, err := w.client.Submit(ctx, r, ""); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
