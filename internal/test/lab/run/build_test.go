package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/test/testkit"
)

// fakeGo stands for the go command: it lists LEFT packages that are to be compiled once a file
// comes, and compiles half of them before another one does.
const fakeGo = `#!/bin/sh
case "$1 $*" in
list*-f*)
	while [ ! -e said ]; do sleep 0.05; done
	for i in $(seq $LEFT); do printf x; echo; done ;;
list*) seq -f p%g 20 ;;
*)
	for i in $(seq 10); do echo p$i >&2; done
	while [ ! -e go-on ]; do sleep 0.05; done
	for i in $(seq 11 20); do echo p$i >&2; done
	[ -z "$BAD" ] || { echo '# p20' >&2; echo 'p20.go:1:1: wrong' >&2; exit 1; } ;;
esac
`

// build says how far it is while it builds, only what is wrong where that fails, and little where
// nothing is left to do.
func TestBuildSaysHowFar(t *testing.T) {
	script, err := filepath.Abs("build")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		left      int
		bad, errs string
		waits     bool
	}{
		{left: 20, waits: true},
		{left: 20, waits: true, bad: "yes", errs: "# p20\np20.go:1:1: wrong\n"},
		{left: 3},
	} {
		t.Run(fmt.Sprint(c.left, c.bad), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "go"), []byte(fakeGo), 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", script, "build 2/3: bin/comb", "-o", "bin/comb", "./cmd/comb")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GO="+filepath.Join(dir, "go"), fmt.Sprint("LEFT=", c.left), "BAD="+c.bad)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			come := func(file string) {
				if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			if !c.waits {
				come("go-on")
			}
			var lines []string
			for s := bufio.NewScanner(out); s.Scan(); {
				if lines = append(lines, s.Text()); len(lines) == 1 {
					come("said") // the label, before anything is asked that takes time
				}
				if strings.HasPrefix(s.Text(), "  10 of 20 packages (50 %, ") {
					come("go-on")
				}
			}
			if err := cmd.Wait(); (err != nil) != (c.bad != "") || errs.String() != c.errs {
				t.Errorf("%v, %q; want %q", err, errs.String(), c.errs)
			}
			if lines[0] != "build 2/3: bin/comb" || c.waits != (len(lines) > 1) {
				t.Errorf("it said %q", lines)
			}
		})
	}
}
