package script_test

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/test/seeds"
)

// Few machines whose devices the file calls and divides otherwise again and again, takes away
// and brings back, while gangs run on them, share them and are lost: by what each was started
// with, no device has two owners.
func TestDividedSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/8)
	found := newFailures(divided, seeds.Unit/8)
	found.tryAll(t, from, to)
	m := &found.met
	t.Logf("%d times somebody started beside one whose devices the file calls or divides otherwise by then; %d gangs shared leaves", m.beside, m.joins)
	if !t.Failed() && to-from+1 >= seeds.Unit/8 && (m.beside == 0 || m.joins == 0) {
		t.Error("nobody started beside one of an older file, or nobody shared")
	}
}

// dividedFloor is one chain whose devices change, and sometimes another that only stands there.
func dividedFloor(g *generator) *floor {
	f := &floor{quota: map[string][]share{}, pinned: map[string]string{}, policy: map[string]string{}}
	f.vcs = []string{"a", "b"}[:1+g.IntN(2)]
	f.chains = []floorChain{{name: "x", prefix: "x", nodes: 1 + g.IntN(2), gpus: 1 + g.IntN(2), parts: g.IntN(5), memory: 16_000}}
	if g.chance(40) {
		f.chains = append(f.chains, floorChain{name: "y", prefix: "y", nodes: 1, gpus: 1})
	}
	for _, v := range f.vcs {
		f.policy[v] = g.pick("fifo", "fifo:preempt", "gandiva:quantum=10,settle=1", "gandiva:quantum=10,window=5,settle=5,free=0.25,moves=50", "srtf")
	}
	f.shareOut(g)
	return f
}

// shareOut gives each chain to one of the VCs, or to nobody.
func (f *floor) shareOut(g *generator) {
	clear(f.quota)
	for _, c := range f.chains {
		if v := g.pick(f.vcs...); g.chance(85) {
			f.quota[v] = append(f.quota[v], share{c.name, c.nodes, "node"})
		}
	}
}

// changeDevices gives another configuration of the same machines: the first chain is called
// or divided otherwise, is larger or smaller, or is away and comes back.
func (f *floor) changeDevices(g *generator) *floor {
	n := *f
	n.chains, n.quota = slices.Clone(f.chains), map[string][]share{}
	if n.away != nil {
		n.chains, n.away = append([]floorChain{*n.away}, n.chains...), nil
	}
	c := &n.chains[0]
	switch g.IntN(6) {
	case 0:
		c.nodes = 1 + g.IntN(2)
	case 1, 2:
		c.name = g.pick("x", "x2", "x3")
	case 3:
		if len(n.chains) > 1 {
			n.away, n.chains = &floorChain{}, slices.Clone(n.chains[1:])
			*n.away = *c
		}
	default:
		c.parts = g.IntN(5)
	}
	n.shareOut(g)
	return &n
}
