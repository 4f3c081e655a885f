package policy

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What plans may count on: GPUs that are there for any gang planned on them.

// leaseRoom is what plans count of a type: equal parts of nodes, so that a gang planned in it
// finds cells. A VC's cells that are smaller than its largest within a node count for nothing,
// and each pinned cell is a room of its own.
type leaseRoom struct {
	model.Pool               // with the leaves of the room
	part       int32         // GPUs of each part
	pinned     cell.PinnedID // "" is not pinned
	typeIndex  int           // index of its type in chronusPass.types
}

// leaseRooms are the rooms of a VC's types.
func leaseRooms(pools []model.Pool) []leaseRoom {
	var out []leaseRoom
	for kind, p := range pools {
		if len(p.Cells) == 0 { // nothing more is known
			out = append(out, leaseRoom{Pool: p, part: p.PerNode, typeIndex: kind})
		}
		for i, c := range p.Cells {
			if c.Pinned == "" && i+1 < len(p.Cells) && p.Cells[i+1].Pinned == "" {
				continue // those behind are larger
			}
			out = append(out, leaseRoom{model.Pool{SKU: p.SKU, Leaves: c.Leaves, PerNode: p.PerNode}, c.Size, c.Pinned, kind})
		}
	}
	return out
}

// poolOf is the index of the room of a type in which a gang can be planned, -1 for none. A gang
// with tasks larger than the parts cannot be planned, nor one whose job names nodes: a VC is
// guaranteed cells, but none of these nodes.
func (l *chronusPass) poolOf(g *model.GangView, sku cell.TypeName) int {
	at := l.roomOf(g, sku)
	if at >= 0 && (largestTask(g) > l.pools[at].part || g.NodesRestricted) {
		return -1
	}
	return at
}

// roomOf is the index of the room of a type whose cells a gang uses, -1 where there is none.
func (l *chronusPass) roomOf(g *model.GangView, sku cell.TypeName) int {
	pinned, one := pinOf(g)
	if !one {
		return -1
	}
	return slices.IndexFunc(l.pools, func(p leaseRoom) bool { return p.SKU == sku && p.pinned == pinned })
}

// uses reports whether a gang can use the cells of a room.
func (l *chronusPass) uses(g *model.GangView, pool int) bool {
	sku := l.pools[pool].SKU
	return usable(g, sku) && l.roomOf(g, sku) == pool && l.v.Usable(g.Ref, sku)
}

// pinOf is the pinned cell that all members of a gang name, "" for none; false where they differ.
func pinOf(g *model.GangView) (cell.PinnedID, bool) {
	var pinned cell.PinnedID
	for i, m := range g.Members {
		if i > 0 && m.Pinned != pinned {
			return "", false
		}
		pinned = m.Pinned
	}
	return pinned, true
}
