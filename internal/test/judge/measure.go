package judge

import (
	"slices"
	"time"

	"github.com/combsched/comb/internal/core/policy/leases"
)

// Families are the kinds of instances that the solver is held to. Those of 100 jobs
// and more have about 400 rows.
func Families() []Family {
	return []Family{
		{Name: "over-30", Jobs: 30, Leases: 250, Soft: 100, Load: 150},
		{Name: "over-60", Jobs: 60, Leases: 250, Soft: 100, Load: 150},
		{Name: "over-60-even", Jobs: 60, Leases: 250, Soft: 100, Load: 150, Even: true},
		{Name: "over-100", Jobs: 100, Leases: 250, Soft: 100, Load: 130},
		{Name: "over-100-twice", Jobs: 100, Leases: 250, Soft: 100, Load: 200},
		{Name: "over-100-even", Jobs: 100, Leases: 250, Soft: 100, Load: 150, Even: true},
		{Name: "over-160-mixed", Jobs: 160, Leases: 250, Soft: 50, Load: 150},
		{Name: "over-400-strict", Jobs: 400, Leases: 250, Load: 150},
		{Name: "half-100", Jobs: 100, Leases: 250, Soft: 100, Load: 130, Guaranteed: 50},
		{Name: "all-100", Jobs: 100, Leases: 250, Soft: 100, Load: 100, Guaranteed: 100},
		{Name: "all-100-even", Jobs: 100, Leases: 250, Soft: 100, Load: 100, Guaranteed: 100, Even: true},
		{Name: "all-160-mixed", Jobs: 160, Leases: 250, Soft: 50, Load: 100, Guaranteed: 100, Warm: true},
	}
}

// Aim is the largest gap to an upper bound that a plan of the family may have: 1 %
// where all are guaranteed, else 3 %, or 5 % below 100 jobs.
func (f Family) Aim() float64 {
	switch {
	case f.Guaranteed == 100:
		return 0.01
	case f.Jobs < 100:
		return 0.05
	}
	return 0.03
}

// Figure is what Measure found of one family.
type Figure struct {
	Family Family
	// Median is the median time of a solution.
	Median time.Duration
	// Mean and Worst are gaps to the solver's own bound of the reward, as fractions.
	Mean, Worst float64
}

// Measure solves so many instances of each family, each three times for its
// shortest time.
func Measure(instances int) []Figure {
	var out []Figure
	var s leases.Solver
	var plan leases.Plan
	for _, f := range Families() {
		fig := Figure{Family: f}
		var times []time.Duration
		for seed := range instances {
			p := Generate(f, uint64(seed))
			bound := Bound(p)
			shortest := time.Duration(1 << 62)
			for range 3 {
				start := time.Now()
				if err := s.Solve(p, leases.DefaultLimits(), &plan); err != nil {
					panic(err) // a generated instance is valid
				}
				shortest = min(shortest, time.Since(start))
			}
			times = append(times, shortest)
			gap := float64(bound-plan.Reward) / float64(bound)
			fig.Mean += gap / float64(instances)
			fig.Worst = max(fig.Worst, gap)
		}
		slices.Sort(times)
		fig.Median = times[len(times)/2]
		out = append(out, fig)
	}
	return out
}

// Bound is the solver's upper bound of a problem's reward after a long search for
// prices, without what lease 0 is worth.
func Bound(p *leases.Problem) int64 {
	var s leases.Solver
	var plan leases.Plan
	rewards := *p
	rewards.CurrentWorth = 0
	if err := s.Solve(&rewards, leases.Limits{Prices: 3000}, &plan); err != nil {
		panic(err) // a generated instance is valid
	}
	return plan.Bound
}
