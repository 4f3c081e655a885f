package cell

import (
	"fmt"
	"testing"
)

// What a VC sees of its nodes, and in which order, is the same alone on its cells and beside
// others, wherever these are: the nodes in its cells in its own order, then as many free ones as it
// has cells that are not bound.
func TestSamplesAreTheVCsOwn(t *testing.T) {
	for others := range int32(6) {
		alone, shared := mustNew(t, small(1, quota(3, 2))), mustNew(t, small(4, quota(3, 2), quota(3, 6)))
		both := [...]*Cluster{alone, shared}
		take := func(c *Cluster, space, leaves int32) AllocID {
			t.Helper()
			res, ok := c.Place(&Request{Space: space, Members: []Member{{Tasks: 1, Leaves: leaves}}})
			if !ok {
				t.Fatalf("no room for %d leaves", leaves)
			}
			return c.Take(space, 0, res.Placement, false)
		}
		see := func(when, want string) {
			t.Helper()
			for i, c := range both {
				var seen []int32
				for _, s := range c.Samples(1, 4) {
					seen = append(seen, s.Idle)
				}
				if got := fmt.Sprint(seen); got != want {
					t.Errorf("%s, beside %d nodes of another VC (%v): %s, want %s", when, others, i == 1, got, want)
				}
			}
		}
		var gone [2]AllocID
		for range others {
			take(shared, 2, 4)
		}
		see("at first", "[4 4]")
		for i, c := range both {
			gone[i] = take(c, 1, 3)
		}
		see("with a gang", "[1 4]")
		if others < 6 {
			take(shared, 2, 4)
		}
		for _, c := range both {
			take(c, 1, 2)
		}
		see("with two", "[1 2]")
		for i, c := range both {
			c.Release(gone[i])
		}
		see("with the second", "[2 4]")
	}
}

// Of a node of which a VC has parts it sees these, and what is free there for others of its cells;
// what others have on it is not counted.
func TestSamplesOfParts(t *testing.T) {
	c := mustNew(t, small(1, quota(2, 2), quota(2, 1)))
	for space := int32(1); space <= 2; space++ {
		res, ok := c.Place(&Request{Space: space, Members: []Member{{Tasks: 1, Leaves: 1}}})
		if !ok {
			t.Fatal("no room")
		}
		c.Take(space, 0, res.Placement, false)
	}
	for space, want := range map[int32]int32{1: 1 + 2, 2: 1} {
		var n int32
		for _, s := range c.Samples(space, 4) {
			n += s.Idle
		}
		if n != want {
			t.Errorf("space %d sees %d idle leaves, want %d: %v", space, n, want, c.Samples(space, 4))
		}
	}
}
