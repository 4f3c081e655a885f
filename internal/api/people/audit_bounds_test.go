package people

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/engine/store"
)

// verbs are those of the audit log, the newest first, each with its user and the address.
func (w *world) verbs(verb string) (out []string) {
	w.Helper()
	lines, err := w.Log(ctx, 0, 1000)
	w.must(err)
	for _, l := range lines {
		if l.Verb == verb {
			out = append(out, l.Subject+" "+l.From+" "+l.Object)
		}
	}
	return out
}

// uses shows a token from an address.
func (w *world) uses(text, from string) {
	w.Helper()
	if _, ok := w.Principal(WithClientAddress(ctx, from), text); !ok {
		w.Fatal("the token is not valid")
	}
}

// A token that is used from a network for the first time is a line, once, also over a restart.
// Where it was made is no new place, nor is the other address of a /64, nor the server's socket;
// of the data directory's token this machine is none.
func TestTokenFromNewAddress(t *testing.T) {
	w := newWorld(t)
	w.make()
	text, token, err := w.CreateToken(WithClientAddress(ctx, "10.0.0.1"), "alice",
		NewToken{User: "alice", Name: "nightly", Life: time.Hour})
	w.must(err)
	root, _, err := w.store.CreateToken(ctx, "root", "admin", w.time())
	w.must(err)
	object := " nightly " + token.ID
	for _, step := range []struct {
		from string
		want []string
	}{
		{"10.0.0.1", nil}, {"@", nil},
		{"10.0.0.2", []string{"alice 10.0.0.2" + object}},
		{"10.0.0.2", []string{"alice 10.0.0.2" + object}},
		{"2001:db8::1", []string{"alice 2001:db8::1" + object, "alice 10.0.0.2" + object}},
		{"2001:db8::ffff", []string{"alice 2001:db8::1" + object, "alice 10.0.0.2" + object}},
	} {
		w.uses(text, step.from)
		if got := w.verbs(useToken); !slices.Equal(got, step.want) {
			t.Errorf("from %s: %q, want %q", step.from, got, step.want)
		}
	}
	w.store.Close()
	w.open()
	before := len(w.verbs(useToken))
	for _, from := range []string{"10.0.0.1", "10.0.0.2", "2001:db8::2"} {
		w.uses(text, from)
	}
	for _, from := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "", "@"} {
		w.uses(root, from)
	}
	if got := w.verbs(useToken); len(got) != before {
		t.Errorf("after a restart: %q", got)
	}
	w.uses(root, "10.0.0.9")
	if got := w.verbs(useToken); len(got) != before+1 || got[0][:len("admin 10.0.0.9")] != "admin 10.0.0.9" {
		t.Errorf("the data directory's token from elsewhere: %q", got)
	}
}

// Where tokens were used is bounded for each, and forgotten with it.
func TestPlacesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.make()
	text, token, err := w.CreateToken(ctx, "alice", NewToken{"alice", "nightly", access.Scope{}, time.Hour * 24})
	w.must(err)
	address := func(i int) string { return fmt.Sprint("10.0.0.", i) }
	for i := range 40 {
		w.uses(text, address(i))
	}
	if got := w.verbs(useToken); len(got) != mostPlaces+1 {
		t.Errorf("%d lines of 40 networks in an hour: %q", len(got), got)
	}
	lines, err := w.Log(ctx, 0, 1)
	w.must(err)
	const more = "from more than 16 networks; of others nothing is said for an hour"
	if lines[0].Detail != more || lines[0].From != address(mostPlaces) {
		t.Errorf("beyond the bound: %+v", lines[0])
	}
	// The least recently used goes: 10.0.0.1 and 10.0.0.2 are in use, so it is 10.0.0.3.
	w.uses(text, address(1))
	w.uses(text, address(2))
	w.later(time.Hour)
	w.uses(text, address(99))
	p := w.auditBounds.networks[token.ID]
	if len(p.networks) != mostPlaces || p.networks[mostPlaces-1] != address(99) ||
		slices.Contains(p.networks, address(3)) ||
		!slices.Contains(p.networks, address(1)) || !slices.Contains(p.networks, address(2)) {
		t.Errorf("known are %q", p.networks)
	}
	w.must(w.Revoke(ctx, "alice", "alice", token.ID))
	other, _, err := w.CreateToken(ctx, "bob", NewToken{"bob", "other", access.Scope{}, time.Hour})
	w.must(err)
	w.uses(other, "10.0.0.1")
	objects, err := w.store.Objects(ctx)
	w.must(err)
	if n := len(slices.DeleteFunc(objects, func(o store.Object) bool { return o.ID[:6] != "places" })); n != 1 ||
		len(w.auditBounds.networks) != 1 {
		t.Errorf("%d rows of places and %v are left", n, w.auditBounds.networks)
	}
}

// A token that takes turns from one network more than are known has a line an hour, and no write
// at each use.
func TestPlacesByTurns(t *testing.T) {
	w := newWorld(t)
	w.make()
	text, token, err := w.CreateToken(ctx, "alice", NewToken{"alice", "ci", access.Scope{}, time.Hour * 24})
	w.must(err)
	for hour := range 3 {
		for i := range 5 * (mostPlaces + 1) {
			w.uses(text, fmt.Sprint("10.0.0.", i%(mostPlaces+1)))
		}
		want := mostPlaces + 1 + hour
		said, written := len(w.verbs(useToken)), int(w.auditBounds.networks[token.ID].version)
		if said != want || written != want {
			t.Errorf("hour %d: %d lines and %d writes, want %d", hour, said, written, want)
		}
		w.later(time.Hour)
	}
}

// A user writes so many lines of a verb in an hour; more are counted. They hide no other verb, and
// none that the engine writes. Guesses at its name, from whatever networks, count for those, and
// administrators are not bounded.
func TestLinesOfOneUser(t *testing.T) {
	w := newWorld(t)
	w.make()
	crowded := map[string]int{}
	w.OverBound = func(l store.AuditLine) { crowded[l.Subject+" "+l.Verb+" "+l.From]++ }
	note := func(n int, l store.AuditLine) {
		t.Helper()
		for range n {
			w.must(w.Note(ctx, l))
		}
	}
	note(mostLines+3, store.AuditLine{Subject: "alice", Verb: signIn, Outcome: Refused, From: "10.0.0.6"})
	note(2, store.AuditLine{Subject: "alice", Verb: signIn, Outcome: Refused, From: "10.0.0.7"})
	note(mostLines+5, store.AuditLine{Subject: "bob", Verb: "tag job", Outcome: Done, From: "10.0.0.8"})
	note(1, store.AuditLine{Subject: "bob", Verb: "create token", Outcome: Done, From: "10.0.0.8"})
	note(mostLines+5, store.AuditLine{Subject: "admin", Verb: "drain node", Outcome: Done})
	note(1, store.AuditLine{Subject: "alice", Verb: "tag job", Outcome: Done})
	if len(crowded) != 2 || crowded["alice sign in 10.0.0.6"] != 3 || crowded["bob tag job 10.0.0.8"] != 5 {
		t.Errorf("counted: %v", crowded)
	}
	for n := range mostLines + 2 {
		l := w.Line(WithClientAddress(ctx, "10.0.0.8"), store.AuditLine{Subject: "bob", Verb: "stop job"})
		if l.Changes != (n >= mostLines) || l.From != "10.0.0.8" {
			t.Fatalf("line %d by the engine: %+v", n, l)
		}
	}
	if len(crowded) != 2 {
		t.Errorf("lines of the engine are counted: %v", crowded)
	}
	w.later(time.Hour)
	if l := w.Line(ctx, store.AuditLine{Subject: "bob", Verb: "stop job"}); l.Changes {
		t.Errorf("an hour later: %v", l)
	}
}

// Wrong passwords from more networks than are counted take no line of any user, also of one that
// has none yet.
func TestNetworksFillNothingOfUsers(t *testing.T) {
	w := newWorld(t)
	w.make()
	crowded := map[string]int{}
	w.OverBound = func(l store.AuditLine) { crowded[l.Subject]++ }
	guess := func(i int) bool {
		return w.inFull(&store.AuditLine{Subject: "alice", Verb: signIn, Outcome: Refused,
			From: fmt.Sprintf("2001:db8:%x::1", i)})
	}
	for i := range mostNetworks {
		if !guess(i) {
			t.Fatalf("network %d is counted", i)
		}
	}
	if len(w.auditBounds.guests) != mostNetworks || guess(mostNetworks) {
		t.Errorf("%d networks are counted at a time", len(w.auditBounds.guests))
	}
	w.must(w.Note(ctx, store.AuditLine{Subject: "bob", Verb: "tag job", Outcome: Done}))
	if len(crowded) != 0 || len(w.verbs("tag job")) != 1 {
		t.Errorf("counted: %v", crowded)
	}
	w.later(time.Hour)
	if !guess(mostNetworks) || len(w.auditBounds.guests) != 1 {
		t.Errorf("none is forgotten: %d", len(w.auditBounds.guests))
	}
}
