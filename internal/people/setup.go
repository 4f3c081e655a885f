package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/store"
)

// CodeLife is how long the code that makes the first administrator is good for.
const CodeLife = 24 * time.Hour

// ErrCode is the error of each code that makes no administrator, whatever the reason.
var ErrCode = errors.New("the code is wrong, or has expired; the server prints a new one each time it starts without an administrator account")

// setup is the code that makes the first administrator: its hash, in memory alone. The zero setup has none.
type setup struct {
	mu    sync.Mutex
	hash  [sha256.Size]byte
	until time.Time
}

// WantsAdministrator reports whether no user is an administrator. The holder of the data directory's token is no user.
func (d *Directory) WantsAdministrator() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, u := range d.users {
		if u.value.Admin {
			return false
		}
	}
	return true
}

// SetupCode makes the code with which the first administrator is made, and returns it this once; "" where there is an administrator.
// It replaces the one before.
func (d *Directory) SetupCode() (code string, until time.Time) {
	if !d.WantsAdministrator() {
		return "", until
	}
	s := &d.setup
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.ToLower(rand.Text()[:20]) // 100 random bits
	s.hash, s.until = sha256.Sum256([]byte(text)), d.time().Add(CodeLife)
	return text[:5] + "-" + text[5:10] + "-" + text[10:15] + "-" + text[15:], s.until
}

// plainCode is a code as it was made: people type it in capitals, and without dashes.
func plainCode(code string) string {
	return strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(code))
}

// SetUp makes the first administrator, and a session of it. The code is good for one, and until it has made one. from is the
// client's address; wrong codes are slowed down as wrong passwords are.
func (d *Directory) SetUp(ctx context.Context, code string, first NewUser, from string, life time.Duration) (string, store.Token, error) {
	life, err := sessionLife(life)
	if err != nil {
		return "", store.Token{}, err
	}
	s := &d.setup
	s.mu.Lock() // two at once would both be the first
	defer s.mu.Unlock()
	if !d.WantsAdministrator() {
		return "", store.Token{}, problem(ErrExists, "there is an administrator already: sign in, or ask one of them for an account")
	}
	keys := []key{{"code from " + from, maxFails}, {"from " + from, maxFrom}}
	if wait := d.gate.begin(d.time(), keys...); wait > 0 {
		return "", store.Token{}, &Slow{wait}
	}
	hash := sha256.Sum256([]byte(plainCode(code)))
	if subtle.ConstantTimeCompare(hash[:], s.hash[:]) != 1 || !d.time().Before(s.until) {
		if err := d.Note(ctx, store.AuditLine{Subject: "setup code", Verb: "create user", Object: "from " + from, Outcome: Refused}); err != nil {
			return "", store.Token{}, err
		}
		return "", store.Token{}, ErrCode
	}
	d.gate.right(keys...)
	first.Admin = true
	if first.Password == "" {
		return "", store.Token{}, problem(ErrInvalid, "the first administrator needs a password")
	}
	if err := d.CreateUsers(ctx, "setup code", []NewUser{first}); err != nil {
		return "", store.Token{}, err
	}
	s.hash, s.until = [sha256.Size]byte{}, time.Time{}
	u, err := d.User(first.Name)
	if err != nil {
		return "", store.Token{}, err
	}
	return d.enter(ctx, u, from, life)
}

// sessionLife is how long a session lasts; 0 is the default.
func sessionLife(life time.Duration) (time.Duration, error) {
	if life == 0 {
		return DefaultSession, nil
	}
	if life < time.Minute || life > LongestSession {
		return 0, problem(ErrInvalid, "a session lasts 1m to 30d, not %v", life)
	}
	return life, nil
}

// time is now.
func (d *Directory) time() time.Time { return time.UnixMicro(int64(d.now())) }
