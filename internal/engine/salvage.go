package engine

import (
	"context"
	"errors"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// Salvage returns the state as of the last whole batch of a journal that can be read and is
// consistent, starting from its newest sound snapshot. damage is what ends it there, nil if it is
// the end of the journal.
func Salvage(ctx context.Context, j Journal, policies model.Policies) (s *core.State, damage, err error) {
	s, end, damage, err := salvage(ctx, j, policies, 0)
	if err != nil || damage == nil || s.Seq() == end {
		return s, damage, err
	}
	// The state has part of a batch in it, or of what is inconsistent.
	s, _, _, err = salvage(ctx, j, policies, end)
	return s, damage, err
}

// salvage folds a journal up to event last (0: to its end). end is the last event of the last
// whole batch.
func salvage(ctx context.Context, j Journal, policies model.Policies, last uint64) (s *core.State, end uint64, damage, err error) {
	snapshot, _, err := j.Snapshot(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	s = core.New(policies)
	if loaded, err := core.Load(snapshot, policies); err == nil {
		s = loaded
	}
	end = s.Seq()
	damage = j.Replay(ctx, s.Seq(), func(r model.Record) error {
		if last > 0 && r.Seq > last {
			return errEnough
		}
		if err := applyStored(s, r); err != nil {
			return err
		}
		if _, decided := r.Event.(model.Decided); decided {
			end = r.Seq
		}
		return nil
	})
	if errors.Is(damage, errEnough) {
		damage = nil
	}
	s.DropEnded()
	return s, end, damage, ctx.Err()
}

// errEnough ends a replay early.
var errEnough = errors.New("that is enough")
