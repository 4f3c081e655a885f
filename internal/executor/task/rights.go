package task

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NeededCapabilities are the capabilities, as engines name them, with which process 1 must be
// started for KeepCapabilities: to become another user, to start the task as its user without
// capabilities, and to signal it.
func NeededCapabilities() []string { return []string{"SETUID", "SETGID", "SETPCAP", "KILL"} }

func needed() uint32 {
	return 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_KILL
}

// KeepCapabilities makes this whole process another user, in no other group, with only the
// capabilities of NeededCapabilities. It must run as root. A program built with cgo cannot drop
// the rights of its existing threads: it is started anew, with the arguments again, and must call
// KeepCapabilities once more.
func KeepCapabilities(id int, again []string) error {
	if os.Geteuid() == id {
		return kept(id)
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0)
	if errno == unix.ENOTSUP {
		return restartAs(id, again)
	}
	if errno != 0 {
		return fmt.Errorf("keep capabilities: %w", errno)
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(id, id, id), syscall.Setresuid(id, id, id)); err != nil {
		return fmt.Errorf("become user %d: %w", id, err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: needed(), Permitted: needed()}}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 {
		return fmt.Errorf("keep the capabilities %s: %w", strings.Join(NeededCapabilities(), ", "), errno)
	}
	return nil
}

// restartAs gives one thread the rights of KeepCapabilities; the thread then starts the program
// anew in place of the process. The new program keeps the capabilities because they are ambient.
func restartAs(id int, again []string) error {
	runtime.LockOSThread() // not unlocked: without the new start this process is useless
	who := uintptr(id)
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: needed(), Permitted: needed(), Inheritable: needed()}}
	err := errors.Join(unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0), threadGroups(nil),
		raw(unix.SYS_SETRESGID, who, who, who), raw(unix.SYS_SETRESUID, who, who, who), unix.Capset(&head, &data[0]))
	for c := range uintptr(32) {
		if err == nil && needed()&(1<<c) != 0 {
			err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0)
		}
	}
	if err != nil {
		return fmt.Errorf("become user %d: %w", id, err)
	}
	return fmt.Errorf("start %s once more as user %d: %w", again[0], id, syscall.Exec(again[0], again, os.Environ()))
}

// raw makes a system call for this thread alone; those of package unix are for all threads.
func raw(call, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// kept makes sure that this process was started by anew. As after a change of user, no other
// process of that user may look into it.
func kept(id int) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	if data[0].Permitted != needed() || data[0].Effective != needed() || data[1].Permitted != 0 {
		return fmt.Errorf("user %d has the capabilities %#x, not %s: it was not started by root",
			id, data[0].Permitted, strings.Join(NeededCapabilities(), ", "))
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// StripCapabilities makes sure that no program which this thread starts has a capability, even a
// program of root. The thread must not be used for anything else afterwards.
func StripCapabilities() error {
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no more
		}
		if err != nil {
			return fmt.Errorf("give up capability %d: %w", c, err)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: needed(), Permitted: needed()}} // none is inherited
	return errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Capset(&head, &data[0]))
}

// threadGroups sets the groups of this thread alone; unix.Setgroups is for all threads.
func threadGroups(ids []uint32) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(ids)), uintptr(unsafe.Pointer(unsafe.SliceData(ids))), 0); errno != 0 {
		return errno
	}
	return nil
}

// RunAs calls f with a user's view of files: the kernel hides things about one user's processes
// from another, such as how they ended. Where it cannot take that view it reports no error. This
// process is in no group: see KeepCapabilities.
func RunAs(a *Account, f func()) {
	runtime.LockOSThread()
	uid, gid := unix.Geteuid(), unix.Getegid()
	_ = threadGroups(a.Groups)
	_, _ = unix.SetfsgidRetGid(int(a.GID))
	_, _ = unix.SetfsuidRetUid(int(a.UID))
	f()
	_, err1 := unix.SetfsuidRetUid(uid)
	_, err2 := unix.SetfsgidRetGid(gid)
	if errors.Join(err1, err2, threadGroups(nil)) == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine
	}
}

// Enterable says why a user cannot be in a directory; nil: it can. A nil user is that of this
// process. Process 1 of a container is another user than its task: it may see more or less.
func Enterable(a *Account, dir string) (err error) {
	look := func() { _, err = os.Stat(dir + "/.") } // this needs the right to search it, too
	user := "the task"
	if a == nil {
		look()
	} else {
		user = fmt.Sprintf("user %d", a.UID)
		RunAs(a, look)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("cannot be entered by %s: allow that user to, or name another one", user)
	}
	return ErrNoDir
}

// Closed is the first folder on the way to a path, the path included, that a user may not pass;
// "": all are open. A process of root may ask it, whatever its groups are.
func Closed(a *Account, path string) (dir string) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // each folder is one of its parts
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // RunAs leaves the thread in no group: it ends with the goroutine
		RunAs(a, func() {
			for at := 0; at <= len(path) && dir == ""; at++ {
				if at < len(path) && path[at] != '/' {
					continue
				}
				if _, err := os.Stat(path[:at] + "/."); errors.Is(err, unix.EACCES) {
					dir = cmp.Or(path[:at], "/")
				}
			}
		})
	}()
	<-done
	return dir
}

// ErrNoDir says that a directory is not there.
var ErrNoDir = errors.New("does not exist or is no directory")
