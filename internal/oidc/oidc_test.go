package oidc

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadSettings(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret", "canary-secret\n")
	s, err := ReadSettings(write(t, dir, "good.yaml", "issuer: https://login.example.com/\nclientID: comb\nclientSecretFile: secret\naddress: https://comb.example.com/\n"))
	if err != nil || s.Secret != "canary-secret" || s.Address != "https://comb.example.com" || s.Title != "login.example.com" || s.NameClaim != "preferred_username" || s.GroupClaim != "groups" || s.Issuer != "https://login.example.com/" {
		t.Fatalf("%+v, %v", s, err)
	}
	write(t, dir, "two", "canary-one\ncanary-two\n")
	_, err = ReadSettings(write(t, dir, "bad.yaml", "issuer: http://login.example.com\nclientSecretFile: two\naddress: https://comb.example.com/portal\nca: secret\nscopes: [\"a b\"]\ngroupClam: x\n"))
	for _, want := range []string{"bad.yaml:1:9: ", "must begin with https://", `"clientID"`, "bad.yaml:2:", "more than one line", "bad.yaml:3:", "has a path", "holds no certificate", `"a b" is no scope`, "did you mean groupClaim"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret is shown: %v", err)
	}
	if _, err := ReadSettings(filepath.Join(dir, "none")); err == nil {
		t.Error("no file")
	}
}

// A browser is sent to pages of this server alone.
func TestSafeReturn(t *testing.T) {
	for _, good := range []string{"/", "/jobs", "/jobs?state=running&user=alice", "/jobs/7#log", "/a//b"} {
		if !SafeReturn(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", "jobs", "//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/api/v1/me", "/a\nb", "/a b", "/a\"b", "/\t/evil.example", "/é", "/" + strings.Repeat("a", 1024)} {
		if SafeReturn(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What a browser carries is of this process, unchanged, of this sign-in, and not too old.
func TestFinishRefuses(t *testing.T) {
	p, other := New(&Settings{Issuer: "https://127.0.0.1:1"}), newSeal()
	w := &begun{Under: Under{Return: "/jobs"}, State: "state", Until: time.Now().Add(time.Minute)}
	good, err := p.seal.close(w)
	if err != nil {
		t.Fatal(err)
	}
	strange, _ := other.close(w)
	old := *w
	old.Until = time.Now().Add(-time.Second)
	late, _ := p.seal.close(&old)
	answer := url.Values{"state": {"state"}, "code": {"c"}}
	for name, c := range map[string]struct {
		kept   string
		answer url.Values
	}{
		"no cookie": {"", answer}, "no base64": {"~", answer}, "another process's": {strange, answer}, "changed": {good[:len(good)-2] + "xx", answer}, "too long": {strings.Repeat("a", 9000), answer},
		"too old": {late, answer}, "another state": {good, url.Values{"state": {"stat"}}}, "no state": {good, url.Values{}},
	} {
		if _, _, err := p.Finish(context.Background(), c.kept, c.answer); !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, under, err := p.Finish(context.Background(), good, url.Values{"state": {"state"}, "error": {"access_denied"}, "error_description": {"no\x1b[2J" + strings.Repeat("x", 500)}})
	if err == nil || !strings.Contains(err.Error(), "access_denied no") || strings.ContainsRune(err.Error(), 0x1b) || len(err.Error()) > 300 || under.Return != "/jobs" {
		t.Errorf("a refusal of the provider: %v, %+v", err, under)
	}
}

// A name that is missing makes no user; groups are a list of texts, one text, or none.
func TestPerson(t *testing.T) {
	p := New(&Settings{NameClaim: "upn", NameSuffix: "@example.com", GroupClaim: "roles"})
	for name, c := range map[string]struct {
		claims map[string]any
		want   string // of the person, or in the error
	}{
		"a list":    {map[string]any{"upn": "alice@example.com", "roles": []any{"a", "b"}}, "alice a,b"},
		"one group": {map[string]any{"upn": "alice", "roles": "a"}, "alice a"},
		"no groups": {map[string]any{"upn": "alice@example.org"}, "alice@example.org "},
		"no name":   {map[string]any{"name": "Alice", "preferred_username": "alice"}, `claim "upn" is missing`},
		"a number":  {map[string]any{"upn": 7.0}, `claim "upn" is missing`},
		"numbers":   {map[string]any{"upn": "alice", "roles": []any{1.0}}, `"roles" is no list of texts`},
		"a map":     {map[string]any{"upn": "alice", "roles": map[string]any{}}, `"roles" is no list of texts`},
		"very many": {map[string]any{"upn": "alice", "roles": make([]any, 1001)}, "names 1001 groups"},
	} {
		who, err := p.person("s", c.claims)
		got := who.Name + " " + strings.Join(who.Groups, ",")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
