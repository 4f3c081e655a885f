package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// AbilityReporter is an Executor that can do more than start and stop tasks.
type AbilityReporter interface {
	// Abilities returns what the executor can do on leaves, and why it lacks the other abilities,
	// in words for the server's administrator; "" where nothing can be done about that.
	Abilities(Leaves) (has []model.Ability, why string)
}

// Leaves are the leaves of one type, and the nodes that have them.
type Leaves struct {
	SKU   cell.SKU
	Nodes []cell.NodeName
}

// CheckAbilities returns an error that names every VC of a configuration whose policy needs an
// ability that the executor lacks on some of the VC's leaves; nil when there is none. Only
// guaranteed leaves matter, since jobs share no others.
func CheckAbilities(c *model.Config, policies model.Policies, x Executor) error {
	var errs []error
	for _, vc := range c.VCs {
		p, err := policies.Make(vc)
		if err != nil {
			continue // the reader of the configuration reports it, with its place
		}
		n, ok := p.(model.NeedsAbilities)
		if !ok || len(n.Needs()) == 0 {
			continue
		}
		for _, leaves := range leavesOf(&c.Cluster, vc.Name) {
			errs = append(errs, lacks(vc, n.Needs(), leaves, x)...)
		}
	}
	return errors.Join(errs...)
}

// lacks says which of a policy's needs the executor cannot meet on some leaves.
func lacks(vc model.VCConfig, needs []model.Ability, leaves Leaves, x Executor) (errs []error) {
	var has []model.Ability
	why := ""
	if able, ok := x.(AbilityReporter); ok {
		has, why = able.Abilities(leaves)
	}
	where := ""
	if leaves.SKU.Name != "" {
		where = fmt.Sprintf(" on its leaves of type %s", leaves.SKU.Name)
	}
	if why != "" {
		why = ": " + why
	}
	for _, need := range needs {
		if !slices.Contains(has, need) {
			errs = append(errs, fmt.Errorf("virtual cluster %s: the policy %s needs an executor that can %s, and this one cannot%s%s; choose another policy",
				vc.Name, vc.Policy, need.Words(), where, why))
		}
	}
	return errs
}

// leavesOf returns the leaves that a VC may be given, by type. For a VC that is given none it is
// one entry without a name.
func leavesOf(spec *cell.Spec, vc cell.VCName) (list []Leaves) {
	chains := chainsOf(spec, vc)
	for i := range spec.Chains {
		chain := &spec.Chains[i]
		sku := slices.IndexFunc(spec.SKUs, func(s cell.SKU) bool { return s.Name == chain.Levels[0].Type })
		if !chains[chain.Name] || sku < 0 {
			continue
		}
		leaves := Leaves{SKU: spec.SKUs[sku]}
		for k := range spec.Cells {
			if spec.Cells[k].Type == chain.Levels[len(chain.Levels)-1].Type {
				leaves.Nodes = nodesOf(chain, &spec.Cells[k], leaves.Nodes)
			}
		}
		list = append(list, leaves)
	}
	if len(list) == 0 {
		list = []Leaves{{}}
	}
	return list
}

// chainsOf returns the chains of which a VC has cells.
func chainsOf(spec *cell.Spec, vc cell.VCName) map[cell.ChainName]bool {
	chains := map[cell.ChainName]bool{}
	for i := range spec.VCs {
		v := &spec.VCs[i]
		if v.Name != vc {
			continue
		}
		for _, q := range v.Quota {
			chains[q.Chain] = true
		}
		for k := range spec.Cells {
			if slices.ContainsFunc(v.Pinned, func(id cell.PinnedID) bool { return hasPinned(&spec.Cells[k], id) }) {
				chains[cell.ChainName(spec.Cells[k].Type)] = true
			}
		}
	}
	return chains
}

func hasPinned(c *cell.CellSpec, id cell.PinnedID) bool {
	for i := range c.Children {
		if hasPinned(&c.Children[i], id) {
			return true
		}
	}
	return c.Pinned == id
}

// nodesOf appends the names of the nodes in a cell.
func nodesOf(chain *cell.ChainSpec, c *cell.CellSpec, to []cell.NodeName) []cell.NodeName {
	if slices.ContainsFunc(chain.Levels, func(l cell.LevelSpec) bool { return l.IsNode && l.Type == c.Type }) {
		return append(to, cell.NodeName(c.Address))
	}
	for i := range c.Children {
		to = nodesOf(chain, &c.Children[i], to)
	}
	return to
}
