package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/cli"
)

// stuck gives a text, then calls a function and waits for ever.
type stuck struct {
	text io.Reader
	then func()
}

func (s *stuck) Read(p []byte) (int, error) {
	n, err := s.text.Read(p)
	if errors.Is(err, io.EOF) {
		s.then()
		select {}
	}
	return n, err
}

// TestInterruptedInput interrupts commands that wait for more on standard input: before
// anything came, within the first row, and when the format is known.
func TestInterruptedInput(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	out := filepath.Join(t.TempDir(), "out.jsonl")
	head := "job_id,submit_s,duration_s,num_gpus,vc\n"
	for _, text := range []string{"", "job", head + strings.Repeat("a,1,1,1,v\n", 200_000)} {
		for _, args := range [][]string{{"trace", "convert", "-", "-o", out}, {"trace", "info", "-"}} {
			ctx, interrupt := context.WithCancel(context.Background())
			a := &cli.App{In: &stuck{strings.NewReader(text), interrupt}, Out: &bytes.Buffer{}, Errs: &bytes.Buffer{},
				Env: func(string) string { return "" }, Interrupted: ctx.Done()}
			root := tree(a)
			root.SetArgs(args)
			if code := a.Exit(root.ExecuteContext(ctx)); code != cli.ExitInterrupted {
				t.Errorf("%v after %d bytes: exit code %d: %s", args, len(text), code, a.Errs)
			}
			interrupt()
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("half a trace was written")
	}
}
