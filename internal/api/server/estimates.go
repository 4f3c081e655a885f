package server

import (
	"context"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

const (
	// keepEstimates is how long they are told again, and also estimateRest times as long as they
	// took, but not more than mostEstimateAge: so they take no more than a twentieth of a
	// processor, however many ask, unless they take seconds.
	keepEstimates   = 10 * time.Second
	estimateRest    = 20
	mostEstimateAge = time.Minute
)

// estimateCache is when jobs start, as it was worked out last. Its zero value is ready; it may be
// used by many at a time.
type estimateCache struct {
	once sync.Once
	busy chan struct{} // holds a token while the rest is used
	at   time.Time
	took time.Duration
	list map[model.JobID]model.Expected
}

// Use calls use with what is known and when it was worked out, which work does anew where it is too
// old. While that goes on the others wait.
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
