package pai

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
)

const noUser = "NoUserError"

var aboutUser = codes{missing: noUser, conflict: "ConflictUserError"}

// user is an account.
type user struct {
	Username       string          `json:"username"`
	Admin          bool            `json:"admin"`
	VirtualCluster []string        `json:"virtualCluster"` // VCs to which it may submit
	StorageConfig  []string        `json:"storageConfig"`
	Grouplist      []string        `json:"grouplist"`
	Email          string          `json:"email"`
	Extension      json.RawMessage `json:"extension"`
}

// membershipsOf returns the VCs to which a principal may submit.
func membershipsOf(t *access.Rights, vcs []cell.VCName, p *access.Principal) []string {
	mine := []string{}
	for _, v := range vcs {
		if t.Submits(p, v) {
			mine = append(mine, string(v))
		}
	}
	return mine
}

// userOf is an account; its storages are all that jobs may name.
func (h *Handler) userOf(r *http.Request, u *access.User) (*user, error) {
	table, vcs, err := h.app.Rights(r.Context())
	if err != nil {
		return nil, err
	}
	all, err := h.app.Storages(r.Context(), principalOf(r))
	if err != nil {
		return nil, err
	}
	p := &access.Principal{User: u.Name, Admin: u.Admin, Groups: u.AllGroups(), IsUser: true}
	out := &user{Username: u.Name, Admin: u.Admin, VirtualCluster: membershipsOf(table, vcs, p), StorageConfig: []string{},
		Grouplist: list(u.AllGroups()), Email: u.Email, Extension: object(u.Extension)}
	for i := range all {
		if len(all[i].VCs) == 0 || slices.ContainsFunc(all[i].VCs, func(v cell.VCName) bool { return slices.Contains(out.VirtualCluster, string(v)) }) {
			out.StorageConfig = append(out.StorageConfig, all[i].Name)
		}
	}
	return out, nil
}

// object is an extension as it is sent.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// maySee reports whether a principal may see an account: its own, or any as an administrator.
// If not it answers the request, the same way whether the user exists or not.
func (h *Handler) maySee(w http.ResponseWriter, r *http.Request, name string) bool {
	if p := principalOf(r); p.IsUser && p.User == name {
		return h.allowed(w, r, access.OwnAccount)
	}
	return h.allowed(w, r, access.SeePeople)
}

func (h *Handler) listUsers(w http.ResponseWriter, r *http.Request) {
	out := []*user{}
	for _, u := range h.people.Users() {
		one, err := h.userOf(r, &u)
		if err != nil {
			fail(w, err, codes{})
			return
		}
		out = append(out, one)
	}
	answer(w, http.StatusOK, out)
}

func (h *Handler) getUser(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("user")
	if name == "me" {
		name = principalOf(r).User
	}
	if !h.maySee(w, r, name) {
		return
	}
	u, err := h.people.User(name)
	if err != nil {
		fail(w, err, aboutUser)
		return
	}
	one, err := h.userOf(r, &u)
	if err != nil {
		fail(w, err, codes{})
		return
	}
	answer(w, http.StatusOK, one)
}

// userFields are the fields of an account that can be set.
type userFields struct {
	Username       string          `json:"username"`
	Password       *string         `json:"password"`
	NewPassword    *string         `json:"newPassword"`
	OldPassword    string          `json:"oldPassword"`
	Admin          *bool           `json:"admin"`
	Email          *string         `json:"email"`
	VirtualCluster *[]string       `json:"virtualCluster"`
	Grouplist      *[]string       `json:"grouplist"`
	Extension      json.RawMessage `json:"extension"`
}

func (h *Handler) createUser(w http.ResponseWriter, r *http.Request) {
	var in userFields
	if !read(w, r, &in) {
		return
	}
	u := people.NewUser{User: access.User{Name: in.Username, Extension: in.Extension}}
	if in.Admin != nil {
		u.Admin = *in.Admin
	}
	if in.Email != nil {
		u.Email = *in.Email
	}
	if in.Password != nil {
		u.Password = *in.Password
	}
	if in.VirtualCluster == nil && in.Grouplist == nil {
		in.VirtualCluster = &[]string{} // VC default, as there
	}
	g, err := vcGrantsOf(h, r)
	var groups *[]string
	if err == nil {
		groups, err = g.groupsOf(r.Context(), in.Grouplist, in.VirtualCluster)
	}
	if err != nil {
		fail(w, err, aboutGiven)
		return
	}
	u.Groups = *groups
	if err := h.people.CreateUsers(r.Context(), principalOf(r).User, []people.NewUser{u}); err != nil {
		fail(w, err, aboutUser)
		return
	}
	done(w, http.StatusCreated, "User is created successfully")
}

// updateUser changes the given fields, with and without patch. The others stay.
func (h *Handler) updateUser(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Data userFields `json:"data"`
	}
	if !read(w, r, &in) {
		return
	}
	d := &in.Data
	if d.Password != nil && principalOf(r).IsUser && !h.inPerson(w, r) {
		return
	}
	give(h, w, r, d.Username, d)
}

// vcGrantsOf returns the grants of VCs that a request changes.
func vcGrantsOf(h *Handler, r *http.Request) (*vcGrants, error) {
	table, vcs, err := h.app.Rights(r.Context())
	return &vcGrants{h.people, principalOf(r).User, table, vcs}, err
}

// aboutGiven are the codes for errors about a user and its virtual clusters.
var aboutGiven = codes{missing: noUser, conflict: "ConflictUserError", invalid: noVC}

// give changes an account and its groups, and answers.
func give(h *Handler, w http.ResponseWriter, r *http.Request, name string, f *userFields) {
	_, err := h.people.User(name) // before groups are made for it
	var g *vcGrants
	if err == nil {
		g, err = vcGrantsOf(h, r)
	}
	var groups *[]string
	if err == nil {
		groups, err = g.groupsOf(r.Context(), f.Grouplist, f.VirtualCluster)
	}
	if err != nil {
		fail(w, err, aboutGiven)
		return
	}
	h.change(w, r, name, people.UserChange{Email: f.Email, Admin: f.Admin, Groups: groups, Password: f.Password,
		Extension: f.Extension})
}

// change changes an account and answers.
func (h *Handler) change(w http.ResponseWriter, r *http.Request, name string, c people.UserChange) {
	if _, err := h.people.UpdateUser(r.Context(), principalOf(r).User, name, c); err != nil {
		fail(w, err, aboutUser)
		return
	}
	done(w, http.StatusCreated, "Update user %s successfully.", name)
}

func (h *Handler) updateMe(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Data userFields `json:"data"`
	}
	if !read(w, r, &in) {
		return
	}
	d, me := &in.Data, principalOf(r).User
	if d.Username != "" && d.Username != me {
		refuse(w, http.StatusForbidden, "ForbiddenUserError", "Only the own profile can be changed here.")
		return
	}
	if d.NewPassword != nil {
		// The old password counts as a sign-in, so guesses are bounded the same way.
		if err := h.people.Confirm(r.Context(), me, d.OldPassword); err != nil {
			signInFault(w, err)
			return
		}
	}
	h.change(w, r, me, people.UserChange{Email: d.Email, Password: d.NewPassword, Extension: d.Extension})
}

func (h *Handler) deleteUser(w http.ResponseWriter, r *http.Request) {
	if err := h.people.DeleteUser(r.Context(), principalOf(r).User, r.PathValue("user")); err != nil {
		fail(w, err, aboutUser)
		return
	}
	done(w, http.StatusOK, "User is removed successfully")
}

func (h *Handler) addToGroup(w http.ResponseWriter, r *http.Request) {
	h.regroup(w, r, func(group string, user []string) error {
		return h.people.SetMembers(r.Context(), principalOf(r).User, group, user, nil)
	})
}

func (h *Handler) removeFromGroup(w http.ResponseWriter, r *http.Request) {
	h.regroup(w, r, func(group string, user []string) error {
		return h.people.SetMembers(r.Context(), principalOf(r).User, group, nil, user)
	})
}

// regroup adds a path's user to the group of the body, or removes it. It changes only that
// group: to write all groups of the user would undo what another administrator changed
// meanwhile.
func (h *Handler) regroup(w http.ResponseWriter, r *http.Request, to func(group string, user []string) error) {
	var in struct {
		Groupname string `json:"groupname"`
	}
	if !read(w, r, &in) {
		return
	}
	name := r.PathValue("user")
	if _, err := h.people.User(name); err != nil {
		fail(w, err, aboutUser)
		return
	}
	g, err := vcGrantsOf(h, r)
	if err == nil {
		err = g.ensure(r.Context(), in.Groupname)
	}
	if err == nil {
		err = to(in.Groupname, []string{name})
	}
	if err != nil {
		fail(w, err, aboutGroup)
		return
	}
	done(w, http.StatusCreated, "Update user %s successfully.", name)
}

func (h *Handler) setGroups(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Grouplist []string `json:"grouplist"`
	}
	if !read(w, r, &in) {
		return
	}
	groups := list(in.Grouplist)
	give(h, w, r, r.PathValue("user"), &userFields{Grouplist: &groups})
}

// setVCs is OpenPAI's older way to give virtual clusters to a user.
func setVCs(h *Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			VirtualCluster []string `json:"virtualCluster"`
		}
		if read(w, r, &in) {
			vcs := list(in.VirtualCluster)
			give(h, w, r, r.PathValue("user"), &userFields{VirtualCluster: &vcs})
		}
	}
}

var aboutGroup = codes{missing: "NoGroupError", conflict: "ConflictGroupError"}

// group is a group of users.
type group struct {
	Groupname    string          `json:"groupname"`
	Description  string          `json:"description"`
	ExternalName string          `json:"externalName"`
	Extension    json.RawMessage `json:"extension"`
}

func groupOf(g *access.Group) group {
	return group{g.Name, g.Description, g.External, object(g.Extension)}
}

func (h *Handler) listGroups(w http.ResponseWriter, r *http.Request) {
	there, err := vcGrantsOf(h, r)
	if err != nil {
		fail(w, err, aboutGroup)
		return
	}
	out := []group{}
	for _, g := range there.groups() {
		out = append(out, groupOf(&g))
	}
	answer(w, http.StatusOK, out)
}

func (h *Handler) getGroup(w http.ResponseWriter, r *http.Request) {
	if g, ok := groupThere(h, w, r); ok {
		answer(w, http.StatusOK, groupOf(&g))
	}
}

// groupThere is the group that a path names. Where there is none it answers the request.
func groupThere(h *Handler, w http.ResponseWriter, r *http.Request) (one access.Group, ok bool) {
	g, err := vcGrantsOf(h, r)
	if err == nil {
		one, err = g.group(r.PathValue("group"))
	}
	if err != nil {
		fail(w, err, aboutGroup)
	}
	return one, err == nil
}

func (h *Handler) groupUsers(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("group")
	if name != access.Everyone {
		if _, ok := groupThere(h, w, r); !ok {
			return
		}
	}
	type member struct {
		Username     string `json:"username"`
		ClusterAdmin bool   `json:"clusterAdmin"`
	}
	out := []member{}
	for _, u := range h.people.Members(name) {
		out = append(out, member{u.Name, u.Admin})
	}
	answer(w, http.StatusOK, out)
}

// groupFields are the fields of a group that can be set.
type groupFields struct {
	Groupname    string          `json:"groupname"`
	Description  *string         `json:"description"`
	ExternalName *string         `json:"externalName"`
	Extension    json.RawMessage `json:"extension"`
}

func (h *Handler) createGroup(w http.ResponseWriter, r *http.Request) {
	var in groupFields
	if !read(w, r, &in) {
		return
	}
	g := access.Group{Name: in.Groupname, Extension: in.Extension}
	if in.Description != nil {
		g.Description = *in.Description
	}
	if in.ExternalName != nil {
		g.External = *in.ExternalName
	}
	if err := h.people.CreateGroup(r.Context(), principalOf(r).User, g); err != nil {
		fail(w, err, aboutGroup)
		return
	}
	done(w, http.StatusCreated, "group is created successfully")
}

// updateGroup takes the fields inside data, as OpenPAI specifies, or bare, as its client
// sends them.
func (h *Handler) updateGroup(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Data *groupFields `json:"data"`
		groupFields
	}
	if !read(w, r, &in) {
		return
	}
	g := in.groupFields
	if in.Data != nil {
		g = *in.Data
	}
	_, err := h.people.UpdateGroup(r.Context(), principalOf(r).User, g.Groupname,
		people.GroupChange{Description: g.Description, External: g.ExternalName, Extension: g.Extension})
	if err != nil {
		fail(w, err, aboutGroup)
		return
	}
	done(w, http.StatusCreated, "Update group %s successfully.", g.Groupname)
}

func (h *Handler) deleteGroup(w http.ResponseWriter, r *http.Request) {
	if err := h.people.DeleteGroup(r.Context(), principalOf(r).User, r.PathValue("group")); err != nil {
		fail(w, err, aboutGroup)
		return
	}
	done(w, http.StatusCreated, "group is removed successfully")
}
