package pai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/access"
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/identity"
	"github.com/combsched/comb/internal/people"
	"github.com/combsched/comb/internal/rest"
)

// In OpenPAI each virtual cluster has a group of its name, which is there as soon as the virtual cluster is, and each user is in that of
// virtual cluster default. Here such a group is made when a user is put into it.

// defaultVC is the virtual cluster that is each user's in OpenPAI.
const defaultVC = "default"

// giving says how virtual clusters are given to users.
type giving struct {
	table *access.Table
	vcs   []cell.VCName
}

func (h *Handler) giving(r *http.Request) (giving, error) {
	table, vcs, err := h.app.Rights(r.Context())
	return giving{table, vcs}, err
}

// by reports whether there is a virtual cluster that a group gives.
func (g *giving) by(group string) bool {
	return identity.ValidName(group) && group != identity.Everyone && slices.Contains(g.vcs, cell.VCName(group)) &&
		g.table.RoleOf(group, cell.VCName(group)) >= access.Member
}

// groupOf is the group that OpenPAI makes for a virtual cluster.
func groupOfVC(vc string) identity.Group {
	raw, _ := json.Marshal(map[string]any{"acls": map[string]any{"admin": false, "virtualClusters": []string{vc}}}) // texts always are
	return identity.Group{Name: vc, Description: "users of the virtual cluster " + vc, Extension: raw}
}

// ensure makes those of some groups that are virtual clusters' and not there yet.
func (h *Handler) ensure(r *http.Request, g *giving, groups []string) error {
	for _, name := range groups {
		if _, err := h.people.Group(name); err == nil || !g.by(name) {
			continue
		}
		err := h.people.CreateGroup(r.Context(), principalOf(r).User, groupOfVC(name))
		if err != nil && !errors.Is(err, people.ErrExists) { // by another request
			return err
		}
	}
	return nil
}

// groupsOf are the groups that give a user what is said of it: groups by their names, or virtual clusters with VC default, as there. nil
// where neither is said. A virtual cluster that no group of its name gives is refused with what gives it.
func (h *Handler) groupsOf(r *http.Request, f *userFields) (*[]string, error) {
	g, err := h.giving(r)
	if err != nil {
		return nil, err
	}
	if f.Grouplist != nil {
		if slices.Contains(*f.Grouplist, adminGroup) {
			if _, err := h.people.Group(adminGroup); err != nil {
				return nil, invalidVC("the group " + adminGroup + " is not here: an administrator of the cluster is made with admin: true")
			}
		}
		return f.Grouplist, h.ensure(r, &g, *f.Grouplist)
	}
	if f.VirtualCluster == nil {
		return nil, nil
	}
	groups, wrong := []string{}, []string(nil)
	for _, vc := range *f.VirtualCluster {
		_, err := h.people.Group(vc)
		switch known := slices.Contains(g.vcs, cell.VCName(vc)); {
		case g.by(vc), err == nil && !known:
			groups = append(groups, vc)
		case known && g.table.RoleOf(identity.Everyone, cell.VCName(vc)) >= access.Member: // it is each user's
		case known:
			wrong = append(wrong, fmt.Sprintf("the cluster file gives virtual cluster %s to other groups than that of its name: put the user into one of those (grouplist), or add %[1]s to its access (comb config show, comb config apply)", clip(vc)))
		default:
			wrong = append(wrong, fmt.Sprintf("there is no virtual cluster %q, and no group of that name; virtual clusters: %s", clip(vc), g.names()))
		}
	}
	if len(wrong) > 0 {
		return nil, invalidVC(strings.Join(wrong, "; "))
	}
	if g.by(defaultVC) && !slices.Contains(groups, defaultVC) {
		groups = append(groups, defaultVC)
	}
	return &groups, h.ensure(r, &g, groups)
}

// adminGroup is the group of administrators in OpenPAI.
const adminGroup = "admingroup"

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

// invalidVC refuses virtual clusters of a user.
func invalidVC(text string) error {
	return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, text)
}

// aboutGiven are the codes for a user and the virtual clusters that it is given.
var aboutGiven = codes{missing: noUser, conflict: "ConflictUserError", invalid: noVC}

// groupsThere are all groups, with those of virtual clusters that are not made yet.
func (h *Handler) groupsThere(r *http.Request) ([]identity.Group, error) {
	g, err := h.giving(r)
	if err != nil {
		return nil, err
	}
	all := h.people.Groups()
	for _, vc := range g.vcs {
		if g.by(string(vc)) && !slices.ContainsFunc(all, func(o identity.Group) bool { return o.Name == string(vc) }) {
			all = append(all, groupOfVC(string(vc)))
		}
	}
	slices.SortFunc(all, func(a, b identity.Group) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// groupThere is one of them. Where it is not there, the request is answered.
func (h *Handler) groupThere(w http.ResponseWriter, r *http.Request, name string) (identity.Group, bool) {
	one, err := h.people.Group(name)
	if err == nil {
		return one, true
	}
	g, fault := h.giving(r)
	switch {
	case fault != nil:
		err = fault
	case g.by(name):
		return groupOfVC(name), true
	}
	fail(w, err, aboutGroup)
	return identity.Group{}, false
}
