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

// These bound how much a pod may send of what it prints, in KiB: 8 MiB a second, and 32 at once.
// One request counts as 64 KiB at least, also one that is refused for what it says.
const (
	logEvery  = time.Second / (8 << 10)
	logAtOnce = 32 << 10
	leastLog  = 64
)

// pace limits the rate of each pod. One that asks too often is told so once it is known which pod
// it is, before anything else is looked up for it: on a connection that has shown its token, also
// before the token is looked at again.
type pace struct {
	now   func() time.Time
	every time.Duration // for one, on average
	most  int           // at once

	mu    sync.Mutex
	until map[string]time.Time // when a pod may again ask for the most at once
	tidy  int                  // at this many entries the expired ones are removed
}

func newPace(now func() time.Time, every time.Duration, most int) *pace {
	return &pace{now: now, every: every, most: most, until: map[string]time.Time{}}
}

// allows notes so many of a pod, and reports whether they may be answered.
func (p *pace) allows(pod string, n int) bool {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.until[pod]
	if until.Before(now) {
		until = now
	}
	if until.Sub(now) > time.Duration(p.most-n)*p.every {
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
	p.until[pod] = until.Add(time.Duration(n) * p.every)
	return true
}

// penalty is how long a pod is refused that had a place for nothing.
const penalty = 30 * time.Second

// spend notes the most that a pod may at once, and more.
func (p *pace) spend(pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until[pod] = p.now().Add(time.Duration(p.most)*p.every + penalty)
}
