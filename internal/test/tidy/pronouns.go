package tidy

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pronouns are for persons. They are put together here so that this file does not contain them.
var pronouns = strings.Join([]string{"w" + "ho", "w" + "hom", "w" + "hoever", "no" + "body", "some" + "body",
	"any" + "body", "every" + "body", "h" + "e", "h" + "im"}, "|")

var personal = regexp.MustCompile(`(?i)\b(` + pronouns + `)\b`)

// persons end a text after which a personal pronoun is right.
var persons = regexp.MustCompile(`(?i)\b(users?|persons?|people|humans?|admins?|administrators?|operators?|owners?|authors?|readers?|callers?|colleagues?|strangers?),? $`)

// impersonal counts the pronouns of a line that do not stand behind a word for persons.
func impersonal(line string) (n int) {
	for _, at := range personal.FindAllStringIndex(line, -1) {
		if !persons.MatchString(line[:at[0]]) {
			n++
		}
	}
	return n
}

// pronouns counts the personal pronouns of comments and messages by folder, without tests, and
// those of each page that people read.
func (t *tree) pronouns() []measured {
	by := map[string]*measured{}
	count := func(subject, file string, line int, text string) {
		for i, l := range strings.Split(text, "\n") {
			n := impersonal(l)
			if n == 0 {
				continue
			}
			if by[subject] == nil {
				by[subject] = &measured{ruleOf("pronouns"), subject, 0, file, line + i}
			}
			by[subject].n += n
		}
	}
	for name, text := range t.texts {
		count(name, name, 1, text)
	}
	t.each(func(p *pkg, f *file) {
		if f.test {
			return
		}
		for _, c := range f.ast.Comments {
			for _, line := range c.List {
				count(p.dir, f.path, t.fset.Position(line.Pos()).Line, line.Text)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				count(p.dir, f.path, t.fset.Position(l.Pos()).Line, l.Value)
			}
			return true
		})
	})
	var out []measured
	for _, k := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[k])
	}
	return out
}
