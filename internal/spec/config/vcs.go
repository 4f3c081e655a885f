package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// vc is one virtual cluster with the places of its parts.
type vc struct {
	at       *document.Node
	spec     cell.VCSpec
	policy   model.VCConfig
	claims   []claim
	formerly *document.Node // its former name, nil if none
	older    []cell.VCName  // names that formerly, or the parent's, may stand for
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
	if n != nil && n.Kind == document.Map && len(fields) == 0 {
		b.Problem(n, "there is no virtual cluster; at least one is needed to submit jobs to")
	}
	b.readChildren(fields, "", 1)
	b.checkVCNames()
	for _, id := range slices.Sorted(maps.Keys(b.pins)) {
		if p := b.pins[id]; p.by == "" {
			b.Warn(p.at, "no virtual cluster has the pinned cell %s; it is used as any other cell", document.Quote(string(id)))
		}
	}
}

// readChildren reads the virtual clusters of one level, each with those inside it.
func (b *builder) readChildren(fields []document.Field, parent cell.VCName, depth int) {
	if depth > maxVCDepth && len(fields) > 0 {
		b.Problem(fields[0].At(), "virtual clusters are nested too deep: at most %d levels are allowed", maxVCDepth)
		return
	}
	for _, f := range fields {
		if len(b.vcs) == MaxVCs {
			if !b.tooManyVCs {
				b.Problem(f.At(), "there are too many virtual clusters: at most %d", MaxVCs)
			}
			b.tooManyVCs = true
			return
		}
		b.readVC(f, parent, depth)
	}
}

// readVC reads one virtual cluster and those inside it. The name of an inner one is the path
// from the top, joined by dots.
func (b *builder) readVC(f document.Field, parent cell.VCName, depth int) {
	m := b.Map(f.Value, "the virtual cluster "+document.Quote(f.Key))
	children := m.Map("virtualClusters", "virtualClusters").Fields()
	v := vc{at: f.At(), spec: cell.VCSpec{Name: cell.VCName(f.Key), Parent: parent}}
	if b.name(v.at, f.Key, "a virtual cluster") && strings.Contains(f.Key, ".") && (parent != "" || len(children) > 0) {
		b.Problem(v.at, "the virtual cluster %s must not contain a dot: dots separate the names of nested virtual clusters", document.Quote(f.Key))
	}
	if f.Key == "" { // "" as a parent means no parent
		v.spec.Name = `""`
	}
	if parent != "" {
		v.spec.Name = parent + "." + v.spec.Name
	}
	v.policy = b.policy(m.Node("policy"))
	v.policy.Name = v.spec.Name
	b.vcKeys(m, &v.policy)
	v.formerly = b.formerly(m.Node("formerly"), "a virtual cluster")
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
		b.Warn(v.at, "this virtual cluster owns no cells; only opportunistic jobs run in it")
	}
	b.vcs = append(b.vcs, v)
	b.readChildren(children, v.spec.Name, depth+1)
}

// checkVCNames reports two virtual clusters with one name, such as "a.b" at the top and "b"
// inside "a", and names that are too long as a whole.
func (b *builder) checkVCNames() {
	first := map[cell.VCName]*document.Node{}
	for i := range b.vcs {
		v := &b.vcs[i]
		switch at := first[v.spec.Name]; {
		case at != nil:
			b.Problem(v.at, "the virtual cluster at line %d has the name %s too; rename one of them", at.Line, document.Quote(string(v.spec.Name)))
		case v.spec.Parent != "" && len(v.spec.Name) > maxNameLength:
			b.Problem(v.at, "with the names of those around it this virtual cluster is called %s, longer than %d characters; shorten one",
				document.Quote(cut(string(v.spec.Name))), maxNameLength)
		}
		first[v.spec.Name] = v.at
	}
}

// addQuota adds a claim to a VC's quota, to the entry of its chain and level if there is one.
func addQuota(quota []cell.QuotaSpec, c claim) []cell.QuotaSpec {
	q := cell.QuotaSpec{Chain: c.chain.name, Level: c.chain.level(c.level), Number: int32(c.number)}
	for i := range quota {
		if quota[i].Chain == q.Chain && quota[i].Level == q.Level {
			sum := int64(quota[i].Number) + c.number
			quota[i].Number = int32(min(sum, 1<<31-1)) // overcommitment is reported for the claims
			return quota
		}
	}
	return append(quota, q)
}

func (b *builder) readClaim(n *document.Node) claim {
	m := b.Map(n, "a virtual cell")
	path, before := b.text(m, "cellType", "the path of types from the top of physicalCells, such as RACK.NODE"), b.Count()
	b.require(m, "cellNumber", "how many cells of this type are promised")
	c := claim{at: m.Node("cellNumber"), number: m.Int("cellNumber", document.Range{Max: MaxCells})}
	read := b.Count() == before
	m.Rest()
	if path != "" {
		c.chain, c.level = b.resolve(m.Node("cellType"), path)
	}
	if c.chain != nil && c.number == 0 && m.Has("cellNumber") && read {
		b.Warn(c.at, "this entry promises no cells")
	}
	return c
}

// resolve finds the chain and level of a quota path "Top.Child...Type". HiveD looks only at
// the first and last type. A wrong type between them would mislead readers, so it is a
// mistake.
func (b *builder) resolve(n *document.Node, path string) (*chain, int) {
	parts := strings.Split(path, ".")
	first, last := cell.TypeName(parts[0]), cell.TypeName(parts[len(parts)-1])
	c, used := b.chains[cell.ChainName(first)]
	if !used && len(b.types) == 0 {
		return nil, 0 // missing types are reported
	}
	if !used {
		if paths := b.pathsTo(last); len(paths) > 0 && len(b.pathsTo(first)) > 0 {
			b.Problem(n, "a path begins with a type that is at the top of physicalCells; write %s", cut(strings.Join(paths, " or ")))
			return nil, 0
		}
		if b.types[first] == nil && b.skus[first] == nil {
			b.Problem(n, "the type %s is not defined%s", document.Quote(parts[0]), document.DidYouMean(parts[0], b.chainNames()))
			return nil, 0
		}
		if len(b.chains) == 0 {
			return nil, 0 // missing physicalCells are reported
		}
		if b.topUnread && b.types[first] != nil {
			return nil, 0 // it may be the cell that could not be read
		}
		b.Problem(n, "no cell of type %s is at the top of physicalCells; begin the path with a type that is: %s",
			document.Quote(parts[0]), cut(strings.Join(b.chainNames(), ", ")))
		return nil, 0
	}
	if c == nil {
		return nil, 0 // its problems are reported
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

// cellsMayLack reports whether cells may lack because of a problem that is reported already.
func (b *builder) cellsMayLack() bool {
	for _, t := range b.types {
		if t.broken {
			return true
		}
	}
	return b.topUnread || len(b.chains) == 0
}

// pathsTo returns the paths that end with a type.
func (b *builder) pathsTo(last cell.TypeName) (out []string) {
	for _, name := range b.chainNames() {
		if c := b.chains[cell.ChainName(name)]; c != nil && c.index(last) >= 0 {
			out = append(out, c.path(c.index(last)))
		}
	}
	return out
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
	id := cell.PinnedID(b.text(m, "pinnedCellId", "the pinnedCellId of a cell of physicalCells"))
	at := m.Node("pinnedCellId")
	m.Rest()
	if id == "" {
		return ""
	}
	p := b.pins[id]
	if p == nil && b.cellsMayLack() {
		return ""
	}
	if p == nil {
		var known []string
		for k := range b.pins {
			known = append(known, string(k))
		}
		advice := "; write it at the cell that is meant"
		if len(known) > 0 {
			advice = document.DidYouMean(string(id), known)
		}
		b.Problem(at, "no physical cell has the pinnedCellId %s%s", document.Quote(string(id)), advice)
		return ""
	}
	if p.by != "" {
		b.Problem(at, "the pinned cell %s belongs to the virtual cluster %s already", document.Quote(string(id)), p.by)
		return ""
	}
	p.by = by
	return id
}
