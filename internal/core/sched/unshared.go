package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// unshared says, in a clause, why a gang that finds no room does not share the leaves of others
// either, where its VC's policy lets gangs share; "" is that it may, and that it is for the
// policy to say. It asks what a wish for turns is judged by (together.go).
func (s *finder) unshared(j *job, g int32) string {
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
func (s *finder) noHost(j *job, g int32) string {
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
		wish := Wish{Gang: GangRef{j.id, g}, Turns: [][]GangRef{{{j.id, g}}}, Quantum: model.Second}
		for _, m := range s.membersOf(a.alloc) {
			wish.Turns = append(wish.Turns, []GangRef{{m.id.Job, m.id.Gang}})
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
