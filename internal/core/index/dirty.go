package index

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// DrainsOf counts the nodes that drain, or have drained: a cluster without any asks nothing of its
// attempts.
func DrainsOf(nodes []tables.NodeNote) (n int32) {
	for i := range nodes {
		if nodes[i].Cordon && nodes[i].Drain > 0 {
			n++
		}
	}
	return n
}

// TouchOn has what runs on a node settled.
func (s *Index) TouchOn(node cell.NodeName) {
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.State != model.AttemptReserving && s.IsOn(a, node) {
			s.Touch(a.Job)
		}
	}
}

// IsOn reports whether a task of an attempt lives, or may live, on a node.
func (s *Index) IsOn(a *tables.Attempt, node cell.NodeName) bool {
	j := &s.Jobs[a.Job]
	return slices.ContainsFunc(j.Spec.Gangs[a.ID.Gang].Tasks, func(o int32) bool {
		t := &j.Tasks[o]
		return t.Place != nil && !t.Dead && t.Place.Node == node
	})
}

// drainsAt has what runs on the nodes settled whose drain is due at an instant, and reports whether
// there are any.
func (s *Index) drainsAt(at model.Time) bool {
	due := false
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Cordon && n.Drain == at {
			s.TouchOn(n.Name)
			due = true
		}
	}
	return due
}

// Virtual clusters that lend nothing keep their idle cells for their own jobs. Such a VC's cells
// are bound when they are used, as those of any: so what it could claim is asked for anew at each
// decision.

// AllLend reports whether all VCs lend what they do not use.
func (s *Index) AllLend() bool {
	return s.Config == nil || !slices.ContainsFunc(s.Config.VCs,
		func(c model.VCConfig) bool { return c.Lending == model.LendNothing })
}

// dirty says what the walk must look at: a VC in which nothing changed since its
// last walk, and whose gangs could use nothing of what changed elsewhere, would
// only find the same again. What says nothing more precise looks at everything.
type dirty struct {
	lend   bool   // opportunistic gangs: a leaf is free, or one of them came
	Spaces []bool // guaranteed gangs of a VC
	Itself []bool // VCs whose order changed by itself
	Some   bool   // any of these
	// Always are the VCs whose gangs also depend on time and on what others do.
	Always  []bool
	Flat    bool    // no VC is part of another
	Tuned   []bool  // VCs whose policy is a Tuner
	Firm    []bool  // VCs whose policy is Firm
	ranks   []bool  // VCs whose policy orders those who run
	lasts   []bool  // those of them where their keys last
	Owned   []int64 // leaves that a VC is guaranteed
	Chains  []int64 // leaves of each chain
	Timed   []int32 // VCs whose order changes by itself
	Changes []Turn  // by space
	// Exhausted says where the last walk left nothing to those behind, by space, and turns
	// counts what concerns every VC.
	Exhausted []Exhausted
	Turns     uint64
	Freed     uint64 // counts what may leave cells to somebody
	Idle      uint64 // counts what may leave free cells to somebody that are promised to none
	// What lets a VC gain by cells that another one leaves unbound: its policy or its jobs say
	// where, or it has cells that are parts of nodes.
	Placing  []bool     // VCs whose policy says where
	parts    []bool     // VCs that own parts of nodes
	choosy   int32      // jobs that name nodes which they must use, or must not
	Avoiding model.Time // until when some gang avoids a node
	Drains   int32      // nodes that drain, or have drained
}

// Exhausted says that the walk of a VC whose policy is Straight found nothing more for
// anybody: whoever comes later, with that priority or a lower one, stands behind those
// who took it or wait for it. It holds until something else changes.
type Exhausted struct {
	Holds bool
	Turns uint64 // of Dirty, then
	Prio  cell.Priority
}

// DirtyVC lets the walk look at the gangs that wait in one VC with a priority.
func (s *Index) DirtyVC(space int32, p cell.Priority) {
	s.Dirty.Some = true
	if int(space) < len(s.Dirty.Exhausted) {
		s.Dirty.Exhausted[space].Holds = false
	}
	if p < cell.MinGuaranteed || int(space) >= len(s.Dirty.Spaces) {
		s.Dirty.lend = true
	} else {
		s.Dirty.Spaces[space] = true
	}
}

// DirtyAll lets the walk look at everybody who waits.
func (s *Index) DirtyAll() {
	s.AllDirty = true
	s.Dirty.Turns++
	s.Dirty.Freed++
	s.Dirty.Idle++
}

// Arrived lets the walk look at a job that was submitted just now, unless the last walk
// of its VC left nothing to it.
func (s *Index) Arrived(space int32, p cell.Priority) {
	if p >= cell.MinGuaranteed && int(space) < len(s.Dirty.Exhausted) {
		if at := s.Dirty.Exhausted[space]; at.Holds && at.Turns == s.Dirty.Turns && p <= at.Prio {
			s.Dirty.Some = true
			return
		}
	}
	s.DirtyVC(space, p)
}

// IsDirty reports whether the walk is due.
func (s *Index) IsDirty() bool { return s.AllDirty || s.Dirty.Some }

// Clean forgets what was to be looked at.
func (s *Index) Clean() {
	s.AllDirty = false
	if s.Dirty.Some {
		s.Dirty.Some, s.Dirty.lend = false, false
		clear(s.Dirty.Spaces)
		clear(s.Dirty.Itself)
	}
}

// MustLend reports whether the walk of the opportunistic gangs may.
func (s *Index) MustLend() bool { return s.AllDirty || s.Dirty.lend || !s.AllLend() }

// ResetDirty begins anew, after the VCs changed.
func (s *Index) ResetDirty() {
	n := s.Cluster.NumSpaces()
	s.Dirty = dirty{Spaces: make([]bool, n), Itself: make([]bool, n), Exhausted: make([]Exhausted, n),
		Always: make([]bool, n), Tuned: make([]bool, n), Firm: make([]bool, n), Flat: true,
		ranks: make([]bool, n), lasts: make([]bool, n), Placing: make([]bool, n), parts: make([]bool, n),
		Owned: make([]int64, n), Changes: make([]Turn, n)}
	s.NotYet = nil // what counts begins anew
	s.Dirty.Drains = DrainsOf(s.Nodes)
	s.Dirty.Chains = make([]int64, len(s.Cluster.Forest().Chains))
	for _, l := range s.Cluster.Forest().Leaves {
		s.Dirty.Chains[s.Cluster.Forest().Cells[l].Chain]++
	}
	for i := int32(1); i < n; i++ {
		sp := s.Cluster.Space(i)
		mode := model.OfVC(s.Config, sp.Name).Backfill
		s.Dirty.Always[i] = mode == model.ModeEasy || mode == model.ModeConserve
		s.Dirty.Flat = s.Dirty.Flat && sp.Parent == 0
		_, s.Dirty.Tuned[i] = s.Policies[i].(model.Tuner)
		_, s.Dirty.Firm[i] = s.Policies[i].(model.Firm)
		s.Dirty.ranks[i], s.Dirty.lasts[i] = orders(s.Policies[i])
		if p, ok := s.Policies[i].(model.Placing); ok {
			s.Dirty.Placing[i] = p.Placing()
		}
		switch s.Policies[i].(type) {
		case model.Timed, model.Aging:
			s.Dirty.Timed = append(s.Dirty.Timed, i)
		default:
			if model.OfVC(s.Config, sp.Name).Moves > 0 {
				s.Dirty.Timed = append(s.Dirty.Timed, i)
			}
		}
		for r := range sp.Roots {
			root := &sp.Roots[r]
			chain := &s.Cluster.Forest().Chains[root.Chain]
			s.Dirty.Owned[i] += int64(chain.LeavesAt(root.Level))
			s.Dirty.parts[i] = s.Dirty.parts[i] || root.Level < chain.NodeLevel
		}
	}
	for i := range s.Jobs {
		s.Dirty.Chooses(&s.Jobs[i], 1)
	}
}

// Chooses counts a job that names nodes, or with -1 forgets it, and notes what its gangs avoid.
func (l *dirty) Chooses(j *tables.Job, n int32) {
	if j.Spec == nil {
		return
	}
	if j.Spec.Restricted() {
		l.choosy += n
	}
	for g := range j.Gangs {
		for _, a := range tables.RareOf(j.Gangs[g].Rare).Avoid {
			l.Avoiding = max(l.Avoiding, a.Until)
		}
	}
}

// lookAtUnbound looks at the VCs that may gain by cells which one VC left unbound, and once more
// where the walk that left them has passed these VCs already. Where all hardware is in service and
// nothing is lent, a VC can bind each whole node that it owns whatever the others bind, and one
// node is as good as the other to a gang that does not say where.
func (s *Index) lookAtUnbound() {
	l := &s.Dirty
	lent := slices.ContainsFunc(s.Tallies, func(t Tally) bool { return t.Borrowed > 0 })
	if lent || s.Cluster.Ailed() || s.Cluster.Doomed() > 0 || s.DedicatedJobs > 0 || l.choosy > 0 ||
		l.Avoiding > s.Now {
		s.DirtyAll()
		s.LookAgain.All = true
		return
	}
	for space := range l.Spaces {
		if l.Placing[space] || l.parts[space] {
			s.DirtyVC(int32(space), cell.MinGuaranteed)
			s.LookAgain.By(int32(space))
		}
	}
}

// Release gives an allocation back and looks at who could use what it leaves.
// Leaves of a guaranteed one, or of a promise, lie in cells of its VC: as long as these stay bound,
// they serve that VC alone, or opportunistic gangs.
func (s *Index) Release(id cell.AllocID) {
	al := s.Cluster.Alloc(id)
	space, p := al.Space, al.Priority
	own := s.Dirty.Flat && space > 0 && p >= cell.MinGuaranteed && !al.Lazy
	s.Dirty.Freed++
	rest := s.Cluster.Rest()
	kept := s.Cluster.Release(id)
	if !kept || s.Cluster.Rest() > rest {
		s.Dirty.Idle++
	}
	if !own {
		s.DirtyAll()
		s.LookAgain.All = true
		return
	} else if !kept {
		s.lookAtUnbound()
	}
	s.DirtyVC(space, p)
	s.DirtyVC(space, cell.Opportunistic)
}

// DirtyByStop looks at who could be promised what an attempt will leave.
func (s *Index) DirtyByStop(a *tables.Attempt) {
	s.Dirty.Freed++
	if al := s.Cluster.Alloc(a.Alloc); s.Dirty.Flat && !al.Opportunistic() {
		s.DirtyVC(al.Space, al.Priority)
		return
	}
	s.DirtyAll()
}

// Touch marks a job for the next Decide.
func (s *Index) Touch(slot int32) {
	if !s.Jobs[slot].Touched {
		s.Jobs[slot].Touched = true
		s.ToSettle.Push(s.Jobs[slot].ID)
	}
}

// Untouch forgets which jobs were to be settled.
func (s *Index) Untouch() {
	for _, id := range s.ToSettle {
		if slot, ok := s.Slots.Get(id); ok {
			s.Jobs[slot].Touched = false
		}
	}
	s.ToSettle = s.ToSettle[:0]
}

// Askers are the VCs for which a decision asks for another one at once. What it gave to one VC
// leaves the others as they were, so these are not looked at again: what a VC decides, and when,
// would depend on others.
type Askers struct {
	All    bool   // every VC asks
	in     []bool // by space, else
	forest bool   // VCs are parts of others: then all ask whenever one does
	// A VC that backfills and orders by what is idle, and how much was out after its walk; 0 is
	// none.
	Space   int32
	Ordered int
}

// Reset forgets all of them.
func (a *Askers) Reset(spaces int32, flat bool) {
	*a = Askers{in: slices.Grow(a.in[:0], int(spaces))[:spaces], forest: !flat}
	clear(a.in)
}

// By notes that a VC asks; space 0 is of no VC.
func (a *Askers) By(space int32) {
	if a.forest || space <= 0 || int(space) >= len(a.in) {
		a.All = true
		return
	}
	a.in[space] = true
}

// Any reports whether one asks.
func (a *Askers) Any() bool { return a.All || slices.Contains(a.in, true) }

// Names lists them, in order of their names; none is all, or nobody.
func (a *Askers) Names(c *cell.Cluster) []cell.VCName {
	var out []cell.VCName
	for space, asks := range a.in {
		if asks && !a.All {
			out = append(out, c.Space(int32(space)).Name)
		}
	}
	return out
}

// lookFor looks at the VCs for which a decision asked for this one, and at opportunistic work,
// which that decision left out; none is all VCs.
func (s *Index) lookFor(vcs []cell.VCName) {
	if len(vcs) == 0 {
		s.DirtyAll()
	}
	for _, name := range vcs {
		space := s.Space(name)
		if space == 0 {
			s.DirtyAll()
			return
		}
		s.DirtyVC(space, cell.MinGuaranteed)
		s.DirtyVC(space, cell.Opportunistic)
	}
}

// Both are the VCs that two decisions asked for; none is all.
func Both(a, b []cell.VCName) []cell.VCName {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
