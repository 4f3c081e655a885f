package explain

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
	"github.com/combsched/comb/internal/core/timeline"
)

// order returns the waiting jobs of a VC in run order: by priority, then by the VC's
// policy as of now. Opportunistic jobs come last, as submitted.
func (s *Explainer) order(space int32) []model.JobID {
	r := &s.Orders
	if r.seq != s.Seq || r.now != s.Now || len(r.spaces) != len(s.Queues) {
		*r = ranking{seq: s.Seq, now: s.Now, Reasons: r.Reasons,
			spaces: make([][]model.JobID, len(s.Queues)), position: map[model.JobID]int32{}}
	}
	if r.spaces[space] == nil && len(s.Queues[space]) > 0 {
		for _, id := range s.rank(space) {
			if r.position[id] == 0 {
				r.spaces[space] = append(r.spaces[space], id)
				r.position[id] = int32(len(r.spaces[space]))
			}
		}
	}
	return r.spaces[space]
}

// position is a job's place in the run order of its VC, from 1, and how many jobs wait there. Both
// are 0 if the job has no place. Opportunistic jobs come after guaranteed ones.
func (s *Explainer) position(j *tables.Job) (at, waiting int32) {
	order := s.order(s.Space(j.Spec.VC))
	if at = s.Orders.position[j.ID]; at == 0 {
		return 0, 0
	}
	return at, int32(len(order))
}

// orderText says what the position of a job means, if jobs behind it may start first: what it waits
// for holds up no others, or the order changes with time, or others fit where it does not. Else it
// is "".
func orderText(s *index.Index, j *tables.Job, e *model.Explanation) string {
	if e.Position == 0 || len(e.Gangs) == 0 {
		return ""
	}
	what := map[model.Code]string{model.BadHardware: "waits for hardware to return",
		model.HeldByOthers: "waits for devices that others hold", model.Cordoned: "waits for cordoned nodes",
		model.Draining:    "waits for devices that drain",
		model.HeldUnknown: "waits for news of lost tasks", model.OnHold: "is on hold", model.BackOff: "waits for its next try",
		model.HeldBack: "is kept back by its policy", model.NeverFits: "can never start", model.QuotaExceeded: "can never start"}[e.Gangs[0].Reason.Code]
	vc := s.VC(j.Space)
	_, straight := s.Policies[j.Space].(model.StrictFIFO)
	switch {
	case e.Gangs[0].Reason.Code == model.UserLimit:
		return "jobs of other users may start first: this one waits for its user's limit"
	case what != "":
		return "jobs behind this one may start first: it " + what
	case e.Borrower:
		return "idle GPUs go first to the team that has borrowed least; a smaller job behind this one may start earlier"
	case timeline.Books(vc):
		return fmt.Sprintf("in the order of %s; a job behind this one may start earlier where that does not delay it",
			cmp.Or(vc.Policy, model.Fallback))
	case !straight:
		return fmt.Sprintf("in the order of %s, which changes with time; a smaller job behind this one may start earlier",
			cmp.Or(vc.Policy, model.Fallback))
	}
	return ""
}

// WaitingJobs yields the waiting jobs of a VC in run order: guaranteed ones, then opportunistic
// ones.
func (s *Explainer) WaitingJobs(vc cell.VCName) iter.Seq[model.JobID] {
	if s.Cluster == nil {
		return func(func(model.JobID) bool) {}
	}
	return slices.Values(s.order(s.Space(vc)))
}

// rank lists the jobs of a VC's waiting gangs, best first. A job appears once for each of its
// gangs, or more often. In each priority gangs that are promised cells come first, and gangs that
// the policy does not wish for now come last.
func (s *Explainer) rank(space int32) []model.JobID {
	var out []model.JobID
	prio := cell.MaxGuaranteed + 1
	for space > 0 { // no policy serves jobs whose VC is gone
		next, ok := s.NextPriority(space, prio)
		if !ok || next < cell.MinGuaranteed {
			break
		}
		prio = next
		q := s.Queues[space]
		q = q[index.Below(q, prio+1):index.Below(q, prio)]
		for _, e := range q {
			if s.Jobs[e.Slot].Gangs[e.Gang].Attempt != tables.None && !s.Extra(e) {
				out = append(out, e.Job)
			}
		}
		for wish := range s.Policies[space].Rank(s.ViewAll(space, prio)) {
			if j := s.Find(wish.Gang.Job); j != nil && j.Gangs[wish.Gang.Gang].Waiting { // not an upgrade
				out = append(out, wish.Gang.Job)
			}
		}
		out = s.appendJobs(out, q)
	}
	return s.appendJobs(out, s.Queues[space])
}

// appendJobs adds the jobs of queued gangs to a list. Members above a minimum are left out, since
// their jobs run.
func (s *Explainer) appendJobs(list []model.JobID, q []index.Queued) []model.JobID {
	for _, e := range q {
		if !s.Extra(e) {
			list = append(list, e.Job)
		}
	}
	return list
}

// movesText says how many gangs of a VC may still be relocated in this hour; "" without
// defragmentation.
func (s *Explainer) movesText(name cell.VCName) string {
	vc := model.ConfigOfVC(s.Config, name)
	if vc.Moves == 0 {
		return ""
	}
	left := max(int(vc.Moves)-len(s.MovesOf(name, s.Now)), 0)
	return fmt.Sprintf("; %d of %d moves of this hour are left, but no movable job makes room", left, vc.Moves)
}

// bookedBefore returns the jobs whose bookings a gang must not delay, also jobs that
// are not ahead of it: they were booked before it began to wait. Its own job is one of
// them if another gang of the job is booked.
func (s *Explainer) bookedBefore(j *tables.Job, g int32) []model.JobID {
	var out []model.JobID
	for _, ref := range s.Booked {
		o := s.Find(ref.Job)
		if ref != (model.GangRef{Job: j.ID, Gang: g}) && o.Spec.VC == j.Spec.VC &&
			o.Spec.Priority >= j.Spec.Priority && !slices.Contains(out, o.ID) {
			out = append(out, o.ID)
		}
	}
	return out
}

// Steps is how many search steps the decisions and checks of this state have taken so far. It is
// the same on every machine, and 0 for a new copy.
func (s *Explainer) Steps() (n int64) {
	for _, c := range []*cell.Cluster{s.Cluster, s.Empty} {
		if c != nil {
			n += c.Work().Taken()
		}
	}
	return n
}
