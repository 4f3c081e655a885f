package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// children are what this test binary does instead of tests when childVar is set:
// tests start it again as another process.
const childVar = "COMB_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	mode := os.Getenv(childVar)
	if mode == "" {
		os.Exit(m.Run())
	}
	run := map[string]func(dir string) error{
		"append": appendForEver, "hold": hold, "full": fillDisk, "limit": hitFileLimit}[mode]
	if err := run(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(mode, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childVar+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

// open opens a store that closes with the test.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir, Options{ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// submission is a batch of one accepted job and its decision.
func submission(s *Store, first uint64, id model.JobID, source string) engine.Batch {
	job := &model.Job{Name: model.JobName(fmt.Sprintf("job-%d", id)), User: "ann", VC: "default", Source: source}
	return batch(s, first, model.JobSubmitted{ID: id, Job: job},
		model.Decided{Through: first, Now: model.Time(first), Version: model.Version})
}

func batch(s *Store, first uint64, events ...model.Event) engine.Batch {
	b := engine.Batch{First: first, Epoch: s.Epoch()}
	for i, e := range events {
		b.Records = append(b.Records, model.Record{Seq: first + uint64(i), Time: model.Time(first), Event: e})
	}
	return b
}

// fill appends n submissions after event first-1; each is two events.
func fill(t testing.TB, s *Store, first uint64, n int) {
	t.Helper()
	for i := range n {
		at := first + 2*uint64(i)
		if err := s.Append(context.Background(), submission(s, at, model.JobID(at/2+1), "source")); err != nil {
			t.Fatal(err)
		}
	}
}

// replayed returns all events after seq; it fails the test when one is missing.
func replayed(t testing.TB, s *Store, after uint64) []model.Record {
	t.Helper()
	var records []model.Record
	err := s.Replay(context.Background(), after, func(r model.Record) error {
		if want := after + uint64(len(records)) + 1; r.Seq != want {
			return fmt.Errorf("event %d instead of %d", r.Seq, want)
		}
		records = append(records, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// refused opens a directory that must be refused with a message that holds all words.
func refused(t *testing.T, dir string, words ...string) {
	t.Helper()
	s, err := Open(context.Background(), dir, Options{ReserveBytes: 1 << 20})
	if err == nil {
		s.Close()
		t.Fatalf("opened; want a refusal with %q", words)
	}
	if !strings.Contains(err.Error(), dir) {
		t.Errorf("the message does not name the directory: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("message %q lacks %q", err, w)
		}
	}
}

// lines starts a child and returns it with a reader of its output.
func lines(t *testing.T, mode, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := child(mode, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}
