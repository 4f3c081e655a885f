package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/decide"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// dedicatedReason is for a job that would fit on nodes that are closed to it: it wants nodes for
// itself and others run there, or other jobs have them for themselves.
func (s *Explainer) dedicatedReason(r model.Reason, j *tables.Job) model.Reason {
	f, closed := s.Cluster.Forest(), s.ClosedNodes(j)
	for i := range f.Nodes {
		if closed.Has(int32(i)) {
			r.Nodes = append(r.Nodes, f.Nodes[i].Name)
		}
	}
	if s.IsDedicated(j) {
		return r.Say(model.HeldBack, "it would fit, but wants its nodes for itself, and others run on %s",
			firstNodesText(r.Nodes))
	}
	return r.Say(model.HeldBack, "it would fit, but jobs have %s for themselves", firstNodesText(r.Nodes))
}

// minimumReason says why a member above a minimum cannot be placed beside its minimum now.
func (s *Explainer) minimumReason(j *tables.Job, g int32) model.Reason {
	r := s.newReason(j, g)
	if at := j.Gangs[0].Attempt; at != tables.None && s.Attempts[at].Lazy {
		return r.Say(model.VCBusy, "the minimum of its job runs without a guarantee; more members start when it is guaranteed again")
	}
	if at := j.Gangs[0].Attempt; at != tables.None && s.Attempts[at].State == model.AttemptUnknown {
		r = s.unknownReason(r, &j.Gangs[0])
		return r.Say(model.HeldUnknown, "contact lost with the minimum of its job on %s; more members start only beside it", model.NodesText(r.Nodes))
	}
	return r.Say(model.WaitingPreemption, "the minimum of its job is about to end")
}

// faultReason is for a gang that would fit but for nodes that refused it, bad hardware or unknown
// attempts; false for other gangs.
func (s *Explainer) faultReason(j *tables.Job, g int32) (model.Reason, bool) {
	r := s.newReason(j, g)
	switch s.Fault(place.Want{J: j, G: g}) {
	case place.Faultless:
		return model.Reason{}, false
	case place.Refused:
		return s.avoidedReason(r, j, g), true
	case place.Broken:
		return s.hardwareReason(r, j, int(g), false), true
	case place.BrokenAndBusy:
		return s.hardwareReason(r, j, int(g), true), true
	}
	by := s.UnknownBlockers(j, g)
	r.Jobs = by
	return r.Say(model.HeldUnknown, "it would fit, but contact is lost with tasks of %s: they may still run, so their cells stay held", s.jobList(j.Spec.User, by)), true
}

// avoidedReason is for a gang that nodes refused to start, or to which nodes are closed.
func (s *Explainer) avoidedReason(r model.Reason, j *tables.Job, g int32) model.Reason {
	for _, a := range tables.RareOf(j.Gangs[g].Rare).Avoid {
		if a.Until > s.Now {
			r.Nodes = append(r.Nodes, a.Node)
			if r.Until == 0 || a.Until < r.Until {
				r.Until = a.Until
			}
		}
	}
	if len(r.Nodes) == 0 {
		return s.dedicatedReason(r, j)
	}
	return r.Say(model.BackOff, "%s refused to start it; next try there in %d s", firstNodesText(r.Nodes),
		secondsUntil(s.Now, r.Until))
}

// unlentReason is for an opportunistic gang that would fit if all VCs lent their idle cells; false
// for other gangs.
func (s *Explainer) unlentReason(r model.Reason, q cell.Request) (model.Reason, bool) {
	q.Excluded = nil
	res, ok := s.Cluster.Place(&q)
	if !ok || q.Priority >= cell.MinGuaranteed || s.AllLend() {
		return r, false
	}
	var names []string
	for _, c := range s.UnlentClaims() {
		if c.Space != q.Space && slices.ContainsFunc(state.LeavesOf(&res.Placement), c.Leaves.Has) {
			names = append(names, string(s.Cluster.Space(c.Space).Name))
		}
	}
	lend := map[bool]string{true: "virtual cluster %s lends nothing",
		false: "virtual clusters %s lend nothing"}[len(names) == 1]
	return r.Say(model.NotLent, "it would fit, but "+lend+": it starts when enough other cells are free; with priority 0 or more it would use its own virtual cluster's guarantee", model.JoinAnd(names)), true
}

// whyProtected says in a clause which attempts the policy would have preempted for a gang but that
// have not run for the minimum yet, and until when the first of them is safe; "" if there are
// none.
func (s *Explainer) whyProtected(j *tables.Job, g int32) (string, model.Time) {
	if j.Spec.Priority < cell.MinGuaranteed || s.MinRun(j.Space) == 0 {
		return "", 0
	}
	var first model.Time
	var each []string
	over, due := s.mayPreemptFor(j, g)
	least := s.MinRun(j.Space)
	if due {
		least = s.VC(j.Space).MinRun
	}
	for _, a := range over {
		if a.Cause != 0 || !s.RanLessThan(a, least) || len(each) == maxNamed || s.BudgetSpent(a) {
			continue
		}
		name := s.nameTo(j.Spec.User, a.ID.Job)
		if a.Started == 0 {
			each = append(each, name+" is about to run")
			continue
		}
		until := a.Started.Add(least)
		first = index.Sooner(first, until)
		each = append(each, fmt.Sprintf("%s for another %d s", name, secondsUntil(s.Now, until)))
	}
	if len(each) == 0 {
		return "", 0
	}
	return fmt.Sprintf("jobs of its own priority are not preempted in their first %d s: %s", least/model.Second,
		strings.Join(each, ", ")), first
}

// mayPreemptFor lists the attempts that the policy of a gang's VC would have preempted for it,
// whether or not they ran for the minimum, in order of their jobs. due says that the policy
// promised the gang its cells for now (Wish.IgnoreQuantum).
func (s *Explainer) mayPreemptFor(j *tables.Job, g int32) (out []*tables.Attempt, due bool) {
	ref := model.GangRef{Job: j.ID, Gang: g}
	for wish := range s.Policies[j.Space].Rank(s.ViewAll(j.Space, j.Spec.Priority)) {
		if wish.Gang != ref || wish.Preemptible == nil {
			continue
		}
		due = wish.IgnoreQuantum
		for of := range wish.Preemptible {
			if a := s.AttemptOf(of); a != nil && !s.Cluster.Alloc(a.Alloc).Opportunistic() {
				out = append(out, a)
			}
		}
		break
	}
	slices.SortFunc(out, func(a, b *tables.Attempt) int { return model.CompareAttempts(a.ID, b.ID) })
	return out, due
}

// whyUnshared says in a clause why a gang that finds no free cells does not share leaves with
// others either, if its VC's policy lets gangs share. It is "" if it could, which is up to the
// policy. The checks are those of a wish for turns (decide/share_place.go).
func (s *Explainer) whyUnshared(j *tables.Job, g int32) string {
	p, ok := s.Policies[j.Space].(model.NeedsAbilities)
	if !ok || !slices.Contains(p.Needs(), model.CanSuspend) {
		return ""
	}
	mode := model.ConfigOfVC(s.Config, j.Spec.VC).Backfill
	switch {
	case j.Spec.Priority < cell.MinGuaranteed:
		return "opportunistic jobs share no GPUs"
	case mode == model.ModeEasy || mode == model.ModeConserve:
		return "no job shares GPUs where there is backfill"
	case j.Spec.Partial():
		return "jobs with members above a minimum share no GPUs"
	case !j.Spec.Hints.Suspendable:
		return "it is not suspendable, so it shares no GPUs"
	case j.Spec.Hints.Dedicated:
		return "it is dedicated, so it shares no GPUs"
	case j.Gangs[g].NeverShares:
		return "it did not acknowledge a suspension in time, so it shares no GPUs any more"
	}
	return s.whyNoHost(j, g)
}

// whyNoHost says why there are no running gangs with which a gang could take turns; "" if there
// are.
func (s *Explainer) whyNoHost(j *tables.Job, g int32) string {
	alike, willing, older := false, false, false
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.NotFirst || a.Lazy || a.State == model.AttemptReserving || !s.Steady(a) {
			continue
		}
		o := &s.Jobs[a.Job]
		if o.Spec.VC != j.Spec.VC || o.Spec.Priority != j.Spec.Priority || !s.ShapedLike(j, g, a) {
			continue
		}
		if s.DevicesChanged(a) {
			older = true
			continue
		}
		alike = true
		wish := model.Wish{Gang: model.GangRef{Job: j.ID, Gang: g}, Turns: [][]model.GangRef{{{Job: j.ID, Gang: g}}},
			Quantum: model.Second}
		for _, m := range s.MembersOf(a.Alloc) {
			wish.Turns = append(wish.Turns, []model.GangRef{{Job: m.ID.Job, Gang: m.ID.Gang}})
			h := &s.Jobs[m.Job].Spec.Hints
			willing = willing || h.Suspendable && !h.Dedicated && !s.Jobs[m.Job].Gangs[m.ID.Gang].NeverShares
		}
		if s.MayShare(a, &wish) || len(wish.Turns) > decide.MaxSharers {
			return ""
		}
	}
	switch {
	case !alike && older:
		return "the jobs of its shape started under other names of their devices, so it shares no GPUs"
	case !alike:
		return "no job of its priority and shape runs where it may run, so it shares no GPUs"
	case !willing:
		return "no job of its shape is suspendable, so it shares no GPUs"
	}
	return "its memory does not fit beside the jobs of its shape, so it shares no GPUs"
}

// demotedAheadReason is for a gang that could take back lent cells, but that are held by demoted
// jobs which are ahead of it; false for other gangs.
func (s *Explainer) demotedAheadReason(r model.Reason, j *tables.Job, g int32) (model.Reason, bool) {
	q := s.Request(place.Want{J: j, G: g})
	spared := q.Protected
	if spared == nil || r.Free < r.Need {
		return r, false
	}
	q = s.Preempting(q, j.Spec.Priority)
	q.Protected = nil
	res, ok := s.Cluster.Place(&q)
	if !ok {
		return r, false
	}
	for _, id := range res.Victims {
		if !spared(id) {
			continue
		}
		for _, m := range s.MembersOf(id) {
			r.Jobs = append(r.Jobs, m.ID.Job)
		}
	}
	slices.Sort(r.Jobs)
	if r.Jobs = slices.Compact(r.Jobs); len(r.Jobs) == 0 {
		return r, false
	}
	return r.Say(model.PriorityAhead, "it would fit on lent cells, but %s lost the guarantee there and %s ahead of it in %s",
		s.jobList(j.Spec.User, r.Jobs), verb(r.Jobs, "is", "are"), j.Spec.VC), true
}

// comesBackReason is for a gang that would fit, but jobs of its VC are being stopped that wait
// again and are then ahead of it; false for other gangs.
func (s *Explainer) comesBackReason(r model.Reason, j *tables.Job, g int32) (model.Reason, bool) {
	if j.Spec.Priority < cell.MinGuaranteed || j.Spec.Gangs[g].Extra ||
		int64(j.Gangs[g].Leaves) <= s.AvailableTo(j.Space, j.Spec.Priority) {
		return r, false
	}
	for _, slot := range s.Holders[j.Space] {
		a := &s.Attempts[slot]
		if s.Jobs[a.Job].Spec.Priority > j.Spec.Priority && !a.Lazy && s.WaitsAgain(a) {
			r.Jobs = append(r.Jobs, a.ID.Job)
		}
	}
	slices.Sort(r.Jobs)
	if r.Jobs = slices.Compact(r.Jobs); len(r.Jobs) == 0 {
		return r, false
	}
	return comesBefore(s, r, j), true
}

// comesBefore says that r.Jobs are being stopped, and are ahead of the gang when they wait again.
func comesBefore(s *Explainer, r model.Reason, j *tables.Job) model.Reason {
	return r.Say(model.PriorityAhead, "it would fit, but %s %s being stopped, and then ahead of it in %s",
		s.jobList(j.Spec.User, r.Jobs), verb(r.Jobs, "is", "are"), j.Spec.VC)
}

// limitReason says which limit of its user keeps a gang waiting.
func (s *Explainer) limitReason(j *tables.Job, g int32) model.Reason {
	l, u := s.UserLimits(j), s.UserHas(j.Space, j.Spec.User)
	r := s.newReason(j, g)
	r.Jobs, r.More = firstNamed(s, u.Jobs)
	what := "job"
	if len(j.Gangs) > 1 {
		what = "gang"
	}
	text := fmt.Sprintf("in %s one user gets at most %s: %s uses %d, and this %s asks for %d; in use by ",
		j.Spec.VC, s.UnitsIn(j.Space, l.GPUs), j.Spec.User, u.Leaves, what, j.Gangs[g].Leaves)
	if l.GPUs == 0 || u.Leaves+int64(j.Gangs[g].Leaves) <= l.GPUs {
		text = fmt.Sprintf("in %s one user runs at most %s at a time, and %s runs ", j.Spec.VC,
			model.Plural(int32(l.Running), "job", "jobs"), j.Spec.User)
	}
	return r.Say(model.UserLimit, "%s", text+jobsText(s, j.Spec.User, r.Jobs, r.More))
}
