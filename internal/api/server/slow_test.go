package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// tokenOf makes a token of another user.
func (w *world) tokenOf(who model.Subject) string {
	w.t.Helper()
	token, _, err := w.store.CreateToken(context.Background(), "test", who, wall())
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// begin sends the head of a request with a body.
func (w *world) begin(token, request string, header ...string) net.Conn {
	c := w.dial()
	fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/yaml\r\n%s\r\n\r\n",
		request, token, strings.Join(header, "\r\n"))
	return c
}

// trickle sends a body a piece at a time until there is an answer.
func trickle(t *testing.T, c net.Conn, piece string) (status int, p rest.Problem) {
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				_, _ = io.WriteString(c, piece) // it may be refused already
			}
		}
	})
	defer sender.Wait()
	defer close(stop)
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return 0, p
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, checkProblem(t, "a slow body", resp.StatusCode, resp.Header, string(text))
}

// TestSlowBodies: five users send 20 bodies each, a byte at a time. Each may have 16 of them under
// way, all together 64; the others are refused soon, these when they are too slow. Who sends at
// once is served, whoever it is.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	type answer struct {
		status int
		detail string
	}
	var mu sync.Mutex
	count := map[answer]int{}
	var all sync.WaitGroup
	for user := range 5 {
		token := w.tokenOf(model.Subject(fmt.Sprintf("u%d", user)))
		for i := range 20 {
			length, piece := "Content-Length: 3000", "a"
			if i%2 == 1 {
				length, piece = "Transfer-Encoding: chunked", "1\r\na\r\n"
			}
			c := w.begin(token, "POST /api/v1/jobs", length)
			all.Go(func() {
				status, p := trickle(t, c, piece)
				detail, _, _ := strings.Cut(p.Detail, ":")
				mu.Lock()
				defer mu.Unlock()
				count[answer{status, detail}]++
			})
		}
		if status, _, body := w.request("POST", "/api/v1/jobs:validate", "protocolVersion: [", map[string]string{
			"Authorization": "Bearer " + token, "Content-Type": "application/yaml"}); status != http.StatusUnprocessableEntity {
			t.Errorf("beside slow bodies of its user: %d %s", status, body)
		}
	}
	w.submit("quick", 1)
	all.Wait()
	late, one, every := 0, 0, 0
	for a, n := range count {
		switch {
		case a.status == http.StatusRequestTimeout && a.detail == "the body came too slowly":
			late += n
		case a.status == http.StatusTooManyRequests && strings.Contains(a.detail, "as many as one caller may have are coming slowly"):
			one += n
		case a.status == http.StatusTooManyRequests && strings.Contains(a.detail, "as many as this server may have are coming slowly"):
			every += n
		default:
			t.Errorf("%d answers %+v", n, a)
		}
	}
	if late != 64 || one+every != 36 || one < 4 || every < 4 {
		t.Errorf("%d slow bodies were waited for, %d and %d refused for their caller and for all; want 64, and 36 together",
			late, one, every)
	}
	if statuses := described(t)["POST /api/v1/jobs"]; !slices.Contains(statuses, "408") || !slices.Contains(statuses, "429") {
		t.Errorf("of these statuses only some are described: %v", statuses)
	}
	w.submit("after", 1)
}

// TestLargeSlowBodies: a slow body counts by what it may grow to.
func TestLargeSlowBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for range 5 {
		c := w.begin(w.token, "POST /api/v1/config:plan", "Content-Length: 8388608")
		all.Go(func() {
			status, _ := trickle(t, c, "aaaa")
			mu.Lock()
			defer mu.Unlock()
			count[status]++
		})
	}
	all.Wait()
	if count[http.StatusRequestTimeout] != 2 || count[http.StatusTooManyRequests] != 3 {
		t.Errorf("of five slow bodies of up to 8 MiB two may come: %v", count)
	}
}

// TestBodiesAreBounded sends 320 MiB of bodies but for their last bytes: what the server keeps of
// them is bounded.
func TestBodiesAreBounded(t *testing.T) {
	w := newWorld(t, 1)
	text := bytes.Repeat([]byte("#"), rest.MaxConfigBody-1) // all senders share it
	before := heap()
	var all sync.WaitGroup
	for i := range 40 {
		c := w.begin(w.tokenOf(model.Subject(fmt.Sprintf("u%d", i))), "POST /api/v1/config:plan", fmt.Sprintf("Content-Length: %d", rest.MaxConfigBody))
		all.Go(func() { _, _ = c.Write(text) })
	}
	most := 0.0
	for range 40 {
		most = max(most, heap()-before)
		time.Sleep(100 * time.Millisecond) // the pace of the looks, as the bodies come
	}
	if most > 128 {
		t.Errorf("bodies of 40 requests hold %.0f MiB", most)
	}
	t.Logf("bodies of 40 requests held %.0f MiB at most", most)
	w.submit("beside", 1)
	all.Wait()
	w.until("bodies are forgotten", func() bool { return heap()-before < 16 })
}
