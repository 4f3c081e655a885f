package local

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
)

// openTaskDir opens a task's directory element by element. A task may run as the server's user
// and could put a link anywhere in its directory's path: what is opened must be the directory
// itself, and not what a link points to.
func openTaskDir(base, path string) (*os.Root, error) {
	rel, err := filepath.Rel(base, path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	for _, name := range splitPath(rel) {
		next, err := stepInto(root, name)
		root.Close()
		if err != nil {
			return nil, err
		}
		root = next
	}
	return root, nil
}

func splitPath(rel string) []string {
	var names []string
	for rel != "." && rel != "/" && rel != "" {
		names = append([]string{filepath.Base(rel)}, names...)
		rel = filepath.Dir(rel)
	}
	return names
}

func stepInto(root *os.Root, name string) (*os.Root, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, replaced(name, before, "a folder")
	}
	next, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := next.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%w: %s changed while it was opened", executor.ErrReplaced, name)
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// openIn opens a plain file of a directory, never through a link.
func openIn(root *os.Root, name string) (*os.File, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, replaced(name, before, "a plain file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%w: %s changed while it was opened", executor.ErrReplaced, name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// replaced says what stands where a folder or a plain file belongs.
func replaced(name string, have os.FileInfo, want string) error {
	kind := "something special"
	switch {
	case have.Mode()&os.ModeSymlink != 0:
		kind = "a symbolic link"
	case have.IsDir():
		kind = "a folder"
	case have.Mode().IsRegular():
		kind = "a plain file"
	case have.Mode()&os.ModeNamedPipe != 0:
		kind = "a pipe"
	}
	return fmt.Errorf("%w: %s is %s, not %s", executor.ErrReplaced, name, kind, want)
}
