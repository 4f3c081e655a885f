package cell_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/test/seeds"
	"github.com/combsched/comb/internal/test/twin"
)

// Random histories of a small cluster, step by step beside a dumb twin that tries
// everything: what can be placed, what is safe, who must leave for whom, and that
// every step can be undone exactly.
func TestMachine(t *testing.T) {
	if !modest(t, 1000) {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(rapid.StateMachineActions(m))
		m.emptied(t)
	})
}

// given are the flags of the command line.
var given = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { names[f.Name] = true })
	return names
})

// modest sets flags that the command line left alone: the same runs each time,
// and not too many. Each slice of a long run has histories of its own; of a slice
// that is too small for one it reports false.
func modest(t *testing.T, checks uint64) bool {
	asked := given()
	from, to := seeds.Range(t, checks)
	for name, v := range map[string]uint64{"rapid.seed": from << 32, "rapid.checks": to + 1 - from} {
		if asked[name] {
			continue
		}
		if err := flag.Set(name, fmt.Sprint(v)); err != nil {
			t.Fatal(err)
		}
	}
	return from <= to
}

// machine is a cluster with the allocations that the history made.
type machine struct {
	c        *cell.Cluster
	spec     *cell.Spec
	tw       *twin.Twin
	live     []cell.AllocID // that hold leaves, the oldest first
	promised []cell.AllocID
	pinned   bool                          // VC v0 has a pinned cell
	more     func(*rapid.T, *cell.Request) // adds to a request, nil for nothing
}

func newMachine(t *rapid.T) *machine {
	m := &machine{}
	m.c, m.spec = draw(t)
	m.tw = twin.Of(m.c)
	for _, r := range m.c.Space(1).Roots {
		m.pinned = m.pinned || r.Pinned != ""
	}
	return m
}

// draw makes a cluster of one or two racks of two nodes of four leaves, with two
// VCs, or three of which one is part of another, whose quotas are drawn cell by
// cell as long as they fit. Leaves are whole devices or parts of devices, and a
// second chain stands on machines of its own or on those of the first. A node may be missing.
func draw(t *rapid.T) (*cell.Cluster, *cell.Spec) {
	spec := racks(rapid.IntRange(1, 2).Draw(t, "racks"))
	if rapid.IntRange(0, 3).Draw(t, "missing") == 0 {
		last := &spec.Cells[len(spec.Cells)-1].Children
		*last = (*last)[:1]
	}
	if rapid.IntRange(0, 2).Draw(t, "parts") == 0 {
		divide(spec, "G", 2, 0)
	}
	spec.VCs = []cell.VCSpec{{Name: "v0"}, {Name: "v1"}}
	if rapid.IntRange(0, 3).Draw(t, "pin") == 0 {
		spec.Cells[0].Children[0].Pinned = pin
		spec.VCs[0].Pinned = []cell.PinnedID{pin}
	}
	if rapid.IntRange(0, 2).Draw(t, "nested") == 0 {
		spec.VCs = append(spec.VCs, cell.VCSpec{Name: "v2", Parent: "v0"})
	}
	second := rapid.IntRange(0, 3).Draw(t, "second chain") == 0
	if second {
		plain(spec, []string{"h", "n"}[rapid.IntRange(0, 1).Draw(t, "machine")])
		if rapid.Bool().Draw(t, "parts of the second") {
			divide(spec, "H", 3, 4)
		}
	}
	c, err := cell.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(1, 6).Draw(t, "cells") {
		more := *spec
		more.VCs = slices.Clone(spec.VCs)
		v := &more.VCs[rapid.IntRange(0, len(spec.VCs)-1).Draw(t, "vc")]
		q := cell.QuotaSpec{Chain: "RACK", Level: cell.Level(rapid.IntRange(1, 4).Draw(t, "level")), Number: 1}
		if second && q.Level <= 2 {
			q.Chain = "PLAIN"
		}
		v.Quota = append(slices.Clip(v.Quota), q)
		if larger, err := cell.New(&more); err == nil {
			c, spec = larger, &more
		}
	}
	return c, spec
}

// divide makes the leaves of a SKU parts of devices, so many of each; the devices
// of a machine are numbered from first on.
func divide(s *cell.Spec, sku cell.TypeName, parts, first int) {
	i := slices.IndexFunc(s.SKUs, func(k cell.SKU) bool { return k.Name == sku })
	s.SKUs[i].Part = cell.MIG
	next, last := 0, ""
	eachLeaf(s, func(c *cell.CellSpec, node string) {
		if node != last {
			next, last = 0, node
		}
		if c.Type == sku {
			c.Address = fmt.Sprintf("%d:%d", first+next/parts, next%parts)
			next++
		}
	})
}

// eachLeaf calls f for every leaf of a file, with the name of its machine.
func eachLeaf(s *cell.Spec, f func(c *cell.CellSpec, node string)) {
	machine := func(c *cell.CellSpec) bool {
		return slices.ContainsFunc(s.Chains, func(ch cell.ChainSpec) bool {
			return slices.ContainsFunc(ch.Levels, func(l cell.LevelSpec) bool { return l.Type == c.Type && l.IsNode })
		})
	}
	var walk func(c *cell.CellSpec, node string)
	walk = func(c *cell.CellSpec, node string) {
		if machine(c) {
			node = c.Address
		}
		if len(c.Children) == 0 {
			f(c, node)
		}
		for i := range c.Children {
			walk(&c.Children[i], node)
		}
	}
	for i := range s.Cells {
		walk(&s.Cells[i], "")
	}
}

// pin is the pinned cell's name.
const pin = "p"

// plain adds a chain of two nodes of three leaves, on machines of that prefix.
func plain(s *cell.Spec, prefix string) {
	s.SKUs = append(s.SKUs, cell.SKU{Name: "H"})
	s.Chains = []cell.ChainSpec{{Name: "PLAIN", Levels: []cell.LevelSpec{{Type: "H"}, {Type: "PLAIN", Fanout: 3, IsNode: true}}}, s.Chains[0]}
	for i := range 2 {
		node := cell.CellSpec{Type: "PLAIN", Address: fmt.Sprint(prefix, i)}
		for l := range 3 {
			node.Children = append(node.Children, cell.CellSpec{Type: "H", Address: fmt.Sprint(4 + l)})
		}
		s.Cells = append(s.Cells, node)
	}
}

// racks is a cluster without VCs: n racks of two nodes of two switches of two leaves.
func racks(n int) *cell.Spec {
	s := &cell.Spec{SKUs: []cell.SKU{{Name: "G"}}, Chains: []cell.ChainSpec{{Name: "RACK", Levels: []cell.LevelSpec{{Type: "G"},
		{Type: "SWITCH", Fanout: 2}, {Type: "NODE", Fanout: 2, IsNode: true}, {Type: "RACK", Fanout: 2}}}}}
	for r := range n {
		rack := cell.CellSpec{Type: "RACK", Address: fmt.Sprint(r)}
		for k := range 2 {
			node := cell.CellSpec{Type: "NODE", Address: fmt.Sprintf("n%d", 2*r+k)}
			for sw := range 2 {
				node.Children = append(node.Children, cell.CellSpec{Type: "SWITCH", Address: fmt.Sprint(sw), Children: []cell.CellSpec{
					{Type: "G", Address: fmt.Sprint(2 * sw)}, {Type: "G", Address: fmt.Sprint(2*sw + 1)}}})
			}
			rack.Children = append(rack.Children, node)
		}
		s.Cells = append(s.Cells, rack)
	}
	return s
}

// Check is what holds after every step.
func (m *machine) Check(t *rapid.T) {
	if err := m.c.Verify(); err != nil {
		t.Fatal(err)
	}
	if !m.tw.Safe() {
		t.Fatalf("the unused guarantees can no longer be had at once: %s", m.c.Dump())
	}
	for {
		if all := m.c.UnneededCharges(); all != nil {
			for _, ch := range all {
				m.c.Undoom(ch.Space, ch.Root)
			}
			continue
		}
		space, root, id, ok := m.c.DueCharge()
		if !ok {
			break
		}
		m.c.Doom(space, root, id)
	}
	if !m.tw.Sound() {
		t.Fatalf("a guarantee that no VC was charged for cannot be had on healthy cells: %s", m.c.Dump())
	}
}

// request draws a gang; below is the least priority.
func (m *machine) request(t *rapid.T, least int) cell.Request {
	q := cell.Request{Space: 1 + rapid.Int32Range(0, m.c.NumSpaces()-2).Draw(t, "space"), Priority: cell.Priority(rapid.IntRange(least, 3).Draw(t, "priority"))}
	for range rapid.IntRange(1, 2).Draw(t, "members") {
		member := cell.Member{Tasks: rapid.Int32Range(1, 2).Draw(t, "tasks"), Leaves: rapid.Int32Range(1, 4).Draw(t, "leaves")}
		if len(m.c.Forest().Chains) > 1 {
			member.SKUs = rapid.SampledFrom([][]cell.TypeName{nil, {"G"}, {"H"}, {"G", "H"}}).Draw(t, "skus")
			member.Alike = rapid.IntRange(0, 3).Draw(t, "alike") == 0
		}
		if m.pinned && q.Space == 1 && q.Priority >= cell.MinGuaranteed && rapid.IntRange(0, 3).Draw(t, "pinned") == 0 {
			member.Pinned = pin
		}
		q.Members = append(q.Members, member)
	}
	if len(m.c.Forest().Chains) > 1 && rapid.IntRange(0, 5).Draw(t, "block") == 0 {
		q.Blocked = []bool{true, false}
	}
	if rapid.IntRange(0, 5).Draw(t, "avoid") == 0 {
		q.Avoided = cell.NodeSet{}.Add(rapid.Int32Range(0, int32(len(m.c.Forest().Nodes))-1).Draw(t, "avoided"))
	}
	if m.more != nil {
		m.more(t, &q)
	}
	return q
}

// place asks, and checks that asking changed nothing.
func (m *machine) place(t *rapid.T, q *cell.Request) (cell.Result, bool) {
	before := m.c.Dump()
	res, ok := m.c.Place(q)
	if after := m.c.Dump(); after != before {
		t.Fatalf("Place changed the cluster from\n%s\nto\n%s", before, after)
	}
	m.overlooks(t, q)
	for i := range res.Placement.Tasks {
		if err := m.named(&res.Placement.Tasks[i]); ok && err != nil {
			t.Fatalf("%v; %s", err, m.c.Dump())
		}
	}
	return res, ok
}

// overlooks checks that no node is passed over of which a gang could take more than is idle or soft
// there, whatever else may be stopped for it.
func (m *machine) overlooks(t *rapid.T, q *cell.Request) {
	more := *q
	more.Preempt = &cell.Preemptible{Opportunistic: true, Below: q.Priority, Also: func(id cell.AllocID) bool { return id%3 == 0 }}
	for _, r := range []*cell.Request{q, &more} {
		if node, counted, could := m.c.Overlooked(r); node != "" {
			t.Fatalf("%+v could take %d leaves of %s, and %d are counted; %s", r.Members, could, node, counted, m.c.Dump())
		}
	}
}

// named checks what a placement calls a task's leaves against the file: their
// node, SKU, device and, where leaves are parts of devices, part.
func (m *machine) named(task *cell.Task) error {
	var leaves []cell.Task // of the file, in its order
	eachLeaf(m.spec, func(c *cell.CellSpec, node string) {
		leaf := cell.Task{Node: cell.NodeName(node), SKU: c.Type, Devices: make([]int32, 1)}
		device, part, inParts := strings.Cut(c.Address, ":")
		fmt.Sscan(device, &leaf.Devices[0])
		if inParts {
			leaf.Parts = make([]int32, 1)
			fmt.Sscan(part, &leaf.Parts[0])
		}
		leaves = append(leaves, leaf)
	})
	for i, l := range task.Leaves {
		want, is := leaves[l], cell.Task{Node: task.Node, SKU: task.SKU, Devices: task.Devices[i : i+1]}
		if len(task.Parts) > 0 {
			is.Parts = task.Parts[i : i+1]
		}
		if fmt.Sprint(is) != fmt.Sprint(want) {
			return fmt.Errorf("leaf %d is %+v, and is called %+v", l, want, is)
		}
		if found := m.c.Forest().FindPart(want.Node, want.SKU, want.Devices[0], append(want.Parts, 0)[0]); found != l {
			return fmt.Errorf("looking for leaf %d by its names finds %d", l, found)
		}
	}
	return nil
}

// Place puts a gang on free leaves.
func (m *machine) Place(t *rapid.T) {
	q := m.request(t, -1)
	res, ok := m.place(t, &q)
	if fits := m.tw.Fits(&q, nil); ok && !fits || !ok && fits && !res.Bounded {
		t.Fatalf("space %d, priority %d, %+v: found cells: %v, they exist: %v; %s", q.Space, q.Priority, q.Members, ok, fits, m.c.Dump())
	}
	if !ok {
		return
	}
	before := m.c.Dump()
	m.c.Release(m.c.Take(q.Space, q.Priority, res.Placement, false))
	if after := m.c.Dump(); after != before {
		t.Fatalf("taken and released, the cluster is\n%s\ninstead of\n%s", after, before)
	}
	m.live = append(m.live, m.c.Take(q.Space, q.Priority, res.Placement, false))
}

// Preempt promises cells to a gang for which others have to leave.
func (m *machine) Preempt(t *rapid.T) {
	q := m.request(t, 0)
	q.Preempt = &cell.Preemptible{Opportunistic: true, Below: cell.Priority(rapid.IntRange(0, int(q.Priority)).Draw(t, "limit"))}
	costs := rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 6).Draw(t, "costs")
	q.Cost = func(id cell.AllocID) cell.Cost { return cell.Cost{Lost: costs[int(id)%len(costs)]} }
	candidates, leaving := m.candidates(&q)
	gone := func(id cell.AllocID) bool { return slices.Contains(candidates, id) || slices.Contains(leaving, id) }
	res, ok := m.place(t, &q)
	if fits := m.tw.Fits(&q, gone); ok && !fits || !ok && fits && !res.Bounded {
		t.Fatalf("space %d, priority %d, %+v: found victims: %v, they exist: %v; candidates %v, leaving %v; %s",
			q.Space, q.Priority, q.Members, ok, fits, candidates, leaving, m.c.Dump())
	}
	if !ok {
		return
	}
	m.victims(t, &q, res, candidates, leaving)
	for _, v := range res.Victims {
		m.c.SetIntent(v, cell.Leaving)
	}
	if len(res.Victims) == 0 {
		m.live = append(m.live, m.c.Take(q.Space, q.Priority, res.Placement, false))
		return
	}
	m.promised = append(m.promised, m.c.Take(q.Space, q.Priority, res.Placement, true))
}

// candidates are who may be made to leave for a request, and who leaves anyway.
func (m *machine) candidates(q *cell.Request) (may, leaving []cell.AllocID) {
	for _, id := range m.live {
		a := m.c.Alloc(id)
		switch {
		case m.c.Mood(id) == cell.Leaving:
			leaving = append(leaving, id)
		case m.c.Mood(id) == cell.Unknown:
		case a.Opportunistic() || a.Space == q.Space && a.Priority < q.Preempt.Below:
			may = append(may, id)
		}
	}
	return may, leaving
}

// mostExact is up to how many candidates the number of victims is the least.
const mostExact = 12

// victims checks a set of victims: all were candidates, without them the gang
// fits, and none could stay.
func (m *machine) victims(t *rapid.T, q *cell.Request, res cell.Result, candidates, leaving []cell.AllocID) {
	var chosen []cell.AllocID
	for _, v := range res.Victims {
		switch {
		case slices.Contains(candidates, v):
			chosen = append(chosen, v)
		case !slices.Contains(leaving, v):
			t.Fatalf("%d is a victim and was no candidate (%v, leaving %v)", v, candidates, leaving)
		}
	}
	if len(candidates) <= mostExact {
		if least, _ := m.tw.Victims(q, candidates, leaving); least != len(chosen) {
			t.Fatalf("%v must leave, but %d would do; %+v in space %d; %s", chosen, least, q.Members, q.Space, m.c.Dump())
		}
	}
	for i := -1; i < len(chosen); i++ {
		gone := func(id cell.AllocID) bool {
			at := slices.Index(chosen, id)
			return at >= 0 && at != i || slices.Contains(leaving, id)
		}
		if fits := m.tw.Fits(q, gone); fits != (i < 0) {
			t.Fatalf("victims %v, of which number %d stays: fits %v; %+v in space %d; %s", chosen, i, fits, q.Members, q.Space, m.c.Dump())
		}
	}
}

// Leave ends an allocation; promises that nobody holds up any more are kept.
func (m *machine) Leave(t *rapid.T) {
	if len(m.live) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.live)-1).Draw(t, "alloc")
	m.c.Release(m.live[i])
	m.live = slices.Delete(m.live, i, i+1)
	for i := len(m.promised) - 1; i >= 0; i-- {
		if id := m.promised[i]; m.vacant(id) {
			m.c.Promote(id)
			m.live = append(m.live, id)
			m.promised = slices.Delete(m.promised, i, i+1)
		}
	}
}

// vacant reports whether nobody holds what was promised to an allocation.
func (m *machine) vacant(id cell.AllocID) bool {
	for _, task := range m.c.Alloc(id).Placement.Tasks {
		for _, l := range task.Leaves {
			if hold, _ := m.c.Holder(l); hold != cell.None {
				return false
			}
		}
	}
	return true
}

// Revoke takes a promise back.
func (m *machine) Revoke(t *rapid.T) {
	if len(m.promised) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.promised)-1).Draw(t, "promise")
	m.c.Release(m.promised[i])
	m.promised = slices.Delete(m.promised, i, i+1)
}

// Demote makes a guaranteed allocation opportunistic; made guaranteed again at
// once, nothing has changed.
func (m *machine) Demote(t *rapid.T) {
	var may []cell.AllocID
	for _, id := range m.live {
		if !m.c.Alloc(id).Opportunistic() {
			may = append(may, id)
		}
	}
	if len(may) == 0 {
		return
	}
	id := rapid.SampledFrom(may).Draw(t, "alloc")
	m.c.Demote(id)
	if _, ok := m.c.Upgradable(id); !ok {
		t.Fatalf("allocation %d became opportunistic and cannot be guaranteed again at once: %s", id, m.c.Dump())
	}
}

// Upgrade gives a guarantee back where that is possible.
func (m *machine) Upgrade(t *rapid.T) {
	for _, id := range m.live {
		before := m.c.Dump()
		binds, ok := m.c.Upgradable(id)
		if m.c.Dump() != before {
			t.Fatalf("Upgradable changed the cluster from\n%s\nto\n%s", before, m.c.Dump())
		}
		if may := m.c.Alloc(id).Lazy && m.tw.Upgrades(id); ok != may {
			t.Fatalf("allocation %d may be guaranteed again: %v, it is found: %v; %s", id, may, ok, m.c.Dump())
		}
		if !ok {
			continue
		}
		m.c.Upgrade(id, binds)
		if m.c.Alloc(id).Opportunistic() {
			t.Fatalf("allocation %d was upgraded and is opportunistic", id)
		}
		return
	}
}

// Mood tells that nothing is known of a holder, or that it lives.
func (m *machine) Mood(t *rapid.T) {
	if len(m.live) == 0 {
		return
	}
	id := rapid.SampledFrom(m.live).Draw(t, "alloc")
	m.c.SetIntent(id, rapid.SampledFrom([]cell.Intent{cell.Staying, cell.Unknown, cell.Leaving}).Draw(t, "mood"))
}

// Leaf breaks or mends a leaf; done twice it leaves no trace.
func (m *machine) Leaf(t *rapid.T) {
	l := cell.LeafID(rapid.IntRange(0, len(m.c.Forest().Leaves)-1).Draw(t, "leaf"))
	before := m.c.Dump()
	bad := m.c.LeafBad(l)
	m.c.SetLeafBad(l, !bad)
	m.c.SetLeafBad(l, bad)
	if after := m.c.Dump(); after != before {
		t.Fatalf("leaf %d broken and mended: the cluster is\n%s\ninstead of\n%s", l, after, before)
	}
	m.c.SetLeafBad(l, !bad)
}

// Node takes a node away or brings it back.
func (m *machine) Node(t *rapid.T) {
	n := rapid.Int32Range(0, int32(len(m.c.Forest().Nodes))-1).Draw(t, "node")
	b := rapid.SampledFrom([]cell.NodeFaults{cell.Down, cell.Cordoned, cell.Suspect}).Draw(t, "blame")
	m.c.SetNodeFaults(n, b, m.c.NodeFaults(n)&b == 0)
}

// Clone goes on with a copy.
func (m *machine) Clone(t *rapid.T) {
	d := m.c.Clone()
	if d.Dump() != m.c.Dump() {
		t.Fatalf("the copy is\n%s\ninstead of\n%s", d.Dump(), m.c.Dump())
	}
	for _, id := range m.live {
		m.c.Release(id) // what happens to the original must not show in the copy
	}
	m.c, m.tw = d, m.tw.With(d)
}

// emptied ends everything: the cluster must be as it was in the beginning.
func (m *machine) emptied(t *rapid.T) {
	for _, id := range append(m.live, m.promised...) {
		m.c.Release(id)
	}
	for l := range m.c.Forest().Leaves {
		m.c.SetLeafBad(cell.LeafID(l), false)
	}
	for n := range m.c.Forest().Nodes {
		m.c.SetNodeFaults(int32(n), cell.Down|cell.Cordoned|cell.Suspect, false)
	}
	m.Check(t)
	for si := int32(1); si < m.c.NumSpaces(); si++ {
		for i := range m.c.Space(si).Roots {
			if r := &m.c.Space(si).Roots[i]; r.Pinned == "" && r.Cell != cell.None || r.Used != 0 {
				t.Fatalf("nothing is in use, but root %d of space %d is bound to %d with %d leaves used", i, si, r.Cell, r.Used)
			}
		}
	}
	for id := range m.c.Forest().Cells {
		if m.c.Forest().Cells[id].Level == 0 {
			continue // it is missing
		}
		if want := m.c.Forest().NumLeaves(cell.CellID(id)); m.c.Idle(cell.CellID(id)) != want {
			t.Fatalf("nothing is in use, but cell %d has %d idle leaves of %d", id, m.c.Idle(cell.CellID(id)), want)
		}
	}
}
