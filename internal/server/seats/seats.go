// Package seats counts what users have open at one time, so that no user keeps all others out. It must not open or close
// anything itself.
package seats

import (
	"fmt"
	"sync"
)

// Seats are places of one kind. All, One and What are set before the first Take.
type Seats struct {
	All  int    // places that there are
	One  int    // of them for one user
	What string // what takes one, for a sentence: "streams"

	mu   sync.Mutex
	open int
	by   map[string]int
}

// Take counts a user in, until leave is called, which may be done more than once. refusal says why it may not be.
func (s *Seats) Take(by string) (leave func(), refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[by] >= s.One:
		return nil, fmt.Sprintf("%s has %d %s open, the most that one user may have; close one or try again", by, s.One, s.What)
	case s.open >= s.All:
		return nil, fmt.Sprintf("%d %s are open, the most that this server allows; close one or try again", s.All, s.What)
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.open++
	s.by[by]++
	return sync.OnceFunc(func() { s.free(by) }), ""
}

// Taken returns how many places are taken.
func (s *Seats) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *Seats) free(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.by[by]--; s.by[by] == 0 {
		delete(s.by, by)
	}
}
