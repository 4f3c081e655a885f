package cell

import "slices"

// spanSteps bounds how many ways to divide a part among chains are tried.
const spanSteps = 64

// span divides the tasks of the first part among several chains: the largest ones
// to one chain, as many as fit there, the rest to the others.
func (s *search) span(ps []part) bool {
	p := &ps[0]
	if p.pinned != "" || len(p.tasks) < 2 || s.r.Reach != nil {
		return false
	}
	var chains []int
	for ci := range s.c.f.Chains {
		if s.usable(ci, p) && s.present(ci) {
			chains = append(chains, ci)
		}
	}
	if len(chains) < 2 {
		return false
	}
	for _, ci := range chains {
		for k := len(p.tasks) - 1; k >= 1; k-- {
			if s.spans++; s.spans > spanSteps {
				s.hit |= boundSpans
				return false
			}
			mark := s.mark()
			head, rest := p.divide(k, ci)
			if s.inChain(int16(ci), &head) && s.parts(append([]part{rest}, ps[1:]...)) {
				return true
			}
			s.rewind(mark)
		}
	}
	return false
}

// present reports whether a gang could have anything of a chain at all.
func (s *search) present(ci int) bool {
	if s.opportunistic() {
		return true
	}
	roots := s.c.spaces[s.r.Space].Roots
	return slices.ContainsFunc(roots, func(r Root) bool { return int(r.Chain) == ci && r.Pinned == "" })
}

// divide cuts a part into its first k tasks and the rest, which another chain
// must take.
func (p *part) divide(k, ci int) (head, rest part) {
	head, rest = *p, *p
	head.tasks, rest.tasks, head.total = p.tasks[:k:k], p.tasks[k:], 0
	for _, t := range head.tasks {
		head.total += t.leaves
	}
	rest.total -= head.total
	rest.not = append(slices.Clone(p.not), ci)
	return head, rest
}
