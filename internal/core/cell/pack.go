package cell

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/base/budget"
)

// pack places all tasks of a part in bins, or none.
func (s *search) pack(ci int16, bins []bin, p *part) bool {
	var sum int64
	for i := range bins {
		sum += int64(bins[i].avail)
	}
	if sum < int64(p.total) {
		return false
	}
	if s.r.Preempt != nil {
		if l := s.reach(ci); l <= s.c.f.Chains[ci].Top {
			return s.packPreemptingWithin(bins, p, l)
		}
		return s.packPreempting(bins, p) || s.preemptPerBin(bins, p)
	}
	assign, _, _, ok := s.choose(bins, p)
	if ok {
		s.assign(bins, assign, p)
	}
	return ok
}

func (s *search) assign(bins []bin, where []int, p *part) {
	if b := &bins[where[0]]; s.insideNode(s.c.f.Cells[b.cell].Chain) {
		s.take(0, s.pick(b, p.total)) // leaves that are close together
		s.distribute(p)
		return
	}
	for i, t := range p.tasks {
		s.take(t.index, s.pick(&bins[where[i]], t.leaves))
	}
}

func (s *search) take(index int32, leaves []LeafID) {
	for _, l := range leaves {
		s.t.taken[l] = s.t.epoch
	}
	s.placed = append(s.placed, placedTask{index, leaves})
}

// choose assigns each task of a part to a bin: in the fewest bins, then under the lowest common
// ancestor, then in the first bins of the given order. It returns how many bins it uses and the
// level of their common ancestor; one above the top where there is none.
func (s *search) choose(bins []bin, p *part) (where []int, used int, level Level, ok bool) {
	if len(bins) == 0 {
		return nil, 0, 0, false
	}
	ch := &s.c.f.Chains[s.c.f.Cells[bins[0].cell].Chain]
	if i, l := s.one(bins, p.total); i >= 0 {
		return slices.Repeat([]int{i}, len(p.tasks)), 1, l, true
	}
	each := int32(0)
	for i := range bins {
		each = max(each, bins[i].avail)
	}
	least := int((p.total + each - 1) / each)
	var near []int
	nearUsed, nearLevel := 0, Level(0)
	reach := s.reach(s.c.f.Cells[bins[0].cell].Chain)
	for l := ch.NodeLevel + 1; l <= min(ch.Top, reach) && near == nil; l++ {
		for gs := s.groups(bins, l, p); gs.len() > 0; gs.pop() {
			a, n, ok := s.fill(bins, gs.first(bins), p)
			if ok && (near == nil || n < nearUsed || n == nearUsed && s.countPreferred(bins, a) > s.countPreferred(bins, near)) {
				near, nearUsed, nearLevel = a, n, l
			}
			if near != nil && nearUsed == least && (!s.prefers || gs.len() == 1) {
				return near, nearUsed, nearLevel, true
			}
		}
	}
	if reach <= ch.Top {
		return near, nearUsed, nearLevel, near != nil
	}
	all := make([]int, len(bins))
	for i := range all {
		all[i] = i
	}
	best, fewest, ok := s.fill(bins, all, p)
	switch {
	case near != nil && (!ok || nearUsed <= fewest):
		return near, nearUsed, nearLevel, true
	case !ok:
		return nil, 0, 0, false
	}
	return best, fewest, ch.Top + 1, true
}

// one returns the bin that takes n leaves under the lowest common ancestor, the first such in the
// order of bins, and that ancestor's level. The bin is -1 if none can.
func (s *search) one(bins []bin, n int32) (int, Level) {
	best, bestLevel := -1, Level(0)
	for i := range bins {
		if bins[i].avail < n {
			continue
		}
		l := s.lowest(&bins[i], n)
		if l > s.reach(s.c.f.Cells[bins[i].cell].Chain) {
			continue
		}
		if s.opportunistic() {
			if !s.prefers {
				return i, l
			}
			l = bestLevel // the order of bins decides
		}
		if best < 0 || l < bestLevel || l == bestLevel && s.prefers && s.preference(bins[i].cell) > s.preference(bins[best].cell) {
			best, bestLevel = i, l
		}
	}
	return best, bestLevel
}

// groups are the cells of a level with room for a part, the least room first, so that large holes
// stay whole.
type groups struct {
	s     *search
	level Level
	list  []group
}

func (s *search) groups(bins []bin, l Level, p *part) *groups {
	t := s.t
	t.beginRound(len(s.c.f.Cells))
	gs := groups{s: s, level: l, list: t.groups[:0]}
	small := p.smallest()
	for i := range bins {
		if s.c.f.Cells[bins[i].cell].Level > l {
			continue
		}
		anc := s.c.f.Ancestor(bins[i].cell, l)
		if t.inGroup[anc] != t.round {
			t.inGroup[anc], t.group[anc] = t.round, int32(len(gs.list))
			gs.list = append(gs.list, group{anc: anc})
		}
		g := &gs.list[t.group[anc]]
		g.avail += bins[i].avail
		g.fits += bins[i].avail / small
	}
	t.groups = gs.list
	gs.list = slices.DeleteFunc(gs.list, func(g group) bool {
		return g.avail < p.total ||
			g.fits < int32(len(p.tasks))
	})
	gs.frontTightest()
	return &gs
}

// beginRound begins a round of groups and makes memory for them.
func (t *scratch) beginRound(cells int) {
	if t.group == nil {
		t.group, t.inGroup = make([]int32, cells), make([]uint32, cells)
	}
	if t.round++; t.round == 0 {
		clear(t.inGroup)
		t.round = 1
	}
}

func (g *groups) len() int { return len(g.list) }

// frontTightest moves the group with the least room to the front.
func (g *groups) frontTightest() {
	best := 0
	for i := range g.list {
		a, b := &g.list[i], &g.list[best]
		if a.avail < b.avail || a.avail == b.avail && a.anc < b.anc {
			best = i
		}
	}
	if len(g.list) > 0 {
		g.list[0], g.list[best] = g.list[best], g.list[0]
	}
}

func (g *groups) pop() {
	g.list = g.list[1:]
	g.frontTightest()
}

// first returns the bins of the first group.
func (g *groups) first(bins []bin) []int {
	f := g.s.c.f
	g.s.c.work.Step(len(bins) / 8)
	var in []int
	for i := range bins {
		if f.Contains(g.list[0].anc, bins[i].cell) {
			in = append(in, i)
		}
	}
	return in
}

// fill packs a part into some bins. The largest task comes first; each goes into the used bin that
// it fills best, else into the emptiest unused one. Then each used bin is exchanged for the
// tightest unused one that holds its load. If a task fits nowhere, packExact decides. It returns
// how many bins it used.
func (s *search) fill(bins []bin, in []int, p *part) (assign []int, used int, ok bool) {
	s.c.work.Step(len(in) + len(p.tasks))
	order := slices.Clone(in)
	if slices.ContainsFunc(order, func(i int) bool { return bins[i].avail != bins[order[0]].avail }) {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bins[b].avail, bins[a].avail) })
	}
	left := make([]int32, len(order))
	for i, b := range order {
		left[i] = bins[b].avail
	}
	where := make([]int, len(p.tasks)) // index into order
	open := 0
	for i, t := range p.tasks {
		k := bestOpen(left[:open], t.leaves)
		if k < 0 {
			if open == len(order) || left[open] < t.leaves {
				return s.packExact(bins, order, p)
			}
			k = open
			open++
		}
		left[k] -= t.leaves
		where[i] = k
	}
	s.tighten(bins, order, left, open)
	assign = make([]int, len(p.tasks))
	for i, k := range where {
		assign[i] = order[k]
	}
	return assign, open, true
}

// bestOpen returns the bin with the least room that still takes n leaves, or -1.
func bestOpen(left []int32, n int32) int {
	best := -1
	for i, l := range left {
		if l >= n && (best < 0 || l < left[best]) {
			best = i
		}
	}
	return best
}

// tighten exchanges used bins (the first `open` of order) for unused ones that hold the same load
// on a preferred node or with less room to spare; the least load first.
func (s *search) tighten(bins []bin, order []int, left []int32, open int) {
	byLoad := make([]int, open)
	for i := range byLoad {
		byLoad[i] = i
	}
	load := func(k int) int32 { return bins[order[k]].avail - left[k] }
	slices.SortStableFunc(byLoad, func(a, b int) int { return cmp.Compare(load(a), load(b)) })
	for _, k := range byLoad {
		need := load(k)
		best := k
		for j := open; j < len(order); j++ {
			a, b := &bins[order[j]], &bins[order[best]]
			liked := 0
			if s.prefers {
				liked = s.preference(a.cell) - s.preference(b.cell)
			}
			if a.avail >= need && (liked > 0 || liked == 0 && (a.avail < b.avail || a.avail == b.avail && order[j] < order[best])) {
				best = j
			}
		}
		if best != k {
			order[k], order[best] = order[best], order[k]
			left[k] = bins[order[k]].avail - need
		}
	}
}

// packExact tries every distinct assignment, equal tasks and equally filled bins counting once,
// until packSteps are used up.
func (s *search) packExact(bins []bin, order []int, p *part) ([]int, int, bool) {
	sizes, room := make([]int32, len(p.tasks)), make([]int32, len(order))
	for i, t := range p.tasks {
		sizes[i] = t.leaves
	}
	for i, b := range order {
		room[i] = bins[b].avail
	}
	where, took, fits := budget.Pack(sizes, room, packSteps)
	s.c.work.Step(took)
	if !fits {
		if took > packSteps {
			s.reached |= boundPacks
		}
		return nil, 0, false
	}
	assign := make([]int, len(p.tasks))
	used := map[int]bool{}
	for i, k := range where {
		assign[i] = order[k]
		used[k] = true
	}
	return assign, len(used), true
}
