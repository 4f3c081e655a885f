package accounts

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/engine/store"
)

// Origin is where a request comes from.
type Origin struct {
	from    string
	secure  bool   // it came over TLS, or from a page that did
	tickets string // of earlier sign-ins in its browser
}

// Resolve implements huma.Resolver.
func (o *Origin) Resolve(c huma.Context) []error {
	o.from = c.RemoteAddr()
	if host, _, err := net.SplitHostPort(o.from); err == nil {
		o.from = host
	}
	if o.from == "" || o.from == "@" {
		o.from = "the server's socket"
	}
	o.secure = c.TLS() != nil || strings.HasPrefix(c.Header("Origin"), "https://")
	o.tickets = rest.Tickets(http.Header{"Cookie": {c.Header("Cookie")}})
	return nil
}

type signedIn struct {
	SetCookie []http.Cookie `header:"Set-Cookie"`
	Body      rest.SignedIn
}

func (a *accounts) signIn(ctx context.Context, in *struct {
	Origin
	Body rest.SignIn
}) (*signedIn, error) {
	return a.open(&in.Origin, &in.Body, func(life time.Duration) (string, store.Token, error) {
		from := people.From{Address: in.from, Ticket: cmp.Or(in.Body.Ticket, in.tickets)}
		return a.Directory.SignIn(ctx, in.Body.User, in.Body.Password, from, life)
	})
}

func (a *accounts) setUp(ctx context.Context, in *struct {
	Origin
	Body rest.SetUp
}) (*signedIn, error) {
	return a.open(&in.Origin, &in.Body.SignIn, func(life time.Duration) (string, store.Token, error) {
		first := people.NewUser{User: access.User{Name: in.Body.User}, Password: in.Body.Password}
		return a.Directory.SetUp(ctx, in.Body.Code, first, in.from, life)
	})
}

func (a *accounts) waysIn(context.Context, *struct{}) (*answered[rest.WaysIn], error) {
	out := rest.WaysIn{Password: true, Setup: a.Directory.WantsAdministrator()}
	if a.Provider != nil {
		out.Provider = &rest.WayOfProvider{Title: a.Provider.Title, Path: rest.Prefix + ProviderPath}
	}
	return answer(out)
}

// open answers with a session for a request without a token.
func (a *accounts) open(o *Origin, in *rest.SignIn, enter func(time.Duration) (string, store.Token, error)) (*signedIn, error) {
	last, err := life(in.Expires)
	if err != nil {
		return nil, err
	}
	text, t, err := enter(last)
	if err != nil {
		return nil, a.fail(err)
	}
	out := &signedIn{Body: rest.SignedIn{User: string(t.Subject), ID: t.ID, Expires: t.Expires, Token: text}}
	if !in.Cookie {
		out.Body.Ticket = a.Directory.Ticket(out.Body.User)
		return out, nil
	}
	secure := o.secure || a.Provider.OverTLS()
	out.SetCookie, out.Body.Token = []http.Cookie{sessionCookie(secure, text, &t)}, ""
	if kept := a.Directory.KeepTicket(o.tickets, out.Body.User); kept != "" {
		out.SetCookie = append(out.SetCookie, rest.DeviceCookie(secure, kept, people.TicketLife))
	}
	return out, nil
}

func sessionCookie(secure bool, text string, t *store.Token) http.Cookie {
	c := cookie(secure, text)
	c.MaxAge = int((t.Expires - t.Created) / 1e6)
	return c
}

func cookie(secure bool, value string) http.Cookie {
	c := http.Cookie{Name: PlainCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if secure {
		c.Name, c.Secure = SecureCookie, true
	}
	return c
}

type signedOut struct {
	SetCookie []http.Cookie `header:"Set-Cookie"`
}

func (a *accounts) signOut(ctx context.Context, _ *struct{}) (*signedOut, error) {
	p := people.Of(ctx).Principal
	if err := a.inPerson(p, "sign out"); err != nil {
		return nil, err
	}
	if err := a.Directory.Revoke(ctx, p.User, p.User, p.Token); err != nil {
		return nil, a.fail(err)
	}
	out := &signedOut{}
	for _, secure := range []bool{false, true} {
		c := cookie(secure, "")
		c.MaxAge = -1
		out.SetCookie = append(out.SetCookie, c)
	}
	return out, nil
}

// noAccount is the error for the holder of the data directory's token.
func noAccount(so string) error {
	return rest.NewProblem(http.StatusConflict, rest.CodeConflict,
		"the token of the data directory is an administrator's, and of no user: "+so+"; make a user with comb user create, and sign in with comb login")
}

func (a *accounts) me(ctx context.Context, _ *struct{}) (*answered[rest.Me], error) {
	p := people.Of(ctx).Principal
	table, vcs, err := a.rights(ctx)
	if err != nil {
		return nil, a.Fail(err)
	}
	out := rest.Me{Name: p.User, Account: p.IsUser, Administrator: p.Admin, Groups: append([]string{}, p.Groups...), VCs: []rest.MyVC{}}
	out.May = words(table.Verbs(p, access.Object{}))
	out.Own = words(table.Verbs(p, access.Object{VC: elsewhere, Owner: p.User}))
	for i := range vcs {
		vc := vcs[i].Name
		if role := table.RoleIn(p, vc); role > access.Stranger {
			out.VCs = append(out.VCs, rest.MyVC{Name: vc, Role: role.String(),
				May: words(table.Verbs(p, access.Object{VC: vc})), Own: words(table.Verbs(p, access.Object{VC: vc, Owner: p.User}))})
		}
	}
	slices.SortFunc(out.VCs, func(a, b rest.MyVC) int { return strings.Compare(string(a.Name), string(b.Name)) })
	if !p.IsUser {
		out.Token = &rest.Token{ID: p.Token, Kind: "root", Name: "admin-token", User: p.User}
		return answer(out)
	}
	out.Groups = append(out.Groups, access.Everyone)
	if u, err := a.Directory.User(p.User); err == nil {
		out.Display, out.Email = u.Display, u.Email
	}
	if t, ok := a.own(p); ok {
		w := wireToken(&t)
		out.Token = &w
	}
	return answer(out)
}

// elsewhere names no virtual cluster, so it has no roles.
const elsewhere cell.VCName = "*"

func words(verbs []access.Verb) []string {
	out := make([]string, len(verbs))
	for i, v := range verbs {
		out[i] = string(v)
	}
	return out
}

// own returns the token of the principal's request.
func (a *accounts) own(p *access.Principal) (store.Token, bool) {
	list := a.Directory.Tokens(p.User)
	i := slices.IndexFunc(list, func(t store.Token) bool { return t.ID == p.Token })
	if i < 0 {
		return store.Token{}, false
	}
	return list[i], true
}

// inPerson refuses requests about a user's own account by principals that did not sign in as
// it.
func (a *accounts) inPerson(p *access.Principal, what string) error {
	if !p.IsUser {
		return noAccount("it cannot " + what)
	}
	if t, ok := a.own(p); !ok || t.Kind != access.Session {
		return forbidden("a token that was made for a program may not %s: sign in with comb login", what)
	}
	return nil
}

// changePassword checks the old password first; guesses are as slow as in a sign-in.
func (a *accounts) changePassword(ctx context.Context, in *struct{ Body rest.PasswordChange }) (*struct{}, error) {
	p := people.Of(ctx).Principal
	if err := a.inPerson(p, "change a password"); err != nil {
		return nil, err
	}
	if err := a.Directory.Confirm(ctx, p.User, in.Body.Old); err != nil {
		return nil, a.fail(err)
	}
	_, err := a.Directory.UpdateUser(ctx, p.User, p.User, people.UserChange{Password: &in.Body.New})
	return nil, a.fail(err)
}

// whose returns the user whose tokens a request is about; "" is all users. Tokens of other
// users than the asker need a right.
func (a *accounts) whose(ctx context.Context, named string, verb access.Verb) (string, error) {
	p := people.Of(ctx).Principal
	switch {
	case named == "" && !p.IsUser:
		return "", noAccount("it has no tokens beside it; name a user with --user NAME")
	case named == "" || named == p.User && p.IsUser:
		return p.User, nil
	}
	if err := a.Authorizer.May(ctx, verb, access.Object{}, nil); err != nil {
		return "", a.Fail(err)
	}
	if named == "*" {
		return "", nil
	}
	_, err := a.Directory.User(named)
	return named, a.fail(err)
}

// UserQuery names the user whose tokens are meant.
type UserQuery struct {
	User string `query:"user" maxLength:"255" doc:"For administrators: another user; * for all, where that makes sense"`
}

func (a *accounts) tokens(ctx context.Context, in *UserQuery) (*answered[rest.TokenList], error) {
	user, err := a.whose(ctx, in.User, access.SeePeople)
	if err != nil {
		return nil, err
	}
	out := rest.TokenList{Tokens: []rest.Token{}}
	for _, t := range a.Directory.Tokens(user) {
		out.Tokens = append(out.Tokens, wireToken(&t))
	}
	return answer(out)
}

func wireToken(t *store.Token) rest.Token {
	return rest.Token{ID: t.ID, Kind: string(t.Kind), Name: t.Name, User: string(t.Subject), Created: t.Created, Used: t.Used,
		Expires: t.Expires, ReadOnly: t.Scope.ReadOnly, VCs: t.Scope.VCs}
}

func (a *accounts) createToken(ctx context.Context, in *struct {
	UserQuery
	Body rest.NewToken
}) (*answered[rest.TokenMade], error) {
	user, err := a.whose(ctx, in.User, access.ChangePeople)
	if err != nil {
		return nil, err
	}
	if p := people.Of(ctx).Principal; p.IsUser {
		if err := a.inPerson(p, "make tokens"); err != nil {
			return nil, err
		}
	}
	if user == "" {
		return nil, invalid("user", "a token is of one user: name it")
	}
	last, err := life(in.Body.Expires)
	if err != nil {
		return nil, err
	}
	table, vcs, err := a.rights(ctx)
	if err != nil {
		return nil, a.Fail(err)
	}
	u, err := a.Directory.User(user)
	if err != nil {
		return nil, a.fail(err)
	}
	of := &access.Principal{User: u.Name, Admin: u.Admin, Groups: u.AllGroups(), IsUser: true}
	var names []string
	for i := range vcs {
		names = append(names, string(vcs[i].Name))
	}
	var wrong []rest.FieldError
	for i, vc := range in.Body.VCs {
		text := ""
		switch {
		case !slices.Contains(names, vc):
			text = fmt.Sprintf("there is no VC %s%s", document.Quote(vc), document.DidYouMean(vc, names))
		case !table.HasRole(of, cell.VCName(vc)):
			text = fmt.Sprintf("%s has no role in VC %s, so that the token could do nothing there: the cluster file "+
				"gives groups their VCs (access), and an administrator puts users into groups", u.Name, vc)
		}
		if text != "" {
			wrong = append(wrong, rest.FieldError{Pointer: fmt.Sprintf("vcs[%d]", i), Detail: text})
		}
	}
	if len(wrong) > 0 {
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "the token cannot be made", wrong...)
	}
	text, t, err := a.Directory.CreateToken(ctx, people.Of(ctx).Principal.User, people.NewToken{User: user, Name: in.Body.Name,
		Scope: access.Scope{ReadOnly: in.Body.ReadOnly, VCs: in.Body.VCs}, Life: last})
	if err != nil {
		return nil, a.fail(err)
	}
	return answer(rest.TokenMade{Token: wireToken(&t), Secret: text})
}

func (a *accounts) revokeToken(ctx context.Context, in *struct {
	UserQuery
	ID string `path:"id" maxLength:"64"`
}) (*struct{}, error) {
	user, err := a.whose(ctx, in.User, access.ChangePeople)
	if err != nil {
		return nil, err
	}
	p := people.Of(ctx).Principal
	if user == p.User && p.IsUser && in.ID != p.Token {
		if err := a.inPerson(p, "end other tokens"); err != nil {
			return nil, err
		}
	}
	return nil, a.fail(a.Directory.Revoke(ctx, p.User, user, in.ID))
}
