package tables

import (
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
)

// Shape is what decides where a gang fits, with a text that no other shape has.
type Shape struct {
	Text    string
	Members []cell.Member
	Short   bool // no SKU carries what some member asks for
	// What it asks for where that can be compared with what others do, with the SKUs.
	Load budget.Load
	Skus string
}

// LeafBad reports whether a leaf is out of service, or its node is.
func (s *Tables) LeafBad(l cell.LeafID) bool {
	f := s.Cluster.Forest()
	return s.Cluster.LeafBad(l) || s.Cluster.Blame(f.Cells[f.Leaves[l]].Node) != 0
}

// FitKey is what the cells being all free, the fit of a gang depends on.
type FitKey struct {
	Space int32
	Prio  cell.Priority // 0 for all guaranteed ones
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

// RootServes reports whether a preassigned cell is one that a gang's members ask
// for: pinned cells only serve those that name them.
func (s *Tables) RootServes(j *Job, g int, r *cell.Root) bool { return s.PinServes(j, g, r.Pinned) }

// PinServes is rootServes by the name of the pinned cell, "" for cells that are
// not pinned.
func (s *Tables) PinServes(j *Job, g int, pin cell.PinnedID) bool {
	for _, m := range j.Gangs[g].Shape.Members {
		if m.Pinned == pin {
			return true
		}
	}
	return false
}

// pinFits reports whether a pinned member's cell is of a chain; an unpinned
// member fits every chain of its SKU.
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
