package link

import (
	"sync"
	"time"
)

// A pod may ask so often, of all that can be asked: a task that waits for its turn asks most, some
// 20 times a second.
const (
	askEvery  = 25 * time.Millisecond // on average
	askAtOnce = 40
)

// pace holds each pod to so many requests. One that asks more often is told so before anything is
// looked up for it, so that it takes nothing from the others but the time of its own connections.
type pace struct {
	now func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // when a pod has not asked for so long that it may ask askAtOnce times
	tidy  int                  // when so many are noted those that have passed go
}

func newPace(now func() time.Time) *pace {
	return &pace{now: now, until: map[string]time.Time{}}
}

// allows notes that a pod asks, and reports whether it may.
func (p *pace) allows(pod string) bool {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.until[pod]
	if until.Before(now) {
		until = now
	}
	if until.Sub(now) > (askAtOnce-1)*askEvery {
		return false
	}
	if len(p.until) >= p.tidy {
		for other, at := range p.until { // in any order
			if at.Before(now) {
				delete(p.until, other)
			}
		}
		p.tidy = 2*len(p.until) + 1024
	}
	p.until[pod] = until.Add(askEvery)
	return true
}
