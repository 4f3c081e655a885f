package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func open(t *testing.T, dir string) *Images {
	t.Helper()
	s, err := OpenImages(t.Context(), dir, nil, ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What one VC's credentials got is not another's, over restarts, until the registry gives it to
// that one or to all.
func TestRights(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	local := Image{ID: "sha256:1"}
	private := Image{ID: "sha256:2", Digests: []string{"registry.example.com/team/box@sha256:" + strings.Repeat("a", 64)}}
	other := Image{ID: "sha256:3", Digests: []string{"registry.example.com/team/other@sha256:" + strings.Repeat("b", 64)}}
	check := func(when string, image *Image, vc string, want bool) {
		t.Helper()
		for _, s := range []*Images{s, open(t, dir)} {
			if got := s.allowed(image, vc); got != want {
				t.Errorf("%s: %s may run %s: %v, want %v", when, vc, image.ID, got, want)
			}
		}
	}
	login := &RegistryLogin{Login: Login{User: "ada", Password: "s3cret"}, Secret: "registry"}
	check("before", &private, "a", true)
	if err := s.records.asks(repository("registry.example.com/team/box:1")); err != nil {
		t.Fatal(err)
	}
	check("while it comes", &private, "a", false)
	check("while it comes", &private, "b", false)
	if err := s.grant(&private, &ImageWant{VC: "a", Login: login}); err != nil {
		t.Fatal(err)
	}
	check("behind a's credentials", &private, "a", true)
	check("behind a's credentials", &private, "b", false)
	check("made here", &local, "b", true)
	check("of another repository", &other, "b", true)
	data, err := os.ReadFile(filepath.Join(dir, imageRecordsFile))
	if err != nil || strings.Contains(string(data), "s3cret") {
		t.Errorf("the book says %s, %v", data, err)
	}
	if err := s.grant(&private, &ImageWant{VC: "b"}); err != nil {
		t.Fatal(err)
	}
	check("for all", &private, "c", true)
}

// A damaged book makes no image of a registry free for all.
func TestDamagedBook(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, imageRecordsFile), []byte(`{"images": `), 0o600); err != nil {
		t.Fatal(err)
	}
	image := Image{ID: "sha256:2", Digests: []string{"registry.example.com/team/box@sha256:" + strings.Repeat("a", 64)}}
	for range 2 {
		s := open(t, dir)
		if s.allowed(&image, "a") || !s.allowed(&Image{ID: "sha256:1"}, "a") {
			t.Error("an image of a registry is for all, or one of none is not")
		}
	}
}

// Each failure is one sentence with what to do, and says whether the job is to blame.
func TestFaults(t *testing.T) {
	s := open(t, t.TempDir())
	login := &RegistryLogin{Login: Login{User: "ada", Password: "s3cret"}, Secret: "registry"}
	for _, c := range []struct {
		err   error
		login *RegistryLogin
		job   bool
		says  string
	}{
		{ErrAbsent, nil, true, "check its name and tag"},
		{ErrDenied, nil, true, "give the prerequisite an auth"},
		{ErrDenied, login, true, "it was asked as user ada with the password of the secret registry"},
		{ErrForeign, nil, true, "is not there for this machine's CPU"},
		{fmt.Errorf("%w: %w", errNoHost, ErrRegistry), nil, true, "check the image's name"},
		{ErrFull, nil, false, "an administrator must free some"},
		{ErrRegistry, nil, false, "its registry cannot be used"},
		{context.DeadlineExceeded, nil, false, "the limit is --image-pull-timeout"},
	} {
		var f *ImageFault
		err := s.fault(&ImageWant{Name: "box", Login: c.login}, "box", c.err)
		if !errors.As(err, &f) || f.Job != c.job || !strings.Contains(f.Say, c.says) || strings.Contains(f.Say, "s3cret") {
			t.Errorf("%v is %v, want %s", c.err, err, c.says)
		}
	}
}

func TestProgress(t *testing.T) {
	p := &progress{}
	p.begin()
	p.began, p.at = p.began.Add(-10*time.Second), p.at.Add(-10*time.Second)
	for _, s := range []Step{{Layer: "a"}, {Layer: "b"}, {Layer: "c", State: Had}, {Layer: "b", State: Loads, Current: 5e6, Total: 10e6}} {
		p.step(s)
	}
	if text := p.now().String(); text != "1 of 3 layers are here, 5.0 MB, 500 kB/s" {
		t.Error(text) // how much a has is not known
	}
	p.step(Step{Layer: "a", State: Loads, Current: 0, Total: 20e6})
	if text := p.text("box"); !strings.HasPrefix(text, "the image box is being fetched from docker.io: 1 of 3 layers "+
		"are here, 5.0 MB of 30.0 MB, 500 kB/s, about ") {
		t.Error(text)
	}
	for _, s := range []Step{{Layer: "a", State: Loads, Current: -1}, {Layer: "a", State: Unpacked}, {Layer: "b", State: Unpacked}} {
		p.step(s)
	}
	if text := p.ended("box"); !strings.HasPrefix(text, "the image box was fetched: 3 layers, 30.0 MB in 10") {
		t.Error(text)
	}
	for i := range 2 * maxLayers {
		p.step(Step{Layer: fmt.Sprint(i)})
	}
	if n := len(p.layers); n > maxLayers {
		t.Errorf("%d layers are kept", n)
	}
}

// engine is one whose registry is out of order until the image is here.
func engine(t *testing.T, here *atomic.Bool) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/_ping"):
		case strings.HasSuffix(path, "/images/create"):
			fmt.Fprintln(w, `{"errorDetail": {"message": "dial tcp 10.0.0.9:443: connect: connection refused"}}`)
		case here.Load():
			fmt.Fprintln(w, `{"Id": "sha256:1"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintln(w, `{"message": "No such image"}`)
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	e, err := OpenEngine(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Each try that fails tells the job why, and the words go when it waits no more; also when the
// image is here, for what it was told before this program was started anew is not known any more.
func TestTroubleIsTold(t *testing.T) {
	var here atomic.Bool
	dir := t.TempDir()
	s, err := OpenImages(t.Context(), dir, engine(t, &here), ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said []string
	w := &ImageWant{Name: "box", Dir: t.TempDir(), Tell: func(about, text string) {
		if said = append(said, about+": "+text); len(said) == 2 {
			cancel()
		}
	}}
	if _, err := s.Get(ctx, w); !errors.Is(err, context.Canceled) {
		t.Errorf("it was waited for: %v", err)
	}
	const trouble = "the image box: the image box is not fetched yet, since its registry cannot be used (10.0.0.9:443: " +
		"connection refused); it is tried again"
	want := []string{trouble, trouble, "the image box: "}
	if !slices.Equal(said, want) {
		t.Errorf("it was told %q, want %q", said, want)
	}
	here.Store(true)
	said = nil
	if _, err := s.Get(t.Context(), w); err != nil || !slices.Contains(said, "the image box: ") {
		t.Errorf("with the image here it was told %q, %v", said, err)
	}
}

// What went wrong stands until the next try gets on: how far the fetch was before is no news.
func TestTroubleStands(t *testing.T) {
	p := &progress{}
	p.begin()
	p.step(Step{Layer: "a", State: Loads, Current: 1})
	p.fail("its registry is away")
	if text := p.text("box"); text != "its registry is away" {
		t.Error(text)
	}
	p.step(Step{Layer: "a", State: Loads, Current: 2})
	if text := p.text("box"); !strings.HasPrefix(text, "the image box is being fetched") {
		t.Error(text)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 99_400: "99.4 kB", 99_600: "100 kB", 999_600: "1.0 MB", 3_400_000_000: "3.4 GB", 1 << 62: "4611686 TB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// machine is a store on an engine that has images by name, and pulls as pull says.
func machine(t *testing.T, have map[string]string, pull func(w http.ResponseWriter)) *Images {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		_, name, _ := strings.Cut(r.URL.Path, "/images/")
		switch name, inspect := strings.CutSuffix(name, "/json"); {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case name == "create":
			pull(w)
		case inspect && have[name] != "":
			fmt.Fprint(w, have[name])
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message": "no such image"}`)
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	engine, err := OpenEngine(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	s, err := OpenImages(t.Context(), t.TempDir(), engine, ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What was made on the machine is replaced by nothing that its name stands for in a registry,
// whose owner could use that; what Comb fetched from there is.
func TestOnlyWhatWasFetchedIsReplaced(t *testing.T) {
	const name, madeID, fetchedID = "team/train:3", "sha256:1", "sha256:2"
	digest := func(repo string) string { return repo + "@sha256:" + strings.Repeat("a", 64) }
	for what, c := range map[string]struct {
		id, digest string
		replaced   bool
	}{
		"made here":             {madeID, "", false},
		"put here by others":    {madeID, digest("team/train"), false},
		"of another repository": {fetchedID, digest("other/train"), false},
		"fetched from there":    {fetchedID, digest("team/train"), true},
	} {
		var pulls atomic.Int32
		have := fmt.Sprintf(`{"Id": %q, "RepoDigests": [%q]}`, c.id, c.digest)
		if c.digest == "" {
			have = fmt.Sprintf(`{"Id": %q}`, c.id)
		}
		s := machine(t, map[string]string{name: have, c.id: have}, func(w http.ResponseWriter) {
			pulls.Add(1)
			fmt.Fprint(w, `{"status": "Status: Image is up to date"}`)
		})
		if err := s.grant(&Image{ID: fetchedID}, &ImageWant{VC: "a"}); err != nil {
			t.Fatal(err)
		}
		var told []string
		w := &ImageWant{Name: name, Dir: t.TempDir(), VC: "a", Always: true,
			Tell: func(_, text string) { told = append(told, text) }}
		for range 2 { // the second task is told nothing
			if image, err := s.Get(t.Context(), w); err != nil || image.ID != c.id {
				t.Errorf("%s: the job runs %v, %v", what, image, err)
			}
		}
		said := strings.Count(strings.Join(told, "\n"), "the image team/train:3 on this machine was not fetched by "+
			"Comb, and is not replaced by what its registry has: the job runs the one here")
		if replaced := pulls.Load() > 0; replaced != c.replaced || said == 0 == !c.replaced || said > 1 {
			t.Errorf("%s: it was replaced: %v; the job was told %q", what, replaced, told)
		}
		pulls.Store(0)
		_, err := s.Fetch(t.Context(), name)
		refused := err != nil && strings.Contains(err.Error(), "remove it there first")
		if refused == c.replaced || pulls.Load() > 0 == refused {
			t.Errorf("%s: it is pulled %d times, and %v", what, pulls.Load(), err)
		}
	}
}

// What keeps an image from coming is no fault of the machine; an engine that is out of order is.
func TestFaultsOfFetches(t *testing.T) {
	for says, job := range map[string]bool{"denied: no": true, "write /x: no space left on device": false} {
		s := machine(t, nil, func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"message": %q}`, says)
		})
		_, err := s.Get(t.Context(), &ImageWant{Name: "box", Dir: t.TempDir(), Tell: func(string, string) {}})
		var f *ImageFault
		if !errors.As(err, &f) || !f.Fetch || f.Job != job {
			t.Errorf("%s: %+v", says, err)
		}
	}
	s := machine(t, map[string]string{"box": "no JSON"}, nil)
	_, err := s.Get(t.Context(), &ImageWant{Name: "box", Dir: t.TempDir(), Tell: func(string, string) {}})
	var f *ImageFault
	if !errors.As(err, &f) || f.Fetch || f.Job {
		t.Errorf("an engine out of order: %+v", err)
	}
}
