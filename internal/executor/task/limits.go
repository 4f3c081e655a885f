package task

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// SetLimits sets limits of this process, which its children inherit: open files, and MiB of the
// stack and of locked memory. 0 leaves a limit as it is, -1 is no limit. A value above its hard
// limit becomes the hard limit. So does locked memory that is not given.
func SetLimits(files, stackMB, memLockMB int64) {
	set(unix.RLIMIT_NOFILE, files, 1)
	set(unix.RLIMIT_STACK, stackMB, 1<<20)
	set(unix.RLIMIT_MEMLOCK, cmp.Or(memLockMB, -1), 1<<20)
}

func set(resource int, value, unit int64) {
	if value == 0 {
		return
	}
	want := uint64(unix.RLIM_INFINITY)
	if value > 0 {
		want = uint64(value) * uint64(unit)
	}
	if unix.Setrlimit(resource, &unix.Rlimit{Cur: want, Max: want}) == nil {
		return
	}
	var old unix.Rlimit
	if unix.Getrlimit(resource, &old) == nil {
		_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: min(want, old.Max), Max: old.Max})
	}
}
