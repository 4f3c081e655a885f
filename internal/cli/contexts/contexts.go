// Package contexts stores which servers a user's commands use, and as which user, in one
// private file with a token for each. It must not talk to a server.
package contexts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/document"
)

// Local is the name of the context that always exists: the server that this user started on
// this machine.
const Local = "local"

const (
	fileName    = "config.yaml"
	maxFile     = 1 << 20
	maxContexts = 100
)

// Context is one server and the user's account there.
type Context struct {
	Name    string `yaml:"name" json:"name"`
	Server  string `yaml:"server" json:"server"`
	User    string `yaml:"user" json:"user"`
	Token   string `yaml:"token" json:"-"`
	Expires int64  `yaml:"expires,omitempty" json:"expires,omitempty"` // microseconds since 1970
	CA      string `yaml:"ca,omitempty" json:"-"`                      // certificates of the server's authority, PEM; "" is this machine's authorities
	Ticket  string `yaml:"ticket,omitempty" json:"-"`                  // for the next sign-in of the user
	VC      string `yaml:"vc,omitempty" json:"vc,omitempty"`           // of jobs that name none; "" leaves it to the server
}

// File is a user's contexts. The zero File has only Local.
type File struct {
	Current  string    `yaml:"current,omitempty"` // a name; "" is Local
	LocalVC  string    `yaml:"localVC,omitempty"` // the VC of Local
	Contexts []Context `yaml:"contexts,omitempty"`
}

// Dir is the folder of the file: comb in $XDG_CONFIG_HOME, else in ~/.config. For a user
// without a home it is a folder that does not exist.
func Dir(env func(string) string) string {
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "comb")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "comb")
	}
	return "/nonexistent/comb"
}

// Load reads the file of a folder; a missing one is the zero File. A file that others can
// read or write is refused, since it holds tokens.
func Load(dir string) (File, error) {
	var out File
	path := filepath.Join(dir, fileName)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if errors.Is(err, unix.ELOOP) {
		return out, fmt.Errorf("%s is a link, not a file: remove it and log in again", path)
	}
	if err != nil {
		return out, fmt.Errorf("cannot read the contexts: %w", err)
	}
	defer f.Close()
	if err := own(f, path); err != nil {
		return out, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return out, fmt.Errorf("cannot read the contexts: %w", err)
	}
	if len(data) > maxFile {
		return out, fmt.Errorf("%s has more than %d bytes: remove it and log in again", path, maxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("%s cannot be read as contexts: mend it, or remove it and log in again", path) // an error of YAML could show a token
	}
	return out, out.check(path)
}

// own refuses a file to which other users have access.
func own(f *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is no file: remove it and log in again", path)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, and commands run as user %d: remove it and log in again", path, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%s has mode %04o, so that others can read or write the tokens in it: chmod 600 it; where others may have read it, log in again and end the old session with comb token revoke",
			path, st.Mode&0o777)
	}
	return nil
}

func (f *File) check(path string) error {
	if len(f.Contexts) > maxContexts {
		return fmt.Errorf("%s has %d contexts: at most %d are allowed", path, len(f.Contexts), maxContexts)
	}
	seen := map[string]bool{"": true, Local: true}
	for _, c := range f.Contexts {
		if seen[c.Name] || c.Server == "" {
			return fmt.Errorf("%s: a context needs a server, and a name of its own other than %s: mend the file, or remove it and log in again", path, Local)
		}
		seen[c.Name] = true
	}
	if f.Current != "" && f.Find(f.Current) == nil {
		return fmt.Errorf("%s: the current context %s is not there: choose one with comb context use", path, document.Quote(f.Current))
	}
	return nil
}

// Save writes the file, for this user only.
func Save(dir string, f File) error {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(f); err != nil {
		return err
	}
	path := filepath.Join(dir, fileName)
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		if err = os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err == nil {
		err = write(path, out.Bytes())
	}
	if err != nil {
		return fmt.Errorf("cannot keep the contexts: %w", err)
	}
	return nil
}

// write replaces a file as a whole. The name of its temporary file cannot be guessed, so that
// it follows no link of another user.
func write(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), fileName+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Target is the server of a context.
func (c *Context) Target() Target { return Target{URL: c.Server, Token: c.Token, CA: []byte(c.CA)} }

// Find returns the context of a name; nil if there is none. Local is not in the file.
func (f *File) Find(name string) *Context {
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Contexts[i]
}

// Now returns the current context; nil is Local.
func (f *File) Now() *Context { return f.Find(f.Current) }

// For returns the context of a server: the current one, else the only one. It is nil where
// there is none, or several.
func (f *File) For(server string) *Context {
	if c := f.Now(); c != nil && Same(c.Server, server) {
		return c
	}
	var found *Context
	for i := range f.Contexts {
		if !Same(f.Contexts[i].Server, server) {
			continue
		}
		if found != nil {
			return nil
		}
		found = &f.Contexts[i]
	}
	return found
}

// Same reports whether two addresses are those of one server.
func Same(a, b string) bool { return strings.EqualFold(Address(a), Address(b)) }

// Address is a server's address with its scheme, which the user may omit.
func Address(server string) string {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	return strings.TrimRight(server, "/")
}

// NameOf is the name of a user's context at a server.
func NameOf(user, server string) string {
	_, host, _ := strings.Cut(Address(server), "://")
	return user + "@" + host
}

// Put adds a context or replaces the one of its name, and makes it the current one. If c has
// no VC the old VC stays. It returns the replaced context, if any.
func (f *File) Put(c Context) (was Context) {
	if old := f.Find(c.Name); old != nil {
		c.VC = cmp.Or(c.VC, old.VC)
		was, *old = *old, c
	} else {
		f.Contexts = append(f.Contexts, c)
	}
	f.Current = c.Name
	return was
}

// Use makes a context the current one.
func (f *File) Use(name string) error {
	if name == Local {
		f.Current = ""
		return nil
	}
	if f.Find(name) == nil {
		return f.missing(name)
	}
	f.Current = name
	return nil
}

// SetVC sets the VC of jobs that name none in a context.
func (f *File) SetVC(name, vc string) error {
	c := f.Find(name)
	switch {
	case name == Local:
		f.LocalVC = vc
	case c == nil:
		return f.missing(name)
	default:
		c.VC = vc
	}
	return nil
}

// Delete removes a context and returns it. Local cannot be removed.
func (f *File) Delete(name string) (Context, error) {
	c := f.Find(name)
	if c == nil {
		return Context{}, f.missing(name)
	}
	was := *c
	f.Contexts = slices.DeleteFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if f.Current == name {
		f.Current = ""
	}
	return was, nil
}

// Missing is the error of a context that does not exist.
type Missing struct{ text string }

// Error implements error.
func (m *Missing) Error() string { return m.text }

// Is makes Missing an fs.ErrNotExist.
func (m *Missing) Is(err error) bool { return err == fs.ErrNotExist }

func (f *File) missing(name string) error {
	names := []string{Local}
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	return &Missing{"there is no context " + document.Quote(name) + document.DidYouMean(name, names)}
}
