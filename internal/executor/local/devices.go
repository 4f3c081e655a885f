package local

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
)

// deviceLock is the second barrier against two owners of one device, whatever the core believes.
// The supervisor holds it while its task lives. The lock is on the leaf. The holder of a part
// also locks the device, for the number of parts into which it is divided.
type deviceLock struct {
	Path  string `json:"path"`
	Title string `json:"title"` // for messages
	// Device is the file of the device. Parts is the number of its parts; 0 is whole.
	Device string `json:"device,omitempty"`
	Parts  int32  `json:"parts,omitempty"`
}

// locksFor names the locks of a task's devices. Names come from configurations
// and may hold anything, so files are named by a digest. A part is the same under any
// SKU; a whole device is not, since a file may give one index to two SKUs of a node.
func locksFor(dir string, t model.TaskStart) []deviceLock {
	file := func(leaf, of string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", leaf, of, t.Place.Node))
		return filepath.Join(dir, fmt.Sprintf("%x", sum[:16]))
	}
	space := "every " + t.SKU.IndexSpace() // no SKU's name has a blank
	locks := make([]deviceLock, 0, len(t.Place.Devices))
	for i, d := range t.Place.Devices {
		leaf, of, parts := fmt.Sprint(d), string(t.Place.SKU), int32(0)
		if i < len(t.Place.Parts) {
			leaf, of, parts = fmt.Sprintf("%d:%d", d, t.Place.Parts[i]), space, 1
		}
		if i < len(t.Division) {
			parts = max(parts, t.Division[i])
		}
		locks = append(locks, deviceLock{Path: file(leaf, of), Device: file(fmt.Sprint(d), space), Parts: parts,
			Title: fmt.Sprintf("device %s of %s on node %s", leaf, t.Place.SKU, t.Place.Node)})
	}
	return locks
}

// shareLocks makes locks shared, so that other attempts of the rotation can have the devices too.
// They stay shared: to become exclusive again would release them for a moment.
func shareLocks(held []*os.File) {
	for _, f := range held {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) // nothing can prevent this
	}
}

// takeLocks takes all locks until the process ends, or none. how is LOCK_EX, or LOCK_SH for
// devices that several attempts share.
func takeLocks(locks []deviceLock, owner string, how int) (held []*os.File, err error) {
	for _, l := range locks {
		if held, err = l.take(held, owner, how); err != nil {
			for _, f := range held {
				f.Close()
			}
			return nil, err
		}
	}
	return held, nil
}

// openLock opens the file of a lock, also for process 1 of a container, which is another user
// where the server is root. No other user reaches the folder.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err == nil {
		_ = f.Chmod(0o666) // a file of the other user has that mode already
	}
	return f, err
}

// take takes a lock and adds its files to held, or says why it cannot.
func (l *deviceLock) take(held []*os.File, owner string, how int) ([]*os.File, error) {
	f, err := openLock(l.Path)
	if err == nil {
		held = append(held, f)
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return held, fmt.Errorf("%s still has an owner: task %s", l.Title, firstLine(l.Path))
	case err != nil:
		return held, fmt.Errorf("%s cannot be locked: %w", l.Title, err)
	}
	_ = f.Truncate(0) // the owner's name is only for messages
	_, _ = f.WriteAt([]byte(owner), 0)
	return l.takeDevice(held)
}

// takeDevice notes in how many parts the task has its device: it locks the byte of that number in
// the device's file. Then it checks that no lock says another number. Of two that try at once, at
// least one sees the other.
func (l *deviceLock) takeDevice(held []*os.File) ([]*os.File, error) {
	if l.Device == "" {
		return held, nil // of an older server
	}
	f, err := openLock(l.Device)
	if err == nil {
		held = append(held, f)
		mine := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: int64(l.Parts), Len: 1}
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &mine)
	}
	if errors.Is(err, unix.EINVAL) {
		return held, nil // the kernel lacks such locks: only the lock on the leaf protects
	}
	others := []unix.Flock_t{{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(l.Parts) + 1}}
	if l.Parts > 0 {
		others = append(others, unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Len: int64(l.Parts)})
	}
	for i := 0; err == nil && i < len(others); i++ {
		o := &others[i]
		if err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, o); err == nil && o.Type != unix.F_UNLCK {
			return held, fmt.Errorf("%s still has an owner of %s", l.Title, inParts(o.Start))
		}
	}
	if err != nil {
		return held, fmt.Errorf("%s cannot be locked: %w", l.Title, err)
	}
	return held, nil
}

// inParts describes the owner of a device in n parts, 0 for whole.
func inParts(n int64) string {
	if n == 0 {
		return "the whole device"
	}
	return fmt.Sprintf("one of %d parts of it", n)
}

func firstLine(path string) string {
	f, err := safefile.OpenPlain(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	buf := make([]byte, 128)
	n, _ := f.Read(buf)
	return string(buf[:n])
}
