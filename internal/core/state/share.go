package state

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// OtherMembers returns the other members of an attempt's allocation.
func (s *State) OtherMembers(a *tables.Attempt) []model.AttemptID {
	if !s.Shared(a) {
		return nil
	}
	var out []model.AttemptID
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		if id := s.Attempts[at].ID; id != a.ID {
			out = append(out, id)
		}
	}
	return out
}

// HasUnknown reports whether the state of some member of an allocation is unknown.
func (s *State) HasUnknown(id cell.AllocID) bool {
	for at := s.ByAlloc[id]; at != tables.None; at = s.Attempts[at].NextMember {
		if s.Attempts[at].State == model.AttemptUnknown {
			return true
		}
	}
	return false
}

// RotationOf is the rotation that an attempt follows; nil if it never took turns.
func (s *State) RotationOf(a *tables.Attempt) *model.Rotation {
	if a.Share == 0 {
		return nil
	}
	return &s.Shares[a.Share-1].Rotation
}

// join makes an attempt a member of an allocation; members are linked in order of their ids.
func (s *State) join(slot int32, id cell.AllocID) {
	a := &s.Attempts[slot]
	a.Alloc = id
	head := s.ByAlloc[id]
	if model.CompareAttempts(a.ID, s.Attempts[head].ID) < 0 {
		a.NextMember, a.NotFirst = head, false
		s.Attempts[head].NotFirst = true
		s.ByAlloc[id] = slot
		return
	}
	at := head
	for next := s.Attempts[at].NextMember; next != tables.None && model.CompareAttempts(s.Attempts[next].ID,
		a.ID) < 0; next = s.Attempts[at].NextMember {
		at = next
	}
	a.NextMember, a.NotFirst = s.Attempts[at].NextMember, true
	s.Attempts[at].NextMember = slot
}

// part takes an attempt out of its allocation, and reports whether other members are left.
func (s *State) part(slot int32) bool {
	a := &s.Attempts[slot]
	if a.Share != 0 {
		s.leaveShare(a)
	}
	if !s.Shared(a) {
		return false
	}
	if a.NotFirst {
		at := s.First(a)
		for s.Attempts[at].NextMember != slot {
			at = s.Attempts[at].NextMember
		}
		s.Attempts[at].NextMember = a.NextMember
	} else {
		s.ByAlloc[a.Alloc] = a.NextMember
		s.Attempts[a.NextMember].NotFirst = false
	}
	a.NextMember, a.NotFirst = tables.None, false
	return true
}

func (s *State) leaveShare(a *tables.Attempt) {
	sh := &s.Shares[a.Share-1]
	if sh.Members--; sh.Members == 0 {
		*sh = tables.Sharing{}
	}
	a.Share = 0
}

// applyJoined starts an attempt on leaves that another one holds.
func (s *State) applyJoined(e model.Joined) {
	host := s.Live(e.Host)
	if host == nil || host.State == model.AttemptReserving {
		panic(fmt.Sprintf("core: attempt %v joins %v, which does not hold any leaves", e.Attempt, e.Host))
	}
	s.count(host, -1)
	slot := s.Slots.Of(e.Attempt.Job)
	j := &s.Jobs[slot]
	at := s.attemptSlot(slot, e.Attempt)
	j.Gangs[e.Attempt.Gang].N = e.Attempt.N
	s.Attempts[at] = tables.Attempt{ID: e.Attempt, Job: slot, NextMember: tables.None}
	s.join(at, s.Live(e.Host).Alloc)
	s.Link(at)
	s.begin(slot, &s.Attempts[at], e.Placement.Tasks)
	s.count(&s.Attempts[at], 1)
}

// applyRotated lets the members of an allocation follow a rotation. How long each ran before it is
// kept.
func (s *State) applyRotated(e model.Rotated) {
	a := s.Live(e.Turns[0][0])
	if err := e.Check(); err != nil || a == nil {
		panic(fmt.Sprintf("core: a rotation of %v cannot be: %v", e.Turns, err))
	}
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		m := &s.Attempts[at]
		ran := s.RanFor(m)
		tables.SetRare(&m.Rare).RanBefore = ran
	}
	if a.Share == 0 {
		a.Share = s.newShare()
	}
	number := a.Share
	sh := &s.Shares[number-1]
	sh.Rotation, sh.Since, sh.SinceSeq = e.Rotation, s.Now, s.Seq
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		m := &s.Attempts[at]
		if m.Share != number {
			if m.Share != 0 {
				s.leaveShare(m)
			}
			m.Share = number
			sh.Members++
		}
		s.NoteChanged(m)
		s.timeLimit(m)
	}
	s.ForgetNextChange(s.Jobs[a.Job].Space)
	if len(s.Booked) > 0 {
		s.DirtyVC(s.Jobs[a.Job].Space, s.Jobs[a.Job].Spec.Priority) // it ends at another time now
		s.DirtyVC(s.Jobs[a.Job].Space, cell.Opportunistic)
	}
}

// newShare returns the number of a free Sharing. Its Members already counts the attempt that gets
// it.
func (s *State) newShare() int32 {
	i := slices.IndexFunc(s.Shares, func(sh tables.Sharing) bool { return sh.Members == 0 })
	if i < 0 {
		i = len(s.Shares)
		s.Shares = append(s.Shares, tables.Sharing{})
	}
	s.Shares[i] = tables.Sharing{Members: 1}
	return int32(i + 1)
}

// timeLimit sets a timer for when an attempt has run for its job's limit.
func (s *State) timeLimit(a *tables.Attempt) {
	if j := &s.Jobs[a.Job]; j.Spec.TimeLimit > 0 && a.Started > 0 {
		s.SetTimer(s.Reaches(a, j.Spec.TimeLimit), j.ID, a.ID.Gang)
	}
}

// verifyShares checks that the members of each allocation are alike and in order, that each has
// one turn in their rotation, and that attempts refer to the rotations they should.
func (s verifier) verifyShares() {
	named := make([]int32, len(s.Shares))
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None {
			continue
		}
		if a.Share != 0 {
			named[a.Share-1]++
		}
		if !a.NotFirst && s.First(a) == int32(i) {
			s.verifyMembers(a)
		}
	}
	for i := range s.Shares {
		if named[i] != s.Shares[i].Members {
			s.add("%d attempts follow rotation %d, counted %d", named[i], i, s.Shares[i].Members)
		}
	}
}

// verifyMembers checks the members of one allocation.
func (s verifier) verifyMembers(head *tables.Attempt) {
	members := s.MembersOf(head.Alloc)
	if slices.ContainsFunc(members, func(m *tables.Attempt) bool { return m.SinceSeq == s.Seq }) {
		return // one has just joined, and gets its turn by the next event
	}
	j := &s.Jobs[head.Job]
	lives := 0
	for i, m := range members {
		if m.Alive > 0 && m.State != model.AttemptReserving {
			lives++
		}
		k := &s.Jobs[m.Job]
		if m.Job == tables.None || m.Alloc != head.Alloc || m.NotFirst != (i > 0) || i > 0 &&
			model.CompareAttempts(members[i-1].ID, m.ID) >= 0 {
			s.add("attempt %v is out of its place among the members of allocation %d", m.ID, head.Alloc)
		}
		if k.Spec.VC != j.Spec.VC || k.Spec.Priority != j.Spec.Priority || m.Lazy != head.Lazy ||
			m.Orphaned != head.Orphaned {
			s.add("attempts %v and %v share leaves and differ in VC, priority or guarantee", head.ID, m.ID)
		}
		if !Alike(&k.Gangs[m.ID.Gang], &j.Gangs[head.ID.Gang]) {
			s.add("attempts %v and %v share leaves and differ in shape", head.ID, m.ID)
		}
		if m.Share != head.Share {
			s.add("attempts %v and %v share leaves and follow different rotations", head.ID, m.ID)
		}
		if r := s.RotationOf(m); r != nil && m.Alive > 0 && r.Turn(m.ID) < 0 || r == nil && len(members) > 1 {
			s.add("attempt %v has no turn", m.ID)
		}
	}
	r := s.RotationOf(head)
	if r == nil {
		return
	}
	if err := r.Check(); err != nil {
		s.add("allocation %d: %v", head.Alloc, err)
	}
	turns := 0
	for _, turn := range r.Turns {
		for _, id := range turn {
			if m := s.Live(id); m != nil && m.Alloc == head.Alloc && m.Alive > 0 {
				turns++
			}
		}
	}
	if turns != lives {
		s.add("allocation %d has %d live members, %d of them with a turn", head.Alloc, lives, turns)
	}
}

// Alike reports whether two gangs could use the same leaves task by task.
func Alike(a, b *tables.Gang) bool {
	return slices.EqualFunc(a.Shape.Members, b.Shape.Members,
		func(x, y cell.Member) bool { return x.Tasks == y.Tasks && x.Leaves == y.Leaves })
}
