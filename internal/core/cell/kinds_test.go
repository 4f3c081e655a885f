package cell_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/test/seeds"
	"github.com/combsched/comb/internal/test/twin"
)

// A gang of several kinds of members starts wherever its tasks fit and every guarantee
// stays: one kind could take the only room of another, or the cells that another needs.
// A twin that tries everything agrees.
func TestMembersOfSeveralKindsFit(t *testing.T) {
	k := kinds{cut: map[string]int{}}
	for seed := range seeds.Of(t, 150) {
		k.r = rand.New(rand.NewPCG(seed, 21))
		k.draw(t)
		k.fill()
		for range 20 {
			q, ok := k.request()
			if !ok {
				continue
			}
			if err := k.ask(&q); err != nil {
				t.Fatalf("seed %d: space %d, priority %d, %+v: %v; %s", seed, q.Space, q.Priority, q, err, k.c.Dump())
			}
		}
	}
	t.Logf("%d of %d fit, %d with victims; cut short: %v", k.fits, k.asked, k.victims, k.cut)
	if seeds.Modest() && (k.fits < 300 || k.asked-k.fits < 300 || k.victims < 50) {
		t.Errorf("%d of %d fit, %d with victims: that says too little", k.fits, k.asked, k.victims)
	}
}

// kinds is a cluster that gangs of several kinds of members are asked for.
type kinds struct {
	r    *rand.Rand
	c    *cell.Cluster
	tw   *twin.Twin
	live []cell.AllocID

	asked, fits, victims int
	cut                  map[string]int // how often nothing was found, by the bounds that were reached
}

// draw makes a cluster of two or three chains, of which two may have one SKU, with two
// VCs, and others that are part of the first, which has most cells.
func (k *kinds) draw(t *testing.T) {
	r := k.r
	spec := racks(1)
	plain(spec, []string{"h", "n"}[r.IntN(2)])
	if r.IntN(3) == 0 { // machines of two G
		spec.Chains = append(spec.Chains, cell.ChainSpec{Name: "SMALL", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "SMALL", Fanout: 2, IsNode: true}}})
		for i := range 2 {
			spec.Cells = append(spec.Cells, cell.CellSpec{Type: "SMALL", Address: fmt.Sprint("s", i), Children: []cell.CellSpec{{Type: "G", Address: "0"}, {Type: "G", Address: "1"}}})
		}
	}
	spec.VCs = []cell.VCSpec{{Name: "v0"}, {Name: "v1"}}
	rack := &spec.Cells[0]
	if at := []*cell.CellSpec{&rack.Children[0], &rack.Children[1].Children[1], &spec.Cells[1]}; r.IntN(2) == 0 {
		at[r.IntN(len(at))].Pinned = pin
		spec.VCs[0].Pinned = []cell.PinnedID{pin}
	}
	if r.IntN(3) == 0 {
		spec.VCs = append(spec.VCs, cell.VCSpec{Name: "v2", Parent: "v0"}, cell.VCSpec{Name: "v3", Parent: "v2"})[:3+r.IntN(2)]
	}
	c, err := cell.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 + r.IntN(8) {
		more := *spec
		more.VCs = slices.Clone(spec.VCs)
		ch := &spec.Chains[r.IntN(len(spec.Chains))]
		n := len(ch.Levels)
		q := cell.QuotaSpec{Chain: ch.Name, Level: cell.Level(1 + min(r.IntN(n), r.IntN(n))), Number: 1}
		last := max(0, r.IntN(2+len(spec.VCs))-2)
		around := r.IntN(2) == 0 // who is part of another has what this has, or a part of that
		for vc := range spec.VCs {
			if vc == last || around && last >= 2 && vc != 1 && vc < last {
				more.VCs[vc].Quota = append(slices.Clip(more.VCs[vc].Quota), q)
			}
		}
		if larger, err := cell.New(&more); err == nil {
			c, spec = larger, &more
		}
	}
	k.c, k.tw, k.live = c, twin.Of(c), nil
}

// fill breaks some leaves and lets some gangs run.
func (k *kinds) fill() {
	r, f := k.r, k.c.Forest()
	for range r.IntN(4) {
		k.c.SetLeafBad(cell.LeafID(r.IntN(len(f.Leaves))), true)
	}
	for {
		space, root, id, ok := k.c.DueCharge()
		if !ok {
			break
		}
		k.c.Doom(space, root, id)
	}
	for range r.IntN(10) {
		m := cell.Member{Tasks: 1, Leaves: 1 + r.Int32N(3), SKUs: [][]cell.TypeName{nil, {"G"}, {"H"}}[r.IntN(3)]}
		q := cell.Request{Space: 1 + r.Int32N(k.c.NumSpaces()-1), Priority: cell.Priority(r.IntN(3) - 1), Members: []cell.Member{m}}
		q.Avoided = cell.NodeSet{}.Add(int32(r.IntN(len(f.Nodes))))
		if res, ok := k.c.Place(&q); ok {
			k.live = append(k.live, k.c.Take(q.Space, q.Priority, res.Placement, false))
		}
	}
}

// request draws a gang that asks for no more than its VC owns; false when none is drawn.
func (k *kinds) request() (cell.Request, bool) {
	r := k.r
	for range 30 {
		q := cell.Request{Space: 1, Priority: cell.Priority(r.IntN(4) - 1)}
		if r.IntN(3) == 0 {
			q.Space = 1 + r.Int32N(k.c.NumSpaces()-1)
		}
		pinned := q.Priority >= 0 && slices.ContainsFunc(k.c.Space(q.Space).Roots, func(r cell.Root) bool { return r.Pinned == pin })
		for range 2 + r.IntN(3) {
			m := cell.Member{Tasks: 1 + r.Int32N(2), Leaves: 1 + min(r.Int32N(4), r.Int32N(4)), SKUs: [][]cell.TypeName{nil, {"G"}, {"H"}, {"G", "H"}}[r.IntN(4)], Alike: r.IntN(4) == 0}
			if pinned && r.IntN(4) == 0 {
				m.Pinned = pin
			}
			q.Members = append(q.Members, m)
		}
		if k.tooMuch(&q) {
			continue
		}
		k.restrict(&q)
		return q, true
	}
	return cell.Request{}, false
}

// restrict draws who may be lifted, how close together the gang must be, and what it
// must not use.
func (k *kinds) restrict(q *cell.Request) {
	r, f := k.r, k.c.Forest()
	if q.Priority >= 0 && r.IntN(2) == 0 {
		q.Preempt = &cell.Preemptible{Opportunistic: true, Below: cell.Priority(r.IntN(int(q.Priority) + 1))}
	}
	if r.IntN(4) == 0 {
		for ci := range f.Chains {
			q.Reach = append(q.Reach, cell.Level(r.IntN(int(f.Chains[ci].Top)+1)))
		}
	}
	switch r.IntN(8) {
	case 0:
		q.Avoided = cell.NodeSet{}.Add(int32(r.IntN(len(f.Nodes))))
	case 1:
		q.Excluded = cell.LeafSet{}.Add(cell.LeafID(r.IntN(len(f.Leaves))))
	case 2:
		q.Blocked = make([]bool, len(f.Chains))
		q.Blocked[r.IntN(len(f.Chains))] = true
	}
}

// tooMuch reports whether a gang asks for more than its VC owns.
func (k *kinds) tooMuch(q *cell.Request) bool {
	own, all := map[cell.TypeName]int32{}, int32(0)
	f := k.c.Forest()
	for _, r := range k.c.Space(q.Space).Roots {
		n := f.Chains[r.Chain].LeavesAt(r.Level)
		own[f.Chains[r.Chain].SKU] += n
		all += n
	}
	for _, m := range q.Members {
		all -= m.Tasks * m.Leaves
		if len(m.SKUs) == 1 {
			own[m.SKUs[0]] -= m.Tasks * m.Leaves
		}
	}
	return all < 0 || own["G"] < 0 || own["H"] < 0
}

// ask compares a search with the twin.
func (k *kinds) ask(q *cell.Request) error {
	var may []cell.AllocID
	for _, id := range k.live {
		if a := k.c.Alloc(id); q.Preempt != nil && (a.Opportunistic() || a.Space == q.Space && a.Priority < q.Preempt.Below) {
			may = append(may, id)
		}
	}
	without := func(stays cell.AllocID, gone []cell.AllocID) bool {
		return k.tw.Fits(q, func(id cell.AllocID) bool { return id != stays && slices.Contains(gone, id) })
	}
	res, ok := k.c.Place(q)
	is := without(cell.None, may)
	k.asked++
	switch {
	case ok && !is || !ok && is && !res.Bounded:
		return fmt.Errorf("found cells: %v, they exist: %v", ok, is)
	case !ok && res.Bounded:
		k.cut[fmt.Sprintf("%s, there is a place: %v", res.Bounds, is)]++
	case ok && !without(cell.None, res.Victims):
		return fmt.Errorf("it does not fit when %v leave", res.Victims)
	}
	if !ok {
		return nil
	}
	k.fits++
	k.victims += min(1, len(res.Victims))
	for _, v := range res.Victims {
		if without(v, res.Victims) {
			return fmt.Errorf("of the victims %v %d could stay", res.Victims, v)
		}
	}
	sound := k.tw.Sound()
	id := k.c.Take(q.Space, q.Priority, res.Placement, len(res.Victims) > 0)
	if !k.tw.Safe() || sound && !k.tw.Sound() {
		return fmt.Errorf("with it a guarantee cannot be had any more (on healthy cells: %v)", sound)
	}
	k.c.Release(id)
	return k.c.Verify()
}
