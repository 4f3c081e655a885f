package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// What was worked out is told again until it is old; what fails is not kept.
func TestStarts(t *testing.T) {
	var s estimateCache
	worked := 0
	broken := errors.New("broken")
	work := func(context.Context) ([]model.Expected, error) {
		if worked++; worked == 1 {
			return nil, broken
		}
		return []model.Expected{{Job: 7, Earliest: model.Time(worked)}}, nil
	}
	ask := func(want model.Time) {
		t.Helper()
		err := s.Use(t.Context(), work, func(list map[model.JobID]model.Expected, _ time.Time) error {
			if list[7].Earliest != want {
				t.Errorf("got %v, want %d", list, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := s.Use(t.Context(), work, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ask(2)
	ask(2)
	s.at = s.at.Add(-2 * keepEstimates)
	ask(3)
	s.at, s.took = s.at.Add(-2*keepEstimates), keepEstimates // it took long: it is kept longer
	ask(3)
	s.at = s.at.Add(-mostEstimateAge) // but not for ever
	ask(4)
	s.busy <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Use(ctx, work, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
