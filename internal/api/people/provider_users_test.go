package people

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/access"
)

// A person of an identity provider is one user, whatever its name becomes; what the provider says
// replaces what it said, and leaves alone what administrators did. All of it outlives the process.
func TestWelcome(t *testing.T) {
	w := newWorld(t)
	w.must(w.CreateGroup(ctx, "test", access.Group{Name: "vision", External: "ml-team"}))
	w.must(w.CreateGroup(ctx, "test", access.Group{Name: "local"}))
	alice := Claimed{Issuer: "i", Subject: "1", Name: "alice", Display: "Alice", Email: "no address", Groups: []string{"ml-team", "comb-night", "comb-night", "comb-everyone", "comb-~", "vision"}, Prefix: "comb-"}
	u, err := w.ProvidedUser(ctx, alice)
	w.must(err)
	if got := strings.Join(u.AllGroups(), ","); u.Name != "alice" || got != "night,vision" || u.Email != "" || u.Display != "Alice" || u.Hash != "" || len(u.Groups) != 0 {
		t.Fatalf("%+v in %s", u, got)
	}
	w.must(w.SetMembers(ctx, "test", "local", []string{"alice"}, nil))
	alice.Name, alice.Groups = "alice2", []string{"comb-night"}
	u, err = w.ProvidedUser(ctx, alice)
	w.must(err)
	if got := strings.Join(u.AllGroups(), ","); u.Name != "alice" || got != "local,night" {
		t.Errorf("the second time: %+v in %s", u, got)
	}
	text, _, err := w.Admit(ctx, u, "here", 0)
	w.must(err)
	if p, ok := w.Principal(ctx, text); !ok || !p.In("night") || !p.In("local") || p.In("vision") || p.Admin {
		t.Errorf("%+v, %v", p, ok)
	}
	if len(w.Members("night")) != 1 {
		t.Error("the group of the provider has no member")
	}
	w.must(w.DeleteGroup(ctx, "test", "night"))
	w.must(w.store.Close())
	w.open()
	if u, err = w.User("alice"); err != nil || u.Provider.Subject != "1" || !slices.Equal(u.AllGroups(), []string{"local"}) {
		t.Errorf("after a restart: %+v, %v", u, err)
	}
	lines, err := w.Log(ctx, 0, 100)
	w.must(err)
	before := len(lines)
	alice.Groups = nil
	for range 2 {
		_, err = w.ProvidedUser(ctx, alice)
		w.must(err)
	}
	if lines, err = w.Log(ctx, 0, 100); err != nil || len(lines) != before {
		t.Errorf("what is as before is written down: %d lines after %d, %v", len(lines), before, err)
	}
	if _, _, err := w.SignIn(ctx, "alice", "", From{Address: "here"}, 0); !errors.Is(err, ErrSignIn) {
		t.Errorf("without a password: %v", err)
	}
}

// Nobody is taken over: neither a user with a password, nor one of another person, nor one that is
// blocked, nor a reserved name.
func TestWelcomeRefuses(t *testing.T) {
	w := newWorld(t)
	w.must(w.CreateUsers(ctx, "test", []NewUser{{User: access.User{Name: "bob"}, Password: password}}))
	_, err := w.ProvidedUser(ctx, Claimed{Issuer: "i", Subject: "1", Name: "alice"})
	w.must(err)
	yes := true
	_, err = w.UpdateUser(ctx, "test", "alice", UserChange{Blocked: &yes})
	w.must(err)
	var many []string
	for i := range access.MaxGroups + 1 {
		many = append(many, fmt.Sprintf("g%d", i))
	}
	for name, c := range map[string]struct {
		who  Claimed
		want string
	}{
		"a user with a password": {Claimed{Issuer: "i", Subject: "2", Name: "bob"}, "there is a user bob already, with a password"},
		"in other letters":       {Claimed{Issuer: "i", Subject: "2", Name: "BOB"}, "there is a user bob already"},
		"another person":         {Claimed{Issuer: "i", Subject: "2", Name: "alice"}, "there is a user alice already, of another person at the identity provider"},
		"another provider":       {Claimed{Issuer: "j", Subject: "1", Name: "Alice"}, "there is a user alice already, of another person at the identity provider, or of another provider"},
		"blocked":                {Claimed{Issuer: "i", Subject: "1", Name: "alice", From: "10.0.0.7"}, "an administrator has blocked it"},
		"reserved":               {Claimed{Issuer: "i", Subject: "3", Name: "admin"}, "stands for the holder of the data directory's token"},
		"no name":                {Claimed{Issuer: "i", Subject: "4", Name: "a@b"}, "cannot be a user"},
		"too many groups":        {Claimed{Issuer: "i", Subject: "5", Name: "carol", Groups: many, Prefix: "g"}, "into 65 groups"},
	} {
		if _, err := w.ProvidedUser(ctx, c.who); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	lines, err := w.Log(ctx, 0, 100)
	w.must(err)
	if !slices.ContainsFunc(lines, func(l AuditLine) bool {
		return l.Subject == "alice" && l.Verb == "sign in" && l.Object == "by the identity provider" &&
			l.From == "10.0.0.7" && l.Outcome == Refused
	}) {
		t.Errorf("that a blocked user came is not in the audit log: %+v", lines)
	}
	text := password
	if _, err := w.UpdateUser(ctx, "test", "alice", UserChange{Password: &text}); err == nil || !strings.Contains(err.Error(), "alice signs in by the identity provider, and has no password here") {
		t.Errorf("a password for a user of the provider: %v", err)
	}
}

// A name at the provider is of one group.
func TestExternalNames(t *testing.T) {
	w := newWorld(t)
	w.must(w.CreateGroup(ctx, "test", access.Group{Name: "vision", External: "ml-team"}))
	w.must(w.CreateGroup(ctx, "test", access.Group{Name: "nlp"}))
	if err := w.CreateGroup(ctx, "test", access.Group{Name: "audio", External: "ml-team"}); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), `the group vision has the external name "ml-team" already`) {
		t.Errorf("a second group of the name: %v", err)
	}
	external := "ml-team"
	if _, err := w.UpdateGroup(ctx, "test", "nlp", GroupChange{External: &external}); !errors.Is(err, ErrExists) {
		t.Errorf("another group gets the name: %v", err)
	}
	if _, err := w.UpdateGroup(ctx, "test", "vision", GroupChange{External: &external}); err != nil {
		t.Errorf("its own name again: %v", err)
	}
}
