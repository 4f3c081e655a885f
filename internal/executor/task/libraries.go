package task

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/executor/docker"
)

// Libraries are copies of this machine's libraries, in a folder that containers see: the
// machine's own may be replaced while they are used. The zero value says that this program needs
// none.
type Libraries struct {
	folder string
	loader string // the name, in it, of the loader that starts this program
}

// CollectLibraries copies the libraries that this process was started with into a folder of dir.
func CollectLibraries(dir string) (l Libraries, err error) {
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

// interpreter is the loader of a program; "": it needs none.
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

// soname is the name by which programs ask for a library; "": the file is not a library.
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

// keepFiles writes files into a folder that is named after their content, unless it exists and is
// complete: a full disk or a crash may have cut files. It removes what an interrupted start left.
// Folders of other files stay: containers may have them mounted.
func keepFiles(dir string, files map[string][]byte) (string, error) {
	if err := removeUnfinished(dir); err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	folder := filepath.Join(dir, fmt.Sprintf("libraries.%x", sum.Sum(nil)[:8]))
	if whole(folder, files) {
		return folder, nil
	}
	made, err := os.MkdirTemp(dir, unfinished)
	if err != nil {
		return "", err
	}
	if err = errors.Join(fill(made, files), os.RemoveAll(folder)); err == nil {
		err = os.Rename(made, folder)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(made))
	}
	return folder, safefile.SyncDir(dir)
}

// unfinished begins the name of a folder whose files are incomplete.
const unfinished = "libraries.new"

func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// whole reports whether a folder has these files, to the last byte.
func whole(folder string, files map[string][]byte) bool {
	for name, data := range files {
		if have, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(have, data) {
			return false
		}
	}
	return true
}

// fill writes files into a new folder, readable for the user of process 1 whatever the umask is.
// They are on the disk when it returns.
func fill(folder string, files map[string][]byte) error {
	err := os.Chmod(folder, 0o755)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err != nil {
			return err
		}
		var f *os.File
		if f, err = os.Create(filepath.Join(folder, name)); err == nil {
			_, err = f.Write(files[name])
			err = errors.Join(err, f.Chmod(0o755), f.Sync(), f.Close())
		}
	}
	return errors.Join(err, safefile.SyncDir(folder))
}

// Needed adds to a container the libraries that its process 1 is started with, in a folder of the
// container. An image's own list of libraries to preload is hidden: process 1 would load them,
// too.
func (l Libraries) Needed(b *docker.Box, at string) {
	if l.loader == "" {
		return
	}
	b.Mounts = append(b.Mounts, docker.Mount{Source: l.folder, Target: at, ReadOnly: true})
	b.Command = append(loaderArgs(filepath.Join(at, l.loader)), b.Command...)
	b.Hidden = []string{"/etc/ld.so.preload"}
}

// loaderArgs is how a loader is called to start a program: with the libraries of the loader's own
// folder.
func loaderArgs(loader string) []string {
	return []string{loader, "--library-path", filepath.Dir(loader)}
}

// OwnLibraries is how to start this program once more: by the loader that started it, if there
// was one.
func OwnLibraries() ([]string, error) {
	self, err := os.Executable()
	if err == nil && strings.HasPrefix(filepath.Base(self), "ld-") {
		return append(loaderArgs(self), os.Args[0]), nil
	}
	return []string{self}, err
}
