package cell

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/test/seeds"
)

// family is a cluster of racks whose VC a divides its cells among children, one of
// which divides them again; b stands beside it.
func family() *Spec {
	s := small(4)
	s.VCs = []VCSpec{
		{Name: "a", Quota: quota(4, 1, 3, 2)},
		{Name: "a.x", Parent: "a", Quota: quota(3, 2)},
		{Name: "a.x.u", Parent: "a.x", Quota: quota(2, 1, 1, 1)},
		{Name: "a.x.v", Parent: "a.x", Quota: quota(3, 1)},
		{Name: "a.y", Parent: "a", Quota: quota(2, 1)},
		{Name: "b", Quota: quota(4, 1, 1, 3)},
	}
	return s
}

// A VC that has children keeps for its own jobs what no child has, split as
// little as possible.
func TestRestOfAParent(t *testing.T) {
	c := mustNew(t, family())
	want := map[VCName]string{
		// a rack and two nodes less two nodes and a switch: the two nodes go to x, and
		// the rack is split for the switch.
		"a":     "[1x2 1x3]",
		"a.x":   "[1x1]",
		"a.x.u": "[1x1 1x2]",
		"a.x.v": "[1x3]",
		"a.y":   "[1x2]",
		"b":     "[1x4 3x1]",
	}
	for i := int32(1); i < c.NumSpaces(); i++ {
		n := map[Level]int{}
		for _, r := range c.Space(i).Roots {
			n[r.Level]++
		}
		var got []string
		for l, k := range n {
			got = append(got, fmt.Sprintf("%dx%d", k, l))
		}
		slices.Sort(got)
		if text := fmt.Sprint(got); text != want[c.Space(i).Name] {
			t.Errorf("%s owns %s, want %s", c.Space(i).Name, text, want[c.Space(i).Name])
		}
	}
	for _, bad := range [][]VCSpec{
		{{Name: "a", Quota: quota(3, 1)}, {Name: "a.x", Parent: "a", Quota: quota(3, 2)}},
		{{Name: "a", Quota: quota(2, 2)}, {Name: "a.x", Parent: "a", Quota: quota(3, 1)}},
		{{Name: "a", Parent: "b"}, {Name: "b", Parent: "a"}},
		{{Name: "a", Parent: "a"}},
		{{Name: "a.x", Parent: "a"}},
	} {
		s := small(2)
		s.VCs = bad
		if _, err := New(s); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// allGuaranteesAtOnce places everything that every VC is still owed, all at once,
// with the opportunistic work gone: the guarantee as users know it.
func allGuaranteesAtOnce(c *Cluster, order []int32) error {
	d := c.Clone()
	for id := range d.allocs {
		if d.allocs[id].live && d.allocs[id].Opportunistic() {
			d.Release(AllocID(id))
		}
	}
	for _, space := range order {
		owed := map[Level]int{}
		for _, r := range d.spaces[space].Roots {
			if r.Cell == None {
				owed[r.Level]++
			}
		}
		for l := Level(4); l >= 1; l-- {
			for range owed[l] {
				ch := &d.f.Chains[0]
				q := Request{Space: space, Members: []Member{{Tasks: 1, Leaves: ch.LeavesAt(l)}}}
				if l > ch.NodeLevel {
					q.Members[0] = Member{Tasks: ch.LeavesAt(l) / ch.LeavesAt(ch.NodeLevel), Leaves: ch.LeavesAt(ch.NodeLevel)}
				}
				res, ok := d.Place(&q)
				if !ok {
					return fmt.Errorf("%s cannot get its cell of level %d", d.spaces[space].Name, l)
				}
				d.Take(space, 0, res.Placement, false)
			}
		}
	}
	return nil
}

// Nested VCs in random histories: every invariant holds after every step, Place
// changes nothing, a clone and a cluster built anew from the same allocations are
// equal, and every VC at every depth can have all that it is owed at once.
func TestNestedHistories(t *testing.T) {
	probes := 0
	for seed := range seeds.Of(t, 60) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := mustNew(t, family())
		var live []AllocID
		for step := range 60 {
			switch k := r.IntN(10); {
			case k < 3 && len(live) > 0:
				i := r.IntN(len(live))
				c.Release(live[i])
				live = slices.Delete(live, i, i+1)
			case k == 3 && seed%2 == 0:
				c.SetLeafBad(LeafID(r.IntN(len(c.f.Leaves))), r.IntN(2) == 0)
			case k == 4 && len(live) > 0:
				if id := live[r.IntN(len(live))]; !c.allocs[id].Opportunistic() {
					c.Demote(id)
				} else if binds, ok := c.Upgradable(id); ok {
					c.Upgrade(id, binds)
				}
			default:
				q := randomRequest(r)
				q.Space = 1 + r.Int32N(c.vcs)
				before := c.dump()
				res, ok := c.Place(&q)
				if c.dump() != before {
					t.Fatalf("seed %d step %d: Place changed the cluster", seed, step)
				}
				if ok {
					live = append(live, c.Take(q.Space, q.Priority, res.Placement, false))
				}
			}
			c.settleHealth()
			if err := c.Verify(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if c.badCount == 0 && step%5 == 0 {
				probes++
				order := []int32{1, 2, 3, 4, 5, 6}
				r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
				if err := allGuaranteesAtOnce(c, order); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
			if step%20 == 19 {
				rebuilt(t, c)
			}
		}
		for _, id := range live {
			c.Release(id)
		}
		for l := range c.f.Leaves {
			c.SetLeafBad(LeafID(l), false)
		}
		c.settleHealth()
		if fresh := mustNew(t, family()); c.dump() != fresh.dump() {
			t.Fatalf("seed %d: when all is over the cluster is\n%s\ninstead of\n%s", seed, c.dump(), fresh.dump())
		}
	}
	if probes < 100 && seeds.Modest() {
		t.Errorf("only %d probes of the guarantees", probes)
	}
}

// rebuilt makes the same cluster again as a restart does: health, the bindings
// that no allocation accounts for, then the allocations, in another order.
func rebuilt(t *testing.T, c *Cluster) {
	t.Helper()
	d := mustNew(t, family())
	for l := range c.f.Leaves {
		d.SetLeafBad(LeafID(l), c.LeafBad(LeafID(l)))
	}
	d.Rebind(c.UnownedBinds())
	for id := len(c.allocs) - 1; id >= 0; id-- {
		if a := &c.allocs[id]; a.live {
			pl := a.Placement
			if a.Lazy {
				pl.Binds = nil
			}
			got := d.Take(a.Space, a.Priority, pl, a.Promised)
			if a.Lazy {
				d.Demote(got)
			}
		}
	}
	if err := d.Verify(); err != nil {
		t.Fatalf("built anew: %v", err)
	}
	if a, b := fmt.Sprint(c.spaces[0].free, c.spaces[7:], c.idle, c.owner), fmt.Sprint(d.spaces[0].free, d.spaces[7:], d.idle, d.owner); a != b {
		t.Fatalf("built anew it is\n%s\ninstead of\n%s", b, a)
	}
}
