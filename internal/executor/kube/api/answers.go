package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// answers notes which requests an API server has left unanswered. All clients of one server share
// it.
type answers struct {
	missed chan struct{} // holds a token when a request was not answered since the last look
	quiet  atomic.Bool   // the client's libraries are not to log
}

func newAnswers() *answers { return &answers{missed: make(chan struct{}, 1)} }

// over wraps a transport, to note what it gets no answer to.
func (a *answers) over(next http.RoundTripper) http.RoundTripper { return listener{next, a} }

type listener struct {
	http.RoundTripper
	answers *answers
}

// RoundTrip implements http.RoundTripper. An answer of a proxy that reaches no API server is none.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil && errors.Is(r.Context().Err(), context.Canceled) {
		return resp, err // it is not waited for any more
	}
	if err != nil || slices.Contains(unanswered, resp.StatusCode) {
		select {
		case l.answers.missed <- struct{}{}:
		default:
		}
	}
	return resp, err
}

// unanswered are the codes by which proxies say that there is no answer.
var unanswered = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// WrappedRoundTripper lets client-go look at the transport below.
func (l listener) WrappedRoundTripper() http.RoundTripper { return l.RoundTripper }

// Missed gets a value when a request was not answered since the last one that was taken from it.
func (c *Client) Missed() <-chan struct{} { return c.answers.missed }

// Quiet keeps the client's libraries from logging each request that fails, while on is true.
func (c *Client) Quiet(on bool) { c.answers.quiet.Store(on) }

// readyWithin is how long an API server may take to say that it is ready.
const readyWithin = 5 * time.Second

// Ready asks the API server whether it is ready. One that refuses to say so answers, too.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := c.plain.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// quietLog drops what the client's libraries log while they are to be quiet.
type quietLog struct {
	slog.Handler
	answers *answers
}

// Enabled implements slog.Handler.
func (q quietLog) Enabled(ctx context.Context, level slog.Level) bool {
	return !q.answers.quiet.Load() && q.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (q quietLog) WithAttrs(list []slog.Attr) slog.Handler {
	return quietLog{q.Handler.WithAttrs(list), q.answers}
}

// WithGroup implements slog.Handler.
func (q quietLog) WithGroup(name string) slog.Handler {
	return quietLog{q.Handler.WithGroup(name), q.answers}
}
