package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// turnPause is between two tries for a turn.
const turnPause = 50 * time.Millisecond

// maxStarts is how many containers may start at the same time. More starts than the processors can
// handle delay each other, until none of a gang of dozens is done in time.
func maxStarts() int { return max(2*runtime.NumCPU(), 4) }

// AwaitStart waits until this process may start a container; leave lets the next one start. Turns
// are file locks in a folder shared by every process that starts containers, so a process that died
// frees its turn. ok is false when stop returned true before. Where the files cannot be made, every
// start may go on at once.
func AwaitStart(folder string, stop func() bool) (leave func(), ok bool) {
	var files []*os.File
	leave = func() {
		for _, f := range files {
			_ = f.Close() // this releases the lock
		}
	}
	for n := range maxStarts() {
		path := filepath.Join(folder, fmt.Sprintf("start.%d", n))
		if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err == nil {
			files = append(files, f)
		}
	}
	for !stop() {
		if len(files) == 0 {
			return leave, true
		}
		for _, f := range files {
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				return leave, true
			}
		}
		time.Sleep(turnPause)
	}
	leave()
	return nil, false
}
