package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/combsched/comb/internal/base/duplex"
)

// ExecRequest is the first message, as JSON, of a connection that runs a command beside a task.
type ExecRequest struct {
	Command  []string  `json:"command" doc:"Program and arguments, not a shell line"`
	Terminal *TermSize `json:"terminal,omitempty" doc:"It gets a terminal of this size; without, its streams are pipes"`
	Term     string    `json:"term,omitempty" doc:"Kind of that terminal, such as xterm-256color"`
}

// TermSize is the size of a terminal in characters.
type TermSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// All further messages are binary. Their first byte is one of these.
const (
	ExecStdin  = 0 // from the client: input; without data the end of input
	ExecStdout = 1 // output
	ExecStderr = 2
	ExecOver   = 3 // the last message: ExecEnd as JSON
	ExecResize = 4 // from the client: TermSize as JSON
)

// ExecEnd says how a command ended, or why it did not start.
type ExecEnd struct {
	Code    int      `json:"code"`
	Signal  int      `json:"signal,omitempty"`
	Why     string   `json:"why,omitempty"`     // why the server ended it; "" if it ended by itself
	Problem *Problem `json:"problem,omitempty"` // why it did not start
}

// Sizes of messages, in bytes.
const (
	MaxExecRequest = 1 << 20 // of the first one, enough for the longest command in JSON
	MaxExecMessage = 256 << 10
	entryChunk     = 32 << 10
)

// TaskName names a task of a job.
type TaskName struct {
	Job   string
	Role  string
	Index int32
}

// String is the task's name in its job.
func (t TaskName) String() string { return fmt.Sprintf("%s-%d", t.Role, t.Index) }

func (t TaskName) path() string {
	return fmt.Sprintf("/jobs/%s/tasks/%s/%d", element(t.Job), element(t.Role), t.Index)
}

// upgrade opens a WebSocket.
func (c *Client) upgrade(ctx context.Context, path string) (*duplex.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ws, resp, err := duplex.Dial(ctx, c.base.String()+Prefix+path, c.http, http.Header{"Authorization": {"Bearer " + c.token}}, MaxExecMessage)
	switch {
	case err == nil:
		go ws.Keep(duplex.PingEvery)
		return ws, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, problemOf(resp)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, &Unreachable{URL: c.base.String(), Err: rootCause(err)}
}

// Exec is a command that runs beside a task.
type Exec struct {
	ctx context.Context
	ws  *duplex.Conn
	url string
}

// Exec starts a command beside a task. It ends with ctx.
func (c *Client) Exec(ctx context.Context, t TaskName, r ExecRequest) (*Exec, error) {
	ws, err := c.upgrade(ctx, t.path()+"/exec")
	if err != nil {
		return nil, err
	}
	e := &Exec{ctx: ctx, ws: ws, url: c.URL()}
	body, err := encode(r)
	if err == nil && len(body) > MaxExecRequest {
		err = fmt.Errorf("the command has %d bytes as JSON, more than %d", len(body), MaxExecRequest)
	}
	if err == nil {
		err = ws.Write(ctx, websocket.MessageText, body)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Write implements io.Writer. It writes to the command's input.
func (e *Exec) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		end := min(n+entryChunk, len(p))
		if err := e.send(ExecStdin, p[n:end]); err != nil {
			return n, err
		}
		n = end
	}
	return len(p), nil
}

// CloseWrite ends the command's input.
func (e *Exec) CloseWrite() error { return e.send(ExecStdin, nil) }

// Resize tells the command that the terminal has another size.
func (e *Exec) Resize(z TermSize) error {
	body, err := encode(z)
	if err != nil {
		return err
	}
	return e.send(ExecResize, body)
}

func (e *Exec) send(kind byte, data []byte) error {
	return e.ws.Write(e.ctx, websocket.MessageBinary, append([]byte{kind}, data...))
}

// Follow writes the command's output, and returns how it ended.
func (e *Exec) Follow(out, errs io.Writer) (ExecEnd, error) {
	var end ExecEnd
	for {
		_, message, err := e.ws.Read(e.ctx)
		if err != nil {
			if e.ctx.Err() != nil {
				return end, e.ctx.Err()
			}
			return end, &Unreachable{URL: e.url, Err: errors.New("the connection broke; the command was ended")}
		}
		if len(message) == 0 {
			continue
		}
		switch data := message[1:]; message[0] {
		case ExecStdout:
			_, err = out.Write(data)
		case ExecStderr:
			_, err = errs.Write(data)
		case ExecOver:
			if err = json.Unmarshal(data, &end); err == nil && end.Problem != nil {
				err = end.Problem
			}
			return end, err
		}
		if err != nil {
			return end, err
		}
	}
}

// Close ends the command, if it still runs.
func (e *Exec) Close() { e.ws.CloseNow() }

// Forwarding is access to a task's port, for as long as it is open.
type Forwarding struct {
	client *Client
	path   string
	ws     *duplex.Conn
}

// Forward opens access to a port of a task.
func (c *Client) Forward(ctx context.Context, t TaskName, port uint16) (*Forwarding, error) {
	f := &Forwarding{client: c, path: fmt.Sprintf("%s/ports/%d", t.path(), port)}
	var err error
	f.ws, err = c.upgrade(ctx, f.path+"?watch=true")
	return f, err
}

// Wait waits until the access ends, and returns why.
func (f *Forwarding) Wait(ctx context.Context) error {
	for {
		_, message, err := f.ws.Read(ctx)
		var p Problem
		switch {
		case ctx.Err() != nil:
			f.ws.CloseNow()
			return ctx.Err()
		case err != nil:
			return &Unreachable{URL: f.client.URL(), Err: errors.New("the connection broke")}
		case json.Unmarshal(message, &p) == nil && p.Status != 0:
			return &p
		}
	}
}

// Carry connects to the port, and copies between it and a connection in both directions,
// until both have ended.
func (f *Forwarding) Carry(ctx context.Context, conn net.Conn) error {
	ws, err := f.client.upgrade(ctx, f.path)
	if err != nil {
		return err
	}
	return Relay(ctx, ws, conn)
}

// closeWithin bounds how long the other side may take to read what was sent, after both
// directions have ended.
const closeWithin = time.Minute

// Relay copies bytes between a WebSocket and a connection in both directions, until both have
// ended. A message without bytes ends one direction.
func Relay(ctx context.Context, ws *duplex.Conn, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer ws.CloseNow()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	done := make(chan error, 2)
	go func() { done <- relayIn(ctx, ws, conn) }()
	go func() { done <- relayOut(ctx, ws, conn) }()
	for range 2 {
		if err := <-done; err != nil {
			return err
		}
	}
	ctx, cancel = context.WithTimeout(ctx, closeWithin)
	defer cancel()
	ws.Close(ctx)
	return nil
}

func relayIn(ctx context.Context, ws *duplex.Conn, conn net.Conn) error {
	for {
		_, message, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if len(message) == 0 {
			if half, ok := conn.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
			return nil
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

func relayOut(ctx context.Context, ws *duplex.Conn, conn net.Conn) error {
	buf := make([]byte, entryChunk)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if err := ws.Write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return ws.Write(ctx, websocket.MessageBinary, nil)
		}
		if err != nil {
			return err
		}
	}
}

// Words writes a command line for people. Arguments with uncommon characters are quoted.
func Words(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("_-./=:,@%+", r)
		}) {
			words[i] = fmt.Sprintf("%q", w)
		}
	}
	return strings.Join(words, " ")
}
