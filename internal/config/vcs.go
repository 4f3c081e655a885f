package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/document"
	"github.com/combsched/comb/internal/sched"
)

// vc is one virtual cluster with the places of its parts.
type vc struct {
	spec   cell.VCSpec
	policy sched.VCConfig
	claims []claim
}

// claim is one entry of virtualCells.
type claim struct {
	at     *document.Node
	chain  *chain
	level  int // index in chain.levels
	number int64
}

func (b *builder) readVCs(n *document.Node) {
	fields := b.Map(n, "virtualClusters").Fields()
	if n != nil && len(fields) == 0 {
		b.Problem(n, "there is no virtual cluster; at least one is needed to submit jobs to")
	}
	if len(fields) > MaxVCs {
		b.Problem(fields[MaxVCs].At(), "there are too many virtual clusters: at most %d", MaxVCs)
		return
	}
	for _, f := range fields {
		b.vcs = append(b.vcs, b.readVC(f))
	}
	for _, id := range slices.Sorted(maps.Keys(b.pins)) {
		if p := b.pins[id]; p.by == "" {
			b.Warn(p.at, "no virtual cluster has the pinned cell %s; it is used as any other cell", document.Quote(string(id)))
		}
	}
}

func (b *builder) readVC(f document.Field) vc {
	b.name(f.At(), f.Key, "a virtual cluster")
	m := b.Map(f.Value, "the virtual cluster "+document.Quote(f.Key))
	v := vc{spec: cell.VCSpec{Name: cell.VCName(f.Key)}}
	v.policy = b.policy(m.Node("policy"))
	v.policy.Name = v.spec.Name
	for _, item := range m.List("virtualCells") {
		if c := b.readClaim(item); c.chain != nil && c.number > 0 {
			v.claims = append(v.claims, c)
			v.spec.Quota = addQuota(v.spec.Quota, c)
		}
	}
	for _, item := range m.List("pinnedCells") {
		if id := b.readPinned(item, v.spec.Name); id != "" {
			v.spec.Pinned = append(v.spec.Pinned, id)
		}
	}
	m.Rest()
	if len(m.List("virtualCells"))+len(m.List("pinnedCells")) == 0 {
		b.Warn(f.At(), "this virtual cluster owns no cells; only opportunistic jobs run in it")
	}
	return v
}

// addQuota adds a claim to a VC's quota, to the same chain and level's if there.
func addQuota(quota []cell.QuotaSpec, c claim) []cell.QuotaSpec {
	q := cell.QuotaSpec{Chain: c.chain.name, Level: c.chain.level(c.level), Number: int32(c.number)}
	for i := range quota {
		if quota[i].Chain == q.Chain && quota[i].Level == q.Level {
			sum := int64(quota[i].Number) + c.number
			quota[i].Number = int32(min(sum, 1<<31-1)) // over-commitment is found by the claims
			return quota
		}
	}
	return append(quota, q)
}

func (b *builder) readClaim(n *document.Node) claim {
	m := b.Map(n, "a virtual cell")
	m.Require("cellType", "cellNumber")
	path := m.String("cellType", document.Text{})
	c := claim{at: m.Node("cellNumber"), number: m.Int("cellNumber", document.Range{Max: MaxCells})}
	m.Rest()
	if path != "" {
		c.chain, c.level = b.resolve(m.Node("cellType"), path)
	}
	if c.chain != nil && c.number == 0 && m.Has("cellNumber") {
		b.Warn(c.at, "this entry promises no cells")
	}
	return c
}

// resolve finds the chain and level of a quota path "Top.Child...Type". HiveD
// looks at the first and last type only; a wrong one between is a mistake that
// would mislead readers.
func (b *builder) resolve(n *document.Node, path string) (*chain, int) {
	parts := strings.Split(path, ".")
	first, last := cell.TypeName(parts[0]), cell.TypeName(parts[len(parts)-1])
	c, used := b.chains[cell.ChainName(first)]
	if !used {
		if b.types[first] == nil && b.skus[first] == nil {
			b.Problem(n, "the type %s is not defined%s", document.Quote(parts[0]), document.DidYouMean(parts[0], b.chainNames()))
			return nil, 0
		}
		b.Problem(n, "no cell of type %s is at the top of physicalCells; begin the path with a type that is: %s",
			document.Quote(parts[0]), cut(strings.Join(b.chainNames(), ", ")))
		return nil, 0
	}
	if c == nil {
		return nil, 0 // its own problems are reported
	}
	level := c.index(last)
	if level < 0 {
		b.Problem(n, "the chain %s has no type %s; its types are %s", c.name, document.Quote(string(last)), cut(c.path(len(c.levels)-1)))
		return nil, 0
	}
	if want := c.path(level); path != want {
		b.Problem(n, "%s is no path of cell types; write %s", document.Quote(path), cut(want))
		return nil, 0
	}
	return c, level
}

func (b *builder) chainNames() []string {
	var names []string
	for name := range b.chains {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

func (b *builder) readPinned(n *document.Node, by cell.VCName) cell.PinnedID {
	m := b.Map(n, "a pinned cell")
	m.Require("pinnedCellId")
	id := cell.PinnedID(m.String("pinnedCellId", document.Text{}))
	at := m.Node("pinnedCellId")
	m.Rest()
	if id == "" {
		return ""
	}
	p := b.pins[id]
	if p == nil {
		var known []string
		for k := range b.pins {
			known = append(known, string(k))
		}
		b.Problem(at, "no physical cell has the pinnedCellId %s%s", document.Quote(string(id)), document.DidYouMean(string(id), known))
		return ""
	}
	if p.by != "" {
		b.Problem(at, "the pinned cell %s belongs to the virtual cluster %s already", document.Quote(string(id)), p.by)
		return ""
	}
	p.by = by
	return id
}

// policy reads "policy: drf" or "policy: {name: drf, params: {key: value}}".
func (b *builder) policy(n *document.Node) sched.VCConfig {
	var out sched.VCConfig
	if n == nil || n.Kind == document.Null {
		return out
	}
	name := n
	if n.Kind == document.Map {
		m := b.Map(n, "the policy")
		m.Require("name")
		name = m.Node("name")
		for _, f := range m.Map("params", "the policy's params").Fields() {
			if f.Value.Kind != document.Scalar {
				b.Problem(f.At(), "a parameter needs a single value")
				continue
			}
			out.Params = append(out.Params, sched.Param{Key: f.Key, Value: f.Value.Text})
		}
		m.Rest()
		slices.SortFunc(out.Params, func(a, b sched.Param) int { return cmp.Compare(a.Key, b.Key) })
	}
	out.Policy = b.String(name, document.Text{Max: 64})
	if len(b.policies) > 0 && out.Policy != "" && !slices.Contains(b.policies, out.Policy) {
		b.Problem(name, "there is no policy %s%s", document.Quote(out.Policy), document.DidYouMean(out.Policy, b.policies))
	}
	return out
}
