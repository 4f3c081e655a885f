package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFullDisk gives the log a file system that is full: the task goes on, and
// the log says what is missing.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	c, pipe, err := New(dir, "stdout", Caps{FileBytes: 1 << 20, Files: 2, Rate: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.file, c.kept = full, []int64{0}
	began := time.Now()
	c.write([]byte("one\n"))
	c.write([]byte("two\n"))
	if c.retryAt.Sub(began) < time.Second || time.Until(c.retryAt) > time.Second {
		t.Errorf("it is tried again %v after the log could not be written first", c.retryAt.Sub(began))
	}
	c.retryAt = time.Now() // that is now
	go c.Run()
	if err := unix.Dup3(mustOpen(t, filepath.Join(dir, Name("stdout", 0))), int(full.Fd()), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.WriteString("three\n"); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	c.Finish()
	data, err := os.ReadFile(filepath.Join(dir, Name("stdout", 0)))
	if err != nil || string(data) != "\n[comb: 2 lines, 8 bytes of output dropped: the log could not be written]\nthree\n" {
		t.Errorf("%q, %v", data, err)
	}
}

func mustOpen(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
