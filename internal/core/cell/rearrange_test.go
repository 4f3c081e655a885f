package cell_test

import (
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/test/seeds"
)

// again guarantees an allocation that it takes to a cluster, and takes other cells for those that
// are there where nothing else helps, as a change of the configuration does. It returns the scope
// in which that helped, by its place; -1 for none.
func again(t *testing.T, c *cell.Cluster, kept []cell.AllocID, a *cell.Alloc) (id cell.AllocID, scope int, ok bool) {
	p := a.Placement
	p.Binds = nil
	var started []cell.Started
	for _, task := range p.Tasks {
		s := cell.Started{Task: task}
		if space, root := c.RootOver(c.Forest().Leaves[task.Leaves[0]]); space != cell.None {
			s.Pinned = c.Space(space).Roots[root].Pinned
		}
		started = append(started, s)
	}
	id = c.Take(a.Space, a.Priority, p, false)
	c.Demote(id)
	if binds, ok := c.Upgradable(id); ok {
		c.Upgrade(id, binds)
		return id, -1, true
	}
	for i, scope := range c.Scopes(a.Space) {
		before := c.Dump()
		binds, ok := c.Rearrange(a.Space, c.Rivals(scope, kept, &p), &p, started)
		if ok {
			c.Upgrade(id, binds)
			return id, i, true
		}
		if c.Dump() != before {
			t.Fatalf("Rearrange in scope %d, in vain, changed the cluster from\n%s\nto\n%s", scope, before, c.Dump())
		}
	}
	return id, 0, false
}

// What stood guaranteed together stands so in any order: whoever takes the cells that a later
// one needs, of its own VC, of one inside the same container or of any, gets others.
func TestWhatStoodTogetherStandsInAnyOrder(t *testing.T) {
	helped := [4]int{}
	for seed := range seeds.Of(t, 1500) {
		r := rand.New(rand.NewPCG(seed, 43))
		c, spec := divided(t, r)
		w := around{c: c}
		for range 8 {
			w.fill(r)
			if r.IntN(3) == 0 {
				w.leave(r)
			}
		}
		next, err := cell.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(w.live), func(i, k int) { w.live[i], w.live[k] = w.live[k], w.live[i] })
		var kept []cell.AllocID
		for _, id := range w.live {
			now, scope, ok := again(t, next, kept, c.Alloc(id))
			if !ok {
				t.Fatalf("seed %d: allocation %d of %q on %v finds no cells beside those who stood beside it: %s\nbefore %s", seed, id,
					c.Space(c.Alloc(id).Space).Name, c.Alloc(id).Placement, next.Dump(), c.Dump())
			}
			if kept = append(kept, now); scope >= 0 {
				helped[scope]++
			}
			if err := next.Verify(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	t.Log(helped)
	for scope, n := range helped {
		if n == 0 && seeds.Modest() {
			t.Errorf("nobody was helped by scope %d: %v", scope, helped)
		}
	}
}
