package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// problemTransform replaces the router library's error body by a problem, so that all errors
// have one shape.
func problemTransform(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := rest.NewProblem(m.Status, rest.CodeForStatus(m.Status), m.Detail)
	if p.Detail == "validation failed" {
		p.Detail = "the request is not valid"
	}
	if m.Status >= 500 {
		p.Detail = "an error of the server; its log says more"
		return p, nil
	}
	for _, e := range m.Errors {
		if e != nil {
			p.Errors = append(p.Errors, fieldError(e))
		}
	}
	return p, nil
}

// fieldError says what is wrong with a field, without names of Go types.
func fieldError(e *huma.ErrorDetail) rest.FieldError {
	out := rest.FieldError{Detail: e.Message, Pointer: e.Location}
	if most, ok := strings.CutPrefix(e.Message, "expected length <= "); ok {
		out.Detail = "is too long: at most " + most + " characters"
	}
	text, found := strings.CutPrefix(e.Message, "json: cannot unmarshal ")
	have, into, cut := strings.Cut(text, " into Go ")
	if !found || !cut {
		return out
	}
	out.Detail = have + " cannot stand here"
	if field, ok := strings.CutPrefix(into, "struct field "); ok {
		name, _, _ := strings.Cut(field, " ")
		if _, at, ok := strings.Cut(name, "."); ok {
			out.Pointer += "." + at
		}
	}
	return out
}

// withHeaders adds a problem's headers.
func withHeaders(p *rest.Problem) error {
	if p.Seconds == 0 {
		return p
	}
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {fmt.Sprint(p.Seconds)}})
}

// fail turns any error of a handler into a problem; nil stays nil. The problem holds only
// what users may see. The rest is logged under an id.
func (s *Server) fail(err error) error {
	var p *rest.Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return withHeaders(p)
	case errors.Is(err, context.DeadlineExceeded):
		p = rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable,
			"the server did not get to it in time; try again")
		p.Seconds = 2
		return withHeaders(p)
	case errors.Is(err, context.Canceled), errors.Is(err, engine.ErrClosed):
		p = rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable, "the server is stopping; try again")
		p.Seconds = 2
		return withHeaders(p)
	}
	id := rest.NewKey()[:8]
	s.log.Error("a request failed", "id", id, "err", err)
	return rest.NewProblem(http.StatusInternalServerError, rest.CodeInternal,
		"an error of the server; its log names it under id "+id)
}

// problemOf is an error of fail as a problem.
func problemOf(err error) *rest.Problem {
	var p *rest.Problem
	if errors.As(err, &p) {
		return p
	}
	return rest.NewProblem(http.StatusInternalServerError, rest.CodeInternal, "an error of the server; its log says more")
}

// refusalProblem maps a refusal of the core to an answer, for all routes.
func refusalProblem(r *model.Refusal) error {
	switch r.Kind {
	case model.NotFound:
		return rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, r.Message)
	case model.Conflict:
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, r.Message)
	case model.Never:
		return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeNeverFits, r.Message)
	case model.Busy:
		p := rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy, r.Message)
		p.Seconds = 1
		return withHeaders(p)
	}
	return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, r.Message)
}

// fullText says how much space is missing, for the operator.
func (s *Server) fullText() string {
	why := "the disk of the data directory is full"
	if room := s.store.Room(); room != nil {
		why = room.Error()
	}
	return "the server accepts nothing now: " + why + "; running jobs go on; free space there and try again"
}

// isDiskFull recognises the system's own error, and SQLite's, which keeps only the text.
func isDiskFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "database or disk is full") || strings.Contains(text, "SQLITE_FULL")
}

// read calls f with the state once that shows event after, and all that was acknowledged to
// any client before. f must not keep the state.
func (s *Server) read(ctx context.Context, after uint64, f func(*core.State)) error {
	known := s.replica.Acknowledged()
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	err := s.replica.Read(ctx, after, f)
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s.fail(err)
	}
	p := rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable,
		fmt.Sprintf("event %d, which was acknowledged, cannot be read yet; try again", known))
	if after > known {
		p.Detail = fmt.Sprintf("event %d cannot be seen yet; try again, or ask without after_seq", after)
	}
	p.Seconds = 1
	return withHeaders(p)
}

func notFound(format string, args ...any) error {
	return rest.NewProblem(http.StatusNotFound, rest.CodeNotFound, fmt.Sprintf(format, args...))
}

func invalid(pointer, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "the request is not valid",
		rest.FieldError{Detail: detail, Pointer: pointer})
}
