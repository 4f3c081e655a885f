// Package limiter bounds what users have open at the same time and lets them wait for it in turn,
// so that no user keeps all others out. It must not open or close anything itself.
package limiter

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Limiter is a number of places of one kind. Set the exported fields before the first Take or
// Wait.
type Limiter struct {
	All  int    // the number of places
	One  int    // the most places of one user
	What string // what takes a place, for messages: "streams"
	// Line is how many requests of one user may wait for a place, Lines is that of all users
	// together.
	Line, Lines int
	// OnTurn, if set, is called with the user whose turn it is, one call at a time and in order.
	OnTurn func(by string)
	// Group, if set, is a user's group. Groups take turns, and users within each group. Where all
	// lines are full the group with the most requests gives way.
	Group func(by string) string
	// Order, if set, says which of two waiting users comes first: below 0 it is a. Equal ones
	// take turns.
	Order func(a, b string) int

	mu      sync.Mutex
	open    int
	by      map[string]int
	lines   map[string][]*place
	next    []string // users that wait, the one whose turn is next first
	waiting int
}

// place is one waiting request.
type place struct {
	ready chan struct{} // closed when the place is given, or lost
	lost  bool
}

// Full is the error of a request that may not even wait.
type Full struct{ text string }

// Error implements error.
func (f *Full) Error() string { return f.text }

// Take gives a user a place until leave is called, which may be called more than once. refusal
// says why there is none.
func (s *Limiter) Take(by string) (leave func(), refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[by] >= s.One:
		return nil, fmt.Sprintf(
			"%s has %d %s open, the most that one user may have; close one or try again", by, s.One, s.What)
	case s.open >= s.All:
		return nil, fmt.Sprintf(
			"%d %s are open, the most that this server allows; close one or try again", s.All, s.What)
	}
	return s.give(by), ""
}

// Wait gives a user a place as Take does, but waits for it in turn: each waiting user is served
// once before any is served twice, and the requests of one user in their order. The error is a
// Full, or that of ctx.
func (s *Limiter) Wait(ctx context.Context, by string) (leave func(), err error) {
	s.mu.Lock()
	if s.open < s.All && s.by[by] < s.One { // then no waiting user could have it
		defer s.mu.Unlock()
		return s.give(by), nil
	}
	p, err := s.join(by)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		if s.quit(by, p) {
			return nil, ctx.Err()
		}
	}
	if p.lost {
		return nil, s.full()
	}
	return sync.OnceFunc(func() { s.free(by) }), nil
}

// SetOnTurn sets OnTurn while places are in use; nil sets none.
func (s *Limiter) SetOnTurn(f func(by string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.OnTurn = f
}

// give gives a place; the mutex is held.
func (s *Limiter) give(by string) (leave func()) {
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.open++
	s.by[by]++
	if s.OnTurn != nil {
		s.OnTurn(by)
	}
	return sync.OnceFunc(func() { s.free(by) })
}

// join puts a request at the end of its user's line. Where all lines together are full, the
// longest line of the largest group gives way to a shorter one. The mutex is held.
func (s *Limiter) join(by string) (*place, error) {
	if len(s.lines[by]) >= s.Line {
		return nil, &Full{fmt.Sprintf(
			"%s has %d requests waiting for their turn (%s), the most that one user may have; try again",
			by, s.Line, s.What)}
	}
	if s.waiting >= s.Lines && !s.shorten(by) {
		return nil, s.full()
	}
	if s.lines == nil {
		s.lines = map[string][]*place{}
	}
	if len(s.lines[by]) == 0 {
		s.next = append(s.next, by)
	}
	p := &place{ready: make(chan struct{})}
	s.lines[by] = append(s.lines[by], p)
	s.waiting++
	return p, nil
}

func (s *Limiter) full() error {
	return &Full{fmt.Sprintf(
		"%d requests wait for their turn (%s), the most that this server allows; try again", s.Lines, s.What)}
}

// shorten removes the last request of the longest line, if that line is longer than the user's
// own would become. With groups it is a line of the group with the most waiting requests, if
// those are more than in the user's own.
func (s *Limiter) shorten(by string) bool {
	sizes := map[string]int{}
	for _, user := range s.next {
		sizes[s.group(user)] += len(s.lines[user])
	}
	own := s.group(by)
	from, most := own, sizes[own]+1
	for _, user := range s.next {
		if g := s.group(user); sizes[g] > most {
			from, most = g, sizes[g]
		}
	}
	longest, n := "", 0
	if from == own {
		n = len(s.lines[by]) + 1
	}
	for _, user := range slices.Backward(s.next) {
		if s.group(user) == from && len(s.lines[user]) > n {
			longest, n = user, len(s.lines[user])
		}
	}
	line := s.lines[longest]
	if len(line) == 0 {
		return false
	}
	last := line[len(line)-1]
	last.lost = true
	close(last.ready)
	s.leave(longest, last)
	return true
}

func (s *Limiter) group(by string) string {
	if s.Group == nil {
		return by
	}
	return s.Group(by)
}

// leave removes a request from its line; the mutex is held.
func (s *Limiter) leave(by string, p *place) {
	line := slices.DeleteFunc(s.lines[by], func(q *place) bool { return q == p })
	s.waiting--
	if s.lines[by] = line; len(line) == 0 {
		delete(s.lines, by)
		s.next = slices.DeleteFunc(s.next, func(user string) bool { return user == by })
	}
}

// quit removes a request whose client has gone from its line; false: its turn has come meanwhile.
func (s *Limiter) quit(by string, p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.lines[by], p) {
		return false
	}
	s.leave(by, p)
	return true
}

// Taken returns how many places are taken.
func (s *Limiter) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Waiting returns how many requests of a user wait.
func (s *Limiter) Waiting(by string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines[by])
}

func (s *Limiter) free(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.by[by]--; s.by[by] == 0 {
		delete(s.by, by)
	}
	for s.open < s.All {
		user, ok := s.first()
		if !ok {
			return
		}
		p := s.lines[user][0]
		s.leave(user, p)
		s.behind(user)
		s.give(user)
		close(p.ready)
	}
}

// first returns the user whose turn it is; false where none may have a place. The mutex is held.
func (s *Limiter) first() (user string, ok bool) {
	for _, one := range s.next {
		if s.by[one] < s.One && (!ok || s.Order(one, user) < 0) {
			user, ok = one, true
			if s.Order == nil {
				break
			}
		}
	}
	return user, ok
}

// behind moves the group of a user that was served behind all other waiting groups, and the user
// to the end within it. The mutex is held.
func (s *Limiter) behind(served string) {
	of := s.group(served)
	next, last := make([]string, 0, len(s.next)), []string(nil)
	for _, user := range s.next {
		if s.group(user) != of {
			next = append(next, user)
		} else if user != served {
			last = append(last, user)
		}
	}
	next = append(next, last...)
	if len(s.lines[served]) > 0 {
		next = append(next, served)
	}
	s.next = next
}
