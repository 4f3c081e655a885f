package judge

import (
	"github.com/combsched/comb/internal/core/policy/leases"
)

// Family is a kind of instances.
type Family struct {
	// Name is how reports call it.
	Name string
	// Jobs and Leases are the instance's size; a soft job has four options, a strict one one.
	Jobs, Leases int
	// Soft is the share of soft jobs, in percent.
	Soft int
	// Guaranteed is the share of jobs that must be planned, in percent. They have a
	// plan, hidden from the solver unless Warm: the capacity is made for it.
	Guaranteed int
	// Warm gives the guaranteed jobs their leases of the hidden plan as cached ones.
	Warm bool
	// Tight gives each lease only what the hidden plan uses.
	Tight bool
	// Load is what the first deadlines need at the tightest time, in percent of what
	// there is: above 100 not all can be met.
	Load int
	// Even draws 1, 2, 4 and 8 GPUs alike, else sizes are MIX1's.
	Even bool
}

// Point is one point of reward in the instances' unit.
const Point = 1_000_000

// stream is a small generator of random numbers (splitmix64), so that instances
// depend on nothing but their seed.
type stream uint64

func (r *stream) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (r *stream) below(n int) int { return int(r.next() >> 11 % uint64(n)) }

// quantile draws from a distribution given by its values at equally far quantiles.
func (r *stream) quantile(values []int) int {
	i := r.below(len(values) - 1)
	return values[i] + r.below(values[i+1]-values[i]+1)
}

// Run times in minutes, at every tenth of the jobs that are in a contended system
// at one time, and sizes in GPUs, both after the published trace MIX1: long jobs
// stay longer, so they are seen more often than they are submitted.
var (
	minutes = []int{20, 40, 60, 100, 160, 250, 400, 650, 1000, 1600, 2400}
	sizes   = []size{{1, 650}, {2, 30}, {4, 166}, {8, 137}, {16, 15}, {32, 2}}
	even    = []size{{1, 250}, {2, 250}, {4, 250}, {8, 250}}
)

// size is a number of GPUs and how many jobs of 1,000 ask for it.
type size struct{ gpus, share int }

func (r *stream) size(of []size) int {
	n := r.below(1000)
	for _, s := range of {
		if n -= s.share; n < 0 {
			return s.gpus
		}
	}
	return 1
}

// leaseMinutes is the published lease.
const leaseMinutes = 20

// Generate makes an instance of a family. The same seed gives the same one.
func Generate(f Family, seed uint64) *leases.Problem {
	r := stream(seed*0x1000193 + uint64(len(f.Name)))
	p := &leases.Problem{Capacity: make([]int32, f.Leases)}
	largest := int32(8)
	for range f.Jobs {
		job := draw(&r, f)
		largest = max(largest, job.GPUs)
		p.Jobs = append(p.Jobs, job)
	}
	capacity := max(int32(peak(p)*100/f.Load+7)/8*8, largest)
	for t := range p.Capacity {
		p.Capacity[t] = capacity
	}
	if f.Guaranteed > 0 {
		guarantee(p, &r, f)
	}
	p.CurrentWorth = Point / int64(max(p.Capacity[0], 1))
	if r.below(2) == 0 {
		p.CurrentWorth = -p.CurrentWorth
	}
	return p
}

// peak is how many GPUs it takes so that, up to any lease, there are as many
// GPU-leases as the first deadlines up to there need.
func peak(p *leases.Problem) int {
	need := make([]int, len(p.Capacity)+1)
	for _, job := range p.Jobs {
		need[job.Options[0].Leases] += int(job.GPUs) * int(job.Need)
	}
	sum, most := 0, 0
	for t, n := range need {
		if sum += n; t > 0 {
			most = max(most, (sum+t-1)/t)
		}
	}
	return most
}

// draw makes a job by the survey's deadlines: the first at 1.2 to 2 times the run
// time, or the published traces' 1.1 to 5 with median 1.97.
func draw(r *stream, f Family) leases.Job {
	for {
		run := r.quantile(minutes)
		done := r.below(run) * r.below(100) / 100
		of := sizes
		if f.Even {
			of = even
		}
		gpus := leases.RoundUp(r.size(of), 8).GPUs
		log := 0
		for g := gpus; g > 1; g /= 2 {
			log++
		}
		estimate := run * (200 + 5*2*(1+log)/2) * 11 / 2000 // times 1 + (1+log2 g)*0.5/20, times 1.1
		need := (estimate - done + leaseMinutes - 1) / leaseMinutes
		// Percent of the run time.
		factors := []int{r.quantile([]int{115, 145, 165, 180, 197, 215, 235, 260, 300, 400})}
		if r.below(100) < f.Soft {
			d := factors[0]
			factors = append(factors, d*(110+r.below(36))/100, d*(140+r.below(40))/100, d*(165+r.below(55))/100)
		}
		job := leases.Job{GPUs: int32(gpus), Need: int32(need)}
		for i, d := range factors {
			m := min((run*d/100-done)/leaseMinutes, f.Leases)
			if i > 0 {
				m = max(m, int(job.Options[i-1].Leases))
			}
			job.Options = append(job.Options, leases.Option{Leases: int32(m), Reward: []int64{10, 8, 5, 2}[i] * Point})
		}
		if m := int(job.Options[0].Leases); m < f.Leases && need <= m {
			return job
		}
	}
}

// guarantee makes jobs guaranteed and the capacity just enough for a hidden plan
// in which each meets one of its deadlines.
func guarantee(p *leases.Problem, r *stream, f Family) {
	used := make([]int32, len(p.Capacity))
	top := int32(0)
	for j := range p.Jobs {
		job := &p.Jobs[j]
		if r.below(100) >= f.Guaranteed {
			continue
		}
		job.Guaranteed = true
		m := int(job.Options[r.below(len(job.Options))].Leases)
		cached := leases.Vector(nil)
		for range job.Need {
			t := emptiest(used[:m], cached)
			cached = cached.With(t)
			used[t] += job.GPUs
			top = max(top, used[t])
		}
		if f.Warm {
			job.Cached = cached
		}
	}
	for t := range p.Capacity {
		if f.Tight {
			p.Capacity[t] = used[t]
		} else {
			p.Capacity[t] = max(p.Capacity[t], (top+7)/8*8)
		}
	}
}

func emptiest(used []int32, but leases.Vector) int {
	best := -1
	for t := range used {
		if !but.Has(t) && (best < 0 || used[t] < used[best]) {
			best = t
		}
	}
	return best
}
