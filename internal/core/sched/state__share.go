package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// membersOf returns the members of an allocation, in order of their ids.
func (s *fold) membersOf(id cell.AllocID) []*attempt {
	var out []*attempt
	for at := s.byAlloc[id]; at != none; at = s.attempts[at].mate {
		out = append(out, &s.attempts[at])
	}
	return out
}

// with returns the others of an attempt's allocation.
func (s *fold) with(a *attempt) []model.AttemptID {
	if !s.shared(a) {
		return nil
	}
	var out []model.AttemptID
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		if id := s.attempts[at].id; id != a.id {
			out = append(out, id)
		}
	}
	return out
}

// stuck reports whether nothing is known of some member of an allocation.
func (s *fold) stuck(id cell.AllocID) bool {
	for at := s.byAlloc[id]; at != none; at = s.attempts[at].mate {
		if s.attempts[at].state == model.AttemptUnknown {
			return true
		}
	}
	return false
}

// rotationOf is what an attempt follows; nil when it runs all the time and always did.
func (s *fold) rotationOf(a *attempt) *model.Rotation {
	if a.share == 0 {
		return nil
	}
	return &s.shares[a.share-1].rotation
}

// join links an attempt with those that hold an allocation.
func (s *fold) join(slot int32, id cell.AllocID) {
	a := &s.attempts[slot]
	a.alloc = id
	head := s.byAlloc[id]
	if compareAttempts(a.id, s.attempts[head].id) < 0 {
		a.mate, a.joined = head, false
		s.attempts[head].joined = true
		s.byAlloc[id] = slot
		return
	}
	at := head
	for next := s.attempts[at].mate; next != none && compareAttempts(s.attempts[next].id, a.id) < 0; next = s.attempts[at].mate {
		at = next
	}
	a.mate, a.joined = s.attempts[at].mate, true
	s.attempts[at].mate = slot
}

// part takes an attempt out of its allocation; it reports whether others are left.
func (s *fold) part(slot int32) bool {
	a := &s.attempts[slot]
	if a.share != 0 {
		s.leaveShare(a)
	}
	if !s.shared(a) {
		return false
	}
	if a.joined {
		at := s.first(a)
		for s.attempts[at].mate != slot {
			at = s.attempts[at].mate
		}
		s.attempts[at].mate = a.mate
	} else {
		s.byAlloc[a.alloc] = a.mate
		s.attempts[a.mate].joined = false
	}
	a.mate, a.joined = none, false
	return true
}

func (s *fold) leaveShare(a *attempt) {
	sh := &s.shares[a.share-1]
	if sh.members--; sh.members == 0 {
		*sh = sharing{}
	}
	a.share = 0
}

// applyJoined starts an attempt on the leaves of others.
func (s *fold) applyJoined(e Joined) {
	host := s.live(e.Host)
	if host == nil || host.state == model.AttemptReserving {
		panic(fmt.Sprintf("sched: attempt %v joins %v, which does not hold any leaves", e.Attempt, e.Host))
	}
	s.count(host, -1)
	slot := s.slots.Of(e.Attempt.Job)
	j := &s.jobs[slot]
	at := s.attemptSlot(slot, e.Attempt)
	j.gangs[e.Attempt.Gang].n = e.Attempt.N
	s.attempts[at] = attempt{id: e.Attempt, job: slot, mate: none}
	s.join(at, s.live(e.Host).alloc)
	s.link(at)
	s.begin(slot, &s.attempts[at], e.Placement.Tasks)
	s.count(&s.attempts[at], 1)
}

// applyRotated lets the members of an allocation run by a rotation. What each ran by
// the one before is summed up.
func (s *fold) applyRotated(e Rotated) {
	a := s.live(e.Turns[0][0])
	if err := e.Check(); err != nil || a == nil {
		panic(fmt.Sprintf("sched: a rotation of %v cannot be: %v", e.Turns, err))
	}
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		m := &s.attempts[at]
		ran := s.ranFor(m)
		alter(&m.odd).ran = ran
	}
	if a.share == 0 {
		a.share = s.newShare()
	}
	number := a.share
	sh := &s.shares[number-1]
	sh.rotation, sh.since, sh.at = e.Rotation, s.now, s.seq
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		m := &s.attempts[at]
		if m.share != number {
			if m.share != 0 {
				s.leaveShare(m)
			}
			m.share = number
			sh.members++
		}
		s.rerun(m)
		s.timeLimit(m)
	}
	s.stir(s.jobs[a.job].space)
	if len(s.booked) > 0 {
		s.lookIn(s.jobs[a.job].space, s.jobs[a.job].spec.Priority) // ends are known differently now
		s.lookIn(s.jobs[a.job].space, cell.Opportunistic)
	}
}

// newShare returns the number of a free sharing. Its first member names it before it is
// counted.
func (s *fold) newShare() int32 {
	i := slices.IndexFunc(s.shares, func(sh sharing) bool { return sh.members == 0 })
	if i < 0 {
		i = len(s.shares)
		s.shares = append(s.shares, sharing{})
	}
	s.shares[i] = sharing{members: 1}
	return int32(i + 1)
}

// timeLimit looks again when an attempt has run for its job's limit.
func (s *fold) timeLimit(a *attempt) {
	if j := &s.jobs[a.job]; j.spec.TimeLimit > 0 && a.started > 0 {
		s.at(s.reaches(a, j.spec.TimeLimit), j.id, a.id.Gang)
	}
}

// verifyShares checks that the members of allocations are alike, in order, and each
// once in their rotation, and that numbers of sharings are right.
func (s *fold) verifyShares(add func(string, ...any)) {
	named := make([]int32, len(s.shares))
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none {
			continue
		}
		if a.share != 0 {
			named[a.share-1]++
		}
		if !a.joined && s.first(a) == int32(i) {
			s.verifyMembers(a, add)
		}
	}
	for i := range s.shares {
		if named[i] != s.shares[i].members {
			add("%d attempts follow rotation %d, counted %d", named[i], i, s.shares[i].members)
		}
	}
}

// verifyMembers checks the members of one allocation.
func (s *fold) verifyMembers(head *attempt, add func(string, ...any)) {
	members := s.membersOf(head.alloc)
	if slices.ContainsFunc(members, func(m *attempt) bool { return m.since == s.seq }) {
		return // one joined, and its turn comes with the next event
	}
	j := &s.jobs[head.job]
	lives := 0
	for i, m := range members {
		if m.alive > 0 && m.state != model.AttemptReserving {
			lives++
		}
		k := &s.jobs[m.job]
		if m.job == none || m.alloc != head.alloc || m.joined != (i > 0) || i > 0 && compareAttempts(members[i-1].id, m.id) >= 0 {
			add("attempt %v is out of its place among the members of allocation %d", m.id, head.alloc)
		}
		if k.spec.VC != j.spec.VC || k.spec.Priority != j.spec.Priority || m.lazy != head.lazy || m.orphaned != head.orphaned {
			add("attempts %v and %v share leaves and differ in VC, priority or guarantee", head.id, m.id)
		}
		if !alike(&k.gangs[m.id.Gang], &j.gangs[head.id.Gang]) {
			add("attempts %v and %v share leaves and differ in shape", head.id, m.id)
		}
		if m.share != head.share {
			add("attempts %v and %v share leaves and follow different rotations", head.id, m.id)
		}
		if r := s.rotationOf(m); r != nil && m.alive > 0 && r.Turn(m.id) < 0 || r == nil && len(members) > 1 {
			add("attempt %v has no turn", m.id)
		}
	}
	r := s.rotationOf(head)
	if r == nil {
		return
	}
	if err := r.Check(); err != nil {
		add("allocation %d: %v", head.alloc, err)
	}
	turns := 0
	for _, turn := range r.Turns {
		for _, id := range turn {
			if m := s.live(id); m != nil && m.alloc == head.alloc && m.alive > 0 {
				turns++
			}
		}
	}
	if turns != lives {
		add("allocation %d has %d live members, %d of them with a turn", head.alloc, lives, turns)
	}
}

// alike reports whether two gangs could use the same leaves task by task.
func alike(a, b *gang) bool {
	return slices.EqualFunc(a.shape.members, b.shape.members, func(x, y cell.Member) bool { return x.Tasks == y.Tasks && x.Leaves == y.Leaves })
}

// shareOf says with whom a gang shares its leaves, and how.
func (s *fold) shareOf(j *job, a *attempt) model.GangShare {
	out := model.GangShare{Gang: a.id.Gang, Name: j.spec.Gangs[a.id.Gang].Name, Runs: true}
	for _, id := range s.with(a) {
		if !slices.ContainsFunc(out.With, func(b model.JobBrief) bool { return b.Job == id.Job }) {
			out.With = append(out.With, s.brief(s.find(id.Job)))
		}
	}
	if r := s.rotationOf(a); r != nil && len(r.Turns) > 1 {
		mine := r.Turn(a.id)
		out.Quantum, out.Turn, out.Turns = r.Quantum, int32(mine)+1, int32(len(r.Turns))
		out.Runs, out.Next = r.Runs(a.id, s.now), r.Change(s.now)
		for range r.Turns {
			if r.Runs(a.id, out.Next) != out.Runs {
				break
			}
			out.Next = r.Change(out.Next)
		}
	}
	return out
}
