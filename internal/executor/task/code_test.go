package task

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/spec/upload"
)

// TestMain makes the test binary the child that unpacks, or a process that may set no bits, and
// tries.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "unpack":
		os.Exit(UnpackMain(os.Args[2:]))
	case len(os.Args) == 2 && os.Args[1] == "bits":
		os.Exit(tryBits())
	}
	os.Exit(m.Run())
}

func fork(argv []string, attr *syscall.ProcAttr) (int, error) {
	return syscall.ForkExec(argv[0], argv, attr)
}

// order is an upload of one file, to be unpacked into an empty folder.
func order(t *testing.T) *Unpacking {
	t.Helper()
	dir, archive := t.TempDir(), filepath.Join(t.TempDir(), CodeFile)
	if err := os.WriteFile(dir+"/run.sh", []byte("echo hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := upload.Open(dir, upload.Default)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if err := errors.Join(f.Write(&b), os.WriteFile(archive, b.Bytes(), 0o444)); err != nil {
		t.Fatal(err)
	}
	return &Unpacking{Archive: archive, Digest: f.Digest, Dir: t.TempDir()}
}

func never() bool { return false }

func TestUnpack(t *testing.T) {
	o := order(t)
	if err := o.Unpack(fork, nil, never); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(o.Dir + "/run.sh"); err != nil || st.Mode() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
	if err := o.Unpack(fork, nil, never); err == nil || !strings.Contains(err.Error(), "file exists") {
		t.Errorf("into what is not empty: %v", err)
	}
}

// What is not what was uploaded is not run.
func TestDamaged(t *testing.T) {
	o := order(t)
	data, err := os.ReadFile(o.Archive)
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.Index(data, []byte("hello"))]++
	if err := errors.Join(os.Remove(o.Archive), os.WriteFile(o.Archive, data, 0o444)); err != nil {
		t.Fatal(err)
	}
	if err := o.Unpack(fork, nil, never); err == nil || !strings.Contains(err.Error(), "it is damaged: its digest is sha256:") {
		t.Errorf("a byte was changed: %v", err)
	}
	link := *order(t)
	link.Archive += ".link"
	if err := os.Symlink(o.Archive, link.Archive); err != nil {
		t.Fatal(err)
	}
	if err := link.Unpack(fork, nil, never); err == nil {
		t.Error("a link is followed")
	}
}

// A stop ends it.
func TestStopped(t *testing.T) {
	o := order(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	slow := func(_ []string, attr *syscall.ProcAttr) (int, error) {
		return syscall.ForkExec("/bin/sh", []string{"sh", "-c", "read x < " + pipe}, attr)
	}
	asked := 0
	if err := o.Unpack(slow, nil, func() bool { asked++; return asked > 3 }); !errors.Is(err, ErrUnpackStopped) || asked != 4 {
		t.Errorf("asked whether it is to stop %d times: %v", asked, err)
	}
}
