package jobspec

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// testCluster has three SKUs. VC default owns V100 only, mixed two GPU SKUs, cpu
// V100 and CPU, all of them every SKU, pinned one pinned cell and nothing else.
func testCluster() *model.Config {
	node := func(kind, leaf cell.TypeName, leaves int, name, pin string) cell.CellSpec {
		c := cell.CellSpec{Type: kind, Address: name, Pinned: cell.PinnedID(pin)}
		for i := range leaves {
			c.Children = append(c.Children, cell.CellSpec{Type: leaf, Address: fmt.Sprint(i)})
		}
		return c
	}
	chain := func(kind, leaf cell.TypeName, leaves int32) cell.ChainSpec {
		return cell.ChainSpec{Name: cell.ChainName(kind), Levels: []cell.LevelSpec{
			{Type: leaf}, {Type: kind, Fanout: leaves, IsNode: true},
		}}
	}
	quota := func(chain cell.ChainName) cell.QuotaSpec {
		return cell.QuotaSpec{Chain: chain, Level: 2, Number: 1}
	}
	spec := cell.Spec{
		SKUs: []cell.SKU{
			{Name: "CPU", MilliCPU: 4000, MemoryMB: 8192, Device: cell.CPU},
			{Name: "K80", GPU: 1, MilliCPU: 4000, MemoryMB: 8192, Device: cell.NVIDIA},
			{Name: "V100", GPU: 1, MilliCPU: 8000, MemoryMB: 32768, Device: cell.NVIDIA},
		},
		Chains: []cell.ChainSpec{
			chain("CPU-NODE", "CPU", 4), chain("K80-NODE", "K80", 4), chain("V100-NODE", "V100", 8),
		},
		Cells: []cell.CellSpec{
			node("V100-NODE", "V100", 8, "v0", ""), node("V100-NODE", "V100", 8, "v1", ""),
			node("V100-NODE", "V100", 8, "v2", "PIN"), node("V100-NODE", "V100", 8, "v3", ""), node("V100-NODE", "V100", 8, "v4", ""),
			node("K80-NODE", "K80", 4, "k0", ""), node("K80-NODE", "K80", 4, "k1", ""),
			node("CPU-NODE", "CPU", 4, "c0", ""), node("CPU-NODE", "CPU", 4, "c1", ""),
		},
		VCs: []cell.VCSpec{
			{Name: "all", Quota: []cell.QuotaSpec{quota("CPU-NODE"), quota("K80-NODE"), quota("V100-NODE")}},
			{Name: "cpu", Quota: []cell.QuotaSpec{quota("CPU-NODE"), quota("V100-NODE")}},
			{Name: "default", Quota: []cell.QuotaSpec{quota("V100-NODE")}},
			{Name: "mixed", Quota: []cell.QuotaSpec{quota("K80-NODE"), quota("V100-NODE")}},
			{Name: "pinned", Pinned: []cell.PinnedID{"PIN"}},
		},
	}
	return &model.Config{Cluster: spec, Storages: []model.Storage{
		{Name: "data", Folder: "/srv/data", ReadOnly: true}, {Name: "homes", Folder: "/srv/homes", PerUser: true},
		{Name: "other", Folder: "/srv/other", VCs: []cell.VCName{"all"}},
	}}
}

func testEnv() Env { return Env{User: "ada", Config: testCluster()} }
