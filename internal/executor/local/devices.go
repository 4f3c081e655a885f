package local

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/sched"
)

// deviceLock is the second barrier against two owners of one device: a lock that
// the supervisor holds while its task lives, whatever the core believes.
type deviceLock struct {
	Path  string `json:"path"`
	Title string `json:"title"` // for messages
}

// locksFor names the locks of a task's devices. Names come from configurations
// and may hold anything, so files are named by a digest.
func locksFor(dir string, t sched.TaskStart) []deviceLock {
	locks := make([]deviceLock, 0, len(t.Place.Devices))
	for i, d := range t.Place.Devices {
		leaf := fmt.Sprint(d)
		if i < len(t.Place.Parts) {
			leaf += fmt.Sprintf(":%d", t.Place.Parts[i])
		}
		title := fmt.Sprintf("device %s of %s on node %s", leaf, t.Place.SKU, t.Place.Node)
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", leaf, t.Place.SKU, t.Place.Node))
		locks = append(locks, deviceLock{Path: filepath.Join(dir, fmt.Sprintf("%x", sum[:16])), Title: title})
	}
	return locks
}

// shareLocks lets other attempts in, whose rotation says that they share the
// devices. They stay shared: to become the only owner again would for a moment
// give them up.
func shareLocks(held []*os.File) {
	for _, f := range held {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) // from more to less: nobody stands against it
	}
}

// takeLocks holds all locks until the process ends, or none. how is LOCK_EX, or
// LOCK_SH for devices that several attempts share.
func takeLocks(locks []deviceLock, owner string, how int) (held []*os.File, refused string) {
	for _, l := range locks {
		f, err := os.OpenFile(l.Path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			held = append(held, f)
			err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		}
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			refused = l.Title + " still has an owner: task " + firstLine(l.Path)
		case err != nil:
			refused = l.Title + " cannot be locked: " + err.Error()
		default:
			_ = f.Truncate(0) // the owner's name is only for messages
			_, _ = f.WriteAt([]byte(owner), 0)
			continue
		}
		for _, f := range held {
			f.Close()
		}
		return nil, refused
	}
	return held, ""
}

func firstLine(path string) string {
	f, err := openPlain(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	buf := make([]byte, 128)
	n, _ := f.Read(buf)
	return string(buf[:n])
}
