// Package foreseen keeps what was worked out last about when the jobs that wait start: once for all that ask.
package foreseen

import (
	"context"
	"sync"
	"time"

	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/why"
)

const (
	// keep is how long it is told again, and also rest times as long as it took, but not more than most: so it takes no more than a
	// twentieth of a processor, however many ask, unless it takes seconds.
	keep = 10 * time.Second
	rest = 20
	most = time.Minute
)

// Starts are when jobs start. Its zero value is ready; it may be used by many at a time.
type Starts struct {
	once sync.Once
	busy chan struct{} // holds a token while the rest is used
	at   time.Time
	took time.Duration
	list map[sched.JobID]why.Expected
}

// Use calls use with what is known and when it was worked out, which work does anew where it is too old. While that goes on the
// others wait.
func (s *Starts) Use(ctx context.Context, work func(context.Context) ([]why.Expected, error), use func(map[sched.JobID]why.Expected, time.Time) error) error {
	s.once.Do(func() { s.busy = make(chan struct{}, 1) })
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if age := time.Since(s.at); s.list == nil || age > keep && age > min(rest*s.took, most) {
		begin := time.Now()
		list, err := work(ctx)
		if err != nil {
			return err
		}
		s.at, s.took, s.list = begin, time.Since(begin), make(map[sched.JobID]why.Expected, len(list))
		for _, e := range list {
			s.list[e.Job] = e
		}
	}
	return use(s.list, s.at)
}
