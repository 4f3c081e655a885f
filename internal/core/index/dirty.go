package index

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// CountDraining counts the nodes with a drain deadline, passed or to come. While there are none, no
// attempt is checked for one.
func CountDraining(nodes []tables.NodeNote) (n int32) {
	for i := range nodes {
		if nodes[i].Cordon && nodes[i].Drain > 0 {
			n++
		}
	}
	return n
}

// TouchOn marks the jobs with a task on a node for the next Decide.
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

// drainsAt marks the jobs on nodes with a drain due at that time, and reports whether there are
// such nodes.
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

// A VC that lends nothing keeps its idle cells for its own jobs. Like any VC's, its cells are
// bound only when they are used. So which idle cells it could claim is worked out anew at each
// decision.

// AllLend reports whether all VCs lend what they do not use.
func (s *Index) AllLend() bool {
	return s.Config == nil || !slices.ContainsFunc(s.Config.VCs,
		func(c model.VCConfig) bool { return c.Lending == model.LendNothing })
}

// dirty says what the next walk must look at. A VC is skipped if nothing changed in it since its
// last walk and its gangs could use nothing that changed elsewhere: it would find the same again.
// A change that is not narrowed down to VCs marks everything (DirtyAll).
type dirty struct {
	lend         bool   // look at opportunistic gangs: a leaf became free, or a gang arrived
	Guaranteed   []bool // by space: look at the VC's guaranteed gangs
	OrderChanged []bool // by space: the VC's order changed as time passed
	Some         bool   // any of the above
	// Backfills, by space, marks VCs with easy or conserve backfill: what their gangs get also
	// depends on time and on other VCs.
	Backfills   []bool
	Flat        bool         // no VC is part of another
	Tuned       []bool       // by space: the policy is a Tuner
	Firm        []bool       // by space: the policy is Firm
	ranks       []bool       // by space: the policy orders running gangs
	lasts       []bool       // by space: their keys hold until a known time, or until something happens to them
	Owned       []int64      // by space: leaves guaranteed to the VC
	Chains      []int64      // by chain: its leaves
	Timed       []int32      // spaces of the VCs with an order that changes as time passes
	NextChanges []NextChange // by space
	// Exhausted, by space, says where the last walk left nothing to later arrivals. FullChanges
	// counts the changes that concern every VC.
	Exhausted   []Exhausted
	FullChanges uint64
	CellChanges uint64 // counts changes after which some gang may get cells
	IdleChanges uint64 // counts changes that may add free cells promised to no gang
	// Placing to Avoiding tell whether cells that one VC leaves unbound may help another: its
	// policy or its jobs say where gangs may run, or it owns parts of nodes.
	Placing       []bool     // by space: the policy says where gangs may run
	parts         []bool     // by space: the VC owns cells smaller than a node
	choosy        int32      // number of jobs that name nodes which they must use, or must not
	Avoiding      model.Time // the latest time until which a gang avoids a node
	DrainingNodes int32      // number of nodes with a drain deadline, passed or to come
}

// Exhausted says that the last walk of a VC with a StrictFIFO policy left nothing to later arrivals
// of Prio or below: they stand behind the gangs that took it or wait for it. It holds until
// something else changes.
type Exhausted struct {
	Holds       bool
	FullChanges uint64 // Dirty.FullChanges at that walk
	Prio        cell.Priority
}

// DirtyVC has the next walk look at the guaranteed gangs of a VC, or at opportunistic gangs if p
// is opportunistic.
func (s *Index) DirtyVC(space int32, p cell.Priority) {
	s.Dirty.Some = true
	if int(space) < len(s.Dirty.Exhausted) {
		s.Dirty.Exhausted[space].Holds = false
	}
	if p < cell.MinGuaranteed || int(space) >= len(s.Dirty.Guaranteed) {
		s.Dirty.lend = true
	} else {
		s.Dirty.Guaranteed[space] = true
	}
}

// DirtyAll has the next walk look at every gang that waits.
func (s *Index) DirtyAll() {
	s.AllDirty = true
	s.Dirty.FullChanges++
	s.Dirty.CellChanges++
	s.Dirty.IdleChanges++
}

// MayMoveCharges has the next walk look at every VC where bad hardware is charged. It is called
// when gangs of one VC may cease to wait. That VC may take charges over then, and a gang of
// another VC fits.
func MayMoveCharges(s *Index) {
	if s.Cluster.NumCharges() > 0 {
		s.DirtyAll()
	}
}

// Arrived has the next walk look at a job that was just submitted, unless the last walk of its VC
// left nothing to its priority.
func (s *Index) Arrived(space int32, p cell.Priority) {
	if p >= cell.MinGuaranteed && int(space) < len(s.Dirty.Exhausted) {
		if at := s.Dirty.Exhausted[space]; at.Holds && at.FullChanges == s.Dirty.FullChanges && p <= at.Prio {
			s.Dirty.Some = true
			return
		}
	}
	s.DirtyVC(space, p)
}

// IsDirty reports whether the walk is due.
func (s *Index) IsDirty() bool { return s.AllDirty || s.Dirty.Some }

// Clean forgets what the walk was to look at.
func (s *Index) Clean() {
	s.AllDirty = false
	if s.Dirty.Some {
		s.Dirty.Some, s.Dirty.lend = false, false
		clear(s.Dirty.Guaranteed)
		clear(s.Dirty.OrderChanged)
	}
}

// MustLend reports whether opportunistic gangs must be looked at.
func (s *Index) MustLend() bool { return s.AllDirty || s.Dirty.lend || !s.AllLend() }

// ResetDirty builds Dirty anew, after the VCs or their policies changed.
func (s *Index) ResetDirty() {
	n := s.Cluster.NumSpaces()
	s.Dirty = dirty{Guaranteed: make([]bool, n), OrderChanged: make([]bool, n), Exhausted: make([]Exhausted, n),
		Backfills: make([]bool, n), Tuned: make([]bool, n), Firm: make([]bool, n), Flat: true,
		ranks: make([]bool, n), lasts: make([]bool, n), Placing: make([]bool, n), parts: make([]bool, n),
		Owned: make([]int64, n), NextChanges: make([]NextChange, n)}
	s.NoFreeCells = nil // the counters in it begin again at 0
	s.Dirty.DrainingNodes = CountDraining(s.Nodes)
	s.Dirty.Chains = make([]int64, len(s.Cluster.Forest().Chains))
	for _, l := range s.Cluster.Forest().Leaves {
		s.Dirty.Chains[s.Cluster.Forest().Cells[l].Chain]++
	}
	for i := int32(1); i < n; i++ {
		sp := s.Cluster.Space(i)
		mode := model.ConfigOfVC(s.Config, sp.Name).Backfill
		s.Dirty.Backfills[i] = mode == model.ModeEasy || mode == model.ModeConserve
		s.Dirty.Flat = s.Dirty.Flat && sp.Parent == 0
		_, s.Dirty.Tuned[i] = s.Policies[i].(model.Tuner)
		_, s.Dirty.Firm[i] = s.Policies[i].(model.MembersFollowMinimum)
		s.Dirty.ranks[i], s.Dirty.lasts[i] = orders(s.Policies[i])
		if p, ok := s.Policies[i].(model.RestrictsNodes); ok {
			s.Dirty.Placing[i] = p.RestrictsNodes()
		}
		switch s.Policies[i].(type) {
		case model.Timed, model.StepKeyed:
			s.Dirty.Timed = append(s.Dirty.Timed, i)
		default:
			if model.ConfigOfVC(s.Config, sp.Name).Moves > 0 {
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

// Chooses counts a job that names nodes, n is 1 or, to forget it, -1. It also notes until when the
// job's gangs avoid nodes.
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

// lookAtUnbound marks the VCs that may gain from cells which another VC left unbound. It asks for
// another decision as well, since the present walk may have passed those VCs. VCs are skipped only
// while all hardware is in service and nothing is lent: then each VC can bind every whole node
// that it owns whatever others bind, and a gang that names no nodes does as well on any of them.
func (s *Index) lookAtUnbound() {
	l := &s.Dirty
	lent := slices.ContainsFunc(s.Tallies, func(t Tally) bool { return t.Borrowed > 0 })
	if lent || s.Cluster.AnyBadOrUnknown() || s.Cluster.NumCharges() > 0 || s.DedicatedJobs > 0 || l.choosy > 0 ||
		l.Avoiding > s.Now {
		s.DirtyAll()
		s.LookAgain.All = true
		return
	}
	for space := range l.Guaranteed {
		if l.Placing[space] || l.parts[space] {
			s.DirtyVC(int32(space), cell.MinGuaranteed)
			s.LookAgain.By(int32(space))
		}
	}
}

// Release frees an allocation and marks the gangs that could use its leaves. The leaves of a
// guaranteed allocation, or of a promise, lie in cells of its VC. While these stay bound, they
// serve only that VC or opportunistic gangs.
func (s *Index) Release(id cell.AllocID) {
	al := s.Cluster.Alloc(id)
	space, p := al.Space, al.Priority
	own := s.Dirty.Flat && space > 0 && p >= cell.MinGuaranteed && !al.Lazy
	s.Dirty.CellChanges++
	rest := s.Cluster.IdleCount()
	kept := s.Cluster.Release(id)
	if !kept || s.Cluster.IdleCount() > rest {
		s.Dirty.IdleChanges++
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

// DirtyByStop marks the gangs to which the leaves of a stopping attempt could be promised.
func (s *Index) DirtyByStop(a *tables.Attempt) {
	s.Dirty.CellChanges++
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

// Untouch takes back all marks of Touch.
func (s *Index) Untouch() {
	for _, id := range s.ToSettle {
		if slot, ok := s.Slots.Get(id); ok {
			s.Jobs[slot].Touched = false
		}
	}
	s.ToSettle = s.ToSettle[:0]
}

// Askers are the VCs for which a decision asks for another one at once. Other VCs are not looked
// at again: what one VC got left them as they were, and what a VC decides, and when, must not
// depend on others.
type Askers struct {
	All    bool   // every VC asks
	in     []bool // by space, unless All
	forest bool   // VCs are parts of others: then all ask whenever one does
	// Space is a VC that backfills in an order which depends on idle leaves, 0 for none. Ordered is
	// how many records the decision had after that VC's walk: if a later one places a gang, Space
	// asks.
	Space   int32
	Ordered int
}

// Reset forgets all askers.
func (a *Askers) Reset(spaces int32, flat bool) {
	*a = Askers{in: slices.Grow(a.in[:0], int(spaces))[:spaces], forest: !flat}
	clear(a.in)
}

// By notes that a VC asks; space 0, no VC, has all ask.
func (a *Askers) By(space int32) {
	if a.forest || space <= 0 || int(space) >= len(a.in) {
		a.All = true
		return
	}
	a.in[space] = true
}

// Any reports whether some VC asks.
func (a *Askers) Any() bool { return a.All || slices.Contains(a.in, true) }

// Names lists the VCs that ask, by name; nil if all ask, or none.
func (a *Askers) Names(c *cell.Cluster) []cell.VCName {
	var out []cell.VCName
	for space, asks := range a.in {
		if asks && !a.All {
			out = append(out, c.Space(int32(space)).Name)
		}
	}
	return out
}

// lookFor marks the VCs for which a decision asked for this one, and opportunistic work, which
// that decision left out. No VCs means all.
func (s *Index) lookFor(vcs []cell.VCName) {
	if len(vcs) == 0 {
		s.DirtyAll()
	}
	MayMoveCharges(s)
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

// MergeNames are the VCs for which one of two decisions asked, by name; nil, also as an argument,
// means all.
func MergeNames(a, b []cell.VCName) []cell.VCName {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
