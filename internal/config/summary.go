package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/document"
	"github.com/combsched/comb/internal/sched"
)

// Summary describes a cluster in a few lines for people: chains with their
// levels and sizes, the virtual clusters with their cells, and totals.
func Summary(c *Cluster) string {
	spec := &c.Config.Cluster
	var b strings.Builder
	tops := map[cell.TypeName]int64{}
	for i := range spec.Cells {
		tops[spec.Cells[i].Type]++
	}
	var leaves int64
	for i := range spec.Chains {
		leaves += summarizeChain(&b, spec, &spec.Chains[i], tops)
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
func Brief(c *sched.Config) string {
	spec := &c.Cluster
	tops := map[cell.TypeName]int64{}
	for i := range spec.Cells {
		tops[spec.Cells[i].Type]++
	}
	var gpus, milli int64
	for _, ch := range spec.Chains {
		n := tops[cell.TypeName(ch.Name)]
		for _, l := range ch.Levels[1:] {
			n *= int64(l.Fanout)
		}
		for _, s := range spec.SKUs {
			switch {
			case s.Name != ch.Levels[0].Type:
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

// amounts tells a SKU's CPU and memory; 0 is no limit.
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

func summarizeChain(b *strings.Builder, spec *cell.Spec, ch *cell.ChainSpec, tops map[cell.TypeName]int64) int64 {
	fmt.Fprintf(b, "chain %s:", ch.Name)
	n := tops[cell.TypeName(ch.Name)]
	for i := len(ch.Levels) - 1; i >= 0; i-- {
		l := ch.Levels[i]
		fmt.Fprintf(b, " %d %s", n, l.Type)
		if l.IsNode {
			b.WriteString(" (node)")
		}
		if i > 0 {
			b.WriteString(" >")
			n *= int64(l.Fanout)
		}
	}
	for _, s := range spec.SKUs {
		if s.Name == ch.Levels[0].Type {
			fmt.Fprintf(b, "; each %s: device %s, %d GPU, %s", s.Name, s.Device, s.GPU, amounts(&s))
		}
	}
	b.WriteByte('\n')
	return n
}

func summarizeVC(b *strings.Builder, spec *cell.Spec, v *cell.VCSpec, c sched.VCConfig) {
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

// rules names the policy of a virtual cluster and what else was set.
func rules(c sched.VCConfig) string {
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
	if c.Users != nil {
		text += ", userLimits " + c.Users.String()
	}
	if c.Budget != nil {
		text += fmt.Sprintf(", preemptionBudget %d", *c.Budget)
	}
	return text
}

// countNodes counts machines; one may carry cells of several chains.
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
