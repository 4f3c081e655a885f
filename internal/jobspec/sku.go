package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

// ask is what one task of a role needs.
type ask struct {
	gpu, milliCPU, memoryMB int64
}

// catalogue answers which SKUs, VCs and pinned cells a cluster has.
type catalogue struct {
	skus    []cell.SKU
	vcs     []cell.VCSpec
	cluster []cell.TypeName                 // SKUs that physical cells have, sorted
	quota   map[cell.VCName][]cell.TypeName // SKUs of each VC's unpinned cells, sorted
	pinned  map[cell.PinnedID]cell.TypeName // SKU of each pinned cell
	nodes   []cell.NodeName                 // sorted
}

func newCatalogue(c *sched.Config) *catalogue {
	spec := cell.Spec{}
	if c != nil {
		spec = c.Cluster
	}
	out := &catalogue{
		skus: spec.SKUs, vcs: spec.VCs,
		quota:  make(map[cell.VCName][]cell.TypeName),
		pinned: make(map[cell.PinnedID]cell.TypeName),
	}
	chains := make(map[cell.ChainName]*cell.ChainSpec, len(spec.Chains))
	for i := range spec.Chains {
		chains[spec.Chains[i].Name] = &spec.Chains[i]
	}
	for i := range spec.Cells {
		top := &spec.Cells[i]
		if chain := chains[cell.ChainName(top.Type)]; chain != nil && len(chain.Levels) > 0 {
			out.cluster = append(out.cluster, chain.Levels[0].Type)
			out.walk(top, chain)
		}
	}
	for _, vc := range spec.VCs {
		for _, q := range vc.Quota {
			if chain := chains[q.Chain]; q.Number > 0 && chain != nil && len(chain.Levels) > 0 {
				out.quota[vc.Name] = append(out.quota[vc.Name], chain.Levels[0].Type)
			}
		}
		out.quota[vc.Name] = sortedSet(out.quota[vc.Name])
	}
	out.cluster, out.nodes = sortedSet(out.cluster), sortedSet(out.nodes)
	return out
}

// walk collects the pinned cells and the nodes below a cell. A chain has few
// levels, so that the recursion is shallow.
func (c *catalogue) walk(at *cell.CellSpec, chain *cell.ChainSpec) {
	if at.Pinned != "" {
		c.pinned[at.Pinned] = chain.Levels[0].Type
	}
	for _, l := range chain.Levels {
		if l.Type == at.Type && l.IsNode {
			c.nodes = append(c.nodes, cell.NodeName(at.Address))
		}
	}
	for i := range at.Children {
		c.walk(&at.Children[i], chain)
	}
}

func sortedSet[T ~string](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

func (c *catalogue) vc(name cell.VCName) (cell.VCSpec, bool) {
	i := slices.IndexFunc(c.vcs, func(v cell.VCSpec) bool { return v.Name == name })
	if i < 0 {
		return cell.VCSpec{}, false
	}
	return c.vcs[i], true
}

func (c *catalogue) vcNames() []cell.VCName {
	names := make([]cell.VCName, len(c.vcs))
	for i, v := range c.vcs {
		names[i] = v.Name
	}
	return names
}

func (c *catalogue) sku(name cell.TypeName) cell.SKU {
	i := slices.IndexFunc(c.skus, func(s cell.SKU) bool { return s.Name == name })
	if i < 0 {
		return cell.SKU{Name: name}
	}
	return c.skus[i]
}

// usable returns the SKUs on which a role that names none may run: those of its
// VC, or of the cluster for an opportunistic job; only those with GPUs if it asks
// for some, the CPU SKU if it asks for none and there is one. The core places a
// role without SKU on any of them, so a choice of some is refused: it would have
// to be written down.
func (c *catalogue) usable(vc cell.VCName, opportunistic bool, a ask) ([]cell.SKU, error) {
	names, owner := c.quota[vc], "VC "+string(vc)
	if opportunistic {
		names, owner = c.cluster, "the cluster"
	}
	if len(names) == 0 {
		spec, _ := c.vc(vc)
		if opportunistic || len(spec.Pinned) == 0 {
			return nil, fmt.Errorf("cannot run: %s has no cells", owner)
		}
		return nil, fmt.Errorf("must name a pinned cell, as %s has no others: give pinnedCellId, one of %s", owner, list(spec.Pinned))
	}
	all, withGPU, without := c.split(names)
	switch {
	case a.gpu == 0 && len(without) == 1:
		return without, nil
	case a.gpu == 0:
		return all, nil
	case len(withGPU) == 0:
		return nil, fmt.Errorf("asks for %s, but no SKU of %s has any; it has %s", plural(a.gpu, "GPU", "GPUs"), owner, list(names))
	case len(withGPU) > 1 && len(without) > 0:
		return nil, fmt.Errorf("asks for %s, and %s has SKUs with and without: give skuType, one of %s", plural(a.gpu, "GPU", "GPUs"), owner, list(skuNames(withGPU)))
	}
	return withGPU, nil
}

func (c *catalogue) split(names []cell.TypeName) (all, withGPU, without []cell.SKU) {
	for _, n := range names {
		s := c.sku(n)
		all = append(all, s)
		if s.GPU > 0 {
			withGPU = append(withGPU, s)
		} else {
			without = append(without, s)
		}
	}
	return all, withGPU, without
}

func skuNames(skus []cell.SKU) []cell.TypeName {
	names := make([]cell.TypeName, len(skus))
	for i, s := range skus {
		names[i] = s.Name
	}
	return names
}

// smallest is the element-wise minimum of SKUs, where 0 stands for no limit: what
// fits it fits each of them.
func smallest(skus []cell.SKU) cell.SKU {
	least := func(a, b int64) int64 {
		if a == 0 || (b != 0 && b < a) {
			return b
		}
		return a
	}
	out := cell.SKU{}
	for _, s := range skus {
		out.GPU = least(out.GPU, s.GPU)
		out.MilliCPU = least(out.MilliCPU, s.MilliCPU)
		out.MemoryMB = least(out.MemoryMB, s.MemoryMB)
	}
	out.Name = cell.TypeName(list(skuNames(skus)))
	return out
}

// leavesFor returns the fewest leaves of an SKU that cover a task, at least 1.
func leavesFor(a ask, s cell.SKU) (int64, error) {
	if a.gpu > 0 && s.GPU == 0 {
		return 0, fmt.Errorf("asks for %s, but SKU %s has none", plural(a.gpu, "GPU", "GPUs"), s.Name)
	}
	n := max(1, ceilDiv(a.gpu, s.GPU), ceilDiv(a.milliCPU, s.MilliCPU), ceilDiv(a.memoryMB, s.MemoryMB))
	if n > maxLeaves {
		return 0, fmt.Errorf("needs %d leaves of SKU %s for one task; the limit is %d", n, s.Name, maxLeaves)
	}
	return n, nil
}

// ceilDiv rounds up; dividing by 0, an SKU's unlimited dimension, gives 0.
func ceilDiv(a, b int64) int64 {
	if b == 0 || a == 0 {
		return 0
	}
	return (a-1)/b + 1
}

// shortfall names what n leaves of an SKU lack for a task; "" when they cover it.
func shortfall(a ask, s cell.SKU, n int64) string {
	var lacks []string
	if have := n * s.GPU; a.gpu > have {
		lacks = append(lacks, fmt.Sprintf("%d GPU of %d", have, a.gpu))
	}
	if have := n * s.MilliCPU; s.MilliCPU > 0 && a.milliCPU > have {
		lacks = append(lacks, fmt.Sprintf("%s CPU of %s", FormatMilli(have), FormatMilli(a.milliCPU)))
	}
	if have := n * s.MemoryMB; s.MemoryMB > 0 && a.memoryMB > have {
		lacks = append(lacks, fmt.Sprintf("%d MiB of %d", have, a.memoryMB))
	}
	return strings.Join(lacks, ", ")
}

// list writes names for an error; a very long list is cut.
func list[T ~string](names []T) string {
	if len(names) == 0 {
		return "none"
	}
	const most = 20
	var b strings.Builder
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(string(n)))
	}
	return b.String()
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
