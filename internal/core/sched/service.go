package sched

import (
	"iter"

	"github.com/combsched/comb/internal/core/model"
)

// What the policies see of the gangs that hold cells: who runs in a VC, for how
// long, and the service that was attained (Tiresias, NSDI'19: GPUs times time).

// ranFor is how long an attempt has run by now: on shared leaves only its turns count.
func (s *tables) ranFor(a *attempt) model.Duration {
	switch {
	case a.started == 0:
		return 0
	case a.share == 0:
		return model.Duration(s.now - a.started)
	}
	return rare(a.odd).ran + s.ranSince(a, max(a.started, s.shares[a.share-1].since))
}

// ranSince returns how long an attempt ran from an instant on; before its present
// rotation it is taken to have run all the time.
func (s *tables) ranSince(a *attempt, from model.Time) model.Duration {
	if a.share == 0 {
		return model.Duration(s.now - from)
	}
	sh := &s.shares[a.share-1]
	before := model.Duration(max(sh.since-from, 0))
	return before + sh.rotation.Ran(a.id, max(from, sh.since), s.now)
}

// unsavedBy is how long an attempt has run since its last checkpoint or its start, in whole
// milliseconds, for plans: what a decision asks for is decided a microsecond later, which is no
// work.
func unsavedBy(s *tables, a *attempt) model.Duration {
	from := a.checkpoint
	if from == a.started {
		from = a.placed
	}
	d := s.ranSince(a, from)
	return d - d%model.Millisecond
}

// link puts an attempt, or a promise, into the list of its VC.
func (s *index) link(slot int32) {
	a := &s.attempts[slot]
	list := &s.holders[s.cl.Alloc(a.alloc).Space]
	a.at = int32(len(*list))
	*list = append(*list, slot)
}

// unlink takes it out again; the last one takes its place.
func (s *index) unlink(slot int32) {
	a := &s.attempts[slot]
	s.unrun(a)
	list := &s.holders[s.cl.Alloc(a.alloc).Space]
	last := len(*list) - 1
	moves := (*list)[last]
	(*list)[a.at] = moves
	s.attempts[moves].at = a.at
	*list = (*list)[:last]
}

// relink makes the lists anew, after the VCs changed.
func (s *index) relink() {
	s.holders = make([][]int32, s.cl.NumSpaces())
	s.running, s.allocs = make([]runners, s.cl.NumSpaces()), make([]allocations, s.cl.NumSpaces())
	for i := range s.attempts {
		s.attempts[i].standing = 0
		if s.attempts[i].job != none {
			s.link(int32(i))
		}
	}
}

// holding yields the attempts and promises of a VC, in an order that a restart may
// change: no decision may depend on it.
func (s *index) holding(space int32) iter.Seq[*attempt] {
	return func(yield func(*attempt) bool) {
		for _, i := range s.holders[space] {
			if !yield(&s.attempts[i]) {
				return
			}
		}
	}
}

// Running implements View: full gangs, for what stands above a minimum gives way
// before them whatever the policy says.
func (v view) Running() iter.Seq[GangView] { return v.holding(v.s.runs) }

// Leaving implements View.
func (v view) Leaving() iter.Seq[GangView] {
	return v.holding(func(a *attempt) bool {
		return !a.lazy && a.state == model.AttemptStopping && v.s.waitsAgain(a)
	})
}

// holding yields the gangs of some attempts that hold cells of the VC.
func (v view) holding(which func(*attempt) bool) iter.Seq[GangView] {
	return func(yield func(GangView) bool) {
		s := v.s
		for a := range s.holding(v.space) {
			if s.jobs[a.job].spec.Priority != v.prio || !which(a) {
				continue
			}
			if !yield(s.gangView(s.entry(a))) {
				return
			}
		}
	}
}

// gangView is what a policy sees of a gang.
func (s *index) gangView(e queued) GangView {
	j := &s.jobs[e.slot]
	g := &j.gangs[e.gang]
	v := GangView{Ref: GangRef{e.job, e.gang}, User: j.spec.User, Priority: e.prio, Submitted: j.submitted,
		Order: int64(e.job), Leaves: g.leaves, Members: g.shape.members, Shape: g.shape.text, Hints: &j.spec.Hints, Earlier: g.ran, Ran: g.ran, Since: j.submitted}
	v.Moved = g.odd != nil && g.odd.meant != nil
	v.Delayed, v.Choosy = !s.eligible(j, e.gang), j.spec.Restricted()
	if g.last != nil {
		v.Since = max(v.Since, g.last.Ended)
	}
	if len(s.cfg.Throughputs) > 0 {
		v.Speeds = model.Speeds(s.cfg.Throughputs, j.spec.Hints.Model)
	}
	if v.Gangs = int32(len(j.gangs)); e.gang == 0 && j.spec.Partial() {
		v.Sizes = s.sizesOf(j)
	}
	if n := j.noted(); n != nil {
		v.Note = n.Data
	}
	if tasks := j.spec.Gangs[e.gang].Tasks; len(tasks) > 0 {
		v.Progress = j.tasks[tasks[0]].progress
	}
	if g.attempt != none {
		a := &s.attempts[g.attempt]
		v.Started, v.Delayed = a.started, v.Delayed || a.lazy && (!s.steady(a) || a.orphaned && !s.partLeft(a))
		if a.started > 0 {
			v.Since = a.started
			v.Ran += s.ranFor(a)
		}
	}
	return v
}

// verifyHolders checks that the lists hold exactly the attempts and promises.
func (s *index) verifyHolders(add func(string, ...any)) {
	listed, all := 0, 0
	for space := range s.holders {
		for at, slot := range s.holders[space] {
			a := &s.attempts[slot]
			if listed++; a.job == none || s.cl.Alloc(a.alloc).Space != int32(space) || a.at != int32(at) {
				add("attempt %v is listed for space %d at %d, not at %d", a.id, space, at, a.at)
				return
			}
		}
	}
	for i := range s.attempts {
		if s.attempts[i].job != none {
			all++
		}
	}
	if listed != all {
		add("%d attempts are listed by VC, but there are %d", listed, all)
	}
}
