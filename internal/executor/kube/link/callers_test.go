package link

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/netutil"

	"github.com/combsched/comb/internal/test/testkit"
)

// called is a server for pods whose token is their name twice; the pod "ended" has ended.
type called struct {
	*tokenListener
	log *testkit.Output
}

func call(t *testing.T, n limits) called {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = netutil.LimitListener(l, n.many*4/3)
	out := &testkit.Output{}
	log := slog.New(slog.NewTextHandler(out, nil))
	h := &Handler{Took: func(string, Usage) error { return nil },
		Gang: func(string) (map[string]string, error) {
			return map[string]string{"more than sockets hold": strings.Repeat("x", 32<<20)}, nil
		},
		Code: func(string) (io.ReadCloser, int64, error) { return io.NopCloser(endless{}), 1 << 40, nil },
		Admit: func(_ context.Context, pod, token string) error {
			switch {
			case token != pod+pod:
				return ErrToken
			case pod == "ended":
				return ErrNoTask
			}
			return nil
		}}
	s := newCallers(l, log, n)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.serve(ctx, s, log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !testkit.Within(testkit.Patience, func() bool { // what was answered last may be under way still
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.waiting.Len()+len(s.pods.of)+len(s.unknown.of)+len(s.allWithoutToken.of) == 0
		}) {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Errorf("when all are closed there are still %d that wait, %v of pods, %v of addresses", s.waiting.Len(), s.pods.of, s.unknown.of)
		}
	})
	return called{s, out}
}

// endless is code without end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }

func (s called) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// ask asks for a pod, and returns the status.
func ask(c net.Conn, pod, path string) (int, error) {
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: comb\r\nAuthorization: Bearer %s:%s%s\r\nContent-Length: 2\r\n\r\n{}", path, pod, pod, pod)
	return answer(c)
}

func answer(c net.Conn) (int, error) {
	// A byte at a time: nothing of what follows is taken.
	head := ""
	for b := make([]byte, 1); !strings.HasSuffix(head, "\r\n\r\n"); head += string(b) {
		if _, err := io.ReadFull(c, b); err != nil {
			return 0, err
		}
	}
	status := 0
	_, err := fmt.Sscanf(head, "HTTP/1.1 %d", &status)
	return status, err
}

func ends(t *testing.T, what string, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	if n, ok := err.(net.Error); ok && n.Timeout() {
		t.Errorf("%s is not closed", what)
	}
}

// A pod has 8 connections, and again what it gives back; another behind the same address is
// answered meanwhile.
func TestAPodHasFewConnections(t *testing.T) {
	s := call(t, usual)
	var has []net.Conn
	for i := range 20 {
		c := s.dial(t, "127.0.0.1")
		status, err := ask(c, "a", "/v1/usage")
		switch {
		case err == nil && status == http.StatusNoContent:
			has = append(has, c)
		case err == nil && status == http.StatusTooManyRequests:
			ends(t, "what was refused", c)
		default:
			t.Fatalf("connection %d: %d, %v", i, status, err)
		}
	}
	if len(has) != 8 {
		t.Fatalf("of 20 connections of a pod %d are let in", len(has))
	}
	other := s.dial(t, "127.0.0.1")
	for _, c := range append(has, other) {
		pod := "a"
		if c == other {
			pod = "b"
		}
		if status, err := ask(c, pod, "/v1/usage"); status != http.StatusNoContent {
			t.Fatalf("pod %s is answered %d, %v", pod, status, err)
		}
	}
	if n := strings.Count(s.log.String(), "pod=a connections=8"); n != 1 {
		t.Errorf("it is warned of %d times", n)
	}
	has[0].Close()
	testkit.Wait(t, "a pod that closed one gets another", func() bool {
		status, _ := ask(s.dial(t, "127.0.0.1"), "a", "/v1/usage")
		return status == http.StatusNoContent
	})
}

// More pods than there may be connections are answered, though each keeps the one that it has.
func TestMorePodsThanConnections(t *testing.T) {
	n := usual
	n.many = 12
	s := call(t, n)
	var open []net.Conn
	for i := range 100 {
		c := s.dial(t, "127.0.0.1")
		if status, err := ask(c, fmt.Sprint("pod-", i), "/v1/usage"); err != nil || status != http.StatusNoContent {
			t.Fatalf("pod %d is answered %d, %v", i, status, err)
		}
		open = append(open, c)
	}
	kept := 0
	for i, c := range open {
		if status, err := ask(c, fmt.Sprint("pod-", i), "/v1/usage"); err == nil && status == http.StatusNoContent {
			kept++
		}
	}
	if kept != n.many {
		t.Errorf("%d connections are kept, of %d", kept, n.many)
	}
}

// A pod that does not read its answer holds a connection for a while alone.
func TestAPodThatReadsNoAnswer(t *testing.T) {
	n := usual
	n.header = 100 * time.Millisecond
	s := call(t, n)
	c := s.dial(t, "127.0.0.1")
	fmt.Fprint(c, "GET /v1/gang HTTP/1.1\r\nHost: comb\r\nAuthorization: Bearer a:aa\r\n\r\n")
	has := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pods.of["a"]
	}
	testkit.Wait(t, "it is answered", func() bool { return has() == 1 })
	testkit.Wait(t, "its connection ends", func() bool { return has() == 0 })
}

// A pod fetches its code once at a time, so that few pods cannot keep it from all others.
func TestAPodFetchesItsCodeOnceAtATime(t *testing.T) {
	s := call(t, usual)
	get := func(c net.Conn, pod string) int {
		fmt.Fprintf(c, "GET /v1/code HTTP/1.1\r\nHost: comb\r\nAuthorization: Bearer %s:%s%s\r\n\r\n", pod, pod, pod)
		status, err := answer(c)
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	first, second := s.dial(t, "127.0.0.1"), s.dial(t, "127.0.0.1")
	if one, two, other := get(first, "a"), get(second, "a"), get(s.dial(t, "127.0.0.1"), "b"); one != http.StatusOK ||
		two != http.StatusTooManyRequests || other != http.StatusOK {
		t.Errorf("it is answered %d and %d, and another %d", one, two, other)
	}
	first.Close()
	testkit.Wait(t, "it may fetch it again", func() bool {
		c := s.dial(t, "127.0.0.1")
		defer c.Close()
		return get(c, "a") == http.StatusOK
	})
}

// What shows no token ends, whatever it asks and however slowly; so does what an ended pod holds.
func TestAConnectionWithoutATokenEnds(t *testing.T) {
	n := usual
	n.header = 300 * time.Millisecond
	s := call(t, n)
	for what, words := range map[string]string{
		"silence":           "",
		"half a header":     "GET /v1/code HTTP/1.1\r\nHost:",
		"no token":          "GET /v1/code HTTP/1.1\r\nHost: comb\r\n\r\n",
		"a wrong token":     "GET /v1/code HTTP/1.1\r\nHost: comb\r\nAuthorization: Bearer a:b\r\n\r\n",
		"another path":      "GET /other HTTP/1.1\r\nHost: comb\r\n\r\n",
		"a path to clean":   "GET //v1//code HTTP/1.1\r\nHost: comb\r\n\r\n",
		"options":           "OPTIONS * HTTP/1.1\r\nHost: comb\r\n\r\n",
		"a body that waits": "POST /v1/usage HTTP/1.1\r\nHost: comb\r\nContent-Length: 100\r\n\r\n{",
		"a pod that ended":  "GET /other HTTP/1.1\r\nHost: comb\r\nAuthorization: Bearer ended:endedended\r\n\r\n",
	} {
		c := s.dial(t, "127.0.0.1")
		if _, err := io.WriteString(c, words); err != nil {
			t.Fatal(err)
		}
		ends(t, what, c)
	}
}

// Connections without a token are bounded for each address and for all: the oldest goes, and one
// that shows its token is answered.
func TestConnectionsWithoutATokenAreBounded(t *testing.T) {
	n := usual
	n.unknown, n.all, n.header = 4, 10, time.Minute
	s := call(t, n)
	holds := map[string][]net.Conn{}
	for i := range 9 {
		holds["127.0.0.1"] = append(holds["127.0.0.1"], s.dial(t, "127.0.0.1"))
		if c := s.dial(t, "127.0.0.1"); i < 3 {
			holds["127.0.0.1"] = append(holds["127.0.0.1"], c)
		} else if status, err := ask(c, "a", "/v1/usage"); status != http.StatusNoContent && status != http.StatusTooManyRequests {
			t.Fatalf("a pod behind an address that is at its bound is answered %d, %v", status, err)
		} else {
			c.Close()
		}
	}
	for _, c := range holds["127.0.0.1"][:len(holds["127.0.0.1"])-4] {
		ends(t, "the oldest of an address", c)
	}
	if n := strings.Count(s.log.String(), "address=127.0.0.1 connections=4"); n != 1 {
		t.Errorf("the address is warned of %d times", n)
	}
	s.mu.Lock()
	s.said = s.said.Add(-time.Second) // there is one line a second: this is a second later
	s.mu.Unlock()
	for i := range 20 {
		s.dial(t, fmt.Sprintf("127.0.1.%d", i+1))
	}
	for _, c := range holds["127.0.0.1"] {
		ends(t, "the oldest of all", c)
	}
	if status, err := ask(s.dial(t, "127.0.0.1"), "b", "/v1/usage"); status != http.StatusNoContent {
		t.Errorf("while all are taken a pod is answered %d, %v", status, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.Len() > 10 || s.allWithoutToken.of[""] != s.waiting.Len() || s.unknown.of["127.0.0.1"] > 4 {
		t.Errorf("%d wait, of %v", s.waiting.Len(), s.unknown.of)
	}
	if n := strings.Count(s.log.String(), "connections=10"); n != 1 {
		t.Errorf("all are warned of %d times", n)
	}
}
