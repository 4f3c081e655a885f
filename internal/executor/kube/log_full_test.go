package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/test/smalldisk"
)

// A pod sends while the disk of the server is full: what is kept stays, what is not is not
// acknowledged, and all of it is there when there is room again, also of a log that begins then.
func TestLogsWhileTheDiskIsFull(t *testing.T) {
	if !smalldisk.Alone(t) {
		return
	}
	disk := filepath.Join(t.TempDir(), "disk")
	smalldisk.Mount(t, disk, 2<<20)
	var all strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	text := all.String()
	dirs, kept := []string{filepath.Join(disk, "a"), filepath.Join(disk, "b")}, []int64{0, 0}
	send := func(i int, until int64) (err error) {
		if err := os.MkdirAll(dirs[i], 0o700); err != nil {
			return err
		}
		s, err := openLogStore(dirs[i])
		if err != nil {
			return err
		}
		defer s.Close()
		for kept[i] < until {
			got, err := s.Take(sent(kept[i], text[kept[i]:min(kept[i]+50_000, int64(len(text)))]))
			if err != nil {
				return err
			}
			kept[i] = got
		}
		return nil
	}
	if err := send(0, 200_000); err != nil {
		t.Fatal(err)
	}
	free := smalldisk.Fill(t, disk, 0)
	for i := range dirs {
		for range 3 { // the pod sends it again and again, and the server may be killed in between
			if err := send(i, int64(len(text))); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("log %d on a full disk: %v", i, err)
			}
		}
	}
	if got := read(t, dirs[0], 0); got != text[:kept[0]] || kept[0] < 200_000 {
		t.Errorf("%d bytes are kept, want the %d that were acknowledged", len(got), kept[0])
	}
	free()
	for i := range dirs {
		if err := send(i, 600_000); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dirs[i], 0); got != text[:kept[i]] {
			t.Errorf("of log %d %d bytes are kept, want %d", i, len(got), kept[i])
		}
	}
}

// On a full disk all pods are refused at once: one is named a minute, and the others are counted.
func TestASparseWarning(t *testing.T) {
	var w sparseWarning
	if left, now := w.due(); left != 0 || !now {
		t.Errorf("the first is told: %v, %d left out", now, left)
	}
	for range 3 {
		if _, now := w.due(); now {
			t.Error("one more is told at once")
		}
	}
	w.last = w.last.Add(-warnEvery)
	if left, now := w.due(); left != 3 || !now || w.left != 0 {
		t.Errorf("after a minute one is told: %v, %d left out", now, left)
	}
}
