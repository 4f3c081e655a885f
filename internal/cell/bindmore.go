package cell

import (
	"cmp"
	"slices"
)

// bindMore tentatively binds unbound preassigned cells of the VC in one chain,
// at every level that can hold the part's smallest task, until the newly bound
// cells of a level have room for `want` leaves. It reports whether it bound any.
// The packing then chooses among all of them; what it does not use is unbound.
func (s *search) bindMore(ci int16, p *part, want int32) bool {
	sp := &s.c.spaces[s.r.Space]
	smallest := p.tasks[len(p.tasks)-1].leaves
	grown := false
	for l := Level(1); l <= s.c.f.Chains[ci].Top; l++ {
		each := s.c.f.Chains[ci].LeavesAt(l)
		if each < smallest {
			continue
		}
		got := s.boundHere(ci, l)
		for i := range sp.Roots {
			if got >= want {
				break
			}
			r := &sp.Roots[i]
			if r.Chain != ci || r.Level != l || r.Cell != None {
				continue
			}
			if !s.bindBest(RootID(i), p) {
				break
			}
			got += s.room(r.Cell)
			grown = true
		}
	}
	return grown
}

// room counts the leaves below a cell that the gang could take.
func (s *search) room(id CellID) int32 {
	var n int32
	for _, b := range s.nodeBins(nil, id, 0) {
		n += b.avail
	}
	return n
}

// boundHere counts what the gang could take of the tentatively bound cells of a
// level.
func (s *search) boundHere(ci int16, l Level) int32 {
	var n int32
	for _, root := range s.bound {
		if r := &s.c.spaces[s.r.Space].Roots[root]; r.Chain == ci && r.Level == l {
			n += s.room(r.Cell)
		}
	}
	return n
}

// candidate ranks a physical cell for a preassigned one: by how much of the part
// it could serve with what is free and with what may be lifted, then by what
// binding it would disturb.
type candidate struct {
	cell   CellID
	idle   int32  // leaves of the part's tasks that fit on free leaves
	serves int32  // the same on free and liftable leaves
	cost   option // of the part's largest task, when holders may be lifted
	lent   int32  // leaves in opportunistic use
	lost   int32  // leaves this gang could not use
}

// compare prefers free leaves to room; roomy searches the other way round, since
// a VC with few cells may need the one with more room and more victims.
func (a candidate) compare(b candidate, roomy bool) int {
	first, second := cmp.Compare(b.idle, a.idle), cmp.Compare(b.serves, a.serves)
	if roomy {
		first, second = second, first
	}
	return cmp.Or(first, second, a.cost.compare(b.cost), cmp.Compare(a.lent, b.lent), cmp.Compare(a.lost, b.lost))
}

// untouched reports whether no cell of that size could be better.
func (a candidate) untouched() bool { return a.lent == 0 && a.lost == 0 }

// bindBest binds a root to the best physical cell: from the lowest level with a
// free cell that serves the part as well as an untouched one would (buddy
// allocation), or, when what is bad, avoided or in use stands in the way, from a
// higher one, as long as every other guarantee stays safe (HiveD's safe relaxed
// allocation).
func (s *search) bindBest(root RootID, p *part) bool {
	c := s.c
	r := &c.spaces[s.r.Space].Roots[root]
	ch := &c.f.Chains[r.Chain]
	most := s.servedUntouched(ch, r.Level, p)
	var found []candidate // the best of each level, lowest first
	for l := r.Level; l <= ch.Top; l++ {
		best := s.bestAt(slot(r.Chain, l), r.Level, p)
		if best.cell == None {
			continue
		}
		found = append(found, best)
		if best.idle >= most || s.roomy && best.serves >= most {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.compare(b, s.roomy) })
	for _, k := range found {
		if c.bind(s.r.Space, root, k.cell) {
			s.bound = append(s.bound, root)
			return true
		}
	}
	return false
}

// servedUntouched is what a free, healthy cell of a level would serve of a part.
func (s *search) servedUntouched(ch *Chain, l Level, p *part) int32 {
	if l <= ch.NodeLevel {
		return serve([]int32{ch.LeavesAt(l)}, p)
	}
	each := ch.LeavesAt(ch.NodeLevel)
	return serve(slices.Repeat([]int32{each}, int(ch.LeavesAt(l)/each)), p)
}

// bestAt returns the best cell of a level at or below the free cells of one
// list; its cell is None when there is none of use.
func (s *search) bestAt(list int, l Level, p *part) candidate {
	best := candidate{cell: None}
	for _, free := range s.c.spaces[0].free[list] {
		k := s.bestBelow(free, l, p)
		if k.cell != None && (best.cell == None || k.compare(best, s.roomy) < 0) {
			best = k
		}
		if best.cell != None && best.untouched() {
			break
		}
	}
	return best
}

// bestBelow returns the best cell of a level at or below a free cell; its cell
// is None when the gang could use no leaf of it.
func (s *search) bestBelow(id CellID, l Level, p *part) candidate {
	f := s.c.f
	if f.Cells[id].Level == l {
		return s.candidate(id, p)
	}
	first, step, n := f.Children(id)
	best := candidate{cell: None}
	for i := int32(0); i < n; i++ {
		k := s.bestBelow(first+CellID(i)*step, l, p)
		if k.cell != None && (best.cell == None || k.compare(best, s.roomy) < 0) {
			best = k
		}
		if best.cell != None && best.untouched() {
			break
		}
	}
	return best
}

func (s *search) candidate(id CellID, p *part) candidate {
	k := candidate{cell: id}
	bins := s.nodeBins(nil, id, 0)
	idle, avail := make([]int32, len(bins)), make([]int32, len(bins))
	var sum int32
	for i, b := range bins {
		idle[i], avail[i] = b.idle, b.avail
		sum += b.avail
		k.lent += b.lent
	}
	k.lost = s.c.f.NumLeaves(id) - sum
	k.idle, k.serves = serve(idle, p), serve(avail, p)
	if k.serves == 0 {
		k.cell = None
	} else if s.r.Lift != nil && k.lent > 0 {
		k.cost = s.cheapest(bins, p)
	}
	return k
}

// cheapest returns what the largest task that fits any of the bins costs there.
func (s *search) cheapest(bins []bin, p *part) option {
	for i, t := range p.tasks {
		if i > 0 && t.leaves == p.tasks[i-1].leaves {
			continue
		}
		best, found := option{}, false
		for _, b := range bins {
			if o, ok := s.option(b.cell, t.leaves); ok && (!found || o.compare(best) < 0) {
				best, found = o, true
			}
		}
		if found {
			return best
		}
	}
	return option{}
}

// bindSteps bounds the exhaustive search over what could be bound to what.
const bindSteps = 512

// couldFit is a quick upper bound: the free leaves that the VC could ever reach
// now, and a cell wide enough for the largest task. With Lift it cannot say no.
func (s *search) couldFit(ci int16, p *part) bool {
	if p.tasks[0].leaves > s.widest(ci) {
		return false
	}
	if s.r.Lift != nil || s.r.IgnoreUse || s.r.IgnoreHealth {
		return true
	}
	sp := &s.c.spaces[s.r.Space]
	var room int32
	var unbound [maxLevels]int32
	for i := range sp.Roots {
		r := &sp.Roots[i]
		switch {
		case r.Chain != ci || r.Pinned != "":
		case r.Cell == None:
			unbound[r.Level-1]++
		default:
			room += s.c.idle[r.Cell]
		}
	}
	owned := room
	for l, n := range unbound {
		if n > 0 {
			owned += n * s.c.f.Chains[ci].LeavesAt(Level(l+1))
		}
	}
	if owned == room || owned < p.total {
		return false // no choice is left, or too little
	}
	for l := Level(1); l <= s.c.f.Chains[ci].Top; l++ {
		for _, id := range s.c.spaces[0].free[slot(ci, l)] {
			room += s.c.idle[id]
		}
	}
	return room >= p.total
}

// widest returns the largest bin that the VC's cells of a chain can have.
func (s *search) widest(ci int16) int32 {
	ch := &s.c.f.Chains[ci]
	var most int32
	for i := range s.c.spaces[s.r.Space].Roots {
		if r := &s.c.spaces[s.r.Space].Roots[i]; r.Chain == ci && r.Pinned == "" {
			most = max(most, ch.LeavesAt(min(r.Level, ch.NodeLevel)))
		}
	}
	return most
}

// exhaust tries every way to bind the VC's unbound cells of a chain, best first,
// until the part can be packed or bindSteps are used up. The greedy search before
// it finds nearly everything; this one finds the rest on small clusters.
func (s *search) exhaust(ci int16, p *part) bool {
	if s.pack(s.guaranteedBins(ci, ""), p) {
		return true
	}
	sp := &s.c.spaces[s.r.Space]
	for l := Level(1); l <= s.c.f.Chains[ci].Top; l++ {
		root := slices.IndexFunc(sp.Roots, func(r Root) bool { return r.Chain == ci && r.Level == l && r.Cell == None })
		if root < 0 {
			continue
		}
		for _, k := range s.candidates(ci, l, p) {
			if s.steps++; s.steps > bindSteps {
				// Where every node is allowed, cells that nobody uses are alike:
				// in an empty cluster another choice would not help.
				s.bounded = s.bounded || s.r.Allowed != nil
				return false
			}
			if !s.c.bind(s.r.Space, RootID(root), k.cell) {
				continue
			}
			s.bound = append(s.bound, RootID(root))
			if s.exhaust(ci, p) {
				return true
			}
			s.undoBinds(len(s.bound) - 1)
		}
	}
	return false
}

// candidates returns the free cells of a level that are of use, best first.
func (s *search) candidates(ci int16, l Level, p *part) []candidate {
	var out []candidate
	var add func(id CellID)
	add = func(id CellID) {
		if len(out) == bindSteps {
			return
		}
		if s.c.f.Cells[id].Level == l {
			if k := s.candidate(id, p); k.cell != None {
				out = append(out, k)
			}
			return
		}
		first, step, n := s.c.f.Children(id)
		for i := int32(0); i < n; i++ {
			add(first + CellID(i)*step)
		}
	}
	for from := l; from <= s.c.f.Chains[ci].Top; from++ {
		for _, id := range s.c.spaces[0].free[slot(ci, from)] {
			add(id)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return a.compare(b, s.roomy) })
	return out
}

// serve returns how many leaves of a part's tasks fit into bins with that room,
// largest tasks first.
func serve(room []int32, p *part) int32 {
	var n, total int32
	for _, r := range room {
		total += r
	}
	for _, t := range p.tasks {
		if n+t.leaves > total {
			continue
		}
		if i := bestOpen(room, t.leaves); i >= 0 {
			room[i] -= t.leaves
			n += t.leaves
		}
	}
	return n
}
