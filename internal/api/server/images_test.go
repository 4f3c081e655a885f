package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/executor"
)

// fakeBuilder builds as a test says.
type fakeBuilder struct {
	executor.Images
	build func(ctx context.Context, b *executor.Build, files io.Reader, tell func(executor.BuildLine)) (string, error)
}

func (f *fakeBuilder) Build(ctx context.Context, b *executor.Build, files io.Reader, tell func(executor.BuildLine)) (string, error) {
	return f.build(ctx, b, files, tell)
}

// building is a world with an upload of its user, of which images are built.
func building(t *testing.T) (*world, *fakeBuilder, rest.ImageBuild) {
	t.Helper()
	f := &fakeBuilder{}
	w := setup{gpus: 1, images: f}.open(t)
	digest, archive := codeOf(t, 5000)
	if _, err := w.client.PutUpload(t.Context(), digest, int64(len(archive)), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	return w, f, rest.ImageBuild{Name: "team/x:1", Upload: digest, Args: map[string]string{"A": "b"}, MemoryMB: 7}
}

// audited are the lines of the audit log about builds, the oldest first.
func (w *world) audited() (lines []string) {
	w.t.Helper()
	log, err := w.client.People().Audit(context.Background(), 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range log.Lines {
		if l.Verb == "build images" {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", l.User, l.Object, l.Outcome, l.Detail))
		}
	}
	slices.Reverse(lines)
	return lines
}

// A build tells what is printed while it goes on, and its image at the end. Which user built what
// of which upload is recorded before it begins and when it is over.
func TestBuildImage(t *testing.T) {
	w, f, order := building(t)
	said := []executor.BuildLine{{Step: 1, Steps: 2, Cached: true, Text: "FROM x"}, {Step: 2, Steps: 2, Text: "RUN y"}, {Text: "hello \x1b[31m\xff"}}
	told := make(chan rest.BuildLine)
	f.build = func(_ context.Context, b *executor.Build, files io.Reader, tell func(executor.BuildLine)) (string, error) {
		if n, err := io.Copy(io.Discard, files); err != nil || n < 5000 || b.Dockerfile != "Dockerfile" || b.Name != "team/x:1" || b.Args["A"] != "b" || b.Memory != 7<<20 {
			t.Errorf("%d bytes, %v of %+v", n, err, b)
		}
		for i, l := range said {
			tell(l)
			if got := <-told; got.Step != l.Step || got.Cached != l.Cached || i < 2 && got.Text != l.Text { // it is not held back
				t.Errorf("%+v is told as %+v", l, got)
			}
		}
		return "sha256:1234", nil
	}
	id, err := w.client.BuildImage(t.Context(), order, func(l rest.BuildLine) { told <- l })
	if err != nil || id != "sha256:1234" {
		t.Errorf("%s, %v", id, err)
	}
	want := []string{"alice team/x:1 done: begins, of Dockerfile in the upload " + order.Upload, "alice team/x:1 done: sha256:1234"}
	if got := w.audited(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What keeps an image from being built is a problem, also behind lines that were told.
func TestBuildFails(t *testing.T) {
	w, f, order := building(t)
	for name, c := range map[string]struct {
		tells int
		err   error
		code  rest.Code
		say   string
	}{
		"at once":    {0, fmt.Errorf("%w: no such stage", executor.ErrBuild), rest.CodeInvalid, "the image is not built: no such stage"},
		"in a step":  {3, fmt.Errorf("%w: step 3", executor.ErrBuild), rest.CodeInvalid, "the image is not built: step 3"},
		"busy":       {0, fmt.Errorf("%w: 2", executor.ErrBuilding), rest.CodeBusy, "other images are being built: 2"},
		"the engine": {1, errors.New("secret of the server"), rest.CodeInternal, "an error of the server; its log names it"},
	} {
		f.build = func(_ context.Context, _ *executor.Build, _ io.Reader, tell func(executor.BuildLine)) (string, error) {
			for range c.tells {
				tell(executor.BuildLine{Text: "x"})
			}
			return "", c.err
		}
		n := 0
		_, err := w.client.BuildImage(t.Context(), order, func(rest.BuildLine) { n++ })
		if rest.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.say) || n != c.tells {
			t.Errorf("%s: %v behind %d lines", name, err, n)
		}
		if all := w.audited(); !strings.HasPrefix(all[len(all)-1], "alice team/x:1 failed: "+c.say) {
			t.Errorf("%s: %q", name, all[len(all)-1])
		}
	}
	f.build = func(context.Context, *executor.Build, io.Reader, func(executor.BuildLine)) (string, error) {
		t.Error("it is built")
		return "", nil
	}
	before := len(w.audited())
	for say, change := range map[string]func(*rest.ImageBuild){
		"has no upload sha256:0000": func(b *rest.ImageBuild) { b.Upload = "sha256:" + strings.Repeat("0", 64) },
		"is no name in the folder":  func(b *rest.ImageBuild) { b.Dockerfile = "../x" },
		"expected length >= 1":      func(b *rest.ImageBuild) { b.Name = "" },
		"expected object with at most 100 properties": func(b *rest.ImageBuild) {
			b.Args = map[string]string{}
			for i := range 101 {
				b.Args[fmt.Sprint(i)] = ""
			}
		},
	} {
		o := order
		change(&o)
		if _, err := w.client.BuildImage(t.Context(), o, nil); rest.CodeOf(err) != rest.CodeInvalid || !strings.Contains(err.Error(), say) {
			t.Errorf("%v; want %s", err, say)
		}
	}
	if n := len(w.audited()); n != before {
		t.Errorf("%d lines are in the audit log of what did not begin", n-before)
	}
}

// A build ends with its client, with the right of its user, and with the server. Another's upload
// is not built.
func TestBuildEnds(t *testing.T) {
	w, f, order := building(t)
	begun := make(chan struct{})
	f.build = func(ctx context.Context, _ *executor.Build, _ io.Reader, tell func(executor.BuildLine)) (string, error) {
		tell(executor.BuildLine{Text: "waits"})
		begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	ended := func(ctx context.Context, c *rest.Client, end func()) error {
		t.Helper()
		result := make(chan error, 1)
		go func() {
			_, err := c.BuildImage(ctx, order, func(rest.BuildLine) {})
			result <- err
		}()
		<-begun
		end()
		return <-result
	}
	gone, leave := context.WithCancel(t.Context())
	if err := ended(gone, w.client, leave); !errors.Is(err, context.Canceled) {
		t.Errorf("its client leaves: %v", err)
	}
	w.until("its end is recorded", func() bool {
		all := w.audited()
		return strings.HasSuffix(all[len(all)-1], "failed: the connection ended, and the build with it")
	})
	bob := w.user("bob")
	if status, text := w.as(bob, "POST", rest.Prefix+"/images:build", fmt.Sprintf(`{"name": "x", "upload": %q}`, order.Upload)); status != 403 || !strings.Contains(text, "bob cannot build images: only an administrator of the cluster can") {
		t.Errorf("bob's build: %d %s", status, text)
	}
	over := make(chan error, 1)
	waits := f.build
	f.build = func(ctx context.Context, b *executor.Build, files io.Reader, tell func(executor.BuildLine)) (string, error) {
		id, err := waits(ctx, b, files, tell)
		over <- context.Cause(ctx)
		return id, err
	}
	if err := ended(t.Context(), w.client, w.stop); err == nil {
		t.Error("the server ends: the build is done")
	}
	if err := <-over; !strings.Contains(fmt.Sprint(err), "the server ends, and the build with it") {
		t.Errorf("the server ends: %v", err)
	}
}
