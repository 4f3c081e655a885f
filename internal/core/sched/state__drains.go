package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// charged returns the space that a charge is about.
func (s *fold) charged(vc cell.VCName, container bool) int32 {
	if container {
		return s.cl.ContainerOf(vc)
	}
	return s.cl.SpaceOf(vc)
}

// drainDue reports whether an attempt has a task on a node that it must leave by now.
func (s *fold) drainDue(a *attempt) bool {
	if s.looks.drains == 0 {
		return false
	}
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if t := &j.tasks[o]; t.place != nil && !t.dead {
			if n := s.noted(t.place.Node); n.Cordon && n.Drain > 0 && n.Drain <= s.now {
				return true
			}
		}
	}
	return false
}

// On returns what runs, or may live, on a node, in order of job.
func (s *fold) On(node cell.NodeName) []OnNode {
	out := []OnNode{}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.state == model.AttemptReserving || !s.isOn(a, node) {
			continue
		}
		one := OnNode{Job: a.id.Job, State: a.state, Attempt: a.id}
		for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
			if t.Node == node {
				one.Leaves += int32(len(t.Leaves))
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b OnNode) int { return compareAttempts(a.Attempt, b.Attempt) })
	return out
}

// orphan is a device that a task still runs on and that the configuration lacks:
// it drains, and is shown with its node, its VC and its job until it is free.
type orphan struct {
	vc     cell.VCName
	node   cell.NodeName
	device int32
}

// drain makes leaves count as bad until an attempt has ended that runs on their
// devices without holding them.
func (s *fold) drain(a *attempt, leaves []cell.LeafID) {
	if leaves != nil || rare(a.odd).drains != nil {
		alter(&a.odd).drains = leaves
	}
	for _, l := range leaves {
		s.setLeafBad(l, true)
	}
}

// drained gives leaves back when an attempt has ended that drained from them, unless
// others still do, or they are bad by themselves.
func (s *fold) drained(leaves []cell.LeafID) {
	for _, l := range leaves {
		s.setLeafBad(l, s.notedBad(l) || s.drains(l))
		s.lookAll()
	}
}

// notedBad reports whether a leaf is bad by itself.
func (s *fold) notedBad(l cell.LeafID) bool {
	_, noted := s.findLeafNote(s.leafOf(l))
	return noted
}

// drains reports whether an attempt drains from a leaf that it does not hold.
func (s *fold) drains(l cell.LeafID) bool {
	return slices.ContainsFunc(s.attempts, func(a attempt) bool { return a.job != none && a.odd != nil && slices.Contains(a.odd.drains, l) })
}

// orphans lists them in order of node.
func (s *fold) orphans() []orphan {
	var out []orphan
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || !a.orphaned {
			continue
		}
		j := &s.jobs[a.job]
		for k, o := range j.spec.Gangs[a.id.Gang].Tasks {
			t := &j.tasks[o]
			if t.dead || s.doneBefore(a, k) {
				continue
			}
			for _, d := range lostDevices(t, &s.cl.Alloc(a.alloc).Placement.Tasks[k]) {
				out = append(out, orphan{j.spec.VC, t.place.Node, d})
			}
		}
	}
	slices.SortFunc(out, func(x, y orphan) int { return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.device, y.device)) })
	return out
}

// doneBefore reports whether a task before this one, of an earlier member of the same
// allocation, lives on its devices: they are listed once.
func (s *fold) doneBefore(a *attempt, k int) bool {
	if !a.joined {
		return false
	}
	for at := s.first(a); s.attempts[at].id != a.id; at = s.attempts[at].mate {
		m := &s.attempts[at]
		if o := s.jobs[m.job].spec.Gangs[m.id.Gang].Tasks[k]; !s.jobs[m.job].tasks[o].dead {
			return true
		}
	}
	return false
}

// lostDevices returns the devices that a task was started with and that the
// configuration has no leaf for.
func lostDevices(t *taskRun, now *cell.Task) []int32 {
	var lost []int32
	for i, d := range t.place.Devices {
		kept := false
		for k := range now.Devices {
			same := i >= len(t.place.Parts) || k >= len(now.Parts) || t.place.Parts[i] == now.Parts[k]
			kept = kept || now.Devices[k] == d && same
		}
		if !kept {
			lost = append(lost, d)
		}
	}
	return lost
}

// withOrphanNodes adds to the nodes what drains on them, and the nodes that are
// no longer in the configuration and still run tasks.
func (s *fold) withOrphanNodes(nodes []model.NodeStatus) []model.NodeStatus {
	for _, o := range s.orphans() {
		i := slices.IndexFunc(nodes, func(n model.NodeStatus) bool { return n.Name == o.node })
		if i < 0 {
			i = len(nodes)
			note := s.noted(o.node)
			nodes = append(nodes, model.NodeStatus{Name: o.node, Up: !note.Down, Gone: true, Reason: note.Reason, SKUs: []model.NodeSKU{}})
		}
		nodes[i].Orphaned++
	}
	return nodes
}

// withOrphanVCs adds to the VCs the devices that drain, and the VCs that are no
// longer in the configuration and still have jobs.
func (s *fold) withOrphanVCs(vcs []VCStatus) []VCStatus {
	at := func(v cell.VCName) *VCStatus {
		i := slices.IndexFunc(vcs, func(st VCStatus) bool { return st.Name == v })
		if i < 0 {
			i = len(vcs)
			vcs = append(vcs, VCStatus{Name: v, Gone: true, Cells: []model.QuotaUse{}, SKUs: []model.VCUse{}})
		}
		return &vcs[i]
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.spec == nil || s.space(j.spec.VC) > 0 {
			continue
		}
		v := at(j.spec.VC)
		if s.phase(j) != Active {
			v.Waiting++
			continue
		}
		v.Active++
		for g := range j.gangs {
			if slot := j.gangs[g].attempt; slot != none && s.attempts[slot].state != model.AttemptReserving && !s.attempts[slot].joined {
				for _, t := range s.cl.Alloc(s.attempts[slot].alloc).Placement.Tasks {
					n := int32(len(t.Leaves))
					v.use(s.carry(t.SKU)).Opportunistic += n
					v.Opportunistic += n
				}
			}
		}
	}
	for _, o := range s.orphans() {
		at(o.vc).Orphaned++
	}
	slices.SortFunc(vcs, func(a, b VCStatus) int { return cmp.Compare(a.Name, b.Name) })
	return vcs
}

// markLost shows in a job's tasks which of their devices drain.
func (s *fold) markLost(j *job, tasks []TaskStatus) {
	for g := range j.gangs {
		slot := j.gangs[g].attempt
		if slot == none || !s.attempts[slot].orphaned {
			continue
		}
		for k, o := range j.spec.Gangs[g].Tasks {
			if !j.tasks[o].dead {
				tasks[o].Lost = lostDevices(&j.tasks[o], &s.cl.Alloc(s.attempts[slot].alloc).Placement.Tasks[k])
			}
		}
	}
}
