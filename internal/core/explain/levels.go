package explain

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// levels counts, for one gang, the cells of every chain that it could use, level by
// level: how many it wants, and how many are free, held, lent, bad and so on.
func (s *Explainer) levels(j *tables.Job, g int) []model.LevelUse {
	var out []model.LevelUse
	for _, sc := range s.scopes(j, g) {
		at := s.lookAtLeaves(j, g, &sc)
		for l := sc.level; l >= 1; l-- {
			out = append(out, s.levelUse(j, &sc, at, l))
		}
	}
	return out
}

// scope is the cells that some members of a gang may use: a chain, or one pinned
// cell of it.
type scope struct {
	chain   int16
	level   cell.Level    // the highest level, that of tops
	tops    []cell.CellID // the chain's top cells, or the pinned cell
	pinned  cell.PinnedID // "" for a chain
	members []cell.Member
}

func (s *Explainer) scopes(j *tables.Job, g int) []scope {
	var out []scope
	f := s.Cluster.Forest()
	for ci := range f.Chains {
		ch := &f.Chains[ci]
		sc := scope{chain: int16(ci), level: ch.Top}
		for _, m := range j.Gangs[g].Shape.Members {
			if m.Pinned == "" && (len(m.SKUs) == 0 || slices.Contains(m.SKUs, ch.SKU)) {
				sc.members = append(sc.members, m)
			}
		}
		for _, r := range s.Cluster.Space(0).Roots {
			if r.Chain == sc.chain && len(sc.members) > 0 {
				sc.tops = append(sc.tops, r.Cell)
			}
		}
		if len(sc.members) > 0 {
			out = append(out, sc)
		}
	}
	roots := s.Cluster.Space(s.Space(j.Spec.VC)).Roots
	for i := range roots {
		r := &roots[i]
		if r.Pinned == "" || r.Cell == cell.None {
			continue
		}
		sc := scope{chain: r.Chain, level: r.Level, tops: []cell.CellID{r.Cell}, pinned: r.Pinned}
		for _, m := range j.Gangs[g].Shape.Members {
			if m.Pinned == r.Pinned {
				sc.members = append(sc.members, m)
			}
		}
		if len(sc.members) > 0 {
			out = append(out, sc)
		}
	}
	return out
}

// leafView is one leaf as a gang sees it.
type leafView struct {
	bad, cordoned, avoided, lent bool       // cordoned: and healthy
	others                       bool       // a program that is no job's has it, and it is not bad
	own                          bool       // held or promised by the guarantee of the gang's VC
	held                         int32      // the space by whose guarantee it is held, 0 for none
	until                        model.Time // when it is left, 0 if not known
}

// lookAtLeaves views the leaves of all tops of a scope, in order.
func (s *Explainer) lookAtLeaves(j *tables.Job, g int, sc *scope) []leafView {
	f := s.Cluster.Forest()
	r := s.Request(place.Want{J: j, G: int32(g)})
	var out []leafView
	ends := map[cell.CellID]model.Time{}
	for _, top := range sc.tops {
		first := f.Cells[top].FirstLeaf
		for l := first; l < first+cell.LeafID(f.NumLeaves(top)); l++ {
			v := s.leafView(&r, l)
			if vc, bound := s.boundToOther(&r, l); vc > 0 {
				v.held, v.until = vc, s.rootLeft(bound, ends)
			}
			out = append(out, v)
		}
	}
	return out
}

func (s *Explainer) leafView(r *cell.Request, l cell.LeafID) leafView {
	f := s.Cluster.Forest()
	node := f.Cells[f.Leaves[l]].Node
	faults, noted := s.Cluster.NodeFaults(node), s.Cluster.LeafBad(l)
	cordoned := faults == cell.Cordoned && !noted || faults&^cell.Cordoned == 0 && noted && s.CordonedElsewhere(l)
	others := faults&^cell.Cordoned == 0 && noted && s.HeldByOthers(l)
	v := leafView{bad: s.LeafBad(l) && !cordoned && !others, others: others, cordoned: cordoned,
		avoided: r.Avoided.Has(node) || r.Allowed != nil && !r.Allowed.Has(node)}
	hold, promised := s.Cluster.Holder(l)
	if hold != cell.None {
		v.lent = s.Cluster.Alloc(hold).Opportunistic()
		if promised == cell.None {
			v.until = s.AllocEnd(hold)
		}
		if !v.lent {
			v.held = s.Cluster.Alloc(hold).Space
		}
	}
	if promised != cell.None {
		v.held = s.Cluster.Alloc(promised).Space
	}
	v.own = v.held == r.Space && v.held > 0
	return v
}

// boundToOther returns the bound cell around a leaf and the VC to which it is bound, used or not,
// if that is another VC than a guaranteed request's; else 0. It is 0 for an opportunistic request,
// which may borrow free leaves there.
func (s *Explainer) boundToOther(r *cell.Request, l cell.LeafID) (vc int32, bound cell.CellID) {
	space, root := s.Cluster.BoundAround(s.Cluster.Forest().Leaves[l])
	if r.Priority < cell.MinGuaranteed || space <= 0 || s.within(r.Space, space) {
		return 0, cell.None
	}
	sp := s.Cluster.Space(space)
	return s.Cluster.SpaceOf(sp.Name), sp.Roots[root].Cell
}

// rootLeft is when the last work in a bound cell ends, so that the cell may serve
// another VC; 0 if not known. ends caches it.
func (s *Explainer) rootLeft(c cell.CellID, ends map[cell.CellID]model.Time) model.Time {
	if end, ok := ends[c]; ok {
		return end
	}
	f := s.Cluster.Forest()
	first := f.Cells[c].FirstLeaf
	var last model.Time
	for l := first; l < first+cell.LeafID(f.NumLeaves(c)); l++ {
		hold, promised := s.Cluster.Holder(l)
		end := model.Time(0)
		if hold != cell.None && promised == cell.None {
			end = s.AllocEnd(hold)
		}
		if (hold != cell.None || promised != cell.None) && end == 0 {
			last = 0
			break
		}
		last = max(last, end)
	}
	ends[c] = last
	return last
}

// within reports whether a space is outer or inside it.
func (s *Explainer) within(space, outer int32) bool {
	for ; space > 0; space = s.Cluster.Space(space).Parent {
		if space == outer {
			return true
		}
	}
	return false
}

// levelUse counts the cells of one level in a scope. leaves are those of the scope, in order.
func (s *Explainer) levelUse(j *tables.Job, sc *scope, leaves []leafView, l cell.Level) model.LevelUse {
	ch := &s.Cluster.Forest().Chains[sc.chain]
	size := ch.LeavesAt(l)
	u := model.LevelUse{Chain: ch.Name, Pinned: sc.pinned, Level: l, Type: ch.Types[l-1],
		Wanted: model.WantedCells(sc.members, size)}
	held := make([]int32, s.Cluster.NumSpaces())
	scratch := make([]int32, s.Cluster.NumSpaces())
	for c := range s.cellsIn(sc, leaves, size) {
		u.Cells++
		switch space, kind := judgeCell(c, scratch); kind {
		case cellBad:
			u.Bad++
		case cellHeldByOthers:
			u.HeldByOthers++
		case cellCordoned:
			u.Cordoned++
		case cellAvoided:
			u.Avoided++
		case cellHeld:
			held[space]++
			u.Until = index.Sooner(u.Until, leftAt(c))
		case cellLent:
			u.Lent++
			u.Until = index.Sooner(u.Until, leftAt(c))
		default:
			u.Free++
		}
	}
	for space, n := range held {
		name := s.Cluster.Space(int32(space)).Name // a divided VC has two spaces
		k := slices.IndexFunc(u.Held, func(h model.VCCells) bool { return h.VC == name })
		switch {
		case n == 0:
		case k >= 0:
			u.Held[k].Cells += n
		default:
			u.Held = append(u.Held, model.VCCells{VC: name, Cells: n})
		}
	}
	slices.SortFunc(u.Held, func(a, b model.VCCells) int { return cmp.Compare(a.VC, b.VC) })
	if j.Spec.Priority >= cell.MinGuaranteed {
		u.Owned, u.Unused = s.owned(j, sc, leaves, l)
	}
	return u
}

// cellsIn yields the leaves of each cell of a size in a scope.
func (s *Explainer) cellsIn(sc *scope, leaves []leafView, size int32) iter.Seq[[]leafView] {
	return func(yield func([]leafView) bool) {
		for _, top := range sc.tops {
			n := s.Cluster.Forest().NumLeaves(top)
			for at := int32(0); at+size <= n; at += size {
				if !yield(leaves[at : at+size]) {
					return
				}
			}
			leaves = leaves[n:]
		}
	}
}

type cellKind int8

const (
	cellFree cellKind = iota
	cellBad
	cellHeldByOthers
	cellCordoned
	cellAvoided
	cellHeld
	cellLent
)

// judgeCell puts a whole cell into one class: an obstacle that waiting does not
// remove comes first, then guarantees, then opportunistic work. space is the one that
// holds most leaves of a held cell. scratch has a zero for each space, and is left so.
func judgeCell(c []leafView, scratch []int32) (space int32, k cellKind) {
	var bad, others, cordoned, avoided, lent bool
	for i := range c {
		v := &c[i]
		bad, others, cordoned = bad || v.bad, others || v.others, cordoned || v.cordoned
		avoided, lent = avoided || v.avoided, lent || v.lent
		if v.held > 0 {
			if scratch[v.held]++; scratch[v.held] > scratch[space] || scratch[v.held] == scratch[space] &&
				v.held < space {
				space = v.held
			}
		}
	}
	for i := range c {
		scratch[c[i].held] = 0
	}
	switch {
	case bad:
		return 0, cellBad
	case others:
		return 0, cellHeldByOthers
	case cordoned:
		return 0, cellCordoned
	case avoided:
		return 0, cellAvoided
	case space > 0:
		return space, cellHeld
	case lent:
		return 0, cellLent
	}
	return 0, cellFree
}

// leftAt is when all leaves of a cell are left; 0 if not known.
func leftAt(c []leafView) model.Time {
	var last model.Time
	for i := range c {
		v := &c[i]
		if (v.held > 0 || v.lent) && v.until == 0 {
			return 0
		}
		last = max(last, v.until)
	}
	return last
}

// owned counts the cells of a level that the gang's VC is guaranteed in a scope,
// and how many of them its guaranteed work does not use.
func (s *Explainer) owned(j *tables.Job, sc *scope, leaves []leafView, l cell.Level) (owned, unused int32) {
	f := s.Cluster.Forest()
	ch := &f.Chains[sc.chain]
	size := ch.LeavesAt(l)
	if s.Space(j.Spec.VC) == 0 {
		return 0, 0 // its VC is gone
	}
	roots := s.Cluster.Space(s.Space(j.Spec.VC)).Roots
	for i := range roots {
		r := &roots[i]
		if r.Chain != sc.chain || r.Pinned != sc.pinned || r.Level < l {
			continue
		}
		n := ch.LeavesAt(r.Level) / size
		owned += n
		unused += n
		if r.Cell == cell.None {
			continue
		}
		first := int32(0)
		for _, top := range sc.tops {
			if f.Contains(top, r.Cell) {
				first += int32(f.Cells[r.Cell].FirstLeaf - f.Cells[top].FirstLeaf)
				break
			}
			first += f.NumLeaves(top)
		}
		for k := range n {
			c := leaves[first+k*size : first+(k+1)*size]
			if slices.ContainsFunc(c, func(v leafView) bool { return v.own }) {
				unused--
			}
		}
	}
	return owned, unused
}
