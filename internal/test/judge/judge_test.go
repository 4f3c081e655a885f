package judge

import (
	"flag"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/core/policy/leases"
)

var (
	cbcInstances = flag.Int("cbc", 0, "how many instances of each family cbc judges; above 0 it must be installed")
	cbcSeconds   = flag.Int("cbc-seconds", 20, "how long cbc may take for one")
)

func solve(t testing.TB, s *leases.Solver, p *leases.Problem, limits leases.Limits) *leases.Plan {
	t.Helper()
	plan := &leases.Plan{}
	if err := s.Solve(p, limits, plan); err != nil {
		t.Fatal(err)
	}
	if err := leases.Check(p, plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// tiny makes a problem that Exhaustive can solve, with capacities of all kinds.
func tiny(seed uint64) *leases.Problem {
	r := stream(seed)
	p := &leases.Problem{CurrentWorth: int64(r.below(3)-1) * Point / 8}
	for range 3 + r.below(3) {
		p.Capacity = append(p.Capacity, int32(2+r.below(8)))
	}
	for range 2 + r.below(3) {
		job := leases.Job{GPUs: 1 << r.below(4), Need: int32(1 + r.below(3)), Guaranteed: r.below(3) == 0}
		m, v := 1+r.below(3), int64(10)
		for range 1 + r.below(3) {
			job.Options = append(job.Options, leases.Option{Leases: int32(min(m, len(p.Capacity))), Reward: v * Point})
			m, v = m+r.below(3), v-int64(1+r.below(4))
		}
		p.Jobs = append(p.Jobs, job)
	}
	return p
}

// On tiny problems the solver is compared with all plans.
func TestTiny(t *testing.T) {
	var s leases.Solver
	const seeds = 3000
	optimal, current, missed, possible := 0, 0, 0, 0
	for seed := range uint64(seeds) {
		p := tiny(seed)
		best := Exhaustive(p)
		plan := solve(t, &s, p, leases.Limits{Prices: 60, Moves: 2000})
		if !best.Complete {
			if plan.Complete() {
				t.Fatalf("seed %d: a complete plan where there is none", seed)
			}
			continue
		}
		possible++
		if plan.Bound < best.Objective {
			t.Fatalf("seed %d: the bound %d is below the optimum %d", seed, plan.Bound, best.Objective)
		}
		switch {
		case !plan.Complete():
			missed++
			continue
		case plan.Reward > best.Reward:
			t.Fatalf("seed %d: the reward %d is above the optimum %d", seed, plan.Reward, best.Reward)
		case plan.Reward == best.Reward:
			optimal++
		}
		if plan.Objective(p) == best.Objective {
			current++
		}
	}
	t.Logf("of %d problems with a plan: %d no plan found, %d optimal, %d with the best use of lease 0", possible, missed, optimal, current)
	if possible < seeds/2 || missed > 0 || optimal < possible*99/100 || current < possible*9/10 {
		t.Errorf("too many are worse than the optimum")
	}
}

// On large problems every constraint holds, the guaranteed jobs have a place, and
// the gap to the solver's own bound is small. cbc's bound can only be smaller, so
// the aims are asserted for the mean here, and for each instance by TestCBC.
func TestLarge(t *testing.T) {
	var s leases.Solver
	for _, f := range Families() {
		mean, worst := 0.0, 0.0
		const seeds = 5
		for seed := range uint64(seeds) {
			p := Generate(f, seed)
			plan := solve(t, &s, p, leases.DefaultLimits())
			if !plan.Complete() {
				t.Errorf("%s, seed %d: %d guaranteed jobs have no place, although there is a plan", f.Name, seed, plan.Unplaced)
			}
			bound := Bound(p)
			gap := float64(bound-plan.Reward) / float64(bound)
			mean, worst = mean+gap/seeds, max(worst, gap)
		}
		t.Logf("%-16s gap to the own bound: mean %.2f %%, worst %.2f %%", f.Name, 100*mean, 100*worst)
		if mean > f.Aim() {
			t.Errorf("%s: the mean gap %.2f %% is above %.0f %%", f.Name, 100*mean, 100*f.Aim())
		}
	}
}

// With a warm start that shows a plan no guaranteed job is dropped, whatever the
// limits are.
func TestWarm(t *testing.T) {
	var s leases.Solver
	cold := 0
	for _, limits := range []leases.Limits{{}, {Prices: 5, Moves: 500}, leases.DefaultLimits()} {
		for seed := range uint64(40) {
			f := Family{Name: "warm", Jobs: 40, Leases: 100, Soft: 50, Load: 100, Guaranteed: 80, Warm: true, Tight: true, Even: true}
			p := Generate(f, seed)
			if plan := solve(t, &s, p, limits); !plan.Complete() {
				t.Errorf("seed %d, %+v: %d guaranteed jobs were dropped", seed, limits, plan.Unplaced)
			}
			for j := range p.Jobs {
				p.Jobs[j].Cached = nil
			}
			if !solve(t, &s, p, limits).Complete() {
				cold++
			}
		}
	}
	t.Logf("without the warm start %d of 120 lack a guaranteed job", cold)
	if cold == 0 {
		t.Error("the warm start is never needed: the test shows nothing")
	}
}

// A plan depends on its problem alone, not on what the solver did before, and
// solving again takes no memory.
func TestSame(t *testing.T) {
	var used leases.Solver
	plan := &leases.Plan{}
	for _, f := range Families() {
		p := Generate(f, 1)
		var fresh leases.Solver
		want := solve(t, &fresh, p, leases.DefaultLimits())
		got := solve(t, &used, p, leases.DefaultLimits())
		if !slices.Equal(want.Chosen, got.Chosen) || want.Bound != got.Bound {
			t.Fatalf("%s: a used solver plans otherwise than a fresh one", f.Name)
		}
		for j := range p.Jobs {
			if !slices.Equal(want.Leases(j), got.Leases(j)) {
				t.Fatalf("%s: a used solver gives job %d other leases than a fresh one", f.Name, j)
			}
		}
		limits := leases.Limits{Prices: 10, Moves: 2000}
		solve(t, &used, p, limits)
		used.Solve(p, limits, plan)
		if n := testing.AllocsPerRun(3, func() { used.Solve(p, limits, plan) }); n > 0 {
			t.Errorf("%s: solving again allocates %v times", f.Name, n)
		}
	}
}

// cbc judges the solver on large problems, within its own limit of time. The bound
// is the smaller of cbc's and the solver's own.
func TestCBC(t *testing.T) {
	if *cbcInstances == 0 {
		fmt.Println("not checked: the gap of lease selection to cbc's bound (make solvers)")
		return
	}
	if _, err := exec.LookPath("cbc"); err != nil {
		t.Fatalf("%v: install Debian's package coinor-cbc", err)
	}
	judgeTiny(t)
	type one struct {
		f    Family
		seed int
	}
	var todo []one
	for _, f := range Families() {
		for seed := range *cbcInstances {
			todo = append(todo, one{f, seed})
		}
	}
	lines := make([]string, len(todo))
	slots := make(chan bool, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, o := range todo {
		wg.Go(func() {
			slots <- true
			defer func() { <-slots }()
			lines[i] = judge(t, o.f, o.seed)
		})
	}
	wg.Wait()
	fmt.Println(strings.Join(lines, "\n"))
}

func judge(t *testing.T, f Family, seed int) string {
	p := Generate(f, uint64(seed))
	var s leases.Solver
	var plan leases.Plan
	if err := s.Solve(p, leases.DefaultLimits(), &plan); err != nil {
		t.Error(err)
	}
	v, err := CBC(p, t.TempDir(), *cbcSeconds)
	if err != nil {
		t.Errorf("%s %d: %v", f.Name, seed, err)
		return ""
	}
	own := Bound(p) + max(p.CurrentWorth, 0)*int64(p.Capacity[0])
	bound := own
	if v.Bound > 0 {
		bound = min(bound, v.Bound)
	}
	ours := plan.Objective(p)
	gap := float64(bound-ours) / float64(bound)
	if v.Optimal && ours > v.Found+Point/100 {
		t.Errorf("%s %d: cbc says %+v of a problem whose plan is worth %d", f.Name, seed, v, ours)
	}
	if !plan.Complete() || gap > f.Aim() {
		t.Errorf("%s %d: %d guaranteed jobs unplaced, gap %.2f %% above %.0f %%", f.Name, seed, plan.Unplaced, 100*gap, 100*f.Aim())
	}
	return fmt.Sprintf("%-16s %d: ours %9.3f, cbc's bound %9.3f and plan %9.3f, own bound %9.3f, gap %5.2f %%", f.Name, seed,
		float64(ours)/Point, float64(v.Bound)/Point, float64(v.Found)/Point, float64(own)/Point, 100*gap)
}

// judgeTiny compares cbc with the exhaustive twin: is what it is given the problem?
func judgeTiny(t *testing.T) {
	plans := 0
	for seed := range uint64(60) {
		p := tiny(seed)
		p.CurrentWorth = 0 // the twin puts rewards first
		v, err := CBC(p, t.TempDir(), *cbcSeconds)
		if err != nil {
			t.Fatal(err)
		}
		best := Exhaustive(p)
		if best.Complete {
			plans++
		}
		if v.Infeasible == best.Complete || best.Complete && (!v.Optimal || max(v.Found-best.Reward, best.Reward-v.Found) > Point/100) {
			t.Errorf("tiny %d: cbc says %+v, the twin %+v", seed, v, best)
		}
	}
	if plans < 20 || plans == 60 {
		t.Errorf("%d of 60 tiny problems have a plan: too few, or all", plans)
	}
}

// BenchmarkSelection solves instances of 400 rows and 250 leases.
func BenchmarkSelection(b *testing.B) {
	for _, f := range Families() {
		if f.Jobs < 100 {
			continue
		}
		b.Run(f.Name, func(b *testing.B) {
			var problems []*leases.Problem
			for seed := range uint64(16) {
				problems = append(problems, Generate(f, seed))
			}
			var s leases.Solver
			var plan leases.Plan
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.Solve(problems[i%len(problems)], leases.DefaultLimits(), &plan); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
