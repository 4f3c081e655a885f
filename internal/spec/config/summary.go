package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Summary describes a cluster in a few lines for people: chains with their
// levels and sizes, the virtual clusters with their cells, and totals.
func Summary(c *Cluster) string {
	spec := &c.Config.Cluster
	var b strings.Builder
	var leaves int64
	for i, counts := range cellCounts(spec) {
		summarizeChain(&b, spec, &spec.Chains[i], counts)
		leaves += counts[0]
	}
	for i := range spec.VCs {
		summarizeVC(&b, spec, &spec.VCs[i], c.Config.VCs[i])
	}
	fmt.Fprintf(&b, "total: %s, %s, %s, %s\n", plural(int64(countNodes(spec)), "node"), plural(leaves, "device"),
		plural(int64(len(spec.Chains)), "chain"), plural(int64(len(spec.VCs)), "virtual cluster"))
	return b.String()
}

// Brief is a configuration in a few words: its nodes, what they have, and the
// virtual clusters.
func Brief(c *model.Config) string {
	spec := &c.Cluster
	var gpus, milli int64
	for i, counts := range cellCounts(spec) {
		n := counts[0]
		for _, s := range spec.SKUs {
			switch {
			case s.Name != spec.Chains[i].Levels[0].Type:
			case s.GPU > 0:
				gpus += n * int64(s.GPU)
			default:
				milli += n * s.MilliCPU
			}
		}
	}
	text := plural(int64(countNodes(spec)), "node")
	if gpus > 0 {
		text += ", " + plural(gpus, "GPU")
	}
	if milli > 0 {
		text += ", " + cores(milli) + " CPUs without a GPU"
	}
	names := make([]string, len(c.VCs))
	for i, v := range c.VCs {
		names[i] = string(v.Name)
	}
	if len(names) > 5 {
		return text + fmt.Sprintf(", %d virtual clusters", len(names))
	}
	return text + fmt.Sprintf(", virtual cluster%s %s", map[bool]string{true: "s"}[len(names) > 1], strings.Join(names, ", "))
}

func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// amounts writes a SKU's CPU and memory; 0 is no limit.
func amounts(s *cell.SKU) string {
	cpu, memory := "CPU not limited", "memory not limited"
	if s.MilliCPU > 0 {
		cpu = cores(s.MilliCPU) + " CPU"
	}
	if s.MemoryMB > 0 {
		memory = fmt.Sprintf("%d MiB", s.MemoryMB)
	}
	return cpu + ", " + memory
}

// be is "is" for one thing and "are" for several.
func be(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// cellCounts counts the cells of all chains by level, leaves first.
func cellCounts(spec *cell.Spec) [][]int64 {
	out := make([][]int64, len(spec.Chains))
	for i := range out {
		out[i] = make([]int64, len(spec.Chains[i].Levels))
	}
	var walk func(cells []cell.CellSpec, chain, l int)
	walk = func(cells []cell.CellSpec, chain, l int) {
		if out[chain][l] += int64(len(cells)); spec.Chains[chain].Levels[l].IsNode {
			return
		}
		for i := range cells {
			walk(cells[i].Children, chain, l-1)
		}
	}
	for i := range spec.Cells {
		chain := chainIndex(spec, &spec.Cells[i])
		walk(spec.Cells[i:i+1], chain, len(out[chain])-1)
	}
	for i, n := range out {
		levels := spec.Chains[i].Levels
		for l := slices.IndexFunc(levels, func(l cell.LevelSpec) bool { return l.IsNode }); l > 0; l-- {
			n[l-1] = n[l] * int64(levels[l].Fanout)
		}
	}
	return out
}

// chainIndex is the index of the chain of a top-level cell.
func chainIndex(spec *cell.Spec, top *cell.CellSpec) int {
	i, _ := slices.BinarySearchFunc(spec.Chains, top.Type, func(c cell.ChainSpec, t cell.TypeName) int { return strings.Compare(string(c.Name), string(t)) })
	return i
}

func summarizeChain(b *strings.Builder, spec *cell.Spec, ch *cell.ChainSpec, counts []int64) {
	fmt.Fprintf(b, "chain %s:", ch.Name)
	for i := len(ch.Levels) - 1; i >= 0; i-- {
		l := ch.Levels[i]
		fmt.Fprintf(b, " %d %s", counts[i], l.Type)
		if l.IsNode {
			b.WriteString(" (node)")
		}
		if i > 0 {
			b.WriteString(" >")
			if missing := counts[i]*int64(l.Fanout) - counts[i-1]; missing > 0 {
				fmt.Fprintf(b, " (%d missing)", missing)
			}
		}
	}
	for _, s := range spec.SKUs {
		if s.Name == ch.Levels[0].Type {
			fmt.Fprintf(b, "; each %s: device %s, %d GPU, %s", s.Name, s.Device, s.GPU, amounts(&s))
		}
	}
	b.WriteByte('\n')
}

func summarizeVC(b *strings.Builder, spec *cell.Spec, v *cell.VCSpec, c model.VCConfig) {
	fmt.Fprintf(b, "virtual cluster %s (%s):", v.Name, rules(c))
	var parts []string
	for _, q := range v.Quota {
		for i := range spec.Chains {
			if spec.Chains[i].Name == q.Chain {
				parts = append(parts, fmt.Sprintf(" %d %s of %s", q.Number, spec.Chains[i].Levels[q.Level-1].Type, q.Chain))
			}
		}
	}
	for _, id := range v.Pinned {
		parts = append(parts, fmt.Sprintf(" pinned %s", id))
	}
	if len(parts) == 0 {
		parts = []string{" no cells"}
	}
	b.WriteString(strings.Join(parts, ",") + "\n")
}

// rules names the policy of a virtual cluster and its other settings.
func rules(c model.VCConfig) string {
	text := "policy " + cmp.Or(c.Policy, "fifo")
	for _, p := range c.Params {
		text += " " + p.Key + "=" + p.Value
	}
	if c.Backfill != "" {
		text += ", backfill " + c.Backfill
	}
	if c.MinRun > 0 {
		text += ", minRunTime " + document.FormatDuration(int64(c.MinRun))
	}
	if c.Placement != "" {
		text += ", placement " + c.Placement
	}
	if c.Moves > 0 {
		text += fmt.Sprintf(", defragmentation %d moves per hour", c.Moves)
	}
	if c.Weight > 0 {
		text += fmt.Sprintf(", opportunisticWeight %d", c.Weight)
	}
	if c.Lending != "" {
		text += ", lending " + c.Lending
	}
	if c.InfiniBand {
		text += ", infiniband true"
	}
	if c.Namespace != "" {
		text += ", namespace " + c.Namespace
	}
	if len(c.Workloads) > 0 {
		text += ", workloads of " + strings.Join(c.Workloads, ", ")
	}
	if c.Users != nil {
		text += ", userLimits " + c.Users.String()
	}
	if c.Budget != nil {
		text += fmt.Sprintf(", preemptionBudget %d", *c.Budget)
	}
	return text
}

// countNodes counts machines, each once although it may have cells of several chains.
func countNodes(spec *cell.Spec) int {
	isNode := nodeTypes(spec)
	names := map[string]bool{}
	var walk func(s *cell.CellSpec)
	walk = func(s *cell.CellSpec) {
		if isNode[s.Type] {
			names[s.Address] = true
			return
		}
		for i := range s.Children {
			walk(&s.Children[i])
		}
	}
	for i := range spec.Cells {
		walk(&spec.Cells[i])
	}
	return len(names)
}
