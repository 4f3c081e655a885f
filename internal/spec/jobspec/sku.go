package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// demand is what one task of a role needs.
type demand struct {
	gpu, milliCPU, memoryMB int64
}

// catalogue knows the SKUs, VCs, pinned cells and nodes of a cluster. What needs a walk over
// the cells is computed on first use: most jobs name neither nodes nor pinned cells, and
// clusters are large.
type catalogue struct {
	spec   *cell.Spec
	chains map[cell.ChainName]*cell.ChainSpec
	// storages are the storages of the cluster, sorted by name.
	storages []model.Storage

	walked bool
	pins   map[cell.PinnedID]cell.TypeName // SKU of each pinned cell
	names  []cell.NodeName                 // sorted
}

func newCatalogue(config *model.Config) *catalogue {
	c := &catalogue{spec: &cell.Spec{}}
	if config != nil {
		c.spec, c.storages = &config.Cluster, config.Storages
	}
	c.chains = make(map[cell.ChainName]*cell.ChainSpec, len(c.spec.Chains))
	for i := range c.spec.Chains {
		if chain := &c.spec.Chains[i]; len(chain.Levels) > 0 {
			c.chains[chain.Name] = chain
		}
	}
	return c
}

// quota returns the SKUs of a VC's cells that are not pinned, sorted.
func (c *catalogue) quota(vc cell.VCName) []cell.TypeName {
	var names []cell.TypeName
	spec, _ := c.vc(vc)
	for _, q := range spec.Quota {
		if chain := c.chains[q.Chain]; q.Number > 0 && chain != nil {
			names = append(names, chain.Levels[0].Type)
		}
	}
	return sortedSet(names)
}

// cluster returns the SKUs that the cluster's cells have, sorted.
func (c *catalogue) cluster() []cell.TypeName {
	var names []cell.TypeName
	seen := make(map[cell.TypeName]bool, len(c.chains))
	for i := range c.spec.Cells {
		top := c.spec.Cells[i].Type
		if chain := c.chains[cell.ChainName(top)]; chain != nil && !seen[top] {
			seen[top] = true
			names = append(names, chain.Levels[0].Type)
		}
	}
	return sortedSet(names)
}

// pinned returns the SKU of a pinned cell, "" if there is none.
func (c *catalogue) pinned(id cell.PinnedID) cell.TypeName {
	c.walkOnce()
	return c.pins[id]
}

// pinnedWith is the first pinned cell of a VC that has a SKU; "" for none.
func (c *catalogue) pinnedWith(vc cell.VCName, name cell.TypeName) cell.PinnedID {
	spec, _ := c.vc(vc)
	for _, pin := range spec.Pinned {
		if c.pinned(pin) == name {
			return pin
		}
	}
	return ""
}

// nodes returns the cluster's nodes, sorted.
func (c *catalogue) nodes() []cell.NodeName {
	c.walkOnce()
	return c.names
}

func (c *catalogue) walkOnce() {
	if c.walked {
		return
	}
	c.walked, c.pins = true, map[cell.PinnedID]cell.TypeName{}
	for i := range c.spec.Cells {
		top := &c.spec.Cells[i]
		if chain := c.chains[cell.ChainName(top.Type)]; chain != nil {
			c.walk(top, chain)
		}
	}
	c.names = sortedSet(c.names)
}

// walk collects the pinned cells and the nodes below a cell. The recursion is shallow, since
// a chain has few levels.
func (c *catalogue) walk(at *cell.CellSpec, chain *cell.ChainSpec) {
	if at.Pinned != "" {
		c.pins[at.Pinned] = chain.Levels[0].Type
	}
	for _, l := range chain.Levels {
		if l.Type == at.Type && l.IsNode {
			c.names = append(c.names, cell.NodeName(at.Address))
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
	i := slices.IndexFunc(c.spec.VCs, func(v cell.VCSpec) bool { return v.Name == name })
	if i < 0 {
		return cell.VCSpec{}, false
	}
	return c.spec.VCs[i], true
}

func (c *catalogue) vcNames() []cell.VCName {
	names := make([]cell.VCName, len(c.spec.VCs))
	for i, v := range c.spec.VCs {
		names[i] = v.Name
	}
	return names
}

func (c *catalogue) sku(name cell.TypeName) cell.SKU {
	i := slices.IndexFunc(c.spec.SKUs, func(s cell.SKU) bool { return s.Name == name })
	if i < 0 {
		return cell.SKU{Name: name}
	}
	return c.spec.SKUs[i]
}

// usable returns the SKUs on which a role that names none may run: those of its VC, or of the
// cluster for an opportunistic job. If it asks for GPUs these are the ones with GPUs, else
// the ones without, if there are such. Parts of devices are left out if there are whole ones:
// they would be mistaken for these.
func (c *catalogue) usable(vc cell.VCName, opportunistic bool, a demand) ([]cell.SKU, error) {
	names, owner := c.quota(vc), "VC "+string(vc)
	if opportunistic {
		names, owner = c.cluster(), "the cluster"
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
	case a.gpu == 0 && len(without) > 0:
		return without, nil
	case a.gpu == 0:
		return all, nil
	case len(withGPU) == 0:
		return nil, fmt.Errorf("asks for %s, but no SKU of %s has any; it has %s", plural(a.gpu, "GPU", "GPUs"), owner, list(names))
	}
	if whole := slices.DeleteFunc(slices.Clone(withGPU), func(s cell.SKU) bool { return s.Part != "" }); len(whole) > 0 {
		return whole, nil
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

// smallest is the element-wise minimum of SKUs, where 0 stands for no limit. What fits it
// fits each of them.
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
func leavesFor(a demand, s cell.SKU) (int64, error) {
	if a.gpu > 0 && s.GPU == 0 {
		return 0, fmt.Errorf("asks for %s, but SKU %s has none", plural(a.gpu, "GPU", "GPUs"), s.Name)
	}
	n := max(1, ceilDiv(a.gpu, s.GPU), ceilDiv(a.milliCPU, s.MilliCPU), ceilDiv(a.memoryMB, s.MemoryMB))
	if n > maxLeaves {
		return 0, fmt.Errorf("needs %d leaves of SKU %s for one task; the limit is %d", n, s.Name, maxLeaves)
	}
	return n, nil
}

// ceilDiv divides and rounds up. Division by 0, an unlimited dimension of an SKU, is 0.
func ceilDiv(a, b int64) int64 {
	if b == 0 || a == 0 {
		return 0
	}
	return (a-1)/b + 1
}

// shortfall names what n leaves of an SKU lack for a task; "" when they cover it.
func shortfall(a demand, s cell.SKU, n int64) string {
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
