package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server/accounts"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/spec/config"
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
	v := versions{s}
	huma.Register(api, op("list-config-versions", http.MethodGet, "/config/versions", "The versions of the cluster file, the latest first"), v.list)
	huma.Register(api, op("get-config-version-file", http.MethodGet, "/config/versions/{version}/file", "The cluster file of a version"), v.file)
}

type configAnswer struct {
	ETag string `header:"ETag"`
	Body rest.ClusterConfig
}

// ETag names a configuration by a hash of its content.
func ETag(c *model.Config) (string, error) {
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
	lent, err := temporaryConfigs{s}.active(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	return &configAnswer{ETag: tag, Body: rest.ClusterConfig{Config: c, ETag: tag, Until: lent.Until, Back: lent.Back}}, nil
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
	v, err := versions{s}.present(ctx, tag)
	if err != nil {
		return nil, s.fail(err)
	}
	if v.Bytes == 0 {
		return nil, notFound("no cluster file is kept of the present configuration, which was not made of one; comb config show shows what it says")
	}
	_, file, _, err := s.store.ConfigFile(ctx, v.Version)
	if err != nil {
		return nil, s.fail(err)
	}
	return &configFile{ContentType: "application/yaml; charset=utf-8", ETag: tag, Body: file}, nil
}

// present returns the configuration and its tag; nil before the first one.
func (s *Server) present(ctx context.Context, after uint64) (*model.Config, string, error) {
	var c *model.Config
	if err := s.read(ctx, after, func(st *core.State) { c = st.Config() }); err != nil {
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
	Changed
	Until   string `query:"until" maxLength:"40" doc:"The server goes back by itself at that time: RFC 3339, or a duration such as 7d. Without it an end of the present configuration is dropped"`
	RawBody []byte `contentType:"application/yaml"`
}

func (s *Server) applyConfig(ctx context.Context, in *configInput) (*body[rest.Done], error) {
	said := []any{in.RawBody}
	if in.Until != "" {
		said = append(said, in.Until)
	}
	w, err := in.writeOf(ctx, "config", said...)
	if err != nil {
		return nil, s.fail(err)
	}
	var ends []string
	reply, err := s.doOnce(ctx, w, func() (r engine.Reply, err error) {
		r, ends, err = s.applyNew(ctx, w, in)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	out := doneOf(reply)
	out.Body.Effects = append(slices.Clip(out.Body.Effects), ends...)
	if _, warnings, err := s.parseConfig(in.RawBody); err == nil { // for a repeated request, too
		out.Body.Warnings = append(warnings, reply.Answer.Warnings...)
	}
	return out, nil
}

// applyNew applies a cluster file for the first time. It also returns sentences about what
// becomes of the ends of configurations.
func (s *Server) applyNew(ctx context.Context, w write, in *configInput) (engine.Reply, []string, error) {
	c, _, err := s.parseConfig(in.RawBody)
	if err != nil {
		return engine.Reply{}, nil, err
	}
	if in.IfMatch == "" {
		return engine.Reply{}, nil, rest.NewProblem(http.StatusPreconditionRequired, rest.CodePreconditionReq,
			"If-Match is needed: the tag that GET /config gave, so that no change is lost; * replaces any")
	}
	s.configMu.Lock()
	defer s.configMu.Unlock()
	v, l := versions{s}, temporaryConfigs{s}
	if p := s.checkTag(ctx, in.IfMatch); p != nil {
		return engine.Reply{}, nil, p
	}
	if p := v.check(ctx, in); p != nil {
		return engine.Reply{}, nil, p
	}
	lent, err := l.change(ctx, in.Until, in.RawBody)
	if err != nil {
		return engine.Reply{}, nil, err
	}
	note := engine.ConfigVersion{Time: s.opts.Now(), Author: string(w.meta.Subject), Reason: lent.Reason(in.Reason), Restored: in.Restores,
		Until: lent.Is.Until, Back: lent.Is.Back}
	if err := s.store.BeginConfig(ctx, note, in.RawBody); err != nil {
		return engine.Reply{}, nil, s.fail(err)
	}
	reply, err := s.do(ctx, w, engine.Input{Command: c.Command(w.meta),
		Audit: lineOfConfig(ctx, s.opts.People, in.Restores, in.Reason, &lent)})
	v.end(ctx, &reply)
	if err != nil {
		return reply, nil, err
	}
	if s.opts.Configured != nil {
		s.opts.Configured()
	}
	ends, err := l.end(ctx, &lent)
	return reply, ends, err
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
	since := ""
	if v, err := (versions{s}).present(ctx, tag); err == nil && v.Version > 0 {
		since = ": " + VersionName(&v)
	}
	for one := range strings.SplitSeq(match, ",") {
		if strings.TrimSpace(one) == tag {
			return nil
		}
	}
	return rest.NewProblem(http.StatusPreconditionFailed, rest.CodePrecondition,
		"the configuration has changed since it was read"+since+"; read it again and decide anew: comb config history")
}

type validateConfigInput struct {
	RawBody []byte `contentType:"application/yaml"`
}

type planConfigInput struct {
	Until   string `query:"until" maxLength:"40" doc:"As for applying it: a time in RFC 3339, or a duration such as 7d"`
	RawBody []byte `contentType:"application/yaml"`
}

func (s *Server) validateConfig(ctx context.Context, in *validateConfigInput) (*body[rest.ConfigChecked], error) {
	c, planned, err := s.plan(ctx, in.RawBody)
	if err != nil {
		return nil, err
	}
	return answer(rest.ConfigChecked{Config: c.Config, Changed: planned.Changed, Effects: planned.Effects, Warnings: planned.Warnings}), nil
}

func (s *Server) planConfig(ctx context.Context, in *planConfigInput) (*body[rest.ConfigPlanned], error) {
	_, planned, err := s.plan(ctx, in.RawBody)
	if err != nil {
		return nil, err
	}
	lent, err := temporaryConfigs{s}.change(ctx, in.Until, in.RawBody)
	if err != nil {
		return nil, err
	}
	planned.Until, planned.Back = lent.Is.Until, lent.Is.Back
	planned.Drops, planned.Ends = lent.Was.Version > 0 && planned.Changed, lent.Sentences(planned.Changed || !lent.Same)
	return answer(*planned), nil
}

// plan applies a cluster file to a copy of the present state, one file at a time: a small
// file may describe a million devices. Only the next file waits for it.
func (s *Server) plan(ctx context.Context, src []byte) (*config.Cluster, *rest.ConfigPlanned, error) {
	leave, err := awaitTurn(ctx, &s.lanes.Plan, people.Subject(ctx))
	if err != nil {
		return nil, nil, s.fail(err)
	}
	defer leave()
	c, warnings, err := s.parseConfig(src)
	if err != nil {
		return nil, nil, err
	}
	out := &rest.ConfigPlanned{Warnings: warnings}
	if out.Version, out.ETag, err = (versions{s}).now(ctx); err != nil {
		return nil, nil, err
	}
	var copied *core.State
	if err := s.read(ctx, 0, func(st *core.State) { copied = st.At(s.opts.Now()) }); err != nil {
		return nil, nil, err
	}
	p, refusal := copied.PlanConfig(c.Command(model.Meta{Subject: people.Subject(ctx)}))
	if refusal != nil {
		return nil, nil, refusalProblem(refusal)
	}
	out.ConfigPlan, out.Warnings = *p, append(out.Warnings, p.LikelyRenames()...)
	return c, out, nil
}

// parseConfig reads a cluster file and checks it against this installation.
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
		doubts, err := s.opts.CheckCluster(cluster.Config)
		if warnings = append(warnings, doubts...); err != nil {
			bad = rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, err.Error())
		}
	}
	if bad != nil {
		bad.Warnings = warnings
		return nil, nil, bad
	}
	return cluster, append(warnings, accounts.MissingGroups(cluster.Config.Access, s.opts.People)...), nil
}

// versions has the routes about versions of the cluster file.
type versions struct{ *Server }

// Changed is in the input of a change of the configuration.
type Changed struct {
	On       int64  `query:"on" minimum:"0" doc:"The version that was planned on: a change of someone else between is refused with 412"`
	Reason   string `query:"reason" maxLength:"1000" doc:"Why; it stays with the version"`
	Restores int64  `query:"restores" minimum:"0" doc:"The version whose file this is, byte for byte"`
}

// present is the version in force, given the tag of the configuration; the zero version where
// it is unknown.
func (s versions) present(ctx context.Context, tag string) (engine.ConfigVersion, error) {
	list, err := s.store.Configs(ctx, 0, 1)
	if err != nil || len(list) == 0 || list[0].Tag != tag {
		return engine.ConfigVersion{}, err
	}
	return list[0], nil
}

// now is the present version with the configuration's tag. It waits for a change in progress.
func (s versions) now(ctx context.Context) (version int64, tag string, err error) {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	if _, tag, err = s.Server.present(ctx, 0); err != nil {
		return 0, "", err
	}
	v, err := s.present(ctx, tag)
	if err != nil {
		return 0, "", s.fail(err)
	}
	return v.Version, tag, nil
}

// check refuses a change that was planned on another version, or whose file is not that of
// the version that it claims to restore. The lock of changes is held.
func (s versions) check(ctx context.Context, in *configInput) error {
	if in.On > 0 {
		list, err := s.store.Configs(ctx, 0, 1)
		if err != nil {
			return s.fail(err)
		}
		if len(list) == 0 || list[0].Version != in.On {
			is := "no version"
			if len(list) > 0 {
				is = VersionName(&list[0])
			}
			return rest.NewProblem(http.StatusPreconditionFailed, rest.CodePrecondition,
				fmt.Sprintf("it was planned on version %d, and in force is %s: see comb config diff %d, and plan again", in.On, is, in.On))
		}
	}
	if in.Restores == 0 {
		return nil
	}
	_, file, ok, err := s.store.ConfigFile(ctx, in.Restores)
	if err != nil {
		return s.fail(err)
	}
	if !ok || string(file) != string(in.RawBody) {
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, fmt.Sprintf("this is not the file of version %d: take that from comb config show %d, byte for byte", in.Restores, in.Restores))
	}
	return nil
}

// end completes the version that was begun, or drops it where the change was refused. The
// configuration is in force even if that fails: the next start completes it.
func (s versions) end(ctx context.Context, reply *engine.Reply) {
	if reply.Err != nil {
		return // the change may still be in progress: the next change or start decides about what was begun
	}
	ctx = context.WithoutCancel(ctx)
	tag, err := "", error(nil)
	if reply.Refusal == nil {
		_, tag, err = s.Server.present(ctx, reply.Seq)
	}
	if err == nil {
		err = s.store.EndConfig(ctx, tag)
	}
	if err != nil {
		s.log.Warn("the version of the cluster file that was applied is noted at the next start", "error", err)
	}
}

func (s versions) list(ctx context.Context, in *struct {
	Before int64 `query:"before" minimum:"0" doc:"The versions before this one; 0 is from the latest"`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}) (*body[rest.ConfigVersions], error) {
	now, _, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Configs(ctx, in.Before, in.Limit)
	if err != nil {
		return nil, s.fail(err)
	}
	out := rest.ConfigVersions{Versions: []rest.ConfigVersion{}}
	for _, v := range list {
		out.Versions = append(out.Versions, rest.ConfigVersion{Version: v.Version, Time: v.Time, Author: v.Author, Reason: v.Reason,
			ETag: v.Tag, Restores: v.Restored, Bytes: v.Bytes, Present: v.Version == now})
		if v.Version == now {
			out.Versions[len(out.Versions)-1].Until, out.Versions[len(out.Versions)-1].Back = v.Until, v.Back
		}
	}
	if n := len(list); n == in.Limit && list[n-1].Version > 1 {
		out.Next = list[n-1].Version
	}
	return answer(out), nil
}

func (s versions) file(ctx context.Context, in *struct {
	Version int64 `path:"version" minimum:"1"`
}) (*configFile, error) {
	v, file, ok, err := s.store.ConfigFile(ctx, in.Version)
	if err != nil {
		return nil, s.fail(err)
	}
	if !ok {
		return nil, notFound("version %d of the cluster file is not kept; see comb config history", in.Version)
	}
	if v.Bytes == 0 {
		return nil, notFound("version %d was not made of a cluster file that is kept", in.Version)
	}
	return &configFile{ContentType: "application/yaml; charset=utf-8", ETag: v.Tag, Body: file}, nil
}

// temporaryConfigs handles configurations with an end, at which the server goes back by itself. An
// end is stored with its version, and is valid while that is the latest.
type temporaryConfigs struct{ *Server }

const (
	endCheckEvery = time.Minute // between two checks while there is an end, since the clock may be set
	loanRetry     = 10 * time.Minute
)

// EndTemporaryConfigs goes back from configurations whose end has come, until the server closes.
func EndTemporaryConfigs(ctx context.Context, s *Server) {
	l := temporaryConfigs{s}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closing:
			return
		case <-s.wakeEnds:
		case <-time.After(l.look(ctx)):
		}
	}
}

// look goes back if it is time, and returns when to check again.
func (l temporaryConfigs) look(ctx context.Context) time.Duration {
	e, err := l.active(ctx)
	if err != nil {
		l.log.Warn("it cannot be read whether the configuration has an end: it is tried again in a minute", "error",
			err)
		return endCheckEvery
	}
	if e.Version == 0 {
		return 24 * time.Hour // a change wakes it
	}
	if left := time.Duration(e.Until-l.opts.Now()) * time.Microsecond; left > 0 {
		return min(left+time.Millisecond, endCheckEvery)
	}
	if err := l.goBack(ctx, e); err != nil {
		l.log.Warn("the configuration has an end, and the server cannot go back: it tries again in 10 minutes", "version", e.Version, "back", e.Back, "error", err)
		return loanRetry
	}
	return time.Millisecond
}

// active is the end of the version in force; zero is none.
func (l temporaryConfigs) active(ctx context.Context) (engine.ConfigEnd, error) {
	_, tag, err := l.present(ctx, 0)
	if err != nil {
		return engine.ConfigEnd{}, err
	}
	v, err := versions(l).present(ctx, tag)
	return versionEnd(&v), err
}

// goBack applies the file of the version to which an end leads. If there is no such file the
// end is dropped.
func (l temporaryConfigs) goBack(ctx context.Context, e engine.ConfigEnd) error {
	_, file, ok, err := l.store.ConfigFile(ctx, e.Back)
	if err != nil {
		return err
	}
	if !ok {
		l.log.Warn("the configuration stays as it is: the version to go back to is not kept any more", "version", e.Version, "back", e.Back)
		return l.opts.Ends.Drop(ctx, e.Version)
	}
	c, _, err := l.parseConfig(file) // it may ask about machines, so changes must not wait for it
	if bad := (*rest.Problem)(nil); errors.As(err, &bad) && len(bad.Errors) > 0 {
		l.log.Warn("the configuration stays as it is: the file of the version to go back to is refused by this program, such as one with machines without a name",
			"version", e.Version, "back", e.Back, "mistakes", bad.Errors)
		return l.opts.Ends.Drop(ctx, e.Version)
	}
	if err != nil {
		return err
	}
	l.configMu.Lock()
	defer l.configMu.Unlock()
	if now, err := l.active(ctx); err != nil || now != e {
		return err
	}
	why := fmt.Sprintf("version %d was applied until %s", e.Version, instant(e.Until))
	if err := l.store.BeginConfig(ctx, engine.ConfigVersion{Time: l.opts.Now(), Author: "system", Reason: why, Restored: e.Back}, file); err != nil {
		return err
	}
	reply, err := l.do(ctx, write{}, engine.Input{Command: c.Command(model.Meta{Subject: "system", Reason: why}),
		Audit: lineOfEnd(e.Back, why)})
	versions(l).end(ctx, &reply)
	l.ahead.Forget()
	if err != nil {
		return err
	}
	if l.opts.Configured != nil {
		l.opts.Configured()
	}
	l.log.Info("the configuration has gone back", "from", e.Version, "to", e.Back, "effects", reply.Answer.Effects)
	return nil
}

// tell adds to jobs what the end of the present configuration will do to them.
func (l temporaryConfigs) tell(ctx context.Context, jobs []rest.Job) error {
	return l.fail(l.ahead.Tell(ctx, jobs, func(ctx context.Context) (*model.ConfigPlan, model.Time, error) {
		e, err := l.active(ctx)
		if err != nil || e.Version == 0 {
			return nil, 0, err
		}
		_, file, ok, err := l.store.ConfigFile(ctx, e.Back)
		if err != nil || !ok {
			return nil, 0, err
		}
		c, _, err := l.parseConfig(file)
		if err != nil {
			return nil, 0, nil // the end itself reports it
		}
		var plan *model.ConfigPlan
		err = l.think(ctx, 0, func(st *core.State) {
			plan, _ = st.PlanConfig(c.Command(model.Meta{Subject: "system"}))
		})
		return plan, e.Until, err
	}))
}

// change is what the change to a file would do to ends. The version that it makes is the next
// one.
func (l temporaryConfigs) change(ctx context.Context, until string, file []byte) (out expiringChange, err error) {
	_, tag, err := l.present(ctx, 0)
	if err != nil {
		return out, err
	}
	now, err := versions(l).present(ctx, tag)
	if err != nil {
		return out, l.fail(err)
	}
	list, err := l.store.Configs(ctx, 0, 1)
	if err != nil {
		return out, l.fail(err)
	}
	if len(list) > 0 {
		out.Latest = list[0].Version
	}
	if now.Bytes > 0 {
		_, is, _, err := l.store.ConfigFile(ctx, now.Version)
		if err != nil {
			return out, l.fail(err)
		}
		out.Same = string(is) == string(file)
	}
	out.Was = versionEnd(&now)
	if until == "" {
		return out, nil
	}
	out.Is = engine.ConfigEnd{Version: out.Latest + 1, Back: out.Was.Back}
	if out.Is.Until, err = parseExpiry(until, l.opts.Now()); err != nil {
		return out, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, err.Error())
	}
	switch {
	case out.Was.Version > 0:
	case now.Bytes == 0:
		return out, rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			"the present configuration was not made of a cluster file that is kept, so nothing could be gone back to: apply a file without until first")
	case out.Same:
		return out, rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			"this file is in force already: until would undo nothing; apply the file that is to be in force for a while")
	default:
		out.Is.Back = now.Version
	}
	return out, nil
}

// end returns sentences about what became of ends in a change.
func (l temporaryConfigs) end(ctx context.Context, o *expiringChange) ([]string, error) {
	defer l.wake()
	list, err := l.store.Configs(context.WithoutCancel(ctx), 0, 1)
	if err != nil {
		return nil, l.fail(err)
	}
	return o.Sentences(len(list) > 0 && list[0].Version > o.Latest), nil
}

// wake makes EndTemporaryConfigs check at once.
func (l temporaryConfigs) wake() {
	l.ahead.Forget()
	select {
	case l.wakeEnds <- struct{}{}:
	default:
	}
}
