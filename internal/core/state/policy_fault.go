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

// BlameJob is deferred around the decisions on one job: it names the job in a panic. A panic in a
// policy's code is not blamed on the job (Failing).
func (s *State) BlameJob(id model.JobID) {
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

// Failing names the policy that ran when Apply, Decide, Wake or Actions panicked, and its VC. It
// is false if no policy ran, or the fallback did. Nothing else may be asked of the state then.
func (s *State) Failing() (model.PolicyFailed, bool) {
	if s.Calls.Space <= 0 || s.Cluster == nil || s.Calls.Space >= s.Cluster.NumSpaces() {
		return model.PolicyFailed{}, false
	}
	vc := s.Cluster.Space(s.Calls.Space).Name
	e := model.PolicyFailed{VC: vc, Policy: s.PolicyOf(vc)}
	return e, s.Replaceable(e)
}

// Replaceable reports whether a VC is still served by the policy that failed, and the fallback
// would be something else.
func (s *State) Replaceable(e model.PolicyFailed) bool {
	if s.Space(e.VC) <= 0 {
		return false
	}
	c := s.ServingConfig(e.VC)
	return cmp.Or(c.Policy, model.Fallback) == e.Policy && (e.Policy != model.Fallback || len(c.Params) > 0)
}

// ServingConfig is the configuration by which a VC is served: its own, with the fallback policy if
// its policy failed.
func (s *State) ServingConfig(vc cell.VCName) model.VCConfig {
	c := *model.ConfigOfVC(s.Config, vc)
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

// applyPolicyFailed lets the fallback serve a VC. What follows from the policy is built anew, as
// after a configuration; what the policy remembered and the sizes that it gave are lost. Nothing
// of the failed policy's code may run here.
func (s *State) applyPolicyFailed(e model.PolicyFailed) {
	i, found := s.findFailed(e.VC)
	space := s.Space(e.VC)
	if found || space <= 0 {
		return
	}
	s.Failed = slices.Insert(slices.Clone(s.Failed), i, e)
	s.FailedToMake = slices.DeleteFunc(slices.Clone(s.FailedToMake),
		func(u model.PolicyFailed) bool { return u.VC == e.VC })
	s.Policies = slices.Clone(s.Policies)
	s.Policies[space] = s.makePolicy(e.VC)
	s.Quanta = index.QuantaOf(s.Policies)
	s.forgetNotes()
	s.RegroupAll()
	s.Relink()
	s.ResetDirty()
	for slot := range s.Jobs {
		if j := &s.Jobs[slot]; j.Spec != nil && j.Space == space && j.Spec.Partial() && j.Size != j.Spec.UsualSize() {
			s.applySized(model.Sized{Job: j.ID, Size: j.Spec.UsualSize()})
		}
	}
	for a := range s.AttemptsIn(space) {
		s.TimeMinRun(a)
	}
	s.DirtyAll()
	s.Again = s.Now + 1 // so that a restarted core decides, too
	s.SetTimer(s.Again, 0, 0)
}

// makePolicy makes the policy that serves a VC. If another program accepted it and this one cannot
// make it, the fallback serves the VC, and FailedToMake says so.
func (s *State) makePolicy(vc cell.VCName) model.Policy {
	c := s.ServingConfig(vc)
	p, err := s.NewPolicy.Make(c)
	if err == nil {
		return p
	}
	s.FailedToMake = append(slices.Clone(s.FailedToMake), model.PolicyFailed{VC: vc,
		Policy: cmp.Or(c.Policy, model.Fallback),
		Why:    err.Error()})
	c.Policy, c.Params = model.Fallback, nil
	if p, err = s.NewPolicy.Make(c); err != nil {
		panic(fmt.Sprintf("core: not even the fallback can be made: %v", err))
	}
	return p
}

// MaxAside is how often a job is set aside: each time less is decided on it, in the end nothing.
const MaxAside = 3

// Aside returns the event that sets a job aside once more. It is false if there is no such job, or
// it was set aside as often as may be.
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

// NumberGiven reports whether an attempt's number was given out: its job's, and while the job has
// not ended its own. The number of a mere reservation was not. For a job alone ask with N 0.
func (s *State) NumberGiven(a model.AttemptID) bool {
	if a.Job <= 0 || a.Job >= s.NextJob {
		return false
	}
	j := s.Find(a.Job)
	if j == nil || a.N == 0 {
		return true
	}
	return a.Gang >= 0 && int(a.Gang) < len(j.Gangs) && a.N <= j.Gangs[a.Gang].N
}

// CloseGap returns the records that close the gap of lost events, lost.First to lost.Last; they are
// applied to the present state. seen are attempts of which traces were found. No job or attempt
// number up to theirs, or up to lost.NextJob, is given out again.
func (s *State) CloseGap(lost model.Lost, seen []model.AttemptID) []model.Record {
	var events []model.Event
	lost.NextJob = max(lost.NextJob, s.NextJob)
	last := map[model.AttemptID]int32{} // by gang
	for _, a := range seen {
		lost.NextJob = max(lost.NextJob, a.Job+1)
		gang := model.AttemptID{Job: a.Job, Gang: a.Gang}
		if s.Find(a.Job) != nil && !s.NumberGiven(a) && a.N > last[gang] {
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

// breakPromise adds events that take back the cells promised to a gang: the promise has the number
// of an attempt that was started.
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
