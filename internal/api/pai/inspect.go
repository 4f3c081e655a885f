package pai

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Inspect is the prefix of HiveD's own API, which tells what the scheduler holds.
const Inspect = "/v1/inspect"

// cellStatus is a cell in HiveD's form. A bound cell names its counterpart.
type cellStatus struct {
	CellType     cell.TypeName `json:"cellType"`
	IsNodeLevel  bool          `json:"isNodeLevel,omitempty"`
	CellAddress  string        `json:"cellAddress"`
	CellState    string        `json:"cellState"`
	Health       string        `json:"cellHealthiness"`
	CellPriority cell.Priority `json:"cellPriority"`
	Children     []*cellStatus `json:"cellChildren,omitempty"`
	VC           cell.VCName   `json:"vc,omitempty"`
	VirtualCell  *cellStatus   `json:"virtualCell,omitempty"`
	PhysicalCell *cellStatus   `json:"physicalCell,omitempty"`
}

// alone is a cell without its children.
func (c *cellStatus) alone(address string) *cellStatus {
	return &cellStatus{CellType: c.CellType, IsNodeLevel: c.IsNodeLevel, CellAddress: address, CellState: c.CellState, Health: c.Health, CellPriority: c.CellPriority}
}

// clusterStatus is all cells.
type clusterStatus struct {
	PhysicalCluster []*cellStatus                 `json:"physicalCluster"`
	VirtualClusters map[cell.VCName][]*cellStatus `json:"virtualClusters"`
}

// walk converts a cell to HiveD's form. above is its parent. The topmost bound cell is the
// preassigned cell of the VC.
func (s *clusterStatus) walk(c, above *rest.CellStatus) *cellStatus {
	out := &cellStatus{CellType: c.Type, IsNodeLevel: c.Node != "" && above.Node == "", CellAddress: c.Address, CellState: c.State, Health: "Healthy",
		CellPriority: c.Priority, VC: c.VC}
	if !c.Healthy {
		out.Health = "Bad"
	}
	for i := range c.Children {
		out.Children = append(out.Children, s.walk(&c.Children[i], c))
	}
	if c.Virtual != "" && above.Virtual == "" {
		out.VirtualCell = out.alone(c.Virtual)
		v := out.alone(c.Virtual)
		v.PhysicalCell = out.alone(c.Address)
		s.VirtualClusters[c.VC] = append(s.VirtualClusters[c.VC], v)
	}
	return out
}

// cells returns all cells, or nil after it has answered the request.
func (h *Handler) cells(w http.ResponseWriter, r *http.Request) *clusterStatus {
	all, err := h.app.Cells(r.Context(), principalOf(r))
	if err != nil {
		fail(w, err, codes{})
		return nil
	}
	vcs, err := h.app.VCs(r.Context(), principalOf(r))
	if err != nil {
		fail(w, err, codes{})
		return nil
	}
	out := &clusterStatus{PhysicalCluster: []*cellStatus{}, VirtualClusters: map[cell.VCName][]*cellStatus{}}
	for i := range all {
		out.PhysicalCluster = append(out.PhysicalCluster, out.walk(&all[i], &rest.CellStatus{}))
	}
	for i := range vcs {
		v := &vcs[i]
		mine := list(out.VirtualClusters[v.Name])
		for _, q := range v.Cells {
			for n := q.Bound; n < q.Total; n++ {
				mine = append(mine, &cellStatus{CellType: q.Type, CellAddress: fmt.Sprintf("%s/%s/free/%d", v.Name, q.Type, n), CellState: "Free", Health: "Healthy", CellPriority: cell.Free})
			}
		}
		out.VirtualClusters[v.Name] = mine
	}
	return out
}

func (h *Handler) clusterStatus(w http.ResponseWriter, r *http.Request) {
	if s := h.cells(w, r); s != nil {
		answer(w, http.StatusOK, s)
	}
}

func (h *Handler) physicalCluster(w http.ResponseWriter, r *http.Request) {
	if s := h.cells(w, r); s != nil {
		answer(w, http.StatusOK, s.PhysicalCluster)
	}
}

// virtualClusters answers with all virtual clusters, or with the one that the path names.
func (h *Handler) virtualClusters(w http.ResponseWriter, r *http.Request) {
	s := h.cells(w, r)
	if s == nil {
		return
	}
	name := r.PathValue("vc")
	if name == "" {
		answer(w, http.StatusOK, s.VirtualClusters)
		return
	}
	one, ok := s.VirtualClusters[cell.VCName(name)]
	if !ok {
		refuse(w, http.StatusNotFound, noVC, "Virtual cluster "+clip(name)+" is not found.")
		return
	}
	answer(w, http.StatusOK, one)
}

// affinityGroup is a gang that holds cells, or has reserved some.
type affinityGroup struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status groupStatus `json:"status"`
}

type groupStatus struct {
	VC                cell.VCName               `json:"vc"`
	Priority          cell.Priority             `json:"priority"`
	State             string                    `json:"state"`
	PhysicalPlacement map[cell.NodeName][]int32 `json:"physicalPlacement"`
	AllocatedPods     []string                  `json:"allocatedPods"`
	Lazy              bool                      `json:"lazyPreempted,omitempty"`
}

// groupsOf returns the gangs of a job that hold cells or have reserved some.
func groupsOf(j *rest.Job) (all []*affinityGroup) {
	for i := range j.Attempts {
		a := &j.Attempts[i]
		g := &affinityGroup{Status: groupStatus{VC: j.VC, Priority: j.Priority, State: "Allocated", PhysicalPlacement: map[cell.NodeName][]int32{}, AllocatedPods: []string{}, Lazy: a.Lazy}}
		switch {
		case a.State == model.AttemptOver:
			continue
		case a.State == model.AttemptReserving:
			g.Status.State = "Preempting"
		case a.State == model.AttemptStopping && a.Cause == model.EndPreempted:
			g.Status.State = "BeingPreempted"
		}
		g.Metadata.Name = groupName(j, a.ID.Gang)
		for k := range j.Tasks {
			if t := &j.Tasks[k]; t.Gang == a.ID.Gang && t.Attempt == a.ID.N && t.Node != "" {
				g.Status.PhysicalPlacement[t.Node] = append(g.Status.PhysicalPlacement[t.Node], t.Devices...)
				g.Status.AllocatedPods = append(g.Status.AllocatedPods, containerID(j, k))
			}
		}
		all = append(all, g)
	}
	return all
}

// groupName is HiveD's name of a gang.
func groupName(j *rest.Job, gang int32) string {
	return fmt.Sprintf("%s~%s/%d", j.User, j.Name, gang)
}

// containerID names the last run of a task.
func containerID(j *rest.Job, task int) string {
	return strconv.FormatInt(int64(j.ID), 10) + "-" + strconv.Itoa(task) + "-" + strconv.Itoa(int(j.Tasks[task].Attempt))
}

// affinityGroups answers with the gangs that the asker may see, or with the one that the path
// names.
func (h *Handler) affinityGroups(w http.ResponseWriter, r *http.Request) {
	name, seen := r.PathValue("name"), 0
	items := []*affinityGroup{}
	q := &rest.JobQuery{States: []model.Phase{model.Waiting, model.Active}}
	err := h.app.Jobs(r.Context(), principalOf(r), q, func(j *rest.Job) bool {
		for _, g := range groupsOf(j) {
			if name == "" || g.Metadata.Name == name {
				items = append(items, g)
			}
		}
		seen++
		return seen < mostSeen && (name == "" || len(items) == 0)
	})
	switch {
	case err != nil:
		fail(w, err, codes{})
	case name == "":
		answer(w, http.StatusOK, map[string]any{"items": items})
	case len(items) == 0:
		refuse(w, http.StatusNotFound, "NoAffinityGroupError", "Affinity group "+clip(name)+" is not found.")
	default:
		answer(w, http.StatusOK, items[0])
	}
}
