package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// What part of the time that it declared work took is noted when an attempt ends by itself or by
// its user; what was stopped for others goes on later. Estimates draw from it how long others may
// take.

// noteTaken notes an attempt that ends.
func noteTaken(s *fold, a *attempt, cause model.EndCause) {
	j := &s.jobs[a.job]
	took := workedBy(&s.tables, a)
	switch cause {
	case model.EndSucceeded, model.EndFailed, model.EndCompleted, model.EndStopped, model.EndEarly, model.EndTimeLimit:
	default:
		return
	}
	if a.started == 0 || a.orphaned || s.isExtra(a) {
		return
	}
	of := took
	if cause == model.EndTimeLimit { // which the grace of its stop is no part of
		of = j.spec.TimeLimit
	}
	s.habits.Add(workOf(j), OfLimit, of, j.spec.TimeLimit, j.spec.Hints.Duration == 0)
	s.habits.Add(workOf(j), OfDuration, took, j.spec.Hints.Duration, true)
}

func workOf(j *job) HabitWork {
	return HabitWork{VC: j.spec.VC, User: j.spec.User, Model: j.spec.Hints.Model}
}

// workedBy is how long an attempt has run, with what those before it saved.
func workedBy(s *tables, a *attempt) model.Duration {
	return s.ranFor(a) + savedBy(s, a)
}

// savedBy is how long attempts before ran, where their work is kept.
func savedBy(s *tables, a *attempt) model.Duration {
	if !s.jobs[a.job].spec.Hints.Checkpoint {
		return 0
	}
	return s.jobs[a.job].gangs[a.id.Gang].ran
}

// draws is how many copies of the state run forward with other ends: the chances of each attempt
// are divided into as many equal ones, of which each copy takes another. So many draws and what
// happens are in any order, and what happens is outside all of them in 2 of draws + 1 cases. It is
// prime, as fewDraws is.
const (
	draws      = 13
	fewDraws   = 7     // where copies are dear
	largeState = 2_000 // jobs
	drawSteps  = 3 * estimateSteps
)

// drawnEnd is when an attempt ends in one draw; 0 is not before its limit.
type drawnEnd struct {
	at     model.Time
	by     HabitBasis
	spread bool // another draw may say something else
	open   bool // nothing but its limit is known
	of     int  // earlier attempts like it say so
}

// drawn says when an attempt ends in a draw, by all that is known of how long such attempts take.
func (f *forward) drawn(a *attempt) drawnEnd {
	j := &f.jobs[a.job]
	spec, limit, place := j.spec, j.spec.TimeLimit, f.draw.Place(int64(a.id.Job), int64(a.id.Gang))
	reported := byReports(&f.tables, a)
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
		if total = f.usual(a, OfDuration, spec.Hints.Duration, oneOf{place, f.draw.Of}, &e); total == 0 {
			e.by, total = ByDeclared, max(spec.Hints.Duration-savedBy(&f.tables, a), 1)
		}
	case measured:
		most := max(seen.Max, seen.Mean())
		least := max(2*seen.Mean()-most, 0)
		e.by, e.spread, total = ByMeasured, true, max(least+Portion(most-least, int64(place), int64(f.draw.Of-1))-savedBy(&f.tables, a), 1)
	default:
		total = f.usual(a, OfLimit, limit, oneOf{place, f.draw.Of}, &e)
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

// oneOf is a place among equal chances, from 0.
type oneOf struct{ place, of int32 }

// low is where copies do not draw: one attempt in ten takes less.
var low = oneOf{1, 11}

// soonest is when an attempt ends as soon as is likely: where enough earlier ones are known, after
// the low part that such take of what is declared, else when its span says.
func (f *forward) soonest(a *attempt, b span) (model.Time, HabitBasis) {
	spec := f.jobs[a.job].spec
	of, declared := OfDuration, spec.Hints.Duration
	if declared == 0 {
		of, declared = OfLimit, spec.TimeLimit
	}
	_, measured := f.measured.Of(spec.User, spec.Name)
	if b.early == 0 || f.declared || byReports(&f.tables, a) > 0 || measured && spec.Hints.Duration == 0 {
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
	u, ok := f.known.Of(workOf(&f.jobs[a.job]), of, workedBy(&f.tables, a), declared)
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
