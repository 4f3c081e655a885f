package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/executor"
)

// printed is what a kubelet says of lines, each a millisecond after the one before.
func printed(lines ...string) string {
	var b strings.Builder
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s", at.Format("2006-01-02T15:04:05.000000000Z"), l)
		at = at.Add(time.Millisecond)
	}
	return b.String()
}

func read(t *testing.T, dir string, from int64) string {
	t.Helper()
	l, err := Read(dir, from)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text, err := io.ReadAll(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func keep(t *testing.T, dir, text string, ended bool) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Copy(strings.NewReader(text), ended); err != nil {
		t.Fatal(err)
	}
}

func TestALineIsKeptOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir, 0); !errors.Is(err, executor.ErrNoLog) {
		t.Fatalf("before any line: %v", err)
	}
	long := strings.Repeat("x", 200<<10) + "\n"
	all := printed("one\n", "\n", long, "2026-01-02T03:04:05Z is text\n", "last, unfinished")
	want := "one\n\n" + long + "2026-01-02T03:04:05Z is text\nlast, unfinished"
	for cut := range len(all) {
		if cut > 100 && cut < len(all)-100 && cut%9973 != 0 {
			continue
		}
		dir := t.TempDir()
		// What comes up to a place, also inside a line or its time, a server that dies, and all of it again.
		keep(t, dir, all[:cut], false)
		if err := os.WriteFile(filepath.Join(dir, textFile), []byte(read(t, dir, 0)+"half of what the mark does not tell of"), 0o600); err != nil {
			t.Fatal(err)
		}
		keep(t, dir, all, true)
		if got := read(t, dir, 0); got != want {
			t.Fatalf("after a death behind byte %d the log is %d bytes, want %d", cut, len(got), len(want))
		}
	}
}

func TestReadFromSomewhere(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, printed("abc\n", "def\n"), false)
	for from, want := range map[int64]string{0: "abc\ndef\n", 4: "def\n", -4: "def\n", -100: "abc\ndef\n", 100: ""} {
		if got := read(t, dir, from); got != want {
			t.Errorf("from %d: %q, want %q", from, got, want)
		}
	}
}

func TestALogIsBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.most = 10
	if err := s.Copy(strings.NewReader(printed("12345678\n")), false); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(strings.NewReader(printed("12345678\n", "more\n", "and more\n")), false); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got := read(t, dir, 0); !strings.HasPrefix(got, "12345678\n[comb: what follows was left out") || strings.Count(got, "\n") != 2 {
		t.Errorf("it is %q", got)
	}
}

func TestWhatIsNoLineOfTheTask(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, printed("one\n"), false)
	keep(t, dir, "unable to retrieve container logs for containerd://12", true)
	if got := read(t, dir, 0); got != "one\n" {
		t.Errorf("it is %q", got)
	}
}

// A pod has two streams, whose lines may stand in another order than their times: none comes twice, whenever it is read again.
func TestLinesOfTwoStreams(t *testing.T) {
	dir := t.TempDir()
	in := strings.SplitAfter(printed("one\n", "two\n", "three\n", "four\n"), "\n")
	all := in[0] + in[2] + in[1] + in[3]
	for _, text := range []string{all[:len(all)-len(in[3])], all, all} {
		keep(t, dir, text, false)
	}
	keep(t, dir, all, true)
	if got := read(t, dir, 0); got != "one\nthree\ntwo\nfour\n" {
		t.Errorf("it is %q", got)
	}
}
