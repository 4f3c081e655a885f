package rest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

func client(t *testing.T, h http.HandlerFunc) *rest.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := rest.NewClient(s.URL+"/ignored?x#y", "secret")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewClientRefusesWhatIsNoAddress(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:80", "ftp://x", "http://", "http://%zz"} {
		if _, err := rest.NewClient(base, "t"); err == nil {
			t.Errorf("%q was accepted", base)
		}
	}
	for _, token := range []string{"a b", "a\r\nX-Admin: 1", "a\x00"} {
		if _, err := rest.NewClient("http://127.0.0.1:1", token); err == nil {
			t.Errorf("token %q was accepted", token)
		}
	}
}

func TestRedirectsDoNotCarryTheToken(t *testing.T) {
	stolen := atomic.Bool{}
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Store(r.Header.Get("Authorization") != "")
	}))
	defer thief.Close()
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.Info(context.Background()); err == nil || stolen.Load() {
		t.Errorf("a redirect: %v, token sent on: %v", err, stolen.Load())
	}
}

// TestUnavailableWritesAreRepeated: a server that cannot answer for a submission now may have taken
// it.
func TestUnavailableWritesAreRepeated(t *testing.T) {
	var keys []string
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if keys = append(keys, r.Header.Get(rest.HeaderIdempotency)); len(keys) < 2 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status": 503, "code": "unavailable", "detail": "it may be accepted"}`))
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id": 7}`))
	})
	got, err := c.Submit(context.Background(), rest.SubmitRequest{Source: "x"}, "")
	if err != nil || got.ID != 7 || len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("%+v, %v, with the keys %q", got, err, keys)
	}
}

// TestWritesAreRepeatedUnderOneKey breaks the connection after the server has
// taken the request.
func TestWritesAreRepeatedUnderOneKey(t *testing.T) {
	keys := make(chan string, 8)
	calls := atomic.Int32{}
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		if calls.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"id":7,"name":"x","seq":12,"repeated":true}`)
	})
	out, err := c.Submit(context.Background(), rest.SubmitRequest{Source: "x"}, "")
	if err != nil || out.ID != 7 || c.Seen() != 12 {
		t.Fatalf("%+v, %v, seen %d", out, err, c.Seen())
	}
	first := <-keys
	for range 2 {
		if next := <-keys; next != first || first == "" {
			t.Errorf("keys %q and %q; want one", first, next)
		}
	}
}

func TestReadsAskForWhatWasWritten(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"seq":%s}`, first(r.Header.Get("Comb-After-Seq"), "0"))
	})
	c.See(5)
	c.See(3)
	info, err := c.Info(context.Background())
	if err != nil || info.Seq != 5 {
		t.Errorf("asked for %d, %v; want 5", info.Seq, err)
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestProblemsAndStrangers(t *testing.T) {
	for body, want := range map[string]rest.Code{
		`{"status":409,"code":"conflict","detail":"taken","errors":[{"detail":"d","pointer":"p","line":3,"column":9}]}`: rest.CodeConflict,
		`<html>teapot</html>`: rest.CodeConflict,
		`{}`:                  rest.CodeConflict,
	} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", rest.ProblemType)
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, body)
		})
		_, err := c.Nodes(context.Background())
		if rest.CodeOf(err) != want {
			t.Errorf("%s: %v", body, err)
		}
		if strings.Contains(body, "taken") && err.Error() != "taken\n  3:9: p: d" {
			t.Errorf("text %q", err.Error())
		}
	}
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "not JSON") })
	if _, err := c.Nodes(context.Background()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no JSON: %v", err)
	}
	lost, err := rest.NewClient("http://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	var unreachable *rest.Unreachable
	if _, err := lost.Nodes(context.Background()); !errors.As(err, &unreachable) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestFollowReconnects cuts the stream after every two events.
func TestFollowReconnects(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		last, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, ": hello\n\n")
		for seq := max(last, 1); seq < last+3 && seq <= 7; seq++ { // also repeats one
			fmt.Fprintf(w, "id: %d\nevent: event\ndata: {\"seq\":%d,\"kind\":\"X\",\"data\":{}}\n\n", seq, seq)
		}
		if last >= 7 {
			fmt.Fprint(w, "event: future\ndata: {}\n\nevent: end\ndata: {}\n\n")
			return
		}
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var seen []uint64
	err := c.Follow(ctx, "job", 0, rest.Follower{Event: func(e rest.Event) error {
		seen = append(seen, e.Seq)
		return nil
	}})
	if err != nil || fmt.Sprint(seen) != "[1 2 3 4 5 6 7]" {
		t.Errorf("%v, %v; want 1 to 7 once each", seen, err)
	}
}

func TestFollowGivesUpOnRefusal(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	err := c.Follow(context.Background(), "", 0, rest.Follower{Event: func(rest.Event) error { return nil }})
	if rest.CodeOf(err) != rest.CodeUnauthorized {
		t.Errorf("%v; want unauthorized", err)
	}
}

// TestFollowedLogReconnects cuts a followed log in the middle, twice.
func TestFollowedLogReconnects(t *testing.T) {
	const text = "the whole log of a task\n"
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		w.Header().Set("Comb-Log-Offset", strconv.Itoa(from))
		w.Header().Set("Trailer", "Comb-Log-Complete")
		to := min(from+10, len(text))
		fmt.Fprint(w, text[from:to])
		w.(http.Flusher).Flush()
		if to < len(text) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Comb-Log-Complete", "true")
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	n, err := c.Logs(ctx, rest.LogQuery{Job: "j", Role: "r", Follow: true}, &out)
	if err != nil || out.String() != text || n != int64(len(text)) {
		t.Errorf("%q, %d, %v", out.String(), n, err)
	}
}

func TestFramesAreBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("data: "), zeros{})
	if err := rest.ReadFrames(endless, func(rest.Frame) error { return nil }); err == nil {
		t.Error("an endless frame was taken")
	}
	many := strings.NewReader("id: 4\r\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\n: beat\n\ndata:3\n\ndata: cut")
	var got []string
	err := rest.ReadFrames(many, func(f rest.Frame) error {
		got = append(got, f.ID+"/"+f.Name+"/"+string(f.Data))
		return nil
	})
	if err != nil || strings.Join(got, " ") != "4/a/1\n2 //3" {
		t.Errorf("%q, %v", got, err)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("id: 1\nevent: event\ndata: {}\n\n"))
	f.Add([]byte("data:\r\n\r\n:\n\n"))
	f.Fuzz(func(_ *testing.T, src []byte) {
		_ = rest.ReadFrames(bytes.NewReader(src), func(rest.Frame) error { return nil })
	})
}

// TestUnreachableIsPlain holds the text to the user's words: what the network
// packages of Go add is left out.
func TestUnreachableIsPlain(t *testing.T) {
	for want, err := range map[string]error{
		"cannot reach the server at http://h:1: the connection broke before the answer was complete": &rest.Unreachable{URL: "http://h:1", Err: io.ErrUnexpectedEOF},
		"cannot reach the server at http://h:1: connection refused":                                  &rest.Unreachable{URL: "http://h:1", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}},
		"no server is known: none was started":                                                       &rest.Unreachable{Err: errors.New("none was started")},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
