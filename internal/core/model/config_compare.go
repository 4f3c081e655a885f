package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
)

// ConfigPair is two configurations to compare, and the renames between them.
type ConfigPair struct {
	Before, After          *Config
	OldVCConfig            func(cell.VCName) VCConfig // a VC's policy and settings before
	OldCluster, NewCluster *cell.Cluster              // clusters of Before and After; OldCluster may be nil
	Renamed                []Rename
	RenamedNodes           []NodeRename
}

// ConfigChanges are the differences between two configurations. Empty lists are not nil.
type ConfigChanges struct {
	VCs         []VCChange
	Chains      []ChainChange
	SKUs        []SKUChange
	Nodes       []NodeChange
	Rules       []RuleChange
	Throughputs []ThroughputChange
	Others      []string // changes of storages, access and exit rules, in words
}

// Compare returns the differences.
func (d *ConfigPair) Compare() ConfigChanges {
	var old *cell.Forest
	if d.OldCluster != nil {
		old = d.OldCluster.Forest()
	}
	now := d.NewCluster.Forest()
	others := append(access.GrantChanges(d.access(), d.After.Access),
		exit.Changes(d.Before.ExitRules, d.After.ExitRules)...)
	return ConfigChanges{VCs: d.vcs(), SKUs: d.skus(), Chains: d.chains(old, now), Nodes: d.nodes(old, now),
		Rules:       d.rules(),
		Throughputs: d.throughputs(), Others: append(StorageChanges(d.Before.Storages, d.After.Storages), others...)}
}

// access returns the grants before in the virtual clusters that stay, under their new names. Grants
// in removed ones are left out.
func (d *ConfigPair) access() (out []access.Grant) {
	for i := range d.After.Cluster.VCs {
		name := d.After.Cluster.VCs[i].Name
		for _, g := range d.Before.Access {
			if g.VC == d.vcWas(name) {
				g.VC = name
				out = append(out, g)
			}
		}
	}
	slices.SortFunc(out, func(a, b access.Grant) int { return cmp.Compare(a.VC, b.VC) })
	return out
}

// Sentences are the changes in words, a line each.
func (c *ConfigChanges) Sentences() (out []string) {
	for i := range c.Chains {
		out = append(out, c.Chains[i].lines()...)
	}
	out = append(out, skuSentences(c.SKUs)...)
	out = append(out, nodeSentences(c.Nodes)...)
	for i := range c.VCs {
		out = append(out, c.VCs[i].lines()...)
	}
	for _, r := range c.Rules {
		out = append(out, halfLifeText(r))
	}
	return append(append(out, throughputSentences(c.Throughputs)...), c.Others...)
}

// vcWas returns the older name of a VC, its own when it was not renamed.
func (d *ConfigPair) vcWas(v cell.VCName) cell.VCName {
	for _, r := range d.Renamed {
		if r.To == v {
			return r.From
		}
	}
	return v
}

func findVC(c *Config, v cell.VCName) *cell.VCSpec {
	i := slices.IndexFunc(c.Cluster.VCs, func(s cell.VCSpec) bool { return s.Name == v })
	if i < 0 {
		return nil
	}
	return &c.Cluster.VCs[i]
}

// vcs compares the virtual clusters.
func (d *ConfigPair) vcs() []VCChange {
	out := []VCChange{}
	pinsBefore, pinsAfter := pinPaths(&d.Before.Cluster, d.RenamedNodes), pinPaths(&d.After.Cluster, nil)
	for i := range d.After.Cluster.VCs {
		v := &d.After.Cluster.VCs[i]
		c := VCChange{Name: v.Name, Kind: Changed}
		from, old := d.vcWas(v.Name), findVC(d.Before, v.Name)
		if from != v.Name {
			c.Was = from // if both were there only its jobs move
		}
		if older := findVC(d.Before, from); old == nil && older != nil && from != v.Name {
			c.Kind, old = Renamed, older
		} else if old == nil {
			c.Kind, old = Added, &cell.VCSpec{}
		}
		c.Cells, c.Own = cellsChanges(d.Before, d.After, old, v), d.ownChanges(old.Name, v.Name)
		c.Pins = pinChanges(old, v, pinsBefore, pinsAfter)
		if c.Kind != Added {
			c.Rules = append(d.parentChange(old, v), ruleChanges(d.OldVCConfig(old.Name), *ConfigOfVC(d.After, v.Name))...)
		} else {
			c.Rules = ruleChanges(VCConfig{Policy: "fifo"}, *ConfigOfVC(d.After, v.Name))
		}
		if c.Kind != Changed || c.Was != "" || len(c.Cells)+len(c.Own)+len(c.Pins)+len(c.Rules) > 0 {
			out = append(out, c)
		}
	}
	for i := range d.Before.Cluster.VCs {
		v := &d.Before.Cluster.VCs[i]
		if now := NewVCName(d.Renamed, v.Name); findVC(d.After, now) != nil {
			continue
		}
		out = append(out, VCChange{Name: v.Name, Kind: Removed,
			Cells: cellsChanges(d.Before, d.After, v, &cell.VCSpec{}),
			Pins:  pinChanges(v, &cell.VCSpec{}, pinsBefore, pinsAfter)})
	}
	slices.SortStableFunc(out, func(a, b VCChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// cellsChanges compares two guarantees by chain and type.
func cellsChanges(before, after *Config, was, is *cell.VCSpec) []CellsChange {
	var out []CellsChange
	add := func(c *Config, q cell.QuotaSpec, field func(*CellsChange) *int32) {
		i := slices.IndexFunc(c.Cluster.Chains, func(s cell.ChainSpec) bool { return s.Name == q.Chain })
		t := c.Cluster.Chains[i].Levels[q.Level-1].Type
		k := slices.IndexFunc(out, func(x CellsChange) bool { return x.Chain == q.Chain && x.Type == t })
		if k < 0 {
			k = len(out)
			out = append(out, CellsChange{Chain: q.Chain, Type: t})
		}
		*field(&out[k]) += q.Number
	}
	for _, q := range was.Quota {
		add(before, q, func(c *CellsChange) *int32 { return &c.Before })
	}
	for _, q := range is.Quota {
		add(after, q, func(c *CellsChange) *int32 { return &c.After })
	}
	return slices.DeleteFunc(out, func(c CellsChange) bool { return c.Before == c.After })
}

// ownChanges compares the cells for a VC's own jobs, if other VCs are inside it before or after.
func (d *ConfigPair) ownChanges(was, is cell.VCName) []CellsChange {
	if !HasChildVCs(d.Before, was) && !HasChildVCs(d.After, is) {
		return nil
	}
	return cellsChanges(d.Before, d.After, ownCells(d.OldCluster, was), ownCells(d.NewCluster, is))
}

// HasChildVCs reports whether other VCs are inside one.
func HasChildVCs(c *Config, v cell.VCName) bool {
	return slices.ContainsFunc(c.Cluster.VCs, func(s cell.VCSpec) bool { return v != "" && s.Parent == v })
}

// ownCells are the cells that are guaranteed to a VC's own jobs, without pinned ones.
func ownCells(c *cell.Cluster, v cell.VCName) *cell.VCSpec {
	out := &cell.VCSpec{Name: v}
	if c == nil || c.SpaceOf(v) == cell.None {
		return out
	}
	for _, r := range c.Space(c.SpaceOf(v)).Roots {
		if r.Pinned == "" {
			out.Quota = append(out.Quota, cell.QuotaSpec{Chain: c.Forest().Chains[r.Chain].Name, Level: r.Level,
				Number: 1})
		}
	}
	return out
}

// parentChange is the change of the VC that a VC is inside of; empty if there is none.
func (d *ConfigPair) parentChange(was, is *cell.VCSpec) []RuleChange {
	if NewVCName(d.Renamed, was.Parent) == is.Parent {
		return nil
	}
	return []RuleChange{{Key: parentKey, Before: string(was.Parent), After: string(is.Parent)}}
}

// parentKey is the key of that change. Its values are VC names, "" for none.
const parentKey = "parent"

// pinChanges compares the pinned cells of a VC, and where they are.
func pinChanges(was, is *cell.VCSpec, before, after map[cell.PinnedID]string) []PinChange {
	var out []PinChange
	for _, id := range was.Pinned {
		c := PinChange{ID: id, Before: before[id]}
		if slices.Contains(is.Pinned, id) {
			c.After = after[id]
		}
		out = append(out, c)
	}
	for _, id := range is.Pinned {
		if !slices.Contains(was.Pinned, id) {
			out = append(out, PinChange{ID: id, After: after[id]})
		}
	}
	return slices.DeleteFunc(out, func(c PinChange) bool { return c.Before == c.After })
}

// pinPaths returns the path of every pinned cell, with the new names of renamed nodes.
func pinPaths(s *cell.Spec, renamed []NodeRename) map[cell.PinnedID]string {
	out := map[cell.PinnedID]string{}
	var walk func(c *cell.CellSpec, above string)
	walk = func(c *cell.CellSpec, above string) {
		path := above + c.Address
		if isNode(s, c.Type) {
			path = above + string(NewNodeName(renamed, cell.NodeName(c.Address)))
		}
		if c.Pinned != "" {
			out[c.Pinned] = path
		}
		for i := range c.Children {
			if len(c.Children[i].Children) > 0 || c.Children[i].Pinned != "" {
				walk(&c.Children[i], path+"/")
			}
		}
	}
	for i := range s.Cells {
		walk(&s.Cells[i], "")
	}
	return out
}

// isNode reports whether cells of a type are nodes.
func isNode(s *cell.Spec, t cell.TypeName) bool {
	return slices.ContainsFunc(s.Chains, func(c cell.ChainSpec) bool {
		return slices.ContainsFunc(c.Levels, func(l cell.LevelSpec) bool { return l.IsNode && l.Type == t })
	})
}

// ruleChanges compares the policy and settings of a VC.
func ruleChanges(was, is VCConfig) []RuleChange {
	var out []RuleChange
	add := func(key, before, after string) {
		if before != after {
			out = append(out, RuleChange{Key: key, Before: before, After: after})
		}
	}
	add("policy", policyText(was), policyText(is))
	add("backfill", cmp.Or(was.Backfill, "none"), cmp.Or(is.Backfill, "none"))
	add("minRunTime", durationText(was.MinRun), durationText(is.MinRun))
	add("placement", cmp.Or(was.Placement, PlacePack), cmp.Or(is.Placement, PlacePack))
	add("defragmentation", movesText(was.Moves), movesText(is.Moves))
	add("opportunisticWeight", fmt.Sprint(max(was.Weight, 1)), fmt.Sprint(max(is.Weight, 1)))
	add("lending", cmp.Or(was.Lending, LendIdle), cmp.Or(is.Lending, LendIdle))
	add("preemptionBudget", fmt.Sprint(was.PreemptionBudget()), fmt.Sprint(is.PreemptionBudget()))
	add("userLimits", was.Users.String(), is.Users.String())
	add("infiniband", fmt.Sprint(was.InfiniBand), fmt.Sprint(is.InfiniBand))
	add("namespace", cmp.Or(was.Namespace, ownSpace), cmp.Or(is.Namespace, ownSpace))
	spaces := func(c VCConfig) string { return cmp.Or(strings.Join(c.Workloads, ", "), "none") }
	add("workloads", spaces(was), spaces(is))
	return out
}

func movesText(perHour int32) string {
	if perHour == 0 {
		return "none"
	}
	return fmt.Sprintf("%d moves per hour", perHour)
}

func policyText(c VCConfig) string {
	text := cmp.Or(c.Policy, "fifo")
	for _, p := range c.Params {
		text += " " + p.Key + "=" + p.Value
	}
	return text
}

// durationText shows a duration as files and flags take it, without empty parts: 1d12h, 5m, 1m30s.
func durationText(d Duration) string {
	out := ""
	for i, size := range []Duration{24 * Hour, Hour, Minute} {
		if n := d / size; n > 0 {
			out += fmt.Sprintf("%d%c", n, "dhm"[i])
		}
		d %= size
	}
	if d == 0 && out != "" {
		return out
	}
	return out + (time.Duration(d) * time.Microsecond).String()
}

// chains compares the cells and leaves of the chains. old is nil before the first configuration.
func (d *ConfigPair) chains(old, now *cell.Forest) []ChainChange {
	counts := map[cell.ChainName]*ChainChange{}
	at := func(n cell.ChainName) *ChainChange {
		if counts[n] == nil {
			counts[n] = &ChainChange{Name: n}
		}
		return counts[n]
	}
	if old != nil {
		for i := range old.Chains {
			c := at(old.Chains[i].Name)
			c.CellsBefore = int32(len(old.Chains[i].Tops))
			c.LeavesBefore, c.LackingBefore = inTops(old, &old.Chains[i])
		}
	}
	for i := range now.Chains {
		c := at(now.Chains[i].Name)
		c.CellsAfter = int32(len(now.Chains[i].Tops))
		c.LeavesAfter, c.LackingAfter = inTops(now, &now.Chains[i])
	}
	out := []ChainChange{}
	for _, c := range counts { // sorted below
		c.Had, c.Has = chainAmount(d.Before, c.Name, c.LeavesBefore), chainAmount(d.After, c.Name, c.LeavesAfter)
		switch c.Kind = Changed; {
		case c.CellsBefore == 0:
			c.Kind = Added
		case c.CellsAfter == 0:
			c.Kind = Removed
		default:
			if was, is := levelsOf(d.Before, c.Name), levelsOf(d.After, c.Name); !slices.Equal(was, is) {
				c.LevelsBefore, c.LevelsAfter = was, is
			} else if c.CellsBefore == c.CellsAfter && c.LeavesBefore == c.LeavesAfter &&
				c.LackingBefore == c.LackingAfter {
				continue
			}
		}
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b ChainChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// inTops counts the leaves of a chain, and its top-level cells that lack some.
func inTops(f *cell.Forest, c *cell.Chain) (leaves, lacking int32) {
	for _, top := range c.Tops {
		if leaves += f.NumLeaves(top); !f.Whole(top) {
			lacking++
		}
	}
	return leaves, lacking
}

// chainAmount is a text of the leaves of a chain; "" for a chain that a configuration lacks.
func chainAmount(c *Config, name cell.ChainName, leaves int32) string {
	if leaves == 0 {
		return ""
	}
	return carryIn(c, levelsOf(c, name)[0].Type).Amount(leaves)
}

// carryIn is what a leaf of a SKU carries by a configuration.
func carryIn(c *Config, name cell.TypeName) Carry {
	for _, s := range c.Cluster.SKUs {
		if s.Name == name {
			return CarryOf(s)
		}
	}
	return CarryOf(cell.SKU{Name: name})
}

func levelsOf(c *Config, name cell.ChainName) []cell.LevelSpec {
	i := slices.IndexFunc(c.Cluster.Chains, func(s cell.ChainSpec) bool { return s.Name == name })
	return c.Cluster.Chains[i].Levels
}

// rules compares the settings of the whole cluster.
func (d *ConfigPair) rules() []RuleChange {
	if d.Before.HalfLife == d.After.HalfLife {
		return []RuleChange{}
	}
	text := func(d Duration) string {
		if d == 0 {
			return noHalfLife
		}
		return durationText(d)
	}
	return []RuleChange{{Key: "opportunisticHalfLife", Before: text(d.Before.HalfLife), After: text(d.After.HalfLife)}}
}

// noHalfLife is the text for a cluster that keeps no record of borrowing.
const noHalfLife = "none"

func halfLifeText(r RuleChange) string {
	switch {
	case r.Before == noHalfLife:
		return fmt.Sprintf("borrowed GPUs count from now on, with a half-life of %s", r.After)
	case r.After == noHalfLife:
		return "borrowed GPUs are not remembered any more: the virtual cluster that borrows least at the moment comes first"
	}
	return fmt.Sprintf("the half-life of borrowed GPUs is %s instead of %s", r.After, r.Before)
}

// nodes compares the nodes by name and by their leaves.
func (d *ConfigPair) nodes(old, now *cell.Forest) []NodeChange {
	out := []NodeChange{}
	was, is := leavesOfNodes(d.Before, old), leavesOfNodes(d.After, now)
	older := map[cell.NodeName]cell.NodeName{}
	for _, r := range d.RenamedNodes {
		older[r.To] = r.From
	}
	for name, has := range is { // sorted below
		c := NodeChange{Name: name, Kind: Changed, After: has.leaves, Has: has.text}
		had := was[name]
		from, renamed := older[name]
		_, known := was[name]
		switch {
		case renamed:
			c.Kind, c.Was = Renamed, from
			if before, there := was[from]; there || !known {
				had = before // else the old node had only draining tasks, and its new name existed before
			}
		case !known:
			c.Kind = Added
		case had == has:
			continue
		}
		c.Before, c.Had = had.leaves, had.text
		out = append(out, c)
	}
	for name, had := range was { // sorted below
		_, stays := is[name]
		if !stays && NewNodeName(d.RenamedNodes, name) == name {
			out = append(out, NodeChange{Name: name, Kind: Removed, Before: had.leaves, Had: had.text})
		}
	}
	slices.SortFunc(out, func(a, b NodeChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// nodeLeaves are the leaves of one node: their number, and a text by SKU.
type nodeLeaves struct {
	leaves int32
	text   string
}

func leavesOfNodes(c *Config, f *cell.Forest) map[cell.NodeName]nodeLeaves {
	out := map[cell.NodeName]nodeLeaves{}
	if f == nil {
		return out
	}
	for i := range f.Nodes {
		var rooms []Room
		n := nodeLeaves{}
		for _, at := range f.Nodes[i].Cells {
			leaves := f.NumLeaves(at)
			n.leaves += leaves
			rooms = AddRoom(rooms, carryIn(c, f.Chains[f.Cells[at].Chain].SKU), 0, leaves)
		}
		n.text = TotalText(rooms)
		out[f.Nodes[i].Name] = n
	}
	return out
}

// lines are the sentences about a chain's change.
func (c *ChainChange) lines() (out []string) {
	switch {
	case c.Kind == Added:
		out = append(out, fmt.Sprintf("chain %s is added: %s with %s", c.Name, Plural(c.CellsAfter, "cell", "cells"),
			c.Has))
	case c.Kind == Removed:
		return []string{fmt.Sprintf("chain %s is removed, with %s", c.Name, c.Had)}
	case c.CellsBefore != c.CellsAfter || c.LeavesBefore != c.LeavesAfter:
		out = append(out, fmt.Sprintf("chain %s changes from %s with %s to %d with %s", c.Name,
			Plural(c.CellsBefore, "cell", "cells"), c.Had, c.CellsAfter, c.Has))
	}
	if len(c.LevelsAfter) > 0 {
		out = append(out, fmt.Sprintf("chain %s: %s -> %s", c.Name, levelsText(c.LevelsBefore),
			levelsText(c.LevelsAfter)))
	}
	switch {
	case c.LackingAfter == c.LackingBefore:
	case c.LackingAfter > 0:
		out = append(out, fmt.Sprintf("chain %s: nodes are missing in %d of %s: only parts of a %s are guaranteed there", c.Name, c.LackingAfter, Plural(c.CellsAfter, "cell", "cells"), c.Name))
	default:
		out = append(out, fmt.Sprintf("chain %s: no nodes are missing any more", c.Name))
	}
	return out
}

// levelsText writes levels from the top, such as "node of 2 switch of 4 gpu".
func levelsText(levels []cell.LevelSpec) string {
	text := string(levels[0].Type)
	for _, l := range levels[1:] {
		text = fmt.Sprintf("%s of %d %s", l.Type, l.Fanout, text)
	}
	return text
}

// nodeSentences are the changes of nodes in words. Added nodes share a line, and so do removed
// ones.
func nodeSentences(nodes []NodeChange) []string {
	var out []string
	for _, kind := range []ChangeKind{Added, Removed} {
		var names []string
		for _, n := range nodes {
			if n.Kind == kind {
				names = append(names, string(n.Name))
			}
		}
		if len(names) > 0 {
			verb := "is"
			if len(names) > 1 {
				verb = "are"
			}
			out = append(out, fmt.Sprintf("%s %s %s: %s", Plural(int32(len(names)), "node", "nodes"), verb, kind,
				fewNames(names)))
		}
	}
	for _, n := range nodes {
		switch n.Kind {
		case Renamed:
			out = append(out, fmt.Sprintf("node %s is called %s", n.Was, n.Name))
			if n.Before == 0 {
				out = append(out, fmt.Sprintf("node %s is added with %s", n.Name, n.Has))
			} else if n.Before != n.After || n.Had != n.Has {
				out = append(out, fmt.Sprintf("node %s has %s instead of %s", n.Name, n.Has, n.Had))
			}
		case Changed:
			out = append(out, fmt.Sprintf("node %s has %s instead of %s", n.Name, n.Has, n.Had))
		}
	}
	return out
}

func fewNames(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// lines are the sentences about a VC's change.
func (c *VCChange) lines() []string {
	name := "virtual cluster " + string(c.Name)
	var out []string
	switch {
	case c.Kind == Renamed:
		out = append(out, fmt.Sprintf("virtual cluster %s is called %s; its jobs go along", c.Was, c.Name))
	case c.Kind != Changed:
		out = append(out, name+" is "+string(c.Kind))
	}
	if c.Kind != Renamed && c.Was != "" {
		out = append(out, fmt.Sprintf("jobs of the removed virtual cluster %s go to %s", c.Was, c.Name))
	}
	for _, q := range c.Cells {
		out = append(out, fmt.Sprintf("%s: %s of %s %d -> %d", name, q.Type, q.Chain, q.Before, q.After))
	}
	for _, q := range c.Own {
		out = append(out, fmt.Sprintf("%s, for its own jobs: %s of %s %d -> %d", name, q.Type, q.Chain, q.Before,
			q.After))
	}
	for _, p := range c.Pins {
		switch {
		case p.Before == "":
			out = append(out, fmt.Sprintf("%s gets the pinned cell %s (%s)", name, p.ID, p.After))
		case p.After == "":
			out = append(out, fmt.Sprintf("%s loses the pinned cell %s (%s)", name, p.ID, p.Before))
		default:
			out = append(out, fmt.Sprintf("%s: the pinned cell %s is %s instead of %s", name, p.ID, p.After, p.Before))
		}
	}
	for _, r := range c.Rules {
		switch {
		case r.Key == parentKey && r.After == "":
			out = append(out, fmt.Sprintf("%s is no longer inside %s, and its cells are no part of those of %s", name,
				r.Before, r.Before))
		case r.Key == parentKey:
			out = append(out, fmt.Sprintf("%s is inside %s, and its cells are part of those of %s", name, r.After,
				r.After))
		default:
			out = append(out, fmt.Sprintf("%s: %s %s -> %s", name, r.Key, r.Before, r.After))
		}
	}
	return out
}
