package api

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
)

// reply is a transport that answers each request with a status, or with an error.
type reply struct {
	status int
	err    error
}

func (r reply) RoundTrip(*http.Request) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	return &http.Response{StatusCode: r.status, Body: http.NoBody}, nil
}

// What gets no answer is noted, and nothing else: no refusal, and no request that was given up.
func TestMissedAnswers(t *testing.T) {
	given, giveUp := context.WithCancel(context.Background())
	giveUp()
	late, end := context.WithTimeout(context.Background(), 0)
	defer end()
	for name, c := range map[string]struct {
		ctx    context.Context
		reply  reply
		missed bool
	}{
		"an answer":          {context.Background(), reply{status: 200}, false},
		"a refusal":          {context.Background(), reply{status: 403}, false},
		"too much":           {context.Background(), reply{status: 429}, false},
		"its own error":      {context.Background(), reply{status: 500}, false},
		"a proxy's":          {context.Background(), reply{status: 502}, true},
		"not ready":          {context.Background(), reply{status: 503}, true},
		"a proxy's patience": {context.Background(), reply{status: 504}, true},
		"a cut":              {context.Background(), reply{err: errors.New("connection refused")}, true},
		"too late":           {late, reply{err: context.DeadlineExceeded}, true},
		"given up":           {given, reply{err: context.Canceled}, false},
	} {
		a := newAnswers()
		r, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "https://api", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // however often, it is one token
			if resp, err := a.over(c.reply).RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}
		if got := len(a.missed) == 1; got != c.missed {
			t.Errorf("%s: missed is %v", name, got)
		}
	}
}

// While the API server is away its client's libraries do not log each request.
func TestQuietLog(t *testing.T) {
	var text bytes.Buffer
	a := newAnswers()
	log := slog.New(quietLog{slog.NewTextHandler(&text, nil), a}).With("part", "x").WithGroup("g")
	log.Error("first")
	a.quiet.Store(true)
	log.Error("second")
	a.quiet.Store(false)
	log.Error("third")
	if got := bytes.Count(text.Bytes(), []byte("\n")); got != 2 || bytes.Contains(text.Bytes(), []byte("second")) {
		t.Errorf("it logs %d lines:\n%s", got, text.String())
	}
}
