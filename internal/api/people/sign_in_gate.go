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

// Bounds on signing in. Beyond each number of wrong tries further tries wait in line, at a
// pace.
const (
	maxFails     = 5               // of one name from one network
	longestPause = 8 * time.Second // longest pause between two; the first are one, two and four seconds
	maxStrange   = 100             // of one name from all networks from which it never signed in,
	maxFrom      = 100             // of all names from one address
	strangePause = time.Second     // between two of these
	patience     = 16 * time.Second
	turnPatience = 30 * time.Second // for a stranger's turn at a name; clients wait for a minute
	turnLine     = 4                // strangers of one address that wait for their turn at a name,
	turnLines    = 512              // and strangers in all
	failsForget  = 15 * time.Minute
	knownForget  = 30 * 24 * time.Hour
	maxKept      = 10_000 // counts, and networks from which names signed in
)

// How many passwords are hashed at a time, each with 19 MiB of memory. Strangers share one
// lane and all other users another, so that users do not wait for strangers.
const (
	hashersEach = 1
	hashLine    = 32  // waiting passwords of one network or user
	hashLines   = 512 // and in all
)

// Slow is the error of a sign-in for which the line is too long.
type Slow struct{ For time.Duration }

// Error implements error.
func (s *Slow) Error() string {
	return fmt.Sprintf("too many wrong passwords or codes: wait %ds", s.Seconds())
}

// Seconds is the wait in whole seconds, at least one.
func (s *Slow) Seconds() int { return max(1, int((s.For+time.Second-1)/time.Second)) }

// ErrBusy is the error of a password where too many wait to be checked.
var ErrBusy = errors.New("many passwords are being looked at: try again in a second")

// gate bounds guesses, and how many passwords are checked at a time. Each network waits for
// its own wrong tries. Strangers that try one name take turns, those first whose networks
// tried it least.
type gate struct {
	mu               sync.Mutex
	fails            map[string]*fails
	known            map[string]time.Time // when a name last signed in from a network
	turns            map[string]*turns    // of strangers, by the name that they try
	strangers, hosts limiter.Limiter      // of password checks; hosts: clients that signed in before
}

// turns are the turns of strangers at one name.
type turns struct {
	limiter.Limiter
	users int // strangers that wait or have the turn; without one the turns are dropped
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
	last time.Time // when the last try was checked, or will be
}

// bound counts tries under a name. most is how many may be wrong before the next ones wait,
// and pause how long. Without a pause tries are counted, and none waits.
type bound struct {
	name  string
	most  int
	pause time.Duration
}

// The names of the bounds for a user name.
func placeBound(network, name string) string { return "at " + network + " " + name }
func groupBound(network, name string) string { return "in " + wider(network) + " " + name }
func nameBound(name string) string           { return "user " + name }

// Network is the network of an address by which tries are counted: for IPv6 its /64.
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

// wider is the group of networks that share a turn. A company can have a /48 of IPv6, and
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

// begin counts a try before it is made, so that simultaneous tries are bounded too; a right
// one is taken back. It returns how long the try must wait. Where that is more than most it
// returns a Slow, and the try does not count.
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
		if b.pause > 0 && f.n >= b.most { // each wrong try beyond most doubles the pause
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

// forgetOldest drops the oldest entry where there are too many for one more.
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

// right takes a right try back. The first bound, that of the network, starts again at 0.
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

// turn waits for a stranger's turn at a name that strangers tried often. Strangers get turns
// one at a time, and end lets the next one in after a pause.
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
		return nil, &Slow{longestPause} // the line is too long, or too slow
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

// join adds one stranger to the turns of a name; nil where strangers tried it seldom.
func (g *gate) join(name string) *turns {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count(nameBound(name)) <= maxStrange { // the present try is counted already
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

// compare orders networks by how often a name was tried, first from their group and then from
// themselves.
func (g *gate) compare(name, a, b string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return cmp.Or(cmp.Compare(g.count(groupBound(a, name)), g.count(groupBound(b, name))),
		cmp.Compare(g.count(placeBound(a, name)), g.count(placeBound(b, name))))
}

// count is the tries under the name of a bound. The mutex is held.
func (g *gate) count(bound string) int {
	if f := g.fails[bound]; f != nil {
		return f.n
	}
	return 0
}

// knows reports whether a name signed in from a network before.
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

// sleep waits before a try.
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
