package sched

import (
	"math"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// fault is what keeps cells from a gang that neither those before nor those behind it
// have in their hands.
type fault uint8

const (
	faultless fault = iota
	refused         // nodes refused to start it lately, or are closed to it
	broken          // hardware is bad or cordoned, or drains
	crowded         // the same, and it would not fit beside what runs even so
	lost            // nothing proves whether attempts there still live
)

// faultReason blames nodes that the gang avoids, bad hardware and attempts of which
// nothing is known.
func (s *State) faultReason(j *job, g int32) (Reason, bool) {
	r := s.newReason(j, g)
	switch s.fault(j, g) {
	case faultless:
		return Reason{}, false
	case refused:
		return s.avoidedReason(r, j, g), true
	case broken:
		return s.hardwareReason(r, j, int(g), false), true
	case crowded:
		return s.hardwareReason(r, j, int(g), true), true
	}
	by := s.heldBy(j, g)
	r.Jobs = by
	return r.say(HeldUnknown, "it would fit, but nothing proves whether tasks of %s still live, and their cells stay held until that is known", s.jobList(by)), true
}

// fault says what keeps a gang that does not fit from its cells: what, taken away,
// makes it fit beside what runs; or bad hardware without which it could not even run alone.
func (s *State) fault(j *job, g int32) fault {
	if !s.cl.Ailed() && !j.gangs[g].avoids() {
		return faultless
	}
	q := s.request(j, int(g))
	if j.spec.Priority >= cell.MinGuaranteed { // what it may lift is not in its way
		q.Lift = &cell.Lift{Opportunistic: true, Below: j.spec.Priority}
	}
	if !s.cl.Ailed() && q.Avoided == nil {
		return faultless
	}
	open, both := q, q
	open.Avoided, both.Avoided, both.IgnoreHealth = nil, nil, true
	most, sure := s.room(j, int(g), &both)
	if most < q.Leaves() {
		if !s.runsAlone(j, int(g), &open) {
			return crowded
		}
		return faultless
	}
	fits := func(q *cell.Request) bool { return sure >= q.Leaves() && s.fitsLater(q) }
	if fits(&q) {
		return faultless
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
		return refused
	case fitsMended && s.someLeave(q.Space):
		return faultless
	case fitsMended:
		return broken
	case !s.runsAlone(j, int(g), &open):
		return crowded
	case s.cl.Stuck() && !s.enoughLeave(&both) && s.fitsLater(s.withoutLost(&both)):
		return lost
	}
	return faultless
}

// fitsLater reports whether a gang would fit if promises gave way that must. Where nothing is bad
// nothing is charged either.
func (s *State) fitsLater(q *cell.Request) bool {
	if q.IgnoreHealth {
		defer s.cl.Uncharged()()
	}
	return s.cl.FitsLater(q, s.revocable(q))
}

// someLeave reports whether somebody leaves cells of a VC's guarantee: what is bound for it, maybe
// on bad hardware, may be bound elsewhere then. Whether that will do is not asked, since it would
// depend on what other VCs start meanwhile.
func (s *State) someLeave(space int32) bool {
	return slices.ContainsFunc(s.holders[space], func(slot int32) bool {
		a := &s.attempts[slot]
		al := s.cl.Alloc(a.alloc)
		return a.state != AttemptReserving && !al.Opportunistic() && al.Mood() == cell.Leaving
	})
}

// full reports whether a guaranteed gang asks for more leaves than its VC has room for:
// mostly it does, and no place needs to be tried.
func (s *State) full(j *job, g int, q *cell.Request) bool {
	most, _ := s.room(j, g, q)
	return most < q.Leaves()
}

// room counts the leaves that a gang's VC would have for it, with what is charged to the VC
// only if health is ignored, if everybody left whom the gang may lift, who leaves anyway or
// has not started yet: most, if those leave as well of whom nothing is known, and sure, while
// they stay. An opportunistic gang is not bounded.
func (s *State) room(j *job, g int, q *cell.Request) (most, sure int32) {
	if j.spec.Priority < cell.MinGuaranteed {
		return math.MaxInt32, math.MaxInt32
	}
	f, sp := s.cl.Forest(), s.cl.Space(j.space)
	usable := make([]bool, len(f.Chains))
	for ci := range usable {
		usable[ci] = s.usableChain(j, g, int16(ci))
	}
	for i := range sp.Roots {
		if r := &sp.Roots[i]; usable[r.Chain] {
			if most += f.Chains[r.Chain].LeavesAt(r.Level); r.Doomed && !q.IgnoreHealth {
				most -= s.cl.Ill(r.Cell)
			}
		}
	}
	sure = most
	for _, slot := range s.holders[j.space] {
		a := &s.attempts[slot]
		al := s.cl.Alloc(a.alloc)
		stuck := al.Mood() == cell.Stuck
		if a.state == AttemptReserving || s.byAlloc[a.alloc] != slot || al.Opportunistic() ||
			!stuck && (al.Priority < j.spec.Priority || al.Mood() == cell.Leaving) {
			continue
		}
		held := int32(0)
		for _, t := range al.Placement.Tasks {
			if len(t.Leaves) > 0 && usable[f.Cells[f.Leaves[t.Leaves[0]]].Chain] {
				held += int32(len(t.Leaves)) - s.takenOff(t.Leaves, q)
			}
		}
		if sure -= held; !stuck {
			most -= held
		}
	}
	return most, sure
}

// takenOff counts those of a task's leaves that room takes off its VC already: bad ones in a charged
// cell.
func (s *State) takenOff(leaves []cell.LeafID, q *cell.Request) (n int32) {
	if s.cl.Doomed() == 0 || q.IgnoreHealth {
		return 0
	}
	for _, l := range leaves {
		at := s.cl.Forest().Leaves[l]
		if s.cl.Ill(at) == 0 {
			continue
		}
		if space, root := s.cl.RootOver(at); space != cell.None && s.cl.Space(space).Roots[root].Doomed {
			n++
		}
	}
	return n
}

// runsAlone reports whether a gang would fit if nobody else used anything, as healthy
// as the cluster is. It is remembered as long as that lasts.
func (s *State) runsAlone(j *job, g int, q *cell.Request) bool {
	empty := s.vacant()
	if q.Keep != nil || s.only != nil || q.Reach != nil {
		_, ok := empty.Place(q)
		return ok
	}
	key := whatFits{j.space, min(j.spec.Priority, 0), j.gangs[g].shape.text}
	ok, known := s.lonely[key]
	if !known {
		if s.lonely == nil || len(s.lonely) > maxJudged {
			s.lonely = map[whatFits]bool{}
		}
		_, ok = empty.Place(q)
		s.lonely[key] = ok
	}
	return ok
}

// enoughLeave reports whether a gang that may lift nobody fits once those have left who are
// leaving: a request that may lift some counts on that.
func (s *State) enoughLeave(q *cell.Request) bool {
	if q.Lift != nil {
		return false
	}
	r := *q
	r.Lift = &cell.Lift{}
	return s.cl.FitsLater(&r, s.revocable(&r))
}

// withoutLost is a request that may lift attempts of which nothing is known, too: on a node
// that is in service their cells count as bad, until something proves that they are dead.
func (s *State) withoutLost(q *cell.Request) *cell.Request {
	r := *q
	r.Lift = &cell.Lift{Also: s.stuck}
	if q.Lift != nil {
		r.Lift.Opportunistic, r.Lift.Below = q.Lift.Opportunistic, q.Lift.Below
	}
	return &r
}

// heldBy returns the jobs of the attempts of which nothing is known without which a gang
// would find cells; where cells are free, those that use up what its VC is guaranteed.
func (s *State) heldBy(j *job, g int32) []JobID {
	q := s.request(j, int(g))
	q.Avoided, q.IgnoreHealth = nil, true
	if j.spec.Priority >= cell.MinGuaranteed {
		q.Lift = &cell.Lift{Opportunistic: true, Below: j.spec.Priority}
	}
	res, _ := s.cl.PlaceLater(s.withoutLost(&q), s.revocable(&q))
	var by []JobID
	blame := func(id cell.AllocID) {
		for _, m := range s.membersOf(id) {
			if m.state == AttemptUnknown { // what is leaving anyway is not to blame
				by = append(by, m.id.Job)
			}
		}
	}
	for _, v := range res.Victims {
		blame(v)
	}
	if len(by) == 0 {
		for _, slot := range s.holders[j.space] {
			if al := s.attempts[slot].alloc; !s.cl.Alloc(al).Opportunistic() {
				blame(al)
			}
		}
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// revocable are the promises that would give way to a request.
func (s *State) revocable(q *cell.Request) []cell.AllocID {
	var out []cell.AllocID
	for _, slot := range s.reservations(q.Space, q.Priority) {
		out = append(out, s.attempts[slot].alloc)
	}
	return out
}

func (s *State) avoidedReason(r Reason, j *job, g int32) Reason {
	for _, a := range rare(j.gangs[g].odd).avoid {
		if a.Until > s.now {
			r.Nodes = append(r.Nodes, a.Node)
			if r.Until == 0 || a.Until < r.Until {
				r.Until = a.Until
			}
		}
	}
	if len(r.Nodes) == 0 {
		return s.aloneReason(r, j)
	}
	return r.say(BackOff, "%s refused to start it; it is tried there again in %d s", nodeList(r.Nodes), secondsUntil(s.now, r.Until))
}
