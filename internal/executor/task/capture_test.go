package task

import (
	"encoding/binary"
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
	c, pipe, err := NewCapture(dir, "stdout", LogCaps{FileBytes: 1 << 20, Files: 2, Rate: 1 << 30})
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
	if err := unix.Dup3(mustOpen(t, filepath.Join(dir, LogName("stdout", 0))), int(full.Fd()), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.WriteString("three\n"); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	c.Finish()
	data, err := os.ReadFile(filepath.Join(dir, LogName("stdout", 0)))
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

// TestOrderIsBounded wants of streams that change more often than an order has room for the later
// turns, and none where the order cannot be written: the logs themselves do not suffer.
func TestOrderIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := NewOrder(dir)
	file := filepath.Join(dir, OrderName)
	const rounds = MaxOrder/RecordBytes + 10
	for n := int64(1); n <= rounds; n++ {
		o.begin(int(n % 2))
		o.end(int(n%2), n)
	}
	data, err := os.ReadFile(file)
	if err != nil || len(data) > MaxOrder || len(data) < MaxOrder/2 {
		t.Fatalf("%d bytes: %v", len(data), err)
	}
	last := binary.BigEndian.Uint64(data[len(data)-RecordBytes:])
	if last&^SecondBit != rounds-1 || last&SecondBit == 0 != ((rounds-1)%2 == 0) {
		t.Errorf("the last record is %x", last)
	}
	o.Close()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil { // as a task may
		t.Fatal(err)
	}
	o = NewOrder(dir)
	c, pipe, err := NewCapture(dir, "stdout", LogCaps{FileBytes: 1 << 20, Files: 2, Rate: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	o.Join(c, 0)
	o.begin(1)
	o.end(1, 5)
	go c.Run()
	if _, err := pipe.WriteString("printed\n"); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	c.Finish()
	if text, err := os.ReadFile(filepath.Join(dir, LogName("stdout", 0))); err != nil || string(text) != "printed\n" {
		t.Errorf("%q, %v", text, err)
	}
}
