package people

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
)

const password = "correct horse battery"

var ctx = context.Background()

// world is a directory over a store of its own, with a clock that the test moves.
type world struct {
	*testing.T
	*Directory
	dir   string
	store *store.Store
	clock atomic.Int64
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir()}
	w.clock.Store(int64(model.Hour))
	w.open()
	t.Cleanup(func() { w.store.Close() })
	return w
}

func (w *world) open() {
	w.Helper()
	var err error
	if w.store, err = store.Open(ctx, w.dir, store.Options{Now: w.time()}); err != nil {
		w.Fatal(err)
	}
	if w.Directory, err = Open(ctx, w.store, w.time); err != nil {
		w.Fatal(err)
	}
}

func (w *world) time() model.Time { return model.Time(w.clock.Load()) }

func (w *world) later(d time.Duration) { w.clock.Add(d.Microseconds()) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) make() {
	w.Helper()
	w.must(w.CreateGroup(ctx, "admin", access.Group{Name: "vision", Description: "the vision team"}))
	w.must(w.CreateUsers(ctx, "admin", []NewUser{
		{User: access.User{Name: "alice", Groups: []string{"vision", access.Everyone, "vision"}}, Password: password},
		{User: access.User{Name: "bob", Email: "bob@example.com", Extension: []byte(`{"k":1}`)}},
	}))
}

// What was written is there after a restart, and the audit log has a line for each change.
func TestDirectoryIsKept(t *testing.T) {
	w := newWorld(t)
	w.make()
	yes, mail := true, "alice@example.com"
	_, err := w.UpdateUser(ctx, "admin", "alice", UserChange{Admin: &yes, Email: &mail})
	w.must(err)
	w.must(w.DeleteUser(ctx, "admin", "bob"))
	users, groups := w.Users(), w.Groups()
	w.store.Close()
	w.open()
	if diff := cmp.Diff(users, w.Users()) + cmp.Diff(groups, w.Groups()); diff != "" {
		t.Error(diff)
	}
	if u := w.Users(); len(u) != 1 || u[0].Name != "alice" || !u[0].Admin || u[0].Email != mail || !cmp.Equal(u[0].Groups, []string{"vision"}) {
		t.Errorf("%+v", u)
	}
	log, err := w.Log(ctx, 0, 10)
	w.must(err)
	var verbs []string
	for _, l := range log {
		verbs = append(verbs, l.Subject+" "+l.Verb+" "+l.Object+" "+l.Outcome+" "+l.Detail)
	}
	if diff := cmp.Diff([]string{"admin delete user user bob done ", "admin change user user alice done e-mail address, administrator true",
		"admin create user user bob done groups none",
		"admin create user user alice done groups vision", "admin create group group vision done "}, verbs); diff != "" {
		t.Error(diff)
	}
	w.must(w.DeleteGroup(ctx, "admin", "vision"))
	if u, _ := w.User("alice"); len(u.Groups) > 0 || len(w.Groups()) > 0 {
		t.Errorf("the group that was deleted is left: %+v %v", u, w.Groups())
	}
	// A version behind the one that is kept would be refused: the entries know theirs.
	_, err = w.UpdateUser(ctx, "admin", "alice", UserChange{Email: new(string)})
	w.must(err)
}

// All mistakes are told at once, and nothing is made.
func TestWrongUsers(t *testing.T) {
	w := newWorld(t)
	w.make()
	err := w.CreateUsers(ctx, "admin", []NewUser{
		{User: access.User{Name: "carol"}, Password: "short"}, {User: access.User{Name: "ALICE"}},
		{User: access.User{Name: "dave~", Groups: []string{"none"}}, Password: "aaaaaaaaaaaa"}, {User: access.User{Name: "erin"}}, {User: access.User{Name: "erin"}}})
	var p *Problem
	if !errors.As(err, &p) || len(p.Texts) != 6 {
		t.Fatalf("%v", err)
	}
	for i, part := range []string{"carol: the password has 5 bytes", "there is a user alice already", "dave~", "too easy", `no group "none"`, "there is a user erin already"} {
		if !strings.Contains(p.Texts[i], part) {
			t.Errorf("%d: %s", i, p.Texts[i])
		}
	}
	if len(w.Users()) != 2 {
		t.Error("some were made")
	}
	if _, err := w.UpdateUser(ctx, "admin", "zoe", UserChange{}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestSigningIn(t *testing.T) {
	w := newWorld(t)
	w.make()
	token, made, err := w.SignIn(ctx, "alice", password, From{Address: "10.0.0.1"}, time.Hour)
	w.must(err)
	p, ok := w.Principal(ctx, token)
	if diff := cmp.Diff(&access.Principal{User: "alice", Groups: []string{"vision"}, Token: made.ID, IsUser: true}, p); !ok || diff != "" {
		t.Error(diff)
	}
	// A user without a password, a name that is not there and a wrong password are one error.
	for _, c := range [][2]string{{"bob", ""}, {"bob", password}, {"zoe", password}, {"alice", "wrong"}, {"alice", strings.Repeat("x", 300)}} {
		if _, _, err := w.SignIn(ctx, c[0], c[1], From{Address: "10.0.0.2"}, 0); !errors.Is(err, ErrSignIn) {
			t.Errorf("%v: %v", c, err)
		}
	}
	w.later(time.Hour)
	if _, ok := w.Principal(ctx, token); ok {
		t.Error("the session did not end")
	}
	for name, change := range map[string]UserChange{"a new password": {Password: ptr("another good password")}, "blocked": {Blocked: ptr(true)}} {
		token, _, err := w.SignIn(ctx, "alice", password, From{Address: "10.0.0.1"}, 0)
		w.must(err)
		_, err = w.UpdateUser(ctx, "admin", "alice", change)
		w.must(err)
		if _, ok := w.Principal(ctx, token); ok {
			t.Errorf("%s: the session goes on", name)
		}
		_, err = w.UpdateUser(ctx, "admin", "alice", UserChange{Password: ptr(password), Blocked: ptr(false)})
		w.must(err)
	}
}

// Sign-ins that were given up before their password was looked at count as none: a busy server
// locks no user out.
func TestGivenUpIsNotWrong(t *testing.T) {
	w := newWorld(t)
	w.make()
	leave, err := w.gate.strangers.Wait(ctx, "elsewhere")
	w.must(err)
	client, gone := context.WithCancel(ctx)
	gone()
	for range maxFails + 1 {
		if _, _, err := w.SignIn(client, "alice", password, From{Address: "10.0.0.1"}, 0); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	leave()
	_, _, err = w.SignIn(ctx, "alice", password, From{Address: "10.0.0.1"}, 0)
	w.must(err)
}

// hangsUp is a store whose client is gone once entries are written: what is asked of it with the
// client's context then fails.
type hangsUp struct {
	Store
	gone context.CancelFunc
}

func (h *hangsUp) PutObjects(ctx context.Context, o []store.Object, l []store.AuditLine) error {
	defer h.gone()
	return h.Store.PutObjects(ctx, o, l)
}

// A session does not outlive its password, also where the client hangs up as soon as the new one is
// written.
func TestHangingUpKeepsNoSession(t *testing.T) {
	for name, change := range map[string]func(context.Context, *Directory) error{
		"a new password": func(ctx context.Context, d *Directory) error {
			_, err := d.UpdateUser(ctx, "admin", "alice", UserChange{Password: ptr("another good password")})
			return err
		},
		"blocked": func(ctx context.Context, d *Directory) error {
			_, err := d.UpdateUser(ctx, "admin", "alice", UserChange{Blocked: ptr(true)})
			return err
		},
		"deleted": func(ctx context.Context, d *Directory) error { return d.DeleteUser(ctx, "admin", "alice") },
	} {
		w := newWorld(t)
		w.make()
		token, _, err := w.SignIn(ctx, "alice", password, From{Address: "10.0.0.1"}, 0)
		w.must(err)
		client, gone := context.WithCancel(ctx)
		w.Directory.store = &hangsUp{w.store, gone}
		w.must(change(client, w.Directory))
		if client.Err() == nil {
			t.Fatalf("%s: nothing was written", name)
		}
		if _, ok := w.store.CheckToken(ctx, token, w.time()); ok {
			t.Errorf("%s: the session is valid still", name)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestTokensOfPrograms(t *testing.T) {
	w := newWorld(t)
	w.make()
	scope := access.Scope{ReadOnly: true, VCs: []string{"vision"}}
	text, made, err := w.CreateToken(ctx, "alice", NewToken{"alice", "ci", scope, time.Hour})
	w.must(err)
	if p, ok := w.Principal(ctx, text); !ok || !cmp.Equal(p.Scope, scope) {
		t.Errorf("%+v", p)
	}
	if err := w.Revoke(ctx, "bob", "bob", made.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("another's token: %v", err)
	}
	w.must(w.Revoke(ctx, "alice", "alice", made.ID))
	if _, ok := w.Principal(ctx, text); ok || len(w.Tokens("alice")) > 0 {
		t.Error("a revoked token is valid")
	}
	for range maxTokens {
		_, _, err := w.CreateToken(ctx, "alice", NewToken{"alice", "ci", scope, 0})
		w.must(err)
	}
	if _, _, err := w.CreateToken(ctx, "alice", NewToken{"alice", "ci", scope, 0}); !errors.Is(err, ErrExists) {
		t.Errorf("one too many: %v", err)
	}
}

// No password and no token is in the database's files, nor in the audit log.
func TestHashesAlone(t *testing.T) {
	for phc, want := range map[string]bool{usual.hash(password): true, usual.hash("x"): false, "": false, "$argon2id$v=19$m=19456,t=2,p=1$$": false,
		"$argon2id$v=19$m=99999999,t=2,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": false} {
		if matches(phc, password) != want {
			t.Errorf("%q: want %v", phc, want)
		}
	}
	if one, other := usual.hash(password), usual.hash(password); one == other {
		t.Error("no salt")
	}
}

// Each line says what changed, and from what: rights, groups, members, and whose token may do what.
// What is so already is no change, and no line.
func TestLinesSayWhatChanged(t *testing.T) {
	w := newWorld(t)
	w.make()
	w.must(w.CreateGroup(ctx, "admin", access.Group{Name: "nlp"}))
	root := access.User{Name: "root", Admin: true, Groups: []string{"nlp"}}
	w.must(w.CreateUsers(ctx, "admin", []NewUser{{User: root}}))
	change := func(name string, c UserChange) {
		t.Helper()
		_, err := w.UpdateUser(ctx, "root", name, c)
		w.must(err)
	}
	change("alice", UserChange{Groups: &[]string{"vision", "nlp"}})
	change("alice", UserChange{Groups: &[]string{"nlp", "vision"}, Admin: new(bool), Email: new(string)})
	change("alice", UserChange{Groups: &[]string{}, Admin: ptr(true)})
	change("alice", UserChange{Admin: ptr(true)})
	w.must(w.SetMembers(ctx, "root", "vision", []string{"alice", "bob"}, nil))
	w.must(w.SetMembers(ctx, "root", "vision", []string{"alice"}, nil))
	_, err := w.UpdateGroup(ctx, "root", "vision", GroupChange{Description: ptr("the vision team")})
	w.must(err)
	w.must(w.DeleteGroup(ctx, "root", "vision"))
	scope := access.Scope{ReadOnly: true, VCs: []string{"a", "b"}}
	text, made, err := w.CreateToken(ctx, "root", NewToken{"alice", "z", scope, time.Hour})
	w.must(err)
	if !strings.Contains(text, made.ID) {
		t.Errorf("the line names the token %s, and its text is another one's", made.ID)
	}
	_, free, err := w.CreateToken(ctx, "alice", NewToken{User: "alice", Name: "z (1) of bob"})
	w.must(err)
	w.must(w.Revoke(ctx, "root", "", made.ID))
	until := func(t store.Token) string { return time.UnixMicro(int64(t.Expires)).UTC().Format(time.RFC3339) }
	log, err := w.Log(ctx, 0, 100)
	w.must(err)
	var got []string
	for _, l := range log {
		if l.Subject != "admin" || l.Object == "user root" {
			got = append(got, l.Subject+" "+l.Verb+" "+l.Object+": "+l.Detail)
		}
	}
	slices.Reverse(got)
	if diff := cmp.Diff([]string{
		"admin create user user root: administrator, groups nlp",
		"root change user user alice: groups nlp,vision, was vision",
		"root change user user alice: administrator true, groups none, was nlp,vision",
		"root change user user alice: groups vision, was none",
		"root change user user bob: groups vision, was none",
		"root delete group group vision: its members were alice,bob",
		"root change user user alice: groups none, was vision",
		"root change user user bob: groups none, was vision",
		"root create token z (" + made.ID + ") of alice: reads only, in a,b, until " + until(made),
		"alice create token \"z (1) of bob\" (" + free.ID + ") of alice: until " + until(free),
		"root revoke token z (" + made.ID + ") of alice: ",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// The last administrator that may sign in stays one, unless the holder of the data directory's
// token has it otherwise.
func TestLastAdministrator(t *testing.T) {
	w := newWorld(t)
	w.must(w.CreateUsers(ctx, "admin", []NewUser{{User: access.User{Name: "root", Admin: true}, Password: password},
		{User: access.User{Name: "second", Admin: true, Blocked: true}, Password: password}, {User: access.User{Name: "alice"}},
		{User: access.User{Name: "robot", Admin: true}}})) // without a password it does not count
	for name, c := range map[string]UserChange{"blocked": {Blocked: ptr(true)}, "no administrator": {Admin: ptr(false)}} {
		if _, err := w.UpdateUser(ctx, "root", "root", c); !errors.Is(err, ErrLast) ||
			!strings.Contains(err.Error(), "comb user update NAME --admin") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.DeleteUser(ctx, "root", "root"); !errors.Is(err, ErrLast) {
		t.Errorf("deleted: %v", err)
	}
	change := func(by, name string, c UserChange) {
		t.Helper()
		_, err := w.UpdateUser(ctx, by, name, c)
		w.must(err)
	}
	change("root", "root", UserChange{Display: ptr("Root")})
	change("root", "second", UserChange{Blocked: ptr(false)})
	change("second", "root", UserChange{Admin: ptr(false)})
	if err := w.DeleteUser(ctx, "second", "second"); !errors.Is(err, ErrLast) {
		t.Errorf("the second: %v", err)
	}
	w.must(w.DeleteUser(ctx, "second", "alice"))
	w.must(w.DeleteUser(ctx, "admin", "second"))
}

// That it is blocked is told to the one that knows its password alone, and in the log.
func TestBlockedIsTold(t *testing.T) {
	w := newWorld(t)
	w.make()
	_, err := w.UpdateUser(ctx, "admin", "alice", UserChange{Blocked: ptr(true)})
	w.must(err)
	for given, want := range map[string]string{
		password:      "alice is blocked: it may not sign in until an administrator unblocks it",
		"a wrong one": ErrSignIn.Error(),
	} {
		_, _, err := w.SignIn(ctx, "alice", given, From{Address: "10.0.0.2"}, 0)
		if !errors.Is(err, ErrSignIn) || err.Error() != want {
			t.Errorf("%s: %v", given, err)
		}
	}
	log, err := w.Log(ctx, 0, 2)
	w.must(err)
	said := []string{log[0].Detail, log[1].Detail}
	slices.Sort(said)
	if log[0].Outcome != Refused || !slices.Equal(said, []string{"", "it is blocked"}) {
		t.Errorf("%+v", log)
	}
}
