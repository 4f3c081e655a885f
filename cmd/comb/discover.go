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

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/engine/store"
)

// endpointFiles are where a server of a data directory says where it is: there, as
// the server that this user started last, and as one of several.
func (a *app) endpointFiles(data, cluster string) []string {
	return []string{filepath.Join(data, contexts.EndpointFile), filepath.Join(a.stateDir(), contexts.EndpointFile),
		filepath.Join(a.stateDir(), "server-"+cluster+".json")}
}

// checkAlone refuses to serve a copy of the data directory of a server of this user that still runs
// here.
func (a *app) checkAlone(dir, cluster string) error {
	files := a.endpointFiles(dir, cluster)
	pid, where := contexts.Twin(files[len(files)-1], dir)
	if pid == 0 {
		return nil
	}
	return &store.Refused{Dir: dir, Problem: fmt.Sprintf("it is a copy of that of a server that still runs: process %d, %s; two would end each other's tasks", pid, where),
		Advice: fmt.Sprintf("to go on with this copy, end that server first (kill -INT %d)", pid)}
}

// defaultDir is said of --data where a server may run on the directory.
const defaultDir = "data directory (default: that of the server that the other commands find, else that of comb serve)"

// dataDir is the data directory that a command reads.
func (a *app) dataDir(named string) contexts.Directory {
	return wanted(a).Directory(named, a.defaultData())
}

// unfound is an error of a data directory, with what to do where that was not found, not another
// file.
func unfound(err error, dir string) error {
	if _, gone := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && errors.Is(gone, fs.ErrNotExist) {
		return hint{err, "name the data directory of the server with --data"}
	}
	return err
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
	r.client.DefaultVC = t.VC
	r.client.OnWait = func(err error) { fmt.Fprintf(a.errs, "comb: %v; trying again\n", err) }
	return r, nil
}

// dial makes the client of a server. One with TLS that this user started on this machine is asked
// over its socket, where the kernel says who answers: its certificate need not be for this
// machine's loopback, nor its authority known here.
func dial(t contexts.Target) (*rest.Client, error) {
	c, err := rest.NewTrustingClient(t.URL, t.Token, t.CA)
	if err == nil && t.Known != nil && t.Known.Socket != "" && len(t.CA) == 0 && strings.HasPrefix(t.URL, "https://") {
		if local, err := c.Local(context.Background(), t.Known.Socket); err == nil {
			return local, nil
		}
	}
	return c, err
}

// wanted is what flags and environment say of the server that is meant.
func wanted(a *app) contexts.Wanted {
	return contexts.Wanted{Server: first(a.server, a.env("COMB_SERVER")), TokenFile: first(a.tokenFile, a.env("COMB_TOKEN_FILE")),
		CAFile: first(a.tlsCA, a.env("COMB_TLS_CA")), State: a.stateDir(), Dir: contexts.Dir(a.env)}
}

func (a *app) target() (contexts.Target, error) {
	t, err := wanted(a).Find()
	if errors.Is(err, contexts.ErrNone) {
		err = hint{&rest.Unreachable{Err: err},
			"sign in to one with: comb login URL    or start one on this machine with: comb serve"}
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
