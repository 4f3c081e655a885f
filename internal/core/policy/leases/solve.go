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
	// Moves is how often local search tries to put a job into leases, at most: few
	// jobs get fewer, and a problem whose gap to the bound stays wide up to 5 times more.
	Moves int
}

// DefaultLimits take about 3 ms for 400 rows and 250 leases.
func DefaultLimits() Limits { return Limits{Prices: 60, Moves: 75_000} }

// row is a job as the solver sees it: rewards scaled, options that can be chosen.
type row struct {
	gpus, need int32
	guaranteed bool
	skipped    int32 // options of the job before options[0]
	options    []Option
}

// last is how many leases the last option reaches.
func (r *row) last() int32 { return r.options[len(r.options)-1].Leases }

// none is the chosen option of a job that has none.
const none = -1

// placedBonus is worth more than all rewards: what placing a guaranteed job adds.
const placedBonus = int64(1) << 46

// Solver solves problems one after the other with the same memory. The zero value
// is ready. It is not safe for use from two goroutines at once.
type Solver struct {
	words   int // of a lease vector
	shift   int // rewards are scaled by 1<<shift
	options []Option
	rows    []row

	// The state: what is left of each lease, each row's option and leases.
	left   sliced
	chosen []int32
	bits   []uint64 // row j's leases are bits[j*words:][:words]
	value  int64    // scaled rewards, and placed for each guaranteed row

	best, empty saved
	prices      prices
	keys        []int64
	order       []int32 // of the last rank
	search      search
	avail, rest []uint64
}

// saved is a state to come back to.
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

// Solve writes into plan the best selection that it finds for a problem within
// limits. The same problem and limits give the same plan on every machine,
// whatever was solved before. A guaranteed job is left out only where no way to
// place it was found; never when the cached leases of the guaranteed jobs fit
// together. Errors say what is wrong with the problem.
func (s *Solver) Solve(p *Problem, limits Limits, plan *Plan) error {
	if err := p.Validate(); err != nil {
		return err
	}
	s.begin(p)
	s.construct(p, limits.Prices)
	s.improve(limits.Moves)
	s.shiftCurrent(p)
	s.write(p, plan)
	return nil
}

// begin reads the problem into an empty state.
func (s *Solver) begin(p *Problem) {
	n := len(p.Jobs)
	s.words = (len(p.Capacity) + 63) / 64
	top, count := int64(1), 0
	for i := range p.Jobs {
		count += len(p.Jobs[i].Options)
		for _, o := range p.Jobs[i].Options {
			top = max(top, o.Reward)
		}
	}
	s.shift = max(0, 30-bits.Len64(uint64(top)))
	s.options, s.rows = grown(s.options, count)[:0], grown(s.rows, n)
	for i := range p.Jobs {
		s.rows[i] = s.row(&p.Jobs[i])
	}
	most := int32(0)
	for _, c := range p.Capacity {
		most = max(most, c)
	}
	s.left.set(p.Capacity, bits.Len32(uint32(most)))
	s.chosen, s.bits = grown(s.chosen, n), grown(s.bits, n*s.words)
	for i := range s.chosen {
		s.chosen[i] = none
	}
	clear(s.bits)
	s.avail, s.rest = grown(s.avail, s.words), grown(s.rest, s.words)
	s.keys, s.order = grown(s.keys, n), grown(s.order, n)
	s.value = 0
	s.search.begin(n)
	s.save(&s.empty)
	s.save(&s.best)
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

// construct makes plans in several orders, and keeps the best in s.best. The rows
// stay ranked by reward against price.
func (s *Solver) construct(p *Problem, steps int) {
	s.warm(p)
	s.rank(density)
	s.fill(false)
	s.restore(&s.empty)
	s.fill(false)
	s.rank(bigFirst)
	for _, spread := range []bool{false, true} {
		s.restore(&s.empty)
		s.fill(spread)
	}
	s.prices.find(s.rows, p.Capacity, s.best.value&(placedBonus-1), steps)
	s.rank(s.prices.worth)
	s.restore(&s.empty)
	s.fill(false)
}

// warm gives the rows their cached leases as far as they fit, guaranteed ones first.
func (s *Solver) warm(p *Problem) {
	for _, guaranteed := range []bool{true, false} {
		for j := range p.Jobs {
			if p.Jobs[j].Guaranteed == guaranteed {
				s.warmRow(int32(j), p.Jobs[j].Cached)
			}
		}
	}
}

func (s *Solver) warmRow(j int32, cached Vector) {
	r, end := &s.rows[j], int32(cached.End())
	if len(r.options) == 0 || cached.Count() != int(r.need) || end > r.last() {
		return
	}
	set := s.avail[:(end+63)/64]
	s.left.atLeast(r.gpus, set)
	for i := range set {
		if cached[i]&^set[i] != 0 {
			return
		}
	}
	option := int32(0)
	for r.options[option].Leases < end {
		option++
	}
	s.give(j, option, cached[:len(set)])
}

// rank sorts the rows into order, the largest key first, the first row among equals.
func (s *Solver) rank(key func(r *row) int64) {
	for j := range s.rows {
		s.keys[j] = -1
		if len(s.rows[j].options) > 0 {
			s.keys[j] = key(&s.rows[j])
		}
		s.order[j] = int32(j)
	}
	slices.SortFunc(s.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.keys[b], s.keys[a]), cmp.Compare(a, b))
	})
}

// density is the reward for each GPU-lease.
func density(r *row) int64 {
	return r.options[0].Reward << 20 / (int64(r.gpus) * int64(r.need))
}

// bigFirst ranks by size, then least slack, then latest deadline: Chronus' order.
func bigFirst(r *row) int64 {
	return int64(r.gpus)<<32 + int64(MaxLeases-(r.last()-r.need))<<16 + int64(r.last())
}

// fill puts in what is out, the guaranteed rows first, in s.order.
func (s *Solver) fill(spread bool) {
	for _, guaranteed := range []bool{true, false} {
		for _, j := range s.order {
			if s.chosen[j] == none && s.rows[j].guaranteed == guaranteed {
				s.insert(j, spread)
			}
		}
	}
	if s.value > s.best.value {
		s.save(&s.best)
	}
}

// insert gives row j the best option that the leases left allow, if one does, and
// for it the latest leases, which are the cheapest, or with spread those that have
// most left.
func (s *Solver) insert(j int32, spread bool) {
	r := &s.rows[j]
	if len(r.options) == 0 {
		return
	}
	last := r.last()
	avail := s.avail[:(last+63)/64]
	s.left.atLeast(r.gpus, avail)
	if countBefore(last, avail) < r.need {
		return
	}
	option := int32(0)
	for countBefore(r.options[option].Leases, avail) < r.need {
		option++
	}
	m := r.options[option].Leases
	avail = avail[:(m+63)/64]
	keepBefore(m, avail)
	if spread {
		s.left.largest(int(r.need), avail, s.rest[:len(avail)])
	} else {
		keepLatest(int(r.need), avail)
	}
	s.give(j, option, avail)
}

// give puts row j into leases that have room for it.
func (s *Solver) give(j, option int32, set []uint64) {
	s.search.touch(s, j)
	s.left.sub(s.rows[j].gpus, set)
	copy(s.has(j), set)
	s.chosen[j] = option
	s.value += s.worth(j)
}

// take takes row j out of its leases.
func (s *Solver) take(j int32) {
	s.search.touch(s, j)
	s.value -= s.worth(j)
	has := s.has(j)
	s.left.add(s.rows[j].gpus, has)
	clear(has)
	s.chosen[j] = none
}

// has returns the leases of row j.
func (s *Solver) has(j int32) []uint64 { return s.bits[int(j)*s.words:][:s.words] }

// worth is what row j adds to the value.
func (s *Solver) worth(j int32) int64 {
	v := s.rows[j].options[s.chosen[j]].Reward
	if s.rows[j].guaranteed {
		v += placedBonus
	}
	return v
}

// shiftCurrent moves single leases to or from lease 0, larger jobs first, as the
// sign of CurrentWorth wants. It changes no reward.
func (s *Solver) shiftCurrent(p *Problem) {
	if p.CurrentWorth == 0 || s.words == 0 {
		return
	}
	s.rank(func(r *row) int64 { return int64(r.gpus) })
	for _, j := range s.order {
		c := s.chosen[j]
		if c == none || Vector(s.has(j)).Has(0) == (p.CurrentWorth > 0) {
			continue
		}
		g, has := s.rows[j].gpus, s.has(j)
		to := s.rest[:s.words]
		s.left.atLeast(g, to)
		if p.CurrentWorth > 0 {
			keepBefore(1, to)
		} else {
			keepBefore(s.rows[j].options[c].Leases, to)
			for i := range to {
				to[i] &^= has[i]
			}
			to[0] &^= 1
		}
		if countBefore(int32(len(to)*64), to) == 0 {
			continue
		}
		keepLatest(1, to)
		from := append(s.avail[:0], has...)
		if p.CurrentWorth > 0 {
			keepLatest(1, from)
		} else {
			keepBefore(1, from)
		}
		s.left.add(g, from)
		s.left.sub(g, to)
		for i := range to {
			has[i] = has[i]&^from[i] | to[i]
		}
	}
}

func (s *Solver) write(p *Problem, plan *Plan) {
	plan.words = s.words
	plan.Chosen = grown(plan.Chosen, len(p.Jobs))
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
	plan.Bound = (s.prices.bound + 1<<s.shift - 1) >> s.shift
	if p.CurrentWorth > 0 && len(p.Capacity) > 0 {
		plan.Bound += p.CurrentWorth * int64(p.Capacity[0])
	}
}
