package server

import (
	"context"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

const (
	// keepEstimates is how long estimates are reused. If computing them took longer they are
	// also reused estimateRest times as long as that, but not longer than mostEstimateAge. So
	// they need at most a twentieth of a processor, however many ask, unless they take
	// seconds.
	keepEstimates   = 10 * time.Second
	estimateRest    = 20
	mostEstimateAge = time.Minute
)

// estimateCache keeps the last estimates of when jobs start. Its zero value is ready. It may
// be used by many goroutines.
type estimateCache struct {
	once sync.Once
	busy chan struct{} // holds a token while the fields below are used
	at   time.Time
	took time.Duration
	list map[model.JobID]model.Expected
}

// Use calls use with the estimates and the time of their computation. If they are too old it
// computes them by work first, and other callers wait.
func (s *estimateCache) Use(ctx context.Context, work func(context.Context) ([]model.Expected, error), use func(map[model.JobID]model.Expected, time.Time) error) error {
	s.once.Do(func() { s.busy = make(chan struct{}, 1) })
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if age := time.Since(s.at); s.list == nil || age > keepEstimates &&
		age > min(estimateRest*s.took, mostEstimateAge) {
		begin := time.Now()
		list, err := work(ctx)
		if err != nil {
			return err
		}
		s.at, s.took, s.list = begin, time.Since(begin), make(map[model.JobID]model.Expected, len(list))
		for _, e := range list {
			s.list[e.Job] = e
		}
	}
	return use(s.list, s.at)
}
