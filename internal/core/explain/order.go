package explain

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/decide"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// ranking is the order in which the jobs of each VC are served, as of one
// moment: a cache that lists and explanations share.
type ranking struct {
	seq    uint64
	now    model.Time
	spaces [][]model.JobID
	at     map[model.JobID]int32 // place in its VC's order, from 1
	Common *reasons              // what the reasons of a list share, as of a moment of its own
}

// order returns the waiting jobs of a VC in the order in which they are served:
// by priority, then by the VC's policy as it would ask now. Opportunistic jobs
// come last, as submitted.
func (s *Explainer) order(space int32) []model.JobID {
	r := &s.Ranks
	if r.seq != s.Seq || r.now != s.Now || len(r.spaces) != len(s.Queues) {
		*r = ranking{seq: s.Seq, now: s.Now, Common: r.Common,
			spaces: make([][]model.JobID, len(s.Queues)), at: map[model.JobID]int32{}}
	}
	if r.spaces[space] == nil && len(s.Queues[space]) > 0 {
		for _, id := range s.Rank(space) {
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
func (s *Explainer) position(j *tables.Job) (at, waiting int32) {
	order := s.order(s.Space(j.Spec.VC))
	if at = s.Ranks.at[j.ID]; at == 0 {
		return 0, 0
	}
	return at, int32(len(order))
}

// orderText says what the position of a job is, where it is not the order in which they start: what
// keeps it waiting holds up none behind it, or its policy has another order with time, or serves
// those behind what finds no room.
func orderText(s *index.Index, j *tables.Job, e *model.Explanation) string {
	if e.Position == 0 || len(e.Gangs) == 0 {
		return ""
	}
	what := map[model.Code]string{model.BadHardware: "waits for hardware to return",
		model.Draining:    "waits for devices that drain",
		model.HeldUnknown: "waits for news of lost tasks", model.OnHold: "is on hold", model.BackOff: "waits for its next try",
		model.HeldBack: "is kept back by its policy", model.NeverFits: "can never start", model.QuotaExceeded: "can never start"}[e.Gangs[0].Reason.Code]
	vc := s.VC(j.Space)
	_, straight := s.Policies[j.Space].(model.Straight)
	switch {
	case e.Gangs[0].Reason.Code == model.UserLimit:
		return "jobs of other users may start first: this one waits for its user's limit"
	case what != "":
		return "jobs behind this one may start first: it " + what
	case e.Borrower:
		return "idle GPUs go first to the team that has borrowed least; a smaller job behind this one may start earlier"
	case decide.Books(vc):
		return fmt.Sprintf("in the order of %s; a job behind this one may start earlier where that does not delay it",
			cmp.Or(vc.Policy, model.Fallback))
	case !straight:
		return fmt.Sprintf("in the order of %s, which changes with time; a smaller job behind this one may start earlier",
			cmp.Or(vc.Policy, model.Fallback))
	}
	return ""
}

// InLine goes through the jobs that wait in a VC in the order in which they are served: those for
// what the VC is guaranteed, then those for what others leave.
func (s *Explainer) InLine(vc cell.VCName) iter.Seq[model.JobID] {
	if s.Cluster == nil {
		return func(func(model.JobID) bool) {}
	}
	return slices.Values(s.order(s.Space(vc)))
}
