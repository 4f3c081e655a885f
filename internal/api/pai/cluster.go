package pai

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// info answers with the name and the version of the program.
func info(version string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"name": "Comb", "version": version, "launcherType": "k8s", "authnMethod": "basic"})
	}
}

// resources are counted under OpenPAI's new and old names.
type resources struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"` // MiB
	GPU    int64 `json:"gpu"`
	VCores int64 `json:"vCores"`
	GPUs   int64 `json:"GPUs"`
}

// add adds the resources of a number of leaves.
func (r *resources) add(leaves int32, c *model.Carry) {
	r.CPU += int64(leaves) * c.MilliCPU / 1000
	r.Memory += int64(leaves) * c.MemoryMB
	r.GPU += int64(leaves) * c.GPU
	r.VCores, r.GPUs = r.CPU, r.GPU
}

// virtualCluster is a VC. Capacities are percentages of the cluster.
type virtualCluster struct {
	Capacity            float64   `json:"capacity"`
	UsedCapacity        float64   `json:"usedCapacity"`
	MaxCapacity         float64   `json:"maxCapacity"`
	Dedicated           bool      `json:"dedicated"`
	NumActiveJobs       int32     `json:"numActiveJobs"`
	NumPendingJobs      int32     `json:"numPendingJobs"`
	NumJobs             int32     `json:"numJobs"`
	NodeList            []string  `json:"nodeList"`
	Status              string    `json:"status"`
	ResourcesUsed       resources `json:"resourcesUsed"`
	ResourcesGuaranteed resources `json:"resourcesGuaranteed"`
	ResourcesTotal      resources `json:"resourcesTotal"`
}

// vcOf is a VC in a cluster with this many leaves. Bad leaves of its guarantee count only in
// its total.
func vcOf(v *rest.VCStatus, leaves int32) virtualCluster {
	out := virtualCluster{Dedicated: v.Guaranteed > 0, NumActiveJobs: v.Active, NumPendingJobs: v.Waiting, NumJobs: v.Active + v.Waiting,
		NodeList: []string{}, Status: "RUNNING"}
	if v.Gone {
		out.Status = "DRAINING"
	}
	for i := range v.SKUs {
		s := &v.SKUs[i]
		out.ResourcesUsed.add(s.Used+s.Opportunistic, &s.Carry)
		out.ResourcesGuaranteed.add(max(s.Guaranteed-s.Bad-s.HeldByOthers, 0), &s.Carry)
		out.ResourcesTotal.add(s.Guaranteed, &s.Carry)
	}
	if leaves > 0 {
		percent := func(n int32) float64 { return float64(n) * 100 / float64(leaves) }
		out.Capacity, out.UsedCapacity = percent(v.Guaranteed), percent(v.Used+v.Opportunistic)
		out.MaxCapacity = 100 // opportunistic jobs may use all leaves that others leave free
	}
	return out
}

// vcs returns the VCs and the leaves of the cluster. On an error it answers the request.
func (h *Handler) vcs(w http.ResponseWriter, r *http.Request) ([]rest.VCStatus, int32, bool) {
	all, err := h.app.VCs(r.Context(), principalOf(r))
	if err == nil {
		var nodes []rest.NodeStatus
		if nodes, err = h.app.Nodes(r.Context(), principalOf(r)); err == nil {
			leaves := int32(0)
			for i := range nodes {
				for k := range nodes[i].SKUs {
					leaves += nodes[i].SKUs[k].Total
				}
			}
			return all, leaves, true
		}
	}
	fail(w, err, codes{missing: noVC})
	return nil, 0, false
}

const noVC = "NoVirtualClusterError"

func (h *Handler) listVCs(w http.ResponseWriter, r *http.Request) {
	all, leaves, ok := h.vcs(w, r)
	if !ok {
		return
	}
	out := map[string]virtualCluster{}
	for i := range all {
		out[string(all[i].Name)] = vcOf(&all[i], leaves)
	}
	answer(w, http.StatusOK, out)
}

// oneVC finds a VC. If there is none it answers the request.
func oneVC(w http.ResponseWriter, all []rest.VCStatus, name string) (*rest.VCStatus, bool) {
	for i := range all {
		if string(all[i].Name) == name {
			return &all[i], true
		}
	}
	refuse(w, http.StatusNotFound, noVC, "Virtual cluster "+clip(name)+" is not found.")
	return nil, false
}

func (h *Handler) getVC(w http.ResponseWriter, r *http.Request) {
	all, leaves, ok := h.vcs(w, r)
	if !ok {
		return
	}
	if v, ok := oneVC(w, all, r.PathValue("vc")); ok {
		answer(w, http.StatusOK, vcOf(v, leaves))
	}
}

// sku is the resources of one leaf of a type.
type sku struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
	GPU    int64 `json:"gpu"`
}

// skuTypes answers with the SKUs of a VC, or of all VCs where none is named.
func (h *Handler) skuTypes(w http.ResponseWriter, r *http.Request) {
	all, _, ok := h.vcs(w, r)
	if !ok {
		return
	}
	name := r.PathValue("vc")
	if name == "" {
		name = r.URL.Query().Get("vc")
	}
	if name != "" {
		v, ok := oneVC(w, all, name)
		if !ok {
			return
		}
		all = []rest.VCStatus{*v}
	}
	out := map[string]sku{}
	for i := range all {
		for _, s := range all[i].SKUs {
			out[string(s.SKU)] = sku{s.MilliCPU / 1000, s.MemoryMB, s.GPU}
		}
	}
	answer(w, http.StatusOK, out)
}

// storage is a storage that jobs may name.
type storage struct {
	Name       string `json:"name"`
	Share      bool   `json:"share"`
	VolumeName string `json:"volumeName"`
	Default    bool   `json:"default"`
}

func storageOf(s *rest.StorageStatus) storage { return storage{s.Name, !s.PerUser, s.Name, false} }

// storages returns the storages of the VCs to which a principal may submit.
func (h *Handler) storages(w http.ResponseWriter, r *http.Request) ([]rest.StorageStatus, bool) {
	all, err := h.app.Storages(r.Context(), principalOf(r))
	if err != nil {
		fail(w, err, codes{missing: "NoStorageError"})
		return nil, false
	}
	table, vcs, err := h.app.Rights(r.Context())
	if err != nil {
		fail(w, err, codes{})
		return nil, false
	}
	mine := membershipsOf(table, vcs, principalOf(r))
	return slices.DeleteFunc(list(all), func(s rest.StorageStatus) bool {
		return len(s.VCs) > 0 && !slices.ContainsFunc(s.VCs, func(v cell.VCName) bool { return slices.Contains(mine, string(v)) })
	}), true
}

func (h *Handler) listStorages(w http.ResponseWriter, r *http.Request) {
	all, ok := h.storages(w, r)
	if !ok {
		return
	}
	out := []storage{}
	for i := range all {
		if s := storageOf(&all[i]); s.Default || r.URL.Query().Get("default") != "true" {
			out = append(out, s)
		}
	}
	answer(w, http.StatusOK, map[string]any{"storages": out})
}

func (h *Handler) getStorage(w http.ResponseWriter, r *http.Request) {
	all, ok := h.storages(w, r)
	if !ok {
		return
	}
	for i := range all {
		if all[i].Name == r.PathValue("storage") {
			answer(w, http.StatusOK, struct {
				storage
				Type         string            `json:"type"`
				Data         map[string]string `json:"data"`
				ReadOnly     bool              `json:"readOnly"`
				MountOptions []string          `json:"mountOptions"`
			}{storageOf(&all[i]), "other", map[string]string{"variable": all[i].Variable}, all[i].ReadOnly, []string{}})
			return
		}
	}
	refuse(w, http.StatusNotFound, "NoStorageError", "Storage "+clip(r.PathValue("storage"))+" is not found.")
}

// nodes answers in the form of Kubernetes' list of nodes, as far as Comb knows them.
func (h *Handler) nodes(w http.ResponseWriter, r *http.Request) {
	all, err := h.app.Nodes(r.Context(), principalOf(r))
	if err != nil {
		fail(w, err, codes{})
		return
	}
	items := []any{}
	for i := range all {
		n := &all[i]
		var total resources
		for k := range n.SKUs {
			total.add(n.SKUs[k].Total, &n.SKUs[k].Carry)
		}
		ready := "False"
		if n.Up {
			ready = "True"
		}
		amounts := map[string]string{"cpu": fmt.Sprint(total.CPU), "memory": fmt.Sprintf("%dMi", total.Memory), "nvidia.com/gpu": fmt.Sprint(total.GPU)}
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": n.Name, "labels": map[string]string{}},
			"spec":     map[string]any{"unschedulable": n.Cordoned},
			"status": map[string]any{"capacity": amounts, "allocatable": amounts,
				"conditions": []any{map[string]string{"type": "Ready", "status": ready, "reason": "Comb", "message": n.Reason}},
				"addresses":  []any{map[string]any{"type": "Hostname", "address": n.Name}}},
		})
	}
	answer(w, http.StatusOK, map[string]any{"kind": "NodeList", "apiVersion": "v1", "metadata": map[string]string{}, "items": items})
}
