package place

import (
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// IsDedicated reports whether a job asks for nodes of its own and its policy allows that.
func (s *Finder) IsDedicated(j *tables.Job) bool {
	if !j.Spec.Hints.Dedicated {
		return false
	}
	_, may := s.Policies[max(j.Space, 0)].(model.NodeDedicator)
	return may
}

// ClosedNodes returns the nodes that other jobs have for themselves. For a job that asks for nodes
// of its own it returns those that any other job uses.
func (s *Finder) ClosedNodes(j *tables.Job) (out cell.NodeSet) {
	if s.DedicatedJobs == 0 {
		return nil
	}
	alone := s.IsDedicated(j)
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || s.Jobs[a.Job].ID == j.ID {
			continue
		}
		other := &s.Jobs[a.Job]
		mayCome := !s.IsDedicated(other) || other.Spec.Priority < j.Spec.Priority || other.Space != j.Space &&
			j.Spec.Priority >= cell.MinGuaranteed
		if !alone && mayCome {
			continue
		}
		for _, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
			if n := s.Cluster.Forest().NodeIndex(t.Node); n != cell.None {
				out = out.Add(n)
			}
		}
	}
	return out
}

// ChainsAndPins returns the chains that a gang's members could use, and the pinned cells that they
// name.
func (s *Finder) ChainsAndPins(j *tables.Job, g int32) (chains []bool, pins []cell.PinnedID) {
	f := s.Cluster.Forest()
	chains = make([]bool, len(f.Chains))
	for _, m := range j.Gangs[g].Shape.Members {
		if m.Pinned != "" {
			pins = append(pins, m.Pinned)
			continue
		}
		for ci := range f.Chains {
			chains[ci] = chains[ci] || (len(m.SKUs) == 0 || slices.Contains(m.SKUs, f.Chains[ci].SKU)) &&
				s.holdsTask(j, g, m, int16(ci))
		}
	}
	return chains, pins
}

// holdsTask reports whether one task of a gang could run in a chain if nothing else did: its VC
// has cells there, its nodes are large enough, and the job may use some.
func (s *Finder) holdsTask(j *tables.Job, g int32, m cell.Member, chain int16) bool {
	if len(s.Cluster.Forest().Chains) == 1 || s.Cluster.SpaceOf(j.Spec.VC) == cell.None {
		return true
	}
	r := s.Request(Want{J: j, G: g}) // the cached answer must not depend on a wish
	m.Tasks = 1
	r.Members = []cell.Member{m}
	r.Blocked = make([]bool, len(s.Cluster.Forest().Chains))
	for ci := range r.Blocked {
		r.Blocked[ci] = ci != int(chain)
	}
	task := j.Gangs[g].Shape.Text + "#" + strconv.Itoa(int(m.Leaves)) + "#" + strconv.Itoa(int(chain))
	return s.CouldEverFit(tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: task}, r)
}

// CouldEverFit reports whether a request could be met on an empty, healthy cluster. A search
// that runs out of steps counts as yes. The answer is cached under key.
func (s *Finder) CouldEverFit(key tables.FitKey, r cell.Request) bool {
	if never, ok := s.remembered().neverFits[key]; ok {
		return !never
	}
	r.Avoided, r.Reach, r.Excluded, r.IgnoreHealth = nil, nil, nil, true
	res, ok := s.Vacant().Place(&r)
	return !Remember(&s.remembered().neverFits, key, !ok && !res.Bounded)
}

// fault is what keeps cells from a gang although no other gang has them.
type fault uint8

// The faults.
const (
	Faultless     fault = iota
	Refused             // nodes refused to start it lately, or belong to other jobs alone
	Broken              // hardware is bad, cordoned or draining
	BrokenAndBusy       // the same, and without it the gang would not fit beside what runs
	unknown             // attempts of unknown state may live there
)

// Fault returns why a gang does not fit, apart from other gangs: a fault without which it would
// fit beside what runs, or bad hardware without which it could not run even alone.
func (s *Finder) Fault(w Want) fault {
	j, g := w.J, w.G
	if !s.Cluster.AnyBadOrUnknown() && !j.Gangs[g].Avoids() {
		return Faultless
	}
	q := s.Request(w)
	if j.Spec.Priority >= cell.MinGuaranteed { // what it may preempt is not in its way
		q.Preempt = &cell.Preemptible{Opportunistic: true, Below: j.Spec.Priority}
	}
	if !s.Cluster.AnyBadOrUnknown() && q.Avoided == nil {
		return Faultless
	}
	open, both := q, q
	open.Avoided, both.Avoided, both.IgnoreHealth = nil, nil, true
	most, sure := s.available(j, int(g), &both)
	if most < q.Leaves() {
		if !s.runsAlone(w, &open) {
			return BrokenAndBusy
		}
		return Faultless
	}
	fits := func(q *cell.Request) bool { return sure >= q.Leaves() && s.Cluster.FitsLater(q, s.revocable(q)) }
	if fits(&q) {
		return Faultless
	}
	fitsBoth := fits(&both)
	fitsMended := fitsBoth
	if q.Avoided != nil && fitsBoth {
		mended := q
		mended.IgnoreHealth = true
		fitsMended = fits(&mended)
	}
	switch {
	case q.Avoided != nil && !fitsMended && (fitsBoth || fits(&open)):
		return Refused
	case fitsMended && s.someLeave(q.Space):
		return Faultless
	case fitsMended:
		return Broken
	case !s.runsAlone(w, &open):
		return BrokenAndBusy
	case s.Cluster.AnyUnknown() && !s.enoughLeave(&both) && s.fitsWithoutUnknown(&both):
		return unknown
	}
	return Faultless
}

// someLeave reports whether an attempt is leaving cells of a VC's guarantee. Those cells may
// then be bound elsewhere than on bad hardware. Whether that suffices is not asked: it depends
// on what other VCs start meanwhile.
func (s *Finder) someLeave(space int32) bool {
	return slices.ContainsFunc(s.Holders[space], func(slot int32) bool {
		a := &s.Attempts[slot]
		al := s.Cluster.Alloc(a.Alloc)
		return a.State != model.AttemptReserving && !al.Opportunistic() && al.Intent() == cell.Leaving
	})
}

// exceedsAvailable reports whether a guaranteed gang asks for more leaves than its VC could give
// it. Mostly it does if it waits, and no placement needs to be tried.
func (s *Finder) exceedsAvailable(j *tables.Job, g int, q *cell.Request) bool {
	most, _ := s.available(j, g, q)
	return most < q.Leaves()
}

// available counts the leaves that the VC could give the gang once everything preemptible, leaving
// or only promised is gone. most also assumes that attempts of unknown state are gone; sure
// does not. Charged bad leaves count only if the request ignores health. Opportunistic gangs
// are not bounded.
func (s *Finder) available(j *tables.Job, g int, q *cell.Request) (most, sure int32) {
	if j.Spec.Priority < cell.MinGuaranteed {
		return math.MaxInt32, math.MaxInt32
	}
	f, sp := s.Cluster.Forest(), s.Cluster.Space(j.Space)
	usable := make([]bool, len(f.Chains))
	for ci := range usable {
		usable[ci] = s.UsableChain(j, g, int16(ci))
	}
	for i := range sp.Roots {
		if r := &sp.Roots[i]; usable[r.Chain] {
			if most += f.Chains[r.Chain].LeavesAt(r.Level); r.Doomed && !q.IgnoreHealth {
				most -= s.Cluster.BadLeaves(r.Cell)
			}
		}
	}
	sure = most
	for _, slot := range s.Holders[j.Space] {
		a := &s.Attempts[slot]
		al := s.Cluster.Alloc(a.Alloc)
		stuck := al.Intent() == cell.Unknown
		if a.State == model.AttemptReserving || s.ByAlloc[a.Alloc] != slot || al.Opportunistic() ||
			!stuck && (al.Priority < j.Spec.Priority || al.Intent() == cell.Leaving) {
			continue
		}
		held := int32(0)
		for _, t := range al.Placement.Tasks {
			if len(t.Leaves) > 0 && usable[f.Cells[f.Leaves[t.Leaves[0]]].Chain] {
				held += int32(len(t.Leaves)) - s.badCharged(t.Leaves, q)
			}
		}
		if sure -= held; !stuck {
			most -= held
		}
	}
	return most, sure
}

// badCharged counts a task's bad leaves in charged cells, which room has subtracted already.
func (s *Finder) badCharged(leaves []cell.LeafID, q *cell.Request) (n int32) {
	if s.Cluster.NumCharges() == 0 || q.IgnoreHealth {
		return 0
	}
	for _, l := range leaves {
		at := s.Cluster.Forest().Leaves[l]
		if s.Cluster.BadLeaves(at) == 0 {
			continue
		}
		if space, root := s.Cluster.RootOver(at); space != cell.None && s.Cluster.Space(space).Roots[root].Doomed {
			n++
		}
	}
	return n
}

// runsAlone reports whether a gang would fit an otherwise empty cluster, as healthy as it is.
// With charges it must also fit beside the charges of the empty cluster, or beside the present
// charges and what other VCs use.
func (s *Finder) runsAlone(w Want, q *cell.Request) bool {
	if !s.fitsEmpty(w, q, false) {
		return false
	}
	return w.J.Spec.Priority < cell.MinGuaranteed || s.Cluster.NumCharges() == 0 || s.fitsEmpty(w, q, true) ||
		s.fitsWithoutOwn(q)
}

// fitsWithoutOwn reports whether a gang fits if neither its VC nor opportunistic work used
// anything.
func (s *Finder) fitsWithoutOwn(q *cell.Request) bool {
	var own, promised []cell.AllocID
	for _, slot := range s.Holders[q.Space] {
		a := &s.Attempts[slot]
		if s.ByAlloc[a.Alloc] != slot || s.Cluster.Alloc(a.Alloc).Opportunistic() {
			continue
		}
		if own = append(own, a.Alloc); a.State == model.AttemptReserving {
			promised = append(promised, a.Alloc)
		}
	}
	defer s.Cluster.DemoteTemporarily(own)()
	r := *q
	r.Preempt, r.Protected = &cell.Preemptible{Opportunistic: true}, nil
	return s.Cluster.FitsLater(&r, promised)
}

// fitsEmpty reports whether a gang fits if nothing is in use, as healthy as the cluster is.
// With charged, bad hardware is charged first. The answer is cached while health and
// configuration stay.
func (s *Finder) fitsEmpty(w Want, q *cell.Request, charged bool) bool {
	j := w.J
	place := func() bool {
		if charged {
			return s.fitsCharged(j, q)
		}
		_, ok := s.Vacant().Place(q)
		return ok
	}
	if q.Excluded != nil || w.Only != nil || q.Reach != nil {
		return place()
	}
	key := loneFit{tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: w.Gang().Shape.Text}, charged}
	ok, known := s.remembered().fitsEmpty[key]
	if !known {
		ok = Remember(&s.remembered().fitsEmpty, key, place())
	}
	return ok
}

// loneFit is the key for the answers of fitsEmpty.
type loneFit struct {
	tables.FitKey
	charged bool
}

// fitsCharged reports whether a gang fits if nothing is in use and bad hardware is charged. Its
// own VC bears only charges that no other VC can, since charges move where they block no gang.
func (s *Finder) fitsCharged(j *tables.Job, q *cell.Request) bool {
	c := s.Vacant().Clone()
	c.UpdateCharges()
	fits := func() bool {
		_, ok := c.Place(q)
		return ok
	}
	if fits() {
		return true
	}
	chains := make([]bool, len(c.Forest().Chains))
	for ci := range chains {
		chains[ci] = true
	}
	_, ok := c.MoveCharges(&cell.ChargeMoveRequest{
		Space: j.Space, Chains: chains, Fits: fits,
		Idle:  func(space int32, _ int16) bool { return !s.inside(j.Space, space) },
		Needs: func(int32, int16) bool { return false },
	})
	return ok
}

// enoughLeave reports whether a gang that may preempt nothing fits once all leaving attempts
// are gone. A request that may preempt counts on that already.
func (s *Finder) enoughLeave(q *cell.Request) bool {
	if q.Preempt != nil {
		return false
	}
	r := *q
	r.Preempt = &cell.Preemptible{}
	return s.Cluster.FitsLater(&r, s.revocable(&r))
}

// withoutUnknown returns the request that may also preempt attempts of unknown state. Their cells
// count as bad, even on a node in service, until they are proven dead.
func (s *Finder) withoutUnknown(q *cell.Request) *cell.Request {
	r := *q
	r.Preempt = &cell.Preemptible{Also: s.HasUnknown}
	if q.Preempt != nil {
		r.Preempt.Opportunistic, r.Preempt.Below = q.Preempt.Opportunistic, q.Preempt.Below
	}
	return &r
}

// fitsWithoutUnknown reports whether a gang fits once all attempts of unknown state are dead:
// their leaves are free then, and their cells may be bound elsewhere.
func (s *Finder) fitsWithoutUnknown(q *cell.Request) bool {
	defer s.Cluster.DemoteTemporarily(s.unknownHolders())()
	return s.Cluster.FitsLater(s.withoutUnknown(q), s.revocable(q))
}

// unknownHolders returns the guaranteed allocations of unknown state of all VCs, in the order of
// their attempts.
func (s *Finder) unknownHolders() (out []cell.AllocID) {
	for space := int32(1); space < int32(len(s.Holders)); space++ {
		for _, slot := range s.Holders[space] {
			id := s.Attempts[slot].Alloc
			if al := s.Cluster.Alloc(id); s.ByAlloc[id] == slot && al.Intent() == cell.Unknown && !al.Opportunistic() {
				out = append(out, id)
			}
		}
	}
	slices.SortFunc(out, func(a, b cell.AllocID) int { return model.CompareAttempts(s.Holder(a).ID, s.Holder(b).ID) })
	return out
}

// UnknownBlockers returns the jobs whose attempts of unknown state keep a gang from cells: those on
// leaves that it could have, or with cells that must be bound elsewhere for it. If there are
// none it returns those that use up its VC's quota.
func (s *Finder) UnknownBlockers(j *tables.Job, g int32) []model.JobID {
	q := s.Request(Want{J: j, G: g})
	q.Avoided, q.IgnoreHealth = nil, true
	if j.Spec.Priority >= cell.MinGuaranteed {
		q.Preempt = &cell.Preemptible{Opportunistic: true, Below: j.Spec.Priority}
	}
	res, bound := s.placeWithoutUnknown(&q)
	var by []model.JobID
	blame := func(id cell.AllocID) {
		for _, m := range s.MembersOf(id) {
			if m.State == model.AttemptUnknown { // an attempt that is leaving is no obstacle
				by = append(by, m.ID.Job)
			}
		}
	}
	for _, id := range slices.Concat(res.Victims, bound) {
		blame(id)
	}
	if len(by) == 0 {
		for _, slot := range s.Holders[j.Space] {
			if al := s.Attempts[slot].Alloc; !s.Cluster.Alloc(al).Opportunistic() {
				blame(al)
			}
		}
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// placeWithoutUnknown places a gang as if all attempts of unknown state were dead. bound are those
// whose cells must be bound elsewhere for that.
func (s *Finder) placeWithoutUnknown(q *cell.Request) (res cell.Result, bound []cell.AllocID) {
	r, past := s.withoutUnknown(q), s.revocable(q)
	with := func(ids []cell.AllocID) bool {
		defer s.Cluster.DemoteTemporarily(ids)()
		found, ok := s.Cluster.PlaceLater(r, past)
		if ok {
			res = found
		}
		return ok
	}
	if bound = s.unknownHolders(); with(nil) || !with(bound) {
		return res, nil
	}
	for i, missed := 0, 0; i < len(bound) && missed < TrimMost; {
		if fewer := slices.Delete(slices.Clone(bound), i, i+1); with(fewer) {
			bound = fewer
			continue
		}
		i, missed = i+1, missed+1
	}
	return res, bound
}

// revocable returns the reservations that give way to a request.
func (s *Finder) revocable(q *cell.Request) []cell.AllocID {
	var out []cell.AllocID
	for _, slot := range s.Reservations(q.Space, q.Priority) {
		out = append(out, s.Attempts[slot].Alloc)
	}
	return out
}
