package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// fullRetry is how long a client should wait that has used up its idempotency keys.
const fullRetry = 600 // seconds

// write is one request with an effect.
type write struct {
	meta    model.Meta
	request engine.Request // digest of the request
	submit  bool
}

// writeOf identifies a request by all that tells it from another one with the same key.
func (m Meta) writeOf(ctx context.Context, kind string, said ...any) (write, error) {
	text, err := json.Marshal(append([]any{kind}, said...))
	if err != nil {
		return write{}, fmt.Errorf("cannot tell the request from others: %w", err)
	}
	return write{meta: m.of(ctx), request: sha256.Sum256(text), submit: kind == "submit"}, nil
}

// target is a request about a job or a node, which ref names.
type target struct {
	*Meta
	verb, ref string
	what      any
}

// command gives the core a command, once per idempotency key. make makes the command, with
// its line for the audit log.
func (s *Server) command(ctx context.Context, in target, make func(model.Meta) (model.Command, *engine.Audit, error)) (
	*body[rest.Done], error) {
	w, err := in.writeOf(ctx, in.verb, in.ref, in.what)
	if err != nil {
		return nil, s.fail(err)
	}
	reply, err := s.doOnce(ctx, w, func() (engine.Reply, error) {
		c, line, err := make(w.meta)
		if err != nil {
			return engine.Reply{}, err
		}
		return s.do(ctx, w, engine.Input{Command: c, Audit: line})
	})
	if err != nil {
		return nil, err
	}
	return doneOf(reply), nil
}

// sealRetry is how long a client should wait while its submission is not sealed.
const sealRetry = 5 // seconds

// doOnce does a request, or returns the first answer to a repeated one. A submission is
// acknowledged only when it is in the database and sealed, also when it is repeated.
func (s *Server) doOnce(ctx context.Context, w write, do func() (engine.Reply, error)) (engine.Reply, error) {
	reply, err := s.firstAnswer(ctx, w, do)
	if err != nil || !w.submit {
		return reply, err
	}
	if bad := s.store.Sealed(); bad != nil {
		p := rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable, "the job may be accepted, but the server cannot promise to keep it now: "+
			bad.Error()+"; send the same request with the same Idempotency-Key again, or look for the job before you submit it once more")
		p.Seconds = sealRetry
		return reply, withHeaders(p)
	}
	return reply, nil
}

// firstAnswer returns the first answer to a repeated request, before it checks anything that may
// have changed since: whether the job lives, whether the file is still valid, what If-Match
// names. A new request is done.
func (s *Server) firstAnswer(ctx context.Context, w write, do func() (engine.Reply, error)) (engine.Reply, error) {
	if w.meta.Key == "" {
		return do()
	}
	reply, known, err := s.recall(ctx, w)
	if known || err != nil {
		return reply, err
	}
	if full := s.store.KeysFull(w.meta.Subject, w.submit, s.opts.Now()); full != nil {
		p := rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy,
			full.Error()+"; nothing was done: send the request without a key, or try again later")
		p.Seconds = fullRetry
		return engine.Reply{}, withHeaders(p)
	}
	if reply, err = do(); err == nil {
		return reply, nil
	}
	// The same request may have been answered meanwhile, which would be why this one fails.
	if first, known, e := s.recall(ctx, w); known && e == nil {
		return first, nil
	}
	return reply, err
}

// recall looks for the first answer to a request.
func (s *Server) recall(ctx context.Context, w write) (engine.Reply, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	first, err := s.store.Recall(ctx, w.meta)
	if err != nil {
		return engine.Reply{}, false, s.fail(err)
	}
	if first == nil {
		return engine.Reply{}, false, nil
	}
	reply := first.ReplyTo(w.request)
	if reply.Refusal != nil {
		return reply, false, refusalProblem(reply.Refusal)
	}
	return reply, true, nil
}

// do passes a command to the loop and waits until its outcome is durable.
func (s *Server) do(ctx context.Context, w write, in engine.Input) (engine.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	in.Request = w.request
	reply := s.live.Give(ctx, in)
	switch {
	case reply.Refusal != nil && reply.Refusal.Kind == model.Busy && s.store.Room() != nil,
		reply.Err != nil && (errors.Is(reply.Err, engine.ErrFull) || isDiskFull(reply.Err)):
		return reply, rest.NewProblem(http.StatusInsufficientStorage, rest.CodeStorageFull, s.fullText())
	case reply.Refusal != nil:
		return reply, refusalProblem(reply.Refusal)
	case reply.Err != nil:
		return reply, s.fail(reply.Err)
	}
	return reply, nil
}

// doneOf is the answer of a write without data.
func doneOf(r engine.Reply) *body[rest.Done] {
	return answer(rest.Done{Seq: r.Seq, Repeated: r.Answer.Repeated, Effects: r.Answer.Effects})
}
