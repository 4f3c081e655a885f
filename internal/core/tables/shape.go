package tables

import (
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
)

// Shape is all that decides where a gang fits, with a text that no other shape has.
type Shape struct {
	Text      string
	Members   []cell.Member
	NoSKUFits bool // no SKU carries what some member asks for
	// Load is what the gang asks for and Skus the SKUs, if that can be compared with other gangs'
	// loads.
	Load budget.Load
	Skus string
}

// LeafBad reports whether a leaf or its node is out of service.
func (s *Tables) LeafBad(l cell.LeafID) bool {
	f := s.Cluster.Forest()
	return s.Cluster.LeafBad(l) || s.Cluster.NodeFaults(f.Cells[f.Leaves[l]].Node) != 0
}

// FitKey is what decides whether a gang fits if all cells are free.
type FitKey struct {
	Space int32
	Prio  cell.Priority // 0 for all guaranteed priorities
	Shape string
}

// SKUText names SKUs: "A100 or V100".
func SKUText(names []cell.TypeName) string {
	var out []string
	for _, n := range names {
		out = append(out, string(n))
	}
	return strings.Join(out, " or ")
}

// UsableChain reports whether any member of a gang could use a chain.
func (s *Tables) UsableChain(j *Job, g int, chain int16) bool {
	space := s.Space(j.Spec.VC)
	for _, m := range j.Gangs[g].Shape.Members {
		if (m.Pinned != "" || len(m.SKUs) == 0 || slices.Contains(m.SKUs, s.Cluster.Forest().Chains[chain].SKU)) &&
			s.pinFits(m, chain, space) {
			return true
		}
	}
	return false
}

// RootServes reports whether a gang may use a preassigned cell: a pinned one serves only members
// that name it.
func (s *Tables) RootServes(j *Job, g int, r *cell.Root) bool { return s.PinServes(j, g, r.Pinned) }

// PinServes is RootServes by the name of the pinned cell; "" for cells that are not pinned.
func (s *Tables) PinServes(j *Job, g int, pin cell.PinnedID) bool {
	for _, m := range j.Gangs[g].Shape.Members {
		if m.Pinned == pin {
			return true
		}
	}
	return false
}

// pinFits reports whether the pinned cell of a member is in a chain; a member without one fits
// every chain of its SKU.
func (s *Tables) pinFits(m cell.Member, chain int16, space int32) bool {
	if m.Pinned == "" {
		return true
	}
	sp := s.Cluster.Space(space)
	for i := range sp.Roots {
		if sp.Roots[i].Pinned == m.Pinned {
			return sp.Roots[i].Chain == chain
		}
	}
	return false
}
