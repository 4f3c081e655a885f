package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A configuration may say that a VC or a node had another name. Jobs, and what is
// remembered about nodes, then go along: a job's description is replaced by a copy
// with the new names, so that nothing else has to know two of them.

// effectiveRenames returns the renames that mean something now: the older name is
// gone and is still known, the new one exists. Those that were made before are
// left out, so that a file can be applied again. Of several older names of one VC the
// first counts.
func (s *tables) effectiveRenames(c *Reconfigure, next *cell.Cluster) (vcs []model.Rename, nodes []model.NodeRename, no *Refusal) {
	for _, r := range c.Renamed {
		twice := slices.ContainsFunc(vcs, func(v model.Rename) bool { return v.To == r.To })
		if !twice && next.SpaceOf(r.From) == cell.None && next.SpaceOf(r.To) != cell.None && s.knowsVC(r.From) {
			vcs = append(vcs, r)
		}
	}
	for _, r := range c.RenamedNodes {
		if next.Forest().NodeIndex(r.From) != cell.None || next.Forest().NodeIndex(r.To) == cell.None || !s.knowsNode(r.From) {
			continue
		}
		if s.cl != nil && s.cl.Forest().NodeIndex(r.From) != cell.None && s.cl.Forest().NodeIndex(r.To) != cell.None {
			return nil, nil, refuse(Conflict, "the node %q cannot go on as %q: both exist now; a machine has one name, so remove \"formerly\" at %q", r.From, r.To, r.To)
		}
		nodes = append(nodes, r)
	}
	return vcs, nodes, nil
}

// knowsVC reports whether a VC exists or jobs still name it.
func (s *tables) knowsVC(v cell.VCName) bool {
	return s.cl != nil && s.cl.SpaceOf(v) != cell.None ||
		slices.ContainsFunc(s.jobs, func(j job) bool { return j.spec != nil && j.spec.VC == v })
}

// knowsNode reports whether a node exists or tasks still run on it.
func (s *tables) knowsNode(n cell.NodeName) bool {
	if s.cl != nil && s.cl.Forest().NodeIndex(n) != cell.None {
		return true
	}
	for i := range s.jobs {
		for k := range s.jobs[i].tasks {
			if t := &s.jobs[i].tasks[k]; t.state != model.TaskWaiting && !t.dead && t.place.Node == n {
				return true
			}
		}
	}
	return false
}

// rename takes everything that bears an older name along.
func (s *fold) rename(e *Configured) {
	if len(e.Renamed)+len(e.RenamedNodes) == 0 {
		return
	}
	for i := range s.jobs {
		if s.jobs[i].spec != nil {
			s.renameJob(&s.jobs[i], e)
		}
	}
	s.renameDebts(e.Renamed)
	s.renameMoves(e.Renamed)
	s.renameNotes(e.Renamed)
	// What was remembered under the new name is of an older machine.
	s.nodes = slices.DeleteFunc(s.nodes, func(n nodeNote) bool { return takenOver(e.RenamedNodes, n.Name) })
	for i := range s.nodes {
		s.nodes[i].Name = model.NodeNow(e.RenamedNodes, s.nodes[i].Name)
	}
	slices.SortFunc(s.nodes, func(a, b nodeNote) int { return cmp.Compare(a.Name, b.Name) })
	s.leaves = slices.DeleteFunc(s.leaves, func(n leafNote) bool { return takenOver(e.RenamedNodes, n.Node) })
	for i := range s.leaves {
		s.leaves[i].Node = model.NodeNow(e.RenamedNodes, s.leaves[i].Node)
	}
	slices.SortFunc(s.leaves, leafNote.compare)
}

// renameNotes lets what policies noted of VCs go along; whoever joins a VC that has a note
// reads that one.
func (s *fold) renameNotes(renamed []model.Rename) {
	for _, r := range renamed {
		i, found := s.findNote(r.From)
		if !found {
			continue
		}
		n := s.notes[i]
		s.notes = slices.Delete(s.notes, i, i+1)
		if to, taken := s.findNote(r.To); !taken {
			n.VC = r.To
			s.notes = slices.Insert(s.notes, to, n)
		}
	}
}

// renameDebts lets what VCs borrowed go along: two that become one owe what both owed. All
// were brought up to date before the configuration changed.
func (s *fold) renameDebts(renamed []model.Rename) {
	for _, r := range renamed {
		i, found := s.findDebt(r.From)
		if !found {
			continue
		}
		d := s.debts[i]
		d.VC = r.To
		s.debts = slices.Delete(s.debts, i, i+1)
		to, joins := s.findDebt(r.To)
		if !joins {
			s.debts = slices.Insert(s.debts, to, d)
			continue
		}
		means := slices.Clone(s.debts[to].Past)
		for _, p := range d.Past {
			if k := slices.IndexFunc(means, func(q past) bool { return q.SKU == p.SKU }); k >= 0 {
				means[k].Mean += p.Mean
			} else {
				means = append(means, p)
			}
		}
		s.debts[to].Past = means
	}
}

// renameMoves lets what VCs moved within the hour go along, to count for both that become one.
func (s *fold) renameMoves(renamed []model.Rename) {
	for _, r := range renamed {
		i, found := s.findMoved(r.From)
		if !found {
			continue
		}
		times := s.moved[i].Times
		s.moved = slices.Delete(s.moved, i, i+1)
		to, joins := s.findMoved(r.To)
		if !joins {
			s.moved = slices.Insert(s.moved, to, moved{VC: r.To})
		}
		times = slices.Concat(s.moved[to].Times, times)
		slices.Sort(times)
		s.moved[to].Times = times
	}
}

// takenOver reports whether a node's name now belongs to another one.
func takenOver(renamed []model.NodeRename, n cell.NodeName) bool {
	return slices.ContainsFunc(renamed, func(r model.NodeRename) bool { return r.To == n })
}

func (s *tables) renameJob(j *job, e *Configured) {
	spec := *j.spec
	spec.VC = model.VCNow(e.Renamed, spec.VC)
	for _, list := range []*[]cell.NodeName{&spec.AllowedNodes, &spec.AvoidedNodes, &spec.PreferredNodes} {
		*list = slices.Clone(*list)
		for i, n := range *list {
			(*list)[i] = model.NodeNow(e.RenamedNodes, n)
		}
	}
	j.spec = &spec
	for t := range j.tasks {
		if p := j.tasks[t].started(); j.tasks[t].place != nil {
			was := p.Node
			p.Node = model.NodeNow(e.RenamedNodes, p.Node)
			j.tasks[t].place = &p
			if p.Node != was && j.tasks[t].state != model.TaskWaiting {
				// Whoever runs there keeps its turns by the older name: a gang that joined
				// would look for it by the new one, and they would run at the same time.
				j.gangs[j.tasks[t].gang].alone = true
			}
		}
	}
	for g := range j.gangs {
		if j.gangs[g].odd == nil {
			continue
		}
		odd := alter(&j.gangs[g].odd)
		odd.meant, odd.avoid = slices.Clone(odd.meant), slices.Clone(odd.avoid)
		for i, n := range odd.meant {
			odd.meant[i] = model.NodeNow(e.RenamedNodes, n)
		}
		for a := range odd.avoid {
			odd.avoid[a].Node = model.NodeNow(e.RenamedNodes, odd.avoid[a].Node)
		}
	}
}
