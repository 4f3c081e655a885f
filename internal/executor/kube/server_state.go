package kube

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
)

// While requests to the API server are not answered it is asked so often whether it is ready. It
// counts as away when it has not been for awayAfter.
const (
	probeEvery = time.Second
	awayAfter  = 2 * time.Second
)

// serverState is whether the API server answers.
type serverState struct {
	api  *api.Client
	log  *slog.Logger
	back func() // called when it is back

	mu    sync.Mutex
	since time.Time // since when it does not answer; zero: it does
}

// away is since when the API server has not answered; zero where it does.
func (s *serverState) away() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

func (s *serverState) set(since time.Time) (was time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, s.since = s.since, since
	return was
}

// watch notes when the API server goes away, and when it is back, and logs both once. It asks
// nothing while all requests are answered.
func (s *serverState) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.api.Missed():
		}
		began := time.Now()
		for err := s.api.Ready(ctx); err != nil && ctx.Err() == nil; err = s.api.Ready(ctx) {
			if time.Since(began) >= awayAfter && s.set(began).IsZero() {
				s.api.Quiet(true)
				s.log.Warn("the API server of Kubernetes does not answer: nothing new starts, and what becomes of pods "+
					"is not seen", "server", s.api.Host(), "error", api.ErrorText(err))
			}
			pause(ctx, probeEvery)
		}
		if was := s.set(time.Time{}); !was.IsZero() && ctx.Err() == nil {
			s.api.Quiet(false)
			s.log.Warn("the API server of Kubernetes answers again", "server", s.api.Host(),
				"away", time.Since(was).Round(time.Second).String())
			s.back()
		}
		pause(ctx, probeEvery) // a proxy, or a kubelet that is away, may leave many requests unanswered
	}
}

// conditions are those that each user sees.
func (s *serverState) conditions() []executor.Condition {
	since := s.away()
	if since.IsZero() {
		return nil
	}
	return []executor.Condition{{Text: fmt.Sprintf("the API server of Kubernetes has not answered since %s: "+
		"what is told of jobs and nodes is as it was then, and nothing new starts", since.UTC().Format(time.RFC3339))}}
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
