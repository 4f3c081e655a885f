package cell

import (
	"fmt"
	"slices"
	"testing"
)

// With n roles of as many sets of SKUs there are more than n! ways to put them
// together and apart. That there are too few leaves is found out all the same: what was
// tried once is remembered.
func TestManyKindsOfMembers(t *testing.T) {
	s := &Spec{VCs: []VCSpec{{Name: "v"}}}
	for i := range 4 {
		sku, node := TypeName(fmt.Sprint("S", i)), TypeName(fmt.Sprint("N", i))
		s.SKUs = append(s.SKUs, SKU{Name: sku})
		s.Chains = append(s.Chains, ChainSpec{Name: ChainName(node), Levels: []LevelSpec{{Type: sku}, {Type: node, Fanout: 2, IsNode: true}}})
		s.Cells = append(s.Cells, CellSpec{Type: node, Address: string(node), Children: []CellSpec{{Type: sku, Address: "0"}, {Type: sku, Address: "1"}}})
		s.VCs[0].Quota = append(s.VCs[0].Quota, QuotaSpec{Chain: ChainName(node), Level: 2, Number: 1})
	}
	c := mustNew(t, s)
	q := Request{Space: 1}
	for set := 1; set < 16; set++ { // 15 tasks for 8 leaves
		var skus []TypeName
		for i := range 4 {
			if set>>i&1 != 0 {
				skus = append(skus, s.SKUs[i].Name)
			}
		}
		q.Members = append(q.Members, Member{Tasks: 1, Leaves: 1, SKUs: skus})
	}
	if res, ok := c.Place(&q); ok || res.Bounded {
		t.Errorf("15 tasks on 8 leaves: found %v, cut short by %q", ok, res.Bounds)
	}
	q.Members = q.Members[:6]
	if _, ok := c.Place(&q); !ok {
		t.Error("6 tasks find no room on 8 leaves")
	}
}

// Every set of twelve candidates is tried where ten of them must go, in a cluster
// that is otherwise full and large: what cannot do is seen at once.
func TestExactVictimsInALargeCluster(t *testing.T) {
	const nodes, own = 512, 20
	c := mustNew(t, small(nodes/2, quota(3, own), quota(3, nodes-own)))
	take := func(space int32, p Priority, m Member) {
		res, ok := c.Place(&Request{Space: space, Priority: p, Members: []Member{m}})
		if !ok {
			t.Fatal("no room")
		}
		c.Take(space, p, res.Placement, false)
	}
	for range nodes - own {
		take(2, 0, Member{Tasks: 1, Leaves: 4})
	}
	for range 12 {
		take(2, Opportunistic, Member{Tasks: 2, Leaves: 2})
	}
	q := Request{Space: 1, Members: []Member{{Tasks: 18, Leaves: 4}}, Preempt: &Preemptible{Opportunistic: true}}
	if res, ok := c.Place(&q); !ok || len(res.Victims) != 10 || res.Cut {
		t.Errorf("found %v with %d victims, want 10; cut short: %v", ok, len(res.Victims), res.Cut)
	}
}

// A VC that owns a whole node and single leaves joins the leaves side by side for a
// task that none of them could hold, when its node is in use: also where only one
// of many nodes has room for them.
func TestPartsCombineBesideWholeNodes(t *testing.T) {
	const racks = 16
	c := mustNew(t, small(racks, quota(3, 1, 1, 6)))
	take := func(q *Request) Result {
		t.Helper()
		res, ok := c.Place(q)
		if !ok {
			t.Fatalf("no room for %+v; %s", q, res.Bounds)
		}
		c.Take(q.Space, q.Priority, res.Placement, false)
		return res
	}
	for n := int32(1); n < 2*racks-1; n++ { // all but the first node and the last
		take(&Request{Priority: Opportunistic, Members: []Member{{Tasks: 1, Leaves: 1}}, Allowed: NodeSet{0}.Add(n)})
	}
	take(&Request{Space: 1, Members: []Member{{Tasks: 1, Leaves: 4}}})
	// Two kinds of tasks: the large one must not lose its cells to the small one.
	res := take(&Request{Space: 1, Members: []Member{{Tasks: 1, Leaves: 1}, {Tasks: 1, Leaves: 4}}})
	if n := len(res.Placement.Binds); n != 5 {
		t.Errorf("it lies in %d preassigned cells, want 5 leaves", n)
	}
	if err := c.Verify(); err != nil {
		t.Error(err)
	}
}

// However many victims there are, none is superfluous: also the cheapest, which are
// asked last, when more dear ones than are searched for are all needed.
func TestManyVictimsAreNeeded(t *testing.T) {
	const dear = 2 * maxTrim
	spec := &Spec{SKUs: []SKU{{Name: "A"}, {Name: "B"}}, VCs: []VCSpec{{Name: "v"}}}
	for i, nodes := range []int{dear, 5} {
		sku := spec.SKUs[i].Name
		spec.Chains = append(spec.Chains, ChainSpec{Name: ChainName("N" + sku), Levels: []LevelSpec{{Type: sku}, {Type: "N" + sku, Fanout: 1, IsNode: true}}})
		spec.VCs[0].Quota = append(spec.VCs[0].Quota, QuotaSpec{Chain: ChainName("N" + sku), Level: 2, Number: int32(nodes)})
		for n := range nodes {
			spec.Cells = append(spec.Cells, CellSpec{Type: "N" + sku, Address: fmt.Sprint(sku, n), Children: []CellSpec{{Type: sku, Address: "0"}}})
		}
	}
	c := mustNew(t, spec)
	cost := map[AllocID]Cost{}
	fill := func(sku TypeName, tasks int32, lost int64) AllocID {
		res, ok := c.Place(&Request{Space: 1, Priority: Opportunistic, Members: []Member{{Tasks: tasks, Leaves: 1, SKUs: []TypeName{sku}}}})
		if !ok {
			t.Fatal("no room")
		}
		id := c.Take(1, Opportunistic, res.Placement, false)
		cost[id] = Cost{Lost: lost}
		return id
	}
	for range dear {
		fill("A", 1, 10)
	}
	cheap := []AllocID{fill("B", 1, 1), fill("B", 1, 1)}
	three := fill("B", 3, 5) // once it leaves, the cheap ones may stay
	q := Request{Space: 1, Members: []Member{{Tasks: dear, Leaves: 1, SKUs: []TypeName{"A"}}, {Tasks: 3, Leaves: 1, SKUs: []TypeName{"B"}}},
		Preempt: &Preemptible{Opportunistic: true}, Cost: func(id AllocID) Cost { return cost[id] }}
	res, ok := c.Place(&q)
	if !ok || !slices.Contains(res.Victims, three) || slices.Contains(res.Victims, cheap[0]) || slices.Contains(res.Victims, cheap[1]) || len(res.Victims) != dear+1 {
		t.Errorf("found %v: %d victims, want %d; the cheap ones %v are among %v", ok, len(res.Victims), dear+1, cheap, res.Victims)
	}
	if res.Bounds&boundTrim != 0 {
		t.Error("the search for victims that may stay was cut short")
	}
}

// Two cells of two leaves, each with a bad leaf or one that a lost task holds, combine
// for a task of two: in a cluster too large to try every way to bind them.
func TestHalvesCombine(t *testing.T) {
	const racks = 16
	for name, hurt := range map[string]func(c *Cluster, l LeafID){
		"bad": func(c *Cluster, l LeafID) { c.SetLeafBad(l, true) },
		"lost": func(c *Cluster, l LeafID) {
			leaves := LeafSet{}
			for o := range LeafID(8 * racks) {
				if o != l {
					leaves = leaves.Add(o)
				}
			}
			res, ok := c.Place(&Request{Priority: Opportunistic, Members: []Member{{Tasks: 1, Leaves: 1}}, Excluded: leaves})
			if !ok {
				t.Fatal("no room")
			}
			c.SetIntent(c.Take(0, Opportunistic, res.Placement, false), Unknown)
		},
	} {
		c := mustNew(t, small(racks, quota(2, 3)))
		for l := range LeafID(8 * racks) {
			if l%2 == 0 || l/4 != 2*racks-1 && l%4 == 1 { // only the last node has two halves
				hurt(c, l)
			}
		}
		for _, lift := range []*Preemptible{nil, {Opportunistic: true}} {
			res, ok := c.Place(&Request{Space: 1, Members: []Member{{Tasks: 1, Leaves: 2}}, Preempt: lift})
			if !ok || len(res.Placement.Binds) != 2 {
				t.Errorf("%s: found %v in %d preassigned cells, want 2; %s", name, ok, len(res.Placement.Binds), res.Bounds)
			}
		}
	}
}

// Two nodes of four leaves, each of a chain of its own: the one that takes the largest
// task takes the smallest, too, or the others find no room.
func TestTheSmallestGoesWithTheLargest(t *testing.T) {
	spec := &Spec{VCs: []VCSpec{{Name: "v"}}}
	for _, sku := range []TypeName{"A", "B"} {
		spec.SKUs = append(spec.SKUs, SKU{Name: sku})
		spec.Chains = append(spec.Chains, ChainSpec{Name: ChainName("N" + sku), Levels: []LevelSpec{{Type: sku}, {Type: "N" + sku, Fanout: 4, IsNode: true}}})
		spec.VCs[0].Quota = append(spec.VCs[0].Quota, QuotaSpec{Chain: ChainName("N" + sku), Level: 2, Number: 1})
		node := CellSpec{Type: "N" + sku, Address: "n" + string(sku)}
		for i := range 4 {
			node.Children = append(node.Children, CellSpec{Type: sku, Address: fmt.Sprint(i)})
		}
		spec.Cells = append(spec.Cells, node)
	}
	c := mustNew(t, spec)
	for _, p := range []Priority{Opportunistic, 0} {
		q := Request{Space: 1, Priority: p, Members: []Member{{Tasks: 1, Leaves: 3}, {Tasks: 2, Leaves: 2}, {Tasks: 1, Leaves: 1}}}
		res, ok := c.Place(&q)
		if !ok {
			t.Errorf("priority %d: no room for 3 and 1 on one node, 2 and 2 on the other; %s", p, res.Bounds)
			continue
		}
		if at := res.Placement.Tasks; at[0].Node != at[3].Node || at[1].Node != at[2].Node || at[0].Node == at[1].Node {
			t.Errorf("priority %d: placed %+v", p, at)
		}
	}
}
