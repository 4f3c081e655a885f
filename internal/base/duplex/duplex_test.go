package duplex

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/combsched/comb/internal/test/testkit"
)

const limit = 256 << 10

// pair is a WebSocket's two ends.
func pair(t *testing.T) (server, client *Conn) {
	t.Helper()
	made := make(chan *Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Accept(w, r, limit)
		if err != nil {
			t.Error(err)
		}
		made <- c
	}))
	t.Cleanup(s.Close)
	client, _, err := Dial(t.Context(), s.URL, s.Client(), nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	server = <-made
	t.Cleanup(func() { client.CloseNow(); server.CloseNow() })
	return server, client
}

// comes fails when something does not come, however busy the machine is.
func comes(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		t.Fatalf("%s takes more than %v", what, testkit.Patience)
	}
}

// TestSlow: neither side reads for longer than a ping may take, while both write and ping; then all
// arrives.
func TestSlow(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	const messages = 400
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 2048)
	write := func(c *Conn) {
		for range messages {
			if err := c.Write(t.Context(), websocket.MessageBinary, chunk); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	}
	for _, c := range []*Conn{server, client} {
		go write(c)
		go func() { // also while bytes wait, as clients of other kinds do
			for t.Context().Err() == nil {
				// Without an end of its own: one that comes while its bytes wait closes
				// the connection.
				_ = c.ws.Ping(t.Context())
			}
		}()
	}
	full := func(c *Conn) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.full
	}
	testkit.Wait(t, "neither side has room for more", func() bool { return full(server) && full(client) })
	for range 140 {
		if s := max(server.Silent(), client.Silent()); s > 0 {
			t.Errorf("a side that is not read counts as silent for %v", s)
		}
		time.Sleep(50 * time.Millisecond) // 7 s together, which is longer than a ping may take
	}
	for name, c := range map[string]*Conn{"server": server, "client": client} {
		for i := range messages {
			kind, data, err := c.Read(t.Context())
			if err != nil || kind != websocket.MessageBinary || !bytes.Equal(data, chunk) {
				t.Fatalf("message %d to the %s: %d bytes, %v", i, name, len(data), err)
			}
		}
	}
}

// TestSilent: a side that sends nothing is silent until it is pinged, or pings.
func TestSilent(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	testkit.Wait(t, "it is silent", func() bool { return server.Silent() >= 200*time.Millisecond })
	go client.Keep(50 * time.Millisecond)
	heard, before := 0, server.Silent()
	testkit.WaitFor(t, func() string { return fmt.Sprintf("the client is heard 10 times; it was %d times", heard) }, func() bool {
		now := server.Silent()
		if now < before {
			heard++
		}
		before = now
		return heard >= 10
	})
}

// TestGone: that the other side leaves is noticed while nothing is read, and what it had sent is
// there; also behind a full queue.
func TestGone(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	for _, text := range []string{"one", "two"} {
		if err := client.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	client.Close(t.Context())
	comes(t, "noticing that the client left", server.Gone())
	for _, want := range []string{"one", "two"} {
		if _, data, err := server.Read(t.Context()); err != nil || string(data) != want {
			t.Errorf("read %q, %v, want %q", data, err, want)
		}
	}
	if _, _, err := server.Read(t.Context()); err == nil {
		t.Error("there is more than was sent")
	}

	server, client = pair(t)
	go server.Keep(100 * time.Millisecond)
	full, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	for client.Write(full, websocket.MessageBinary, make([]byte, 32<<10)) == nil {
	}
	server.mu.Lock()
	size := server.size
	server.mu.Unlock()
	if size > queued+limit {
		t.Errorf("%d bytes are queued", size)
	}
	client.CloseNow()
	comes(t, "noticing that the client left behind a full queue", server.Gone())
}

// TestLastWord: what was written before Close arrives, however slowly it is read.
func TestLastWord(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	closed := make(chan struct{})
	text := bytes.Repeat([]byte("word"), 50_000)
	go func() {
		defer close(closed)
		for range 40 {
			_ = server.Write(t.Context(), websocket.MessageBinary, text)
		}
		server.Close(t.Context())
	}()
	for i := range 40 {
		if i < 7 {
			time.Sleep(time.Second) // the pace of the reader: slower than a goodbye may take
			_ = client.Write(t.Context(), websocket.MessageBinary, []byte("unread"))
		}
		if _, data, err := client.Read(t.Context()); err != nil || !bytes.Equal(data, text) {
			t.Fatalf("message %d: %d bytes, %v", i, len(data), err)
		}
	}
	comes(t, "closing", closed)
	comes(t, "the end at the client", client.Gone())
}
