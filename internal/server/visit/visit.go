// Package visit carries commands beside tasks and connections to their ports over WebSockets, for as long as
// the visitor may be there. It must not decide that, and knows neither jobs nor tokens.
package visit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/rest"
)

const (
	firstMessage = 10 * time.Second
	checkEvery   = 2 * time.Second  // whether it must end
	pingEvery    = 20 * time.Second // keeps connections open on their way
	stuck        = 10 * time.Minute // that a client may take nothing
	lastWords    = time.Minute      // to say how it ended
	drained      = time.Second      // for output that comes behind the end of a command
	chunk        = 32 << 10
	longestNote  = 200 // of a command in an event, in bytes
	mostShown    = 32  // words of it
)

// Visit is one user in one task.
type Visit struct {
	ID      string // of its events
	Task    string // the task's name
	By      string // the user's
	Context context.Context
	Closing <-chan struct{} // closed when the server ends
	// Start starts a command; Problem is its error for the user.
	Start   func(context.Context, executor.Command) (*executor.Session, error)
	Problem func(error) *rest.Problem
	// Over says why the visit must end now; nil is that it may go on.
	Over func() *rest.Problem
	Note func(string)        // takes what is to be known of it
	Hide func(string) string // leaves out what must not be read
}

// watch waits until the visit must end, and says why; nil is that ctx is done.
func (v *Visit) watch(ctx context.Context, ws *websocket.Conn) *rest.Problem {
	check, ping := time.NewTicker(checkEvery), time.NewTicker(pingEvery)
	defer check.Stop()
	defer ping.Stop()
	lost := make(chan struct{}, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			return rest.NewProblem(http.StatusRequestTimeout, rest.CodeInvalid, "the client is gone")
		case <-v.Closing:
			return rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable, "the server is stopping")
		case <-ping.C:
			go pinged(ctx, ws, lost)
		case <-check.C:
			if p := v.Over(); p != nil {
				return p
			}
		}
	}
}

// pinged pings a client, and tells when it is gone.
func pinged(ctx context.Context, ws *websocket.Conn, lost chan<- struct{}) {
	within, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	if ws.Ping(within) != nil && ctx.Err() == nil {
		select {
		case lost <- struct{}{}:
		default:
		}
	}
}

// Exec runs one command, which is the first message.
func (v *Visit) Exec(ws *websocket.Conn) {
	ctx, cancel := context.WithCancel(v.Context)
	defer cancel()
	var request rest.ExecRequest
	first, stop := context.WithTimeout(ctx, firstMessage)
	kind, body, err := ws.Read(first)
	stop()
	if err != nil {
		return
	}
	if kind != websocket.MessageText || json.Unmarshal(body, &request) != nil {
		v.over(ws, rest.ExecEnd{Problem: rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, "the first message must be a command as JSON in text")})
		return
	}
	over := make(chan *rest.Problem, 1)
	go func() {
		p := v.watch(ctx, ws)
		over <- p
		cancel() // of the wait for the task's turn
	}()
	c := executor.Command{Argv: request.Command, Term: request.Term}
	if t := request.Terminal; t != nil {
		c.Terminal = &executor.Size{Rows: t.Rows, Cols: t.Cols}
	}
	session, err := v.Start(ctx, c)
	if err != nil {
		v.over(ws, rest.ExecEnd{Problem: v.Problem(err)})
		return
	}
	began := time.Now()
	v.note("exec %s in %s by %s: %s", v.ID, v.Task, v.By, v.shown(request.Command))
	end := v.carry(ws, session, over)
	text := fmt.Sprintf("exit code %d", end.Code)
	if end.Why != "" {
		text = end.Why
	}
	v.note("exec %s ended after %v: %s", v.ID, time.Since(began).Round(time.Second), text)
	v.over(ws, end)
}

// over says how a command ended.
func (v *Visit) over(ws *websocket.Conn, end rest.ExecEnd) {
	body, err := json.Marshal(end)
	if err != nil {
		panic(fmt.Sprintf("an end is no JSON: %v", err))
	}
	ctx, cancel := context.WithTimeout(v.Context, lastWords)
	defer cancel()
	if ws.Write(ctx, websocket.MessageBinary, append([]byte{rest.ExecOver}, body...)) == nil {
		_ = ws.Close(websocket.StatusNormalClosure, "")
	}
}

// carry moves a command's streams until it has ended, or must.
func (v *Visit) carry(ws *websocket.Conn, session *executor.Session, over <-chan *rest.Problem) rest.ExecEnd {
	defer session.Close()
	ctx := v.Context // the end of one would cut the connection before its last message
	gone, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		feed(ctx, ws, session)
	}()
	var outs sync.WaitGroup
	outs.Go(func() { pump(ctx, ws, rest.ExecStdout, session.Stdout, ended) })
	if session.Stderr != nil {
		outs.Go(func() { pump(ctx, ws, rest.ExecStderr, session.Stderr, ended) })
	}
	result := make(chan rest.ExecEnd, 1)
	go func() {
		e, err := session.Wait()
		out := rest.ExecEnd{Code: e.Code, Signal: e.Signal, Why: e.Why}
		if err != nil {
			out = rest.ExecEnd{Code: 1, Why: "its end was not seen: " + err.Error()}
		}
		close(ended)
		hurryUp(session.Stdout)
		hurryUp(session.Stderr)
		outs.Wait()
		result <- out
	}()
	select {
	case end := <-result:
		return end
	case <-gone:
		return rest.ExecEnd{Code: 1, Why: "its client is gone"}
	case p := <-over:
		return rest.ExecEnd{Code: 1, Why: p.Detail}
	}
}

// feed hands what the client sends to a command, until the client is gone.
func feed(ctx context.Context, ws *websocket.Conn, s *executor.Session) {
	for {
		_, message, err := ws.Read(ctx)
		if err != nil {
			return
		}
		if len(message) == 0 {
			continue
		}
		switch data := message[1:]; message[0] {
		case rest.ExecStdin:
			if len(data) == 0 {
				_ = s.Stdin.Close()
			} else {
				_, _ = s.Stdin.Write(data) // a command may close its input, and go on
			}
		case rest.ExecResize:
			var z executor.Size
			if json.Unmarshal(data, &z) == nil {
				_ = s.Resize(z) // one that has ended has no size
			}
		}
	}
}

// pump sends what a command prints. Behind its end only what is there already.
func pump(ctx context.Context, ws *websocket.Conn, kind byte, from io.Reader, ended <-chan struct{}) {
	buf := make([]byte, 1+chunk)
	buf[0] = kind
	for {
		select {
		case <-ended:
			hurryUp(from)
		default:
		}
		n, err := from.Read(buf[1:])
		if n > 0 && ws.Write(ctx, websocket.MessageBinary, buf[:1+n]) != nil || err != nil {
			return
		}
	}
}

// hurryUp ends the wait for output that may never come: what a command left behind can hold its streams open.
func hurryUp(r io.Reader) {
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = d.SetReadDeadline(time.Now().Add(drained))
	}
}

// Use notes the use of a port until its client leaves, or must.
func (v *Visit) Use(ws *websocket.Conn, port uint16) {
	began := time.Now()
	v.note("port-forward %s to port %d of %s by %s", v.ID, port, v.Task, v.By)
	ctx, cancel := context.WithCancel(ws.CloseRead(v.Context))
	defer cancel()
	why := "its client left"
	if p := v.watch(ctx, ws); p != nil {
		why = p.Detail
		if body, err := json.Marshal(p); err == nil {
			_ = ws.Write(v.Context, websocket.MessageText, body)
			_ = ws.Close(websocket.StatusNormalClosure, "")
		}
	}
	v.note("port-forward %s ended after %v: %s", v.ID, time.Since(began).Round(time.Second), why)
}

// Connect carries bytes to and from a port until either end leaves, or must.
func (v *Visit) Connect(ws *websocket.Conn, conn net.Conn) {
	ctx, cancel := context.WithCancel(v.Context)
	defer cancel()
	go func() {
		if v.watch(ctx, ws) != nil {
			cancel()
		}
	}()
	_ = rest.Relay(ctx, ws, conn) // either end may leave
}

func (v *Visit) note(format string, args ...any) { v.Note(fmt.Sprintf(format, args...)) }

// shown is a command in an event: short, and without what must not be seen.
func (v *Visit) shown(command []string) string {
	hidden := slices.Clone(command[:min(len(command), mostShown)])
	for i, word := range hidden {
		hidden[i] = v.Hide(word) // before it is quoted, which would change what a secret looks like
	}
	text := rest.Words(hidden)
	if len(command) > mostShown {
		text += " ..."
	}
	if len(text) > longestNote {
		text = strings.ToValidUTF8(text[:longestNote], "") + "..."
	}
	return text
}
