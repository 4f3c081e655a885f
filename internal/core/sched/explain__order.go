package sched

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// ranking is the order in which the jobs of each VC are served, as of one
// moment: a cache that lists and explanations share.
type ranking struct {
	seq    uint64
	now    model.Time
	spaces [][]model.JobID
	at     map[model.JobID]int32 // place in its VC's order, from 1
	common *reasons              // what the reasons of a list share, as of a moment of its own
}

// order returns the waiting jobs of a VC in the order in which they are served:
// by priority, then by the VC's policy as it would ask now. Opportunistic jobs
// come last, as submitted.
func (s *explainer) order(space int32) []model.JobID {
	r := &s.ranks
	if r.seq != s.seq || r.now != s.now || len(r.spaces) != len(s.queues) {
		*r = ranking{seq: s.seq, now: s.now, common: r.common,
			spaces: make([][]model.JobID, len(s.queues)), at: map[model.JobID]int32{}}
	}
	if r.spaces[space] == nil && len(s.queues[space]) > 0 {
		for _, id := range s.rank(space) {
			if r.at[id] == 0 {
				r.spaces[space] = append(r.spaces[space], id)
				r.at[id] = int32(len(r.spaces[space]))
			}
		}
	}
	return r.spaces[space]
}

// position is a job's place among all jobs that wait in its VC, from 1: no two have the same. Those
// that wait for what others leave stand behind those that wait for what the VC is guaranteed.
func (s *explainer) position(j *job) (at, waiting int32) {
	order := s.order(s.space(j.spec.VC))
	if at = s.ranks.at[j.id]; at == 0 {
		return 0, 0
	}
	return at, int32(len(order))
}

// orderText says what the position of a job is, where it is not the order in which they start: what
// keeps it waiting holds up none behind it, or its policy has another order with time, or serves
// those behind what finds no room.
func orderText(s *index, j *job, e *Explanation) string {
	if e.Position == 0 || len(e.Gangs) == 0 {
		return ""
	}
	what := map[model.Code]string{BadHardware: "waits for hardware to return", Draining: "waits for devices that drain",
		HeldUnknown: "waits for news of lost tasks", OnHold: "is on hold", BackOff: "waits for its next try",
		HeldBack: "is kept back by its policy", NeverFits: "can never start", QuotaExceeded: "can never start"}[e.Gangs[0].Reason.Code]
	vc := s.vc(j.space)
	_, straight := s.pol[j.space].(Straight)
	switch {
	case e.Gangs[0].Reason.Code == UserLimit:
		return "jobs of other users may start first: this one waits for its user's limit"
	case what != "":
		return "jobs behind this one may start first: it " + what
	case e.Borrower:
		return "idle GPUs go first to the team that has borrowed least; a smaller job behind this one may start earlier"
	case books(vc):
		return fmt.Sprintf("in the order of %s; a job behind this one may start earlier where that does not delay it",
			cmp.Or(vc.Policy, fallback))
	case !straight:
		return fmt.Sprintf("in the order of %s, which changes with time; a smaller job behind this one may start earlier",
			cmp.Or(vc.Policy, fallback))
	}
	return ""
}

// InLine goes through the jobs that wait in a VC in the order in which they are served: those for
// what the VC is guaranteed, then those for what others leave.
func (s *explainer) InLine(vc cell.VCName) iter.Seq[model.JobID] {
	if s.cl == nil {
		return func(func(model.JobID) bool) {}
	}
	return slices.Values(s.order(s.space(vc)))
}
