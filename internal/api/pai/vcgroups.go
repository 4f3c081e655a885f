package pai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
)

// vcGrants gives virtual clusters to users by groups. In OpenPAI each virtual cluster has a
// group of its name as soon as it exists, and each user is in that of virtual cluster
// default. Here such a group is created when the first user is put into it.
type vcGrants struct {
	people *people.Directory
	asker  string
	table  *access.Rights
	vcs    []cell.VCName
}

// The virtual cluster that every user has in OpenPAI, and its group of administrators.
const (
	defaultVC  = "default"
	adminGroup = "admingroup"
)

// givesOwnVC reports whether a group gives access to the virtual cluster of its own name.
func (g *vcGrants) givesOwnVC(group string) bool {
	return access.ValidName(group) && group != access.Everyone && slices.Contains(g.vcs, cell.VCName(group)) &&
		g.table.GroupRole(group, cell.VCName(group)) >= access.Member
}

// groupOfVC is the group that OpenPAI has for a virtual cluster.
func groupOfVC(vc string) access.Group {
	acls := map[string]any{"admin": false, "virtualClusters": []string{vc}}
	raw, _ := json.Marshal(map[string]any{"acls": acls}) // text can always be encoded
	return access.Group{Name: vc, Description: "users of the virtual cluster " + vc, Extension: raw}
}

// ensure creates those of the groups that belong to virtual clusters and do not exist yet.
func (g *vcGrants) ensure(ctx context.Context, groups ...string) error {
	for _, name := range groups {
		if _, err := g.people.Group(name); err == nil || !g.givesOwnVC(name) {
			continue
		}
		err := g.people.CreateGroup(ctx, g.asker, groupOfVC(name))
		if err != nil && !errors.Is(err, people.ErrExists) { // another request may have created it
			return err
		}
	}
	return nil
}

// groupsOf returns the groups that a user is to have: named groups, or those of virtual
// clusters, to which default is added as in OpenPAI. It creates groups of virtual clusters.
// It is nil where neither is given.
func (g *vcGrants) groupsOf(ctx context.Context, groups, vcs *[]string) (*[]string, error) {
	if groups == nil && vcs == nil {
		return nil, nil
	}
	if groups == nil {
		named, wrong := g.ofVCs(*vcs)
		if len(wrong) > 0 {
			return nil, noSuch(strings.Join(wrong, "; "))
		}
		groups = &named
	} else if slices.Contains(*groups, adminGroup) {
		if _, err := g.people.Group(adminGroup); err != nil {
			return nil, noSuch("there is no group " + adminGroup + ": an administrator of the cluster is made with admin: true")
		}
	}
	return groups, g.ensure(ctx, *groups...)
}

// noSuch refuses what a user cannot be given.
func noSuch(text string) error {
	return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, text)
}

// ofVCs are the groups that give access to virtual clusters. wrong are those that no group of
// their name gives, with what gives them.
func (g *vcGrants) ofVCs(vcs []string) (groups, wrong []string) {
	groups = []string{}
	for _, vc := range vcs {
		_, err := g.people.Group(vc)
		switch known := slices.Contains(g.vcs, cell.VCName(vc)); {
		case g.givesOwnVC(vc), err == nil && !known:
			groups = append(groups, vc)
		case known && g.table.GroupRole(access.Everyone, cell.VCName(vc)) >= access.Member: // every user has it
		case known:
			wrong = append(wrong, fmt.Sprintf("the cluster file gives virtual cluster %s to other groups than "+
				"that of its name: "+
				"put the user into one of those (grouplist), or add %[1]s to its access (comb config apply)", vc))
		default:
			wrong = append(wrong, fmt.Sprintf("there is no virtual cluster %q, and no group of that name; "+
				"virtual clusters: %s",
				clip(vc), g.names()))
		}
	}
	if g.givesOwnVC(defaultVC) && !slices.Contains(groups, defaultVC) {
		groups = append(groups, defaultVC)
	}
	return groups, wrong
}

// names lists the first virtual clusters.
func (g *vcGrants) names() string {
	const most = 20
	var all []string
	for _, vc := range g.vcs[:min(len(g.vcs), most)] {
		all = append(all, string(vc))
	}
	if len(g.vcs) > most {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}

// groups are all groups, with those of virtual clusters that are not created yet.
func (g *vcGrants) groups() []access.Group {
	all := g.people.Groups()
	for _, vc := range g.vcs {
		there := func(o access.Group) bool { return o.Name == string(vc) }
		if g.givesOwnVC(string(vc)) && !slices.ContainsFunc(all, there) {
			all = append(all, groupOfVC(string(vc)))
		}
	}
	slices.SortFunc(all, func(a, b access.Group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// group is the group with this name, created or not.
func (g *vcGrants) group(name string) (access.Group, error) {
	one, err := g.people.Group(name)
	if err != nil && g.givesOwnVC(name) {
		return groupOfVC(name), nil
	}
	return one, err
}
