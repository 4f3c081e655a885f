package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTree holds this repository to its rules and reports all breaches at once.
func TestTree(t *testing.T) {
	found, err := Check(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

const goodTable = `# Architecture

## Packages and what each may import

    cmd/comb/            wires
    internal/
      core/       pure    decides                        -
      edge/               speaks to the world            core
      outer/              serves                         edge
      tidy/               the architecture test
`

// TestRules breaks each rule in a small tree and wants exactly that breach.
func TestRules(t *testing.T) {
	cases := []struct{ name, file, src, want string }{
		{"good", "internal/core/a.go", "// Package core decides.\npackage core\n", ""},
		{"transitive import", "internal/outer/a.go", "// Package outer serves.\npackage outer\nimport _ \"example.org/m/internal/core\"\n", ""},
		{"import", "internal/core/a.go", "// Package core decides.\npackage core\nimport _ \"example.org/m/internal/edge\"\n", "internal/core may not import internal/edge"},
		{"unlisted", "internal/new/a.go", "// Package new is new.\npackage new\n", "not in the import table"},
		{"third party", "internal/core/a.go", "// Package core decides.\npackage core\nimport _ \"example.com/x\"\n", "only the standard library"},
		{"clock", "internal/core/a.go", "// Package core decides.\npackage core\nimport \"time\"\nvar now = time.Now()\n", "calls time.Now"},
		{"clock renamed", "internal/core/a.go", "// Package core decides.\npackage core\nimport x \"time\"\nvar now = x.Since(x.Time{})\n", "calls time.Since"},
		{"os", "internal/core/a.go", "// Package core decides.\npackage core\nimport _ \"os/exec\"\n", "imports os/exec"},
		{"goroutine", "internal/core/a.go", "// Package core decides.\npackage core\nfunc f() { go f() }\n", "uses a goroutine"},
		{"channel", "internal/core/a.go", "// Package core decides.\npackage core\nvar c chan int\n", "uses a channel"},
		{"select", "internal/core/a.go", "// Package core decides.\npackage core\nfunc f() { select {} }\n", "uses a select"},
		{"init", "internal/core/a.go", "// Package core decides.\npackage core\nfunc init() {}\n", "has an init function"},
		{"global", "internal/core/a.go", "// Package core decides.\npackage core\nvar n [3]int\nfunc f() { n[1]++ }\n", "changes its variable n"},
		{"local", "internal/core/a.go", "// Package core decides.\npackage core\nfunc f() int { n := 1; n++; return n }\n", ""},
		{"map", "internal/core/a.go", "// Package core decides.\npackage core\nfunc f(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}\n", "ranges over a map"},
		{"map, sorted", "internal/core/a.go", "// Package core decides.\npackage core\nfunc f(m map[int]int) (s []int) {\n\t// sorted below\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}\n", ""},
		{"map, copied", "internal/core/a.go", "// Package core decides.\npackage core\nfunc f(m, n map[int]int) {\n\tfor k, v := range m {\n\t\tn[k] = v\n\t}\n}\n", ""},
		{"impure elsewhere", "internal/edge/a.go", "// Package edge speaks.\npackage edge\nimport \"time\"\nvar now = time.Now()\n", ""},
		{"long function", "internal/edge/a.go", "// Package edge speaks.\npackage edge\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFuncLines) + "}\n", "f has 72 lines"},
		{"long file", "internal/edge/a.go", "// Package edge speaks.\npackage edge\n" + strings.Repeat("// -\n", maxFileLines), "the file has 602 lines"},
		{"parameters", "internal/edge/a.go", "// Package edge speaks.\npackage edge\nfunc f(a, b, c, d, e, g int) {}\n", "f has 6 parameters"},
		{"nesting", "internal/edge/a.go", "// Package edge speaks.\npackage edge\nfunc f() {\nfor {\nif true {\nfor {\nif true {\nfor {\n}\n}\n}\n}\n}\n}\n", "nests 5 levels"},
		{"else if", "internal/edge/a.go", "// Package edge speaks.\npackage edge\nfunc f(a int) {\nif a == 1 {\n} else if a == 2 {\n} else if a == 3 {\n} else if a == 4 {\n} else if a == 5 {\n} else if a == 6 {\n}\n}\n", ""},
		{"package comment", "internal/edge/a.go", "package edge\n", "has no package comment"},
		{"function comment", "internal/edge/a.go", "// Package edge speaks.\npackage edge\n\nfunc F() {}\n", "exported F has no doc comment"},
		{"type comment", "internal/edge/a.go", "// Package edge speaks.\npackage edge\n\ntype T int\n", "exported type T has no doc comment"},
		{"const comment", "internal/edge/a.go", "// Package edge speaks.\npackage edge\n\nconst C = 1\n", "exported C has no doc comment"},
		{"group comment", "internal/edge/a.go", "// Package edge speaks.\npackage edge\n\n// Both.\nconst (\n\tC = 1\n\tD = 2\n)\n", ""},
		{"unfinished", "internal/edge/a.go", "// Package edge speaks.\npackage edge\n\n// TO" + "DO: more\n", "finish it"},
		{"skip", "internal/edge/a_test.go", "package edge\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Skip() }\n", "TestA skips"},
		{"vague name", "internal/edge/util/a.go", "// Package util is vague.\npackage util\n", "needs a name"},
		{"make", "README.md", "    $ make nothing\n", "no target \"nothing\""},
		{"page", "docs/lost.md", "lost\n", "does not link to this page"},
		{"link", "docs/README.md", "[a](gone.md)\n", "leads nowhere"},
		{"event", "internal/sched/event.go", "// Package sched is here.\npackage sched\nfunc (X) event() Kind { return \"X\" }\n", "event X of"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { checkCase(t, c.file, c.src, c.want) })
	}
}

func checkCase(t *testing.T, name, src, want string) {
	t.Helper()
	root := t.TempDir()
	write(t, root, "go.mod", "module example.org/m\n")
	write(t, root, "ARCHITECTURE.md", goodTable)
	write(t, root, "Makefile", "test:\n")
	for _, p := range []string{"core", "edge"} {
		write(t, root, "internal/"+p+"/doc.go", "package "+p+"\n")
	}
	write(t, root, name, src)
	found, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	hit := false
	for _, v := range found {
		if want != "" && strings.Contains(v.Message, want) {
			hit = true
		}
		if want == "" && v.File == name {
			t.Errorf("unexpected: %v", v)
		}
	}
	if want != "" && !hit {
		t.Errorf("want %q, found %v", want, found)
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	full := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
