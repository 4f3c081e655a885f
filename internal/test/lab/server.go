package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

const (
	startTime = 2 * time.Minute // of a busy machine, until a server answers
	stopTime  = 2 * time.Minute // until it is gone after SIGTERM
	goneTime  = time.Minute     // until what its tasks began is gone after them
	poll      = 10 * time.Millisecond
)

// Server is one `comb serve` process. It may be started again after its end, on
// the same data directory.
type Server struct {
	Bin    string // folder with the programs
	Data   string // its parent folder also takes what the server keeps for its user
	Log    string // file that its output is appended to
	Listen string // "" is a free port of 127.0.0.1
	Args   []string
	Path   string // "" or a folder in front of its PATH
	// URL is where it listens, once started.
	URL string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

var address = regexp.MustCompile(`serves at (http://127\.0\.0\.1:[1-9][0-9]*)`)

// Start runs the server on a free loopback port and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	out, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	from, err := out.Seek(0, 2)
	if err != nil {
		return err
	}
	listen := s.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	args := append([]string{"serve", "--data", s.Data, "--listen", listen}, s.Args...)
	s.cmd = exec.Command(filepath.Join(s.Bin, "comb"), args...)
	s.cmd.Env = s.env()
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's Ctrl-C is for the driver
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		s.err = cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	return s.ready(ctx, from)
}

// env puts the lab's programs on the PATH, which tasks inherit, and keeps the
// server's note to its user out of the user's own folders.
func (s *Server) env() []string {
	bin, err := filepath.Abs(s.Bin)
	if err != nil {
		bin = s.Bin
	}
	path := bin + string(os.PathListSeparator) + os.Getenv("PATH")
	if s.Path != "" {
		path = s.Path + string(os.PathListSeparator) + path
	}
	return append(os.Environ(), "PATH="+path,
		"XDG_STATE_HOME="+filepath.Join(filepath.Dir(s.Data), "state"))
}

// ready waits for the address in the output since the start, then for an answer.
func (s *Server) ready(ctx context.Context, from int64) error {
	s.URL = ""
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(poll) {
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended at once (%v):\n%s", s.err, s.tail(from))
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if s.URL == "" {
			if m := address.FindStringSubmatch(s.tail(from)); m != nil {
				s.URL = m[1]
			}
		}
		if s.URL == "" {
			continue
		}
		c, err := s.Client()
		if err != nil {
			continue // the token is not written yet
		}
		if _, err := c.Health(ctx); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the server does not answer after %v:\n%s", startTime, s.tail(from))
}

func (s *Server) tail(from int64) string {
	b, err := os.ReadFile(s.Log)
	if err != nil || int64(len(b)) < from {
		return ""
	}
	return string(b[from:])
}

// tokenFile is where the server keeps its first token.
func (s *Server) tokenFile() string { return filepath.Join(s.Data, "admin-token") }

// Client returns a REST client with the server's own token.
func (s *Server) Client() (*rest.Client, error) {
	token, err := os.ReadFile(s.tokenFile())
	if err != nil {
		return nil, err
	}
	return rest.NewClient(s.URL, strings.TrimSpace(string(token)))
}

// Kill ends the server with SIGKILL and waits until it is gone.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.exited
	s.cmd = nil
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server in good order; a server that does not run is no error.
func (s *Server) Stop() error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	defer func() { s.cmd = nil }()
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopTime):
		s.cmd.Process.Kill()
		<-s.exited
		return fmt.Errorf("the server did not end within %v of SIGTERM", stopTime)
	}
	var exit *exec.ExitError
	if errors.As(s.err, &exit) {
		return fmt.Errorf("the server ended with %v: see %s", exit, s.Log)
	}
	return nil
}

// CLI runs the command line against this server and returns what it printed and
// its exit code; the error is about running it at all.
func (s *Server) CLI(ctx context.Context, args ...string) (stdout, stderr string, code int, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bin, "comb"), args...)
	cmd.Env = append(os.Environ(), "COMB_SERVER="+s.URL, "COMB_TOKEN_FILE="+s.tokenFile())
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	if err == nil {
		code = cmd.ProcessState.ExitCode()
	}
	return o.String(), e.String(), code, err
}

// Sweep fails when processes that mention a folder are left, and ends them.
func Sweep(dir string) error {
	left := leftovers(dir, goneTime)
	if len(left) == 0 {
		return nil
	}
	kill(left)
	return fmt.Errorf("processes are left behind: %v", left)
}

// leftovers returns the processes that still mention the folder in their command
// line, environment or working directory, after waiting for them to go.
func leftovers(dir string, wait time.Duration) []int {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		pids := mentioning(dir)
		if len(pids) == 0 || time.Now().After(end) {
			return pids
		}
	}
}

func mentioning(dir string) []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(e), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile(e + "/cmdline")
		environ, _ := os.ReadFile(e + "/environ")
		cwd, _ := os.Readlink(e + "/cwd")
		if strings.Contains(string(cmdline), dir) || strings.Contains(string(environ), dir) || strings.HasPrefix(cwd, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func kill(pids []int) {
	for _, p := range pids {
		syscall.Kill(p, syscall.SIGKILL)
	}
}
