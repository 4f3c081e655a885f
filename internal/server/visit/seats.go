package visit

import (
	"fmt"
	"sync"
)

// How many visits there may be at one time.
const (
	most    = 256
	mostOne = 64 // of one user, so that no one keeps all others out
)

// Seats counts visits. Its zero value is ready.
type Seats struct {
	mu  sync.Mutex
	all int
	by  map[string]int
}

// Take counts a visit of a user in, until leave is called, which may be done more than once. refusal says why it may not be.
func (s *Seats) Take(by string) (leave func(), refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[by] >= mostOne:
		return nil, fmt.Sprintf("%s has %d commands and connections open in tasks, the most that one user may have; close one or try again", by, mostOne)
	case s.all >= most:
		return nil, fmt.Sprintf("%d commands and connections are open in tasks, the most that this server allows; close one or try again", most)
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.all++
	s.by[by]++
	return sync.OnceFunc(func() { s.free(by) }), ""
}

func (s *Seats) free(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.by[by]--; s.by[by] == 0 {
		delete(s.by, by)
	}
}
