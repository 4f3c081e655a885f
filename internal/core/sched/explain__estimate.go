package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Estimate runs copies of the state forward at several paces. It is false when nothing
// of the job waits. It must not be called in the loop.
func (s *explainer) Estimate(id model.JobID, m MeasuredRuns) (model.Estimate, bool) {
	j := s.find(id)
	if j == nil || s.cl == nil {
		return model.Estimate{}, false
	}
	g := int32(slices.IndexFunc(j.gangs, func(g gang) bool { return g.waiting }))
	if g < 0 {
		return model.Estimate{}, false
	}
	if why := s.whyNeverFits(j, int(g)); why != nil {
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
		f := ahead(s, p, m)
		at, ok := f.run(id, g)
		e.Steps += int32(f.steps)
		e.Bounded = e.Bounded || f.bounded
		may, sooner = may || f.any && !f.bounded, f.sooner
		switch {
		case !ok:
			if !missed {
				e.Unknown, e.Jobs = f.missing(id, g)
			}
			missed = true
			continue
		case p == slow:
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
			e.Basis, e.Order = f.words()+ifAccepted(&s.tables, j, g), f.against(s, j)
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
func (s *explainer) Starts(m MeasuredRuns) []model.Expected {
	var ids []model.JobID
	for space := range s.queues {
		ids = append(ids, s.order(int32(space))...)
	}
	at := make([]model.Expected, len(ids))
	sooner := false
	for _, p := range paces {
		if p == due && !sooner {
			continue
		}
		f, left := ahead(s, p, m), len(ids)
		f.until(func() bool {
			for left > 0 && f.began[ids[left-1]] != 0 {
				left--
			}
			return left == 0
		})
		for i, id := range ids {
			at[i].Add(id, f.began[id], p == slow)
		}
		sooner = f.sooner
	}
	return slices.DeleteFunc(at, func(a model.Expected) bool { return a.Earliest == 0 })
}

func ahead(s *explainer, p pace, m MeasuredRuns) forward {
	return forward{whatIf: &whatIf{explainer: s.cloneIn(&s.copies().tried), at: s.now}, pace: p, most: estimateSteps, measured: m, known: s.habits, draw: HabitDraw{Of: draws}}
}

// pace says how soon what runs ends: as late as its limit and its grace allow; as soon as is
// likely, but what is stopped after its whole grace; and both with what is stopped ending at once,
// of which the last one counts what such work usually takes. How a job ends can change which one
// goes next, so all four are tried.
type pace int8

const (
	slow pace = iota
	due
	prompt
	quick
	drawing // one of several draws
)

// paces are those of every estimate, in order.
var paces = [...]pace{slow, due, prompt, quick}

// forward lets what runs on a copy of the state end, one after the other.
type forward struct {
	*whatIf
	pace     pace
	most     int // steps
	measured MeasuredRuns
	declared bool // only what jobs declare counts
	draw     HabitDraw
	known    Habits            // of draws
	any      bool              // something may end otherwise in another draw
	spread   bool              // and ended in this one
	unsure   []model.AttemptID // of which only the limit is known, in a draw
	ends     collections.Heap[plannedEnd]
	seen     map[model.AttemptID]model.AttemptState // as of which the end was planned
	began    map[model.JobID]model.Time             // when jobs first got cells
	steps    int
	bounded  bool
	sooner   bool // an attempt likely ends before it has to
	open     bool // an attempt ended of which only the limit is known
	ended    int
	kinds    HabitTally
	log      []model.EstimatedEnd
}

// plannedEnd is when the tasks of an attempt die.
type plannedEnd struct {
	at     model.Time
	id     model.AttemptID
	exit   Exit
	basis  HabitBasis
	spread bool // it may be another time in another draw
}

// Before orders by time, then attempt.
func (p plannedEnd) Before(o plannedEnd) bool {
	return p.at < o.at || p.at == o.at && compareAttempts(p.id, o.id) < 0
}

// run goes on until the gang has its cells; it returns when that is.
func (f *forward) run(id model.JobID, g int32) (model.Time, bool) {
	return f.until(func() bool { return f.placed(id, g) })
}

func (f *forward) until(done func() bool) (model.Time, bool) {
	f.seen, f.began = map[model.AttemptID]model.AttemptState{}, map[model.JobID]model.Time{}
	for {
		for _, r := range f.look() {
			if e, ok := r.Event.(Placed); ok && f.began[e.Attempt.Job] == 0 {
				f.began[e.Attempt.Job] = f.at
			}
		}
		f.steps++
		if done() {
			return f.at, true
		}
		next := f.Wake()
		if len(f.ends) > 0 && (next == 0 || f.ends[0].at < next) {
			next = f.ends[0].at
		}
		if next == 0 {
			return 0, false
		}
		if f.steps >= f.most {
			f.bounded = true
			return 0, false
		}
		f.at = max(f.at, next)
		for len(f.ends) > 0 && f.ends[0].at <= f.at {
			f.end(f.ends.Pop())
		}
	}
}

// look decides, lets what was placed start, and decides again as the core does when it hears of a
// start.
func (f *forward) look() []Record {
	log := f.decide()
	for n := 0; f.watch() && n < maxLooks; n++ {
		log = append(log, f.decide()...)
	}
	return log
}

// maxLooks bounds how often it is decided again at one instant after starts.
const maxLooks = 32

// watch starts the tasks of attempts that are new, and plans their ends. It reports whether it
// started some.
func (f *forward) watch() (starts bool) {
	for i := range f.attempts {
		a := &f.attempts[i]
		if a.job == none || a.state == model.AttemptReserving || a.state == model.AttemptUnknown || f.seen[a.id] == a.state {
			continue
		}
		id := a.id
		if a.state == model.AttemptStarting {
			for _, o := range f.jobs[a.job].spec.Gangs[id.Gang].Tasks {
				f.fact(TaskStarted{Attempt: id, Task: o})
			}
			starts = true
		}
		f.seen[id] = a.state
		f.expect(a)
	}
	return starts
}

// expect plans the end of an attempt.
func (f *forward) expect(a *attempt) {
	if a.state == model.AttemptStopping {
		at := f.at
		if f.pace == slow || f.pace == due || f.draw.K%2 == 1 {
			at = max(at, a.told.Add(f.jobs[a.job].spec.Grace))
		}
		f.ends.Push(plannedEnd{at: at, id: a.id, exit: Exit{Code: exitStopped}, basis: ByStop})
		return
	}
	if f.pace == drawing {
		e := f.drawn(a)
		if e.open {
			f.unsure = append(f.unsure, a.id)
		}
		if f.any = f.any || e.spread; e.at > 0 {
			f.ends.Push(plannedEnd{at: e.at, id: a.id, basis: e.by, spread: e.spread})
		}
		return
	}
	f.any = f.any || f.pace == slow && f.draw.Of > 0 && f.drawn(a).spread
	b := f.span(a)
	at, by := b.late, b.basis
	f.sooner = f.sooner || b.early < b.late
	switch f.pace {
	case due:
		at, by = b.early, b.soon
	case quick:
		at, by = f.soonest(a, b)
	}
	if at > 0 && (f.pace == quick || by != ByLimit) { // the core keeps a time limit itself
		f.ends.Push(plannedEnd{at: max(at, f.at), id: a.id, basis: by})
	}
}

// span is when an attempt should end, by all that is known, or by what its job declares alone.
func (f *forward) span(a *attempt) span {
	if f.declared {
		return f.spanOf(a, nil, 0)
	}
	return f.spanOf(a, f.measured, byReports(&f.index, a))
}

// end lets an attempt's tasks die, and remembers what it was planned by.
func (f *forward) end(p plannedEnd) {
	a := f.live(p.id)
	if a == nil || a.alive == 0 || a.state == model.AttemptStopping && p.basis != ByStop {
		return
	}
	b := p.basis
	if a.cause == model.EndTimeLimit {
		b = ByLimit
	}
	f.ended++
	f.spread = f.spread || p.spread
	f.open = f.open || b != ByStop && f.opens(a)
	if b != ByStop {
		f.kinds.Add(b)
	}
	if len(f.log) < maxNamed {
		f.log = append(f.log, model.EstimatedEnd{Job: p.id.Job, Name: f.jobs[a.job].spec.Name, At: f.at,
			Basis: b.Text()})
	}
	f.kill(p.id, p.exit)
}

// mayBeSooner reports whether a start rests on jobs of which only the time limit is known: one of
// them ended first, or might have ended before those that did.
func (f *forward) mayBeSooner(id model.JobID, g int32) bool {
	if f.open || !f.kinds.Any() {
		return f.open
	}
	ids := f.endable(f.find(id), int(g))
	for i := range f.attempts {
		a := &f.attempts[i]
		if a.job != none && a.id.Job != id && a.state != model.AttemptReserving && slices.Contains(ids, a.id.Job) && f.opens(a) {
			return true
		}
	}
	return false
}

// ifAccepted ends what a start rests on, where nodes refused the gang lately and may do so again.
func ifAccepted(s *tables, j *job, g int32) string {
	if slices.ContainsFunc(rare(j.gangs[g].odd).avoid, func(a avoidance) bool { return a.Until > s.now }) {
		return "; only if the node accepts it then"
	}
	return ""
}

// words says what a run rests on.
func (f *forward) words() string {
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
func (f *forward) against(was *explainer, j *job) string {
	sooner, later, behind := []string(nil), []string(nil), false
	for _, id := range was.order(was.space(j.spec.VC)) {
		o := was.find(id)
		at := f.began[id]
		switch {
		case id == j.id:
			behind = true
		case (o.spec.Priority < cell.MinGuaranteed) != (j.spec.Priority < cell.MinGuaranteed): // another queue
		case behind && at > 0 && at < f.at:
			sooner = append(sooner, was.nameTo(j.spec.User, id))
		case !behind && (at == 0 || at > f.at):
			later = append(later, was.nameTo(j.spec.User, id))
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
func (f *forward) missing(id model.JobID, g int32) (string, []model.JobID) {
	if f.bounded {
		return fmt.Sprintf("it still waits after %d decisions, the most that an estimate looks ahead", f.most), nil
	}
	j := f.find(id)
	if j == nil {
		return "it ends before it starts", nil
	}
	why := f.reason(j, g)
	var ids []model.JobID
	var whys []string
	for _, b := range inTheWay(f.explainer, j, int(g), &why) {
		h := f.find(b)
		for k := range h.gangs {
			at := h.gangs[k].attempt
			if at == none || slices.Contains(ids, b) {
				continue
			}
			if span := f.span(&f.attempts[at]); span.late == 0 {
				ids = append(ids, b)
				whys = append(whys, fmt.Sprintf("job %s %s", strings.TrimPrefix(f.nameTo(j.spec.User, b), "job "), span.why))
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
