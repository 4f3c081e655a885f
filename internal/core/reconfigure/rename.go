package reconfigure

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/explain"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// A configuration may say that a VC or a node had another name. Jobs, and what is remembered about
// nodes, are then renamed: a job's description is replaced by a copy with the new names, so that
// no other code has to know two names.

// effectiveRenames returns the renames that mean something now: the older name is gone from the
// configuration and still known, the new one exists. Renames that were made before are left out,
// so that a file can be applied again. Of several older names of one VC the first counts.
func (s Planner) effectiveRenames(c *model.Reconfigure, next *cell.Cluster) (vcs []model.Rename,
	nodes []model.NodeRename, no *model.Refusal) {
	for _, r := range c.Renamed {
		twice := slices.ContainsFunc(vcs, func(v model.Rename) bool { return v.To == r.To })
		if !twice && next.SpaceOf(r.From) == cell.None && next.SpaceOf(r.To) != cell.None && s.knowsVC(r.From) {
			vcs = append(vcs, r)
		}
	}
	for _, r := range c.RenamedNodes {
		if next.Forest().NodeIndex(r.From) != cell.None || next.Forest().NodeIndex(r.To) == cell.None ||
			!s.knowsNode(r.From) {
			continue
		}
		if s.Cluster != nil && s.Cluster.Forest().NodeIndex(r.From) != cell.None &&
			s.Cluster.Forest().NodeIndex(r.To) != cell.None {
			return nil, nil, explain.Refuse(model.Conflict, "the node %q cannot go on as %q: both exist now; a machine has one name, so remove \"formerly\" at %q", r.From, r.To, r.To)
		}
		nodes = append(nodes, r)
	}
	return vcs, nodes, nil
}

// knowsVC reports whether a VC exists or jobs still name it.
func (s Planner) knowsVC(v cell.VCName) bool {
	return s.Cluster != nil && s.Cluster.SpaceOf(v) != cell.None ||
		slices.ContainsFunc(s.Jobs, func(j tables.Job) bool { return j.Spec != nil && j.Spec.VC == v })
}

// knowsNode reports whether a node exists or tasks still run on it.
func (s Planner) knowsNode(n cell.NodeName) bool {
	if s.Cluster != nil && s.Cluster.Forest().NodeIndex(n) != cell.None {
		return true
	}
	for i := range s.Jobs {
		for k := range s.Jobs[i].Tasks {
			if t := &s.Jobs[i].Tasks[k]; t.State != model.TaskWaiting && !t.Dead && t.Place.Node == n {
				return true
			}
		}
	}
	return false
}
