package config

import (
	"strconv"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// machine is one node with the cells that it carries, of all chains.
type machine struct {
	devices map[device]*document.Node
	divided map[divided]*dividedUse // the devices that are divided into parts
	// what all its leaves need together
	milliCPU, memoryMB, gpu int64
}

// device names a leaf on its node.
type device struct {
	sku   cell.TypeName
	index int64
	part  int64 // its index, and whole for a device that is not divided
}

// pin is one pinned cell.
type pin struct {
	at    *document.Node
	chain *chain
	level int // index in chain.levels
	by    cell.VCName
}

func (b *builder) readCells(n *document.Node) {
	b.chains = map[cell.ChainName]*chain{}
	b.machines = map[cell.NodeName]*machine{}
	b.pins = map[cell.PinnedID]*pin{}
	b.tops = b.List(n)
	if n != nil && n.Kind == document.List && len(b.tops) == 0 {
		b.Problem(n, "physicalCells is empty; the cluster needs at least one cell")
	}
	plan := make([]*chain, len(b.tops))
	if !b.measureAll(plan) {
		return
	}
	checked := map[*chain]bool{}
	for i, c := range plan {
		if c == nil {
			continue
		}
		if !checked[c] {
			checked[c] = true
			b.checkParts(c, b.tops[i])
		}
		e := &expander{builder: b, chain: c, sku: b.sku(c.sku())}
		spec := e.cell(b.tops[i], spot{near: b.tops[i], address: int64(i)})
		if c.node > 0 {
			e.sibling(c.addresses, spec.Address, b.tops[i])
		}
		b.cells = append(b.cells, spec)
	}
}

// measureAll finds the chain of every top-level cell, and reports whether the whole cluster
// is small enough to be expanded.
func (b *builder) measureAll(plan []*chain) bool {
	var leaves, cells int64
	for i, top := range b.tops {
		m := b.Map(top, "the cell")
		name := b.text(m, "cellType", "the type of this cell, one of those in cellTypes")
		if name == "" {
			b.topUnread = true
			continue
		}
		c := b.chainOf(m.Node("cellType"), cell.TypeName(name))
		if c == nil {
			continue
		}
		plan[i] = c
		c.tops++
		leaves, cells = leaves+c.leaves, cells+c.cells
		if leaves > MaxLeaves || cells > MaxCells {
			b.Problem(top, "with this cell the cluster has more than %d devices or %d cells", MaxLeaves, MaxCells)
			b.topUnread = true
			return false
		}
	}
	return true
}

// expander expands one top-level cell.
type expander struct {
	*builder
	chain   *chain
	sku     cell.SKU
	unnamed bool // the warning about a node without a name was given
}

// spot is the place of a cell in the cluster.
type spot struct {
	level   int            // index in chain.levels
	near    *document.Node // the nearest cell that is in the file
	address int64          // HiveD's running index, for cells that are not in the file
	machine *machine       // at and below node level
	device  int64          // the device's index, below a device level
	pinned  cell.PinnedID  // of an enclosing pinned cell
}

// cell expands one cell; n is nil for one that is not in the file.
func (e *expander) cell(n *document.Node, at spot) cell.CellSpec {
	t := e.chain.levels[at.level]
	spec := cell.CellSpec{Type: t.name}
	var children []*document.Node
	var formerly *document.Node
	if n != nil {
		m := e.Map(n, "the cell")
		spec.Address = m.String("cellAddress", document.Text{})
		if spec.Address != "" && !e.isPart(at.level) {
			e.name(m.Node("cellAddress"), spec.Address, "a cell")
		}
		if name := m.String("cellType", document.Text{}); name != "" && name != string(t.name) {
			e.Problem(m.Node("cellType"), "this cell has the type %s, not %s; remove the key, or correct it", t.name, document.Quote(name))
		}
		if id := m.Node("pinnedCellId"); id != nil {
			spec.Pinned = e.pin(id, &at)
		}
		formerly = e.formerly(m.Node("formerly"), "a node")
		children = e.written(m, &at)
		m.Rest()
	}
	if spec.Address == "" {
		spec.Address = e.index(at)
	}
	if at.level == e.chain.node {
		at.machine = e.node(cell.NodeName(spec.Address), at)
		at.address = 0
		if formerly != nil {
			e.nodeRename(cell.NodeName(spec.Address), formerly)
		}
	} else if formerly != nil {
		e.Problem(formerly, "only a node can have an older name; remove the key, or put it at the cell that is the machine")
	}
	if at.level == e.chain.device {
		at.device = e.deviceIndex(spec.Address, at)
		at.address = 0
	}
	if at.level == len(e.chain.levels)-1 {
		e.leaf(spec.Address, at)
		return spec
	}
	spec.Children = e.children(children, at)
	if spec.Pinned != "" && !e.chain.whole(&spec, at.level) {
		e.Problem(e.pins[spec.Pinned].at, "cells are missing in what %s names, so that it is no %s; write all of them, or pin what is in it", document.Quote(string(spec.Pinned)), t.name)
	}
	return spec
}

// written returns the children in the file. They must be all or none, but above nodes some
// may be missing. Where the number is wrong it returns as many as there may be, so that their
// problems are reported as well.
func (e *expander) written(m *document.MapReader, at *spot) []*document.Node {
	t, children := e.chain.levels[at.level], m.List("cellChildren")
	n := int64(len(children))
	if n == 0 || n == t.number {
		return children
	}
	if n < t.number && at.level < e.chain.node && !t.broken {
		e.Warn(m.Node("cellChildren"), "%d of the %d %s that a %s has: no virtual cluster can own this one as a whole, only what is in it", n, t.number, t.child, t.name)
		e.chain.lacking = true
		return children
	}
	if !t.broken {
		e.Problem(m.Node("cellChildren"), "%d children are written here, but the type %s has childCellNumber %d%s",
			len(children), t.name, t.number, childAdvice(t, len(children)))
	}
	return children[:min(n, t.number)]
}

func childAdvice(t *cellType, n int) string {
	if t.number == 0 {
		return "; it is a single device"
	}
	return "; write all of them or none, or define another type with " + strconv.Itoa(n)
}

func (e *expander) children(written []*document.Node, at spot) []cell.CellSpec {
	t := e.chain.levels[at.level]
	size := t.number
	if len(written) > 0 {
		size = int64(len(written))
	}
	out := make([]cell.CellSpec, size)
	seen := make(map[string]bool, len(written))
	for i := range out {
		child := at
		child.level++
		child.address = at.address*t.number + int64(i)
		var n *document.Node
		if len(written) > 0 {
			n, child.near = written[i], written[i]
		}
		out[i] = e.cell(n, child)
		if child.level != e.chain.node && child.level != e.chain.device && child.level != len(e.chain.levels)-1 && len(written) > 0 {
			e.sibling(seen, out[i].Address, child.near)
		}
	}
	return out
}

// sibling reports an address that a sibling has already. Nodes and leaves have rules of their
// own.
func (e *expander) sibling(seen map[string]bool, address string, at *document.Node) {
	if seen[address] {
		e.Problem(at, "another cell beside this one has the address %s; addresses of siblings must differ", document.Quote(address))
	}
	seen[address] = true
}

// index returns the address of a cell that the file gives none: HiveD's running index, which
// restarts at each node.
func (e *expander) index(at spot) string {
	if at.level == e.chain.node && !e.unnamed {
		e.unnamed = true
		if e.policies.Named {
			e.Problem(at.near, "a node has no cellAddress, and would be called %q; write the machine's name, such as cellAddress: gpu-%d, and formerly: \"%d\" where it is in the present configuration", strconv.FormatInt(at.address, 10), at.address+1, at.address)
		} else {
			e.Warn(at.near, "a node has no cellAddress and is named after its index, \"%d\"; write the machine's name", at.address)
		}
	}
	if e.isPart(at.level) {
		return strconv.FormatInt(at.device, 10) + ":" + strconv.FormatInt(at.address, 10)
	}
	return strconv.FormatInt(at.address, 10)
}

// node notes that a node has cells of this chain.
func (e *expander) node(name cell.NodeName, at spot) *machine {
	if first := e.chain.nodes[name]; first != nil {
		e.Problem(at.near, "the node %s is already in the chain %s, at line %d; a machine can be in a chain only once",
			document.Quote(string(name)), e.chain.name, first.Line)
		return newMachine() // a new one: the duplicate is reported here, and its devices need not be
	}
	e.chain.nodes[name] = at.near
	m := e.machines[name]
	if m == nil {
		m = newMachine()
		e.machines[name] = m
	}
	return m
}

func newMachine() *machine {
	return &machine{devices: map[device]*document.Node{}, divided: map[divided]*dividedUse{}}
}

// leaf checks a leaf's address and counts what the leaf needs.
func (e *expander) leaf(address string, at spot) {
	d := device{sku: e.sku.Name, part: whole}
	if e.chain.device >= 0 {
		d.index, d.part = at.device, e.partIndex(address, at)
	} else {
		d.index = e.index64(address, at, "a "+string(e.sku.Name))
	}
	if d.index < 0 || e.chain.device >= 0 && d.part < 0 {
		return
	}
	m := at.machine
	first := m.devices[d]
	switch {
	case first != nil && d.part == whole:
		e.Problem(at.near, "this machine has a %s with the index %d already, at line %d; indices of one type must differ", e.sku.Name, d.index, first.Line)
	case first != nil:
		e.Problem(at.near, "this machine has a %s with the address %s already, at line %d; addresses of one type must differ", e.sku.Name, address, first.Line)
	default:
		e.noteUse(m, d, at)
	}
	m.devices[d] = at.near
	if d.part == whole {
		m.gpu += e.sku.GPU
	}
	m.milliCPU += e.sku.MilliCPU
	m.memoryMB += e.sku.MemoryMB
}

// pin notes a pinned cell. All below it belongs to its VC alone.
func (e *expander) pin(n *document.Node, at *spot) cell.PinnedID {
	id := cell.PinnedID(e.String(n, document.Text{}))
	if id == "" || !e.name(n, string(id), "a pinned cell") {
		return ""
	}
	if first := e.pins[id]; first != nil {
		e.Problem(n, "the pinned cell %s is already at line %d; each needs its own id", document.Quote(string(id)), first.at.Line)
		return ""
	}
	if at.pinned != "" {
		e.Problem(n, "this cell is inside the pinned cell %s, which belongs to one virtual cluster as a whole; remove one of the two", document.Quote(string(at.pinned)))
	}
	e.pins[id] = &pin{at: n, chain: e.chain, level: at.level}
	at.pinned = id
	return id
}
