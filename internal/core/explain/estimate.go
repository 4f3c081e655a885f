package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// Estimate runs copies of the state forward at several paces. It is false when nothing
// of the job waits. It must not be called in the loop.
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
		if p == prompt && !e.Bounded && may {
			sure := e.Latest
			if draw(s, id, g, m, &e) {
				if e.AtLatest = 0; sure > 0 && !missed {
					e.AtLatest = max(sure, e.Latest)
				}
				e.Unknown, e.Jobs, e.Bounded = "", nil, false
				return e, true
			}
		}
		if p == due && !sooner { // it would be the slow one again
			continue
		}
		f := NewForecast(s, p, m)
		at, ok := f.run(id, g)
		e.Steps += int32(f.Steps)
		e.Bounded = e.Bounded || f.bounded
		may, sooner = may || f.any && !f.bounded, f.sooner
		switch {
		case !ok:
			if !missed {
				e.Unknown, e.Jobs = f.missing(id, g)
			}
			missed = true
			continue
		case p == Slow:
			e.Latest, e.Ends = at, f.log
		case p == quick && f.mayBeSooner(id, g):
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
			e.Basis, e.Order = f.words()+ifAccepted(&s.Tables, j, g), f.against(s, j)
		}
	}
	if open && e.Latest > 0 {
		e.Earliest = 0
	}
	if missed { // in one of them it does not start, so no time is the last one
		e.Latest = 0
	}
	return e, true
}

// Starts tells when the jobs that wait would start, as Estimate does for one, but without draws:
// each run goes on for all of them, as far as its decisions reach. It must not be called in the
// loop.
func (s *Explainer) Starts(m model.MeasuredRuns) []model.Expected {
	var ids []model.JobID
	for space := range s.Queues {
		ids = append(ids, s.order(int32(space))...)
	}
	at := make([]model.Expected, len(ids))
	sooner := false
	for _, p := range paces {
		if p == due && !sooner {
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
		sooner = f.sooner
	}
	return slices.DeleteFunc(at, func(a model.Expected) bool { return a.Earliest == 0 })
}

// NewForecast begins a forecast on a copy of the state.
func NewForecast(s *Explainer, p pace, m model.MeasuredRuns) Forecast {
	return Forecast{WhatIf: &WhatIf{Explainer: s.CloneIn(&s.copies().tried), At: s.Now}, pace: p,
		Most: state.EstimateSteps, measured: m, known: s.Habits, Draw: state.HabitDraw{Of: state.Draws}}
}

// pace says how soon what runs ends: as late as its limit and its grace allow; as soon as is
// likely, but what is stopped after its whole grace; and both with what is stopped ending at once,
// of which the last one counts what such work usually takes. How a job ends can change which one
// goes next, so all four are tried.
type pace int8

// How long what runs is taken to run.
const (
	Slow pace = iota
	due
	prompt
	quick
	drawing // one of several draws
)

// paces are those of every estimate, in order.
var paces = [...]pace{Slow, due, prompt, quick}

// Forecast lets what runs on a copy of the state end, one after the other.
type Forecast struct {
	*WhatIf
	pace     pace
	Most     int // steps
	measured model.MeasuredRuns
	Declared bool // only what jobs declare counts
	Draw     state.HabitDraw
	known    state.Habits      // of draws
	any      bool              // something may end otherwise in another draw
	spread   bool              // and ended in this one
	unsure   []model.AttemptID // of which only the limit is known, in a draw
	Ends     collections.Heap[plannedEnd]
	Seen     map[model.AttemptID]model.AttemptState // as of which the end was planned
	Began    map[model.JobID]model.Time             // when jobs first got cells
	Steps    int
	bounded  bool
	sooner   bool // an attempt likely ends before it has to
	open     bool // an attempt ended of which only the limit is known
	ended    int
	kinds    model.HabitTally
	log      []model.EstimatedEnd
}

// plannedEnd is when the tasks of an attempt die.
type plannedEnd struct {
	At     model.Time
	id     model.AttemptID
	exit   model.Exit
	basis  model.HabitBasis
	spread bool // it may be another time in another draw
}

// Before orders by time, then attempt.
func (p plannedEnd) Before(o plannedEnd) bool {
	return p.At < o.At || p.At == o.At && model.CompareAttempts(p.id, o.id) < 0
}

// run goes on until the gang has its cells; it returns when that is.
func (f *Forecast) run(id model.JobID, g int32) (model.Time, bool) {
	return f.until(func() bool { return f.Placed(id, g) })
}

func (f *Forecast) until(done func() bool) (model.Time, bool) {
	f.Seen, f.Began = map[model.AttemptID]model.AttemptState{}, map[model.JobID]model.Time{}
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
		if f.Steps >= f.Most {
			f.bounded = true
			return 0, false
		}
		f.At = max(f.At, next)
		for len(f.Ends) > 0 && f.Ends[0].At <= f.At {
			f.End(f.Ends.Pop())
		}
	}
}

// Look decides, lets what was placed start, and decides again as the core does when it hears of a
// start.
func (f *Forecast) Look() []model.Record {
	log := f.Decide()
	for n := 0; f.watch() && n < maxLooks; n++ {
		log = append(log, f.Decide()...)
	}
	return log
}

// maxLooks bounds how often it is decided again at one instant after starts.
const maxLooks = 32

// watch starts the tasks of attempts that are new, and plans their ends. It reports whether it
// started some.
func (f *Forecast) watch() (starts bool) {
	for i := range f.Attempts {
		a := &f.Attempts[i]
		if a.Job == tables.None || a.State == model.AttemptReserving || a.State == model.AttemptUnknown ||
			f.Seen[a.ID] == a.State {
			continue
		}
		id := a.ID
		if a.State == model.AttemptStarting {
			for _, o := range f.Jobs[a.Job].Spec.Gangs[id.Gang].Tasks {
				f.fact(model.TaskStarted{Attempt: id, Task: o})
			}
			starts = true
		}
		f.Seen[id] = a.State
		f.expect(a)
	}
	return starts
}

// expect plans the end of an attempt.
func (f *Forecast) expect(a *tables.Attempt) {
	if a.State == model.AttemptStopping {
		at := f.At
		if f.pace == Slow || f.pace == due || f.Draw.K%2 == 1 {
			at = max(at, a.Told.Add(f.Jobs[a.Job].Spec.Grace))
		}
		f.Ends.Push(plannedEnd{At: at, id: a.ID, exit: model.Exit{Code: exitStopped}, basis: model.ByStop})
		return
	}
	if f.pace == drawing {
		e := f.drawn(a)
		if e.Open {
			f.unsure = append(f.unsure, a.ID)
		}
		if f.any = f.any || e.Spread; e.At > 0 {
			f.Ends.Push(plannedEnd{At: e.At, id: a.ID, basis: e.By, spread: e.Spread})
		}
		return
	}
	f.any = f.any || f.pace == Slow && f.Draw.Of > 0 && f.drawn(a).Spread
	b := f.span(a)
	at, by := b.Late, b.Basis
	f.sooner = f.sooner || b.Early < b.Late
	switch f.pace {
	case due:
		at, by = b.Early, b.Soon
	case quick:
		at, by = f.soonest(a, b)
	}
	if at > 0 && (f.pace == quick || by != model.ByLimit) { // the core keeps a time limit itself
		f.Ends.Push(plannedEnd{At: max(at, f.At), id: a.ID, basis: by})
	}
}

// span is when an attempt should end, by all that is known, or by what its job declares alone.
func (f *Forecast) span(a *tables.Attempt) status.Span {
	if f.Declared {
		return f.SpanOf(a, nil, 0)
	}
	return f.SpanOf(a, f.measured, status.ByReports(&f.Index, a))
}

// End lets an attempt's tasks die, and remembers what it was planned by.
func (f *Forecast) End(p plannedEnd) {
	a := f.Live(p.id)
	if a == nil || a.Alive == 0 || a.State == model.AttemptStopping && p.basis != model.ByStop {
		return
	}
	b := p.basis
	if a.Cause == model.EndTimeLimit {
		b = model.ByLimit
	}
	f.ended++
	f.spread = f.spread || p.spread
	f.open = f.open || b != model.ByStop && f.opens(a)
	if b != model.ByStop {
		f.kinds.Add(b)
	}
	if len(f.log) < maxNamed {
		f.log = append(f.log, model.EstimatedEnd{Job: p.id.Job, Name: f.Jobs[a.Job].Spec.Name, At: f.At,
			Basis: b.Text()})
	}
	f.kill(p.id, p.exit)
}

// mayBeSooner reports whether a start rests on jobs of which only the time limit is known: one of
// them ended first, or might have ended before those that did.
func (f *Forecast) mayBeSooner(id model.JobID, g int32) bool {
	if f.open || !f.kinds.Any() {
		return f.open
	}
	ids := f.endable(f.Find(id), int(g))
	for i := range f.Attempts {
		a := &f.Attempts[i]
		if a.Job != tables.None && a.ID.Job != id && a.State != model.AttemptReserving &&
			slices.Contains(ids, a.ID.Job) && f.opens(a) {
			return true
		}
	}
	return false
}

// ifAccepted ends what a start rests on, where nodes refused the gang lately and may do so again.
func ifAccepted(s *tables.Tables, j *tables.Job, g int32) string {
	if slices.ContainsFunc(tables.RareOf(j.Gangs[g].Rare).Avoid,
		func(a tables.Avoidance) bool { return a.Until > s.Now }) {
		return "; only if the node accepts it then"
	}
	return ""
}

// words says what a run rests on.
func (f *Forecast) words() string {
	switch {
	case !f.kinds.Any() && f.ended > 0:
		return "based on the grace of stopped jobs; a job submitted later may delay it"
	case !f.kinds.Any():
		return "no running job has to end first"
	}
	return "based on " + f.kinds.Text() + "; a job submitted later may delay it"
}

// against says which jobs start before a gang's job that wait behind it now, and which after it
// that wait before it: others find room where it does not, and an order changes with time.
func (f *Forecast) against(was *Explainer, j *tables.Job) string {
	sooner, later, behind := []string(nil), []string(nil), false
	for _, id := range was.order(was.Space(j.Spec.VC)) {
		o := was.Find(id)
		at := f.Began[id]
		switch {
		case id == j.ID:
			behind = true
		case (o.Spec.Priority < cell.MinGuaranteed) != (j.Spec.Priority < cell.MinGuaranteed): // another queue
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

// missing says why a run did not come to the start of a gang.
func (f *Forecast) missing(id model.JobID, g int32) (string, []model.JobID) {
	if f.bounded {
		return fmt.Sprintf("it still waits after %d decisions, the most that an estimate looks ahead", f.Most), nil
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
