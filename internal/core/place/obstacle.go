package place

import (
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Alone reports whether a job wants its nodes for itself and may.
func (s *Finder) Alone(j *tables.Job) bool {
	if !j.Spec.Hints.Dedicated {
		return false
	}
	_, may := s.Policies[max(j.Space, 0)].(model.Dedicator)
	return may
}

// Closed are the nodes that others have for themselves, or for a job that wants to be alone
// those that somebody uses.
func (s *Finder) Closed(j *tables.Job) (out cell.NodeSet) {
	if s.DedicatedJobs == 0 {
		return nil
	}
	alone := s.Alone(j)
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || s.Jobs[a.Job].ID == j.ID {
			continue
		}
		other := &s.Jobs[a.Job]
		mayCome := !s.Alone(other) || other.Spec.Priority < j.Spec.Priority || other.Space != j.Space &&
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

// Wants returns the chains that a gang's members could use, and the pinned cells that they name.
func (s *Finder) Wants(j *tables.Job, g int32) (chains []bool, pins []cell.PinnedID) {
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

// holdsTask reports whether a task of a gang could run in a chain if nothing else did: its VC has
// cells there, its nodes are large enough, and the job may use some.
func (s *Finder) holdsTask(j *tables.Job, g int32, m cell.Member, chain int16) bool {
	if len(s.Cluster.Forest().Chains) == 1 || s.Cluster.SpaceOf(j.Spec.VC) == cell.None {
		return true
	}
	r := s.Request(Want{J: j, G: g}) // what is remembered is no matter of a wish
	m.Tasks = 1
	r.Members = []cell.Member{m}
	r.Blocked = make([]bool, len(s.Cluster.Forest().Chains))
	for ci := range r.Blocked {
		r.Blocked[ci] = ci != int(chain)
	}
	task := j.Gangs[g].Shape.Text + "#" + strconv.Itoa(int(m.Leaves)) + "#" + strconv.Itoa(int(chain))
	return s.CouldEverFit(tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: task}, r)
}

// CouldEverFit reports whether a request could be met on an empty, healthy cluster, or the search
// ended before that was known; it is remembered.
func (s *Finder) CouldEverFit(key tables.FitKey, r cell.Request) bool {
	if never, ok := s.remembered().neverFits[key]; ok {
		return !never
	}
	r.Avoided, r.Reach, r.Keep, r.IgnoreHealth = nil, nil, nil, true
	res, ok := s.Vacant().Place(&r)
	return !Remember(&s.remembered().neverFits, key, !ok && !res.Bounded)
}

// fault is what keeps cells from a gang that neither those before nor those behind it
// have in their hands.
type fault uint8

// What keeps a gang waiting beside other jobs.
const (
	Faultless fault = iota
	Refused         // nodes refused to start it lately, or are closed to it
	Broken          // hardware is bad or cordoned, or drains
	Crowded         // the same, and it would not fit beside what runs even so
	lost            // nothing proves whether attempts there still live
)

// Fault says what keeps a gang that does not fit from its cells: what, taken away,
// makes it fit beside what runs; or bad hardware without which it could not even run alone.
func (s *Finder) Fault(w Want) fault {
	j, g := w.J, w.G
	if !s.Cluster.Ailed() && !j.Gangs[g].Avoids() {
		return Faultless
	}
	q := s.Request(w)
	if j.Spec.Priority >= cell.MinGuaranteed { // what it may lift is not in its way
		q.Lift = &cell.Lift{Opportunistic: true, Below: j.Spec.Priority}
	}
	if !s.Cluster.Ailed() && q.Avoided == nil {
		return Faultless
	}
	open, both := q, q
	open.Avoided, both.Avoided, both.IgnoreHealth = nil, nil, true
	most, sure := s.room(j, int(g), &both)
	if most < q.Leaves() {
		if !s.runsAlone(w, &open) {
			return Crowded
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
		return Crowded
	case s.Cluster.Stuck() && !s.enoughLeave(&both) && s.fitsWithoutLost(&both):
		return lost
	}
	return Faultless
}

// someLeave reports whether somebody leaves cells of a VC's guarantee: what is bound for it, maybe
// on bad hardware, may be bound elsewhere then. Whether that will do is not asked, since it would
// depend on what other VCs start meanwhile.
func (s *Finder) someLeave(space int32) bool {
	return slices.ContainsFunc(s.Holders[space], func(slot int32) bool {
		a := &s.Attempts[slot]
		al := s.Cluster.Alloc(a.Alloc)
		return a.State != model.AttemptReserving && !al.Opportunistic() && al.Mood() == cell.Leaving
	})
}

// full reports whether a guaranteed gang asks for more leaves than its VC has room for:
// mostly it does, and no place needs to be tried.
func (s *Finder) full(j *tables.Job, g int, q *cell.Request) bool {
	most, _ := s.room(j, g, q)
	return most < q.Leaves()
}

// room counts the leaves that a gang's VC would have for it, with what is charged to the VC
// only if health is ignored, if everybody left whom the gang may lift, who leaves anyway or
// has not started yet: most, if those leave as well of whom nothing is known, and sure, while
// they stay. An opportunistic gang is not bounded.
func (s *Finder) room(j *tables.Job, g int, q *cell.Request) (most, sure int32) {
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
				most -= s.Cluster.Ill(r.Cell)
			}
		}
	}
	sure = most
	for _, slot := range s.Holders[j.Space] {
		a := &s.Attempts[slot]
		al := s.Cluster.Alloc(a.Alloc)
		stuck := al.Mood() == cell.Stuck
		if a.State == model.AttemptReserving || s.ByAlloc[a.Alloc] != slot || al.Opportunistic() ||
			!stuck && (al.Priority < j.Spec.Priority || al.Mood() == cell.Leaving) {
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
func (s *Finder) takenOff(leaves []cell.LeafID, q *cell.Request) (n int32) {
	if s.Cluster.Doomed() == 0 || q.IgnoreHealth {
		return 0
	}
	for _, l := range leaves {
		at := s.Cluster.Forest().Leaves[l]
		if s.Cluster.Ill(at) == 0 {
			continue
		}
		if space, root := s.Cluster.RootOver(at); space != cell.None && s.Cluster.Space(space).Roots[root].Doomed {
			n++
		}
	}
	return n
}

// runsAlone reports whether a gang would fit if nobody else used anything, as healthy
// as the cluster is. Where something is charged, its place may not be left to it then: so it is
// asked as well whether it fits beside what would be charged to others then, or at least beside
// what other VCs use and what is charged now.
func (s *Finder) runsAlone(w Want, q *cell.Request) bool {
	if !s.fitsEmpty(w, q, false) {
		return false
	}
	return w.J.Spec.Priority < cell.MinGuaranteed || s.Cluster.Doomed() == 0 || s.fitsEmpty(w, q, true) ||
		s.fitsWithoutOwn(q)
}

// fitsWithoutOwn reports whether a gang fits once its VC uses nothing, nor opportunistic work
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
	defer s.Cluster.Demoted(own)()
	r := *q
	r.Lift, r.Spared = &cell.Lift{Opportunistic: true}, nil
	return s.Cluster.FitsLater(&r, promised)
}

// fitsEmpty reports whether a gang fits when nothing is in use, as healthy as the cluster is,
// and as that is charged then or before. It is remembered as long as that lasts.
func (s *Finder) fitsEmpty(w Want, q *cell.Request, charged bool) bool {
	j := w.J
	place := func() bool {
		if charged {
			return s.fitsCharged(j, q)
		}
		_, ok := s.Vacant().Place(q)
		return ok
	}
	if q.Keep != nil || w.Only != nil || q.Reach != nil {
		return place()
	}
	key := loneFit{tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: w.Gang().Shape.Text}, charged}
	ok, known := s.remembered().fitsEmpty[key]
	if !known {
		ok = Remember(&s.remembered().fitsEmpty, key, place())
	}
	return ok
}

// loneFit is a question about a gang for which nothing is in use.
type loneFit struct {
	tables.FitKey
	charged bool
}

// fitsCharged reports whether a gang fits when nothing is in use and what is bad was charged: to
// its VC only what no other can bear, since a charge goes where it holds nobody up.
func (s *Finder) fitsCharged(j *tables.Job, q *cell.Request) bool {
	c := s.Vacant().Clone()
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
		Space: j.Space, Chains: chains, Fits: fits,
		Idle:  func(space int32, _ int16) bool { return !s.inside(j.Space, space) },
		Needs: func(int32, int16) bool { return false },
	})
	return ok
}

// enoughLeave reports whether a gang that may lift nobody fits once those have left who are
// leaving: a request that may lift some counts on that.
func (s *Finder) enoughLeave(q *cell.Request) bool {
	if q.Lift != nil {
		return false
	}
	r := *q
	r.Lift = &cell.Lift{}
	return s.Cluster.FitsLater(&r, s.revocable(&r))
}

// withoutLost is a request that may lift attempts of which nothing is known, too: on a node
// that is in service their cells count as bad, until something proves that they are dead.
func (s *Finder) withoutLost(q *cell.Request) *cell.Request {
	r := *q
	r.Lift = &cell.Lift{Also: s.Stuck}
	if q.Lift != nil {
		r.Lift.Opportunistic, r.Lift.Below = q.Lift.Opportunistic, q.Lift.Below
	}
	return &r
}

// fitsWithoutLost reports whether a gang fits once all attempts are dead of which nothing is
// known: their leaves are free then, and the cells bound for them may be bound elsewhere.
func (s *Finder) fitsWithoutLost(q *cell.Request) bool {
	defer s.Cluster.Demoted(s.lostHolders())()
	return s.Cluster.FitsLater(s.withoutLost(q), s.revocable(q))
}

// lostHolders are the allocations with a guarantee of which nothing is known, of all VCs, in
// the order of their attempts.
func (s *Finder) lostHolders() (out []cell.AllocID) {
	for space := int32(1); space < int32(len(s.Holders)); space++ {
		for _, slot := range s.Holders[space] {
			id := s.Attempts[slot].Alloc
			if al := s.Cluster.Alloc(id); s.ByAlloc[id] == slot && al.Mood() == cell.Stuck && !al.Opportunistic() {
				out = append(out, id)
			}
		}
	}
	slices.SortFunc(out, func(a, b cell.AllocID) int { return model.CompareAttempts(s.Holder(a).ID, s.Holder(b).ID) })
	return out
}

// HeldBy returns the jobs of the attempts of which nothing is known without which a gang
// would find cells: those on leaves that it could have, or for which cells are bound that it
// needs elsewhere; where neither is so, those that use up what its VC is guaranteed.
func (s *Finder) HeldBy(j *tables.Job, g int32) []model.JobID {
	q := s.Request(Want{J: j, G: g})
	q.Avoided, q.IgnoreHealth = nil, true
	if j.Spec.Priority >= cell.MinGuaranteed {
		q.Lift = &cell.Lift{Opportunistic: true, Below: j.Spec.Priority}
	}
	res, bound := s.placeWithoutLost(&q)
	var by []model.JobID
	blame := func(id cell.AllocID) {
		for _, m := range s.MembersOf(id) {
			if m.State == model.AttemptUnknown { // what is leaving anyway is not to blame
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

// placeWithoutLost places a gang as if attempts were dead of which nothing is known, and
// returns those whose cells must be bound elsewhere for that.
func (s *Finder) placeWithoutLost(q *cell.Request) (res cell.Result, bound []cell.AllocID) {
	r, past := s.withoutLost(q), s.revocable(q)
	with := func(ids []cell.AllocID) bool {
		defer s.Cluster.Demoted(ids)()
		found, ok := s.Cluster.PlaceLater(r, past)
		if ok {
			res = found
		}
		return ok
	}
	if bound = s.lostHolders(); with(nil) || !with(bound) {
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

// revocable are the promises that would give way to a request.
func (s *Finder) revocable(q *cell.Request) []cell.AllocID {
	var out []cell.AllocID
	for _, slot := range s.Reservations(q.Space, q.Priority) {
		out = append(out, s.Attempts[slot].Alloc)
	}
	return out
}
