package server

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

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/duplex"
	"github.com/combsched/comb/internal/executor"
)

const (
	firstMessage = 10 * time.Second
	checkEvery   = 2 * time.Second  // interval of checks whether the visit must end
	silent       = 10 * time.Minute // longest silence of a client, which also answers pings
	lastWords    = time.Minute      // for a client to read what is left, when the visit must end
	drained      = time.Second      // wait for output after the end of a command
	leftOver     = 1 << 20          // bytes of such output, as much as a pipe holds: what follows is not the command's
	longestTerm  = 64               // bytes of a terminal's type
	chunk        = 32 << 10
	longestNote  = 200 // bytes of a command in an event
	mostShown    = 32  // words of it
)

// taskVisit is the visit of one user in one task: a command, or the use of a port.
type taskVisit struct {
	ID      string // of its events
	Task    string // the task's name
	By      string // the user's
	Context context.Context
	Closing <-chan struct{} // closed when the server ends
	// Record records that a command is run, in the form of shown. On an error the command
	// does not run.
	Record func(ctx context.Context, shown string) error
	// Start starts a command. Problem turns its error into one for the user.
	Start   func(context.Context, executor.Command) (*executor.Session, error)
	Problem func(error) *rest.Problem
	// Over says why the visit must end now; nil is that it may go on.
	Over func() *rest.Problem
	Note func(string)        // adds a notice to the job's events
	Hide func(string) string // removes secrets from a text
}

// gone is why a visit ends when its client does.
func gone() *rest.Problem {
	return rest.NewProblem(http.StatusRequestTimeout, rest.CodeInvalid, "its client is gone")
}

// watch waits until the visit must end, and returns why; nil is the end of ctx. left tells
// whether the end of the connection also ends the visit.
func (v *taskVisit) watch(ctx context.Context, ws *duplex.Conn, left func() bool) *rest.Problem {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	go ws.Keep(duplex.PingEvery)
	leave := ws.Gone()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-leave:
			if left() {
				return gone()
			}
			leave = nil
		case <-v.Closing:
			return rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable, "the server is stopping")
		case <-check.C:
			if ws.Silent() > silent {
				return gone()
			}
			if p := v.Over(); p != nil {
				return p
			}
		}
	}
}

func always() bool { return true }

// Exec runs one command, which is the first message. Further messages are kept until it runs.
func (v *taskVisit) Exec(ws *duplex.Conn) {
	first, stop := context.WithTimeout(v.Context, firstMessage)
	kind, body, err := ws.Read(first)
	stop()
	if err != nil {
		return
	}
	ws.Limit(rest.MaxExecMessage)
	// run ends when the visit must end, and last when its last output must be sent.
	run, cancel := context.WithCancel(v.Context)
	last, end := context.WithCancel(v.Context)
	defer cancel()
	defer end()
	over := make(chan *rest.Problem, 1)
	go func() {
		p := v.watch(run, ws, always)
		over <- p
		cancel()
		if p != nil {
			time.AfterFunc(lastWords, end)
		}
	}()
	c, p := command(kind, body)
	if p != nil {
		v.over(last, ws, rest.ExecEnd{Problem: p})
		return
	}
	session, err := v.start(run, c)
	if err != nil {
		p := v.Problem(err)
		if run.Err() != nil {
			p = <-over
		}
		v.over(last, ws, rest.ExecEnd{Problem: p})
		return
	}
	began := time.Now()
	v.note("exec %s in %s by %s: %s", v.ID, v.Task, v.By, v.shown(c.Argv))
	result := v.carry(ws, session, over)
	text := fmt.Sprintf("exit code %d", result.Code)
	if result.Why != "" {
		text = result.Why
	}
	v.note("exec %s ended after %v: %s", v.ID, time.Since(began).Round(time.Second), text)
	v.over(last, ws, result)
}

func (v *taskVisit) start(ctx context.Context, c executor.Command) (*executor.Session, error) {
	if err := v.Record(ctx, v.shown(c.Argv)); err != nil {
		return nil, err
	}
	return v.Start(ctx, c)
}

// command reads the first message.
func command(kind websocket.MessageType, body []byte) (c executor.Command, p *rest.Problem) {
	var request rest.ExecRequest
	if kind != websocket.MessageText || json.Unmarshal(body, &request) != nil {
		return c, rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, "the first message must be a command as JSON in text")
	}
	if len(request.Term) > longestTerm || strings.ContainsFunc(request.Term, func(r rune) bool { return r < '!' || r > '~' }) {
		return c, rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid,
			fmt.Sprintf("term must be the kind of a terminal, such as xterm-256color: at most %d letters, digits and signs", longestTerm))
	}
	c = executor.Command{Argv: request.Command, Term: request.Term}
	if t := request.Terminal; t != nil {
		c.Terminal = &executor.Size{Rows: t.Rows, Cols: t.Cols}
	}
	return c, nil
}

// over sends how a command ended, and closes the connection once the client has read it.
func (v *taskVisit) over(ctx context.Context, ws *duplex.Conn, end rest.ExecEnd) {
	body, err := json.Marshal(end)
	if err != nil {
		panic(fmt.Sprintf("an end is no JSON: %v", err))
	}
	if ws.Write(ctx, websocket.MessageBinary, append([]byte{rest.ExecOver}, body...)) == nil {
		ws.Close(ctx)
	}
}

// carry copies a command's streams until it has ended, or must end.
func (v *taskVisit) carry(ws *duplex.Conn, session *executor.Session, over <-chan *rest.Problem) rest.ExecEnd {
	defer session.Close()
	ctx, cancel := context.WithCancel(v.Context)
	defer cancel()
	go feed(ctx, ws, session)
	ended := make(chan struct{})
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
		hurryUp(session.Stdout, drained)
		hurryUp(session.Stderr, drained)
		outs.Wait()
		result <- out
	}()
	select {
	case end := <-result:
		return end
	case p := <-over:
		return rest.ExecEnd{Code: 1, Why: p.Detail}
	}
}

// feed passes messages of the client to a command, until the client is gone or the command
// has ended.
func feed(ctx context.Context, ws *duplex.Conn, s *executor.Session) {
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
				_ = s.Resize(z) // an ended command has no size
			}
		}
	}
}

// pump sends the output of a command. After its end it sends only what is there already:
// processes that the command leaves behind can hold its streams open, and print for ever. So
// waiting and bytes are bounded then, but not the client's time to read them.
func pump(ctx context.Context, ws *duplex.Conn, kind byte, from io.Reader, ended <-chan struct{}) {
	buf := make([]byte, 1+chunk)
	buf[0] = kind
	for wait, left := drained, leftOver; wait > 0 && left > 0; {
		over := false
		select {
		case <-ended:
			over = true
			hurryUp(from, wait)
		default:
		}
		began := time.Now()
		n, err := from.Read(buf[1:])
		if over {
			wait -= time.Since(began)
			left -= n
		}
		if n > 0 && ws.Write(ctx, websocket.MessageBinary, buf[:1+n]) != nil || err != nil {
			return
		}
	}
}

// hurryUp bounds the wait for output.
func hurryUp(r io.Reader, wait time.Duration) {
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = d.SetReadDeadline(time.Now().Add(wait))
	}
}

// Use notes the use of a port until its client leaves, or must.
func (v *taskVisit) Use(ws *duplex.Conn, port uint16) {
	began := time.Now()
	v.note("port-forward %s to port %d of %s by %s", v.ID, port, v.Task, v.By)
	go func() {
		if _, _, err := ws.Read(v.Context); err == nil {
			ws.CloseNow() // no message is needed
		}
	}()
	p := v.watch(v.Context, ws, always)
	if body, err := json.Marshal(p); err == nil {
		ctx, cancel := context.WithTimeout(v.Context, lastWords)
		defer cancel()
		_ = ws.Write(ctx, websocket.MessageText, body)
		ws.Close(ctx)
	}
	v.note("port-forward %s ended after %v: %s", v.ID, time.Since(began).Round(time.Second), p.Detail)
}

// Connect copies bytes to and from a port until either end leaves, or must.
func (v *taskVisit) Connect(ws *duplex.Conn, conn net.Conn) {
	ctx, cancel := context.WithCancel(v.Context)
	defer cancel()
	go func() {
		if v.watch(ctx, ws, ws.Broke) != nil { // bytes that came before an orderly end are still copied
			cancel()
		}
	}()
	_ = rest.Relay(ctx, ws, conn) // either end may leave
}

func (v *taskVisit) note(format string, args ...any) { v.Note(fmt.Sprintf(format, args...)) }

// shown is a command in an event and in the audit log: shortened, and without secrets.
func (v *taskVisit) shown(command []string) string {
	hidden := slices.Clone(command[:min(len(command), mostShown)])
	for i, word := range hidden {
		hidden[i] = v.Hide(word) // before quoting, which would change how a secret looks
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
