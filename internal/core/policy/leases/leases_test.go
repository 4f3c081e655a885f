package leases

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// numbers reads the numbers of a sliced, the slow way.
func numbers(s *sliced, n int) []int32 {
	out := make([]int32, n)
	for t := range out {
		for k := range s.planes {
			out[t] |= int32(s.bits[k*s.words+t/64]>>(t%64)&1) << k
		}
	}
	return out
}

// The bit planes agree with plain numbers.
func TestSliced(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(200)
		plain := make([]int32, n)
		for i := range plain {
			plain[i] = r.Int32N(1000)
		}
		var s sliced
		s.set(plain, 10)
		c := 1 + r.Int32N(1100)
		set, rest := make([]uint64, s.words), make([]uint64, s.words)
		s.atLeast(c, set)
		var want Vector
		for i, x := range plain {
			if Vector(set).Has(i) != (x >= c) {
				t.Fatalf("%d >= %d is answered wrong", x, c)
			}
			if x >= c {
				want = want.With(i)
			}
		}
		if want.Count() == 0 {
			continue
		}
		keep := 1 + r.IntN(want.Count())
		order := []int{}
		for i := range plain {
			if want.Has(i) {
				order = append(order, i)
			}
		}
		late := slices.Clone(set)
		keepLatest(keep, late)
		same(t, "latest", late, order[len(order)-keep:])
		slices.SortFunc(order, func(a, b int) int {
			if plain[a] != plain[b] {
				return int(plain[b] - plain[a])
			}
			return b - a
		})
		s.largest(keep, set, rest)
		same(t, "largest", set, order[:keep])

		s.sub(c, set)
		for _, i := range order[:keep] {
			plain[i] -= c
		}
		if !slices.Equal(numbers(&s, n), plain) {
			t.Fatalf("after taking %d: %v, want %v", c, numbers(&s, n), plain)
		}
		s.add(c, set)
		for _, i := range order[:keep] {
			plain[i] += c
		}
		if !slices.Equal(numbers(&s, n), plain) {
			t.Fatalf("after giving %d: %v, want %v", c, numbers(&s, n), plain)
		}
	}
}

func same(t *testing.T, what string, set []uint64, want []int) {
	t.Helper()
	var v Vector
	for _, i := range want {
		v = v.With(i)
	}
	for i := range 64 * len(set) {
		if v.Has(i) != Vector(set).Has(i) {
			t.Fatalf("%s: %b, want the leases %v", what, set, want)
		}
	}
}

func TestVector(t *testing.T) {
	var v Vector
	for _, i := range []int{0, 1, 63, 64, 130} {
		v = v.With(i)
	}
	if v.Count() != 5 || v.End() != 131 || v.Has(2) || v.Has(500) {
		t.Errorf("the vector is %b", v)
	}
	same(t, "next", v.Next(nil), []int{0, 62, 63, 129})
	same(t, "next in place", v.Next(v), []int{0, 62, 63, 129})
	if (Vector{}).End() != 0 || Vector(nil).Count() != 0 || countBefore(70, Vector{1, 1}) != 2 {
		t.Error("empty vectors, or counts, are wrong")
	}
}

// The erratum: what a job takes of a lease is its GPUs. Two jobs of 4 GPUs with
// long run times share leases of 8; by run time they would not.
func TestErratumCapacity(t *testing.T) {
	long := Job{GPUs: 4, Need: 10, Guaranteed: true, Options: []Option{{10, 10}}}
	p := &Problem{Capacity: slices.Repeat([]int32{8}, 10), Jobs: []Job{long, long}}
	var s Solver
	var plan Plan
	if err := s.Solve(p, DefaultLimits(), &plan); err != nil || !plan.Complete() || plan.Reward != 20 {
		t.Fatalf("%v, %+v", err, plan)
	}
	p.Jobs = append(p.Jobs, Job{GPUs: 1, Need: 1, Options: []Option{{10, 10}}})
	if err := s.Solve(p, DefaultLimits(), &plan); err != nil || plan.Reward != 20 || plan.Chosen[2] != none {
		t.Fatalf("full leases took another job: %v, %+v", err, plan)
	}
}

// Check finds each way in which a plan can break its problem.
func TestCheck(t *testing.T) {
	p := &Problem{
		Capacity: []int32{4, 4, 4},
		Jobs: []Job{
			{GPUs: 4, Need: 1, Guaranteed: true, Options: []Option{{1, 10}, {2, 8}}},
			{GPUs: 2, Need: 2, Options: []Option{{3, 10}}},
		},
		CurrentWorth: 1,
	}
	var s Solver
	for _, c := range []struct {
		want  string
		spoil func(*Plan)
	}{
		{"the plan is for 1 jobs", func(q *Plan) { q.Chosen = q.Chosen[:1] }},
		{"job 0 has the option 2 of 2", func(q *Plan) { q.Chosen[0] = 2 }},
		{"it needs 1 before 1", func(q *Plan) { q.bits[0] = 2 }},
		{"it needs 2 before 3", func(q *Plan) { q.bits[1] = 4 }},
		{"it needs 2 before 3", func(q *Plan) { q.bits[1] = 8 | 4 }},
		{"it needs 0 before 0", func(q *Plan) { q.Chosen[0] = none }},
		{"lease 0 is given 6 GPUs and has 4", func(q *Plan) { q.bits[1] = 3 }},
		{"the plan says reward 21", func(q *Plan) { q.Reward++ }},
		{"5 GPUs now", func(q *Plan) { q.Used++ }},
		{"1 unplaced", func(q *Plan) { q.Unplaced++ }},
	} {
		var plan Plan
		if err := s.Solve(p, DefaultLimits(), &plan); err != nil || Check(p, &plan) != nil || plan.Objective(p) != 24 {
			t.Fatalf("%v, %v, %+v", err, Check(p, &plan), plan)
		}
		c.spoil(&plan)
		if err := Check(p, &plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check says %v, want %q", err, c.want)
		}
	}
}

// Everything wrong is said at once, and nothing of it reaches the solver.
func TestValidate(t *testing.T) {
	p := &Problem{
		Capacity: []int32{-1, MaxGPUs + 1},
		Jobs: []Job{
			{GPUs: 0, Need: 0, Options: []Option{{3, -1}}},
			{GPUs: 1, Need: 1, Options: []Option{{2, 5}, {1, 4}}},
			{GPUs: 1, Need: 1, Options: []Option{{1, 5}, {2, 6}}},
		},
		CurrentWorth: MaxReward + 1,
	}
	var s Solver
	err := s.Solve(p, DefaultLimits(), &Plan{})
	if err == nil {
		t.Fatal("a wrong problem is accepted")
	}
	for _, want := range []string{
		"lease 0 has the capacity -1", "lease 1 has the capacity", "worth", "job 0 is planned with 0 GPUs", "job 0 needs 0 leases",
		"job 0, option 0: 3 leases", "job 0, option 0: the reward -1", "job 1, option 1: a later option", "job 2, option 1: a later option",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	big := &Problem{Capacity: make([]int32, MaxLeases+1), Jobs: make([]Job, MaxJobs+1)}
	if err := big.Validate(); err == nil || !strings.Contains(err.Error(), "leases, more than") || !strings.Contains(err.Error(), "jobs, more than") {
		t.Errorf("a problem that is too large: %v", err)
	}
}

// Odd problems: nothing, no leases, no options, no capacity, the largest numbers.
func TestEdges(t *testing.T) {
	var s Solver
	var plan Plan
	largest := &Problem{Capacity: slices.Repeat([]int32{MaxGPUs}, MaxLeases), CurrentWorth: MaxReward}
	for range 300 {
		largest.Jobs = append(largest.Jobs, Job{GPUs: MaxGPUs, Need: MaxLeases / 2, Guaranteed: true, Options: []Option{{MaxLeases, MaxReward}}})
	}
	for _, c := range []struct {
		p        *Problem
		reward   int64
		unplaced int
	}{
		{&Problem{}, 0, 0},
		{&Problem{Jobs: []Job{{GPUs: 1, Need: 1}, {GPUs: 1, Need: 1, Guaranteed: true}}}, 0, 1},
		{&Problem{Jobs: []Job{{GPUs: 1, Need: 1, Options: []Option{{0, 5}}}}, CurrentWorth: 1}, 0, 0},
		{&Problem{Capacity: []int32{0, 0}, Jobs: []Job{{GPUs: 1, Need: 1, Options: []Option{{2, 5}}}}, CurrentWorth: -1}, 0, 0},
		{&Problem{Capacity: []int32{1}, Jobs: []Job{{GPUs: 1, Need: 1, Options: []Option{{1, 0}}}}}, 0, 0},
		{&Problem{Capacity: []int32{1, 1}, Jobs: []Job{{GPUs: 1, Need: 2, Options: []Option{{1, 9}, {2, 5}}}}}, 5, 0},
		{largest, 2 * MaxReward, 298},
	} {
		if err := s.Solve(c.p, Limits{Prices: 20, Moves: 5000}, &plan); err != nil {
			t.Fatal(err)
		}
		if err := Check(c.p, &plan); err != nil || plan.Reward != c.reward || plan.Unplaced != c.unplaced {
			t.Errorf("%v: reward %d, %d unplaced, want %d, %d", err, plan.Reward, plan.Unplaced, c.reward, c.unplaced)
		}
	}
}

// Lease 0 is used, or kept free, as its worth says, and rewards stay the same.
func TestCurrentLease(t *testing.T) {
	p := &Problem{Capacity: []int32{8, 8, 8, 8}}
	for _, g := range []int32{1, 2, 4, 4, 8} {
		p.Jobs = append(p.Jobs, Job{GPUs: g, Need: 1, Options: []Option{{4, 10}}})
	}
	var s Solver
	var plan Plan
	for _, c := range []struct{ now, used int64 }{{1, 8}, {-1, 0}} {
		p.CurrentWorth = c.now
		if err := s.Solve(p, DefaultLimits(), &plan); err != nil || Check(p, &plan) != nil {
			t.Fatal(err, Check(p, &plan))
		}
		if plan.Reward != 50 || plan.Used != c.used {
			t.Errorf("worth %d: reward %d with %d GPUs now, want 50 with %d", c.now, plan.Reward, plan.Used, c.used)
		}
	}
}
