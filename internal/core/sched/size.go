package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// How many members an elastic job has. Its gangs are those of a partial gang: gang 0 is
// the least that it can do with, and each member above that is a gang of its own. The
// size says how many there may be: the first so many. Those above it do not wait, so
// nothing else in the core asks for a size. A policy gives it with a start or later
// (Wish.Size), one event names it, and it stays until the next.

// Pause as Wish.Size stops a gang that runs, with the members above its minimum: it
// waits again, and starts when a wish asks for that.
const Pause = -1

// sizesOf is what a policy sees of the sizes of a partial job.
func (s *tables) sizesOf(j *job) model.Sizes {
	z := j.spec.Sizes()
	z.Now = j.size
	for i := range j.gangs {
		at := j.gangs[i].attempt
		if i > 0 {
			z.Each = max(z.Each, j.gangs[i].leaves)
		}
		if at == none || s.attempts[at].cause != 0 {
			continue
		}
		n, promised := int32(1), s.attempts[at].state == model.AttemptReserving
		if i == 0 {
			n = z.Least
		}
		if !promised {
			z.Runs += n
		}
		if !promised || i > 0 {
			z.Live += n
		}
	}
	return z
}

// Ill implements View.
func (v view) Ill(ref GangRef, members int32) int64 {
	j := v.s.find(ref.Job)
	if j == nil || !v.s.cl.Ailed() {
		return 0
	}
	var n int64
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || int32(g) != ref.Gang && (ref.Gang != 0 || !j.spec.Partial()) || !j.within(int32(g), members) ||
			v.s.attempts[at].state == model.AttemptReserving || v.s.attempts[at].cause != 0 {
			continue
		}
		for _, t := range v.s.cl.Alloc(v.s.attempts[at].alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				if v.s.leafBad(l) {
					n++
				}
			}
		}
	}
	return n
}

// within reports whether a gang is one of the first so many members of its job.
func (j *job) within(g int32, size int32) bool {
	gang := &j.spec.Gangs[g]
	return !gang.Extra || int32(len(j.spec.Gangs[0].Tasks))+g <= size
}

// canHave reports whether a size makes sense for a gang.
func (j *job) canHave(g, size int32) bool {
	if size == Pause {
		return true
	}
	if g != 0 || !j.spec.Partial() {
		return false
	}
	z := j.spec.Sizes()
	return z.Least <= size && size <= z.Most
}

// members is how many members the job gets when its gang starts.
func (w *want) members() int32 {
	if w.size > 0 {
		return w.size
	}
	return w.j.spec.UsualSize()
}

// setSize gives a job the size with which it starts.
func (s *pass) setSize(w want) {
	if n := w.members(); w.j.spec.Partial() && n != w.j.size {
		s.emit(Sized{Job: w.j.id, Size: n})
	}
}

// applySized lets the members within the size wait, if their minimum runs, and no
// others.
func (s *index) applySized(e Sized) {
	slot := s.slots.Of(e.Job)
	j := &s.jobs[slot]
	j.size = e.Size
	for g := int32(1); int(g) < len(j.gangs); g++ {
		gg := &j.gangs[g]
		switch in := j.within(g, j.size); {
		case gg.waiting && !in:
			s.dequeue(slot, g)
		case in && !gg.waiting && !gg.done && gg.attempt == none:
			s.enqueue(slot, g)
		}
	}
	s.stir(j.space)
}

// resizes reports whether a wish is for another size of a gang that runs.
func (s *tables) resizes(gang GangRef, size int32) bool {
	a := s.attemptOf(gang)
	return size == Pause || a != nil && !a.lazy
}

// resize gives a job that runs another number of members: those above it are stopped,
// the last first, or more of them wait. Who got cells by this very decision is left alone
// until the next, which is asked for.
func (w *walker) resize(wish *Wish) {
	s := w.s
	a := s.attemptOf(wish.Gang)
	if a == nil || a.cause != 0 || a.alive == 0 || a.lazy {
		return
	}
	slot := a.job
	if j := &s.jobs[slot]; j.quarantined || j.stop || j.completing != nil || !j.canHave(wish.Gang.Gang, wish.Size) {
		return
	}
	if wish.Size == Pause {
		s.pause(a)
		return
	}
	if j := &s.jobs[slot]; j.size == wish.Size || s.youngAbove(j, wish.Size) {
		return
	} else if a.since > s.through || s.fresh(j, wish.Size) {
		s.grew.by(s.jobs[slot].space)
		return
	}
	if wish.Beside {
		w.grow(slot, wish.Size)
		return
	}
	s.cutPromises(slot, wish.Size)
	s.emit(Sized{Job: wish.Gang.Job, Size: wish.Size})
	for g := int32(len(s.jobs[slot].gangs)) - 1; g > 0; g-- {
		j := &s.jobs[slot]
		if at := j.gangs[g].attempt; at != none && !j.within(g, wish.Size) {
			s.stopAttempt(&s.attempts[at], model.EndResized, nil)
		}
	}
	s.grew.by(s.jobs[slot].space) // members may wait now whose turn is over, and leaves be left
}

// pause stops a gang that can go on later where it was.
func (s *pass) pause(a *attempt) {
	j := &s.jobs[a.job]
	if a.state != model.AttemptStarting && a.state != model.AttemptRunning || !j.spec.Hints.Checkpoint || s.shared(a) || s.unsettled(a) {
		return
	}
	if s.grew.by(j.space); a.since > s.through || s.fresh(j, 0) {
		return
	}
	s.stopAttempt(a, model.EndResized, nil) // what it leaves can be promised now
}

// youngAbove reports whether a member above a size has not run for its VC's minimum yet.
func (s *tables) youngAbove(j *job, size int32) bool {
	for g := int32(1); int(g) < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && !j.within(g, size) && s.attempts[at].cause == 0 && s.attempts[at].state != model.AttemptReserving && s.unsettled(&s.attempts[at]) {
			return true
		}
	}
	return false
}

// fresh reports whether a member above a size got its cells by this very decision.
func (s *finder) fresh(j *job, size int32) bool {
	for g := int32(1); j.spec.Partial() && int(g) < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && !j.within(g, size) && s.attempts[at].since > s.through {
			return true
		}
	}
	return false
}

// cutPromises takes back what was promised to members above a size.
func (s *pass) cutPromises(slot, size int32) {
	for g := int32(1); int(g) < len(s.jobs[slot].gangs); g++ {
		j := &s.jobs[slot]
		if at := j.gangs[g].attempt; at != none && !j.within(g, size) &&
			s.attempts[at].state == model.AttemptReserving {
			s.emit(Unreserved{Attempt: s.attempts[at].id, Reason: "its job gets a smaller size"})
		}
	}
}

// forgetSizes gives the jobs of VCs that have another policy now the size that they
// begin with.
func (s *fold) forgetSizes(was *model.Config, renamed []model.Rename) {
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.spec == nil || !j.spec.Partial() || j.size == j.spec.UsualSize() {
			continue
		}
		name := j.spec.VC
		if i := slices.IndexFunc(renamed, func(r model.Rename) bool { return r.To == name }); i >= 0 {
			name = renamed[i].From
		}
		if cmp.Or(model.OfVC(was, name).Policy, "fifo") != s.policyOf(j.spec.VC) {
			s.applySized(Sized{Job: j.id, Size: j.spec.UsualSize()})
		}
	}
}
