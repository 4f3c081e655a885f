package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Blaming is deferred around the decisions on one job. What happens while a policy's code
// runs is not the job's doing (Failing).
func (s *State) Blaming(id model.JobID) {
	p := recover()
	if p == nil {
		return
	}
	if _, known := p.(model.Blame); known || s.Calls.Space != 0 {
		panic(p)
	}
	panic(model.Blame{Job: id, Value: p})
}

const (
	refusalsCount = model.Hour
)

// Failing names the policy whose code ran when Apply, Decide, Wake or Actions panicked, and
// its VC; false where none did, or where the fallback did. The state is of no other use then.
func (s *State) Failing() (model.PolicyFailed, bool) {
	if s.Calls.Space <= 0 || s.Cluster == nil || s.Calls.Space >= s.Cluster.NumSpaces() {
		return model.PolicyFailed{}, false
	}
	vc := s.Cluster.Space(s.Calls.Space).Name
	e := model.PolicyFailed{VC: vc, Policy: s.PolicyOf(vc)}
	return e, s.Replaceable(e)
}

// Replaceable reports whether a VC is still served by the policy that failed, and the
// fallback would be something else.
func (s *State) Replaceable(e model.PolicyFailed) bool {
	if s.Space(e.VC) <= 0 {
		return false
	}
	c := s.Serving(e.VC)
	return cmp.Or(c.Policy, model.Fallback) == e.Policy && (e.Policy != model.Fallback || len(c.Params) > 0)
}

// Serving is the configuration by which a VC is served: its own, with the fallback where its
// policy failed.
func (s *State) Serving(vc cell.VCName) model.VCConfig {
	c := *model.OfVC(s.Config, vc)
	if _, failed := s.findFailed(vc); failed {
		c.Policy, c.Params = model.Fallback, nil
	}
	return c
}

func (s *State) findFailed(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.Failed, vc, func(e model.PolicyFailed,
		k cell.VCName) int {
		return cmp.Compare(e.VC, k)
	})
}

// applyPolicyFailed lets the fallback serve a VC. What follows from its policy is made anew,
// as after a configuration; what the policy remembered and the sizes that it gave are gone.
// Nothing of the old policy's code may run here.
func (s *State) applyPolicyFailed(e model.PolicyFailed) {
	i, found := s.findFailed(e.VC)
	space := s.Space(e.VC)
	if found || space <= 0 {
		return
	}
	s.Failed = slices.Insert(slices.Clone(s.Failed), i, e)
	s.Unmade = slices.DeleteFunc(slices.Clone(s.Unmade), func(u model.PolicyFailed) bool { return u.VC == e.VC })
	s.Policies = slices.Clone(s.Policies)
	s.Policies[space] = s.makePolicy(e.VC)
	s.Quanta = index.QuantaOf(s.Policies)
	s.forgetNotes()
	s.RelistAll()
	s.Relink()
	s.ResetDirty()
	for slot := range s.Jobs {
		if j := &s.Jobs[slot]; j.Spec != nil && j.Space == space && j.Spec.Partial() && j.Size != j.Spec.UsualSize() {
			s.applySized(model.Sized{Job: j.ID, Size: j.Spec.UsualSize()})
		}
	}
	for a := range s.Holding(space) {
		s.TimeMinRun(a)
	}
	s.DirtyAll()
	s.Again = s.Now + 1 // so that a restart looks, too
	s.SetTimer(s.Again, 0, 0)
}

// makePolicy makes the policy that serves a VC. One that was accepted by another program and
// cannot be made by this one is replaced by the fallback, which Unmade tells.
func (s *State) makePolicy(vc cell.VCName) model.Policy {
	c := s.Serving(vc)
	p, err := s.NewPolicy.Make(c)
	if err == nil {
		return p
	}
	s.Unmade = append(slices.Clone(s.Unmade), model.PolicyFailed{VC: vc, Policy: cmp.Or(c.Policy, model.Fallback),
		Why: err.Error()})
	c.Policy, c.Params = model.Fallback, nil
	if p, err = s.NewPolicy.Make(c); err != nil {
		panic(fmt.Sprintf("core: not even the fallback can be made: %v", err))
	}
	return p
}

// MaxAside is how often a job is set aside: each time less is decided on it, and in the end
// nothing.
const MaxAside = 3

// Aside returns the event that sets a job aside once more; false where there is no such job,
// or nothing is decided on it as it is.
func (s *State) Aside(id model.JobID, stack string) (model.Quarantined, bool) {
	j := s.Find(id)
	if j == nil {
		return model.Quarantined{}, false
	}
	e := model.Quarantined{Job: id, Stack: stack}
	if j.Quarantined {
		e.Times = tables.RareOf(j.Rare).Aside + 2
	}
	return e, e.Times <= MaxAside
}

// Given reports whether an attempt's number was given out: that of its job, and, while the job
// has not ended, its own. One that is only promised was not; of a job alone ask for attempt 0.
func (s *State) Given(a model.AttemptID) bool {
	if a.Job <= 0 || a.Job >= s.NextJob {
		return false
	}
	j := s.Find(a.Job)
	if j == nil || a.N == 0 {
		return true
	}
	return a.Gang >= 0 && int(a.Gang) < len(j.Gangs) && a.N <= j.Gangs[a.Gang].N
}

// Forgo returns what closes the gap that events First to Last of lost leave: it is applied behind
// the present state, record by record. Seen are attempts of which something was found; whatever
// they and NextJob say is taken, no number up to theirs is given again.
func (s *State) Forgo(lost model.Lost, seen []model.AttemptID) []model.Record {
	var events []model.Event
	lost.NextJob = max(lost.NextJob, s.NextJob)
	last := map[model.AttemptID]int32{} // by gang
	for _, a := range seen {
		lost.NextJob = max(lost.NextJob, a.Job+1)
		gang := model.AttemptID{Job: a.Job, Gang: a.Gang}
		if s.Find(a.Job) != nil && !s.Given(a) && a.N > last[gang] {
			last[gang] = a.N
		}
	}
	for _, id := range s.Slots.IDs() {
		for g := range s.Find(id).Gangs {
			gang := model.AttemptID{Job: id, Gang: int32(g)}
			if n := last[gang]; n > 0 {
				events = s.breakPromise(events, gang)
				lost.Attempts = append(lost.Attempts, model.AttemptID{Job: id, Gang: int32(g), N: n})
			}
		}
	}
	for lost.First > 0 && uint64(len(events)) < lost.Last-lost.First {
		events = append(events, model.Lost{First: lost.First, Last: lost.Last})
	}
	events = append(events, lost)
	records := make([]model.Record, len(events))
	for i, e := range events {
		records[i] = model.Record{Seq: s.Seq + 1 + uint64(i), Time: s.Now, Event: e}
	}
	return records
}

// breakPromise takes back the cells that are promised to a gang: the promise has the number of an
// attempt that was started.
func (s *State) breakPromise(events []model.Event, gang model.AttemptID) []model.Event {
	g := &s.Find(gang.Job).Gangs[gang.Gang]
	for _, at := range []int32{g.Attempt, g.Next} {
		if at != tables.None && s.Attempts[at].State == model.AttemptReserving {
			events = append(events, model.Unreserved{Attempt: s.Attempts[at].ID,
				Reason: "its start was lost with the end of the journal"})
		}
	}
	return events
}

func (s *State) applyLost(e model.Lost) {
	s.NextJob = max(s.NextJob, e.NextJob)
	for _, a := range e.Attempts {
		j := s.Find(a.Job)
		if j == nil || a.Gang < 0 || int(a.Gang) >= len(j.Gangs) {
			panic(fmt.Sprintf("core: %v, which was seen, is no attempt of a known gang", a))
		}
		j.Gangs[a.Gang].N = max(j.Gangs[a.Gang].N, a.N)
	}
}
