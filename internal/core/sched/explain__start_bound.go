package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// startBound returns until when a waiting gang starts at the latest, and by what
// in words: its VC keeps a reservation for it, which those behind it may not
// delay. It is false when nothing bounds its wait; the time is 0 when it depends
// on jobs that declare no limit, which the words name.
func (s *explainer) startBound(j *job, g int32) (model.Time, string, bool) {
	b := rare(j.gangs[g].odd).booked
	switch {
	case b == nil:
		return 0, "", false
	case b.Start != 0:
		return s.keptUntil(j, b), fmt.Sprintf("%s keeps cells for it; they are free by then, by time limits", j.spec.VC), true
	}
	after := slices.DeleteFunc(slices.Clone(b.After), func(id model.JobID) bool { return s.find(id) == nil })
	if len(after) == 0 {
		return 0, fmt.Sprintf("%s keeps cells for it", j.spec.VC), true
	}
	return 0, fmt.Sprintf("%s keeps cells for it until the end of %s, without a time limit", j.spec.VC, s.jobList(j.spec.User, after)), true
}

// bookedBy is the same for the page of a job. A booking knows when those end that use its cells:
// what starts again on others, after it was stopped for a third one, may come before it on these.
// So it is tried on a copy, where all take as long as they declare.
func (s *explainer) bookedBy(j *job, g int32) (model.Time, string) {
	at, bound, _ := s.startBound(j, g)
	if at == 0 {
		return at, bound
	}
	f := forward{whatIf: &whatIf{explainer: s.copy(), at: s.now}, pace: slow, most: estimateSteps, declared: true}
	switch starts, ok := f.run(j.id, g); {
	case !ok:
		return 0, fmt.Sprintf("%s keeps cells for it; no start time can be promised, since others may come first", j.spec.VC)
	case starts > at+bookedSlack:
		return starts, fmt.Sprintf("%s keeps cells for it, after stopped jobs; they are free by then, by time limits", j.spec.VC)
	}
	return at, bound
}

// bookedSlack is how much later than its booking a gang may start, since decisions follow each
// other.
const bookedSlack = 100

// keptUntil is when the cells of a booking are free by what is known now: later than it was
// told where those who use them, or are booked there before it, took a while to start.
func (s *explainer) keptUntil(j *job, b *Booked) model.Time {
	type stretch struct {
		*Booked
		prio cell.Priority
		end  model.Time
	}
	var before []stretch // those of a higher priority first, then in the order in which they were made
	for _, ref := range s.booked {
		by := s.find(ref.Job)
		was := rare(by.gangs[ref.Gang].odd).booked
		later := by.spec.Priority < j.spec.Priority || by.spec.Priority == j.spec.Priority && was.Turn >= b.Turn
		if by.spec.VC == j.spec.VC && !later && was.Start != 0 && was.Start <= b.Start && by.spec.TimeLimit > 0 && by.gangs[ref.Gang].attempt == none {
			before = append(before, stretch{was, by.spec.Priority, 0})
		}
	}
	slices.SortFunc(before, func(x, y stretch) int {
		return cmp.Or(cmp.Compare(y.prio, x.prio), cmp.Compare(x.Turn, y.Turn))
	})
	free := func(b *Booked, prio cell.Priority, before []stretch) model.Time {
		t := s.leftBooked(b, prio)
		for _, by := range before {
			if slices.ContainsFunc(by.Leaves, func(l cell.LeafID) bool { return slices.Contains(b.Leaves, l) }) {
				t = max(t, by.end)
			}
		}
		return t
	}
	for i := range before {
		spec := s.find(before[i].Job).spec
		before[i].end = free(before[i].Booked, before[i].prio, before[:i]).Add(model.Duration(model.Time(spec.TimeLimit).Add(spec.Grace)))
	}
	return free(b, j.spec.Priority, before)
}

// leftBooked is when those who hold the cells of a booking have left them, not before it was told.
func (s *explainer) leftBooked(b *Booked, prio cell.Priority) model.Time {
	t := max(b.Start, s.now)
	for _, l := range b.Leaves {
		hold, promised := s.cl.Holder(l)
		for _, id := range []cell.AllocID{hold, promised} {
			if id == cell.None {
				continue
			}
			al := s.cl.Alloc(id)
			if end, known := s.leftBy(s.holder(id)); known && !al.Opportunistic() && al.Priority >= prio {
				t = max(t, end)
			}
		}
	}
	return t
}
