package cell_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/test/seeds"
	"github.com/combsched/comb/internal/test/twin"
)

// divided is a cluster of one rack or two in which VC a divides its cells among children, of which
// one divides them again, and b stands beside it. The quotas are drawn cell by cell, as long
// as they fit, most of them of a's family.
func divided(t *testing.T, r *rand.Rand) (*cell.Cluster, *cell.Spec) {
	size := 1 + r.IntN(8)/7
	spec := racks(size)
	spec.VCs = []cell.VCSpec{{Name: "a"}, {Name: "a.x", Parent: "a"}, {Name: "a.x.u", Parent: "a.x"}, {Name: "a.y", Parent: "a"}, {Name: "b"}}
	if r.IntN(4) == 0 {
		spec.Cells[0].Children[0].Pinned, spec.VCs[2].Pinned = pin, []cell.PinnedID{pin}
	}
	c, err := cell.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 / size {
		more := *spec
		more.VCs = slices.Clone(spec.VCs)
		v := &more.VCs[r.IntN(len(more.VCs))]
		v.Quota = append(slices.Clip(v.Quota), cell.QuotaSpec{Chain: "RACK", Level: cell.Level(1 + r.IntN(4)), Number: 1 + r.Int32N(2)})
		if larger, err := cell.New(&more); err == nil {
			c, spec = larger, &more
		}
	}
	return c, spec
}

// around is a history of a cluster of nested VCs.
type around struct {
	c      *cell.Cluster
	live   []cell.AllocID
	shifts int // found
}

// fill places some guaranteed gangs, of random shapes on random nodes.
func (w *around) fill(r *rand.Rand) {
	for range 1 + r.IntN(6) {
		q := cell.Request{Space: 1 + r.Int32N(w.c.NumSpaces()-1), Members: []cell.Member{{Tasks: 1 + r.Int32N(2), Leaves: 1 + r.Int32N(4)}}}
		if pinned(w.c, q.Space) && r.IntN(2) == 0 {
			q.Members = append(q.Members, cell.Member{Tasks: 1, Leaves: 1 + r.Int32N(2), Pinned: pin})
		}
		if r.IntN(2) == 0 {
			q.Avoided = q.Avoided.Add(r.Int32N(int32(len(w.c.Forest().Nodes))))
		}
		if res, ok := w.c.Place(&q); ok {
			w.live = append(w.live, w.c.Take(q.Space, q.Priority, res.Placement, false))
		}
	}
}

// pinned reports whether a VC has the pinned cell.
func pinned(c *cell.Cluster, space int32) bool {
	return slices.ContainsFunc(c.Space(space).Roots, func(r cell.Root) bool { return r.Pinned == pin })
}

// pinnedAlike reports whether the leaves of an allocation that lie in its VC's pinned cell do
// so in another cluster, and no others.
func pinnedAlike(c, next *cell.Cluster, a *cell.Alloc) bool {
	in := func(c *cell.Cluster, l cell.LeafID) bool {
		space, root := c.RootOver(c.Forest().Leaves[l])
		return space != cell.None && c.Space(space).Name == "a.x.u" && c.Space(space).Roots[root].Pinned == pin
	}
	for _, t := range a.Placement.Tasks {
		for _, l := range t.Leaves {
			if in(c, l) != in(next, l) {
				return false
			}
		}
	}
	return true
}

// leave ends an allocation.
func (w *around) leave(r *rand.Rand) {
	if len(w.live) > 0 {
		i := r.IntN(len(w.live))
		w.c.Release(w.live[i])
		w.live = slices.Delete(w.live, i, i+1)
	}
}

// shift asks for charges elsewhere for each VC, with answers at random: asking changes nothing, and
// what comes of it leaves every guarantee safe.
func (w *around) shift(t *testing.T, r *rand.Rand) {
	before := w.c.Dump()
	for v := int32(1); v < w.c.NumSpaces(); v++ {
		asked, idle := 0, r.IntN(2)
		sh, ok := w.c.MoveCharges(&cell.ChargeMoveRequest{Space: v, Chains: slices.Repeat([]bool{true}, len(w.c.Forest().Chains)),
			Idle:  func(space int32, _ int16) bool { return space%2 == int32(idle) },
			Needs: func(int32, int16) bool { return r.IntN(3) == 0 },
			Fits:  func() bool { asked++; return asked == 1 || asked > 2 && r.IntN(3) > 0 }})
		if after := w.c.Dump(); after != before {
			t.Fatalf("Shift for space %d changed the cluster from\n%s\nto\n%s", v, before, after)
		}
		if !ok {
			continue
		}
		if len(sh.Doomed) > 0 {
			w.shifts++
		}
		if !w.c.WithChargesMoved(sh, func() bool {
			if err := w.c.Verify(); err != nil {
				t.Fatalf("shifted by %+v: %v; before\n%s", sh, err, before)
			}
			return true
		}) || w.c.Dump() != before {
			t.Fatalf("Shifted by %+v refused, or changed the cluster from\n%s\nto\n%s", sh, before, w.c.Dump())
		}
	}
}

// settle charges bad hardware to VCs, as far as it must and may be. Asking changes nothing,
// and a charge leaves every guarantee safe.
func (w *around) settle(t *testing.T) {
	for {
		before := w.c.Dump()
		recovered := w.c.UnneededCharges()
		if after := w.c.Dump(); after != before {
			t.Fatalf("Recovered changed the cluster from\n%s\nto\n%s", before, after)
		}
		if recovered != nil {
			for _, ch := range recovered {
				w.c.Undoom(ch.Space, ch.Root)
			}
			continue
		}
		space, root, id, ok := w.c.DueCharge()
		if after := w.c.Dump(); after != before {
			t.Fatalf("Ailing changed the cluster from\n%s\nto\n%s", before, after)
		}
		if !ok {
			return
		}
		w.c.Doom(space, root, id)
		if err := w.c.Verify(); err != nil {
			t.Fatalf("charged space %d for cell %d: %v; before\n%s", space, id, err, before)
		}
	}
}

// Inside VCs that are divided further, an allocation that became opportunistic is guaranteed
// again whenever any way to bind cells around its leaves allows it, also on a cluster with
// bad hardware and after others came and went.
func TestUpgradeInNestedVCs(t *testing.T) {
	found, none := 0, 0
	for seed := range seeds.Of(t, 600) {
		r := rand.New(rand.NewPCG(seed, 31))
		c, _ := divided(t, r)
		w, tw := around{c: c}, twin.Of(c)
		for range 4 {
			w.fill(r)
			for _, id := range w.live {
				if !c.Alloc(id).Lazy && r.IntN(2) == 0 {
					c.Demote(id)
				}
			}
			w.fill(r)
			if seed%2 == 0 {
				c.SetLeafBad(cell.LeafID(r.IntN(len(c.Forest().Leaves))), r.IntN(3) > 0)
			}
			w.settle(t)
			for _, id := range w.live {
				if !c.Alloc(id).Lazy {
					continue
				}
				before := c.Dump()
				binds, ok := c.Upgradable(id)
				if c.Dump() != before {
					t.Fatalf("seed %d: Upgradable changed the cluster from\n%s\nto\n%s", seed, before, c.Dump())
				}
				if may := tw.Upgrades(id); ok != may {
					t.Fatalf("seed %d: allocation %d of %q on %v may be guaranteed again: %v, it is found: %v; %s",
						seed, id, c.Space(c.Alloc(id).Space).Name, c.Alloc(id).Placement, may, ok, before)
				}
				if none++; ok {
					found, none = found+1, none-1
				}
				if ok && r.IntN(2) == 0 {
					c.Upgrade(id, binds)
				}
			}
			w.settle(t)
			if err := c.Verify(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			w.leave(r)
		}
	}
	if seeds.Modest() && (found < 300 || none < 100) {
		t.Errorf("only %d upgrades that may be and %d that may not", found, none)
	}
}

// carry takes all that w holds to another cluster, guaranteed allocations first, as a change
// of the configuration does. It returns what it took there, in that order.
func (w *around) carry(t *testing.T, next *cell.Cluster) (now []cell.AllocID) {
	for _, id := range w.live {
		a := w.c.Alloc(id)
		vc := next.SpaceOf(w.c.Space(a.Space).Name)
		before := next.Dump()
		var started []cell.Started
		for _, task := range a.Placement.Tasks {
			started = append(started, cell.Started{Task: task, Origin: w.c.Origin(&task)})
		}
		got := next.Carry(w.c, vc, a, started)
		if next.Dump() != before {
			t.Fatalf("Carry changed the cluster from\n%s\nto\n%s", before, next.Dump())
		}
		now = append(now, next.Take(max(vc, 0), a.Priority, got.Placement, false))
		if got.Lazy {
			next.Demote(now[len(now)-1])
			if tw := twin.Of(next); pinnedAlike(w.c, next, a) && tw.Upgrades(now[len(now)-1]) {
				t.Fatalf("allocation %d of %q on %v lost its guarantee, which it could keep: %s", id, next.Space(vc).Name, got.Placement, next.Dump())
			}
		}
	}
	if err := next.Verify(); err != nil {
		t.Fatal(err)
	}
	return now
}

// A change of the configuration takes the guarantee from nobody whose VC has, and may have
// bound, cells around its leaves; and who keeps the cells of its VC keeps the guarantee,
// whoever was carried over before.
func TestGuaranteesAreCarriedOverInNestedVCs(t *testing.T) {
	lost, kept := 0, 0
	for seed := range seeds.Of(t, 600) {
		r := rand.New(rand.NewPCG(seed, 37))
		c, spec := divided(t, r)
		w := around{c: c}
		for range 12 {
			w.fill(r)
			if r.IntN(3) == 0 {
				w.leave(r)
			}
		}
		same, err := cell.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(w.live), func(i, k int) { w.live[i], w.live[k] = w.live[k], w.live[i] })
		for _, id := range w.carry(t, same) {
			if same.Alloc(id).Lazy {
				t.Fatalf("seed %d: nothing changed, but allocation %d of %q on %v lost its guarantee: %s", seed, id,
					same.Space(same.Alloc(id).Space).Name, same.Alloc(id).Placement, same.Dump())
			}
		}
		other, _ := divided(t, r)
		if len(other.Forest().Leaves) < len(c.Forest().Leaves) {
			continue
		}
		for _, id := range w.carry(t, other) {
			if kept++; other.Alloc(id).Lazy {
				lost, kept = lost+1, kept-1
			}
		}
	}
	if seeds.Modest() && (kept < 200 || lost < 200) {
		t.Errorf("only %d guarantees were kept and %d lost", kept, lost)
	}
}

// A charge that is taken away for a look comes back with the cells of the containers around it
// where they were, though other roots of these are unbound by then.
func TestChargesInNestedVCs(t *testing.T) {
	charges, shifts := 0, 0
	for seed := range seeds.Of(t, 300) {
		r := rand.New(rand.NewPCG(seed, 41))
		level := func(l cell.Level, n int32) []cell.QuotaSpec {
			return []cell.QuotaSpec{{Chain: "RACK", Level: l, Number: n}}
		}
		spec := racks(1)
		spec.VCs = []cell.VCSpec{{Name: "a", Quota: level(2, 2)}, {Name: "a.x", Parent: "a", Quota: level(2, 2)},
			{Name: "a.x.u", Parent: "a.x", Quota: level(1, 3)}, {Name: "b", Quota: level(2, 1)}}
		c, err := cell.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		w := around{c: c}
		for range 20 {
			if r.IntN(3) == 0 {
				w.fill(r)
			}
			for range 1 + r.IntN(3) {
				c.SetLeafBad(cell.LeafID(r.IntN(len(c.Forest().Leaves))), r.IntN(3) > 0)
			}
			w.settle(t)
			charges += c.NumCharges()
			w.shift(t, r)
			w.leave(r)
		}
		shifts += w.shifts
	}
	if (charges < 100 || shifts < 100) && seeds.Modest() {
		t.Errorf("only %d charges and %d that go elsewhere", charges, shifts)
	}
}
