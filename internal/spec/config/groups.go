package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// group is a group of users of the group-manager of the authentication, and the virtual
// clusters to which it gives access.
type group struct {
	name, external string
	vcs            []string
	admin          bool
	all            bool // it is the group of all users
	at             *document.Node
}

// readGroups reads the groups that OpenPAI creates at its start. Each gives access to the
// virtual clusters of its extension.acls. One without gives access to that of its own name.
func (c *converter) readGroups(n *document.Node) (out []group) {
	manager := n.Get("group-manager")
	add := func(g *document.Node, admin bool) {
		name := paiText(g.Get("groupname"))
		if name == "" {
			return
		}
		acls := g.Get("extension").Get("acls")
		admin = admin || paiText(acls.Get("admin")) == "true"
		one := group{name: name, external: paiText(g.Get("externalName")), admin: admin, at: g}
		if list := acls.Get("virtualClusters"); list != nil {
			for _, vc := range list.Items {
				one.vcs = append(one.vcs, paiText(vc))
			}
		} else if !one.admin {
			one.vcs = []string{name}
		}
		if configs := acls.Get("storageConfigs"); configs != nil && len(configs.Items) > 0 {
			c.row(LeftOut, place(Services, configs, "storageConfigs of group "+name),
				"storages are folders that the cluster file gives to virtual clusters: see docs/storages.md")
		}
		out = append(out, one)
	}
	each := func(n *document.Node, admin bool) { // one group, or in older files a list of them
		switch {
		case n == nil:
		case n.Kind == document.List:
			for _, g := range n.Items {
				add(g, admin)
			}
		default:
			add(n, admin)
		}
	}
	each(manager.Get("admin-group"), true)
	each(manager.Get("default-group"), false)
	each(manager.Get("grouplist"), false)
	if paiText(n.Get("OIDC")) != "true" { // with passwords each user is in the group default
		out = append(out, group{name: everyone, all: true, vcs: []string{"default"}, at: n})
	}
	return out
}

// everyone is the group of all users.
const everyone = "everyone"

// accessOf are the groups whose users may submit to a virtual cluster, by name. nil is just
// the group of the virtual cluster's own name.
func (c *converter) accessOf(vc string) (members []string) {
	for _, g := range c.groups {
		switch {
		case !slices.Contains(g.vcs, vc):
		case g.all:
			return []string{everyone}
		case paiGroupName(g.name):
			members = append(members, g.name)
		}
	}
	if len(members) == 0 || slices.Equal(members, []string{vc}) {
		return nil
	}
	if paiGroupName(vc) {
		members = append(members, vc) // the group of its own name has access too
	}
	slices.Sort(members)
	return slices.Compact(members)
}

// paiGroupName reports whether Comb allows a group of this name.
func paiGroupName(name string) bool {
	return name != everyone && plain(name) && len(name) <= 64 && strings.Trim(name, "-_.") == name
}

// accessKey is the key that lists the members of a virtual cluster.
func accessKey(members []string) string {
	return "access: {members: [" + strings.Join(members, ", ") + "]}"
}

// opened says which groups have access to a virtual cluster.
func opened(vc string, members []string) string {
	if members[0] == everyone {
		return fmt.Sprintf("no group may use VC %s without it: %s is added, since in OpenPAI each user may "+
			"submit there", vc, accessKey(members))
	}
	return fmt.Sprintf("%s is added: these groups are given it by extension.acls.virtualClusters", accessKey(members))
}

// tellGroups reports what became of the groups, and what the operator must still do.
func (c *converter) tellGroups(vcs []string) {
	for _, g := range c.groups {
		if g.all {
			continue
		}
		key := "group " + g.name
		if !paiGroupName(g.name) {
			c.row(LeftOut, place(Services, g.at, key),
				"no group here is called so: want 1 to 64 letters, digits, '.', '_' and '-', a letter or digit "+
					"first and last, and not everyone, which is each user")
			continue
		}
		if g.admin {
			c.row(ToDo, place(Services, g.at, key),
				"its users are administrators of the cluster: comb user create NAME --admin for each")
			continue
		}
		for _, vc := range g.vcs {
			if !slices.Contains(vcs, vc) {
				c.row(LeftOut, place(Services, g.at, key),
					"it is given a virtual cluster %s, which is not there", document.Quote(vc))
			}
		}
		external := ""
		if g.external != "" {
			external = " --external " + document.Quote(g.external)
		}
		c.row(ToDo, place(Services, g.at, key),
			"comb group create %s%s makes it; its users are put in with comb user create or comb group update",
			g.name, external)
	}
}
