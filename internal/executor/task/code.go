package task

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/upload"
)

// CodeFile is the name of a job's upload among the job's files.
const CodeFile = "code.tar"

// CodeVariable says where a task finds its job's code.
const CodeVariable = "COMB_CODE_DIR"

// Unpacking says which code a task finds, and where.
type Unpacking struct {
	Archive string `json:"archive"`
	Digest  string `json:"digest"`
	Dir     string `json:"dir"` // an empty folder
}

// UnpackingFor is the order to unpack a job's upload for a task; nil where the job has none. put
// puts the upload among the job's files, once for all tasks. dir is the task's own folder.
func UnpackingFor(job *model.Job, files, dir string, put func(*model.Job, string) error) (*Unpacking, error) {
	if job.Upload == "" {
		return nil, nil
	}
	if put == nil {
		return nil, errors.New("this server takes no uploads")
	}
	o := &Unpacking{Archive: filepath.Join(files, CodeFile), Digest: job.Upload, Dir: dir}
	return o, put(job, o.Archive)
}

// WorkDir is the working directory that a job asks for. dir is the task's own: a relative path is
// a folder of the job's code, if it has any.
func (o *Unpacking) WorkDir(asked, dir string) string {
	if o == nil || filepath.IsAbs(asked) {
		return asked
	}
	return filepath.Join(dir, asked)
}

// ErrUnpackStopped says that the task was stopped meanwhile.
var ErrUnpackStopped = errors.New("it was stopped while its code was unpacked")

// Unpack unpacks the code, by starting this program again. start starts a program with the rights
// of the task; stopped says that the task was stopped.
func (o *Unpacking) Unpack(start func(argv []string, attr *syscall.ProcAttr) (int, error), env []string, stopped func() bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	pid, err := start([]string{self, "unpack", o.Archive, o.Dir, o.Digest},
		&syscall.ProcAttr{Dir: "/", Env: append([]string{"GOMAXPROCS=1"}, env...), Files: []uintptr{w.Fd(), w.Fd(), w.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}})
	w.Close()
	if err != nil {
		return fmt.Errorf("unpack the job's code: %w", err)
	}
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(r, 4096))
		said <- strings.TrimSpace(string(text))
	}()
	status, err := wait(pid, stopped)
	switch {
	case err != nil:
		return err
	case status.Exited() && status.ExitStatus() == 0:
		return nil
	case status.Signaled():
		return fmt.Errorf("unpack the job's code: it was ended by signal %d", status.Signal())
	}
	return fmt.Errorf("unpack the job's code: %s", <-said)
}

// wait waits for a child, and kills it when the task is stopped.
func wait(pid int, stopped func() bool) (status syscall.WaitStatus, err error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		switch got, waitErr := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); {
		case got == pid:
			return status, err
		case waitErr != nil && waitErr != syscall.EINTR:
			return status, fmt.Errorf("wait for the job's code: %w", waitErr)
		}
		if err == nil && stopped() {
			_ = unix.Kill(pid, unix.SIGKILL)
			err = ErrUnpackStopped
		}
		time.Sleep(pause)
	}
}

// UnpackMain is that child: `comb unpack ARCHIVE DIR DIGEST`.
func UnpackMain(args []string) int {
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "unpack takes an archive, a folder and a digest; the server starts it")
		return 1
	}
	_ = unix.Umask(0o077)
	if err := unpack(args[0], args[1], args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func unpack(archive, dir, digest string) error {
	f, err := os.OpenFile(archive, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no plain file, %v", archive, err)
	}
	// The upload met the server's limits when it came; each entry of it has at least one block.
	held, err := upload.Unpack(f, dir, upload.Limits{Bytes: st.Size(), Files: int(st.Size() / 512)})
	if err != nil {
		return err
	}
	if held.Digest != digest {
		return fmt.Errorf("it is damaged: its digest is %s and was %s", held.Digest, digest)
	}
	return nil
}
