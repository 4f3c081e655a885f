package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/process"
)

// EntryHost is what a supervisor tells its EntryServer of its task.
type EntryHost struct {
	// As runs a function with the rights of the task's user on files. nil: the supervisor has
	// that user's rights.
	As func(func())
	// Members are the task's processes, where it shares the machine's network: only ports on
	// which one of them listens can be reached. nil: it has a network of its own.
	Members func() map[int]process.Stat
	// Address is its address in a network of its own; "" is none.
	Address string
}

// EntryServer is the way in to a running task, for commands and connections. Commands wait there
// until the supervisor starts them, since only it knows whether the task runs. A nil EntryServer
// lets none in. Its methods are for the supervisor's loop, except CommandWaits.
type EntryServer struct {
	host  EntryHost
	l     *net.UnixListener
	bell  chan struct{}
	dials chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex
	shut   bool
	guests int
	queue  []*EntryCommand
	inside map[int]*EntryCommand // by the number of their first process
}

// EntryCommand is a command that waits to run beside the task, or runs.
type EntryCommand struct {
	executor.Command
	Files [3]int // its standard streams

	id    process.ID
	why   string // why it was ended by the platform
	begun chan error
	ended chan executor.Ended
}

// errOver says that the task is over.
var errOver = errors.New("the task is over")

// openEntryServer opens the way in to the task of a folder.
func openEntryServer(dir string, host EntryHost) (*EntryServer, error) {
	name, release, err := address(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := os.RemoveAll(name.Name); err != nil { // a task may have put something there
		return nil, err
	}
	l, err := net.ListenUnix("unix", name)
	if err != nil {
		return nil, fmt.Errorf("open a way in to the task: %w", err)
	}
	l.SetUnlinkOnClose(false) // that name is a short one, which is gone by then
	d := &EntryServer{host: host, l: l, bell: make(chan struct{}, 1), dials: make(chan struct{}, maxDials), inside: map[int]*EntryCommand{}}
	go d.listen()
	return d, os.Chmod(name.Name, 0o600)
}

func (d *EntryServer) listen() {
	for {
		c, err := d.l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files
			time.Sleep(100 * time.Millisecond)
			continue
		}
		d.wg.Add(1)
		go func() {
			defer d.wg.Done()
			defer c.Close()
			d.serve(c)
		}()
	}
}

// requestWithin bounds how long a request may take to arrive.
const requestWithin = 10 * time.Second

// serve answers one connection; only the server's user and root are answered.
func (d *EntryServer) serve(c *net.UnixConn) {
	by, err := peer(c)
	if err != nil || by.Uid != 0 && int(by.Uid) != os.Geteuid() {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(requestWithin))
	var r request
	files, err := receive(c, &r)
	closeAll(files)
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	switch {
	case r.Port != 0:
		err = d.connect(c, r.Port)
	case r.Command != nil:
		err = d.command(c, *r.Command)
	}
	if errors.Is(err, errOver) {
		_ = send(c, reply{Over: true})
	} else if err != nil {
		_ = send(c, reply{Refused: err.Error()})
	}
}

// connect hands over a connection to a port of the task.
func (d *EntryServer) connect(c *net.UnixConn, port uint16) error {
	select {
	case d.dials <- struct{}{}:
		defer func() { <-d.dials }()
	default:
		return fmt.Errorf("%d connections to this task are being made already; try again", maxDials)
	}
	to, err := d.host.dial(port)
	if err != nil {
		return err
	}
	defer to.Close()
	raw, err := to.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { _ = send(c, reply{}, int(fd)) }) // a client that is gone wants none
}

// command runs one command from its request to its end.
func (d *EntryServer) command(c *net.UnixConn, command executor.Command) error {
	if err := check(command); err != nil {
		return err
	}
	g := &EntryCommand{Command: command, begun: make(chan error, 1), ended: make(chan executor.Ended, 1)}
	ours, err := d.streams(g)
	if err != nil {
		return err
	}
	defer func() { closeAll(ours) }()
	err = d.enqueue(g)
	if err != nil {
		g.closeFiles()
		return err
	}
	defer d.leave(g)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // nothing is sent behind the request
	}()
	select {
	case err = <-g.begun:
	case <-gone:
		if d.withdraw(g) {
			err = errOver
		} else {
			err = <-g.begun
		}
	}
	g.closeFiles()
	if err != nil {
		return err
	}
	if err := send(c, reply{}, ours...); err != nil {
		g.kill()
		return nil // there is no client to be told
	}
	closeAll(ours)
	ours = nil
	select {
	case end := <-g.ended:
		if !d.over() {
			g.kill() // what it left in its session
		}
		_ = send(c, reply{Ended: &end})
	case <-gone:
		g.kill()
	}
	return nil
}

// check refuses what cannot be run.
func check(c executor.Command) error {
	size := 0
	for _, a := range c.Argv {
		size += len(a) + 1
		if strings.ContainsRune(a, 0) {
			return errors.New("an argument of the command holds a zero byte")
		}
	}
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return errors.New("the command is empty")
	case strings.HasPrefix(c.Argv[0], "-"):
		return fmt.Errorf("the command begins with %q, which is no name of a program", c.Argv[0])
	case size > executor.MaxCommand:
		return fmt.Errorf("the command has %d bytes, and it may have %d", size, executor.MaxCommand)
	}
	return nil
}

// streams makes a command's standard streams: those of the command, and those for the server.
func (d *EntryServer) streams(g *EntryCommand) (ours []int, err error) {
	if g.Terminal != nil {
		as := d.host.As
		if as == nil {
			as = func(f func()) { f() }
		}
		var here, there int
		if as(func() { here, there, err = terminal(*g.Terminal) }); err != nil {
			return nil, err
		}
		g.Files = [3]int{there, there, there}
		return []int{here}, nil
	}
	for i := range g.Files {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			closeAll(ours)
			closeAll(g.Files[:i])
			return nil, fmt.Errorf("make the streams of a command: %w", err)
		}
		if i == 0 {
			p[0], p[1] = p[1], p[0]
		}
		ours, g.Files[i] = append(ours, p[0]), p[1]
	}
	return ours, nil
}

// closeFiles closes this process's copies of the command's streams.
func (g *EntryCommand) closeFiles() {
	if g.Terminal != nil {
		unix.Close(g.Files[0])
		return
	}
	closeAll(g.Files[:])
}

// enqueue lets a command wait for the supervisor.
func (d *EntryServer) enqueue(g *EntryCommand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.shut:
		return errOver
	case d.guests >= MaxCommands:
		return fmt.Errorf("%d commands run beside this task, the most that it may have; end one", MaxCommands)
	}
	d.guests++
	d.queue = append(d.queue, g)
	select {
	case d.bell <- struct{}{}:
	default:
	}
	return nil
}

func (d *EntryServer) leave(*EntryCommand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests--
}

// withdraw takes back a command that was not started; false says that it was.
func (d *EntryServer) withdraw(g *EntryCommand) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.queue, g)
	if i >= 0 {
		d.queue = slices.Delete(d.queue, i, i+1)
	}
	return i >= 0
}

// CommandWaits fires when a command waits.
func (d *EntryServer) CommandWaits() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.bell
}

// StartWaiting starts the waiting commands. start returns the number of a child of this process.
func (d *EntryServer) StartWaiting(start func(*EntryCommand) (int, error)) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.queue {
		pid, err := start(g)
		if err == nil {
			g.id = process.Of(pid)
			g.id.PID = pid
			d.inside[pid] = g
		}
		g.begun <- err
	}
	d.queue = nil
}

// Ended notes the end of a child of this process: it may be a command's first process.
func (d *EntryServer) Ended(pid int, status unix.WaitStatus) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.inside[pid]
	if g == nil {
		return
	}
	delete(d.inside, pid)
	end := executor.Ended{Code: status.ExitStatus(), Why: g.why}
	if status.Signaled() {
		end.Signal = int(status.Signal())
		end.Code = 128 + end.Signal
	}
	g.ended <- end
}

// Busy reports whether commands run whose first process is a child of this one.
func (d *EntryServer) Busy() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.inside) > 0
}

// WithoutCommands removes the commands, and so all processes below them, from a list of processes:
// signals to the task are not for them.
func (d *EntryServer) WithoutCommands(all map[int]process.Stat) map[int]process.Stat {
	if d == nil {
		return all
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for pid := range d.inside {
		delete(all, pid)
	}
	return all
}

// StopAll lets no more in, and ends all commands for a reason.
func (d *EntryServer) StopAll(why string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return
	}
	d.shut = true
	for _, g := range d.queue {
		g.begun <- errOver
	}
	d.queue = nil
	for pid, g := range d.inside {
		g.why = why
		_ = unix.Kill(-pid, unix.SIGKILL) // what is not in its group ends with the task
	}
}

// over reports whether the task ends, and with it all that commands left.
func (d *EntryServer) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}

// Close waits a moment until the clients of all commands know how these ended. Shut was called,
// and the processes are gone.
func (d *EntryServer) Close() {
	if d == nil {
		return
	}
	d.l.Close()
	done := make(chan struct{})
	go func() {
		d.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// kill ends what runs in the command's session and below it.
func (g *EntryCommand) kill() {
	process.KillAll(func() map[int]process.Stat {
		all, err := process.All()
		if err != nil {
			return nil // the rest belongs to the task, and ends with it
		}
		first, lives := all[g.id.PID]
		lives = lives && first.Start == g.id.Start
		if _, other := all[g.id.PID]; other && !lives {
			return nil // the number is another process's now: the session is empty
		}
		found := map[int]bool{}
		for pid, st := range all {
			if st.Session == g.id.PID && st.Start >= g.id.Start {
				found[pid] = true
			}
		}
		process.Descend(all, found)
		members := map[int]process.Stat{}
		for pid := range found {
			members[pid] = all[pid]
		}
		return members
	})
}
