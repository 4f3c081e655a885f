package sched

import (
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Wake returns when Decide wants to run again by itself; 0 is never.
func (s *pass) Wake() model.Time {
	var wake model.Time
	if len(s.timers) > 0 {
		wake = s.timers[0].at
	}
	for _, space := range s.looks.timed {
		wake = sooner(wake, s.nextChange(space))
	}
	return wake
}

// nextChange returns when the order of a VC changes by itself for the first time
// after the last decision; 0 is never. Where nobody waits the order does not matter.
func (s *pass) nextChange(space int32) model.Time {
	c := &s.looks.changes[space]
	if c.known && (c.at == 0 || c.at > s.decided) {
		return c.at
	}
	*c = turn{known: true, at: s.changeAfter(space)}
	return c.at
}

// changeAfter finds out what nextChange notes.
func (s *pass) changeAfter(space int32) model.Time {
	at := s.nextClear(space)
	p, timed := s.pol[space].(Timed)
	if timed && s.looks.tuned[space] {
		for _, r := range s.tallies[space].ranks {
			at = sooner(at, s.changeOf(p, space, r.prio))
		}
	}
	for prio, ok := s.nextPriority(space, cell.MaxGuaranteed+1); ok && prio >= cell.MinGuaranteed; prio, ok = s.nextPriority(space, prio) {
		if timed {
			at = sooner(at, s.changeOf(p, space, prio))
			continue
		}
		at = sooner(at, s.nextAge(space, prio))
	}
	return at
}

// changeOf is when a policy's order of one priority changes by itself. A policy that names an
// instant that has passed would be looked at without end: it is looked at with the next full
// second, which is the same one for a state that was saved and loaded meanwhile.
func (s *pass) changeOf(p Timed, space int32, prio cell.Priority) model.Time {
	was := s.ask(space)
	at := p.NextChange(view{s: s, space: space, prio: prio, now: s.decided})
	s.ask(was)
	if at != 0 && at <= s.decided {
		const every = model.Time(model.Second)
		at = (s.decided/every + 1) * every
	}
	return at
}

// lookAtChanges looks at the VCs whose order changed by itself since the last
// decision.
func (s *pass) lookAtChanges(now model.Time) {
	for _, space := range s.looks.timed {
		if t := s.nextChange(space); t > 0 && t <= now {
			s.looks.itself[space], s.looks.some = true, true
			s.looks.shut[space].holds = false
		}
	}
}

// VerifyWake checks that what Wake noted, when the order of each VC changes by itself, follows
// from the state: after a restart it is found out anew. It holds between decisions, where Verify
// holds after every event; Verify asks what lets some of it be found out anew.
func (s *pass) VerifyWake() error {
	var errs []error
	for _, space := range s.looks.timed {
		c := s.looks.changes[space]
		if !c.known || c.at != 0 && c.at <= s.decided {
			continue
		}
		if at := s.changeAfter(space); at != c.at {
			errs = append(errs, fmt.Errorf("sched: the order of %s changes by itself at %d, noted is %d", s.cl.Space(space).Name, at, c.at))
		}
	}
	return errors.Join(errs...)
}
