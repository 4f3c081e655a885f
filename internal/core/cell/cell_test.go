package cell

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/test/seeds"
)

// small is racks of two nodes of two switches of two leaves; quota entries are
// {level, number} per VC.
func small(racks int, quotas ...[]QuotaSpec) *Spec {
	s := &Spec{SKUs: []SKU{{Name: "G"}}, Chains: []ChainSpec{{Name: "RACK", Levels: []LevelSpec{{Type: "G"},
		{Type: "SWITCH", Fanout: 2}, {Type: "NODE", Fanout: 2, IsNode: true}, {Type: "RACK", Fanout: 2}}}}}
	for r := range racks {
		rack := CellSpec{Type: "RACK", Address: fmt.Sprint(r)}
		for n := range 2 {
			node := CellSpec{Type: "NODE", Address: fmt.Sprintf("n%d", 2*r+n)}
			for sw := range 2 {
				node.Children = append(node.Children, CellSpec{Type: "SWITCH", Address: fmt.Sprint(sw), Children: []CellSpec{
					{Type: "G", Address: fmt.Sprint(2 * sw)}, {Type: "G", Address: fmt.Sprint(2*sw + 1)}}})
			}
			rack.Children = append(rack.Children, node)
		}
		s.Cells = append(s.Cells, rack)
	}
	for i, q := range quotas {
		s.VCs = append(s.VCs, VCSpec{Name: VCName(fmt.Sprintf("v%d", i)), Quota: q})
	}
	return s
}

// lacking takes a node out of one rack.
func lacking(s *Spec, rack, node int) *Spec {
	s.Cells[rack].Children = slices.Delete(s.Cells[rack].Children, node, node+1)
	return s
}

// podded puts every two racks into a pod; of an odd number one is missing in the last.
func podded(s *Spec) *Spec {
	levels := append(s.Chains[0].Levels, LevelSpec{Type: "POD", Fanout: 2})
	s.Chains[0] = ChainSpec{Name: "POD", Levels: levels}
	var pods []CellSpec
	for racks := range slices.Chunk(s.Cells, 2) {
		pods = append(pods, CellSpec{Type: "POD", Address: fmt.Sprint("p", len(pods)), Children: racks})
	}
	s.Cells = pods
	for i := range s.VCs {
		for k := range s.VCs[i].Quota {
			s.VCs[i].Quota[k].Chain = "POD"
		}
	}
	return s
}

func quota(levelNumber ...int32) []QuotaSpec {
	var q []QuotaSpec
	for i := 0; i < len(levelNumber); i += 2 {
		q = append(q, QuotaSpec{Chain: "RACK", Level: Level(levelNumber[i]), Number: levelNumber[i+1]})
	}
	return q
}

func mustNew(t *testing.T, s *Spec) *Cluster {
	t.Helper()
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dump is all of a cluster that must come back after an undo.
func (c *Cluster) dump() string {
	spaces := slices.Clone(c.spaces)
	for i := range spaces {
		spaces[i].index = nil // Verify checks it; what was a class once may be empty
	}
	return fmt.Sprint(spaces, c.owner, c.leaves, c.idle, c.preemptible, c.bad, c.nodes)
}

// satisfiable is the safety guarantee in full, by brute force: all unbound roots
// of all VCs can be given disjoint cells at once out of the unbound ones,
// whatever opportunistic work is there; with healthy, disjoint healthy cells.
func (c *Cluster) satisfiable(healthy bool) bool {
	taken := make([]bool, len(c.f.Leaves))
	var owed []Level
	mark := func(id CellID, v bool) {
		first := c.f.Cells[id].FirstLeaf
		for l := first; l < first+LeafID(c.f.NumLeaves(id)); l++ {
			taken[l] = v
		}
	}
	for si := 1; si < len(c.spaces); si++ {
		for _, r := range c.spaces[si].Roots {
			if r.Cell == None {
				owed = append(owed, r.Level)
			} else {
				mark(r.Cell, true)
			}
		}
	}
	slices.Sort(owed)
	slices.Reverse(owed)
	free := func(id CellID) bool {
		first := c.f.Cells[id].FirstLeaf
		return !slices.Contains(taken[first:first+LeafID(c.f.NumLeaves(id))], true) && (!healthy || c.bad[id] == 0)
	}
	var try func(i int, from CellID) bool
	try = func(i int, from CellID) bool {
		if i == len(owed) {
			return true
		}
		if i == 0 || owed[i] != owed[i-1] {
			from = 0
		}
		for id := from; int(id) < len(c.f.Cells); id++ {
			if c.f.Cells[id].Level == owed[i] && c.f.Whole(id) && free(id) {
				mark(id, true)
				ok := try(i+1, id+1)
				mark(id, false)
				if ok {
					return true
				}
			}
		}
		return false
	}
	return try(0, 0)
}

// feasible is the twin of Place without Preemptible for a VC: it tries every injection
// of the VC's unbound roots into cells that keeps all guarantees satisfiable, and
// every assignment of tasks to nodes.
func (c *Cluster) feasible(space int32, tasks []int32) bool {
	unbound := -1
	for i, r := range c.spaces[space].Roots {
		if r.Cell == None {
			unbound = i
			break
		}
	}
	if c.packable(space, tasks) {
		return true
	}
	if unbound < 0 {
		return false
	}
	tried := false
	for i := unbound; i < len(c.spaces[space].Roots); i++ {
		r := &c.spaces[space].Roots[i]
		if r.Cell != None || tried && c.spaces[space].Roots[i-1].Level == r.Level && c.spaces[space].Roots[i-1].Cell == None {
			continue
		}
		tried = true
		for id := range c.f.Cells {
			if c.f.Cells[id].Level != r.Level || !c.bindAny(space, RootID(i), CellID(id)) {
				continue
			}
			ok := c.feasible(space, tasks)
			c.unbind(space, RootID(i))
			if ok {
				return true
			}
		}
	}
	return false
}

// bindAny binds if the brute-force check allows it; it must agree with bind.
func (c *Cluster) bindAny(space int32, r RootID, id CellID) bool {
	sound := c.satisfiable(true)
	if sound != (c.shortLevel(0, 0) == 0) {
		panic(fmt.Sprintf("sound says %v, brute force says %v", !sound, sound))
	}
	if !c.carve(0, id) {
		return false
	}
	c.spaces[space].Roots[r].Cell = id
	ok := c.satisfiable(false) && (!sound || c.satisfiable(true))
	c.spaces[space].Roots[r].Cell = None
	c.restore(0, id)
	if got := c.bind(space, r, id); got != ok {
		panic(fmt.Sprintf("bind says %v, brute force says %v", got, ok))
	}
	return ok
}

func (c *Cluster) packable(space int32, tasks []int32) bool {
	var room []int32
	for _, id := range c.f.Chains[0].NodeCells {
		var n int32
		for l := c.f.Cells[id].FirstLeaf; l < c.f.Cells[id].FirstLeaf+LeafID(c.f.NumLeaves(id)); l++ {
			mine := slices.ContainsFunc(c.spaces[space].Roots, func(r Root) bool { return r.Cell != None && c.f.Contains(r.Cell, c.f.Leaves[l]) })
			if mine && c.use(l) == useIdle {
				n++
			}
		}
		room = append(room, n)
	}
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(tasks) {
			return true
		}
		for k := range room {
			if room[k] >= tasks[i] {
				room[k] -= tasks[i]
				ok := try(i + 1)
				room[k] += tasks[i]
				if ok {
					return true
				}
			}
		}
		return false
	}
	return try(0)
}

// Random clusters: every invariant holds after every step, Place changes
// nothing, all guarantees stay satisfiable by brute force, and what Place finds
// or does not find is what brute force finds.
func TestPlaceAgreesWithBruteForce(t *testing.T) {
	missed, asked, dooms := 0, 0, 0
	for seed := range seeds.Of(t, 300) {
		r := rand.New(rand.NewPCG(seed, 7))
		specs := []*Spec{small(1, quota(3, 1), quota(3, 1)), small(1, quota(2, 1, 1, 1), quota(3, 1)),
			small(2, quota(4, 1), quota(3, 1, 2, 1)), small(1, quota(2, 2), quota(2, 1, 1, 2)),
			lacking(small(2, quota(4, 1), quota(2, 1, 1, 1)), 0, 0), lacking(small(1, quota(2, 1), quota(2, 1)), 0, 1),
			podded(lacking(small(2, quota(4, 1), quota(3, 1)), 0, 1)), podded(lacking(small(1, quota(2, 1), quota(1, 1)), 0, 0)),
			podded(lacking(small(3, quota(5, 1), quota(3, 1)), 2, 0))}
		c := mustNew(t, specs[r.IntN(len(specs))])
		var live []AllocID
		for range 40 {
			switch k := r.IntN(10); {
			case k < 3 && len(live) > 0:
				i := r.IntN(len(live))
				c.Release(live[i])
				live = slices.Delete(live, i, i+1)
			case k == 3:
				c.SetLeafBad(LeafID(r.IntN(len(c.f.Leaves))), r.IntN(2) == 0)
			case k == 4:
				c.SetNodeFaults(int32(r.IntN(len(c.f.Nodes))), Down, r.IntN(2) == 0)
			default:
				q := randomRequest(r)
				before := c.dump()
				res, ok := c.Place(&q)
				if c.dump() != before {
					t.Fatalf("seed %d: Place changed the cluster", seed)
				}
				if q.Priority >= 0 {
					asked++
					missed += c.compareWithTwin(t, &q, ok)
				}
				if ok {
					live = append(live, c.Take(q.Space, q.Priority, res.Placement, false))
				}
			}
			dooms += c.settleHealth()
			if err := c.Verify(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !c.satisfiable(false) {
				t.Fatalf("seed %d: a guarantee cannot be met any more", seed)
			}
			if !c.satisfiable(true) {
				t.Fatalf("seed %d: a guarantee that no VC was charged for cannot be met on healthy cells", seed)
			}
		}
	}
	if missed > 0 {
		t.Errorf("Place missed %d of %d", missed, asked)
	}
	if dooms < 100 && seeds.Modest() {
		t.Errorf("only %d charges of bad hardware", dooms)
	}
}

// settleHealth charges bad hardware to VCs, or takes charges back, until nothing
// is due; it returns how many charges it made.
func (c *Cluster) settleHealth() (n int) {
	n = c.UpdateCharges()
	c.chargesNeeded()
	return n
}

// chargesNeeded checks that no unused charge could be taken back, by taking each back, with
// those inside it.
func (c *Cluster) chargesNeeded() {
	for _, ch := range c.Charges() {
		chain := c.rootOf(ch).Chain
		all, back := charging{c}.suspendAll(append(charging{c}.inside(ch), ch))
		if slices.Contains(all, ch) && c.shortLevel(c.spaces[ch.Space].Parent, chain) == 0 {
			panic(fmt.Sprintf("space %d is charged for cell %d without need", ch.Space, ch.Cell))
		}
		back()
	}
}

// compareWithTwin returns 1 when Place missed what brute force finds.
func (c *Cluster) compareWithTwin(t *testing.T, q *Request, ok bool) int {
	t.Helper()
	brute := c.feasible(q.Space, sizes(*q))
	if ok && !brute {
		t.Fatalf("Place found cells for %+v, brute force none", q.Members)
	}
	if !ok && brute {
		t.Logf("Place missed %+v", q.Members)
		return 1
	}
	return 0
}

func randomRequest(r *rand.Rand) Request {
	q := Request{Space: 1 + int32(r.IntN(2)), Priority: Priority(r.IntN(3) - 1)}
	for range 1 + r.IntN(2) {
		q.Members = append(q.Members, Member{Tasks: 1 + int32(r.IntN(2)), Leaves: 1 + int32(r.IntN(4))})
	}
	return q
}

func sizes(q Request) []int32 {
	var out []int32
	for _, m := range q.Members {
		for range m.Tasks {
			out = append(out, m.Leaves)
		}
	}
	return out
}

// What is missing in a cell is no leaf, no node and no child of it; the cells around it are
// not whole, and never free as one.
func TestCellsAreMissing(t *testing.T) {
	c := mustNew(t, podded(lacking(small(4), 0, 0)))
	f := c.Forest()
	if len(f.Leaves) != 28 || len(f.Nodes) != 7 || c.Idle(f.Chains[0].Tops[0]) != 12 || c.IdleCount() != 28 {
		t.Errorf("%d leaves, %d nodes, %d idle in the first pod, %d in all; want 28, 7, 12, 28", len(f.Leaves), len(f.Nodes), c.Idle(f.Chains[0].Tops[0]), c.IdleCount())
	}
	var roots []string
	for _, r := range c.Space(0).Roots {
		roots = append(roots, f.Path(r.Cell))
	}
	if got := fmt.Sprint(roots); got != "[p0/0/n1 p0/1 p1]" {
		t.Errorf("the largest whole cells are %v", got)
	}
	for path, whole := range map[string]bool{"p0": false, "p0/0": false, "p0/0/n1": true, "p0/1": true, "p1": true} {
		for id := range f.Cells {
			if f.Cells[id].Level > 0 && f.Path(CellID(id)) == path && f.Whole(CellID(id)) != whole {
				t.Errorf("%s is whole: %v", path, !whole)
			}
		}
	}
	for _, no := range []*Spec{small(1, quota(4, 1)), small(1, quota(3, 2)), small(2, quota(4, 2))} {
		if _, err := New(lacking(no, 0, 1)); err == nil {
			t.Errorf("%v is guaranteed, though a node is missing", no.VCs)
		}
	}
	spec := small(1)
	spec.Cells[0].Pinned, spec.VCs = "P", []VCSpec{{Name: "v", Pinned: []PinnedID{"P"}}}
	if _, err := New(lacking(spec, 0, 1)); err == nil {
		t.Error("a rack in which a node is missing is pinned")
	}
	spec = small(1)
	spec.Cells[0].Children[0].Children = spec.Cells[0].Children[0].Children[:1]
	if _, err := New(spec); err == nil {
		t.Error("a node with one of two switches is accepted")
	}
}

// Carving a cell and giving it back leaves exactly the same free lists.
func TestCarveRestoreAreInverse(t *testing.T) {
	c := mustNew(t, small(2))
	r := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		before := c.dump()
		var got []CellID
		for range 5 {
			if id := CellID(r.IntN(len(c.f.Cells))); c.carve(0, id) {
				got = append(got, id)
			}
		}
		for _, id := range got {
			c.restore(0, id)
		}
		if c.dump() != before {
			t.Fatalf("after %v: %s\nbefore %s", got, c.dump(), before)
		}
	}
}

// Victims: fewest, then least loss; nobody is lifted needlessly.
func TestVictims(t *testing.T) {
	c := mustNew(t, small(1, quota(3, 1), quota(3, 1)))
	take := func(node int32, n int32) AllocID {
		q := Request{Space: 2, Priority: Opportunistic, Members: []Member{{Tasks: 1, Leaves: n}}, Allowed: NodeSet{}.Add(node)}
		res, ok := c.Place(&q)
		if !ok {
			t.Fatal("no room")
		}
		return c.Take(2, Opportunistic, res.Placement, false)
	}
	a, b := take(0, 2), take(0, 2)
	d := take(1, 4)
	q := Request{Space: 1, Priority: 5, Members: []Member{{Tasks: 1, Leaves: 4}}, Preempt: &Preemptible{Opportunistic: true}}
	res, ok := c.Place(&q)
	if !ok || !slices.Equal(res.Victims, []AllocID{d}) {
		t.Errorf("4 leaves: lifted %v, want only %v (not %v and %v)", res.Victims, d, a, b)
	}
	q.Members[0].Leaves = 2
	q.Cost = func(x AllocID) Cost { return Cost{Lost: map[AllocID]int64{a: 9, b: 3, d: 5}[x]} }
	if res, ok = c.Place(&q); !ok || !slices.Equal(res.Victims, []AllocID{b}) {
		t.Errorf("2 leaves: lifted %v, want %v, who loses least", res.Victims, b)
	}
}

// Preferred nodes come first among equally good places, task by task: as many tasks
// as fit are on them, but not at the price of more nodes or a wider spread.
func TestPreferredNodes(t *testing.T) {
	for _, own := range [][]QuotaSpec{quota(3, 8), quota(4, 4)} {
		for _, free := range []bool{false, true} {
			c := mustNew(t, small(4, own))
			place := func(prefer []int32, tasks, leaves int32) []NodeName {
				t.Helper()
				q := Request{Space: 1, Members: []Member{{Tasks: tasks, Leaves: leaves}}}
				if free {
					q.Space, q.Priority = 0, Opportunistic
				}
				for _, n := range prefer {
					q.Preferred = q.Preferred.Add(n)
				}
				res, ok := c.Place(&q)
				if !ok {
					t.Fatal("no room")
				}
				var on []NodeName
				for _, task := range res.Placement.Tasks {
					on = append(on, task.Node)
				}
				slices.Sort(on)
				return on
			}
			for _, x := range []struct {
				prefer        []int32
				tasks, leaves int32
				want          string
			}{
				{[]int32{5}, 1, 4, "[n5]"},       // all of it
				{[]int32{5}, 2, 4, "[n4 n5]"},    // one of two, in one rack
				{[]int32{5, 6}, 2, 4, "[n4 n5]"}, // both, but not in two racks
				{[]int32{2, 5}, 2, 2, "[n2 n2]"}, // on one node
			} {
				if got := fmt.Sprint(place(x.prefer, x.tasks, x.leaves)); got != x.want {
					t.Errorf("quota %v, opportunistic %v: %d x %d that prefers %v is on %s, want %s", own, free, x.tasks, x.leaves, x.prefer, got, x.want)
				}
			}
		}
	}
}
