package sched

import (
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A partial gang is gang 0, the minimum, and members above it, each a gang of its own (Gang.Extra).
// A member above the minimum waits in the queue only while the minimum runs, is placed when all
// full gangs of its priority had their chance, makes nobody leave but opportunistic work, is the
// first to be preempted, and ends with its minimum.

// extra reports whether a queued gang is a member above a minimum; the first gang of a job never
// is.
func (s *index) extra(e queued) bool {
	return e.gang > 0 && s.jobs[e.slot].spec.Gangs[e.gang].Extra
}

// minimumLives reports whether a job's minimum has an attempt that is not
// stopping: then the members above it may wait, run and be placed.
func (s *index) minimumLives(j *job) bool {
	at := j.gangs[0].attempt
	return at != none && s.attempts[at].state != model.AttemptReserving && s.attempts[at].cause == 0 && s.attempts[at].alive > 0
}

// isExtra reports whether an attempt is one of a member above a minimum.
func (s *index) isExtra(a *attempt) bool {
	return s.partials > 0 && s.jobs[a.job].spec.Gangs[a.id.Gang].Extra
}

// steady reports whether an attempt, with all that share its leaves, starts or runs and was not
// told to stop.
func (s *index) steady(a *attempt) bool {
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		if m := &s.attempts[at]; m.state != model.AttemptStarting && m.state != model.AttemptRunning {
			return false
		}
	}
	return true
}

// startedOtherwise reports whether the devices of an attempt had other SKUs, or were divided
// otherwise, when it was started. Nobody may join it. Whoever did would start on what stands
// for them now, go where it goes with the next configuration, and that may be less; and
// whoever takes turns looks for the other's locks under the names that itself knows.
func (s *index) startedOtherwise(a *attempt) bool {
	kept := rare(a.odd).origins
	j := &s.jobs[a.job]
	for k, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := j.tasks[o].place
		if t.SKU != s.cl.Alloc(a.alloc).Placement.Tasks[k].SKU || kept != nil && !s.cl.Divides(&cell.Started{Task: *t, Origin: kept[k]}) {
			return true
		}
	}
	return false
}

// What the policies see of the gangs that hold cells: who runs in a VC, for how
// long, and the service that was attained (Tiresias, NSDI'19: GPUs times time).

// ranFor is how long an attempt has run by now: on shared leaves only its turns count.
func (s *index) ranFor(a *attempt) model.Duration {
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
func (s *index) ranSince(a *attempt, from model.Time) model.Duration {
	if a.share == 0 {
		return model.Duration(s.now - from)
	}
	sh := &s.shares[a.share-1]
	before := model.Duration(max(sh.since-from, 0))
	return before + sh.rotation.Ran(a.id, max(from, sh.since), s.now)
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

// gangView is what a policy sees of a gang.
func (s *index) gangView(e queued) GangView {
	j := &s.jobs[e.slot]
	g := &j.gangs[e.gang]
	v := GangView{Ref: GangRef{Job: e.job, Gang: e.gang}, User: j.spec.User, Priority: e.prio, Submitted: j.submitted,
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

// shared reports whether an attempt is not alone on its leaves.
func (s *index) shared(a *attempt) bool { return a.joined || a.mate != none }

// first returns the slot of the first member of an attempt's allocation.
func (s *index) first(a *attempt) int32 { return s.byAlloc[a.alloc] }

// stays returns the first member of an attempt's allocation that was not told to
// stop; nil when all were.
func (s *index) stays(a *attempt) *attempt {
	if !s.shared(a) {
		if a.cause == 0 {
			return a
		}
		return nil
	}
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		if s.attempts[at].cause == 0 {
			return &s.attempts[at]
		}
	}
	return nil
}

// reaches is when an attempt will have run for so long, if the turns stay as they
// are; an attempt that does not run yet begins now.
func (s *index) reaches(a *attempt, d model.Duration) model.Time {
	from := a.started
	if from == 0 {
		from = s.now
	}
	if a.share == 0 {
		return from.Add(d)
	}
	sh := &s.shares[a.share-1]
	if d <= rare(a.odd).ran {
		return min(from.Add(d), s.now)
	}
	return sh.rotation.After(a.id, max(from, sh.since), d-rare(a.odd).ran)
}

// sizesOf is what a policy sees of the sizes of a partial job.
func (s *index) sizesOf(j *job) model.Sizes {
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

// deviceMemory is the memory of the smallest device of an allocation, in MiB; 0 when
// that is not known of all.
func (s *index) deviceMemory(a *attempt) int64 {
	var least int64
	for i, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
		n := s.cl.SKU(t.SKU).GPUMemoryMB
		if i == 0 || n < least {
			least = n
		}
	}
	return least
}

// entry is an attempt's gang as it would stand in the queue.
func (s *index) entry(a *attempt) queued {
	return queued{prio: s.jobs[a.job].spec.Priority, job: a.id.Job, gang: a.id.Gang, slot: a.job}
}

// below returns where the gangs of a priority below p begin.
func below(q []queued, p cell.Priority) int {
	if len(q) == 0 || q[0].prio < p {
		return 0
	}
	i, _ := slices.BinarySearchFunc(q, p, func(e queued, p cell.Priority) int {
		if e.prio >= p {
			return -1
		}
		return 1
	})
	return i
}

// partLeft reports whether an attempt that lost leaves has some that are what they were.
func (s *index) partLeft(a *attempt) bool {
	some := slices.ContainsFunc(s.cl.Alloc(a.alloc).Placement.Tasks,
		func(t cell.Task) bool { return len(t.Leaves) > 0 })
	return some && !s.startedOtherwise(a)
}

// eligible reports whether a gang may be placed at all now.
func (s *index) eligible(j *job, g int32) bool {
	return !j.quarantined && rare(j.odd).after <= s.now && j.gangs[g].after <= s.now && !s.overLimit(j, g)
}
