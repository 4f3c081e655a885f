package decide

import (
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
)

// Wake returns when Decide wants to run again by itself; 0 is never.
func (s *Pass) Wake() model.Time {
	var wake model.Time
	if len(s.Timers) > 0 {
		wake = s.Timers[0].At
	}
	for _, space := range s.Dirty.Timed {
		wake = index.Sooner(wake, s.NextChange(space))
	}
	return wake
}

// NextChange returns when the order of a VC changes by itself for the first time
// after the last decision; 0 is never. Where nobody waits the order does not matter.
func (s *Pass) NextChange(space int32) model.Time {
	c := &s.Dirty.Changes[space]
	if c.Known && (c.At == 0 || c.At > s.Decided) {
		return c.At
	}
	*c = index.Turn{Known: true, At: s.changeAfter(space)}
	return c.At
}

// changeAfter finds out what nextChange notes.
func (s *Pass) changeAfter(space int32) model.Time {
	at := s.nextClear(space)
	p, timed := s.Policies[space].(model.Timed)
	if timed && s.Dirty.Tuned[space] {
		for _, r := range s.Tallies[space].Ranks {
			at = index.Sooner(at, s.changeOf(p, space, r.Prio))
		}
	}
	for prio, ok := s.NextPriority(space, cell.MaxGuaranteed+1); ok &&
		prio >= cell.MinGuaranteed; prio, ok = s.NextPriority(space, prio) {
		if timed {
			at = index.Sooner(at, s.changeOf(p, space, prio))
			continue
		}
		at = index.Sooner(at, s.NextAge(space, prio))
	}
	return at
}

// changeOf is when a policy's order of one priority changes by itself. A policy that names an
// instant that has passed would be looked at without end: it is looked at with the next full
// second, which is the same one for a state that was saved and loaded meanwhile.
func (s *Pass) changeOf(p model.Timed, space int32, prio cell.Priority) model.Time {
	was := s.Ask(space)
	at := p.NextChange(view{s: s, space: space, prio: prio, now: s.Decided})
	s.Ask(was)
	if at != 0 && at <= s.Decided {
		const every = model.Time(model.Second)
		at = (s.Decided/every + 1) * every
	}
	return at
}

// lookAtChanges looks at the VCs whose order changed by itself since the last
// decision.
func (s *Pass) lookAtChanges(now model.Time) {
	for _, space := range s.Dirty.Timed {
		if t := s.NextChange(space); t > 0 && t <= now {
			s.Dirty.Itself[space], s.Dirty.Some = true, true
			s.Dirty.Exhausted[space].Holds = false
		}
	}
}

// VerifyWake checks that what Wake noted, when the order of each VC changes by itself, follows
// from the state: after a restart it is found out anew. It holds between decisions, where Verify
// holds after every event; Verify asks what lets some of it be found out anew.
func (s *Pass) VerifyWake() error {
	var errs []error
	for _, space := range s.Dirty.Timed {
		c := s.Dirty.Changes[space]
		if !c.Known || c.At != 0 && c.At <= s.Decided {
			continue
		}
		if at := s.changeAfter(space); at != c.At {
			errs = append(errs, fmt.Errorf("core: the order of %s changes by itself at %d, noted is %d",
				s.Cluster.Space(space).Name, at, c.At))
		}
	}
	return errors.Join(errs...)
}
