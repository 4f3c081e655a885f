package local

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
)

// startMain starts the task's shell, or its image's own program, in a session of its own and in
// its cgroups from the first instruction on. out and errs are its streams. A nil account is that of
// this process.
func startMain(s *spec, own *private, out, errs *os.File, who *task.Account) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{
		Dir: s.Dir, Env: within(s.Env, own.surroundings),
		Files: []uintptr{null.Fd(), out.Fd(), errs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if s.Container != nil && len(s.Container.Runs) > 0 {
		return task.Spawn(s.Parents, s.groupName(), s.Container.Runs, as(who, attr))
	}
	text, err := scriptFile(own.script)
	if err != nil {
		return 0, err
	}
	defer text.Close()
	attr.Files = append(attr.Files, text.Fd())
	return task.Spawn(s.Parents, s.groupName(), []string{s.Shell, "/proc/self/fd/3"}, as(who, attr))
}

// unpack puts the job's code into the task's own directory. A stop ends it.
func (s *supervisor) unpack() error {
	if s.spec.Code == nil {
		return nil
	}
	self, err := task.OwnLibraries()
	if err != nil {
		return err
	}
	start := func(argv []string, attr *syscall.ProcAttr) (int, error) {
		return task.Spawn(nil, "", append(self, argv[1:]...), as(s.account, attr))
	}
	var order stopOrder
	err = s.spec.Code.Unpack(start, []string{process.MarkerName + "=" + s.spec.marker()}, func() bool {
		return safefile.Read(s.dir, stopFile, &order) == nil
	})
	if s.stopped = errors.Is(err, task.ErrUnpackStopped); s.stopped {
		return nil
	}
	return err
}

// as makes a process to be started run as a user.
func as(who *task.Account, attr *syscall.ProcAttr) *syscall.ProcAttr {
	if who != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: who.UID, Gid: who.GID, Groups: who.Groups}
	}
	return attr
}

// scriptFile holds the script in memory only: it has no name in a file system, and is in no
// process's arguments.
func scriptFile(script []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("hold the script: %w", err)
	}
	f := os.NewFile(uintptr(fd), "script")
	// The shell has the script open by itself; the first line closes the extra descriptor, so
	// that nothing the task starts inherits it.
	if _, err := f.Write(append([]byte("exec 3<&-; "), asProgram(script)...)); err != nil {
		f.Close()
		return nil, err
	}
	_, err = f.Seek(0, 0)
	return f, err
}

// asProgram lets a script of one plain command become that program: its exit, also by a signal,
// is then the program's own. The shell is asked what the first word is. For a program it prints
// the path, or, where it has built-in programs as busybox does, the word itself. The shell's own
// words (cd, exit) run as they stand.
func asProgram(script []byte) []byte {
	line := strings.TrimRight(string(script), "\n")
	word, ok := plainCommand(line)
	if !ok {
		return script
	}
	program := "*/*"
	if !slices.Contains(shellWords, word) {
		program += "|" + word
	}
	return []byte("case $(command -v -- " + word + ") in " + program + ") exec " + line + ";; esac; " + line + "\n")
}

// shellWords are the words that bash, dash and busybox's shell take as their own, sorted.
var shellWords = strings.Fields(`. : [ [[ alias bg bind break builtin caller case cd chdir command
	compgen complete compopt continue coproc declare dirs disown do done echo elif else enable esac
	eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill let
	local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt
	source suspend test then time times trap true type typeset ulimit umask unalias unset until wait
	while`)

// plainCommand reports whether a line is one command, with nothing after which the shell would
// have to go on, and returns its first word as written. Quoted text does not matter, except for
// what a shell runs inside double quotes.
func plainCommand(line string) (word string, ok bool) {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			quote = 0
		case quote == '\'':
		case c == '\\':
			if i++; i == len(line) || line[i] == '\n' {
				return "", false
			}
		case c == '`' || c == '$' && i+1 < len(line) && line[i+1] == '(':
			return "", false
		case quote != 0:
		case c == '$' && i+1 < len(line) && (line[i+1] == '\'' || line[i+1] == '"'): // bash's own escapes
			return "", false
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("\n|&;<>(){}#!~", c) >= 0:
			return "", false
		}
	}
	if quote != 0 {
		return "", false
	}
	word, _, _ = strings.Cut(line, " ")
	return word, programWord.MatchString(word)
}

// programWord matches the name of a program that needs no quotes and assigns nothing.
var programWord = regexp.MustCompile(`^[a-zA-Z0-9_@%+:,./-]+$`)

// openEntry lets the server run commands beside the task. If it fails, the task runs anyway.
func (s *supervisor) openEntry() {
	h := EntryHost{Members: s.descendants}
	if s.inContainer() {
		h = EntryHost{Address: s.spec.Host, As: func(f func()) { task.RunAs(s.account, f) }}
	}
	var err error
	if s.entry, err = openEntryServer(s.dir, h); err != nil {
		s.note("%v", err)
	}
}

// taskEnded is why a command beside a task ends with it.
const taskEnded = "the task has ended"

// startCommands starts the waiting commands, once it is the task's turn: before they would use
// devices that others have.
func (s *supervisor) startCommands() {
	switch {
	case s.ended != nil || s.killing || s.main == 0:
		s.entry.StopAll(taskEnded)
	case s.part.phase == running:
		s.entry.StartWaiting(s.startBeside)
	}
}

// startBeside starts a command as the task was started. The shell looks for the program, as the
// task's user.
func (s *supervisor) startBeside(g *EntryCommand) (int, error) {
	attr := &syscall.ProcAttr{Dir: s.spec.Dir, Env: within(s.spec.Env, s.private.surroundings),
		Files: []uintptr{uintptr(g.Files[0]), uintptr(g.Files[1]), uintptr(g.Files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: g.Terminal != nil}}
	if g.Terminal != nil {
		kind := "xterm"
		if programWord.MatchString(g.Term) {
			kind = g.Term
		}
		attr.Env = setEnv(attr.Env, "TERM", kind)
	}
	pid, err := task.Spawn(s.spec.Parents, s.spec.groupName(), append([]string{s.spec.Shell, "-c", `exec "$@"`, "comb"}, g.Argv...), as(s.account, attr))
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", s.spec.Shell, err)
	}
	return pid, nil
}
