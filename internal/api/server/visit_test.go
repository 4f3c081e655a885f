package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/test/testkit"
)

// Exec implements Entry: a command prints what it is, and then what it is sent, until it is closed.
// "refused" is, "suspended" waits for its turn, and "leftover" ends at once and leaves something
// behind that prints for ever.
func (m *fakeMachine) Exec(ctx context.Context, _ executor.TaskRef, c executor.Command) (*executor.Session, error) {
	switch c.Argv[0] {
	case "refused":
		return nil, fmt.Errorf("%w: the reason", executor.ErrRefused)
	case "leftover":
		return leftover()
	case "suspended":
		m.waits.Add(1)
		select {
		case <-m.turn:
		case <-ctx.Done():
			m.abandoned <- ctx.Err()
			return nil, ctx.Err()
		}
	}
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	stderr, errs := io.Pipe()
	ended := make(chan executor.Ended, 1)
	closed := sync.OnceFunc(func() { in.Close(); out.Close(); errs.Close() })
	go func() {
		fmt.Fprintf(out, "%s\n", rest.Words(c.Argv))
		n, _ := io.Copy(out, in)
		fmt.Fprintf(errs, "%d bytes", n)
		ended <- executor.Ended{Code: 3}
		closed()
	}()
	return &executor.Session{Stdin: stdin, Stdout: stdout, Stderr: stderr, Resize: func(executor.Size) error { return nil },
		Wait: func() (executor.Ended, error) { return <-ended, nil }, Close: closed}, nil
}

func leftover() (*executor.Session, error) {
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer out.Close()
		for {
			if _, err := fmt.Fprintln(out, strings.Repeat("more ", 1000)); err != nil {
				return
			}
		}
	}()
	_, in := io.Pipe()
	return &executor.Session{Stdin: in, Stdout: stdout, Resize: func(executor.Size) error { return nil },
		Wait: func() (executor.Ended, error) { return executor.Ended{Code: 4}, nil }, Close: func() { stdout.Close() }}, nil
}

// Dial implements Entry: port 80 says back what it is told.
func (m *fakeMachine) Dial(_ context.Context, _ executor.TaskRef, port uint16) (net.Conn, error) {
	if port != 80 {
		return nil, fmt.Errorf("%w: nothing of the task listens on port %d", executor.ErrRefused, port)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	there, err := l.Accept()
	go func() {
		_, _ = io.Copy(there, there)
		there.Close()
	}()
	return here, err
}

// visited is a world with a running job.
func visited(t *testing.T) (*world, rest.TaskName) {
	w := newWorld(t, 1)
	id := w.submit("open", 1).ID
	w.until("it runs", w.running(id))
	return w, rest.TaskName{Job: rest.JobRef(id), Role: "main"}
}

// notices waits until a job's notes hold a text.
func (w *world) notices(job, text string) {
	w.t.Helper()
	w.until("a note says "+text, func() bool {
		j, err := w.client.Job(w.t.Context(), job)
		return err == nil && strings.Contains(strings.Join(j.Notices, "\n"), text)
	})
}

// TestVisit: a command's streams, its end, what is noted, and what is refused.
func TestVisit(t *testing.T) {
	w, task := visited(t)
	e, err := w.client.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"cat", "a b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	input := strings.Repeat("0123456789", 20_000)
	go func() {
		fmt.Fprint(e, input)
		_ = e.CloseWrite()
	}()
	var out, errs bytes.Buffer
	end, err := e.Follow(&out, &errs)
	if err != nil || end.Code != 3 || out.String() != "cat \"a b\"\n"+input || errs.String() != "200000 bytes" {
		t.Errorf("it ended with %+v: %v, %d bytes and %q", end, err, out.Len(), &errs)
	}
	w.notices(task.Job, `in main-0 by alice: cat "a b"`)
	w.notices(task.Job, "exit code 3")

	e, err = w.client.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"refused"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err = e.Follow(io.Discard, io.Discard); rest.CodeOf(err) != rest.CodeConflict || !strings.Contains(err.Error(), "task main-0 of job open: the reason") {
		t.Errorf("what the executor refuses: %v", err)
	}
	path := "/api/v1/jobs/" + task.Job + "/tasks/main/0/exec"
	upgrade := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
	for name, c := range map[string]struct {
		header map[string]string
		want   int
	}{
		"no WebSocket": {nil, http.StatusUpgradeRequired}, "no token": {map[string]string{"Authorization": ""}, http.StatusUnauthorized},
		"another site": {map[string]string{"Origin": "http://evil.example"}, http.StatusForbidden}, "a page of no site": {map[string]string{"Origin": "null"}, http.StatusForbidden},
		"another host": {map[string]string{"Host": "evil.example"}, http.StatusForbidden},
	} {
		header := map[string]string{}
		if name != "no WebSocket" {
			for k, v := range upgrade {
				header[k] = v
			}
		}
		for k, v := range c.header {
			header[k] = v
		}
		if status, _, body := w.request("GET", path, "", header); status != c.want {
			t.Errorf("%s: status %d, want %d: %s", name, status, c.want, body)
		}
	}
	w.exit(1, 1, 0)
	w.until("it is over", func() bool { j, err := w.client.Job(t.Context(), task.Job); return err == nil && j.Phase.Ended() })
	if _, err := w.client.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"cat"}}); rest.CodeOf(err) != rest.CodeConflict {
		t.Errorf("a task that has ended: %v", err)
	}
}

// TestLeftover: a command that has ended is over, whatever it left behind prints.
func TestLeftover(t *testing.T) {
	w, task := visited(t)
	e := w.enters(task, "leftover")
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	context.AfterFunc(ctx, e.Close)
	if end, err := e.Follow(io.Discard, io.Discard); err != nil || end.Code != 4 || end.Why != "" {
		t.Errorf("it ended with %+v: %v", end, err)
	}
}

// enters begins a command in a task.
func (w *world) enters(task rest.TaskName, command ...string) *rest.Exec {
	w.t.Helper()
	e, err := w.client.Exec(w.t.Context(), task, rest.ExecRequest{Command: command})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(e.Close)
	return e
}

// TestVisitWaits: while a command waits for its task its keys are kept, its client is seen to
// leave, and what ends the wait is said.
func TestVisitWaits(t *testing.T) {
	w, task := visited(t)
	e := w.enters(task, "suspended")
	w.until("it waits", func() bool { return w.logs.waits.Load() == 1 })
	e.Close()
	select {
	case <-w.logs.abandoned:
	case <-time.After(testkit.Patience):
		t.Fatal("the client left, and its command still waits")
	}

	token, made, err := w.store.CreateToken(t.Context(), "other", "alice", wall())
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.NewClient(w.url, token)
	if err != nil {
		t.Fatal(err)
	}
	e, err = client.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"suspended"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := w.store.RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	var p *rest.Problem
	if _, err := e.Follow(io.Discard, io.Discard); !errors.As(err, &p) || p.Detail != "the token is not valid any more" {
		t.Errorf("its token is revoked: %v", err)
	}
	<-w.logs.abandoned

	e = w.enters(task, "suspended")
	fmt.Fprint(e, "some ")
	fmt.Fprint(e, "keys")
	_ = e.CloseWrite()
	w.until("it waits", func() bool { return w.logs.waits.Load() == 3 })
	time.Sleep(300 * time.Millisecond) // the keys come meanwhile, and nothing tells when: later they must do as well
	close(w.logs.turn)
	var out bytes.Buffer
	if end, err := e.Follow(&out, io.Discard); err != nil || end.Code != 3 || out.String() != "suspended\nsome keys" {
		t.Errorf("it ended with %+v: %v and %q", end, err, &out)
	}
}

// TestVisitShare: one user does not take the places of all.
func TestVisitShare(t *testing.T) {
	w, task := visited(t)
	for range 64 {
		w.enters(task, "cat")
	}
	if _, err := w.client.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"cat"}}); rest.CodeOf(err) != rest.CodeBusy ||
		!strings.Contains(err.Error(), "alice has 64 commands and connections in tasks open, the most that one user may have") {
		t.Errorf("the 65th: %v", err)
	}
	token, _, err := w.store.CreateToken(t.Context(), "other", "admin", wall())
	if err != nil {
		t.Fatal(err)
	}
	admin, err := rest.NewClient(w.url, token)
	if err != nil {
		t.Fatal(err)
	}
	e, err := admin.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"cat"}})
	if err != nil {
		t.Fatalf("another user: %v", err)
	}
	e.Close()
}

// TestVisitRights: only a job's user and the administrator enter its tasks, for as long as their
// token is valid.
func TestVisitRights(t *testing.T) {
	w, task := visited(t)
	w.user("bob")
	for user, may := range map[model.Subject]bool{"bob": false, "admin": true, "alice": true} {
		bounds := store.TokenBounds{}
		if user == "bob" {
			bounds.Kind = access.Session
		}
		token, made, err := w.store.SaveToken(t.Context(), store.Token{ID: store.NewTokenID(), Name: "other",
			Subject: user, Created: wall(), TokenBounds: bounds})
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.NewClient(w.url, token)
		if err != nil {
			t.Fatal(err)
		}
		e, err := client.Exec(t.Context(), task, rest.ExecRequest{Command: []string{"cat"}})
		_, portErr := client.Forward(t.Context(), task, 80)
		if !may {
			if rest.CodeOf(err) != rest.CodeNotFound || rest.CodeOf(portErr) != rest.CodeNotFound {
				t.Errorf("%s: %v, %v", user, err, portErr)
			}
			continue
		}
		if err != nil || portErr != nil {
			t.Fatal(err, portErr)
		}
		defer e.Close()
		if _, err := w.store.RevokeToken(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		if end, err := e.Follow(io.Discard, io.Discard); err != nil || end.Why != "the token is not valid any more" {
			t.Errorf("%s, whose token is revoked: %+v, %v", user, end, err)
		}
	}
	w.notices(task.Job, "the token is not valid any more")
}

// TestPorts: a use of a port is noted from its beginning to its end, carries any number of
// connections, and ends with the task.
func TestPorts(t *testing.T) {
	w, task := visited(t)
	use, err := w.client.Forward(t.Context(), task, 80)
	if err != nil {
		t.Fatal(err)
	}
	w.notices(task.Job, "to port 80 of main-0 by alice")
	text := bytes.Repeat([]byte("words "), 50_000)
	for range 3 {
		here, there := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- use.Carry(t.Context(), there) }()
		go func() { _, _ = here.Write(text) }()
		got := make([]byte, len(text))
		if _, err := io.ReadFull(here, got); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("what was sent does not come back: %v", err)
		}
		here.Close()
		select {
		case <-done:
		case <-time.After(testkit.Patience):
			t.Fatal("a connection that is closed goes on")
		}
	}
	wrong, err := w.client.Forward(t.Context(), task, 81)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	defer here.Close()
	var p *rest.Problem
	if err := wrong.Carry(t.Context(), there); !errors.As(err, &p) || !strings.Contains(p.Detail, "nothing of the task listens on port 81") {
		t.Errorf("a port on which nothing listens: %v", err)
	}
	w.exit(1, 1, 0)
	if err := use.Wait(t.Context()); rest.CodeOf(err) != rest.CodeConflict || !strings.Contains(err.Error(), "task main-0 of job open has ended") {
		t.Errorf("the task ended: %v", err)
	}
}
