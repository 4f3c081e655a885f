package task

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inboxPause is between looks where the kernel does not tell. It lets each user have so many
// watches (128, where nothing else is set), and all containers' process 1s are one user.
const inboxPause = 100 * time.Millisecond

// WatchInbox calls tell, from a goroutine that never ends, whenever a file of one of the names is
// renamed into the folder, and when so many were that some may have been missed.
func WatchInbox(dir string, names []string, tell func()) {
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

// hear waits for the kernel's word until that fails.
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

// look looks at the files now and then: one that was renamed into the folder is another one.
func look(dir string, names []string, tell func()) {
	seen := make([]unix.Stat_t, len(names))
	for ; ; time.Sleep(inboxPause) {
		news := false
		for i, name := range names {
			var st unix.Stat_t
			_ = unix.Lstat(filepath.Join(dir, name), &st) // one that is not there is all zero
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
