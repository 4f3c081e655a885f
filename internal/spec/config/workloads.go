package config

import (
	"maps"
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// workloadSpace is a namespace whose pods of others are jobs of a virtual cluster.
type workloadSpace struct {
	vc cell.VCName
	at *document.Node
}

// readWorkloads reads "workloads: {namespaces: [vision]}".
func (b *builder) readWorkloads(n *document.Node, c *model.VCConfig) {
	if n == nil || n.Kind == document.Null {
		return
	}
	m := b.Map(n, "the workloads")
	m.Require("namespaces")
	list := m.Node("namespaces")
	m.Rest()
	if b.workloads == nil {
		b.workloads = map[string]workloadSpace{}
	}
	for _, at := range b.List(list) {
		name := b.namespace(at)
		if name == "" {
			continue
		}
		if had, twice := b.workloads[name]; twice {
			b.Problem(at, "the workloads of namespace %s are already those of virtual cluster %s: a namespace belongs to one", name, had.vc)
			continue
		}
		b.workloads[name] = workloadSpace{c.Name, at}
		c.Workloads = append(c.Workloads, name)
	}
	slices.Sort(c.Workloads)
}

// checkWorkloads refuses namespaces that are for pods of Comb's own jobs as well: there a pod that
// Comb did not make is a stray.
func (b *builder) checkWorkloads() {
	own := map[string]cell.VCName{}
	for i := range b.vcs {
		if c := &b.vcs[i].policy; c.Namespace != "" {
			own[c.Namespace] = c.Name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.workloads)) {
		if vc, both := own[name]; both {
			b.Problem(b.workloads[name].at, "namespace %s is for the pods of Comb's own jobs, of virtual cluster %s: name another for workloads", name, vc)
		}
	}
}
