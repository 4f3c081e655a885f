package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/setting"
)

// ConfigPlan is every effect that a configuration has on a running cluster. Lists
// hold what changes, except Running, which holds all attempts.
type ConfigPlan struct {
	Changed     bool                       `json:"changed"`
	VCs         []setting.VCChange         `json:"vcs"`
	Chains      []setting.ChainChange      `json:"chains"`
	SKUs        []setting.SKUChange        `json:"skus"`
	Nodes       []setting.NodeChange       `json:"nodes"`
	Rules       []setting.RuleChange       `json:"rules"` // of the whole cluster
	Throughputs []setting.ThroughputChange `json:"throughputs"`
	Storages    []string                   `json:"storages,omitempty"` // what changes of them and of access, in words
	Running     []RunningEffect            `json:"running"`
	Waiting     []WaitingEffect            `json:"waiting"`
	Effects     []string                   `json:"effects"` // all of it in sentences
}

// Fate is what becomes of an attempt or of a waiting job.
type Fate string

// The fates. Attempts have the first five, waiting jobs the last three.
const (
	Keeps         Fate = "keeps"         // its cells and what they were guaranteed by
	Opportunistic Fate = "opportunistic" // it runs on, and loses its guarantee
	Drains        Fate = "drains"        // it runs on devices that the configuration lacks
	DrainsLazily  Fate = "drains, opportunistic"
	WaitsAgain    Fate = "waits again" // its reservation is taken back and planned anew
	NeverStarts   Fate = "never"       // it cannot start even when all is free
	CanStart      Fate = "can start"   // it could not before
	Unbooked      Fate = "not booked"  // cells were booked for it, and its VC books none any more
)

// RunningEffect is what becomes of an attempt or reservation.
type RunningEffect struct {
	Attempt AttemptID   `json:"attempt"`
	Name    JobName     `json:"name"`
	User    Subject     `json:"user"`
	VC      cell.VCName `json:"vc"` // afterwards
	Fate    Fate        `json:"fate"`
	Lost    int32       `json:"lost,omitempty"`    // leaves that the configuration lacks
	Already bool        `json:"already,omitempty"` // it drains there as before
	Never   string      `json:"never,omitempty"`   // why it could not start again, and could before
}

// WaitingEffect is a waiting job that can never start afterwards, or can now, or
// that loses what was booked for it.
type WaitingEffect struct {
	Job     JobID       `json:"job"`
	Name    JobName     `json:"name"`
	User    Subject     `json:"user"`
	VC      cell.VCName `json:"vc"`
	Fate    Fate        `json:"fate"`
	Already bool        `json:"already,omitempty"` // it could not start before either
	Reason  string      `json:"reason,omitempty"`
}

// PlanConfig says every effect that a command would have, and changes nothing.
func (s *State) PlanConfig(c Reconfigure) (*ConfigPlan, *Refusal) {
	ch, no := s.change(&c)
	if no != nil {
		return nil, no
	}
	return s.effects(ch), nil
}

// effects compares the present with what comes of a change.
func (s *State) effects(ch *change) *ConfigPlan {
	p := &ConfigPlan{Changed: len(ch.events) > 0, VCs: []setting.VCChange{}, Chains: []setting.ChainChange{}, SKUs: []setting.SKUChange{},
		Nodes: []setting.NodeChange{}, Rules: []setting.RuleChange{}, Throughputs: []setting.ThroughputChange{}, Running: []RunningEffect{}, Waiting: []WaitingEffect{}, Effects: []string{}}
	if !p.Changed {
		p.Running, p.Waiting = s.unmoved(), s.waitingEffects(s)
		return p
	}
	before := cmp.Or(s.cfg, &Config{})
	d := setting.Pair{Before: before, After: ch.ev.Config, Was: s.cl, Is: ch.next, Renamed: ch.ev.Renamed, RenamedNodes: ch.ev.RenamedNodes, Served: s.serving}
	c := d.Compare()
	p.VCs, p.SKUs, p.Chains, p.Nodes, p.Rules, p.Throughputs, p.Storages = c.VCs, c.SKUs, c.Chains, c.Nodes, c.Rules, c.Throughputs, c.Others
	after := s.following(ch)
	p.Running = s.runningEffects(ch, after)
	p.Waiting = s.waitingEffects(after)
	if s.cfg != nil { // before the first, everything is new
		p.Effects = p.sentences(c.Sentences(), ch.ev.Meta.Subject)
	}
	return p
}

// unmoved says of all attempts and reservations that they stay as they are.
func (s *State) unmoved() []RunningEffect {
	out := []RunningEffect{}
	for _, slot := range s.carryOrder() {
		a := &s.attempts[slot]
		j := &s.jobs[a.job]
		e := RunningEffect{Attempt: a.id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Fate: Keeps}
		if a.orphaned {
			e.Fate, e.Already = Drains, true
			e.Lost = lostOf(j, a, s.cl.Alloc(a.alloc).Placement.Tasks)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b RunningEffect) int { return compareAttempts(a.Attempt, b.Attempt) })
	return out
}

// lostOf is how many leaves of an attempt's tasks that live a configuration lacks,
// where they stand in it.
func lostOf(j *job, a *attempt, now []cell.Task) (n int32) {
	for k, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if t := &j.tasks[o]; !t.dead {
			n += int32(len(lostDevices(t, &now[k])))
		}
	}
	return n
}

func (s *State) runningEffects(ch *change, after *State) []RunningEffect {
	out := []RunningEffect{}
	for _, e := range ch.events {
		if u, ok := e.(Unreserved); ok {
			j := s.find(u.Attempt.Job)
			out = append(out, RunningEffect{Attempt: u.Attempt, Name: j.spec.Name, User: j.spec.User, VC: setting.VCNow(ch.ev.Renamed, j.spec.VC), Fate: WaitsAgain})
		}
	}
	for i := range ch.ev.Moves {
		m := &ch.ev.Moves[i]
		a := s.live(m.Attempt)
		j := &s.jobs[a.job]
		e := RunningEffect{Attempt: m.Attempt, Name: j.spec.Name, User: j.spec.User, VC: setting.VCNow(ch.ev.Renamed, j.spec.VC), Fate: Keeps}
		e.Lost = lostOf(j, a, m.Placement.Tasks)
		if g := int(m.Attempt.Gang); !j.stop && !j.spec.Gangs[g].Extra && s.neverFits(j, g) == nil {
			if why := after.neverFits(after.find(j.id), g); why != nil {
				e.Never = why.Message
			}
		}
		demoted := m.Lazy && !a.lazy
		switch {
		case m.Orphaned && demoted:
			e.Fate = DrainsLazily
		case m.Orphaned:
			e.Fate = Drains
			e.Already = a.orphaned && e.Lost == lostOf(j, a, s.cl.Alloc(a.alloc).Placement.Tasks)
		case demoted:
			e.Fate = Opportunistic
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b RunningEffect) int { return compareAttempts(a.Attempt, b.Attempt) })
	return out
}

// following is a copy to which a change is applied.
func (s *State) following(ch *change) *State {
	after := s.Clone()
	for _, e := range ch.events {
		after.Apply(Record{Seq: after.seq + 1, Time: after.now, Event: e})
	}
	return after
}

// waitingEffects asks the present and what follows, for each gang that waits, whether
// it could ever start.
func (s *State) waitingEffects(after *State) []WaitingEffect {
	out := []WaitingEffect{}
	if s.cl == nil {
		return out
	}
	for slot := range s.jobs {
		if s.jobs[slot].spec == nil || s.jobs[slot].stop {
			continue
		}
		if e, ok := s.waitingEffect(after, slot); ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b WaitingEffect) int { return cmp.Compare(a.Job, b.Job) })
	return out
}

// waitingEffect judges the gangs of one job that wait.
func (s *State) waitingEffect(after *State, slot int) (WaitingEffect, bool) {
	was, is := &s.jobs[slot], &after.jobs[slot]
	var then, now *Reason
	booked := false
	for g := range is.gangs {
		// Extra members wait only beside their minimum; others wait, or will again.
		if gg := &is.gangs[g]; !gg.waiting && (gg.attempt != none || gg.done || is.spec.Gangs[g].Extra) {
			continue
		}
		now = cmp.Or(now, after.neverFits(is, g))
		then = cmp.Or(then, s.neverFits(was, g))
		booked = booked || rare(was.gangs[g].odd).booked != nil
	}
	e := WaitingEffect{Job: is.id, Name: is.spec.Name, User: is.spec.User, VC: is.spec.VC, Fate: NeverStarts, Already: then != nil}
	switch {
	case now != nil:
		e.Reason = now.Message
		return e, true
	case then != nil:
		return WaitingEffect{Job: e.Job, Name: e.Name, User: e.User, VC: e.VC, Fate: CanStart}, true
	case booked && !books(setting.OfVC(after.cfg, is.spec.VC)):
		return WaitingEffect{Job: e.Job, Name: e.Name, User: e.User, VC: e.VC, Fate: Unbooked}, true
	}
	return e, false
}

// sentences says a plan in words, one line for each effect; equal ones of many
// jobs share a line.
func (p *ConfigPlan) sentences(out []string, reader Subject) []string {
	out = append(out, p.runningSentences(reader)...)
	for _, w := range p.Waiting {
		switch {
		case w.Fate == CanStart:
			out = append(out, fmt.Sprintf("job %s, which waits, could never start and now can", w.Name.To(reader, w.User)))
		case w.Fate == Unbooked:
			out = append(out, fmt.Sprintf("job %s, which waits, loses the cells that were booked for it: %s has no backfill any more", w.Name.To(reader, w.User), w.VC))
		case !w.Already:
			out = append(out, fmt.Sprintf("job %s, which waits, can never start: %s", w.Name.To(reader, w.User), strings.TrimPrefix(w.Reason, "it can never start: ")))
		}
	}
	if len(out) == 0 {
		out = append(out, "cells have other addresses or another order, which changes nothing for jobs")
	}
	return out
}

func (p *ConfigPlan) runningSentences(reader Subject) []string {
	var out []string
	keep := 0
	for _, r := range p.Running {
		switch {
		case r.Fate == Keeps:
			keep++
		case r.Already: // nothing changes for it
		case r.Fate == Drains:
			out = append(out, fmt.Sprintf("job %s (attempt %v) runs on %s that the new configuration lacks: it drains there", r.Name.To(reader, r.User), r.Attempt, lostText(r.Lost)))
		case r.Fate == DrainsLazily:
			out = append(out, fmt.Sprintf("job %s (attempt %v) runs on %s that the new configuration lacks: it drains there; the rest no longer fits the guarantee of %s and is opportunistic", r.Name.To(reader, r.User), r.Attempt, lostText(r.Lost), r.VC))
		case r.Fate == Opportunistic:
			out = append(out, fmt.Sprintf("job %s (attempt %v) no longer fits the guarantee of %s: it runs on as opportunistic", r.Name.To(reader, r.User), r.Attempt, r.VC))
		case r.Fate == WaitsAgain:
			out = append(out, fmt.Sprintf("job %s (attempt %v) was promised cells: it is planned anew", r.Name.To(reader, r.User), r.Attempt))
		}
	}
	said := map[JobID]bool{}
	for _, r := range p.Running {
		if r.Never != "" && !said[r.Attempt.Job] {
			said[r.Attempt.Job] = true
			out = append(out, fmt.Sprintf("job %s, which runs, could not start again: %s", r.Name.To(reader, r.User), strings.TrimPrefix(r.Never, "it can never start: ")))
		}
	}
	if keep > 0 {
		out = append(out, amount.Plural(int32(keep), "running attempt keeps its cells", "running attempts keep their cells"))
	}
	return out
}

// lostText says how many devices; a device that is only divided anew is none.
func lostText(n int32) string {
	if n == 0 {
		return "a device"
	}
	return amount.Plural(n, "device", "devices")
}
