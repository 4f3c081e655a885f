package docker

import (
	"context"
	"sync"
)

// Gate is a mutex whose wait can be given up. Its zero value is unlocked.
type Gate struct {
	once sync.Once
	in   chan struct{}
}

// Enter locks it; leave unlocks it. The end of ctx is its only error.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	g.once.Do(func() { g.in = make(chan struct{}, 1) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	select {
	case g.in <- struct{}{}:
		return func() { <-g.in }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
