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

	"github.com/combsched/comb/internal/engine/store"
)

// CodeLife is how long the code for the first administrator is valid.
const CodeLife = 24 * time.Hour

// ErrCode is the error of any code that makes no administrator, for whatever reason.
var ErrCode = errors.New("the code is wrong, or has expired; the server prints a new one each time it starts without an administrator account")

// setup is the code for the first administrator: its hash, in memory only. The zero setup has
// none.
type setup struct {
	making sync.Mutex // held while an administrator is created
	mu     sync.Mutex // guards the fields below
	hash   [sha256.Size]byte
	until  time.Time
}

// WantsAdministrator reports whether no user is an administrator. The holder of the data
// directory's token is not a user.
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

// SetupCode makes the code for the first administrator, and returns it this once; "" where
// there is an administrator. It replaces an earlier code.
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

// plainCode undoes what people do to a code: capitals, dashes and spaces.
func plainCode(code string) string {
	return strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(code))
}

func errSetUp() error {
	return problem(ErrExists, "there is an administrator already: sign in, or ask one of them for an account")
}

// isCode reports whether a code is the present one. With 100 random bits it cannot be
// guessed, so a right code need not wait for wrong ones.
func (d *Directory) isCode(code string) bool {
	s := &d.setup
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(plainCode(code)))
	return subtle.ConstantTimeCompare(hash[:], s.hash[:]) == 1 && d.time().Before(s.until)
}

// wrongCode counts a wrong code from an address, and refuses more where there were many.
func (d *Directory) wrongCode(ctx context.Context, from string) error {
	network := Network(from)
	bounds := []bound{{"code from " + network, maxFails, longestPause}, {"codes", maxStrange, strangePause}}
	if _, err := d.gate.begin(d.time(), 0, bounds...); err != nil {
		return err
	}
	line := store.AuditLine{Subject: "setup code", Verb: "create user", Object: "the first administrator",
		Outcome: Refused, From: from}
	if err := d.Note(ctx, line); err != nil {
		return err
	}
	return ErrCode
}

// SetUp creates the first administrator, and opens a session of it. The code is valid once.
// from is the client's address. Wrong codes are slowed down as wrong passwords are, right
// codes never.
func (d *Directory) SetUp(ctx context.Context, code string, first NewUser, from string, life time.Duration) (string, store.Token, error) {
	life, err := sessionLife(life)
	if err != nil {
		return "", store.Token{}, err
	}
	if !d.WantsAdministrator() {
		return "", store.Token{}, errSetUp()
	}
	if !d.isCode(code) {
		return "", store.Token{}, d.wrongCode(ctx, from)
	}
	s := &d.setup
	s.making.Lock() // two at once would both be the first
	defer s.making.Unlock()
	switch {
	case !d.WantsAdministrator():
		return "", store.Token{}, errSetUp()
	case !d.isCode(code): // it was used meanwhile
		return "", store.Token{}, ErrCode
	}
	first.Admin = true
	if first.Password == "" {
		return "", store.Token{}, problem(ErrInvalid, "the first administrator needs a password")
	}
	if err := d.CreateUsers(ctx, "setup code", []NewUser{first}); err != nil {
		return "", store.Token{}, err
	}
	s.mu.Lock()
	s.hash, s.until = [sha256.Size]byte{}, time.Time{}
	s.mu.Unlock()
	u, err := d.User(first.Name)
	if err != nil {
		return "", store.Token{}, err
	}
	return d.openSession(ctx, u, byPassword, from, life)
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

// time is the present time.
func (d *Directory) time() time.Time { return time.UnixMicro(int64(d.now())) }
