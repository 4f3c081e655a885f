package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/combsched/comb/internal/base/limiter"
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
	turnPatience = 30 * time.Second // for a stranger's turn at a name; clients wait for a minute
	turnLine     = 4                // strangers of one address that wait for their turn at a name,
	turnLines    = 512              // and of all
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
	return fmt.Sprintf("too many wrong passwords or codes: wait %ds", s.Seconds())
}

// Seconds is the wait in whole seconds, at least one.
func (s *Slow) Seconds() int { return max(1, int((s.For+time.Second-1)/time.Second)) }

// ErrBusy is the error of a password for which there is no room among those that are looked at.
var ErrBusy = errors.New("many passwords are being looked at: try again in a second")

// gate bounds guesses, and how many passwords are looked at together. A place waits for its own
// wrong tries as long as patience says. Strangers that try one name come in turn: first those from
// networks that tried it least.
type gate struct {
	mu               sync.Mutex
	fails            map[string]*fails
	known            map[string]time.Time // when a name signed in last from a place
	turns            map[string]*turns    // of strangers, by the name that they try
	strangers, hosts limiter.Limiter      // of passwords that are looked at; hosts: of users who signed in before
}

// turns are those of strangers at one name.
type turns struct {
	limiter.Limiter
	users int // of these turns; without one they are forgotten
}

func newGate() *gate {
	lane := func(group func(string) string) limiter.Limiter {
		return limiter.Limiter{All: hashersEach, One: hashersEach, Line: hashLine, Lines: hashLines,
			What: "passwords", Group: group}
	}
	return &gate{fails: map[string]*fails{}, known: map[string]time.Time{}, turns: map[string]*turns{},
		strangers: lane(wider), hosts: lane(nil)}
}

type fails struct {
	n    int
	last time.Time // when the last try was looked at, or will be
}

// bound is what tries are counted by, how many may be wrong before the next one waits, and how long
// at most. Without a pause they are counted, and none waits.
type bound struct {
	name  string
	most  int
	pause time.Duration
}

// The names of bounds of a name that is tried.
func placeBound(network, name string) string { return "at " + network + " " + name }
func groupBound(network, name string) string { return "in " + wider(network) + " " + name }
func nameBound(name string) string           { return "user " + name }

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

// wider is the group of networks that share a turn: a company has a /48 of IPv6 for itself, and
// often a /24 of IPv4.
func wider(network string) string {
	if p, err := netip.ParsePrefix(network); err == nil {
		return netip.PrefixFrom(p.Addr(), 48).Masked().String()
	}
	if a, err := netip.ParseAddr(network); err == nil {
		return netip.PrefixFrom(a, 24).Masked().String()
	}
	return network
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
		if b.pause > 0 && f.n >= b.most { // each wrong one beyond doubles the pause
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

// turn waits for a stranger's turn at a name that strangers tried often, one at a time. end gives
// it to the next one after a pause.
func (g *gate) turn(ctx context.Context, network, name string) (end func(pause time.Duration), err error) {
	t := g.join(name)
	if t == nil {
		return func(time.Duration) {}, nil
	}
	part := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(g.turns, name)
		}
	}
	waits, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	leave, err := t.Wait(waits, network)
	if err != nil {
		part()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Slow{longestPause} // the line is full, or too slow
	}
	next := func() {
		leave()
		part()
	}
	return func(pause time.Duration) {
		if pause <= 0 {
			next()
			return
		}
		time.AfterFunc(pause, next)
	}, nil
}

// join counts one more user of a name's turns; nil where strangers tried it seldom.
func (g *gate) join(name string) *turns {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count(nameBound(name)) <= maxStrange { // the try itself is among them
		return nil
	}
	t := g.turns[name]
	if t == nil {
		t = &turns{Limiter: limiter.Limiter{All: 1, One: 1, Line: turnLine, Lines: turnLines, What: "sign-ins", Group: wider,
			Order: func(a, b string) int { return g.compare(name, a, b) }}}
		g.turns[name] = t
	}
	t.users++
	return t
}

// compare puts the network first that tried a name less often with its group, then by itself.
func (g *gate) compare(name, a, b string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return cmp.Or(cmp.Compare(g.count(groupBound(a, name)), g.count(groupBound(b, name))),
		cmp.Compare(g.count(placeBound(a, name)), g.count(placeBound(b, name))))
}

// count is how many tries count by a bound's name; the mutex is held.
func (g *gate) count(bound string) int {
	if f := g.fails[bound]; f != nil {
		return f.n
	}
	return 0
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
