package task

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/executor/docker"
)

// Files are kept once for what they hold, for every user to read; a program without a loader
// needs none.
func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"libc.so.6": []byte("one"), "ld.so": []byte("two")}
	first, err := keepFiles(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keepFiles(dir, files); err != nil || again != first {
		t.Errorf("the same files are in %s and %s: %v", first, again, err)
	}
	files["ld.so"] = []byte("three")
	if other, err := keepFiles(dir, files); err != nil || other == first {
		t.Errorf("other files are in %s, too: %v", other, err)
	}
	for path, want := range map[string]os.FileMode{"": 0o755, "libc.so.6": 0o755} {
		if st, err := os.Stat(filepath.Join(first, path)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, st, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "libraries.new*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	b := docker.Box{Command: []string{"/comb/bin/comb", "inside"}}
	Libraries{}.Needed(&b, "/comb/lib")
	if len(b.Mounts) != 0 || len(b.Command) != 2 || b.Hidden != nil {
		t.Errorf("a program that needs none: %+v", b)
	}
	Libraries{folder: first, loader: "ld.so"}.Needed(&b, "/comb/lib")
	command := []string{"/comb/lib/ld.so", "--library-path", "/comb/lib", "/comb/bin/comb", "inside"}
	mount := docker.Mount{Source: first, Target: "/comb/lib", ReadOnly: true}
	if !slices.Equal(b.Command, command) || !slices.Equal(b.Mounts, []docker.Mount{mount}) || len(b.Hidden) != 1 {
		t.Errorf("a program that needs some: %+v", b)
	}
}

// What could not be written is not there at the next start, either, and leaves nothing behind. A
// folder that lacks a part, as a full disk or a lost machine leaves it, is written anew.
func TestLibrariesThatWereNotWritten(t *testing.T) {
	dir := t.TempDir()
	long := map[string][]byte{"libc.so.6": []byte("one"), strings.Repeat("x", 300): []byte("two")}
	for range 2 {
		if folder, err := keepFiles(dir, long); err == nil || folder != "" {
			t.Errorf("a name that is too long is in %q: %v", folder, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	files := map[string][]byte{"libc.so.6": []byte("one"), "ld.so": []byte("two")}
	other, err := keepFiles(dir, map[string][]byte{"ld.so": []byte("three")})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := keepFiles(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	for what, damage := range map[string]func() error{
		"a lost file": func() error { return os.Remove(filepath.Join(folder, "ld.so")) },
		"a cut file":  func() error { return os.Truncate(filepath.Join(folder, "libc.so.6"), 1) },
		"a killed start": func() error {
			return os.Mkdir(filepath.Join(dir, unfinished+"1234"), 0o700)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		again, err := keepFiles(dir, files)
		if err != nil || again != folder || !whole(folder, files) {
			t.Errorf("%s: they are in %s, whole: %v, %v", what, again, whole(again, files), err)
		}
		left, err := os.ReadDir(dir)
		if _, gone := os.Stat(other); err != nil || gone != nil || len(left) != 2 {
			t.Errorf("%s: there is %v, %v; the one of other files: %v", what, left, err, gone)
		}
	}
}
