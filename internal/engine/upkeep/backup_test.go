package upkeep

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/engine/store"
)

// made is a backup of a new data directory with an upload and a log, and what the file is made of.
func made(t testing.TB) (file string, entries []*tar.Header, bodies [][]byte) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s, err := store.Open(context.Background(), data, store.Options{ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, text := range map[string]string{
		"uploads/alice/" + strings.Repeat("a", 64) + ".tar": "an upload", "uploads/alice/note": "none",
		"jobs/1/0.1/0/stdout.0": "a log", "jobs/1/0.1/0/deeper/stdout.0": "none", "jobs/1/0.1/0/claim": "none", "admin-token": "none",
		"pod-key": "a seal", "pod-namespaces": "a list", "pod-forgotten": "some", "pod-fenced": "a pod", "pod-key.new": "none"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(data, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(data, "jobs/1/0.1/0/stderr.0")); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "b.tar.gz")
	r, err := CreateBackup(context.Background(), data, file, BackupOptions{Logs: true, Program: "test", Now: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Files != len(store.CopyFiles)+2+len(podFiles) || r.Bytes < 1000 {
		t.Errorf("%+v", r)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return file, entries, bodies
		}
		body, readErr := io.ReadAll(in)
		if err = errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		entries, bodies = append(entries, h), append(bodies, body)
	}
}

// pack makes a file of entries.
func pack(t testing.TB, entries []*tar.Header, bodies [][]byte) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for i, h := range entries {
		c := *h
		c.Size = int64(len(bodies[i]))
		if c.Typeflag != tar.TypeReg {
			c.Size = 0
		}
		if err := w.WriteHeader(&c); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bodies[i]); err != nil && c.Size > 0 {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func extract(t testing.TB, content []byte) (string, error) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.tar.gz")
	into := filepath.Join(dir, "into")
	if err := errors.Join(os.WriteFile(file, content, 0o600), os.Mkdir(into, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err := ExtractBackup(context.Background(), file, into)
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("it wrote %q beside its folder", left)
	}
	return into, err
}

func TestRoundTrip(t *testing.T) {
	file, entries, bodies := made(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	into, err := extract(t, content)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"jobs/1/0.1/0/stdout.0": "a log", "uploads/alice/" + strings.Repeat("a", 64) + ".tar": "an upload",
		"pod-key": "a seal", "pod-namespaces": "a list", "pod-forgotten": "some", "pod-fenced": "a pod"} {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	s, err := store.Open(context.Background(), into, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if again, err := extract(t, pack(t, entries, bodies)); err != nil {
		t.Errorf("packed again: %v in %s", err, again)
	}
}

// TestHostile: what is cut off, changed, added, or leads out of the folder is refused.
func TestHostile(t *testing.T) {
	file, entries, bodies := made(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 20, len(content) / 2, len(content) - 9, len(content) - 1} {
		if _, err := extract(t, content[:n]); !errors.Is(err, ErrBackupDamaged) {
			t.Errorf("cut off at %d of %d: %v", n, len(content), err)
		}
	}
	with := func(at int, change func(h *tar.Header, body []byte) (*tar.Header, []byte)) []byte {
		h, b := append([]*tar.Header{}, entries...), append([][]byte{}, bodies...)
		c := *h[at]
		if h[at], b[at] = change(&c, bytes.Clone(b[at])); h[at] == nil {
			h, b = append(h[:at], h[at+1:]...), append(b[:at], b[at+1:]...)
		}
		return pack(t, h, b)
	}
	for i, h := range entries {
		for what, changed := range map[string][]byte{
			"a byte changed": with(i, func(h *tar.Header, b []byte) (*tar.Header, []byte) { b[len(b)/2] ^= 1; return h, b }),
			"is missing":     with(i, func(*tar.Header, []byte) (*tar.Header, []byte) { return nil, nil }),
			"is a link": with(i, func(h *tar.Header, _ []byte) (*tar.Header, []byte) {
				h.Typeflag, h.Linkname = tar.TypeSymlink, "/etc/passwd"
				return h, nil
			}),
			"leads out":   with(i, func(h *tar.Header, b []byte) (*tar.Header, []byte) { h.Name = "../" + h.Name; return h, b }),
			"is absolute": with(i, func(h *tar.Header, b []byte) (*tar.Header, []byte) { h.Name = "/tmp/" + h.Name; return h, b }),
			"is foreign":  with(i, func(h *tar.Header, b []byte) (*tar.Header, []byte) { h.Name = "jobs/1/x"; return h, b }),
		} {
			if _, err := extract(t, changed); err == nil {
				t.Errorf("%s %s, and that is taken", h.Name, what)
			}
		}
	}
	twice := pack(t, append(append([]*tar.Header{}, entries[:3]...), entries[2:]...), append(append([][]byte{}, bodies[:3]...), bodies[2:]...))
	if _, err := extract(t, twice); err == nil || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("twice: %v", err)
	}
	newer := with(0, func(h *tar.Header, b []byte) (*tar.Header, []byte) {
		return h, bytes.Replace(b, []byte(`"format": 1`), []byte(`"format": 2`), 1)
	})
	if _, err := extract(t, newer); err == nil || !strings.Contains(err.Error(), "it has format 2, and this program reads format 1") {
		t.Errorf("newer: %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	file, _, _ := made(f)
	content, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(content[:len(content)/2])
	f.Fuzz(func(t *testing.T, content []byte) { _, _ = extract(t, content) })
}

// TestKilledRunsLeaveNothing: what a killed command left beside the folder or the file goes with
// the next one, unless that one still runs.
func TestKilledRunsLeaveNothing(t *testing.T) {
	ctx := context.Background()
	file, _, _ := made(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	left := filepath.Join(dir, ".comb-restore-data")
	if err := errors.Join(os.MkdirAll(filepath.Join(left, "jobs"), 0o700), os.WriteFile(filepath.Join(left, "comb.db"), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, done, err := workFolder(dir, ".comb-restore-data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBackup(ctx, file, data, func(string) error { return nil }); err == nil || !strings.Contains(err.Error(), "another command writes in "+left) {
		t.Errorf("beside another: %v", err)
	}
	if err := errors.Join(done(), os.Mkdir(left, 0o700), os.Chmod(left, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBackup(ctx, file, data, func(string) error { return nil }); err == nil || !strings.Contains(err.Error(), "open to other users") {
		t.Errorf("in a folder of others: %v", err)
	}
	if err := errors.Join(os.Remove(left), os.MkdirAll(filepath.Join(left, "jobs"), 0o700), os.WriteFile(filepath.Join(left, "comb.db"), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBackup(ctx, file, data, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "data" {
		t.Errorf("beside the data directory: %v, %v", entries, err)
	}
	s, err := store.Open(ctx, data, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
