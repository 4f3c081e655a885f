package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/google/go-cmp/cmp"
)

// writeJournal writes a file of 2,502 events: two full chunks and a part of one.
func writeJournal(t *testing.T, path string) []model.Record {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "data"))
	fill(t, s, 1, 1251)
	records := replayed(t, s, 0)
	w, err := CreateFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for len(records) > int(w.last) {
		n := min(int(w.last)+7, len(records))
		if err := w.Append(ctx, engine.Batch{First: w.last + 1, Records: records[w.last:n]}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file has its name before it is whole")
	}
	if err := w.Append(ctx, engine.Batch{First: 7, Records: records[:1]}); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a batch that does not follow: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return records
}

// readJournal reads what of a journal can be read.
func readJournal(path string, after uint64) (out []model.Record, err error) {
	h, err := OpenHistory(ctx, path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	err = h.Replay(ctx, after, func(r model.Record) error {
		out = append(out, r)
		return nil
	})
	return out, err
}

func TestJournalInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.journal")
	want := writeJournal(t, path)
	for _, after := range []uint64{0, 1, 999, 1000, 1001, 2500, 2502, 9000} {
		got, err := readJournal(path, after)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[min(after, 2502):], append([]model.Record{}, got...)); diff != "" {
			t.Errorf("after %d: %s", after, diff)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the journal: %v %v", left, err)
	}
}

// A journal that was cut off or changed anywhere is told from a whole one, unless it
// unpacks to the very same events, and nobody gets one that is not as it was written.
func TestDamagedJournalFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.journal")
	want := writeJournal(t, path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readJournal(path, 0)
		if err == nil && len(got) < len(want) {
			t.Errorf("%s: not noticed", what)
		}
		if diff := cmp.Diff(want[:len(got)], append([]model.Record{}, got...)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	for _, n := range []int{0, 3, len(fileMark), len(fileMark) + 1, len(whole) / 2, len(whole) - 3, len(whole) - 1} {
		look("cut off", whole[:n])
	}
	for at := 0; at < len(whole)-3; at += len(whole)/40 + 1 {
		data := append([]byte{}, whole...)
		data[at] ^= 0x21
		look(fmt.Sprintf("changed at %d of %d", at, len(whole)), data)
	}
	look("a chunk of a terabyte", append([]byte(fileMark), 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01))
}

func TestJournalFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := CreateFile(dir); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("over a folder: %v", err)
	}
	if _, err := CreateFile(filepath.Join(dir, "no", "run.journal")); err == nil {
		t.Error("in a folder that does not exist")
	}
	if _, err := readJournal(filepath.Join(dir, "none"), 0); err == nil {
		t.Error("one that does not exist")
	}
	w, err := CreateFile(filepath.Join(dir, "given up"))
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
