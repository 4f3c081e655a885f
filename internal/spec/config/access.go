package config

import (
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
)

// maxGroups bounds the groups of one role in a virtual cluster.
const maxGroups = 1000

// readAccess reads the roles of groups in a virtual cluster:
//
//	access: {administrators: [vision-leads], members: [vision], viewers: [everyone]}
func readAccess(b *document.Reader, n *document.Node, vc cell.VCName) access.Grant {
	m, before := b.Map(n, "access"), b.Count()
	g := access.Grant{VC: vc}
	g.Managers = readGroups(b, m, "administrators")
	g.Members = readGroups(b, m, "members")
	g.Viewers = readGroups(b, m, "viewers")
	m.Rest()
	if g.String() == "" && b.Count() == before {
		b.Problem(n,
			"no group stands here; write members: [GROUP], or leave access out: then the group of the virtual "+
				"cluster's name uses it")
	}
	return g
}

func readGroups(b *document.Reader, m *document.MapReader, role string) (groups []string) {
	items := m.List(role)
	if len(items) > maxGroups {
		b.Problem(m.Node(role), "%d groups are too many: at most %d are allowed", len(items), maxGroups)
		return nil
	}
	for _, item := range items {
		name := b.String(item, document.Text{Max: access.MaxText})
		switch {
		case name == "":
		case !access.ValidName(name):
			b.Problem(item, "%s cannot be a group: %s", document.Quote(name), access.NameRule)
		case slices.Contains(groups, name):
			b.Problem(item, "the group %s stands here twice", document.Quote(name))
		default:
			groups = append(groups, name)
		}
	}
	slices.Sort(groups)
	return groups
}
