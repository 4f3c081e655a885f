package explain

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// drawEnd returns when an attempt ends in this draw, by all that is known of how long such attempts
// take.
func (f *Forecast) drawEnd(a *tables.Attempt) state.DrawnEnd {
	j := &f.Jobs[a.Job]
	spec, limit, place := j.Spec, j.Spec.TimeLimit, f.Draw.Place(int64(a.ID.Job), int64(a.ID.Gang))
	reported := status.ByReports(&f.Index, a)
	seen, measured := f.measured.Of(spec.User, spec.Name)
	var e state.DrawnEnd
	var total model.Duration
	switch {
	case a.State == model.AttemptUnknown:
		return e
	case reported > 0: // the rest may take a tenth more or less
		left := max(reported-f.RanFor(a), 0)
		e.By, e.Spread, total = model.BasisSteps, left > 0, reported-left/10+model.MulDiv(left, int64(2*place+1),
			int64(f.Draw.Of)*10)
	case spec.Hints.Duration > 0:
		if total = f.usual(a, state.OfDuration, spec.Hints.Duration, state.OneOf{Place: place, Of: f.Draw.Of},
			&e); total == 0 {
			e.By, total = model.BasisDuration, max(spec.Hints.Duration-state.SavedBy(&f.Tables, a), 1)
		}
	case measured:
		most := max(seen.Max, seen.Mean())
		least := max(2*seen.Mean()-most, 0)
		e.By, e.Spread, total = model.BasisEarlierRuns, true, max(least+model.MulDiv(most-least, int64(place),
			int64(f.Draw.Of-1))-state.SavedBy(&f.Tables, a), 1)
	default:
		total = f.usual(a, state.OfLimit, limit, state.OneOf{Place: place, Of: f.Draw.Of}, &e)
		e.Open = total == 0
	}
	switch {
	case limit > 0 && total >= limit && e.Spread: // it ends at the limit, without grace
		e.By, total = model.BasisLimit, limit
	case total == 0 || limit > 0 && total >= limit: // nothing is known but the limit, if there is one
		if limit > 0 {
			e.By = model.BasisLimit
		}
		return e
	}
	if e.At = f.Reaches(a, total); e.At < f.At { // it has outrun that
		e.At, e.Open = 0, limit > 0
	}
	return e
}

// soonest is the earliest likely end of an attempt, and what it rests on: what the shortest tenth
// of earlier attempts took of the declared time, if enough are known, else what its span says.
func (f *Forecast) soonest(a *tables.Attempt, b status.Span) (model.Time, model.EndBasis) {
	spec := f.Jobs[a.Job].Spec
	of, declared := state.OfDuration, spec.Hints.Duration
	if declared == 0 {
		of, declared = state.OfLimit, spec.TimeLimit
	}
	_, measured := f.measured.Of(spec.User, spec.Name)
	if b.Early == 0 || f.DeclaredOnly || status.ByReports(&f.Index, a) > 0 || measured && spec.Hints.Duration == 0 {
		return b.Early, b.EarlyBasis
	}
	var e state.DrawnEnd
	total := f.usual(a, of, declared, state.Low, &e)
	if total == 0 {
		return b.Early, b.EarlyBasis
	}
	if at := max(f.Reaches(a, total), f.At); at < b.Early {
		return at, e.By
	}
	return b.Early, b.EarlyBasis
}

// usual is how long an attempt takes of a time that its job declares, in one of several equally
// likely cases, by what earlier attempts took; 0 if too few are known. It sets what e rests on.
func (f *Forecast) usual(a *tables.Attempt, of state.DeclaredTime, declared model.Duration, at state.OneOf,
	e *state.DrawnEnd) model.Duration {
	if declared <= 0 {
		return 0
	}
	u, ok := f.earlierRuns.Of(state.WorkOf(&f.Jobs[a.Job]), of, state.WorkedBy(&f.Index, a), declared)
	if !ok {
		return 0
	}
	e.By, e.Spread, e.Of = model.BasisUsualDuration, true, u.N
	if of == state.OfLimit {
		e.By = model.BasisUsualLimit
	}
	return max(u.Takes(declared, at.Place, at.Of)-state.SavedBy(&f.Tables, a), f.RanFor(a), 1)
}

// onlyLimitKnown reports whether only the time limit is known of an attempt's end.
func (f *Forecast) onlyLimitKnown(a *tables.Attempt) bool {
	if f.pace == drawing {
		return slices.Contains(f.limitOnly, a.ID)
	}
	return f.span(a).Open
}

// drawStarts runs copies forward in which attempts end at times drawn from what is known, and sets
// in e the range of the gang's starts. It is false, and e but for Steps not changed, where too
// little is known for a range.
func drawStarts(s *Explainer, id model.JobID, g int32, m model.MeasuredRuns, e *model.Estimate) bool {
	of := int32(state.Draws)
	if len(s.Jobs) > state.LargeState {
		of = state.FewDraws
	}
	var first, last model.Time
	steps, spread, said := 0, false, model.Estimate{}
	for k := range of {
		f := Forecast{WhatIf: &WhatIf{Explainer: s.CloneIn(&s.memoryForCopies().tried), At: s.Now}, pace: drawing,
			Draw: state.RunTimeDraw{K: k, Of: of}, MaxSteps: state.EstimateSteps, measured: m, earlierRuns: s.RunTimes}
		at, ok := f.run(id, g)
		e.Steps += int32(f.Steps)
		steps, spread = steps+f.Steps, spread || f.varied
		if !ok || !f.mayVary || f.mayBeSooner(id, g) || steps > state.DrawSteps && k < of-1 {
			return false
		}
		if k == 0 {
			first, last = at, at
			said.Basis, said.Order, said.Ends = f.basisText(), f.orderChanges(s, s.Find(id)), f.log
		}
		first, last = min(first, at), max(last, at)
	}
	if !spread { // all that ends before it ends as declared
		return false
	}
	e.Earliest, e.Latest, e.Confidence = first, last, 100*(of-1)/(of+1)
	e.Basis, e.Order, e.Ends = said.Basis+fmt.Sprintf("; right in at least %d of 100 cases",
		e.Confidence), said.Order, said.Ends
	return true
}
