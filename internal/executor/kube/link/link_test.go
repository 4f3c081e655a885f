package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/test/testkit"
)

// serve answers pods whose token is their name twice.
func serve(t *testing.T, told func(string, []byte) error) (url, pin string) {
	file := filepath.Join(t.TempDir(), "line.pem")
	if _, _, err := Identity(file); err != nil {
		t.Fatal(err)
	}
	pair, pin, err := Identity(file) // as after a restart
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &Handler{Gang: func(pod string) (map[string]string, error) {
		if pod == "a" {
			return map[string]string{"a.gang": "10.0.0.1"}, nil
		}
		return nil, ErrSoon
	}, Members: func(pod string) (executor.Membership, error) {
		if pod == "a" {
			return executor.Membership{Version: 7, Members: []executor.Member{{Role: "worker", Index: 1, Host: "10.0.0.1", Ports: map[string][]int32{"train": {20000}}, Leaving: true}}}, nil
		}
		return executor.Membership{}, ErrSoon
	}, Admit: func(_ context.Context, pod, token string) error {
		if token != pod+pod {
			return ErrToken
		}
		return nil
	}, Told: told, Code: func(pod string) (io.ReadCloser, int64, error) {
		if pod != "a" {
			return nil, 0, fmt.Errorf("%w: no code", ErrNoTask)
		}
		return io.NopCloser(strings.NewReader("code of a")), 9, nil
	}}
	done := make(chan error, 1)
	go func() {
		done <- h.Serve(t.Context(), tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}}), slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "https://" + l.Addr().String(), pin
}

func TestLine(t *testing.T) {
	heard := ""
	url, pin := serve(t, func(pod string, lines []byte) error {
		heard += pod + " " + string(lines)
		if bytes.Contains(lines, []byte("again")) {
			return ErrSoon
		}
		return nil
	})
	ctx := context.Background()
	a := NewClient(url, pin, "a", "aa")
	body, err := a.Code(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(body); string(text) != "code of a" || err != nil {
		t.Errorf("the code is %q, %v", text, err)
	}
	body.Close()
	if err := a.Tell(ctx, []byte("{}\n")); err != nil || heard != "a {}\n" {
		t.Errorf("it heard %q, %v", heard, err)
	}
	if err := a.Tell(ctx, []byte("again")); err == nil || errors.Is(err, ErrNoTask) {
		t.Errorf("too soon: %v", err)
	}
	if known, err := a.Gang(ctx); err != nil || known["a.gang"] != "10.0.0.1" {
		t.Errorf("its gang is %v, %v", known, err)
	}
	if _, err := NewClient(url, pin, "b", "bb").Gang(ctx); !Answered(err) || errors.Is(err, ErrNoTask) {
		t.Errorf("a gang that is not there yet: %v", err)
	}
	if m, changed, err := a.Members(ctx, 6); err != nil || !changed || m.Version != 7 || len(m.Members) != 1 || m.Members[0].Ports["train"][0] != 20000 || !m.Members[0].Leaving {
		t.Errorf("its job's members are %+v, %v", m, err)
	}
	if m, changed, err := a.Members(ctx, 7); err != nil || changed {
		t.Errorf("the version that it has is told again: %+v, %v", m, err)
	}
	if _, _, err := NewClient(url, pin, "b", "bb").Members(ctx, 0); !Answered(err) || errors.Is(err, ErrNoTask) {
		t.Errorf("members that are not known yet: %v", err)
	}
	heard = ""
	if err := a.Tell(ctx, make([]byte, maxTold+1)); err == nil || heard != "" {
		t.Errorf("too long: %v, and it heard %d bytes", err, len(heard))
	}
	for name, c := range map[string]*Client{"another's token": NewClient(url, pin, "b", "aa"), "no token": NewClient(url, pin, "a", ""), "no pod": NewClient(url, pin, "", "")} {
		if _, err := c.Code(ctx); !errors.Is(err, ErrToken) || errors.Is(err, ErrNoTask) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewClient(url, pin, "b", "bb").Code(ctx); !errors.Is(err, ErrNoTask) {
		t.Errorf("no code: %v", err)
	}
	if _, err := NewClient(url, strings.Repeat("0", 64), "a", "aa").Code(ctx); err == nil || !strings.Contains(err.Error(), "another server answers") {
		t.Errorf("another certificate: %v", err)
	}
}

// A pod that asks too often is told so, before anything is done for it; others are answered
// meanwhile, and it is again later.
func TestAPodThatAsksTooOften(t *testing.T) {
	heard := map[string]int{}
	url, pin := serve(t, func(pod string, _ []byte) error {
		heard[pod]++
		return nil
	})
	ctx := context.Background()
	a, b := NewClient(url, pin, "a", "aa"), NewClient(url, pin, "b", "bb")
	began, refused := time.Now(), 0
	for range 1000 {
		switch err := a.Tell(ctx, nil); {
		case errors.Is(err, ErrSoon) && Answered(err):
			refused++
		case err != nil:
			t.Fatal(err)
		}
	}
	// The bound grows with the time that a busy machine takes.
	if most := askAtOnce + 1 + int(time.Since(began)/askEvery); heard["a"] > most || heard["a"] < askAtOnce || heard["a"]+refused != 1000 {
		t.Errorf("of 1,000 requests within %v %d were heard, want %d to %d; %d were refused", time.Since(began), heard["a"], askAtOnce, most, refused)
	}
	if err := b.Tell(ctx, nil); err != nil {
		t.Errorf("another is told: %v", err)
	}
	testkit.Wait(t, "it is heard again", func() bool {
		err := a.Tell(ctx, nil)
		if err != nil && !errors.Is(err, ErrSoon) {
			t.Fatalf("later it is told: %v", err)
		}
		return err == nil
	})
}

// What was noted of pods that ask no more goes.
func TestPaceForgets(t *testing.T) {
	now := time.Now()
	p := newPace(func() time.Time { return now }, askEvery, askAtOnce)
	for i := range 100_000 {
		if now = now.Add(time.Millisecond); !p.allows(fmt.Sprint(i), 1) {
			t.Fatal("a pod that asks once is refused")
		}
	}
	if len(p.until) > 3000 {
		t.Errorf("%d of 100,000 pods are noted, of which few ask still", len(p.until))
	}
}

// What a pod asks beyond its rate costs no look at its token on a connection that has shown it, and
// log requests that are refused for what they say count, too.
func TestARateBeforeTheToken(t *testing.T) {
	for path, most := range map[string]int{"/v1/gang": askAtOnce, logPath + "?from=x": logAtOnce / leastLog} {
		now, looked := time.Now(), 0
		h := &Handler{Admit: func(context.Context, string, string) error { looked++; return nil }}
		logs := newLogTaker(nil)
		asks := newPace(func() time.Time { return now }, askEvery, askAtOnce)
		logs.pace.now = asks.now
		mux := http.NewServeMux()
		mux.HandleFunc("/v1/gang", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		mux.HandleFunc("POST "+logPath, func(w http.ResponseWriter, r *http.Request) { logs.take(w, r, "a") })
		known, c := h.known(asks, logs.pace, mux), &caller{of: newCallers(nil, slog.New(slog.DiscardHandler), usual), pod: "a"}
		ask := func(pod string) int {
			r := httptest.NewRequest("POST", path, nil)
			r.Header.Set("Authorization", "Bearer "+pod+":x")
			w := httptest.NewRecorder()
			known(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
			return w.Code
		}
		last := 0
		for range 2 * most {
			last = ask("a")
		}
		if last != http.StatusTooManyRequests || looked > most {
			t.Errorf("%s: of %d requests the last was answered %d, and the token was looked at %d times, want at most %d", path, 2*most, last, looked, most)
		}
		before := looked
		if ask("b"); looked != before+1 {
			t.Errorf("%s: on a connection of another pod a name is believed without its token", path)
		}
	}
}
