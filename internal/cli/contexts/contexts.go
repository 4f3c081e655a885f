// Package contexts keeps with which servers a user's commands speak, and as which user: one file of
// that user's alone, with a token for each. It must not speak to a server.
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

// Local is the name of the context that is always there: the server that this user started on this
// machine.
const Local = "local"

const (
	fileName    = "config.yaml"
	maxFile     = 1 << 20
	maxContexts = 100
)

// Context is one server, and as which user it is asked.
type Context struct {
	Name    string `yaml:"name" json:"name"`
	Server  string `yaml:"server" json:"server"`
	User    string `yaml:"user" json:"user"`
	Token   string `yaml:"token" json:"-"`
	Expires int64  `yaml:"expires,omitempty" json:"expires,omitempty"` // microseconds since 1970
	CA      string `yaml:"ca,omitempty" json:"-"`                      // certificates of the server's authority, PEM; "" are those of the machine
	Ticket  string `yaml:"ticket,omitempty" json:"-"`                  // for the next sign-in of the user
	VC      string `yaml:"vc,omitempty" json:"vc,omitempty"`           // of jobs that name none; "": the server says it
}

// File is what a user's commands know. The zero File has no context but Local.
type File struct {
	Current  string    `yaml:"current,omitempty"` // a name; "" is Local
	LocalVC  string    `yaml:"localVC,omitempty"` // the VC of Local
	Contexts []Context `yaml:"contexts,omitempty"`
}

// Dir is the folder of the file: comb in $XDG_CONFIG_HOME, else in ~/.config. A user without a home
// has none, where nothing is found.
func Dir(env func(string) string) string {
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "comb")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "comb")
	}
	return "/nonexistent/comb"
}

// Load reads the file of a folder; none is the zero File. A file that others can read or write is
// refused: it holds tokens.
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

// own refuses a file that is not this user's alone.
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

// Save writes the file, for this user alone.
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

// write replaces a file as a whole. A name that cannot be foreseen keeps what lies there from being
// followed.
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

// Find returns a context of a name; nil if there is none. Local has none.
func (f *File) Find(name string) *Context {
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Contexts[i]
}

// Now returns the current context; nil is Local.
func (f *File) Now() *Context { return f.Find(f.Current) }

// For returns the context of a server: the current one, else the only one. nil where there is none,
// or several.
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

// Same reports whether two addresses are one server's.
func Same(a, b string) bool { return strings.EqualFold(Address(a), Address(b)) }

// Address is a server's address with its scheme, which may be left out.
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

// Put adds a context, or replaces that of its name, and makes it the current one; the VC stays
// where c has none. It returns the one before, if any.
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

// SetVC has jobs in a context be of a VC where they name none.
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

// Delete removes a context and returns it. Local stays.
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

// Missing is the error of a context that is not there.
type Missing struct{ text string }

// Error implements error.
func (m *Missing) Error() string { return m.text }

// Is makes it an error of something that is not there.
func (m *Missing) Is(err error) bool { return err == fs.ErrNotExist }

func (f *File) missing(name string) error {
	names := []string{Local}
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	return &Missing{"there is no context " + document.Quote(name) + document.DidYouMean(name, names)}
}
