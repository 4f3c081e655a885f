package cell

import (
	"cmp"
	"slices"
)

// Shift is charges of bad hardware that go elsewhere: those that are taken back, the
// innermost first, and those that are made instead, the outermost first.
type Shift struct{ Spared, Doomed []Charge }

// Shifting asks for whom charges are to go elsewhere, and what that may cost.
type Shifting struct {
	Space  int32  // the VC of a waiting gang
	Chains []bool // that it could use
	// Idle says of a VC, with all inside it, that nobody waits for cells of a chain; Needs that
	// somebody does who could find some. Both are asked while the cluster is as it was.
	Idle, Needs func(space int32, chain int16) bool
	// Fits reports whether the gang would find cells. It is asked while charges are elsewhere.
	Fits func() bool
	// Helps is said by Shift: without the charges the gang would find cells; and Tries, how often
	// it asked, where as many ways to bind cells as tryBinds count as one more.
	Helps bool
	Tries int
}

// shiftTries bounds how often Fits is asked for one gang, as Tries counts; shiftCells is to how
// many other cells a charge may go in its VC, those with fewest bad leaves; pushMost is how many
// charges are tried elsewhere though they might stay, and up to searchMost are tried at every
// place.
const (
	shiftTries = 128
	tryBinds   = 16
	shiftCells = 8
	pushMost   = 8
	searchMost = 8
)

// shifting is charges that are looked for another place.
type shifting struct {
	*Shifting
	c           *Cluster
	home        int32     // the outermost space around the VC
	was         []Charge  // what was taken away, the innermost first
	takers      [][]int32 // of each, the VCs that could take it over
	now         []Charge  // what is made again
	vain        []Charge  // where a charge was in the way; with more charges it would be, too
	stuck       int       // the one for which there was no place
	wasFirst    []Charge  // in the order in which they are made at first
	takersFirst [][]int32
	first       []int32 // the outermost spaces whose charges are made before those of others
	around      bool    // for another VC, else on another cell of its own
	pushes      int     // so many were tried
	pushed      int     // the one that may not stay where it was; None before
	tries       int
	needs       map[taking]bool // what Needs said of the VCs around the gang
}

type taking struct {
	space int32
	chain int16
}

// Shift looks how charges could lie so that a waiting gang finds cells. Those of its VC, of those
// around it and of all inside these are taken away; who finds nothing even then is in want of other
// things. Then they are made again, as many as are due: where they were; else on another bad cell,
// for the same VC; else for another VC of the same container that does not need such cells, or in
// which the gang itself waits. Where that does not do, those of VCs in which nobody waits change
// places, too. Without its own charge a VC with children has only healthy cells for these, and
// binds no bad one: so those inside it alone are tried as well. The cluster is unchanged
// afterwards.
func (c *Cluster) Shift(ask *Shifting) (Shift, bool) {
	for _, which := range []struct{ idle, inner bool }{{}, {inner: true}, {idle: true}} {
		s := shifting{Shifting: ask, c: c, home: c.outermost(ask.Space), stuck: None, pushed: None}
		all := s.movable(which.idle, which.inner)
		if len(all) == 0 {
			continue
		}
		if sh, ok := s.try(all); ok && c.Shifted(sh, ask.Fits) {
			return sh, true
		}
	}
	return Shift{}, false
}

// Shifted asks while charges are elsewhere: not when they cannot be, or others would be due.
// The cluster is unchanged afterwards.
func (c *Cluster) Shifted(sh Shift, ask func() bool) bool {
	var backs []func()
	defer func() { undoAll(backs) }()
	for _, ch := range sh.Spared {
		if !(charging{c}).unused(ch.Space, &c.spaces[ch.Space].Roots[ch.Root]) {
			return false
		}
		backs = append(backs, charging{c}.aside(ch))
	}
	for _, ch := range sh.Doomed {
		if !c.rebind(ch.Space, ch.Root, ch.Cell) {
			return false
		}
		c.charge(ch.Space, ch.Root, true)
		backs = append(backs, func() { c.Spare(ch.Space, ch.Root) })
	}
	for up := range c.spaces {
		for ci := range c.f.Chains {
			if c.spaces[up].free != nil && !c.safe(int32(up), int16(ci)) {
				return false
			}
		}
	}
	if _, _, _, due := c.Ailing(); due {
		return false
	}
	return ask()
}

func undoAll(backs []func()) {
	for _, back := range slices.Backward(backs) {
		back()
	}
}

// outermost returns the space around a VC that is part of no other; the VC itself, if it is.
func (c *Cluster) outermost(space int32) int32 {
	for c.spaces[space].Parent > 0 {
		space = c.spaces[space].Parent
	}
	return space
}

// Shares reports whether two VCs are one, or lie in the same one.
func (c *Cluster) Shares(a, b int32) bool { return c.outermost(a) == c.outermost(b) }

// Charges returns all charges, in order of their VCs.
func (c *Cluster) Charges() []Charge {
	out := make([]Charge, 0, len(c.charges))
	for i := range c.charges {
		out = append(out, charging{c}.chargeAt(i))
	}
	return out
}

func (c *Cluster) rootOf(ch Charge) *Root { return &c.spaces[ch.Space].Roots[ch.Root] }

// dead reports whether nothing of a cell is well.
func (c *Cluster) dead(id CellID) bool { return c.sick[id] == c.f.NumLeaves(id) }

// movable lists the charges that may be taken away, the innermost first, smaller cells before
// larger ones, those of the gang's VC before others, which are made again first; with idle those of
// VCs in which nobody waits, too, only if there are any; with inner those of VCs that are part of
// others, only if others are charged as well.
func (s *shifting) movable(idle, inner bool) []Charge {
	var out []Charge
	some := false
	for _, ch := range s.c.Charges() {
		r := s.c.rootOf(ch)
		if !s.Chains[r.Chain] {
			continue
		}
		if inner && s.c.spaces[ch.Space].Parent == 0 {
			some = some || s.c.outermost(ch.Space) == s.home
			continue
		}
		own := s.c.outermost(ch.Space) == s.home
		if other := !own && idle && s.Idle(ch.Space, r.Chain); own || other {
			out = append(out, ch)
			some = some || other
		}
	}
	if (idle || inner) && !some {
		return nil
	}
	other := func(ch Charge) int {
		if s.c.within(s.Space, ch.Space) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Charge) int {
		return cmp.Or(cmp.Compare(s.c.depth(b.Space), s.c.depth(a.Space)), cmp.Compare(s.c.rootOf(a).Level, s.c.rootOf(b).Level),
			cmp.Compare(other(a), other(b)))
	})
	return out
}

// try looks for other places of these charges.
func (s *shifting) try(all []Charge) (Shift, bool) {
	var back func()
	s.was, back = charging{s.c}.allAside(all)
	fits := len(s.was) > 0 && s.asks()
	back()
	s.Helps = s.Helps || fits
	if !fits {
		return Shift{}, false
	}
	s.choice()
	_, back = charging{s.c}.allAside(all)
	defer back()
	defer func() { s.unmake(0) }()
	n := len(s.was)
	slices.Reverse(s.takers)
	slices.Reverse(s.was)
	s.wasFirst, s.takersFirst = s.was, s.takers
	for !s.restore(0, n) || !s.settle() {
		if !s.sooner() && !s.push() {
			s.was, s.takers, s.pushed = s.wasFirst, s.takersFirst, None
			if n > searchMost || !s.search(0) {
				return Shift{}, false
			}
			break
		}
	}
	slices.Reverse(s.was)
	but := func(a, b []Charge) []Charge {
		return slices.DeleteFunc(slices.Clone(a), func(ch Charge) bool { return slices.Contains(b, ch) })
	}
	sh := Shift{but(s.was, s.now), but(s.now, s.was)}
	slices.SortStableFunc(sh.Doomed, func(a, b Charge) int { return cmp.Compare(s.c.depth(a.Space), s.c.depth(b.Space)) })
	return sh, true
}

// sooner has all charges made again in another order: those around the one that found no place
// before others, which may be in its way. It reports false when they were already.
func (s *shifting) sooner() bool {
	s.unmake(0)
	if s.stuck < 0 || s.pushed >= 0 {
		return false
	}
	home := s.c.outermost(s.was[s.stuck].Space)
	if slices.Contains(s.first, home) {
		return false
	}
	s.first, s.vain, s.stuck = append(s.first, home), nil, None
	var was [2][]Charge
	var takers [2][][]int32
	for i, ch := range s.was {
		late := 0
		if s.c.outermost(ch.Space) != home {
			late = 1
		}
		was[late], takers[late] = append(was[late], ch), append(takers[late], s.takers[i])
	}
	s.was, s.takers = slices.Concat(was[0], was[1]), slices.Concat(takers[0], takers[1])
	return true
}

// push has all charges made again with the next one elsewhere, for another VC or else on another
// cell, though it might stay: so one of those after it may find the place that there was none for.
// It reports false after the last, or after so many.
func (s *shifting) push() bool {
	s.unmake(0)
	if s.pushed < 0 {
		s.was, s.takers = s.wasFirst, s.takersFirst
	}
	for s.pushes < pushMost {
		if s.around = !s.around; s.around {
			s.pushed++
		}
		if s.pushed >= len(s.was) {
			return false
		}
		if s.around && len(s.takers[s.pushed]) > 0 || !s.around && len(s.others(s.pushed)) > 0 {
			s.vain, s.stuck = nil, None
			s.pushes++
			return true
		}
	}
	return false
}

// search makes the charges from one on again, each at every place, as far as the tries reach: few
// of them lie wherever they can.
func (s *shifting) search(i int) bool {
	mark := len(s.now)
	if i == len(s.was) {
		if s.settle() && s.asks() {
			return true
		}
		s.unmake(mark)
		return false
	}
	was := s.was[i]
	slot := s.c.f.slot(s.c.rootOf(was).Chain, s.c.rootOf(was).Level)
	s.larger(was)
	from := len(s.now)
	if !s.due(was) {
		if s.search(i + 1) {
			return true
		}
		s.unmake(mark)
		return false
	}
	places := append([]CellID{was.Cell}, s.cells(was)...)
	for _, space := range append([]int32{was.Space}, s.takers[i]...) {
		for _, id := range places {
			root := s.spare(space, slot)
			if space == was.Space && s.c.rootOf(was).Cell == None {
				root = was.Root
			}
			if root != None && s.helps(Charge{space, root, id}) {
				if s.search(i + 1) {
					return true
				}
				s.unmake(from)
			}
		}
	}
	s.unmake(mark)
	return false
}

// others lists the other cells for a charge of its VC; one that is pushed changes no places with a
// like one.
func (s *shifting) others(i int) []CellID {
	was := s.was[i]
	level := s.c.rootOf(was).Level
	return slices.DeleteFunc(s.cells(was), func(id CellID) bool {
		return i == s.pushed && slices.ContainsFunc(s.was, func(ch Charge) bool {
			return ch.Space == was.Space && ch.Cell == id && s.c.rootOf(ch).Level == level
		})
	})
}

// choice notes who could take each charge over, and who around the gang needs cells.
func (s *shifting) choice() {
	s.needs = map[taking]bool{}
	for i := range s.c.spaces {
		for _, ch := range s.was {
			at := taking{int32(i), s.c.rootOf(ch).Chain}
			if _, known := s.needs[at]; !known && s.c.outermost(at.space) == s.home && !s.c.within(s.Space, at.space) {
				s.needs[at] = s.Needs(at.space, at.chain)
			}
		}
	}
	for _, ch := range s.was {
		s.takers = append(s.takers, s.whoTakes(ch))
	}
}

// whoTakes lists who could take a charge over, as one would be charged; the gang's own last.
func (s *shifting) whoTakes(ch Charge) (out []int32) {
	r := s.c.rootOf(ch)
	own := func(space int32) int {
		if s.c.within(s.Space, space) {
			return 1
		}
		return 0
	}
	for i := range s.c.spaces {
		sp := &s.c.spaces[i]
		if int32(i) == ch.Space || sp.Parent != s.c.spaces[ch.Space].Parent || !slices.ContainsFunc(sp.Roots, func(o Root) bool {
			return o.Pinned == "" && o.Chain == r.Chain && o.Level == r.Level && (o.Cell == None || o.Doomed)
		}) {
			continue
		}
		if own(int32(i)) > 0 || !s.Needs(int32(i), r.Chain) {
			out = append(out, int32(i))
		}
	}
	slot := s.c.f.slot(r.Chain, r.Level)
	slices.SortStableFunc(out, func(a, b int32) int {
		return cmp.Or(cmp.Compare(own(a), own(b)), charging{s.c}.beforeOf(slot, a, b))
	})
	return out
}

// restore makes the charges [from, to) again. Most may stay where they were: so all are
// tried there at once, then each half.
func (s *shifting) restore(from, to int) bool {
	if from == to {
		return true
	}
	mark := len(s.now)
	if s.stay(from, to) {
		return true
	}
	s.unmake(mark)
	if to == from+1 {
		if s.elsewhere(from) {
			return true
		}
		s.stuck = from
		return false
	}
	return s.restore(from, (from+to)/2) && s.restore((from+to)/2, to)
}

// stay makes charges again where they were, as far as they are due.
func (s *shifting) stay(from, to int) bool {
	for i, ch := range s.was[from:to] {
		if s.larger(ch); s.due(ch) && (from+i == s.pushed || !s.make(ch)) {
			return false
		}
	}
	return s.asks()
}

// due reports whether there are still fewer healthy cells than are owed where a charge was, and no
// smaller one will do.
func (s *shifting) due(ch Charge) bool {
	up, r := s.c.spaces[ch.Space].Parent, s.c.rootOf(ch)
	short := s.c.sound(up, r.Chain)
	for l := short; l > 0 && l < r.Level; l++ {
		if _, _, _, smaller := (charging{s.c}).due(up, r.Chain, l); smaller {
			return false
		}
	}
	return short > 0
}

// make makes a charge, of a like cell of its VC if that is charged by now.
func (s *shifting) make(ch Charge) bool {
	if r := s.c.rootOf(ch); r.Cell != None {
		ch.Root = s.spare(ch.Space, s.c.f.slot(r.Chain, r.Level))
	}
	if ch.Root == None || !(charging{s.c}).canDoom(ch.Space, ch.Root, ch.Cell) {
		return false
	}
	s.c.Doom(ch.Space, ch.Root, ch.Cell)
	s.now = append(s.now, ch)
	return true
}

// spare returns an unbound cell of a VC: one that was not charged before, if there is any.
func (s *shifting) spare(space int32, slot int) RootID {
	root := RootID(None)
	for _, id := range s.c.spaces[space].unbound[slot] {
		if was := slices.ContainsFunc(s.was, func(ch Charge) bool { return ch.Space == space && ch.Root == id }); !was || root == None {
			root = id
		}
	}
	return root
}

// unmake takes charges back that were made again, but for the first n.
func (s *shifting) unmake(n int) {
	for _, ch := range slices.Backward(s.now[n:]) {
		s.c.Spare(ch.Space, ch.Root)
	}
	s.now = s.now[:n]
}

// asks whether the gang finds cells, as charges lie.
func (s *shifting) asks() bool {
	if s.tries >= shiftTries {
		return false
	}
	from := s.c.scratch().steps
	ok := s.Fits()
	n := 1 + (s.c.scratch().steps-from)/tryBinds
	s.tries, s.Tries = s.tries+n, s.Tries+n
	return ok
}

// elsewhere makes a charge on another cell for its VC, or for another VC; what is pushed for one of
// these alone.
func (s *shifting) elsewhere(i int) bool {
	was := s.was[i]
	r := s.c.rootOf(was)
	if s.larger(was); !s.due(was) {
		return true
	}
	others, takers := s.others(i), s.takers[i]
	if i == s.pushed && !s.around {
		takers = nil
	}
	for _, id := range others {
		alike := func(ch Charge) bool { return ch.Space == was.Space && ch.Cell == id && s.c.rootOf(ch).Level == r.Level }
		if i == s.pushed && s.around || slices.ContainsFunc(s.vain, alike) {
			continue
		}
		to := Charge{was.Space, was.Root, id}
		if s.helps(to) {
			return true
		}
		s.vain = append(s.vain, to)
	}
	for _, t := range takers {
		root := s.spare(t, s.c.f.slot(r.Chain, r.Level))
		if root == None {
			continue
		}
		for _, id := range append([]CellID{was.Cell}, others...) {
			if s.helps(Charge{t, root, id}) {
				return true
			}
		}
	}
	return false
}

// helps makes a charge, unless it is in the way of the gang.
func (s *shifting) helps(ch Charge) bool {
	mark := len(s.now)
	if s.harms(ch) || !s.make(ch) {
		return false
	}
	if s.asks() {
		return true
	}
	s.unmake(mark)
	return false
}

// cells lists other bad cells for a charge, those with fewest bad leaves first. Of cells
// in which nothing is well one is as good as another.
func (s *shifting) cells(was Charge) (out []CellID) {
	r := s.c.rootOf(was)
	up, slot := s.c.spaces[was.Space].Parent, s.c.f.slot(r.Chain, r.Level)
	free := s.c.freeAbove(up, was.Cell) != None
	for id := (charging{s.c}).illest(up, slot, r.Level, None); id != None && len(out) < shiftCells; id = (charging{s.c}).illest(up, slot, r.Level, id) {
		if id != was.Cell && !(free && s.c.dead(id) && s.c.dead(was.Cell)) {
			out = append(out, id)
		}
	}
	return out
}

// settle makes the charges that are due inside those to whom others went. It reports false
// when somebody else would be charged.
func (s *shifting) settle() bool {
	for {
		ch, due := s.next()
		if !due {
			return true
		}
		if !s.bears(ch) || !s.make(ch) {
			return false
		}
	}
}

// next is the charge that is due next.
func (s *shifting) next() (Charge, bool) {
	space, root, id, due := s.c.Ailing()
	return Charge{space, root, id}, due
}

// bears reports whether a charge may be made that was not there: around the gang where it harms
// nobody, inside one that went elsewhere, or where nobody waits.
func (s *shifting) bears(ch Charge) bool {
	if s.c.outermost(ch.Space) == s.home {
		return !s.harms(ch)
	}
	inside := slices.ContainsFunc(s.now, func(in Charge) bool { return s.c.within(ch.Space, in.Space) })
	return inside || s.Idle(ch.Space, s.c.rootOf(ch).Chain)
}

// harms reports whether a charge takes cells from a VC beside the gang's, within the same one, in
// which somebody waits who could find some.
func (s *shifting) harms(ch Charge) bool {
	return s.c.outermost(ch.Space) == s.home && !s.c.within(s.Space, ch.Space) && s.needs[taking{ch.Space, s.c.rootOf(ch).Chain}] && !s.like(ch)
}

// like reports whether a VC had a charge as large and as bad, besides those that it has again.
func (s *shifting) like(ch Charge) bool {
	level, had := s.c.rootOf(ch).Level, 0
	for _, was := range s.was {
		if was.Space == ch.Space && s.c.rootOf(was).Level == level && s.c.sick[was.Cell] >= s.c.sick[ch.Cell] {
			had++
		}
	}
	for _, now := range s.now {
		if now.Space == ch.Space && s.c.rootOf(now).Level == level {
			had--
		}
	}
	return had > 0
}

// larger makes those that are due of larger cells than one that was: without them it is due in
// vain, and with them perhaps not at all.
func (s *shifting) larger(was Charge) {
	up, r := s.c.spaces[was.Space].Parent, s.c.rootOf(was)
	for s.c.sound(up, r.Chain) > r.Level {
		ch, due := s.next()
		if !due || s.c.rootOf(ch).Level <= r.Level || !s.bears(ch) || !s.helps(ch) {
			return
		}
	}
}

// within reports whether a space is another, or lies in it.
func (c *Cluster) within(space, outer int32) bool {
	for space > 0 && space != outer {
		space = c.spaces[space].Parent
	}
	return space == outer
}
