package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sched"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var ctx = context.Background()

func TestEventsOutliveArchiveAndRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	fill(t, s, 1, 1200) // 2,400 events: more than a page and a chunk
	before := replayed(t, s, 0)
	if len(before) != 2400 {
		t.Fatalf("%d events", len(before))
	}
	for _, seq := range []uint64{700, 2300} {
		if err := s.SaveSnapshot(ctx, seq, []byte(fmt.Sprintf("state %d", seq))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, replayed(t, s, 0)); diff != "" {
			t.Fatalf("after the snapshot of %d: %s", seq, diff)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	fill(t, s, 2401, 5)
	for _, after := range []uint64{0, 1, 699, 700, 701, 1699, 1700, 2299, 2300, 2399} {
		if diff := cmp.Diff(before[after:], replayed(t, s, after)[:2400-after]); diff != "" {
			t.Errorf("after %d: %s", after, diff)
		}
	}
	if n := len(replayed(t, s, 5000)); n != 0 {
		t.Errorf("%d events after the end", n)
	}
	if state, seq, err := s.Snapshot(ctx); string(state) != "state 2300" || seq != 2300 || err != nil {
		t.Errorf("snapshot %d %q %v", seq, state, err)
	}
}

func TestDamagedSnapshotFallsBackToTheOneBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	if state, seq, err := s.Snapshot(ctx); state != nil || seq != 0 || err != nil {
		t.Fatalf("snapshot of an empty store: %q %d %v", state, seq, err)
	}
	fill(t, s, 1, 20)
	for seq := range uint64(5) {
		if err := s.SaveSnapshot(ctx, seq+1, []byte{byte(seq)}); err != nil {
			t.Fatal(err)
		}
	}
	execSQL("UPDATE snapshots SET data = x'00' WHERE seq = 5")(t, dir)
	if state, seq, err := s.Snapshot(ctx); !bytes.Equal(state, []byte{3}) || seq != 4 || err != nil {
		t.Errorf("snapshot %v of %d, %v; want that of 4", state, seq, err)
	}
	if n := len(replayed(t, s, 4)); n != 36 {
		t.Errorf("%d events after the older snapshot", n)
	}
	var problems []string
	if _, err := s.Check(ctx, func(p string) { problems = append(problems, p) }); err != nil || len(problems) != 1 ||
		!strings.Contains(problems[0], "the snapshot of event 5 is damaged") {
		t.Errorf("what is said of the damaged snapshot: %q, %v", problems, err)
	}
}

func TestFencing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	fill(t, s, 1, 3)
	old := submission(s, 7, 4, "")
	old.Epoch--
	wrong := map[string]engine.Batch{
		"gap": submission(s, 8, 4, ""), "overlap": submission(s, 6, 4, ""), "old epoch": old}
	for name, b := range wrong {
		if err := s.Append(ctx, b); !errors.Is(err, engine.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(replayed(t, s, 0)); n != 6 {
		t.Errorf("%d events", n)
	}
	fill(t, s, 7, 1)
}

func TestAppendIsAllOrNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	b := submission(s, 1, 1, "")
	b.Ended = []sched.JobStatus{{ID: 9}, {ID: 9}} // the second breaks a key
	b.Secrets = []engine.JobSecrets{{Job: 1, Values: map[string]string{"a": "b"}}}
	if err := s.Append(ctx, b); err == nil {
		t.Fatal("appended")
	}
	if n := len(replayed(t, s, 0)); n != 0 {
		t.Errorf("%d events of a failed batch", n)
	}
	if _, ok, err := s.Job(ctx, 9); ok || err != nil {
		t.Errorf("a finished job of a failed batch: %v %v", ok, err)
	}
	if values, err := s.Secrets(ctx, 1); values != nil || err != nil {
		t.Errorf("secrets of a failed batch: %v %v", values, err)
	}
	fill(t, s, 1, 1)
}

func TestFinishedJobs(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	b := submission(s, 1, 1, "")
	phases := []sched.Phase{sched.Succeeded, sched.Failed, sched.Stopped}
	for id := range sched.JobID(250) {
		b.Ended = append(b.Ended, sched.JobStatus{ID: id + 1, Name: sched.JobName(fmt.Sprintf("n%d", id%5)), User: "ann",
			VC: "a", Phase: phases[id%3], Message: "it's <done>"})
	}
	b.Ended[99].User, b.Ended[99].VC = "bob", "b" // his n4
	if err := s.Append(ctx, b); err != nil {
		t.Fatal(err)
	}
	count := func(f Filter) (n int) {
		for {
			page, next, err := s.Finished(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(page); i++ {
				if page[i].ID >= page[i-1].ID {
					t.Fatalf("job %d follows %d", page[i].ID, page[i-1].ID)
				}
			}
			n += len(page)
			if next == 0 {
				return n
			}
			f.Before = next
		}
	}
	for want, filters := range map[int][]Filter{
		250: {{}, {Limit: 7}, {Limit: 50}, {Limit: 1 << 30}, {Limit: -1}},
		249: {{User: "ann", Limit: 83}, {VC: "a"}},
		1:   {{User: "bob"}, {VC: "b"}},
		0:   {{User: "' OR 1=1 --"}, {User: "ann", VC: "b"}},
		84:  {{Phases: phases[:1]}},
		166: {{Phases: phases[1:]}},
	} {
		for _, f := range filters {
			if n := count(f); n != want {
				t.Errorf("%+v: %d jobs, want %d", f, n, want)
			}
		}
	}
	if j, ok, err := s.Job(ctx, 100); !ok || err != nil || cmp.Diff(j, b.Ended[99]) != "" {
		t.Errorf("job 100: %+v %v %v", j, ok, err)
	}
	if _, ok, err := s.Job(ctx, 251); ok || err != nil {
		t.Errorf("job 251: %v %v", ok, err)
	}
	// A name is its user's own: the latest of that user, however many others have had it since.
	for _, c := range []struct {
		user sched.Subject
		name sched.JobName
		want sched.JobID
	}{{"ann", "n3", 249}, {"ann", "n4", 250}, {"bob", "n4", 100}, {"bob", "n3", 0}, {"", "n4", 0}} {
		if j, ok, err := s.LastNamed(ctx, c.user, c.name); ok != (c.want > 0) || err != nil || j.ID != c.want {
			t.Errorf("latest %s of %s: %d %v %v, want %d", c.name, c.user, j.ID, ok, err, c.want)
		}
	}
}

func TestEventsOfAJob(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	const jobs, each = 7, 400
	seq := uint64(0)
	for i := range each {
		var events []sched.Event
		for id := range sched.JobID(jobs) {
			if i == 0 {
				events = append(events, sched.JobSubmitted{ID: id + 1, Job: &sched.Job{Source: fmt.Sprintf("source %d", id+1)}})
			} else {
				events = append(events, sched.Progress{Attempt: sched.AttemptID{Job: id + 1, N: 1}, Step: int64(i)})
			}
		}
		b := batch(s, seq+1, events...)
		if err := s.Append(ctx, b); err != nil {
			t.Fatal(err)
		}
		seq = b.Last()
		if i == 330 {
			if err := s.SaveSnapshot(ctx, seq, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, limit := range []int{0, 1, 37, each} {
		var got []sched.Record
		for after := uint64(0); ; {
			page, err := s.JobEvents(ctx, 3, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1].Seq
		}
		if len(got) != each {
			t.Fatalf("limit %d: %d events", limit, len(got))
		}
		for i, r := range got[1:] {
			if p := r.Event.(sched.Progress); p.Attempt.Job != 3 || p.Step != int64(i+1) {
				t.Fatalf("event %d is %+v", i+1, p)
			}
		}
	}
	if job, ok, err := s.Spec(ctx, 5); !ok || err != nil || job.Source != "source 5" {
		t.Errorf("spec of job 5: %+v %v %v", job, ok, err)
	}
	if _, ok, err := s.Spec(ctx, 8); ok || err != nil {
		t.Errorf("spec of no job: %v %v", ok, err)
	}
}

func TestSecretsAreSealedBoundAndErased(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	const canary = "canary-7f3a9c"
	b := submission(s, 1, 1, "")
	b.Secrets = []engine.JobSecrets{{Job: 1, Values: map[string]string{"token": canary}}, {Job: 2, Values: map[string]string{"x": canary}}}
	if err := s.Append(ctx, b); err != nil {
		t.Fatal(err)
	}
	if values, err := s.Secrets(ctx, 1); err != nil || values["token"] != canary {
		t.Fatalf("%v %v", values, err)
	}
	if values, err := s.Secrets(ctx, 3); err != nil || values != nil {
		t.Errorf("of no job: %v %v", values, err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	execSQL("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE job = 1) WHERE job = 2")(t, dir)
	if values, err := s.Secrets(ctx, 2); err == nil {
		t.Errorf("another job's secrets open: %v", values)
	}
	end := batch(s, 3, sched.JobEnded{Job: 1})
	end.Ended = []sched.JobStatus{{ID: 1, Phase: sched.Stopped}}
	if err := s.Append(ctx, end); err != nil {
		t.Fatal(err)
	}
	if values, err := s.Secrets(ctx, 1); err != nil || values != nil {
		t.Errorf("after the end: %v %v", values, err)
	}
}

func TestTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	now := sched.Time(1_000_000)
	text, made, err := s.CreateToken(ctx, "laptop", "ann", now)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := s.CreateToken(ctx, "ci", "bob", now+1)
	if err != nil || other == text {
		t.Fatal(other, err)
	}
	if parts := strings.Split(text, "_"); len(parts) != 3 || parts[0] != "comb" || len(parts[2]) != 64 {
		t.Fatalf("token %q", text)
	}
	later := now.Add(2 * sched.Minute)
	if got, ok := s.CheckToken(ctx, text, later); !ok || got.Subject != "ann" || got.ID != made.ID || got.Used != later {
		t.Errorf("%+v %v", got, ok)
	}
	for _, wrong := range []string{"", "comb_", "comb__", text[:len(text)-1], text + "0", strings.ToUpper(text), text[5:],
		"comb_" + made.ID + "_" + strings.Split(other, "_")[2], strings.Repeat("comb_", 1000)} {
		if _, ok := s.CheckToken(ctx, wrong, later); ok {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, databaseFile)); err != nil || bytes.Contains(data, []byte(text[len(text)-64:])) {
		t.Errorf("the secret is in the database (%v)", err)
	}
	s = open(t, dir)
	if list := s.ListTokens(); len(list) != 2 || list[0].Name != "laptop" || list[0].Used != later || list[1].Name != "ci" {
		t.Errorf("%+v", list)
	}
	if ok, err := s.RevokeToken(ctx, made.ID); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := s.RevokeToken(ctx, made.ID); ok || err != nil {
		t.Error("revoked twice", ok, err)
	}
	if _, ok := s.CheckToken(ctx, text, later); ok {
		t.Error("a revoked token is accepted")
	}
	if _, ok := s.CheckToken(ctx, other, later); !ok {
		t.Error("the other token is refused")
	}
}

// TestCallersThatHangUp cancel in the middle of writes; the writer must stay whole.
func TestCallersThatHangUp(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	made := 0
	for i := range 300 {
		short, cancel := context.WithTimeout(ctx, time.Duration(i)*2*time.Microsecond)
		if _, _, err := s.CreateToken(short, "t", "ann", 1); err == nil {
			made++
		}
		cancel()
	}
	if n := len(s.ListTokens()); n != made {
		t.Errorf("%d tokens, %d were returned", n, made)
	}
	var rows int
	if err := s.read.QueryRow("SELECT count(*) FROM tokens").Scan(&rows); err != nil || rows != made {
		t.Errorf("%d tokens in the table, %d were returned, %v", rows, made, err)
	}
	fill(t, s, 1, 3)
}

func TestReserveComesBack(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "data"))
	if err := s.Room(); err != nil {
		t.Fatal(err)
	}
	s.reserve.free()
	if _, err := os.Stat(s.reserve.path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the reserve is still there: %v", err)
	}
	if err := s.Room(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("room at once: %v", err)
	}
	s.reserve.looked = s.reserve.looked.Add(-roomEvery)
	if err := s.Room(); err != nil {
		t.Errorf("no room again: %v", err)
	}
	if info, err := os.Stat(s.reserve.path); err != nil || allocated(info) < s.reserve.size {
		t.Errorf("the reserve is not taken again: %v", err)
	}
}

// TestFullDiskLeavesTheLogItsBlocks fills a real file system to the last byte: new
// jobs have no room, and what must be written still is.
func TestFullDiskLeavesTheLogItsBlocks(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=20m"); err != nil {
		t.Logf("no file system of a test's own can be mounted: %v; only the blocks are looked at", err)
	} else {
		t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	}
	const reserve = 4 << 20
	s, err := Open(t.Context(), filepath.Join(disk, "data"), Options{Now: 1, ReserveBytes: reserve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if info, err := os.Stat(s.writer.log); err != nil || allocated(info) < reserve {
		t.Fatalf("the log's blocks are not taken: %v", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(disk, &st); err != nil || st.Blocks*uint64(st.Bsize) > 32<<20 {
		return // not a disk to be filled
	}
	if err := s.Room(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(disk, "greedy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	time.Sleep(2 * roomEvery)
	if err := s.Room(); err == nil {
		t.Error("there is room on a full disk")
	}
	fill(t, s, 1, 20)
	if n := len(replayed(t, s, 0)); n != 40 {
		t.Errorf("%d events are kept", n)
	}
}

// BenchmarkAppend prints durable events per second by batch size.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "data"))
			events := make([]sched.Event, size)
			for i := range events {
				events[i] = sched.JobSubmitted{ID: 1, Job: &sched.Job{Source: strings.Repeat("x", 1000)}}
			}
			seq := uint64(0)
			for b.Loop() {
				bt := batch(s, seq+1, events...)
				if err := s.Append(ctx, bt); err != nil {
					b.Fatal(err)
				}
				seq = bt.Last()
			}
			b.ReportMetric(float64(seq)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
