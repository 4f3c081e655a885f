package cell_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/test/twin"
)

// Random histories of clusters of unusual shapes, with requests that restrict
// where a gang may go, beside the twin.
func TestShapes(t *testing.T) {
	if !modest(t, 120) {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		c, spec := shape(t)
		m := &shaped{machine{c: c, spec: spec, tw: twin.Of(c), pinned: len(c.Space(1).Roots) > 0 && slices.ContainsFunc(c.Space(1).Roots, func(r cell.Root) bool { return r.Pinned == pin })}}
		m.more = m.restrict
		t.Repeat(rapid.StateMachineActions(m))
		m.emptied(t)
	})
}

type shaped struct{ machine }

// restrict draws what a request may say of nodes and leaves.
func (m *shaped) restrict(t *rapid.T, q *cell.Request) {
	nodes := int32(len(m.c.Forest().Nodes))
	some := func(name string) cell.NodeSet {
		var out cell.NodeSet
		for range rapid.IntRange(1, 3).Draw(t, name) {
			out = out.Add(rapid.Int32Range(0, nodes-1).Draw(t, name))
		}
		return out
	}
	if rapid.IntRange(0, 2).Draw(t, "near") == 0 {
		for ci := range m.c.Forest().Chains {
			q.Reach = append(q.Reach, cell.Level(rapid.IntRange(0, int(m.c.Forest().Chains[ci].Top)).Draw(t, "reach")))
		}
	}
	switch rapid.IntRange(0, 7).Draw(t, "restricted") {
	case 0:
		q.Allowed = some("allowed")
	case 1:
		q.Preferred = some("preferred")
	case 2:
		q.Preferred, q.Allowed = some("preferred"), some("allowed")
	case 3:
		for range rapid.IntRange(1, 3).Draw(t, "kept") {
			q.Excluded = q.Excluded.Add(cell.LeafID(rapid.IntRange(0, len(m.c.Forest().Leaves)-1).Draw(t, "leaf")))
		}
	}
}

// Imagine asks what would fit if nothing were bad, in use, or held by some.
func (m *shaped) Imagine(t *rapid.T) {
	q := m.request(t, -1)
	q.IgnoreHealth = rapid.Bool().Draw(t, "healthy")
	var gone []cell.AllocID
	asked := twin.Gone(nil)
	switch rapid.IntRange(0, 2).Draw(t, "use") {
	case 0:
		q.IgnoreUse, asked = true, func(cell.AllocID) bool { return true }
	case 1:
		for _, id := range m.live {
			if rapid.Bool().Draw(t, "gone") {
				gone = append(gone, id)
			}
		}
		q.Gone = func(id cell.AllocID) bool { return slices.Contains(gone, id) }
		asked = twin.Gone(q.Gone)
	}
	if rapid.Bool().Draw(t, "lift") && !q.IgnoreUse && q.Priority >= 0 {
		q.Preempt = &cell.Preemptible{Opportunistic: true, Below: q.Priority}
		candidates, leaving := m.candidates(&q)
		asked = func(id cell.AllocID) bool {
			return slices.Contains(candidates, id) || slices.Contains(leaving, id) || slices.Contains(gone, id)
		}
	}
	res, ok := m.place(t, &q)
	if fits := m.tw.Fits(&q, asked); ok && !fits || !ok && fits && !res.Bounded {
		t.Fatalf("%+v: found cells: %v, they exist: %v; %s", q, ok, fits, m.c.Dump())
	}
	if !ok || q.IgnoreUse {
		return
	}
	for _, task := range res.Placement.Tasks {
		for _, l := range task.Leaves {
			if h, _ := m.c.Holder(l); h != cell.None && !slices.Contains(res.Victims, h) {
				t.Fatalf("%d holds leaf %d and is not among the victims %v", h, l, res.Victims)
			}
		}
	}
	for _, v := range res.Victims {
		with := func(id cell.AllocID) bool {
			return id != v && (slices.Contains(res.Victims, id) || slices.Contains(gone, id) || m.c.Mood(id) == cell.Leaving)
		}
		if !slices.Contains(gone, v) && m.c.Mood(v) != cell.Leaving && m.tw.Fits(&q, with) {
			t.Fatalf("%+v: victim %d of %v could stay; %s", q, v, res.Victims, m.c.Dump())
		}
	}
}

// shape draws a cluster: machines with two kinds of devices, deep machines,
// machines of one leaf; pinned leaves and racks, and VCs in VCs in VCs.
func shape(t *rapid.T) (*cell.Cluster, *cell.Spec) {
	kind := rapid.IntRange(0, 3).Draw(t, "shape")
	spec := []func() *cell.Spec{twoKinds, deep, single, sliced}[kind]()
	spec.VCs = []cell.VCSpec{{Name: "v0"}, {Name: "v1"}}
	if rapid.Bool().Draw(t, "nested") {
		spec.VCs = append(spec.VCs, cell.VCSpec{Name: "v2", Parent: "v1"}, cell.VCSpec{Name: "v3", Parent: "v2"})
	}
	at := &spec.Cells[0]
	switch rapid.IntRange(0, 3).Draw(t, "pin") {
	case 0: // the first leaf
		for len(at.Children) > 0 {
			at = &at.Children[0]
		}
		fallthrough
	case 1: // the first top-level cell
		at.Pinned = pin
		spec.VCs[0].Pinned = []cell.PinnedID{pin}
	}
	c, err := cell.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(1, 7).Draw(t, "cells") {
		more := *spec
		more.VCs = slices.Clone(spec.VCs)
		ch := &spec.Chains[rapid.IntRange(0, len(spec.Chains)-1).Draw(t, "chain")]
		q := cell.QuotaSpec{Chain: ch.Name, Level: cell.Level(rapid.IntRange(1, len(ch.Levels)).Draw(t, "level")), Number: 1}
		last := rapid.IntRange(0, len(spec.VCs)-1).Draw(t, "vc")
		for vc := min(last, 1); vc <= last; vc++ { // who is part of others has what these have
			v := &more.VCs[vc]
			v.Quota = append(slices.Clip(v.Quota), q)
		}
		if larger, err := cell.New(&more); err == nil {
			c, spec = larger, &more
		}
	}
	return c, spec
}

// twoKinds is three machines of three G and two H each; a machine is the top of
// both chains.
func twoKinds() *cell.Spec {
	s := &cell.Spec{SKUs: []cell.SKU{{Name: "G"}, {Name: "H"}}, Chains: []cell.ChainSpec{
		{Name: "GBOX", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "GBOX", Fanout: 3, IsNode: true}}},
		{Name: "HBOX", Levels: []cell.LevelSpec{{Type: "H"}, {Type: "HBOX", Fanout: 2, IsNode: true}}}}}
	for n := range 3 {
		for _, ch := range s.Chains {
			box := cell.CellSpec{Type: cell.TypeName(ch.Name), Address: fmt.Sprint("n", n)}
			for l := range ch.Levels[1].Fanout {
				box.Children = append(box.Children, cell.CellSpec{Type: ch.Levels[0].Type, Address: fmt.Sprint(l)})
			}
			s.Cells = append(s.Cells, box)
		}
	}
	return s
}

// sliced is two machines of two whole G and two devices of three slices S each.
func sliced() *cell.Spec {
	s := &cell.Spec{SKUs: []cell.SKU{{Name: "G"}, {Name: "S"}}, Chains: []cell.ChainSpec{
		{Name: "GBOX", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "GBOX", Fanout: 2, IsNode: true}}},
		{Name: "SBOX", Levels: []cell.LevelSpec{{Type: "S"}, {Type: "DEVICE", Fanout: 3}, {Type: "SBOX", Fanout: 2, IsNode: true}}}}}
	for n := range 2 {
		whole := cell.CellSpec{Type: "GBOX", Address: fmt.Sprint("n", n)}
		slices := cell.CellSpec{Type: "SBOX", Address: fmt.Sprint("n", n)}
		for d := range 2 {
			whole.Children = append(whole.Children, cell.CellSpec{Type: "G", Address: fmt.Sprint(d)})
			device := cell.CellSpec{Type: "DEVICE", Address: fmt.Sprint(2 + d)}
			for range 3 {
				device.Children = append(device.Children, cell.CellSpec{Type: "S"})
			}
			slices.Children = append(slices.Children, device)
		}
		s.Cells = append(s.Cells, whole, slices)
	}
	divide(s, "S", 3, 2)
	return s
}

// tower makes a cell of the given level and all below it.
func tower(s *cell.Spec, level int, name string, next *int) cell.CellSpec {
	l := &s.Chains[0].Levels[level]
	c := cell.CellSpec{Type: l.Type, Address: name}
	for i := range l.Fanout {
		child := fmt.Sprint(i)
		if level == 1 {
			child = fmt.Sprint(*next)
			*next++
		} else if s.Chains[0].Levels[level-1].IsNode {
			child, *next = fmt.Sprint(name, "-", i), 0
		}
		c.Children = append(c.Children, tower(s, level-1, child, next))
	}
	return c
}

// deep is two machines of eight leaves with five levels inside, two of which
// divide nothing.
func deep() *cell.Spec {
	s := &cell.Spec{SKUs: []cell.SKU{{Name: "G"}}, Chains: []cell.ChainSpec{{Name: "TOP", Levels: []cell.LevelSpec{{Type: "G"},
		{Type: "A", Fanout: 2}, {Type: "B", Fanout: 1}, {Type: "C", Fanout: 2}, {Type: "D", Fanout: 1}, {Type: "NODE", Fanout: 2, IsNode: true},
		{Type: "TOP", Fanout: 2}}}}}
	s.Cells = append(s.Cells, tower(s, 6, "top", new(int)))
	return s
}

// single is three racks of three machines of one leaf each.
func single() *cell.Spec {
	s := &cell.Spec{SKUs: []cell.SKU{{Name: "G"}}, Chains: []cell.ChainSpec{{Name: "RACK", Levels: []cell.LevelSpec{{Type: "G"},
		{Type: "NODE", Fanout: 1, IsNode: true}, {Type: "RACK", Fanout: 3}}}}}
	for r := range 3 {
		s.Cells = append(s.Cells, tower(s, 2, fmt.Sprint("r", r), new(int)))
	}
	return s
}

// Members that must be alike are divided among the chains of one SKU, and never among SKUs.
func TestAlikeMembersKeepToOneSKU(t *testing.T) {
	s := twoKinds()
	s.Chains = append(s.Chains, cell.ChainSpec{Name: "OLD", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "OLD", Fanout: 1, IsNode: true}}})
	s.Cells = append(s.Cells, cell.CellSpec{Type: "OLD", Address: "old", Children: []cell.CellSpec{{Type: "G", Address: "0"}}})
	s.VCs = []cell.VCSpec{{Name: "v", Quota: []cell.QuotaSpec{{Chain: "GBOX", Level: 2, Number: 3}, {Chain: "HBOX", Level: 2, Number: 3}, {Chain: "OLD", Level: 2, Number: 1}}}}
	c, err := cell.New(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, prio := range []cell.Priority{0, cell.Opportunistic} {
		for _, each := range []struct {
			tasks       int32
			alike, fits bool
		}{{9, true, true}, {10, true, true}, {11, true, false}, {11, false, true}, {16, false, true}} {
			res, ok := c.Place(&cell.Request{Space: 1, Priority: prio, Members: []cell.Member{{Tasks: each.tasks, Leaves: 1, Alike: each.alike}}})
			if ok != each.fits {
				t.Errorf("priority %d, %+v: %v", prio, each, ok)
			}
			for _, task := range res.Placement.Tasks {
				if each.alike && task.SKU != res.Placement.Tasks[0].SKU {
					t.Errorf("priority %d, %+v: on %s and %s", prio, each, task.SKU, res.Placement.Tasks[0].SKU)
				}
			}
		}
	}
}
