package cell

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// servers is racks of eight nodes of eight leaves in sockets and switches, divided
// among eight VCs.
func servers(nodes int) *Spec {
	s := &Spec{SKUs: []SKU{{Name: "G", GPU: 1}}, Chains: []ChainSpec{{Name: "RACK", Levels: []LevelSpec{{Type: "G"}, {Type: "SWITCH", Fanout: 2},
		{Type: "SOCKET", Fanout: 2}, {Type: "NODE", Fanout: 2, IsNode: true}, {Type: "RACK", Fanout: 8}}}}}
	var add func(level int, name string) CellSpec
	add = func(level int, name string) CellSpec {
		l := &s.Chains[0].Levels[level]
		c := CellSpec{Type: l.Type, Address: name}
		for i := range l.Fanout {
			child := fmt.Sprint(i)
			if level == 4 {
				child = name + "-" + child
			}
			c.Children = append(c.Children, add(level-1, child))
		}
		return c
	}
	for r := range nodes / 8 {
		s.Cells = append(s.Cells, add(4, fmt.Sprint("r", r)))
	}
	for i := range 8 {
		s.VCs = append(s.VCs, VCSpec{Name: VCName(fmt.Sprint("v", i)), Quota: []QuotaSpec{{Chain: "RACK", Level: 5, Number: int32(nodes / 64)}}})
	}
	return s
}

// BenchmarkPlace keeps a cluster nine tenths full with gangs of 1 to 64 leaves:
// each round places one and lets random others end.
func BenchmarkPlace(b *testing.B) {
	sizes := []int32{1, 2, 4, 8, 16, 32, 64}
	weights := []int{30, 15, 15, 18, 10, 7, 5}
	for _, nodes := range []int{512, 4096, 16384} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, err := New(servers(nodes))
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 1))
			var live []AllocID
			var used int32
			place := func() {
				k, n := r.IntN(100), 0
				for k >= weights[n] {
					k -= weights[n]
					n++
				}
				m := Member{Tasks: max(1, sizes[n]/8), Leaves: min(8, sizes[n])}
				q := Request{Space: 1 + r.Int32N(8), Members: []Member{m}}
				if res, ok := c.Place(&q); ok {
					live = append(live, c.Take(q.Space, 0, res.Placement, false))
					used += sizes[n]
				}
			}
			end := func() {
				for used > int32(nodes)*8*9/10 {
					i := r.IntN(len(live))
					used -= victims{c}.leavesOf(live[i])
					c.Release(live[i])
					live[i] = live[len(live)-1]
					live = live[:len(live)-1]
				}
			}
			for range nodes * 4 {
				place()
				end()
			}
			b.ReportAllocs()
			for b.Loop() {
				place()
				end()
			}
		})
	}
}
