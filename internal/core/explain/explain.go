package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// detailsMost bounds how many gangs of one job are explained in full: those of
// one shape wait for the same.
const detailsMost = 4

// Explain says all about why a job waits: Why, for each shape of its gangs the
// cells of every level and the changes that would let it start, which jobs are
// ahead of it, and which hold cells that it could use. It decides on copies,
// which takes long, so it must not be called in the scheduling loop.
func (s *Explainer) Explain(id model.JobID) (model.Explanation, bool) {
	t, ok := ExplainAll(s, id)
	if !ok {
		return t.Explanation, false
	}
	e := &t.Explanation
	for i := range e.Gangs {
		e.Gangs[i].Reason = shortReason(s, e.Gangs[i].Reason)
	}
	var ahead []model.JobID
	ahead, e.AheadMore = firstNamed(s, t.Ahead)
	for _, id := range ahead {
		e.Ahead = append(e.Ahead, s.Brief(s.Find(id)))
	}
	e.Blockers = briefs(&s.Status, t.Blockers)
	if e.BlockersMore = len(e.Blockers) - maxNamed; e.BlockersMore > 0 {
		e.Blockers = slices.Clone(e.Blockers[:maxNamed])
	}
	e.BlockersMore = max(e.BlockersMore, 0)
	return *e, true
}

// explained is an explanation that names all jobs and nodes, and not only maxNamed.
type explained struct {
	model.Explanation
	Ahead, Blockers []model.JobID
}

// ExplainAll is Explain with all jobs and nodes that reasons know of.
func ExplainAll(s *Explainer, id model.JobID) (e explained, ok bool) {
	s.NameAll = true
	defer func() { s.NameAll = false }()
	if e.Explanation, ok = s.Why(id); !ok {
		return e, false
	}
	j := s.Find(id)
	// if no gang waits, no job is ahead
	if slices.ContainsFunc(j.Gangs, func(g tables.Gang) bool { return g.Waiting }) {
		e.Ahead = aheadOf(s, j)
	}
	var shapes, besides, plain []string
	var first []int // of each shape
	for i := range e.Gangs {
		r := &e.Gangs[i]
		gg := &j.Gangs[r.Gang]
		r.ReservedAt, r.Bound = s.checkedBookedStart(j, r.Gang)
		if n := slices.Index(shapes, gg.Shape.Text); n >= 0 {
			if addBesides(&r.Reason, besides[n]); r.Reason.Message == plain[n] {
				r.Reason = e.Gangs[first[n]].Reason
			}
			continue
		}
		if len(shapes) == detailsMost {
			r.Untried = true
			continue
		}
		why, _ := s.whyHeldBack(j, r.Gang)
		if why == "" {
			why = s.whyUnshared(j, r.Gang)
		}
		if why == "" {
			why, _ = s.whyProtected(j, r.Gang)
		}
		shapes, besides = append(shapes, gg.Shape.Text), append(besides, why)
		addBesides(&r.Reason, why)
		plain, first = append(plain, r.Reason.Message), append(first, i)
		blockers := s.detail(j, r, e.Ahead)
		if len(e.Blockers) == 0 { // the gangs of one job wait for about the same
			e.Blockers = blockers
		}
	}
	e.Order = orderText(&s.Index, j, &e.Explanation)
	return e, true
}

// detail fills the parts of a gang's reason that only a full explanation has: levels, bounds of the
// search and suggestions. It returns the running jobs that are in the gang's way.
func (s *Explainer) detail(j *tables.Job, r *model.GangReason, ahead []model.JobID) []model.JobID {
	r.Levels = s.levels(j, int(r.Gang))
	if b := s.cutShort(j, r.Gang); b != 0 {
		r.Cut = fmt.Sprintf("not every placement was tried: the search ends after %s", b)
	}
	one, t := newSuggester(s, j, r.Gang), newSuggester(s, j, r.Gang)
	one.jobsLeft, one.stepsLeft = copiedMost/2, suggestSteps/2
	alone := one.sufficingAlone(&r.Reason, ahead)
	// Both together have the budget of one gang.
	t.jobsLeft, t.stepsLeft = copiedMost/2+max(one.jobsLeft, 0), suggestSteps/2+max(one.stepsLeft, 0)
	t.completeReason(&r.Reason, ahead, alone)
	r.Suggestions, r.Untried = t.suggest(r.Reason.Code)
	return union(inTheWay(s, j, int(r.Gang), &r.Reason), alone)
}

// cutShort returns which bounds cut a search for a gang's cells that found nothing: the search
// among free cells, the one among cells that it may preempt, or all that a decision tries.
func (s *Explainer) cutShort(j *tables.Job, g int32) (hit cell.Bounds) {
	if j.Gangs[g].Attempt != tables.None {
		return 0
	}
	had, was := s.Cluster.Budget(), s.Charges
	if _, ok := s.Plan(place.Want{J: j, G: g}); !ok && s.Cluster.Work().Over() {
		hit = cell.OutOfSteps
	}
	s.Charges = was
	s.Cluster.EndBudget(had)
	q := s.Request(place.Want{J: j, G: g})
	if res, ok := s.Cluster.Place(&q); !ok {
		hit |= res.Bounds
	}
	if j.Spec.Priority < cell.MinGuaranteed || j.Spec.Gangs[g].Extra {
		return hit
	}
	q = s.Preempting(q, j.Spec.Priority)
	if res, ok := s.Cluster.Place(&q); !ok && res.Bounded {
		hit |= res.Bounds
	}
	return hit
}

// briefs describes the jobs in a job's way, the first to end first.
func briefs(s *status.Status, ids []model.JobID) []model.JobBrief {
	var out []model.JobBrief
	for _, id := range ids {
		out = append(out, s.Brief(s.Find(id)))
		if s.Phase(s.Find(id)) == model.Waiting {
			out[len(out)-1].Basis = "waits itself"
		}
	}
	slices.SortStableFunc(out, func(a, b model.JobBrief) int {
		return cmp.Or(cmp.Compare(uint64(a.Ends-1), uint64(b.Ends-1)), cmp.Compare(a.Job, b.Job))
	})
	return out
}

// inTheWay returns the running jobs that keep a gang waiting: those that its reason names, and
// those that hold cells which it could use.
func inTheWay(s *Explainer, j *tables.Job, g int, why *model.Reason) []model.JobID {
	var all, out []model.JobID
	switch {
	case why.Code == model.NeverFits, why.Code == model.QuotaExceeded:
	case hardwareOrUnknown(why): // only jobs that the reason names
	case !j.Spec.Restricted():
		all, _ = firstNamed(s, s.endable(j, g))
	case why.Code != model.VCBusy && why.Code != model.Fragmented: // these two name the jobs there
		h := s.holdersFor(j, g)
		all = append(h.Own, h.Others...)
	}
	for _, id := range union(all, why.Jobs) {
		if b := s.Find(id); b != nil && b != j && s.Phase(b) == model.Active {
			out = append(out, id)
		}
	}
	out, _ = firstNamed(s, out)
	return out
}

// hardwareOrUnknown reports whether a gang waits for something else than cells that jobs hold: for
// nodes that are bad, cordoned or refused it, or for tasks that drain or are unknown.
func hardwareOrUnknown(r *model.Reason) bool {
	return outOfServiceCode(r.Code) ||
		r.Code == model.Draining || r.Code == model.HeldUnknown ||
		r.Code == model.BackOff && len(r.Nodes) > 0
}

// outOfServiceCode reports whether a reason is that nodes, or leaves of them, get no new work.
func outOfServiceCode(c model.Code) bool {
	return c == model.BadHardware || c == model.HeldByOthers || c == model.Cordoned
}

// whyHeldBack asks the policy of a gang's VC why, and until when, it keeps the gang waiting; "" if
// it does not.
func (s *Explainer) whyHeldBack(j *tables.Job, g int32) (string, model.Time) {
	space := s.Space(j.Spec.VC)
	if p, ok := s.Policies[space].(model.HoldsBack); ok && j.Spec.Priority >= cell.MinGuaranteed {
		return p.WhyHeldBack(s.View(space, j.Spec.Priority), model.GangRef{Job: j.ID, Gang: g})
	}
	return "", 0
}

// addBesides adds to the reason of a gang that finds no free cells why it would wait even with
// some, or why it does not share or preempt other gangs' leaves.
func addBesides(r *model.Reason, why string) {
	if why != "" && (r.Code == model.VCBusy || r.Code == model.Fragmented) {
		r.Message += "; besides, " + why
	}
}
