package tidy

import (
	"regexp"
	"slices"
	"strings"
)

// row is one line of the import table of ARCHITECTURE.md.
type row struct {
	dir     string
	line    int
	pure    bool
	any     bool     // cmd/comb wires everything
	imports []string // folders, relative to internal/
}

const (
	tableFile  = "ARCHITECTURE.md"
	tableTitle = "## Packages and what each may import"
	internal   = "internal/"
)

var columns = regexp.MustCompile(`\s{2,}`)

// importTable reads the indented block under the table's title. A line is
// "folder/  [pure  ]what it is for  imports", columns two or more spaces apart;
// imports is a list with commas, or "-" for none. Folders that are indented
// below "internal/" are inside it. The last column of cmd/ and of this package
// is left out: cmd/ may import everything, this package nothing.
func (t *tree) importTable() map[string]*row {
	table := map[string]*row{}
	_, rest, ok := strings.Cut(t.texts[tableFile], tableTitle+"\n")
	if !ok {
		t.report(tableFile, 1, "the heading %q with the import table is missing", tableTitle)
		return table
	}
	line := 1 + strings.Count(t.texts[tableFile], "\n") - strings.Count(rest, "\n")
	inside := false
	for text := range strings.SplitSeq(rest, "\n") {
		if strings.HasPrefix(text, "#") {
			break
		}
		if strings.HasPrefix(text, "    ") {
			if strings.TrimSpace(text) == internal {
				inside = true
			} else if r := parseRow(strings.TrimSpace(text), inside && strings.HasPrefix(text, "      ")); r != nil {
				r.line = line
				table[r.dir] = r
			}
		}
		line++
	}
	return table
}

func parseRow(text string, inside bool) *row {
	cols := columns.Split(text, -1)
	if !strings.HasSuffix(cols[0], "/") {
		return nil
	}
	r := &row{dir: strings.TrimSuffix(cols[0], "/")}
	if inside {
		r.dir = internal + r.dir
	}
	cols = cols[1:]
	if len(cols) > 0 && cols[0] == "pure" {
		r.pure = true
		cols = cols[1:]
	}
	r.any = strings.HasPrefix(r.dir, "cmd/")
	if len(cols) < 2 || cols[1] == "-" {
		return r
	}
	for name := range strings.SplitSeq(cols[1], ",") {
		r.imports = append(r.imports, strings.TrimSpace(name))
	}
	return r
}

// allowed returns the folders that a row reaches: what it names, and what those
// may import.
func allowed(table map[string]*row, dir string) map[string]bool {
	out := map[string]bool{}
	var visit func(string)
	visit = func(d string) {
		for _, name := range table[d].imports {
			next := internal + name
			if !out[next] && table[next] != nil {
				out[next] = true
				visit(next)
			}
		}
	}
	if table[dir] != nil {
		visit(dir)
	}
	return out
}

// checkImports holds every package outside tests to the table. A test may
// import what it likes: the compiler already refuses circles.
func (t *tree) checkImports() {
	table := t.importTable()
	for dir, r := range table {
		for _, name := range r.imports {
			if table[internal+name] == nil {
				t.report(tableFile, r.line, "%s may import %q, which the table does not list", dir, name)
			}
		}
	}
	t.each(func(p *pkg, f *file) {
		r := table[p.dir]
		if r == nil {
			if strings.HasPrefix(p.dir, internal) {
				t.report(f.path, 1, "package %s is not in the import table of %s", p.dir, tableFile)
			}
			return
		}
		if !f.test && !r.any {
			t.checkFileImports(f, r, allowed(table, p.dir))
		}
	})
}

func (t *tree) checkFileImports(f *file, r *row, ok map[string]bool) {
	for _, spec := range f.ast.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		own, inModule := strings.CutPrefix(name, t.module+"/")
		switch {
		case inModule && !ok[own]:
			t.at(f, spec.Pos(), "%s may not import %s: see the table in %s", r.dir, own, tableFile)
		case !inModule && r.pure && strings.Contains(strings.Split(name, "/")[0], "."):
			t.at(f, spec.Pos(), "%s is pure and imports %s: only the standard library is allowed", r.dir, name)
		}
	}
}

// pureRows returns the folders that the table marks as pure, sorted.
func pureRows(table map[string]*row) []string {
	var out []string
	for dir, r := range table {
		if r.pure {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}
