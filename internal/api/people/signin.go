package people

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
)

// How long sign-ins and tokens last.
const (
	// DefaultSession and LongestSession are how long a sign-in lasts.
	DefaultSession = 12 * time.Hour
	LongestSession = 30 * 24 * time.Hour
	// LongestToken bounds how long a program's token may be valid.
	LongestToken = 366 * 24 * time.Hour
	maxTokens    = 100 // of one user
)

// ErrSignIn is the error of each failed sign-in. It does not tell an unknown name from a
// wrong password. That a user is blocked is told only after its right password.
var ErrSignIn = errors.New("the user name or the password is wrong")

// blocked is the ErrSignIn of a blocked user whose password was right.
type blocked struct{ user string }

func (b blocked) Error() string {
	return b.user + " is blocked: it may not sign in until an administrator unblocks it"
}

func (blocked) Unwrap() error { return ErrSignIn }

// byPassword is how a user signs in, for the audit log.
const byPassword = "by password"

// From is where a sign-in comes from.
type From struct {
	Address string // of the client
	Ticket  string // tickets that the client kept of earlier sign-ins
}

// SignIn opens a session of a user by its password. life 0 is DefaultSession. A user with a
// ticket, or in a network where it signed in before, does not wait for strangers. From
// elsewhere it waits for its turn while strangers try the name.
func (d *Directory) SignIn(ctx context.Context, name, password string, from From, life time.Duration) (
	string, store.Token, error) {
	life, err := sessionLife(life)
	if err != nil {
		return "", store.Token{}, err
	}
	if len(name) > access.MaxName {
		return "", store.Token{}, ErrSignIn
	}
	u, _ := d.User(name)
	t := d.tryOf(&u, name, from)
	if err := d.check(ctx, &u, password, t); err != nil {
		return "", store.Token{}, err
	}
	if t.known != "" {
		d.gate.learn(t.known, d.time())
	}
	return d.openSession(ctx, u, byPassword, from.Address, life)
}

// Confirm checks the password of a user that has signed in already, for actions that need it
// again.
func (d *Directory) Confirm(ctx context.Context, name, password string) error {
	u, _ := d.User(name)
	return d.check(ctx, &u, password, try{name: name, from: ClientAddress(ctx), how: "by password, once more", by: name,
		host:   true,
		bounds: []bound{{"session of " + name, maxFails, longestPause}}})
}

// try is one check of a password: the bounds under which it counts, and in whose turn it
// comes.
type try struct {
	name, from, by string
	how            string // for the audit log
	host           bool   // the client signed in before: by is then its name, else its network
	known          string // the network that becomes known by a right password
	bounds         []bound
}

// tryOf says how a sign-in counts. With a ticket it counts only under that, and from a known
// network under name and network. Else it also counts under the name from all unknown
// networks, and under the address for all names. A client that signed in before comes in its
// user's turn, since a user can have any number of tickets and networks. u is the zero user
// for an unknown name.
func (d *Directory) tryOf(u *access.User, name string, from From) try {
	network := Network(from.Address)
	t := try{name: name, from: from.Address, how: byPassword, by: network, known: network + " " + u.Hash + " " + name}
	if device, ok := d.holder(u, from.Ticket); ok && u.Hash != "" {
		t.by, t.host, t.known = name, true, ""
		t.bounds = []bound{{"ticket " + device, maxFails, longestPause}}
		return t
	}
	t.bounds = []bound{{placeBound(network, name), maxFails, longestPause}}
	if t.host = d.gate.knows(t.known, d.time()); t.host {
		t.by = name
		return t
	}
	t.bounds = append(t.bounds, bound{"from " + network, maxFrom, strangePause},
		bound{name: groupBound(network, name)}, bound{name: nameBound(name)})
	return t
}

// check waits for a try's turn and checks its password. u is the zero user for an unknown
// name, which takes the same time.
func (d *Directory) check(ctx context.Context, u *access.User, password string, t try) error {
	if len(password) > MaxPassword {
		return ErrSignIn
	}
	wait, err := d.gate.begin(d.time(), patience, t.bounds...)
	if err != nil {
		return err
	}
	kept := u.Hash
	if kept == "" {
		kept = d.dummyHash()
	}
	ok := false
	if err = sleep(ctx, wait); err == nil {
		ok, err = d.look(ctx, kept, password, &t)
	}
	if err != nil {
		d.gate.back(t.bounds...) // the password was not checked, so it was not wrong
		return err
	}
	if !ok || u.Hash == "" || u.Blocked {
		line := store.AuditLine{Subject: clip(t.name), Verb: signIn, Object: t.how, Outcome: Refused, From: t.from}
		if err = ErrSignIn; ok && u.Hash != "" {
			line.Detail, err = "it is blocked", blocked{u.Name}
		}
		if err := d.Note(ctx, line); err != nil {
			return err
		}
		return err
	}
	d.gate.right(t.bounds...)
	return nil
}

// look checks a password when it is its turn.
func (d *Directory) look(ctx context.Context, kept, password string, t *try) (ok bool, err error) {
	end := func(time.Duration) {}
	if !t.host {
		if end, err = d.gate.turn(ctx, t.by, t.name); err != nil {
			return false, err
		}
	}
	err = d.hashing(ctx, t.host, t.by, func() { ok = matches(kept, password) })
	pause := time.Duration(0)
	if err == nil && !ok {
		pause = strangePause
	}
	end(pause)
	return ok, err
}

// hashing runs look in one of the places for hashing passwords, in turn.
func (d *Directory) hashing(ctx context.Context, host bool, by string, look func()) error {
	lane := &d.gate.strangers
	if host {
		lane = &d.gate.hosts
	}
	leave, err := lane.Wait(ctx, by)
	var full *limiter.Full
	if errors.As(err, &full) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	defer leave()
	look()
	return nil
}

// hash hashes a new password of a user.
func (d *Directory) hash(ctx context.Context, by, password string) (phc string, err error) {
	err = d.hashing(ctx, true, by, func() { phc = d.cost.hash(password) })
	return phc, err
}

// dummyHash is a hash that no password has, so that an unknown name takes as long as a known
// one.
func (d *Directory) dummyHash() string {
	d.noOnes.Do(func() { d.noOne = d.cost.hash("no user has this password") })
	return d.noOne
}

// openSession opens a session of a user whose password was right, unless that changed meanwhile.
func (d *Directory) openSession(ctx context.Context, u access.User, how, from string, life time.Duration) (
	string, store.Token, error) {
	d.write.Lock()
	defer d.write.Unlock()
	if is, err := d.User(u.Name); err != nil || is.Blocked || is.Hash != u.Hash {
		if err == nil && is.Blocked && is.Hash == u.Hash {
			return "", store.Token{}, blocked{u.Name}
		}
		return "", store.Token{}, ErrSignIn
	}
	if err := d.Note(ctx, store.AuditLine{Subject: u.Name, Verb: signIn, Object: how, Outcome: Done,
		From: from}); err != nil {
		return "", store.Token{}, err
	}
	bounds := store.TokenBounds{Kind: access.Session, Expires: d.now().Add(model.Duration(life.Microseconds())),
		From: Network(from)}
	return d.store.SaveToken(ctx, store.Token{ID: store.NewTokenID(), Name: "session", Subject: model.Subject(u.Name),
		Created: d.now(), TokenBounds: bounds})
}

// Principal returns the principal of a token; false if the text is not a valid token.
func (d *Directory) Principal(ctx context.Context, text string) (*access.Principal, bool) {
	t, ok := d.store.CheckToken(ctx, text, d.now())
	if !ok {
		return nil, false
	}
	if t.Kind == access.Root {
		d.notePlace(ctx, &t)
		return &access.Principal{User: string(t.Subject), Admin: true, Token: t.ID}, true
	}
	u, err := d.User(string(t.Subject))
	if err != nil || u.Blocked {
		return nil, false
	}
	d.notePlace(ctx, &t)
	return &access.Principal{User: u.Name, Admin: u.Admin, Groups: u.AllGroups(), Token: t.ID, Scope: t.Scope, IsUser: true}, true
}

// NewToken describes a new token of a user for a program. Life 0 is LongestToken.
type NewToken struct {
	User, Name string
	Scope      access.Scope
	Life       time.Duration
}

// CreateToken creates a token in a user's name, which is by itself or another one.
func (d *Directory) CreateToken(ctx context.Context, by string, n NewToken) (string, store.Token, error) {
	user, name, scope, life := n.User, n.Name, n.Scope, n.Life
	if life == 0 {
		life = LongestToken
	}
	switch {
	case len(name) == 0 || len(name) > access.MaxName:
		return "", store.Token{}, problem(ErrInvalid, "a token needs a name of 1 to %d bytes, such as the program that will use it", access.MaxName)
	case life < time.Minute:
		return "", store.Token{}, problem(ErrInvalid, "a token is valid for 1m to 366d: ask for a longer time")
	case life > LongestToken:
		return "", store.Token{}, problem(ErrInvalid, "a token is valid for 1m to 366d: ask for a shorter time")
	case len(scope.VCs) > access.MaxGroups:
		return "", store.Token{}, problem(ErrInvalid, "%d VCs are too many for one token: at most %d", len(scope.VCs), access.MaxGroups)
	}
	d.write.Lock()
	defer d.write.Unlock()
	if u, err := d.User(user); err != nil {
		return "", store.Token{}, err
	} else if u.Blocked {
		return "", store.Token{}, problem(ErrInvalid, "%s is blocked: it gets no token", user)
	}
	have := 0
	for _, t := range d.Tokens(user) {
		if t.Kind == access.Application {
			have++
		}
	}
	if have >= maxTokens {
		return "", store.Token{}, problem(ErrExists, "%s has %d tokens, the most that are allowed: revoke one", user, have)
	}
	made := store.Token{ID: store.NewTokenID(), Name: name, Subject: model.Subject(user), Created: d.now(),
		TokenBounds: store.TokenBounds{Kind: access.Application, Expires: d.now().Add(model.Duration(life.Microseconds())),
			Scope: scope, From: Network(ClientAddress(ctx))}}
	if err := d.Note(ctx, store.AuditLine{Subject: by, Verb: "create token", Object: tokenObject(&made), Outcome: Done,
		Detail: tokenBounds(&made)}); err != nil {
		return "", store.Token{}, err
	}
	return d.store.SaveToken(ctx, made)
}

// Tokens returns the valid tokens of a user, sessions included, oldest first. With user "" it
// returns those of all users.
func (d *Directory) Tokens(user string) []store.Token {
	now := d.now()
	return slices.DeleteFunc(d.store.ListTokens(), func(t store.Token) bool {
		return user != "" && string(t.Subject) != user || t.Kind == access.Root || t.Expires != 0 && now >= t.Expires
	})
}

// Revoke ends a token of a user; of any user where user is "".
func (d *Directory) Revoke(ctx context.Context, by, user, id string) error {
	list := d.Tokens(user)
	i := slices.IndexFunc(list, func(t store.Token) bool { return t.ID == id })
	if i < 0 {
		return problem(ErrNotFound, "there is no token %q", clip(id))
	}
	if err := d.Note(ctx, store.AuditLine{Subject: by, Verb: "revoke token", Object: tokenObject(&list[i]),
		Outcome: Done}); err != nil {
		return err
	}
	_, err := d.store.RevokeToken(ctx, id)
	return err
}
