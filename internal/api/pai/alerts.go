package pai

import (
	"fmt"
	"net/http"

	"github.com/combsched/comb/internal/api/rest"
)

// alert is an alert in the form of Prometheus' alert manager, as OpenPAI's clients expect it.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Status      alertStatus       `json:"status"`
}

type alertStatus struct {
	State       string   `json:"state"`
	InhibitedBy []string `json:"inhibitedBy"`
	SilencedBy  []string `json:"silencedBy"`
}

func newAlert(name, severity, summary string) alert {
	return alert{map[string]string{"alertname": name, "severity": severity}, map[string]string{"summary": summary}, alertStatus{"active", []string{}, []string{}}}
}

// alerts answers with what is wrong in the cluster now: nodes, GPUs and policies. The alert
// rules of Prometheus itself are under deploy/.
func alerts(h *Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		nodes, err := h.app.Nodes(r.Context(), principalOf(r))
		if err != nil {
			fail(w, err, codes{})
			return
		}
		vcs, err := h.app.VCs(r.Context(), principalOf(r))
		if err != nil {
			fail(w, err, codes{})
			return
		}
		all := []alert{}
		for i := range nodes {
			all = append(all, nodeAlerts(&nodes[i])...)
		}
		for i := range vcs {
			if f := vcs[i].Failed; f != nil {
				a := newAlert("PolicyFailed", "error", fmt.Sprintf("the policy %s of virtual cluster %s failed: fifo serves it until a configuration is applied", f.Policy, f.VC))
				a.Labels["vc_name"] = string(f.VC)
				all = append(all, a)
			}
		}
		answer(w, http.StatusOK, all)
	}
}

func nodeAlerts(n *rest.NodeStatus) []alert {
	var out []alert
	add := func(name, severity, format string, args ...any) {
		a := newAlert(name, severity, fmt.Sprintf(format, args...))
		a.Labels["node_name"] = string(n.Name)
		out = append(out, a)
	}
	switch {
	case n.Gone:
		add("NodeNotInConfiguration", "warn", "node %s is not in the configuration any more, and tasks still run there", n.Name)
	case n.Dead:
		add("NodeDeclaredDead", "error", "node %s was declared dead", n.Name)
	case !n.Up:
		add("NodeNotReady", "error", "node %s does not answer: what runs there keeps its GPUs until it does", n.Name)
	}
	for i := range n.SKUs {
		if s := &n.SKUs[i]; s.Bad > 0 && n.Up {
			text := fmt.Sprintf("node %s: %s of %s of %s get no new work", n.Name, s.Number(s.Bad), s.Number(s.Total), s.SKU)
			if s.Fault != "" {
				text += ": " + s.Fault
			}
			add("BadDevices", "error", "%s", text)
		}
		if s := &n.SKUs[i]; s.HeldByOthers > 0 && n.Up {
			add("HeldByOthers", "error", "node %s: %s of %s of %s get no new work: %s",
				n.Name, s.Number(s.HeldByOthers), s.Number(s.Total), s.SKU, s.Holders)
		}
	}
	return out
}
