package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// requeueAll builds the queues anew, after the VCs changed.
func (s *fold) requeueAll() {
	s.queues = make([][]queued, s.cl.NumSpaces())
	for slot := range s.jobs {
		j := &s.jobs[slot]
		for g := range j.gangs {
			if j.spec != nil && j.gangs[g].waiting {
				i := j.space
				s.queues[i] = append(s.queues[i], queued{prio: j.spec.Priority, job: j.id, gang: int32(g), slot: int32(slot)})
			}
		}
	}
	for i := range s.queues {
		slices.SortFunc(s.queues[i], queued.compare)
	}
	s.relistAll()
	s.relistLazy()
	s.relink()
	s.resetLooks()
	s.tallies = s.recounted()
	s.lookAll()
}

func compareAttempts(a, b model.AttemptID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang), cmp.Compare(a.N, b.N))
}

// origins are what the tasks of an attempt were started with. A snapshot of an older
// form did not keep them: then it is what the present cluster says.
func (s *fold) origins(a *attempt) []cell.Origin {
	if kept := rare(a.odd).origins; kept != nil {
		return kept
	}
	j := &s.jobs[a.job]
	out := make([]cell.Origin, 0, len(j.spec.Gangs[a.id.Gang].Tasks))
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := j.tasks[o].started()
		out = append(out, s.cl.Origin(&t))
	}
	return out
}

// allOrigins are those of all attempts, by slot, before the configuration changes.
func (s *fold) allOrigins() [][]cell.Origin {
	out := make([][]cell.Origin, len(s.attempts))
	for i := range s.attempts {
		if s.attempts[i].job != none {
			out[i] = s.origins(&s.attempts[i])
		}
	}
	return out
}

// keepOrigins keeps those that the new cluster no longer tells.
func (s *fold) keepOrigins(was [][]cell.Origin) {
	for i := range was {
		a := &s.attempts[i]
		if a.job == none {
			continue
		}
		if rare(a.odd).origins != nil {
			alter(&a.odd).origins = nil
		}
		if !slices.EqualFunc(was[i], s.origins(a), cell.Origin.Equal) {
			alter(&a.odd).origins = was[i]
		}
	}
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

func (s *fold) renameJob(j *job, e *Configured) {
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
