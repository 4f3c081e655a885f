package place

import (
	"slices"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
)

// claim is the cells of one VC that lends nothing: its bound cells, and physical cells that
// could be bound to its unbound ones.
type claim struct {
	Space  int32
	Leaves cell.LeafSet
}

// Claims are the claims after one event. Every decision may change them, and they are costly
// to find.
type Claims struct {
	cl  *cell.Cluster // a copy, for trying a plan, has other claims
	seq uint64
	now model.Time
	all []claim
}

// UnlentClaims returns, for each VC with `lending: none`, the cells that opportunistic gangs of
// other VCs must leave alone: its bound cells, and physical cells for its unbound ones. They are
// those for gangs that may run on any node, and are found once per event.
func (s *Finder) UnlentClaims() []claim {
	if m := &s.Claims; m.cl != s.Cluster || m.seq != s.Seq || m.now != s.Now {
		*m = Claims{s.Cluster, s.Seq, s.Now, s.findClaims(nil)}
	}
	return s.Claims.all
}

// findClaims finds cells for everything that VCs which lend nothing do not use: idle leaves
// first, then borrowed ones. Nodes in far are preferred.
func (s *Finder) findClaims(far cell.NodeSet) (out []claim) {
	var taken cell.LeafSet
	f := s.Cluster.Forest()
	for space := int32(1); space < s.Cluster.NumSpaces(); space++ {
		if s.VC(space).Lending != model.LendNothing {
			continue
		}
		c := claim{Space: space}
		unbound := map[int16][]cell.Member{}
		for _, r := range s.Cluster.Space(space).Roots {
			if m := s.fillsRoot(&r); r.Cell == cell.None {
				unbound[r.Chain] = append(unbound[r.Chain], m)
				continue
			}
			for l := range cell.LeafID(f.NumLeaves(r.Cell)) {
				c.Leaves = c.Leaves.Add(f.Cells[r.Cell].FirstLeaf + l)
			}
		}
		for i := range f.Chains {
			if len(unbound[int16(i)]) == 0 {
				continue
			}
			q := cell.Request{Space: space, Priority: cell.MaxGuaranteed, Members: unbound[int16(i)],
				Excluded: taken.With(c.Leaves), Preferred: far}
			q.Blocked = slices.Repeat([]bool{true}, len(f.Chains))
			q.Blocked[i] = false
			held, leaves := s.claimCells(q)
			defer s.Cluster.Unhold(space, held)
			c.Leaves = c.Leaves.With(leaves)
		}
		taken, out = taken.With(c.Leaves), append(out, c)
	}
	return out
}

// fillsRoot returns a gang member that fills a preassigned cell exactly.
func (s *Finder) fillsRoot(r *cell.Root) cell.Member {
	ch := &s.Cluster.Forest().Chains[r.Chain]
	node := min(r.Level, ch.NodeLevel)
	return cell.Member{Tasks: ch.LeavesAt(r.Level) / ch.LeavesAt(node), Leaves: ch.LeavesAt(node), Alike: true}
}

// claimCells finds cells of one chain and holds them: all members together or else as many as
// possible, the largest first. If the VC runs opportunistic work of its own, it tries the nodes
// of that work first, size by size, so that idle leaves are left to others.
func (s *Finder) claimCells(q cell.Request) (held []cell.RootID, leaves cell.LeafSet) {
	f, all, near := s.Cluster.Forest(), q.Members, cell.NodeSet(nil)
	own := func(id cell.AllocID) bool {
		return s.Cluster.Alloc(id).Opportunistic() && s.Cluster.Alloc(id).Space == q.Space
	}
	for a := range s.AttemptsIn(q.Space) {
		for _, l := range state.LeavesOf(&s.Cluster.Alloc(a.Alloc).Placement) {
			if id, _ := s.Cluster.Holder(l); id == a.Alloc && own(id) {
				near = near.Add(f.Cells[f.Leaves[l]].Node)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b cell.Member) int { return int(b.Tasks*b.Leaves - a.Tasks*a.Leaves) })
	try := func(members []cell.Member, allowed cell.NodeSet, lift bool) bool {
		q.Members, q.Allowed, q.Gone = members, allowed, own
		r := q
		if lift {
			r = s.Preempting(q, cell.MinGuaranteed)
			r.Gone = nil
		}
		res, ok := s.Cluster.Place(&r)
		roots, fits := s.Cluster.Hold(q.Space, res.Placement.Binds)
		if !ok || !fits {
			return false
		}
		for _, l := range state.LeavesOf(&res.Placement) {
			leaves = leaves.Add(l)
		}
		held, q.Excluded = append(held, roots...), q.Excluded.With(leaves)
		return true
	}
	if near == nil && (try(all, nil, false) || try(all, nil, true)) {
		return held, leaves
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Tasks*all[n].Leaves == all[0].Tasks*all[0].Leaves {
			n++
		}
		like := all[:n]
		if all = all[n:]; near != nil {
			like = budget.Untaken(like, func(m []cell.Member) bool { return try(m, near, false) })
		}
		like = budget.Untaken(like, func(m []cell.Member) bool { return try(m, nil, false) })
		budget.Untaken(like, func(m []cell.Member) bool { return try(m, nil, true) })
	}
	return held, leaves
}

// keptLeaves returns the leaves that a gang must not take: those of Excluded and, for opportunistic
// gangs, the claims of other VCs that lend nothing.
func (s *Finder) keptLeaves(r *cell.Request) cell.LeafSet {
	keep := r.Excluded
	if r.Priority >= cell.MinGuaranteed || s.AllLend() {
		return keep
	}
	var far cell.NodeSet
	for i := range s.Cluster.Forest().Nodes {
		if r.Allowed != nil && !r.Allowed.Has(int32(i)) {
			far = far.Add(int32(i))
		}
	}
	claims := s.UnlentClaims
	if far != nil {
		claims = func() []claim { return s.findClaims(far) }
	}
	for _, c := range claims() {
		if c.Space != r.Space {
			keep = keep.With(c.Leaves)
		}
	}
	return keep
}
