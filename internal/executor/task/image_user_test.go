package task

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/test/testkit"
)

func files(t *testing.T, passwd, group string) (string, string) {
	t.Helper()
	dir := t.TempDir()
	p, g := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	for path, text := range map[string]string{p: passwd, g: group} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p, g
}

// A USER of an image is looked up as engines do it.
func TestLookup(t *testing.T) {
	p, g := files(t, "root:x:0:0:root:/root:/bin/sh\n# no user\nshort:x:1\nada:x:1000:100:Ada:/home/ada:/bin/sh\nodd:x:y:1:::\n+nis:x:5:5:::\n",
		"root:x:0:\nusers:x:100:ada\nvideo:x:44:eve,ada\nother:x:45:eve\nbad:x:x:ada\n")
	for _, c := range []struct {
		text  string
		want  Account
		fault string
	}{
		{"", Account{Name: "root", Home: "/root"}, ""},
		{"ada", Account{UID: 1000, GID: 100, Groups: []uint32{44}, Name: "ada", Home: "/home/ada"}, ""},
		{"1000", Account{UID: 1000, GID: 100, Groups: []uint32{44}, Name: "ada", Home: "/home/ada"}, ""},
		{"ada:video", Account{UID: 1000, GID: 44, Name: "ada", Home: "/home/ada"}, ""},
		{"ada:7", Account{UID: 1000, GID: 7, Name: "ada", Home: "/home/ada"}, ""},
		{"4242", Account{UID: 4242, Home: "/"}, ""},
		{"eve", Account{}, `user "eve" is not in its /etc/passwd`},
		{"odd", Account{}, `user "odd"`},
		{"+nis", Account{}, `user "+nis"`},
		{"ada:none", Account{}, `group "none" is not in its /etc/group`},
		{"4294967295", Account{}, "is not in its /etc/passwd"},
	} {
		got, err := lookup(c.text, p, g)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%q: %v, want %q", c.text, err, c.fault)
			}
			continue
		}
		if err != nil || got.UID != c.want.UID || got.GID != c.want.GID || got.Name != c.want.Name || got.Home != c.want.Home || !slices.Equal(got.Groups, c.want.Groups) {
			t.Errorf("%q: %+v, %v, want %+v", c.text, got, err, c.want)
		}
	}
	if a, err := lookup("", p+"-missing", g+"-missing"); err != nil || a.UID != 0 || a.Home != "/" {
		t.Errorf("without files: %+v, %v", a, err)
	}
}

// What is no plain file is refused, and is not waited for.
func TestLookupOfOtherThings(t *testing.T) {
	dir := t.TempDir()
	pipe, link, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "long")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(long)
	if err == nil {
		err = f.Truncate(longest + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, path := range []string{pipe, link, dir, os.DevNull, long} {
		done := make(chan error, 1)
		go func() {
			_, err := lookup("ada", path, dir+"/missing")
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "use one with a") {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(testkit.Patience):
			t.Fatalf("%s is waited for", path)
		}
	}
}
