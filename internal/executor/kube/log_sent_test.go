package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

// sentAt is when the pods of these tests print.
var sentAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func sent(from int64, text string) link.LogBlock {
	return link.LogBlock{From: from, At: sentAt, Text: []byte(text)}
}

func openStore(t *testing.T, dir string) *logStore {
	t.Helper()
	s, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// What a pod sends is kept once, whatever it sends again, and wherever the server is killed.
func TestWhatAPodSendsIsKeptOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&all, "line %d%s\n", i, strings.Repeat(".", i%50))
	}
	dir, text, kept := t.TempDir(), all.String(), int64(0)
	s := openStore(t, dir)
	for kept < int64(len(text)) {
		from := max(kept-r.Int64N(100), 0)
		b := sent(from, text[from:min(from+r.Int64N(400), int64(len(text)))])
		b.Last = b.From+int64(len(b.Text)) == int64(len(text))
		before, err := os.ReadFile(filepath.Join(dir, markFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if kept, err = s.Take(b); err != nil || kept < b.From {
			t.Fatalf("%d are kept: %v", kept, err)
		}
		switch r.IntN(10) {
		case 0: // the server is killed, and the answer lost
			s.Close()
			s = openStore(t, dir)
		case 1: // it is killed before it has noted what it wrote
			s.Close()
			if err := os.WriteFile(filepath.Join(dir, markFile), before, 0o600); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, dir)
			kept = s.mark.Sent
		}
	}
	if got := read(t, dir, 0); got != text {
		t.Fatalf("%d bytes are kept, want %d", len(got), len(text))
	}
	if s = openStore(t, dir); !s.mark.Whole || s.mark.Sent != int64(len(text)) {
		t.Errorf("the mark is %+v", s.mark)
	}
	if kept, err := s.Take(sent(kept, "after its end")); err != nil || kept != int64(len(text)) || read(t, dir, 0) != text {
		t.Errorf("something follows the end: %d, %v", kept, err)
	}
}

// What the pod had no room for is told in the log, once, and what comes from the future or the past
// is harmless.
func TestWhatAPodDropped(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	for _, c := range []struct {
		block link.LogBlock
		want  string
		kept  int64
	}{
		{sent(0, "one\ntw"), "one\ntw", 6},
		{sent(100, "nine\n"), "one\ntw\n[comb: 94 bytes are missing here, printed up to 2026-01-02T03:04:05Z: a pod keeps only the end of what it prints while no server takes it]\nnine\n", 105},
		{sent(100, "nine\n"), "", 105},
		{sent(0, "one\n"), "", 105},
		{sent(105, ""), "", 105},
		{sent(103, "e\nten\n"), "ten\n", 109},
		{sent(math.MaxInt64/2, "x\n"), fmt.Sprintf("[comb: %d bytes are missing here, printed up to 2026-01-02T03:04:05Z: a pod keeps only the end of what it prints while no server takes it]\nx\n", int64(math.MaxInt64/2-109)), math.MaxInt64/2 + 2},
		{sent(109, "late\n"), "", math.MaxInt64/2 + 2},
	} {
		before := ""
		if l, err := os.ReadFile(filepath.Join(dir, textFile)); err == nil {
			before = string(l)
		}
		kept, err := s.Take(c.block)
		if c.block.From == 100 && c.want != "" {
			before = "" // the case says all of it
		}
		if got := read(t, dir, 0); err != nil || kept != c.kept || got != before+c.want {
			t.Errorf("after %d: %q, want %q behind %q; %d kept, %v", c.block.From, got, c.want, before, kept, err)
		}
	}
	if tail, err := s.tail(); err != nil || string(tail) != "x\n" {
		t.Errorf("its end as it was printed is %q, %v", tail, err)
	}
}

// A crash of the machine may lose text that was acknowledged: what is left stays, and the log says
// what is missing.
func TestTextThatACrashLost(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := s.Take(sent(0, "one\ntwo\nthree\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, textFile), 8); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	if s.mark.Sent != 8 || read(t, dir, 0) != "one\ntwo\n" {
		t.Fatalf("%+v, %q", s.mark, read(t, dir, 0))
	}
	if kept, err := s.Take(sent(14, "four\n")); err != nil || kept != 19 {
		t.Fatalf("%d, %v", kept, err)
	}
	if got := read(t, dir, 0); !strings.HasPrefix(got, "one\ntwo\n[comb: 6 bytes are missing here") || !strings.HasSuffix(got, "]\nfour\n") {
		t.Errorf("it is %q", got)
	}
}

// kubeletSays is what a kubelet says of a text, each line a millisecond after the one before.
func kubeletSays(text string, from time.Time) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		fmt.Fprintf(&b, "%s %s", from.Format("2006-01-02T15:04:05.000000000Z"), l)
		from = from.Add(time.Millisecond)
	}
	return b.String()
}

// What a pod did not send before its end is read of its kubelet, from that very byte: by the
// number of bytes, and where the kubelet has only the end of the log by what was sent last.
func TestTheRestOfALog(t *testing.T) {
	var all strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	text := all.String()
	same := strings.Repeat("same\n", 3000)
	long := "short\n" + strings.Repeat("0123456789", 20_000) + "\nshort\n"
	for name, c := range map[string]struct {
		text    string
		sent    int
		rotated int // bytes that the kubelet has no more
		counts  bool
		found   bool
	}{
		"from its beginning": {text, 0, 0, true, true}, "in a line": {text, 10_001, 0, true, true}, "at a line": {text, strings.Index(text, "line 2000\n"), 0, true, true}, "nothing": {text, len(text), 0, true, true},
		"the same lines": {same, 7003, 0, true, true}, "all was rotated away": {text, 100, 10_000, true, false}, "not by number": {text, 10_001, 5000, true, false},
		"in a long line": {long, 100_000, 0, true, true}, "behind a long line": {long, 200_007, 0, true, true},
		"in a long line, by what was sent last": {long, 3, 1, false, false},
		"by what was sent last":                 {text, 10_001, 5000, false, true}, "that is gone, too": {text, 10_001, 15_000, false, false}, "nothing was sent": {text, 0, 5000, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir)
			b := sent(0, c.text[:c.sent])
			b.At = sentAt.Add(-time.Hour)
			if _, err := s.Take(b); err != nil {
				t.Fatal(err)
			}
			from := strings.Index(c.text[c.rotated:], "\n") + 1 + c.rotated
			if c.rotated == 0 {
				from = 0
			}
			said := kubeletSays(c.text[from:], sentAt) + "unable to retrieve container logs for containerd://12"
			found, err := s.Rest(strings.NewReader(said), c.counts)
			if err != nil || found != c.found {
				t.Fatalf("found %v, %v", found, err)
			}
			want := c.text
			if !found {
				want = c.text[:c.sent]
			}
			if got := read(t, dir, 0); got != want || s.mark.Whole != found {
				t.Errorf("%d bytes are kept, want %d; %+v", len(got), len(want), s.mark)
			}
		})
	}
}

// A pod that was ended in between prints its last lines to the kubelet alone; where that has them
// no more either, the log says so.
func TestTheRestThatIsGone(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := s.Take(sent(0, "one\n")); err != nil {
		t.Fatal(err)
	}
	said := kubeletSays("eight\nnine\n", sentAt.Add(time.Minute))
	for _, counts := range []bool{true, false} {
		if found, err := s.Rest(strings.NewReader(said), counts); found || err != nil {
			t.Fatalf("found %v, %v", found, err)
		}
	}
	if err := s.Copy(strings.NewReader(said), true); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, 0); !strings.HasPrefix(got, "one\n[comb: what was printed from") || !strings.HasSuffix(got, "]\neight\nnine\n") {
		t.Errorf("it is %q", got)
	}
}

// The files of a log that gets nothing are closed, and opened again when something comes.
func TestAQuietLog(t *testing.T) {
	l, dir := &sentLog{}, t.TempDir()
	l.store = openStore(t, dir)
	if _, err := l.store.Take(sent(0, "one\n")); err != nil {
		t.Fatal(err)
	}
	l.used = time.Now().Add(-unusedFor / 2)
	if l.rest(); l.store == nil {
		t.Error("it is closed at once")
	}
	l.used = time.Now().Add(-2 * unusedFor)
	if l.rest(); l.store != nil {
		t.Error("it stays open")
	}
	if whole, err := l.end(dir); whole || err != nil || !l.over || l.store != nil {
		t.Errorf("it ends: %v, %v", whole, err)
	}
}
