package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// readNodes reads the capacities of machines and checks their cells against them.
func (b *builder) readNodes(n *document.Node) {
	for _, f := range b.Map(n, "nodes").Fields() {
		m := b.Map(f.Value, "the node "+document.Quote(f.Key))
		c := Capacity{Node: cell.NodeName(f.Key), GPU: Unlimited}
		c.MilliCPU = b.capacity(m, "cpu", b.cpu)
		c.MemoryMB = b.capacity(m, "memory", b.memory)
		c.GPU = m.Int("gpu", document.Range{Max: MaxLeaves, Default: Unlimited})
		m.Rest()
		have := b.machines[c.Node]
		if have == nil {
			if !b.cellsMayLack() {
				b.Problem(f.At(), "no cell is on the node %s%s", document.Quote(f.Key), document.DidYouMean(f.Key, b.nodeNames()))
			}
			continue
		}
		for _, excess := range c.excess(have.milliCPU, have.memoryMB, have.gpu) {
			b.Problem(f.At(), "the cells of the node %s together have %s; lower the SKUs in skuTypes or the number of cells", f.Key, excess)
		}
		b.capacities = append(b.capacities, c)
	}
	slices.SortFunc(b.capacities, func(x, y Capacity) int { return cmp.Compare(x.Node, y.Node) })
}

// capacity reads one value with read; Unlimited when it is absent or cannot be read.
func (b *builder) capacity(m *document.MapReader, key string, read func(*document.Node) int64) int64 {
	n, before := m.Node(key), b.Count()
	if v := read(n); m.Has(key) && b.Count() == before {
		return v
	}
	return Unlimited
}

func (b *builder) nodeNames() []string {
	names := make([]string, 0, len(b.machines))
	for name := range b.machines {
		names = append(names, string(name))
	}
	return names
}

// excess says by how much the sums exceed the capacity, for each resource.
func (c Capacity) excess(milliCPU, memoryMB, gpu int64) []string {
	var out []string
	if c.MilliCPU >= 0 && milliCPU > c.MilliCPU {
		out = append(out, fmt.Sprintf("%s CPU cores, but the machine has %s", cores(milliCPU), cores(c.MilliCPU)))
	}
	if c.MemoryMB >= 0 && memoryMB > c.MemoryMB {
		out = append(out, fmt.Sprintf("%d MiB of memory, but the machine has %d MiB", memoryMB, c.MemoryMB))
	}
	if c.GPU >= 0 && gpu > c.GPU {
		out = append(out, fmt.Sprintf("%d GPUs, but the machine has %d", gpu, c.GPU))
	}
	return out
}

// cores writes thousandths of a core as cores.
func cores(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// CheckMachine checks a configuration against the one machine that all its nodes stand for.
// The cells of all nodes together must not need more than m has. Resources that m leaves
// Unlimited are not checked. The error names every excess.
func CheckMachine(c *model.Config, m Capacity) error {
	skus := map[cell.TypeName]cell.SKU{}
	for _, s := range c.Cluster.SKUs {
		skus[s.Name] = s
	}
	var milliCPU, memoryMB, gpu int64
	divided, isNode := map[dividedDevice]bool{}, nodeTypes(&c.Cluster)
	inChain := make([]cell.SKU, len(c.Cluster.Chains))
	for i, counts := range cellCounts(&c.Cluster) {
		sku := skus[c.Cluster.Chains[i].Levels[0].Type]
		milliCPU += counts[0] * sku.MilliCPU
		memoryMB += counts[0] * sku.MemoryMB
		if sku.Pretended && !m.Pretended {
			sku.GPU = 0
		}
		if sku.Part == "" {
			gpu += counts[0] * sku.GPU
		}
		inChain[i] = sku
	}
	for i := range c.Cluster.Cells {
		top := &c.Cluster.Cells[i]
		if sku := inChain[chainIndex(&c.Cluster, top)]; sku.Part != "" && sku.GPU > 0 {
			countDivided(top, isNode, dividedDevice{kind: sku.Device}, divided)
		}
	}
	gpu += int64(len(divided))
	excess := m.excess(milliCPU, memoryMB, gpu)
	if len(excess) == 0 {
		return nil
	}
	return errors.New("the nodes of this cluster file all stand on this machine, and their cells together have " +
		strings.Join(excess, "; ") + "; lower the SKUs in skuTypes or the number of cells")
}

// dividedDevice names a device of which leaves are parts. Leaves of several SKUs may be parts
// of one device.
type dividedDevice struct {
	node, device string
	kind         cell.DeviceKind
}

// countDivided collects the devices of which the leaves below a cell are parts.
func countDivided(s *cell.CellSpec, isNode map[cell.TypeName]bool, at dividedDevice, seen map[dividedDevice]bool) {
	if isNode[s.Type] {
		at.node = s.Address
	}
	if len(s.Children) == 0 {
		at.device, _, _ = strings.Cut(s.Address, ":")
		seen[at] = true
		return
	}
	for i := range s.Children {
		countDivided(&s.Children[i], isNode, at, seen)
	}
}

// NodeNames are the nodes of a configuration, in the order of its file.
func NodeNames(c *model.Config) (names []cell.NodeName) {
	isNode := nodeTypes(&c.Cluster)
	var walk func([]cell.CellSpec)
	walk = func(cells []cell.CellSpec) {
		for i := range cells {
			if isNode[cells[i].Type] {
				names = append(names, cell.NodeName(cells[i].Address))
				continue
			}
			walk(cells[i].Children)
		}
	}
	walk(c.Cluster.Cells)
	return names
}

// NodeSums are what the leaves of each node have together, in the order of the file.
func NodeSums(c *model.Config) (list []Capacity) {
	skus, at := map[cell.TypeName]cell.SKU{}, map[cell.NodeName]int{}
	for _, s := range c.Cluster.SKUs {
		skus[s.Name] = s
	}
	for i := range c.Cluster.Cells {
		ch := &c.Cluster.Chains[chainIndex(&c.Cluster, &c.Cluster.Cells[i])]
		sku, leaves := skus[ch.Levels[0].Type], int64(1)
		node := slices.IndexFunc(ch.Levels, func(l cell.LevelSpec) bool { return l.IsNode })
		for _, l := range ch.Levels[1 : node+1] {
			leaves *= int64(l.Fanout)
		}
		var walk func(*cell.CellSpec)
		walk = func(s *cell.CellSpec) {
			if s.Type != ch.Levels[node].Type {
				for k := range s.Children {
					walk(&s.Children[k])
				}
				return
			}
			name := cell.NodeName(s.Address)
			if _, seen := at[name]; !seen {
				at[name], list = len(list), append(list, Capacity{Node: name})
			}
			sum := &list[at[name]]
			sum.MilliCPU += leaves * sku.MilliCPU
			sum.MemoryMB += leaves * sku.MemoryMB
			sum.GPU += leaves * sku.GPU
		}
		walk(&c.Cluster.Cells[i])
	}
	return list
}

// nodeTypes returns the types that are nodes.
func nodeTypes(spec *cell.Spec) map[cell.TypeName]bool {
	out := map[cell.TypeName]bool{}
	for _, ch := range spec.Chains {
		for _, l := range ch.Levels {
			if l.IsNode {
				out[l.Type] = true
			}
		}
	}
	return out
}

// CheckNoPods refuses what is possible only where tasks are pods.
func CheckNoPods(c *model.Config) error {
	for i := range c.Cluster.SKUs {
		s := &c.Cluster.SKUs[i]
		for _, key := range []struct{ name, value string }{{"dra", s.DRA.Class}, {"resource", s.Resource}, {"infiniband", s.InfiniBand}} {
			if key.value != "" {
				return fmt.Errorf("skuTypes.%s.%s: devices are given so on Kubernetes alone, and this server runs tasks on its machine; remove %s, or start it with --executor kubernetes", s.Name, key.name, key.name)
			}
		}
	}
	for i := range c.VCs {
		v := &c.VCs[i]
		if v.InfiniBand {
			return fmt.Errorf("virtual cluster %s: infiniband: devices are given so on Kubernetes alone, and this server runs tasks on its machine, where a process sees those that there are; remove infiniband, or start it with --executor kubernetes", v.Name)
		}
		if v.Namespace != "" {
			return fmt.Errorf("virtual cluster %s: namespace: tasks have a namespace on Kubernetes alone, and this server runs them on its machine; remove namespace, or start it with --executor kubernetes", v.Name)
		}
		if len(v.Workloads) > 0 {
			return fmt.Errorf("virtual cluster %s: workloads: there are pods of others on Kubernetes alone, and this "+
				"server runs tasks on its machine; remove workloads, or start it with --executor kubernetes", v.Name)
		}
	}
	return nil
}
