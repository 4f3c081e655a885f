package cell

import (
	"cmp"
	"slices"
)

// bindMore tentatively binds unbound preassigned cells of the VC in one chain, at every level
// that can hold the part's smallest task, until the newly bound cells of a level have room for
// `want` leaves. It reports whether it bound any. The packing then chooses among all of them;
// what it does not use is unbound.
func (s *search) bindMore(ci int16, p *part, want int32) bool {
	ch := &s.c.f.Chains[ci]
	sp := &s.c.spaces[s.r.Space]
	grown := false
	for l := Level(1); l <= ch.Top; l++ {
		each := ch.LeavesAt(l)
		list := len(sp.unbound[ch.slot0+int(l)-1])
		if list == 0 || each < p.smallest() {
			continue
		}
		lack := want - s.roomAt(ci, l)
		if lack <= 0 {
			continue
		}
		if k := (lack + each - 1) / each; k > 2 && list > 2 {
			grown = s.bindMany(ci, l, p, lack) || grown
			continue
		}
		for ; lack > 0 && len(sp.unbound[ch.slot0+int(l)-1]) > 0; grown = true {
			got, ok := s.bindBest(ci, l, p)
			if !ok {
				break
			}
			lack -= got
		}
	}
	return grown
}

// roomAt counts the leaves that the gang could take of the tentatively bound cells of a level.
func (s *search) roomAt(ci int16, l Level) int32 {
	var n int32
	for _, root := range s.bound {
		if r := &s.c.spaces[s.r.Space].Roots[root]; r.Chain == ci && r.Level == l {
			n += s.room(r.Cell)
		}
	}
	return n
}

// room counts the leaves below a cell that the gang could take.
func (s *search) room(id CellID) int32 {
	if !s.counted(s.c.f.Cells[id].Chain) {
		return s.available(id)
	}
	if s.r.Allowed == nil && len(s.r.Avoided) == 0 {
		if s.r.Preempt != nil {
			return s.c.idle[id] + s.c.preemptible[id]
		}
		return s.c.idle[id]
	}
	var n int32
	for _, b := range s.nodeBins(nil, id) {
		n += b.avail
	}
	return n
}

// available is room, counted leaf by leaf.
func (s *search) available(id CellID) int32 {
	first := s.c.f.Cells[id].FirstLeaf
	end := first + LeafID(s.c.f.NumLeaves(id))
	var n int32
	for l := first; l < end; l++ {
		if s.leaf(l) != leafNo {
			n++
		}
	}
	return n
}

// candidate is a physical cell for a preassigned one. It is ranked by how much of the part it
// could serve with free and with preemptible leaves, then by what binding it would disturb.
type candidate struct {
	cell          CellID
	idle          int32  // leaves of the part's tasks that fit on free leaves
	serves        int32  // the same on free and preemptible leaves
	cost          option // of the part's largest task, if holders may be preempted
	preemptible   int32  // preemptible leaves
	unusable      int32  // leaves that this gang could not use
	splitsHealthy bool   // it is split off a larger cell that is healthy, though the chain has bad leaves
	unpreferred   int32  // leaves on nodes that are not preferred, if some are
}

// compare prefers more free leaves, then more room. A roomy search does it the other way round,
// since a VC with few cells may need the one with more room and more victims.
func (a *candidate) compare(b *candidate, roomy bool) int {
	first, second := cmp.Compare(b.idle, a.idle), cmp.Compare(b.serves, a.serves)
	if roomy {
		first, second = second, first
	}
	if c := cmp.Or(first, second, a.cost.compare(b.cost), cmp.Compare(a.preemptible, b.preemptible), cmp.Compare(a.unusable, b.unusable)); c != 0 {
		return c
	}
	if a.splitsHealthy != b.splitsHealthy {
		if a.splitsHealthy {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.unpreferred, b.unpreferred)
}

// ideal reports whether no cell of that size could be better.
func (a *candidate) ideal() bool {
	return a.preemptible == 0 && a.unusable == 0 && !a.splitsHealthy && a.unpreferred == 0
}

// sources lists where a VC's root of a level may be bound. Buddy allocation goes from the lowest
// level up. Then come the places where an unbound root of the container itself could be bound,
// and so on. The list is good until the next call.
func (s *search) sources(ci int16, l Level) []source {
	ch := &s.c.f.Chains[ci]
	out := s.t.sources[:0]
	for up := s.c.spaces[s.r.Space].Parent; up != None; up = s.c.spaces[up].Parent {
		for from := l; from <= ch.Top; from++ {
			out = append(out, source{up, from})
		}
		sp := &s.c.spaces[up]
		for l <= ch.Top && len(sp.unbound[ch.slot0+int(l)-1]) == 0 {
			l++
		}
	}
	s.t.sources = out
	return out
}

// bindBest binds one root of a level to the best physical cell. It takes the lowest level with a
// free cell that serves the part as well as an untouched one would (buddy allocation). If bad,
// avoided or used leaves prevent that, it takes a higher level, as long as every other guarantee
// stays safe (HiveD's safe relaxed allocation). It returns the room gained.
func (s *search) bindBest(ci int16, l Level, p *part) (int32, bool) {
	ch := &s.c.f.Chains[ci]
	most := s.servedUntouched(ch, l, p)
	var found []candidate // the best of each source
	for _, src := range s.sources(ci, l) {
		best := s.bestAt(ch, src, l, p)
		if best.cell == None {
			continue
		}
		found = append(found, best)
		if best.idle >= most || s.roomy && best.serves >= most {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.compare(&b, s.roomy) })
	for i := range found {
		if s.bindTo(ch.slot0+int(l)-1, found[i].cell) {
			return s.room(found[i].cell), true
		}
	}
	return 0, false
}

// bindTo binds the first unbound root of a slot to a cell.
func (s *search) bindTo(slot int, id CellID) bool {
	list := s.c.spaces[s.r.Space].unbound[slot]
	if len(list) == 0 {
		return false
	}
	root := list[len(list)-1]
	if !s.c.bind(s.r.Space, root, id) {
		return false
	}
	s.bound = append(s.bound, root)
	return true
}

// bindMany binds as many roots of a level as give room for n leaves, to the best cells first. It
// looks at each cell once, and at no more than needed while no other could be better.
func (s *search) bindMany(ci int16, l Level, p *part, n int32) bool {
	grown := false
	for _, enough := range []int32{n, 0} {
		found, all := s.candidates(ci, l, p, maxBins, enough)
		for i := 0; i < len(found) && n > 0; i++ {
			if s.bindTo(s.c.f.slot(ci, l), found[i].cell) {
				n -= s.room(found[i].cell)
				grown = true
			}
		}
		if all || n <= 0 {
			break
		}
	}
	return grown
}

// servedUntouched is how many leaves of a part's tasks a free, healthy cell of a level serves.
func (s *search) servedUntouched(ch *Chain, l Level, p *part) int32 {
	if size := p.smallest(); size == p.tasks[0].leaves {
		node := ch.LeavesAt(min(l, ch.NodeLevel))
		return min(ch.LeavesAt(l)/node*(node/size), int32(len(p.tasks))) * size
	}
	if l <= ch.NodeLevel {
		return serve([]int32{ch.LeavesAt(l)}, p)
	}
	each := ch.LeavesAt(ch.NodeLevel)
	return serve(slices.Repeat([]int32{each}, int(ch.LeavesAt(l)/each)), p)
}

// bestAt returns the best cell of a level at or below the free cells of a source; its cell is
// None when none is of use.
func (s *search) bestAt(ch *Chain, src source, l Level, p *part) candidate {
	best := candidate{cell: None}
	broken := src.level > l && s.anyBad(ch)
	for _, free := range s.c.spaces[src.space].free[ch.slot0+int(src.level)-1] {
		k := s.bestBelow(free, l, p)
		k.splitsHealthy = broken && s.c.bad[free] == 0
		if k.cell != None && (best.cell == None || k.compare(&best, s.roomy) < 0) {
			best = k
		}
		if best.cell != None && best.ideal() {
			break
		}
	}
	return best
}

// anyBad reports whether a chain has bad leaves.
func (s *search) anyBad(ch *Chain) bool {
	for _, top := range ch.Tops {
		if s.c.bad[top] > 0 {
			return true
		}
	}
	return false
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
		if k.cell != None && (best.cell == None || k.compare(&best, s.roomy) < 0) {
			best = k
		}
		if best.cell != None && best.ideal() {
			break
		}
	}
	return best
}

func (s *search) candidate(id CellID, p *part) candidate {
	s.c.work.Step(1)
	k := candidate{cell: id}
	if f := s.c.f; s.c.idle[id] == f.NumLeaves(id) && s.counted(f.Cells[id].Chain) && !s.prefers && !s.restricted {
		if k.serves = s.servedUntouched(&f.Chains[f.Cells[id].Chain], f.Cells[id].Level, p); k.serves > 0 {
			k.idle = k.serves
			return k
		}
	}
	bins := s.nodeBins(nil, id)
	idle, avail := make([]int32, len(bins)), make([]int32, len(bins))
	var sum int32
	for i := range bins {
		idle[i], avail[i] = bins[i].idle, bins[i].avail
		sum += bins[i].avail
		k.preemptible += bins[i].preemptible
		if s.prefers && s.preference(bins[i].cell) == 0 {
			k.unpreferred += bins[i].avail
		}
	}
	k.unusable = s.c.f.NumLeaves(id) - sum
	k.idle, k.serves = serve(idle, p), serve(avail, p)
	if cl := &s.c.f.Cells[id]; k.serves == 0 && sum > 0 && (p.smallest() > s.c.f.NumLeaves(id) || cl.Level < s.c.f.Chains[cl.Chain].NodeLevel) {
		k.serves = sum // a part of what a task needs
	}
	if k.serves == 0 {
		k.cell = None
	} else if s.r.Preempt != nil && k.preemptible > 0 {
		k.cost = s.cheapest(bins, p)
	}
	return k
}

// cheapest returns the cost, in the cheapest of the bins, of the largest task that fits into one.
func (s *search) cheapest(bins []bin, p *part) option {
	for i, t := range p.tasks {
		if i > 0 && t.leaves == p.tasks[i-1].leaves {
			continue
		}
		best, found := option{}, false
		for b := range bins {
			if o, ok := s.option(&bins[b], t.leaves); ok && (!found || o.compare(best) < 0) {
				best, found = o, true
			}
		}
		if found {
			return best
		}
	}
	return option{}
}

// couldFit reports whether the free leaves that the VC could ever reach now may suffice. It is a
// quick upper bound, and with Preemptible none: then it says yes while any cell is unbound.
func (s *search) couldFit(ci int16, p *part) bool {
	if !s.growable(ci) {
		return false // no choice is left
	}
	if s.r.Preempt != nil || s.r.IgnoreUse || s.r.IgnoreHealth || s.r.Gone != nil {
		return true
	}
	ch := &s.c.f.Chains[ci]
	sp := &s.c.spaces[s.r.Space]
	var room, owned, fits int32
	small, tasks := p.smallest(), int32(len(p.tasks))
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if r.Chain != ci || r.Pinned != "" {
			continue
		}
		if r.Cell == None {
			owned += ch.LeavesAt(r.Level)
			continue
		}
		room += s.c.idle[r.Cell]
		owned += s.c.idle[r.Cell]
		if fits < tasks {
			fits += s.fits(r.Cell, small, tasks-fits)
		}
	}
	if owned < p.total {
		return false
	}
	for _, src := range s.sources(ci, 1) {
		for _, id := range s.c.spaces[src.space].free[ch.slot0+int(src.level)-1] {
			if room >= p.total && fits >= tasks {
				return true
			}
			room += s.c.idle[id]
			if fits < tasks {
				fits += s.fits(id, small, tasks-fits)
			}
		}
	}
	return room >= p.total && fits >= tasks
}

// fits bounds how many tasks of n leaves fit on the nodes at, around or below a cell. It need not
// count beyond enough.
func (s *search) fits(id CellID, n, enough int32) int32 {
	cl := &s.c.f.Cells[id]
	if s.c.idle[id] == 0 {
		return 0
	}
	ch := &s.c.f.Chains[cl.Chain]
	if cl.Level <= ch.NodeLevel {
		return s.c.idle[ch.NodeCells[cl.Bin]] / n
	}
	first, step, k := s.c.f.Children(id)
	var sum int32
	for i := int32(0); i < k && sum < enough; i++ {
		sum += s.fits(first+CellID(i)*step, n, enough-sum)
	}
	return sum
}

// candidates returns up to `most` free cells of a level that are of use, best first. With enough
// above 0 it stops once the cells that no other could better have that many leaves; all is false
// then.
func (s *search) candidates(ci int16, l Level, p *part, most int, enough int32) (out []candidate, all bool) {
	ch := &s.c.f.Chains[ci]
	best, got := s.servedUntouched(ch, l, p), int32(0)
	done := func() bool { return len(out) == most || enough > 0 && got >= enough }
	var add func(id CellID)
	add = func(id CellID) {
		if s.c.f.Cells[id].Level == l {
			k := s.candidate(id, p)
			if k.cell != None {
				out = append(out, k)
			}
			if k.cell != None && k.idle >= best && k.ideal() {
				got += ch.LeavesAt(l)
			}
			return
		}
		first, step, n := s.c.f.Children(id)
		for i := int32(0); i < n && !done(); i++ {
			add(first + CellID(i)*step)
		}
	}
	for _, src := range s.sources(ci, l) {
		for _, id := range s.c.spaces[src.space].free[ch.slot0+int(src.level)-1] {
			if done() {
				break
			}
			add(id)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return a.compare(&b, s.roomy) })
	return out, enough == 0 || got < enough
}

// serve returns how many leaves of a part's tasks fit into bins with that room, the largest tasks
// first.
func serve(room []int32, p *part) int32 {
	var n, total int32
	if size := p.smallest(); size == p.tasks[0].leaves { // of equal tasks any order fits as many
		for _, r := range room {
			n += r / size
		}
		return min(n, int32(len(p.tasks))) * size
	}
	for _, r := range room {
		total += r
	}
	for tasks := p.tasks; len(tasks) > 0 && n < total; {
		size := tasks[0].leaves
		if i := bestOpen(room, size); i >= 0 {
			room[i], n, tasks = room[i]-size, n+size, tasks[1:]
		} else { // nor does any of the same size
			tasks = tasks[fitting(tasks, size-1):]
		}
	}
	return n
}
