package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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
// a test starts find the same ones, since the variable is set. Drop removes what was built.
func Programs() (string, error) {
	built.once.Do(func() {
		if dir := os.Getenv(ProgramsEnv); dir != "" && !Raced {
			built.dir, built.err = filepath.Abs(dir)
			return
		}
		built.dir, built.err = build()
	})
	return built.dir, built.err
}

// build puts the programs into a folder of their own. Under the race detector they have it, too.
func build() (string, error) {
	dir, err := os.MkdirTemp("", "comb-programs-")
	if err != nil {
		return "", err
	}
	args, cgo := []string{"build", "-trimpath", "-o", dir}, "CGO_ENABLED=0"
	if Raced {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	const module = "github.com/combsched/comb/"
	c := exec.Command("go", append(args, module+"cmd/comb", module+"examples/train")...)
	c.Env = append(os.Environ(), cgo)
	if out, err := c.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("the programs under test do not build: %w\n%s", err, out)
	}
	drop = dir
	return dir, os.Setenv(ProgramsEnv, dir)
}

var drop string

// Drop removes the folder that Programs built in this process, if any: for TestMain.
func Drop() {
	if drop != "" {
		os.RemoveAll(drop)
	}
}
