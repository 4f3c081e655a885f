package tidy

import (
	"strings"
	"unicode/utf8"
)

// widths counts the lines of a package that are too wide to be read at a glance. A comment behind
// code is code. Tables of tests may be as wide as they like, their comments not.
func (t *tree) widths(dir string, files []*file) []measured {
	code := measured{ruleOf("code"), dir, 0, files[0].path, 1}
	comments := measured{ruleOf("comments"), dir, 0, files[0].path, 1}
	for _, f := range files {
		inComments := t.commentLines(f)
		for i, line := range strings.Split(f.src, "\n") {
			switch w := width(line); {
			case inComments[i+1]:
				comments.count(w > maxCommentWidth, f, i+1)
			case !f.test:
				code.count(w > maxCodeWidth, f, i+1)
			}
		}
	}
	return []measured{code, comments}
}

// count takes a line that breaks the rule; the last one is where to look.
func (m *measured) count(wide bool, f *file, line int) {
	if wide {
		m.n++
		m.file, m.line = f.path, line
	}
}

// commentLines are the lines of a file on which nothing but a comment stands.
func (t *tree) commentLines(f *file) map[int]bool {
	out := map[int]bool{}
	for _, g := range f.ast.Comments {
		for _, c := range g.List {
			from, to := t.fset.Position(c.Pos()), t.fset.Position(c.End())
			start := from.Offset - (from.Column - 1)
			if strings.TrimSpace(f.src[start:from.Offset]) != "" {
				continue
			}
			for l := from.Line; l <= to.Line; l++ {
				out[l] = true
			}
		}
	}
	return out
}

func width(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}
