package cell

import (
	"fmt"
	"strings"
)

// Forest is the immutable shape of the physical cluster: all cells of all chains in depth-first
// order. Cells of one type have equal subtrees, so the children of a cell and the place of a cell
// inside its ancestor are arithmetic. If cells are missing in one above node level, entries of
// level 0 take their places in Cells, behind its children.
type Forest struct {
	Chains  []Chain
	Cells   []Cell
	Leaves  []CellID // the level-1 cell of each leaf
	Nodes   []Node
	nodeOf  map[NodeName]int32
	parent  []CellID // of each cell
	names   []naming // of each cell
	device  []int32  // of each leaf: its device's index on its node
	part    []int32  // of each leaf: which part of the device it is, 0 when whole
	slots   int      // (chain, level) pairs
	lacking map[CellID]remains
}

// remains is what a cell still has if cells are missing in it.
type remains struct{ children, leaves int32 }

// Chain is a chain of the forest.
type Chain struct {
	Name      ChainName
	SKU       TypeName // its leaf type
	Types     []TypeName
	NodeLevel Level
	Top       Level
	Tops      []CellID // its top-level cells
	NodeCells []CellID // its node-level cells; a cell's Bin is its place here
	size      []CellID // cells of a subtree, by level-1
	leaves    []int32  // leaves of a cell, by level-1
	fanout    []int32  // children of a cell, by level-1
	inside    []Level  // levels of a node-level cell's subtree, in depth-first order
	up        []int32  // by place in inside: the place of the parent there, -1 for the first
	slot0     int      // the slot of its level 1
	parts     bool     // its leaves are parts of devices
}

// Cell is one physical cell. Level and Chain never change; Node is -1 above
// node level.
type Cell struct {
	Parent    CellID
	FirstLeaf LeafID
	Node      int32 // index into Forest.Nodes
	Bin       int32 // index into the chain's NodeCells, None above node level
	Chain     int16 // index into Forest.Chains
	Level     Level
}

// naming is what the configuration calls a cell. It is apart from Cell, since a decision reads
// many cells and no names.
type naming struct {
	address string
	pinned  PinnedID
}

// Node is one machine: a node-level cell for each chain that it carries.
type Node struct {
	Name  NodeName
	Cells []CellID
}

// LeavesAt returns how many leaves a cell of that level has.
func (c *Chain) LeavesAt(l Level) int32 { return c.leaves[l-1] }

// Whole reports whether no cell is missing in a cell. Only whole cells are guaranteed.
func (f *Forest) Whole(c CellID) bool {
	return len(f.lacking) == 0 || f.Cells[c].Node != None || f.lacking[c].children == 0
}

// NumLeaves returns how many leaves are below a cell.
func (f *Forest) NumLeaves(c CellID) int32 {
	if !f.Whole(c) {
		return f.lacking[c].leaves
	}
	cl := &f.Cells[c]
	return f.Chains[cl.Chain].leaves[cl.Level-1]
}

// Children returns the first child, the distance between siblings and their
// number; a leaf has none.
func (f *Forest) Children(c CellID) (first, step CellID, n int32) {
	cl := &f.Cells[c]
	ch := &f.Chains[cl.Chain]
	if cl.Level == 1 {
		return None, 0, 0
	}
	if n = ch.fanout[cl.Level-1]; !f.Whole(c) {
		n = f.lacking[c].children
	}
	return c + 1, ch.size[cl.Level-2], n
}

// Contains reports whether b is a or below it.
func (f *Forest) Contains(a, b CellID) bool {
	cl := &f.Cells[a]
	return b >= a && b < a+f.Chains[cl.Chain].size[cl.Level-1]
}

// Ancestor returns the cell of that level at or above c.
func (f *Forest) Ancestor(c CellID, l Level) CellID {
	for f.Cells[c].Level < l {
		c = f.Cells[c].Parent
	}
	return c
}

// NodeIndex returns the index of a node, or -1.
func (f *Forest) NodeIndex(n NodeName) int32 {
	if i, ok := f.nodeOf[n]; ok {
		return i
	}
	return None
}

// NodeCell returns the cell of a node, in its chain, that a leaf lies in.
func (f *Forest) NodeCell(l LeafID) CellID {
	id := f.Leaves[l]
	for level := f.Chains[f.Cells[id].Chain].NodeLevel; f.Cells[id].Level < level; {
		id = f.Cells[id].Parent
	}
	return id
}

// Path returns the addresses from the top-level cell down to c, joined by "/".
func (f *Forest) Path(c CellID) string {
	if p := f.Cells[c].Parent; p != None {
		return f.Path(p) + "/" + f.names[c].address
	}
	return f.names[c].address
}

// Address returns a cell's own address.
func (f *Forest) Address(c CellID) string { return f.names[c].address }

// Pinned returns the name under which a cell is pinned, "" if it is not.
func (f *Forest) Pinned(c CellID) PinnedID { return f.names[c].pinned }

// Device returns the device index of a leaf on its node.
func (f *Forest) Device(l LeafID) int32 { return f.device[l] }

// Part returns which part of its device a leaf is; 0 for a whole device.
func (f *Forest) Part(l LeafID) int32 { return f.part[l] }

// ChainOf returns the chain of a leaf.
func (f *Forest) ChainOf(l LeafID) *Chain { return &f.Chains[f.Cells[f.Leaves[l]].Chain] }

// FindPart returns the leaf that is one part of a device of a node, or None; a whole device is its
// part 0.
func (f *Forest) FindPart(n NodeName, sku TypeName, device, part int32) LeafID {
	i := f.NodeIndex(n)
	if i == None {
		return None
	}
	for _, c := range f.Nodes[i].Cells {
		if f.Chains[f.Cells[c].Chain].SKU != sku {
			continue
		}
		for l := f.Cells[c].FirstLeaf; l < f.Cells[c].FirstLeaf+LeafID(f.NumLeaves(c)); l++ {
			if f.device[l] == device && f.part[l] == part {
				return l
			}
		}
	}
	return None
}

// slot numbers the levels of all chains; c and l give one.
func (f *Forest) slot(chain int16, l Level) int { return f.Chains[chain].slot0 + int(l) - 1 }

// parseLeaf reads a leaf's address: a device index, or device:part.
func parseLeaf(address string) (device, part int32) {
	d, p, _ := strings.Cut(address, ":")
	return number(d), number(p)
}

func number(text string) int32 {
	var n int32
	for _, d := range []byte(text) {
		n = n*10 + int32(d-'0')
	}
	return n
}

// chainIndex returns the index of a chain by name, or -1.
func (f *Forest) chainIndex(n ChainName) int {
	for i := range f.Chains {
		if f.Chains[i].Name == n {
			return i
		}
	}
	return None
}

// newForest lays out a validated spec.
func newForest(s *Spec) (*Forest, error) {
	f := &Forest{nodeOf: map[NodeName]int32{}, lacking: map[CellID]remains{}}
	for _, cs := range s.Chains {
		ch, err := newChain(cs)
		if err != nil {
			return nil, err
		}
		ch.slot0 = f.slots
		f.slots += int(ch.Top)
		for i := range s.SKUs {
			ch.parts = ch.parts || s.SKUs[i].Name == ch.SKU && s.SKUs[i].Part != ""
		}
		f.Chains = append(f.Chains, ch)
	}
	f.reserve(s)
	for i := range s.Cells {
		ci := f.chainIndex(ChainName(s.Cells[i].Type))
		if ci == None {
			return nil, fmt.Errorf("cell %q has type %q, which is no chain", s.Cells[i].Address, s.Cells[i].Type)
		}
		ch := &f.Chains[ci]
		ch.Tops = append(ch.Tops, CellID(len(f.Cells)))
		at := position{chain: int16(ci), level: ch.Top, parent: None, node: None}
		if err := f.add(&s.Cells[i], at); err != nil {
			return nil, err
		}
	}
	f.gatherNames()
	return f, nil
}

// gatherNames puts the names of all nodes into one string. Every decision reads some of them, and
// side by side they share lines of the processor's cache.
func (f *Forest) gatherNames() {
	var all strings.Builder
	for i := range f.Nodes {
		all.WriteString(string(f.Nodes[i].Name))
	}
	text := NodeName(all.String())
	for i := range f.Nodes {
		n := len(f.Nodes[i].Name)
		f.Nodes[i].Name, text = text[:n], text[n:]
	}
}

func newChain(cs ChainSpec) (Chain, error) {
	ch := Chain{Name: cs.Name, Top: Level(len(cs.Levels))}
	if len(cs.Levels) == 0 || len(cs.Levels) > 32 {
		return ch, fmt.Errorf("chain %q has %d levels, want 1 to 32", cs.Name, len(cs.Levels))
	}
	ch.SKU = cs.Levels[0].Type
	size, leaves := int64(1), int64(1)
	for i, l := range cs.Levels {
		if i > 0 {
			size = 1 + size*int64(l.Fanout)
			leaves *= int64(l.Fanout)
		}
		if size <= 0 || size > 1<<30 || leaves <= 0 {
			return ch, fmt.Errorf("chain %q: a cell of type %q would have %d leaves", cs.Name, l.Type, leaves)
		}
		if l.IsNode {
			if ch.NodeLevel != 0 {
				return ch, fmt.Errorf("chain %q has two node levels", cs.Name)
			}
			ch.NodeLevel = Level(i + 1)
		}
		ch.Types = append(ch.Types, l.Type)
		ch.size = append(ch.size, CellID(size))
		ch.leaves = append(ch.leaves, int32(leaves))
		ch.fanout = append(ch.fanout, l.Fanout)
	}
	if ch.NodeLevel == 0 {
		return ch, fmt.Errorf("chain %q has no node level", cs.Name)
	}
	ch.inside = ch.below(nil, ch.NodeLevel)
	ch.up = make([]int32, len(ch.inside))
	for i := range ch.up {
		up := i - 1
		for up >= 0 && ch.inside[up] != ch.inside[i]+1 {
			up--
		}
		ch.up[i] = int32(up)
	}
	return ch, nil
}

// below appends the levels of a cell's subtree in depth-first order.
func (c *Chain) below(out []Level, l Level) []Level {
	out = append(out, l)
	if l == 1 {
		return out
	}
	for range c.fanout[l-1] {
		out = c.below(out, l-1)
	}
	return out
}

// reserve makes room for all cells at once.
func (f *Forest) reserve(s *Spec) {
	var cells, leaves int64
	for i := range s.Cells {
		if ci := f.chainIndex(ChainName(s.Cells[i].Type)); ci != None {
			ch := &f.Chains[ci]
			cells += int64(ch.size[ch.Top-1])
			leaves += int64(ch.leaves[ch.Top-1])
		}
	}
	cells, leaves = min(cells, 1<<24), min(leaves, 1<<24)
	f.Cells, f.parent, f.names = make([]Cell, 0, cells), make([]CellID, 0, cells), make([]naming, 0, cells)
	f.Leaves, f.device, f.part = make([]CellID, 0, leaves), make([]int32, 0, leaves), make([]int32, 0, leaves)
}

// position is where a cell is added.
type position struct {
	chain  int16
	level  Level
	parent CellID
	node   int32
}

func (f *Forest) add(s *CellSpec, at position) error {
	ch := &f.Chains[at.chain]
	if s.Type != ch.Types[at.level-1] {
		return fmt.Errorf("cell %q has type %q, want %q", s.Address, s.Type, ch.Types[at.level-1])
	}
	n, want := int32(len(s.Children)), ch.fanout[at.level-1]
	if at.level > 1 && n != want && (at.level <= ch.NodeLevel || n == 0 || n > want) {
		return fmt.Errorf("cell %q of type %q has %d children, want %d", s.Address, s.Type, n, want)
	}
	id := CellID(len(f.Cells))
	if at.level == ch.NodeLevel {
		at.node = f.node(NodeName(s.Address), id)
		ch.NodeCells = append(ch.NodeCells, id)
	}
	bin := int32(len(ch.NodeCells)) - 1
	if at.level > ch.NodeLevel {
		bin = None
	}
	f.Cells = append(f.Cells, Cell{Parent: at.parent, FirstLeaf: LeafID(len(f.Leaves)), Node: at.node, Bin: bin,
		Chain: at.chain, Level: at.level})
	f.names = append(f.names, naming{s.Address, s.Pinned})
	f.parent = append(f.parent, at.parent)
	if at.level == 1 {
		d, p := parseLeaf(s.Address)
		f.Leaves, f.device, f.part = append(f.Leaves, id), append(f.device, d), append(f.part, p)
		return nil
	}
	child := position{chain: at.chain, level: at.level - 1, parent: id, node: at.node}
	for i := range s.Children {
		if err := f.add(&s.Children[i], child); err != nil {
			return err
		}
	}
	f.fillUp(id, n)
	return nil
}

// fillUp notes what a cell with so many children has, and fills the places of those that are
// missing.
func (f *Forest) fillUp(id CellID, children int32) {
	cl := f.Cells[id]
	ch := &f.Chains[cl.Chain]
	leaves := int32(len(f.Leaves)) - int32(cl.FirstLeaf)
	if leaves == ch.leaves[cl.Level-1] {
		return
	}
	f.lacking[id] = remains{children, leaves}
	for end := id + ch.size[cl.Level-1]; CellID(len(f.Cells)) < end; {
		f.Cells = append(f.Cells, Cell{Parent: None, FirstLeaf: None, Node: None, Bin: None, Chain: cl.Chain})
		f.names, f.parent = append(f.names, naming{}), append(f.parent, None)
	}
}

// node returns the index of the node with that name and adds a cell to it.
func (f *Forest) node(n NodeName, c CellID) int32 {
	i, ok := f.nodeOf[n]
	if !ok {
		i = int32(len(f.Nodes))
		f.nodeOf[n] = i
		f.Nodes = append(f.Nodes, Node{Name: n})
	}
	f.Nodes[i].Cells = append(f.Nodes[i].Cells, c)
	return i
}

// Fit returns the lowest level of a chain with room for n leaves; one above the
// top when there is none.
func (c *Chain) Fit(n int32) Level {
	for l := Level(1); l <= c.Top; l++ {
		if c.LeavesAt(l) >= n {
			return l
		}
	}
	return c.Top + 1
}
