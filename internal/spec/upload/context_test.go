package upload

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// names are those of a folder's entries, folders with a slash behind them.
func names(f *Folder) (list []string) {
	for _, e := range f.entries {
		if e.mode.IsDir() {
			e.name += "/"
		}
		list = append(list, e.name)
	}
	return list
}

// What a .dockerignore leaves out of the folder that an image is built of: from the top on, the
// last line decides, and a line about a folder is about all in it. The Dockerfile is there whatever
// it says, and each folder stands before what is in it.
func TestDockerIgnore(t *testing.T) {
	tree := map[string]string{"Dockerfile": "FROM x", "docker/gpu/Dockerfile": "FROM y", "docker/notes": "", "a.py": "", "lib/a.py": "", "lib/b.txt": "", "lib/deep/c.txt": "",
		"lib/.dockerignore": "*\n", "data/x.bin": "", "data/keep/me": "", "data/keep/not": "", "log": "", "in/log/x": "", ".git/config": "", ".gitignore": "*.py\n", "x.tmp": "", "in/x.tmp": ""}
	for name, c := range map[string]struct {
		ignore, dockerfile string
		want               []string
	}{
		"nothing is said": {"", "Dockerfile", []string{".dockerignore", ".gitignore", "Dockerfile", "a.py", "data/", "data/keep/", "data/keep/me", "data/keep/not", "data/x.bin",
			"docker/", "docker/gpu/", "docker/gpu/Dockerfile", "docker/notes", "in/", "in/log/", "in/log/x", "in/x.tmp", "lib/", "lib/.dockerignore", "lib/a.py", "lib/b.txt", "lib/deep/", "lib/deep/c.txt", "log", "x.tmp"}},
		"from the top on": {"# data/x\n\n /log/ \n*.tmp\ndocker\nlib/*\ndata", "Dockerfile", []string{".dockerignore", ".gitignore", "Dockerfile", "a.py", "in/", "in/log/", "in/log/x", "in/x.tmp", "lib/"}},
		"at each depth":   {"**/*.tmp\n**/log\ndocker\ndata\n**/*.txt\r\n", "Dockerfile", []string{".dockerignore", ".gitignore", "Dockerfile", "a.py", "in/", "lib/", "lib/.dockerignore", "lib/a.py", "lib/deep/"}},
		"all but some":    {"*\n!data/keep\ndata/keep/not\n!lib/**/*.txt", "Dockerfile", []string{".dockerignore", "Dockerfile", "data/", "data/keep/", "data/keep/me", "lib/", "lib/b.txt", "lib/deep/", "lib/deep/c.txt"}},
		"all, and yet":    {".", "docker/gpu/Dockerfile", []string{".dockerignore", "docker/", "docker/gpu/", "docker/gpu/Dockerfile"}},
		"order decides":   {"!a.py\n*.py\n!Dockerfile\nDockerfile\ndata\ndocker\nin\nlib\nlog", "Dockerfile", []string{".dockerignore", ".gitignore", "Dockerfile", "x.tmp"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree[".dockerignore"] = c.ignore
			f, err := OpenContext(plant(t, tree), c.dockerfile, Default)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := names(f)
			if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			var archive bytes.Buffer
			if err := f.Write(&archive); err != nil {
				t.Fatal(err)
			}
			if held, err := Check(&archive, Default); err != nil || held.Digest != f.Digest {
				t.Errorf("as an upload: %+v, %v", held, err)
			}
		})
	}
}

// A folder without its Dockerfile, or beyond the limits, is refused before anything is sent.
func TestNoContext(t *testing.T) {
	dir := plant(t, map[string]string{"a": strings.Repeat("x", 9<<10)})
	for want, c := range map[string]struct {
		dockerfile string
		limits     Limits
	}{
		"has no file Dockerfile":                                  {"Dockerfile", Default},
		"is not in the folder":                                    {"../Dockerfile", Default},
		"leave out what the build does not need in .dockerignore": {"a", Limits{Bytes: 8 << 10, Files: 10}},
	} {
		if _, err := OpenContext(dir, c.dockerfile, c.limits); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", c.dockerfile, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), make([]byte, longestIgnore+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenContext(dir, "a", Default); err == nil || !strings.Contains(err.Error(), ".dockerignore has 1.0 MiB, more than") {
		t.Errorf("a large .dockerignore: %v", err)
	}
}
