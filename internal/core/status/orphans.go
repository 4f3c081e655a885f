package status

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// On returns what runs, or may still run, on a node, in order of attempts.
func (s *Status) On(node cell.NodeName) []model.OnNode {
	out := []model.OnNode{}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.State == model.AttemptReserving || !s.IsOn(a, node) {
			continue
		}
		one := model.OnNode{Job: a.ID.Job, State: a.State, Attempt: a.ID}
		for _, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
			if t.Node == node {
				one.Leaves += int32(len(t.Leaves))
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b model.OnNode) int { return model.CompareAttempts(a.Attempt, b.Attempt) })
	return out
}

// Orphan is a device on which a task still runs and which the configuration lacks. It drains:
// until it is free it is shown with its node, its VC and its job.
type Orphan struct {
	vc     cell.VCName
	Node   cell.NodeName
	device int32
}

// Orphans lists the orphans in order of node and device.
func (s *Status) Orphans() []Orphan {
	var out []Orphan
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || !a.Orphaned {
			continue
		}
		j := &s.Jobs[a.Job]
		for k, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
			t := &j.Tasks[o]
			if t.Dead || s.doneBefore(a, k) {
				continue
			}
			for _, d := range LostDevices(t, &s.Cluster.Alloc(a.Alloc).Placement.Tasks[k]) {
				out = append(out, Orphan{j.Spec.VC, t.Place.Node, d})
			}
		}
	}
	slices.SortFunc(out, func(x, y Orphan) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node),
			cmp.Compare(x.device, y.device))
	})
	return out
}

// doneBefore reports whether a task of an earlier member of the same allocation lives on the
// devices of this one: they are listed once.
func (s *Status) doneBefore(a *tables.Attempt, k int) bool {
	if !a.NotFirst {
		return false
	}
	for at := s.First(a); s.Attempts[at].ID != a.ID; at = s.Attempts[at].NextMember {
		m := &s.Attempts[at]
		if o := s.Jobs[m.Job].Spec.Gangs[m.ID.Gang].Tasks[k]; !s.Jobs[m.Job].Tasks[o].Dead {
			return true
		}
	}
	return false
}

// LostDevices returns the devices with which a task was started and for which the configuration
// has no leaf.
func LostDevices(t *tables.TaskRun, now *cell.Task) []int32 {
	var lost []int32
	for i, d := range t.Place.Devices {
		kept := false
		for k := range now.Devices {
			same := i >= len(t.Place.Parts) || k >= len(now.Parts) || t.Place.Parts[i] == now.Parts[k]
			kept = kept || now.Devices[k] == d && same
		}
		if !kept {
			lost = append(lost, d)
		}
	}
	return lost
}

// withOrphanNodes counts orphans on their nodes, and adds the nodes that the configuration lacks
// and that still run tasks.
func (s *Status) withOrphanNodes(nodes []model.NodeStatus) []model.NodeStatus {
	for _, o := range s.Orphans() {
		i := slices.IndexFunc(nodes, func(n model.NodeStatus) bool { return n.Name == o.Node })
		if i < 0 {
			i = len(nodes)
			note := s.NodeNote(o.Node)
			nodes = append(nodes, model.NodeStatus{Name: o.Node, Up: !note.Down, Gone: true, Reason: note.Reason,
				SKUs: []model.NodeSKU{}})
		}
		nodes[i].Orphaned++
	}
	return nodes
}

// withOrphanVCs counts orphans in their VCs, and adds the VCs that the configuration lacks and
// that still have jobs.
func (s *Status) withOrphanVCs(vcs []model.VCStatus) []model.VCStatus {
	at := func(v cell.VCName) *model.VCStatus {
		i := slices.IndexFunc(vcs, func(st model.VCStatus) bool { return st.Name == v })
		if i < 0 {
			i = len(vcs)
			vcs = append(vcs, model.VCStatus{Name: v, Gone: true, Cells: []model.QuotaUse{}, SKUs: []model.VCUse{}})
		}
		return &vcs[i]
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Spec == nil || s.Space(j.Spec.VC) > 0 {
			continue
		}
		v := at(j.Spec.VC)
		if s.Phase(j) != model.Active {
			v.Waiting++
			continue
		}
		v.Active++
		for g := range j.Gangs {
			if slot := j.Gangs[g].Attempt; slot != tables.None && s.Attempts[slot].State != model.AttemptReserving &&
				!s.Attempts[slot].NotFirst {
				for _, t := range s.Cluster.Alloc(s.Attempts[slot].Alloc).Placement.Tasks {
					n := int32(len(t.Leaves))
					v.Use(s.Carry(t.SKU)).Opportunistic += n
					v.Opportunistic += n
				}
			}
		}
	}
	for _, o := range s.Orphans() {
		at(o.vc).Orphaned++
	}
	slices.SortFunc(vcs, func(a, b model.VCStatus) int { return cmp.Compare(a.Name, b.Name) })
	return vcs
}

// markLost shows in a job's tasks which of their devices drain.
func (s *Status) markLost(j *tables.Job, tasks []model.TaskStatus) {
	for g := range j.Gangs {
		slot := j.Gangs[g].Attempt
		if slot == tables.None || !s.Attempts[slot].Orphaned {
			continue
		}
		for k, o := range j.Spec.Gangs[g].Tasks {
			if !j.Tasks[o].Dead {
				tasks[o].Lost = LostDevices(&j.Tasks[o], &s.Cluster.Alloc(s.Attempts[slot].Alloc).Placement.Tasks[k])
			}
		}
	}
}
