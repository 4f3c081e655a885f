package server_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// codeOf is an archive of one file of n bytes, and its digest.
func codeOf(t *testing.T, n int) (digest string, archive []byte) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "a", Size: int64(n), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(b.Bytes())), b.Bytes()
}

const codedJob = `
protocolVersion: 2
name: %s
type: job
taskRoles: {w: {resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 64}, commands: [true], dockerImage: i}}
prerequisites: [{type: dockerimage, name: i, uri: x}]
extras: {comb: {upload: %q}}
`

// A user's upload is for that user's jobs alone. What is there is not sent again.
func TestUploads(t *testing.T) {
	w := newWorld(t, 1)
	digest, archive := codeOf(t, 5000)
	sent := &reads{Reader: bytes.NewReader(archive)}
	up, err := w.client.PutUpload(t.Context(), digest, int64(len(archive)), sent)
	if err != nil || up.Digest != digest || up.Size != int64(len(archive)) || sent.n != len(archive) {
		t.Fatalf("%+v, %v, %d bytes were read", up, err, sent.n)
	}
	sent = &reads{Reader: bytes.NewReader(archive)}
	if _, err := w.client.PutUpload(t.Context(), digest, int64(len(archive)), sent); err != nil || sent.n != 0 {
		t.Errorf("again: %v, %d bytes were sent", err, sent.n)
	}
	list, err := w.client.Uploads(t.Context())
	if err != nil || len(list.Uploads) != 1 || list.Uploads[0].Digest != digest || list.LimitBytes != 1<<20 || list.LimitFiles != 100 {
		t.Errorf("%+v, %v", list, err)
	}
	out, err := w.client.Submit(t.Context(), rest.SubmitRequest{Source: fmt.Sprintf(codedJob, "mine", digest)}, "")
	if err != nil {
		t.Fatal(err)
	}
	if j, err := w.client.Job(t.Context(), rest.JobRef(out.ID)); err != nil || j.Upload == nil || j.Upload.Digest != digest || j.Upload.Size != up.Size {
		t.Errorf("the record has %+v, %v", j.Upload, err)
	}
	token, _, err := w.store.CreateToken(t.Context(), "other", "bob", wall())
	if err != nil {
		t.Fatal(err)
	}
	bob, err := rest.NewClient(w.url, token)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := bob.Uploads(t.Context()); err != nil || len(list.Uploads) != 0 {
		t.Errorf("bob has %+v, %v", list, err)
	}
	if _, err := bob.Submit(t.Context(), rest.SubmitRequest{Source: fmt.Sprintf(codedJob, "theirs", digest)}, ""); rest.CodeOf(err) != rest.CodeInvalid ||
		!strings.Contains(err.Error(), "7:25: extras.comb.upload: bob has no upload "+digest) {
		t.Errorf("bob's job: %v", err)
	}
	// One that is named by the request replaces the file's.
	if _, err := w.client.Submit(t.Context(), rest.SubmitRequest{Source: fmt.Sprintf(codedJob, "named", "sha256:none"), Upload: digest}, ""); err != nil {
		t.Errorf("named by the request: %v", err)
	}
}

type reads struct {
	io.Reader
	n int
}

func (r *reads) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}

// A body that lies or is too large is refused, and nothing of it stays; one that does not come is
// waited for only so long.
func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	digest, archive := codeOf(t, 5000)
	large, much := codeOf(t, 1<<20)
	for what, c := range map[string]struct {
		digest string
		body   []byte
		size   int64
		code   rest.Code
		text   string
	}{
		"another digest": {large, archive, int64(len(archive)), rest.CodeInvalid, "what was sent is something else: it has the digest " + digest},
		"no digest":      {"latest", archive, int64(len(archive)), rest.CodeInvalid, "is no digest"},
		"too large":      {large, much, int64(len(much)), rest.CodeTooLarge, "the upload has 1.0 MiB, more than the 1.0 MiB that this server takes"},
		"of no length":   {large, much, -1, rest.CodeInvalid, "it has more than 1.0 MiB"},
		"no archive":     {digest, []byte(strings.Repeat("x", 1000)), 1000, rest.CodeInvalid, "the archive cannot be used"},
	} {
		_, err := w.client.PutUpload(t.Context(), c.digest, c.size, bytes.NewReader(c.body))
		if rest.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %s with %q", what, err, c.code, c.text)
		}
	}
	c := w.dial()
	defer c.Close()
	fmt.Fprintf(c, "PUT /api/v1/uploads/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", digest, w.token, len(archive), archive[:700])
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience)) // the server gives it up by itself
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that stops: %v, %v", resp, err)
	}
	if list, err := w.client.Uploads(t.Context()); err != nil || len(list.Uploads) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
	if _, err := w.client.PutUpload(t.Context(), digest, int64(len(archive)), bytes.NewReader(archive)); err != nil {
		t.Errorf("and then the right one: %v", err)
	}
}
