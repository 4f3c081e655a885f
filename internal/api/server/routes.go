package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/portal"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server/accounts"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

func build(o Options) (*Server, huma.API) {
	s := &Server{
		mux: http.NewServeMux(), live: o.Live, replica: o.Replica, store: o.Store, logs: o.Logs,
		opts: o, anyHost: o.AnyAddress, log: o.Log, closing: make(chan struct{}),
		lanes: newReadLimits(), slow: cmp.Or(o.SlowReader, slowReader), making: make(chan struct{}, makers),
		streams:  limiter.Limiter{All: maxStreams, One: maxOneStreams, What: "streams"},
		wakeEnds: make(chan struct{}, 1), bodies: bodies{slow: map[model.Subject]int{}}, portal: portal.New(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.authorizer = &people.Authorizer{People: o.People, Log: s.log,
		Read: func(ctx context.Context, f func(*core.State)) error { return s.read(ctx, 0, f) },
		Past: func(ctx context.Context, id model.JobID) (model.JobStatus, bool, error) { return s.store.Job(ctx, id) }}
	if o.People != nil {
		o.People.OverBound = s.authorizer.CountLine
	}
	for _, h := range o.Hosts {
		s.hosts = append(s.hosts, strings.ToLower(h))
	}
	if o.Provider != nil {
		s.hosts = append(s.hosts, o.Provider.Host()) // browsers are sent back to it
	}
	api := humago.New(s.mux, apiConfig())
	api.UseMiddleware(s.checkRight)
	s.registerInfo(api)
	s.registerJobs(api)
	s.registerTasks(api)
	registerVisits(s, api)
	s.registerCluster(api)
	s.registerConfig(api)
	s.registerEvents(api)
	images{s, o.ImageStore}.register(api)
	accounts.Register(api, accounts.Deps{Directory: o.People, Authorizer: s.authorizer, Fail: s.fail, Provider: o.Provider, Log: s.log,
		Operation: func(o huma.Operation) huma.Operation { return operation(api, o) }})
	registerUploads(s, api)
	return s, api
}

func (s *Server) registerInfo(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-info", Method: http.MethodGet, Path: "/info", Summary: "Who answers", Tags: []string{"server"},
	}), func(ctx context.Context, in *struct{ AfterSeq }) (*body[rest.Info], error) {
		info := rest.Info{Name: "comb", Version: s.opts.Version, APIVersion: rest.Version,
			Decisions: model.Version, Cluster: s.opts.Cluster, Conditions: conditionsFor(s, people.Of(ctx))}
		err := s.read(ctx, in.after(), func(st *core.State) { info.Seq = st.Seq() })
		if err != nil {
			return nil, err
		}
		return answer(info), nil
	})
	// The guard answers this route before it checks the token. It is registered here for its
	// description, and so that wrong methods are refused.
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

// OpenAPI returns the API's description (OpenAPI 3.1, YAML). It needs only the routes, and
// nothing that runs.
func OpenAPI() ([]byte, error) {
	_, api := build(Options{Version: rest.Version})
	return api.OpenAPI().YAML()
}

// New makes a server from its parts.
func New(o Options) *Server {
	s, _ := build(o)
	return s
}
