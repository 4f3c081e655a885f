package lab_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/test/lab"
)

// BenchmarkCore lets gangs arrive under the load of make bench-core: for
// profiles. A gang's cost includes the end of those that make room for it.
func BenchmarkCore(b *testing.B) {
	for _, preempting := range []bool{false, true} {
		for _, nodes := range []int{64, 4096} {
			b.Run(fmt.Sprintf("nodes=%d/preempting=%v", nodes, preempting), func(b *testing.B) {
				arrive, members := lab.LoadedCore(nodes, preempting)
				b.ReportAllocs()
				for b.Loop() {
					arrive()
				}
				b.ReportMetric(float64(members())/b.Elapsed().Seconds(), "members/s")
			})
		}
	}
}
