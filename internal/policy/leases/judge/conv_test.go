package judge

import (
	"fmt"
	"github.com/combsched/comb/internal/policy/leases"
	"testing"
	"time"
)

func TestConv(t *testing.T) {
	var s leases.Solver
	var plan leases.Plan
	for _, f := range families {
		for seed := range uint64(3) {
			p := Generate(f, seed)
			s.Solve(p, leases.Limits{Prices: 5000}, &plan)
			b := plan.Bound
			if p.Now > 0 {
				b -= Point
			}
			fmt.Printf("%-12s %d:", f.Name, seed)
			for _, r := range []int{0, 600, 5000, 50000} {
				start := time.Now()
				s.Solve(p, leases.Limits{Prices: 150, Rounds: r}, &plan)
				d := time.Since(start)
				fmt.Printf("  %6.2f%% (%d) %v", 100*float64(b-plan.Objective(p))/float64(b), plan.Unplaced, d.Round(100*time.Microsecond))
			}
			s.Diag()
			fmt.Printf(" | M %d bound5000 %.2f ourbound %.2f\n", p.Capacity[0], float64(b)/Point, float64(plan.Bound)/Point)
		}
	}
}
