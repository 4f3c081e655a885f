package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// Span is when an attempt should end: between Early and Late; 0 is unknown, and Why says why.
// EarlyBasis is what Early rests on, LateBasis what Late rests on.
type Span struct {
	Early, Late           model.Time
	EarlyBasis, LateBasis model.EndBasis
	Open                  bool // only its limit is known: it may end at any time before
	Why                   string
}

// SpanOf judges when an attempt ends. A time limit ends it at the latest. When it likely ends
// follows from what its tasks report, else from the duration that its job declares, else from the
// run times of earlier jobs of that name. reported is the result of ByReports; 0 leaves it out.
func (s *Status) SpanOf(a *tables.Attempt, m model.MeasuredRuns, reported model.Duration) Span {
	spec := s.Jobs[a.Job].Spec
	seen, measured := m.Of(spec.User, spec.Name)
	limit, likely, overdue := spec.TimeLimit, spec.Hints.Duration, "runs longer than expected"
	out := Span{LateBasis: model.BasisDuration}
	if reported > 0 {
		likely, out.LateBasis, overdue = reported, model.BasisSteps, "runs longer than its reported steps need"
	} else if likely == 0 && measured {
		likely, out.LateBasis = seen.Mean(), model.BasisEarlierRuns
	}
	if spec.Hints.Checkpoint && reported == 0 && likely > 0 { // earlier attempts saved their work
		likely = max(likely-s.Jobs[a.Job].Gangs[a.ID.Gang].Ran, 1)
	}
	out.EarlyBasis = out.LateBasis
	switch {
	case a.State == model.AttemptUnknown:
		return Span{Why: "has lost contact with its tasks"}
	case limit > 0:
		out.Late, out.LateBasis = s.Reaches(a, limit), model.BasisLimit
		if out.Open = likely == 0; out.Open || likely >= limit {
			likely, out.EarlyBasis = limit, model.BasisLimit
		}
		out.Early = s.Reaches(a, likely)
	case likely > 0:
		out.Early, out.Late = s.Reaches(a, likely), s.Reaches(a, likely)
		if out.LateBasis == model.BasisEarlierRuns {
			out.Late = s.Reaches(a, max(likely, seen.Max))
		}
		if out.Late < s.Now {
			return Span{Why: overdue + " and declares no time limit"}
		}
	default:
		return Span{Why: "declares no time limit"}
	}
	out.Early, out.Late = max(out.Early, s.Now), max(out.Late, s.Now)
	return out
}

// ByReports is how long an attempt will have run when each of its tasks has done the steps that it
// announced, at its mean rate since its first report; 0 if no task reported enough. A task with a
// single report counts as having begun with no step done when its attempt started, if that is the
// gang's first attempt.
func ByReports(s *index.Index, a *tables.Attempt) (total model.Duration) {
	j := &s.Jobs[a.Job]
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		p := j.Tasks[o].Progress
		if a.Started == 0 || p == nil || p.Total <= 0 || p.StepAt < a.Started {
			continue
		}
		from, since := p.From, p.FromAt
		if since < a.Started || p.Step <= from {
			if j.Gangs[a.ID.Gang].Ran > 0 {
				continue
			}
			from, since = 0, a.Started
		}
		later := s.RanSince(a, p.StepAt)
		took := s.RanSince(a, since) - later
		if took > 0 && p.Step > from {
			total = max(total, s.RanFor(a)-later+model.MulDiv(took, max(p.Total-p.Step, 0), p.Step-from))
		}
	}
	return total
}

// jobOutlook is how far a job is that runs or is being stopped, and when the last of its gangs
// ends; nil if nothing is known.
func (s *Status) jobOutlook(j *tables.Job) *model.JobOutlook {
	out := model.JobOutlook{}
	var done, told int64
	for i := range j.Tasks {
		if p := j.Tasks[i].Progress; p != nil && p.Total > 0 {
			done, told, out.At = done+int64(model.MulDiv(1000, max(min(p.Step, p.Total), 0),
				p.Total)), told+1, max(out.At, p.StepAt)
		}
	}
	out.Done = int32(done / max(told, 1))
	known := true
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None || s.Attempts[at].State == model.AttemptReserving {
			known = known && j.Gangs[g].Done // it has still to run
			continue
		}
		end := AttemptEnd(s, &s.Attempts[at])
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

// AttemptEnd is when an attempt ends: by its stop if it is being stopped, else by its span.
func AttemptEnd(s *Status, a *tables.Attempt) model.JobOutlook {
	if a.State == model.AttemptStopping {
		return model.JobOutlook{Ends: a.StopSentAt.Add(s.Jobs[a.Job].Spec.Grace), Last: true,
			Basis: "the grace of its stop"}
	}
	b := s.SpanOf(a, nil, ByReports(&s.Index, a))
	if b.Late == 0 {
		return model.JobOutlook{Basis: "it " + b.Why}
	}
	if b.Early <= s.Now { // it runs longer than expected: only the limit is known
		b.Early, b.EarlyBasis = b.Late, b.LateBasis
	}
	return model.JobOutlook{Ends: b.Early, Last: b.EarlyBasis == model.BasisLimit, Basis: b.EarlyBasis.Text()}
}

// AllocEnd is when an allocation is freed at the latest, by what the jobs of its members declare;
// 0 if that is not known of each.
func (s *Status) AllocEnd(id cell.AllocID) model.Time {
	var last model.Time
	for at := s.ByAlloc[id]; at != tables.None; at = s.Attempts[at].NextMember {
		a := &s.Attempts[at]
		end, _ := goneBy(&s.Tables, a, s.SpanOf(a, nil, 0))
		if end == 0 {
			return 0
		}
		last = max(last, end)
	}
	return last
}

// mostComing bounds how many coming events are told of one job.
const mostComing = 16

// Foresight tells what will happen to running jobs.
type Foresight struct{ *Status }

// coming is what will happen to a job, as far as that is known: in order of time, what has no time
// last.
func (s Foresight) coming(j *tables.Job) []model.Coming {
	var out []model.Coming
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if len(out) >= mostComing {
			break
		}
		if at == tables.None || s.Attempts[at].State == model.AttemptReserving {
			continue
		}
		for _, c := range s.ofAttempt(&s.Attempts[at]) {
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

func (s Foresight) ofAttempt(a *tables.Attempt) (out []model.Coming) {
	j := &s.Jobs[a.Job]
	if a.Cause != 0 {
		out = append(out, model.Coming{Kind: model.ComesStop, At: a.StopSentAt.Add(j.Spec.Grace), Message: s.stops(a)})
	} else {
		out = s.forced(a)
	}
	if a.Orphaned {
		const says = "it runs on devices no longer in the configuration: it may finish there, but not start there again"
		out = append(out, model.Coming{Kind: model.ComesFile, Message: says})
	}
	if len(s.Leaves) > 0 || s.Cluster.AnyBadOrUnknown() {
		out = append(out, s.badHardware(a)...)
	}
	return out
}

// forced are the times at which an attempt will be told to stop: by a drain, its time limit or its
// lease.
func (s Foresight) forced(a *tables.Attempt) (out []model.Coming) {
	j := &s.Jobs[a.Job]
	if s.Dirty.DrainingNodes > 0 {
		if n, ok := s.drainOf(a, ""); ok {
			out = append(out, s.drainComing(j, a.ID.Gang, &n))
		}
	}
	if j.Spec.TimeLimit > 0 && a.Started > 0 {
		out = append(out, model.Coming{Kind: model.ComesLimit, At: s.Reaches(a, j.Spec.TimeLimit),
			Message: fmt.Sprintf("its time limit of %s is over: it is stopped, and not tried again",
				model.SpanText(int64(j.Spec.TimeLimit)))})
	}
	if p, ok := s.Policies[j.Space].(model.Leaser); ok && a.Started > 0 && !a.Lazy &&
		j.Spec.Priority >= cell.MinGuaranteed {
		out = append(out, model.Coming{Kind: model.ComesLease, At: p.LeaseEnds(a.Started, s.Now),
			Message: fmt.Sprintf("its lease under %s ends: it gets another one, or is stopped and queued again%s",
				model.ConfigOfVC(s.Config, j.Spec.VC).Policy, zeroEnds(j, a.ID.Gang))})
	}
	return out
}

// stops says what becomes of an attempt that is being stopped.
func (s Foresight) stops(a *tables.Attempt) string {
	j := &s.Jobs[a.Job]
	text := fmt.Sprintf("it was told to stop (%s): tasks still running then are killed", a.Cause)
	switch {
	case j.Stop || a.Cause == model.EndStopped || a.Cause == model.EndTimeLimit || a.Cause == model.EndEarly ||
		j.Completing != nil:
		return text + ", and the job ends"
	case a.Cause == model.EndCompleted:
		return text
	}
	return text + ", and it is queued again" + zeroEnds(j, a.ID.Gang)
}

// zeroEnds says that a gang is over if it exits with code 0 after a stop; "" if it is not.
func zeroEnds(j *tables.Job, g int32) string { return model.ExitZeroText(WhyZeroEnds(j, g)) }

// WhyZeroEnds is why a gang is over if it exits with code 0 after a stop; "" if it is not, or its
// tasks have no grace to exit in.
func WhyZeroEnds(j *tables.Job, g int32) string {
	if j.Spec.Grace <= 0 {
		return ""
	}
	if j.Spec.Hints.ExitZeroMeansDone {
		return "as its job file says"
	}
	reports := func(o int32) bool { return j.Tasks[o].AnnouncesSteps() } // its reports say whether it is done
	if j.Spec.Hints.Checkpoint || slices.ContainsFunc(j.Spec.Gangs[g].Tasks, reports) {
		return ""
	}
	return "since checkpoint is off"
}

// drainOf is the node that an attempt has to leave first because of a drain; the node but does not
// count.
func (s Foresight) drainOf(a *tables.Attempt, but cell.NodeName) (first tables.NodeNote, ok bool) {
	j := &s.Jobs[a.Job]
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		if t := &j.Tasks[o]; t.Place != nil && !t.Dead && t.Place.Node != but {
			if n := s.NodeNote(t.Place.Node); n.Cordon && n.Drain > 0 && (!ok || n.Drain < first.Drain) {
				first, ok = n, true
			}
		}
	}
	return first, ok
}

func (s Foresight) drainComing(j *tables.Job, g int32, n *tables.NodeNote) model.Coming {
	const says = "node %s is drained%s: the job is told to stop, has a grace period of %s, and is queued again%s"
	text := fmt.Sprintf(says, n.Name, state.InBrackets(n.Cordoned), model.SpanText(int64(j.Spec.Grace)), zeroEnds(j, g))
	return model.Coming{Kind: model.ComesDrain, At: n.Drain, Message: text}
}

// badHardware are the bad nodes and devices that an attempt runs on.
func (s Foresight) badHardware(a *tables.Attempt) (out []model.Coming) {
	j := &s.Jobs[a.Job]
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		t := &j.Tasks[o]
		if t.Place == nil || t.Dead {
			continue
		}
		if len(out) >= mostComing {
			break
		}
		if n := s.NodeNote(t.Place.Node); n.Down {
			const says = "node %s does not answer%s: the job may still run there, and keeps its devices"
			out = append(out, model.Coming{Kind: model.ComesBad,
				Message: fmt.Sprintf(says, n.Name, state.InBrackets(n.Reason))})
		}
		for i := range s.Leaves {
			if l := &s.Leaves[i]; !l.HeldByOthers && !l.Cordoned && s.uses(t.Place, l) {
				const says = "%s %d of node %s is declared bad%s: the job goes on there, and nothing new starts on it"
				text := fmt.Sprintf(says, l.SKU, l.Device, l.Node, state.InBrackets(l.Reason))
				out = append(out, model.Coming{Kind: model.ComesBad, Message: text})
			}
		}
	}
	return out
}

// uses reports whether a task was started on a leaf.
func (s Foresight) uses(on *cell.Task, l *tables.LeafNote) bool {
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

// Warn returns the events that tell the owners of jobs on a node what a cordon, drain or its end
// means for them.
func (s Foresight) Warn(e *model.NodeCordoned) (out []model.Event) {
	before := s.NodeNote(e.Node)
	note := tables.NodeNote{Name: e.Node, Cordoned: e.Reason, Drain: e.Drain}
	told := map[model.JobID]bool{}
	for _, on := range s.On(e.Node) {
		j := s.Find(on.Job)
		if told[on.Job] || s.Live(on.Attempt).Cause != 0 {
			continue
		}
		told[on.Job] = true
		switch {
		case e.On && e.Drain > s.Now:
			out = append(out, model.Foretold{Job: on.Job, Coming: s.drainComing(j, on.Attempt.Gang, &note)})
		case before.Cordon && before.Drain > 0 && e.Drain == 0:
			if other, ok := s.drainOf(s.Live(on.Attempt), e.Node); ok {
				out = append(out, model.Foretold{Job: on.Job, Coming: s.drainComing(j, on.Attempt.Gang, &other)})
				continue
			}
			says := fmt.Sprintf("the drain of node %s is cancelled: the job goes on there", e.Node)
			out = append(out, model.Foretold{Job: on.Job, Coming: model.Coming{Kind: model.ComesDrain, Message: says}})
		}
	}
	return out
}

// UnsavedBy is how long an attempt has run since its last checkpoint, or without one since it was
// placed. It is in whole milliseconds: a stop that follows the command a microsecond later must
// not show more in a plan.
func UnsavedBy(s *index.Index, a *tables.Attempt) model.Duration {
	from := a.Checkpoint
	if from == a.Started {
		from = a.Placed
	}
	d := s.RanSince(a, from)
	return d - d%model.Millisecond
}
