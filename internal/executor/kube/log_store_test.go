package kube

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
	l, err := readLog(dir, from)
	if errors.Is(err, executor.ErrNoLog) {
		return "" // there is no file before its first byte
	}
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
	s, err := openLogStore(dir)
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
	if _, err := readLog(dir, 0); !errors.Is(err, executor.ErrNoLog) {
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
		// What comes up to a place, also inside a line or its time, a server that dies, and all of
		// it again.
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

// whole reads all that is kept of a log, and checks that each byte of it stands where the task
// printed it.
func whole(t *testing.T, dir, printed string) (from, to int64) {
	t.Helper()
	l, err := readLog(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, err := io.ReadAll(l)
	l.Close()
	if l.GapEnd == 0 {
		if string(first) != printed || err != nil {
			t.Fatalf("%d bytes are read of %d, %v", len(first), len(printed), err)
		}
		return 0, 0
	}
	if !errors.Is(err, executor.ErrCut) || int64(len(first)) != l.GapStart || string(first) != printed[:l.GapStart] || l.End != int64(len(printed)) {
		t.Fatalf("before the gap, which is from %d to %d of %d, %d bytes are read: %v", l.GapStart, l.GapEnd, l.End, len(first), err)
	}
	if rest := read(t, dir, l.GapStart); rest != printed[l.GapEnd:] {
		t.Fatalf("behind the gap %d bytes are read, want %d", len(rest), int64(len(printed))-l.GapEnd)
	}
	return l.GapStart, l.GapEnd
}

// A log takes so much room at most, and has its first and its last lines, whenever its server is
// killed.
func TestALogIsBounded(t *testing.T) {
	dir := t.TempDir()
	var lines, texts []string
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 1000 {
		text := fmt.Sprintf("line %d%s\n", i, strings.Repeat(".", i%7))
		texts, lines = append(texts, text), append(lines, at.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano)+" "+text)
	}
	mark, gap := []byte(nil), int64(0)
	for i := 0; i < len(lines); i += 7 {
		s, err := openLogStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.bytes, s.head = 200, 50
		done := min(i+7, len(lines))
		if err := s.Copy(strings.NewReader(strings.Join(lines[max(i-20, 0):done], "")), false); err != nil {
			t.Fatal(err)
		}
		s.Close()
		_, to := whole(t, dir, strings.Join(texts[:done], ""))
		gap = max(gap, to)
		path := filepath.Join(dir, markFile)
		if i%5 == 0 && mark != nil { // it is killed before it has noted what it wrote
			if err := os.WriteFile(path, mark, 0o600); err != nil {
				t.Fatal(err)
			}
			i -= 7
			mark = nil
			continue
		}
		if mark, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	list, err := segments(dir)
	if err != nil || len(list) != files || gap < 10_000 {
		t.Errorf("it is kept in %d files, and so much is gone: %d, %v", len(list), gap, err)
	}
	if got := read(t, dir, -30); !strings.HasSuffix(got, texts[len(texts)-1]) || len(got) != 30 {
		t.Errorf("its end is %q", got)
	}
	if got := lastLine(dir); got != strings.TrimSpace(texts[len(texts)-1]) {
		t.Errorf("its last line is %q", got)
	}
}

// A reader that is slower than the task gets no byte twice and none of another place.
func TestASlowReader(t *testing.T) {
	dir := t.TempDir()
	s, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.bytes, s.head = 100, 30
	var all strings.Builder
	l := executor.Log{ReadCloser: &reader{dir: dir}} // as before its first byte
	at, cuts := int64(0), 0
	for i := range 4000 {
		text := fmt.Sprintf("%d\n", i)
		all.WriteString(text)
		if err := s.write([]byte(text), s.mark); err != nil {
			t.Fatal(err)
		}
		if i%100 < 97 && i > 200 {
			continue
		}
		part := make([]byte, 40)
		n, err := l.Read(part)
		if all.String()[at:at+int64(n)] != string(part[:n]) {
			t.Fatalf("at %d it reads %q", at, part[:n])
		}
		at += int64(n)
		if errors.Is(err, executor.ErrCut) {
			cuts++
			l.Close()
			if l, err = readLog(dir, at); err != nil || l.Start <= at {
				t.Fatalf("it goes on at %d after %d, %v", l.Start, at, err)
			}
			at = l.Start
		} else if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	l.Close()
	if cuts < 5 {
		t.Errorf("it was overtaken %d times", cuts)
	}
}

// A log of a version before has one file, which may be longer than one is now.
func TestALogOfAVersionBefore(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, printed("one\n"), false)
	text := read(t, dir, 0) + strings.Repeat("x", 500) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "stdout"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, markFile), fmt.Appendf(nil, `{"size": %d, "at": "2026-01-02T03:04:05Z", "full": true}`, len(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.bytes = 100
	if err := s.Copy(strings.NewReader("2026-01-02T03:04:05Z it\n2026-01-02T03:04:06Z more\n"), true); err != nil {
		t.Fatal(err)
	}
	s.Close()
	whole(t, dir, text+"more\n")
}

// Where the node has not kept what was printed while no server read it, the log says so, once.
func TestWhatTheNodeDropped(t *testing.T) {
	dir := t.TempDir()
	all := strings.SplitAfter(printed("one\n", "two\n", "three\n", "four\n"), "\n")
	keep(t, dir, all[0], false)
	for range 2 {
		keep(t, dir, all[2]+all[3], true)
	}
	if got := read(t, dir, 0); got != "one\n[comb: what was printed from 2026-01-02T03:04:05Z to 2026-01-02T03:04:05Z is missing here: the node keeps the end of a log alone, and this server had not read it by then]\nthree\nfour\n" {
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

// A pod has two streams, whose lines may stand in another order than their times: none comes twice,
// whenever it is read again.
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

// A write that fails, in the text, in the mark, or half done, loses no line and gives none twice:
// what was not kept is read again, and where the node has it no more the log says so.
func TestAWriteThatFails(t *testing.T) {
	all := strings.SplitAfter(printed("one\n", strings.Repeat("2", 30)+"\n", strings.Repeat("3", 30)+"\n", "four\n"), "\n")
	const gone = "one\n[comb: what was printed from 2026-01-02T03:04:05Z to 2026-01-02T03:04:05Z is missing here: the node keeps the end of a log alone, and this server had not read it by then]\nfour\n"
	for name, broken := range map[string]func(t *testing.T, s *logStore) (mended func()){
		"text": func(t *testing.T, s *logStore) func() {
			s.text.Close()
			s.text = readOnly(t, filepath.Join(s.dir, textFile))
			return func() {}
		},
		"mark": func(t *testing.T, s *logStore) func() {
			marks := s.marks
			s.marks = readOnly(t, filepath.Join(s.dir, markFile))
			return func() { s.marks.Close(); s.marks = marks }
		},
		"half": func(t *testing.T, s *logStore) func() { // the next file cannot be made, nor the way to it cleared
			s.bytes = 20
			inTheWay := filepath.Join(s.dir, nameOf(20))
			if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
			return func() { s.bytes = fileBytes; os.RemoveAll(inTheWay) }
		},
	} {
		for kept, want := range map[string]string{strings.Join(all, ""): strings.Join([]string{"one", strings.Repeat("2", 30), strings.Repeat("3", 30), "four\n"}, "\n"), all[3]: gone} {
			t.Run(fmt.Sprintf("%s, then %d bytes", name, len(kept)), func(t *testing.T) {
				dir := t.TempDir()
				keep(t, dir, all[0], false)
				s, err := openLogStore(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				since := s.Since()
				mended := broken(t, s)
				if err := s.Copy(strings.NewReader(strings.Join(all[:3], "")), false); !errors.Is(err, ErrNotWritten) || !s.Since().Equal(since) {
					t.Fatalf("it reads on from %v after a write that failed, want %v: %v", s.Since(), since, err)
				}
				if name != "half" && read(t, dir, 0) != "one\n" {
					t.Fatalf("after a write that failed it is %q", read(t, dir, 0))
				}
				mended()
				if err := s.Copy(strings.NewReader(kept), true); err != nil {
					t.Fatal(err)
				}
				if got := read(t, dir, 0); got != want {
					t.Errorf("it is %q, want %q", got, want)
				}
				again, err := openLogStore(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				if again.Since() != s.Since() || again.mark.Size != int64(len(want)) {
					t.Errorf("the next server goes on at %+v of %d bytes, want %v", again.mark, len(want), s.Since())
				}
			})
		}
	}
}

func readOnly(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
