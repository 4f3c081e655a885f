package upload

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/test/smalldisk"
	"github.com/combsched/comb/internal/test/testkit"
)

// depotArchive is an upload with one file of n bytes, and its digest.
func depotArchive(t *testing.T, name string, n int) (digest string, data []byte) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(n), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(b.Bytes())), b.Bytes()
}

// unread fails when it is read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("it is read again")
	return 0, io.EOF
}

// An upload comes once for each subject, and none has another's.
func TestPut(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDepot(dir, DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	digest, data := depotArchive(t, "a", 1000)
	for range 2 {
		if n, err := d.Put("alice", digest, bytes.NewReader(data)); err != nil || n != int64(len(data)) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if n, err := d.Put("alice", digest, unread{t}); err != nil || n != int64(len(data)) {
		t.Errorf("again: %d, %v", n, err)
	}
	if _, ok := d.Has("bob", digest); ok {
		t.Error("bob has alice's")
	}
	if err := d.Link("bob", digest, filepath.Join(dir, "x")); !errors.Is(err, ErrNoUpload) {
		t.Errorf("bob's job gets alice's: %v", err)
	}
	path := filepath.Join(dir, DepotKey("alice", digest))
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o444 {
		t.Errorf("%v, %v", st, err)
	}
	list, err := d.List("alice")
	if err != nil || len(list) != 1 || list[0].Digest != digest || list[0].Size != int64(len(data)) || list[0].Jobs != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// What is refused leaves nothing.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	full := errors.New("12 MiB are free")
	var room error
	d, err := OpenDepot(dir, DepotOptions{Limits: Limits{Bytes: 8 << 10, Files: 10}, Quota: 12 << 10, Room: func() error { return room }})
	if err != nil {
		t.Fatal(err)
	}
	digest, data := depotArchive(t, "a", 1000)
	other, _ := depotArchive(t, "b", 1000)
	large, much := depotArchive(t, "a", 9<<10)
	broken := errors.New("the line broke")
	for _, c := range []struct {
		digest string
		r      io.Reader
		want   error
		text   string
	}{
		{other, bytes.NewReader(data), ErrDigest, "it has the digest " + digest},
		{"sha256:../../x", bytes.NewReader(data), ErrDigest, "is no digest"},
		{strings.ToUpper(digest), bytes.NewReader(data), ErrDigest, "is no digest"},
		{digest, bytes.NewReader([]byte("nothing of the kind")), ErrArchive, ""},
		{large, bytes.NewReader(much), ErrArchive, "more than 8.0 KiB"},
		{digest, io.MultiReader(bytes.NewReader(data[:700]), failing{broken}), broken, ""},
	} {
		if _, err := d.Put("alice", c.digest, c.r); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", c.digest, err, c.want, c.text)
		}
	}
	if found, err := filepath.Glob(dir + "/*/*"); err != nil || len(found) != 0 {
		t.Errorf("left: %v, %v", found, err)
	}
	room = full
	if _, err := d.Put("alice", digest, bytes.NewReader(data)); !errors.Is(err, ErrFull) || !errors.Is(err, full) {
		t.Errorf("on a full disk: %v", err)
	}
	room = nil
	for i, want := range []error{nil, nil, nil, nil, ErrQuota, ErrQuota} { // 2.5 KiB each
		digest, data := depotArchive(t, fmt.Sprint(i), 1000)
		if _, err := d.Put("alice", digest, bytes.NewReader(data)); !errors.Is(err, want) {
			t.Errorf("upload %d: %v; want %v", i, err, want)
		}
		if _, err := d.Put("bob", digest, bytes.NewReader(data)); err != nil && i < 4 {
			t.Errorf("bob's upload %d: %v", i, err)
		}
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// Jobs' files may lie on another file system than uploads, where no link leads: they get a copy, as
// a whole or not at all.
func TestOtherFileSystem(t *testing.T) {
	if !smalldisk.Alone(t) {
		return
	}
	d, err := OpenDepot(t.TempDir(), DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	digest, data := depotArchive(t, "a", 1000)
	if _, err := d.Put("alice", digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "jobs")
	smalldisk.Mount(t, other, 64<<10)
	if err := d.Link("alice", digest, filepath.Join(other, "code.tar")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(other, "code.tar"))
	st, statErr := os.Stat(filepath.Join(other, "code.tar"))
	if err != nil || statErr != nil || !bytes.Equal(got, data) || st.Mode() != 0o444 {
		t.Errorf("%d bytes, %v, %v, %v", len(got), st, err, statErr)
	}
	large, much := depotArchive(t, "b", 100<<10)
	if _, err := d.Put("alice", large, bytes.NewReader(much)); err != nil {
		t.Fatal(err)
	}
	if err := d.Link("alice", large, filepath.Join(other, "large.tar")); !errors.Is(err, ErrFull) {
		t.Errorf("on a full disk: %v", err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// So many users send at a time, and none of them more than one.
func TestAtOnce(t *testing.T) {
	d, err := OpenDepot(t.TempDir(), DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostAtOnce {
		if err := d.begin(folder(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := d.begin(folder(fmt.Sprint(i))); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "another one of the same user") {
			t.Errorf("a second one of user %d: %v", i, err)
		}
	}
	if err := d.begin(folder("alice")); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "32, the most that this server takes") {
		t.Errorf("one too many: %v", err)
	}
	d.end(folder("0"))
	if err := d.begin(folder("alice")); err != nil {
		t.Errorf("when one is over: %v", err)
	}
}

// One subject sends one at a time; another's goes on.
func TestOneAtATime(t *testing.T) {
	d, err := OpenDepot(t.TempDir(), DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	digest, data := depotArchive(t, "a", 1000)
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := d.Put("alice", digest, r)
		done <- err
	}()
	if _, err := w.Write(data[:512]); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put("alice", digest, unread{t}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := d.Put("bob", digest, bytes.NewReader(data)); err != nil {
		t.Errorf("bob's: %v", err)
	}
	if _, err := w.Write(data[512:]); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What a job has, or will, stays; the rest is erased when it was not used for a while.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDepot(dir, DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	var digests []string
	for i := range 4 {
		digest, data := depotArchive(t, fmt.Sprint(i), 10)
		if _, err := d.Put("alice", digest, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, DepotKey("alice", digest)), old, old); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	beside := filepath.Join(t.TempDir(), "code.tar")
	if err := d.Link("alice", digests[0], beside); err != nil { // of a job's files
		t.Fatal(err)
	}
	d.Has("alice", digests[1]) // it was named just now
	if n, err := d.Sweep(map[string]bool{DepotKey("alice", digests[2]): true, DepotKey("bob", digests[3]): true}); n != 1 || err != nil {
		t.Errorf("erased %d, %v", n, err)
	}
	for i, want := range []bool{true, true, true, false} {
		if _, ok := d.Has("alice", digests[i]); ok != want {
			t.Errorf("upload %d is there: %v", i, ok)
		}
	}
	if err := os.Remove(beside); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, DepotKey("alice", digests[0])), old, old); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(nil); n != 1 || err != nil {
		t.Errorf("behind the job's files: erased %d, %v", n, err)
	}
}

// What was changed behind the depot's back is no job's, and can be sent again.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDepot(dir, DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	digest, data := depotArchive(t, "a", 10)
	if _, err := d.Put("alice", digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	path, beside := filepath.Join(dir, DepotKey("alice", digest)), filepath.Join(t.TempDir(), "code.tar")
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("else"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.Link("alice", digest, beside); !errors.Is(err, ErrDamaged) {
		t.Errorf("it is given to a job: %v", err)
	}
	if _, err := os.Lstat(beside); err == nil {
		t.Error("the job has it")
	}
	if _, err := d.Put("alice", digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := d.Link("alice", digest, beside); err != nil {
		t.Errorf("sent again: %v", err)
	}
}

// A server that was killed while one came forgets it.
func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	digest, _ := depotArchive(t, "a", 10)
	path := filepath.Join(dir, DepotKey("alice", digest)) + fresh
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDepot(dir, DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Has("alice", digest); ok {
		t.Error("it is there")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("its file is there")
	}
}

// An upload that is read again and again is hashed when it has changed, and a change is found.
func TestReadAgain(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDepot(dir, DepotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	digest, data := depotArchive(t, "a", 10)
	if _, err := d.ReadAgain("alice", digest); !errors.Is(err, ErrNoUpload) {
		t.Errorf("one that is not there: %v", err)
	}
	if _, err := d.Put("alice", digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		f, err := d.ReadAgain("alice", digest)
		if err != nil {
			return err
		}
		defer f.Close()
		got, err := io.ReadAll(f)
		if err == nil && !bytes.Equal(got, data) {
			t.Errorf("it has %d bytes, want %d", len(got), len(data))
		}
		return err
	}
	path := filepath.Join(dir, DepotKey("alice", digest))
	testkit.Wait(t, "it is read so soon behind a change that a later one may go unseen", func() bool {
		clear(d.verified)
		if err := errors.Join(os.Chmod(path, 0o600), read()); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		soon := time.Since(versionOf(f).changed) <= minFileAge
		if soon && len(d.verified) != 0 {
			t.Fatal("what has just come may change once more unseen, and is known to be whole")
		}
		return soon
	})
	testkit.Wait(t, "it is known to be whole", func() bool {
		if err := read(); err != nil {
			t.Fatal(err)
		}
		return len(d.verified) == 1
	})
	for range 2 {
		if err := read(); err != nil || len(d.verified) != 1 {
			t.Errorf("%d are known to be whole: %v", len(d.verified), err)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(data)
	changed[0]++
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, changed, 0o600), os.Chtimes(path, st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	if err := read(); !errors.Is(err, ErrDamaged) || len(d.verified) != 0 {
		t.Errorf("one that was changed, and whose time was set back: %v", err)
	}
}
