package cell

import (
	"cmp"
	"slices"
)

// exhaust tries every way to bind the VC's unbound cells of a chain, best first, until the part
// can be packed or bindSteps are used up. The greedy search before it finds nearly everything;
// this one finds the rest on small clusters. The order in which cells are bound does not matter:
// each set is tried once.
func (s *search) exhaust(ci int16, p *part) bool {
	if s.packBound(ci, p, false) {
		return true
	}
	if s.spent() {
		return false
	}
	ch := &s.c.f.Chains[ci]
	for l := Level(1); l <= ch.Top; l++ {
		slot := ch.slot0 + int(l) - 1
		if len(s.c.spaces[s.r.Space].unbound[slot]) == 0 {
			continue
		}
		for _, k := range s.choices(ci, l, p) {
			for _, outer := range s.c.openings(s.c.spaces[s.r.Space].Parent, k.cell) {
				if s.bindAndTry(ci, p, outer, k.cell) {
					return true
				}
				if s.steps > bindSteps || s.t.budget <= 0 || s.spent() {
					return false
				}
			}
		}
	}
	return false
}

// reachable reports whether the VC could have enough for a part, by an upper bound: what its
// bound cells serve, and at each level the best cells that its unbound roots could be bound to.
func (s *search) reachable(ci int16, p *part) bool {
	ch, sp := &s.c.f.Chains[ci], &s.c.spaces[s.r.Space]
	levels := make([][]candidate, ch.Top)
	whole := p.smallest() == p.tasks[0].leaves // tasks of one size fit each node on its own
	for l := range levels {
		if len(sp.unbound[ch.slot0+l]) == 0 {
			continue
		}
		if levels[l], _ = s.candidates(ci, Level(l+1), p, bindSteps, 0); len(levels[l]) == bindSteps {
			return true // there may be more
		}
		whole = whole && Level(l+1) >= ch.NodeLevel
	}
	var bins []bin
	for i := range sp.Roots {
		if r := &sp.Roots[i]; r.Chain == ci && r.Pinned == "" && r.Cell != None {
			bins = s.nodeBins(bins, r.Cell)
			whole = whole && r.Level >= ch.NodeLevel
		}
	}
	most := func(serves, room int32) int32 {
		if whole {
			return serves
		}
		return room
	}
	var got int32
	for i := range bins {
		got += most(bins[i].avail/p.smallest()*p.smallest(), bins[i].avail)
	}
	for l, found := range levels {
		n := len(sp.unbound[ch.slot0+l])
		room := make([]int32, len(found))
		for i := range found {
			room[i] = most(found[i].serves, s.c.f.NumLeaves(found[i].cell)-found[i].unusable)
		}
		slices.SortFunc(room, func(a, b int32) int { return cmp.Compare(b, a) })
		for _, r := range room[:min(n, len(room))] {
			got += r
		}
	}
	return got >= p.total
}

// spent reports whether the search must end since no steps are left, and notes it.
func (s *search) spent() bool {
	if !s.c.work.Over() {
		return false
	}
	s.reached |= boundSteps
	return true
}

// enough reports whether by numbers alone a VC could have room for a part: for the tasks of each
// size and above, node by node. It never says no where there is room.
func (s *search) enough(ci int16, p *part) bool {
	for i, t := range p.tasks {
		if last := i == len(p.tasks)-1; (last || p.tasks[i+1].leaves < t.leaves) &&
			!s.roomFor(ci, t.leaves, int32(i)+1) {
			return false
		}
	}
	return true
}

// roomFor is enough for n tasks of a size. It counts how many leaves of unbound cells below node
// level each task would need, and gives these to the tasks that need the fewest. It takes them as
// one sum over all levels.
func (s *search) roomFor(ci int16, size, n int32) bool {
	ch, small, whole := &s.c.f.Chains[ci], int32(0), int32(0)
	for l := Level(1); l <= ch.Top; l++ {
		if leaves := int32(len(s.c.spaces[s.r.Space].unbound[ch.slot0+int(l)-1])) * ch.LeavesAt(l); l < ch.NodeLevel {
			small += leaves
		} else {
			whole += leaves / ch.LeavesAt(ch.NodeLevel)
		}
	}
	takes, rooms := make([]int32, size+1), int32(0) // takes: tasks by how many such leaves they need
	s.c.work.Step(len(ch.NodeCells) / 16)
	for b, node := range ch.NodeCells {
		if s.atMost(node) < size && !s.hidden(node) {
			continue
		}
		s.c.work.Step(1)
		var own, free int32
		switch s.c.bins[ci][b].vc {
		case s.r.Space:
			own = s.room(node)
		case None:
			_, free = s.freeRoom(ch, node)
			own = s.ownRoom(ch, node)
		}
		rooms += (own + free) / size
		for k := size; k <= own+free; k += size {
			takes[min(max(k-own, 0), size)]++
		}
	}
	if rooms < n {
		return false
	}
	n -= whole * (ch.LeavesAt(ch.NodeLevel) / size)
	for each, k := range takes {
		if each > 0 {
			k = min(k, small/int32(each))
		}
		n, small = n-k, small-k*int32(each)
	}
	return n <= 0
}

// bindAndTry binds one more cell, inside cells that are bound for the containers, and goes on
// from there, unless that set was tried.
func (s *search) bindAndTry(ci int16, p *part, outer []Bind, id CellID) bool {
	mark := len(s.bound)
	bound := s.bindInside(outer, id)
	if bound && !s.tried.Add(s.bindings(ci)) {
		s.undoBinds(mark)
		return false
	}
	if !s.step() || !bound || !s.exhaust(ci, p) {
		s.undoBinds(mark)
		return false
	}
	return true
}

// bindInside binds roots of the containers around a cell and then a root to the cell, or none of
// them. If healthy cells can meet a container's guarantees before, they must afterwards.
func (s *search) bindInside(outer []Bind, id CellID) bool {
	c, ci := s.c, s.c.f.Cells[id].Chain
	sound := make([]bool, len(outer))
	for i, b := range outer {
		sound[i] = c.shortLevel(b.Space, ci) == 0
	}
	ok := true
	for i := 0; ok && i < len(outer); i++ {
		ok = c.bind(outer[i].Space, outer[i].Root, outer[i].Cell)
	}
	mark := len(s.bound)
	ok = ok && s.bindTo(c.slotOf(id), id)
	for i, b := range outer {
		ok = ok && (!sound[i] || c.ignoreHealth || c.shortLevel(b.Space, ci) == 0)
	}
	if ok {
		return true
	}
	s.undoBinds(mark)
	for i := len(outer) - 1; i >= 0; i-- {
		if b := outer[i]; c.spaces[b.Space].Roots[b.Root].Cell == b.Cell {
			c.unbind(b.Space, b.Root)
		}
	}
	return false
}

// choices returns the cells that a root of a level may be bound to, best first, without those
// that are like another. In a free cell of which nothing is in use, bad or forbidden to the gang,
// any will do. If distance does not matter, such a free cell of node level or above is like any
// other of its size.
func (s *search) choices(ci int16, l Level, p *part) []candidate {
	type likeness struct {
		space int32 // the container
		level Level
	}
	f, seen := s.c.f, map[likeness]bool{}
	ch := &f.Chains[ci]
	var out []candidate
	for _, src := range s.sources(ci, l) {
		for _, free := range s.c.spaces[src.space].free[ch.slot0+int(src.level)-1] {
			below := f.below(free, l)
			if s.alike() && s.c.idle[free] == f.NumLeaves(free) {
				below = below[:1]
				like := likeness(src)
				if s.r.Reach == nil && src.level >= ch.NodeLevel && seen[like] {
					continue
				}
				seen[like] = true
			}
			for i := 0; i < len(below) && len(out) < bindSteps; i++ {
				if k := s.candidate(below[i], p); k.cell != None {
					out = append(out, k)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return a.compare(&b, s.roomy) })
	return s.unlike(ci, out)
}

// alike reports whether all idle leaves are alike to the gang.
func (s *search) alike() bool { return s.countsExact && !s.prefers && !s.restricted }

// unlike drops free nodes with as many idle and preemptible leaves as another, if distance does
// not matter and the VC has nothing smaller to bind.
func (s *search) unlike(ci int16, all []candidate) []candidate {
	if !s.alike() || s.r.Reach != nil || s.narrowest(ci) < wide {
		return all
	}
	type likeness struct{ space, idle, soft int32 }
	c, seen := s.c, map[likeness]bool{}
	return slices.DeleteFunc(all, func(k candidate) bool {
		if cl := &c.f.Cells[k.cell]; cl.Level != c.f.Chains[ci].NodeLevel || c.bad[k.cell] > 0 {
			return false
		}
		for up := c.spaces[s.r.Space].Parent; up != None; up = c.spaces[up].Parent {
			if c.spaces[up].free[c.slotOf(k.cell)].has(k.cell) {
				like := likeness{up, c.idle[k.cell], c.preemptible[k.cell]}
				dropped := seen[like]
				seen[like] = true
				return dropped
			}
		}
		return false
	})
}

// step counts one more binding. It reports false when there were too many, and notes which bound
// was reached. It notes none where every node is allowed and bad leaves are ignored: cells not in
// use are alike then, and in an empty cluster another choice would not help.
func (s *search) step() bool {
	s.steps++
	s.c.work.Step(1)
	switch {
	case s.steps <= bindSteps && s.t.budget > 0:
		s.t.budget--
		s.t.steps++
		return true
	case s.r.Allowed == nil && s.r.IgnoreHealth:
	case s.steps > bindSteps:
		s.reached |= boundBinds
	default:
		s.reached |= boundAllBinds
	}
	return false
}

// bindings lists the cells of a chain that are tentatively bound for the VC and those bound for
// the containers around it. The order in which they were bound does not matter.
func (s *search) bindings(ci int16) []int32 {
	var out []int32
	for _, root := range s.bound {
		if r := &s.c.spaces[s.r.Space].Roots[root]; r.Chain == ci {
			out = append(out, int32(r.Cell)<<1)
		}
	}
	for up := s.c.spaces[s.r.Space].Parent; up > 0; up = s.c.spaces[up].Parent {
		for _, at := range s.c.spaces[up].at {
			out = append(out, int32(at.cell)<<1+1)
		}
	}
	slices.Sort(out)
	return out
}

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

// inVC places one part in the VC's cells of one chain: in bound ones if no fresh one could be
// better, else by binding more and more unbound ones. One cell for each task is tried first, then
// several side by side.
func (s *search) inVC(ci int16, p *part) bool {
	grows := s.growable(ci)
	if s.r.Preempt == nil && s.packBound(ci, p, grows) {
		return true
	}
	if s.r.Preempt == nil && !grows {
		return false
	}
	apart := grows && p.tasks[0].leaves > s.c.spaces[s.r.Space].widest[ci]
	if !apart && s.grow(ci, p, false) {
		return true
	}
	return grows && s.combines(ci, p) && s.grow(ci, p, true)
}

// grow binds more and more of the VC's unbound cells of a chain until the part can be packed;
// with joined also several side by side for one task.
func (s *search) grow(ci int16, p *part, joined bool) bool {
	if s.spent() { // a late search still tries, but not in every way
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
