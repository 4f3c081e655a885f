package decide

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Ill implements View.
func (v view) Ill(ref model.GangRef, members int32) int64 {
	j := v.s.Find(ref.Job)
	if j == nil || !v.s.Cluster.Ailed() {
		return 0
	}
	var n int64
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None || int32(g) != ref.Gang && (ref.Gang != 0 || !j.Spec.Partial()) ||
			!j.Within(int32(g), members) ||
			v.s.Attempts[at].State == model.AttemptReserving || v.s.Attempts[at].Cause != 0 {
			continue
		}
		for _, t := range v.s.Cluster.Alloc(v.s.Attempts[at].Alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				if v.s.LeafBad(l) {
					n++
				}
			}
		}
	}
	return n
}

// setSize gives a job the size with which it starts.
func (s *Pass) setSize(w place.Want) {
	if n := w.Members(); w.J.Spec.Partial() && n != w.J.Size {
		s.emit(model.Sized{Job: w.J.ID, Size: n})
	}
}

// resizes reports whether a wish is for another size of a gang that runs.
func (s *Pass) resizes(gang model.GangRef, size int32) bool {
	a := s.AttemptOf(gang)
	return size == model.Pause || a != nil && !a.Lazy
}

// resize gives a job that runs another number of members: those above it are stopped,
// the last first, or more of them wait. Who got cells by this very decision is left alone
// until the next, which is asked for.
func (w *walker) resize(wish *model.Wish) {
	s := w.s
	a := s.AttemptOf(wish.Gang)
	if a == nil || a.Cause != 0 || a.Alive == 0 || a.Lazy {
		return
	}
	slot := a.Job
	if j := &s.Jobs[slot]; j.Quarantined || j.Stop || j.Completing != nil || !j.CanHave(wish.Gang.Gang, wish.Size) {
		return
	}
	if wish.Size == model.Pause {
		s.pause(a)
		return
	}
	if j := &s.Jobs[slot]; j.Size == wish.Size || s.youngAbove(j, wish.Size) {
		return
	} else if a.Since > s.InputsThrough || s.fresh(j, wish.Size) {
		s.LookAgain.By(s.Jobs[slot].Space)
		return
	}
	if wish.Beside {
		w.grow(slot, wish.Size)
		return
	}
	s.cutPromises(slot, wish.Size)
	s.emit(model.Sized{Job: wish.Gang.Job, Size: wish.Size})
	for g := int32(len(s.Jobs[slot].Gangs)) - 1; g > 0; g-- {
		j := &s.Jobs[slot]
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, wish.Size) {
			s.stopAttempt(&s.Attempts[at], model.EndResized, nil)
		}
	}
	s.LookAgain.By(s.Jobs[slot].Space) // members may wait now whose turn is over, and leaves be left
}

// pause stops a gang that can go on later where it was.
func (s *Pass) pause(a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	if a.State != model.AttemptStarting && a.State != model.AttemptRunning || !j.Spec.Hints.Checkpoint ||
		s.Shared(a) || s.Unsettled(a) {
		return
	}
	if s.LookAgain.By(j.Space); a.Since > s.InputsThrough || s.fresh(j, 0) {
		return
	}
	s.stopAttempt(a, model.EndResized, nil) // what it leaves can be promised now
}

// youngAbove reports whether a member above a size has not run for its VC's minimum yet.
func (s *Pass) youngAbove(j *tables.Job, size int32) bool {
	for g := int32(1); int(g) < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, size) && s.Attempts[at].Cause == 0 &&
			s.Attempts[at].State != model.AttemptReserving && s.Unsettled(&s.Attempts[at]) {
			return true
		}
	}
	return false
}

// fresh reports whether a member above a size got its cells by this very decision.
func (s *Pass) fresh(j *tables.Job, size int32) bool {
	for g := int32(1); j.Spec.Partial() && int(g) < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, size) && s.Attempts[at].Since > s.InputsThrough {
			return true
		}
	}
	return false
}

// cutPromises takes back what was promised to members above a size.
func (s *Pass) cutPromises(slot, size int32) {
	for g := int32(1); int(g) < len(s.Jobs[slot].Gangs); g++ {
		j := &s.Jobs[slot]
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, size) &&
			s.Attempts[at].State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: s.Attempts[at].ID, Reason: "its job gets a smaller size"})
		}
	}
}
