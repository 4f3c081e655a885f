package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/test/testkit"
	"golang.org/x/sys/unix"
)

// appendForEver appends batches of growing size and prints what is durable.
func appendForEver(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, dir, Options{ReserveBytes: 1 << 20})
	if err != nil {
		return err
	}
	last := s.mustHead()
	fmt.Println("open", last)
	for n := uint64(1); ; n++ {
		var events []model.Event
		for i := range n % 40 * 3 {
			id := model.JobID(last + i + 1)
			events = append(events, model.JobSubmitted{ID: id, Job: &model.Job{Name: "j", Source: strings.Repeat("x", 500)}})
		}
		if len(events) == 0 {
			// Snapshots and archive moves are killed as well.
			if err := s.SaveSnapshot(ctx, last, []byte(fmt.Sprint("state ", last))); err != nil {
				return err
			}
			continue
		}
		b := batch(s, last+1, events...)
		if err := s.Append(ctx, b); err != nil {
			return err
		}
		last = b.Last()
		fmt.Println("acked", last)
	}
}

func (s *Store) mustHead() (seq uint64) {
	if err := s.read.QueryRow("SELECT seq FROM head").Scan(&seq); err != nil {
		panic(err)
	}
	return seq
}

// TestKillLosesNothingAcked kills a writing process again and again.
func TestKillLosesNothingAcked(t *testing.T) {
	loops := 15
	if n, err := strconv.Atoi(os.Getenv("COMB_KILL_LOOPS")); err == nil {
		loops = n
	}
	dir := filepath.Join(t.TempDir(), "data")
	random := rand.New(rand.NewPCG(1, 2))
	acked, acks := uint64(0), 0
	for i := range loops {
		cmd, out := lines(t, "append", dir)
		delay := time.Duration(random.IntN(120)) * time.Millisecond
		kill := sync.OnceFunc(func() {
			go func() {
				time.Sleep(delay) // a kill comes at any moment
				_ = cmd.Process.Kill()
			}()
		})
		if i%3 == 0 { // wherever it is by then, also before it appends
			delay += 60 * time.Millisecond
			kill()
		}
		for out.Scan() {
			word, number, _ := strings.Cut(out.Text(), " ")
			n, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				continue // cut off by the kill
			}
			if word == "open" && n < acked {
				t.Fatalf("event %d was acked; the journal ends at %d after the kill", acked, n)
			}
			if word == "acked" {
				acked, acks = n, acks+1
				kill()
			}
		}
		_ = cmd.Wait()
	}
	s := open(t, dir)
	if n := len(replayed(t, s, 0)); uint64(n) < acked || acked == 0 {
		t.Fatalf("%d events are there, %d were acked", n, acked)
	}
	state, seq, err := s.Snapshot(context.Background())
	if err != nil || seq > 0 && string(state) != fmt.Sprint("state ", seq) {
		t.Fatalf("snapshot of %d is %q, %v", seq, state, err)
	}
	t.Logf("%d kills, %d acked batches, %d events, last snapshot at %d", loops, acks, acked, seq)
}

// TestKilledInitialisation kills a process at every stage of its first start: the
// next one finishes what it began.
func TestKilledInitialisation(t *testing.T) {
	for i := range 12 {
		dir := filepath.Join(t.TempDir(), "data")
		cmd, _ := lines(t, "hold", dir)
		time.Sleep(time.Duration(i) * 3 * time.Millisecond) // a kill comes at any moment
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s, err := Open(context.Background(), dir, Options{ReserveBytes: 1 << 20})
		if err != nil {
			t.Fatalf("killed after %d ms: %v", 3*i, err)
		}
		fill(t, s, 1, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// held is the store of hold: one that nothing names is collected, and its lock file closed.
var held *Store

// hold opens the store and keeps it until it is killed.
func hold(dir string) (err error) {
	if held, err = Open(context.Background(), dir, Options{ReserveBytes: 1 << 20}); err != nil {
		return err
	}
	runtime.GC()
	fmt.Println("open")
	select {}
}

func TestSecondProcessIsRefusedWithThePidOfTheFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cmd, out := lines(t, "hold", dir)
	if !out.Scan() {
		t.Fatal("the first process did not open the directory")
	}
	refused(t, dir, "in use by process "+strconv.Itoa(cmd.Process.Pid), "stop that server")

	reader, err := Open(context.Background(), dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("a reader beside a server: %v", err)
	}
	if n := len(replayed(t, reader, 0)); n != 0 {
		t.Errorf("%d events in an empty journal", n)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if s := open(t, dir); s.Epoch() != 2 {
		t.Errorf("epoch %d after the second start", s.Epoch())
	}
}

// TestFullDisk runs on a small file system of its own where the machine lets it,
// as root or in a user namespace. TestFileLimit covers every machine.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	var denied error
	for _, flags := range []uintptr{syscall.CLONE_NEWNS, syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER} {
		cmd := child("full", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err == nil {
			t.Logf("%s", out)
			return
		}
		if errors.As(err, &exit) && exit.ExitCode() == 1 && !strings.Contains(string(out), "cannot mount") {
			t.Fatalf("%v: %s", err, out)
		}
		denied = errors.Join(denied, err)
	}
	t.Logf("no file system of its own (%v): only the file size limit is tested here", denied)
}

// fillDisk lets a store run into a full disk and out again.
func fillDisk(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Println("cannot mount:", err)
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		fmt.Println("cannot mount:", err)
		return err
	}
	ctx := context.Background()
	data := filepath.Join(dir, "data")
	s, err := Open(ctx, data, Options{ReserveBytes: 10 << 20})
	if err != nil {
		return err
	}
	if err := s.Room(); err != nil {
		return fmt.Errorf("no room on an empty disk: %w", err)
	}
	filler := filepath.Join(dir, "filler")
	if err := fillUp(filler, dir); err != nil {
		return err
	}
	acked := uint64(0)
	for err == nil {
		if err = s.Append(ctx, submission(s, acked+1, model.JobID(acked+1), strings.Repeat("x", 50_000))); err == nil {
			acked += 2
		}
		if acked > 2000 {
			return errors.New("the disk does not fill up")
		}
	}
	if !errors.Is(err, engine.ErrFull) {
		return fmt.Errorf("a full disk gives %w", err)
	}
	if s.Room() == nil {
		return errors.New("there is room on a full disk")
	}
	before := acked
	for range 200 { // stops and exits, on what the reserve was
		exit := model.TaskExited{Attempt: model.AttemptID{Job: 1, N: 1}, Exit: model.Exit{Code: 1}}
		if err := s.Append(ctx, batch(s, acked+1, exit)); err != nil {
			return fmt.Errorf("on the freed reserve: %w", err)
		}
		acked++
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	freed := time.Now()
	if !testkit.Within(testkit.Patience, func() bool { return s.Room() == nil }) {
		return fmt.Errorf("not recovered %v after space was freed: %w", testkit.Patience, s.Room())
	}
	recovery := time.Since(freed)
	if err := s.Append(ctx, submission(s, acked+1, model.JobID(acked+1), "more")); err != nil {
		return err
	}
	acked += 2
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = Open(ctx, data, Options{ReserveBytes: 10 << 20}); err != nil {
		return err
	}
	n := uint64(0)
	if err := s.Replay(ctx, 0, func(model.Record) error { n++; return nil }); err != nil || n != acked {
		return fmt.Errorf("%d events of %d acked: %w", n, acked, err)
	}
	fmt.Printf("full after event %d, %d more on the reserve, room again %v after space was freed\n", before, 200, recovery)
	return s.Close()
}

// fillUp leaves 3 MiB free.
func fillUp(path, dir string) error {
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	return allocate(path, free-3<<20)
}

// TestFileLimit lets every write beyond a file size fail.
func TestFileLimit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	out, err := child("limit", dir).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	acked, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || acked == 0 {
		t.Fatalf("acked %q", out)
	}
	if n := len(replayed(t, open(t, dir), 0)); n != acked {
		t.Errorf("%d events, %d acked", n, acked)
	}
}

// hitFileLimit appends until it fails, and goes on when the limit is lifted.
func hitFileLimit(dir string) error {
	signal.Ignore(unix.SIGXFSZ)
	ctx := context.Background()
	s, err := Open(ctx, dir, Options{ReserveBytes: 1 << 10})
	if err != nil {
		return err
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: was.Max}); err != nil {
		return err
	}
	acked := uint64(0)
	failures := 0
	for failures < 5 {
		err := s.Append(ctx, submission(s, acked+1, model.JobID(acked+1), strings.Repeat("x", 20_000)))
		if err != nil {
			failures++
			continue
		}
		acked += 2
		if acked > 2000 {
			return errors.New("the limit is not felt")
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := s.Append(ctx, submission(s, acked+1, model.JobID(acked+1), "after")); err != nil {
		return fmt.Errorf("after the limit was lifted: %w", err)
	}
	fmt.Println(acked + 2)
	return s.Close()
}
