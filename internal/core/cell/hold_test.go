package cell

import (
	"slices"
	"testing"
)

// What is held is held against others of the VC, and given back without a trace.
func TestHold(t *testing.T) {
	c := mustNew(t, small(2, quota(3, 2), quota(3, 2)))
	node := func(space, n int32) Placement {
		q := Request{Space: space, Members: []Member{{Tasks: 1, Leaves: 4}}, Allowed: NodeSet{}.Add(n)}
		res, ok := c.Place(&q)
		if !ok {
			t.Fatalf("space %d finds no room on node %d", space, n)
		}
		return res.Placement
	}
	before := c.dump()
	plan := node(1, 2).Binds
	held, ok := c.Hold(1, plan)
	if !ok || len(held) != 1 {
		t.Fatalf("held %v, %v", held, ok)
	}
	pair := Request{Space: 1, Members: []Member{{Tasks: 2, Leaves: 4}}, Excluded: LeafSet{}}
	for l := range c.f.NumLeaves(plan[0].Cell) {
		pair.Excluded = pair.Excluded.Add(c.f.Cells[plan[0].Cell].FirstLeaf + LeafID(l))
	}
	if res, ok := c.Place(&pair); ok {
		t.Errorf("the VC has one cell left, but two nodes were found: %+v", res.Placement)
	}
	c.Unhold(1, held)
	if after := c.dump(); after != before {
		t.Errorf("it left a trace:\n%s\n%s", before, after)
	}
	if _, ok := c.Place(&pair); !ok {
		t.Error("with both its cells the VC finds no two nodes")
	}

	// Another VC takes that node: the plan moves to a like one.
	id := c.Take(2, 0, node(2, 2), false)
	if _, ok := c.Hold(1, plan); ok {
		t.Error("a cell of another VC was held")
	}
	now, held, ok := c.HoldAnew(1, plan)
	if !ok || len(now) != 1 || now[0].Root != plan[0].Root || now[0].Cell == plan[0].Cell || len(held) != 1 {
		t.Errorf("it moved to %v (held %v, %v), from %v", now, held, ok, plan)
	}
	c.Unhold(1, held)
	c.Release(id)
	if after := c.dump(); after != before {
		t.Errorf("it left a trace:\n%s\n%s", before, after)
	}
	if err := c.Verify(); err != nil {
		t.Error(err)
	}
}

// A plan of a VC that is part of others names cells of theirs too, by numbers that
// mean nothing among its own.
func TestHoldNested(t *testing.T) {
	spec := small(3)
	spec.VCs = []VCSpec{{Name: "a", Quota: quota(2, 1, 4, 2)}, {Name: "a.x", Parent: "a", Quota: quota(4, 1)}}
	c := mustNew(t, spec)
	x := c.SpaceOf("a.x")
	res, ok := c.Place(&Request{Space: x, Members: []Member{{Tasks: 2, Leaves: 4}}})
	if !ok {
		t.Fatal("no room")
	}
	plan := res.Placement.Binds
	if len(plan) != 2 || plan[0].Space == 0 || int(plan[0].Root) < len(c.spaces[x].Roots) {
		t.Fatalf("the plan shows nothing: %v", plan)
	}
	before := c.dump()
	now, held, ok := c.HoldAnew(x, plan)
	if !ok || !slices.Equal(now, plan) || len(held) != 1 {
		t.Errorf("held %v (%v, %v) for %v", now, held, ok, plan)
	}
	c.Unhold(x, held)
	if after := c.dump(); after != before {
		t.Errorf("it left a trace:\n%s\n%s", before, after)
	}
}

// Leaves that are promised stand in nobody's way once the promise is past.
func TestPlaceLater(t *testing.T) {
	c := mustNew(t, small(1, quota(3, 2)))
	q := Request{Space: 1, Members: []Member{{Tasks: 2, Leaves: 4}}}
	res, ok := c.Place(&q)
	if !ok {
		t.Fatal("no room")
	}
	id := c.Take(1, 0, res.Placement, true)
	before := c.dump()
	if _, ok := c.Place(&q); ok {
		t.Error("promised leaves were given away")
	}
	if _, ok := c.PlaceLater(&q, []AllocID{id}); !ok {
		t.Error("it does not fit after the promise is past")
	}
	if after := c.dump(); after != before || c.Verify() != nil {
		t.Errorf("it left a trace (%v):\n%s\n%s", c.Verify(), before, after)
	}
}

func TestLeafSets(t *testing.T) {
	set := func(ls ...LeafID) LeafSet {
		var s LeafSet
		for _, l := range ls {
			s = s.Add(l)
		}
		return s
	}
	a, b := set(1, 64, 200), set(2, 64)
	for name, c := range map[string]struct{ got, want LeafSet }{
		"with": {a.With(b), set(1, 2, 64, 200)}, "with, other way": {b.With(a), set(1, 2, 64, 200)},
		"without": {a.Without(b), set(1, 200)}, "without, other way": {b.Without(a), set(2)}, "with none": {a.With(nil), a},
	} {
		if !slices.Equal(slices.Collect(c.got.All()), slices.Collect(c.want.All())) {
			t.Errorf("%s: %v", name, slices.Collect(c.got.All()))
		}
	}
	if !a.Meets(b) || a.Meets(set(2, 65)) || b.Meets(nil) {
		t.Error("whether sets meet is told wrongly")
	}
}
