package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// drainsOf counts the nodes that drain, or have drained: a cluster without any asks nothing of its
// attempts.
func drainsOf(nodes []nodeNote) (n int32) {
	for i := range nodes {
		if nodes[i].Cordon && nodes[i].Drain > 0 {
			n++
		}
	}
	return n
}

// touchOn has what runs on a node settled.
func (s *index) touchOn(node cell.NodeName) {
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.state != model.AttemptReserving && s.isOn(a, node) {
			s.touch(a.job)
		}
	}
}

// isOn reports whether a task of an attempt lives, or may live, on a node.
func (s *index) isOn(a *attempt, node cell.NodeName) bool {
	j := &s.jobs[a.job]
	return slices.ContainsFunc(j.spec.Gangs[a.id.Gang].Tasks, func(o int32) bool {
		t := &j.tasks[o]
		return t.place != nil && !t.dead && t.place.Node == node
	})
}

// drainsAt has what runs on the nodes settled whose drain is due at an instant, and reports whether
// there are any.
func (s *index) drainsAt(at model.Time) bool {
	due := false
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Cordon && n.Drain == at {
			s.touchOn(n.Name)
			due = true
		}
	}
	return due
}

// Virtual clusters that lend nothing keep their idle cells for their own jobs. Such a VC's cells
// are bound when they are used, as those of any: so what it could claim is asked for anew at each
// decision.

// allLend reports whether all VCs lend what they do not use.
func (s *index) allLend() bool {
	return s.cfg == nil || !slices.ContainsFunc(s.cfg.VCs, func(c model.VCConfig) bool { return c.Lending == model.LendNothing })
}

// looks says what the walk must look at: a VC in which nothing changed since its
// last walk, and whose gangs could use nothing of what changed elsewhere, would
// only find the same again. What says nothing more precise looks at everything.
type looks struct {
	lend   bool   // opportunistic gangs: a leaf is free, or one of them came
	spaces []bool // guaranteed gangs of a VC
	itself []bool // VCs whose order changed by itself
	some   bool   // any of these
	// always are the VCs whose gangs also depend on time and on what others do.
	always  []bool
	flat    bool    // no VC is part of another
	tuned   []bool  // VCs whose policy is a Tuner
	firm    []bool  // VCs whose policy is Firm
	ranks   []bool  // VCs whose policy orders those who run
	lasts   []bool  // those of them where their keys last
	owned   []int64 // leaves that a VC is guaranteed
	chains  []int64 // leaves of each chain
	timed   []int32 // VCs whose order changes by itself
	changes []turn  // by space
	// shut says where the last walk left nothing to those behind, by space, and turns
	// counts what concerns every VC.
	shut  []shut
	turns uint64
	freed uint64 // counts what may leave cells to somebody
	idle  uint64 // counts what may leave free cells to somebody that are promised to none
	// What lets a VC gain by cells that another one leaves unbound: its policy or its jobs say
	// where, or it has cells that are parts of nodes.
	placing  []bool     // VCs whose policy says where
	parts    []bool     // VCs that own parts of nodes
	choosy   int32      // jobs that name nodes which they must use, or must not
	avoiding model.Time // until when some gang avoids a node
	drains   int32      // nodes that drain, or have drained
}

// shut says that the walk of a VC whose policy is Straight found nothing more for
// anybody: whoever comes later, with that priority or a lower one, stands behind those
// who took it or wait for it. It holds until something else changes.
type shut struct {
	holds bool
	turns uint64 // of looks, then
	prio  cell.Priority
}

// lookIn lets the walk look at the gangs that wait in one VC with a priority.
func (s *index) lookIn(space int32, p cell.Priority) {
	s.looks.some = true
	if int(space) < len(s.looks.shut) {
		s.looks.shut[space].holds = false
	}
	if p < cell.MinGuaranteed || int(space) >= len(s.looks.spaces) {
		s.looks.lend = true
	} else {
		s.looks.spaces[space] = true
	}
}

// lookAll lets the walk look at everybody who waits.
func (s *index) lookAll() {
	s.look = true
	s.looks.turns++
	s.looks.freed++
	s.looks.idle++
}

// arrived lets the walk look at a job that was submitted just now, unless the last walk
// of its VC left nothing to it.
func (s *index) arrived(space int32, p cell.Priority) {
	if p >= cell.MinGuaranteed && int(space) < len(s.looks.shut) {
		if at := s.looks.shut[space]; at.holds && at.turns == s.looks.turns && p <= at.prio {
			s.looks.some = true
			return
		}
	}
	s.lookIn(space, p)
}

// looking reports whether the walk is due.
func (s *index) looking() bool { return s.look || s.looks.some }

// looked forgets what was to be looked at.
func (s *index) looked() {
	s.look = false
	if s.looks.some {
		s.looks.some, s.looks.lend = false, false
		clear(s.looks.spaces)
		clear(s.looks.itself)
	}
}

// mustLend reports whether the walk of the opportunistic gangs may.
func (s *index) mustLend() bool { return s.look || s.looks.lend || !s.allLend() }

// resetLooks begins anew, after the VCs changed.
func (s *index) resetLooks() {
	n := s.cl.NumSpaces()
	s.looks = looks{spaces: make([]bool, n), itself: make([]bool, n), shut: make([]shut, n), always: make([]bool, n), tuned: make([]bool, n), firm: make([]bool, n), flat: true,
		ranks: make([]bool, n), lasts: make([]bool, n), placing: make([]bool, n), parts: make([]bool, n),
		owned: make([]int64, n), changes: make([]turn, n)}
	s.notYet = nil // what counts begins anew
	s.looks.drains = drainsOf(s.nodes)
	s.looks.chains = make([]int64, len(s.cl.Forest().Chains))
	for _, l := range s.cl.Forest().Leaves {
		s.looks.chains[s.cl.Forest().Cells[l].Chain]++
	}
	for i := int32(1); i < n; i++ {
		sp := s.cl.Space(i)
		mode := model.OfVC(s.cfg, sp.Name).Backfill
		s.looks.always[i] = mode == modeEasy || mode == modeConserve
		s.looks.flat = s.looks.flat && sp.Parent == 0
		_, s.looks.tuned[i] = s.pol[i].(Tuner)
		_, s.looks.firm[i] = s.pol[i].(Firm)
		s.looks.ranks[i], s.looks.lasts[i] = orders(s.pol[i])
		if p, ok := s.pol[i].(Placing); ok {
			s.looks.placing[i] = p.Placing()
		}
		switch s.pol[i].(type) {
		case Timed, Aging:
			s.looks.timed = append(s.looks.timed, i)
		default:
			if model.OfVC(s.cfg, sp.Name).Moves > 0 {
				s.looks.timed = append(s.looks.timed, i)
			}
		}
		for r := range sp.Roots {
			root := &sp.Roots[r]
			chain := &s.cl.Forest().Chains[root.Chain]
			s.looks.owned[i] += int64(chain.LeavesAt(root.Level))
			s.looks.parts[i] = s.looks.parts[i] || root.Level < chain.NodeLevel
		}
	}
	for i := range s.jobs {
		s.looks.chooses(&s.jobs[i], 1)
	}
}

// chooses counts a job that names nodes, or with -1 forgets it, and notes what its gangs avoid.
func (l *looks) chooses(j *job, n int32) {
	if j.spec == nil {
		return
	}
	if j.spec.Restricted() {
		l.choosy += n
	}
	for g := range j.gangs {
		for _, a := range rare(j.gangs[g].odd).avoid {
			l.avoiding = max(l.avoiding, a.Until)
		}
	}
}

// lookAtUnbound looks at the VCs that may gain by cells which one VC left unbound, and once more
// where the walk that left them has passed these VCs already. Where all hardware is in service and
// nothing is lent, a VC can bind each whole node that it owns whatever the others bind, and one
// node is as good as the other to a gang that does not say where.
func (s *index) lookAtUnbound() {
	l := &s.looks
	lent := slices.ContainsFunc(s.tallies, func(t tally) bool { return t.borrowed > 0 })
	if lent || s.cl.Ailed() || s.cl.Doomed() > 0 || s.loners > 0 || l.choosy > 0 || l.avoiding > s.now {
		s.lookAll()
		s.grew.all = true
		return
	}
	for space := range l.spaces {
		if l.placing[space] || l.parts[space] {
			s.lookIn(int32(space), cell.MinGuaranteed)
			s.grew.by(int32(space))
		}
	}
}

// release gives an allocation back and looks at who could use what it leaves.
// Leaves of a guaranteed one, or of a promise, lie in cells of its VC: as long as these stay bound,
// they serve that VC alone, or opportunistic gangs.
func (s *index) release(id cell.AllocID) {
	al := s.cl.Alloc(id)
	space, p := al.Space, al.Priority
	own := s.looks.flat && space > 0 && p >= cell.MinGuaranteed && !al.Lazy
	s.looks.freed++
	rest := s.cl.Rest()
	kept := s.cl.Release(id)
	if !kept || s.cl.Rest() > rest {
		s.looks.idle++
	}
	if !own {
		s.lookAll()
		s.grew.all = true
		return
	} else if !kept {
		s.lookAtUnbound()
	}
	s.lookIn(space, p)
	s.lookIn(space, cell.Opportunistic)
}

// lookAtStop looks at who could be promised what an attempt will leave.
func (s *index) lookAtStop(a *attempt) {
	s.looks.freed++
	if al := s.cl.Alloc(a.alloc); s.looks.flat && !al.Opportunistic() {
		s.lookIn(al.Space, al.Priority)
		return
	}
	s.lookAll()
}

// touch marks a job for the next Decide.
func (s *index) touch(slot int32) {
	if !s.jobs[slot].touched {
		s.jobs[slot].touched = true
		s.dirty.Push(s.jobs[slot].id)
	}
}

// untouch forgets which jobs were to be settled.
func (s *index) untouch() {
	for _, id := range s.dirty {
		if slot, ok := s.slots.Get(id); ok {
			s.jobs[slot].touched = false
		}
	}
	s.dirty = s.dirty[:0]
}

// askers are the VCs for which a decision asks for another one at once. What it gave to one VC
// leaves the others as they were, so these are not looked at again: what a VC decides, and when,
// would depend on others.
type askers struct {
	all    bool   // every VC asks
	in     []bool // by space, else
	forest bool   // VCs are parts of others: then all ask whenever one does
	// A VC that backfills and orders by what is idle, and how much was out after its walk; 0 is
	// none.
	space   int32
	ordered int
}

// reset forgets all of them.
func (a *askers) reset(spaces int32, flat bool) {
	*a = askers{in: slices.Grow(a.in[:0], int(spaces))[:spaces], forest: !flat}
	clear(a.in)
}

// by notes that a VC asks; space 0 is of no VC.
func (a *askers) by(space int32) {
	if a.forest || space <= 0 || int(space) >= len(a.in) {
		a.all = true
		return
	}
	a.in[space] = true
}

// any reports whether one asks.
func (a *askers) any() bool { return a.all || slices.Contains(a.in, true) }

// names lists them, in order of their names; none is all, or nobody.
func (a *askers) names(c *cell.Cluster) []cell.VCName {
	var out []cell.VCName
	for space, asks := range a.in {
		if asks && !a.all {
			out = append(out, c.Space(int32(space)).Name)
		}
	}
	return out
}

// lookFor looks at the VCs for which a decision asked for this one, and at opportunistic work,
// which that decision left out; none is all VCs.
func (s *index) lookFor(vcs []cell.VCName) {
	if len(vcs) == 0 {
		s.lookAll()
	}
	for _, name := range vcs {
		space := s.space(name)
		if space == 0 {
			s.lookAll()
			return
		}
		s.lookIn(space, cell.MinGuaranteed)
		s.lookIn(space, cell.Opportunistic)
	}
}

// both are the VCs that two decisions asked for; none is all.
func both(a, b []cell.VCName) []cell.VCName {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
