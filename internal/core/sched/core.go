package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

// State is everything the core knows. It is five things, each of which has those before it: tables,
// index, fold, finder and pass. What needs less is a method of that. It is not safe for concurrent
// use.
type State struct{ *explainer }

// New returns the empty state, before any Configured event.
func New(policies Policies) *State {
	s := &State{&explainer{}}
	s.policies, s.nextJob = policies, 1
	return s
}

// Load returns the state that a snapshot describes. A snapshot that this binary
// cannot read, or that contradicts itself, is an error: fold the log instead.
func Load(snapshot []byte, policies Policies) (*State, error) {
	s := New(policies)
	if err := s.load(snapshot); err != nil {
		return nil, err
	}
	return s, nil
}

// Clone returns a copy that shares only what never changes.
func (s *State) Clone() *State { return &State{s.copy()} }

// At returns a copy of the state as of a later time, for explanations and
// estimates that are asked for while nothing happens.
func (s *State) At(now model.Time) *State { return s.AtIn(new(Spare), now) }

// AtIn is At in memory that copies of other states had: none of them may be used any more.
func (s *State) AtIn(spare *Spare, now model.Time) *State { return &State{s.later(spare, now)} }

// AsOf is the state as of a later time, to be read at once: who has whose turn depends
// on it, though nothing happened. It shares everything with the state.
func (s *State) AsOf(now model.Time) *State {
	c := *s.explainer
	c.now, c.mem = max(s.now, now), memory{}
	c.calls, c.users, c.charges, c.claims, c.copyMemory, c.whole = calls{}, limited{}, moving{}, claimed{}, nil, false
	return &State{&c}
}

// Check judges a command against the state without changing it. Accepted: the
// events to apply (none when nothing changes) and the answer. It knows no idempotency
// keys: the loop does.
func (s *State) Check(c Command, now model.Time) ([]Event, Answer, *Refusal) {
	if c, ok := c.(Reconfigure); ok {
		return planner{s.explainer}.checkReconfigure(c, now)
	}
	return s.admit(c)
}

// PlanConfig says every effect that a command would have, and changes nothing.
func (s *State) PlanConfig(c Reconfigure) (*model.ConfigPlan, *Refusal) {
	return planner{s.explainer}.PlanConfig(c)
}

// PlanDrain says what a drain of a node by a time would do to each job that runs there, and to
// those that give way to them. It must not be called in the loop.
func (s *State) PlanDrain(c Cordon) (*model.DrainPlan, *Refusal) {
	return planner{s.explainer}.PlanDrain(c)
}
