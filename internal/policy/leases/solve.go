package leases

import (
	"cmp"
	"math/bits"
	"slices"
)

// Limits bound a solution by counts, never by time.
type Limits struct {
	// Prices is how many steps the search for prices takes.
	Prices int
	// Rounds is how many times local search takes jobs out and puts jobs in.
	Rounds int
}

// DefaultLimits take about 3 ms for 400 rows and 250 leases.
func DefaultLimits() Limits { return Limits{Prices: 60, Rounds: 60000} }

// row is a job as the solver sees it: rewards scaled, options that can be chosen.
type row struct {
	gpus, need int32
	guaranteed bool
	options    []Option
	skipped    int32 // options of the job before options[0]
}

// none is the chosen option of a job that has none.
const none = -1

// placed is worth more than all rewards: what placing a guaranteed job adds.
const placed = int64(1) << 46

// Solver solves problems one after the other with the same memory. The zero value
// is ready. It is not safe for use from two goroutines at once.
type Solver struct {
	words   int
	shift   int
	options []Option
	rows    []row
	now     int64

	left   sliced // GPUs left in each lease
	chosen []int32
	bits   []uint64 // row j's leases are bits[j*words:][:words]
	value  int64

	prices prices
	keys   []int64
	order  []int32
	seed   uint64

	best   saved
	before saved
	avail  []uint64
	tie    []uint64
	out    []int32
	undo   undo
	work   int
}

// saved is a state of the solver to come back to.
type saved struct {
	left   []uint64
	chosen []int32
	bits   []uint64
	value  int64
}

func (s *Solver) save(to *saved) {
	to.left = append(to.left[:0], s.left.bits...)
	to.chosen = append(to.chosen[:0], s.chosen...)
	to.bits = append(to.bits[:0], s.bits...)
	to.value = s.value
}

func (s *Solver) restore(from *saved) {
	copy(s.left.bits, from.left)
	copy(s.chosen, from.chosen)
	copy(s.bits, from.bits)
	s.value = from.value
}

// has returns the leases of row j.
func (s *Solver) has(j int32) []uint64 { return s.bits[int(j)*s.words:][:s.words] }

func (s *Solver) worth(j, option int32) int64 {
	r := &s.rows[j]
	v := r.options[option].Reward
	if r.guaranteed {
		v += placed
	}
	return v
}

// Solve writes into plan the best selection it finds for a problem within limits,
// or returns what is wrong with the problem.
func (s *Solver) Solve(p *Problem, limits Limits, plan *Plan) error {
	if err := p.Validate(); err != nil {
		return err
	}
	s.begin(p)
	s.construct(p, limits)
	s.improve(limits.Rounds)
	s.current()
	s.write(p, plan)
	return nil
}

func (s *Solver) begin(p *Problem) {
	s.words = (len(p.Capacity) + 63) / 64
	total, top, count := int64(0), int64(1), 0
	for i := range p.Jobs {
		total += int64(p.Jobs[i].GPUs)
		count += len(p.Jobs[i].Options)
		for _, o := range p.Jobs[i].Options {
			top = max(top, o.Reward)
		}
	}
	s.shift = max(0, 30-bits.Len64(uint64(top)))
	s.now = p.Now
	s.options = grown(s.options, count)[:0]
	s.rows = grown(s.rows, len(p.Jobs))
	for i := range p.Jobs {
		s.rows[i] = s.row(&p.Jobs[i])
	}
	most := int32(0)
	for _, c := range p.Capacity {
		most = max(most, c)
	}
	s.left.set(p.Capacity, bits.Len32(uint32(most)))
	s.chosen = grown(s.chosen, len(p.Jobs))
	for i := range s.chosen {
		s.chosen[i] = none
	}
	s.bits = grown(s.bits, len(p.Jobs)*s.words)
	clear(s.bits)
	s.avail, s.tie = grown(s.avail, s.words), grown(s.tie, s.words)
	s.keys, s.order = grown(s.keys, len(p.Jobs)), grown(s.order, len(p.Jobs))
	s.value = 0
	s.undo.round = 0
	s.seed = 0x9E3779B97F4A7C15
	s.save(&s.before) // empty
}

func (s *Solver) row(job *Job) row {
	from := len(s.options)
	r := row{gpus: job.GPUs, need: job.Need, guaranteed: job.Guaranteed}
	for _, o := range job.Options {
		if o.Leases < job.Need {
			r.skipped++
			continue
		}
		o.Reward <<= s.shift
		s.options = append(s.options, o)
	}
	r.options = s.options[from:len(s.options):len(s.options)]
	return r
}

// insert gives row j the best option that the leases left allow; tight chooses
// leases whose GPUs left suit it best, else the latest. It reports whether one did.
func (s *Solver) insert(j int32, tight bool) bool {
	r := &s.rows[j]
	if len(r.options) == 0 {
		return false
	}
	last := r.options[len(r.options)-1].Leases
	avail := s.avail[:(last+63)/64]
	s.left.atLeast(r.gpus, avail)
	if countBefore(last, avail) < r.need {
		return false
	}
	option := int32(0)
	for countBefore(r.options[option].Leases, avail) < r.need {
		option++
	}
	m := r.options[option].Leases
	avail = avail[:(m+63)/64]
	first(m, avail)
	if tight {
		s.left.tightest(r.gpus, int(r.need), avail, s.tie[:len(avail)])
	} else {
		latest(int(r.need), avail)
	}
	if s.undo.round > 0 {
		s.touch(j)
	}
	s.give(j, option, avail)
	return true
}

// give puts row j into leases that have room for it.
func (s *Solver) give(j, option int32, set []uint64) {
	s.left.sub(s.rows[j].gpus, set)
	copy(s.has(j), set)
	s.chosen[j] = option
	s.value += s.worth(j, option)
}

// take takes row j out of its leases.
func (s *Solver) take(j int32) {
	has := s.has(j)
	s.left.add(s.rows[j].gpus, has)
	clear(has)
	s.value -= s.worth(j, s.chosen[j])
	s.chosen[j] = none
}

// rank sorts the rows into order, the largest key first, the first row among equals.
func (s *Solver) rank(key func(r *row) int64) {
	for j := range s.rows {
		s.keys[j] = key(&s.rows[j])
		s.order[j] = int32(j)
	}
	slices.SortFunc(s.order, func(a, b int32) int {
		if c := cmp.Compare(s.keys[b], s.keys[a]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
}

func (s *Solver) fill(tight bool) {
	for _, guaranteed := range []bool{true, false} {
		for _, j := range s.order {
			if s.chosen[j] == none && s.rows[j].guaranteed == guaranteed {
				s.insert(j, tight)
			}
		}
	}
	if s.value > s.best.value {
		s.save(&s.best)
	}
}

func density(r *row) int64 {
	if len(r.options) == 0 {
		return -1
	}
	return r.options[0].Reward << 20 / (int64(r.gpus) * int64(r.need))
}

func bigFirst(r *row) int64 {
	if len(r.options) == 0 {
		return -1
	}
	last := r.options[len(r.options)-1].Leases
	return int64(r.gpus)<<32 - int64(last-r.need)<<12 - int64(last)
}

func (s *Solver) construct(p *Problem, limits Limits) {
	s.save(&s.best)
	s.warm(p)
	s.rank(density)
	s.fill(false)
	for _, tight := range []bool{false, true} {
		s.restore(&s.before)
		s.fill(tight)
	}
	s.rank(bigFirst)
	for _, tight := range []bool{false, true} {
		s.restore(&s.before)
		s.fill(tight)
	}
	s.prices.find(s.rows, p.Capacity, s.best.value&(placed-1), limits.Prices)
	s.rank(func(r *row) int64 {
		best := int64(-1)
		for _, o := range r.options {
			best = max(best, o.Reward<<20/(s.prices.cost(r.gpus, r.need, o.Leases)+1))
		}
		return best
	})
	for _, tight := range []bool{false, true} {
		s.restore(&s.before)
		s.fill(tight)
	}
}

// warm gives the rows their cached leases as far as they fit.
func (s *Solver) warm(p *Problem) {
	for i := range p.Jobs {
		j, r, cached := int32(i), &s.rows[i], p.Jobs[i].Cached
		end := int32(cached.End())
		if len(r.options) == 0 || cached.Count() != int(r.need) || int(end) > len(p.Capacity) || end > r.options[len(r.options)-1].Leases {
			continue
		}
		set := s.avail[:(end+63)/64]
		s.left.atLeast(r.gpus, set)
		fits := true
		for w := range set {
			fits = fits && cached[w]&^set[w] == 0
		}
		if !fits {
			continue
		}
		option := int32(0)
		for r.options[option].Leases < end {
			option++
		}
		s.give(j, option, cached[:len(set)])
	}
}

func (s *Solver) write(p *Problem, plan *Plan) {
	n := len(p.Jobs)
	plan.words = s.words
	plan.Chosen = grown(plan.Chosen, n)
	plan.bits = append(plan.bits[:0], s.bits...)
	plan.Reward, plan.Used, plan.Unplaced = 0, 0, 0
	for j := range p.Jobs {
		c := s.chosen[j]
		if c == none {
			plan.Chosen[j] = none
			if p.Jobs[j].Guaranteed {
				plan.Unplaced++
			}
			continue
		}
		plan.Chosen[j] = c + s.rows[j].skipped
		plan.Reward += p.Jobs[j].Options[plan.Chosen[j]].Reward
		if plan.Leases(j).Has(0) {
			plan.Used += int64(p.Jobs[j].GPUs)
		}
	}
	plan.Bound = (s.prices.bound+1<<s.shift-1)>>s.shift
	if p.Now > 0 && len(p.Capacity) > 0 {
		plan.Bound += p.Now * int64(p.Capacity[0])
	}
}
