package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Ask is a command that is run in a pod.
type Ask struct {
	Pod, Container string
	Argv           []string
	Terminal       bool
}

// Running is a command that runs in a pod. Wait may be called once its output is read, or at the
// same time.
type Running struct {
	Stdin          io.WriteCloser
	Stdout, Stderr *io.PipeReader

	conn *websocket.Conn
	ctx  context.Context
	end  context.CancelFunc
	mu   sync.Mutex // of writes
	done chan struct{}
	code int
	why  string
	err  error
}

// Channels of the protocol v5.channel.k8s.io: each message begins with the number of its channel.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelStatus = 3
	channelSize   = 4
	channelClose  = 255
	execProtocol  = "v5.channel.k8s.io"
	largestFrame  = 4 << 20
)

// Exec runs a command in a pod. It ends with the context.
func (c *Client) Exec(ctx context.Context, a Ask) (*Running, error) {
	q := url.Values{"container": {a.Container}, "command": a.Argv, "stdin": {"true"}, "stdout": {"true"}, "stderr": {strconv.FormatBool(!a.Terminal)}, "tty": {strconv.FormatBool(a.Terminal)}}
	target := c.plain.Get().Namespace(c.namespace).Resource("pods").Name(a.Pod).SubResource("exec").URL()
	target.RawQuery = q.Encode()
	ctx, end := context.WithCancel(ctx)
	conn, r, err := websocket.Dial(ctx, target.String(), &websocket.DialOptions{HTTPClient: c.sockets, Subprotocols: []string{execProtocol}})
	if err != nil {
		end()
		if r != nil && r.Body != nil {
			text, _ := io.ReadAll(io.LimitReader(r.Body, 4096))
			var s metav1.Status
			if json.Unmarshal(text, &s) == nil && s.Message != "" {
				return nil, errors.New(s.Message)
			}
		}
		return nil, err
	}
	if conn.Subprotocol() != execProtocol {
		end()
		_ = conn.CloseNow()
		return nil, fmt.Errorf("the API server does not speak %s", execProtocol)
	}
	conn.SetReadLimit(largestFrame)
	v := &Running{conn: conn, ctx: ctx, end: end, done: make(chan struct{})}
	v.Stdin = stdin{v}
	var out, errs *io.PipeWriter
	v.Stdout, out = io.Pipe()
	v.Stderr, errs = io.Pipe()
	go v.read(out, errs)
	return v, nil
}

// read passes on what comes, until the status or the end.
func (v *Running) read(out, errs *io.PipeWriter) {
	defer close(v.done)
	defer errs.Close()
	defer out.Close()
	v.err = errors.New("the connection to the pod broke before the command ended")
	for {
		_, data, err := v.conn.Read(v.ctx)
		if err != nil || len(data) == 0 {
			return
		}
		switch data[0] {
		case channelStdout:
			_, _ = out.Write(data[1:]) // a reader that is gone misses it
		case channelStderr:
			_, _ = errs.Write(data[1:])
		case channelStatus:
			v.code, v.why, v.err = codeOf(data[1:])
			return
		}
	}
}

// codeOf reads how a command ended.
func codeOf(data []byte) (code int, why string, err error) {
	var s metav1.Status
	if err := json.Unmarshal(data, &s); err != nil {
		return 0, "", fmt.Errorf("the end of the command cannot be read: %w", err)
	}
	if s.Status == metav1.StatusSuccess {
		return 0, "", nil
	}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if code, err := strconv.Atoi(c.Message); c.Type == "ExitCode" && err == nil {
				return code, "", nil
			}
		}
	}
	why = strings.TrimSpace(s.Message)
	if at := strings.LastIndex(why, "exec: "); at >= 0 {
		why = strings.TrimSuffix(why[at+len("exec: "):], ": unknown") // the text before it is the runtime's
	}
	if strings.Contains(why, "not found") || strings.Contains(why, "no such file") {
		return 127, why, nil
	}
	return 126, why, nil
}

// Resize changes the size of the terminal, in characters.
func (v *Running) Resize(rows, cols uint16) error {
	return v.write(channelSize, fmt.Appendf(nil, `{"Width":%d,"Height":%d}`, cols, rows))
}

// Wait waits for the end, and returns the exit code. A command that could not be started has 126
// or 127, as in a shell, and why says the reason.
func (v *Running) Wait() (code int, why string, err error) {
	<-v.done
	return v.code, v.why, v.err
}

// Close ends the connection, and with it the command's streams.
func (v *Running) Close() {
	v.end()
	_ = v.conn.CloseNow()
	_ = v.Stdout.Close()
	_ = v.Stderr.Close()
}

func (v *Running) write(channel byte, p []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.conn.Write(v.ctx, websocket.MessageBinary, append([]byte{channel}, p...))
}

type stdin struct{ v *Running }

// Write implements io.Writer.
func (s stdin) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, 32<<10)
		if err := s.v.write(channelStdin, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// Close implements io.Closer: the command reads the end of its input.
func (s stdin) Close() error { return s.v.write(channelClose, []byte{channelStdin}) }

// socketClient is a client for WebSockets, which need HTTP/1.1.
func socketClient(conf *rest.Config) (*http.Client, error) {
	conf = rest.CopyConfig(conf)
	conf.NextProtos = []string{"http/1.1"}
	return rest.HTTPClientFor(conf)
}
