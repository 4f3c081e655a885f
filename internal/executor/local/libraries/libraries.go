// Package libraries has what this program is started with where it was built with cgo:
// containers, of which it is process 1, have other libraries, or none. It must not know tasks.
package libraries

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/executor/local/container"
)

// Set are copies of this machine's libraries, in a folder that containers see: those of the
// machine may be replaced while they are used. The zero value is that this program needs none.
type Set struct {
	folder string
	loader string // the name of the program in it that starts this one
}

// Own copies into a folder of dir what this process was started with.
func Own(dir string) (l Set, err error) {
	self, err := os.Executable()
	if err != nil {
		return l, err
	}
	loader, err := interpreter(self)
	if err != nil || loader == "" {
		return l, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return l, err
	}
	files := map[string][]byte{}
	for line := range strings.Lines(string(maps)) {
		if _, path, ok := strings.Cut(line, "/"); ok {
			path = "/" + strings.TrimSuffix(path, "\n")
			if name := soname(path); name != "" && path != self {
				if files[name], err = os.ReadFile(path); err != nil {
					return l, err
				}
			}
		}
	}
	l.loader = filepath.Base(loader)
	if files[l.loader], err = os.ReadFile(loader); err != nil {
		return l, err
	}
	l.folder, err = keepFiles(dir, files)
	return l, err
}

// interpreter is what a program is started by; "" is that it needs nothing.
func interpreter(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz)
			_, err := p.ReadAt(text, 0)
			return strings.TrimRight(string(text), "\x00"), err
		}
	}
	return "", nil
}

// soname is the name by which programs ask for a library; "" is that a file is none.
func soname(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if names, err := f.DynString(elf.DT_SONAME); err == nil && len(names) == 1 && !strings.Contains(names[0], "/") {
		return names[0]
	}
	return ""
}

// keepFiles writes files into a folder that is named after what they hold, unless it is there.
func keepFiles(dir string, files map[string][]byte) (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	folder := filepath.Join(dir, fmt.Sprintf("libraries.%x", sum.Sum(nil)[:8]))
	if _, err := os.Lstat(folder); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	made, err := os.MkdirTemp(dir, "libraries.new")
	if err != nil {
		return "", err
	}
	err = os.Chmod(made, 0o755) // for the user of process 1, whatever the umask
	for name, data := range files {
		path := filepath.Join(made, name)
		err = errors.Join(err, os.WriteFile(path, data, 0o755), os.Chmod(path, 0o755))
	}
	return folder, errors.Join(err, os.Rename(made, folder))
}

// Needed adds to a container what its process 1 is started with, in a folder of the container.
// An image's own list of libraries that are loaded into every program is hidden: process 1
// would load them, too.
func (l Set) Needed(b *container.Box, at string) {
	if l.loader == "" {
		return
	}
	b.Mounts = append(b.Mounts, container.Mount{Source: l.folder, Target: at, ReadOnly: true})
	b.Command = append(by(filepath.Join(at, l.loader)), b.Command...)
	b.Hidden = []string{"/etc/ld.so.preload"}
}

// by is how a loader starts a program that stands behind it: with the libraries of the loader's
// own folder.
func by(loader string) []string { return []string{loader, "--library-path", filepath.Dir(loader)} }

// Self is how this program is started once more: by the loader that started it, if there was
// one.
func Self() ([]string, error) {
	self, err := os.Executable()
	if err == nil && strings.HasPrefix(filepath.Base(self), "ld-") {
		return append(by(self), os.Args[0]), nil
	}
	return []string{self}, err
}
