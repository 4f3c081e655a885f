package server

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWrite packs logs that are long, empty, not there and not to be read, and reads them back.
func TestWrite(t *testing.T) {
	long := strings.Repeat("step 1 of 100, loss 0.5\n", 100_000)
	prints := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	var out bytes.Buffer
	refused := errors.New("replaced")
	err := writeLogArchive(&out, time.Unix(1_790_000_000, 0), slices.Values([]archivedLog{
		{Name: "main-0.stdout.log", Copy: prints(long)},
		{Name: "main-0.stderr.log", Copy: func(io.Writer) error { return nil }},
		{Name: "main-1.stdout.log", Copy: func(io.Writer) error { return fs.ErrNotExist }},
		{Name: "main-2.stdout.log", Copy: func(io.Writer) error { return refused }, Why: func(err error) error { return errors.New("it was " + err.Error()) }},
		{Name: "main-3.stdout.log", Copy: prints("last")},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if out.Len() > len(long)/10 {
		t.Errorf("%d bytes of logs are packed into %d", len(long), out.Len())
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"main-0.stdout.log": long, "main-0.stderr.log": "", "main-2.stdout.log.cannot-be-read.txt": "it was replaced\n", "main-3.stdout.log": "last"}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if have, ok := want[f.Name]; err != nil || !ok || have != string(text) {
			t.Errorf("%s holds %d bytes, %v; want %d", f.Name, len(text), err, len(have))
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("the archive lacks %v", want)
	}
}

// TestBroken ends where a log breaks off for a reason of the server's own, or when its reader is
// gone.
func TestBroken(t *testing.T) {
	ours := errors.New("disk error")
	log := archivedLog{Name: "a", Copy: func(io.Writer) error { return ours }, Why: func(error) error { return nil }}
	if err := writeLogArchive(io.Discard, time.Now(), slices.Values([]archivedLog{log})); !errors.Is(err, ours) {
		t.Errorf("it ends with %v; want %v", err, ours)
	}
	r, w := io.Pipe()
	_ = r.Close()
	endless := archivedLog{Name: "a", Copy: func(w io.Writer) error {
		for i := byte(0); ; i++ {
			if _, err := w.Write(bytes.Repeat([]byte{i, i * 7, i ^ 55}, 10_000)); err != nil {
				return err
			}
		}
	}}
	if err := writeLogArchive(w, time.Now(), slices.Values([]archivedLog{endless})); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it ends with %v; want that of a closed pipe", err)
	}
}
