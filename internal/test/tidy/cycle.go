package tidy

import (
	"errors"
	"go/ast"
	"go/types"
	"slices"
)

// cycle returns how many files of a package are in the largest set of which each needs all others,
// directly or not, and the first of them. A file needs another when it names something that is
// declared there at the top level, or a method. What other packages declare is left unknown: it is
// no matter here.
func (t *tree) cycle(files []*file) (first string, n int) {
	var trees []*ast.File
	at := map[string]int{}
	for i, f := range files {
		trees = append(trees, f.ast)
		at[t.fset.Position(f.ast.Pos()).Filename] = i
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	c := types.Config{Importer: unknown{}, Error: func(error) {}}
	pkg, _ := c.Check(files[0].path, t.fset, trees, &info) // errors are of what is unknown
	g := graph{needs: make([][]int, len(files)), low: make([]int, len(files))}
	for id, o := range info.Uses {
		if o.Pkg() != pkg || !apart(o) {
			continue
		}
		from, to := at[t.fset.Position(id.Pos()).Filename], at[t.fset.Position(o.Pos()).Filename]
		if from != to && !slices.Contains(g.needs[from], to) {
			g.needs[from] = append(g.needs[from], to)
		}
	}
	for i := range files {
		if g.low[i] == 0 {
			g.visit(i)
		}
	}
	if len(g.largest) == 0 {
		return files[0].path, 0
	}
	return files[slices.Min(g.largest)].path, len(g.largest)
}

// apart reports whether something stands at the top level of a file, or is a method.
func apart(o types.Object) bool {
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return o.Parent() == o.Pkg().Scope()
}

// unknown imports nothing.
type unknown struct{}

var errUnknown = errors.New("unknown here")

// Import implements types.Importer.
func (unknown) Import(string) (*types.Package, error) { return nil, errUnknown }

// graph finds the files that need each other (Tarjan's strongly connected components).
type graph struct {
	needs   [][]int
	low     []int // 0 is not visited
	next    int
	stack   []int
	largest []int
}

// visit returns the lowest number that a file comes to.
func (g *graph) visit(i int) int {
	g.next++
	own := g.next
	g.low[i] = own
	g.stack = append(g.stack, i)
	for _, k := range g.needs[i] {
		if g.low[k] == 0 {
			g.low[i] = min(g.low[i], g.visit(k))
		} else if slices.Contains(g.stack, k) {
			g.low[i] = min(g.low[i], g.low[k])
		}
	}
	if g.low[i] == own {
		from := slices.Index(g.stack, i)
		if all := g.stack[from:]; len(all) > max(len(g.largest), 1) {
			g.largest = slices.Clone(all)
		}
		g.stack = g.stack[:from]
	}
	return g.low[i]
}
