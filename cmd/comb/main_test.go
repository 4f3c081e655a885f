package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/test/testkit"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

// TestMain makes this test binary the comb command of the scripts, and so also
// the supervisor of their tasks, and a registry of images.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"comb": main, "registry": serveRegistry})
}

// TestScripts runs the command line against real servers with real tasks.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	testscript.Run(t, testscript.Params{
		Files: ofTurn(files),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o700)
		},
		Condition: conditionOf,
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"serving": untilServing, "eventually": eventually, "ran": ranFor, "token": tokenOf, "certify": certify, "fetch": fetch, "rules": rules},
	})
}

// conditionOf says whether a line of a script counts: [root] where servers and tasks may be of any
// user.
func conditionOf(name string) (bool, error) {
	if name != "root" {
		return false, fmt.Errorf("there is no condition %q", name)
	}
	return os.Geteuid() == 0, nil
}

// turnEnv numbers a run under the race detector.
const turnEnv = "COMB_TURN"

// ofTurn are the scripts of a test in its short form, under the race detector: a third, by turns,
// which turnEnv numbers. In full they are all.
func ofTurn(files []string) (some []string) {
	if !testing.Short() {
		return files
	}
	turn, _ := strconv.Atoi(os.Getenv(turnEnv)) // else the first
	for i := turn % 3; i < len(files); i += 3 {
		some = append(some, files[i])
	}
	return some
}

// tokenOf makes a data directory, and in a file a token of a user: token DIR USER FILE.
func tokenOf(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	s, err := store.Open(ctx, ts.MkAbs(args[0]), store.Options{Now: cli.WallTime()})
	ts.Check(err)
	text, _, err := s.CreateToken(ctx, "test", model.Subject(args[1]), cli.WallTime())
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text+"\n"), 0o600))
	ts.Check(s.Close())
}

// untilServing waits until the file in which a server says where it is is there.
func untilServing(ts *testscript.TestScript, _ bool, args []string) {
	if !testkit.Within(testkit.Patience, func() bool { _, err := os.Stat(ts.MkAbs(args[0])); return err == nil }) {
		ts.Fatalf("the server did not start: %s is not there", args[0])
	}
}

// eventually repeats a command until its output matches a pattern. It gives up late: a machine that
// is busy with other tests takes several times as long for a task.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	if !testkit.Within(3*time.Minute, func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return err == nil && want.MatchString(ts.ReadFile("stdout")) != neg
	}) {
		ts.Fatalf("%s: never matches %q; at last:\n%s", strings.Join(args[1:], " "), args[0], ts.ReadFile("stdout"))
	}
}

// ranFor compares the RUN of jobs that have ended with their events. One alone ran for all the time
// between the start and the end of its attempts, and not in between. Several that took turns on one
// GPU ran, together, for no longer than the time from the first start to the last end.
func ranFor(ts *testscript.TestScript, _ bool, args []string) {
	var ran, held, first, last int64
	for _, name := range args {
		var job struct{ Ran, Started, Ended int64 }
		var list struct{ Events []rest.Event }
		for noun, to := range map[string]any{"get": &job, "events": &list} {
			ts.Check(ts.Exec("comb", "job", noun, name, "-o", "json"))
			ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), to))
		}
		var start int64
		for _, e := range list.Events {
			switch e.Kind {
			case model.KindOf(model.TaskStarted{}):
				start = int64(e.Time)
			case model.KindOf(model.AttemptEnded{}):
				held += int64(e.Time) - start
			}
		}
		if job.Ran <= 0 || job.Ran >= job.Ended-job.Started {
			ts.Fatalf("%s ran for %d us of the %d us since its start", name, job.Ran, job.Ended-job.Started)
		}
		ran += job.Ran
		if first == 0 || job.Started < first {
			first = job.Started
		}
		last = max(last, job.Ended)
	}
	if len(args) == 1 && ran != held || len(args) > 1 && ran > last-first {
		ts.Fatalf("%s ran for %d us; their attempts lived for %d us within %d us", strings.Join(args, ", "), ran, held, last-first)
	}
}

// TestCommandPage holds docs/cli.md to the help of the commands.
func TestCommandPage(t *testing.T) {
	a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Errs: &bytes.Buffer{}, Env: func(string) string { return "" }}
	var page bytes.Buffer
	page.WriteString(`# The command line

This page is made of the help of the commands: "go test ./cmd/comb -update" writes it.
`)
	writeCommand(&page, tree(a))
	path := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, page.Bytes()) {
		t.Errorf("%s is not what the commands say: run go test ./cmd/comb -update and read the difference", path)
	}
}

func writeCommand(b *bytes.Buffer, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	c.InitDefaultHelpFlag()
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	b.WriteString("\n## " + c.CommandPath() + "\n\n" + text + "\n\n```\n" + strings.TrimSpace(c.UsageString()) + "\n```\n")
	for _, sub := range c.Commands() {
		writeCommand(b, sub)
	}
}
