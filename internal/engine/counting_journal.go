package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/model"
)

// CountingJournal is a Journal that keeps nothing but the number of events, for an engine with
// Options.Alone whose history is not needed. Folding from it is an error.
type CountingJournal struct{ last uint64 }

// errNoEvents ends a loop that would have to fold its history again.
var errNoEvents = errors.New("this journal keeps no events")

// Append implements Journal.
func (s *CountingJournal) Append(_ context.Context, b Batch) error {
	if b.First != s.last+1 {
		return fmt.Errorf("%w: it ends at event %d, the batch begins at %d", ErrFenced, s.last, b.First)
	}
	s.last = b.Last()
	return nil
}

// Replay implements Journal.
func (s *CountingJournal) Replay(context.Context, uint64, func(model.Record) error) error {
	if s.last > 0 {
		return errNoEvents
	}
	return nil
}

// Snapshot implements Journal.
func (s *CountingJournal) Snapshot(context.Context) ([]byte, uint64, error) { return nil, 0, nil }

// SaveSnapshot implements Journal.
func (s *CountingJournal) SaveSnapshot(context.Context, uint64, []byte) error { return nil }
