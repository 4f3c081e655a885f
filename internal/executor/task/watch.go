package task

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollPause is between looks where the kernel cannot watch the folder. It allows each user a
// limited number of watches (128 by default), and process 1 of all containers is one user.
const pollPause = 100 * time.Millisecond

// WatchRenames calls tell, from a goroutine that never ends, whenever a file of one of the names is
// renamed into the folder, and when events were lost.
func WatchRenames(dir string, names []string, tell func()) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err == nil {
		if _, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO); err != nil {
			unix.Close(fd)
		}
	}
	go func() {
		if err == nil {
			hear(fd, names, tell)
		}
		look(dir, names, tell)
	}()
}

// hear waits for the kernel's events until that fails.
func hear(fd int, names []string, tell func()) {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil && err != unix.EINTR {
			unix.Close(fd)
			return
		}
		if among(buf[:max(n, 0)], names) {
			tell()
		}
	}
}

// look polls the files: one that was renamed into the folder has another inode.
func look(dir string, names []string, tell func()) {
	seen := make([]unix.Stat_t, len(names))
	for ; ; time.Sleep(pollPause) {
		news := false
		for i, name := range names {
			var st unix.Stat_t
			_ = unix.Lstat(filepath.Join(dir, name), &st) // a missing file is all zero
			news = news || st.Ino != seen[i].Ino || st.Ctim != seen[i].Ctim
			seen[i] = st
		}
		if news {
			tell()
		}
	}
}

// among reports whether one of the events is about a file of those names.
func among(events []byte, names []string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		end := min(unix.SizeofInotifyEvent+int(e.Len), len(events))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		if slices.Contains(names, name) || e.Mask&unix.IN_Q_OVERFLOW != 0 {
			return true
		}
		events = events[end:]
	}
	return false
}
