// Package rights says with which rights things run inside a container: process 1, which keeps the
// records of a task, as one user with a few capabilities, and the task as its image's user
// with none. So a task, also one of root, cannot reach what process 1 keeps.
package rights

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Needed are the capabilities that Keep wants process 1 to have been started with, as engines
// name them: to become another user, to start the task as its user without capabilities, and
// to signal it.
func Needed() []string { return []string{"SETUID", "SETGID", "SETPCAP", "KILL"} }

func needed() uint32 {
	return 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_KILL
}

// Keep makes this whole process another user, in no other group, that has only the capabilities
// of Needed. It must run as root.
func Keep(id int) error {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); errno != 0 {
		return fmt.Errorf("keep capabilities: %w", errno)
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(id, id, id), syscall.Setresuid(id, id, id)); err != nil {
		return fmt.Errorf("become user %d: %w", id, err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: needed(), Permitted: needed()}}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 {
		return fmt.Errorf("keep the capabilities %s: %w", strings.Join(Needed(), ", "), errno)
	}
	return nil
}

// Strip makes sure that no program which this thread starts has a capability, also
// one of root. The thread must not be used for anything else afterwards.
func Strip() error {
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no further ones
		}
		if err != nil {
			return fmt.Errorf("give up capability %d: %w", c, err)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: needed(), Permitted: needed()}} // nothing is inherited
	return errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Capset(&head, &data[0]))
}

// As calls f with files seen as a user sees them: the kernel shows what it hides of the
// processes of one user from another, such as how they ended. It says nothing where that is impossible.
func As(a *Account, f func()) {
	runtime.LockOSThread()
	uid, gid := unix.Geteuid(), unix.Getegid()
	_, _ = unix.SetfsgidRetGid(int(a.GID))
	_, _ = unix.SetfsuidRetUid(int(a.UID))
	f()
	_, err := unix.SetfsuidRetUid(uid)
	_, err2 := unix.SetfsgidRetGid(gid)
	if err == nil && err2 == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
}
