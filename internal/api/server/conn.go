package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

// listener accepts conns.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn is a client's connection; a nil conn is one of another kind. While no handler of the
// server runs, what is written is an answer of net/http itself, which conn turns into a
// problem.
type conn struct {
	net.Conn
	ours atomic.Bool // a handler of the server answers
}

// Write implements io.Writer.
func (c *conn) Write(b []byte) (int, error) {
	p := c.refusal(b)
	if p == nil {
		return c.Conn.Write(b)
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.Conn.Write(problemMessage(p)); err != nil {
		return 0, err
	}
	c.linger()
	return len(b), nil
}

// refusal is the problem to send instead of b; nil where b is to be sent.
func (c *conn) refusal(b []byte) *rest.Problem {
	if bytes.HasPrefix(b, []byte("HTTP/1.0 400 ")) && bytes.Contains(b, []byte("HTTPS server")) {
		return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, "this server speaks TLS: use https:// in its address")
	}
	text, found := bytes.CutPrefix(b, []byte("HTTP/1.1 "))
	if c.ours.Load() || !found || len(text) < 4 {
		return nil
	}
	status, err := strconv.Atoi(string(text[:3]))
	if err != nil || status < 400 {
		return nil
	}
	line, _, _ := bytes.Cut(text[4:], []byte("\r\n"))
	return refusalOf(status, string(line))
}

// refusalOf is the server's text for what net/http refuses. line is net/http's reason.
func refusalOf(status int, line string) *rest.Problem {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return rest.NewProblem(status, rest.CodeTooLarge,
			fmt.Sprintf("the request's first line and headers have more than %d KiB; send less", maxHeader>>10))
	case http.StatusExpectationFailed:
		return rest.NewProblem(status, rest.CodeInvalid, "the header Expect can only ask for 100-continue here; leave it out")
	case http.StatusNotImplemented:
		return rest.NewProblem(status, rest.CodeInvalid,
			"the header Transfer-Encoding can only say chunked; or leave it out and send Content-Length")
	case http.StatusHTTPVersionNotSupported:
		return rest.NewProblem(status, rest.CodeInvalid, "this server speaks HTTP/1.1 and HTTP/1.0 only")
	}
	detail := "the request is not valid HTTP/1.1"
	if _, why, found := strings.Cut(line, ": "); found {
		detail += ": " + why
	}
	return rest.NewProblem(status, rest.CodeInvalid, detail)
}

// problemMessage is a complete answer, after which the connection ends.
func problemMessage(p *rest.Problem) []byte {
	body, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("a problem is no JSON: %v", err))
	}
	h := http.Header{}
	setSecurityHeaders(h)
	h.Set("Content-Type", rest.ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Connection", "close")
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", p.Status, http.StatusText(p.Status))
	_ = h.Write(&out) // a buffer takes everything
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}

// Bounds on what is read and dropped after a refused request. If it stayed unread, closing
// would make the kernel reset the connection, and the client might lose the answer.
const (
	lingerTime = 500 * time.Millisecond
	lingerSize = 1 << 20
)

func (c *conn) linger() {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.Conn, lingerSize)
}

// CloseWrite tells the client that nothing more comes. net/http calls it where it exists.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// answer notes that a handler of the server answers now.
func (c *conn) answer() {
	if c != nil {
		c.ours.Store(true)
	}
}

// connState is called by net/http: between two requests no handler runs.
func connState(c net.Conn, state http.ConnState) {
	if own := ownConn(c); own != nil && state == http.StateIdle {
		own.ours.Store(false)
	}
}

// ownConn finds the conn below a TLS connection; nil where it is of another kind.
func ownConn(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// space bounds the kernel's buffer for a client that does not read.
func (c *conn) space(bytes int) {
	if c == nil {
		return
	}
	if buffered, ok := c.Conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = buffered.SetWriteBuffer(bytes)
	}
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

// withConn puts the connection into the context of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	own := ownConn(c)
	if own != nil {
		c = own.Conn
	}
	return markLocal(context.WithValue(ctx, connKey{}, own), c)
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
