package contexts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestContexts: what is kept comes back, in a file and a folder of this user's alone.
func TestContexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config", "comb")
	f, err := Load(dir)
	if err != nil || f.Now() != nil {
		t.Fatalf("no file: %v, %v", f, err)
	}
	f.Put(Context{Name: "alice@a:1", Server: "http://a:1", User: "alice", Token: "one"})
	was := f.Put(Context{Name: "alice@a:1", Server: "http://a:1", User: "alice", Token: "two", Expires: 5})
	f.Put(Context{Name: "bob@b:1", Server: "http://b:1", User: "bob", Token: "three"})
	if was.Token != "one" || len(f.Contexts) != 2 || f.Now().User != "bob" {
		t.Fatalf("%+v after %+v", f, was)
	}
	if err := Save(dir, f); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, "config.yaml"): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, mode)
		}
	}
	back, err := Load(dir)
	if err != nil || back.Now().Token != "three" || back.Find("alice@a:1").Expires != 5 {
		t.Fatalf("%+v, %v", back, err)
	}
	if err := back.Use("alice@a:2"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "did you mean alice@a:1?") {
		t.Error(err)
	}
	if err := back.SetVC("bob@b:1", "vision"); err != nil {
		t.Error(err)
	}
	if back.Put(Context{Name: "bob@b:1", Server: "http://b:1", User: "bob", Token: "four"}); back.Now().VC != "vision" {
		t.Errorf("another sign-in forgets the VC: %+v", back.Now())
	}
	if err := back.SetVC("bob@b:2", "vision"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := back.Use(Local); err != nil || back.Now() != nil {
		t.Errorf("%v, %+v", err, back.Now())
	}
	if _, err := back.Delete("bob@b:1"); err != nil || back.Find("bob@b:1") != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

// TestContextsRefused: a file that others could read or write, or that is no contexts, is refused,
// and no error shows what is in it.
func TestContextsRefused(t *testing.T) {
	const canary = "comb_canary"
	good := "current: a\ncontexts:\n- {name: a, server: 'http://a', user: alice, token: " + canary + "}\n"
	for name, c := range map[string]struct {
		text string
		mode fs.FileMode
		want string
	}{
		"others read":  {good, 0o644, "has mode 0644, so that others can read or write the tokens in it: chmod 600 it"},
		"group writes": {good, 0o620, "has mode 0620"},
		"unknown key":  {good + "colour: " + canary + "\n", 0o600, "cannot be read as contexts"},
		"no YAML":      {"- [" + canary, 0o600, "cannot be read as contexts"},
		"twice":        {good + "- {name: a, server: 'http://b', user: bob, token: t}\n", 0o600, "a name of its own"},
		"local":        {"contexts: [{name: local, server: 'http://a'}]\n", 0o600, "other than local"},
		"no current":   {"current: b\n", 0o600, `the current context "b" is not there`},
		"too large":    {strings.Repeat("#", maxFile+1), 0o600, "more than"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Error(err)
	}
}

// TestFind: what is said wins over the current context, and that over a server of this machine; a
// context's token goes to no other server than its own.
func TestFind(t *testing.T) {
	state, dir, data := t.TempDir(), t.TempDir(), t.TempDir()
	token := filepath.Join(data, "admin-token")
	if err := os.WriteFile(token, []byte("root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "nightly.token")
	if err := os.WriteFile(other, []byte("nightly\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here := Endpoint{URL: "http://127.0.0.1:8420", TokenFile: token, PID: os.Getpid()}
	file := File{Contexts: []Context{{Name: "a", Server: "http://a:1", User: "alice", Token: "of-a"}, {Name: "h", Server: here.URL, User: "bob", Token: "of-h"},
		{Name: "b1", Server: "https://b", Token: "of-b1"}, {Name: "b2", Server: "https://b", Token: "of-b2"}}}
	for _, c := range []struct {
		current    string
		here       bool
		wanted     ServerChoice
		url, token string
	}{
		{"", true, ServerChoice{}, here.URL, "root"},
		{"a", true, ServerChoice{}, "http://a:1", "of-a"},
		{"h", true, ServerChoice{}, here.URL, "of-h"},
		{"a", true, ServerChoice{Server: here.URL}, here.URL, "root"},
		{"h", true, ServerChoice{Server: "127.0.0.1:8420/"}, here.URL, "of-h"},
		{"", true, ServerChoice{Server: "a:1"}, "http://a:1", "of-a"},
		{"a", true, ServerChoice{Server: "http://c"}, "http://c", ""},
		{"a", true, ServerChoice{Server: "https://a:1"}, "https://a:1", ""},
		{"a", true, ServerChoice{Server: "https://b"}, "https://b", ""},
		{"b2", true, ServerChoice{Server: "https://B/"}, "https://B", "of-b2"},
		{"a", true, ServerChoice{TokenFile: token}, here.URL, "root"},
		{"a", true, ServerChoice{TokenFile: other}, "http://a:1", "nightly"},
		{"", true, ServerChoice{TokenFile: other}, here.URL, "nightly"},
		{"a", true, ServerChoice{Server: "http://c", TokenFile: other}, "http://c", "nightly"},
		{"", false, ServerChoice{Server: here.URL}, here.URL, "of-h"},
	} {
		file.Current = c.current
		if err := Save(dir, file); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(state, EndpointFile))
		if c.here {
			if err := Announce(here, []string{filepath.Join(state, EndpointFile)}); err != nil {
				t.Fatal(err)
			}
		}
		c.wanted.State, c.wanted.Dir = state, dir
		got, err := c.wanted.Find()
		if err != nil || got.URL != c.url || got.Token != c.token || (got.Known != nil) != (c.here && c.url == here.URL) {
			t.Errorf("current %q, %+v: %+v, %v; want %s by %q", c.current, c.wanted, got, err, c.url, c.token)
		}
	}
	if _, err := (ServerChoice{State: t.TempDir(), Dir: t.TempDir()}).Find(); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(data, "cluster-id"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, current := range []string{"a", ""} { // its server does not run: its token goes to no other
		file.Current = current
		if err := Save(dir, file); err != nil {
			t.Fatal(err)
		}
		if got, err := (ServerChoice{State: t.TempDir(), Dir: dir, TokenFile: token}).Find(); !errors.Is(err, errAway) {
			t.Errorf("current %q: the token of a data directory goes to %+v, %v", current, got, err)
		}
	}
}
