// Package duplex makes WebSockets on which neither direction delays the other, nor the pings that
// show that a side is alive. Writes go through an outbox: a writer waits until the other side has
// taken enough, while pings and their answers pass. Incoming messages are read at once, into a
// queue of bounded size. The package must not know what messages mean.
package duplex

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// PingEvery is how often each side shows that it is alive, which also keeps the connection open
// in between.
const PingEvery = 20 * time.Second

// Sizes in bytes.
const (
	queued  = 64 << 10 // bytes of messages that wait to be read; at least one has room
	perItem = 64       // what an empty message counts as
)

// Conn is a WebSocket. Its methods may be called from many goroutines, Read only from one.
type Conn struct {
	ws   *websocket.Conn
	out  *outbox
	gone chan struct{} // closed when nothing more comes

	mu    sync.Mutex
	queue []message
	size  int
	err   error         // why nothing more comes
	more  chan struct{} // wakes Read
	room  chan struct{} // wakes the reading goroutine
	heard time.Time     // when something last came, or this side could not have noticed it
	full  bool          // the reading goroutine waits for room
}

type message struct {
	kind websocket.MessageType
	data []byte
}

// Accept makes a request a WebSocket with messages of at most limit bytes. If it fails, it has
// answered the request.
func Accept(w http.ResponseWriter, r *http.Request, limit int64) (*Conn, error) {
	h := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{OnPingReceived: func(context.Context, []byte) bool { return h.out.answers() }})
	if err != nil {
		return nil, err
	}
	return begin(ws, h.out, limit), nil
}

// hijacker puts an outbox in front of the connection of a request.
type hijacker struct {
	http.ResponseWriter
	out *outbox
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, b, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.out = newOutbox(c)
	return lingering{c, h.out}, bufio.NewReadWriter(b.Reader, bufio.NewWriter(h.out)), nil
}

// lingering is a connection behind an outbox.
type lingering struct {
	net.Conn
	*outbox
}

// Read implements io.Reader.
func (l lingering) Read(p []byte) (int, error) { return l.outbox.Read(p) }

// Write implements io.Writer.
func (l lingering) Write(p []byte) (int, error) { return l.outbox.Write(p) }

// Close implements io.Closer.
func (l lingering) Close() error { return l.outbox.Close() }

// Dial opens a WebSocket with messages of at most limit bytes. It returns the response even if
// that is a refusal.
func Dial(ctx context.Context, url string, client *http.Client, header http.Header, limit int64) (*Conn, *http.Response, error) {
	t := &transport{base: client.Transport}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	own := *client
	own.Transport = t
	ws, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &own, HTTPHeader: header,
		OnPingReceived: func(context.Context, []byte) bool { return t.out.answers() }})
	if err != nil {
		if t.out != nil {
			t.out.Close()
		}
		return nil, resp, err
	}
	return begin(ws, t.out, limit), resp, nil
}

// transport puts an outbox in front of the connection of an upgraded response.
type transport struct {
	base http.RoundTripper
	out  *outbox
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	if c, ok := resp.Body.(io.ReadWriteCloser); ok {
		t.out = newOutbox(c)
		resp.Body = t.out
	}
	return resp, nil
}

func begin(ws *websocket.Conn, out *outbox, limit int64) *Conn {
	ws.SetReadLimit(limit)
	c := &Conn{ws: ws, out: out, gone: make(chan struct{}), more: make(chan struct{}, 1), room: make(chan struct{}, 1), heard: time.Now()}
	go c.read()
	return c
}

// read queues what comes until the connection ends.
func (c *Conn) read() {
	defer close(c.gone)
	for {
		kind, data, err := c.ws.Read(context.Background())
		if err == nil {
			err = c.push(message{kind, data})
		}
		if err == nil {
			continue
		}
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		tell(c.more)
		return
	}
}

// push queues a message, once there is room.
func (c *Conn) push(m message) error {
	for {
		c.mu.Lock()
		if c.full = c.size >= queued; !c.full {
			c.queue = append(c.queue, m)
			c.size += perItem + len(m.data)
			c.heard = time.Now()
			c.mu.Unlock()
			tell(c.more)
			return nil
		}
		c.mu.Unlock()
		select {
		case <-c.room:
		case <-c.out.closed:
			return net.ErrClosed
		}
	}
}

// tell wakes a waiting goroutine; one call is remembered if none waits.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read returns the next message. After the last one it returns why none follows. The end of ctx
// only ends the wait.
func (c *Conn) Read(ctx context.Context) (websocket.MessageType, []byte, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			m := c.queue[0]
			c.queue[0] = message{}
			c.queue = c.queue[1:]
			c.size -= perItem + len(m.data)
			c.mu.Unlock()
			tell(c.room)
			return m.kind, m.data, nil
		}
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return 0, nil, err
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

// Write writes one message, once the other side has taken enough of earlier ones. The end of ctx
// only ends the wait.
func (c *Conn) Write(ctx context.Context, kind websocket.MessageType, data []byte) error {
	if err := c.out.wait(ctx, window); err != nil {
		return err
	}
	return c.ws.Write(context.Background(), kind, data) // into the outbox, which never waits
}

// Gone is closed when nothing more comes from the other side, even if not all was read.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Broke reports whether the connection ended without a closing message.
func (c *Conn) Broke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil && websocket.CloseStatus(c.err) != websocket.StatusNormalClosure
}

// Limit bounds later messages, in bytes.
func (c *Conn) Limit(bytes int64) { c.ws.SetReadLimit(bytes) }

// Silent is how long nothing came from the other side although it could have. The time does not
// count while this side has no room for more, or while the other side does not take what was
// written.
func (c *Conn) Silent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.full || c.out.size() > 0 {
		c.heard = now
	}
	if at := c.out.heardAt(); at.After(c.heard) {
		c.heard = at
	}
	return now.Sub(c.heard)
}

// Keep pings again and again until the connection ends, except while earlier bytes wait to be
// taken.
func (c *Conn) Keep(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-tick.C:
		}
		if c.out.size() > 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), every)
		_ = c.ws.Ping(ctx) // what counts is what comes back, whenever it does
		cancel()
	}
}

// Close ends the connection once the other side has taken all that was written, or ctx ends.
func (c *Conn) Close(ctx context.Context) {
	if c.out.wait(ctx, 1) == nil {
		c.out.linger()
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
	}
	c.CloseNow()
}

// CloseNow ends the connection.
func (c *Conn) CloseNow() { _ = c.ws.CloseNow() }
