package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// Estimate says when a job would start: it runs copies of the state forward, in which attempts end
// at several paces. It is false when no gang of the job waits. It must not be called in the
// scheduling loop.
func (s *Explainer) Estimate(id model.JobID, m model.MeasuredRuns) (model.Estimate, bool) {
	j := s.Find(id)
	if j == nil || s.Cluster == nil {
		return model.Estimate{}, false
	}
	g := int32(slices.IndexFunc(j.Gangs, func(g tables.Gang) bool { return g.Waiting }))
	if g < 0 {
		return model.Estimate{}, false
	}
	if why := s.WhyNeverFits(j, int(g)); why != nil {
		return model.Estimate{Unknown: why.Message}, true
	}
	var likely, open, missed, may, sooner bool
	e := model.Estimate{}
	for _, p := range paces {
		if p == slowNoGrace && !e.Bounded && may {
			sure := e.Latest
			if drawStarts(s, id, g, m, &e) {
				if e.AtLatest = 0; sure > 0 && !missed {
					e.AtLatest = max(sure, e.Latest)
				}
				e.Unknown, e.Jobs, e.Bounded = "", nil, false
				return e, true
			}
		}
		if p == likelyEnds && !sooner { // it would be the same as Slow
			continue
		}
		f := NewForecast(s, p, m)
		at, ok := f.run(id, g)
		e.Steps += int32(f.Steps)
		e.Bounded = e.Bounded || f.bounded
		may, sooner = may || f.mayVary && !f.bounded, f.endsEarlier
		switch {
		case !ok:
			if !missed {
				e.Unknown, e.Jobs = f.whyNoStart(id, g)
			}
			missed = true
			continue
		case p == Slow:
			e.Latest, e.Ends = at, f.log
		case p == earlyNoGrace && f.mayBeSooner(id, g):
			open = true
		}
		if !likely || at < e.Earliest {
			e.Earliest = at
		}
		if e.Latest > 0 {
			e.Latest = max(e.Latest, at)
		}
		likely = true
		if e.Basis == "" {
			e.Basis, e.Order = f.basisText()+ifAccepted(&s.Tables, j, g), f.orderChanges(s, j)
		}
	}
	if open && e.Latest > 0 {
		e.Earliest = 0
	}
	if missed { // in one run it does not start, so no time is the latest
		e.Latest = 0
	}
	return e, true
}

// Starts says when all waiting jobs would start, as Estimate does for one, but without draws. Each
// run goes on until all have started, or to the bound on decisions. It must not be called in the
// scheduling loop.
func (s *Explainer) Starts(m model.MeasuredRuns) []model.Expected {
	var ids []model.JobID
	for space := range s.Queues {
		ids = append(ids, s.order(int32(space))...)
	}
	at := make([]model.Expected, len(ids))
	sooner := false
	for _, p := range paces {
		if p == likelyEnds && !sooner {
			continue
		}
		f, left := NewForecast(s, p, m), len(ids)
		f.until(func() bool {
			for left > 0 && f.Began[ids[left-1]] != 0 {
				left--
			}
			return left == 0
		})
		for i, id := range ids {
			at[i].Add(id, f.Began[id], p == Slow)
		}
		sooner = f.endsEarlier
	}
	return slices.DeleteFunc(at, func(a model.Expected) bool { return a.Earliest == 0 })
}

// NewForecast returns a forecast on a copy of the state.
func NewForecast(s *Explainer, p pace, m model.MeasuredRuns) Forecast {
	return Forecast{WhatIf: &WhatIf{Explainer: s.CloneIn(&s.memoryForCopies().tried), At: s.Now}, pace: p,
		MaxSteps: state.EstimateSteps, measured: m, earlierRuns: s.RunTimes, Draw: state.RunTimeDraw{Of: state.Draws}}
}

// pace is when attempts end in a forecast. A later end may let another job start next, so an
// estimate tries all paces.
type pace int8

// The paces. Grace is how long an attempt takes to end after it was told to stop.
const (
	Slow         pace = iota // as late as jobs declare; with the whole grace
	likelyEnds               // when it likely ends; with the whole grace
	slowNoGrace              // as late as jobs declare; without grace
	earlyNoGrace             // as soon as is likely, by what such work usually takes; without grace
	drawing                  // at a random time, for one of several draws
)

// paces are the paces of every estimate, in order.
var paces = [...]pace{Slow, likelyEnds, slowNoGrace, earlyNoGrace}

// Forecast runs a copy of the state forward: attempts end one after the other, and after each end
// the deciding code is run.
type Forecast struct {
	*WhatIf
	pace         pace
	MaxSteps     int // bound on Steps
	measured     model.MeasuredRuns
	DeclaredOnly bool // only what jobs declare counts, and not reports or earlier runs
	Draw         state.RunTimeDraw
	earlierRuns  state.RunTimes    // what earlier attempts took, to draw from
	mayVary      bool              // some attempt may end at another time in another draw
	varied       bool              // such an attempt ended in this draw
	limitOnly    []model.AttemptID // in a draw: attempts of which only the limit is known
	Ends         collections.Heap[plannedEnd]
	PlannedIn    map[model.AttemptID]model.AttemptState // the state in which the end was planned
	Began        map[model.JobID]model.Time             // when jobs first got cells
	Steps        int                                    // decisions taken
	bounded      bool                                   // Steps reached MaxSteps
	endsEarlier  bool                                   // an attempt likely ends before its latest end
	openEnded    bool                                   // an attempt with only a known limit ended
	ended        int                                    // attempts that ended
	bases        model.BasisTally                       // what their ends rest on
	log          []model.EstimatedEnd                   // the first maxNamed ends
}

// plannedEnd is when the tasks of an attempt end in a forecast.
type plannedEnd struct {
	At     model.Time
	id     model.AttemptID
	exit   model.Exit
	basis  model.EndBasis
	varies bool // another draw may have another time
}

// Before orders by time, then attempt.
func (p plannedEnd) Before(o plannedEnd) bool {
	return p.At < o.At || p.At == o.At && model.CompareAttempts(p.id, o.id) < 0
}

// run goes on until a gang has its cells, and returns that time; false if it does not come to that.
func (f *Forecast) run(id model.JobID, g int32) (model.Time, bool) {
	return f.until(func() bool { return f.Placed(id, g) })
}

// until goes on until done, and returns that time. It is false when nothing more happens, or after
// f.MaxSteps steps.
func (f *Forecast) until(done func() bool) (model.Time, bool) {
	f.PlannedIn, f.Began = map[model.AttemptID]model.AttemptState{}, map[model.JobID]model.Time{}
	for {
		for _, r := range f.Look() {
			if e, ok := r.Event.(model.Placed); ok && f.Began[e.Attempt.Job] == 0 {
				f.Began[e.Attempt.Job] = f.At
			}
		}
		f.Steps++
		if done() {
			return f.At, true
		}
		next := f.Wake()
		if len(f.Ends) > 0 && (next == 0 || f.Ends[0].At < next) {
			next = f.Ends[0].At
		}
		if next == 0 {
			return 0, false
		}
		if f.Steps >= f.MaxSteps {
			f.bounded = true
			return 0, false
		}
		f.At = max(f.At, next)
		for len(f.Ends) > 0 && f.Ends[0].At <= f.At {
			f.End(f.Ends.Pop())
		}
	}
}

// Look decides, starts the tasks of what was placed, and decides again, as the core does when it
// hears that tasks started. It returns the decisions.
func (f *Forecast) Look() []model.Record {
	log := f.Decide()
	for n := 0; f.startNew() && n < maxLooks; n++ {
		log = append(log, f.Decide()...)
	}
	return log
}

// maxLooks bounds how often Look decides again.
const maxLooks = 32

// startNew starts the tasks of new attempts, and plans the end of each attempt in a new state. It
// reports whether it started some.
func (f *Forecast) startNew() (starts bool) {
	for i := range f.Attempts {
		a := &f.Attempts[i]
		if a.Job == tables.None || a.State == model.AttemptReserving || a.State == model.AttemptUnknown ||
			f.PlannedIn[a.ID] == a.State {
			continue
		}
		id := a.ID
		if a.State == model.AttemptStarting {
			for _, o := range f.Jobs[a.Job].Spec.Gangs[id.Gang].Tasks {
				f.fact(model.TaskStarted{Attempt: id, Task: o})
			}
			starts = true
		}
		f.PlannedIn[id] = a.State
		f.planEnd(a)
	}
	return starts
}

// planEnd plans the end of an attempt.
func (f *Forecast) planEnd(a *tables.Attempt) {
	if a.State == model.AttemptStopping {
		at := f.At
		if f.pace == Slow || f.pace == likelyEnds || f.Draw.K%2 == 1 {
			at = max(at, a.StopSentAt.Add(f.Jobs[a.Job].Spec.Grace))
		}
		f.Ends.Push(plannedEnd{At: at, id: a.ID, exit: model.Exit{Code: exitStopped}, basis: model.BasisStop})
		return
	}
	if f.pace == drawing {
		e := f.drawEnd(a)
		if e.Open {
			f.limitOnly = append(f.limitOnly, a.ID)
		}
		if f.mayVary = f.mayVary || e.Spread; e.At > 0 {
			f.Ends.Push(plannedEnd{At: e.At, id: a.ID, basis: e.By, varies: e.Spread})
		}
		return
	}
	f.mayVary = f.mayVary || f.pace == Slow && f.Draw.Of > 0 && f.drawEnd(a).Spread
	b := f.span(a)
	at, by := b.Late, b.LateBasis
	f.endsEarlier = f.endsEarlier || b.Early < b.Late
	switch f.pace {
	case likelyEnds:
		at, by = b.Early, b.EarlyBasis
	case earlyNoGrace:
		at, by = f.soonest(a, b)
	}
	if at > 0 && (f.pace == earlyNoGrace || by != model.BasisLimit) { // the core ends attempts at the limit
		f.Ends.Push(plannedEnd{At: max(at, f.At), id: a.ID, basis: by})
	}
}

// span is when an attempt should end, by all that is known, or with f.DeclaredOnly by what its job
// declares alone.
func (f *Forecast) span(a *tables.Attempt) status.Span {
	if f.DeclaredOnly {
		return f.SpanOf(a, nil, 0)
	}
	return f.SpanOf(a, f.measured, status.ByReports(&f.Index, a))
}

// End ends an attempt's tasks as planned, and counts what the end rests on.
func (f *Forecast) End(p plannedEnd) {
	a := f.Live(p.id)
	if a == nil || a.Alive == 0 || a.State == model.AttemptStopping && p.basis != model.BasisStop {
		return
	}
	b := p.basis
	if a.Cause == model.EndTimeLimit {
		b = model.BasisLimit
	}
	f.ended++
	f.varied = f.varied || p.varies
	f.openEnded = f.openEnded || b != model.BasisStop && f.onlyLimitKnown(a)
	if b != model.BasisStop {
		f.bases.Add(b)
	}
	if len(f.log) < maxNamed {
		f.log = append(f.log, model.EstimatedEnd{Job: p.id.Job, Name: f.Jobs[a.Job].Spec.Name, At: f.At,
			Basis: b.Text()})
	}
	f.kill(p.id, p.exit)
}

// mayBeSooner reports whether a start rests on attempts of which only the time limit is known, so
// that it may come sooner: one of them ended before it, or holds cells and might have ended.
func (f *Forecast) mayBeSooner(id model.JobID, g int32) bool {
	if f.openEnded || !f.bases.Any() {
		return f.openEnded
	}
	ids := f.endable(f.Find(id), int(g))
	for i := range f.Attempts {
		a := &f.Attempts[i]
		if a.Job != tables.None && a.ID.Job != id && a.State != model.AttemptReserving &&
			slices.Contains(ids, a.ID.Job) && f.onlyLimitKnown(a) {
			return true
		}
	}
	return false
}

// ifAccepted is a clause for a gang that nodes refused lately, and may refuse again; else "".
func ifAccepted(s *tables.Tables, j *tables.Job, g int32) string {
	if slices.ContainsFunc(tables.RareOf(j.Gangs[g].Rare).Avoid,
		func(a tables.Avoidance) bool { return a.Until > s.Now }) {
		return "; only if the node accepts it then"
	}
	return ""
}

// keptFromStarting reports whether a gang backs off since something else than its nodes kept its
// last attempt from starting, such as a quota that is used up: that may still be so.
func keptFromStarting(s *tables.Tables, j *tables.Job, g int32) bool {
	return place.InBackOff(s, j, g) && slices.ContainsFunc(j.Spec.Gangs[g].Tasks, func(o int32) bool {
		x := j.Tasks[o].Exit
		return x != nil && x.Cause == model.NeverStarted && x.Message != ""
	})
}

// basisText says what the ends in a run rest on.
func (f *Forecast) basisText() string {
	switch {
	case !f.bases.Any() && f.ended > 0:
		return "based on the grace of stopped jobs; a job submitted later may delay it"
	case !f.bases.Any():
		return "no running job has to end first"
	}
	return "based on " + f.bases.Text() + "; a job submitted later may delay it"
}

// orderChanges says which jobs that wait behind a gang's job now start before it, and which that
// are ahead of it start after it: other jobs find cells where it does not, and an order may change
// with time.
func (f *Forecast) orderChanges(was *Explainer, j *tables.Job) string {
	sooner, later, behind := []string(nil), []string(nil), false
	for _, id := range was.order(was.Space(j.Spec.VC)) {
		o := was.Find(id)
		at := f.Began[id]
		switch {
		case id == j.ID:
			behind = true
		case (o.Spec.Priority < cell.MinGuaranteed) != (j.Spec.Priority < cell.MinGuaranteed):
			// guaranteed and opportunistic jobs have queues of their own
		case behind && at > 0 && at < f.At:
			sooner = append(sooner, was.nameTo(j.Spec.User, id))
		case !behind && (at == 0 || at > f.At):
			later = append(later, was.nameTo(j.Spec.User, id))
		}
	}
	var texts []string
	if len(sooner) > 0 {
		texts = append(texts, "after "+model.FewText(sooner, maxNamed)+" (behind it now)")
	}
	if len(later) > 0 {
		texts = append(texts, "before "+model.FewText(later, maxNamed)+" (ahead of it now)")
	}
	return strings.Join(texts, "; ")
}

// whyNoStart says why a run did not come to the start of a gang, and which jobs' ends are not
// known.
func (f *Forecast) whyNoStart(id model.JobID, g int32) (string, []model.JobID) {
	if f.bounded {
		return fmt.Sprintf("it still waits after %d decisions, the most that an estimate looks ahead", f.MaxSteps), nil
	}
	j := f.Find(id)
	if j == nil {
		return "it ends before it starts", nil
	}
	why := f.Reason(j, g)
	var ids []model.JobID
	var whys []string
	for _, b := range inTheWay(f.Explainer, j, int(g), &why) {
		h := f.Find(b)
		for k := range h.Gangs {
			at := h.Gangs[k].Attempt
			if at == tables.None || slices.Contains(ids, b) {
				continue
			}
			if span := f.span(&f.Attempts[at]); span.Late == 0 {
				ids = append(ids, b)
				whys = append(whys, fmt.Sprintf("job %s %s", strings.TrimPrefix(f.nameTo(j.Spec.User, b), "job "),
					span.Why))
			}
		}
	}
	if len(ids) == 0 {
		return why.Message, nil
	}
	text := whys[0]
	if len(whys) > 1 {
		text += fmt.Sprintf("; nor is the end of %s known", model.Plural(int32(len(whys)-1), "other job", "other jobs"))
	}
	return text, ids[:min(len(ids), maxNamed)]
}

// bookedStart returns when a waiting gang starts at the latest, and says why: its VC booked
// cells for it, which jobs behind it may not delay. It is false without a booking. The
// time is 0 when it depends on jobs that declare no limit, which the words name.
func (s *Explainer) bookedStart(j *tables.Job, g int32) (model.Time, string, bool) {
	b := tables.RareOf(j.Gangs[g].Rare).Booked
	switch {
	case b == nil:
		return 0, "", false
	case b.Start != 0:
		return s.bookedCellsFree(j, b), fmt.Sprintf("%s keeps cells for it; they are free by then, by time limits",
			j.Spec.VC), true
	}
	after := slices.DeleteFunc(slices.Clone(b.After), func(id model.JobID) bool { return s.Find(id) == nil })
	if len(after) == 0 {
		return 0, fmt.Sprintf("%s keeps cells for it", j.Spec.VC), true
	}
	return 0, fmt.Sprintf("%s keeps cells for it until the end of %s, without a time limit", j.Spec.VC,
		s.jobList(j.Spec.User, after)), true
}

// checkedBookedStart is bookedStart for the page of a job, checked on a copy in which all jobs run
// as long as they declare. A booking only knows when the jobs end that hold its cells now. A job
// that is stopped and starts again may take these cells before it, so the start may be later.
func (s *Explainer) checkedBookedStart(j *tables.Job, g int32) (model.Time, string) {
	at, bound, _ := s.bookedStart(j, g)
	if at == 0 {
		return at, bound
	}
	f := Forecast{WhatIf: &WhatIf{Explainer: s.Copy(), At: s.Now}, pace: Slow, MaxSteps: state.EstimateSteps,
		DeclaredOnly: true}
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

// BookedSlack is how much later than its booking a gang may start, in microseconds, since decisions
// follow each other.
const BookedSlack = 100

// bookedCellsFree is when the cells of a booking are free by what is known now. That is later than
// b.Start if jobs that hold these cells, or are booked on them before it, took a while to start.
func (s *Explainer) bookedCellsFree(j *tables.Job, b *model.Booked) model.Time {
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
		t := s.bookedCellsLeft(b, prio)
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

// bookedCellsLeft is when the gangs of at least a priority that hold the cells of a booking have
// left them, and no earlier than b.Start.
func (s *Explainer) bookedCellsLeft(b *model.Booked, prio cell.Priority) model.Time {
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
