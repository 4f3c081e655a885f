package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// What a policy may wish besides cells: that a gang joins others on their leaves, that gangs on
// the same leaves take other turns, or that a gang moves. Only the code here judges whether
// that can be.

const (
	MaxSharers = 16 // gangs on the same leaves
	maxMoves   = 4  // gangs of a VC that one decision moves
)

// together grants a wish for turns: the gang joins others on their leaves, or takes turns with
// them in another way. No other gang waits or leaves for it.
func (w *walker) together(wish *model.Wish) {
	s := w.s
	j := s.Find(wish.Gang.Job)
	if j == nil || wish.Gang.Gang < 0 || int(wish.Gang.Gang) >= len(j.Gangs) || w.bookings != nil {
		return // bookings rely on when the holders of leaves end
	}
	host := s.hostOf(wish)
	if host == nil || !s.MayShare(host, wish) || !slices.ContainsFunc(wish.Turns,
		func(t []model.GangRef) bool { return slices.Contains(t, wish.Gang) }) {
		return
	}
	g := &j.Gangs[wish.Gang.Gang]
	switch {
	case s.AttemptOf(wish.Gang) != nil:
		s.retune(host, wish)
		return
	case g.Attempt != tables.None:
		return // it has a reservation, which is kept
	}
	if !g.Waiting || !s.Eligible(j, wish.Gang.Gang) || w.pinBlocked(j.ID, g) || s.DevicesChanged(host) ||
		!s.ShapedLike(j, wish.Gang.Gang, host) {
		return
	}
	id := model.AttemptID{Job: j.ID, Gang: wish.Gang.Gang, N: g.N + 1}
	alloc := host.Alloc
	s.emit(model.Joined{Attempt: id, Host: host.ID, Placement: cell.Placement{Tasks: s.Cluster.Alloc(alloc).Placement.Tasks}})
	s.emit(model.Rotated{Rotation: s.rotation(wish)})
}

// hostOf returns the first of the attempts that share the leaves which wish.Gang wants to join. It
// is nil if the other gangs of wish.Turns hold several allocations, if an attempt on these leaves
// is not in the wish, or if the allocation may not be shared now.
func (s *Pass) hostOf(wish *model.Wish) *tables.Attempt {
	var host *tables.Attempt
	n, waits := 0, false
	for _, turn := range wish.Turns {
		for _, ref := range turn {
			a := s.AttemptOf(ref)
			switch {
			case a == nil && ref == wish.Gang && !waits:
				waits = true
			case a == nil || host != nil && a.Alloc != host.Alloc:
				return nil
			default:
				host = s.Holder(a.Alloc)
				n++
			}
		}
	}
	if host == nil || n != len(s.MembersOf(host.Alloc)) || n > MaxSharers || !s.Steady(host) || host.Orphaned ||
		s.Cluster.Alloc(host.Alloc).Opportunistic() {
		return nil
	}
	for _, m := range s.MembersOf(host.Alloc) {
		if m.Cause != 0 || m.Alive == 0 {
			return nil
		}
	}
	return host
}

// AttemptOf returns the attempt of a gang that runs; nil if it has none, or only a reservation.
func (s *Pass) AttemptOf(r model.GangRef) *tables.Attempt {
	j := s.Find(r.Job)
	if j == nil || r.Gang < 0 || int(r.Gang) >= len(j.Gangs) || j.Gangs[r.Gang].Attempt == tables.None {
		return nil
	}
	if a := &s.Attempts[j.Gangs[r.Gang].Attempt]; a.State != model.AttemptReserving {
		return a
	}
	return nil
}

// MayShare reports whether the gangs of a wish may take these turns on an allocation. Each must
// be in it once and allow to be suspended, or packed, and their memory must fit.
func (s *Pass) MayShare(host *tables.Attempt, wish *model.Wish) bool {
	n := 0
	var seen [MaxSharers + 1]model.GangRef
	for _, turn := range wish.Turns {
		for _, ref := range turn {
			if n > MaxSharers || slices.Contains(seen[:n], ref) {
				return false
			}
			seen[n] = ref
			n++
			j := s.Find(ref.Job)
			h := &j.Spec.Hints
			if j.Spec.Partial() || j.Gangs[ref.Gang].NeverShares || j.Spec.VC != s.Jobs[host.Job].Spec.VC ||
				j.Spec.Priority != s.Jobs[host.Job].Spec.Priority ||
				len(wish.Turns) > 1 && !h.Suspendable || len(turn) > 1 && (!h.Packable || h.Dedicated) || n > 1 &&
				h.Dedicated {
				return false
			}
		}
	}
	if len(wish.Turns) > model.MaxTurns || n == 0 || len(wish.Turns) > 1 &&
		(wish.Quantum <= 0 || wish.Quantum > model.MaxQuantum) {
		return false
	}
	return n == 1 || s.memoryFits(host, wish.Turns)
}

// memoryFits reports whether the gangs that take turns on an allocation fit its devices' memory
// in every turn: those that run, and suspended ones that keep their memory. A gang of unknown
// memory may need all of it.
func (s *Pass) memoryFits(host *tables.Attempt, turns [][]model.GangRef) bool {
	of := s.DeviceMemory(host)
	if of == 0 { // on devices of unknown memory no two gangs fit
		return !slices.ContainsFunc(turns, func(t []model.GangRef) bool { return len(t) > 1 })
	}
	var kept int64 // kept by gangs while suspended
	for _, turn := range turns {
		for _, ref := range turn {
			kept += s.memoryKept(ref, of)
		}
	}
	for _, turn := range turns {
		need := kept
		for _, ref := range turn {
			need += s.memoryOf(ref, of) - s.memoryKept(ref, of)
		}
		if need > of {
			return false
		}
	}
	return true
}

// memoryKept is how many MiB a gang keeps on each device while it is suspended.
func (s *Pass) memoryKept(r model.GangRef, of int64) int64 {
	if s.Find(r.Job).Spec.Hints.Suspend != nil {
		return 0
	}
	return s.memoryOf(r, of)
}

// memoryOf is how many MiB a gang needs on each device: what its job declares or the most that
// was measured, whichever is more; all of it if neither is known.
func (s *Pass) memoryOf(r model.GangRef, of int64) int64 {
	if n := s.knownMemory(r); n > 0 {
		return n
	}
	return of
}

// knownMemory is memoryOf, but 0 if nothing is known.
func (s *Pass) knownMemory(r model.GangRef) int64 {
	j := s.Find(r.Job)
	n := j.Spec.Hints.GPUMemoryMB
	for _, o := range j.Spec.Gangs[r.Gang].Tasks {
		if p := j.Tasks[o].Progress; p != nil && p.Use != nil {
			n = max(n, p.Use.MemoryMB)
		}
	}
	return n
}

// ShapedLike reports whether a gang could run on a host's leaves: they have the types and
// numbers that it asks for, on healthy nodes that it may use.
func (s *Pass) ShapedLike(j *tables.Job, g int32, host *tables.Attempt) bool {
	hj := &s.Jobs[host.Job]
	if !state.Alike(&j.Gangs[g], &hj.Gangs[host.ID.Gang]) || j.Spec.Gangs[g].Extra ||
		len(j.Spec.Gangs[g].Tasks) != len(hj.Spec.Gangs[host.ID.Gang].Tasks) {
		return false
	}
	f, r := s.Cluster.Forest(), s.Request(place.Want{J: j, G: g})
	hosts := hj.Spec.Gangs[host.ID.Gang].Tasks
	for i, t := range s.Cluster.Alloc(host.Alloc).Placement.Tasks {
		role := &j.Spec.Roles[j.Tasks[j.Spec.Gangs[g].Tasks[i]].Role]
		if role.Pinned != hj.Spec.Roles[hj.Tasks[hosts[i]].Role].Pinned || int(role.Leaves) != len(t.Leaves) {
			return false
		}
		for _, l := range t.Leaves {
			c := &f.Cells[f.Leaves[l]]
			sku := f.Chains[c.Chain].SKU
			if len(role.SKUs) > 0 && !slices.Contains(role.SKUs, sku) || !s.Covers(sku, role) || s.LeafBad(l) ||
				r.Avoided.Has(c.Node) || r.Allowed != nil && !r.Allowed.Has(c.Node) {
				return false
			}
		}
	}
	return true
}

// rotation returns a wish for turns with the attempts of its gangs.
func (s *Pass) rotation(wish *model.Wish) model.Rotation {
	r := model.Rotation{Epoch: s.Now}
	for _, turn := range wish.Turns {
		var ids []model.AttemptID
		for _, ref := range turn {
			ids = append(ids, s.AttemptOf(ref).ID)
		}
		r.Turns = append(r.Turns, ids)
	}
	if len(r.Turns) > 1 {
		r.Quantum = wish.Quantum
	}
	return r
}

// retune changes the turns of an allocation if they differ, at most once per decision.
func (s *Pass) retune(host *tables.Attempt, wish *model.Wish) {
	r := s.rotation(wish)
	if was := s.RotationOf(host); was == nil && len(r.Turns) == 1 && len(r.Turns[0]) == 1 || was != nil &&
		was.Equal(&r) {
		return
	}
	if host.Share != 0 && s.Shares[host.Share-1].SinceSeq > s.InputsThrough {
		return
	}
	s.emit(model.Rotated{Rotation: r})
}

// move stops a gang to run elsewhere, on nodes of the wish where it fits beside its present
// cells.
func (w *walker) move(wish *model.Wish) {
	s := w.s
	a := s.AttemptOf(wish.Gang)
	if a == nil || w.bookings != nil || !s.Movable(a) {
		return
	}
	if w.moves == maxMoves {
		s.LookAgain.By(w.space) // retried at the next look, which is at once
		return
	}
	j := &s.Jobs[a.Job]
	q := place.Want{J: j, G: a.ID.Gang}
	r := s.Request(q)
	if wish.OnlyNodes != nil {
		r.Allowed = wish.OnlyNodes
		if j.Spec.Restricted() {
			r.Allowed = s.AllowedNodes(j.Spec).Both(wish.OnlyNodes)
		}
	}
	if q.Within = wish.Within; q.Within != model.Anywhere {
		r.Reach = s.ReachLevels(q, r)
	}
	res, ok := s.Cluster.Place(&r)
	if !ok {
		return
	}
	w.moves++
	s.sendTo(a, res.Placement, nil)
}

// tune asks a VC's policy what it would change among running gangs.
func (w *walker) tune() {
	s := w.s
	t, ok := s.Policies[w.space].(model.Tuner)
	if !ok {
		return
	}
	ranks := s.Tallies[w.space].Ranks
	for i := len(ranks) - 1; i >= 0; i-- {
		was := s.EnterPolicy(w.space)
		for wish := range t.Tune(view{s: s, space: w.space, prio: ranks[i].Prio, now: s.Now, w: w}) {
			s.EnterPolicy(0) // a panic in granting is not blamed on the policy
			if wish.Note != nil {
				w.remember(wish.Note)
			}
			w.adjust(&wish)
			s.EnterPolicy(w.space)
		}
		s.EnterPolicy(was)
	}
}

// adjust grants a wish for turns, a move or another size.
func (w *walker) adjust(wish *model.Wish) {
	defer w.s.BlameJob(wish.Gang.Job)
	switch {
	case wish.Gang.Job == 0:
	case wish.Turns != nil:
		w.together(wish)
	case wish.Move:
		w.move(wish)
	case wish.MoveOthers != nil:
		w.relocateFor(wish, w.blockedWish(*wish))
	case wish.Size != 0:
		w.resize(wish)
	}
}

// Node implements View.
func (v view) Node(i int32) model.NodeView {
	f, out := v.s.Cluster.Forest(), model.NodeView{Node: i}
	if i < 0 || int(i) >= len(f.Nodes) {
		return out
	}
	for _, c := range f.Nodes[i].Cells {
		out.Offers = append(out.Offers, model.Offer{SKU: f.Chains[f.Cells[c].Chain].SKU, Idle: v.s.Cluster.Idle(c),
			Of: f.NumLeaves(c)})
	}
	return out
}

// Idle implements View.
func (v view) Idle(i int32) (idle, of int64) {
	f := v.s.Cluster.Forest()
	if i < 0 || int(i) >= len(f.Nodes) {
		return 0, 0
	}
	for _, c := range f.Nodes[i].Cells {
		idle, of = idle+int64(v.s.Cluster.Idle(c)), of+int64(f.NumLeaves(c))
	}
	return idle, of
}

// Moving implements View.
func (v view) Moving() bool { return v.s.Migrating > 0 }

// Machines implements View.
func (v view) Machines() int32 { return int32(len(v.s.Cluster.Forest().Nodes)) }
