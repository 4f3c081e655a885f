package accounts

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/engine/store"
)

// ProviderPath is the path at which a browser begins to sign in by the identity provider.
const ProviderPath = "/sign-in/provider"

// Names of the cookie with a sign-in in progress. Browsers send it when the provider sends
// them back.
const (
	secureBegun = "__Host-comb_sign_in"
	plainBegun  = "comb_sign_in"
)

// Bounds on codes for commands that wait for a browser's sign-in.
const (
	codeLife = 2 * time.Minute
	maxCodes = 1000
)

var challenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// codes are the codes for commands that browsers were given, by hash.
type codes struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]given
}

type given struct {
	user      access.User
	challenge string
	until     time.Time
}

// give makes a code for one session of a user.
func (c *codes) give(u access.User, challenge string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for hash, g := range c.open {
		if now.After(g.until) {
			delete(c.open, hash)
		}
	}
	if len(c.open) >= maxCodes {
		return "", false
	}
	code := strings.ToLower(rand.Text())
	if c.open == nil {
		c.open = map[[sha256.Size]byte]given{}
	}
	c.open[sha256.Sum256([]byte(code))] = given{u, challenge, now.Add(codeLife)}
	return code, true
}

// take returns the user of a code. It uses the code up, even if the verifier is not that of
// the command.
func (c *codes) take(code, verifier string) (access.User, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hash := sha256.Sum256([]byte(code))
	g, ok := c.open[hash]
	delete(c.open, hash)
	sum := sha256.Sum256([]byte(verifier))
	want := base64.RawURLEncoding.EncodeToString(sum[:])
	return g.user, ok && time.Now().Before(g.until) && subtle.ConstantTimeCompare([]byte(want), []byte(g.challenge)) == 1
}

// page is an answer with a page for the user of a browser.
type page struct {
	Status      int
	ContentType string        `header:"Content-Type"`
	Location    string        `header:"Location"`
	SetCookie   []http.Cookie `header:"Set-Cookie"`
	Body        []byte
}

var pages = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
{{if and .To (not .Ask)}}<meta http-equiv="refresh" content="0;url={{.To}}">{{end}}<h1>{{.Title}}</h1><p>{{.Text}}</p>
{{with .Code}}<p><code>{{.}}</code></p>{{end}}{{with .To}}<p><a href="{{.}}">{{or $.Ask "Go on"}}</a></p>{{end}}</html>
`))

// shown is the content of a page. To is the next page, "" is none: it opens by itself, or
// where Ask is a text when the user chooses that.
type shown struct{ Title, Text, Code, To, Ask string }

func (a *accounts) page(status int, s shown, cookies ...http.Cookie) (*page, error) {
	var out bytes.Buffer
	err := pages.Execute(&out, s)
	return &page{Status: status, ContentType: "text/html; charset=utf-8", SetCookie: cookies, Body: out.Bytes()}, err
}

func begunName(secure bool) string {
	if secure {
		return secureBegun
	}
	return plainBegun
}

func begunCookie(secure bool, kept string, life time.Duration) http.Cookie {
	c := http.Cookie{Name: begunName(secure), Value: kept, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode, MaxAge: int(life.Seconds())}
	if kept == "" {
		c.MaxAge = -1
	}
	return c
}

// beginInput begins a browser's sign-in: for a page of this server, or for a command.
type beginInput struct {
	Return    string `query:"return" maxLength:"1024" doc:"The page of this server that the browser comes back to, such as /jobs; / if empty"`
	Port      int    `query:"port" maximum:"65535" doc:"Of a command on the browser's machine, which waits at http://127.0.0.1:PORT for a code"`
	Challenge string `query:"challenge" maxLength:"64" doc:"With a port: of the command's verifier (RFC 7636, S256)"`
	Moved     bool   `query:"moved" doc:"The server has sent the browser here from another of its names, which it does once"`
	host      string
}

// Resolve implements huma.Resolver.
func (in *beginInput) Resolve(c huma.Context) []error {
	in.host = c.Host()
	return nil
}

// moved is the address at which a sign-in begins under the host name to which the provider
// sends the browser back, since the cookie is only valid there.
func (in *beginInput) moved(address string) string {
	q := url.Values{"moved": {"true"}} // a proxy may hide the host name
	if in.Return != "" {
		q.Set("return", in.Return)
	}
	if in.Port != 0 {
		q.Set("port", strconv.Itoa(in.Port))
		q.Set("challenge", in.Challenge)
	}
	return address + rest.Prefix + ProviderPath + "?" + q.Encode()
}

func (a *accounts) begin(ctx context.Context, in *beginInput) (*page, error) {
	u := oidc.AfterSignIn{Return: in.Return, Port: in.Port, Challenge: in.Challenge}
	switch {
	case a.Provider == nil:
		return nil, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "this server has no identity provider: sign in with a password")
	case u.Port != 0 && (u.Port < 1024 || u.Return != "" || !challenge.MatchString(u.Challenge)), u.Port == 0 && u.Challenge != "":
		return nil, invalid("port", "a command gives its port, from 1024 on, with a challenge of 43 characters, and no page")
	case u.Port == 0 && u.Return == "":
		u.Return = "/"
	case u.Port == 0 && !oidc.SafeReturn(u.Return):
		return nil, invalid("return", "it is to be a page of this server: a path such as /jobs, with nothing of another host")
	}
	if !in.Moved && !a.Provider.At(in.host) {
		return &page{Status: http.StatusFound, Location: in.moved(a.Provider.Address)}, nil
	}
	address, kept, err := a.Provider.Begin(ctx, u)
	if err != nil {
		return a.failed(err, http.StatusBadGateway, in.Return)
	}
	return &page{Status: http.StatusFound, Location: address, SetCookie: []http.Cookie{begunCookie(a.Provider.OverTLS(), kept, oidc.Lasts)}}, nil
}

// failed tells a browser's user what went wrong, and logs details that the user need not
// know.
func (a *accounts) failed(err error, status int, back string) (*page, error) {
	var f *oidc.Failed
	var cause error
	if errors.As(err, &f) {
		cause = f.Cause
	}
	a.Log.Warn("a sign-in by the identity provider failed", "error", err, "cause", cause)
	again := rest.Prefix + ProviderPath
	if oidc.SafeReturn(back) {
		again += "?return=" + url.QueryEscape(back)
	}
	text := err.Error()
	var p *people.Problem
	if !errors.As(err, &p) && !errors.Is(err, oidc.ErrStale) && f == nil && status == http.StatusInternalServerError {
		text = "an error of the server; its log says more" // details are not for strangers
	}
	return a.page(status, shown{Title: "You are not signed in", Text: text + ". To try again open " + again + "."}, begunCookie(a.Provider.OverTLS(), "", 0))
}

// answerInput is the provider's answer, which a browser carries.
type answerInput struct {
	Origin
	query   url.Values
	cookies http.Request // holds only the cookies
}

// Resolve implements huma.Resolver.
func (in *answerInput) Resolve(c huma.Context) []error {
	u := c.URL()
	in.query = u.Query()
	in.cookies.Header = http.Header{"Cookie": {c.Header("Cookie")}}
	return in.Origin.Resolve(c)
}

// kept is the cookie of the begin of the sign-in. A cookie of the other kind is ignored.
func (in *answerInput) kept(overTLS bool) string {
	c, err := in.cookies.Cookie(begunName(overTLS))
	if err != nil {
		return ""
	}
	return c.Value
}

// finish opens the session of the person that the provider has named, or makes a code for the
// command that waits for it.
func (a *accounts) finish(ctx context.Context, in *answerInput) (*page, error) {
	if a.Provider == nil {
		return nil, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "this server has no identity provider: sign in with a password")
	}
	right, err := a.Directory.Try(ctx, in.from)
	if err != nil {
		return nil, a.fail(err)
	}
	leave, refusal := a.finishing.Take(people.Network(in.from))
	if refusal != "" {
		right()
		return nil, a.Fail(busy(1, refusal))
	}
	defer leave()
	who, under, err := a.Provider.Finish(ctx, in.kept(a.Provider.OverTLS()), in.query)
	if err != nil {
		if f := (*oidc.Failed)(nil); !errors.As(err, &f) {
			right() // the provider refused nothing: it was not asked, or it named a person
		}
		return a.failed(err, http.StatusForbidden, under.Return)
	}
	u, err := a.Directory.ProvidedUser(ctx, people.Claimed{Issuer: who.Issuer, Subject: who.Subject, Name: who.Name, Display: who.Display, Email: who.Email,
		Groups: who.Groups, Prefix: a.Provider.GroupPrefix, From: in.from})
	var refused *people.Problem
	switch {
	case errors.As(err, &refused):
		return a.failed(err, http.StatusForbidden, under.Return)
	case err != nil:
		return a.failed(err, http.StatusInternalServerError, under.Return)
	}
	right()
	over := begunCookie(a.Provider.OverTLS(), "", 0)
	if under.Port != 0 {
		code, ok := a.codes.give(u, under.Challenge)
		if !ok {
			return nil, a.Fail(busy(5, "many are signing in at once; try again"))
		}
		return a.page(http.StatusOK, shown{Title: "A command asks to sign in as " + u.Name, Code: code, To: fmt.Sprintf("http://127.0.0.1:%d/?code=%s", under.Port, code),
			Ask:  "Sign in the command on this machine",
			Text: "Allow it only if you have just started comb login yourself. Where it runs on another machine than this browser, type this code there, and give it to no person."}, over)
	}
	text, t, err := a.Directory.Admit(ctx, u, in.from, 0)
	if err != nil {
		return a.failed(err, http.StatusInternalServerError, under.Return)
	}
	// A page of this server leads on instead of a redirect: the browser comes from another
	// site, from which nothing else is accepted.
	return a.page(http.StatusOK, shown{Title: "Signed in as " + u.Name, To: under.Return}, over, sessionCookie(a.Provider.OverTLS(), text, &t))
}

func (a *accounts) redeem(ctx context.Context, in *struct {
	Origin
	Body rest.Redeem
}) (*signedIn, error) {
	return a.open(&in.Origin, &rest.SignIn{Expires: in.Body.Expires}, func(life time.Duration) (string, store.Token, error) {
		u, ok := a.codes.take(strings.ToLower(strings.TrimSpace(in.Body.Code)), in.Body.Verifier)
		if !ok {
			return "", store.Token{}, people.ErrRedeem
		}
		return a.Directory.Admit(ctx, u, in.from, life)
	})
}
