package contexts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// EndpointFile is the name of the file in which a server tells its own user its address.
const EndpointFile = "server.json"

// Endpoint is a server's address and the place of its token.
type Endpoint struct {
	URL       string `json:"url"`
	TokenFile string `json:"token_file"`
	Socket    string `json:"socket,omitempty"` // for commands of the same user
	PID       int    `json:"pid"`
	Start     uint64 `json:"start,omitempty"` // of that process, since another one may get its number
	Boot      string `json:"boot,omitempty"`  // start of the machine, from which Start counts
}

// lives reports whether the server's process exists.
func (e Endpoint) lives() bool {
	if e.Start != 0 {
		return e.Runs()
	}
	err := unix.Kill(e.PID, 0) // older servers tell no more
	return e.PID > 0 && (err == nil || errors.Is(err, unix.EPERM))
}

// Announce writes the endpoint, for this user only, into each file.
func Announce(e Endpoint, files []string) error {
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

// Withdraw removes what Announce wrote, unless another server has replaced it.
func Withdraw(e Endpoint, files []string) {
	for _, path := range files {
		if have, err := ReadEndpoint(path); err == nil && have == e {
			_ = os.Remove(path)
		}
	}
}

// ReadEndpoint reads an endpoint, if the file is this user's own and no other user could have
// written it: a stranger's server would get the token.
func ReadEndpoint(path string) (Endpoint, error) {
	var e Endpoint
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

// endpoints are the servers that this user started on this machine: first those that live,
// and then the one started last first. The server of the token's file is among them, wherever
// that is. The error is about a file that cannot be trusted.
func endpoints(state, tokenFile string) ([]Endpoint, error) {
	files, _ := filepath.Glob(filepath.Join(state, "server*.json"))
	if tokenFile != "" {
		files = append(files, filepath.Join(filepath.Dir(tokenFile), EndpointFile))
	}
	type known struct {
		Endpoint
		at time.Time
	}
	var list []known
	for _, file := range files {
		e, err := ReadEndpoint(file)
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
	var out []Endpoint
	for _, k := range list {
		out = append(out, k.Endpoint)
	}
	return out, nil
}

// ServerChoice is what the user says about the server.
type ServerChoice struct {
	Server    string // its address; "" is unset
	TokenFile string // "" is unset
	CAFile    string // certificates of the server's authority, PEM; "" is unset
	State     string // folder in which servers of this machine write their endpoints
	Dir       string // folder of the contexts
}

// Target is the server of a command, and its token.
type Target struct {
	URL   string
	Token string
	CA    []byte    // certificates of its authority, PEM; nil is this machine's authorities
	Known *Endpoint // nil if this user did not start it here
	VC    string    // of jobs that name none; "" leaves it to the server
}

// ErrNone is the error where no server is named and none is known.
var ErrNone = errors.New("this user has started none on this machine")

// errAway is the error for the token of a data directory without a known server.
var errAway = errors.New("it is the token of a data directory, and no server of this user runs on that: start it, or name it with --server")

// ofData reports whether a token's file is in a data directory: the token is then only for
// the server of that.
func ofData(tokenFile string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(tokenFile), "cluster-id"))
	return err == nil
}

// Find finds the server and its token: what the user names, then the server of the data
// directory whose token is named, then the current context, then the server that this user
// started last on this machine. A context's token is only sent to its own server.
func (w ServerChoice) Find() (Target, error) {
	list, err := endpoints(w.State, w.TokenFile)
	file, broken := Load(w.Dir)
	if broken != nil && (w.TokenFile == "" || w.Server == "") {
		return Target{}, broken
	}
	out := Target{URL: w.Server}
	now := file.Now()
	own := slices.IndexFunc(list, func(e Endpoint) bool {
		return w.TokenFile != "" &&
			sameFile(e.TokenFile, w.TokenFile)
	})
	switch {
	case out.URL != "":
	case own >= 0: // the token of a data directory is only for its own server
		out.URL = list[own].URL
	case w.TokenFile != "" && (err != nil || ofData(w.TokenFile)):
		return out, cmp.Or(err, errAway)
	case now != nil:
		out.URL = now.Server
	case err != nil:
		return out, err
	case len(list) == 0:
		return out, ErrNone
	default:
		out.URL = list[0].URL
	}
	out.URL = Address(out.URL)
	if i := slices.IndexFunc(list, func(e Endpoint) bool { return Same(e.URL, out.URL) }); i >= 0 {
		out.Known = &list[i]
	}
	if out.CA, err = w.authorities(&file, out.URL); err != nil {
		return out, err
	}
	from := w.TokenFile
	out.VC = file.vcOf(&out, from != "")
	switch c := file.For(out.URL); {
	case from != "":
	case now != nil && Same(now.Server, out.URL):
		out.Token = now.Token
	case out.Known != nil:
		from = out.Known.TokenFile
	case c != nil:
		out.Token = c.Token
	}
	if from != "" {
		out.Token, err = ReadToken(from)
		return out, err
	}
	return out, nil
}

// vcOf is the VC of jobs that name none at a server: that of the context whose token is used;
// none with another token.
func (f *File) vcOf(t *Target, otherToken bool) string {
	now, c := f.Now(), f.For(t.URL)
	switch {
	case otherToken:
		return ""
	case now != nil && Same(now.Server, t.URL):
		return now.VC
	case t.Known != nil:
		return f.LocalVC
	case c != nil:
		return c.VC
	}
	return ""
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// authorities reads the named certificates, else takes those of the server's context.
func (w ServerChoice) authorities(file *File, url string) ([]byte, error) {
	if w.CAFile == "" {
		if c := file.For(url); c != nil && c.CA != "" {
			return []byte(c.CA), nil
		}
		return nil, nil
	}
	f, err := os.Open(w.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates of the server's authority: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCA+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the certificates of the server's authority: %w", err)
	case len(data) > maxCA:
		return nil, fmt.Errorf("%s has more than %d bytes: name a file with the certificate of the server's authority alone", w.CAFile, maxCA)
	}
	return data, nil
}

// maxCA bounds the certificates of an authority, which are stored in the file of contexts.
const maxCA = 8 << 10

// ReadToken reads a file that holds only a token.
func ReadToken(file string) (string, error) {
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
