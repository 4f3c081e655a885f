package link

import (
	"sync"
	"time"
)

// These bound how often a pod may ask, all kinds of requests together. A task that waits for its
// turn asks most, some 20 times a second.
const (
	askEvery  = 25 * time.Millisecond // on average
	askAtOnce = 40
)

// pace limits the request rate of each pod. One that asks too often is told so before anything is
// looked up for it, so it costs other pods nothing.
type pace struct {
	now func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // when a pod may again ask askAtOnce times in a row
	tidy  int                  // at this many entries the expired ones are removed
}

func newPace(now func() time.Time) *pace {
	return &pace{now: now, until: map[string]time.Time{}}
}

// allows notes a request of a pod, and reports whether it may be answered.
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
