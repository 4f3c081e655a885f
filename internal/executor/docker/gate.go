package docker

import (
	"context"
	"sync"
)

// Gate lets one at a time through, and the wait before it can be given up. Its zero value is open.
type Gate struct {
	once sync.Once
	in   chan struct{}
}

// Enter waits for its turn; leave makes room for the next. The end of ctx is its only error.
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
