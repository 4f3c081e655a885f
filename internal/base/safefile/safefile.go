// Package safefile keeps records of a task as small files of its folder. Each is written once or
// replaced as a whole, so that a reader never sees a half of one. What a task may have put in the
// place of one is removed or refused, and never followed. It must not know what the files say.
package safefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Longest bounds what is read of any file, in bytes: a task may run as the same user
// and could make it long.
const Longest = 4 << 20

// Write replaces a file as a whole. It does not wait for the disk: the content only matters until
// the machine is rebooted.
func Write(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	tmp := filepath.Join(dir, name+".new")
	if err := WriteNew(tmp, data); err != nil {
		return err
	}
	return Replace(tmp, filepath.Join(dir, name))
}

// WriteNew writes a file that must not exist. What a task may have put there is removed and never
// opened: opening a pipe would wait for its other end.
func WriteNew(path string, data []byte) error {
	f, err := CreateNew(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// CreateNew makes a file that must not exist, as WriteNew does.
func CreateNew(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return f, ownAsFolder(f)
}

// ownAsFolder gives a file to the owner of its folder: process 1 of a container reads what a
// server that is root writes.
func ownAsFolder(f *os.File) error {
	var st unix.Stat_t
	if os.Geteuid() != 0 || unix.Stat(filepath.Dir(f.Name()), &st) != nil || st.Uid == 0 {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

// Replace renames a file over whatever has the name, even a directory that a task made there.
func Replace(from, to string) error {
	err := os.Rename(from, to)
	if st, statErr := os.Lstat(to); err == nil || statErr != nil || !st.IsDir() {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Read reads a file of a task's directory, never through a link.
func Read(dir, name string, v any) error {
	f, err := OpenPlain(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, Longest))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// SyncDir waits until the names in a folder are on the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// ErrNotPlain says that something else than a plain file stands where one belongs.
var ErrNotPlain = errors.New("is not a plain file")

// OpenPlain opens a plain file for reading: not through a link in its last element, and without
// waiting for the other end of a pipe.
func OpenPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s %w", path, ErrNotPlain)
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotPlain)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
