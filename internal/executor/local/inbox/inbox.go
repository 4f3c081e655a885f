// Package inbox tells of files that are put into a folder by rename. It must not know what they are.
package inbox

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch calls tell, from a goroutine that never ends, whenever a file of one of the names is renamed
// into the folder, and when so many were that some may have been missed.
func Watch(dir string, names []string, tell func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO)
	}
	if err != nil {
		return fmt.Errorf("watch for orders: %w", err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil && err != unix.EINTR {
				return
			}
			if among(buf[:max(n, 0)], names) {
				tell()
			}
		}
	}()
	return nil
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
