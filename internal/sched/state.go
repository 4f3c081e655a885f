package sched

// Version names the decision code. Journal entries of another version are
// replayed but not decided again by `journal verify`.
const Version = "1"

// State is everything the core knows: a fold over events.
type State struct {
}

// New returns the empty state, before any Configured event.
func New(policies Policies) *State { panic("wip") }

// Seq returns the number of events applied so far.
func (s *State) Seq() uint64 { panic("wip") }

// Now returns the time of the latest event or decision: time never goes back.
func (s *State) Now() Time { panic("wip") }

// Config returns the present configuration, nil before the first; do not change it.
func (s *State) Config() *Config { panic("wip") }

// Check judges a command against the state without changing it. Accepted: the
// events to apply (none when an idempotency key repeats) and the answer.
func (s *State) Check(c Command, now Time) ([]Event, Answer, *Refusal) { panic("wip") }

// Accept turns a fact into the events to apply; none when it is stale or known.
func (s *State) Accept(f Fact) []Event { panic("wip") }

// Apply folds one record into the state. It never fails: a record that does not
// fit the state is a bug and panics with the numbers.
func (s *State) Apply(r Record) { panic("wip") }

// Decide takes every decision that is due at now. It returns the records of its
// decisions, already applied, numbered on from Seq, ending with Decided; it
// returns nil when there was nothing to look at.
func (s *State) Decide(now Time) []Record { panic("wip") }

// Wake returns when Decide wants to run again by itself; 0 is never.
func (s *State) Wake() Time { panic("wip") }

// Actions returns what the executor must do about an event that was just
// applied; call it after Apply of that very event, or after the whole batch.
func (s *State) Actions(e Event) []Action { panic("wip") }

// Outstanding returns the actions of all live attempts, marked Known: what an
// executor is told after a restart.
func (s *State) Outstanding() []Action { panic("wip") }

// TakeEnded returns the final status of the jobs that ended since the last call.
func (s *State) TakeEnded() []JobStatus { panic("wip") }

// Clone returns a copy that shares only what never changes.
func (s *State) Clone() *State { panic("wip") }

// Save returns the canonical snapshot of the state: equal states give equal bytes.
func (s *State) Save() []byte { panic("wip") }

// Load returns the state that a snapshot describes.
func Load(snapshot []byte, policies Policies) (*State, error) { panic("wip") }

// Digest is the hex SHA-256 of Save.
func (s *State) Digest() string { panic("wip") }

// Verify checks every invariant of the state and returns all breaches.
func (s *State) Verify() error { panic("wip") }

// Jobs returns the jobs that have not ended, in submission order.
func (s *State) Jobs() []JobStatus { panic("wip") }

// Job returns one job that has not ended.
func (s *State) Job(id JobID) (JobStatus, bool) { panic("wip") }

// Spec returns what was submitted for a job that has not ended.
func (s *State) Spec(id JobID) (*Job, bool) { panic("wip") }

// ByName returns the job of that name that has not ended.
func (s *State) ByName(n JobName) (JobID, bool) { panic("wip") }

// Explain says why a job's gangs wait, by the code that decides.
func (s *State) Explain(id JobID) (Explanation, bool) { panic("wip") }

// VCs returns all virtual clusters in order of name.
func (s *State) VCs() []VCStatus { panic("wip") }

// Nodes returns all nodes in order of name.
func (s *State) Nodes() []NodeStatus { panic("wip") }

// Cells returns the physical cells, top level first.
func (s *State) Cells() []CellStatus { panic("wip") }

// EncodeEvent returns an event's kind, version and JSON for the journal.
func EncodeEvent(e Event) (kind Kind, version int, data []byte, err error) { panic("wip") }

// DecodeEvent is the inverse of EncodeEvent. An unknown kind or a newer version
// is an error.
func DecodeEvent(kind Kind, version int, data []byte) (Event, error) { panic("wip") }
