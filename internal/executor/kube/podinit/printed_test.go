package podinit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/podinit/early"
	"github.com/combsched/comb/internal/test/testkit"
)

// takes is a server that keeps what pods print. What it says may get lost.
type takes struct {
	mu      sync.Mutex
	away    bool
	lose    int // of 10 answers
	kept    int64
	text    bytes.Buffer
	missing int64
	whole   bool
	asked   int
	file    *os.File // what is kept is also there
}

// Log implements logServer, as the server's store does.
func (s *takes) Log(_ context.Context, b link.LogBlock) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.away {
		return 0, errors.New("nobody answers")
	}
	if len(b.Text) > link.LongestLog {
		return 0, errors.New("it is too much")
	}
	if b.From > s.kept {
		s.missing += b.From - s.kept
		s.kept = b.From
	}
	if from := s.kept - b.From; from < int64(len(b.Text)) {
		s.text.Write(b.Text[from:])
		s.kept = b.From + int64(len(b.Text))
		if s.file != nil {
			if _, err := s.file.Write(b.Text[from:]); err != nil {
				return 0, err
			}
		}
	}
	s.whole = s.whole || b.Last
	if rand.IntN(10) < s.lose {
		return 0, errors.New("the answer is lost")
	}
	return s.kept, nil
}

func (s *takes) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// prints returns what sends all that is written into a pipe.
func prints(t *testing.T, s logServer, keep int) (*printed, *os.File) {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); out.Close(); log.Close() })
	p := newPrinted(s, keep, in, log)
	p.begin(t.Context())
	return p, out
}

// What a task prints comes once, whatever answers are lost.
func TestWhatIsPrintedComesOnce(t *testing.T) {
	s := &takes{lose: 3}
	p, out := prints(t, s, 16<<20)
	var all strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(io.MultiWriter(&all, out), "line %d\n", i)
	}
	p.finish()
	log, err := os.ReadFile(p.out.Name())
	if err != nil || string(log) != all.String() {
		t.Errorf("the log of the container has %d bytes, want %d: %v", len(log), all.Len(), err)
	}
	if s.text.String() != all.String() || !s.whole || s.missing != 0 {
		t.Errorf("%d bytes came, want %d; whole %v, %d missing", s.text.Len(), all.Len(), s.whole, s.missing)
	}
}

// A task prints on while the server is away, and more than is kept: the newest is kept, and the
// server is told how much is missing.
func TestATaskPrintsWhileTheServerIsAway(t *testing.T) {
	s := &takes{}
	p, out := prints(t, s, 1<<20)
	fmt.Fprintln(out, "first")
	testkit.Wait(t, "the server has the first line", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.kept > 0
	})
	s.set(true)
	var all strings.Builder
	fmt.Fprintln(&all, "first")
	for i := range 300_000 { // it would wait for ever if nobody read the pipe
		fmt.Fprintf(io.MultiWriter(&all, out), "line %d\n", i)
	}
	testkit.Wait(t, "all is read", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.end == int64(all.Len())
	})
	p.mu.Lock()
	held := 0
	for _, part := range p.parts {
		held += len(part.text)
	}
	p.mu.Unlock()
	if held > 1<<20 || held < 700<<10 {
		t.Errorf("%d bytes are kept of 1 MiB", held)
	}
	s.set(false)
	p.finish()
	text := s.text.String()
	want := "first\n" + all.String()[all.Len()-held:]
	if gone := int64(all.Len() - len(want)); !s.whole || s.missing != gone || text != want {
		t.Errorf("%d bytes came, %d are missing, want %d; whole %v", len(text), s.missing, gone, s.whole)
	}
}

// What is kept takes hardly more memory than it has bytes, however much was printed before.
func TestWhatIsKeptTakesItsOwnSize(t *testing.T) {
	const keep, whole = 8 << 20, 40 << 20
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	p, out := prints(t, &takes{away: true}, keep)
	text := bytes.Repeat([]byte("some line of a log\n"), 4000)
	printed := int64(0)
	for printed < whole {
		n, err := out.Write(text)
		if printed += int64(n); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Wait(t, "all is read", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.end == printed
	})
	if took := heap() - before; took > keep+2<<20 {
		t.Errorf("%d bytes are held for %d that are kept", took, keep)
	}
}

// The end of a task waits for a server that is away, but not long, and sends nothing for ever.
func TestATaskEndsWhileTheServerIsAway(t *testing.T) {
	s := &takes{away: true}
	p, out := prints(t, s, 1<<20)
	fmt.Fprintln(out, "last words")
	p.finish()
	select {
	case <-p.sent:
	default:
		t.Error("it is sent still")
	}
	if s.asked < 2 || s.asked > 40 {
		t.Errorf("it was tried %d times", s.asked)
	}
}

// capturing is process 1 of a task whose output it takes over. What it sends is in a file.
func capturing(file, script string) int {
	f, err := os.Create(file)
	if err != nil {
		return 1
	}
	p, err := capturePrinted(context.Background(), &takes{file: f}, 1<<20)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer p.finish()
	return run([]string{"/bin/sh", "-c", script}, "", early.Received, nil)
}

// Standard output and error of a task come in their order, with what Comb says itself; they block,
// as programs expect. What the task leaves running does not hold up its end.
func TestTheOutputIsTakenOver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, left := filepath.Join(dir, "sent"), filepath.Join(dir, "left")
	script := `echo out; echo err >&2; grep flags: /proc/self/fdinfo/1; i=0
		while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done
		sleep 1000 & echo $! > ` + left + `; printf unfinished; exit 7`
	c := exec.Command(self, "capturing", file, script)
	out, err := c.Output()
	var pid int
	if text, err := os.ReadFile(left); err != nil {
		t.Error(err)
	} else if _, err := fmt.Sscan(string(text), &pid); err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
		t.Errorf("what the task left, %q, does not run: %v", text, err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("it ended with %v", err)
	}
	sent, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(sent, out) {
		t.Errorf("%d bytes were sent, and %d are in the log of the container: %v", len(sent), len(out), err)
	}
	text := string(out)
	// 01 is O_WRONLY, without O_NONBLOCK.
	if !strings.HasPrefix(text, "out\nerr\nflags:\t01\n") || !strings.HasSuffix(text, "line 3000\nunfinished") {
		t.Errorf("it is %.60q to %.60q", text, text[max(0, len(text)-60):])
	}
}
