package config

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// The bounds of a virtual cluster's keys.
const (
	maxMinRun = 30 * 24 * model.Hour
	maxBudget = 1_000_000
	maxWeight = 1_000_000
	maxMoves  = 1_000
	maxHalf   = 366 * 24 * model.Hour

	maxUserLimit = 1_000_000
)

// vcKeys reads the keys that say how the jobs of a virtual cluster share it.
func (b *builder) vcKeys(m *document.MapReader, c *model.VCConfig) {
	c.Backfill = m.String("backfill", document.Text{OneOf: model.Backfills()})
	c.Placement = m.String("placement", document.Text{OneOf: []string{"pack", "spread"}})
	b.defragmentation(m.Node("defragmentation"), c)
	c.MinRun = b.duration(m.Node("minRunTime"), maxMinRun)
	if n := m.Node("preemptionBudget"); n != nil && n.Kind != document.Null {
		budget := int32(b.Int(n, document.Range{Max: maxBudget}))
		c.Budget = &budget
	}
	if n := m.Node("opportunisticWeight"); n != nil && n.Kind == document.Scalar && n.Text == "0" {
		b.Problem(n, "a weight is at least 1; lending: none here keeps what %s leaves unused from all others, lending: none at the others keeps what they leave unused from %[1]s", document.Quote(string(c.Name)))
	} else if n != nil && n.Kind != document.Null {
		c.Weight = b.Int(n, document.Range{Min: 1, Max: maxWeight})
	}
	c.Lending = m.String("lending", document.Text{OneOf: []string{model.LendIdle, model.LendNothing}})
	c.Namespace = b.namespace(m.Node("namespace"))
	b.workloads.read(b, m.Node("workloads"), c)
	c.InfiniBand = b.Bool(m.Node("infiniband"), false)
	b.userLimits(m.Node("userLimits"), c)
	if n := m.Node("access"); n != nil && n.Kind != document.Null {
		b.access = append(b.access, readAccess(b.Reader, n, c.Name))
	}
}

// namespace reads the namespace of Kubernetes of a virtual cluster's pods, "" when absent.
func (b *builder) namespace(n *document.Node) string {
	if n == nil || n.Kind == document.Null {
		return ""
	}
	name := b.String(n, document.Text{})
	if n.Kind == document.Scalar && !fits(name, deviceName, 63) {
		b.Problem(n, "%s cannot be a namespace of Kubernetes: its name has at most 63 small letters, digits and dashes, and begins and ends with none of the dashes", document.Quote(name))
		return ""
	}
	return name
}

// workloadSpace is a namespace whose pods of others are jobs of a virtual cluster.
type workloadSpace struct {
	vc cell.VCName
	at *document.Node
}

// workloadSpaces are such namespaces, by name.
type workloadSpaces map[string]workloadSpace

// read reads "workloads: {namespaces: [vision]}".
func (w workloadSpaces) read(b *builder, n *document.Node, c *model.VCConfig) {
	if n == nil || n.Kind == document.Null {
		return
	}
	m := b.Map(n, "the workloads")
	m.Require("namespaces")
	list := m.Node("namespaces")
	m.Rest()
	for _, at := range b.List(list) {
		name := b.namespace(at)
		if name == "" {
			continue
		}
		if had, twice := w[name]; twice {
			b.Problem(at, "the workloads of namespace %s are already those of virtual cluster %s: a namespace belongs "+
				"to one", name, had.vc)
			continue
		}
		w[name] = workloadSpace{c.Name, at}
		c.Workloads = append(c.Workloads, name)
	}
	slices.Sort(c.Workloads)
}

// check refuses namespaces that are for pods of Comb's own jobs as well: there a pod that
// Comb did not make is a stray.
func (w workloadSpaces) check(b *builder) {
	own := map[string]cell.VCName{}
	for i := range b.vcs {
		if c := &b.vcs[i].policy; c.Namespace != "" {
			own[c.Namespace] = c.Name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if vc, both := own[name]; both {
			b.Problem(w[name].at, "namespace %s is for the pods of Comb's own jobs, of virtual cluster %s: "+
				"name another for workloads", name, vc)
		}
	}
}

// userLimits reads "userLimits: {gpus: 8, running: 4, waiting: 100}".
func (b *builder) userLimits(n *document.Node, c *model.VCConfig) {
	if n == nil || n.Kind == document.Null {
		return
	}
	m, before := b.Map(n, "the limits of users"), b.Count()
	var l model.UserLimits
	for key, to := range map[string]*int64{"gpus": &l.GPUs, "running": &l.Running, "waiting": &l.Waiting} {
		if v := m.Node(key); v != nil && v.Kind != document.Null {
			*to = b.Int(v, document.Range{Min: 1, Max: maxUserLimit})
		}
	}
	if v := m.Node("priority"); v != nil && v.Kind != document.Null {
		p := cell.Priority(b.Int(v, document.Range{Min: int64(cell.Opportunistic), Max: int64(cell.MaxGuaranteed)}))
		l.Priority = &p
	}
	m.Rest()
	if b.Count() > before {
		return // the limits could not be read
	}
	if l == (model.UserLimits{}) {
		b.Problem(n, "it bounds nothing: give gpus, running, waiting or priority, or leave it out")
		return
	}
	c.Users = &l
}

// defragmentation reads "defragmentation: {movesPerHour: 4}".
func (b *builder) defragmentation(n *document.Node, c *model.VCConfig) {
	if n == nil || n.Kind == document.Null {
		return
	}
	m := b.Map(n, "the defragmentation")
	m.Require("movesPerHour")
	if n := m.Node("movesPerHour"); n != nil && n.Kind != document.Null {
		c.Moves = int32(b.Int(n, document.Range{Max: maxMoves}))
	}
	m.Rest()
	if c.Moves > 0 && c.Backfill != "" && c.Backfill != "none" {
		b.Problem(n, "backfill and defragmentation do not go together: bookings rest on when jobs end, and a move puts that off; remove one of the two")
	}
}

// duration reads "90s", "2h30m", "1d12h" or a number of seconds; 0 when absent.
func (b *builder) duration(n *document.Node, most model.Duration) model.Duration {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	d, ok := int64(0), false
	if n.Kind == document.Scalar {
		d, ok = document.ParseDuration(n.Text)
	}
	switch {
	case !ok:
		b.Problem(n, "expected a duration such as 90s, 2h30m or 1d12h, or a number of seconds")
	case d < 0 || d > int64(most):
		b.Problem(n, "the duration %s is out of range: it must be 0s to %s", document.Quote(n.Text), document.FormatDuration(int64(most)))
	default:
		return model.Duration(d)
	}
	return 0
}

// policy reads "policy: drf" or "policy: {name: drf, params: {key: value}}".
func (b *builder) policy(n *document.Node) model.VCConfig {
	var out model.VCConfig
	if n == nil || n.Kind == document.Null {
		return out
	}
	name, given := n, []document.Field(nil)
	if n.Kind == document.Map {
		m := b.Map(n, "the policy")
		m.Require("name")
		name = m.Node("name")
		given = m.Map("params", "the policy's params").Fields()
		for _, f := range given {
			if f.Value.Kind != document.Scalar {
				b.Problem(f.At(), "a parameter needs a single value")
				continue
			}
			out.Params = append(out.Params, model.Param{Key: f.Key, Value: f.Value.Text})
		}
		m.Rest()
		slices.SortFunc(out.Params, func(a, b model.Param) int { return cmp.Compare(a.Key, b.Key) })
	}
	out.Policy = b.String(name, document.Text{Max: 64})
	if known := b.policies.Names; len(known) > 0 && out.Policy != "" && !slices.Contains(known, out.Policy) {
		b.Problem(name, "there is no policy %s%s", document.Quote(out.Policy), document.DidYouMean(out.Policy, known))
		return out
	}
	if out.Policy != "" {
		b.params(out, name, given)
	}
	return out
}

// params reports the parameters that the policy cannot use, each at its place. A missing one
// is reported at the policy's name.
func (b *builder) params(c model.VCConfig, name *document.Node, given []document.Field) {
	if b.policies.New == nil {
		return
	}
	_, err := b.policies.New.Make(c)
	var bad model.BadParams
	if err != nil && !errors.As(err, &bad) {
		b.Problem(name, "%v", err)
	}
	for _, p := range bad {
		at := name
		if i := slices.IndexFunc(given, func(f document.Field) bool { return f.Key == p.Key }); i >= 0 {
			at = given[i].At()
		}
		b.Problem(at, "%s", p.Why)
	}
}

// formerly reads a former name; nil when there is none, or it is not a name.
func (b *builder) formerly(n *document.Node, what string) *document.Node {
	if n == nil || n.Kind == document.Null {
		return nil
	}
	if name := b.String(n, document.Text{}); name == "" || !b.name(n, name, what) {
		return nil
	}
	return n
}

// renames lists the virtual clusters that had another name, in order of the new names, and
// reports contradictions. Where several former names are possible, the first that exists
// where the file is applied counts.
func (b *builder) renames() {
	here, taken := map[cell.VCName]*vc{}, map[cell.VCName]*document.Node{}
	for i := range b.vcs { // a parent comes before its children
		v := &b.vcs[i]
		here[v.spec.Name] = v
		var parent []cell.VCName
		if p := here[v.spec.Parent]; v.spec.Parent != "" && p != nil {
			parent = p.older
		}
		v.older = v.olderNames(parent)
	}
	add := func(v *vc, from cell.VCName, at *document.Node) {
		taken[from] = at
		b.renamed = append(b.renamed, model.Rename{From: from, To: v.spec.Name})
	}
	for i := range b.vcs {
		v := &b.vcs[i]
		if v.formerly == nil {
			continue
		}
		from := v.older[0]
		switch other := here[from]; {
		case other == v:
			b.Problem(v.formerly, "this virtual cluster is called %s now; write its older name, or remove the key", document.Quote(string(from)))
		case other != nil:
			b.Problem(v.formerly, "the virtual cluster %s is still in this file, at line %d; only one that is gone can have got another name", document.Quote(string(from)), other.at.Line)
		case taken[from] != nil:
			b.Problem(v.formerly, "another virtual cluster was %s, at line %d; its jobs can go to one only", document.Quote(string(from)), taken[from].Line)
		default:
			add(v, from, v.formerly)
		}
	}
	for i := range b.vcs { // further possible names, after all certain ones
		v := &b.vcs[i]
		for _, from := range v.older {
			if here[from] == nil && taken[from] == nil {
				add(v, from, v.at)
			}
		}
	}
	slices.SortStableFunc(b.renamed, func(x, y model.Rename) int { return cmp.Compare(x.To, y.To) })
}

// olderNames returns the possible former names of a virtual cluster, the likeliest first.
// Inside another one, its own name, and a former name without a dot, are relative to the
// parent's former names. Its own "formerly" may be from an earlier change than its parent's.
// The former name may also be that of one that was inside none, unless that is the present
// name.
func (v *vc) olderNames(parent []cell.VCName) []cell.VCName {
	switch {
	case v.formerly == nil && v.spec.Parent == "":
		return nil
	case v.formerly == nil:
		return inside(parent, v.spec.Name[len(v.spec.Parent)+1:])
	}
	name := cell.VCName(v.formerly.Text)
	if v.spec.Parent == "" || strings.Contains(string(name), ".") {
		return []cell.VCName{name}
	}
	relative := inside(append(slices.Clone(parent), v.spec.Parent), name)
	return append(slices.DeleteFunc(relative, func(n cell.VCName) bool { return n == v.spec.Name }), name)
}

// inside returns the names of a virtual cluster inside each of the parents.
func inside(parents []cell.VCName, name cell.VCName) []cell.VCName {
	var out []cell.VCName
	for _, p := range parents {
		out = append(out, p+"."+name)
	}
	return out
}

// nodeRename notes that a node had another name.
func (b *builder) nodeRename(to cell.NodeName, n *document.Node) {
	from := cell.NodeName(n.Text)
	for _, r := range b.nodeRenames {
		if r.from == from && r.to == to {
			return // another chain's cell of the same machine says the same
		}
	}
	b.nodeRenames = append(b.nodeRenames, nodeRename{from, to, n})
}

// nodeRename is the former name of one node.
type nodeRename struct {
	from, to cell.NodeName
	at       *document.Node
}

// checkNodeRenames reports contradictions between the former names of nodes.
func (b *builder) checkNodeRenames() {
	was, is := map[cell.NodeName]*nodeRename{}, map[cell.NodeName]*nodeRename{}
	for i := range b.nodeRenames {
		r := &b.nodeRenames[i]
		switch {
		case r.from == r.to:
			b.Problem(r.at, "this node is called %s now; write its older name, or remove the key", document.Quote(string(r.to)))
		case b.machines[r.from] != nil:
			b.Problem(r.at, "the node %s is still in this file; only one that is gone can have got another name", document.Quote(string(r.from)))
		case was[r.from] != nil:
			b.Problem(r.at, "the node %s was %s too, at line %d; a machine has one name", document.Quote(string(was[r.from].to)), document.Quote(string(r.from)), was[r.from].at.Line)
		case is[r.to] != nil:
			b.Problem(r.at, "the node was %s already, at line %d; write one older name", document.Quote(string(is[r.to].from)), is[r.to].at.Line)
		default:
			b.renamedNodes = append(b.renamedNodes, model.NodeRename{From: r.from, To: r.to})
		}
		was[r.from], is[r.to] = r, r
	}
	slices.SortFunc(b.renamedNodes, func(x, y model.NodeRename) int { return cmp.Compare(x.To, y.To) })
}
