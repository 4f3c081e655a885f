package sched

import "reflect"

// Kept implements View.
func (v view) Kept() (Keeping, []GangView) {
	s := v.s
	var late []GangView
	for _, e := range s.laziesAt(v.space, v.prio, false) {
		late = append(late, v.waiting(e, true))
	}
	s.askLines(v.space, byKey)
	u := s.lineup(v.space, v.prio)
	if u == nil {
		return nil, late
	}
	if u.kept == nil {
		u.kept = s.keeping(v.space, u)
	}
	return u.kept, late
}

// keeping makes what a Keeper keeps; nil of another policy.
func (s *index) keeping(space int32, u *lineup) Keeping {
	k, ok := s.pol[space].(Keeper)
	if !ok {
		return nil
	}
	was := s.ask(space)
	out := k.Keep()
	for i := range u.lines {
		for _, e := range u.lines[i].gangs {
			s.tell(out, e)
		}
	}
	s.ask(was)
	return out
}

// relay tells what is kept of a gang that is listed now.
func (s *index) relay(space int32, e queued) {
	if u := s.lineup(space, e.prio); u.kept != nil {
		was := s.ask(space)
		s.tell(u.kept, e)
		s.ask(was)
	}
}

func (s *index) tell(k Keeping, e queued) {
	if s.extra(e) {
		return
	}
	g := &s.calls.gang
	*g = s.gangView(e)
	g.Delayed, g.Moved, g.Sizes.Now, g.Sizes.Live, g.Sizes.Runs = false, false, 0, 0, 0
	if s.jobs[e.slot].gangs[e.gang].single {
		g.Shape = ""
	}
	k.Add(g)
}

// verifyKept makes what is kept again and compares.
func (s *index) verifyKept(add func(string, ...any)) {
	for space, us := range s.lines.spaces {
		for i := range us {
			if u := &us[i]; u.kept != nil && !reflect.DeepEqual(u.kept, s.keeping(int32(space), u)) {
				add("what space %d keeps of those who wait with priority %d is not what they are", space, u.prio)
			}
		}
	}
}
