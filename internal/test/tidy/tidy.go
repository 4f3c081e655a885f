// Package tidy is the architecture test: it holds the tree to the import table
// of ARCHITECTURE.md, to the purity of the decision core, to sizes and to
// documentation. It reads source files with the standard library alone and must
// not import any other package of this module, so that it can judge all of them.
package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Violation is one place that breaks a rule. File is relative to the root of the
// tree; Line counts from 1, and is 1 where the file as a whole is meant.
type Violation struct {
	File    string
	Line    int
	Message string
}

// String gives "file:line: message", which editors can jump to.
func (v Violation) String() string { return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Message) }

// tree is everything that the rules look at.
type tree struct {
	root   string
	module string
	fset   *token.FileSet
	pkgs   map[string]*pkg   // by folder, relative to the root, slash-separated
	texts  map[string]string // other files that people read, by relative path
	found  []Violation
}

// pkg is one folder with Go files.
type pkg struct {
	dir   string
	files []*file
}

// file is one parsed Go file.
type file struct {
	path string
	test bool
	src  string
	ast  *ast.File
}

// Check looks at the module whose root folder is given and returns all
// violations, sorted by place. The error is about reading, never about a rule.
func Check(root string) ([]Violation, error) {
	t, err := load(root)
	if err != nil {
		return nil, err
	}
	t.checkImports()
	t.checkPackages()
	t.checkPurity()
	t.checkSizes()
	t.checkDocs()
	t.checkWords()
	t.checkPages()
	if err := t.checkCeilings(); err != nil {
		return nil, err
	}
	slices.SortFunc(t.found, func(a, b Violation) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Message, b.Message)
	})
	return slices.Compact(t.found), nil
}

func (t *tree) report(file string, line int, format string, args ...any) {
	t.found = append(t.found, Violation{file, line, fmt.Sprintf(format, args...)})
}

func (t *tree) at(f *file, p token.Pos, format string, args ...any) {
	t.report(f.path, t.fset.Position(p).Line, format, args...)
}

// skipped are folders without source of ours.
var skipped = map[string]bool{".git": true, "bin": true, ".tmp": true, "node_modules": true, "test-results": true,
	"testdata": true}

func load(root string) (*tree, error) {
	t := &tree{root: root, fset: token.NewFileSet(), pkgs: map[string]*pkg{}, texts: map[string]string{}}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("tidy: %s is no module: %w", root, err)
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	t.module = strings.TrimSpace(strings.TrimPrefix(first, "module"))
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && skipped[d.Name()] {
				return fs.SkipDir
			}
			return nil
		}
		return t.add(name)
	})
	return t, err
}

func (t *tree) add(name string) error {
	rel, err := filepath.Rel(t.root, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	isGo := strings.HasSuffix(rel, ".go")
	if !isGo && !isText(rel) {
		return nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !isGo {
		t.texts[rel] = string(src)
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments)
	if err != nil {
		t.report(rel, 1, "does not parse: %v", err)
		return nil
	}
	dir := path.Dir(rel)
	if t.pkgs[dir] == nil {
		t.pkgs[dir] = &pkg{dir: dir}
	}
	f := &file{path: rel, test: strings.HasSuffix(rel, "_test.go"), src: string(src), ast: parsed}
	t.pkgs[dir].files = append(t.pkgs[dir].files, f)
	return nil
}

func isText(rel string) bool {
	base := path.Base(rel)
	return strings.HasSuffix(base, ".md") || base == "Makefile" || rel == ".ci/run"
}

// each calls f for every Go file, in order of path.
func (t *tree) each(f func(*pkg, *file)) {
	dirs := make([]string, 0, len(t.pkgs))
	for d := range t.pkgs {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	for _, d := range dirs {
		for _, x := range t.pkgs[d].files {
			f(t.pkgs[d], x)
		}
	}
}
