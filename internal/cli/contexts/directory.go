package contexts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/combsched/comb/internal/executor/process"
)

// Data is the data directory of the server.
func (e Endpoint) Data() string { return filepath.Dir(e.TokenFile) }

// Self is the endpoint of this process, without its addresses.
func Self(tokenFile string) Endpoint {
	return Endpoint{TokenFile: tokenFile, PID: os.Getpid(), Start: process.Of(os.Getpid()).Start, Boot: boot()}
}

// boot identifies the present start of the machine; "" where that is unknown.
func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Runs reports whether the server still runs. Another process may have its number by now.
func (e Endpoint) Runs() bool {
	return e.Start != 0 && e.Boot == boot() && process.ID{PID: e.PID, Start: e.Start}.Alive()
}

// OtherServer returns the server that a file of its cluster names, if it still runs and is not this
// process, which holds the lock of dir. Since that server holds the lock of its own
// directory, it has another directory, or one that was moved away.
func OtherServer(file, dir string) (pid int, where string) {
	e, err := ReadEndpoint(file)
	if err != nil || e.PID == os.Getpid() || !e.Runs() {
		return 0, ""
	}
	if own, err := filepath.Abs(dir); err == nil && own == e.Data() {
		return e.PID, "on the data directory that was here before"
	}
	return e.PID, "with the data directory " + e.Data()
}

// Directory is a data directory that a command reads, and the process of the server on it; 0
// is none.
type Directory struct {
	Path   string
	Server int
}

// Directory finds the data directory: the named one; else that of the named server or the
// current context's, if it runs here; else the default one, if a server runs on it; else that
// of the server that this user started last, while it runs; else the default one.
func (w ServerChoice) Directory(named, otherwise string) Directory {
	d := Directory{Path: named}
	if named == "" {
		d.Path = otherwise
		file, _ := Load(w.Dir)
		meant := w.Server != "" || w.TokenFile != "" || file.Now() != nil
		if e, err := ReadEndpoint(filepath.Join(otherwise, EndpointFile)); meant || err != nil || !e.Runs() { // else a server that runs elsewhere is not meant
			_, gone := os.Stat(otherwise) // then the server started last is meant, even if it was killed
			if t, _ := w.Find(); t.Known != nil && (t.Known.Runs() || gone != nil) {
				d.Path = t.Known.Data()
			}
		}
	}
	if e, err := ReadEndpoint(filepath.Join(d.Path, EndpointFile)); err == nil && e.Runs() {
		d.Server = e.PID
	}
	return d
}

// String names the directory, and says whether a server runs on it; "" for a file, such as
// the journal of a simulation.
func (d Directory) String() string {
	if info, err := os.Stat(d.Path); err == nil && !info.IsDir() {
		return ""
	}
	if d.Server == 0 {
		return d.Path + ", on which no server runs"
	}
	return fmt.Sprintf("%s, of the server with process %d", d.Path, d.Server)
}
