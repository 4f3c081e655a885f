package leases

// search is the state of local search. What a round changes is remembered, so that
// a round that made things worse costs no more to undo than it cost.
type search struct {
	seed  uint64
	moves int
	out   []int32 // the rows that the round took out

	round int32   // 0 outside of local search
	stamp []int32 // the last round in which a row was remembered
	left  []uint64
	value int64
	rows  []int32
	was   []int32
	bits  []uint64
}

func (h *search) begin(rows int) {
	h.seed, h.moves, h.round = 0x9E3779B97F4A7C15, 0, 0
	h.stamp = grown(h.stamp, rows)
	clear(h.stamp)
}

// random returns a number from 0 to n-1 (xorshift, always the same sequence).
func (h *search) random(n int) int {
	h.seed ^= h.seed << 13
	h.seed ^= h.seed >> 7
	h.seed ^= h.seed << 17
	return int(h.seed >> 33 % uint64(n))
}

// touch remembers a row before it changes for the first time in a round.
func (h *search) touch(s *Solver, j int32) {
	if h.stamp[j] != h.round {
		h.stamp[j] = h.round
		h.rows = append(h.rows, j)
		h.was = append(h.was, s.chosen[j])
		h.bits = append(h.bits, s.has(j)...)
	}
}

// next starts a round.
func (h *search) next(s *Solver) {
	h.round++
	h.left = append(h.left[:0], s.left.bits...)
	h.value = s.value
	h.rows, h.was, h.bits = h.rows[:0], h.was[:0], h.bits[:0]
}

// undo takes a round back.
func (h *search) undo(s *Solver) {
	copy(s.left.bits, h.left)
	s.value = h.value
	for i, j := range h.rows {
		s.chosen[j] = h.was[i]
		copy(s.has(j), h.bits[i*s.words:][:s.words])
	}
}

// mostOut is how many rows a round takes out. Fewer find less, more cost more than
// they find.
const mostOut = 14

// movesPerRow is how many moves each row may add: a few rows are soon tried out.
const movesPerRow = 2500

// moreMoves is how many times the moves a problem gets whose gap to the bound stays
// wide: above 2.5 %, or 0.6 % where all are guaranteed. So only hard ones take longer.
const moreMoves = 5

// improve goes on from the best plan by ruin and recreate: a round takes out rows
// that compete for one lease and puts rows in again. A round that lost nothing is
// kept, since a plan of equal value may lead further.
func (s *Solver) improve(moves int) {
	s.restore(&s.best)
	if len(s.rows) == 0 || s.words == 0 {
		return
	}
	most, all := s.prices.bound, true
	for i := range s.rows {
		all = all && s.rows[i].guaranteed
		if s.rows[i].guaranteed && len(s.rows[i].options) > 0 {
			most += placedBonus
		}
	}
	wide := s.prices.bound / 40
	if all {
		wide = s.prices.bound / 160
	}
	moves = min(moves, movesPerRow*len(s.rows))
	for s.value < most && (s.search.moves < moves || s.search.moves < moreMoves*moves && s.value < most-wide) {
		s.search.next(s)
		s.ruin()
		if s.value < s.search.value {
			s.search.undo(s)
		}
	}
}

// ruin takes out a row that has not its best option and some of those that hold
// one of the leases that it could use, and recreates the plan.
func (s *Solver) ruin() {
	h := &s.search
	u := h.random(len(s.rows))
	for range 8 {
		if s.chosen[u] != 0 && len(s.rows[u].options) > 0 {
			break
		}
		u = h.random(len(s.rows))
	}
	h.moves += 4 + len(s.rows)/8 // looking through the rows costs as well
	if len(s.rows[u].options) == 0 {
		return
	}
	if s.chosen[u] != none {
		s.take(int32(u))
	}
	t := h.random(int(s.rows[u].options[0].Leases))
	word, bit := t/64, uint64(1)<<(t%64)
	h.out = h.out[:0]
	for k, c := range s.chosen {
		if c != none && s.bits[k*s.words+word]&bit != 0 {
			h.out = append(h.out, int32(k))
		}
	}
	n := min(1+h.random(mostOut), len(h.out))
	for i := range n {
		k := i + h.random(len(h.out)-i)
		h.out[i], h.out[k] = h.out[k], h.out[i]
		s.take(h.out[i])
	}
	h.moves += 2 * n
	s.insert(int32(u), false)
	s.recreate(h.out[:n])
}

// recreate puts rows back in, then others by reward against price, and gives rows
// better options where there is room.
func (s *Solver) recreate(out []int32) {
	for _, k := range out {
		s.insert(k, false)
	}
	for _, j := range s.order {
		if s.chosen[j] == none {
			s.search.moves++
			s.insert(j, false)
		} else if s.chosen[j] > 0 {
			s.search.moves++
			s.upgrade(j)
		}
	}
}

// upgrade gives a row an earlier deadline where there is room.
func (s *Solver) upgrade(j int32) {
	r, has := &s.rows[j], s.has(j)
	m := r.options[s.chosen[j]-1].Leases
	avail := s.avail[:(m+63)/64]
	s.left.atLeast(r.gpus, avail)
	for i := range avail {
		avail[i] |= has[i]
	}
	if countBefore(m, avail) >= r.need {
		s.take(j)
		s.insert(j, false)
	}
}
