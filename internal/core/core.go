// Package core is the decision core as its users know it: State, which checks commands, applies
// events, decides and explains. It is pure: it takes time, ids and randomness, it never fetches
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

// Load returns the state that a snapshot describes. A snapshot that this binary
// cannot read, or that contradicts itself, is an error: fold the log instead.
func Load(snapshot []byte, policies model.Policies) (*State, error) {
	s := New(policies)
	if err := s.in.Load(snapshot); err != nil {
		return nil, err
	}
	return s, nil
}

// Clone returns a copy that shares only what never changes.
func (s *State) Clone() *State { return &State{s.in.Copy()} }

// At returns a copy of the state as of a later time, for explanations and
// estimates that are asked for while nothing happens.
func (s *State) At(now model.Time) *State { return s.AtIn(new(Spare), now) }

// Spare is memory for copies of states, one after the other.
type Spare struct{ in explain.CopyMemory }

// AtIn is At in memory that copies of other states had: none of them may be used any more.
func (s *State) AtIn(spare *Spare, now model.Time) *State {
	return &State{s.in.At(&spare.in, now)}
}

// AsOf is the state as of a later time, to be read at once: who has whose turn depends
// on it, though nothing happened. It shares everything with the state.
func (s *State) AsOf(now model.Time) *State { return &State{s.in.AsOf(now)} }

// Check judges a command against the state without changing it. Accepted: the
// events to apply (none when nothing changes) and the answer. It knows no idempotency
// keys: the loop does.
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

// PlanDrain says what a drain of a node by a time would do to each job that runs there, and to
// those that give way to them. It must not be called in the loop.
func (s *State) PlanDrain(c model.Cordon) (*model.DrainPlan, *model.Refusal) {
	return reconfigure.Planner{Explainer: s.in}.PlanDrain(c)
}

// Report fills the answer to a command with what its records say.
func (s *State) Report(a *model.Answer, records []model.Record) {
	reconfigure.Planner{Explainer: s.in}.Report(a, records)
}

// Accept turns a fact into the events to apply; none when it is stale or known. They
// are there until the next call.
func (s *State) Accept(f model.Fact) []model.Event { return s.in.Accept(f) }

// Actions appends what the executor must do about an event that was just
// applied; call it after Apply of that very event, or after the whole batch.
func (s *State) Actions(to []model.Action, e model.Event) []model.Action {
	return actions{s.in}.of(to, e)
}

// Apply folds one record into the state. It never fails: a record that does not
// fit the state is a bug and panics with the numbers.
func (s *State) Apply(r model.Record) { s.in.Apply(r) }

// Aside returns the event that sets a job aside once more; false where there is no such job,
// or nothing is decided on it as it is.
func (s *State) Aside(id model.JobID, stack string) (model.Quarantined, bool) {
	return s.in.Aside(id, stack)
}

// ByName returns the job of that name of a user that has not ended.
func (s *State) ByName(user model.Subject, n model.JobName) (model.JobID, bool) {
	return s.in.ByName(user, n)
}

// Cells returns the physical cells, top level first.
func (s *State) Cells() []model.CellStatus { return s.in.Cells() }

// Config returns the present configuration, nil before the first; do not change it.
func (s *State) Config() *model.Config { return s.in.Config }

// Decide takes every decision that is due at now. It returns the records of its decisions, already
// applied, numbered on from Seq, ending with Decided; it returns nil when there was nothing to look
// at.
//
// First what happened is settled: attempts end, jobs complete, retry or end, promises that cannot
// be kept are taken back. Then the walk places who waits with a guarantee. What is left is lent
// last of all, once nothing asks for another look: else who borrows could be started, and stopped
// by the next look for somebody guaranteed.
func (s *State) Decide(now model.Time) []model.Record { return s.in.Decide(now) }

// Digest is the hex SHA-256 of Save.
func (s *State) Digest() string { return s.in.Digest() }

// DropEnded forgets the jobs that ended, where nobody wants their status.
func (s *State) DropEnded() { s.in.DropEnded() }

// DryRun says what would become of a job that is submitted now: it is submitted
// to a copy of the state, and decided on. The explanation's Places say where it
// would start and Preempts who would have to leave first; when it would wait, or
// could never start, its gangs have the reasons, and the estimate is there. A
// refusal comes with an explanation only when the job can never fit.
func (s *State) DryRun(spec *model.Job, m model.MeasuredRuns) (model.Explanation, *model.Refusal) {
	return s.in.DryRun(spec, m)
}

// Estimate runs copies of the state forward at several paces. It is false when nothing
// of the job waits. It must not be called in the loop.
func (s *State) Estimate(id model.JobID, m model.MeasuredRuns) (model.Estimate, bool) {
	return s.in.Estimate(id, m)
}

// Explain says all about why a job waits: Why, and for each shape of its gangs
// the cells of every level and the changes that would let it start; who is before
// it, and who holds what it could use. It takes decisions on copies, so it must
// not be called in the loop.
func (s *State) Explain(id model.JobID) (model.Explanation, bool) { return s.in.Explain(id) }

// Failing names the policy whose code ran when Apply, Decide, Wake or Actions panicked, and
// its VC; false where none did, or where the fallback did. The state is of no other use then.
func (s *State) Failing() (model.PolicyFailed, bool) { return s.in.Failing() }

// Forgo returns what closes the gap that events First to Last of lost leave: it is applied behind
// the present state, record by record. Seen are attempts of which something was found; whatever
// they and NextJob say is taken, no number up to theirs is given again.
func (s *State) Forgo(lost model.Lost, seen []model.AttemptID) []model.Record {
	return s.in.Forgo(lost, seen)
}

// Given reports whether an attempt's number was given out: that of its job, and, while the job
// has not ended, its own. One that is only promised was not; of a job alone ask for attempt 0.
func (s *State) Given(a model.AttemptID) bool { return s.in.Given(a) }

// InLine goes through the jobs that wait in a VC in the order in which they are served: those for
// what the VC is guaranteed, then those for what others leave.
func (s *State) InLine(vc cell.VCName) iter.Seq[model.JobID] { return s.in.InLine(vc) }

// IsHeld reports whether a user holds a job.
func (s *State) IsHeld(id model.JobID) bool { return s.in.IsHeld(id) }

// Job returns one job that has not ended.
func (s *State) Job(id model.JobID) (model.JobStatus, bool) { return s.in.Job(id) }

// Jobs returns the jobs that have not ended, in submission order.
func (s *State) Jobs() []model.JobStatus { return s.in.Statuses() }

// LeavesOf names the leaves of a node.
func (s *State) LeavesOf(node cell.NodeName) (list []model.LeafHealth) { return s.in.LeavesOf(node) }

// NameFor has the texts of a copy of a state name jobs as their reader does: NAME is the reader's
// own, USER~NAME another's.
func (s *State) NameFor(reader model.Subject) { s.in.NameFor(reader) }

// Newest goes through the jobs that have not ended and are wanted, in the opposite order. It makes
// the status of those alone: of very many jobs the first few cost little.
func (s *State) Newest(want func(model.JobID, *model.Job, model.Phase) bool) iter.Seq[model.JobStatus] {
	return s.in.Newest(want)
}

// NextJob is the number that the next job gets.
func (s *State) NextJob() model.JobID { return s.in.NextJob }

// Nodes returns all nodes in order of name.
func (s *State) Nodes() []model.NodeStatus { return s.in.NodeStatuses() }

// Now returns the time of the latest event or decision: time never goes back.
func (s *State) Now() model.Time { return s.in.Now }

// On returns what runs, or may live, on a node, in order of job.
func (s *State) On(node cell.NodeName) []model.OnNode { return s.in.On(node) }

// Outstanding returns the actions of all live attempts, marked Known: what an
// executor is told after a restart. A stopping attempt is named twice, to be
// adopted and then stopped.
func (s *State) Outstanding() []model.Action { return actions{s.in}.outstanding() }

// Replaceable reports whether a VC is still served by the policy that failed, and the
// fallback would be something else.
func (s *State) Replaceable(e model.PolicyFailed) bool { return s.in.Replaceable(e) }

// Save returns the canonical snapshot of the state: equal states give equal bytes.
func (s *State) Save() []byte { return s.in.Save() }

// Seq returns the number of events applied so far.
func (s *State) Seq() uint64 { return s.in.Seq }

// Settle decides, and again as long as a decision asks for another one at once, which is all that
// follows by itself from what happened. It returns the records of all.
func (s *State) Settle(now model.Time) []model.Record { return s.in.Settle(now) }

// Size is how many jobs there are that have not ended.
func (s *State) Size() int { return s.in.Size() }

// Spec returns what was submitted for a job that has not ended.
func (s *State) Spec(id model.JobID) (*model.Job, bool) { return s.in.Spec(id) }

// Starts tells when the jobs that wait would start, as Estimate does for one, but without draws:
// each run goes on for all of them, as far as its decisions reach. It must not be called in the
// loop.
func (s *State) Starts(m model.MeasuredRuns) []model.Expected { return s.in.Starts(m) }

// Steps is how many steps the searches of a state's decisions and checks have taken so far, the
// same on every machine. A copy begins at 0.
func (s *State) Steps() (n int64) { return s.in.Steps() }

// TakeEnded returns the final status of the jobs that ended since the last call.
func (s *State) TakeEnded() []model.JobStatus { return s.in.TakeEnded() }

// Takes counts the GPUs of a job that has not ended.
func (s *State) Takes(id model.JobID) int64 { return s.in.Takes(id) }

// Telling is both for a state itself, until back is called. What the state remembers meanwhile
// serves every reader: no name of a job is in it.
func (s *State) Telling(reader model.Subject, hides func(*model.Job) bool) (back func()) {
	return s.in.Telling(reader, hides)
}

// Unmade are the policies of the configuration in force that this program cannot make, by VC.
// As long as no PolicyFailed is applied for them only this state knows: who keeps the journal
// applies these events before anything else is decided.
func (s *State) Unmade() []model.PolicyFailed { return s.in.Unmade }

// VCs returns all virtual clusters in order of name.
func (s *State) VCs() []model.VCStatus { return s.in.VCs() }

// Veil hides names of jobs in what a copy of a state says.
func (s *State) Veil(hides func(*model.Job) bool) { s.in.Veil(hides) }

// Veiled reports whether it hides that of one.
func (s *State) Veiled(j *model.Job) bool { return s.in.Veiled(j) }

// Verify checks every invariant of the state and returns all breaches.
func (s *State) Verify() error { return s.in.Verify() }

// VerifyWake checks that what Wake noted, when the order of each VC changes by itself, follows
// from the state: after a restart it is found out anew. It holds between decisions, where Verify
// holds after every event; Verify asks what lets some of it be found out anew.
func (s *State) VerifyWake() error { return s.in.VerifyWake() }

// Wake returns when Decide wants to run again by itself; 0 is never.
func (s *State) Wake() model.Time { return s.in.Wake() }

// Why says why a job's gangs wait, by the code that decides: the short form of
// Explain, for lists.
func (s *State) Why(id model.JobID) (model.Explanation, bool) { return s.in.Why(id) }
