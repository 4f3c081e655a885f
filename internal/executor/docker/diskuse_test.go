package docker

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func measured(t *testing.T, dir string, limit int64) (*measure, error) {
	t.Helper()
	m := &measure{ctx: t.Context(), limit: limit, seen: map[[2]uint64]bool{}}
	return m, m.dir(dir)
}

// What is on the disk counts, once; holes and what links lead to do not.
func TestMeasure(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	big := strings.Repeat("x", 1<<20)
	err := errors.Join(os.MkdirAll(dir+"/a/b", 0o755), os.WriteFile(dir+"/a/b/file", []byte(big), 0o600), os.Link(dir+"/a/b/file", dir+"/again"),
		os.WriteFile(other+"/big", []byte(big), 0o600), os.Symlink(other, dir+"/link"), os.Symlink(other+"/big", dir+"/a/link"), os.WriteFile(dir+"/holes", nil, 0o600), os.Truncate(dir+"/holes", 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	m, err := measured(t, dir, 1<<40)
	if err != nil || m.bytes < 1<<20 || m.bytes > 1<<20+64<<10 || m.files != 7 {
		t.Errorf("%d bytes in %d files, %v", m.bytes, m.files, err)
	}
	if _, err := measured(t, dir+"/link", 1<<40); err == nil {
		t.Error("a link is followed")
	}
}

// A path that is too long for the system hides nothing, and what is deeper than anything is told.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 200)
	for i := range maxDepth + 2 {
		err := root.Mkdir(name, 0o755)
		if i == 50 {
			err = errors.Join(err, root.WriteFile("file", make([]byte, 1<<20), 0o600))
		}
		next, openErr := root.OpenRoot(name)
		if err := errors.Join(err, openErr, root.Close()); err != nil {
			t.Fatal(err)
		}
		root = next
	}
	root.Close()
	m, err := measured(t, dir, 1<<40)
	if !errors.Is(err, errDeep) || m.bytes < 1<<20 {
		t.Errorf("%d bytes, %v", m.bytes, err)
	}
}

// It ends where more would change nothing.
func TestEndsEarly(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("x", i+1)), make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := measured(t, dir, 10*4096); err != nil || m.files > 20 || m.bytes <= 10*4096 {
		t.Errorf("%d bytes in %d files, %v", m.bytes, m.files, err)
	}
}

func TestFor(t *testing.T) {
	for _, c := range []struct{ asked, most, want int64 }{{0, 0, 0}, {0, 100, 100}, {50, 100, 50}, {50, 0, 50}} {
		if l, err := DiskLimitFor(c.asked, c.most, "/x"); err != nil || l.MB != c.want || l.Dirs[0] != "/x" {
			t.Errorf("%+v: %+v, %v", c, l, err)
		}
	}
	if _, err := DiskLimitFor(101, 100); err == nil || !strings.Contains(err.Error(), "asks for 101 MiB of disk, more than the 100 MiB") {
		t.Errorf("too much: %v", err)
	}
}

// The engine says once where a container's layer is; what is there later is measured without it.
func TestAsksOnce(t *testing.T) {
	path, layer := filepath.Join(t.TempDir(), "engine.sock"), t.TempDir()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"Id": "1", "GraphDriver": {"Name": "overlay2", "Data": {"UpperDir": %q}}}`, layer)
	})}
	go func() { _ = s.Serve(l) }()
	engine, err := OpenEngine(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	w := &DiskWatch{limit: DiskLimit{MB: 1}, name: "box"}
	if why := w.look(t.Context(), engine); why != "" || w.layer == nil {
		t.Fatalf("an empty layer: %q, %v", why, w.layer)
	}
	if err := errors.Join(s.Close(), os.WriteFile(layer+"/big", make([]byte, 2<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	if why := w.look(t.Context(), nil); !strings.Contains(why, "more than the 1 MiB") {
		t.Errorf("a full layer: %q", why)
	}
}
