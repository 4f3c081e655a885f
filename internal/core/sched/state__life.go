package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// span is between when and when an attempt should end; 0 is not known, and why
// says so. soon is what the early end rests on, basis the late one.
type span struct {
	early, late model.Time
	soon, basis HabitBasis
	open        bool // only its limit is known: it may end at any time before
	why         string
}

// spanOf judges when an attempt ends: a time limit ends it at the latest; what its tasks report,
// else what its job declares or how long the same ran before, says when it likely does. reported is
// what byReports says; 0 leaves that out.
func (s *fold) spanOf(a *attempt, m MeasuredRuns, reported model.Duration) span {
	spec := s.jobs[a.job].spec
	seen, measured := m.Of(spec.User, spec.Name)
	limit, likely, overdue := spec.TimeLimit, spec.Hints.Duration, "runs longer than expected"
	out := span{basis: ByDeclared}
	if reported > 0 {
		likely, out.basis, overdue = reported, ByReported, "runs longer than its reported steps need"
	} else if likely == 0 && measured {
		likely, out.basis = seen.Mean(), ByMeasured
	}
	if spec.Hints.Checkpoint && reported == 0 && likely > 0 { // what earlier attempts did is saved
		likely = max(likely-s.jobs[a.job].gangs[a.id.Gang].ran, 1)
	}
	out.soon = out.basis
	switch {
	case a.state == model.AttemptUnknown:
		return span{why: "has lost contact with its tasks"}
	case limit > 0:
		out.late, out.basis = s.reaches(a, limit), ByLimit
		if out.open = likely == 0; out.open || likely >= limit {
			likely, out.soon = limit, ByLimit
		}
		out.early = s.reaches(a, likely)
	case likely > 0:
		out.early, out.late = s.reaches(a, likely), s.reaches(a, likely)
		if out.basis == ByMeasured {
			out.late = s.reaches(a, max(likely, seen.Max))
		}
		if out.late < s.now {
			return span{why: overdue + " and declares no time limit"}
		}
	default:
		return span{why: "declares no time limit"}
	}
	out.early, out.late = max(out.early, s.now), max(out.late, s.now)
	return out
}

// byReports is for how long an attempt will have run when each of its tasks has done the steps that
// it announced, at the mean rate since its first report; 0 where none said enough. A task that has
// reported once is taken to have begun with no step done when its attempt started, if that is the
// gang's first.
func byReports(s *index, a *attempt) (total model.Duration) {
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		p := j.tasks[o].progress
		if a.started == 0 || p == nil || p.Total <= 0 || p.StepAt < a.started {
			continue
		}
		from, since := p.From, p.FromAt
		if since < a.started || p.Step <= from {
			if j.gangs[a.id.Gang].ran > 0 {
				continue
			}
			from, since = 0, a.started
		}
		later := s.ranSince(a, p.StepAt)
		took := s.ranSince(a, since) - later
		if took > 0 && p.Step > from {
			total = max(total, s.ranFor(a)-later+Portion(took, max(p.Total-p.Step, 0), p.Step-from))
		}
	}
	return total
}

// jobOutlook is how far a job is that runs or is being stopped, and when the last of its gangs
// ends; nil where nothing is known.
func (s *fold) jobOutlook(j *job) *model.JobOutlook {
	out := model.JobOutlook{}
	var done, told int64
	for i := range j.tasks {
		if p := j.tasks[i].progress; p != nil && p.Total > 0 {
			done, told, out.At = done+int64(Portion(1000, max(min(p.Step, p.Total), 0), p.Total)), told+1, max(out.At, p.StepAt)
		}
	}
	out.Done = int32(done / max(told, 1))
	known := true
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || s.attempts[at].state == model.AttemptReserving {
			known = known && j.gangs[g].done // it has still to run
			continue
		}
		end := attemptEnd(s, &s.attempts[at])
		if known = known && end.Ends > 0; end.Ends == 0 || end.Ends >= out.Ends {
			out.Ends, out.Last, out.Basis = end.Ends, end.Last, end.Basis
		}
	}
	if !known {
		out.Ends, out.Last = 0, false
	}
	if out == (model.JobOutlook{}) {
		return nil
	}
	return &out
}

// attemptEnd is when an attempt ends, as its span or its stop says.
func attemptEnd(s *fold, a *attempt) model.JobOutlook {
	if a.state == model.AttemptStopping {
		return model.JobOutlook{Ends: a.told.Add(s.jobs[a.job].spec.Grace), Last: true, Basis: "the grace of its stop"}
	}
	b := s.spanOf(a, nil, byReports(&s.index, a))
	if b.late == 0 {
		return model.JobOutlook{Basis: "it " + b.why}
	}
	if b.early <= s.now { // later than was thought: only the limit is known
		b.early, b.soon = b.late, b.basis
	}
	return model.JobOutlook{Ends: b.early, Last: b.soon == ByLimit, Basis: b.soon.Text()}
}

// allocEnd is when an allocation is given back by what the jobs of its members
// declare; 0 when that is not known of all.
func (s *fold) allocEnd(id cell.AllocID) model.Time {
	var last model.Time
	for at := s.byAlloc[id]; at != none; at = s.attempts[at].mate {
		a := &s.attempts[at]
		end, _ := goneBy(&s.tables, a, s.spanOf(a, nil, 0))
		if end == 0 {
			return 0
		}
		last = max(last, end)
	}
	return last
}

// mostComing bounds what is told of one job.
const mostComing = 16

// foresight tells what will happen to jobs that run.
type foresight struct{ *fold }

// coming is all that will happen to a job, as far as that is known: the first thing first, and what
// has no time last.
func (s foresight) coming(j *job) []model.Coming {
	var out []model.Coming
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if len(out) >= mostComing {
			break
		}
		if at == none || s.attempts[at].state == model.AttemptReserving {
			continue
		}
		for _, c := range s.ofAttempt(&s.attempts[at]) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b model.Coming) int {
		if (a.At == 0) != (b.At == 0) {
			return cmp.Compare(b.At, a.At)
		}
		return cmp.Compare(a.At, b.At)
	})
	return out[:min(len(out), mostComing)]
}

func (s foresight) ofAttempt(a *attempt) (out []model.Coming) {
	j := &s.jobs[a.job]
	if a.cause != 0 {
		out = append(out, model.Coming{Kind: ComesStop, At: a.told.Add(j.spec.Grace), Message: s.stops(a)})
	} else {
		out = s.forced(a)
	}
	if a.orphaned {
		const says = "it runs on devices no longer in the configuration: it may finish there, but not start there again"
		out = append(out, model.Coming{Kind: ComesFile, Message: says})
	}
	if len(s.leaves) > 0 || s.cl.Ailed() {
		out = append(out, s.ills(a)...)
	}
	return out
}

// forced are the times at which an attempt that runs is told to stop.
func (s foresight) forced(a *attempt) (out []model.Coming) {
	j := &s.jobs[a.job]
	if s.looks.drains > 0 {
		if n, ok := s.drainOf(a, ""); ok {
			out = append(out, s.drained(j, a.id.Gang, &n))
		}
	}
	if j.spec.TimeLimit > 0 && a.started > 0 {
		out = append(out, model.Coming{Kind: ComesLimit, At: s.reaches(a, j.spec.TimeLimit),
			Message: fmt.Sprintf("its time limit of %s is over: it is stopped, and not tried again",
				model.SpanText(int64(j.spec.TimeLimit)))})
	}
	if p, ok := s.pol[j.space].(Leaser); ok && a.started > 0 && !a.lazy && j.spec.Priority >= cell.MinGuaranteed {
		out = append(out, model.Coming{Kind: ComesLease, At: p.LeaseEnds(a.started, s.now),
			Message: fmt.Sprintf("its lease under %s ends: it gets another one, or is stopped and queued again%s",
				model.OfVC(s.cfg, j.spec.VC).Policy, zeroEnds(j, a.id.Gang))})
	}
	return out
}

// stops says what becomes of an attempt that is being stopped.
func (s foresight) stops(a *attempt) string {
	j := &s.jobs[a.job]
	text := fmt.Sprintf("it was told to stop (%s): tasks still running then are killed", a.cause)
	switch {
	case j.stop || a.cause == model.EndStopped || a.cause == model.EndTimeLimit || a.cause == model.EndEarly || j.completing != nil:
		return text + ", and the job ends"
	case a.cause == model.EndCompleted:
		return text
	}
	return text + ", and it is queued again" + zeroEnds(j, a.id.Gang)
}

// zeroEnds says that exit code 0 after a stop is the end of a gang, where it is.
func zeroEnds(j *job, g int32) string { return model.ExitZeroText(whyZeroEnds(j, g)) }

// whyZeroEnds is why exit code 0 after a stop is the end of a gang; "" where it is not, or no task
// has time to answer.
func whyZeroEnds(j *job, g int32) string {
	if j.spec.Grace <= 0 {
		return ""
	}
	if j.spec.Hints.ExitZeroMeansDone {
		return "as its job file says"
	}
	reports := func(o int32) bool { return j.tasks[o].counts() } // its reports say whether it is done
	if j.spec.Hints.Checkpoint || slices.ContainsFunc(j.spec.Gangs[g].Tasks, reports) {
		return ""
	}
	return "since checkpoint is off"
}

// drainOf is the node that an attempt has to leave first, by a deadline that is still to come; one
// node does not count.
func (s foresight) drainOf(a *attempt, but cell.NodeName) (first nodeNote, ok bool) {
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if t := &j.tasks[o]; t.place != nil && !t.dead && t.place.Node != but {
			if n := s.noted(t.place.Node); n.Cordon && n.Drain > 0 && (!ok || n.Drain < first.Drain) {
				first, ok = n, true
			}
		}
	}
	return first, ok
}

func (s foresight) drained(j *job, g int32, n *nodeNote) model.Coming {
	const says = "node %s is drained%s: the job is told to stop, has a grace period of %s, and is queued again%s"
	text := fmt.Sprintf(says, n.Name, inBrackets(n.Cordoned), model.SpanText(int64(j.spec.Grace)), zeroEnds(j, g))
	return model.Coming{Kind: ComesDrain, At: n.Drain, Message: text}
}

// ills are what is declared bad of that which an attempt runs on.
func (s foresight) ills(a *attempt) (out []model.Coming) {
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := &j.tasks[o]
		if t.place == nil || t.dead {
			continue
		}
		if len(out) >= mostComing {
			break
		}
		if n := s.noted(t.place.Node); n.Down {
			const says = "node %s does not answer%s: the job may still run there, and keeps its devices"
			out = append(out, model.Coming{Kind: ComesBad, Message: fmt.Sprintf(says, n.Name, inBrackets(n.Reason))})
		}
		for i := range s.leaves {
			if l := &s.leaves[i]; s.uses(t.place, l) {
				const says = "%s %d of node %s is declared bad%s: the job goes on there, and nothing new starts on it"
				text := fmt.Sprintf(says, l.SKU, l.Device, l.Node, inBrackets(l.Reason))
				out = append(out, model.Coming{Kind: ComesBad, Message: text})
			}
		}
	}
	return out
}

// uses reports whether a task was started on a leaf.
func (s foresight) uses(on *cell.Task, l *leafNote) bool {
	if on.Node != l.Node || on.SKU != l.SKU {
		return false
	}
	for i, d := range on.Devices {
		if d == l.Device && (len(on.Parts) == 0 || on.Parts[i] == l.Part) {
			return true
		}
	}
	return false
}

// warn tells the owners of the jobs that run on a node what a change of it means for them.
func (s foresight) warn(e *NodeCordoned) (out []Event) {
	before := s.noted(e.Node)
	note := nodeNote{Name: e.Node, Cordoned: e.Reason, Drain: e.Drain}
	told := map[model.JobID]bool{}
	for _, on := range s.On(e.Node) {
		j := s.find(on.Job)
		if told[on.Job] || s.live(on.Attempt).cause != 0 {
			continue
		}
		told[on.Job] = true
		switch {
		case e.On && e.Drain > s.now:
			out = append(out, Foretold{Job: on.Job, Coming: s.drained(j, on.Attempt.Gang, &note)})
		case before.Cordon && before.Drain > 0 && e.Drain == 0:
			if other, ok := s.drainOf(s.live(on.Attempt), e.Node); ok {
				out = append(out, Foretold{Job: on.Job, Coming: s.drained(j, on.Attempt.Gang, &other)})
				continue
			}
			says := fmt.Sprintf("the drain of node %s is cancelled: the job goes on there", e.Node)
			out = append(out, Foretold{Job: on.Job, Coming: model.Coming{Kind: ComesDrain, Message: says}})
		}
	}
	return out
}
