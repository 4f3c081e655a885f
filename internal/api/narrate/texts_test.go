package narrate

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the list of texts")

// told are the packages whose texts users read: reasons, suggestions, estimates, notices, plans.
// Notices come from what runs tasks.
var told = []struct {
	pkg   string
	files string // of it, as patterns
}{
	{"core/explain", "*.go"}, {"core/decide", "*.go"}, {"core/timeline", "*.go"}, {"core/state", "*.go"},
	{"core/tables", "*.go"}, {"core/reconfigure", "*.go"}, {"core/policy", "*.go"}, {"core/model", "*.go"}, {"core/access", "*.go"}, {"core/exit", "*.go"},
	{"api/narrate", "*.go"}, {"api/server", "attempts.go"}, {"executor/local", "*.go"}, {"executor/docker", "image_records.go fetch.go images*.go"},
	{"executor/machine", "guard.go"}, {"executor/kube", "*.go"},
}

// TestTexts: every text of the core that users read stands in one list, read aloud once. A new one
// fails here until it stands there: go test ./internal/api/narrate -run Texts -args -update
func TestTexts(t *testing.T) {
	var out strings.Builder
	for _, p := range told {
		var files []string
		for pattern := range strings.FieldsSeq(p.files) {
			some, err := filepath.Glob("../../" + p.pkg + "/" + pattern)
			if err != nil || len(some) == 0 {
				t.Fatalf("%s has no file %s: %v", p.pkg, pattern, err)
			}
			files = append(files, some...)
		}
		texts := textsOf(t, p.pkg, files)
		if len(texts) == 0 {
			t.Errorf("%s has no texts", p.pkg)
		}
		fmt.Fprintf(&out, "# %s\n%s\n\n", p.pkg, strings.Join(texts, "\n"))
	}
	const kept = "testdata/texts.txt"
	if *update {
		if err := os.WriteFile(kept, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	had, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(had), "\n"), strings.Split(out.String(), "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("not in %s: %q", kept, line)
		}
	}
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("in %s, and in no package any more: %q", kept, line)
		}
	}
}

// textsOf are the literals of files of a package that hold words, but for those of its own checks.
func textsOf(t *testing.T, pkg string, files []string) (out []string) {
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "verify.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return !strings.HasPrefix(strings.ToLower(n.Name.Name), "verify")
			case *ast.Field:
				return n.Tag == nil
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				words := strings.ContainsFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
				if err == nil && n.Kind == token.STRING && words && strings.Contains(strings.TrimSpace(text), " ") &&
					!strings.HasPrefix(text, path.Base(pkg)+": ") {
					out = append(out, strconv.Quote(text))
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}
