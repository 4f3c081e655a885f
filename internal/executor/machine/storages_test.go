package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// ofUser reports whether an error says that it is about one user's folder, and no node's fault.
func ofUser(err error) bool {
	var f *StorageFault
	return errors.As(err, &f) && f.User
}

// No storage holds what is the server's, nor lies in it, by links either.
func TestApart(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "comb/data")
	if err := errors.Join(os.MkdirAll(data, 0o700), os.Symlink(data, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for folder, refused := range map[string]bool{
		dir: true, data: true, data + "/jobs": true, dir + "/link": true, dir + "/link/jobs": true,
		dir + "/comb/data2": false, dir + "/comb/dat": false, dir + "/else": false,
	} {
		if err := StoragesApart([]model.Storage{{Name: "s", Folder: folder}}, data); (err != nil) != refused {
			t.Errorf("%s: %v", folder, err)
		}
	}
	homes := model.Storage{Name: "homes", Folder: dir + "/comb/data", PerUser: true}
	for folder, refused := range map[string]bool{dir + "/comb": true, data: true, data + "/ada": true, dir + "/link/ada": true, dir + "/comb/more": false} {
		if err := StoragesApart([]model.Storage{homes, {Name: "s", Folder: folder}}); (err != nil) != refused {
			t.Errorf("%s beside %s: %v", folder, data, err)
		}
	}
	if err := StoragesApart([]model.Storage{{Name: "all", Folder: data, ReadOnly: true}, {Name: "some", Folder: data}}); err != nil {
		t.Errorf("one folder for some to write and for all to read: %v", err)
	}
}

// A user's folder is made once and found again; what stands in its place is never followed, and no
// name leads elsewhere.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	s := model.Storage{Name: "homes", Folder: dir, PerUser: true}
	for range 2 {
		got, err := StorageFolder(&s, "alice", nil)
		if err != nil || got != filepath.Join(dir, "alice") {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "alice")); err != nil || st.Mode().Perm() != 0o777 {
		t.Errorf("the folder is %v, %v", st, err)
	}
	// A crash left dave's before it was open; erin's was closed with something in it.
	for name, want := range map[string]os.FileMode{"dave": 0o777, "erin": 0o700} {
		err := os.Mkdir(filepath.Join(dir, name), 0o700)
		if name == "erin" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name, "x"), nil, 0o600))
		}
		if _, got := StorageFolder(&s, name, nil); err != nil || got != nil {
			t.Fatal(err, got)
		}
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("the folder of %s is %v, %v, want %v", name, st, err, want)
		}
	}
	// With an owner a new folder is that one's alone; one that was there stays as it was, and is
	// refused where the owner may not enter it.
	if os.Geteuid() == 0 {
		mine := &StorageOwner{UID: 4001, GID: 4000}
		for name, want := range map[string]string{"frank": "4001:4000 700", "alice": "0:0 777", "erin": ""} {
			_, err := StorageFolder(&s, name, mine)
			const why = "uid 4001 may not enter it: an administrator gives it to that user (chown -R 4001:4000)"
			if (err == nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), why) || !ofUser(err)) {
				t.Errorf("the folder of %s: %v, of the user: %v", name, err, ofUser(err))
			}
			st, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			by, _ := st.Sys().(*syscall.Stat_t)
			if got := fmt.Sprintf("%d:%d %o", by.Uid, by.Gid, st.Mode().Perm()); want != "" && got != want {
				t.Errorf("the folder of %s is %s, want %s", name, got, want)
			}
		}
	} else if _, err := StorageFolder(&s, "frank", &StorageOwner{UID: 4001, GID: 4000}); err == nil || !ofUser(err) ||
		!strings.Contains(err.Error(), "cannot give it to uid 4001") {
		t.Errorf("a server that is not root gives a folder away: %v, of the user: %v", err, ofUser(err))
	}
	if err := os.Symlink("alice", filepath.Join(dir, "bob")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "carol"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gone := model.Storage{Name: "gone", Folder: filepath.Join(dir, "gone")}
	for _, c := range []struct {
		s          *model.Storage
		user, want string
	}{
		{&s, "bob", "something else than a folder is there"}, {&s, "carol", "something else than a folder is there"},
		{&s, "..", "cannot have a folder"}, {&s, "a/b", "cannot have a folder"}, {&s, "", "cannot have a folder"},
		{&gone, "alice", "cannot be opened: no such file or directory"},
	} {
		got, err := StorageFolder(c.s, c.user, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), dir) {
			t.Errorf("user %q: %q, %v; want an error with %q and no path", c.user, got, err, c.want)
		}
		if user := c.s != &gone; ofUser(err) != user {
			t.Errorf("user %q: %v is of the user: %v, want %v", c.user, err, !user, user)
		}
	}
}
