package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serveLogs takes logs of pods whose token is their name twice.
func serveLogs(t *testing.T, log func(string, LogBlock) (int64, error)) (url, pin string) {
	t.Helper()
	pair, pin, err := Identity(filepath.Join(t.TempDir(), "line.pem"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &Handler{Log: log, Took: func(string, Usage) error { return nil }, Admit: func(_ context.Context, pod, token string) error {
		if token != pod+pod {
			return ErrToken
		}
		return nil
	}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- h.Serve(ctx, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}}), slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "https://" + l.Addr().String(), pin
}

// Some of a log comes as it was sent, for the pod that sent it.
func TestALogIsSent(t *testing.T) {
	var got LogBlock
	var of string
	url, pin := serveLogs(t, func(pod string, b LogBlock) (int64, error) {
		got, of = b, pod
		got.Text = bytes.Clone(b.Text)
		if len(b.Text) == 1 {
			return 0, errors.New("the disk of /secret/place is full")
		}
		return b.From + int64(len(b.Text)), nil
	})
	a := NewClient(url, pin, "a", "aa")
	at := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	for _, b := range []LogBlock{{From: 0, At: at, Text: []byte("one\n\x00\xff")}, {From: 1 << 40, At: at, Last: true}, {From: 7, At: at, Text: make([]byte, LongestLog)}} {
		kept, err := a.Log(t.Context(), b)
		if err != nil || kept != b.From+int64(len(b.Text)) || of != "a" || got.From != b.From || !got.At.Equal(b.At) || got.Last != b.Last || string(got.Text) != string(b.Text) {
			t.Errorf("of %s came %d bytes from %d, %v, last %v; %d kept, %v", of, len(got.Text), got.From, got.At, got.Last, kept, err)
		}
	}
	if _, err := a.Log(t.Context(), LogBlock{Text: []byte("x"), At: at}); !Answered(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("what went wrong here is told: %v", err)
	}
	of = ""
	if _, err := NewClient(url, pin, "b", "aa").Log(t.Context(), LogBlock{Text: []byte("x"), At: at}); !errors.Is(err, ErrToken) || of != "" {
		t.Errorf("another pod sends: %v", err)
	}
	if _, err := a.Log(t.Context(), LogBlock{Text: make([]byte, LongestLog+1), At: at}); !Answered(err) || of != "" {
		t.Errorf("too much at once: %v", err)
	}
}

// What a hostile pod sends in place of a log is refused before it is read.
func TestNoLog(t *testing.T) {
	heard, when := 0, time.Time{}
	taker := newLogTaker(func(_ string, b LogBlock) (int64, error) {
		heard, when = heard+1, b.At
		return 0, nil
	})
	ask := func(query string, body io.Reader, length int64) int {
		r := httptest.NewRequest(http.MethodPost, "/v1/log?"+query, body)
		r.ContentLength = length
		w := httptest.NewRecorder()
		taker.take(w, r, "a")
		return w.Code
	}
	for query, length := range map[string]int64{"": 1, "from=x": 1, "from=-1": 1, "from=9223372036854775807": 1, "from=1": -1, "from=2": LongestLog + 1} {
		if code := ask(query, strings.NewReader("x"), length); code != http.StatusBadRequest {
			t.Errorf("%q with %d bytes: %d", query, length, code)
		}
	}
	for _, at := range []string{"", "x", "-9223372036854775808", "9223372036854775807", "0"} { // its clock is its own
		if code := ask("from=0&at="+at, strings.NewReader("x"), 1); code != http.StatusOK || time.Since(when) > time.Minute {
			t.Errorf("at %q: %d, as of %v", at, code, when)
		}
	}
	if heard != 5 {
		t.Errorf("%d were heard", heard)
	}
	// One that comes less than it said has used up what it may send for a while.
	if code := ask("from=0", strings.NewReader("x"), 2); code != http.StatusServiceUnavailable {
		t.Errorf("cut short: %d", code)
	}
	if code := ask("from=0", strings.NewReader("x"), 1); code != http.StatusTooManyRequests {
		t.Errorf("and at once again: %d", code)
	}
}

// A pod that prints without end is told to wait, and others are not.
func TestAPodThatPrintsTooMuch(t *testing.T) {
	now := time.Now()
	p := newPace(func() time.Time { return now }, logEvery, logAtOnce)
	taken := 0
	for range 1000 {
		now = now.Add(10 * time.Millisecond)
		if p.allows("a", 256) {
			taken++
		}
	}
	if mb := taken / 4; mb < 100 || mb > 120 { // 32 at once, and 8 in each of ten seconds
		t.Errorf("it sent %d MiB in ten seconds", mb)
	}
	if !p.allows("b", 256) {
		t.Error("another may send nothing")
	}
}

// The tasks of a whole cluster that come at once, after a server was away, take turns: only some
// are taken at a time, other requests are answered meanwhile, and nothing is lost.
func TestManyLogsAtOnce(t *testing.T) {
	const tasks, blocks = 200, 5
	var mu sync.Mutex
	kept := map[string]int64{}
	var now, most atomic.Int64
	url, pin := serveLogs(t, func(pod string, b LogBlock) (int64, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		time.Sleep(time.Millisecond) // a slow disk: else none is there at the same time
		mu.Lock()
		defer mu.Unlock()
		if b.From == kept[pod] {
			kept[pod] += int64(len(b.Text))
		}
		return kept[pod], nil
	})
	var all sync.WaitGroup
	for i := range tasks {
		all.Go(func() {
			pod := fmt.Sprint("pod-", i)
			c := NewClient(url, pin, pod, pod+pod)
			for at := int64(0); at < blocks*1000; {
				got, err := c.Log(t.Context(), LogBlock{From: at, At: time.Now(), Text: make([]byte, 1000)})
				switch {
				case errors.Is(err, ErrSoon):
					time.Sleep(rand.N(50 * time.Millisecond)) // as tasks do
				case err != nil:
					t.Errorf("%s: %v", pod, err)
					return
				default:
					at = got
				}
				if err := c.Take(t.Context(), Usage{}); err != nil && !errors.Is(err, ErrSoon) {
					t.Errorf("%s is not heard otherwise: %v", pod, err)
				}
			}
			c.http.CloseIdleConnections()
		})
	}
	all.Wait()
	for i := range tasks {
		if n := kept[fmt.Sprint("pod-", i)]; n != blocks*1000 {
			t.Errorf("of task %d %d bytes are kept", i, n)
		}
	}
	if most.Load() > logsAtOnce {
		t.Errorf("%d were written at once", most.Load())
	}
}
