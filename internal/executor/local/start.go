package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/local/cgroup"
	"github.com/combsched/comb/internal/executor/local/rights"
)

// startMain starts the task's shell in a session of its own and in its cgroups
// from the first instruction on. out and err are its streams, who is as whom it runs: nil
// is as this process.
func startMain(s *spec, own *private, out, errs *os.File, who *rights.Account) (pid int, err error) {
	text, err := scriptFile(own.script)
	if err != nil {
		return 0, err
	}
	defer text.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{
		Dir: s.Dir, Env: within(s.Env, own.surroundings),
		Files: []uintptr{null.Fd(), out.Fd(), errs.Fd(), text.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	unified := -1
	for i, dir := range s.groupDirs() {
		if s.Parents[i].V2 {
			if unified, err = unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				defer unix.Close(unified)
			}
		}
	}
	if who != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: who.UID, Gid: who.GID, Groups: who.Groups}
	}
	argv := []string{s.Shell, "/proc/self/fd/3"}
	return forkIn(s, argv, attr, unified)
}

// scriptFile holds the script in memory only: it never has a name in a file
// system, and it is in nobody's arguments.
func scriptFile(script []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("hold the script: %w", err)
	}
	f := os.NewFile(uintptr(fd), "script")
	// The shell has the script open by itself; the first line closes the extra
	// descriptor, so that nothing the task starts inherits it.
	if _, err := f.Write(append([]byte("exec 3<&-; "), asProgram(script)...)); err != nil {
		f.Close()
		return nil, err
	}
	_, err = f.Seek(0, 0)
	return f, err
}

// asProgram lets a script that is one plain command become that program: its exit is then the
// program's own, a signal as well. The shell itself says whether the first word is a program's:
// what is a word of its own (cd, exit) runs as it stands.
func asProgram(script []byte) []byte {
	line := strings.TrimRight(string(script), "\n")
	word, ok := plainCommand(line)
	if !ok {
		return script
	}
	return []byte("case $(command -v -- " + word + ") in */*) exec " + line + ";; esac; " + line + "\n")
}

// plainCommand reports whether a line is one command without anything of which the shell would
// have to see the end, and returns its first word as it is written.
func plainCommand(line string) (word string, ok bool) {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\n' || c == '\\' || c == '`' || c == '$' && i+1 < len(line) && line[i+1] == '(':
			return "", false
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("|&;<>(){}#!~", c) >= 0:
			return "", false
		}
	}
	if quote != 0 {
		return "", false
	}
	word, _, _ = strings.Cut(line, " ")
	return word, programWord.MatchString(word)
}

// programWord is the name of a program that needs no quotes and assigns nothing.
var programWord = regexp.MustCompile(`^[a-zA-Z0-9_@%+:,./-]+$`)

// forkIn forks from a thread that is in the task's version 1 groups: the child
// is born in them, without a helper process in between and without the
// supervisor itself being counted. The thread goes back afterwards.
func forkIn(s *spec, argv []string, attr *syscall.ProcAttr, unified int) (pid int, err error) {
	type result struct {
		pid int
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // not unlocked: a thread without privileges to gain serves nothing else
		if err := protect(attr); err != nil {
			done <- result{0, err}
			return
		}
		before, _ := os.ReadFile("/proc/thread-self/cgroup")
		tid := strconv.Itoa(unix.Gettid())
		for i, dir := range s.groupDirs() {
			if !s.Parents[i].V2 {
				_ = os.WriteFile(filepath.Join(dir, "tasks"), []byte(tid), 0) // seen below by its absence
			}
		}
		pid, err := fork(argv, attr, unified)
		leaveGroups(s, string(before), tid)
		done <- result{pid, err}
	}()
	r := <-done
	return r.pid, r.err
}

// protect keeps what this thread starts from gaining a right.
func protect(attr *syscall.ProcAttr) error {
	if attr.Sys.Credential != nil {
		return rights.Strip()
	}
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	return nil
}

func fork(argv []string, attr *syscall.ProcAttr, unified int) (int, error) {
	if unified >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, unified
		pid, err := syscall.ForkExec(argv[0], argv, attr)
		if !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.E2BIG) {
			return pid, err
		}
		attr.Sys.UseCgroupFD = false // a kernel that cannot start a process in a group
	}
	return syscall.ForkExec(argv[0], argv, attr)
}

// leaveGroups puts a thread back to where it was.
func leaveGroups(s *spec, before, tid string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	paths := cgroup.ParseOwn(before)
	for _, m := range cgroup.ParseMounts(string(mounts)) {
		for _, c := range m.Options {
			if path, ok := paths[c]; ok && !m.V2 && cgroup.Held(s.Parents, c) {
				_ = os.WriteFile(filepath.Join(m.Below(path), "tasks"), []byte(tid), 0)
			}
		}
	}
}

// exposeToOOM makes the task at least as likely a victim as any other process,
// whatever protection the server has; the supervisor takes its own back.
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
