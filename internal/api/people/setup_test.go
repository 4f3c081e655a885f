package people

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/access"
)

// The code makes one administrator, within its time, and is kept nowhere. Guesses are slowed down,
// those of one address alone.
func TestSetUp(t *testing.T) {
	d := newWorld(t)
	first := NewUser{User: access.User{Name: "alice"}, Password: "canary-of-alice"}
	if _, _, err := d.SetUp(ctx, "", first, "a", 0); !errors.Is(err, ErrCode) {
		t.Errorf("before there is a code: %v", err)
	}
	old, _ := d.SetupCode()
	code, until := d.SetupCode()
	if len(code) != 23 || code == old || !d.WantsAdministrator() || until.Sub(d.Directory.time()) != CodeLife {
		t.Fatalf("%q, then %q, until %v", old, code, until)
	}
	for name, c := range map[string]struct {
		code  string
		first NewUser
		want  string
	}{
		"the one before":  {old, first, "the code is wrong, or has expired"},
		"a weak password": {code, NewUser{User: first.User, Password: "short"}, "the password has 5 bytes"},
		"no password":     {code, NewUser{User: first.User}, "needs a password"},
		"no name":         {code, NewUser{Password: first.Password}, "cannot be a user"},
	} {
		if _, _, err := d.SetUp(ctx, c.code, c.first, "b", 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var slow *Slow
	for range 6 {
		if _, _, err := d.SetUp(ctx, "guess", first, "mallory", 0); !errors.Is(err, ErrCode) && !errors.As(err, &slow) {
			t.Fatal(err)
		}
	}
	if slow == nil {
		t.Error("six guesses were not slowed down")
	}
	text, token, err := d.SetUp(ctx, strings.ToUpper(strings.ReplaceAll(code, "-", " ")), first, "alice's address", time.Hour)
	if err != nil || token.Subject != "alice" {
		t.Fatalf("%+v, %v", token, err)
	}
	if p, ok := d.Principal(ctx, text); !ok || !p.Admin || p.User != "alice" {
		t.Errorf("the session is of %+v, %v", p, ok)
	}
	if _, _, err := d.SetUp(ctx, code, NewUser{User: access.User{Name: "bob"}, Password: "canary-of-bob"}, "c", 0); !errors.Is(err, ErrExists) {
		t.Errorf("the code a second time: %v", err)
	}
	if again, _ := d.SetupCode(); again != "" || d.WantsAdministrator() {
		t.Errorf("a code beside an administrator: %q", again)
	}
	if err := d.DeleteUser(ctx, reserved[0], "alice"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.SetUp(ctx, code, first, "c", 0); !errors.Is(err, ErrCode) {
		t.Errorf("a used code, after the administrator is gone: %v", err)
	}
	lines, err := d.Log(ctx, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if strings.Contains(l.Detail+l.Object+l.Subject, code) || strings.Contains(l.Detail, "canary") {
			t.Errorf("the audit log tells a secret: %+v", l)
		}
	}
}

// A code ends by itself.
func TestSetUpExpires(t *testing.T) {
	d := newWorld(t)
	code, _ := d.SetupCode()
	d.later(CodeLife)
	if _, _, err := d.SetUp(ctx, code, NewUser{User: access.User{Name: "alice"}, Password: "canary-of-alice"}, "a", 0); !errors.Is(err, ErrCode) {
		t.Error(err)
	}
}
