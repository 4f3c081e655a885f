package server

import (
	"context"
	"net"
)

// listener gives conns.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp}, nil
	}
	return c, err
}

// conn is a client's connection; nil where it is of another kind.
type conn struct{ *net.TCPConn }

// space bounds what the kernel keeps for a client that does not read.
func (c *conn) space(bytes int) {
	if c != nil {
		_ = c.SetWriteBuffer(bytes)
	}
}

// connKey carries the connection in a request's context.
type connKey struct{}

// withConn tells a request's handlers what connection it came over.
func withConn(ctx context.Context, c net.Conn) context.Context {
	own, _ := c.(*conn)
	return markLocal(context.WithValue(ctx, connKey{}, own), c)
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
