package oidc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

// The usual port of an address may be left out; other names, ports and parts of names are another
// host.
func TestAt(t *testing.T) {
	for address, hosts := range map[string]string{
		"https://comb.example.com": "comb.example.com COMB.example.com:443", "https://comb.example.com:443": "comb.example.com comb.example.com:443",
		"https://comb.example.com:8420": "comb.example.com:8420", "http://localhost:80": "localhost localhost:80", "http://[::1]:8420": "[::1]:8420",
	} {
		s := Settings{Address: address}
		for host := range strings.FieldsSeq(hosts) {
			if !s.At(host) {
				t.Errorf("%s is not at %s", host, address)
			}
		}
		for _, host := range []string{"", "example.com", "comb.example.com:80", "comb.example.com:8421", "127.0.0.1:8420", "localhost:443", "[::1]"} {
			if s.At(host) {
				t.Errorf("%q is at %s", host, address)
			}
		}
	}
	if s := (Settings{Address: "https://Comb.example.com:8420"}); s.Host() != "comb.example.com" {
		t.Errorf("%q", s.Host())
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
	w := &pendingSignIn{AfterSignIn: AfterSignIn{Return: "/jobs"}, State: "state", Until: time.Now().Add(time.Minute)}
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

// Nothing that is sent or believed crosses the network in clear; a failure is told in a line,
// whatever page the provider has for it, and one that asks first and hangs up leaves no failure to
// others.
func TestDiscovery(t *testing.T) {
	document, status := "", http.StatusOK
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, document)
	}))
	defer web.Close()
	begin := func(ctx context.Context, text string) error {
		document = strings.ReplaceAll(text, "OWN", web.URL)
		_, _, err := New(&Settings{Issuer: web.URL, Address: "https://comb.example.com"}).Begin(ctx, AfterSignIn{Return: "/"})
		return err
	}
	good := `{"issuer":"OWN","authorization_endpoint":"OWN/a","token_endpoint":"OWN/t","jwks_uri":"OWN/k","userinfo_endpoint":"OWN/u"}`
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := begin(gone, good); err != nil {
		t.Errorf("one that hung up: %v", err)
	}
	if err := begin(context.Background(), strings.Replace(good, `,"userinfo_endpoint":"OWN/u"`, "", 1)); err != nil {
		t.Errorf("without more about users: %v", err)
	}
	for _, path := range []string{"/a", "/t", "/k", "/u"} {
		far := "http://far.example" + path
		if err := begin(context.Background(), strings.Replace(good, "OWN"+path, far, 1)); err == nil || !strings.Contains(err.Error(), far) || !strings.Contains(err.Error(), "has no TLS") {
			t.Errorf("%s without TLS: %v", path, err)
		}
	}
	if err := begin(context.Background(), strings.Replace(good, "OWN/k", "", 1)); err == nil {
		t.Error("a provider without keys is taken")
	}
	status = http.StatusBadGateway
	if err := begin(context.Background(), strings.Repeat("<p>\n", 1000)); err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
		t.Errorf("a page of the provider: %v", err)
	}
}

// A name that is missing, or of a guest, makes no user; groups are a list of texts, one text, or
// none. Those that the provider keeps back are not none.
func TestPerson(t *testing.T) {
	p := New(&Settings{NameClaim: "upn", NameSuffix: "@example.com", GroupClaim: "roles"})
	for name, c := range map[string]struct {
		claims map[string]any
		want   string // of the person, or in the error
	}{
		"a list":    {map[string]any{"upn": "alice@example.com", "roles": []any{"a", "b"}}, "alice a,b"},
		"one group": {map[string]any{"upn": "alice@example.com", "roles": "a"}, "alice a"},
		"no groups": {map[string]any{"upn": "alice@example.com"}, "alice "},
		"a guest":   {map[string]any{"upn": "alice@example.org"}, `names you "alice@example.org", which does not end with "@example.com"`},
		"no suffix": {map[string]any{"upn": "alice"}, `names you "alice", which does not end with`},
		"kept back": {map[string]any{"upn": "alice@example.com", "_claim_names": map[string]any{"roles": "src1"}}, `more groups of you than it tells in the claim "roles"`},
		"another's": {map[string]any{"upn": "alice@example.com", "_claim_names": map[string]any{"address": "src1"}}, "alice "},
		"no object": {map[string]any{"upn": "alice@example.com", "roles": "a", "_claim_names": 7.0}, "alice a"},
		"no name":   {map[string]any{"name": "Alice", "preferred_username": "alice"}, `claim "upn" is missing`},
		"a number":  {map[string]any{"upn": 7.0}, `claim "upn" is missing`},
		"numbers":   {map[string]any{"upn": "alice@example.com", "roles": []any{1.0}}, `"roles" is no list of texts`},
		"a map":     {map[string]any{"upn": "alice@example.com", "roles": map[string]any{}}, `"roles" is no list of texts`},
		"very many": {map[string]any{"upn": "alice@example.com", "roles": make([]any, 1001)}, "names 1001 groups"},
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
