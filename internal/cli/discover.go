package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/engine/store"
)

// EndpointFiles are the files in which a server of a data directory writes its endpoint:
// there, as the server that this user started last, and as one of several.
func (a *App) EndpointFiles(data, cluster string) []string {
	return []string{filepath.Join(data, contexts.EndpointFile), filepath.Join(a.stateDir(), contexts.EndpointFile),
		filepath.Join(a.stateDir(), "server-"+cluster+".json")}
}

// CheckAlone refuses to serve a copy of a data directory whose server still runs here.
func (a *App) CheckAlone(dir, cluster string) error {
	files := a.EndpointFiles(dir, cluster)
	pid, where := contexts.OtherServer(files[len(files)-1], dir)
	if pid == 0 {
		return nil
	}
	return &store.Refused{Dir: dir, Problem: fmt.Sprintf("it is a copy of that of a server that still runs: process %d, %s; two would end each other's tasks", pid, where),
		Advice: fmt.Sprintf("to go on with this copy, end that server first (kill -INT %d)", pid)}
}

// DefaultDir describes the default of --data where a server may run on the directory.
const DefaultDir = "data directory (default: that of the server that the other commands find, else that of comb serve)"

// DataDir is the data directory that a command reads.
func (a *App) DataDir(named string) contexts.Directory {
	return wanted(a).Directory(named, a.DefaultData())
}

// Unfound adds to an error of a data directory what to do if the directory itself, and not
// another file, was not found.
func Unfound(err error, dir string) error {
	if _, gone := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && errors.Is(gone, fs.ErrNotExist) {
		return Hint{err, "name the data directory of the server with --data"}
	}
	return err
}

// stateDir is the folder in which this user's commands look for the server started last.
func (a *App) stateDir() string { return a.userDir("XDG_STATE_HOME", "state") }

// DefaultData is the default data directory.
func (a *App) DefaultData() string { return a.userDir("XDG_DATA_HOME", "share") }

// userDir is Comb's own folder in one of the user's base folders. A user without a home gets
// one below /nonexistent, where nothing can be written or found, rather than one that depends
// on the present folder.
func (a *App) userDir(variable, name string) string {
	if dir := a.Env(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "comb")
	}
	home := a.Env("HOME")
	if !filepath.IsAbs(home) {
		home = "/nonexistent"
	}
	return filepath.Join(home, ".local", name, "comb")
}

// Reached is the server of a command, and what this machine knows of it.
type Reached struct {
	Client *rest.Client
	known  *contexts.Endpoint // nil if this user did not start it here
}

// Client finds the server and its token.
func (a *App) Client() (*rest.Client, error) {
	r, err := a.Reach()
	return r.Client, err
}

// Reach finds the server and its token: by flag, then environment, then the current context,
// then the server that this user started last on this machine.
func (a *App) Reach() (Reached, error) {
	t, err := a.Target()
	if err != nil {
		return Reached{}, err
	}
	r := Reached{known: t.Known}
	if r.Client, err = Dial(t); err != nil {
		return r, err
	}
	r.Client.DefaultVC = t.VC
	r.Client.OnWait = func(err error) { fmt.Fprintf(a.Errs, "comb: %v; trying again\n", err) }
	r.Client.OnCondition = a.sayOnce()
	return r, nil
}

// sayOnce returns a function that warns of each condition of a server, once however often it is
// called.
func (a *App) sayOnce() func(condition string) {
	var mu sync.Mutex
	said := map[string]bool{}
	return func(condition string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[condition] {
			said[condition] = true
			a.Say("warning: " + condition)
		}
	}
}

// Dial makes the client of a server. A server with TLS that this user started on this machine
// is reached over its socket, where the kernel identifies it: its certificate need not be
// valid for loopback, nor its authority be known here.
func Dial(t contexts.Target) (*rest.Client, error) {
	c, err := rest.NewTrustingClient(t.URL, t.Token, t.CA)
	if err == nil && t.Known != nil && t.Known.Socket != "" && len(t.CA) == 0 && strings.HasPrefix(t.URL, "https://") {
		if local, err := c.Local(context.Background(), t.Known.Socket); err == nil {
			return local, nil
		}
	}
	return c, err
}

// wanted is what flags and environment say about the server.
func wanted(a *App) contexts.ServerChoice {
	return contexts.ServerChoice{Server: First(a.Server, a.Env("COMB_SERVER")),
		TokenFile: First(a.TokenFile, a.Env("COMB_TOKEN_FILE")),
		CAFile:    First(a.TLSCA, a.Env("COMB_TLS_CA")), State: a.stateDir(), Dir: contexts.Dir(a.Env)}
}

// Target is the server of the command.
func (a *App) Target() (contexts.Target, error) {
	t, err := wanted(a).Find()
	if errors.Is(err, contexts.ErrNone) {
		err = Hint{&rest.Unreachable{Err: err},
			"sign in to one with: comb login URL    or start one on this machine with: comb serve"}
	}
	return t, err
}

// Local returns a client over the socket of a server of this user on this machine. The error
// says why the server is not one.
func (r *Reached) Local(ctx context.Context) (*rest.Client, error) {
	switch {
	case r.known == nil:
		return nil, fmt.Errorf("the server at %s is not one that you started on this machine", r.Client.URL())
	case r.known.Socket == "":
		return nil, fmt.Errorf("the server at %s has no socket for commands of its own user", r.Client.URL())
	}
	return r.Client.Local(ctx, r.known.Socket)
}

// ServerNamed reports whether the user named a server.
func (a *App) ServerNamed() bool { return First(a.Server, a.Env("COMB_SERVER")) != "" }

// First is the first of the values that is not empty.
func First(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// ttyIoctl asks the kernel whether a file is a terminal.
func ttyIoctl(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
