package cell

import (
	"cmp"
	"slices"
)

// lending counts what VCs lend: leaves that they are guaranteed, do not use, and could have only
// from opportunistic work of other VCs. A cell without guaranteed work is mostly bound to no VC,
// so the lender follows from counts, for each chain: inside each container, and then in the rest
// of the cluster. What VCs have there and do not use is set against idle leaves first, and then
// against opportunistic work of others, VC by VC. Each leaf counts once.
type lending struct {
	c      *Cluster
	add    func(vc int32, chain int16, n int32)
	order  []int32           // of VCs
	inside map[int32][]int32 // the VCs of a scope, in that order; looked up only
	pools  map[poolOf]*pool  // looked up only
}

// poolOf names a pool: a chain in a container, or in the cluster if scope is 0.
type poolOf struct {
	scope int32
	chain int16
}

// pool is the leaves there that lie in no bound cell of a VC, nor of a container inside.
type pool struct {
	idle int32           // healthy and free
	held int32           // by opportunistic work
	by   map[int32]int32 // of held, by the space of the work, 0 if its VC is gone; looked up only
}

// Lent calls add for what VCs lend of their guarantees, by chain: at most what they do not use,
// and together at most what opportunistic work holds. Idle leaves are set against what VCs do not
// use in order; first come the VCs of which kept says that all that is idle was kept for them.
func Lent(c *Cluster, kept func(VCName) bool, add func(vc int32, chain int16, n int32)) {
	l := lending{c: c, add: add, inside: map[int32][]int32{}, pools: map[poolOf]*pool{}}
	chains := l.borrowed()
	if len(chains) == 0 {
		return
	}
	l.countIdle()
	for _, first := range []bool{true, false} {
		for vc := int32(1); vc < c.NumSpaces(); vc++ {
			if kept(c.spaces[vc].Name) == first {
				l.order = append(l.order, vc)
			}
		}
	}
	for _, vc := range l.order {
		for _, scope := range (carrier{c}).scopes(vc) {
			l.inside[scope] = append(l.inside[scope], vc)
		}
	}
	scopes := l.scopes()
	for _, chain := range chains {
		need := l.unbound(chain)
		for _, scope := range scopes {
			l.share(need, scope, chain)
		}
	}
}

func (l *lending) pool(scope int32, chain int16) *pool {
	at := poolOf{scope, chain}
	if l.pools[at] == nil {
		l.pools[at] = &pool{by: map[int32]int32{}}
	}
	return l.pools[at]
}

// borrowed notes what opportunistic work holds, and returns the chains with such work. What it
// holds of a VC's bound cell is lent by that VC, unless the work is the VC's own or the leaf is
// promised already: that counts as used.
func (l *lending) borrowed() (chains []int16) {
	c, f := l.c, l.c.f
	for i := range c.allocs {
		al := &c.allocs[i]
		if !al.live || al.Promised || !al.Opportunistic() {
			continue
		}
		for t := range al.Placement.Tasks {
			for _, leaf := range al.Placement.Tasks[t].Leaves {
				chain := f.Cells[f.Leaves[leaf]].Chain
				if !slices.Contains(chains, chain) {
					chains = append(chains, chain)
				}
				_, promised := c.Holder(leaf)
				switch vc, _ := c.BoundAround(f.Leaves[leaf]); {
				case vc <= 0 || vc >= c.NumSpaces():
					p := l.pool(max(vc, 0), chain)
					p.held++
					p.by[al.Space]++
				case promised == None && vc != al.Space:
					l.add(vc, chain, 1)
				}
			}
		}
	}
	slices.Sort(chains)
	return chains
}

// countIdle counts the idle leaves of pools. A bound cell is taken out of the pool around it.
func (l *lending) countIdle() {
	for space := range l.c.spaces {
		s := &l.c.spaces[space]
		for i := range s.Roots {
			r := &s.Roots[i]
			if r.Cell == None {
				continue
			}
			idle := l.c.Idle(r.Cell)
			if space == 0 || int32(space) >= l.c.NumSpaces() {
				l.pool(int32(space), r.Chain).idle += idle
			}
			if r.Pinned != "" { // at any depth it is carved out of the cluster
				l.pool(0, r.Chain).idle -= idle
			} else if s.Parent != None {
				l.pool(s.Parent, r.Chain).idle -= idle
			}
		}
	}
}

// scopes lists the containers, inner ones first, and then the cluster.
func (l *lending) scopes() (out []int32) {
	for space := l.c.NumSpaces(); space < int32(len(l.c.spaces)); space++ {
		out = append(out, space)
	}
	slices.SortStableFunc(out, func(a, b int32) int { return cmp.Compare(l.c.depth(b), l.c.depth(a)) })
	return append(out, 0)
}

// unbound counts, by VC, the leaves of its guarantee of a chain that are bound to no cell.
func (l *lending) unbound(chain int16) []int32 {
	need := make([]int32, l.c.NumSpaces())
	for vc := range need {
		for _, r := range l.c.spaces[vc].Roots {
			if r.Chain == chain && r.Cell == None {
				need[vc] += l.c.f.Chains[chain].LeavesAt(r.Level)
			}
		}
	}
	return need
}

// share sets what VCs have in a pool and do not use against what is there, and takes it from
// need. What a VC borrows there counts against its own guarantee first: it lends nothing to
// itself.
func (l *lending) share(need []int32, scope int32, chain int16) {
	p := l.pools[poolOf{scope, chain}]
	if p == nil {
		return // nothing there is idle or held
	}
	idle, held := p.idle, p.held
	for _, vc := range l.inside[scope] {
		own := min(need[vc], p.by[vc])
		need[vc], held = need[vc]-own, held-own
	}
	for _, vc := range l.inside[scope] {
		n := min(need[vc], idle)
		need[vc], idle = need[vc]-n, idle-n
		if n = min(need[vc], held); n > 0 {
			need[vc], held = need[vc]-n, held-n
			l.add(vc, chain, n)
		}
	}
}
