package sched

import "github.com/combsched/comb/internal/cell"

// looks says what the walk must look at: a VC in which nothing changed since its
// last walk, and whose gangs could use nothing of what changed elsewhere, would
// only find the same again. What says nothing more precise looks at everything.
type looks struct {
	lend   bool   // opportunistic gangs: a leaf is free, or one of them came
	spaces []bool // guaranteed gangs of a VC
	itself []bool // VCs whose order changed by itself
	some   bool   // any of these
	// always are the VCs whose gangs also depend on time and on what others do.
	always  []bool
	flat    bool    // no VC is part of another
	tuned   []bool  // VCs whose policy is a Tuner
	firm    []bool  // VCs whose policy is Firm
	ranks   []bool  // VCs whose policy orders those who run
	lasts   []bool  // those of them where their keys last
	owned   []int64 // leaves that a VC is guaranteed
	chains  []int64 // leaves of each chain
	timed   []int32 // VCs whose order changes by itself
	changes []turn  // by space
	// shut says where the last walk left nothing to those behind, by space, and turns
	// counts what concerns every VC.
	shut  []shut
	turns uint64
	freed uint64 // counts what may leave cells to somebody
}

// shut says that the walk of a VC whose policy is Straight found nothing more for
// anybody: whoever comes later, with that priority or a lower one, stands behind those
// who took it or wait for it. It holds until something else changes.
type shut struct {
	holds bool
	turns uint64 // of looks, then
	prio  cell.Priority
}

// lookIn lets the walk look at who waits in one VC with a priority.
func (s *State) lookIn(space int32, p cell.Priority) {
	if int(space) < len(s.looks.shut) {
		s.looks.shut[space].holds = false
	}
	s.lookAt(space, p)
}

// lookAll lets the walk look at everybody who waits.
func (s *State) lookAll() {
	s.look = true
	s.looks.turns++
	s.looks.freed++
}

// arrived lets the walk look at a job that was submitted just now, unless the last walk
// of its VC left nothing to it.
func (s *State) arrived(space int32, p cell.Priority) {
	if p >= cell.MinGuaranteed && int(space) < len(s.looks.shut) {
		if at := s.looks.shut[space]; at.holds && at.turns == s.looks.turns && p <= at.prio {
			s.looks.some = true
			return
		}
	}
	s.lookIn(space, p)
}

// shutIn notes what a walk left to those who come later.
func (s *State) shutIn(w *walker) {
	_, straight := s.pol[w.space].(Straight)
	s.looks.shut[w.space] = shut{straight && w.outlook == nil && w.allBlocked(0), s.looks.turns, w.view.prio}
}

// lookAt marks who is to be looked at.
func (s *State) lookAt(space int32, p cell.Priority) {
	s.looks.some = true
	if p < cell.MinGuaranteed || int(space) >= len(s.looks.spaces) {
		s.looks.lend = true
	} else {
		s.looks.spaces[space] = true
	}
}

// looking reports whether the walk is due.
func (s *State) looking() bool { return s.look || s.looks.some }

// looked forgets what was to be looked at.
func (s *State) looked() {
	s.look = false
	if s.looks.some {
		s.looks.some, s.looks.lend = false, false
		clear(s.looks.spaces)
		clear(s.looks.itself)
	}
}

// mustWalk reports whether a VC's walk may find something. Where bad hardware is charged to somebody,
// that may lie elsewhere whenever something was settled: somebody may wait no more.
func (s *State) mustWalk(space int32) bool {
	return s.look || s.mem.moving.news && s.cl.Doomed() > 0 || s.looks.spaces[space] || s.looks.itself[space] || s.looks.always[space]
}

// Undisturbed implements View. Bookings let time say who may start.
func (v view) Undisturbed() bool {
	l := &v.s.looks
	return v.w != nil && !v.s.look && !l.spaces[v.space] && !l.always[v.space]
}

// Backfills implements View.
func (v view) Backfills() bool { return v.s.looks.always[v.space] }

// mustLend reports whether the walk of the opportunistic gangs may.
func (s *State) mustLend() bool { return s.look || s.looks.lend }

// resetLooks begins anew, after the VCs changed.
func (s *State) resetLooks() {
	n := s.cl.NumSpaces()
	s.looks = looks{spaces: make([]bool, n), itself: make([]bool, n), shut: make([]shut, n), always: make([]bool, n), tuned: make([]bool, n), firm: make([]bool, n), flat: true,
		ranks: make([]bool, n), lasts: make([]bool, n),
		owned: make([]int64, n), changes: make([]turn, n)}
	s.looks.chains = make([]int64, len(s.cl.Forest().Chains))
	for _, l := range s.cl.Forest().Leaves {
		s.looks.chains[s.cl.Forest().Cells[l].Chain]++
	}
	for i := int32(1); i < n; i++ {
		sp := s.cl.Space(i)
		mode := vcConfig(s.cfg, sp.Name).Backfill
		s.looks.always[i] = mode == modeEasy || mode == modeConserve
		s.looks.flat = s.looks.flat && sp.Parent == 0
		_, s.looks.tuned[i] = s.pol[i].(Tuner)
		_, s.looks.firm[i] = s.pol[i].(Firm)
		s.looks.ranks[i], s.looks.lasts[i] = orders(s.pol[i])
		switch s.pol[i].(type) {
		case Timed, Aging:
			s.looks.timed = append(s.looks.timed, i)
		default:
			if vcConfig(s.cfg, sp.Name).Moves > 0 {
				s.looks.timed = append(s.looks.timed, i)
			}
		}
		for r := range sp.Roots {
			root := &sp.Roots[r]
			s.looks.owned[i] += int64(s.cl.Forest().Chains[root.Chain].LeavesAt(root.Level))
		}
	}
}

// release gives an allocation back and looks at who could use what it leaves.
// Leaves of a guaranteed one lie in cells of its VC: as long as these stay bound,
// they serve that VC alone, or opportunistic gangs.
func (s *State) release(id cell.AllocID) {
	al := s.cl.Alloc(id)
	space, p := al.Space, al.Priority
	own := s.looks.flat && !al.Opportunistic() && !al.Promised
	s.looks.freed++
	if kept := s.cl.Release(id); !own || !kept {
		s.lookAll()
		return
	}
	s.lookIn(space, p)
	s.lookIn(space, cell.Opportunistic)
}

// lookAtStop looks at who could be promised what an attempt will leave.
func (s *State) lookAtStop(a *attempt) {
	s.looks.freed++
	if al := s.cl.Alloc(a.alloc); s.looks.flat && !al.Opportunistic() {
		s.lookIn(al.Space, al.Priority)
		return
	}
	s.lookAll()
}

// touch marks a job for the next Decide.
func (s *State) touch(slot int32) {
	if s.jobs[slot].touched {
		return
	}
	s.jobs[slot].touched = true
	s.dirty = append(s.dirty, s.jobs[slot].id)
	for i := len(s.dirty) - 1; i > 0; {
		up := (i - 1) / 2
		if s.dirty[up] <= s.dirty[i] {
			return
		}
		s.dirty[up], s.dirty[i] = s.dirty[i], s.dirty[up]
		i = up
	}
}

// nextTouched takes the first of the jobs that are to be settled; it may be over.
func (s *State) nextTouched() JobID {
	q := s.dirty
	id, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	for at := 0; ; {
		least := at
		for k := 2*at + 1; k <= 2*at+2 && k < len(q); k++ {
			if q[k] < q[least] {
				least = k
			}
		}
		if least == at {
			s.dirty = q
			return id
		}
		q[at], q[least] = q[least], q[at]
		at = least
	}
}

// untouch forgets which jobs were to be settled.
func (s *State) untouch() {
	for _, id := range s.dirty {
		if slot, ok := s.slots.get(id); ok {
			s.jobs[slot].touched = false
		}
	}
	s.dirty = s.dirty[:0]
}
