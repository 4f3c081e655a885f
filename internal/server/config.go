package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/config"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/server/warden"
)

func (s *Server) registerConfig(api huma.API) {
	op := func(id, method, path, summary string) huma.Operation {
		return operation(api, huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary,
			Tags: []string{"config"}})
	}
	huma.Register(api, op("get-config", http.MethodGet, "/config", "The present configuration with its tag"), s.getConfig)
	huma.Register(api, op("get-config-file", http.MethodGet, "/config/file", "The cluster file that the present configuration was made of"), s.getConfigFile)
	huma.Register(api, op("apply-config", http.MethodPut, "/config",
		"Replace the configuration by a cluster file; what still fits runs on"), s.applyConfig)
	huma.Register(api, op("validate-config", http.MethodPost, "/config:validate",
		"Check a cluster file and say what it would do"), s.validateConfig)
	huma.Register(api, op("plan-config", http.MethodPost, "/config:plan",
		"Every effect that a cluster file would have on cells, nodes, virtual clusters and jobs"), s.planConfig)
}

type configAnswer struct {
	ETag string `header:"ETag"`
	Body rest.ClusterConfig
}

// ETag names a configuration by its content.
func ETag(c *sched.Config) (string, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:16]) + `"`, nil
}

func (s *Server) getConfig(ctx context.Context, in *struct{ AfterSeq }) (*configAnswer, error) {
	c, tag, err := s.present(ctx, in.after())
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, notFound("there is no configuration yet; see comb config apply")
	}
	return &configAnswer{ETag: tag, Body: rest.ClusterConfig{Config: c, ETag: tag}}, nil
}

// configFile is the answer of get-config-file.
type configFile struct {
	ContentType string `header:"Content-Type"`
	ETag        string `header:"ETag"`
	Body        []byte
}

func (s *Server) getConfigFile(ctx context.Context, in *struct{ AfterSeq }) (*configFile, error) {
	_, tag, err := s.present(ctx, in.after())
	if err != nil {
		return nil, err
	}
	file, found, err := s.store.ClusterFile(tag)
	if err != nil {
		return nil, s.fail(err)
	}
	if !found {
		return nil, notFound("no cluster file is kept of the present configuration, which was not made of one; comb config show shows what it says")
	}
	return &configFile{ContentType: "application/yaml; charset=utf-8", ETag: tag, Body: file}, nil
}

// keepFile keeps the cluster file of the present configuration. The configuration
// is in force whether that succeeds or not.
func (s *Server) keepFile(ctx context.Context, seq uint64, file []byte) {
	_, tag, err := s.present(ctx, seq)
	if err == nil {
		err = s.store.KeepClusterFile(tag, file)
	}
	if err != nil {
		s.log.Warn("config show -o file will not give the applied file back", "error", err)
	}
}

// present returns the configuration and its tag; nil before the first.
func (s *Server) present(ctx context.Context, after uint64) (*sched.Config, string, error) {
	var c *sched.Config
	if err := s.read(ctx, after, func(st *sched.State) { c = st.Config() }); err != nil {
		return nil, "", err
	}
	tag, err := ETag(c)
	if err != nil {
		return nil, "", s.fail(err)
	}
	return c, tag, nil
}

type configInput struct {
	Meta
	IfMatch string `header:"If-Match" maxLength:"200" doc:"The tag of the configuration that is replaced; * replaces any"`
	RawBody []byte `contentType:"application/yaml"`
}

func (s *Server) applyConfig(ctx context.Context, in *configInput) (*body[rest.Done], error) {
	w, err := in.writeOf(ctx, "config", in.RawBody)
	if err != nil {
		return nil, s.fail(err)
	}
	reply, err := s.once(ctx, w, func() (engine.Reply, error) { return s.applyNew(ctx, w, in) })
	if err != nil {
		return nil, err
	}
	out := doneOf(reply)
	if _, warnings, err := s.parseConfig(in.RawBody); err == nil { // for a repeated request, too
		out.Body.Warnings = warnings
	}
	return out, nil
}

// applyNew applies a cluster file for the first time.
func (s *Server) applyNew(ctx context.Context, w write, in *configInput) (engine.Reply, error) {
	c, _, err := s.parseConfig(in.RawBody)
	if err != nil {
		return engine.Reply{}, err
	}
	if in.IfMatch == "" {
		return engine.Reply{}, rest.NewProblem(http.StatusPreconditionRequired, rest.CodePreconditionReq,
			"If-Match is needed: the tag that GET /config gave, so that no change is lost; * replaces any")
	}
	s.configMu.Lock()
	defer s.configMu.Unlock()
	if p := s.checkTag(ctx, in.IfMatch); p != nil {
		return engine.Reply{}, p
	}
	reply, err := s.do(ctx, w, engine.Input{Command: c.Command(w.meta)})
	if err == nil {
		s.keepFile(ctx, reply.Seq, in.RawBody)
	}
	return reply, err
}

// checkTag compares If-Match with the present configuration.
func (s *Server) checkTag(ctx context.Context, match string) error {
	if strings.TrimSpace(match) == "*" {
		return nil
	}
	_, tag, err := s.present(ctx, 0)
	if err != nil {
		return err
	}
	for one := range strings.SplitSeq(match, ",") {
		if strings.TrimSpace(one) == tag {
			return nil
		}
	}
	return rest.NewProblem(http.StatusPreconditionFailed, rest.CodePrecondition,
		"the configuration has changed since it was read; read it again and decide anew")
}

type validateConfigInput struct {
	RawBody []byte `contentType:"application/yaml"`
}

func (s *Server) validateConfig(ctx context.Context, in *validateConfigInput) (*body[rest.ConfigChecked], error) {
	c, planned, err := s.plan(ctx, in.RawBody)
	if err != nil {
		return nil, err
	}
	return answer(rest.ConfigChecked{Config: c.Config, Changed: planned.Changed, Effects: planned.Effects, Warnings: planned.Warnings}), nil
}

func (s *Server) planConfig(ctx context.Context, in *validateConfigInput) (*body[rest.ConfigPlanned], error) {
	_, planned, err := s.plan(ctx, in.RawBody)
	if err != nil {
		return nil, err
	}
	return answer(*planned), nil
}

// plan holds a cluster file against the present state, on a copy and one file at a time:
// a small file may describe a million devices, and nobody waits for it but the next file.
func (s *Server) plan(ctx context.Context, src []byte) (*config.Cluster, *rest.ConfigPlanned, error) {
	select {
	case s.planning <- struct{}{}:
		defer func() { <-s.planning }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	c, warnings, err := s.parseConfig(src)
	if err != nil {
		return nil, nil, err
	}
	_, tag, err := s.present(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	out := &rest.ConfigPlanned{Warnings: warnings, ETag: tag}
	var copied *sched.State
	if err := s.read(ctx, 0, func(st *sched.State) { copied = st.At(s.opts.Now()) }); err != nil {
		return nil, nil, err
	}
	p, refusal := copied.PlanConfig(c.Command(sched.Meta{Subject: warden.Subject(ctx)}))
	if refusal != nil {
		return nil, nil, refusalProblem(refusal)
	}
	out.ConfigPlan = *p
	return c, out, nil
}

// parseConfig reads a cluster file and holds it to this installation.
func (s *Server) parseConfig(src []byte) (*config.Cluster, []string, error) {
	cluster, notes, problems := config.Parse("", src, s.opts.Policies)
	var warnings []string
	for _, n := range notes {
		warnings = append(warnings, n.String())
	}
	var bad *rest.Problem
	if len(problems) > 0 {
		bad = documentProblem("the cluster file cannot be used", problems)
	} else if s.opts.CheckCluster != nil {
		if err := s.opts.CheckCluster(cluster.Config); err != nil {
			bad = rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, err.Error())
		}
	}
	if bad != nil {
		bad.Warnings = warnings
		return nil, nil, bad
	}
	return cluster, warnings, nil
}
