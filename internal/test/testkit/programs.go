package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// ProgramsEnv names a folder that has the programs under test, comb and train: one build serves
// all tests of a run, also those that have no Go around them.
const ProgramsEnv = "COMB_TEST_PROGRAMS"

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Programs returns the folder with the programs comb and train, as an absolute path. They are
// built, once for a process, unless COMB_TEST_PROGRAMS names a folder that has them. Processes that
// TestMain starts find the same ones, since it is set then. Drop removes what was built.
func Programs() (string, error) {
	built.once.Do(func() {
		if dir := os.Getenv(ProgramsEnv); dir != "" && !Raced {
			built.dir, built.err = filepath.Abs(dir)
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "comb-programs-"); built.err == nil {
			drop, built.err = built.dir, build(built.dir)
			os.Setenv(ProgramsEnv, drop)
		}
	})
	return built.dir, built.err
}

// Bin is Programs for one test, in packages whose TestMain builds nothing.
func Bin(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(ProgramsEnv)
	if dir == "" || Raced {
		dir = t.TempDir()
		if err := build(dir); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// build puts the programs into a folder. Under the race detector they have it, too.
func build(dir string) error {
	args, cgo := []string{"build", "-trimpath", "-o", dir}, "CGO_ENABLED=0"
	if Raced {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	const module = "github.com/combsched/comb/"
	c := exec.Command("go", append(args, module+"cmd/comb", module+"examples/train")...)
	c.Env = append(os.Environ(), cgo)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("the programs under test do not build: %w\n%s", err, out)
	}
	return nil
}

var drop string

// Drop removes the folder that Programs built in this process, if any: for TestMain.
func Drop() {
	if drop != "" {
		os.RemoveAll(drop)
	}
}

// FreeAddress is an address of this machine on which nothing listens, for a server that keeps it
// over restarts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
