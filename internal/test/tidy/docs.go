package tidy

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// vagueNames say where code is, not what it is for.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "pkg", "misc", "base"}

// checkDocs wants a comment on every package and on everything exported outside
// tests and commands.
func (t *tree) checkDocs() {
	seen := map[string]bool{}
	t.each(func(p *pkg, f *file) {
		if slices.Contains(vagueNames, path.Base(p.dir)) || slices.Contains(vagueNames, f.ast.Name.Name) {
			t.report(f.path, 1, "a package needs a name that says what it is for, not %q", path.Base(p.dir))
		}
		if !seen[p.dir] {
			seen[p.dir] = true
			t.checkPackageDoc(p)
		}
		if f.test || f.ast.Name.Name == "main" {
			return
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				t.checkFuncDoc(f, d)
			case *ast.GenDecl:
				t.checkGenDoc(f, d)
			}
		}
	})
}

func (t *tree) checkPackageDoc(p *pkg) {
	onlyTests := true
	for _, f := range p.files {
		onlyTests = onlyTests && f.test
		if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			return
		}
	}
	if !onlyTests {
		t.report(p.files[0].path, 1, "package %s has no package comment: say what it is for and what it must not do",
			p.dir)
	}
}

func (t *tree) checkFuncDoc(f *file, d *ast.FuncDecl) {
	if !d.Name.IsExported() || d.Doc != nil {
		return
	}
	if d.Recv != nil && !ast.IsExported(receiver(d)) {
		return
	}
	t.at(f, d.Pos(), "exported %s has no doc comment", d.Name.Name)
}

func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch e := x.(type) {
		case *ast.StarExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// checkGenDoc accepts the comment of a group for all its members.
func (t *tree) checkGenDoc(f *file, d *ast.GenDecl) {
	if d.Tok == token.IMPORT || (d.Doc != nil && d.Tok != token.TYPE) {
		return
	}
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
				t.at(f, s.Pos(), "exported type %s has no doc comment", s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && s.Doc == nil && s.Comment == nil {
					t.at(f, n.Pos(), "exported %s has no doc comment", n.Name)
				}
			}
		}
	}
}

const (
	docsIndex  = "docs/README.md"
	eventsPage = "docs/events.md"
	eventsFile = "internal/core/model/event.go"
)

var (
	pageLink   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	makeCall   = regexp.MustCompile(`(?m)^\s*\$?\s*make((?: +[a-z][a-z-]*)+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*)\s*:`)
	eventKind  = regexp.MustCompile(`event\(\) Kind\s*\{ return "([A-Za-z]+)" \}`)
)

// checkPages holds the pages to the code: commands that exist, an index that
// knows every page, a description of every event.
func (t *tree) checkPages() {
	t.checkMakeCalls()
	t.checkLinks()
	for name := range t.texts {
		rel, ok := strings.CutPrefix(name, "docs/")
		if ok && name != docsIndex && strings.HasSuffix(name, ".md") && !strings.Contains(t.texts[docsIndex], "("+rel) {
			t.report(name, 1, "%s does not link to this page", docsIndex)
		}
	}
	p := t.pkgs[path.Dir(eventsFile)]
	if p == nil {
		return
	}
	for _, f := range p.files {
		for _, m := range eventKind.FindAllStringSubmatch(f.src, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(t.texts[eventsPage]) {
				t.report(eventsPage, 1, "the event %s of %s is not described", m[1], f.path)
			}
		}
	}
}

// checkLinks wants that every relative link of a page leads somewhere.
func (t *tree) checkLinks() {
	for name, text := range t.texts {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			for _, m := range pageLink.FindAllStringSubmatch(line, -1) {
				target := path.Join(path.Dir(name), m[1])
				if _, err := os.Stat(filepath.Join(t.root, filepath.FromSlash(target))); err != nil {
					t.report(name, i+1, "the link to %s leads nowhere", m[1])
				}
			}
		}
	}
}

func (t *tree) checkMakeCalls() {
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(t.texts["Makefile"], -1) {
		targets[m[1]] = true
	}
	for _, page := range []string{"README.md", ".ci/run"} {
		for i, line := range strings.Split(t.texts[page], "\n") {
			m := makeCall.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			for name := range strings.FieldsSeq(m[1]) {
				if !targets[name] {
					t.report(page, i+1, "the Makefile has no target %q", name)
				}
			}
		}
	}
}
