package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What a policy may wish beside cells: that a gang joins others on their leaves, that
// those who share leaves take other turns, or that a gang moves. Whether that can be is
// judged here alone.

const (
	maxSharers = 16 // gangs on the same leaves
	maxMoves   = 4  // gangs of a VC that one decision stops so that they move
)

// together grants a wish for turns: the gang joins, or those who share leaves run by
// other turns. It makes nobody wait and nobody leave.
func (w *walker) together(wish *Wish) {
	s := w.s
	j := s.find(wish.Gang.Job)
	if j == nil || wish.Gang.Gang < 0 || int(wish.Gang.Gang) >= len(j.gangs) || w.outlook != nil {
		return // what is booked rests on when those who hold leaves end
	}
	host := s.hostOf(wish)
	if host == nil || !s.mayShare(host, wish) || !slices.ContainsFunc(wish.Turns, func(t []GangRef) bool { return slices.Contains(t, wish.Gang) }) {
		return
	}
	g := &j.gangs[wish.Gang.Gang]
	switch {
	case s.attemptOf(wish.Gang) != nil:
		s.retune(host, wish)
		return
	case g.attempt != none:
		return // it has a promise, which is kept
	}
	if !g.waiting || !s.eligible(j, wish.Gang.Gang) || w.pinBlocked(j.id, g) || s.startedOtherwise(host) || !s.shapedLike(j, wish.Gang.Gang, host) {
		return
	}
	id := model.AttemptID{Job: j.id, Gang: wish.Gang.Gang, N: g.n + 1}
	alloc := host.alloc
	s.emit(Joined{Attempt: id, Host: host.id, Placement: cell.Placement{Tasks: s.cl.Alloc(alloc).Placement.Tasks}})
	s.emit(Rotated{Rotation: s.rotation(wish)})
}

// hostOf returns the first member of the one allocation that all gangs of a wish for
// turns hold, but for one that waits; nil when they do not, when one of its members is
// not among them, or when it may not be shared now.
func (s *pass) hostOf(wish *Wish) *attempt {
	var host *attempt
	n, waits := 0, false
	for _, turn := range wish.Turns {
		for _, ref := range turn {
			a := s.attemptOf(ref)
			switch {
			case a == nil && ref == wish.Gang && !waits:
				waits = true
			case a == nil || host != nil && a.alloc != host.alloc:
				return nil
			default:
				host = s.holder(a.alloc)
				n++
			}
		}
	}
	if host == nil || n != len(s.membersOf(host.alloc)) || n > maxSharers || !s.steady(host) || host.orphaned || s.cl.Alloc(host.alloc).Opportunistic() {
		return nil
	}
	for _, m := range s.membersOf(host.alloc) {
		if m.cause != 0 || m.alive == 0 {
			return nil
		}
	}
	return host
}

// attemptOf returns the attempt of a gang that runs; nil when it has none, or a promise.
func (s *pass) attemptOf(r GangRef) *attempt {
	j := s.find(r.Job)
	if j == nil || r.Gang < 0 || int(r.Gang) >= len(j.gangs) || j.gangs[r.Gang].attempt == none {
		return nil
	}
	if a := &s.attempts[j.gangs[r.Gang].attempt]; a.state != model.AttemptReserving {
		return a
	}
	return nil
}

// mayShare reports whether the gangs of a wish may take these turns on an allocation:
// each is in it once and lets itself be suspended, or packed, and their memory fits.
func (s *pass) mayShare(host *attempt, wish *Wish) bool {
	n := 0
	var seen [maxSharers + 1]GangRef
	for _, turn := range wish.Turns {
		for _, ref := range turn {
			if n > maxSharers || slices.Contains(seen[:n], ref) {
				return false
			}
			seen[n] = ref
			n++
			j := s.find(ref.Job)
			h := &j.spec.Hints
			if j.spec.Partial() || j.gangs[ref.Gang].alone || j.spec.VC != s.jobs[host.job].spec.VC || j.spec.Priority != s.jobs[host.job].spec.Priority ||
				len(wish.Turns) > 1 && !h.Suspendable || len(turn) > 1 && (!h.Packable || h.Dedicated) || n > 1 && h.Dedicated {
				return false
			}
		}
	}
	if len(wish.Turns) > model.MaxTurns || n == 0 || len(wish.Turns) > 1 && (wish.Quantum <= 0 || wish.Quantum > model.MaxQuantum) {
		return false
	}
	return n == 1 || s.memoryFits(host, wish.Turns)
}

// memoryFits reports whether the gangs that take turns on an allocation fit into the
// memory of its devices, in every turn: those that run, and those suspended ones that do
// not give their memory back. What nobody knows the memory of may need all of it.
func (s *pass) memoryFits(host *attempt, turns [][]GangRef) bool {
	of := s.deviceMemory(host)
	if of == 0 { // of devices about which nothing is known, nobody can tell that two fit
		return !slices.ContainsFunc(turns, func(t []GangRef) bool { return len(t) > 1 })
	}
	var kept int64 // by suspended gangs
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

// memoryKept is how much a gang needs on each device while it is suspended.
func (s *pass) memoryKept(r GangRef, of int64) int64 {
	if s.find(r.Job).spec.Hints.Suspend != nil {
		return 0
	}
	return s.memoryOf(r, of)
}

// memoryOf is how much a gang needs on each device, in MiB: what its job declares, or
// the most that was seen; all when nothing is known.
func (s *pass) memoryOf(r GangRef, of int64) int64 {
	if n := s.knownMemory(r); n > 0 {
		return n
	}
	return of
}

// knownMemory is what is known about it; 0 is nothing.
func (s *pass) knownMemory(r GangRef) int64 {
	j := s.find(r.Job)
	n := j.spec.Hints.GPUMemoryMB
	for _, o := range j.spec.Gangs[r.Gang].Tasks {
		if p := j.tasks[o].progress; p != nil && p.Use != nil {
			n = max(n, p.Use.MemoryMB)
		}
	}
	return n
}

// shapedLike reports whether the leaves of others are of a gang's kinds and number, on nodes
// that it may use and that are in order.
func (s *pass) shapedLike(j *job, g int32, host *attempt) bool {
	hj := &s.jobs[host.job]
	if !alike(&j.gangs[g], &hj.gangs[host.id.Gang]) || j.spec.Gangs[g].Extra || len(j.spec.Gangs[g].Tasks) != len(hj.spec.Gangs[host.id.Gang].Tasks) {
		return false
	}
	f, r := s.cl.Forest(), s.request(want{j: j, g: g})
	hosts := hj.spec.Gangs[host.id.Gang].Tasks
	for i, t := range s.cl.Alloc(host.alloc).Placement.Tasks {
		role := &j.spec.Roles[j.tasks[j.spec.Gangs[g].Tasks[i]].role]
		if role.Pinned != hj.spec.Roles[hj.tasks[hosts[i]].role].Pinned || int(role.Leaves) != len(t.Leaves) {
			return false
		}
		for _, l := range t.Leaves {
			c := &f.Cells[f.Leaves[l]]
			sku := f.Chains[c.Chain].SKU
			if len(role.SKUs) > 0 && !slices.Contains(role.SKUs, sku) || !s.covers(sku, role) || s.leafBad(l) ||
				r.Avoided.Has(c.Node) || r.Allowed != nil && !r.Allowed.Has(c.Node) {
				return false
			}
		}
	}
	return true
}

// rotation is a wish for turns with the attempts of its gangs.
func (s *pass) rotation(wish *Wish) model.Rotation {
	r := model.Rotation{Epoch: s.now}
	for _, turn := range wish.Turns {
		var ids []model.AttemptID
		for _, ref := range turn {
			ids = append(ids, s.attemptOf(ref).id)
		}
		r.Turns = append(r.Turns, ids)
	}
	if len(r.Turns) > 1 {
		r.Quantum = wish.Quantum
	}
	return r
}

// retune changes the turns of an allocation, once in a decision, if they are others.
func (s *pass) retune(host *attempt, wish *Wish) {
	r := s.rotation(wish)
	if was := s.rotationOf(host); was == nil && len(r.Turns) == 1 && len(r.Turns[0]) == 1 || was != nil &&
		was.Equal(&r) {
		return
	}
	if host.share != 0 && s.shares[host.share-1].at > s.through {
		return
	}
	s.emit(Rotated{Rotation: r})
}

// move stops a gang so that it is placed again: on the nodes of the wish, where it fits
// now without it.
func (w *walker) move(wish *Wish) {
	s := w.s
	a := s.attemptOf(wish.Gang)
	if a == nil || w.outlook != nil || !s.movable(a) {
		return
	}
	if w.moves == maxMoves {
		s.grew.by(w.space) // at the next look, which is at once: it must not depend on what else happens
		return
	}
	j := &s.jobs[a.job]
	q := want{j: j, g: a.id.Gang}
	r := s.request(q)
	if wish.Only != nil {
		r.Allowed = wish.Only
		if j.spec.Restricted() {
			r.Allowed = s.allowedNodes(j.spec).Both(wish.Only)
		}
	}
	if q.near = wish.Within; q.near != Anywhere {
		r.Reach = s.meeting(q, r)
	}
	res, ok := s.cl.Place(&r)
	if !ok {
		return
	}
	w.moves++
	s.sendTo(a, res.Placement, nil)
}

// tune asks a VC's policy what it would change among those who run.
func (w *walker) tune() {
	s := w.s
	t, ok := s.pol[w.space].(Tuner)
	if !ok {
		return
	}
	ranks := s.tallies[w.space].ranks
	for i := len(ranks) - 1; i >= 0; i-- {
		was := s.ask(w.space)
		for wish := range t.Tune(view{s: s, space: w.space, prio: ranks[i].prio, now: s.now, w: w}) {
			s.ask(0) // what is done about a wish is not the policy's code
			if wish.Note != nil {
				w.remember(wish.Note)
			}
			w.adjust(&wish)
			s.ask(w.space)
		}
		s.ask(was)
	}
}

// adjust grants a wish for turns, for a move or for another size.
func (w *walker) adjust(wish *Wish) {
	defer w.s.blaming(wish.Gang.Job)
	switch {
	case wish.Gang.Job == 0:
	case wish.Turns != nil:
		w.together(wish)
	case wish.Move:
		w.move(wish)
	case wish.Clear != nil:
		w.clear(wish, w.blockedWish(*wish))
	case wish.Size != 0:
		w.resize(wish)
	}
}

// Node implements View.
func (v view) Node(i int32) NodeView {
	f, out := v.s.cl.Forest(), NodeView{Node: i}
	if i < 0 || int(i) >= len(f.Nodes) {
		return out
	}
	for _, c := range f.Nodes[i].Cells {
		out.Offers = append(out.Offers, Offer{SKU: f.Chains[f.Cells[c].Chain].SKU, Idle: v.s.cl.Idle(c), Of: f.NumLeaves(c)})
	}
	return out
}

// Idle implements View.
func (v view) Idle(i int32) (idle, of int64) {
	f := v.s.cl.Forest()
	if i < 0 || int(i) >= len(f.Nodes) {
		return 0, 0
	}
	for _, c := range f.Nodes[i].Cells {
		idle, of = idle+int64(v.s.cl.Idle(c)), of+int64(f.NumLeaves(c))
	}
	return idle, of
}

// Moving implements View.
func (v view) Moving() bool { return v.s.away > 0 }

// Machines implements View.
func (v view) Machines() int32 { return int32(len(v.s.cl.Forest().Nodes)) }
