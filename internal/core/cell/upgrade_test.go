package cell

import (
	"slices"
	"testing"
)

// An allocation that became opportunistic is guaranteed again on its leaves when
// its VC's cells can stand there, and not while another VC's do.
func TestUpgrade(t *testing.T) {
	c := mustNew(t, small(2, quota(3, 2), quota(3, 2)))
	place := func(space int32, node ...int32) (Placement, bool) {
		q := Request{Space: space, Members: []Member{{Tasks: 1, Leaves: 4}}}
		for _, n := range node {
			q.Allowed = q.Allowed.Add(n)
		}
		res, ok := c.Place(&q)
		return res.Placement, ok
	}
	pl, _ := place(1, 0)
	id := c.Take(1, 0, pl, false)
	before := c.dump()
	c.Demote(id)
	binds, ok := c.Upgradable(id)
	if !ok || !slices.Equal(binds, pl.Binds) {
		t.Fatalf("free cells around it: got %v %v, want %v", binds, ok, pl.Binds)
	}
	c.Upgrade(id, binds)
	if after := c.dump(); after != before {
		t.Errorf("upgrade is not the inverse of demote:\n%s\n%s", before, after)
	}
	c.Demote(id)
	var others []AllocID
	for n := int32(1); n < 3; n++ {
		pl, ok := place(1, n)
		if !ok {
			t.Fatal("no room for the other cells of the VC")
		}
		others = append(others, c.Take(1, 0, pl, false))
	}
	if binds, ok := c.Upgradable(id); ok {
		t.Errorf("the VC has no cell left, but got %v", binds)
	}
	c.Release(others[0])
	if _, ok := c.Upgradable(id); !ok {
		t.Error("a cell of the VC is free again, but it stays opportunistic")
	}
	if err := c.Verify(); err != nil {
		t.Error(err)
	}
}

// An allocation is not guaranteed again where that would leave another VC without
// cells that it is owed, though nobody uses these yet.
func TestUpgradeIsJudged(t *testing.T) {
	c := mustNew(t, small(2, quota(3, 1), quota(4, 1, 3, 1)))
	take := func(space, node int32) AllocID {
		q := Request{Space: space, Members: []Member{{Tasks: 1, Leaves: 4}}, Allowed: NodeSet{}.Add(node)}
		res, ok := c.Place(&q)
		if !ok {
			t.Fatalf("no room for space %d on node %d", space, node)
		}
		return c.Take(space, 0, res.Placement, false)
	}
	id := take(1, 0)
	c.Demote(id)
	other := take(2, 2) // in the second rack, so the first is the one that is owed
	if binds, ok := c.Upgradable(id); ok {
		t.Errorf("the rack that the other VC is owed would be split: %v", binds)
	}
	c.Release(other)
	if _, ok := c.Upgradable(id); !ok {
		t.Error("either rack may be split again, but it stays opportunistic")
	}
}
