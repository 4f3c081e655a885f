package local

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
)

// terminal makes a pseudo terminal: the side of this process, and that of the command. A task of
// root may have put something else in the place of the device, so nothing is opened by a number
// that could be another's.
func terminal(z executor.Size) (ours, theirs int, err error) {
	ours, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err == unix.ELOOP { // engines make it a link
		ours, err = unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return -1, -1, fmt.Errorf("there are no terminals: /dev/ptmx: %w", err)
	}
	if err = unix.IoctlSetPointerInt(ours, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(ours)
		return -1, -1, fmt.Errorf("/dev/ptmx is no device of terminals: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(ours), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		unix.Close(ours)
		return -1, -1, fmt.Errorf("open a terminal: %w", errno)
	}
	_ = unix.IoctlSetWinsize(ours, unix.TIOCSWINSZ, winsize(z)) // a size of 0 is allowed
	return ours, int(fd), nil
}

func winsize(z executor.Size) *unix.Winsize { return &unix.Winsize{Row: z.Rows, Col: z.Cols} }

func resize(f *os.File, z executor.Size) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var got error
	if err := raw.Control(func(fd uintptr) { got = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, winsize(z)) }); err != nil {
		return err
	}
	return got
}
