package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// canary is the mark in every secret of these tests.
const canary = "canary-password"

// admin is a world whose token is that of the data directory, as comb serve makes it, and its
// client.
func admin(t *testing.T) (*world, rest.People) {
	w := teams(t)
	return w, w.client.People()
}

// with returns the calls about people with another token.
func (w *world) with(token string) rest.People {
	w.t.Helper()
	c, err := rest.NewClient(w.url, token)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.People()
}

// made makes users in groups that are there, each with a password of its own.
func made(t *testing.T, p rest.People, groups []string, names ...string) {
	t.Helper()
	var list []rest.NewUser
	for _, g := range groups {
		if _, err := p.CreateGroup(context.Background(), rest.NewGroup{Name: g}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		list = append(list, rest.NewUser{Name: name, Groups: groups, Password: canary + "-" + name})
	}
	if _, err := p.CreateUsers(context.Background(), list...); err != nil {
		t.Fatal(err)
	}
}

// signIn returns a session's token.
func (w *world) signIn(name string) string {
	w.t.Helper()
	out, err := w.with("").SignIn(context.Background(), rest.SignIn{User: name, Password: canary + "-" + name})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Token
}

// A user signs in, learns what it may do, and signs out; a wrong name is answered as a wrong
// password is.
func TestSessions(t *testing.T) {
	w, people := admin(t)
	ctx := context.Background()
	made(t, people, []string{"red"}, "alice")
	out, err := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: canary + "-alice", Expires: "2h"})
	if err != nil || out.User != "alice" || int64(out.Expires-wall()) > 7200e6 || int64(out.Expires-wall()) < 7100e6 {
		t.Fatalf("%+v, %v", out, err)
	}
	me, err := w.with(out.Token).Me(ctx)
	if err != nil || me.Name != "alice" || !me.Account || me.Administrator || strings.Join(me.Groups, ",") != "red,everyone" || len(me.VCs) != 1 ||
		me.VCs[0].Name != "a" || me.VCs[0].Role != "member" || !slices.Equal(me.VCs[0].May, []string{"see the job", "read the job's file, logs and events", "submit jobs"}) ||
		!slices.Contains(me.VCs[0].Own, "stop or change the job") || slices.Contains(me.May, "change the cluster") || !slices.Contains(me.Own, "stop or change the job") || me.Token.Kind != "session" || me.Token.ID != out.ID || me.Token.Expires != out.Expires {
		t.Fatalf("%+v, %v", me, err)
	}
	_, wrong := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: "wrong-password"})
	_, nobody := w.with("").SignIn(ctx, rest.SignIn{User: "nobody", Password: "wrong-password"})
	if wrong == nil || nobody == nil || wrong.Error() != nobody.Error() || rest.CodeOf(wrong) != rest.CodeUnauthorized {
		t.Errorf("%v and %v", wrong, nobody)
	}
	if err := w.with(out.Token).SignOut(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.with(out.Token).Me(ctx); rest.CodeOf(err) != rest.CodeUnauthorized {
		t.Errorf("after signing out: %v", err)
	}
	status, _, _ := w.request("POST", rest.Prefix+"/sessions", `{"user": "alice", "password": "x", "expires": "soon"}`, map[string]string{"Authorization": "", "Content-Type": "application/json"})
	if status != http.StatusUnprocessableEntity {
		t.Errorf("a session until soon: %d", status)
	}
	status, _, text := w.request("POST", rest.Prefix+"/sessions", `{"user": "alice", "password": "x", "administrator": true}`, map[string]string{"Authorization": "", "Content-Type": "application/json"})
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "administrator") {
		t.Errorf("an unknown field: %d %s", status, text)
	}
}

// Guesses wait in line; where that is full the answer says for how long.
func TestSignInSlow(t *testing.T) {
	w, people := admin(t)
	made(t, people, nil, "alice")
	for i := range 5 {
		if _, err := w.with("").SignIn(t.Context(), rest.SignIn{User: "alice", Password: "guess-guess"}); rest.CodeOf(err) != rest.CodeUnauthorized {
			t.Fatalf("guess %d: %v", i, err)
		}
	}
	client, gone := context.WithCancel(t.Context())
	answers := make(chan error, 20)
	var guesses sync.WaitGroup
	for range cap(answers) {
		guesses.Go(func() {
			_, err := w.with("").SignIn(client, rest.SignIn{User: "alice", Password: "guess-guess"})
			answers <- err
		})
	}
	var p *rest.Problem
	if err := <-answers; !errors.As(err, &p) || p.Status != http.StatusTooManyRequests || p.Seconds < 1 || p.Seconds > 16 || !strings.Contains(p.Detail, "too many wrong passwords") {
		t.Errorf("the first answer to one guess of many: %v", err)
	}
	gone()
	guesses.Wait()
}

// A browser gets the token as a cookie that no script can read; it is good for every route, but not
// for the page of another site.
func TestSessionCookie(t *testing.T) {
	w, people := admin(t)
	made(t, people, []string{"red"}, "alice")
	for _, c := range []struct{ origin, name string }{{w.url, "comb_session"}, {"https" + strings.TrimPrefix(w.url, "http"), "__Host-comb_session"}} {
		status, header, text := w.request("POST", rest.Prefix+"/sessions", `{"user": "alice", "password": "`+canary+`-alice", "cookie": true}`,
			map[string]string{"Authorization": "", "Content-Type": "application/json", "Origin": c.origin})
		cookie, err := http.ParseSetCookie(header.Get("Set-Cookie"))
		if status != http.StatusOK || err != nil || strings.Contains(text, cookie.Value) || strings.Contains(text, "token") {
			t.Fatalf("%d %s, %v, %v", status, text, header, err)
		}
		if cookie.Name != c.name || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure != (c.name != "comb_session") ||
			cookie.MaxAge < 43000 || cookie.Domain != "" {
			t.Errorf("%+v", cookie)
		}
		by := map[string]string{"Authorization": "", "Cookie": c.name + "=" + cookie.Value}
		if status, _, text := w.request("GET", rest.Prefix+"/jobs", "", by); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
		by["Origin"] = "https://evil.example"
		if status, _, _ := w.request("DELETE", rest.Prefix+"/sessions", "", by); status != http.StatusForbidden {
			t.Errorf("a page of another site: %d", status)
		}
		by["Origin"] = c.origin
		status, header, _ = w.request("DELETE", rest.Prefix+"/sessions", "", by)
		if status != http.StatusNoContent || len(header.Values("Set-Cookie")) != 2 || !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("signing out: %d, %v", status, header)
		}
		if status, _, _ := w.request("GET", rest.Prefix+"/jobs", "", by); status != http.StatusUnauthorized {
			t.Errorf("after signing out: %d", status)
		}
	}
}

// Users and groups are made, changed and removed; mistakes are told together and change nothing.
func TestUsersAndGroups(t *testing.T) {
	w, people := admin(t)
	ctx := context.Background()
	made(t, people, []string{"red", "blue"}, "alice", "bob")
	_, err := people.CreateUsers(ctx, rest.NewUser{Name: "carol", Groups: []string{"rde"}}, rest.NewUser{Name: "ALICE", Password: "short"}, rest.NewUser{Name: "-"})
	for _, want := range []string{`there is no group "rde"`, "there is a user alice already", "the password has 5 bytes", `"-" cannot be a user`} {
		if rest.CodeOf(err) != rest.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if _, err := people.User(ctx, "carol"); rest.CodeOf(err) != rest.CodeNotFound {
		t.Errorf("carol was made beside mistakes: %v", err)
	}
	session := w.signIn("bob")
	yes, groups := true, []string{"blue"}
	u, err := people.UpdateUser(ctx, "bob", rest.UserChange{Blocked: &yes, Groups: &groups})
	if err != nil || !u.Blocked || len(u.Groups) != 1 || !u.HasPassword {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := w.with(session).Me(ctx); rest.CodeOf(err) != rest.CodeUnauthorized {
		t.Errorf("blocked, its session goes on: %v", err)
	}
	g, err := people.UpdateGroup(ctx, "red", rest.GroupChange{Add: []string{"bob"}, Remove: []string{"alice"}})
	if err != nil || strings.Join(g.Members, ",") != "bob" {
		t.Errorf("%+v, %v", g, err)
	}
	_, err = people.UpdateGroup(ctx, "red", rest.GroupChange{Add: []string{"alice", "nobody"}, Remove: []string{"alice", "somebody"}})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("%v", err)
	}
	if g, _ := people.Group(ctx, "red"); strings.Join(g.Members, ",") != "bob" {
		t.Errorf("a change with mistakes left %v", g.Members)
	}
	if _, err := people.UpdateGroup(ctx, "everyone", rest.GroupChange{Remove: []string{"bob"}}); rest.CodeOf(err) != rest.CodeInvalid {
		t.Errorf("everyone: %v", err)
	}
	if err := people.DeleteGroup(ctx, "blue"); err != nil {
		t.Error(err)
	}
	if u, _ := people.User(ctx, "bob"); strings.Join(u.Groups, ",") != "red" {
		t.Errorf("bob is in %v", u.Groups)
	}
	if err := people.DeleteUser(ctx, "bob"); err != nil {
		t.Error(err)
	}
	all, err := people.Groups(ctx)
	if err != nil || len(all.Groups) != 2 || all.Groups[0].Name != "everyone" || strings.Join(all.Groups[0].Members, ",") != "alice" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A change names the tag of what was read, or comes too late.
func TestPeopleTags(t *testing.T) {
	w, people := admin(t)
	made(t, people, []string{"red"}, "alice")
	for path, change := range map[string]string{"/users/alice": `{"display": "Alice"}`, "/groups/red": `{"description": "a team"}`} {
		_, header, _ := w.request("GET", rest.Prefix+path, "", nil)
		by := map[string]string{"If-Match": header.Get("ETag"), "Content-Type": "application/json"}
		status, header, text := w.request("PATCH", rest.Prefix+path, change, by)
		if status != http.StatusOK || header.Get("ETag") == "" || header.Get("ETag") == by["If-Match"] {
			t.Errorf("%s: %d %s, %v", path, status, text, header)
		}
		for _, method := range []string{"PATCH", "DELETE"} {
			body := change
			if method == "DELETE" {
				body = ""
			}
			if status, _, text := w.request(method, rest.Prefix+path, body, by); status != http.StatusPreconditionFailed {
				t.Errorf("%s %s: %d %s", method, path, status, text)
			}
		}
	}
}

// A program's token does what its scope says, and makes no others; a new password ends all.
func TestTokens(t *testing.T) {
	w, people := admin(t)
	ctx := context.Background()
	made(t, people, []string{"red"}, "alice", "bob")
	alice := w.with(w.signIn("alice"))
	_, err := alice.CreateToken(ctx, rest.NewToken{Name: "ci", VCs: []string{"a", "aa", "c"}}, "")
	if err == nil || !strings.Contains(err.Error(), `vcs[1]: there is no VC "aa"`) || !strings.Contains(err.Error(), "vcs[2]") {
		t.Errorf("%v", err)
	}
	_, err = alice.CreateToken(ctx, rest.NewToken{Name: "ci", VCs: []string{"b"}}, "")
	if rest.CodeOf(err) != rest.CodeInvalid || !strings.Contains(err.Error(), "alice has no role in VC b") {
		t.Errorf("of a VC in which alice has no role: %v", err)
	}
	_, err = people.CreateToken(ctx, rest.NewToken{Name: "ci", VCs: []string{"b"}}, "alice")
	if rest.CodeOf(err) != rest.CodeInvalid {
		t.Errorf("the same of an administrator: %v", err)
	}
	token, err := alice.CreateToken(ctx, rest.NewToken{Name: "ci", ReadOnly: true, VCs: []string{"a"}, Expires: "30d"}, "")
	if err != nil || !strings.HasPrefix(token.Secret, "comb_"+token.ID+"_") || token.Kind != "application" || !token.ReadOnly {
		t.Fatalf("%+v, %v", token, err)
	}
	program := w.with(token.Secret)
	if _, err := program.Me(ctx); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"make a token":      call(program.CreateToken(ctx, rest.NewToken{Name: "more"}, "")),
		"sign out":          program.SignOut(ctx),
		"change a password": program.ChangePassword(ctx, rest.PasswordChange{Old: canary + "-alice", New: "another-password"}),
		"see bob's tokens":  call(program.Tokens(ctx, "bob")),
	} {
		if rest.CodeOf(err) != rest.CodeForbidden {
			t.Errorf("a program's token may %s: %v", what, err)
		}
	}
	bob := w.with(w.signIn("bob"))
	if err := bob.RevokeToken(ctx, token.ID, ""); rest.CodeOf(err) != rest.CodeNotFound {
		t.Errorf("bob ends alice's token: %v", err)
	}
	if _, err := bob.Tokens(ctx, "alice"); rest.CodeOf(err) != rest.CodeForbidden {
		t.Errorf("bob sees alice's tokens: %v", err)
	}
	list, err := people.Tokens(ctx, "*")
	if err != nil || len(list.Tokens) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := people.RevokeToken(ctx, token.ID, "alice"); err != nil {
		t.Error(err)
	}
	if _, err := program.Me(ctx); rest.CodeOf(err) != rest.CodeUnauthorized {
		t.Errorf("revoked, it is good: %v", err)
	}
	if err := alice.ChangePassword(ctx, rest.PasswordChange{Old: "wrong-password", New: canary + "-new"}); rest.CodeOf(err) != rest.CodeUnauthorized {
		t.Errorf("a wrong old password: %v", err)
	}
	if err := alice.ChangePassword(ctx, rest.PasswordChange{Old: canary + "-alice", New: "alice"}); rest.CodeOf(err) != rest.CodeInvalid {
		t.Errorf("a bad new password: %v", err)
	}
	if err := alice.ChangePassword(ctx, rest.PasswordChange{Old: canary + "-alice", New: canary + "-new"}); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Me(ctx); rest.CodeOf(err) != rest.CodeUnauthorized {
		t.Errorf("after a new password the old session is good: %v", err)
	}
	if _, err := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: canary + "-new"}); err != nil {
		t.Error(err)
	}
}

func call[T any](_ T, err error) error { return err }

// The audit log says what was done, in pages, and is sound. No secret is in it, in an answer, or in
// the data directory.
func TestAuditAndSecrets(t *testing.T) {
	w, people := admin(t)
	ctx := context.Background()
	made(t, people, []string{"red"}, "alice")
	session := w.signIn("alice")
	token, err := w.with(session).CreateToken(ctx, rest.NewToken{Name: "ci"}, "")
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{canary, "$argon2id", session[len(session)-40:], token.Secret[len(token.Secret)-40:]}
	for _, path := range []string{"/users", "/users/alice", "/groups", "/tokens?user=*", "/audit", "/me", "/events"} {
		_, _, text := w.request("GET", rest.Prefix+path, "", nil)
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", path, secret)
			}
		}
	}
	first, err := people.Audit(ctx, 0, 2)
	if err != nil || len(first.Lines) != 2 || first.Next == 0 || first.Lines[0].Verb != "create token" || first.Lines[0].User != "alice" {
		t.Fatalf("%+v, %v", first, err)
	}
	rest1, err := people.Audit(ctx, first.Next, 1000)
	if err != nil || rest1.Next != 0 || rest1.Lines[0].Seq != first.Next-1 || rest1.Lines[len(rest1.Lines)-1].Seq != 1 {
		t.Fatalf("%+v, %v", rest1, err)
	}
	checked, err := people.VerifyAudit(ctx)
	if err != nil || !checked.Sound || checked.Lines != first.Lines[0].Seq || len(checked.Head) != 32 {
		t.Errorf("%+v, %v", checked, err)
	}
	w.stop()
	files := 0
	err = filepath.Walk(w.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		for _, secret := range []string{canary, session[len(session)-40:], token.Secret[len(token.Secret)-40:]} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds %s", path, secret)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
	var out rest.User
	if data, err := json.Marshal(out); err != nil || strings.Contains(string(data), "hash") {
		t.Errorf("%s, %v", data, err)
	}
}
