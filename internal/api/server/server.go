// Package server answers the REST API. It turns requests into commands for the engine's loop,
// reads from the replica and the store, authenticates, and streams events and logs. It must
// not decide anything, must not change state other than by commands, and must not know which
// executor runs the tasks.
package server

import (
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
	"sync"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/portal"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/limiter"
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
	Live    *engine.LiveInputs
	Replica *engine.Replica
	Store   Store
	People  *people.Directory
	// Provider is the identity provider of sign-ins; nil is sign-in by password only.
	Provider *oidc.Provider
	Logs     Logs  // may be an executor.HasConditions
	Entry    Entry // nil where users cannot enter tasks
	// Policies are the policies that a cluster file may name.
	Policies config.Policies
	// CheckCluster, when set, refuses a cluster that this installation cannot run, such as
	// one larger than the machine. It warns of what is doubtful in one that it does not refuse.
	CheckCluster func(*model.Config) (warnings []string, err error)
	// Configured, when set, is called when a cluster file of a user has come into force.
	Configured func()
	// SameFolder says why a task cannot run in the folder that a caller on this machine
	// means. It is nil where tasks do not run on this machine.
	SameFolder func(rest.Folder) error
	// Checkpoints returns the folder in which a job's tasks save their work. It is nil where
	// that is not on this machine.
	Checkpoints func(model.JobID) string
	TrustUsers  bool             // jobs of several users may run as plain processes
	Images      jobspec.ImageUse // what becomes of an image that a job names
	ImageStore  executor.Images  // the images of the machine; nil is none
	Uploads     *upload.Depot    // nil accepts none
	Runtime     string           // description of what runs tasks
	Version     string
	Cluster     string // the data directory's id
	// Hosts are the names, beside loopback, under which clients may call. AnyAddress also
	// allows any literal IP address, for a public listener.
	Hosts      []string
	AnyAddress bool
	// Proxies are trusted to name a request's client in X-Forwarded-For.
	Proxies Proxies
	// Certified reports whether the server's certificate is valid for a host, by which
	// clients may then call it. nil is without TLS.
	Certified func(host string) bool
	Now       func() model.Time
	// SlowReader is how long a reader of events may take for one piece before its stream
	// ends; 0 is 20 s.
	SlowReader time.Duration
	Log        *slog.Logger
	// Metrics answers Prometheus at /metrics, once the asker's right is checked; nil is no
	// metrics.
	Metrics http.Handler
	Tags    Tags
	Ends    Ends
	Meter   Meter // nil measures nothing
}

// Server is the REST API as one http.Handler.
type Server struct {
	mux        *http.ServeMux
	live       *engine.LiveInputs
	replica    *engine.Replica
	store      Store
	logs       Logs
	opts       Options
	hosts      []string
	anyHost    bool
	log        *slog.Logger
	streams    limiter.Limiter // open streams of events, logs and builds
	frames     frameCache
	slow       time.Duration // how long a piece of a stream may take
	making     chan struct{} // holds a token for each piece of a stream that is being made
	large      budget
	bodies     bodies
	closing    chan struct{} // closed by Close: streams end
	closed     sync.Once
	telling    sync.Map // callers for which the history of a job is being read
	lanes      *readLimits
	foreseen   estimateCache
	ahead      expiryAhead
	spares     sync.Pool // of *core.CopyMemory, the memory of state copies
	authorizer *people.Authorizer
	portal     *portal.Portal
	wakeEnds   chan struct{} // wakes EndTemporaryConfigs
	configMu   sync.Mutex    // held during a change of the configuration and its check of If-Match
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

// jsonFormat is the router's own format, but refuses what its decoder would change.
var jsonFormat = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: func(src []byte, v any) error {
	if at, detail := rest.CheckJSON(src); detail != "" {
		return fmt.Errorf("at byte %d of the body: %s", at+1, detail)
	}
	return json.Unmarshal(src, v)
}}

// schemaName names a type in the description. Types of the core get a prefix where the API
// has a type of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "model", "sched":
		if t == reflect.TypeFor[model.Limits]() || t == reflect.TypeFor[model.Storage]() {
			return name // the API has no type of this name
		}
		return "Core" + name
	case "cell":
		return "Topology" + name
	}
	return name
}

// Close ends all streams, so that the listener can be shut down. Requests in progress are
// still answered.
func (s *Server) Close() {
	s.closed.Do(func() {
		close(s.closing)
		s.authorizer.Flush()
	})
}

// Streams is the number of open streams.
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

// Listen opens the listener. An address that other machines can reach is refused unless
// public is set: there is TLS, or the operator accepts its absence.
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

// listenWithin is how long to retry while an address is in use. A server that was killed just
// as it started a supervisor leaves its socket to that child until the child executes the
// other program: the socket closes on exec, but not on fork, and no flag changes that.
const listenWithin = time.Second

func rootOf(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// AfterSeq is in the input of every read: what the client has written before must be visible.
// The larger of header and query counts.
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
	return model.Meta{Subject: people.Subject(ctx), Key: m.Key}
}

// body wraps an answer for the router.
type body[T any] struct{ Body T }

func answer[T any](v T) *body[T] { return &body[T]{Body: v} }

// checkName refuses an invalid name before anything looks for it.
func checkName(kind, name string) error {
	if !rest.ValidName(name) {
		return notFound("no such %s: a name has 1 to 255 letters, digits and ._~-", kind)
	}
	return nil
}

// sortedNames sorts names and removes duplicates.
func sortedNames(names []rest.NamedJob) []rest.NamedJob {
	slices.SortFunc(names, func(a, b rest.NamedJob) int { return int(a.ID - b.ID) })
	return slices.CompactFunc(names, func(a, b rest.NamedJob) bool { return a.ID == b.ID })
}

// Logs is the part of an executor.Executor that reads logs.
type Logs interface {
	OpenLog(ref executor.LogRef, from int64) (executor.Log, error)
}

// Entry is the part of an executor.Executor that lets users into their tasks.
type Entry interface {
	Exec(ctx context.Context, ref executor.TaskRef, c executor.Command) (*executor.Session, error)
	Dial(ctx context.Context, ref executor.TaskRef, port uint16) (net.Conn, error)
}

// budget counts the bytes of large pieces. Streams that must wait for room get it in order.
type budget struct {
	mu    sync.Mutex
	used  int
	queue []*turn
}

// turn is a place in the queue. n bytes are its own when ready is closed.
type turn struct {
	n     int
	ready chan struct{}
}
