package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/rest"
)

// endpointFile is the name under which a server tells its own user where it is.
const endpointFile = "server.json"

// endpoint is where a server listens and where its token is.
type endpoint struct {
	URL       string `json:"url"`
	TokenFile string `json:"token_file"`
	Socket    string `json:"socket,omitempty"` // for commands of the same user
	PID       int    `json:"pid"`
}

// lives reports whether the server's process is there.
func (e endpoint) lives() bool {
	err := unix.Kill(e.PID, 0)
	return e.PID > 0 && (err == nil || errors.Is(err, unix.EPERM))
}

// endpointFiles are where a server of a data directory says where it is: there, as
// the server that this user started last, and as one of several.
func (a *app) endpointFiles(data, cluster string) []string {
	return []string{filepath.Join(data, endpointFile), filepath.Join(a.stateDir(), endpointFile),
		filepath.Join(a.stateDir(), "server-"+cluster+".json")}
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

// announce writes the endpoint, for this user only, into each file.
func announce(e endpoint, files []string) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	for _, path := range files {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path+".new", append(data, '\n'), 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			return fmt.Errorf("cannot say where the server is: %w", err)
		}
	}
	return nil
}

// withdraw removes what announce wrote, unless another server has replaced it.
func withdraw(e endpoint, files []string) {
	for _, path := range files {
		if have, err := readEndpoint(path); err == nil && have == e {
			_ = os.Remove(path)
		}
	}
}

// readEndpoint reads an endpoint, if it is this user's own and nobody else could
// have written it: a stranger's would get the token.
func readEndpoint(path string) (endpoint, error) {
	var e endpoint
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return e, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return e, err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 || st.Size > 64<<10 {
		return e, fmt.Errorf("%s is not this user's own file; remove it, or use --server", path)
	}
	data := make([]byte, st.Size)
	if _, err := f.ReadAt(data, 0); err != nil {
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("%s cannot be read (%w); remove it, or use --server", path, err)
	}
	return e, nil
}

// endpoints are the servers that this user started on this machine: those that
// live before those that do not, then the one started last first. The server of
// the token's file is among them, wherever its user keeps such things. The error
// is of a file that cannot be trusted.
func (a *app) endpoints(tokenFile string) ([]endpoint, error) {
	files, _ := filepath.Glob(filepath.Join(a.stateDir(), "server*.json"))
	if tokenFile != "" {
		files = append(files, filepath.Join(filepath.Dir(tokenFile), endpointFile))
	}
	type known struct {
		endpoint
		at time.Time
	}
	var list []known
	for _, file := range files {
		e, err := readEndpoint(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(file); err == nil {
			list = append(list, known{e, info.ModTime()})
		}
	}
	slices.SortStableFunc(list, func(a, b known) int {
		if a.lives() != b.lives() {
			return map[bool]int{true: -1, false: 1}[a.lives()]
		}
		return b.at.Compare(a.at)
	})
	var out []endpoint
	for _, k := range list {
		out = append(out, k.endpoint)
	}
	return out, nil
}

// reached is a server that commands were given, and what this machine knows of it.
type reached struct {
	client *rest.Client
	known  *endpoint // nil: this user did not start it here
}

// client finds the server and its token.
func (a *app) client() (*rest.Client, error) {
	r, err := a.reach()
	return r.client, err
}

// reach finds the server and its token: flag, then environment, then the server
// that this user started last on this machine.
func (a *app) reach() (reached, error) {
	var r reached
	file := first(a.tokenFile, a.env("COMB_TOKEN_FILE"))
	list, err := a.endpoints(file)
	url := first(a.server, a.env("COMB_SERVER"))
	if url == "" {
		if err != nil {
			return r, err
		}
		if len(list) == 0 {
			return r, hint{&rest.Unreachable{Err: errors.New("this user has started none on this machine")},
				"start one with: comb serve    or name one with --server or COMB_SERVER"}
		}
		url = list[0].URL
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	url = strings.TrimRight(url, "/")
	if i := slices.IndexFunc(list, func(e endpoint) bool { return strings.TrimRight(e.URL, "/") == url }); i >= 0 {
		r.known = &list[i]
		file = first(file, r.known.TokenFile)
	}
	token := ""
	if file != "" {
		if token, err = readToken(file); err != nil {
			return r, err
		}
	}
	if r.client, err = rest.NewClient(url, token); err != nil {
		return r, err
	}
	r.client.OnWait = func(err error) { fmt.Fprintf(a.errs, "comb: %v; trying again\n", err) }
	return r, nil
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

func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	defer f.Close()
	buf := make([]byte, 1024)
	n, _ := f.Read(buf)
	token := strings.TrimSpace(string(buf[:n]))
	if token == "" || n == len(buf) {
		return "", fmt.Errorf("%s holds no token; the server keeps it as admin-token in its data directory", file)
	}
	return token, nil
}

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
