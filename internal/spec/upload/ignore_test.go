package upload

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The ignore files of a tree, and what is left of it. Where git is there it says the same.
func TestIgnored(t *testing.T) {
	tree := map[string]string{
		".gitignore": "# comment\n\n*.pyc\n/build/\nlogs/\n!logs/keep\ndata/**\n!data/*.txt\nfoo/*.o\n**/cache\na/**/z\n\\#odd\n\\!bang\ntrail \nspace\\ \nq?x\n[abc]1\n[!d]2\n" +
			"deep/*/skip\n!kept.pyc\n\r\n/only\nx**y\n/\n!\n*.tmp/\nnever[\n",
		"src/.gitignore":    "*.txt\n!important.txt\n/local\nsub/\n",
		"src/sub/x":         "", // its folder is left out
		"src/.gitignore2":   "",
		"src/a.txt":         "",
		"src/important.txt": "",
		"src/local/a":       "",
		"src/more/local":    "",
		"src/more/a.txt":    "",
		"src/build/a":       "",
		"build/a":           "",
		"a.pyc":             "",
		"kept.pyc":          "",
		"dir/kept.pyc":      "",
		"logs/keep":         "",
		"deep/logs/x":       "",
		"data/a.txt":        "",
		"data/b.bin":        "",
		"data/in/c.txt":     "",
		"foo/a.o":           "",
		"foo/in/a.o":        "",
		"bar/foo/a.o":       "",
		"one/cache/x":       "",
		"cache":             "",
		"a/z":               "",
		"a/b/z":             "",
		"a/b/c/z":           "",
		"a/b/c/y":           "",
		"#odd":              "",
		"!bang":             "",
		"trail":             "",
		"space ":            "",
		"qax":               "", "qaax": "",
		"a1": "", "d1": "", "a2": "", "d2": "",
		"deep/x/skip": "", "deep/skip": "", "deep/x/y/skip": "",
		"only": "", "in/only": "",
		"x-y": "", "xy": "",
		"t.tmp/a": "", "u.tmp": "",
		"never[": "",
	}
	want := []string{"a/b/c/y", "bar/foo/a.o", "d1", "d2", "data/a.txt", "deep/skip", "deep/x/y/skip", "dir/kept.pyc",
		"foo/in/a.o", "in/only", "kept.pyc", "never[", "qaax", "src/.gitignore", "src/.gitignore2", "src/build/a", "src/important.txt", "src/more/local", "u.tmp", ".gitignore"}
	slices.Sort(want)
	dir := plant(t, tree)
	f, err := Open(dir, Default)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for _, e := range f.entries {
		if !e.mode.IsDir() {
			got = append(got, e.name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Logf("not held against git, which is not here")
		return
	}
	run := func(args ...string) string {
		cmd := exec.Command(git, append([]string{"-C", dir, "-c", "core.excludesFile=/dev/null", "-c", "core.quotePath=off"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("init", "-q")
	listed := strings.Split(strings.TrimSuffix(run("ls-files", "-z", "-o", "--exclude-per-directory=.gitignore"), "\x00"), "\x00")
	slices.Sort(listed)
	if !slices.Equal(got, listed) {
		t.Errorf("git has other files:\n%q\ngot\n%q", listed, got)
	}
}

// .combignore takes back, and leaves out more; what is in .git is never in it.
func TestCombIgnore(t *testing.T) {
	dir := plant(t, map[string]string{".gitignore": "model.bin\n*.log\n", ".combignore": "!model.bin\n/notes\n", "model.bin": "m", "a.log": "", "notes/x": "", "main.py": "",
		".git/config": "", "sub/.git": "a file", "sub/.combignore": "!b.log", "sub/b.log": ""})
	f, err := Open(dir, Default)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for _, e := range f.entries {
		got = append(got, e.name)
	}
	if want := []string{".combignore", ".gitignore", "main.py", "model.bin", "sub", "sub/.combignore", "sub/b.log"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// plant makes a folder with files.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
