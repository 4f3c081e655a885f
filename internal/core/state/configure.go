package state

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// requeueAll builds the queues anew, after the VCs changed.
func (s *State) requeueAll() {
	s.Queues = make([][]index.Queued, s.Cluster.NumSpaces())
	for slot := range s.Jobs {
		j := &s.Jobs[slot]
		for g := range j.Gangs {
			if j.Spec != nil && j.Gangs[g].Waiting {
				i := j.Space
				s.Queues[i] = append(s.Queues[i], index.Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: int32(g),
					Slot: int32(slot)})
			}
		}
	}
	for i := range s.Queues {
		slices.SortFunc(s.Queues[i], index.Queued.Compare)
	}
	s.RegroupAll()
	s.RelistLazy()
	s.Relink()
	s.ResetDirty()
	s.Tallies = s.recounted()
	s.DirtyAll()
}

// Origins are what the tasks of an attempt were started with. If they are not kept, they are what
// the present cluster says.
func (s *State) Origins(a *tables.Attempt) []cell.Origin {
	if kept := tables.RareOf(a.Rare).Origins; kept != nil {
		return kept
	}
	j := &s.Jobs[a.Job]
	out := make([]cell.Origin, 0, len(j.Spec.Gangs[a.ID.Gang].Tasks))
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		t := j.Tasks[o].StartPlace()
		out = append(out, s.Cluster.Origin(&t))
	}
	return out
}

// allOrigins are the origins of all attempts, by slot, before the configuration changes.
func (s *State) allOrigins() [][]cell.Origin {
	out := make([][]cell.Origin, len(s.Attempts))
	for i := range s.Attempts {
		if s.Attempts[i].Job != tables.None {
			out[i] = s.Origins(&s.Attempts[i])
		}
	}
	return out
}

// keepOrigins keeps the origins that the new cluster no longer tells.
func (s *State) keepOrigins(was [][]cell.Origin) {
	for i := range was {
		a := &s.Attempts[i]
		if a.Job == tables.None {
			continue
		}
		if tables.RareOf(a.Rare).Origins != nil {
			tables.SetRare(&a.Rare).Origins = nil
		}
		if !slices.EqualFunc(was[i], s.Origins(a), cell.Origin.Equal) {
			tables.SetRare(&a.Rare).Origins = was[i]
		}
	}
}

// renaming carries what is known of VCs and nodes over to their new names.
type renaming struct{ *State }

// all renames everything that bears an older name.
func (s renaming) all(e *model.Configured) {
	if len(e.Renamed)+len(e.RenamedNodes) == 0 {
		return
	}
	for i := range s.Jobs {
		if s.Jobs[i].Spec != nil {
			s.renameJob(&s.Jobs[i], e)
		}
	}
	s.renameDebts(e.Renamed)
	s.renameMoves(e.Renamed)
	s.renameNotes(e.Renamed)
	// What is noted under the new name is of an older machine.
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n tables.NodeNote) bool { return takenOver(e.RenamedNodes, n.Name) })
	for i := range s.Nodes {
		s.Nodes[i].Name = model.NewNodeName(e.RenamedNodes, s.Nodes[i].Name)
	}
	slices.SortFunc(s.Nodes, func(a, b tables.NodeNote) int { return cmp.Compare(a.Name, b.Name) })
	s.Leaves = slices.DeleteFunc(s.Leaves, func(n tables.LeafNote) bool { return takenOver(e.RenamedNodes, n.Node) })
	for i := range s.Leaves {
		s.Leaves[i].Node = model.NewNodeName(e.RenamedNodes, s.Leaves[i].Node)
	}
	slices.SortFunc(s.Leaves, tables.LeafNote.Compare)
}

// renameNotes carries the notes of policies about VCs over; of two VCs that become one, the note
// of the one that had the name stays.
func (s renaming) renameNotes(renamed []model.Rename) {
	for _, r := range renamed {
		i, found := s.findNote(r.From)
		if !found {
			continue
		}
		n := s.Notes[i]
		s.Notes = slices.Delete(s.Notes, i, i+1)
		if to, taken := s.findNote(r.To); !taken {
			n.VC = r.To
			s.Notes = slices.Insert(s.Notes, to, n)
		}
	}
}

// renameDebts carries the debts of VCs over; two VCs that become one owe the sum. All debts were
// brought up to date before the configuration changed.
func (s renaming) renameDebts(renamed []model.Rename) {
	for _, r := range renamed {
		i, found := s.findDebt(r.From)
		if !found {
			continue
		}
		d := s.Debts[i]
		d.VC = r.To
		s.Debts = slices.Delete(s.Debts, i, i+1)
		to, joins := s.findDebt(r.To)
		if !joins {
			s.Debts = slices.Insert(s.Debts, to, d)
			continue
		}
		means := slices.Clone(s.Debts[to].Past)
		for _, p := range d.Past {
			if k := slices.IndexFunc(means, func(q past) bool { return q.SKU == p.SKU }); k >= 0 {
				means[k].Mean += p.Mean
			} else {
				means = append(means, p)
			}
		}
		s.Debts[to].Past = means
	}
}

// renameMoves carries over when gangs of VCs moved within the hour; those of two VCs that become
// one count together.
func (s renaming) renameMoves(renamed []model.Rename) {
	for _, r := range renamed {
		i, found := s.findMoved(r.From)
		if !found {
			continue
		}
		times := s.Moved[i].Times
		s.Moved = slices.Delete(s.Moved, i, i+1)
		to, joins := s.findMoved(r.To)
		if !joins {
			s.Moved = slices.Insert(s.Moved, to, moved{VC: r.To})
		}
		times = slices.Concat(s.Moved[to].Times, times)
		slices.Sort(times)
		s.Moved[to].Times = times
	}
}

// takenOver reports whether a renamed node takes a name over.
func takenOver(renamed []model.NodeRename, n cell.NodeName) bool {
	return slices.ContainsFunc(renamed, func(r model.NodeRename) bool { return r.To == n })
}

func (s renaming) renameJob(j *tables.Job, e *model.Configured) {
	spec := *j.Spec
	spec.VC = model.NewVCName(e.Renamed, spec.VC)
	for _, list := range []*[]cell.NodeName{&spec.AllowedNodes, &spec.AvoidedNodes, &spec.PreferredNodes} {
		*list = slices.Clone(*list)
		for i, n := range *list {
			(*list)[i] = model.NewNodeName(e.RenamedNodes, n)
		}
	}
	j.Spec = &spec
	for t := range j.Tasks {
		if p := j.Tasks[t].StartPlace(); j.Tasks[t].Place != nil {
			was := p.Node
			p.Node = model.NewNodeName(e.RenamedNodes, p.Node)
			j.Tasks[t].Place = &p
			if p.Node != was && j.Tasks[t].State != model.TaskWaiting {
				// Its tasks keep their turns under the older node name. A gang that joined would
				// look for them under the new one, and both would run at once.
				j.Gangs[j.Tasks[t].Gang].NeverShares = true
			}
		}
	}
	for g := range j.Gangs {
		if j.Gangs[g].Rare == nil {
			continue
		}
		odd := tables.SetRare(&j.Gangs[g].Rare)
		odd.MoveTo, odd.Avoid = slices.Clone(odd.MoveTo), slices.Clone(odd.Avoid)
		for i, n := range odd.MoveTo {
			odd.MoveTo[i] = model.NewNodeName(e.RenamedNodes, n)
		}
		for a := range odd.Avoid {
			odd.Avoid[a].Node = model.NewNodeName(e.RenamedNodes, odd.Avoid[a].Node)
		}
	}
}
