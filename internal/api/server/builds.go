package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/spec/upload"
)

const (
	beat       = 10 * time.Second // between signs of life, at which the user's right is checked again
	lineWithin = 60 * time.Second // for the client to take a line
	noteWithin = 10 * time.Second // for writing to the audit log
	tryNext    = 10               // seconds after which a client should ask a busy server again
)

// imageBuilder builds images for users.
type imageBuilder struct {
	Images  executor.Images
	Depot   *upload.Depot
	Note    func(context.Context, ...people.AuditLine) error
	Over    func(context.Context) *rest.Problem // why a build must end; nil is that it may go on
	Closing <-chan struct{}                     // closed when the server ends
	Fail    func(error) error                   // turns the server's own errors into problems
}

// Serve builds an image and answers: with a problem where nothing began, else line by line.
func (b *imageBuilder) Serve(w http.ResponseWriter, r *http.Request, user string, in *rest.ImageBuild) error {
	if in.Dockerfile = cmp.Or(in.Dockerfile, "Dockerfile"); !upload.Within(in.Dockerfile) {
		return refused("the Dockerfile %.200q is no name in the folder", in.Dockerfile)
	}
	if b.Depot == nil {
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, "this server takes no uploads, and builds of nothing else")
	}
	files, err := b.Depot.Read(user, in.Upload)
	switch {
	case errors.Is(err, upload.ErrNoUpload):
		return refused("%s has no upload %.80s: send the folder first, as comb image build does", user, in.Upload)
	case errors.Is(err, upload.ErrDamaged):
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, "the upload is damaged and was removed: send the folder again")
	case err != nil:
		return b.Fail(err)
	}
	defer files.Close()
	line := people.AuditLine{Subject: user, Verb: string(access.BuildImages), Object: in.Name, Outcome: people.Done, Detail: fmt.Sprintf("begins, of %s in the upload %s", in.Dockerfile, in.Upload)}
	if err := b.Note(r.Context(), line); err != nil {
		return b.Fail(err) // nothing runs that is not recorded
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	a := &buildAnswer{w: w, rc: http.NewResponseController(w), cancel: cancel}
	stop := b.watch(ctx, a)
	order := executor.Build{Name: in.Name, Dockerfile: in.Dockerfile, Target: in.Target, Args: in.Args, NoCache: in.NoCache, Pull: in.Pull, Memory: in.MemoryMB << 20}
	id, err := b.Images.Build(ctx, &order, files, func(l executor.BuildLine) {
		a.write(rest.BuildLine{Step: l.Step, Steps: l.Steps, Cached: l.Cached, Text: l.Text})
	})
	stop()
	problem := b.problem(ctx, err)
	if line.Detail = id; problem != nil {
		line.Outcome, line.Detail = people.Failed, problem.Detail
	}
	noteCtx, done := context.WithTimeout(context.WithoutCancel(ctx), noteWithin)
	defer done()
	if err := b.Note(noteCtx, line); err != nil {
		problem = cmp.Or(problem, b.problem(ctx, err))
	}
	return a.end(id, problem)
}

func refused(format string, args ...any) *rest.Problem {
	return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, fmt.Sprintf(format, args...))
}

// problem is why there is no image; nil if there is one.
func (b *imageBuilder) problem(ctx context.Context, err error) *rest.Problem {
	var p *rest.Problem
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &p):
		return p
	case ctx.Err() != nil:
		return refused("the connection ended, and the build with it")
	case errors.Is(err, executor.ErrBuilding):
		p = rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy, err.Error())
		p.Seconds = tryNext
		return p
	case errors.Is(err, executor.ErrBuild):
		return refused("%v", err)
	case errors.As(b.Fail(err), &p):
		return p
	}
	return rest.NewProblem(http.StatusInternalServerError, rest.CodeInternal, "an error of the server; its log has it")
}

// watch ends a build whose user has lost the right or whose server ends, and sends signs of
// life. The caller must call the result, after which watch writes nothing more.
func (b *imageBuilder) watch(ctx context.Context, a *buildAnswer) func() {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.Closing:
				a.cancel(rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable, "the server ends, and the build with it"))
				return
			case <-tick.C:
				if p := b.Over(ctx); p != nil {
					a.cancel(p)
					return
				}
				a.write(rest.BuildLine{})
			}
		}
	}()
	return func() { stop(); <-done }
}

// buildAnswer writes lines as they come. A line that the client does not take ends the build.
type buildAnswer struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	rc     *http.ResponseController
	begun  bool
	cancel context.CancelCauseFunc
}

// write writes a line; the zero line is an empty one.
func (a *buildAnswer) write(l rest.BuildLine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		a.begun = true
		h := a.w.Header()
		h.Set("Content-Type", rest.MediaLines)
		h.Set("X-Accel-Buffering", "no")
		h.Set("Connection", "close")
		_ = a.rc.SetReadDeadline(time.Time{}) // a client that reads sends nothing
	}
	_ = a.rc.SetWriteDeadline(time.Now().Add(lineWithin))
	var err error
	if l == (rest.BuildLine{}) {
		_, err = a.w.Write([]byte("\n"))
	} else {
		err = json.NewEncoder(a.w).Encode(l)
	}
	if err = errors.Join(err, a.rc.Flush()); err != nil {
		a.cancel(err)
	}
}

// end writes the result. A problem of a build without output is returned instead.
func (a *buildAnswer) end(id string, p *rest.Problem) error {
	a.mu.Lock()
	begun := a.begun
	a.mu.Unlock()
	if p != nil && !begun {
		return p
	}
	a.write(rest.BuildLine{ID: id, Problem: p})
	return nil
}
