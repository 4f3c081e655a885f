package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// cellType is one entry of physicalCluster.cellTypes.
type cellType struct {
	at     *document.Node
	name   cell.TypeName
	child  cell.TypeName
	number int64
	isNode bool
	// isDevice is set where a device is divided: the cells below are its parts.
	isDevice bool
	broken   bool // a problem of it was reported, and what it holds is unknown
}

// chain is the path of types from the type of a top-level cell to the leaf.
type chain struct {
	name   cell.ChainName
	levels []*cellType // top first; the last is the leaf, with number 0
	node   int         // index of the node level in levels
	device int         // index of the level that is one device, -1 where leaves are devices
	leaves int64       // of one top-level cell
	cells  int64       // of one top-level cell, itself included
	tops   int64       // top-level cells
	nodes  map[cell.NodeName]*document.Node
	// addresses of the top-level cells above node level
	addresses map[string]bool
	lacking   bool // some cell lacks others
}

// level returns the cell package's number of the level at an index of levels.
func (c *chain) level(i int) cell.Level { return cell.Level(len(c.levels) - i) }

// whole reports whether no cell is missing below s, which is at index i of levels.
func (c *chain) whole(s *cell.CellSpec, i int) bool {
	if i >= c.node {
		return true
	}
	missing := func(k cell.CellSpec) bool { return !c.whole(&k, i+1) }
	return int64(len(s.Children)) == c.levels[i].number && !slices.ContainsFunc(s.Children, missing)
}

// sku returns the leaf type.
func (c *chain) sku() cell.TypeName { return c.levels[len(c.levels)-1].name }

// index returns the index of a type in levels, or -1.
func (c *chain) index(t cell.TypeName) int {
	return slices.IndexFunc(c.levels, func(l *cellType) bool { return l.name == t })
}

// path returns the quota path from the top down to a level.
func (c *chain) path(to int) string {
	var names []string
	for _, l := range c.levels[:to+1] {
		names = append(names, string(l.name))
	}
	return strings.Join(names, ".")
}

// aType describes a cell type, for messages.
const aType = "how devices sit together, such as NODE: {childCellType: GPU, childCellNumber: 8, isNodeLevel: true}"

func (b *builder) readTypes(n *document.Node) {
	b.types = map[cell.TypeName]*cellType{}
	if n != nil && n.Kind == document.Map && len(n.Fields) == 0 {
		b.Problem(n, "cellTypes is empty; write %s", aType)
	}
	for _, f := range b.Map(n, "cellTypes").Fields() {
		m := b.Map(f.Value, "the cell type "+document.Quote(f.Key))
		before := b.Count()
		child := b.text(m, "childCellType", "the type of the cells inside, or of the device")
		b.require(m, "childCellNumber", "how many cells are inside, 1 or more")
		t := &cellType{
			at:     f.At(),
			name:   cell.TypeName(f.Key),
			child:  cell.TypeName(child),
			number: m.Int("childCellNumber", document.Range{Min: 1, Max: MaxLeaves, Default: 1}),
			isNode: m.Bool("isNodeLevel", false), isDevice: m.Bool("isDeviceLevel", false),
		}
		t.isNode = t.isNode || misspelt(f.Value, "isNodeLevel", "isDeviceLevel")
		t.broken = b.Count() > before
		m.Rest()
		b.typeName(t.at, f.Key)
		if t.child != "" {
			b.typeName(m.Node("childCellType"), string(t.child))
		}
		if t.isNode && t.isDevice {
			b.Problem(m.Node("isDeviceLevel"), "%s is a whole machine, so it cannot be one device; put a type for the device between the machine and its parts", document.Quote(f.Key))
			t.isDevice = false
		}
		b.divides = b.divides || t.isDevice
		b.types[t.name] = t
		if dashed := cell.TypeName(strings.ReplaceAll(f.Key, ".", "-")); dashed != t.name && n.Get(string(dashed)) == nil {
			again := *t
			again.name = dashed
			b.types[dashed] = &again
		}
	}
	b.checkCycles()
}

// misspelt reports whether a map has a key set to true that is probably a misspelling of key,
// and not of other. The misspelling is reported, and the rest of the file is read as it was
// misspelt.
func misspelt(n *document.Node, key, other string) bool {
	return n != nil && n.Kind == document.Map && slices.ContainsFunc(n.Fields, func(f document.Field) bool {
		return f.Key != key && f.Value != nil && f.Value.Text == "true" &&
			strings.Contains(document.DidYouMean(f.Key, []string{key, other}), "did you mean "+key)
	})
}

// typeName checks a type's name: dots separate types in a quota path.
func (b *builder) typeName(at *document.Node, name string) {
	if b.name(at, name, "a cell type") && strings.Contains(name, ".") {
		b.Problem(at, "the cell type %s must not contain a dot: dots separate the types of a quota path", document.Quote(name))
	}
}

// checkCycles reports each cycle of types once, and cuts it.
func (b *builder) checkCycles() {
	done := map[cell.TypeName]bool{}
	for _, name := range slices.Sorted(maps.Keys(b.types)) {
		var path []string
		on := map[cell.TypeName]bool{}
		for t := b.types[name]; t != nil && !done[t.name]; t = b.types[t.child] {
			on[t.name] = true
			path = append(path, string(t.name))
			if on[t.child] {
				from := slices.Index(path, string(t.child))
				b.Problem(t.at, "the cell types contain each other: %s; a type's childCellType must lead down to a device",
					cut(strings.Join(append(path[from:], string(t.child)), " > ")))
				t.child, t.broken = "", true
				break
			}
		}
		maps.Copy(done, on)
	}
}

// cut shortens a text for a message.
func cut(s string) string {
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}

// chainOf returns the chain whose top is a type; nil when there cannot be one. Its problems
// are reported at the first cell that uses it.
func (b *builder) chainOf(at *document.Node, top cell.TypeName) *chain {
	if c, ok := b.chains[cell.ChainName(top)]; ok {
		return c
	}
	c := &chain{name: cell.ChainName(top), node: -1, device: -1, leaves: 1, cells: 1, nodes: map[cell.NodeName]*document.Node{}, addresses: map[string]bool{}}
	if !b.descend(at, c) {
		c = nil
	}
	b.chains[cell.ChainName(top)] = c
	b.topUnread = b.topUnread || c == nil
	if len(b.chains) == MaxChains+1 {
		b.Problem(at, "there are too many chains: at most %d types may be used at the top of physicalCells", MaxChains)
	}
	return c
}

// descend follows the types from the top to the leaf.
func (b *builder) descend(at *document.Node, c *chain) bool {
	name := cell.TypeName(c.name)
	if len(b.types) == 0 {
		return false // missing types are reported
	}
	if b.types[name] == nil {
		b.Problem(at, "the cell type %s is not defined in cellTypes%s", document.Quote(string(name)), document.DidYouMean(string(name), b.typeNames()))
		return false
	}
	nodes, devices := 0, 0
	for {
		t := b.types[name]
		if t == nil {
			t = &cellType{name: name}
		}
		if t.isNode {
			nodes++
			c.node = len(c.levels)
		}
		if t.isDevice {
			devices++
			c.device = len(c.levels)
		}
		c.levels = append(c.levels, t)
		if t.broken && t.child == "" {
			return false // what is below is unknown
		}
		if t.number == 0 || t.child == "" {
			break
		}
		name = t.child
		if len(c.levels) == maxLevels {
			b.Problem(at, "the chain %s has more than %d levels", document.Quote(string(c.name)), maxLevels)
			return false
		}
	}
	if nodes != 1 && slices.ContainsFunc(c.levels, func(t *cellType) bool { return t.broken }) {
		return false // problems that were reported may be the cause
	}
	if nodes != 1 {
		advice := "; set isNodeLevel: true at the type that is a whole machine"
		if nodes > 1 {
			advice = "; a machine cannot contain another, so keep it at one of them"
		}
		b.Problem(at, "the types %s need exactly one node level, found %d%s", cut(c.path(len(c.levels)-1)), nodes, advice)
		return false
	}
	if devices > 1 || devices == 1 && c.device < c.node {
		b.Problem(at, "the types %s need their device level below the machine and only once; keep isDeviceLevel: true at the type that is one device", cut(c.path(len(c.levels)-1)))
		return false
	}
	return b.measure(at, c)
}

// measure counts the cells and leaves of one top-level cell, before anything is built.
func (b *builder) measure(at *document.Node, c *chain) bool {
	for i := len(c.levels) - 2; i >= 0; i-- {
		c.leaves *= c.levels[i].number
		c.cells = 1 + c.cells*c.levels[i].number
		if c.leaves > MaxLeaves || c.cells > MaxCells {
			b.Problem(at, "one cell of type %s would hold more than %d devices or %d cells; check childCellNumber",
				document.Quote(string(c.levels[i].name)), MaxLeaves, MaxCells)
			return false
		}
		if i == c.node && c.leaves > MaxNodeLeaves {
			b.Problem(at, "one machine of type %s would have %d devices; at most %d are possible, so check childCellNumber",
				document.Quote(string(c.levels[i].name)), c.leaves, MaxNodeLeaves)
			return false
		}
	}
	return true
}

func (b *builder) typeNames() []string {
	var names []string
	for name := range b.types {
		if !strings.Contains(string(name), ".") { // a name with a dot is refused
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}
