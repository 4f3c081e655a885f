package task

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/cgroup"
)

// SpawnFault is why the kernel did not start a program, once all preparations had succeeded.
type SpawnFault struct{ syscall.Errno }

// Unwrap lets errors.Is find the error number.
func (f SpawnFault) Unwrap() error { return f.Errno }

// OfMachine reports whether the machine lacks what any program needs.
func (f SpawnFault) OfMachine() bool {
	return slices.Contains([]syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE}, f.Errno)
}

// Spawn starts a program in the group of a name below each parent, unable to gain rights. It
// forks from a thread that is in the version 1 groups: so the child is born in them, without a
// helper process and without counting this process itself. The thread goes back afterwards. With
// a credential the program has no capability, either. A SpawnFault is the fault of the program or
// of its arguments.
func Spawn(parents []cgroup.Parent, name string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	dirs, unified := cgroup.Dirs(parents, name), -1
	for i, dir := range dirs {
		if parents[i].V2 {
			if unified, err = unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				defer unix.Close(unified)
			}
		}
	}
	defer exposeToOOM()()
	type result struct {
		pid int
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // not unlocked: a thread that cannot gain privileges serves nothing else
		if err := protect(attr); err != nil {
			done <- result{0, err}
			return
		}
		before, _ := os.ReadFile("/proc/thread-self/cgroup")
		tid := strconv.Itoa(unix.Gettid())
		for i, dir := range dirs {
			if !parents[i].V2 {
				_ = os.WriteFile(filepath.Join(dir, "tasks"), []byte(tid), 0) // seen below by its absence
			}
		}
		pid, err := forkIn(argv, attr, unified)
		leaveGroups(parents, string(before), tid)
		if number := syscall.Errno(0); errors.As(err, &number) {
			err = SpawnFault{number}
		}
		done <- result{pid, err}
	}()
	r := <-done
	return r.pid, r.err
}

// protect keeps what this thread starts from gaining rights.
func protect(attr *syscall.ProcAttr) error {
	if attr.Sys.Credential != nil {
		return StripCapabilities()
	}
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	return nil
}

func forkIn(argv []string, attr *syscall.ProcAttr, unified int) (int, error) {
	if unified >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, unified
		pid, err := syscall.ForkExec(argv[0], argv, attr)
		if !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.E2BIG) {
			return pid, err
		}
		attr.Sys.UseCgroupFD = false // this kernel cannot start a process in a group
	}
	return syscall.ForkExec(argv[0], argv, attr)
}

// leaveGroups puts a thread back to where it was.
func leaveGroups(parents []cgroup.Parent, before, tid string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	paths := cgroup.ParseOwn(before)
	for _, m := range cgroup.ParseMounts(string(mounts)) {
		for _, c := range m.Options {
			if path, ok := paths[c]; ok && !m.V2 && cgroup.HasController(parents, c) {
				_ = os.WriteFile(filepath.Join(m.Below(path), "tasks"), []byte(tid), 0)
			}
		}
	}
}

// exposeToOOM makes what is started at least as likely an out-of-memory victim as any other
// process, whatever protection the server has; restore gives this process its own back.
func exposeToOOM() (restore func()) {
	const file = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(file)
	if err != nil {
		return func() {}
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(before))); err != nil || n >= 0 {
		return func() {}
	}
	_ = os.WriteFile(file, []byte("0"), 0)
	return func() { _ = os.WriteFile(file, before, 0) }
}
