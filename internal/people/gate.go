package people

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/combsched/comb/internal/seats"
)

// What signing in is bounded by. Beyond each number of wrong tries the next ones wait in line, at a
// pace.
const (
	maxFails     = 5               // of one name from one place
	longestPause = 8 * time.Second // between two of these at last; the first pauses are a second, two and four
	maxStrange   = 100             // of one name from all places from which it never signed in,
	maxFrom      = 100             // and from one address
	strangePause = time.Second     // between two of these
	patience     = 16 * time.Second
	failsForget  = 15 * time.Minute
	knownForget  = 30 * 24 * time.Hour
	maxKept      = 10_000 // counts, and places from which names signed in
)

// Passwords that are looked at, at a time, each with 19 MiB: one of strangers, and one of all
// others, which wait for no stranger.
const (
	hashersEach = 1
	hashLine    = 32  // that wait of one place
	hashLines   = 512 // and of all
)

// Slow is the error of a sign-in for which there is no room in the line.
type Slow struct{ For time.Duration }

// Error implements error.
func (s *Slow) Error() string {
	return fmt.Sprintf("too many wrong passwords or codes: wait %v", s.For.Round(time.Second))
}

// gate bounds guesses, and how many passwords are looked at together. A try is never refused for
// what comes from other places: those beyond a bound wait in line, as long as that is not longer
// than patience.
type gate struct {
	mu               sync.Mutex
	fails            map[string]*fails
	known            map[string]time.Time // when a name signed in last from a place
	strangers, hosts seats.Seats          // of passwords that are looked at; hosts: of users who signed in before
}

func newGate() *gate {
	lane := func() seats.Seats {
		return seats.Seats{All: hashersEach, One: hashersEach, Line: hashLine, Lines: hashLines, What: "passwords"}
	}
	return &gate{fails: map[string]*fails{}, known: map[string]time.Time{}, strangers: lane(), hosts: lane()}
}

type fails struct {
	n    int
	last time.Time // when the last try was looked at, or will be
}

// bound is what tries are counted by, how many may be wrong before the next one waits, and how long
// at most.
type bound struct {
	name  string
	most  int
	pause time.Duration
}

// Network is what tries from an address are counted by: an IPv6 client has all of its /64.
func Network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// begin counts a try before it is made, so that many at once are not looked at together; a right
// one is taken back. It returns how long the try waits for its turn, or a Slow where that is beyond
// most: then it is not counted.
func (g *gate) begin(now time.Time, most time.Duration, bounds ...bound) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := time.Duration(0)
	for _, b := range bounds {
		f := g.fails[b.name]
		if f == nil || now.Sub(f.last) > failsForget {
			delete(g.fails, b.name)
			continue
		}
		if f.n >= b.most { // each wrong one beyond doubles the pause
			wait = max(wait, f.last.Add(min(time.Second<<min(f.n-b.most, 8), b.pause)).Sub(now))
		}
	}
	if wait > most {
		return 0, &Slow{wait - most}
	}
	for _, b := range bounds {
		f := g.fails[b.name]
		if f == nil {
			forgetOldest(g.fails, func(f *fails) time.Time { return f.last })
			f = &fails{}
			g.fails[b.name] = f
		}
		f.n++
		if at := now.Add(wait); at.After(f.last) {
			f.last = at
		}
	}
	return wait, nil
}

// forgetOldest makes room for one more.
func forgetOldest[T any](kept map[string]T, at func(T) time.Time) {
	if len(kept) < maxKept {
		return
	}
	oldest, when := "", time.Time{}
	for name, v := range kept {
		if t := at(v); oldest == "" || t.Before(when) {
			oldest, when = name, t
		}
	}
	delete(kept, oldest)
}

// right takes a try back: the first bound, the place's own, begins anew.
func (g *gate) right(bounds ...bound) {
	g.mu.Lock()
	delete(g.fails, bounds[0].name)
	g.mu.Unlock()
	g.back(bounds[1:]...)
}

// back takes one try of each bound back.
func (g *gate) back(bounds ...bound) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range bounds {
		if f := g.fails[b.name]; f != nil && f.n > 0 {
			f.n--
		}
	}
}

// knows reports whether a name signed in before from a place.
func (g *gate) knows(place string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.known[place]
	return ok && now.Sub(at) < knownForget
}

func (g *gate) learn(place string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.known[place]; !ok {
		forgetOldest(g.known, func(t time.Time) time.Time { return t })
	}
	g.known[place] = now
}

// sleep waits for the turn of a try.
func sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
