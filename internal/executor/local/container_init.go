package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/executor/task"
)

// errImage says that an image cannot be used on any machine: another start would not help.
var errImage = docker.ErrUnfit

// errTaken says that an image has links in the way of the task's mounts.
var errTaken = fmt.Errorf("%w: it %w in %s, where the task's folders are put: use one without", errImage, docker.ErrInTheWay, insideTop)

// insideThreads is how many threads process 1 starts before its task can use up the container's
// limit of processes. They are a part of insidePids.
const insideThreads = 8

// startThreads makes the Go runtime start threads, which it keeps: a thread that it needs later and
// does not get ends the program.
func startThreads(threads int) {
	var there, gone sync.WaitGroup
	leave := make(chan struct{})
	for range threads {
		there.Add(1)
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			<-leave
		})
	}
	there.Wait()
	close(leave)
	gone.Wait()
}

// scriptWithin is how long process 1 waits for the script of its task.
const scriptWithin = time.Minute

// ContainerInit is process 1 of a task's container: `comb inside UID MOUNT...`, with all mounts
// below /comb. It works like the supervisor of a process. It ends with all that is in the
// container, and its files are in a folder that the task cannot reach: so output and exit code
// outlive the engine.
func ContainerInit(args []string) int {
	time.Local = time.UTC // not by a file of the image
	s, err := newContainerInit(args)
	if errors.Is(err, docker.ErrOtherMount) {
		fmt.Fprintln(os.Stderr, err)
		return exitTaken // there is no folder to record it in
	}
	if err == nil {
		// No signal of the server reaches into a container.
		task.WatchRenames(s.dir, []string{stopFile, rotationFile}, func() { s.signals <- unix.SIGUSR1 })
	}
	if s == nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUnable
	}
	if errors.Is(err, errImage) {
		return s.refuse(s.ofImage(err), true)
	}
	if err != nil {
		return s.refuse("process 1 of the container: "+err.Error(), false)
	}
	if err := s.meet(); err != nil {
		return s.refuse(err.Error(), false)
	}
	if refused, job := s.start(); refused != "" {
		return s.refuse(refused, job)
	}
	return s.run()
}

// newContainerInit returns a supervisor even with an error, where the error can be recorded.
func newContainerInit(args []string) (*supervisor, error) {
	if len(args) < 1 || os.Getpid() != 1 {
		return nil, fmt.Errorf("inside is process 1 of a task's container; the server starts it")
	}
	keeper, err := strconv.Atoi(args[0])
	if err != nil || keeper <= 0 {
		return nil, fmt.Errorf("the user %q is not a number above 0", args[0])
	}
	if err := docker.MountedExactly(insideTop, args[1:]); err != nil {
		return nil, err
	}
	self, err := task.OwnLibraries()
	if err != nil {
		return nil, err
	}
	if err := task.KeepCapabilities(keeper, append(self, os.Args[1:]...)); err != nil {
		return nil, err
	}
	s := newSupervised(insidePrivate, insideFile)
	if err := safefile.Read(s.dir, specFile, s.spec); err != nil {
		return nil, err
	}
	if s.spec.Container == nil {
		return nil, fmt.Errorf("%s says nothing of a container", specFile)
	}
	if err := reserveOutcome(s.dir); err != nil {
		return s, err
	}
	if s.spec.Container.writesStorages() {
		if err := task.RefuseSetID(); err != nil {
			return s, err
		}
	}
	// An engine that died during the start may have left this container without its script.
	late := time.AfterFunc(scriptWithin, func() { os.Exit(exitUnable) })
	s.private, err = readPrivate(os.Stdin)
	if late.Stop(); err != nil {
		return s, err
	}
	account, err := s.spec.account()
	if err != nil {
		return s, fmt.Errorf("%w: %w", errImage, err)
	}
	if account.UID == uint32(keeper) {
		return s, fmt.Errorf("%w: its user is %d, with which Comb keeps the task's records: give it another USER", errImage, account.UID)
	}
	s.account = &account
	if s.spec.Container.OwnDir && errors.Is(task.Enterable(s.account, s.spec.Dir), task.ErrNoDir) {
		s.spec.Dir = insideWork // engines would make it, just as empty
	}
	s.private.surroundings = surroundingsOf(s.spec.Container.Box.ImageEnv, account)
	s.spec.Shell = findShell()
	if runs := s.spec.Container.Runs; len(runs) > 0 {
		s.findProgram(runs)
	} else if s.spec.Shell == "" {
		return s, fmt.Errorf("%w: it has neither /bin/bash nor /bin/sh, which run the job's commands: use an image with a shell", errImage)
	}
	for i := range s.spec.Locks {
		l := &s.spec.Locks[i]
		l.Path = filepath.Join(insideLocks, filepath.Base(l.Path))
		if l.Device != "" {
			l.Device = filepath.Join(insideLocks, filepath.Base(l.Device))
		}
	}
	return s, nil
}

// account is the user of a task in a container: the one in the spec, else the image's.
func (s *spec) account() (task.Account, error) {
	user := s.Container.User
	if s.As != nil {
		user = fmt.Sprintf("%d:%d", s.As.UID, s.As.GID)
	}
	a, err := task.LookupAccount(user)
	if err != nil {
		return a, err
	}
	if s.As != nil { // programs ask for the name and the home of a user that the image does not know
		a.Name = cmp.Or(a.Name, s.As.Name)
		if a.Home == "/" || a.Home == "" {
			a.Home = s.As.Home
		}
	}
	a.Groups = append(a.Groups, s.Groups...)
	return a, nil
}

// findProgram replaces the name of an image's own program by its path, as the task's user finds
// it. A program that is not found keeps its name, and its start fails.
func (s *supervisor) findProgram(runs []string) {
	if strings.Contains(runs[0], "/") {
		return
	}
	env := within(s.spec.Env, s.private.surroundings)
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	if i < 0 {
		return
	}
	for folder := range strings.SplitSeq(strings.TrimPrefix(env[i], "PATH="), ":") {
		path := filepath.Join("/", s.spec.Dir, folder, runs[0])
		if filepath.IsAbs(folder) {
			path = filepath.Join(folder, runs[0])
		}
		found := false
		task.RunAs(s.account, func() {
			st, err := os.Stat(path)
			found = err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
		})
		if found {
			runs[0] = path
			return
		}
	}
}

// writesStorages reports whether a task may write to a folder of the machine that others see.
// Files that it leaves there must give no user its rights.
func (b *containerSpec) writesStorages() bool {
	return slices.ContainsFunc(b.Box.Mounts, func(m docker.Mount) bool {
		return !m.ReadOnly && strings.HasPrefix(m.Target, model.StorageTop+"/")
	})
}

// meet waits until each task of the gang has an address, and puts the addresses into the
// environment. A stop ends the wait, too.
func (s *supervisor) meet() error {
	if len(s.spec.Container.Gang) == 0 {
		return nil
	}
	stopped := func() bool {
		_, err := os.Lstat(filepath.Join(s.dir, stopFile))
		return err == nil
	}
	own, known, err := task.Meet(insideGang, s.spec.Task, s.spec.Container.Gang, stopped)
	if errors.Is(err, task.ErrMeetStopped) {
		return nil // the start looks for the stop as well
	}
	if err != nil {
		return err
	}
	for i, v := range s.spec.Env {
		s.spec.Env[i] = known.Replace(v)
	}
	s.spec.Host = own
	return nil
}

// ofImage is an errImage in words.
func (s *supervisor) ofImage(fault error) string {
	return fmt.Sprintf("the image %s %v", s.spec.Container.Image, fault)
}

// program is the task's main program: the image's own one, or the shell.
func (s *spec) program() string {
	if s.Container != nil && len(s.Container.Runs) > 0 {
		return s.Container.Runs[0]
	}
	return s.Shell
}

// startFault says what in a job or its image kept the main process from starting; "" when it is
// neither. An error of the kernel counts as theirs, as long as the machine lacks nothing: else a
// job could get nodes quarantined. The shell of a process is the machine's, and is tried on its
// own.
func (s *supervisor) startFault(err error) string {
	var fault task.SpawnFault
	switch {
	case !errors.As(err, &fault) || fault.OfMachine():
		return ""
	case fault.Errno == unix.E2BIG && tooLong(s.variables()) != "":
		return tooLong(s.variables())
	case s.inContainer():
		return s.ofImage(imageFault(s.spec, fault))
	case s.shellStarts():
		return fmt.Sprintf("%s starts on this node, and does not in %s with the job's variables (%v): "+
			"look at that directory and at the variables", s.spec.Shell, s.spec.Dir, fault)
	}
	return ""
}

// variables are those of the main process.
func (s *supervisor) variables() []string { return within(s.spec.Env, s.private.surroundings) }

// Linux's bounds on what a program is started with, in bytes: for one variable, and for all of
// them with a small or a large stack limit. Each variable counts with its end and its pointer.
const (
	longestVariable          = 128<<10 - 1
	leastOfAll, mostOfAll    = 128 << 10, 6 << 20
	endOfVariable, ofPointer = 1, 8
)

// tooLong says which variables are too long for a program to start with them, by the stack limit
// of this process; "" when none are. A program's arguments take some of it as well.
func tooLong(env []string) string {
	all := 0
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); len(v) > longestVariable {
			return fmt.Sprintf("the variable %s has %d bytes with its name, and Linux takes %d at most: "+
				"make it shorter, or put it into a file", docker.Shorten(name), len(v), longestVariable)
		}
		all += len(v) + endOfVariable + ofPointer
	}
	var stack unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil {
		return ""
	}
	may := int(min(max(stack.Cur/4, leastOfAll), mostOfAll))
	if all < may-longestVariable { // besides them there is room for the longest argument of a program
		return ""
	}
	said := fmt.Sprintf("the task's %d variables have %d KiB, and a program is started with %d KiB at most",
		len(env), all>>10, may>>10)
	if may == mostOfAll {
		return said + ": set fewer or shorter ones"
	}
	return said + fmt.Sprintf(", as the limit of its stack is %d KiB: set fewer or shorter ones, or a higher limit "+
		"(--ulimit stack=64Mi, or limits of the role)", stack.Cur>>10)
}

// shellStarts reports whether the shell starts without anything of the job's. It has no time to
// do anything.
func (s *supervisor) shellStarts() bool {
	attr := &syscall.ProcAttr{Dir: "/", Sys: &syscall.SysProcAttr{Setsid: true}}
	pid, err := task.Spawn(s.spec.Parents, s.spec.groupName(), []string{s.spec.Shell, "-c", ":"}, as(s.account, attr))
	if err != nil {
		return false
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
	return true
}

// imageFault says what is wrong with an image whose shell, or own program, could not be started.
func imageFault(s *spec, fault task.SpawnFault) error {
	program, made := docker.Shorten(s.program()), s.Container.CPU
	switch own := len(s.Container.Runs) > 0; {
	case fault.Errno == unix.ENOEXEC && made != "" && made != runtime.GOARCH:
		return fmt.Errorf("%w: it is for %s, and this machine is %s: use one for this machine", errImage, made, runtime.GOARCH)
	case fault.Errno == unix.ENOEXEC:
		return fmt.Errorf("%w: its %s is not a program for this machine (%s): use another "+
			"image", errImage, program, runtime.GOARCH)
	case fault.Errno == unix.ENOENT && own:
		return fmt.Errorf("%w: what its ENTRYPOINT and CMD name, %s, is not there, or lacks what it is started with: "+
			"write the role's commands, or use another image", errImage, program)
	case fault.Errno == unix.ENOENT:
		return fmt.Errorf("%w: it lacks a library that its %s is started with: use a whole image", errImage, program)
	case fault.Errno == unix.EACCES:
		return fmt.Errorf("%w: its user may not run its %s: use another image", errImage, program)
	case own:
		return fmt.Errorf("%w: what its ENTRYPOINT and CMD name, %s, cannot be run (%w): "+
			"write the role's commands, or use another image", errImage, program, fault)
	}
	return fmt.Errorf("%w: its %s cannot be run (%w): use another image", errImage, program, fault)
}

// imagePath is where programs are in an image that does not say it.
const imagePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// surroundingsOf are the image's variables, without those of the platform, and what every
// container has.
func surroundingsOf(env []string, account task.Account) []string {
	out := slices.DeleteFunc(env, func(v string) bool {
		name, _, ok := strings.Cut(v, "=")
		return !ok || name == "" || reserved(name) || name == "HOME" || name == "USER" || name == "HOSTNAME"
	})
	host, _ := os.Hostname()
	out = within(append(out, "HOSTNAME="+host, "HOME="+account.Home), []string{imagePath})
	if account.Name != "" {
		out = append(out, "USER="+account.Name)
		out = within(out, []string{"LOGNAME=" + account.Name})
	}
	return out
}

func findShell() string {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/bin/sh"} {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
