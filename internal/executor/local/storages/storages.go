// Package storages finds the folders of storages on this machine: those that the cluster file
// names, and below them those of single users. It must not mount anything and knows no tasks.
package storages

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/storage"
)

// Seen is a storage as a task sees it.
type Seen struct {
	Name, At string
	ReadOnly bool
}

// All finds the folders of a job's storages on this machine. find returns one that its virtual
// cluster may use now; nil has none.
func All(find func(cell.VCName, string) (storage.Storage, bool), job *sched.Job) (list []Seen, err error) {
	for _, name := range job.Storages {
		var s storage.Storage
		ok := false
		if find != nil {
			s, ok = find(job.VC, name)
		}
		if !ok {
			return nil, fmt.Errorf("VC %s has no storage %s any more: an administrator adds it to the cluster file again, or submit the job without it", job.VC, name)
		}
		at, err := Folder(&s, string(job.User))
		if err != nil {
			return nil, err
		}
		list = append(list, Seen{s.Name, at, s.ReadOnly})
	}
	return list, nil
}

// Inside are storages where a container sees them.
func Inside(list []Seen) []Seen {
	inside := make([]Seen, len(list))
	for i, s := range list {
		inside[i] = Seen{s.Name, storage.Top + "/" + s.Name, s.ReadOnly}
	}
	return inside
}

// Writable says which storages a process could write although they are read-only: it runs as the
// server's user. "" is none.
func Writable(list []Seen) string {
	var names []string
	for _, s := range list {
		if s.ReadOnly {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Folder is the folder of a storage that a user's tasks see; a user's own is made where it is
// missing. Its errors name the storage and no path of this machine, since users read them.
func Folder(s *storage.Storage, user string) (string, error) {
	root, err := os.OpenRoot(s.Folder)
	if err != nil {
		return "", fault(s, "its folder cannot be opened: "+cause(err))
	}
	defer root.Close()
	if !s.PerUser {
		return s.Folder, nil
	}
	if _, err := storage.UserFolder(user); err != nil {
		return "", fault(s, err.Error())
	}
	if err := own(root, user); err != nil {
		return "", fault(s, fmt.Sprintf("the folder of the user %s in it: %s", user, cause(err)))
	}
	return s.Folder + "/" + user, nil
}

// Apart refuses storages that hold a file or folder of the platform, or lie in it: jobs would
// see secrets. Nor may one lie in another, or be the same folder where users have folders of their own: jobs that may
// use the one would see, and replace, what is in the other. Links are followed, as far as there is something.
func Apart(list []storage.Storage, kept ...string) error {
	for i, s := range list {
		folder := leadsTo(s.Folder)
		for _, o := range list[:i] {
			other := leadsTo(o.Folder)
			if same := folder == other; same && (s.PerUser || o.PerUser) || !same && (within(folder, other) || within(other, folder)) {
				return fmt.Errorf("the storages %s and %s lie in one another (%s, %s), so that jobs with the one see the other: give them folders apart", o.Name, s.Name, o.Folder, s.Folder)
			}
		}
		for _, path := range kept {
			if k := leadsTo(path); within(k, folder) || within(folder, k) {
				return fmt.Errorf("the storage %s is %s, and %s is of the server, which no job may see: give the storage a folder apart from it", s.Name, s.Folder, path)
			}
		}
	}
	return nil
}

// leadsTo is where a path leads, as far as there is something.
func leadsTo(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for rest := ""; ; {
		if to, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
			return filepath.Join(to, rest)
		}
		rest, path = filepath.Join(filepath.Base(path), rest), filepath.Dir(path)
	}
}

func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// errLink says that something else stands in the place of a user's folder. It is not followed:
// it could lead to another user's, or out of the storage.
var errLink = errors.New("something else than a folder is there")

// own makes a user's folder, or finds it. Any user of an image may write there, as in the folder of
// checkpoints: no other user's tasks see it.
func own(root *os.Root, user string) error {
	err := root.Mkdir(user, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	st, err := root.Lstat(user)
	if err == nil && !st.IsDir() {
		return errLink
	}
	if err == nil && begun(root, st) {
		return root.Chmod(user, 0o777)
	}
	return err
}

// begun reports whether a folder is as this process makes it, before it is open: also one that crashed then may have left
// it so. One that was closed on purpose has something in it, or is another user's.
func begun(root *os.Root, st os.FileInfo) bool {
	by, ok := st.Sys().(*syscall.Stat_t)
	if !ok || st.Mode().Perm() != 0o700 || int(by.Uid) != os.Geteuid() {
		return false
	}
	dir, err := root.Open(st.Name())
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.ReadDir(1)
	return err == io.EOF
}

func fault(s *storage.Storage, why string) error {
	return fmt.Errorf("the storage %s cannot be used here: %s; an administrator must look at it", s.Name, why)
}

// cause is an error without the path that it is about.
func cause(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
