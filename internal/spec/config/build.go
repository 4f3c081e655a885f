package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// config builds the configuration from what was read. It is called when there are no
// problems.
func (b *builder) config() *model.Config {
	c := &model.Config{Cluster: cell.Spec{SKUs: b.usedSKUs(), Cells: b.cells}, HalfLife: b.halfLife, Throughputs: b.speeds, Storages: b.storages, ExitRules: b.exits}
	for _, ch := range b.chains {
		c.Cluster.Chains = append(c.Cluster.Chains, ch.spec())
	}
	slices.SortFunc(c.Cluster.Chains, func(x, y cell.ChainSpec) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(b.access, func(x, y access.Grant) int { return cmp.Compare(x.VC, y.VC) })
	c.Access = b.access
	slices.SortFunc(b.vcs, func(x, y vc) int { return cmp.Compare(x.spec.Name, y.spec.Name) })
	for _, v := range b.vcs {
		c.Cluster.VCs = append(c.Cluster.VCs, v.spec)
		c.VCs = append(c.VCs, v.policy)
	}
	return c
}

// spec returns the chain's levels, leaf first.
func (c *chain) spec() cell.ChainSpec {
	out := cell.ChainSpec{Name: c.name}
	for i := len(c.levels) - 1; i >= 0; i-- {
		l := c.levels[i]
		out.Levels = append(out.Levels, cell.LevelSpec{Type: l.name, Fanout: int32(l.number), IsNode: l.isNode})
	}
	return out
}

// IsSingle reports whether a configuration is one that Single makes.
func IsSingle(c *model.Config) bool {
	if len(c.Cluster.SKUs) != 1 || len(c.Cluster.Cells) != 1 {
		return false
	}
	top := &c.Cluster.Cells[0]
	have, err := json.Marshal(c)
	want, err2 := json.Marshal(Single(top.Address, c.Cluster.SKUs[0], len(top.Children)))
	return err == nil && err2 == nil && bytes.Equal(have, want)
}

// Single is the configuration of one machine without a cluster file. It is one node with that
// many leaves, numbered from 0, in the chain "<SKU>-NODE". All of it is owned by the virtual
// cluster "default". leaves is 1 to MaxLeaves.
func Single(node string, sku cell.SKU, leaves int) *model.Config {
	if sku.Device == "" {
		sku.Device = cell.CPU
		if sku.GPU > 0 {
			sku.Device = cell.NVIDIA
		}
	}
	sku.EnvVar = cmp.Or(sku.EnvVar, envVar(sku.Device))
	leaves = min(max(leaves, 1), MaxLeaves)
	top := sku.Name + "-NODE"
	machine := cell.CellSpec{Type: top, Address: node, Children: make([]cell.CellSpec, leaves)}
	for i := range machine.Children {
		machine.Children[i] = cell.CellSpec{Type: sku.Name, Address: strconv.Itoa(i)}
	}
	return &model.Config{
		Cluster: cell.Spec{
			SKUs: []cell.SKU{sku},
			Chains: []cell.ChainSpec{{Name: cell.ChainName(top), Levels: []cell.LevelSpec{
				{Type: sku.Name}, {Type: top, Fanout: int32(leaves), IsNode: true},
			}}},
			Cells: []cell.CellSpec{machine},
			VCs:   []cell.VCSpec{{Name: "default", Quota: []cell.QuotaSpec{{Chain: cell.ChainName(top), Level: 2, Number: 1}}}},
		},
		VCs: []model.VCConfig{{Name: "default"}},
	}
}

// SingleFile is the cluster file of a configuration of Single, for an operator to edit.
func SingleFile(c *model.Config) []byte {
	sku, machine := c.Cluster.SKUs[0], c.Cluster.Cells[0]
	carries := "cpu: " + strconv.FormatInt(sku.MilliCPU, 10) + "m, memory: " + strconv.FormatInt(sku.MemoryMB, 10) + "Mi, device: " + string(sku.Device)
	if sku.GPU > 0 {
		carries = "gpu: " + strconv.FormatInt(int64(sku.GPU), 10) + ", " + carries
	}
	if sku.Pretended {
		carries += ", pretended: true"
	}
	return fmt.Appendf(nil, `# This machine is one node; all of it belongs to the virtual cluster default.
physicalCluster:
  skuTypes:                     # what one device brings with it
    %s: {%s}
  cellTypes:                    # how devices sit together
    %s: {childCellType: %[1]s, childCellNumber: %[4]d, isNodeLevel: true}
  physicalCells:                # the machines
  - cellType: %[3]s
    cellAddress: %[5]q
virtualClusters:                # which team owns what
  default:
    virtualCells:
    - {cellType: %[3]s, cellNumber: 1}
`, sku.Name, carries, machine.Type, len(machine.Children), machine.Address)
}

// RealGPUs is the first SKU whose leaves are NVIDIA GPUs and not pretended; "" is none. It
// leaves out SKUs that are so in the configuration already, if that is not nil.
func RealGPUs(c, already *model.Config) cell.TypeName {
	for i := range c.Cluster.SKUs {
		s := &c.Cluster.SKUs[i]
		same := func(o cell.SKU) bool { return o.Name == s.Name && realGPU(&o) }
		if realGPU(s) && (already == nil || !slices.ContainsFunc(already.Cluster.SKUs, same)) {
			return s.Name
		}
	}
	return ""
}

func realGPU(s *cell.SKU) bool { return s.Device == cell.NVIDIA && s.GPU > 0 && !s.Pretended }

// PretendedBefore returns the configuration of a version that did not note that the GPUs of a
// single machine are pretended, with that noted. It is nil for any other configuration. Such
// a version named real GPUs after their device.
func PretendedBefore(c *model.Config) *model.Config {
	if !IsSingle(c) || c.Cluster.SKUs[0].Name != "GPU" || RealGPUs(c, nil) == "" {
		return nil
	}
	out := *c
	out.Cluster.SKUs = slices.Clone(c.Cluster.SKUs)
	out.Cluster.SKUs[0].Pretended = true
	return &out
}
