package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/test/testkit"
	"golang.org/x/sys/unix"
)

var ctx = context.Background()

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

// TestSecretsAreBoundToTheirJob: what was sealed for one job does not open for another.
func TestSecretsAreBoundToTheirJob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	b := submission(s, 1, 1, "")
	b.Secrets = []engine.JobSecrets{{Job: 1, Values: map[string]string{"token": "one"}}, {Job: 2, Values: map[string]string{"x": "two"}}}
	if err := s.Append(ctx, b); err != nil {
		t.Fatal(err)
	}
	execSQL("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE job = 1) WHERE job = 2")(t, dir)
	if values, err := s.Secrets(ctx, 2); err == nil {
		t.Errorf("another job's secrets open: %v", values)
	}
	if values, err := s.Secrets(ctx, 1); err != nil || values["token"] != "one" {
		t.Errorf("its own: %v, %v", values, err)
	}
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
	testkit.Wait(t, "there is no room on a full disk", func() bool { return s.Room() != nil })
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
			events := make([]model.Event, size)
			for i := range events {
				events[i] = model.JobSubmitted{ID: 1, Job: &model.Job{Source: strings.Repeat("x", 1000)}}
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

// BenchmarkFinished prints how long the first page of 200,000 ended jobs takes by what is asked
// for: no filter, three, three that few jobs pass, none passes, and what a reader may see that may
// see little.
func BenchmarkFinished(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "data"))
	const jobs, batched = 200_000, 2_000
	for first := model.JobID(1); first <= jobs; first += batched {
		bt := batch(s, uint64(first/batched)+1, model.JobEnded{Job: first})
		for id := first; id < first+batched; id++ {
			bt.Ended = append(bt.Ended, model.JobStatus{ID: id, Name: model.JobName(fmt.Sprintf("train-%d", id)), User: model.Subject(fmt.Sprintf("u%d", id%97)),
				VC: cell.VCName(fmt.Sprintf("vc%d", id%7)), Phase: []model.Phase{model.Succeeded, model.Failed, model.Stopped}[id%3], Message: strings.Repeat("it ended ", 50)})
		}
		if err := s.Append(ctx, bt); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		what string
		of   engine.FinishedFilter
	}{
		{"all", engine.FinishedFilter{}},
		{"three filters", engine.FinishedFilter{VCs: []string{"vc3"}, Users: []string{"u5"}, Phases: []model.Phase{model.Failed}}},
		{"few pass", engine.FinishedFilter{VCs: []string{"vc3", "vc4"}, Users: []string{"u5", "u6"}, Name: "train-77"}},
		{"none passes", engine.FinishedFilter{VCs: []string{"vc3", "vc4"}, Phases: []model.Phase{model.Failed}, Name: "test"}},
		{"sees little", engine.FinishedFilter{Within: &engine.Within{VCs: []string{"vc9"}, User: "stranger"}}},
		{"sees one VC", engine.FinishedFilter{Within: &engine.Within{VCs: []string{"vc2"}, User: "stranger"}, Phases: []model.Phase{model.Failed}}},
		{"by name", engine.FinishedFilter{Order: &engine.FinishedOrder{By: "name"}}},
		{"by name, in the middle", engine.FinishedFilter{Order: &engine.FinishedOrder{By: "name", Down: true, After: &engine.FinishedPlace{Key: "train-55", Job: 9}}}},
		{"by user", engine.FinishedFilter{Order: &engine.FinishedOrder{By: "user", After: &engine.FinishedPlace{Key: "u50", Job: 9}}}},
		{"by VC of few", engine.FinishedFilter{Order: &engine.FinishedOrder{By: "vc", Down: true}, Name: "train-777"}},
	} {
		b.Run(c.what, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if _, _, err := s.Finished(ctx, c.of); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	}
}
