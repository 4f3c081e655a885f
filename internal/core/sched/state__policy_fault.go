package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// blaming is deferred around the decisions on one job. What happens while a policy's code
// runs is not the job's doing (Failing).
func (s *fold) blaming(id model.JobID) {
	p := recover()
	if p == nil {
		return
	}
	if _, known := p.(Blame); known || s.calls.space != 0 {
		panic(p)
	}
	panic(Blame{Job: id, Value: p})
}

const (
	refusalsCount = model.Hour
)

// Failing names the policy whose code ran when Apply, Decide, Wake or Actions panicked, and
// its VC; false where none did, or where the fallback did. The state is of no other use then.
func (s *fold) Failing() (PolicyFailed, bool) {
	if s.calls.space <= 0 || s.cl == nil || s.calls.space >= s.cl.NumSpaces() {
		return PolicyFailed{}, false
	}
	vc := s.cl.Space(s.calls.space).Name
	e := PolicyFailed{VC: vc, Policy: s.policyOf(vc)}
	return e, s.Replaceable(e)
}

// Replaceable reports whether a VC is still served by the policy that failed, and the
// fallback would be something else.
func (s *fold) Replaceable(e PolicyFailed) bool {
	if s.space(e.VC) <= 0 {
		return false
	}
	c := s.serving(e.VC)
	return cmp.Or(c.Policy, fallback) == e.Policy && (e.Policy != fallback || len(c.Params) > 0)
}

// serving is the configuration by which a VC is served: its own, with the fallback where its
// policy failed.
func (s *fold) serving(vc cell.VCName) model.VCConfig {
	c := *model.OfVC(s.cfg, vc)
	if _, failed := s.findFailed(vc); failed {
		c.Policy, c.Params = fallback, nil
	}
	return c
}

func (s *fold) findFailed(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.failed, vc, func(e PolicyFailed,
		k cell.VCName) int {
		return cmp.Compare(e.VC, k)
	})
}

// failedOf returns how the policy of a VC failed; nil where it did not.
func (s *fold) failedOf(vc cell.VCName) *PolicyFailed {
	for _, all := range [][]PolicyFailed{s.failed, s.unmade} {
		for _, e := range all {
			if e.VC == vc {
				return &e
			}
		}
	}
	return nil
}

// applyPolicyFailed lets the fallback serve a VC. What follows from its policy is made anew,
// as after a configuration; what the policy remembered and the sizes that it gave are gone.
// Nothing of the old policy's code may run here.
func (s *fold) applyPolicyFailed(e PolicyFailed) {
	i, found := s.findFailed(e.VC)
	space := s.space(e.VC)
	if found || space <= 0 {
		return
	}
	s.failed = slices.Insert(slices.Clone(s.failed), i, e)
	s.unmade = slices.DeleteFunc(slices.Clone(s.unmade), func(u PolicyFailed) bool { return u.VC == e.VC })
	s.pol = slices.Clone(s.pol)
	s.pol[space] = s.makePolicy(e.VC)
	s.quanta = quantaOf(s.pol)
	s.forgetNotes()
	s.relistAll()
	s.relink()
	s.resetLooks()
	for slot := range s.jobs {
		if j := &s.jobs[slot]; j.spec != nil && j.space == space && j.spec.Partial() && j.size != j.spec.UsualSize() {
			s.applySized(Sized{Job: j.id, Size: j.spec.UsualSize()})
		}
	}
	for a := range s.holding(space) {
		s.timeMinRun(a)
	}
	s.lookAll()
	s.again = s.now + 1 // so that a restart looks, too
	s.at(s.again, 0, 0)
}

// makePolicy makes the policy that serves a VC. One that was accepted by another program and
// cannot be made by this one is replaced by the fallback, which Unmade tells.
func (s *fold) makePolicy(vc cell.VCName) Policy {
	c := s.serving(vc)
	p, err := s.policies.Make(c)
	if err == nil {
		return p
	}
	s.unmade = append(slices.Clone(s.unmade), PolicyFailed{VC: vc, Policy: cmp.Or(c.Policy, fallback),
		Why: err.Error()})
	c.Policy, c.Params = fallback, nil
	if p, err = s.policies.Make(c); err != nil {
		panic(fmt.Sprintf("sched: not even the fallback can be made: %v", err))
	}
	return p
}

// maxAside is how often a job is set aside: each time less is decided on it, and in the end
// nothing.
const maxAside = 3

// Aside returns the event that sets a job aside once more; false where there is no such job,
// or nothing is decided on it as it is.
func (s *fold) Aside(id model.JobID, stack string) (Quarantined, bool) {
	j := s.find(id)
	if j == nil {
		return Quarantined{}, false
	}
	e := Quarantined{Job: id, Stack: stack}
	if j.quarantined {
		e.Times = rare(j.odd).aside + 2
	}
	return e, e.Times <= maxAside
}

// Given reports whether an attempt's number was given out: that of its job, and, while the job
// has not ended, its own. One that is only promised was not; of a job alone ask for attempt 0.
func (s *fold) Given(a model.AttemptID) bool {
	if a.Job <= 0 || a.Job >= s.nextJob {
		return false
	}
	j := s.find(a.Job)
	if j == nil || a.N == 0 {
		return true
	}
	return a.Gang >= 0 && int(a.Gang) < len(j.gangs) && a.N <= j.gangs[a.Gang].n
}

// Forgo returns what closes the gap that events First to Last of lost leave: it is applied behind
// the present state, record by record. Seen are attempts of which something was found; whatever
// they and NextJob say is taken, no number up to theirs is given again.
func (s *fold) Forgo(lost Lost, seen []model.AttemptID) []Record {
	var events []Event
	lost.NextJob = max(lost.NextJob, s.nextJob)
	last := map[model.AttemptID]int32{} // by gang
	for _, a := range seen {
		lost.NextJob = max(lost.NextJob, a.Job+1)
		gang := model.AttemptID{Job: a.Job, Gang: a.Gang}
		if s.find(a.Job) != nil && !s.Given(a) && a.N > last[gang] {
			last[gang] = a.N
		}
	}
	for _, j := range s.Statuses() {
		for g := range s.find(j.ID).gangs {
			gang := model.AttemptID{Job: j.ID, Gang: int32(g)}
			if n := last[gang]; n > 0 {
				events = s.breakPromise(events, gang)
				lost.Attempts = append(lost.Attempts, model.AttemptID{Job: j.ID, Gang: int32(g), N: n})
			}
		}
	}
	for lost.First > 0 && uint64(len(events)) < lost.Last-lost.First {
		events = append(events, Lost{First: lost.First, Last: lost.Last})
	}
	events = append(events, lost)
	records := make([]Record, len(events))
	for i, e := range events {
		records[i] = Record{Seq: s.seq + 1 + uint64(i), Time: s.now, Event: e}
	}
	return records
}

// breakPromise takes back the cells that are promised to a gang: the promise has the number of an
// attempt that was started.
func (s *fold) breakPromise(events []Event, gang model.AttemptID) []Event {
	g := &s.find(gang.Job).gangs[gang.Gang]
	for _, at := range []int32{g.attempt, g.next} {
		if at != none && s.attempts[at].state == model.AttemptReserving {
			events = append(events, Unreserved{Attempt: s.attempts[at].id, Reason: "its start was lost with the end of the journal"})
		}
	}
	return events
}

func (s *fold) applyLost(e Lost) {
	s.nextJob = max(s.nextJob, e.NextJob)
	for _, a := range e.Attempts {
		j := s.find(a.Job)
		if j == nil || a.Gang < 0 || int(a.Gang) >= len(j.gangs) {
			panic(fmt.Sprintf("sched: %v, which was seen, is no attempt of a known gang", a))
		}
		j.gangs[a.Gang].n = max(j.gangs[a.Gang].n, a.N)
	}
}
