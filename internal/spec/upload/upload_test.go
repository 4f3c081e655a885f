package upload

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pack returns a folder's archive.
func pack(t *testing.T, dir string) (*Folder, []byte) {
	t.Helper()
	f, err := Open(dir, Default)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return f, b.Bytes()
}

// The same content is the same archive, whenever and in whatever order it was made, and is unpacked
// as it was.
func TestRoundTrip(t *testing.T) {
	files := map[string]string{"main.py": "print(1)\n", "pkg/mod/a": strings.Repeat("x", 3000), "pkg/" + strings.Repeat("long", 40) + "/ü": "u", "empty": ""}
	one, two := plant(t, files), plant(t, files)
	for _, dir := range []string{one, two} {
		err := errors.Join(os.Symlink("../main.py", dir+"/pkg/link"), os.Symlink("pkg/mod", dir+"/mod"), os.Symlink("gone", dir+"/dangling"),
			os.Mkdir(dir+"/closed", 0o700), os.WriteFile(dir+"/closed/run", nil, 0o600), os.Chmod(dir+"/closed/run", 0o755|os.ModeSetuid), os.Chmod(dir+"/closed", 0o555))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o755) })
	}
	if err := os.Chtimes(two+"/main.py", time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	f, archive := pack(t, one)
	g, again := pack(t, two)
	if f.Digest != g.Digest || !bytes.Equal(archive, again) || f.Size != int64(len(archive)) || !ValidDigest(f.Digest) {
		t.Fatalf("%s with %d bytes, %s with %d: not the same", f.Digest, f.Size, g.Digest, g.Size)
	}
	held, err := Check(bytes.NewReader(archive), Default)
	if err != nil || held != (Contents{f.Digest, f.Size, f.Files}) {
		t.Errorf("checked: %+v, %v; want %s, %d, %d", held, err, f.Digest, f.Size, f.Files)
	}
	out := t.TempDir()
	if _, err := Unpack(bytes.NewReader(archive), out, Default); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(out+"/closed", 0o755) })
	for name, text := range files {
		if data, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(data) != text {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	for name, want := range map[string]string{"pkg/link": "../main.py", "mod": "pkg/mod", "dangling": "gone"} {
		if got, err := os.Readlink(filepath.Join(out, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]os.FileMode{"closed": 0o555 | os.ModeDir, "closed/run": 0o755, "main.py": 0o644} {
		if st, err := os.Stat(filepath.Join(out, name)); err != nil || st.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
	if _, again := pack(t, out); !bytes.Equal(archive, again) {
		t.Error("what was unpacked makes another archive")
	}
}

// What leads out, and what is no file, is left out and told.
func TestLeftOut(t *testing.T) {
	dir := plant(t, map[string]string{"a/b/main.py": ""})
	for name, target := range map[string]string{"abs": "/etc/passwd", "up": "../x", "a/up": "../../x", "a/b/wide": "../../..", "a/b/through": "c/../../../x", "a/b/fine": "../../a"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	f, _ := pack(t, dir)
	said := strings.Join(f.LeftOut, "\n")
	for _, want := range []string{"abs is left out: it is a link that leads out", "\nup is", "a/up is", "a/b/wide is", "a/b/through is", "pipe is left out: it is no file, folder or link"} {
		if !strings.Contains("\n"+said, want) {
			t.Errorf("nothing says %q:\n%s", want, said)
		}
	}
	if len(f.LeftOut) != 6 || f.Files != 4 {
		t.Errorf("%d left out, %d files", len(f.LeftOut), f.Files)
	}
}

// What cannot be uploaded is refused with what is in the way.
func TestRefusedFolders(t *testing.T) {
	dir := plant(t, map[string]string{"small": "x", "data/a": strings.Repeat("x", 3<<10), "data/b": strings.Repeat("x", 2<<10), "big": strings.Repeat("x", 4<<10)})
	long := plant(t, map[string]string{"x": ""})
	at := long
	for range 70 {
		at += "/d"
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir    string
		limits Limits
		want   string
	}{
		{dir + "/none", Default, "no such file or directory"},
		{dir + "/small", Default, "it is no folder"},
		{dir, Limits{Bytes: 8 << 10, Files: 10}, "has 9.0 KiB, more than the 8.0 KiB of an upload; the largest are data (5.0 KiB), big (4.0 KiB), small (1 B): leave out"},
		{dir, Limits{Bytes: 10 << 10, Files: 10}, "more than the 10.0 KiB of an upload"}, // with its headers
		{dir, Limits{Bytes: 1 << 20, Files: 3}, "has 5 files, folders and links, more than the 3 of an upload; most are in data (3), big (1), small (1): leave out"},
		{long, Default, "lies in more than 64 folders"},
	} {
		f, err := Open(c.dir, c.limits)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %+v: %v; want %q", c.dir, c.limits, err, c.want)
		}
	}
}

// A file that changes behind the first look is not packed as something else.
func TestChanged(t *testing.T) {
	for what, change := range map[string]func(string) error{
		"longer":  func(p string) error { return os.WriteFile(p, []byte("longer than before"), 0o644) },
		"shorter": func(p string) error { return os.WriteFile(p, nil, 0o644) },
		"gone":    os.Remove,
		"a pipe":  func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o600)) },
	} {
		dir := plant(t, map[string]string{"a": "content"})
		f, err := Open(dir, Default)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := change(dir + "/a"); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(io.Discard); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// archive writes headers, and as many bytes as each says.
func archive(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// sparse says in a few bytes that a file has a terabyte of holes.
func sparse(t *testing.T) []byte {
	t.Helper()
	b := archive(t, &tar.Header{Name: "bomb", Typeflag: tar.TypeReg, Size: 512, Mode: 0o644, PAXRecords: map[string]string{
		"COM.sparse.major": "0", "COM.sparse.minor": "1", "COM.sparse.size": "1099511627776", "COM.sparse.numblocks": "1", "COM.sparse.map": "0,512"}})
	return bytes.ReplaceAll(b, []byte("COM.sparse"), []byte("GNU.sparse")) // a writer makes no such record
}

// Archives that want to write elsewhere, or more than they have, are refused: before one byte is
// anywhere else.
func TestHostile(t *testing.T) {
	file := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}
	}
	link := func(name, to string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
	}
	folder := func(name string) *tar.Header { return &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	many := make([]*tar.Header, 11)
	for i := range many {
		many[i] = folder(fmt.Sprint(i, "/"))
	}
	good := archive(t, file("a"), file("b"))
	for what, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"a name with ..":        {archive(t, file("../out")), "is no name inside"},
		"inner ..":              {archive(t, folder("a/"), file("a/../../out")), "is no name inside"},
		"an absolute name":      {archive(t, file("/tmp/comb-out")), "is no name inside"},
		"above it":              {archive(t, folder("./../")), "is no name inside"},
		"with another's name":   {archive(t, file("./a"), file("a")), "comes twice"},
		"no name":               {archive(t, folder("/")), "is no name inside"},
		"a line end":            {archive(t, file("a\nb")), "has a control character"},
		"an escape":             {archive(t, folder("a\x1b[2J/")), "has a control character"},
		"a delete":              {archive(t, folder("a/"), file("a/\x7f")), "has a control character"},
		"one of the second set": {archive(t, file("a\u009b2J")), "has a control character"},
		"a link to one":         {archive(t, link("l", "a\rb")), "has a control character"},
		"an absolute link":      {archive(t, link("l", "/etc")), "may lead out"},
		"a link out":            {archive(t, folder("a/"), link("a/l", "../..")), "may lead out"},
		"through a link":        {archive(t, folder("a/"), link("a/l", ".."), file("a/l/x")), "comes before its folder"},
		"links in a row":        {archive(t, folder("a/"), folder("a/b/"), link("a/b/up", "../.."), link("x", "a/b/up/../../etc")), "may lead out"},
		"a link replaced":       {archive(t, link("l", "b"), file("l")), "comes twice"},
		"a folder replaced":     {archive(t, folder("d/"), link("d", "x")), "comes twice"},
		"a hard link":           {archive(t, file("a"), &tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), "neither a file"},
		"a device":              {archive(t, &tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), "neither a file"},
		"a pipe":                {archive(t, &tar.Header{Name: "p", Typeflag: tar.TypeFifo}), "neither a file"},
		"a file as folder":      {archive(t, file("a"), file("a/b")), "comes before its folder"},
		"too many":              {archive(t, many...), "more than 10 files"},
		"too large":             {archive(t, &tar.Header{Name: "big", Typeflag: tar.TypeReg, Size: 70 << 10}), "more than 64.0 KiB"},
		"holes":                 {sparse(t), "has holes"},
		"a long name":           {archive(t, file(strings.Repeat("n", 1100))), "has a name of 1100 bytes"},
		"cut in a file":         {archive(t, &tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 2048})[:1024], "unexpected EOF"},
		"no archive":            {bytes.Repeat([]byte("x"), 2048), "invalid tar header"},
		"a global header":       {archive(t, &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"a": "b"}}), "neither a file"},
		"long after the end":    {append(bytes.Clone(good), make([]byte, 70<<10)...), "more than 64.0 KiB"},
		"a name of many parts":  {archive(t, folder("1/"), file("2/"+strings.Repeat("d/", 70)+"x")), "lies in more than 64 folders"},
	} {
		limits := Limits{Bytes: 64 << 10, Files: 10}
		top := t.TempDir()
		dir := filepath.Join(top, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, checked := Check(bytes.NewReader(c.bytes), limits)
		_, unpacked := Unpack(bytes.NewReader(c.bytes), dir, limits)
		for _, err := range []error{checked, unpacked} {
			if !errors.Is(err, ErrArchive) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v; want %q", what, err, c.want)
			}
		}
		if found, err := os.ReadDir(top); err != nil || len(found) != 1 {
			t.Errorf("%s: there is %v beside the folder, %v", what, found, err)
		}
	}
	if _, err := os.Lstat("/tmp/comb-out"); err == nil {
		t.Error("an absolute name was made")
	}
}

// An archive that tar made of "." is as good.
func TestOfTar(t *testing.T) {
	b := archive(t, &tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, &tar.Header{Name: "./a/", Typeflag: tar.TypeDir, Mode: 0o755}, &tar.Header{Name: "./a/b", Typeflag: tar.TypeReg, Size: 3, Mode: 0o644})
	out := t.TempDir()
	held, err := Unpack(bytes.NewReader(b), out, Default)
	if err != nil || held.Files != 2 {
		t.Fatalf("%+v, %v", held, err)
	}
	if st, err := os.Stat(out + "/a/b"); err != nil || st.Size() != 3 {
		t.Errorf("%v, %v", st, err)
	}
}

// A folder that is not empty is not written into.
func TestUnpackBeside(t *testing.T) {
	dir := plant(t, map[string]string{"kept": "mine"})
	out := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "kept"), out+"/a"); err != nil {
		t.Fatal(err)
	}
	b := archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644})
	if _, err := Unpack(bytes.NewReader(b), out, Default); !errors.Is(err, os.ErrExist) {
		t.Errorf("unpacked over a link: %v", err)
	}
	if data, err := os.ReadFile(dir + "/kept"); err != nil || string(data) != "mine" {
		t.Errorf("what the link leads to has %q, %v", data, err)
	}
}
