package people

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/combsched/comb/internal/identity"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/store"
)

// What signing in is bounded by.
const (
	maxFails    = 5                // wrong passwords of one name before each next one waits,
	maxFrom     = 100              // and from one address, behind which there may be many users
	failsForget = 15 * time.Minute // after which they are forgotten
	maxQueue    = 64               // sign-ins that wait for their turn
	hashers     = 2                // passwords that are looked at, at a time: each takes 19 MiB
	maxGates    = 10_000           // names and addresses that are remembered
	// DefaultSession and LongestSession are how long a sign-in lasts.
	DefaultSession = 12 * time.Hour
	LongestSession = 30 * 24 * time.Hour
	// LongestToken is how long a program's token may be valid.
	LongestToken = 366 * 24 * time.Hour
	maxTokens    = 100 // of one user
)

// ErrSignIn is the error of each sign-in that fails, whatever the reason: a name that is not there is not told apart
// from a wrong password.
var ErrSignIn = errors.New("the user name or the password is wrong")

// Slow is the error of a sign-in that must wait.
type Slow struct{ For time.Duration }

// Error implements error.
func (s *Slow) Error() string {
	return fmt.Sprintf("too many wrong passwords or codes: wait %v", s.For.Round(time.Second))
}

// gate bounds guesses, and how many passwords are looked at together.
type gate struct {
	mu    sync.Mutex
	fails map[string]*fails
	turns chan struct{}
	queue atomic.Int32
}

func newGate() gate { return gate{fails: map[string]*fails{}, turns: make(chan struct{}, hashers)} }

type fails struct {
	n    int
	last time.Time
}

// turn waits for one of the places at which passwords are looked at; too many that wait are refused.
func (g *gate) turn(ctx context.Context) (func(), error) {
	if g.queue.Add(1) > maxQueue {
		g.queue.Add(-1)
		return nil, &Slow{time.Second}
	}
	defer g.queue.Add(-1)
	select {
	case g.turns <- struct{}{}:
		return func() { <-g.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *gate) hash(ctx context.Context, password string) (string, error) {
	leave, err := g.turn(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return hash(password), nil
}

func (g *gate) matches(ctx context.Context, phc, password string) (bool, error) {
	leave, err := g.turn(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	return matches(phc, password), nil
}

// nothing is a hash that no password has: a name that is not there takes as long as one that is.
var nothing = sync.OnceValue(func() string { return hash("no user has this password") })

// key is what tries are counted by, and how many may be wrong before the next one waits.
type key struct {
	name string
	most int
}

// begin counts a try before it is made, so that many at once are not looked at together; a right one is taken back.
// It returns how long the next one must wait.
func (g *gate) begin(now time.Time, keys ...key) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range keys {
		f := g.fails[k.name]
		if f == nil || now.Sub(f.last) > failsForget {
			delete(g.fails, k.name)
			continue
		}
		if f.n < k.most {
			continue
		}
		// Each wrong one beyond doubles the wait, up to a minute.
		if wait := min(time.Second<<min(f.n-k.most, 6), time.Minute) - now.Sub(f.last); wait > 0 {
			return wait
		}
	}
	for _, k := range keys {
		f := g.fails[k.name]
		if f == nil {
			g.makeRoom()
			f = &fails{}
			g.fails[k.name] = f
		}
		f.n, f.last = f.n+1, now
	}
	return 0
}

// makeRoom forgets what is oldest.
func (g *gate) makeRoom() {
	if len(g.fails) < maxGates {
		return
	}
	oldest := ""
	for k, v := range g.fails {
		if oldest == "" || v.last.Before(g.fails[oldest].last) {
			oldest = k
		}
	}
	delete(g.fails, oldest)
}

// right takes a try back: the first key, the user's, begins anew.
func (g *gate) right(keys ...key) {
	g.mu.Lock()
	delete(g.fails, keys[0].name)
	g.mu.Unlock()
	g.back(keys[1:]...)
}

// back takes one try of each key back.
func (g *gate) back(keys ...key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range keys {
		if f := g.fails[k.name]; f != nil && f.n > 0 {
			f.n--
		}
	}
}

// SignIn makes a session of a user with its password. from is the client's address; life 0 is DefaultSession.
func (d *Directory) SignIn(ctx context.Context, name, password, from string, life time.Duration) (string, store.Token, error) {
	life, err := sessionLife(life)
	if err != nil {
		return "", store.Token{}, err
	}
	if len(name) > identity.MaxName || len(password) > MaxPassword {
		return "", store.Token{}, ErrSignIn
	}
	keys := []key{{"user " + name, maxFails}, {"from " + from, maxFrom}}
	if wait := d.gate.begin(d.time(), keys...); wait > 0 {
		return "", store.Token{}, &Slow{wait}
	}
	kept := nothing()
	u, err := d.User(name)
	if err == nil && u.Hash != "" {
		kept = u.Hash
	}
	ok, gateErr := d.gate.matches(ctx, kept, password)
	if gateErr != nil {
		d.gate.back(keys...) // the password was not looked at: it was not wrong
		return "", store.Token{}, gateErr
	}
	if !ok || err != nil || u.Hash == "" || u.Blocked {
		if err := d.Note(ctx, store.AuditLine{Subject: clip(name), Verb: "sign in", Object: "from " + from, Outcome: Refused}); err != nil {
			return "", store.Token{}, err
		}
		return "", store.Token{}, ErrSignIn
	}
	d.gate.right(keys...)
	return d.enter(ctx, u, from, life)
}

// enter makes a session of a user whose password was right, unless that was changed meanwhile.
func (d *Directory) enter(ctx context.Context, u identity.User, from string, life time.Duration) (string, store.Token, error) {
	d.write.Lock()
	defer d.write.Unlock()
	if is, err := d.User(u.Name); err != nil || is.Blocked || is.Hash != u.Hash {
		return "", store.Token{}, ErrSignIn
	}
	if err := d.Note(ctx, store.AuditLine{Subject: u.Name, Verb: "sign in", Object: "from " + from, Outcome: Done}); err != nil {
		return "", store.Token{}, err
	}
	return d.store.CreateBoundedToken(ctx, "session", sched.Subject(u.Name),
		store.TokenBounds{Kind: identity.Session, Expires: d.now().Add(sched.Duration(life.Microseconds()))}, d.now())
}

// Principal returns whose token a text is; false if it is of none.
func (d *Directory) Principal(ctx context.Context, text string) (*identity.Principal, bool) {
	t, ok := d.store.CheckToken(ctx, text, d.now())
	if !ok {
		return nil, false
	}
	if t.Kind == identity.Root {
		return &identity.Principal{User: string(t.Subject), Admin: true, Token: t.ID}, true
	}
	u, err := d.User(string(t.Subject))
	if err != nil || u.Blocked {
		return nil, false
	}
	return &identity.Principal{User: u.Name, Admin: u.Admin, Groups: u.AllGroups(), Token: t.ID, Scope: t.Scope, Known: true}, true
}

// CreateToken makes a token of a user for a program. life 0 is LongestToken.
func (d *Directory) CreateToken(ctx context.Context, user, name string, scope identity.Scope, life time.Duration) (string, store.Token, error) {
	if life == 0 {
		life = LongestToken
	}
	switch {
	case len(name) == 0 || len(name) > identity.MaxName:
		return "", store.Token{}, problem(ErrInvalid, "a token needs a name of 1 to %d bytes, such as the program that will use it", identity.MaxName)
	case life < time.Minute:
		return "", store.Token{}, problem(ErrInvalid, "a token is valid for 1m to 366d: ask for a longer time")
	case life > LongestToken:
		return "", store.Token{}, problem(ErrInvalid, "a token is valid for 1m to 366d: ask for a shorter time")
	case len(scope.VCs) > identity.MaxGroups:
		return "", store.Token{}, problem(ErrInvalid, "%d VCs are too many for one token: at most %d", len(scope.VCs), identity.MaxGroups)
	}
	d.write.Lock()
	defer d.write.Unlock()
	if u, err := d.User(user); err != nil {
		return "", store.Token{}, err
	} else if u.Blocked {
		return "", store.Token{}, problem(ErrInvalid, "%s is blocked: it gets no token", user)
	}
	n := 0
	for _, t := range d.Tokens(user) {
		if t.Kind == identity.Application {
			n++
		}
	}
	if n >= maxTokens {
		return "", store.Token{}, problem(ErrExists, "%s has %d tokens, the most that are allowed: revoke one", user, n)
	}
	if err := d.Note(ctx, store.AuditLine{Subject: user, Verb: "create token", Object: name, Outcome: Done}); err != nil {
		return "", store.Token{}, err
	}
	return d.store.CreateBoundedToken(ctx, name, sched.Subject(user),
		store.TokenBounds{Kind: identity.Application, Expires: d.now().Add(sched.Duration(life.Microseconds())), Scope: scope}, d.now())
}

// Tokens returns the valid tokens of a user, sessions among them, oldest first; of all users where user is "".
func (d *Directory) Tokens(user string) []store.Token {
	now := d.now()
	return slices.DeleteFunc(d.store.ListTokens(), func(t store.Token) bool {
		return user != "" && string(t.Subject) != user || t.Kind == identity.Root || t.Expires != 0 && now >= t.Expires
	})
}

// Revoke ends a token of a user; of any user where user is "".
func (d *Directory) Revoke(ctx context.Context, by, user, id string) error {
	i := slices.IndexFunc(d.Tokens(user), func(t store.Token) bool { return t.ID == id })
	if i < 0 {
		return problem(ErrNotFound, "there is no token %q", clip(id))
	}
	if err := d.Note(ctx, store.AuditLine{Subject: by, Verb: "revoke token", Object: id, Outcome: Done}); err != nil {
		return err
	}
	_, err := d.store.RevokeToken(ctx, id)
	return err
}
