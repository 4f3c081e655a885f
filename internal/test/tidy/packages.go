package tidy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxPackages is what a reader can keep apart, with ten groups around them.
	maxPackages = 65
	// smallPackage is how many lines a package with one importer has at least.
	smallPackage = 300
	// largePackage is when a package wants walls inside; it is told and fails nothing.
	largePackage = 6000
	// maxImports is how many packages of ours one may import, but for a command.
	maxImports = 20
	// maxTitle is the width of a commit's first line.
	maxTitle = 72
)

// smallFor says why a package may be small with one importer.
var smallFor = map[string]string{
	"internal/api/portal":                  "it carries the files that web/ builds",
	"internal/executor/kube/podinit/early": "nothing that takes time may be imported before it runs",
}

// rootNames are what stands in the root of the tree.
var rootNames = strings.Fields(".ci .git .gitignore .tmp ARCHITECTURE.md LICENSE Makefile README.md bin cmd deploy docs examples go.mod go.sum internal test testdata web")

// production reports whether a package is part of what users run.
func production(p *pkg) bool {
	return !in(p.dir, internal+"test") && !in(p.dir, "test") &&
		slices.ContainsFunc(p.files, func(f *file) bool { return !f.test })
}

// lines are those of a package without tests.
func (p *pkg) lines() (n int) {
	for _, f := range p.files {
		if !f.test {
			n += strings.Count(f.src, "\n")
		}
	}
	return n
}

// imports are the packages of ours that each package imports outside tests.
func (t *tree) imports() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	t.each(func(p *pkg, f *file) {
		if f.test {
			return
		}
		if out[p.dir] == nil {
			out[p.dir] = map[string]bool{}
		}
		for _, s := range f.ast.Imports {
			if own, ok := strings.CutPrefix(strings.Trim(s.Path.Value, `"`), t.module+"/"); ok {
				out[p.dir][own] = true
			}
		}
	})
	return out
}

// small are the production packages that are small, have one importer and no reason.
func (t *tree) small() (out []string) {
	importers := map[string]int{}
	for dir, own := range t.imports() {
		if t.pkgs[dir] != nil && production(t.pkgs[dir]) {
			for d := range own {
				importers[d]++
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(t.pkgs)) {
		p := t.pkgs[dir]
		if production(p) && strings.HasPrefix(dir, internal) && p.lines() < smallPackage && importers[dir] < 2 && smallFor[dir] == "" {
			out = append(out, dir)
		}
	}
	return out
}

// checkPackages holds the tree to few, deep packages.
func (t *tree) checkPackages() {
	for _, dir := range t.small() {
		t.report(t.pkgs[dir].files[0].path, 1, "package %s has %d lines and one importer: make it a file of that, or say in smallFor why it stands alone",
			dir, t.pkgs[dir].lines())
	}
	if n := len(t.productionPackages()); n > maxPackages {
		t.report(houseFile, 1, "there are %d production packages, more than %d", n, maxPackages)
	}
	entries, err := os.ReadDir(t.root)
	if err != nil {
		t.report(houseFile, 1, "the root cannot be read: %v", err)
	}
	for _, e := range entries {
		if !slices.Contains(rootNames, e.Name()) {
			t.report(e.Name(), 1, "%s does not belong in the root of the tree: see rootNames", e.Name())
		}
	}
	t.checkTitle()
}

// checkTitle holds the last commit to its width; a tree without git has none.
func (t *tree) checkTitle() {
	git := exec.Command("git", "log", "-1", "--format=%s")
	git.Dir = t.root
	title, err := git.Output()
	if _, none := os.Stat(filepath.Join(t.root, ".git")); none != nil || err != nil {
		return
	}
	if n := len(strings.TrimSpace(string(title))); n > maxTitle {
		t.report(houseFile, 1, "the title of the last commit has %d characters, more than %d", n, maxTitle)
	}
}

func (t *tree) productionPackages() (out []string) {
	for _, dir := range slices.Sorted(maps.Keys(t.pkgs)) {
		if production(t.pkgs[dir]) {
			out = append(out, dir)
		}
	}
	return out
}

// fanOut measures how many packages each imports.
func (t *tree) fanOut() (out []measured) {
	imports := t.imports()
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		if !strings.HasPrefix(dir, "cmd/") && !in(dir, internal+"test") {
			out = append(out, measured{ruleOf("imports"), dir, len(imports[dir]), t.pkgs[dir].files[0].path, 1})
		}
	}
	return out
}

// Measure tells what the structure of a tree comes to, a figure a line.
func Measure(root string) ([]string, error) {
	t, err := load(root)
	if err != nil {
		return nil, err
	}
	most := map[string]measured{}
	wide := 0
	for _, m := range t.measure() {
		if m.rule.name == "comments" {
			wide += m.n
		}
		if m.n > most[m.rule.name].n {
			most[m.rule.name] = m
		}
	}
	core, upward := 0, 0
	h := t.readHouse()
	for dir, own := range t.imports() {
		r := h.rows[dir]
		if r == nil || !in(dir, ordered) {
			continue
		}
		for d := range own {
			if o := h.rows[d]; o != nil && in(d, ordered) && o.place > r.place {
				upward++
			}
		}
		switch strings.TrimPrefix(dir, ordered+"/") {
		case "access", "exit", "model", "perf", "policy", "policy/leases":
		default:
			core += t.pkgs[dir].lines()
		}
	}
	out := []string{
		fmt.Sprintf("production packages: %d; under %d lines with one importer and no reason: %d", len(t.productionPackages()), smallPackage, len(t.small())),
		fmt.Sprintf("most methods: %d (%s); most fields: %d (%s)", most["methods"].n, most["methods"].subject,
			most["fields"].n, most["fields"].subject),
		fmt.Sprintf("files that all need each other: %d (%s)", most["cycle"].n, most["cycle"].subject),
		fmt.Sprintf("imports against the order of the core: %d", upward),
		fmt.Sprintf("lines of the core without access, exit, model, perf and policy: %d", core),
		fmt.Sprintf("comments over %d columns: %d", maxCommentWidth, wide),
	}
	for _, dir := range t.productionPackages() {
		if n := t.pkgs[dir].lines(); n > largePackage {
			out = append(out, fmt.Sprintf("a large package: %s has %d lines", dir, n))
		}
	}
	return out, nil
}
