package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/process"
)

// EntryClient is how to reach a task: its folder, and the process that must listen there. A task
// that is a process can put another socket there, so the listener is checked.
type EntryClient struct {
	Dir   string
	Owner process.ID
}

// dialWithin bounds the time to connect.
const dialWithin = 10 * time.Second

// open connects to the task's supervisor, and to no other process.
func (w EntryClient) open() (*net.UnixConn, error) {
	name, release, err := address(w.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", executor.ErrNotRunning, err)
	}
	defer release()
	c, err := net.DialUnix("unix", nil, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%w: its supervisor has not opened a way in, as one of an older version never does", executor.ErrNoEntry)
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w: its supervisor is gone", executor.ErrNotRunning)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", executor.ErrNoEntry, err)
	}
	by, err := peer(c)
	if err == nil && (int(by.Pid) != w.Owner.PID || !w.Owner.Alive()) {
		err = fmt.Errorf("process %d listens in its folder, and its supervisor is %d", by.Pid, w.Owner.PID)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", executor.ErrNoEntry, err)
	}
	return c, nil
}

// ask sends a request and returns the files of the answer. It stops waiting when ctx ends.
func ask(ctx context.Context, c *net.UnixConn, r request) ([]int, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := send(c, r); err != nil {
		return nil, fmt.Errorf("%w: %w", executor.ErrNotRunning, err)
	}
	var a reply
	files, err := receive(c, &a)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("%w: its supervisor did not answer", executor.ErrNotRunning)
	case a.Over:
		err = executor.ErrNotRunning
	case a.Refused != "":
		err = fmt.Errorf("%w: %s", executor.ErrRefused, a.Refused)
	}
	if err != nil {
		closeAll(files)
	}
	return files, err
}

// Dial connects to a port on which the task listens.
func (w EntryClient) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	c, err := w.open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	files, err := ask(ctx, c, request{Port: port})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		closeAll(files)
		return nil, fmt.Errorf("its supervisor sent %d files for a connection", len(files))
	}
	f := os.NewFile(uintptr(files[0]), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// Exec runs a command beside the task. While the task is suspended the command waits.
func (w EntryClient) Exec(ctx context.Context, command executor.Command) (*executor.Session, error) {
	c, err := w.open()
	if err != nil {
		return nil, err
	}
	files, err := ask(ctx, c, request{Command: &command})
	want := 3
	if command.Terminal != nil {
		want = 1
	}
	if err == nil && len(files) != want {
		closeAll(files)
		err = fmt.Errorf("its supervisor sent %d files for a command", len(files))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	streams := make([]*os.File, want)
	for i, fd := range files {
		_ = unix.SetNonblock(fd, true) // so that closing it ends a read
		streams[i] = os.NewFile(uintptr(fd), "stream")
	}
	s := &executor.Session{Stdin: streams[0], Wait: func() (executor.Ended, error) { return wait(c) }}
	if command.Terminal != nil {
		s.Stdin, s.Stdout = keyboard{streams[0]}, streams[0]
	} else {
		s.Stdout, s.Stderr = streams[1], streams[2]
	}
	s.Resize = func(z executor.Size) error {
		if command.Terminal == nil {
			return nil
		}
		return resize(streams[0], z)
	}
	s.Close = func() {
		c.Close()
		for _, f := range streams {
			f.Close()
		}
	}
	return s, nil
}

// keyboard is the input of a terminal: its end is a character that the user types, not a closed
// file.
type keyboard struct{ *os.File }

// Close implements io.Closer.
func (keyboard) Close() error { return nil }

// wait reads how a command ended.
func wait(c *net.UnixConn) (executor.Ended, error) {
	var a reply
	files, err := receive(c, &a)
	closeAll(files)
	if err != nil || a.Ended == nil {
		return executor.Ended{}, fmt.Errorf("%w any more: its supervisor is gone, and all that ran with it", executor.ErrNotRunning)
	}
	return *a.Ended, nil
}
