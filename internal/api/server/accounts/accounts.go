// Package accounts answers the routes about people: signing in and out, the user's own
// account, users, groups, tokens and the audit log. It must not decide which users may ask
// (the server's guard does, by internal/core/access). It never returns a password's hash, and
// a token's secret only in the answer that made the token.
package accounts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
)

// SecureCookie and PlainCookie carry a session's token. SecureCookie needs TLS; pages of
// other hosts cannot set it.
const (
	SecureCookie = "__Host-comb_session"
	PlainCookie  = "comb_session"
)

// Deps is what the routes need from their server.
type Deps struct {
	Directory  *people.Directory
	Authorizer *people.Authorizer
	Fail       func(error) error // turns any error into a problem
	Operation  func(huma.Operation) huma.Operation
	Provider   *oidc.Provider // nil: all sign in with passwords
	Log        *slog.Logger
}

// accounts are the routes.
type accounts struct {
	Deps
	finishing limiter.Limiter // answers of the provider that are processed, which may take long
	match     sync.Mutex      // held while If-Match is checked and a change is made
	codes     codes
}

// How many answers of the provider are processed at a time, each for up to 15 seconds: in
// all, and of one address.
const (
	maxFinishing    = 1000
	maxFinishingOne = 100
)

// Register registers the routes.
func Register(api huma.API, h Deps) {
	a := &accounts{Deps: h, finishing: limiter.Limiter{All: maxFinishing, One: maxFinishingOne, What: "sign-ins"}}
	op := func(id, method, path, summary string) huma.Operation {
		return h.Operation(huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"people"}})
	}
	open := func(id, method, path, summary string) huma.Operation {
		o := op(id, method, path, summary+"; needs no token")
		o.Security = []map[string][]string{}
		return o
	}
	huma.Register(api, open("get-sign-in", http.MethodGet, "/sign-in", "How one signs in, and whether a first administrator is wanted"), a.waysIn)
	huma.Register(api, open("sign-in", http.MethodPost, "/sessions", "Sign in with a password: makes a session"), a.signIn)
	huma.Register(api, open("set-up", http.MethodPost, "/setup", "Make the first administrator, with the code that the server printed"), a.setUp)
	web := func(id, path, summary string, answers map[string]*huma.Response) huma.Operation {
		o := open(id, http.MethodGet, path, summary)
		for status, r := range answers {
			o.Responses[status] = r
		}
		return o
	}
	html := &huma.Response{Description: "A page for the browser's user", Content: map[string]*huma.MediaType{"text/html": {Schema: &huma.Schema{Type: "string"}}}}
	huma.Register(api, web("begin-sign-in", ProviderPath, "Send a browser to the identity provider", map[string]*huma.Response{
		"302": {Description: "To the identity provider"}, "502": html}), a.begin)
	back := web("finish-sign-in", strings.TrimPrefix(oidc.CallbackPath, rest.Prefix), "Where the identity provider sends the browser back to", map[string]*huma.Response{"200": html, "403": html, "500": html})
	back.SkipValidateParams = true // providers send further parameters
	huma.Register(api, back, a.finish)
	huma.Register(api, open("redeem-sign-in", http.MethodPost, "/sessions:redeem", "Make the session of a command whose user has signed in by a browser"), a.redeem)
	huma.Register(api, op("sign-out", http.MethodDelete, "/sessions", "End the token that asks"), a.signOut)
	huma.Register(api, op("get-me", http.MethodGet, "/me", "The own account: groups, roles in virtual clusters, what the token may do and until when"), a.me)
	huma.Register(api, op("change-my-password", http.MethodPut, "/me/password", "Replace the own password; all own tokens end"), a.changePassword)
	huma.Register(api, op("list-users", http.MethodGet, "/users", "All users"), a.users)
	huma.Register(api, op("create-users", http.MethodPost, "/users", "Make users, all or none"), a.createUsers)
	huma.Register(api, op("get-user", http.MethodGet, "/users/{name}", "One user"), a.user)
	huma.Register(api, op("update-user", http.MethodPatch, "/users/{name}", "Change a user; what is absent stays"), a.updateUser)
	huma.Register(api, op("delete-user", http.MethodDelete, "/users/{name}", "Remove a user and its tokens; its jobs stay"), a.deleteUser)
	huma.Register(api, op("list-groups", http.MethodGet, "/groups", "All groups with their members"), a.groups)
	huma.Register(api, op("create-group", http.MethodPost, "/groups", "Make a group"), a.createGroup)
	huma.Register(api, op("get-group", http.MethodGet, "/groups/{name}", "One group with its members"), a.group)
	huma.Register(api, op("update-group", http.MethodPatch, "/groups/{name}", "Change a group, or its members"), a.updateGroup)
	huma.Register(api, op("delete-group", http.MethodDelete, "/groups/{name}", "Remove a group, also from its members"), a.deleteGroup)
	huma.Register(api, op("list-tokens", http.MethodGet, "/tokens", "The own tokens, sessions among them; an administrator may name a user, or * for all"), a.tokens)
	huma.Register(api, op("create-token", http.MethodPost, "/tokens", "Make a token for a program"), a.createToken)
	huma.Register(api, op("revoke-token", http.MethodDelete, "/tokens/{id}", "End a token"), a.revokeToken)
	huma.Register(api, op("list-audit", http.MethodGet, "/audit", "The audit log, newest first"), a.audit)
	huma.Register(api, op("verify-audit", http.MethodGet, "/audit:verify", "Follow the chain of the audit log"), a.verifyAudit)
}

// answered wraps an answer for the router.
type answered[T any] struct{ Body T }

func answer[T any](v T) (*answered[T], error) { return &answered[T]{Body: v}, nil }

// tagged is an answer with the tag of its content.
type tagged[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

func withTag[T any](v T) (*tagged[T], error) {
	tag, err := tagOf(v)
	return &tagged[T]{tag, v}, err
}

// tagOf is the tag of a value: a hash of its content.
func tagOf(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:16]) + `"`, nil
}

// checkTag compares If-Match, "" for any, with the present value.
func checkTag(match string, v any) error {
	if match == "" || strings.TrimSpace(match) == "*" {
		return nil
	}
	tag, err := tagOf(v)
	if err != nil {
		return err
	}
	for one := range strings.SplitSeq(match, ",") {
		if strings.TrimSpace(one) == tag {
			return nil
		}
	}
	return rest.NewProblem(http.StatusPreconditionFailed, rest.CodePrecondition, "it has changed since it was read; read it again and decide anew")
}

// fail turns an error of the directory into a problem.
func (a *accounts) fail(err error) error {
	var p *people.Problem
	var slow *people.Slow
	switch {
	case err == nil:
		return nil
	case errors.Is(err, people.ErrSignIn), errors.Is(err, people.ErrCode), errors.Is(err, people.ErrRedeem):
		return a.Fail(rest.NewProblem(http.StatusUnauthorized, rest.CodeUnauthorized, err.Error()))
	case errors.As(err, &slow):
		return a.Fail(busy(slow.Seconds(), err.Error()))
	case errors.Is(err, people.ErrBusy):
		return a.Fail(busy(1, err.Error()))
	case errors.Is(err, store.ErrStale):
		return a.Fail(rest.NewProblem(http.StatusConflict, rest.CodeConflict, "it was changed meanwhile; try again"))
	case !errors.As(err, &p):
		return a.Fail(err)
	}
	status, code := http.StatusUnprocessableEntity, rest.CodeInvalid
	switch {
	case errors.Is(err, people.ErrNotFound):
		status, code = http.StatusNotFound, rest.CodeNotFound
	case errors.Is(err, people.ErrExists), errors.Is(err, people.ErrLast):
		status, code = http.StatusConflict, rest.CodeConflict
	}
	if len(p.Texts) == 1 {
		return a.Fail(rest.NewProblem(status, code, p.Texts[0]))
	}
	out := rest.NewProblem(status, code, fmt.Sprintf("%d mistakes; nothing is changed", len(p.Texts)))
	for _, text := range p.Texts[:min(len(p.Texts), document.MaxProblems)] {
		out.Errors = append(out.Errors, rest.FieldError{Detail: text})
	}
	return a.Fail(out)
}

func busy(seconds int, detail string) *rest.Problem {
	p := rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy, detail)
	p.Seconds = seconds
	return p
}

func invalid(pointer, format string, args ...any) error {
	return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "the request is not valid",
		rest.FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

func forbidden(format string, args ...any) error {
	return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, fmt.Sprintf(format, args...))
}

// life reads a duration; "" is 0.
func life(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if err := document.Unitless(text); err != nil {
		return 0, invalid("expires", "%s: %v", text, err)
	}
	micros, ok := document.ParseDuration(text)
	if !ok || micros <= 0 {
		return 0, invalid("expires", "%s is no time: want such as 90m, 12h or 30d", document.Quote(text))
	}
	return time.Duration(min(micros, 1<<52)) * time.Microsecond, nil
}

// rights returns the table of rights of the present configuration, and its virtual clusters.
func (a *accounts) rights(ctx context.Context) (table *access.Rights, vcs []cell.VCSpec, err error) {
	if err = a.Authorizer.Read(ctx, func(st *core.State) {
		if c := st.Config(); c != nil {
			vcs = c.Cluster.VCs
		}
	}); err == nil {
		table, err = a.Authorizer.Table(ctx)
	}
	return table, vcs, err
}

// sinceEpoch is a time in the form of the API.
func sinceEpoch(t time.Time) model.Time {
	if t.IsZero() {
		return 0
	}
	return model.Time(t.UnixMicro())
}
