package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// used returns a data directory with n submissions in it, closed cleanly.
func used(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	fill(t, s, 1, n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	other := used(t, 1)
	cases := []struct {
		name  string
		spoil func(t *testing.T, dir string)
		words []string
	}{
		{"no database", remove(databaseFile), []string{"database comb.db is gone", "restore"}},
		{"emptied database", truncateTo(0), []string{"is empty", "restore"}},
		{"no key", remove(keyFile), []string{"file key is gone", "restore"}},
		{"no cluster id", remove(clusterIDFile), []string{"cluster-id is gone", "write that id"}},
		{"key for all", chmodKey, []string{"can be reached by others (mode 0644)", "chmod 600"}},
		{"cut key", write(keyFile, "abc"), []string{"key is damaged", "64 hex digits"}},
		{"key is a link", linkKey, []string{"not a regular file"}},
		{"foreign key", copyFrom(other, keyFile), []string{"key belongs to another data directory"}},
		{"foreign id", copyFrom(other, clusterIDFile), []string{"but its database to cluster"}},
		{"foreign database", copyFrom(other, databaseFile), []string{"but its database to cluster"}},
		{"damaged id", write(clusterIDFile, "not an id"), []string{"cluster-id is damaged"}},
		{"newer schema", execSQL("PRAGMA user_version = 99"), []string{"newer version of Comb (schema 99"}},
		{"another program's database", execSQL("PRAGMA application_id = 7"), []string{"not a database of Comb"}},
		{"no database file", write(databaseFile, strings.Repeat("garbage ", 1000)), []string{"damaged", "restore"}},
		{"torn database", truncateTo(40_000), []string{"damaged", "restore"}},
		{"pages of zeros", zeroPages, []string{"damaged", "restore"}},
		{"missing events", execSQL("DELETE FROM events WHERE seq > 100"), []string{"damaged", "should end at event 400"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := used(t, 200)
			c.spoil(t, dir)
			refused(t, dir, c.words...)
			refused(t, dir, c.words...) // nothing was repaired or begun anew by the first try
		})
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func write(name, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func truncateTo(n int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, databaseFile), n); err != nil {
			t.Fatal(err)
		}
	}
}

func chmodKey(t *testing.T, dir string) {
	if err := os.Chmod(filepath.Join(dir, keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
}

func linkKey(t *testing.T, dir string) {
	key := filepath.Join(dir, keyFile)
	if err := errors.Join(os.Rename(key, dir+"-key"), os.Symlink(dir+"-key", key)); err != nil {
		t.Fatal(err)
	}
}

func copyFrom(other, name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		data, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(data))(t, dir)
	}
}

func execSQL(query string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseFile), "rw"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(query)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// zeroPages wipes pages in the middle of the database.
func zeroPages(t *testing.T, dir string) {
	f, err := os.OpenFile(filepath.Join(dir, databaseFile), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, 3*4096), 20*4096)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestStrangersDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	write("thesis.tex", "text")(t, dir)
	refused(t, dir, "not empty", "thesis.tex", "empty directory")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestUnfinishedInitialisationIsFinished(t *testing.T) {
	dir := used(t, 0)
	remove(clusterIDFile)(t, dir) // the last thing an initialisation writes
	open(t, dir)

	dir = t.TempDir()
	for _, name := range []string{lockFile, keyFile + ".new", databaseFile} {
		write(name, "")(t, dir)
	}
	open(t, dir)
}

// TestFlippedBitIsFound changes one byte inside an event, which leaves the
// database well formed.
func TestFlippedBitIsFound(t *testing.T) {
	dir := used(t, 50)
	execSQL("UPDATE events SET data = replace(data, 'source', 'sourcf') WHERE seq = 31")(t, dir)
	s := open(t, dir)
	err := s.Replay(context.Background(), 0, func(model.Record) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "event 31 is damaged") {
		t.Errorf("replay of a changed event: %v", err)
	}
	if err := s.SaveSnapshot(context.Background(), 100, nil); err == nil {
		t.Error("a damaged event was archived")
	}
}

func TestNetworkFileSystems(t *testing.T) {
	for magic, want := range map[int64]string{
		0x6969: "NFS", 0x01021997: "9P", 0x65735546: "FUSE", 0xFF534D42: "SMB", -11317950: "SMB", 0x00C36400: "Ceph",
		0xEF53: "", 0x58465342: "", 0x9123683E: "", 0x01021994: "", 0x794C7630: "", // ext4, xfs, btrfs, tmpfs, overlay
	} {
		if got := networkFS(magic); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("networkFS(%#x) = %q, want %q", magic, got, want)
		}
	}
}

func TestDataDirectoryIsPrivate(t *testing.T) {
	dir := used(t, 1)
	for name, want := range map[string]os.FileMode{"": 0o700, keyFile: 0o600, lockFile: 0o600, jobsDir: 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, reserveFile)); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), dir, Options{Now: 1}); err == nil || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Errorf("a directory that everyone may write to: %v", err)
		if err == nil {
			_ = s.Close()
		}
	}
}
