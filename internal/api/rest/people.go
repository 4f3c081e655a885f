package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// MaxNewUsers bounds the users of one request, since hashing a password takes some hundredths
// of a second.
const MaxNewUsers = 500

// SignIn asks for a session.
type SignIn struct {
	User     string `json:"user" minLength:"1" maxLength:"255"`
	Password string `json:"password" minLength:"1" maxLength:"1024"`
	Cookie   bool   `json:"cookie,omitempty" doc:"Set the token as a cookie that no script can read, and leave it out of the answer"`
	Expires  string `json:"expires,omitempty" maxLength:"40" doc:"How long it lasts, from 1m to 30d, such as 90m; 12h if empty"`
	Ticket   string `json:"ticket,omitempty" maxLength:"512" doc:"Of the sign-in before"`
}

// SetUp creates the first administrator, and signs it in.
type SetUp struct {
	Code string `json:"code" minLength:"1" maxLength:"100" doc:"The one that the server printed when it started; capitals and dashes are no matter"`
	SignIn
}

// WaysIn says how users sign in.
type WaysIn struct {
	Password bool           `json:"password" doc:"With POST /sessions"`
	Provider *WayOfProvider `json:"provider,omitempty" doc:"The identity provider, where there is one"`
	Setup    bool           `json:"setup" doc:"No user is an administrator yet: the first one is made with POST /setup and the code that the server printed"`
}

// WayOfProvider says how users sign in by an identity provider.
type WayOfProvider struct {
	Title string `json:"title" doc:"What people call it"`
	Path  string `json:"path" doc:"Where a browser goes, with return=PATH for the page of this server that it comes back to"`
}

// Redeem asks for the session of a command that waited for a browser's sign-in.
type Redeem struct {
	Code     string `json:"code" minLength:"1" maxLength:"100" doc:"The one that the browser was given"`
	Verifier string `json:"verifier" minLength:"43" maxLength:"128" doc:"Whose challenge the browser's sign-in began with (RFC 7636, S256)"`
	Expires  string `json:"expires,omitempty" maxLength:"40" doc:"How long it lasts, from 1m to 30d, such as 90m; 12h if empty"`
}

// SignedIn answers a sign-in.
type SignedIn struct {
	User    string     `json:"user"`
	ID      string     `json:"id" doc:"Of the session among the user's tokens"`
	Expires model.Time `json:"expires"`
	Token   string     `json:"token,omitempty" doc:"Shown this once; none with a cookie"`
	Ticket  string     `json:"ticket,omitempty" doc:"For the user's next sign-in, which waits for no stranger"`
}

// Me is the asker's own account.
type Me struct {
	Name          string   `json:"name"`
	Account       bool     `json:"account" doc:"It is a user; else it is the holder of the token in the data directory"`
	Display       string   `json:"display,omitempty" doc:"The full name"`
	Email         string   `json:"email,omitempty"`
	Administrator bool     `json:"administrator" doc:"Of the whole cluster"`
	Groups        []string `json:"groups" doc:"With everyone, where it is a user"`
	VCs           []MyVC   `json:"vcs" doc:"Those in which it has a role, in order of name"`
	May           []string `json:"may" doc:"What it may do with the cluster and with people, in the words of the table of rights, such as change the cluster"`
	Own           []string `json:"own" doc:"What it may do with jobs of its own in virtual clusters in which it has no role"`
	Token         *Token   `json:"token,omitempty" doc:"By which it asks: what that may be used for, and until when"`
}

// MyVC is the asker's role in one virtual cluster.
type MyVC struct {
	Name cell.VCName `json:"name"`
	Role string      `json:"role" doc:"viewer, member, administrator of the VC or administrator of the cluster"`
	May  []string    `json:"may" doc:"What it may do there, with jobs of all users, in the words of the table of rights, such as submit jobs"`
	Own  []string    `json:"own" doc:"What it may do there with jobs of its own"`
}

// PasswordChange replaces the asker's own password.
type PasswordChange struct {
	Old string `json:"old" minLength:"1" maxLength:"1024"`
	New string `json:"new" minLength:"1" maxLength:"1024"`
}

// User is a user as administrators see it.
type User struct {
	Name          string     `json:"name"`
	Display       string     `json:"display,omitempty" doc:"The full name"`
	Email         string     `json:"email,omitempty"`
	Administrator bool       `json:"administrator" doc:"Of the whole cluster"`
	Blocked       bool       `json:"blocked,omitempty" doc:"May not sign in, and none of its tokens is valid"`
	Groups        []string   `json:"groups" doc:"That administrators put it into; without everyone, in which each user is"`
	HasPassword   bool       `json:"has_password"`
	Created       model.Time `json:"created"`
	// Of a user that an identity provider has named:
	Provider       string   `json:"provider,omitempty" doc:"The identity provider by which it signs in"`
	ProviderGroups []string `json:"provider_groups,omitempty" doc:"In which it is by the identity provider; they follow at each sign-in"`
	// With which its tasks run on the machines:
	UID int64 `json:"uid,omitempty" doc:"The number with which its tasks run; none: that of its first group with one"`
	GID int64 `json:"gid,omitempty" doc:"Likewise of its group; none at all: the number of the uid"`
}

// UserList lists users in order of name.
type UserList struct {
	Users []User `json:"users"`
}

// NewUser is a user to be created.
type NewUser struct {
	Name          string   `json:"name" minLength:"1" maxLength:"255"`
	Display       string   `json:"display,omitempty" maxLength:"1024" doc:"The full name"`
	Email         string   `json:"email,omitempty" maxLength:"1024"`
	Administrator bool     `json:"administrator,omitempty" doc:"Of the whole cluster"`
	Groups        []string `json:"groups,omitempty" maxItems:"64"`
	Password      string   `json:"password,omitempty" maxLength:"1024" doc:"Without one the user cannot sign in by password"`
	UID           int64    `json:"uid,omitempty" doc:"The number of the user with which its tasks run"`
	GID           int64    `json:"gid,omitempty" doc:"Likewise of its group"`
}

// NewUsers are users to be created, all or none.
type NewUsers struct {
	Users []NewUser `json:"users" minItems:"1" maxItems:"500"`
}

// UserChange is a change of a user; absent fields stay.
type UserChange struct {
	Display       *string   `json:"display,omitempty" maxLength:"1024"`
	Email         *string   `json:"email,omitempty" maxLength:"1024"`
	Administrator *bool     `json:"administrator,omitempty"`
	Blocked       *bool     `json:"blocked,omitempty" doc:"Its tokens end when it is blocked"`
	Groups        *[]string `json:"groups,omitempty" maxItems:"64" doc:"All of its groups"`
	Password      *string   `json:"password,omitempty" maxLength:"1024" doc:"Its tokens end with the old one"`
	UID           *int64    `json:"uid,omitempty" doc:"Of tasks of jobs submitted from now on; -1 takes it away"`
	GID           *int64    `json:"gid,omitempty" doc:"Likewise of its group"`
}

// Group is a set of users, to which the cluster file gives rights.
type Group struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	External    string     `json:"external,omitempty" doc:"Its name at the identity provider"`
	UID         int64      `json:"uid,omitempty" doc:"With which tasks of its members run that have none themselves"`
	GID         int64      `json:"gid,omitempty" doc:"Likewise"`
	Members     []string   `json:"members" doc:"In order of name"`
	Created     model.Time `json:"created,omitempty" doc:"None for everyone, which is always there"`
}

// GroupList lists groups in order of name.
type GroupList struct {
	Groups []Group `json:"groups"`
}

// NewGroup is a group to be created.
type NewGroup struct {
	Name        string   `json:"name" minLength:"1" maxLength:"255"`
	Description string   `json:"description,omitempty" maxLength:"1024"`
	External    string   `json:"external,omitempty" maxLength:"1024" doc:"Its name at the identity provider"`
	Members     []string `json:"members,omitempty" maxItems:"10000"`
	UID         int64    `json:"uid,omitempty" doc:"With which tasks of its members run that have none themselves"`
	GID         int64    `json:"gid,omitempty" doc:"Likewise"`
}

// GroupChange is a change of a group; absent fields stay.
type GroupChange struct {
	Description *string  `json:"description,omitempty" maxLength:"1024"`
	External    *string  `json:"external,omitempty" maxLength:"1024"`
	Add         []string `json:"add,omitempty" maxItems:"10000" doc:"Users that become members"`
	Remove      []string `json:"remove,omitempty" maxItems:"10000" doc:"Users that are members no more"`
	UID         *int64   `json:"uid,omitempty" doc:"Of the tasks of its members that have none; -1 takes it away"`
	GID         *int64   `json:"gid,omitempty" doc:"Likewise"`
}

// Token is what is known of a token; its secret is not stored.
type Token struct {
	ID       string     `json:"id"`
	Kind     string     `json:"kind" enum:"session,application,root" doc:"session: made by signing in; application: made for a program; root: that of the data directory"`
	Name     string     `json:"name"`
	User     string     `json:"user"`
	Created  model.Time `json:"created"`
	Used     model.Time `json:"used,omitempty" doc:"Last use, to the minute; none is never"`
	Expires  model.Time `json:"expires,omitempty" doc:"None is never"`
	ReadOnly bool       `json:"read_only,omitempty"`
	VCs      []string   `json:"vcs,omitempty" doc:"It is valid for these alone, with those inside of them; none is all"`
}

// TokenList lists tokens, oldest first.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// NewToken asks for a token of the asker for a program.
type NewToken struct {
	Name     string   `json:"name" minLength:"1" maxLength:"255" doc:"Such as that of the program that will use it"`
	ReadOnly bool     `json:"read_only,omitempty"`
	VCs      []string `json:"vcs,omitempty" maxItems:"64" doc:"It is valid for these alone, with those inside of them; none is all"`
	Expires  string   `json:"expires,omitempty" maxLength:"40" doc:"How long it is valid, from 1m to 366d, such as 30d; 366d if empty"`
}

// TokenMade is a new token with its secret, which is shown only this once.
type TokenMade struct {
	Token
	Secret string `json:"secret" doc:"The token itself, to be sent as Authorization: Bearer"`
}

// AuditLine is one line of the audit log.
type AuditLine struct {
	Seq     int64      `json:"seq"`
	Time    model.Time `json:"time"`
	User    string     `json:"user"`
	Verb    string     `json:"verb"`
	Object  string     `json:"object,omitempty"`
	Outcome string     `json:"outcome" enum:"done,refused,failed"`
	Detail  string     `json:"detail,omitempty"`
	From    string     `json:"from,omitempty" doc:"The client's address; empty over the server's socket"`
}

// AuditLog is a page of the audit log, newest first.
type AuditLog struct {
	Lines []AuditLine `json:"lines"`
	Next  int64       `json:"next,omitempty" doc:"Ask again with before set to it; 0 at the end"`
}

// AuditChecked says whether the audit log is still the one that was written.
type AuditChecked struct {
	Lines   int64  `json:"lines" doc:"The last one up to which they follow from one another"`
	Forgot  int64  `json:"forgot,omitempty" doc:"Lines 1 to this one were forgotten, as a later line says, after --keep-audit"`
	Head    string `json:"head,omitempty" doc:"Digest of the last of them and all before; kept elsewhere, it shows later that none was changed"`
	Sound   bool   `json:"sound"`
	Problem string `json:"problem,omitempty" doc:"What is wrong, and in which line"`
}

// People are the calls about users, groups, tokens and the audit log.
type People struct{ c *Client }

// People returns the client's calls about people.
func (c *Client) People() People { return People{c} }

// SignIn opens a session. It needs no token.
func (p People) SignIn(ctx context.Context, in SignIn) (SignedIn, error) {
	var out SignedIn
	err := p.c.do(ctx, call{method: http.MethodPost, path: "/sessions", json: in}, &out)
	return out, err
}

// SetUp creates the first administrator and opens a session of it. It needs no token.
func (p People) SetUp(ctx context.Context, in SetUp) (SignedIn, error) {
	var out SignedIn
	err := p.c.do(ctx, call{method: http.MethodPost, path: "/setup", json: in}, &out)
	return out, err
}

// Redeem opens the session of a sign-in by a browser. It needs no token.
func (p People) Redeem(ctx context.Context, in Redeem) (SignedIn, error) {
	var out SignedIn
	err := p.c.do(ctx, call{method: http.MethodPost, path: "/sessions:redeem", json: in}, &out)
	return out, err
}

// WaysIn asks how users sign in. It needs no token.
func (p People) WaysIn(ctx context.Context) (WaysIn, error) {
	var out WaysIn
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/sign-in"}, &out)
	return out, err
}

// SignOut ends the client's own token.
func (p People) SignOut(ctx context.Context) error {
	return p.c.do(ctx, call{method: http.MethodDelete, path: "/sessions"}, nil)
}

// Me returns the account of the client's token.
func (p People) Me(ctx context.Context) (Me, error) {
	var out Me
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/me"}, &out)
	return out, err
}

// ChangePassword replaces the user's own password. All of the user's tokens end, also the
// client's.
func (p People) ChangePassword(ctx context.Context, in PasswordChange) error {
	return p.c.do(ctx, call{method: http.MethodPut, path: "/me/password", json: in}, nil)
}

// Users lists all users.
func (p People) Users(ctx context.Context) (UserList, error) {
	var out UserList
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/users"}, &out)
	return out, err
}

// User returns one user.
func (p People) User(ctx context.Context, name string) (User, error) {
	var out User
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/users/" + element(name)}, &out)
	return out, err
}

// CreateUsers creates users, all or none.
func (p People) CreateUsers(ctx context.Context, list ...NewUser) (UserList, error) {
	var out UserList
	err := p.c.do(ctx, call{method: http.MethodPost, path: "/users", json: NewUsers{Users: list}}, &out)
	return out, err
}

// UpdateUser changes a user.
func (p People) UpdateUser(ctx context.Context, name string, change UserChange) (User, error) {
	var out User
	err := p.c.do(ctx, call{method: http.MethodPatch, path: "/users/" + element(name), json: change}, &out)
	return out, err
}

// DeleteUser removes a user and its tokens; its jobs stay.
func (p People) DeleteUser(ctx context.Context, name string) error {
	return p.c.do(ctx, call{method: http.MethodDelete, path: "/users/" + element(name)}, nil)
}

// Groups lists all groups.
func (p People) Groups(ctx context.Context) (GroupList, error) {
	var out GroupList
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/groups"}, &out)
	return out, err
}

// Group returns one group.
func (p People) Group(ctx context.Context, name string) (Group, error) {
	var out Group
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/groups/" + element(name)}, &out)
	return out, err
}

// CreateGroup creates a group.
func (p People) CreateGroup(ctx context.Context, g NewGroup) (Group, error) {
	var out Group
	err := p.c.do(ctx, call{method: http.MethodPost, path: "/groups", json: g}, &out)
	return out, err
}

// UpdateGroup changes a group.
func (p People) UpdateGroup(ctx context.Context, name string, change GroupChange) (Group, error) {
	var out Group
	err := p.c.do(ctx, call{method: http.MethodPatch, path: "/groups/" + element(name), json: change}, &out)
	return out, err
}

// DeleteGroup removes a group, and its members from it.
func (p People) DeleteGroup(ctx context.Context, name string) error {
	return p.c.do(ctx, call{method: http.MethodDelete, path: "/groups/" + element(name)}, nil)
}

// ofUser is a query that names a user; "" is the asker.
func ofUser(user string) url.Values {
	if user == "" {
		return nil
	}
	return url.Values{"user": {user}}
}

// Tokens lists the tokens of a user; "" is the asker, and "*" all users.
func (p People) Tokens(ctx context.Context, user string) (TokenList, error) {
	var out TokenList
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/tokens", query: ofUser(user)}, &out)
	return out, err
}

// CreateToken creates a token of a user; "" is the asker.
func (p People) CreateToken(ctx context.Context, in NewToken, user string) (TokenMade, error) {
	var out TokenMade
	err := p.c.do(ctx, call{method: http.MethodPost, path: "/tokens", query: ofUser(user), json: in}, &out)
	return out, err
}

// RevokeToken ends a token of a user; "" is the asker.
func (p People) RevokeToken(ctx context.Context, id, user string) error {
	return p.c.do(ctx, call{method: http.MethodDelete, path: "/tokens/" + element(id), query: ofUser(user)}, nil)
}

// Audit returns a page of the audit log: the lines before one; 0 starts at the newest.
func (p People) Audit(ctx context.Context, before int64, limit int) (AuditLog, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	var out AuditLog
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/audit", query: q}, &out)
	return out, err
}

// VerifyAudit makes the server check the chain of the audit log.
func (p People) VerifyAudit(ctx context.Context) (AuditChecked, error) {
	var out AuditChecked
	err := p.c.do(ctx, call{method: http.MethodGet, path: "/audit:verify"}, &out)
	return out, err
}
