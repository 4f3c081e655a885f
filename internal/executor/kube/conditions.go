package kube

import (
	"fmt"
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
	mu    sync.Mutex
	since time.Time // since when it does not; zero: it does
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

// watchServer notes when the API server goes away, and when it is back, and logs both once. It asks
// nothing while all requests are answered.
func (e *Executor) watchServer() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.o.API.Missed():
		}
		began := time.Now()
		for err := e.o.API.Ready(e.ctx); err != nil && e.ctx.Err() == nil; err = e.o.API.Ready(e.ctx) {
			if time.Since(began) >= awayAfter && e.server.set(began).IsZero() {
				e.o.API.Quiet(true)
				e.o.Log.Warn("the API server of Kubernetes does not answer: nothing new starts, and what becomes of pods is not seen", "server", e.o.API.Host(), "since", began.UTC().Format(time.RFC3339), "error", api.ErrorText(err))
			}
			e.pause(probeEvery)
		}
		if was := e.server.set(time.Time{}); !was.IsZero() && e.ctx.Err() == nil {
			e.o.API.Quiet(false)
			e.o.Log.Info("the API server of Kubernetes answers again", "server", e.o.API.Host(), "away", time.Since(was).Round(time.Second).String())
		}
		e.pause(probeEvery) // a proxy, or a kubelet that is away, may leave many requests unanswered
	}
}

// pause waits, or until the executor is closed.
func (e *Executor) pause(d time.Duration) {
	select {
	case <-e.ctx.Done():
	case <-time.After(d):
	}
}

// Conditions implements executor.HasConditions.
func (e *Executor) Conditions() (list []executor.Condition) {
	if since := e.server.away(); !since.IsZero() {
		list = append(list, executor.Condition{Text: fmt.Sprintf("the API server of Kubernetes has not answered since %s: "+
			"what is told of jobs and nodes is as it was then, and nothing new starts", since.UTC().Format(time.RFC3339))})
	}
	return append(list, program{e}.conditions()...)
}
