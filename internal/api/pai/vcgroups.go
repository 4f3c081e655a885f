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

// giving says how virtual clusters are given to users. In OpenPAI each virtual cluster has a group
// of its name, which is there as soon as the virtual cluster is, and each user is in that of
// virtual cluster default. Here such a group is made when a user is put into it.
type giving struct {
	people *people.Directory
	asker  string
	table  *access.Rights
	vcs    []cell.VCName
}

// The virtual cluster that is each user's in OpenPAI, and its group of administrators.
const (
	defaultVC  = "default"
	adminGroup = "admingroup"
)

// by reports whether there is a virtual cluster of a group's name that this group gives.
func (g *giving) by(group string) bool {
	return access.ValidName(group) && group != access.Everyone && slices.Contains(g.vcs, cell.VCName(group)) &&
		g.table.RoleOf(group, cell.VCName(group)) >= access.Member
}

// groupOfVC is the group that OpenPAI makes for a virtual cluster.
func groupOfVC(vc string) access.Group {
	acls := map[string]any{"admin": false, "virtualClusters": []string{vc}}
	raw, _ := json.Marshal(map[string]any{"acls": acls}) // texts always can be written
	return access.Group{Name: vc, Description: "users of the virtual cluster " + vc, Extension: raw}
}

// ensure makes those of some groups that are virtual clusters' and not there yet.
func (g *giving) ensure(ctx context.Context, groups ...string) error {
	for _, name := range groups {
		if _, err := g.people.Group(name); err == nil || !g.by(name) {
			continue
		}
		err := g.people.CreateGroup(ctx, g.asker, groupOfVC(name))
		if err != nil && !errors.Is(err, people.ErrExists) { // another request may have made it
			return err
		}
	}
	return nil
}

// groupsOf returns the groups that a user is to be in, and makes those of virtual clusters: groups
// by their names, or virtual clusters, to which default is added as there; nil where neither is
// said.
func (g *giving) groupsOf(ctx context.Context, groups, vcs *[]string) (*[]string, error) {
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

// ofVCs are the groups that give virtual clusters. One that no group of its name gives is refused
// with what gives it.
func (g *giving) ofVCs(vcs []string) (groups, wrong []string) {
	groups = []string{}
	for _, vc := range vcs {
		_, err := g.people.Group(vc)
		switch known := slices.Contains(g.vcs, cell.VCName(vc)); {
		case g.by(vc), err == nil && !known:
			groups = append(groups, vc)
		case known && g.table.RoleOf(access.Everyone, cell.VCName(vc)) >= access.Member: // it is each user's
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
	if g.by(defaultVC) && !slices.Contains(groups, defaultVC) {
		groups = append(groups, defaultVC)
	}
	return groups, wrong
}

// names are the first virtual clusters.
func (g *giving) names() string {
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

// groups are all groups, with those of virtual clusters that are not made yet.
func (g *giving) groups() []access.Group {
	all := g.people.Groups()
	for _, vc := range g.vcs {
		there := func(o access.Group) bool { return o.Name == string(vc) }
		if g.by(string(vc)) && !slices.ContainsFunc(all, there) {
			all = append(all, groupOfVC(string(vc)))
		}
	}
	slices.SortFunc(all, func(a, b access.Group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// group is one of them.
func (g *giving) group(name string) (access.Group, error) {
	one, err := g.people.Group(name)
	if err != nil && g.by(name) {
		return groupOfVC(name), nil
	}
	return one, err
}
