package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSeats: a user has a share, and all together no more than there is; what ends makes room once.
func TestSeats(t *testing.T) {
	s := Limiter{All: 12, One: 3, What: "streams"}
	var last func()
	for u := range s.All / s.One {
		user := fmt.Sprintf("user%d", u)
		for range s.One {
			leave, why := s.Take(user)
			if why != "" {
				t.Fatalf("%s: %s", user, why)
			}
			last = leave
		}
		if _, why := s.Take(user); !strings.Contains(why, user+" has 3 streams open, the most that one user may have") {
			t.Errorf("one more of %s: %q", user, why)
		}
	}
	if _, why := s.Take("bob"); !strings.Contains(why, "12 streams are open, the most that this server allows") {
		t.Errorf("one more in all: %q", why)
	}
	last()
	last()
	if n := s.Taken(); n != 11 {
		t.Errorf("%d places are taken; want 11", n)
	}
	if _, why := s.Take("bob"); why != "" {
		t.Error(why)
	}
	if _, why := s.Take("alice"); why == "" {
		t.Error("what ended twice made room for two")
	}
}

// line is seats of which one is held, so that all others wait, and whose turns are noted.
func line(t *testing.T, s *Limiter) (order *[]string, release func()) {
	t.Helper()
	var held []func()
	for range s.All {
		leave, err := s.Wait(t.Context(), "holder")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, leave)
	}
	order = &[]string{}
	s.OnTurn = func(by string) { *order = append(*order, by) }
	return order, func() {
		for _, leave := range held {
			leave()
		}
	}
}

// TestTurns: users that wait are served in turn, whatever the number of requests of one; as many
// run at a time as there are places.
func TestTurns(t *testing.T) {
	for _, all := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			s := Limiter{All: all, One: all, Line: 100, Lines: 1000}
			order, release := line(t, &s)
			var done sync.WaitGroup
			running, most := 0, 0
			var mu sync.Mutex
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				running += n
				most = max(most, running)
			}
			run := func(user string) {
				leave, err := s.Wait(t.Context(), user)
				if err != nil {
					t.Error(err)
					return
				}
				count(1)
				time.Sleep(time.Second) // played time
				count(-1)
				leave()
			}
			for _, user := range strings.Fields(strings.Repeat("mallory ", 60) + "alice bob bob alice") {
				done.Go(func() { run(user) })
				synctest.Wait()
			}
			release()
			done.Wait()
			if got := strings.Join((*order)[:8], " "); got != "mallory alice bob mallory alice bob mallory mallory" || most != all || len(*order) != 64 {
				t.Errorf("%d places: %d ran at a time, %d turns: %s", all, most, len(*order), got)
			}
			if s.Taken() != 0 || s.Waiting("mallory") != 0 || len(s.next)+len(s.lines)+len(s.by)+s.waiting != 0 {
				t.Errorf("something is left: %+v", &s)
			}
		})
	}
}

// TestOneUserHasNotAllPlaces: a user that has as many as it may have waits, and others do not wait
// for it.
func TestOneUserHasNotAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Limiter{All: 3, One: 2, Line: 8, Lines: 8}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for range 5 {
			done.Go(func() { _, _ = s.Wait(ctx, "mallory") })
		}
		synctest.Wait()
		leave, err := s.Wait(t.Context(), "alice")
		if err != nil || s.Waiting("mallory") != 3 {
			t.Fatalf("%v, %d wait", err, s.Waiting("mallory"))
		}
		leave()
		if synctest.Wait(); s.Waiting("mallory") != 3 {
			t.Error("mallory got a third place")
		}
		cancel()
		done.Wait()
		if s.Waiting("mallory") != 0 || s.waiting != 0 {
			t.Error("who has gone still waits")
		}
	})
}

// TestLinesAreBounded: one user's line has an end, and where all lines together are full the
// longest gives way.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Limiter{All: 1, One: 1, Line: 4, Lines: 6, What: "reads"}
		order, release := line(t, &s)
		var done sync.WaitGroup
		var mu sync.Mutex
		refused := map[string]int{}
		wait := func(user string) {
			done.Go(func() {
				leave, err := s.Wait(t.Context(), user)
				if err == nil {
					leave()
					return
				}
				var full *Full
				if !errors.As(err, &full) || !strings.Contains(full.Error(), "turn (reads)") {
					t.Error(err)
				}
				mu.Lock()
				refused[user]++
				mu.Unlock()
			})
			synctest.Wait()
		}
		for _, user := range strings.Fields("mallory mallory mallory mallory mallory bob bob alice carol dave erin frank") {
			wait(user)
		}
		release()
		done.Wait()
		// The fifth of mallory finds its own line full. Then alice, carol and dave take places of
		// the longest line, and erin bob's second: all have one, and frank finds none.
		if got := fmt.Sprint(refused); got != "map[bob:1 frank:1 mallory:4]" {
			t.Errorf("refused %s; turns %v", got, *order)
		}
	})
}

// TestGroupsTakeTurns: groups of users take turns, and in each its users; where all lines are full
// the group with the most requests gives way, and of it the longest line.
func TestGroupsTakeTurns(t *testing.T) {
	for name, c := range map[string]struct{ enter, turns, refused string }{
		"in turn":             {"a/1 a/2 a/3 b/1 a/1 b/2", "a/1 b/1 a/2 b/2 a/3 a/1", ""},
		"the group gives way": {"a/1 a/2 a/3 a/4 a/5 a/6 b/1 b/2 b/3", "a/1 b/1 a/2 b/2 a/3 b/3", "a/6 a/5 a/4"},
		"none has more":       {"a/1 a/2 a/3 b/1 b/2 b/3 a/4 b/4", "a/1 b/1 a/2 b/2 a/3 b/3", "a/4 b/4"},
		"its longest line":    {"a/1 a/2 a/2 a/3 b/1 b/2 b/3 a/4", "a/1 b/1 a/2 b/2 a/3 b/3", "a/2 a/4"},
		"its own longest":     {"a/1 a/1 a/1 b/1 b/1 b/1 a/2", "a/1 b/1 a/2 b/1 a/1 b/1", "a/1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := Limiter{All: 1, One: 1, Line: 4, Lines: 6, Group: func(by string) string { return by[:1] }}
				turns, refused := enter(t, &s, c.enter)
				if turns != c.turns || refused != c.refused {
					t.Errorf("turns %s; refused %s", turns, refused)
				}
			})
		})
	}
}

// enter lets users wait one after another behind one that holds a place, and gives it to them.
func enter(t *testing.T, s *Limiter, users string) (turns, refused string) {
	order, release := line(t, s)
	var done sync.WaitGroup
	var mu sync.Mutex
	var lost []string
	for _, user := range strings.Fields(users) {
		done.Go(func() {
			leave, err := s.Wait(t.Context(), user)
			if err == nil {
				leave()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lost = append(lost, user)
		})
		synctest.Wait()
	}
	release()
	done.Wait()
	if len(s.next)+len(s.lines)+len(s.by)+s.waiting != 0 {
		t.Errorf("something is left: %+v", s)
	}
	return strings.Join(*order, " "), strings.Join(lost, " ")
}

// TestOrder: of users that wait the first by Order is next, equal ones in turn.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Limiter{All: 1, One: 1, Line: 4, Lines: 6, Order: strings.Compare}
		if turns, refused := enter(t, &s, "c b b a"); turns != "a b b c" || refused != "" {
			t.Errorf("turns %s; refused %s", turns, refused)
		}
	})
}
