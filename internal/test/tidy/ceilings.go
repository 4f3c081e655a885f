package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The limits of a package as a whole.
const (
	maxMethods = 60 // of a type
	maxFields  = 30 // of a struct
	maxCycle   = 12 // files of a package that need each other
)

// The limits of a line, in columns; a tab is four of them.
const (
	maxCodeWidth    = 120
	maxCommentWidth = 100
	tabWidth        = 4
)

// ceilingsFile has a line "RULE SUBJECT NUMBER" for each subject that broke a rule when the rule
// came. Such a number may only fall.
const ceilingsFile = "internal/test/tidy/ceilings.txt"

// rule is a number that a subject may not exceed.
type rule struct {
	name  string
	limit int
	step  int    // ceilings are multiples, so that small changes pass
	what  string // is counted
	mend  string // what to do
}

var rules = []rule{
	{"methods", maxMethods, 10, "methods", "move what belongs together to a type of its own"},
	{"fields", maxFields, 2, "fields", "put what belongs together into a struct of its own"},
	{"cycle", maxCycle, 2, "files that all need each other", "let one of them not use the others, or make a package of a part"},
	{"imports", maxImports, 1, "packages of ours that it imports", "let it know less, or make a package of a part"},
	{"code", 0, 1, "lines of code wider than 120 columns", "break them; yours are in git diff main | grep -nE '^\\+.{121}'"},
	{"comments", 0, 1, "comments wider than 100 columns", "wrap them; yours are in git diff main | grep -nE '^\\+.{101}'"},
	{"sleeps", 0, 1, "unexplained sleeps of tests", "wait by internal/test/testkit, or say why it sleeps"},
	{"pronouns", 0, 10, "personal pronouns", `a gang, job, VC or node is "it" or "the gang": find yours with git diff main | grep -wiE '` + pronouns + `'`},
}

// measured is what one subject comes to.
type measured struct {
	rule    *rule
	subject string
	n       int
	file    string // where to look
	line    int
}

func (m *measured) key() string { return m.rule.name + " " + m.subject }

// checkCeilings compares what types and packages come to with the limits, or with their ceilings.
func (t *tree) checkCeilings() error {
	old, err := readCeilings(t.root)
	if err != nil {
		return err
	}
	for _, m := range t.measure() {
		switch most, has := old[m.key()]; {
		case has && m.n > most:
			t.report(m.file, m.line, "%s has %d %s, more than its ceiling of %d in %s: %s", m.subject, m.n,
				m.rule.what, most, ceilingsFile, m.rule.mend)
		case !has && m.n > m.rule.limit:
			t.report(m.file, m.line, "%s has %d %s, more than %d: %s", m.subject, m.n, m.rule.what, m.rule.limit,
				m.rule.mend)
		}
	}
	return nil
}

// Lower writes the ceilings of a tree anew: what fell gets a lower one, or none. None rises and
// none is added, but where there is no file yet. It returns what changed.
func Lower(root string) ([]string, error) {
	changed, text, err := lowered(root)
	if err == nil && len(changed) > 0 {
		err = os.WriteFile(filepath.Join(root, filepath.FromSlash(ceilingsFile)), []byte(text), 0o644)
	}
	return changed, err
}

// Lowerable says which ceilings could be lower.
func Lowerable(root string) ([]string, error) {
	changed, _, err := lowered(root)
	return changed, err
}

func lowered(root string) (changed []string, text string, err error) {
	t, err := load(root)
	if err != nil {
		return nil, "", err
	}
	old, err := readCeilings(root)
	if err != nil {
		return nil, "", err
	}
	next := map[string]int{}
	for _, m := range t.measure() {
		n := (m.n + m.rule.step - 1) / m.rule.step * m.rule.step
		if was, has := old[m.key()]; m.n > m.rule.limit && (has || old == nil) {
			if has {
				n = min(n, was)
			}
			next[m.key()] = n
		}
	}
	for k, was := range old {
		if n := next[k]; n != was {
			changed = append(changed, fmt.Sprintf("%s: %d instead of %d", k, n, was))
		}
	}
	if old == nil {
		changed = append(changed, ceilingsFile+" is new")
	}
	slices.Sort(changed)
	text = "# Ceilings of what broke a rule of internal/test/tidy when the rule came. They may only fall:\n# go test ./internal/test/tidy -run Tree -args -update\n"
	for _, k := range slices.Sorted(maps.Keys(next)) {
		text += fmt.Sprintf("%s %d\n", k, next[k])
	}
	return changed, text, nil
}

// readCeilings reads them by "RULE SUBJECT"; nil where there is no file.
func readCeilings(root string) (map[string]int, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(ceilingsFile)))
	if os.IsNotExist(err) {
		return nil, nil
	}
	out := map[string]int{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		n, bad := strconv.Atoi(line[at+1:])
		if at < 0 || bad != nil {
			return nil, fmt.Errorf("%s:%d: want RULE SUBJECT NUMBER, found %q", ceilingsFile, i+1, line)
		}
		out[line[:at]] = n
	}
	return out, err
}

// measure counts all subjects, in order of rule and subject.
func (t *tree) measure() []measured {
	var out []measured
	for _, dir := range slices.Sorted(maps.Keys(t.pkgs)) {
		p := t.pkgs[dir]
		out = append(out, t.widths(dir, p.files)...)
		out = append(out, t.sleeps(dir, p.files))
		files := slices.DeleteFunc(slices.Clone(p.files), func(f *file) bool { return f.test })
		if len(files) == 0 {
			continue
		}
		in, n := t.cycle(files)
		out = append(out, measured{ruleOf("cycle"), dir, n, in, 1})
		out = append(out, t.types(dir, files)...)
	}
	out = append(out, t.fanOut()...)
	return append(out, t.pronouns()...)
}

func ruleOf(name string) *rule {
	return &rules[slices.IndexFunc(rules, func(r rule) bool { return r.name == name })]
}

// types counts the methods of each type, and the fields of each struct.
func (t *tree) types(dir string, files []*file) (out []measured) {
	methods := map[string]int{}
	for _, f := range files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[receiver(fn)]++
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			name, line := dir+"."+s.Name.Name, t.fset.Position(s.Pos()).Line
			count := methods[s.Name.Name]
			if i, ok := s.Type.(*ast.InterfaceType); ok {
				count = i.Methods.NumFields()
			}
			out = append(out, measured{ruleOf("methods"), name, count, f.path, line})
			if st, ok := s.Type.(*ast.StructType); ok {
				out = append(out, measured{ruleOf("fields"), name, st.Fields.NumFields(), f.path, line})
			}
			return true
		})
	}
	return out
}
