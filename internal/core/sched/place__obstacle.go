package sched

import (
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// alone reports whether a job wants its nodes for itself and may.
func (s *finder) alone(j *job) bool {
	if !j.spec.Hints.Dedicated {
		return false
	}
	_, may := s.pol[max(j.space, 0)].(Dedicator)
	return may
}

// closed are the nodes that others have for themselves, or for a job that wants to be alone
// those that somebody uses.
func (s *finder) closed(j *job) (out cell.NodeSet) {
	if s.loners == 0 {
		return nil
	}
	alone := s.alone(j)
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || s.jobs[a.job].id == j.id {
			continue
		}
		other := &s.jobs[a.job]
		mayCome := !s.alone(other) || other.spec.Priority < j.spec.Priority || other.space != j.space && j.spec.Priority >= cell.MinGuaranteed
		if !alone && mayCome {
			continue
		}
		for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
			if n := s.cl.Forest().NodeIndex(t.Node); n != cell.None {
				out = out.Add(n)
			}
		}
	}
	return out
}

// wants returns the chains that a gang's members could use, and the pinned cells that they name.
func (s *finder) wants(j *job, g int32) (chains []bool, pins []cell.PinnedID) {
	f := s.cl.Forest()
	chains = make([]bool, len(f.Chains))
	for _, m := range j.gangs[g].shape.members {
		if m.Pinned != "" {
			pins = append(pins, m.Pinned)
			continue
		}
		for ci := range f.Chains {
			chains[ci] = chains[ci] || (len(m.SKUs) == 0 || slices.Contains(m.SKUs, f.Chains[ci].SKU)) && s.holdsTask(j, g, m, int16(ci))
		}
	}
	return chains, pins
}

// holdsTask reports whether a task of a gang could run in a chain if nothing else did: its VC has
// cells there, its nodes are large enough, and the job may use some.
func (s *finder) holdsTask(j *job, g int32, m cell.Member, chain int16) bool {
	if len(s.cl.Forest().Chains) == 1 || s.cl.SpaceOf(j.spec.VC) == cell.None {
		return true
	}
	r := s.request(want{j: j, g: g}) // what is remembered is no matter of a wish
	m.Tasks = 1
	r.Members = []cell.Member{m}
	r.Blocked = make([]bool, len(s.cl.Forest().Chains))
	for ci := range r.Blocked {
		r.Blocked[ci] = ci != int(chain)
	}
	task := j.gangs[g].shape.text + "#" + strconv.Itoa(int(m.Leaves)) + "#" + strconv.Itoa(int(chain))
	return s.couldEverFit(whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: task}, r)
}

// couldEverFit reports whether a request could be met on an empty, healthy cluster, or the search
// ended before that was known; it is remembered.
func (s *finder) couldEverFit(key whatFits, r cell.Request) bool {
	if never, ok := s.remembered().never[key]; ok {
		return !never
	}
	r.Avoided, r.Reach, r.Keep, r.IgnoreHealth = nil, nil, nil, true
	res, ok := s.vacant().Place(&r)
	return !remember(&s.remembered().never, key, !ok && !res.Bounded)
}

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

// fault says what keeps a gang that does not fit from its cells: what, taken away,
// makes it fit beside what runs; or bad hardware without which it could not even run alone.
func (s *finder) fault(w want) fault {
	j, g := w.j, w.g
	if !s.cl.Ailed() && !j.gangs[g].avoids() {
		return faultless
	}
	q := s.request(w)
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
		if !s.runsAlone(w, &open) {
			return crowded
		}
		return faultless
	}
	fits := func(q *cell.Request) bool { return sure >= q.Leaves() && s.cl.FitsLater(q, s.revocable(q)) }
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
	case !s.runsAlone(w, &open):
		return crowded
	case s.cl.Stuck() && !s.enoughLeave(&both) && s.fitsWithoutLost(&both):
		return lost
	}
	return faultless
}

// someLeave reports whether somebody leaves cells of a VC's guarantee: what is bound for it, maybe
// on bad hardware, may be bound elsewhere then. Whether that will do is not asked, since it would
// depend on what other VCs start meanwhile.
func (s *finder) someLeave(space int32) bool {
	return slices.ContainsFunc(s.holders[space], func(slot int32) bool {
		a := &s.attempts[slot]
		al := s.cl.Alloc(a.alloc)
		return a.state != model.AttemptReserving && !al.Opportunistic() && al.Mood() == cell.Leaving
	})
}

// full reports whether a guaranteed gang asks for more leaves than its VC has room for:
// mostly it does, and no place needs to be tried.
func (s *finder) full(j *job, g int, q *cell.Request) bool {
	most, _ := s.room(j, g, q)
	return most < q.Leaves()
}

// room counts the leaves that a gang's VC would have for it, with what is charged to the VC
// only if health is ignored, if everybody left whom the gang may lift, who leaves anyway or
// has not started yet: most, if those leave as well of whom nothing is known, and sure, while
// they stay. An opportunistic gang is not bounded.
func (s *finder) room(j *job, g int, q *cell.Request) (most, sure int32) {
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
		if a.state == model.AttemptReserving || s.byAlloc[a.alloc] != slot || al.Opportunistic() ||
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

// takenOff counts those of a task's leaves that room takes off its VC already: bad ones in a
// charged cell.
func (s *finder) takenOff(leaves []cell.LeafID, q *cell.Request) (n int32) {
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
// as the cluster is. Where something is charged, its place may not be left to it then: so it is
// asked as well whether it fits beside what would be charged to others then, or at least beside
// what other VCs use and what is charged now.
func (s *finder) runsAlone(w want, q *cell.Request) bool {
	if !s.fitsEmpty(w, q, false) {
		return false
	}
	return w.j.spec.Priority < cell.MinGuaranteed || s.cl.Doomed() == 0 || s.fitsEmpty(w, q, true) ||
		s.fitsWithoutOwn(q)
}

// fitsWithoutOwn reports whether a gang fits once its VC uses nothing, nor opportunistic work
// anything.
func (s *finder) fitsWithoutOwn(q *cell.Request) bool {
	var own, promised []cell.AllocID
	for _, slot := range s.holders[q.Space] {
		a := &s.attempts[slot]
		if s.byAlloc[a.alloc] != slot || s.cl.Alloc(a.alloc).Opportunistic() {
			continue
		}
		if own = append(own, a.alloc); a.state == model.AttemptReserving {
			promised = append(promised, a.alloc)
		}
	}
	defer s.cl.Demoted(own)()
	r := *q
	r.Lift, r.Spared = &cell.Lift{Opportunistic: true}, nil
	return s.cl.FitsLater(&r, promised)
}

// fitsEmpty reports whether a gang fits when nothing is in use, as healthy as the cluster is,
// and as that is charged then or before. It is remembered as long as that lasts.
func (s *finder) fitsEmpty(w want, q *cell.Request, charged bool) bool {
	j := w.j
	place := func() bool {
		if charged {
			return s.fitsCharged(j, q)
		}
		_, ok := s.vacant().Place(q)
		return ok
	}
	if q.Keep != nil || w.only != nil || q.Reach != nil {
		return place()
	}
	key := loneFit{whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: w.gang().shape.text}, charged}
	ok, known := s.remembered().lonely[key]
	if !known {
		ok = remember(&s.remembered().lonely, key, place())
	}
	return ok
}

// loneFit is a question about a gang for which nothing is in use.
type loneFit struct {
	whatFits
	charged bool
}

// fitsCharged reports whether a gang fits when nothing is in use and what is bad was charged: to
// its VC only what no other can bear, since a charge goes where it holds nobody up.
func (s *finder) fitsCharged(j *job, q *cell.Request) bool {
	c := s.vacant().Clone()
	c.SettleHealth()
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
	_, ok := c.Shift(&cell.Shifting{
		Space: j.space, Chains: chains, Fits: fits,
		Idle:  func(space int32, _ int16) bool { return !s.inside(j.space, space) },
		Needs: func(int32, int16) bool { return false },
	})
	return ok
}

// enoughLeave reports whether a gang that may lift nobody fits once those have left who are
// leaving: a request that may lift some counts on that.
func (s *finder) enoughLeave(q *cell.Request) bool {
	if q.Lift != nil {
		return false
	}
	r := *q
	r.Lift = &cell.Lift{}
	return s.cl.FitsLater(&r, s.revocable(&r))
}

// withoutLost is a request that may lift attempts of which nothing is known, too: on a node
// that is in service their cells count as bad, until something proves that they are dead.
func (s *finder) withoutLost(q *cell.Request) *cell.Request {
	r := *q
	r.Lift = &cell.Lift{Also: s.stuck}
	if q.Lift != nil {
		r.Lift.Opportunistic, r.Lift.Below = q.Lift.Opportunistic, q.Lift.Below
	}
	return &r
}

// fitsWithoutLost reports whether a gang fits once all attempts are dead of which nothing is
// known: their leaves are free then, and the cells bound for them may be bound elsewhere.
func (s *finder) fitsWithoutLost(q *cell.Request) bool {
	defer s.cl.Demoted(s.lostHolders())()
	return s.cl.FitsLater(s.withoutLost(q), s.revocable(q))
}

// lostHolders are the allocations with a guarantee of which nothing is known, of all VCs, in
// the order of their attempts.
func (s *finder) lostHolders() (out []cell.AllocID) {
	for space := int32(1); space < int32(len(s.holders)); space++ {
		for _, slot := range s.holders[space] {
			id := s.attempts[slot].alloc
			if al := s.cl.Alloc(id); s.byAlloc[id] == slot && al.Mood() == cell.Stuck && !al.Opportunistic() {
				out = append(out, id)
			}
		}
	}
	slices.SortFunc(out, func(a, b cell.AllocID) int { return compareAttempts(s.holder(a).id, s.holder(b).id) })
	return out
}

// heldBy returns the jobs of the attempts of which nothing is known without which a gang
// would find cells: those on leaves that it could have, or for which cells are bound that it
// needs elsewhere; where neither is so, those that use up what its VC is guaranteed.
func (s *finder) heldBy(j *job, g int32) []model.JobID {
	q := s.request(want{j: j, g: g})
	q.Avoided, q.IgnoreHealth = nil, true
	if j.spec.Priority >= cell.MinGuaranteed {
		q.Lift = &cell.Lift{Opportunistic: true, Below: j.spec.Priority}
	}
	res, bound := s.placeWithoutLost(&q)
	var by []model.JobID
	blame := func(id cell.AllocID) {
		for _, m := range s.membersOf(id) {
			if m.state == model.AttemptUnknown { // what is leaving anyway is not to blame
				by = append(by, m.id.Job)
			}
		}
	}
	for _, id := range slices.Concat(res.Victims, bound) {
		blame(id)
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

// placeWithoutLost places a gang as if attempts were dead of which nothing is known, and
// returns those whose cells must be bound elsewhere for that.
func (s *finder) placeWithoutLost(q *cell.Request) (res cell.Result, bound []cell.AllocID) {
	r, past := s.withoutLost(q), s.revocable(q)
	with := func(ids []cell.AllocID) bool {
		defer s.cl.Demoted(ids)()
		found, ok := s.cl.PlaceLater(r, past)
		if ok {
			res = found
		}
		return ok
	}
	if bound = s.lostHolders(); with(nil) || !with(bound) {
		return res, nil
	}
	for i, missed := 0, 0; i < len(bound) && missed < trimMost; {
		if fewer := slices.Delete(slices.Clone(bound), i, i+1); with(fewer) {
			bound = fewer
			continue
		}
		i, missed = i+1, missed+1
	}
	return res, bound
}

// revocable are the promises that would give way to a request.
func (s *finder) revocable(q *cell.Request) []cell.AllocID {
	var out []cell.AllocID
	for _, slot := range s.reservations(q.Space, q.Priority) {
		out = append(out, s.attempts[slot].alloc)
	}
	return out
}
