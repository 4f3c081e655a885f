package cell_test

import (
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/cell/twin"
	"github.com/combsched/comb/internal/seeds"
)

// An opportunistic gang of several kinds of members starts wherever its tasks fit, though
// one kind could take the only room of another: a twin that tries everything agrees.
func TestMembersOfSeveralKindsFit(t *testing.T) {
	fits, asked := 0, 0
	for seed := range seeds.Of(t, 300) {
		r := rand.New(rand.NewPCG(seed, 9))
		spec := racks(2)
		plain(spec, "n")
		spec.VCs = []cell.VCSpec{{Name: "v"}}
		c, err := cell.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		one := func(node int32, sku cell.TypeName) {
			q := cell.Request{Space: 1, Priority: cell.Opportunistic, Members: []cell.Member{{Tasks: 1, Leaves: 1, SKUs: []cell.TypeName{sku}}}, Allowed: cell.NodeSet{}.Add(node)}
			if res, ok := c.Place(&q); ok {
				c.Take(1, cell.Opportunistic, res.Placement, false)
			}
		}
		for node := range int32(4) {
			for range r.IntN(5) {
				one(node, "G")
			}
			for range r.IntN(4) {
				one(node, "H")
			}
		}
		for range 20 {
			q := cell.Request{Space: 1, Priority: cell.Opportunistic}
			for range 2 + r.IntN(3) {
				skus := [][]cell.TypeName{nil, {"G"}, {"H"}, {"G", "H"}}[r.IntN(4)]
				q.Members = append(q.Members, cell.Member{Tasks: 1 + r.Int32N(2), Leaves: 1 + r.Int32N(3), SKUs: skus})
			}
			res, ok := c.Place(&q)
			if is := twin.Of(c).Fits(&q, nil); ok != is {
				t.Fatalf("seed %d: %+v: found cells: %v, they exist: %v, cut short: %v; %s", seed, q.Members, ok, is, res.Bounded, c.Dump())
			}
			if asked++; !ok {
				continue
			}
			fits++
			c.Release(c.Take(1, cell.Opportunistic, res.Placement, false))
		}
	}
	t.Logf("%d of %d fit", fits, asked)
	if seeds.Modest() && (fits < 100 || asked-fits < 100) {
		t.Errorf("%d of %d fit: that says too little", fits, asked)
	}
}
