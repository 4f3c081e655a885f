package tidy

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"os/exec"
	"slices"
	"strings"
)

// impureImports reach the clock, the machine, other goroutines or chance. A
// prefix match on whole path elements.
var impureImports = []string{
	"os", "net", "log", "math/rand", "crypto/rand", "sync", "syscall", "unsafe", "runtime",
	"io/ioutil", "io/fs", "path/filepath", "embed", "plugin", "testing", "database/sql", "context",
}

// impureTime are the functions of package time that read or wait for the clock.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// checkPurity type-checks the pure packages, because only types
// tell a range over a map from one over a slice.
func (t *tree) checkPurity() {
	findStandardLibrary()
	world := &world{tree: t, std: importer.ForCompiler(t.fset, "source", nil), done: map[string]*checked{}}
	for _, dir := range t.readHouse().pureRows() {
		p := t.pkgs[dir]
		if p == nil {
			continue // announced in the table, written later
		}
		c, err := world.check(dir)
		if err != nil {
			t.report(p.files[0].path, 1, "does not type-check: %v", err)
			continue
		}
		for _, f := range p.files {
			if !f.test {
				(&purity{t, f, c}).check()
			}
		}
	}
}

// findStandardLibrary asks the go command where it is: a binary that was built with -trimpath does
// not know. Where the command does not say it either, type-checking tells what it lacks.
func findStandardLibrary() {
	if build.Default.GOROOT != "" {
		return
	}
	if root, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		build.Default.GOROOT = strings.TrimSpace(string(root))
	}
}

// checked is a type-checked package.
type checked struct {
	types *types.Package
	info  *types.Info
}

// world imports packages of this module from the tree, others from the standard
// library's source.
type world struct {
	tree *tree
	std  types.Importer
	done map[string]*checked
}

// Import implements types.Importer.
func (w *world) Import(name string) (*types.Package, error) {
	if own, ok := strings.CutPrefix(name, w.tree.module+"/"); ok {
		c, err := w.check(own)
		if err != nil {
			return nil, err
		}
		return c.types, nil
	}
	return w.std.Import(name)
}

func (w *world) check(dir string) (*checked, error) {
	if c := w.done[dir]; c != nil {
		return c, nil
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	if p := w.tree.pkgs[dir]; p != nil {
		for _, f := range p.files {
			if !f.test {
				files = append(files, f.ast)
			}
		}
	}
	conf := types.Config{Importer: w}
	tp, err := conf.Check(w.tree.module+"/"+dir, w.tree.fset, files, info)
	if err != nil {
		return nil, err
	}
	w.done[dir] = &checked{tp, info}
	return w.done[dir], nil
}

// purity checks one file of a pure package.
type purity struct {
	t *tree
	f *file
	c *checked
}

func (p *purity) check() {
	for _, spec := range p.f.ast.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		for _, bad := range impureImports {
			if name == bad || strings.HasPrefix(name, bad+"/") {
				p.t.at(p.f, spec.Pos(), "a pure package imports %s", name)
			}
		}
	}
	ast.Inspect(p.f.ast, func(n ast.Node) bool {
		p.concurrency(n)
		p.globals(n)
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				p.t.at(p.f, n.Pos(), "a pure package has an init function")
			}
		case *ast.SelectorExpr:
			p.clock(n)
		case *ast.RangeStmt:
			p.mapOrder(n)
		}
		return true
	})
}

func (p *purity) concurrency(n ast.Node) {
	what := ""
	switch n := n.(type) {
	case *ast.GoStmt:
		what = "a goroutine"
	case *ast.SelectStmt:
		what = "a select"
	case *ast.SendStmt, *ast.ChanType:
		what = "a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			what = "a channel"
		}
	}
	if what != "" {
		p.t.at(p.f, n.Pos(), "a pure package uses %s", what)
	}
}

func (p *purity) clock(n *ast.SelectorExpr) {
	obj := p.c.info.Uses[n.Sel]
	if obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != "time" {
		return
	}
	if _, isFunc := obj.(*types.Func); isFunc && slices.Contains(impureTime, n.Sel.Name) {
		p.t.at(p.f, n.Pos(), "a pure package calls time.%s: the core takes time, it never fetches it", n.Sel.Name)
	}
}

// globals reports a write to a package-level variable, or its address taken.
func (p *purity) globals(n ast.Node) {
	var targets []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			targets = n.Lhs
		}
	case *ast.IncDecStmt:
		targets = []ast.Expr{n.X}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			targets = []ast.Expr{n.X}
		}
	}
	for _, x := range targets {
		id := rootIdent(x)
		if id == nil {
			continue
		}
		v, ok := p.c.info.Uses[id].(*types.Var)
		if ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			p.t.at(p.f, x.Pos(), "a pure package changes its variable %s, or hands out its address", id.Name)
		}
	}
}

func rootIdent(x ast.Expr) *ast.Ident {
	for {
		switch e := x.(type) {
		case *ast.Ident:
			return e
		case *ast.SelectorExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		default:
			return nil
		}
	}
}

// mapOrder reports a range over a map whose order could matter. It cannot where
// the loop only deletes or only fills another map; elsewhere a comment on the
// same line or the line above must say how the order is dealt with, with one of
// the words "order", "sort" or "sorted".
func (p *purity) mapOrder(n *ast.RangeStmt) {
	tv, ok := p.c.info.Types[n.X]
	if !ok {
		return
	}
	if _, isMap := tv.Type.Underlying().(*types.Map); !isMap || p.onlyFills(n.Body) {
		return
	}
	line := p.t.fset.Position(n.Pos()).Line
	for _, group := range p.f.ast.Comments {
		for _, c := range group.List {
			at := p.t.fset.Position(c.Pos()).Line
			text := strings.ToLower(c.Text)
			if (at == line || at == line-1) && (strings.Contains(text, "order") || strings.Contains(text, "sort")) {
				return
			}
		}
	}
	p.t.at(p.f, n.Pos(), "a pure package ranges over a map: walk a sorted slice, or say in a comment (order, sorted) why it does not matter")
}

func (p *purity) onlyFills(body *ast.BlockStmt) bool {
	for _, s := range body.List {
		switch s := s.(type) {
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			if !ok {
				return false
			}
			if id, ok := call.Fun.(*ast.Ident); !ok || id.Name != "delete" {
				return false
			}
		case *ast.AssignStmt:
			if len(s.Lhs) != 1 || !p.isMapIndex(s.Lhs[0]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (p *purity) isMapIndex(x ast.Expr) bool {
	ix, ok := x.(*ast.IndexExpr)
	if !ok {
		return false
	}
	tv, ok := p.c.info.Types[ix.X]
	if !ok {
		return false
	}
	_, isMap := tv.Type.Underlying().(*types.Map)
	return isMap
}
