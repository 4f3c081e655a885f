package cell

import (
	"cmp"
	"slices"
)

// ChargeMove moves charges for bad hardware: Undoomed are taken back, the innermost first, and
// Doomed are made instead, the outermost first.
type ChargeMove struct{ Undoomed, Doomed []Charge }

// ChargeMoveRequest asks how charges can be moved for a waiting gang.
type ChargeMoveRequest struct {
	Space  int32  // the VC of the waiting gang
	Chains []bool // by chain: the gang could use it
	// Idle reports that no gang of a VC, or of those inside it, waits for cells of a chain. Needs
	// reports that a gang waits there that could find some. Both are asked while the cluster is as
	// it was.
	Idle, Needs func(space int32, chain int16) bool
	// Fits reports whether the gang would find cells. It is asked while charges are moved.
	Fits func() bool
	// Shift sets Helps and Tries. Helps is set if the gang would find cells without the charges.
	// Tries is how often Fits was asked, and one more for each tryBinds ways to bind cells tried
	// therein.
	Helps bool
	Tries int
}

// shiftTries bounds Tries for one gang. shiftCells bounds the other cells tried for a charge in its
// VC, fewest bad leaves first. maxDisplaced bounds the charges that are moved although they might
// stay. Up to searchMost charges are tried at every place.
const (
	shiftTries   = 128
	tryBinds     = 16
	shiftCells   = 8
	maxDisplaced = 8
	searchMost   = 8
)

// chargeMover is a search for other places for charges.
type chargeMover struct {
	*ChargeMoveRequest
	c             *Cluster
	home          int32     // the outermost VC around the gang's, or this itself
	removed       []Charge  // charges taken away: innermost first, later in the order they are made
	takers        [][]int32 // by charge in removed: spaces that could take it over
	made          []Charge  // charges that were made again
	blocking      []Charge  // places where a charge was in the gang's way: with more charges, too
	unplaced      int       // index in removed of the charge without a place; None is none
	removedFirst  []Charge  // removed and takers in the order that is tried first
	takersFirst   [][]int32
	first         []int32 // outermost VCs: their charges are made before those of others
	toOtherVC     bool    // the displaced charge goes to another VC, else to another cell of its own
	displacements int     // how many charges were displaced
	displaced     int     // index in removed of the charge that may not stay; None before the first
	tries         int
	needs         map[taking]bool // what Needs said of the VCs beside the gang's, within home
}

type taking struct {
	space int32
	chain int16
}

// MoveCharges looks how charges could lie so that a waiting gang finds cells. It takes away those
// of the gang's VC, of the VCs around it and of all inside these. If the gang finds nothing even
// then, it lacks something else. Then it makes as many again as are due: where they were; else on
// another bad cell for the same VC; else for another VC of the same container that does not need
// such cells, or in which the gang itself waits. If that fails, it also moves charges of VCs in
// which no gang waits. A VC with children but without a charge of its own gives them only healthy
// cells and binds no bad one: so it also tries to move only the charges inside. The cluster is
// unchanged afterwards.
func (c *Cluster) MoveCharges(ask *ChargeMoveRequest) (ChargeMove, bool) {
	for _, which := range []struct{ idle, inner bool }{{}, {inner: true}, {idle: true}} {
		s := chargeMover{ChargeMoveRequest: ask, c: c, home: c.outermost(ask.Space), unplaced: None, displaced: None}
		all := s.movable(which.idle, which.inner)
		if len(all) == 0 {
			continue
		}
		if sh, ok := s.try(all); ok && c.WithChargesMoved(sh, ask.Fits) {
			return sh, true
		}
	}
	return ChargeMove{}, false
}

// WithChargesMoved asks while charges are moved. It does not ask, and reports false, when they
// cannot be moved or others would become due. The cluster is unchanged afterwards.
func (c *Cluster) WithChargesMoved(sh ChargeMove, ask func() bool) bool {
	var backs []func()
	defer func() { undoAll(backs) }()
	for _, ch := range sh.Undoomed {
		if !(charging{c}).unused(ch.Space, &c.spaces[ch.Space].Roots[ch.Root]) {
			return false
		}
		backs = append(backs, charging{c}.suspend(ch))
	}
	for _, ch := range sh.Doomed {
		if !c.rebind(ch.Space, ch.Root, ch.Cell) {
			return false
		}
		c.setDoomed(ch.Space, ch.Root, true)
		backs = append(backs, func() { c.Undoom(ch.Space, ch.Root) })
	}
	for up := range c.spaces {
		for ci := range c.f.Chains {
			if c.spaces[up].free != nil && !c.safe(int32(up), int16(ci)) {
				return false
			}
		}
	}
	if _, _, _, due := c.DueCharge(); due {
		return false
	}
	return ask()
}

func undoAll(backs []func()) {
	for _, back := range slices.Backward(backs) {
		back()
	}
}

// outermost returns the space around a VC that is part of no other; the VC itself if it is part
// of none.
func (c *Cluster) outermost(space int32) int32 {
	for c.spaces[space].Parent > 0 {
		space = c.spaces[space].Parent
	}
	return space
}

// SameOutermost reports whether two VCs are one, or are part of the same outermost VC.
func (c *Cluster) SameOutermost(a, b int32) bool { return c.outermost(a) == c.outermost(b) }

// Charges returns all charges, in order of their VCs.
func (c *Cluster) Charges() []Charge {
	out := make([]Charge, 0, len(c.charges))
	for i := range c.charges {
		out = append(out, charging{c}.chargeAt(i))
	}
	return out
}

func (c *Cluster) rootOf(ch Charge) *Root { return &c.spaces[ch.Space].Roots[ch.Root] }

// dead reports whether every leaf of a cell is bad.
func (c *Cluster) dead(id CellID) bool { return c.bad[id] == c.f.NumLeaves(id) }

// movable lists the charges that may be taken away: the innermost first, then smaller cells
// first, then those of VCs around the gang first, so that they are made again last. idle adds
// those of VCs in which no gang waits, and lists nothing if there are none. inner leaves only
// those of VCs that are part of others, and lists nothing unless an outermost VC around the gang
// is charged.
func (s *chargeMover) movable(idle, inner bool) []Charge {
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
		if s.c.inSpace(s.Space, ch.Space) {
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

// try looks for other places for these charges.
func (s *chargeMover) try(all []Charge) (ChargeMove, bool) {
	var back func()
	s.removed, back = charging{s.c}.suspendAll(all)
	fits := len(s.removed) > 0 && s.gangFits()
	back()
	s.Helps = s.Helps || fits
	if !fits {
		return ChargeMove{}, false
	}
	s.choice()
	_, back = charging{s.c}.suspendAll(all)
	defer back()
	defer func() { s.unmake(0) }()
	n := len(s.removed)
	slices.Reverse(s.takers)
	slices.Reverse(s.removed)
	s.removedFirst, s.takersFirst = s.removed, s.takers
	for !s.restore(0, n) || !s.makeInner() {
		if !s.reorder() && !s.displaceNext() {
			s.removed, s.takers, s.displaced = s.removedFirst, s.takersFirst, None
			if n > searchMost || !s.search(0) {
				return ChargeMove{}, false
			}
			break
		}
	}
	slices.Reverse(s.removed)
	but := func(a, b []Charge) []Charge {
		return slices.DeleteFunc(slices.Clone(a), func(ch Charge) bool { return slices.Contains(b, ch) })
	}
	sh := ChargeMove{but(s.removed, s.made), but(s.made, s.removed)}
	slices.SortStableFunc(sh.Doomed, func(a, b Charge) int { return cmp.Compare(s.c.depth(a.Space), s.c.depth(b.Space)) })
	return sh, true
}

// reorder changes the order in which charges are made again: those that share the outermost VC of
// the one without a place come before others, which may be in its way. It reports false when they
// came first already.
func (s *chargeMover) reorder() bool {
	s.unmake(0)
	if s.unplaced < 0 || s.displaced >= 0 {
		return false
	}
	home := s.c.outermost(s.removed[s.unplaced].Space)
	if slices.Contains(s.first, home) {
		return false
	}
	s.first, s.blocking, s.unplaced = append(s.first, home), nil, None
	var was [2][]Charge
	var takers [2][][]int32
	for i, ch := range s.removed {
		late := 0
		if s.c.outermost(ch.Space) != home {
			late = 1
		}
		was[late], takers[late] = append(was[late], ch), append(takers[late], s.takers[i])
	}
	s.removed, s.takers = slices.Concat(was[0], was[1]), slices.Concat(takers[0], takers[1])
	return true
}

// displaceNext makes the next charge go elsewhere although it might stay: to another VC, then to
// another cell. A charge after it may then find a place. It reports false after the last one, or
// after maxDisplaced.
func (s *chargeMover) displaceNext() bool {
	s.unmake(0)
	if s.displaced < 0 {
		s.removed, s.takers = s.removedFirst, s.takersFirst
	}
	for s.displacements < maxDisplaced {
		if s.toOtherVC = !s.toOtherVC; s.toOtherVC {
			s.displaced++
		}
		if s.displaced >= len(s.removed) {
			return false
		}
		if s.toOtherVC && len(s.takers[s.displaced]) > 0 || !s.toOtherVC && len(s.others(s.displaced)) > 0 {
			s.blocking, s.unplaced = nil, None
			s.displacements++
			return true
		}
	}
	return false
}

// search makes the charges from the i-th on again and tries each at every place, within the
// tries. It serves few charges.
func (s *chargeMover) search(i int) bool {
	mark := len(s.made)
	if i == len(s.removed) {
		if s.makeInner() && s.gangFits() {
			return true
		}
		s.unmake(mark)
		return false
	}
	was := s.removed[i]
	slot := s.c.f.slot(s.c.rootOf(was).Chain, s.c.rootOf(was).Level)
	s.larger(was)
	from := len(s.made)
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
			root := s.unboundRoot(space, slot)
			if space == was.Space && s.c.rootOf(was).Cell == None {
				root = was.Root
			}
			if root != None && s.tryCharge(Charge{space, root, id}) {
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

// others lists the other cells for a charge of the same VC. A pushed charge does not change
// places with a like one.
func (s *chargeMover) others(i int) []CellID {
	was := s.removed[i]
	level := s.c.rootOf(was).Level
	return slices.DeleteFunc(s.cells(was), func(id CellID) bool {
		return i == s.displaced && slices.ContainsFunc(s.removed, func(ch Charge) bool {
			return ch.Space == was.Space && ch.Cell == id && s.c.rootOf(ch).Level == level
		})
	})
}

// choice notes which spaces could take over each charge, and what Needs says of VCs near the
// gang's.
func (s *chargeMover) choice() {
	s.needs = map[taking]bool{}
	for i := range s.c.spaces {
		for _, ch := range s.removed {
			at := taking{int32(i), s.c.rootOf(ch).Chain}
			if _, known := s.needs[at]; !known && s.c.outermost(at.space) == s.home && !s.c.inSpace(s.Space, at.space) {
				s.needs[at] = s.Needs(at.space, at.chain)
			}
		}
	}
	for _, ch := range s.removed {
		s.takers = append(s.takers, s.takersOf(ch))
	}
}

// takersOf lists the spaces that could take over a charge, in the order in which they would be
// charged; those around the gang last.
func (s *chargeMover) takersOf(ch Charge) (out []int32) {
	r := s.c.rootOf(ch)
	own := func(space int32) int {
		if s.c.inSpace(s.Space, space) {
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

// restore makes the charges [from, to) again. Most may stay where they were: so it tries all
// there at once, then each half.
func (s *chargeMover) restore(from, to int) bool {
	if from == to {
		return true
	}
	mark := len(s.made)
	if s.stay(from, to) {
		return true
	}
	s.unmake(mark)
	if to == from+1 {
		if s.elsewhere(from) {
			return true
		}
		s.unplaced = from
		return false
	}
	return s.restore(from, (from+to)/2) && s.restore((from+to)/2, to)
}

// stay makes charges again where they were, if they are still due, and reports whether the gang
// finds cells.
func (s *chargeMover) stay(from, to int) bool {
	for i, ch := range s.removed[from:to] {
		if s.larger(ch); s.due(ch) && (from+i == s.displaced || !s.make(ch)) {
			return false
		}
	}
	return s.gangFits()
}

// due reports whether a charge is still needed: fewer cells are healthy than are owed, and no
// charge of a smaller cell will do.
func (s *chargeMover) due(ch Charge) bool {
	up, r := s.c.spaces[ch.Space].Parent, s.c.rootOf(ch)
	short := s.c.shortLevel(up, r.Chain)
	for l := short; l > 0 && l < r.Level; l++ {
		if _, _, _, smaller := (charging{s.c}).due(up, r.Chain, l); smaller {
			return false
		}
	}
	return short > 0
}

// make makes a charge. If its root is charged by now, it takes a like one of the same VC.
func (s *chargeMover) make(ch Charge) bool {
	if r := s.c.rootOf(ch); r.Cell != None {
		ch.Root = s.unboundRoot(ch.Space, s.c.f.slot(r.Chain, r.Level))
	}
	if ch.Root == None || !(charging{s.c}).canDoom(ch.Space, ch.Root, ch.Cell) {
		return false
	}
	s.c.Doom(ch.Space, ch.Root, ch.Cell)
	s.made = append(s.made, ch)
	return true
}

// unboundRoot returns an unbound root of a space: one that was not charged before, if there is any.
func (s *chargeMover) unboundRoot(space int32, slot int) RootID {
	root := RootID(None)
	for _, id := range s.c.spaces[space].unbound[slot] {
		if was := slices.ContainsFunc(s.removed, func(ch Charge) bool { return ch.Space == space && ch.Root == id }); !was || root == None {
			root = id
		}
	}
	return root
}

// unmake takes back the charges that were made again, except the first n.
func (s *chargeMover) unmake(n int) {
	for _, ch := range slices.Backward(s.made[n:]) {
		s.c.Undoom(ch.Space, ch.Root)
	}
	s.made = s.made[:n]
}

// gangFits reports whether the gang finds cells as charges lie, within the tries.
func (s *chargeMover) gangFits() bool {
	if s.tries >= shiftTries {
		return false
	}
	from := s.c.scratch().steps
	ok := s.Fits()
	n := 1 + (s.c.scratch().steps-from)/tryBinds
	s.tries, s.Tries = s.tries+n, s.Tries+n
	return ok
}

// elsewhere makes a charge on another cell for its VC, or for another VC. A pushed charge gets
// only the one of these that is tried now.
func (s *chargeMover) elsewhere(i int) bool {
	was := s.removed[i]
	r := s.c.rootOf(was)
	if s.larger(was); !s.due(was) {
		return true
	}
	others, takers := s.others(i), s.takers[i]
	if i == s.displaced && !s.toOtherVC {
		takers = nil
	}
	for _, id := range others {
		alike := func(ch Charge) bool { return ch.Space == was.Space && ch.Cell == id && s.c.rootOf(ch).Level == r.Level }
		if i == s.displaced && s.toOtherVC || slices.ContainsFunc(s.blocking, alike) {
			continue
		}
		to := Charge{was.Space, was.Root, id}
		if s.tryCharge(to) {
			return true
		}
		s.blocking = append(s.blocking, to)
	}
	for _, t := range takers {
		root := s.unboundRoot(t, s.c.f.slot(r.Chain, r.Level))
		if root == None {
			continue
		}
		for _, id := range append([]CellID{was.Cell}, others...) {
			if s.tryCharge(Charge{t, root, id}) {
				return true
			}
		}
	}
	return false
}

// tryCharge makes a charge, and takes it back if the gang finds no cells then.
func (s *chargeMover) tryCharge(ch Charge) bool {
	mark := len(s.made)
	if s.harms(ch) || !s.make(ch) {
		return false
	}
	if s.gangFits() {
		return true
	}
	s.unmake(mark)
	return false
}

// cells lists other bad cells for a charge, fewest bad leaves first. Of two free cells that are
// wholly bad one is as good as the other.
func (s *chargeMover) cells(was Charge) (out []CellID) {
	r := s.c.rootOf(was)
	up, slot := s.c.spaces[was.Space].Parent, s.c.f.slot(r.Chain, r.Level)
	free := s.c.freeAbove(up, was.Cell) != None
	for id := (charging{s.c}).nextBad(up, slot, r.Level, None); id != None && len(out) < shiftCells; id = (charging{s.c}).nextBad(up, slot, r.Level, id) {
		if id != was.Cell && !(free && s.c.dead(id) && s.c.dead(was.Cell)) {
			out = append(out, id)
		}
	}
	return out
}

// makeInner makes the charges that become due, such as those inside a charge that moved. It reports
// false when one is due that may not be made.
func (s *chargeMover) makeInner() bool {
	for {
		ch, due := s.next()
		if !due {
			return true
		}
		if !s.allows(ch) || !s.make(ch) {
			return false
		}
	}
}

// next is the charge that is due next.
func (s *chargeMover) next() (Charge, bool) {
	space, root, id, due := s.c.DueCharge()
	return Charge{space, root, id}, due
}

// allows reports whether a new charge may be made: within the gang's outermost VC if it harms no
// gang, elsewhere inside a charge that was moved, or where no gang waits.
func (s *chargeMover) allows(ch Charge) bool {
	if s.c.outermost(ch.Space) == s.home {
		return !s.harms(ch)
	}
	inside := slices.ContainsFunc(s.made, func(in Charge) bool { return s.c.inSpace(ch.Space, in.Space) })
	return inside || s.Idle(ch.Space, s.c.rootOf(ch).Chain)
}

// harms reports whether a charge takes cells from a VC beside the gang's, within the same
// outermost one, in which a gang waits that could find some.
func (s *chargeMover) harms(ch Charge) bool {
	return s.c.outermost(ch.Space) == s.home && !s.c.inSpace(s.Space, ch.Space) && s.needs[taking{ch.Space, s.c.rootOf(ch).Chain}] && !s.like(ch)
}

// like reports whether a VC had a charge as large and as bad that was not made again yet.
func (s *chargeMover) like(ch Charge) bool {
	level, had := s.c.rootOf(ch).Level, 0
	for _, was := range s.removed {
		if was.Space == ch.Space && s.c.rootOf(was).Level == level && s.c.bad[was.Cell] >= s.c.bad[ch.Cell] {
			had++
		}
	}
	for _, now := range s.made {
		if now.Space == ch.Space && s.c.rootOf(now).Level == level {
			had--
		}
	}
	return had > 0
}

// larger makes the charges that are due for larger cells than a given one has. Without them that
// one would be made in vain, and with them it may not be due.
func (s *chargeMover) larger(was Charge) {
	up, r := s.c.spaces[was.Space].Parent, s.c.rootOf(was)
	for s.c.shortLevel(up, r.Chain) > r.Level {
		ch, due := s.next()
		if !due || s.c.rootOf(ch).Level <= r.Level || !s.allows(ch) || !s.tryCharge(ch) {
			return
		}
	}
}

// inSpace reports whether a space is another, or lies in it.
func (c *Cluster) inSpace(space, outer int32) bool {
	for space > 0 && space != outer {
		space = c.spaces[space].Parent
	}
	return space == outer
}
