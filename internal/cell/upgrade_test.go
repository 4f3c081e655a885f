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
