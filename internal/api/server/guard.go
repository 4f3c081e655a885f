package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server/accounts"
	"github.com/combsched/comb/internal/api/telemetry"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
)

// Limits that hold for all requests and clients.
const (
	maxHeader     = 64 << 10         // bytes of a request's headers
	headerTimeout = 10 * time.Second // from the first byte to the last header
	writeTimeout  = 60 * time.Second // of one answer, or of one frame of a stream
	idleTimeout   = 2 * time.Minute  // between requests of one connection
	maxStreams    = 2000             // event and log streams at one time
	maxOneStreams = 500              // of one user
	maxVisits     = 256              // commands and connections in tasks at one time
	maxOneVisits  = 64               // of one user
)

// ServeHTTP guards every route in one place. What it lets through has a known host and a
// valid token. It fails closed.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	r = s.opts.Proxies.client(r)
	r = r.WithContext(people.WithClientAddress(r.Context(), hostOf(r)))
	connOf(r.Context()).answer()
	setSecurityHeaders(w.Header())
	if r.TLS != nil && !rest.Loopback(r.TLS.ServerName) && onUsualPort(r) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000") // browsers apply it only to host names
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // unless the body is read
	}
	a, p := s.admit(r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	if isMetrics(r) {
		s.serveMetrics(w, r.WithContext(people.With(r.Context(), a)))
		return
	}
	if s.portal.Serves(r) {
		telemetry.Route(r, "portal")
		hurry(w, r)
		s.portal.ServeHTTP(w, r)
		return
	}
	if isHealth(r) {
		telemetry.Route(r, "GET "+rest.Prefix+"/health")
		hurry(w, r)
		writeJSON(w, rest.Health{Status: "ok"})
		return
	}
	r = r.WithContext(people.With(r.Context(), a))
	tellConditions(w.Header(), conditionsFor(s, a))
	if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, rest.Prefix+"/uploads/") {
		s.route(w, r) // its handler reads the body as it comes
		return
	}
	limit := int64(rest.MaxBody)
	if strings.HasPrefix(r.URL.Path, rest.Prefix+"/config") {
		limit = rest.MaxConfigBody
	}
	caller := people.Subject(r.Context())
	if isOpen(r) {
		limit, caller = maxSignIn, model.Subject("address "+people.Network(hostOf(r)))
	}
	free, p := s.bodies.receive(w, r, caller, limit)
	if p != nil {
		refuse(w, r, p)
		return
	}
	defer free()
	w.Header().Del("Connection")
	s.route(w, r)
}

// onUsualPort reports whether a request came to port 443. Only there may the server demand
// TLS for its host: browsers apply the demand to all ports of a name, also to those of other
// services.
func onUsualPort(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.Port == 443
}

// admit returns the asker, or why the request is refused. It does not read the body.
func (s *Server) admit(r *http.Request) (*people.Asker, *rest.Problem) {
	if r.ProtoMajor != 1 { // HTTP/2's first line gets this far, for handlers that know it
		return nil, refusalOf(http.StatusHTTPVersionNotSupported, "")
	}
	if p := s.checkHost(r); p != nil {
		return nil, p
	}
	if isHealth(r) || s.portal.Serves(r) && !isMetrics(r) {
		return nil, nil
	}
	if isOpen(r) {
		return &people.Asker{Principal: &access.Principal{}}, checkRequest(r)
	}
	credential := credentialOf(r, r.TLS != nil || s.opts.Provider.OverTLS())
	principal, p := s.authorizer.Principal(r.Context(), credential)
	if p == nil {
		p = checkRequest(r)
	}
	return &people.Asker{Credential: credential, Principal: principal}, p
}

// isOpen reports whether a request needs no token, since it is a step of signing in.
func isOpen(r *http.Request) bool {
	return slices.Contains(openRoutes, r.Method+" "+strings.TrimPrefix(r.URL.Path, rest.Prefix))
}

// openRoutes need no token. Their rows in requiredRights say so, too.
var openRoutes = []string{"GET /sign-in", "GET /sign-in/provider", "GET /sign-in/callback", "POST /sessions", "POST /sessions:redeem", "POST /setup"}

// maxSignIn bounds the body of a request without a token.
const maxSignIn = 4 << 10

// isHealth reports whether a request is for the health of the server, which needs no token.
func isHealth(r *http.Request) bool {
	return r.URL.Path == rest.Prefix+"/health" && r.Method == http.MethodGet
}

// isMetrics reports whether a request is for Prometheus' metrics.
func isMetrics(r *http.Request) bool {
	return r.URL.Path == "/metrics" && r.Method == http.MethodGet
}

// serveMetrics answers Prometheus, which needs the token of an administrator.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	telemetry.Route(r, "GET /metrics")
	hurry(w, r)
	var p *rest.Problem
	err := s.authorizer.May(r.Context(), access.SeeMetrics, access.Object{}, nil)
	switch {
	case errors.As(err, &p):
		writeProblem(w, p)
	case err != nil:
		writeProblem(w, rest.NewProblem(http.StatusInternalServerError, rest.CodeInternal, "the right to the metrics cannot be looked up: try again"))
	case s.opts.Metrics == nil:
		writeProblem(w, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "this server has no metrics"))
	default:
		s.opts.Metrics.ServeHTTP(w, r)
	}
}

// refuse answers a request without reading its body.
func refuse(w http.ResponseWriter, r *http.Request, p *rest.Problem) {
	hurry(w, r)
	writeProblem(w, p)
}

// maxIgnored is how much of a refused request's body is read so that the client gets the answer.
const maxIgnored = 256 << 10 // bytes, net/http's own measure

// hurry ends the wait for a body that is still being sent. Where the client wants the connection
// closed it reads the body: net/http then reads none of it, and the reset that follows would
// take the answer from a client that still writes.
func hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTime))
	if r.Close && r.Header.Get("Expect") == "" { // one that waits for a word sends nothing yet
		_, _ = io.CopyN(io.Discard, r.Body, maxIgnored)
	}
}

// route passes the request to its handler. What the router itself would answer (no such path,
// wrong method) becomes a problem too.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		telemetry.Route(r, pattern)
		if lane := s.lanes.Of(r, pattern); lane != nil {
			serveInTurn(s, lane, w, r)
			return
		}
		s.mux.ServeHTTP(w, r)
		return
	}
	probe := &statusProbe{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allow := probe.header.Get("Allow")
		w.Header().Set("Allow", allow)
		writeProblem(w, rest.NewProblem(probe.status, rest.CodeMethod,
			fmt.Sprintf("%s is not possible here; possible: %s", r.Method, allow)))
		return
	}
	writeProblem(w, rest.NewProblem(http.StatusNotFound, rest.CodeNotFound,
		"no such path; see docs/rest.md for the paths of "+rest.Prefix))
}

// serveInTurn passes a request to its handler at its user's turn. The turn ends with the
// first byte of the answer, so no user waits for a client that reads slowly.
func serveInTurn(s *Server, lane *limiter.Limiter, w http.ResponseWriter, r *http.Request) {
	if after := askedSeq(r); after > 0 { // waiting for an event takes no turn
		if err := s.read(r.Context(), after, func(*core.State) {}); err != nil {
			writeProblem(w, problemOf(err))
			return
		}
	}
	leave, err := awaitTurn(r.Context(), lane, people.Subject(r.Context()))
	if err != nil {
		writeProblem(w, problemOf(s.fail(err)))
		return
	}
	defer leave()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	s.mux.ServeHTTP(&turnWriter{ResponseWriter: w, Leave: leave}, r)
}

// statusProbe receives the router's own answer to learn its status.
type statusProbe struct {
	header http.Header
	status int
}

func (p *statusProbe) Header() http.Header         { return p.header }
func (p *statusProbe) WriteHeader(status int)      { p.status = status }
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }

// recover turns a panic into a 500 with a number under which the log explains it.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v) // the standard way to cut a connection
	}
	id := rest.NewKey()[:8]
	s.log.Error("a request panicked", "id", id, "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	writeProblem(w, rest.NewProblem(http.StatusInternalServerError, rest.CodeInternal,
		"an error of the server; its log names it under id "+id))
}

func setSecurityHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// checkHost refuses a request for another host name than this server's: a page that rebinds
// its own name to this address must not reach the API.
func (s *Server) checkHost(r *http.Request) *rest.Problem {
	host := r.Host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return wrongHost() // 127.0.0.1:8420.evil.example is a name of another host
		}
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || s.anyHost) {
		return nil
	}
	if host == "localhost" || slices.Contains(s.hosts, host) || s.opts.Certified != nil && s.opts.Certified(host) {
		return nil
	}
	return wrongHost()
}

func wrongHost() *rest.Problem {
	return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden,
		"this server does not answer to that host name; use its address, or start it with --host NAME")
}

// checkOrigin refuses what a browser sends for a page of another site. Browsers tell from
// where the page is, or send null; other clients send nothing.
func checkOrigin(r *http.Request) *rest.Problem {
	site := r.Header.Get("Sec-Fetch-Site")
	ok := site == "" || site == "none" || site == "same-origin"
	for _, origin := range r.Header.Values("Origin") {
		host, found := strings.CutPrefix(origin, "http://")
		if !found {
			host, found = strings.CutPrefix(origin, "https://")
		}
		ok = ok && found && strings.EqualFold(host, r.Host)
	}
	if ok {
		return nil
	}
	return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "requests from other web sites are refused")
}

// fromElsewhere reports whether another site may send a browser with a request. The provider
// does with its answer, and another name of this server with a sign-in that a page began. A
// sign-in for a command begins only with its user.
func fromElsewhere(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == oidc.CallbackPath || r.URL.Path == rest.Prefix+accounts.ProviderPath && !r.URL.Query().Has("port"))
}

// credentialOf returns the token of a request: its bearer token, else that of its cookie.
// Over TLS it is the cookie that no other host can set.
func credentialOf(r *http.Request, overTLS bool) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "Bearer") {
		return token
	}
	c, err := r.Cookie(accounts.SecureCookie)
	if err != nil && !overTLS {
		c, err = r.Cookie(accounts.PlainCookie)
	}
	if err != nil {
		return ""
	}
	return c.Value
}

// checkRight checks the right of a route before its handler is called. Handlers of routes
// about a job check it themselves, once they know the job.
func (s *Server) checkRight(c huma.Context, next func(huma.Context)) {
	n, ok := requiredRights[c.Operation().OperationID]
	if n.open {
		next(c)
		return
	}
	_, w := humago.Unwrap(c)
	if !ok {
		writeProblem(w, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "this route has no rights yet"))
		return
	}
	people.Of(c.Context()).Verb = n.verb
	if !n.job {
		if err := s.authorizer.May(c.Context(), n.verb, access.Object{}, nil); err != nil {
			writeProblem(w, problemOf(s.fail(err)))
			return
		}
	}
	next(c)
}

// checkRequest refuses what no honest client sends.
func checkRequest(r *http.Request) *rest.Problem {
	p := r.URL.Path
	if len(p) > 2048 || len(r.URL.RawQuery) > 8192 {
		return rest.NewProblem(http.StatusRequestURITooLong, rest.CodeInvalid, "the address is too long")
	}
	if p == "" || p[0] != '/' || path.Clean(p) != p || strings.ContainsAny(p, "\x00\\\r\n") {
		return rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, "no such path")
	}
	if p := checkOrigin(r); p != nil && !fromElsewhere(r) {
		return p
	}
	if key := r.Header.Get(rest.HeaderIdempotency); !validKey(key) {
		return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid,
			fmt.Sprintf("%s: want 1 to %d printable characters without spaces", rest.HeaderIdempotency, rest.MaxIdempotencyKey))
	}
	return nil
}

func validKey(key string) bool {
	return len(key) <= rest.MaxIdempotencyKey && strings.IndexFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// openStream counts one more stream of the asker, or refuses it. The caller must call the
// result when the stream ends.
func (s *Server) openStream(ctx context.Context) (func(), *rest.Problem) {
	leave, refusal := s.streams.Take(string(people.Subject(ctx)))
	if refusal != "" {
		return nil, busy(5, refusal)
	}
	return leave, nil
}

// writeProblem answers with a problem.
func writeProblem(w http.ResponseWriter, p *rest.Problem) {
	h := w.Header()
	h.Set("Content-Type", rest.ProblemType)
	h.Del("ETag")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="comb"`)
	}
	if p.Seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(p.Seconds))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
