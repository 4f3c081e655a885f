package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/rest"
)

// endpointFile is the name under which a server tells its own user where it is.
const endpointFile = "server.json"

// endpoint is where a server listens and where its token is.
type endpoint struct {
	URL       string `json:"url"`
	TokenFile string `json:"token_file"`
	PID       int    `json:"pid"`
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

// announce writes the endpoint, for this user only, into each directory.
func announce(e endpoint, dirs ...string) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("cannot say where the server is: %w", err)
		}
		path := filepath.Join(dir, endpointFile)
		if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
			return fmt.Errorf("cannot say where the server is: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("cannot say where the server is: %w", err)
		}
	}
	return nil
}

// withdraw removes what announce wrote, unless another server has replaced it.
func withdraw(e endpoint, dirs ...string) {
	for _, dir := range dirs {
		if have, err := readEndpoint(filepath.Join(dir, endpointFile)); err == nil && have == e {
			_ = os.Remove(filepath.Join(dir, endpointFile))
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

// client finds the server and its token: flag, then environment, then the server
// that this user started last on this machine.
func (a *app) client() (*rest.Client, error) {
	known, knownErr := readEndpoint(filepath.Join(a.stateDir(), endpointFile))
	url := first(a.server, a.env("COMB_SERVER"))
	if url == "" {
		if errors.Is(knownErr, fs.ErrNotExist) {
			return nil, hint{&rest.Unreachable{Err: errors.New("this user has started none on this machine")},
				"start one with: comb serve    or name one with --server or COMB_SERVER"}
		}
		if knownErr != nil {
			return nil, knownErr
		}
		url = known.URL
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	file := first(a.tokenFile, a.env("COMB_TOKEN_FILE"))
	if file == "" && strings.TrimRight(url, "/") == strings.TrimRight(known.URL, "/") {
		file = known.TokenFile
	}
	token := ""
	if file != "" {
		var err error
		if token, err = readToken(file); err != nil {
			return nil, err
		}
	}
	c, err := rest.NewClient(url, token)
	if err != nil {
		return nil, err
	}
	c.OnWait = func(err error) { fmt.Fprintf(a.errs, "comb: %v; trying again\n", err) }
	return c, nil
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
