package people

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/combsched/comb/internal/identity"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/store"
)

// What signing in is bounded by.
const (
	maxFails    = 5                // wrong passwords of one name, or from one address, before each next one waits
	failsForget = 15 * time.Minute // after which they are forgotten
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
	return fmt.Sprintf("too many wrong passwords: wait %v", s.For.Round(time.Second))
}

// gate bounds guesses, and how many passwords are looked at together.
type gate struct {
	mu    sync.Mutex
	fails map[string]*fails
	turns chan struct{}
}

func newGate() gate { return gate{fails: map[string]*fails{}, turns: make(chan struct{}, hashers)} }

type fails struct {
	n    int
	last time.Time
}

func (g *gate) turn() func() {
	g.turns <- struct{}{}
	return func() { <-g.turns }
}

func (g *gate) hash(password string) string {
	defer g.turn()()
	return hash(password)
}

func (g *gate) matches(phc, password string) bool {
	defer g.turn()()
	return matches(phc, password)
}

// nothing is a hash that no password has: a name that is not there takes as long as one that is.
var nothing = sync.OnceValue(func() string { return hash("no user has this password") })

// wait returns how long a key must wait before its next try.
func (g *gate) wait(key string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.fails[key]
	if f == nil || now.Sub(f.last) > failsForget {
		delete(g.fails, key)
		return 0
	}
	if f.n < maxFails {
		return 0
	}
	// Each wrong one beyond doubles the wait, up to a minute.
	wait := min(time.Second<<min(f.n-maxFails, 6), time.Minute)
	return max(0, wait-now.Sub(f.last))
}

// failed counts a wrong password.
func (g *gate) failed(key string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.fails[key]
	if f == nil {
		if len(g.fails) >= maxGates { // forget what is oldest
			oldest := ""
			for k, v := range g.fails {
				if oldest == "" || v.last.Before(g.fails[oldest].last) {
					oldest = k
				}
			}
			delete(g.fails, oldest)
		}
		f = &fails{}
		g.fails[key] = f
	}
	f.n, f.last = f.n+1, now
}

func (g *gate) passed(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.fails, key)
}

// SignIn makes a session of a user with its password. from is the client's address; life 0 is DefaultSession.
func (d *Directory) SignIn(ctx context.Context, name, password, from string, life time.Duration) (string, store.Token, error) {
	if life == 0 {
		life = DefaultSession
	}
	if life < time.Minute || life > LongestSession {
		return "", store.Token{}, problem(ErrInvalid, "a session lasts 1m to 30d, not %v", life)
	}
	if len(name) > identity.MaxName || len(password) > MaxPassword {
		return "", store.Token{}, ErrSignIn
	}
	now := time.UnixMicro(int64(d.now()))
	keys := []string{"user " + name, "from " + from}
	for _, key := range keys {
		if wait := d.gate.wait(key, now); wait > 0 {
			return "", store.Token{}, &Slow{wait}
		}
	}
	kept := nothing()
	u, err := d.User(name)
	if err == nil && u.Hash != "" {
		kept = u.Hash
	}
	if ok := d.gate.matches(kept, password); !ok || err != nil || u.Hash == "" || u.Blocked {
		for _, key := range keys {
			d.gate.failed(key, now)
		}
		if noteErr := d.Note(ctx, store.AuditLine{Subject: clip(name), Verb: "sign in", Object: "from " + from, Outcome: Refused}); noteErr != nil {
			return "", store.Token{}, noteErr
		}
		return "", store.Token{}, ErrSignIn
	}
	d.gate.passed(keys[0])
	if err := d.Note(ctx, store.AuditLine{Subject: name, Verb: "sign in", Object: "from " + from, Outcome: Done}); err != nil {
		return "", store.Token{}, err
	}
	return d.store.CreateBoundedToken(ctx, "session", sched.Subject(name),
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
	return &identity.Principal{User: u.Name, Admin: u.Admin, Groups: u.Groups, Token: t.ID, Scope: t.Scope, Known: true}, true
}

// CreateToken makes a token of a user for a program. life 0 is LongestToken.
func (d *Directory) CreateToken(ctx context.Context, user, name string, scope identity.Scope, life time.Duration) (string, store.Token, error) {
	if life == 0 {
		life = LongestToken
	}
	switch {
	case len(name) == 0 || len(name) > identity.MaxName:
		return "", store.Token{}, problem(ErrInvalid, "a token needs a name of 1 to %d bytes, such as the program that will use it", identity.MaxName)
	case life < time.Minute || life > LongestToken:
		return "", store.Token{}, problem(ErrInvalid, "a token is valid for 1m to 366d, not %v", life)
	case len(scope.VCs) > identity.MaxGroups:
		return "", store.Token{}, problem(ErrInvalid, "%d VCs are too many for one token: at most %d", len(scope.VCs), identity.MaxGroups)
	}
	if _, err := d.User(user); err != nil {
		return "", store.Token{}, err
	}
	if n := len(d.Tokens(user)); n >= maxTokens {
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
