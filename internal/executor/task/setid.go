package task

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// modeCall describes a system call that can give a file its mode: which arguments count. A call
// that cannot be inspected is refused like one that the kernel does not have.
type modeCall struct {
	call  uint32
	mode  uint32 // the number of the mode argument
	flags uint32 // the number of the argument that says whether a file is made; 0: it always counts
	blind bool
}

// x32 marks calls of the x32 interface, which have the same numbers.
const x32 = 0x4000_0000

// calls are those of all system call interfaces that kernels of amd64 and arm64 have. The numbers
// are the kernel's, see its unistd.h.
func calls() map[uint32][]modeCall {
	const openat2, ring, fchmodat2 = 437, 425, 452 // the same everywhere
	of := func(chmod, fchmod, fchmodat, open, creat, openat, mknod, mknodat uint32) (list []modeCall) {
		for _, m := range []modeCall{{chmod, 1, 0, false}, {fchmod, 1, 0, false}, {fchmodat, 2, 0, false},
			{fchmodat2, 2, 0, false}, {open, 2, 1, false}, {creat, 1, 0, false}, {openat, 3, 2, false},
			{mknod, 1, 0, false}, {mknodat, 2, 0, false}, {openat2, 0, 0, true}, {ring, 0, 0, true}} {
			if m.call != none {
				list = append(list, m)
			}
		}
		return list
	}
	return map[uint32][]modeCall{
		unix.AUDIT_ARCH_X86_64:  of(90, 91, 268, 2, 85, 257, 133, 259),
		unix.AUDIT_ARCH_I386:    of(15, 94, 306, 5, 8, 295, 14, 297),
		unix.AUDIT_ARCH_AARCH64: of(none, 52, 53, none, none, 56, none, 33),
		unix.AUDIT_ARCH_ARM:     of(15, 94, 333, 5, 8, 322, 14, 324),
	}
}

// none stands for a call that an interface does not have.
const none = ^uint32(0)

// RefuseSetID keeps every thread of this process, and all that it starts from now on, from giving
// a file the set-user-ID or set-group-ID bit: in a folder of the machine such a file would give
// its owner's rights to all that run it there. It cannot be undone.
func RefuseSetID() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse the set-user-ID bit: %w", err)
	}
	f := filter()
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	stray, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	if errno != 0 || stray != 0 {
		return fmt.Errorf("refuse the set-user-ID bit: %w (thread %d)", errno, stray)
	}
	return nil
}

// filter is the program that the kernel runs before each system call. It is read from the top: a
// part for each interface, and in it a part for each call.
func filter() (out []unix.SockFilter) {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K

		number, interfaceOf, args = 0, 4, 16 // their offsets in the kernel's data
	)
	ret := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	refuse := func(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }
	allow := ret(unix.SECCOMP_RET_ALLOW)
	// skip jumps over the instructions then unless the loaded value is v, or has its bits.
	skip := func(code uint16, v uint32, then ...unix.SockFilter) []unix.SockFilter {
		return append([]unix.SockFilter{{Code: code, Jf: uint8(len(then)), K: v}}, then...)
	}
	out = []unix.SockFilter{{Code: load, K: interfaceOf}}
	all := calls()
	for _, arch := range slices.Sorted(maps.Keys(all)) {
		part := []unix.SockFilter{{Code: load, K: number}}
		if arch == unix.AUDIT_ARCH_X86_64 {
			part = append(part, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^uint32(x32)})
		}
		for _, m := range all[arch] {
			if m.blind {
				part = append(part, skip(same, m.call, refuse(unix.ENOSYS))...)
				continue
			}
			var then []unix.SockFilter
			if m.flags != 0 {
				then = append(then, unix.SockFilter{Code: load, K: args + 8*m.flags},
					unix.SockFilter{Code: bits, Jt: 1, K: unix.O_CREAT | makes}, allow)
			}
			then = append(then, unix.SockFilter{Code: load, K: args + 8*m.mode})
			then = append(then, skip(bits, unix.S_ISUID|unix.S_ISGID, refuse(unix.EPERM))...)
			part = append(part, skip(same, m.call, append(then, allow)...)...)
		}
		out = append(out, skip(same, arch, append(part, allow)...)...)
	}
	return append(out, refuse(unix.ENOSYS))
}

// makes is the bit of O_TMPFILE that is its own: the others are those of O_DIRECTORY.
const makes = unix.O_TMPFILE &^ unix.O_DIRECTORY
