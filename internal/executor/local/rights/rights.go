// Package rights says with which rights things run inside a container: process 1, which keeps the
// records of a task, as one user with a few capabilities, and the task as its image's user
// with none. So a task, also one of root, cannot reach what process 1 keeps.
package rights

import (
	"errors"
	"fmt"
	"os/user"
	"runtime"
	"strconv"
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

// Account is a user, as which a task runs.
type Account struct {
	UID, GID uint32
	Groups   []uint32
	Name     string
	Home     string
}

// Lookup finds an image's user in this container's /etc/passwd and /etc/group: "" is root, else
// NAME or number, with :GROUP or :number or without. A number need not be in a file.
func Lookup(text string) (Account, error) {
	name, group, _ := strings.Cut(text, ":")
	if name == "" {
		name = "0"
	}
	a := Account{Home: "/"}
	u, err := user.LookupId(name)
	if err != nil {
		u, err = user.Lookup(name)
	}
	id, numErr := strconv.ParseUint(name, 10, 31)
	switch {
	case err == nil:
		uid, err := strconv.ParseUint(u.Uid, 10, 31)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 31)
		if err := errors.Join(err, err2); err != nil {
			return a, fmt.Errorf("the image's user %q: %w", text, err)
		}
		a.UID, a.GID, a.Name, a.Home = uint32(uid), uint32(gid), u.Username, u.HomeDir
		if group == "" {
			a.Groups = others(u, a.GID)
		}
	case numErr == nil:
		a.UID = uint32(id)
	default:
		return a, fmt.Errorf("the image's user %q is not in its /etc/passwd", name)
	}
	if group != "" {
		if a.GID, err = gid(group); err != nil {
			return a, err
		}
	}
	return a, nil
}

// others are the groups of a user beside its own.
func others(u *user.User, own uint32) []uint32 {
	var list []uint32
	ids, _ := u.GroupIds() // a damaged file gives none
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 31); err == nil && uint32(n) != own {
			list = append(list, uint32(n))
		}
	}
	return list
}

func gid(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return uint32(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("the image's group %q is not in its /etc/group", name)
	}
	n, err := strconv.ParseUint(g.Gid, 10, 31)
	return uint32(n), err
}
