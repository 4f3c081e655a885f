// Package core is the decision core as the rest of Comb uses it: State checks commands, applies
// events, decides and explains. It is pure: it is given time, ids and randomness and never fetches
// them, and the same events give the same decisions bit for bit. It must not know how tasks run,
// how events are stored or how users reach the system.
package core

import (
	"iter"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/explain"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/reconfigure"
)

// State is everything that the core knows. It is not safe for concurrent use.
type State struct{ in *explain.Explainer }

// New returns the empty state, before any Configured event.
func New(policies model.Policies) *State {
	in := &explain.Explainer{}
	in.NewPolicy, in.NextJob = policies, 1
	return &State{in}
}

// Load returns the state that a snapshot describes. A snapshot that this binary cannot read, or
// that contradicts itself, is an error: fold the journal instead.
func Load(snapshot []byte, policies model.Policies) (*State, error) {
	s := New(policies)
	if err := s.in.Load(snapshot); err != nil {
		return nil, err
	}
	return s, nil
}

// Clone returns a copy that shares only what never changes.
func (s *State) Clone() *State { return &State{s.in.Copy()} }

// At returns a copy of the state as of a later time, for explanations and estimates that are asked
// for while nothing happens.
func (s *State) At(now model.Time) *State { return s.AtIn(new(CopyMemory), now) }

// CopyMemory is memory for copies of states, one copy after the other.
type CopyMemory struct{ in explain.CopyMemory }

// AtIn is At in the memory of an earlier copy, which must not be used any more.
func (s *State) AtIn(spare *CopyMemory, now model.Time) *State {
	return &State{s.in.CopyAt(&spare.in, now)}
}

// AsOf is the state as of a later time, to be read at once: which gangs have their turn depends on
// time alone. It shares everything with the state.
func (s *State) AsOf(now model.Time) *State { return &State{s.in.AsOf(now)} }

// Check judges a command against the state without changing it. If it accepts, it returns the
// events to apply (none if nothing changes) and the answer. Idempotency keys are the loop's
// matter.
func (s *State) Check(c model.Command, now model.Time) ([]model.Event, model.Answer, *model.Refusal) {
	if c, ok := c.(model.Reconfigure); ok {
		return reconfigure.Planner{Explainer: s.in}.CheckReconfigure(c, now)
	}
	return s.in.Admit(c)
}

// PlanConfig says every effect that a command would have, and changes nothing.
func (s *State) PlanConfig(c model.Reconfigure) (*model.ConfigPlan, *model.Refusal) {
	return reconfigure.Planner{Explainer: s.in}.PlanConfig(c)
}

// PlanDrain says what a drain of a node by a deadline would do to each job that runs there, and to
// the jobs that give way to those. It must not be called in the loop.
func (s *State) PlanDrain(c model.Cordon) (*model.DrainPlan, *model.Refusal) {
	return reconfigure.Planner{Explainer: s.in}.PlanDrain(c)
}

// Report fills the answer to a command with what its records say.
func (s *State) Report(a *model.Answer, records []model.Record) {
	reconfigure.Planner{Explainer: s.in}.Report(a, records)
}

// Accept turns a fact into the events to apply; none if it is stale or known. They are valid until
// the next call.
func (s *State) Accept(f model.Fact) []model.Event { return s.in.Accept(f) }

// Actions appends what the executor must do about an event that was just applied. Call it after
// Apply of that very event, or after the whole batch.
func (s *State) Actions(to []model.Action, e model.Event) []model.Action {
	return actions{s.in}.of(to, e)
}

// Apply folds one record into the state. It never fails: a record that does not fit the state is a
// bug, and Apply panics with the numbers.
func (s *State) Apply(r model.Record) { s.in.Apply(r) }

// Aside returns the event that sets a job aside once more. It is false if there is no such job, or
// it was set aside as often as may be.
func (s *State) Aside(id model.JobID, stack string) (model.Quarantined, bool) {
	return s.in.Aside(id, stack)
}

// ByName returns a user's job of that name that has not ended.
func (s *State) ByName(user model.Subject, n model.JobName) (model.JobID, bool) {
	return s.in.ByName(user, n)
}

// Cells returns the physical cells, top level first.
func (s *State) Cells() []model.CellStatus { return s.in.Cells() }

// Config returns the present configuration, nil before the first; do not change it.
func (s *State) Config() *model.Config { return s.in.Config }

// Decide takes every decision that is due at now. It returns the records of its decisions, already
// applied, numbered on from Seq, ending with Decided; it returns nil if there was nothing to look
// at.
//
// First it settles what happened: attempts end, jobs complete, retry or end, promises that cannot
// be kept are taken back. Then the walk places guaranteed gangs. Idle capacity is lent last, once
// nothing asks for another look: else a borrower could be started, and stopped by the next look
// for a guaranteed gang.
func (s *State) Decide(now model.Time) []model.Record { return s.in.Decide(now) }

// Digest is the hex SHA-256 of Save.
func (s *State) Digest() string { return s.in.Digest() }

// DropEnded forgets the jobs that ended, if their status is not wanted.
func (s *State) DropEnded() { s.in.DropEnded() }

// DryRun says what would become of a job that is submitted now: a copy of the state gets it, and
// decides. The explanation's Places say where it would start and Preempts which jobs would have to
// leave first. If it would wait, or could never start, its gangs have the reasons, and the
// estimate is there. A refusal comes with an explanation only if the job can never fit.
func (s *State) DryRun(spec *model.Job, m model.MeasuredRuns) (model.Explanation, *model.Refusal) {
	return s.in.DryRun(spec, m)
}

// Estimate runs copies of the state forward at several paces. It is false if no gang of the job
// waits. It must not be called in the loop.
func (s *State) Estimate(id model.JobID, m model.MeasuredRuns) (model.Estimate, bool) {
	return s.in.Estimate(id, m)
}

// Explain says all about why a job waits: what Why says, and for each shape of its gangs the cells
// of every level and the changes that would let it start; which jobs are before it, and which hold
// what it could use. It takes decisions on copies, so it must not be called in the loop.
func (s *State) Explain(id model.JobID) (model.Explanation, bool) { return s.in.Explain(id) }

// Failing names the policy that ran when Apply, Decide, Wake or Actions panicked, and its VC. It
// is false if no policy ran, or the fallback did. Nothing else may be asked of the state then.
func (s *State) Failing() (model.PolicyFailed, bool) { return s.in.Failing() }

// CloseGap returns the records that close the gap of lost events, lost.First to lost.Last; they are
// applied to the present state. seen are attempts of which traces were found. No job or attempt
// number up to theirs, or up to lost.NextJob, is given out again.
func (s *State) CloseGap(lost model.Lost, seen []model.AttemptID) []model.Record {
	return s.in.CloseGap(lost, seen)
}

// NumberGiven reports whether an attempt's number was given out: its job's, and while the job has
// not ended its own. The number of a mere reservation was not. For a job alone ask with N 0.
func (s *State) NumberGiven(a model.AttemptID) bool { return s.in.NumberGiven(a) }

// InLine goes through the waiting jobs of a VC in the order in which they are served: guaranteed
// ones, then those that wait for what other VCs leave idle.
func (s *State) InLine(vc cell.VCName) iter.Seq[model.JobID] { return s.in.WaitingJobs(vc) }

// IsHeld reports whether a user holds a job.
func (s *State) IsHeld(id model.JobID) bool { return s.in.IsHeld(id) }

// Job returns one job that has not ended.
func (s *State) Job(id model.JobID) (model.JobStatus, bool) { return s.in.Job(id) }

// Jobs returns the jobs that have not ended, in submission order.
func (s *State) Jobs() []model.JobStatus { return s.in.Statuses() }

// LeavesOf names the leaves of a node.
func (s *State) LeavesOf(node cell.NodeName) (list []model.LeafHealth) { return s.in.LeavesOf(node) }

// NameFor has the texts of a copy of a state name jobs for a reader: the reader's own as NAME,
// others as USER~NAME.
func (s *State) NameFor(reader model.Subject) { s.in.NameFor(reader) }

// Newest goes through the jobs that have not ended and that want accepts, in the opposite order of
// submission. It makes the status of these alone: the first few of very many jobs cost little.
func (s *State) Newest(want func(model.JobID, *model.Job, model.Phase) bool) iter.Seq[model.JobStatus] {
	return s.in.Newest(want)
}

// NextJob is the id that the next job gets.
func (s *State) NextJob() model.JobID { return s.in.NextJob }

// Nodes returns all nodes in order of name.
func (s *State) Nodes() []model.NodeStatus { return s.in.NodeStatuses() }

// Now returns the time of the latest event or decision: time never goes back.
func (s *State) Now() model.Time { return s.in.Now }

// On returns what runs, or may still run, on a node, in order of attempts.
func (s *State) On(node cell.NodeName) []model.OnNode { return s.in.On(node) }

// Outstanding returns the actions of all live attempts, marked Known: what an executor is told
// after a restart. A stopping attempt has two: one to adopt it, one to stop it.
func (s *State) Outstanding() []model.Action { return actions{s.in}.outstanding() }

// Replaceable reports whether a VC is still served by the policy that failed, and the fallback
// would be something else.
func (s *State) Replaceable(e model.PolicyFailed) bool { return s.in.Replaceable(e) }

// Save returns the canonical snapshot of the state: equal states give equal bytes.
func (s *State) Save() []byte { return s.in.Save() }

// Seq returns the number of events applied so far.
func (s *State) Seq() uint64 { return s.in.Seq }

// Settle decides, and again as long as a decision asks for another one at once: all that follows
// by itself from what happened. It returns the records of all these decisions.
func (s *State) Settle(now model.Time) []model.Record { return s.in.Settle(now) }

// Size is how many jobs there are that have not ended.
func (s *State) Size() int { return s.in.Size() }

// Spec returns what was submitted for a job that has not ended.
func (s *State) Spec(id model.JobID) (*model.Job, bool) { return s.in.Spec(id) }

// Starts tells when the jobs that wait would start, as Estimate does for one, but without draws:
// each run goes on for all of them, as far as its decisions reach. It must not be called in the
// loop.
func (s *State) Starts(m model.MeasuredRuns) []model.Expected { return s.in.Starts(m) }

// Steps is how many steps the searches of a state's decisions and checks have taken so far; it is
// the same on every machine. A copy begins at 0.
func (s *State) Steps() (n int64) { return s.in.Steps() }

// TakeEnded returns the final status of the jobs that ended since the last call.
func (s *State) TakeEnded() []model.JobStatus { return s.in.TakeEnded() }

// Takes counts the GPUs of a job that has not ended.
func (s *State) Takes(id model.JobID) int64 { return s.in.Takes(id) }

// TellFor does what NameFor and HideNames do to a state itself, until back is called. What the
// state caches meanwhile serves every reader: no name of a job is in it.
func (s *State) TellFor(reader model.Subject, hides func(*model.Job) bool) (back func()) {
	return s.in.TellFor(reader, hides)
}

// FailedToMake are the policies of the configuration in force that this program cannot make, by VC.
// Until a PolicyFailed event is applied for each, only this state knows: the keeper of the journal
// applies these events before anything else is decided.
func (s *State) FailedToMake() []model.PolicyFailed { return s.in.FailedToMake }

// VCs returns all virtual clusters in order of name.
func (s *State) VCs() []model.VCStatus { return s.in.VCs() }

// HideNames hides the names of some jobs in the texts of a copy of a state.
func (s *State) HideNames(hides func(*model.Job) bool) { s.in.HideNames(hides) }

// HidesName reports whether texts hide a job's name.
func (s *State) HidesName(j *model.Job) bool { return s.in.HidesName(j) }

// Verify checks every invariant of the state and returns all breaches.
func (s *State) Verify() error { return s.in.Verify() }

// VerifyWake checks that what Wake noted, when the order of each VC changes by itself, follows
// from the state: a restarted core finds it out anew. It holds between decisions, whereas Verify
// holds after every event; after Verify, some of it is found out anew.
func (s *State) VerifyWake() error { return s.in.VerifyWake() }

// Wake returns when Decide wants to run again by itself; 0 is never.
func (s *State) Wake() model.Time { return s.in.Wake() }

// Why says why a job's gangs wait, by the code that decides: the short form of
// Explain, for lists.
func (s *State) Why(id model.JobID) (model.Explanation, bool) { return s.in.Why(id) }
