package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// drawn says when an attempt ends in a draw, by all that is known of how long such attempts take.
func (f *forward) drawn(a *attempt) drawnEnd {
	j := &f.jobs[a.job]
	spec, limit, place := j.spec, j.spec.TimeLimit, f.draw.Place(int64(a.id.Job), int64(a.id.Gang))
	reported := byReports(&f.index, a)
	seen, measured := f.measured.Of(spec.User, spec.Name)
	var e drawnEnd
	var total model.Duration
	switch {
	case a.state == model.AttemptUnknown:
		return e
	case reported > 0: // what is left may take a tenth more or less
		left := max(reported-f.ranFor(a), 0)
		e.by, e.spread, total = ByReported, left > 0, reported-left/10+Portion(left, int64(2*place+1), int64(f.draw.Of)*10)
	case spec.Hints.Duration > 0:
		if total = f.usual(a, OfDuration, spec.Hints.Duration, oneOf{place: place, of: f.draw.Of}, &e); total == 0 {
			e.by, total = ByDeclared, max(spec.Hints.Duration-savedBy(&f.tables, a), 1)
		}
	case measured:
		most := max(seen.Max, seen.Mean())
		least := max(2*seen.Mean()-most, 0)
		e.by, e.spread, total = ByMeasured, true, max(least+Portion(most-least, int64(place), int64(f.draw.Of-1))-savedBy(&f.tables, a), 1)
	default:
		total = f.usual(a, OfLimit, limit, oneOf{place: place, of: f.draw.Of}, &e)
		e.open = total == 0
	}
	switch {
	case limit > 0 && total >= limit && e.spread: // it takes no grace
		e.by, total = ByLimit, limit
	case total == 0 || limit > 0 && total >= limit: // nothing is known but the limit, if there is one
		if limit > 0 {
			e.by = ByLimit
		}
		return e
	}
	if e.at = f.reaches(a, total); e.at < f.at { // it runs longer than was thought
		e.at, e.open = 0, limit > 0
	}
	return e
}

// soonest is when an attempt ends as soon as is likely: where enough earlier ones are known, after
// the low part that such take of what is declared, else when its span says.
func (f *forward) soonest(a *attempt, b span) (model.Time, HabitBasis) {
	spec := f.jobs[a.job].spec
	of, declared := OfDuration, spec.Hints.Duration
	if declared == 0 {
		of, declared = OfLimit, spec.TimeLimit
	}
	_, measured := f.measured.Of(spec.User, spec.Name)
	if b.early == 0 || f.declared || byReports(&f.index, a) > 0 || measured && spec.Hints.Duration == 0 {
		return b.early, b.soon
	}
	var e drawnEnd
	total := f.usual(a, of, declared, low, &e)
	if total == 0 {
		return b.early, b.soon
	}
	if at := max(f.reaches(a, total), f.at); at < b.early {
		return at, e.by
	}
	return b.early, b.soon
}

// usual is how long an attempt takes in one of so many cases, of a time that its job declares, as
// far as earlier ones say that; else 0.
func (f *forward) usual(a *attempt, of HabitOf, declared model.Duration, at oneOf, e *drawnEnd) model.Duration {
	if declared <= 0 {
		return 0
	}
	u, ok := f.known.Of(workOf(&f.jobs[a.job]), of, workedBy(&f.index, a), declared)
	if !ok {
		return 0
	}
	e.by, e.spread, e.of = ByUsual, true, u.N
	if of == OfLimit {
		e.by = ByPart
	}
	return max(u.Takes(declared, at.place, at.of)-savedBy(&f.tables, a), f.ranFor(a), 1)
}

// opens reports whether nothing but its limit says when an attempt ends.
func (f *forward) opens(a *attempt) bool {
	if f.pace == drawing {
		return slices.Contains(f.unsure, a.id)
	}
	return f.span(a).open
}

// draw runs copies forward with ends drawn from what is known, and tells when the gang starts in
// them; false where that is not enough.
func draw(s *explainer, id model.JobID, g int32, m MeasuredRuns, e *model.Estimate) bool {
	of := int32(draws)
	if len(s.jobs) > largeState {
		of = fewDraws
	}
	var first, last model.Time
	steps, spread, said := 0, false, model.Estimate{}
	for k := range of {
		f := forward{whatIf: &whatIf{explainer: s.cloneIn(&s.copies().tried), at: s.now}, pace: drawing, draw: HabitDraw{K: k, Of: of}, most: estimateSteps, measured: m, known: s.habits}
		at, ok := f.run(id, g)
		e.Steps += int32(f.steps)
		steps, spread = steps+f.steps, spread || f.spread
		if !ok || !f.any || f.mayBeSooner(id, g) || steps > drawSteps && k < of-1 {
			return false
		}
		if k == 0 {
			first, last = at, at
			said.Basis, said.Order, said.Ends = f.words(), f.against(s, s.find(id)), f.log
		}
		first, last = min(first, at), max(last, at)
	}
	if !spread { // whatever ends before it is as it is declared
		return false
	}
	e.Earliest, e.Latest, e.Confidence = first, last, 100*(of-1)/(of+1)
	e.Basis, e.Order, e.Ends = said.Basis+fmt.Sprintf("; right in at least %d of 100 cases", e.Confidence), said.Order, said.Ends
	return true
}
