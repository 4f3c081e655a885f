package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// Ordered returns a configuration with the quotas, pinned cells and cells in a fixed order, so that
// two that differ only in that are equal. Its virtual clusters must be in order. The copy shares
// what it does not change.
func (c *Config) Ordered() *Config {
	out := *c
	out.Cluster.Cells = orderedCells(c.Cluster.Cells)
	out.Cluster.VCs = slices.Clone(c.Cluster.VCs)
	for i := range out.Cluster.VCs {
		v := &out.Cluster.VCs[i]
		v.Quota, v.Pinned = slices.Clone(v.Quota), slices.Sorted(slices.Values(v.Pinned))
		slices.SortFunc(v.Quota, func(a, b cell.QuotaSpec) int {
			return cmp.Or(cmp.Compare(a.Chain, b.Chain), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Number, b.Number))
		})
	}
	return &out
}

func orderedCells(cells []cell.CellSpec) []cell.CellSpec {
	out := slices.Clone(cells)
	for i := range out {
		out[i].Children = orderedCells(out[i].Children)
	}
	slices.SortStableFunc(out, func(a, b cell.CellSpec) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Address, b.Address))
	})
	return out
}
