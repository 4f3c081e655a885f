// Package server answers the REST API: it turns requests into commands for the
// engine's loop and reads from the replica and the store, authenticates, and
// streams events and logs. It must not decide anything, must not change state
// other than by commands, and must not know which executor runs the tasks.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/authorizer"
	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/portal"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server/accounts"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/spec/config"
	"github.com/combsched/comb/internal/spec/jobspec"
	"github.com/combsched/comb/internal/spec/upload"
)

const (
	commandWait = 30 * time.Second // for a command's outcome to be durable
	readWait    = 10 * time.Second // for a read to see the event it asks for
)

// Options are the parts of a server.
type Options struct {
	Live    *engine.Live
	Replica *engine.Replica
	Store   Store
	People  *people.Directory
	// Provider lets an identity provider say who signs in; nil is passwords alone.
	Provider *oidc.Provider
	Logs     Logs
	Entry    Entry // nil: tasks let no one in
	// Policies are those that a cluster file may name.
	Policies config.Policies
	// CheckCluster, when set, refuses a cluster that this installation cannot
	// carry, such as one larger than the machine.
	CheckCluster func(*model.Config) error
	// Configured, when set, is called when a cluster file is in force that a user applied.
	Configured func()
	// SameFolder says why a task cannot run in the folder that a caller on this
	// machine means; nil where tasks do not run on this machine.
	SameFolder func(rest.Folder) error
	// Checkpoints says where a job's tasks save their work; nil where that is no folder of this
	// machine.
	Checkpoints func(model.JobID) string
	TrustUsers  bool             // jobs of several users may run as processes
	Images      jobspec.ImageUse // what becomes of an image that a job names
	ImageStore  executor.Images  // the images of the machine; nil is none
	Uploads     *upload.Depot    // nil takes none
	Runtime     string           // what runs tasks, in words
	Version     string
	Cluster     string // the data directory's id
	// Hosts are the names, beside loopback, under which clients may call;
	// AnyAddress also allows any literal IP address, for a public listener.
	Hosts      []string
	AnyAddress bool
	// Proxies say in X-Forwarded-For from where a request comes.
	Proxies Proxies
	// Certified reports whether the server's certificate is for a host: clients may call it by
	// that, too. nil is without TLS.
	Certified func(host string) bool
	Now       func() model.Time
	// SlowReader is how long a reader of events may take for one piece before its stream ends; 0 is
	// 20 s.
	SlowReader time.Duration
	Log        *slog.Logger
	// Metrics answers Prometheus at /metrics, once the asker's right is known; nil: there are none.
	Metrics http.Handler
	Tags    Tags
	Ends    Ends
	Meter   Meter // nil: nothing is measured
}

// Server is the REST API as one http.Handler.
type Server struct {
	mux      *http.ServeMux
	live     *engine.Live
	replica  *engine.Replica
	store    Store
	logs     Logs
	opts     Options
	hosts    []string
	anyHost  bool
	log      *slog.Logger
	streams  limiter.Limiter // open streams of events, logs and builds
	frames   encodedEvents
	slow     time.Duration // that a piece of a stream may take
	making   chan struct{} // holds a token for each piece of a stream that is being made
	large    budget
	bodies   bodies
	closing  chan struct{} // closed by Close: streams end
	closed   sync.Once
	telling  sync.Map // callers to whom the history of a job is being told
	lanes    *readLimits
	foreseen estimateCache
	ahead    expiryAhead
	spares   sync.Pool // of *core.Spare, the memory of these
	warden   *authorizer.Authorizer
	portal   *portal.Portal
	lent     chan struct{} // wakes EndLoans
	configMu sync.Mutex    // one change of the configuration at a time: If-Match is checked under it
}

// New makes the server of its parts.
func New(o Options) *Server {
	s, _ := build(o)
	return s
}

// OpenAPI returns the API's description (OpenAPI 3.1, YAML). It needs no running
// parts: the routes alone make it.
func OpenAPI() ([]byte, error) {
	_, api := build(Options{Version: rest.Version})
	return api.OpenAPI().YAML()
}

func build(o Options) (*Server, huma.API) {
	s := &Server{
		mux: http.NewServeMux(), live: o.Live, replica: o.Replica, store: o.Store, logs: o.Logs,
		opts: o, anyHost: o.AnyAddress, log: o.Log, closing: make(chan struct{}),
		lanes: newReadLimits(), slow: cmp.Or(o.SlowReader, slowReader), making: make(chan struct{}, makers),
		streams: limiter.Limiter{All: maxStreams, One: maxOneStreams, What: "streams"},
		lent:    make(chan struct{}, 1), bodies: bodies{slow: map[model.Subject]int{}}, portal: portal.New(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.warden = &authorizer.Authorizer{People: o.People, Log: s.log,
		Read: func(ctx context.Context, f func(*core.State)) error { return s.read(ctx, 0, f) },
		Past: func(ctx context.Context, id model.JobID) (model.JobStatus, bool, error) { return s.store.Job(ctx, id) }}
	if o.People != nil {
		o.People.Crowded = s.warden.Crowd
	}
	for _, h := range o.Hosts {
		s.hosts = append(s.hosts, strings.ToLower(h))
	}
	if o.Provider != nil {
		s.hosts = append(s.hosts, o.Provider.Host()) // browsers are sent back to it
	}
	api := humago.New(s.mux, apiConfig())
	api.UseMiddleware(s.checkNeed)
	s.registerInfo(api)
	s.registerJobs(api)
	s.registerTasks(api)
	registerVisits(s, api)
	s.registerCluster(api)
	s.registerConfig(api)
	s.registerEvents(api)
	images{s, o.ImageStore}.register(api)
	accounts.Register(api, accounts.House{Directory: o.People, Warden: s.warden, Fail: s.fail, Provider: o.Provider, Log: s.log,
		Operation: func(o huma.Operation) huma.Operation { return operation(api, o) }})
	registerUploads(s, api)
	return s, api
}

// apiConfig describes the API. The library's own routes for pages and schemas stay off: the
// description is one file, the same as docs/openapi.yaml, and needs a token like all else.
func apiConfig() huma.Config {
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Comb", Version: rest.Version,
				Description: "Shares a GPU cluster between teams with guarantees. Errors are application/problem+json."},
			Components: &huma.Components{
				Schemas:   huma.NewMapRegistry("#/components/schemas/", schemaName),
				Responses: map[string]*huma.Response{},
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "The content of admin-token in the server's data directory"},
				},
			},
			Security: []map[string][]string{{"token": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{problemTransform},
	}
	return c
}

// jsonFormat is the router's own, and refuses what its decoder would change.
var jsonFormat = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: func(src []byte, v any) error {
	if at, detail := rest.CheckJSON(src); detail != "" {
		return fmt.Errorf("at byte %d of the body: %s", at+1, detail)
	}
	return json.Unmarshal(src, v)
}}

// schemaName names a type in the description; the core's types are told apart
// from the API's own of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "model", "sched":
		if t == reflect.TypeFor[model.Limits]() || t == reflect.TypeFor[model.Storage]() {
			return name // the API has none of its own
		}
		return "Core" + name
	case "cell":
		return "Topology" + name
	}
	return name
}

// Close ends all streams, so that the listener can be shut down. Requests that
// are under way are still answered.
func (s *Server) Close() {
	s.closed.Do(func() {
		close(s.closing)
		s.warden.Flush()
	})
}

// Streams is how many streams are open.
func (s *Server) Streams() int { return s.streams.Taken() }

// HTTP returns the server for a listener, with every timeout and limit set.
func (s *Server) HTTP() *http.Server {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withConn,
		ConnState:         connState,
		// OPTIONS * is a request like any other, and needs a token.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	h.RegisterOnShutdown(s.Close)
	return h
}

// Listen opens the listener. An address that other machines reach is refused unless public: there
// is TLS, or the operator wants it without.
func Listen(ctx context.Context, at string, public bool) (net.Listener, error) {
	if err := rest.CheckAddress(ctx, at, public); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	for until := time.Now().Add(listenWithin); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", at, rootOf(err))
	}
	return listener{l}, nil
}

// listenWithin is how long an address may still be in use. A server that was killed at the instant
// when it started a supervisor leaves its socket to that child until the child has become the
// other program: the socket closes on exec, but not on fork, and no flag does that.
const listenWithin = time.Second

func rootOf(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// AfterSeq is in the input of every read: what the client has written before
// must be visible. The larger of header and query counts.
type AfterSeq struct {
	Header uint64 `header:"Comb-After-Seq" doc:"Wait until this event is visible"`
	Query  uint64 `query:"after_seq" doc:"The same as the header Comb-After-Seq"`
}

func (a AfterSeq) after() uint64 { return max(a.Header, a.Query) }

// Meta is in the input of every write.
type Meta struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"The same key of the same subject has one effect"`
}

func (m Meta) of(ctx context.Context) model.Meta {
	return model.Meta{Subject: authorizer.Subject(ctx), Key: m.Key}
}

// body wraps an answer for the router.
type body[T any] struct{ Body T }

func answer[T any](v T) *body[T] { return &body[T]{Body: v} }

func (s *Server) registerInfo(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-info", Method: http.MethodGet, Path: "/info", Summary: "Who answers", Tags: []string{"server"},
	}), func(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.Info], error) {
		info := rest.Info{Name: "comb", Version: s.opts.Version, APIVersion: rest.Version,
			Decisions: model.Version, Cluster: s.opts.Cluster}
		err := s.read(ctx, in.after(), func(st *core.State) { info.Seq = st.Seq() })
		if err != nil {
			return nil, err
		}
		return answer(info), nil
	})
	// The guard answers this route before it asks for a token; it is registered
	// so that it is described and so that wrong methods are refused.
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-health", Method: http.MethodGet, Path: "/health", Summary: "Whether the server lives",
		Tags: []string{"server"}, Security: []map[string][]string{},
	}), func(context.Context, *struct{}) (*body[rest.Health], error) {
		return answer(rest.Health{Status: "ok"}), nil
	})
	description := sync.OnceValues(func() ([]byte, error) { return api.OpenAPI().YAML() })
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-openapi", Method: http.MethodGet, Path: "/openapi.yaml", Summary: "This description", Tags: []string{"server"},
		Responses: map[string]*huma.Response{"200": {
			Description: "OpenAPI 3.1", Content: map[string]*huma.MediaType{"application/yaml": {Schema: &huma.Schema{Type: "string"}}},
		}},
	}), func(context.Context, *struct{}) (*rawAnswer, error) {
		text, err := description()
		if err != nil {
			return nil, s.fail(err)
		}
		return &rawAnswer{ContentType: "application/yaml; charset=utf-8", Body: text}, nil
	})
}

// checkName refuses what cannot be a name before anything looks for it.
func checkName(kind, name string) error {
	if !rest.ValidName(name) {
		return notFound("no such %s: a name has 1 to 255 letters, digits and ._~-", kind)
	}
	return nil
}

// sortedNames sorts and removes repeats.
func sortedNames(names []rest.NamedJob) []rest.NamedJob {
	slices.SortFunc(names, func(a, b rest.NamedJob) int { return int(a.ID - b.ID) })
	return slices.CompactFunc(names, func(a, b rest.NamedJob) bool { return a.ID == b.ID })
}
