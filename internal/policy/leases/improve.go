package leases

func (s *Solver) random(n int) int {
	s.seed ^= s.seed << 13
	s.seed ^= s.seed >> 7
	s.seed ^= s.seed << 17
	return int(s.seed >> 33 % uint64(n))
}

func (s *Solver) improve(rounds int) {
	s.restore(&s.best)
	if len(s.rows) == 0 {
		return
	}
	for range rounds {
		s.save(&s.before)
		s.round()
		if s.value < s.before.value {
			s.restore(&s.before)
		}
	}
}

func (s *Solver) round() {
	out := s.out[:0]
	u := int32(s.random(len(s.rows)))
	for range 8 {
		if s.chosen[u] != 0 && len(s.rows[u].options) > 0 {
			break
		}
		u = int32(s.random(len(s.rows)))
	}
	if s.chosen[u] != none {
		s.take(u)
	}
	n := 1 + s.random(3)
	for range 20 {
		k := int32(s.random(len(s.rows)))
		if s.chosen[k] == none || k == u {
			continue
		}
		s.take(k)
		out = append(out, k)
		if len(out) == n {
			break
		}
	}
	s.out = out
	most := s.random(2) == 0
	s.insert(u, most)
	for _, k := range out {
		s.insert(k, most)
	}
	for _, j := range s.order {
		if s.chosen[j] == none {
			s.insert(j, most)
		}
	}
}

func (s *Solver) current() {}
