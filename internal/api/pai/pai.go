// Package pai implements OpenPAI's REST API, version 2, for OpenPAI's own clients. It is a
// thin layer over App and the directory of people. It must not decide what is allowed, and
// its only state is tickets for logs.
package pai

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Root is the prefix of each path of OpenPAI's rest server, Prefix that of its API.
const (
	Root   = "/rest-server"
	Prefix = Root + "/api/v2"
)

// App is what a server does for a principal. It checks the right first. Its errors are
// problems of package rest. What the principal may not see gives the same error as what does
// not exist.
type App interface {
	// Rights returns the present table of rights, and the virtual clusters.
	Rights(context.Context) (*access.Rights, []cell.VCName, error)
	// May refuses what a principal has no right to do in the cluster.
	May(ctx context.Context, p *access.Principal, verb access.Verb) error
	Submit(ctx context.Context, p *access.Principal, file []byte) (model.JobName, error)
	// Jobs calls each with jobs, newest first, until it returns false.
	Jobs(ctx context.Context, p *access.Principal, q *rest.JobQuery, each func(*rest.Job) bool) error
	Job(ctx context.Context, p *access.Principal, of Ref) (*Job, error)
	// History returns the attempts of a job's gangs, the oldest first.
	History(ctx context.Context, p *access.Principal, of Ref) ([]rest.PastAttempt, error)
	JobConfig(ctx context.Context, p *access.Principal, of Ref) ([]byte, error)
	Stop(ctx context.Context, p *access.Principal, of Ref) error
	// Start releases a held job. It leaves another job that has not ended as it is, and
	// returns false.
	Start(ctx context.Context, p *access.Principal, of Ref) (changed bool, err error)
	// Tag adds a tag to a job, or removes it.
	Tag(ctx context.Context, p *access.Principal, of Ref, tag string, on bool) error
	Events(ctx context.Context, p *access.Principal, of Ref) ([]rest.Event, error)
	// MayRead refuses a principal that may not read a job's file, logs and events.
	MayRead(ctx context.Context, p *access.Principal, of Ref) error
	// Log answers a request with the output of a task.
	Log(w http.ResponseWriter, r *http.Request, p *access.Principal, of *LogRef) error
	VCs(context.Context, *access.Principal) ([]rest.VCStatus, error)
	Cells(context.Context, *access.Principal) ([]rest.CellStatus, error)
	Nodes(context.Context, *access.Principal) ([]rest.NodeStatus, error)
	Storages(context.Context, *access.Principal) ([]rest.StorageStatus, error)
}

// Ref names a job by user and name.
type Ref struct{ User, Name string }

// String is the job's name in OpenPAI: USER~NAME.
func (r Ref) String() string { return r.User + "~" + r.Name }

// Job is a job with its specification.
type Job struct {
	rest.Job
	Spec *model.Job // nil where it is no longer kept
}

// LogRef names the output of a task in one attempt.
type LogRef struct {
	Ref
	Role    string
	Index   int32
	Attempt int32  // of the task, from 1
	Stream  string // stdout or stderr
	Tail    bool   // only the last lines
}

// Handler answers requests of OpenPAI's clients.
type Handler struct {
	app     App
	people  *people.Directory
	mux     *http.ServeMux
	tickets tickets
	lists   limiter.Limiter // bounds the memory of lists that are made
}

// New makes a handler. version is the program's.
func New(app App, dir *people.Directory, version string) *Handler {
	h := &Handler{app: app, people: dir, mux: http.NewServeMux(),
		lists: limiter.Limiter{All: mostLists, One: userLists, Line: lineLists, Lines: allLists, What: "lists of jobs"}}
	for pattern, r := range h.routes(version) {
		h.mux.HandleFunc(pattern, guarded(h, r))
	}
	return h
}

// Speaks reports whether a path belongs to OpenPAI's or HiveD's API.
func Speaks(path string) bool {
	return strings.HasPrefix(path+"/", Root+"/") || strings.HasPrefix(path+"/", Inspect+"/")
}

// principalKey is the key of the principal in a request's context.
type principalKey struct{}

func principalOf(r *http.Request) *access.Principal {
	p, _ := r.Context().Value(principalKey{}).(*access.Principal)
	return p
}

// Principal returns the principal of a request's token; nil where it has no valid token.
func (h *Handler) Principal(r *http.Request) *access.Principal {
	token := tokenOf(r)
	if token == "" {
		return nil
	}
	p, _ := h.people.Principal(r.Context(), token)
	return p
}

// tokenOf returns a request's bearer token, or "".
func tokenOf(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || len(token) > maxToken {
		return ""
	}
	return token
}

const maxToken = 512 // bytes

// Serve answers a request of a principal; nil is none. Its host, origin and body size must
// have been checked.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, p *access.Principal) {
	at := r.URL.Path
	if len(at) > len(Root) {
		at = strings.TrimSuffix(at, "/") // OpenPAI's clients add a slash to some paths
	}
	if p == nil && !Open(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="comb"`)
		refuse(w, http.StatusUnauthorized, "UnauthorizedUserError", "Sign in first: this needs a valid token.")
		return
	}
	if path.Clean(at) != at || strings.ContainsAny(at, "\x00\\\r\n") || len(at) > 2048 || len(r.URL.RawQuery) > 8192 {
		noRoute(w)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
	to := *r.URL
	to.Path, to.RawPath = at, ""
	r.URL = &to
	if _, pattern := h.mux.Handler(r); pattern == "" {
		noRoute(w)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// Open reports whether a request needs no token.
func Open(r *http.Request) bool {
	at, found := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/"), Prefix)
	return found && (r.Method == http.MethodGet && (at == "/info" || strings.HasPrefix(at, ticketPath)) ||
		r.Method == http.MethodPost && at == "/authn/basic/login")
}

// Refuse answers a request with a problem that was found before routing.
func Refuse(w http.ResponseWriter, p *rest.Problem) { fail(w, p, codes{}) }

func noRoute(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "NoApiError", "There is no such API here; docs/from-openpai.md lists what there is.")
}

// notHere answers for features of OpenPAI that Comb lacks.
func notHere(why string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotImplemented, "NotImplementedError", why)
	}
}

// allowed reports whether a principal may do something in the cluster. If not it answers the
// request.
func (h *Handler) allowed(w http.ResponseWriter, r *http.Request, verb access.Verb) bool {
	err := h.app.May(r.Context(), principalOf(r), verb)
	if err != nil {
		fail(w, err, codes{})
	}
	return err == nil
}

// codes are OpenPAI's codes for what can be wrong with a request.
type codes struct {
	missing  string // what the request names does not exist
	conflict string
	invalid  string // always sent with status 400
}

// fail answers with an error of the app or of the directory.
func fail(w http.ResponseWriter, err error, c codes) {
	status, code, text := faultOf(err, c)
	var p *rest.Problem
	var slow *people.Slow
	switch {
	case errors.As(err, &slow):
		setRetry(w, slow.Seconds())
	case errors.Is(err, people.ErrBusy):
		setRetry(w, 1)
	case errors.As(err, &p) && p.Seconds > 0:
		setRetry(w, p.Seconds)
	}
	refuse(w, status, code, text)
}

func faultOf(err error, c codes) (status int, code, text string) {
	or := func(code string) string {
		if code == "" {
			return "InvalidParametersError"
		}
		return code
	}
	var p *rest.Problem
	var of *people.Problem
	var slow *people.Slow
	switch {
	case errors.As(err, &slow):
		return http.StatusTooManyRequests, "ForbiddenUserError", err.Error()
	case errors.Is(err, people.ErrBusy):
		return http.StatusTooManyRequests, "UnknownError", err.Error()
	case errors.As(err, &of):
		switch of.Kind {
		case people.ErrNotFound:
			return http.StatusNotFound, or(c.missing), of.Error()
		case people.ErrExists, people.ErrLast:
			return http.StatusConflict, or(c.conflict), of.Error()
		}
		return http.StatusBadRequest, or(c.invalid), of.Error()
	case !errors.As(err, &p):
		return http.StatusInternalServerError, "UnknownError", "an error of the server; its log says more"
	}
	switch p.Code {
	case rest.CodeNotFound, rest.CodeGone:
		return http.StatusNotFound, or(c.missing), p.Error()
	case rest.CodeConflict:
		return http.StatusConflict, or(c.conflict), p.Error()
	case rest.CodeForbidden:
		return http.StatusForbidden, "ForbiddenUserError", p.Error()
	case rest.CodeUnauthorized:
		return http.StatusUnauthorized, "UnauthorizedUserError", p.Error()
	case rest.CodeNeverFits:
		return http.StatusForbidden, "NoEnoughQuotaError", p.Error()
	case rest.CodeInvalid:
		if c.invalid == invalidJob && len(p.Errors) == 1 && p.Errors[0].Pointer == "defaults.virtualCluster" {
			return http.StatusBadRequest, "NoVirtualClusterError", p.Error()
		}
		return http.StatusBadRequest, or(c.invalid), p.Error()
	}
	if p.Status < 500 && p.Status != http.StatusTooManyRequests {
		return p.Status, or(c.invalid), p.Error()
	}
	return p.Status, "UnknownError", p.Error()
}
