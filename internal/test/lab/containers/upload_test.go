package containers

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// uploaded is what a task finds of its code: whose it is, what it may do with it, and what it may
// not reach.
const uploaded = `echo in $(pwd) as $(id -u)
ls -ln run.sh | cut -d' ' -f1
./run.sh
test "$COMB_CODE_DIR" = $(pwd) && echo same folder
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo $what may; else echo $what may not; fi; }
try write touch src/new
try remove rm run.sh
try archive sh -c 'echo x >> /comb/code.tar'
`

// Code is unpacked inside of each container as its image's user, anew in each attempt, and is what
// the container begins in.
func TestUpload(t *testing.T) {
	w := newWorld(t, plain)
	w.engine.Import("local.test/user:1", map[string]string{"etc/passwd": "ada:x:4242:4242::/:/bin/sh\n"}, "USER ada", "WORKDIR /elsewhere")
	dir := t.TempDir()
	for name, text := range map[string]string{"run.sh": "echo the code\n", "src/main.py": "", ".gitignore": "secret\n", "secret": "x", "look.sh": uploaded} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := w.cli("job", "run", "--name", "coded", "--image", "local.test/user:1", "--upload", dir, "--retries", "1", "--", "sh", "-c",
		"ls -A; sh look.sh; test $COMB_RETRY = 1")
	const once = ".gitignore\nlook.sh\nrun.sh\nsrc\nin /comb/work as 4242\n-rwx------\nthe code\nsame folder\nwrite may\nremove may\narchive may not\n"
	if code != 0 || strings.Count(out, once) != 2 {
		t.Errorf("exit code %d: %s\n%s\nwant twice\n%s", code, out, errs, once)
	}
	if out, _, _ := w.cli("job", "get", "coded"); !strings.Contains(out, "upload") || !strings.Contains(out, "sha256:") {
		t.Errorf("the job's record does not name it: %s", out)
	}
	// A folder of it, which this image's user alone may enter.
	out, errs, code = w.cli("job", "run", "--image", "local.test/user:1", "--upload", dir, "--workdir", "src", "--", "sh", "-c", "pwd; ls")
	if code != 0 || out != "/comb/work"+"/src\nmain.py\n" || !strings.Contains(errs, "which the server has") {
		t.Errorf("exit code %d: %s\n%s", code, out, errs)
	}
	w.noContainers()
}

// send puts an archive of these headers, whose files have a letter each, and returns its digest.
func send(w *world, headers ...*tar.Header) (string, error) {
	w.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o777
		if err := out.WriteHeader(h); err != nil {
			w.Fatal(err)
		}
		if _, err := io.WriteString(out, strings.Repeat("x", int(h.Size))); err != nil {
			w.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		w.Fatal(err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(b.Bytes()))
	_, err := w.client.PutUpload(w.Context(), digest, int64(b.Len()), &b)
	return digest, err
}

// What would lead out never comes as far as a container; what has no room in one is told, and does
// nothing to the machine.
func TestHostileUploads(t *testing.T) {
	w := newWorld(t, plain)
	for what, h := range map[string][]*tar.Header{
		"..":    {{Name: "../x", Typeflag: tar.TypeReg, Size: 1}},
		"link":  {{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/comb/private"}},
		"above": {{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "../private"}, {Name: "x/spec.json", Typeflag: tar.TypeReg, Size: 1}},
		"null":  {{Name: "x", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
	} {
		if digest, err := send(w, h...); rest.CodeOf(err) != rest.CodeInvalid || !strings.Contains(err.Error(), "the archive cannot be used") {
			t.Errorf("%s: %s, %v", what, digest, err)
		}
	}
	digest, err := send(w, &tar.Header{Name: "sub/", Typeflag: tar.TypeDir}, &tar.Header{Name: "sub/link", Typeflag: tar.TypeSymlink, Linkname: "../x"}, &tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	ref := w.submit(with("links", image, "cat sub/link") + "extras: {comb: {upload: '" + digest + "'}}\n")
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if out, _, _ := w.cli("job", "logs", ref); j.Phase != model.Succeeded || out != "x" {
		t.Errorf("%s: %q", j.Phase, out)
	}
}
