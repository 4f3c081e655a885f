package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// roomEvery bounds how often the disk is checked while it is full.
const roomEvery = 200 * time.Millisecond

// reserve is a file that takes up space until the disk is full. Then it is freed, and its space
// is left for stops and exits. It is made again by itself when there is room.
type reserve struct {
	path string
	size int64

	mu     sync.Mutex
	held   bool
	looked time.Time
	why    error // of the last look
}

func newReserve(path string, size int64) *reserve {
	r := &reserve{path: path, size: size}
	r.take()
	return r
}

// free gives the reserve's space back to the disk.
func (r *reserve) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.Remove(r.path); err == nil || errors.Is(err, fs.ErrNotExist) {
		r.held = false
	}
	r.looked = time.Now()
	r.why = r.full()
}

// room returns nil while the reserve is held and some space besides it is free. Else it tries to
// make the reserve again.
func (r *reserve) room() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < roomEvery {
		return r.why
	}
	r.looked = time.Now()
	if !r.held {
		r.take()
		return r.why
	}
	r.why = nil
	if free, err := freeBytes(filepath.Dir(r.path)); err == nil && free < r.size/16 {
		r.why = r.full()
	}
	return r.why
}

// take makes the file, if as much space again would stay free.
func (r *reserve) take() {
	info, err := os.Stat(r.path)
	if err == nil && info.Size() == r.size && allocated(info) >= r.size {
		r.held, r.why = true, nil
		return
	}
	if free, err := freeBytes(filepath.Dir(r.path)); err == nil && free < 2*r.size {
		r.held, r.why = false, r.full()
		return
	}
	if err := allocate(r.path, r.size); err != nil {
		_ = os.Remove(r.path)
		r.held, r.why = false, r.full()
		return
	}
	r.held, r.why = true, nil
}

func (r *reserve) full() error {
	free, err := freeBytes(filepath.Dir(r.path))
	if err != nil {
		return fmt.Errorf("the disk of the data directory is full: %w", err)
	}
	return fmt.Errorf("the disk of the data directory is full: %d MiB are free, %d MiB are needed", free>>20, 2*r.size>>20)
}

// allocate makes a file whose blocks are really allocated.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = fillByHand(f, size)
	}
	return errors.Join(err, f.Close())
}

func fillByHand(f *os.File, size int64) error {
	block := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(block)) {
		if _, err := f.WriteAt(block[:min(int64(len(block)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// freeBytes is what is free for this process: blocks kept for root count for root only.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(blocks) * st.Bsize, nil
}
