package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// startBound returns until when a waiting gang starts at the latest, and by what
// in words: its VC keeps a reservation for it, which those behind it may not
// delay. It is false when nothing bounds its wait; the time is 0 when it depends
// on jobs that declare no limit, which the words name.
func (s *Explainer) startBound(j *tables.Job, g int32) (model.Time, string, bool) {
	b := tables.RareOf(j.Gangs[g].Rare).Booked
	switch {
	case b == nil:
		return 0, "", false
	case b.Start != 0:
		return s.keptUntil(j, b), fmt.Sprintf("%s keeps cells for it; they are free by then, by time limits",
			j.Spec.VC), true
	}
	after := slices.DeleteFunc(slices.Clone(b.After), func(id model.JobID) bool { return s.Find(id) == nil })
	if len(after) == 0 {
		return 0, fmt.Sprintf("%s keeps cells for it", j.Spec.VC), true
	}
	return 0, fmt.Sprintf("%s keeps cells for it until the end of %s, without a time limit", j.Spec.VC,
		s.jobList(j.Spec.User, after)), true
}

// bookedBy is the same for the page of a job. A booking knows when those end that use its cells:
// what starts again on others, after it was stopped for a third one, may come before it on these.
// So it is tried on a copy, where all take as long as they declare.
func (s *Explainer) bookedBy(j *tables.Job, g int32) (model.Time, string) {
	at, bound, _ := s.startBound(j, g)
	if at == 0 {
		return at, bound
	}
	f := Forecast{WhatIf: &WhatIf{Explainer: s.Copy(), At: s.Now}, pace: Slow, Most: state.EstimateSteps,
		Declared: true}
	switch starts, ok := f.run(j.ID, g); {
	case !ok:
		return 0, fmt.Sprintf("%s keeps cells for it; no start time can be promised, since others may come first",
			j.Spec.VC)
	case starts > at+BookedSlack:
		return starts, fmt.Sprintf("%s keeps cells for it, after stopped jobs; they are free by then, by time limits",
			j.Spec.VC)
	}
	return at, bound
}

// BookedSlack is how much later than its booking a gang may start, since decisions follow each
// other.
const BookedSlack = 100

// keptUntil is when the cells of a booking are free by what is known now: later than it was
// told where those who use them, or are booked there before it, took a while to start.
func (s *Explainer) keptUntil(j *tables.Job, b *model.Booked) model.Time {
	type stretch struct {
		*model.Booked
		prio cell.Priority
		end  model.Time
	}
	var before []stretch // those of a higher priority first, then in the order in which they were made
	for _, ref := range s.Booked {
		by := s.Find(ref.Job)
		was := tables.RareOf(by.Gangs[ref.Gang].Rare).Booked
		later := by.Spec.Priority < j.Spec.Priority || by.Spec.Priority == j.Spec.Priority && was.Turn >= b.Turn
		if by.Spec.VC == j.Spec.VC && !later && was.Start != 0 && was.Start <= b.Start && by.Spec.TimeLimit > 0 &&
			by.Gangs[ref.Gang].Attempt == tables.None {
			before = append(before, stretch{was, by.Spec.Priority, 0})
		}
	}
	slices.SortFunc(before, func(x, y stretch) int {
		return cmp.Or(cmp.Compare(y.prio, x.prio), cmp.Compare(x.Turn, y.Turn))
	})
	free := func(b *model.Booked, prio cell.Priority, before []stretch) model.Time {
		t := s.leftBooked(b, prio)
		for _, by := range before {
			if slices.ContainsFunc(by.Leaves, func(l cell.LeafID) bool { return slices.Contains(b.Leaves, l) }) {
				t = max(t, by.end)
			}
		}
		return t
	}
	for i := range before {
		spec := s.Find(before[i].Job).Spec
		before[i].end = free(before[i].Booked, before[i].prio,
			before[:i]).Add(model.Duration(model.Time(spec.TimeLimit).Add(spec.Grace)))
	}
	return free(b, j.Spec.Priority, before)
}

// leftBooked is when those who hold the cells of a booking have left them, not before it was told.
func (s *Explainer) leftBooked(b *model.Booked, prio cell.Priority) model.Time {
	t := max(b.Start, s.Now)
	for _, l := range b.Leaves {
		hold, promised := s.Cluster.Holder(l)
		for _, id := range []cell.AllocID{hold, promised} {
			if id == cell.None {
				continue
			}
			al := s.Cluster.Alloc(id)
			if end, known := s.LeftBy(s.Holder(id)); known && !al.Opportunistic() && al.Priority >= prio {
				t = max(t, end)
			}
		}
	}
	return t
}
