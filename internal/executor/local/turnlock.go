package local

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
)

// turnLocks keep two turns of a rotation apart: while an attempt runs, it holds a lock on a file
// of its own for each of its devices, and releases it when it is frozen. The clock alone says
// which turn it is; the locks say whether the attempts of other turns have left.
type turnLocks struct {
	devices []deviceLock
	files   []*os.File
}

// turnPath is the lock file of one attempt on one device.
func turnPath(l deviceLock, a model.AttemptID) string { return l.Path + "." + a.String() }

// open makes an attempt's own files, once. Their content does not matter.
func (l *turnLocks) open(devices []deviceLock, own model.AttemptID) error {
	if l.files != nil {
		return nil
	}
	for _, d := range devices {
		f, err := openLock(turnPath(d, own))
		if err != nil {
			l.remove()
			return fmt.Errorf("lock %s: %w", d.Title, err)
		}
		l.files = append(l.files, f)
	}
	l.devices = devices
	return nil
}

// enter says that the attempt runs.
func (l *turnLocks) enter() { l.set(unix.F_WRLCK) }

// leave says that it does not.
func (l *turnLocks) leave() { l.set(unix.F_UNLCK) }

func (l *turnLocks) set(kind int16) {
	for _, f := range l.files {
		lock := unix.Flock_t{Type: kind, Whence: io.SeekStart}
		_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock) // on an old kernel the clock alone decides
	}
}

// enterAlone enters unless an attempt of another turn runs. It locks first and looks then: of two
// that try at once, at least one sees the other.
func (l *turnLocks) enterAlone(t *turns) bool {
	l.enter()
	for _, other := range t.others() {
		for _, d := range l.devices {
			if lockedBy(turnPath(d, other)) {
				l.leave()
				return false
			}
		}
	}
	return true
}

// lockedBy reports whether the attempt of a lock file runs.
func lockedBy(path string) bool {
	f, err := safefile.OpenPlain(path)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}

// remove deletes the files.
func (l *turnLocks) remove() {
	for _, f := range l.files {
		os.Remove(f.Name())
		f.Close()
	}
	l.files, l.devices = nil, nil
}

func itoa(n int) string { return strconv.Itoa(n) }
