package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// aloneReason is why nodes are closed to a job that would fit there (closed).
func (s *explainer) aloneReason(r model.Reason, j *job) model.Reason {
	f, closed := s.cl.Forest(), s.closed(j)
	for i := range f.Nodes {
		if closed.Has(int32(i)) {
			r.Nodes = append(r.Nodes, f.Nodes[i].Name)
		}
	}
	if s.alone(j) {
		return r.Say(HeldBack, "it would fit, but wants its nodes for itself, and others run on %s", fewNodes(r.Nodes))
	}
	return r.Say(HeldBack, "it would fit, but jobs have %s for themselves", fewNodes(r.Nodes))
}

// minimumReason says why a member above a minimum waits that may not be placed beside its minimum
// now.
func (s *explainer) minimumReason(j *job, g int32) model.Reason {
	r := s.newReason(j, g)
	if at := j.gangs[0].attempt; at != none && s.attempts[at].lazy {
		return r.Say(VCBusy, "the minimum of its job runs without a guarantee; more members start when it is guaranteed again")
	}
	if at := j.gangs[0].attempt; at != none && s.attempts[at].state == model.AttemptUnknown {
		r = s.heldReason(r, &j.gangs[0])
		return r.Say(HeldUnknown, "contact lost with the minimum of its job on %s; more members start only beside it", model.NodesText(r.Nodes))
	}
	return r.Say(WaitingPreemption, "the minimum of its job is about to end")
}

// faultReason blames nodes that the gang avoids, bad hardware and attempts of which
// nothing is known.
func (s *explainer) faultReason(j *job, g int32) (model.Reason, bool) {
	r := s.newReason(j, g)
	switch s.fault(want{j: j, g: g}) {
	case faultless:
		return model.Reason{}, false
	case refused:
		return s.avoidedReason(r, j, g), true
	case broken:
		return s.hardwareReason(r, j, int(g), false), true
	case crowded:
		return s.hardwareReason(r, j, int(g), true), true
	}
	by := s.heldBy(j, g)
	r.Jobs = by
	return r.Say(HeldUnknown, "it would fit, but contact is lost with tasks of %s: they may still run, so their cells stay held", s.jobList(j.spec.User, by)), true
}

func (s *explainer) avoidedReason(r model.Reason, j *job, g int32) model.Reason {
	for _, a := range rare(j.gangs[g].odd).avoid {
		if a.Until > s.now {
			r.Nodes = append(r.Nodes, a.Node)
			if r.Until == 0 || a.Until < r.Until {
				r.Until = a.Until
			}
		}
	}
	if len(r.Nodes) == 0 {
		return s.aloneReason(r, j)
	}
	return r.Say(BackOff, "%s refused to start it; next try there in %d s", fewNodes(r.Nodes), secondsUntil(s.now, r.Until))
}

// unlentReason: an opportunistic gang, for which there are no cells, would fit on what is lent to
// no other VC.
func (s *explainer) unlentReason(r model.Reason, q cell.Request) (model.Reason, bool) {
	q.Keep = nil
	res, ok := s.cl.Place(&q)
	if !ok || q.Priority >= cell.MinGuaranteed || s.allLend() {
		return r, false
	}
	var names []string
	for _, c := range s.unlent() {
		if c.space != q.Space && slices.ContainsFunc(leavesOf(&res.Placement), c.leaves.Has) {
			names = append(names, string(s.cl.Space(c.space).Name))
		}
	}
	lend := map[bool]string{true: "virtual cluster %s lends nothing", false: "virtual clusters %s lend nothing"}[len(names) == 1]
	return r.Say(NotLent, "it would fit, but "+lend+": it starts when enough other cells are free; with priority 0 or more it would use its own virtual cluster's guarantee", model.JoinAnd(names)), true
}

// sheltered says, in a clause, who stands behind a gang in its policy's order and is left alone
// since it has not run for long enough yet, and until when the first of them is; "" is nobody.
func (s *explainer) sheltered(j *job, g int32) (string, model.Time) {
	if j.spec.Priority < cell.MinGuaranteed || s.minRun(j.space) == 0 {
		return "", 0
	}
	var first model.Time
	var each []string
	over, due := s.overFor(j, g)
	least := s.minRun(j.space)
	if due {
		least = s.vc(j.space).MinRun
	}
	for _, a := range over {
		if a.cause != 0 || !s.younger(a, least) || len(each) == maxNamed || s.spent(a) {
			continue
		}
		name := s.nameTo(j.spec.User, a.id.Job)
		if a.started == 0 {
			each = append(each, name+" is about to run")
			continue
		}
		until := a.started.Add(least)
		first = sooner(first, until)
		each = append(each, fmt.Sprintf("%s for another %d s", name, secondsUntil(s.now, until)))
	}
	if len(each) == 0 {
		return "", 0
	}
	return fmt.Sprintf("jobs of its own priority are not preempted in their first %d s: %s", least/model.Second, strings.Join(each, ", ")), first
}

// overFor lists the attempts that the policy of a gang's VC would have stopped for it, were
// they old enough, in order of their jobs, and whether the gang was promised its cells for now:
// then the quantum protects nobody from it.
func (s *explainer) overFor(j *job, g int32) (out []*attempt, due bool) {
	ref := GangRef{Job: j.id, Gang: g}
	for wish := range s.pol[j.space].Rank(s.viewAll(j.space, j.spec.Priority)) {
		if wish.Gang != ref || wish.Over == nil {
			continue
		}
		due = wish.Due
		for of := range wish.Over {
			if a := s.attemptOf(of); a != nil && !s.cl.Alloc(a.alloc).Opportunistic() {
				out = append(out, a)
			}
		}
		break
	}
	slices.SortFunc(out, func(a, b *attempt) int { return compareAttempts(a.id, b.id) })
	return out, due
}

// unshared says, in a clause, why a gang that finds no room does not share the leaves of others
// either, where its VC's policy lets gangs share; "" is that it may, and that it is for the
// policy to say. It asks what a wish for turns is judged by (together.go).
func (s *explainer) unshared(j *job, g int32) string {
	p, ok := s.pol[j.space].(Needer)
	if !ok || !slices.Contains(p.Needs(), CanSuspend) {
		return ""
	}
	mode := model.OfVC(s.cfg, j.spec.VC).Backfill
	switch {
	case j.spec.Priority < cell.MinGuaranteed:
		return "opportunistic jobs share no GPUs"
	case mode == modeEasy || mode == modeConserve:
		return "no job shares GPUs where there is backfill"
	case j.spec.Partial():
		return "jobs with members above a minimum share no GPUs"
	case !j.spec.Hints.Suspendable:
		return "it is not suspendable, so it shares no GPUs"
	case j.spec.Hints.Dedicated:
		return "it is dedicated, so it shares no GPUs"
	case j.gangs[g].alone:
		return "it did not acknowledge a suspension in time, so it shares no GPUs any more"
	}
	return s.noHost(j, g)
}

// noHost says why nobody runs with whom a gang could take turns; "" is that somebody does.
func (s *explainer) noHost(j *job, g int32) string {
	alike, willing, older := false, false, false
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.joined || a.lazy || a.state == model.AttemptReserving || !s.steady(a) {
			continue
		}
		o := &s.jobs[a.job]
		if o.spec.VC != j.spec.VC || o.spec.Priority != j.spec.Priority || !s.shapedLike(j, g, a) {
			continue
		}
		if s.startedOtherwise(a) {
			older = true
			continue
		}
		alike = true
		wish := Wish{Gang: GangRef{Job: j.id, Gang: g}, Turns: [][]GangRef{{{Job: j.id, Gang: g}}}, Quantum: model.Second}
		for _, m := range s.membersOf(a.alloc) {
			wish.Turns = append(wish.Turns, []GangRef{{Job: m.id.Job, Gang: m.id.Gang}})
			h := &s.jobs[m.job].spec.Hints
			willing = willing || h.Suspendable && !h.Dedicated && !s.jobs[m.job].gangs[m.id.Gang].alone
		}
		if s.mayShare(a, &wish) || len(wish.Turns) > maxSharers {
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

// sparedReason: a gang could take cells that are lent, but to what lost its guarantee and stands
// before it.
func (s *explainer) sparedReason(r model.Reason, j *job, g int32) (model.Reason, bool) {
	q := s.request(want{j: j, g: g})
	spared := q.Spared
	if spared == nil || r.Free < r.Need {
		return r, false
	}
	q = s.lifting(q, j.spec.Priority)
	q.Spared = nil
	res, ok := s.cl.Place(&q)
	if !ok {
		return r, false
	}
	for _, id := range res.Victims {
		if !spared(id) {
			continue
		}
		for _, m := range s.membersOf(id) {
			r.Jobs = append(r.Jobs, m.id.Job)
		}
	}
	slices.Sort(r.Jobs)
	if r.Jobs = slices.Compact(r.Jobs); len(r.Jobs) == 0 {
		return r, false
	}
	return r.Say(PriorityAhead, "it would fit on lent cells, but %s lost the guarantee there and %s ahead of it in %s",
		s.jobList(j.spec.User, r.Jobs), verb(r.Jobs, "is", "are"), j.spec.VC), true
}

// comesBackReason: there is room for a gang while others of its VC are being stopped that wait
// before it then.
func (s *explainer) comesBackReason(r model.Reason, j *job, g int32) (model.Reason, bool) {
	if j.spec.Priority < cell.MinGuaranteed || j.spec.Gangs[g].Extra || int64(j.gangs[g].leaves) <= s.unheld(j.space, j.spec.Priority) {
		return r, false
	}
	for _, slot := range s.holders[j.space] {
		a := &s.attempts[slot]
		if s.jobs[a.job].spec.Priority > j.spec.Priority && !a.lazy && s.waitsAgain(a) {
			r.Jobs = append(r.Jobs, a.id.Job)
		}
	}
	slices.Sort(r.Jobs)
	if r.Jobs = slices.Compact(r.Jobs); len(r.Jobs) == 0 {
		return r, false
	}
	return comesBefore(s, r, j), true
}

// comesBefore says that there is room, but for jobs that are being stopped and wait again then.
func comesBefore(s *explainer, r model.Reason, j *job) model.Reason {
	return r.Say(PriorityAhead, "it would fit, but %s %s being stopped, and then ahead of it in %s",
		s.jobList(j.spec.User, r.Jobs), verb(r.Jobs, "is", "are"), j.spec.VC)
}
