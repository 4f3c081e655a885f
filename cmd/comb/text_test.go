package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/test/seeds"
	"github.com/combsched/comb/internal/test/testkit"
)

// TestEnvironmentPage holds docs/environment.md to the variables of the code. What tests alone
// read stands in docs/testing.md.
func TestEnvironmentPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "environment.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\bCOMB(_[A-Z]+)+\b`)
	have, want := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(COMB_[A-Z_]+)` \\|").FindAllSubmatch(page, -1) {
		have[string(row[1])] = true
	}
	note := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range name.FindAllString(string(text), -1) {
			want[v] = true
		}
	}
	note(filepath.Join("..", "..", "Makefile"))
	for _, dir := range []string{"cmd", "internal", "examples"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				note(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []string{seeds.RangeEnv, testkit.ProgramsEnv, turnEnv} {
		if !want[v] {
			t.Errorf("the code names no %s any more: docs/testing.md speaks of it", v)
		}
		delete(want, v)
	}
	if len(want) < 15 || !maps.Equal(have, want) {
		t.Errorf("docs/environment.md has rows of %v; the code names %v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(want)))
	}
	for _, v := range name.FindAllString(string(page), -1) {
		if !have[v] {
			t.Errorf("docs/environment.md speaks of %s and has no row of it", v)
		}
	}
}

// TestUncordonSaysWhatItEnded: of a node that is not cordoned it may end a suspicion.
func TestUncordonSaysWhatItEnded(t *testing.T) {
	node := `{"name":"n1","up":true}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/nodes/n1") {
			fmt.Fprint(w, node)
			return
		}
		fmt.Fprintf(w, `{"repeated":%v}`, node == `{"name":"n1","up":true}`)
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("comb_0000000000000000_00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for is, want := range map[string]string{
		`{"name":"n1","up":true}`:                 "node n1: nothing was changed: it was not cordoned\n",
		`{"name":"n1","up":true,"cordoned":true}`: "node n1: uncordoned\n",
		`{"name":"n1","up":true,"suspect":1790000000000000,"reason":"3 jobs were refused there"}`: "" +
			"node n1: suspect no more (3 jobs were refused there): jobs may start there again\n",
	} {
		node = is
		var out, errs bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: &out, Errs: &errs, Env: func(string) string { return "" }, Now: time.Now}
		root := tree(a)
		root.SetArgs([]string{"node", "uncordon", "n1", "--server", server.URL, "--token-file", token})
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != want {
			t.Errorf("%s: %q %s, %v; want %q", is, out.String(), errs.String(), err, want)
		}
	}
}
