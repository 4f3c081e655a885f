package tidy

import (
	"go/ast"
	"strings"
)

// The limits. Each is a little above the house's aim (60 lines a function, 4
// parameters, 3 levels), so that a good reason has room and a habit has not.
const (
	// maxFuncLines is about one screen: a longer function does two things.
	maxFuncLines = 70
	// maxTestFuncLines is larger because a table of cases is data, not logic.
	maxTestFuncLines = 150
	// maxFileLines is what can be read in one sitting.
	maxFileLines = 800
	// maxTestFileLines is larger for the same reason as maxTestFuncLines.
	maxTestFileLines = 900
	// maxParams is what a caller can keep apart without looking.
	maxParams = 5
	// maxNesting is the depth at which a reader loses the conditions above.
	maxNesting = 4
)

func (t *tree) checkSizes() {
	t.each(func(_ *pkg, f *file) {
		lines := strings.Count(f.src, "\n")
		limit, funcLimit := maxFileLines, maxFuncLines
		if f.test {
			limit, funcLimit = maxTestFileLines, maxTestFuncLines
		}
		if lines > limit {
			t.report(f.path, limit, "the file has %d lines, more than %d: split it by meaning", lines, limit)
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				t.checkFunc(f, fn, funcLimit)
			}
		}
	})
}

func (t *tree) checkFunc(f *file, fn *ast.FuncDecl, limit int) {
	lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
	if lines > limit {
		t.at(f, fn.Pos(), "%s has %d lines, more than %d", fn.Name.Name, lines, limit)
	}
	if n := fn.Type.Params.NumFields(); n > maxParams {
		t.at(f, fn.Pos(), "%s has %d parameters, more than %d", fn.Name.Name, n, maxParams)
	}
	ast.Walk(&nesting{t: t, f: f, name: fn.Name.Name}, fn.Body)
}

// nesting walks a function's body and counts the blocks around each statement.
// An else-if is as deep as its if; a function literal counts as one level.
type nesting struct {
	t     *tree
	f     *file
	name  string
	depth int
}

// Visit implements ast.Visitor.
func (v *nesting) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.IfStmt:
		v.ifStmt(n)
		return nil
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
		return v.deeper(n)
	}
	return v
}

func (v *nesting) deeper(n ast.Node) *nesting {
	next := *v
	next.depth++
	if next.depth > maxNesting {
		v.t.at(v.f, n.Pos(), "%s nests %d levels deep, more than %d", v.name, next.depth, maxNesting)
	}
	return &next
}

func (v *nesting) ifStmt(n *ast.IfStmt) {
	inner := v.deeper(n)
	if n.Init != nil {
		ast.Walk(v, n.Init)
	}
	ast.Walk(v, n.Cond)
	ast.Walk(inner, n.Body)
	switch e := n.Else.(type) {
	case *ast.IfStmt:
		v.ifStmt(e)
	case *ast.BlockStmt:
		ast.Walk(inner, e)
	}
}
