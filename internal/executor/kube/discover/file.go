package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// file is a cluster file under construction.
type file struct {
	skus  map[string]bool
	types map[string]string // cell types by name, as they are written

	skuText, typeText, cellText, quotaText strings.Builder
}

// cell is a proposed cell: a node, or cells that are next to each other.
type cell struct {
	kind     string // its type
	name     string // its node or place
	node     string // "": it has children
	children []cell
}

// add proposes the nodes of one kind.
func (f *file) add(k kind, nodes []node) {
	short := strings.Trim(k.product[:min(len(k.product), maxName)], "-")
	sku := short
	for i := 2; f.skus[sku] || f.types[sku] != ""; i++ { // the name is taken, or a cell type's
		sku = fmt.Sprintf("%s-%d", short, i)
	}
	f.skus[sku] = true
	comment := ""
	if sku != k.product {
		comment = fmt.Sprintf(" # %s, %d in a node", k.product, k.each)
	}
	milliCPU, memoryMB := nodes[0].milliCPU, nodes[0].memoryMB
	for _, n := range nodes {
		milliCPU, memoryMB = min(milliCPU, n.milliCPU), min(memoryMB, n.memoryMB)
	}
	gpu := ""
	if k.gpus > 0 {
		gpu = "gpu: 1, "
	}
	// A tenth of a CPU and a MiB are the smallest that is told apart.
	fmt.Fprintf(&f.skuText, "    %s: {%scpu: %d.%d, memory: %dMi%s}%s\n", sku, gpu, milliCPU/k.each/1000, milliCPU/k.each%1000/100, memoryMB/k.each, k.given, comment)
	nodeType := f.cellType(sku+"-NODE", fmt.Sprintf("{childCellType: %s, childCellNumber: %d, isNodeLevel: true}", sku, k.each))
	cells := make([]cell, len(nodes))
	for i, n := range nodes {
		cells[i] = cell{kind: nodeType, name: n.name, node: n.name}
	}
	for _, c := range f.nest(sku, cells, nodes, usable(nodes)) {
		f.write(c, "  ")
	}
}

// usable are the levels that say something of these nodes, from the outside in: all nodes have a
// value, some share one, and nodes that share one share the values of all levels around it.
func usable(nodes []node) (list []int) {
	for l := range levels {
		outside := map[string]string{} // what is around each value
		shared := false
		ok := true
		for _, n := range nodes {
			v := n.where[l]
			around := ""
			for _, o := range list {
				around += n.where[o] + "\x00"
			}
			before, seen := outside[v]
			shared = shared || seen
			ok = ok && v != "" && (!seen || before == around)
			outside[v] = around
		}
		if ok && shared {
			list = append(list, l)
		}
	}
	return list
}

// nest puts nodes of one place into cells, from the inside out. Cells of one type have the same
// number of children, so those with another number are of a type of their own.
func (f *file) nest(sku string, cells []cell, nodes []node, use []int) []cell {
	for _, l := range slices.Backward(use) {
		var order []string
		groups := map[string][]cell{}
		where := map[string]node{}
		for i, c := range cells {
			key := nodes[i].where[l]
			if groups[key] == nil {
				order = append(order, key)
				where[key] = nodes[i]
			}
			groups[key] = append(groups[key], c)
		}
		if len(order) == len(cells) {
			continue // each would have one child
		}
		cells, nodes = nil, nil
		for _, key := range order {
			cells = append(cells, f.group(sku+"-"+levels[l].name, key, groups[key])...)
			for range len(cells) - len(nodes) {
				nodes = append(nodes, where[key])
			}
		}
	}
	return cells
}

// group makes cells of the children of one place: one cell for each type of child.
func (f *file) group(name, where string, children []cell) (cells []cell) {
	byType := map[string][]cell{}
	var order []string
	for _, c := range children {
		if byType[c.kind] == nil {
			order = append(order, c.kind)
		}
		byType[c.kind] = append(byType[c.kind], c)
	}
	for _, kind := range order {
		list := byType[kind]
		text := fmt.Sprintf("{childCellType: %s, childCellNumber: %d}", kind, len(list))
		cells = append(cells, cell{kind: f.cellType(name, text), name: where, children: list})
	}
	return cells
}

// cellType adds a type, under its name or a similar one that is free, and returns the name.
func (f *file) cellType(name, text string) string {
	free := name
	for i := 2; f.skus[free] || f.types[free] != "" && f.types[free] != text; i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	if f.types[free] == "" {
		f.types[free] = text
		fmt.Fprintf(&f.typeText, "    %s: %s\n", free, text)
	}
	return free
}

func (f *file) write(c cell, indent string) {
	fmt.Fprintf(&f.cellText, "%s- cellType: %s\n%s  cellAddress: %s\n", indent, c.kind, indent, quoted(c.name))
	if c.node == "" {
		fmt.Fprintf(&f.cellText, "%s  cellChildren:\n", indent)
		for _, child := range c.children {
			f.child(child, indent+"  ")
		}
	}
	f.quota(c.kind)
}

func (f *file) child(c cell, indent string) {
	fmt.Fprintf(&f.cellText, "%s- cellAddress: %s\n", indent, quoted(c.name))
	if c.node == "" {
		fmt.Fprintf(&f.cellText, "%s  cellChildren:\n", indent)
		for _, child := range c.children {
			f.child(child, indent+"  ")
		}
	}
}

// quota counts a top cell for the one virtual cluster. text merges lines of one type.
func (f *file) quota(kind string) { fmt.Fprintf(&f.quotaText, "%s\n", kind) }

func (f *file) text() string {
	var b strings.Builder
	b.WriteString("# Proposed from the labels of the nodes. Say which team owns what below virtualClusters, and try it:\n#   comb config validate FILE\n")
	b.WriteString("# CPUs and memory are what Kubernetes has for pods, less what the pods of DaemonSets ask for: " +
		"leave something for other pods.\n")
	b.WriteString("physicalCluster:\n  skuTypes:\n")
	b.WriteString(f.skuText.String())
	b.WriteString("  cellTypes:\n")
	b.WriteString(f.typeText.String())
	b.WriteString("  physicalCells:\n")
	b.WriteString(f.cellText.String())
	b.WriteString("virtualClusters:\n  default:\n    virtualCells:\n")
	counts := map[string]int{}
	var order []string
	for kind := range strings.FieldsSeq(f.quotaText.String()) {
		if counts[kind] == 0 {
			order = append(order, kind)
		}
		counts[kind]++
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for _, kind := range order {
		fmt.Fprintf(&b, "    - {cellType: %s, cellNumber: %d}\n", kind, counts[kind])
	}
	return b.String()
}

// quoted quotes a value that YAML could read as something else, such as a number.
func quoted(s string) string {
	for i, r := range s {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && (r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_') {
			continue
		}
		return fmt.Sprintf("%q", s)
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		return fmt.Sprintf("%q", s)
	}
	return s
}
