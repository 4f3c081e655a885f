package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// maxProblems bounds the mistakes of one answer. A file with more is not what it should be.
const maxProblems = 100

// parseJob reads a submission against the present configuration. A job without a name gets
// one that follows from the idempotency key, if there is one, since a repeated request must
// be the same job.
func (s *Server) parseJob(ctx context.Context, r rest.SubmitRequest, key string) (*jobspec.Result, error) {
	env := jobspec.Env{User: people.Subject(ctx), Images: s.opts.Images, Name: r.Name, VC: cell.VCName(r.VC),
		DefaultVC: cell.VCName(r.DefaultVC), Upload: r.Upload}
	if s.opts.Uploads != nil {
		env.Uploaded = func(digest string) bool {
			_, ok := s.opts.Uploads.Has(string(env.User), digest)
			return ok
		}
	}
	err := s.read(ctx, 0, func(st *core.State) { env.Config = st.Config() })
	if err != nil {
		return nil, err
	}
	table, err := s.authorizer.Table(ctx)
	if err != nil {
		return nil, err
	}
	env.VCs = table.SubmitsTo(people.Of(ctx).Principal)
	var result *jobspec.Result
	var problems document.Problems
	if r.Quick != nil {
		if r.Quick.Image != "" && r.Quick.Caller != nil {
			return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "a job with an image runs in its container, not in a caller's folder and environment: leave the caller out")
		}
		if r.Quick.Upload != "" && r.Quick.Caller != nil {
			return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "a job with an upload runs in that, not in a caller's folder and environment: leave the caller out")
		}
		if err := s.checkCaller(ctx, r.Quick.Caller); err != nil {
			return nil, err
		}
		quick := quickOf(r.Quick, key)
		if r.Quick.AllGPUs {
			if r.Quick.GPUs != 0 {
				return nil, invalid("quick.gpus", "it is not given together with all_gpus")
			}
			if err := s.read(ctx, 0, func(st *core.State) { quick.GPUs = mostGPUs(st, quick, env) }); err != nil {
				return nil, err
			}
		}
		if result, problems = jobspec.Quick(quick, env); result != nil && r.Quick.AllGPUs {
			result.Warnings = append(result.Warnings, fmt.Sprintf("all GPUs of a node that VC %s may use are %d for each task", result.Job.VC, quick.GPUs))
		}
	} else {
		result, problems = jobspec.Parse("", []byte(r.Source), env)
	}
	if len(problems) > 0 {
		return nil, documentProblem("the job cannot be accepted", problems)
	}
	if err := s.authorizer.May(ctx, access.SubmitJob, access.Object{VC: result.Job.VC}, nil); err != nil {
		return nil, err
	}
	if err := identify(s.opts.People, people.Of(ctx).Principal, result.Job); err != nil {
		return nil, err
	}
	return result, s.checkTrust(result.Job)
}

// identify sets the numbers of a job's user, which the job keeps whatever becomes of the
// account. The holder of the data directory's token need not have an account.
func identify(directory *people.Directory, p *access.Principal, job *model.Job) error {
	ids, err := directory.TaskIDs(string(job.User))
	if err != nil && (p.IsUser || !errors.Is(err, people.ErrNotFound)) {
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, err.Error())
	}
	job.UID, job.GID, job.Numbered = uint32(ids.UID), uint32(ids.GID), true
	return nil
}

// checkTrust refuses jobs as plain processes where users that do not trust each other share
// the machine: a process could read and end those of others.
func (s *Server) checkTrust(job *model.Job) error {
	boxed := s.opts.Images >= jobspec.ImagesUsed
	bare := slices.ContainsFunc(job.Roles, func(r model.Role) bool { return r.Launch.Image == "" })
	if s.opts.TrustUsers || boxed && !bare || !s.opts.People.Strangers() {
		return nil
	}
	return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "users are known here that need not trust each other, and this job would run as a process, which can read and end what others run: "+
		"name a container image where an engine answers, or let an administrator start the server with --trust-users")
}

// mostGPUs is the most GPUs per task with which a job could ever start, and 1 where it could
// not with any. What cannot start with some number cannot with a larger one.
func mostGPUs(st *core.State, q jobspec.QuickJob, env jobspec.Env) int64 {
	const most = 1 << 16
	low, high := int64(1), int64(2)
	fits := func(n int64) bool {
		q.GPUs = n
		parsed, problems := jobspec.Quick(q, env)
		if len(problems) > 0 {
			return false
		}
		_, _, refusal := st.Check(model.Submit{Meta: model.Meta{Subject: env.User}, Job: parsed.Job}, 0)
		return refusal == nil || refusal.Kind != model.Never
	}
	for high < most && fits(high) {
		low, high = high, 2*high
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func registerUploads(s *Server, api huma.API) {
	none := rest.NewProblem(http.StatusConflict, rest.CodeConflict, "this server takes no uploads")
	in := uploadReceiver{Depot: s.opts.Uploads}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-uploads", Method: http.MethodGet, Path: "/uploads", Summary: "The caller's uploads, and how large they may be", Tags: []string{"uploads"},
	}), func(ctx context.Context, _ *struct{ AfterSeq }) (*body[rest.UploadList], error) {
		if s.opts.Uploads == nil {
			return nil, none
		}
		list, err := in.List(people.Subject(ctx))
		if err != nil {
			return nil, s.fail(err)
		}
		return answer(list), nil
	})
	one := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[rest.Upload](), true, "")
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "put-upload", Method: http.MethodPut, Path: "/uploads/{digest}", Tags: []string{"uploads"},
		Summary:     "Send a folder with code as a tar archive, by its digest; one that is there is answered at once, and not read",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-tar": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}},
		Responses: map[string]*huma.Response{"200": {Description: "It is there", Content: map[string]*huma.MediaType{"application/json": {Schema: one}}},
			"507": refusal(api, "507", "The disk takes no more")},
	}), func(ctx context.Context, path *struct {
		Digest string `path:"digest" maxLength:"71" doc:"sha256: and 64 hexadecimal digits"`
	}) (*huma.StreamResponse, error) {
		if s.opts.Uploads == nil {
			return nil, none
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			got, err := in.Put(w, r, people.Subject(ctx), path.Digest)
			var p *rest.Problem
			if err == nil {
				writeJSON(w, got)
			} else if errors.As(err, &p) || errors.As(s.fail(err), &p) {
				writeProblem(w, p)
			}
		}}, nil
	})
}

// documentProblem makes one answer of all mistakes in a file.
func documentProblem(detail string, ps document.Problems) *rest.Problem {
	p := rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, detail)
	for i, m := range ps.Sorted() {
		if i == maxProblems {
			p.Errors = append(p.Errors, rest.FieldError{Detail: "and more"})
			break
		}
		p.Errors = append(p.Errors, rest.FieldError{Detail: m.Message, Pointer: m.Key, Line: m.Line, Column: m.Column})
	}
	return p
}

// quickOf converts a quick job. A job without a name gets one of its program and a few
// letters of the key, or random letters without a key.
func quickOf(q *rest.QuickJob, key string) jobspec.QuickJob {
	out := jobspec.QuickJob{
		Name: q.Name, VC: q.VC, Priority: q.Priority, SKU: q.SKU, Pinned: q.Pinned, Tasks: q.Tasks, GPUs: q.GPUs, CPUs: q.CPUs,
		MemoryMB: q.MemoryMB, DiskMB: q.DiskMB, ShmMB: q.ShmMB, Command: q.Command, WorkDir: q.WorkDir, Image: q.Image,
		Pull: q.Pull, Storages: q.Storages, Upload: q.Upload, TimeLimit: q.TimeLimit, Grace: q.Grace,
		Retries: q.Retries, Checkpoint: q.Checkpoint, Limits: q.Limits,
	}
	for _, label := range slices.Sorted(maps.Keys(q.Ports)) {
		out.Ports = append(out.Ports, model.Port{Label: label, Count: q.Ports[label]})
	}
	if out.Name == "" {
		out.Name = quickName(q, key)
	}
	if q.Caller != nil {
		out.Caller = q.Caller.Env
		out.WorkDir = cmp.Or(out.WorkDir, q.Caller.Folder.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Env)) {
		out.Env = append(out.Env, model.EnvVar{Name: name, Value: q.Env[name]})
	}
	return out
}

// quickName is a name for a job, made from that of its program or its image.
func quickName(q *rest.QuickJob, key string) string {
	base := "job"
	if len(q.Command) > 0 {
		base = path.Base(q.Command[0])
	} else if q.Image != "" {
		base, _, _ = strings.Cut(path.Base(q.Image), "@")
		base, _, _ = strings.Cut(base, ":")
	}
	base = strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToLower(r)
		}
		return '-'
	}, base)
	base = strings.Trim(base[:min(len(base), 40)], "-")
	if base == "" {
		base = "job"
	}
	if key == "" {
		key = rest.NewKey()
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s-%x", base, sum[:3])
}
