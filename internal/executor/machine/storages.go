package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// SeenStorage is a storage as a task sees it.
type SeenStorage struct {
	Name, At string
	ReadOnly bool
}

// StorageFinder returns a storage that jobs of a virtual cluster may use now.
type StorageFinder func(vc cell.VCName, name string) (model.Storage, bool)

// StorageFault is why a storage cannot be used. It names no path of this machine.
type StorageFault struct {
	Say string
	// User is true where the fault is in the folder of one user: another node would not help.
	User bool
}

// Error implements error.
func (f *StorageFault) Error() string { return f.Say }

// StorageOwner is the user of the machine that owns a user's folder.
type StorageOwner struct{ UID, GID uint32 }

// StoragesOf finds the folders of a job's storages on this machine. find returns a storage that
// the job's virtual cluster may use now. owner owns a user's own folder; nil: any user of an
// image may write there.
func StoragesOf(find StorageFinder, job *model.Job, owner *StorageOwner) (list []SeenStorage, err error) {
	for _, name := range job.Storages {
		var s model.Storage
		ok := false
		if find != nil {
			s, ok = find(job.VC, name)
		}
		if !ok {
			return nil, fmt.Errorf("VC %s has no storage %s any more: an administrator adds it to the cluster file again, or submit the job without it", job.VC, name)
		}
		at, err := StorageFolder(&s, string(job.User), owner)
		if err != nil {
			return nil, err
		}
		list = append(list, SeenStorage{s.Name, at, s.ReadOnly})
	}
	return list, nil
}

// StoragesInside are storages where a container sees them.
func StoragesInside(list []SeenStorage) []SeenStorage {
	inside := make([]SeenStorage, len(list))
	for i, s := range list {
		inside[i] = SeenStorage{s.Name, model.StorageTop + "/" + s.Name, s.ReadOnly}
	}
	return inside
}

// WritableStorages names read-only storages that a process could still write, since it runs as
// the server's user; "": none.
func WritableStorages(list []SeenStorage) string {
	var names []string
	for _, s := range list {
		if s.ReadOnly {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// StorageFolder is the folder of a storage that a user's tasks see; a user's own folder is made
// where it is missing. Its errors, each a *StorageFault, name the storage and no path of this
// machine: users read them.
func StorageFolder(s *model.Storage, user string, owner *StorageOwner) (string, error) {
	root, err := os.OpenRoot(s.Folder)
	if err != nil {
		return "", fault(s, false, "its folder cannot be opened: "+cause(err))
	}
	defer root.Close()
	if !s.PerUser {
		return s.Folder, nil
	}
	if _, err := model.UserFolder(user); err != nil {
		return "", fault(s, true, err.Error())
	}
	if theirs, err := userFolder(root, user, owner); err != nil {
		return "", fault(s, theirs, fmt.Sprintf("the folder of the user %s in it: %s", user, cause(err)))
	}
	return s.Folder + "/" + user, nil
}

// StoragesApart refuses storages that hold a file or folder of the platform, or lie in one: jobs
// would see secrets. Where users have folders of their own, no storage may lie in another or be
// the same folder: jobs that may use one would see and replace what is in the other. Links are
// followed, as far as the path exists.
func StoragesApart(list []model.Storage, kept ...string) error {
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

// leadsTo is where a path leads, as far as it exists.
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

// errLink says that something else stands in the place of a user's folder. It is not followed: it
// could lead to another user's folder, or out of the storage.
var errLink = errors.New("something else than a folder is there")

// userFolder makes a user's folder, or finds it. With an owner, only the owner may use it. Else any
// user of an image may write there, as in the folder of checkpoints: other users' tasks do not see
// it. An existing folder keeps its owner and its mode. theirs is true where an error is about that
// folder alone: this machine lacks nothing.
func userFolder(root *os.Root, user string, owner *StorageOwner) (theirs bool, err error) {
	if err := root.Mkdir(user, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return false, err
	}
	st, err := root.Lstat(user)
	switch {
	case err != nil:
		return false, err
	case !st.IsDir():
		return true, errLink
	case justMade(root, st) && owner == nil:
		return false, root.Chmod(user, 0o777)
	case justMade(root, st):
		if err := root.Lchown(user, int(owner.UID), int(owner.GID)); err != nil {
			return errors.Is(err, os.ErrPermission), fmt.Errorf("the server cannot give it to uid %d (%s): "+
				"%s", owner.UID, cause(err), owner.give())
		}
	case owner != nil && !owner.enters(st):
		return true, fmt.Errorf("uid %d may not enter it: %s", owner.UID, owner.give())
	}
	return false, nil
}

// give is the command that gives a folder to an owner.
func (o *StorageOwner) give() string {
	return fmt.Sprintf("an administrator gives it to that user (chown -R %d:%d)", o.UID, o.GID)
}

// enters reports whether the mode of a folder lets an owner in.
func (o *StorageOwner) enters(st os.FileInfo) bool {
	by, ok := st.Sys().(*syscall.Stat_t)
	mode := st.Mode().Perm()
	switch {
	case !ok:
		return true
	case by.Uid == o.UID:
		mode >>= 6
	case by.Gid == o.GID:
		mode >>= 3
	}
	return mode&1 != 0
}

// justMade reports whether a folder is as this process makes it before it opens it to users: a
// crash may have left it so. A folder that was closed on purpose is not empty, or is another
// user's.
func justMade(root *os.Root, st os.FileInfo) bool {
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

func fault(s *model.Storage, user bool, why string) error {
	return &StorageFault{User: user,
		Say: fmt.Sprintf("the storage %s cannot be used here: %s; an administrator must look at it", s.Name, why)}
}

// cause is an error without the path that it is about.
func cause(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
