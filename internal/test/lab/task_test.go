package lab

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/test/testkit"
)

// The test's own binary is also the task of the kill loops.
const (
	taskDir    = "LAB_TASK_DIR"   // set: be a task and keep books in this folder
	childOf    = "LAB_TASK_CHILD" // set: be a task's descendant
	taskMillis = "LAB_TASK_MS"
)

// bin is the folder with the programs under test, built once.
var bin string

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(childOf) != "":
		os.Exit(beChild())
	case os.Getenv(taskDir) != "":
		os.Exit(beTask(os.Getenv(taskDir)))
	case os.Getenv(trialDir) != "":
		os.Exit(beTrial(os.Getenv(trialDir)))
	}
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	defer testkit.Drop()
	var err error
	if bin, err = testkit.Programs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// beTask is one run of a task. It writes down that it ran, and it holds locks
// that a second owner of the same job or GPU would miss. A descendant in a
// session of its own holds the same locks: they are free only when the whole
// tree is dead.
func beTask(dir string) int {
	name, attempt := os.Getenv("PAI_JOB_NAME"), os.Getenv("COMB_TASK")
	locks := []*os.File{lock(dir, "job "+name, attempt)}
	for d := range strings.SplitSeq(devices(), ",") {
		locks = append(locks, lock(dir, "gpu "+d, attempt))
	}
	write(dir, "runs", fmt.Sprintf("%s %s %d", name, attempt, os.Getpid()))
	r, w, err := os.Pipe()
	if err != nil {
		write(dir, "bad", err.Error())
		return 1
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childOf+"="+name)
	child.Stdin = r
	child.ExtraFiles = locks
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		write(dir, "bad", err.Error())
		return 1
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	length, _ := time.ParseDuration(os.Getenv(taskMillis) + "ms")
	// This is the task's work.
	time.Sleep(length/2 + length*time.Duration(h.Sum32()%1000)/1000)
	w.Write([]byte{1})
	child.Wait()
	return 0
}

// beChild ends when its parent says so; when the parent just dies it stays.
func beChild() int {
	if n, err := os.Stdin.Read(make([]byte, 1)); n == 0 || err == io.EOF {
		time.Sleep(time.Hour) // it stays
	}
	return 0
}

// devices is the list of device indices that the task was given.
func devices() string {
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return "none given"
}

func lock(dir, what, who string) *os.File {
	f, err := os.OpenFile(filepath.Join(dir, strings.ReplaceAll(what, " ", "-")+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		write(dir, "bad", fmt.Sprintf("%s: %s has another owner: %v", who, what, err))
	}
	return f
}

// write appends one line at once, so that processes do not mix theirs.
func write(dir, file, line string) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// TestBooksNotice holds the kill loops' own instrument to its purpose: a task beside an owner of
// its job and its GPU must show in the books.
func TestBooksNotice(t *testing.T) {
	dir := t.TempDir()
	for _, what := range []string{"job a", "gpu 0"} {
		defer lock(dir, what, "1").Close()
	}
	if bad, err := os.ReadFile(filepath.Join(dir, "bad")); err == nil {
		t.Fatalf("the first owner is not alone: %s", bad)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{taskDir + "=" + dir, taskMillis + "=10", "PAI_JOB_NAME=a", "COMB_TASK=2", "CUDA_VISIBLE_DEVICES=0"}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	bad, err := os.ReadFile(filepath.Join(dir, "bad"))
	if err != nil || !strings.Contains(string(bad), "2: job a has another owner") || !strings.Contains(string(bad), "2: gpu 0 has another owner") {
		t.Errorf("the books say (%v):\n%s", err, bad)
	}
}
