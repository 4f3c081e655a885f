package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// startBound returns until when a waiting gang starts at the latest, and by what
// in words: its VC keeps a reservation for it, which those behind it may not
// delay. It is false when nothing bounds its wait; the time is 0 when it depends
// on jobs that declare no limit, which the words name.
func (s *State) startBound(j *job, g int32) (Time, string, bool) {
	b := rare(j.gangs[g].odd).booked
	switch {
	case b == nil:
		return 0, "", false
	case b.Start != 0:
		return s.keptUntil(j, b), fmt.Sprintf("cells are kept for it in the order of %s: by their time limits they are free by then", j.spec.VC), true
	}
	after := slices.DeleteFunc(slices.Clone(b.After), func(id JobID) bool { return s.find(id) == nil })
	if len(after) == 0 {
		return 0, fmt.Sprintf("cells are kept for it in the order of %s", j.spec.VC), true
	}
	verb := "declares"
	if len(after) > 1 {
		verb = "declare"
	}
	return 0, fmt.Sprintf("cells are kept for it in the order of %s, after %s, which %s no time limit", j.spec.VC, s.jobList(after), verb), true
}

// keptUntil is when the cells of a booking are free by what is known now: later than it was
// told where those who use them took a while to start.
func (s *State) keptUntil(j *job, b *Booked) Time {
	free := max(b.Start, s.now)
	for _, l := range b.Leaves {
		hold, _ := s.cl.Holder(l)
		if hold == cell.None {
			continue
		}
		al := s.cl.Alloc(hold)
		if end, known := s.leftBy(s.holder(hold)); known && !al.Opportunistic() && al.Priority >= j.spec.Priority {
			free = max(free, end)
		}
	}
	return free
}
