package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/trace"
)

// Layout is how the cells of a cluster in the short form are built.
type Layout struct {
	Racks int32 // of each kind of machine, 0 for none; must divide the number of its nodes
	// Count makes one node of all GPUs of a type, so that it does not matter where they are.
	Count bool
	// CountQuota divides the cluster by numbers of GPUs: the VCs own leaves, not nodes.
	CountQuota bool
}

// NodeGPUs is the size of the largest node that a gang's members are cut to.
func (l *Layout) NodeGPUs(ms []trace.NodeGroup) int32 {
	var most int32
	for _, m := range ms {
		n := m.GPUs
		if l.Count {
			n *= m.Nodes
		}
		most = max(most, n)
	}
	return most
}

// plainGPU is the type of GPUs in the short form where that names none.
const plainGPU = cell.TypeName("GPU")

// builder makes the cells of one kind of machines.
type builder struct {
	spec   *cell.Spec
	levels []cell.LevelSpec
	node   int // index of the node level
	next   int // device on the present node
	nodes  int
	name   string
}

// Share is what one VC owns of each kind of machine: nodes, or GPUs where the
// layout counts.
type Share struct {
	Name cell.VCName
	Own  []int32
}

// Cluster makes the configuration of a cluster: cells in racks, nodes and switches
// that halve a node, and VCs that own what Shares says, all with one policy.
func (l *Layout) Cluster(ms []trace.NodeGroup, shares []Share, vc model.VCConfig) (*model.Config, error) {
	cfg := &model.Config{}
	var owned []ownership
	for i, m := range ms {
		if l.Count {
			m = trace.NodeGroup{Nodes: 1, GPUs: m.Nodes * m.GPUs, Type: m.Type}
		}
		racks := l.Racks
		if l.Count {
			racks = 0
		}
		if racks > 0 && m.Nodes%racks != 0 {
			return nil, fmt.Errorf("%d nodes do not divide among %d racks: choose a number of racks that divides the nodes", m.Nodes, racks)
		}
		b := builder{spec: &cfg.Cluster, name: fmt.Sprintf("m%d", i+1)}
		b.addLevels(m, racks)
		b.build(m, racks)
		own := ownership{level: 1, node: cell.Level(b.node + 1)}
		switch {
		case l.Count:
			own.all = m.GPUs
		case !l.CountQuota:
			own.level = own.node
		}
		owned = append(owned, own)
	}
	for _, s := range shares {
		v := cell.VCSpec{Name: s.Name}
		for i, n := range s.Own {
			if n > 0 {
				v.Quota = append(v.Quota, owned[i].of(cfg.Cluster.Chains[i].Name, n))
			}
		}
		cfg.Cluster.VCs = append(cfg.Cluster.VCs, v)
		vc.Name = s.Name
		cfg.VCs = append(cfg.VCs, vc)
	}
	sortCluster(cfg)
	return cfg, nil
}

// ownership is the levels of cells that VCs own in one kind of machine.
type ownership struct {
	level, node cell.Level
	all         int32 // GPUs of the one node, where the layout counts
}

// of makes a quota. Owning all GPUs of a node is the same as owning the node, which is found
// sooner.
func (o ownership) of(chain cell.ChainName, n int32) cell.QuotaSpec {
	if n == o.all {
		return cell.QuotaSpec{Chain: chain, Level: o.node, Number: 1}
	}
	return cell.QuotaSpec{Chain: chain, Level: o.level, Number: n}
}

// sortCluster sorts what the core wants sorted.
func sortCluster(cfg *model.Config) {
	slices.SortFunc(cfg.Cluster.SKUs, func(a, b cell.SKU) int {
		return strings.Compare(string(a.Name),
			string(b.Name))
	})
	slices.SortFunc(cfg.Cluster.Chains, func(a, b cell.ChainSpec) int { return strings.Compare(string(a.Name), string(b.Name)) })
	slices.SortFunc(cfg.Cluster.VCs, func(a, b cell.VCSpec) int {
		return strings.Compare(string(a.Name),
			string(b.Name))
	})
	slices.SortFunc(cfg.VCs, func(a, b model.VCConfig) int { return strings.Compare(string(a.Name), string(b.Name)) })
}

// addLevels makes the chain: leaf, switches that halve a node, node, rack.
func (b *builder) addLevels(m trace.NodeGroup, racks int32) {
	sku := cmp.Or(cell.TypeName(m.Type), plainGPU)
	if !slices.ContainsFunc(b.spec.SKUs, func(s cell.SKU) bool { return s.Name == sku }) {
		b.spec.SKUs = append(b.spec.SKUs, cell.SKU{Name: sku, GPU: 1, MilliCPU: 1000, MemoryMB: 1024,
			Device: cell.NVIDIA})
	}
	b.levels = []cell.LevelSpec{{Type: sku}}
	size := int32(1)
	for ; m.GPUs%(2*size) == 0 && 2*size < m.GPUs && size < 64; size *= 2 {
		b.levels = append(b.levels, cell.LevelSpec{Type: cell.TypeName(fmt.Sprintf("%s-switch-%d", b.name, 2*size)), Fanout: 2})
	}
	b.node = len(b.levels)
	b.levels = append(b.levels, cell.LevelSpec{Type: cell.TypeName(b.name + "-node"), Fanout: m.GPUs / size, IsNode: true})
	if racks > 0 {
		b.levels = append(b.levels, cell.LevelSpec{Type: cell.TypeName(b.name + "-rack"), Fanout: m.Nodes / racks})
	}
	top := b.levels[len(b.levels)-1].Type
	b.spec.Chains = append(b.spec.Chains, cell.ChainSpec{Name: cell.ChainName(top), Levels: b.levels})
}

func (b *builder) build(m trace.NodeGroup, racks int32) {
	tops := racks
	if racks == 0 {
		tops = m.Nodes
	}
	for i := range tops {
		b.spec.Cells = append(b.spec.Cells, b.cell(len(b.levels)-1, strconv.Itoa(int(i))))
	}
}

func (b *builder) cell(level int, address string) cell.CellSpec {
	switch level {
	case 0:
		address = strconv.Itoa(b.next)
		b.next++
	case b.node:
		b.nodes++
		b.next = 0
		address = fmt.Sprintf("%s-n%05d", b.name, b.nodes)
	}
	c := cell.CellSpec{Type: b.levels[level].Type, Address: address}
	for i := range b.levels[level].Fanout {
		c.Children = append(c.Children, b.cell(level-1, strconv.Itoa(int(i))))
	}
	return c
}
