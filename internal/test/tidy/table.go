package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// group is a row of the first block of ARCHITECTURE.md: packages of one folder, and what they may
// import.
type group struct {
	dir     string // such as internal/core, or cmd/comb
	line    int
	any     bool     // no list: it wires everything
	imports []string // folders below internal/; one that ends with a slash is all packages in it
}

// row is a package's line in the second block.
type row struct {
	dir   string
	line  int
	place int // among the packages of its group
	pure  bool
}

// house is what ARCHITECTURE.md says of the packages.
type house struct {
	groups []*group
	rows   map[string]*row
}

const (
	houseFile  = "ARCHITECTURE.md"
	houseTitle = "## The house"
	internal   = "internal/"
	// ordered is the group in which a package imports only those that stand before it.
	ordered = "internal/core"
)

var columns = regexp.MustCompile(`\s{2,}`)

// readHouse reads the two indented blocks under the title. A line of the first is "folder/  what it
// has  imports", columns two or more spaces apart; imports is a list with commas, "-" for none, and
// left out for what wires everything. A line of the second, below "internal/", is "folder  [pure]
// what it is for".
func (t *tree) readHouse() *house {
	h := &house{rows: map[string]*row{}}
	_, rest, ok := strings.Cut(t.texts[houseFile], houseTitle+"\n")
	if !ok {
		t.report(houseFile, 1, "the heading %q with the groups is missing", houseTitle)
		return h
	}
	line := strings.Count(t.texts[houseFile], "\n") - strings.Count(rest, "\n")
	inside := false
	for text := range strings.SplitSeq(rest, "\n") {
		line++
		if strings.HasPrefix(text, "#") {
			break
		}
		if !strings.HasPrefix(text, "    ") {
			continue
		}
		switch text = strings.TrimSpace(text); {
		case text == internal:
			inside = true
		case inside:
			h.addRow(text, line)
		default:
			h.addGroup(text, line)
		}
	}
	return h
}

func (h *house) addGroup(text string, line int) {
	cols := columns.Split(text, -1)
	g := &group{dir: internal + strings.TrimSuffix(cols[0], "/"), line: line, any: len(cols) < 3}
	if strings.HasPrefix(cols[0], "cmd/") {
		g.dir = strings.TrimSuffix(cols[0], "/")
	}
	if !g.any && cols[2] != "-" {
		for name := range strings.SplitSeq(cols[2], ",") {
			g.imports = append(g.imports, strings.TrimSpace(name))
		}
	}
	h.groups = append(h.groups, g)
}

func (h *house) addRow(text string, line int) {
	name, rest, _ := strings.Cut(text, " ")
	h.rows[internal+name] = &row{dir: internal + name, line: line, place: len(h.rows),
		pure: strings.HasPrefix(strings.TrimSpace(rest), "pure ")}
}

// in reports whether a package stands in a folder.
func in(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

// groupOf returns the group of a package, nil for none.
func (h *house) groupOf(dir string) *group {
	i := slices.IndexFunc(h.groups, func(g *group) bool { return in(dir, g.dir) })
	if i < 0 {
		return nil
	}
	return h.groups[i]
}

// may reports whether a package of one group may import another package: of its own group, of those
// that its row names, and of those that these may import.
func (h *house) may(g *group, own string) bool {
	seen := map[*group]bool{}
	var reach func(g *group) bool
	reach = func(g *group) bool {
		if seen[g] {
			return false
		}
		seen[g] = true
		for _, name := range g.imports {
			folder, whole := strings.CutSuffix(name, "/")
			if own == internal+folder || whole && in(own, internal+folder) {
				return true
			}
			if next := h.groupOf(internal + folder); next != nil && reach(next) {
				return true
			}
		}
		return false
	}
	return g.any || in(own, g.dir) || reach(g)
}

// checkImports holds every package outside tests to its group. A test may import what it likes: the
// compiler already refuses circles.
func (t *tree) checkImports() {
	h := t.readHouse()
	for _, g := range h.groups {
		for _, name := range g.imports {
			if folder := internal + strings.TrimSuffix(name, "/"); h.groupOf(folder) == nil {
				t.report(houseFile, g.line, "%s may import %q, which is in no group", g.dir, name)
			}
		}
	}
	for dir, r := range h.rows {
		if t.pkgs[dir] == nil {
			t.report(houseFile, r.line, "there is no package %s", dir)
		}
	}
	t.each(func(p *pkg, f *file) {
		g, r := h.groupOf(p.dir), h.rows[p.dir]
		if strings.HasPrefix(p.dir, internal) && (g == nil || r == nil) {
			t.report(f.path, 1, "package %s is not among the packages of %s", p.dir, houseFile)
			return
		}
		if g != nil && !f.test {
			t.checkFileImports(f, p.dir, g, h)
		}
	})
}

func (t *tree) checkFileImports(f *file, dir string, g *group, h *house) {
	r := h.rows[dir]
	for _, spec := range f.ast.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		own, inModule := strings.CutPrefix(name, t.module+"/")
		switch {
		case inModule && !h.may(g, own):
			t.at(f, spec.Pos(), "%s may not import %s: see %q in %s", dir, own, houseTitle, houseFile)
		case inModule && g.dir == ordered && in(own, ordered) && h.rows[own] != nil && h.rows[own].place > r.place:
			t.at(f, spec.Pos(), "%s imports %s, which stands behind it in %s", dir, own, houseFile)
		case !inModule && r != nil && r.pure && strings.Contains(strings.Split(name, "/")[0], "."):
			t.at(f, spec.Pos(), "%s is pure and imports %s: only the standard library is allowed", dir, name)
		case inModule && r != nil && r.pure && h.rows[own] != nil && !h.rows[own].pure:
			t.at(f, spec.Pos(), "%s is pure and imports %s, which is not", dir, path.Base(own))
		}
	}
}

// pureRows returns the folders that are pure, sorted.
func (h *house) pureRows() []string {
	var out []string
	for dir, r := range h.rows {
		if r.pure {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}
