package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/document"
	"github.com/combsched/comb/internal/jobspec"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// maxProblems bounds the mistakes of one answer: after that many, the file is
// something else than what it should be.
const maxProblems = 100

// parseJob reads a submission against the present configuration. A job without a
// name gets one that follows from the idempotency key, if there is one: the same
// request again must be the same job.
func (s *Server) parseJob(ctx context.Context, r rest.SubmitRequest, key string) (*jobspec.Result, error) {
	env := jobspec.Env{User: subjectOf(ctx), Images: s.opts.Images, Name: r.Name, VC: cell.VCName(r.VC)}
	err := s.read(ctx, 0, func(st *sched.State) { env.Config = st.Config() })
	if err != nil {
		return nil, err
	}
	var result *jobspec.Result
	var problems document.Problems
	if r.Quick != nil {
		if r.Quick.Image != "" && r.Quick.Caller != nil {
			return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "a job with an image runs in its container, not in a caller's folder and environment: leave the caller out")
		}
		if err := s.checkCaller(ctx, r.Quick.Caller); err != nil {
			return nil, err
		}
		result, problems = jobspec.Quick(quickOf(r.Quick, key), env)
	} else {
		result, problems = jobspec.Parse("", []byte(r.Source), env)
	}
	if len(problems) > 0 {
		return nil, documentProblem("the job cannot be accepted", problems)
	}
	return result, nil
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

// quickOf turns the wire's quick job into the protocol's. A job without a name
// gets one of its program and a few letters of the key, random ones without it.
func quickOf(q *rest.QuickJob, key string) jobspec.QuickJob {
	out := jobspec.QuickJob{
		Name: q.Name, VC: q.VC, Priority: q.Priority, SKU: q.SKU, Tasks: q.Tasks, GPUs: q.GPUs, CPUs: q.CPUs,
		MemoryMB: q.MemoryMB, Command: q.Command, WorkDir: q.WorkDir, Image: q.Image, Storages: q.Storages, TimeLimit: q.TimeLimit, Grace: q.Grace,
		Retries: q.Retries, Checkpoint: q.Checkpoint,
	}
	for _, label := range slices.Sorted(maps.Keys(q.Ports)) {
		out.Ports = append(out.Ports, sched.Port{Label: label, Count: q.Ports[label]})
	}
	if out.Name == "" {
		out.Name = quickName(q.Command, key)
	}
	if q.Caller != nil {
		out.Caller = q.Caller.Env
		out.WorkDir = cmp.Or(out.WorkDir, q.Caller.Folder.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Env)) {
		out.Env = append(out.Env, sched.EnvVar{Name: name, Value: q.Env[name]})
	}
	return out
}

func quickName(command []string, key string) string {
	base := "job"
	if len(command) > 0 {
		base = path.Base(command[0])
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
