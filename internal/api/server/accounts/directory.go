package accounts

import (
	"context"
	"slices"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
)

func wireUser(u *access.User) rest.User {
	out := rest.User{Name: u.Name, Display: u.Display, Email: u.Email, Administrator: u.Admin, Blocked: u.Blocked,
		Groups: append([]string{}, u.Groups...), HasPassword: u.Hash != "", Created: sinceEpoch(u.Created), UID: u.UID, GID: u.GID}
	if u.Provider != nil {
		out.Provider, out.ProviderGroups = u.Provider.Issuer, append([]string{}, u.Provider.Groups...)
	}
	return out
}

func (a *accounts) users(context.Context, *struct{}) (*answered[rest.UserList], error) {
	out := rest.UserList{Users: []rest.User{}}
	for _, u := range a.Directory.Users() {
		out.Users = append(out.Users, wireUser(&u))
	}
	return answer(out)
}

func (a *accounts) createUsers(ctx context.Context, in *struct{ Body rest.NewUsers }) (*answered[rest.UserList], error) {
	var list []people.NewUser
	for i := range in.Body.Users {
		n := &in.Body.Users[i]
		list = append(list, people.NewUser{Password: n.Password,
			User: access.User{Name: n.Name, Display: n.Display, Email: n.Email, Admin: n.Administrator,
				Groups: slices.Clone(n.Groups), IDs: access.IDs{UID: n.UID, GID: n.GID}}})
	}
	if err := a.Directory.CreateUsers(ctx, people.Of(ctx).Principal.User, list); err != nil {
		return nil, a.fail(err)
	}
	out := rest.UserList{Users: []rest.User{}}
	for i := range list {
		u, err := a.Directory.User(list[i].Name)
		if err != nil {
			continue // it was deleted meanwhile
		}
		out.Users = append(out.Users, wireUser(&u))
	}
	return answer(out)
}

// ByName is the input of routes about one user or group.
type ByName struct {
	Name string `path:"name" maxLength:"255"`
}

// Matching is the input of changes of one user or group.
type Matching struct {
	ByName
	IfMatch string `header:"If-Match" maxLength:"200" doc:"The tag of what is changed; none or * changes any"`
}

func (a *accounts) user(_ context.Context, in *ByName) (*tagged[rest.User], error) {
	u, err := a.Directory.User(in.Name)
	if err != nil {
		return nil, a.fail(err)
	}
	return withTag(wireUser(&u))
}

// present checks that a user is as the asker read it. The mutex is held.
func (a *accounts) present(in Matching) error {
	u, err := a.Directory.User(in.Name)
	if err != nil {
		return a.fail(err)
	}
	return checkTag(in.IfMatch, wireUser(&u))
}

func (a *accounts) updateUser(ctx context.Context, in *struct {
	Matching
	Body rest.UserChange
}) (*tagged[rest.User], error) {
	a.match.Lock()
	defer a.match.Unlock()
	if err := a.present(in.Matching); err != nil {
		return nil, err
	}
	c := in.Body
	if p := people.Of(ctx).Principal; c.Password != nil && p.IsUser {
		if err := a.inPerson(p, "change a password"); err != nil {
			return nil, err
		}
	}
	u, err := a.Directory.UpdateUser(ctx, people.Of(ctx).Principal.User, in.Name, people.UserChange{Display: c.Display, Email: c.Email,
		Admin: c.Administrator, Blocked: c.Blocked, Groups: c.Groups, Password: c.Password, UID: c.UID, GID: c.GID})
	if err != nil {
		return nil, a.fail(err)
	}
	return withTag(wireUser(&u))
}

func (a *accounts) deleteUser(ctx context.Context, in *Matching) (*struct{}, error) {
	a.match.Lock()
	defer a.match.Unlock()
	if err := a.present(*in); err != nil {
		return nil, err
	}
	return nil, a.fail(a.Directory.DeleteUser(ctx, people.Of(ctx).Principal.User, in.Name))
}

// wireGroup is a group with its members in order of name.
func (a *accounts) wireGroup(g *access.Group) rest.Group {
	out := rest.Group{Name: g.Name, Description: g.Description, External: g.External, Members: []string{}, Created: sinceEpoch(g.Created),
		UID: g.UID, GID: g.GID}
	for _, u := range a.Directory.Members(g.Name) {
		out.Members = append(out.Members, u.Name)
	}
	return out
}

// everyone is the group that always exists.
var everyone = access.Group{Name: access.Everyone, Description: "each user"}

func (a *accounts) groups(context.Context, *struct{}) (*answered[rest.GroupList], error) {
	members := map[string][]string{}
	for _, u := range a.Directory.Users() {
		members[access.Everyone] = append(members[access.Everyone], u.Name)
		for _, g := range u.AllGroups() {
			members[g] = append(members[g], u.Name)
		}
	}
	out := rest.GroupList{Groups: []rest.Group{}}
	for _, g := range append([]access.Group{everyone}, a.Directory.Groups()...) {
		out.Groups = append(out.Groups, rest.Group{Name: g.Name, Description: g.Description, External: g.External,
			Members: append([]string{}, members[g.Name]...), Created: sinceEpoch(g.Created), UID: g.UID, GID: g.GID})
	}
	slices.SortFunc(out.Groups, func(a, b rest.Group) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return answer(out)
}

// find returns a group with its members.
func (a *accounts) find(name string) (rest.Group, error) {
	if name == access.Everyone {
		return a.wireGroup(&everyone), nil
	}
	g, err := a.Directory.Group(name)
	if err != nil {
		return rest.Group{}, a.fail(err)
	}
	return a.wireGroup(&g), nil
}

func (a *accounts) group(_ context.Context, in *ByName) (*tagged[rest.Group], error) {
	g, err := a.find(in.Name)
	if err != nil {
		return nil, err
	}
	return withTag(g)
}

// createGroup checks that the members exist before it creates the group.
func (a *accounts) createGroup(ctx context.Context, in *struct{ Body rest.NewGroup }) (*tagged[rest.Group], error) {
	a.match.Lock()
	defer a.match.Unlock()
	by := people.Of(ctx).Principal.User
	var wrong []string
	for _, name := range in.Body.Members {
		if _, err := a.Directory.User(name); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return nil, a.fail(&people.Problem{Kind: people.ErrInvalid, Texts: wrong})
	}
	err := a.Directory.CreateGroup(ctx, by, access.Group{Name: in.Body.Name, Description: in.Body.Description, External: in.Body.External,
		IDs: access.IDs{UID: in.Body.UID, GID: in.Body.GID}})
	if err == nil && len(in.Body.Members) > 0 {
		err = a.Directory.SetMembers(ctx, by, in.Body.Name, in.Body.Members, nil)
	}
	if err != nil {
		return nil, a.fail(err)
	}
	return a.group(ctx, &ByName{in.Body.Name})
}

// changeable checks that a group may be changed and is as the asker read it. The mutex is
// held.
func (a *accounts) changeable(in Matching) error {
	g, err := a.find(in.Name)
	if err != nil {
		return err
	}
	if in.Name == access.Everyone {
		return invalid("name", "each user is in the group everyone: it is not made, changed or deleted")
	}
	return checkTag(in.IfMatch, g)
}

func (a *accounts) updateGroup(ctx context.Context, in *struct {
	Matching
	Body rest.GroupChange
}) (*tagged[rest.Group], error) {
	a.match.Lock()
	defer a.match.Unlock()
	if err := a.changeable(in.Matching); err != nil {
		return nil, err
	}
	by, c := people.Of(ctx).Principal.User, in.Body
	if len(c.Add)+len(c.Remove) > 0 {
		if err := a.Directory.SetMembers(ctx, by, in.Name, c.Add, c.Remove); err != nil {
			return nil, a.fail(err)
		}
	}
	if c.Description != nil || c.External != nil || c.UID != nil || c.GID != nil {
		if _, err := a.Directory.UpdateGroup(ctx, by, in.Name, people.GroupChange{Description: c.Description, External: c.External,
			UID: c.UID, GID: c.GID}); err != nil {
			return nil, a.fail(err)
		}
	}
	return a.group(ctx, &in.ByName)
}

func (a *accounts) deleteGroup(ctx context.Context, in *Matching) (*struct{}, error) {
	a.match.Lock()
	defer a.match.Unlock()
	if err := a.changeable(*in); err != nil {
		return nil, err
	}
	return nil, a.fail(a.Directory.DeleteGroup(ctx, people.Of(ctx).Principal.User, in.Name))
}

func (a *accounts) audit(ctx context.Context, in *struct {
	Before int64 `query:"before" minimum:"0" doc:"Lines before this one; 0 begins with the newest"`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}) (*answered[rest.AuditLog], error) {
	lines, err := a.Directory.Log(ctx, in.Before, in.Limit)
	if err != nil {
		return nil, a.Fail(err)
	}
	out := rest.AuditLog{Lines: []rest.AuditLine{}}
	for _, l := range lines {
		out.Lines = append(out.Lines, rest.AuditLine{Seq: l.Seq, Time: l.Time, User: l.Subject, Verb: l.Verb,
			Object: l.Object, Outcome: l.Outcome, Detail: l.Detail, From: l.From})
	}
	if n := len(lines); n == in.Limit && lines[n-1].Seq > 1 {
		out.Next = lines[n-1].Seq
	}
	return answer(out)
}

func (a *accounts) verifyAudit(ctx context.Context, _ *struct{}) (*answered[rest.AuditChecked], error) {
	p, err := a.Directory.VerifyLog(ctx)
	if err != nil {
		return nil, a.Fail(err)
	}
	return answer(rest.AuditChecked{Lines: p.Lines, Forgot: p.Forgotten, Head: p.Head, Sound: p.Problem == "", Problem: p.Problem})
}
