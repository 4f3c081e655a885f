package tidy

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// unfinished words promise work that is not in the tree. They are put together
// here so that this file does not contain them.
var unfinished = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"},
	"|") + `)\b`)

// skipAllowed are the tests that may skip, as "file:function", each with a
// reason beside it. It is empty: a test detects what the machine lacks and
// tests the other branch.
var skipAllowed = []string{}

func (t *tree) checkWords() {
	for name, text := range t.texts {
		t.checkText(name, text)
	}
	t.each(func(_ *pkg, f *file) {
		t.checkText(f.path, f.src)
		if f.test {
			t.checkSkips(f)
		}
	})
}

func (t *tree) checkText(name, text string) {
	for i, line := range strings.Split(text, "\n") {
		if w := unfinished.FindString(line); w != "" {
			t.report(name, i+1, "%q: finish it, or open an issue and drop the word", w)
		}
	}
}

func (t *tree) checkSkips(f *file) {
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || slices.Contains(skipAllowed, f.path+":"+fn.Name.Name) {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "tb") {
					t.at(f, n.Pos(), "%s skips: test the other branch instead", fn.Name.Name)
				}
			}
			return true
		})
	}
}
