package cell

// lateTries bounds how often a search still tries to pack a part once no steps are left.
const lateTries = 8

// growable reports whether the VC has cells of a chain that are not bound.
func (s *search) growable(ci int16) bool {
	ch := &s.c.f.Chains[ci]
	for l := range int(ch.Top) {
		if len(s.c.spaces[s.r.Space].unbound[ch.slot0+l]) > 0 {
			return true
		}
	}
	return false
}

// inVC places one part in the VC's cells of one chain: in those that are bound
// when no fresh one could be better, else binding more and more of the others, one
// cell for each task where that will do, else several side by side.
func (s *search) inVC(ci int16, p *part) bool {
	grows := s.growable(ci)
	if s.r.Lift == nil && s.packBound(ci, p, grows) {
		return true
	}
	if s.r.Lift == nil && !grows {
		return false
	}
	apart := grows && p.tasks[0].leaves > s.c.spaces[s.r.Space].widest[ci]
	if !apart && s.grow(ci, p, false) {
		return true
	}
	return grows && s.combines(ci, p) && s.grow(ci, p, true)
}

// grow binds more and more of the VC's unbound cells of a chain, with joined also
// several side by side for one task, until the part can be packed.
func (s *search) grow(ci int16, p *part, joined bool) bool {
	if s.spent() { // a search that comes late tries all the same, but not in every way
		if s.late++; s.late > lateTries {
			return false
		}
	}
	start := s.mark()
	grows := s.growable(ci)
	for want := p.total; ; want *= 2 {
		grown := joined && s.join(ci, p)
		grown = grows && s.bindMore(ci, p, want) || grown
		if s.packBound(ci, p, false) {
			return true
		}
		if !grown || s.spent() {
			break
		}
	}
	s.rewind(start)
	return false
}
