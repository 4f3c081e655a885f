package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/contexts"
	"github.com/combsched/comb/internal/executor/local/process"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/store"
)

// endpointFiles are where a server of a data directory says where it is: there, as
// the server that this user started last, and as one of several.
func (a *app) endpointFiles(data, cluster string) []string {
	return []string{filepath.Join(data, contexts.EndpointFile), filepath.Join(a.stateDir(), contexts.EndpointFile),
		filepath.Join(a.stateDir(), "server-"+cluster+".json")}
}

// runs reports whether the server of an endpoint is there still: another process may have its number by now.
func runs(e contexts.Endpoint) bool {
	return e.Start != 0 && process.ID{PID: e.PID, Start: e.Start}.Alive()
}

// checkAlone refuses to serve a copy of the data directory of a server of this user that still runs here: each would end the tasks that
// the other one started. That server has the lock of its own directory, so it is on another one, or on one that was moved away.
func (a *app) checkAlone(dir, cluster string) error {
	files := a.endpointFiles(dir, cluster)
	e, err := contexts.ReadEndpoint(files[len(files)-1])
	if err != nil || e.PID == os.Getpid() || !runs(e) {
		return nil
	}
	where := "with the data directory " + e.Data()
	if own, err := filepath.Abs(dir); err == nil && own == e.Data() {
		where = "on the data directory that was here before"
	}
	return &store.Refused{Dir: dir, Problem: fmt.Sprintf("it is a copy of that of a server that still runs: process %d, %s; two would end each other's tasks", e.PID, where),
		Advice: fmt.Sprintf("to go on with this copy, end that server first (kill -INT %d)", e.PID)}
}

// defaultDir is said of --data where a server may run on the directory.
const defaultDir = "data directory (default: that of the server that the other commands find, else that of comb serve)"

// dataDir is the data directory that a command reads, and the process of the server on it; 0 is none.
type dataDir struct {
	path   string
	server int
}

// dataDir finds the data directory that was named; else that of the server which the other commands find, or that this user started last,
// while it runs; else the default.
func (a *app) dataDir(named string) dataDir {
	d := dataDir{path: named}
	if named == "" {
		d.path = a.defaultData()
		asked, _ := a.target()
		last, _ := contexts.Wanted{State: a.stateDir(), Dir: "/nonexistent"}.Find()
		for _, t := range []contexts.Target{last, asked} {
			if t.Known != nil && runs(*t.Known) {
				d.path = t.Known.Data()
			}
		}
	}
	if e, err := contexts.ReadEndpoint(filepath.Join(d.path, contexts.EndpointFile)); err == nil && runs(e) {
		d.server = e.PID
	}
	return d
}

// hint is an error of a directory that was not named, with what to do.
func (d dataDir) hint(err error) error {
	if errors.Is(err, fs.ErrNotExist) && d.server == 0 {
		return hint{err, "no server runs on it: name the data directory of the server with --data"}
	}
	return err
}

// draw says which directory it was, and whether a server runs on it.
func (d dataDir) draw(t *table) {
	if info, err := os.Stat(d.path); err == nil && !info.IsDir() {
		return // the journal of a simulation
	}
	text := d.path + ", on which no server runs"
	if d.server != 0 {
		text = fmt.Sprintf("%s, of the server with process %d", d.path, d.server)
	}
	t.row("of directory", text)
}

// stateDir is where this user's commands look for the server started last.
func (a *app) stateDir() string { return a.userDir("XDG_STATE_HOME", "state") }

// defaultData is the default data directory.
func (a *app) defaultData() string { return a.userDir("XDG_DATA_HOME", "share") }

// userDir is Comb's own folder in one of the user's base folders. A user without
// a home gets one below /nonexistent, where nothing can be written or found,
// rather than one that depends on the present folder.
func (a *app) userDir(variable, name string) string {
	if dir := a.env(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "comb")
	}
	home := a.env("HOME")
	if !filepath.IsAbs(home) {
		home = "/nonexistent"
	}
	return filepath.Join(home, ".local", name, "comb")
}

// reached is a server that commands were given, and what this machine knows of it.
type reached struct {
	client *rest.Client
	known  *contexts.Endpoint // nil: this user did not start it here
}

// client finds the server and its token.
func (a *app) client() (*rest.Client, error) {
	r, err := a.reach()
	return r.client, err
}

// reach finds the server and its token: flag, then environment, then the current context, then the
// server that this user started last on this machine.
func (a *app) reach() (reached, error) {
	t, err := a.target()
	if err != nil {
		return reached{}, err
	}
	r := reached{known: t.Known}
	if r.client, err = dial(t); err != nil {
		return r, err
	}
	r.client.OnWait = func(err error) { fmt.Fprintf(a.errs, "comb: %v; trying again\n", err) }
	return r, nil
}

// dial makes the client of a server. One with TLS that this user started on this machine is asked over its socket, where the
// kernel says who answers: its certificate need not be for this machine's loopback, nor its authority known here.
func dial(t contexts.Target) (*rest.Client, error) {
	c, err := rest.NewTrustingClient(t.URL, t.Token, t.CA)
	if err == nil && t.Known != nil && t.Known.Socket != "" && len(t.CA) == 0 && strings.HasPrefix(t.URL, "https://") {
		if local, err := c.Local(context.Background(), t.Known.Socket); err == nil {
			return local, nil
		}
	}
	return c, err
}

func (a *app) target() (contexts.Target, error) {
	t, err := contexts.Wanted{Server: first(a.server, a.env("COMB_SERVER")), TokenFile: first(a.tokenFile, a.env("COMB_TOKEN_FILE")),
		CAFile: first(a.tlsCA, a.env("COMB_TLS_CA")), State: a.stateDir(), Dir: contexts.Dir(a.env)}.Find()
	if errors.Is(err, contexts.ErrNone) {
		err = hint{&rest.Unreachable{Err: err}, "start one with: comb serve    or name one with --server or COMB_SERVER"}
	}
	return t, err
}

// local returns a client over the socket of a server of this user on this machine.
// The error says why the server is none.
func (r *reached) local(ctx context.Context) (*rest.Client, error) {
	switch {
	case r.known == nil:
		return nil, fmt.Errorf("the server at %s is not one that you started on this machine", r.client.URL())
	case r.known.Socket == "":
		return nil, fmt.Errorf("the server at %s has no socket for commands of its own user", r.client.URL())
	}
	return r.client.Local(ctx, r.known.Socket)
}

// serverNamed reports whether the user said which server is meant.
func (a *app) serverNamed() bool { return first(a.server, a.env("COMB_SERVER")) != "" }

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// ttyIoctl asks the kernel, which alone knows.
func ttyIoctl(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
