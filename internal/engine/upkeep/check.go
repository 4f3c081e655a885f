package upkeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
)

// CheckDirectory replays the journal of a data directory and checks all its other tables.
func CheckDirectory(ctx context.Context, dir string, policies model.Policies) error {
	h, err := store.OpenHistory(ctx, dir)
	if err != nil {
		return err
	}
	r, err := engine.Verify(ctx, h, policies)
	for _, p := range r.Problems {
		err = errors.Join(err, fmt.Errorf("event %d: %s", p.Seq, p.Message))
	}
	return errors.Join(err, h.Close())
}
