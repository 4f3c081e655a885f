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

// boot is which start of the machine this is; "" where that is not said.
func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Runs reports whether the server is there still: another process may have its number by now.
func (e Endpoint) Runs() bool {
	return e.Start != 0 && e.Boot == boot() && process.ID{PID: e.PID, Start: e.Start}.Alive()
}

// Twin says of the server that a file of its cluster names where it is, if it still runs and is
// another one than this process, which has the lock of dir. That server has the lock of its own
// directory, so it is on another one, or on one that was moved away.
func Twin(file, dir string) (pid int, where string) {
	e, err := ReadEndpoint(file)
	if err != nil || e.PID == os.Getpid() || !e.Runs() {
		return 0, ""
	}
	if own, err := filepath.Abs(dir); err == nil && own == e.Data() {
		return e.PID, "on the data directory that was here before"
	}
	return e.PID, "with the data directory " + e.Data()
}

// Directory is a data directory that a command reads, and the process of the server on it; 0 is
// none.
type Directory struct {
	Path   string
	Server int
}

// Directory finds the data directory that was named; else that of the server which is said or which
// is the current context's, if it runs here; else the default one, if a server runs on it; else
// that of the server which this user started last, while it runs; else the default one.
func (w Wanted) Directory(named, otherwise string) Directory {
	d := Directory{Path: named}
	if named == "" {
		d.Path = otherwise
		file, _ := Load(w.Dir)
		meant := w.Server != "" || w.TokenFile != "" || file.Now() != nil
		if e, err := ReadEndpoint(filepath.Join(otherwise, EndpointFile)); meant || err != nil || !e.Runs() { // else one that was started by the way is not taken for it
			_, gone := os.Stat(otherwise) // then it is that of the server started last, also where that was killed
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

// String says which directory it is, and whether a server runs on it; "" is a file, such as the
// journal of a simulation.
func (d Directory) String() string {
	if info, err := os.Stat(d.Path); err == nil && !info.IsDir() {
		return ""
	}
	if d.Server == 0 {
		return d.Path + ", on which no server runs"
	}
	return fmt.Sprintf("%s, of the server with process %d", d.Path, d.Server)
}
