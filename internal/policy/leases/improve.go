package leases

// undo remembers what a round of local search changes.
type undo struct {
	left  []uint64
	value int64
	rows  []int32
	was   []int32
	bits  []uint64
	stamp []int32 // the round in which a row was last remembered
	round int32
}

func (s *Solver) mark() {
	u := &s.undo
	u.left = append(u.left[:0], s.left.bits...)
	u.value = s.value
	u.rows, u.was, u.bits = u.rows[:0], u.was[:0], u.bits[:0]
	u.round++
}

// touch remembers a row before it changes.
func (s *Solver) touch(j int32) {
	u := &s.undo
	if u.stamp[j] != u.round {
		u.stamp[j] = u.round
		u.rows = append(u.rows, j)
		u.was = append(u.was, s.chosen[j])
		u.bits = append(u.bits, s.has(j)...)
	}
}

func (s *Solver) back() {
	u := &s.undo
	copy(s.left.bits, u.left)
	s.value = u.value
	for i, j := range u.rows {
		s.chosen[j] = u.was[i]
		copy(s.has(j), u.bits[i*s.words:][:s.words])
	}
}

func (s *Solver) random(n int) int {
	s.seed ^= s.seed << 13
	s.seed ^= s.seed >> 7
	s.seed ^= s.seed << 17
	return int(s.seed >> 33 % uint64(n))
}

func (s *Solver) improve(work int) {
	s.restore(&s.best)
	if len(s.rows) == 0 {
		return
	}
	s.undo.stamp = grown(s.undo.stamp, len(s.rows))
	clear(s.undo.stamp)
	s.undo.round = 0
	s.work = 0
	for s.work < work {
		s.mark()
		s.round()
		worst := int64(0)
		if HEAT > 0 {
			worst = int64(HEAT << 20) * int64(work - min(s.work, work)) / int64(work) * int64(s.random(1024)) / 1024
		}
		if s.value < s.undo.value-worst {
			s.back()
		} else if s.value > s.best.value {
			s.save(&s.best)
		}
	}
	s.restore(&s.best)
}

var HEAT int = 0
var REL = 0
var BLINK = 0
var UPG, OUT = true, 3

func (s *Solver) round() {
	u := int32(s.random(len(s.rows)))
	for range 8 {
		if s.chosen[u] != 0 && len(s.rows[u].options) > 0 {
			break
		}
		u = int32(s.random(len(s.rows)))
	}
	if len(s.rows[u].options) == 0 {
		s.work++
		return
	}
	s.touch(u)
	if s.chosen[u] != none {
		s.take(u)
	}
	t := s.random(int(s.rows[u].options[0].Leases))
	word, bit := t/64, uint64(1)<<(t%64)
	out := s.out[:0]
	for k, c := range s.chosen {
		if c != none && s.bits[k*s.words+word]&bit != 0 {
			out = append(out, int32(k))
		}
	}
	n := min(1 + s.random(OUT), len(out))
	for i := range n {
		k := i + s.random(len(out)-i)
		out[i], out[k] = out[k], out[i]
		s.touch(out[i])
		s.take(out[i])
	}
	s.out = out
	tight := s.random(2) == 0
	s.work += 2*n + 4
	s.insert(u, tight)
	for _, k := range out[:n] {
		if BLINK > 0 && s.random(BLINK) == 0 { continue }
		s.insert(k, tight)
	}
	for _, j := range s.order {
		switch {
		case s.chosen[j] == none:
			s.work++
			s.insert(j, tight)
		case s.chosen[j] > 0:
			s.work++
			s.upgrade(j, tight)
		}
	}
	s.work += len(s.order) >> 3
}

// upgrade gives a row an earlier deadline where there is room.
func (s *Solver) upgrade(j int32, tight bool) {
	r := &s.rows[j]
	m := r.options[s.chosen[j]-1].Leases
	avail := s.avail[:(m+63)/64]
	s.left.atLeast(r.gpus, avail)
	has := s.has(j)
	for i := range avail {
		avail[i] |= has[i]
	}
	if countBefore(m, avail) < r.need {
		return
	}
	s.touch(j)
	s.take(j)
	s.insert(j, tight)
}

func (s *Solver) current() {}
