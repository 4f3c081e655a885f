package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fakes "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/combsched/comb/internal/cli"
)

// hub is a registry. before may answer a request in its place, and says whether it did.
type hub struct {
	*httptest.Server
	before func(http.ResponseWriter, *http.Request) bool
}

func newHub(t *testing.T, secure bool, before func(http.ResponseWriter, *http.Request) bool) *hub {
	h := &hub{before: before}
	store := fakes.New(fakes.Logger(log.New(io.Discard, "", 0)))
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.before == nil || !h.before(w, r) {
			store.ServeHTTP(w, r)
		}
	})
	if h.Server = httptest.NewUnstartedServer(serve); secure {
		h.Config.ErrorLog = log.New(io.Discard, "", 0)
		h.StartTLS()
	} else {
		h.Start()
	}
	t.Cleanup(h.Close)
	return h
}

func (h *hub) host() string { return h.Listener.Addr().String() }

// has reports whether the registry gives an image whole: its manifest, its configuration and each
// of its layers.
func (h *hub) has(t *testing.T, image v1.Image, repository, tag string) {
	t.Helper()
	h.before = nil
	get := func(path string) []byte {
		res, err := h.Client().Get(h.URL + "/v2/" + repository + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s, %v", path, res.Status, err)
		}
		return body
	}
	want, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := get("manifests/" + tag); !bytes.Equal(got, want) {
		t.Errorf("the manifest is %s, want %s", got, want)
	}
	m, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(m.Layers, m.Config) {
		digest, size, err := v1.SHA256(bytes.NewReader(get("blobs/" + d.Digest.String())))
		if err != nil || digest != d.Digest || size != d.Size {
			t.Errorf("blob %s of %d bytes is %s of %d, %v", d.Digest, d.Size, digest, size, err)
		}
	}
}

// imageFile is a file with an image of three layers, as make image writes it.
func imageFile(t *testing.T, called string) (string, v1.Image) {
	t.Helper()
	image, err := random.Image(3000, 3)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(called)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, tag, image); err != nil {
		t.Fatal(err)
	}
	read, _, err := readImage(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, read
}

// runPush runs the command with settings of Docker's, "" for none.
func runPush(t *testing.T, settings, in string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if settings != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	a := &cli.App{In: strings.NewReader(in), Out: &out, Errs: &errs, Format: "table", Env: func(key string) string {
		return map[string]string{"DOCKER_CONFIG": dir}[key]
	}}
	c := (&imageCommands{a}).push()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	if err != nil {
		errs.WriteString(err.Error())
	}
	if strings.Contains(out.String()+errs.String(), "canary") {
		t.Errorf("what is printed holds a password: %s%s", out.String(), errs.String())
	}
	return out.String(), err
}

// basic asks each request for a user's password.
func basic(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); user == "ada" && password == "canary" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func settingsFor(host string) string {
	return fmt.Sprintf(`{"auths": {"https://%s/v1/": {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("ada:canary")))
}

func TestPush(t *testing.T) {
	h := newHub(t, false, nil)
	file, image := imageFile(t, h.host()+"/team/comb:1")
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, settings, in string
		args               []string
		before             func(http.ResponseWriter, *http.Request) bool
		repository, tag    string
	}{
		{"under the name in the file", "", "", []string{file}, nil, "team/comb", "1"},
		{"again, under another name", "", "", []string{file, h.host() + "/other:2"}, nil, "other", "2"},
		{"with a password in Docker's settings", settingsFor(h.host()), "", []string{file, h.host() + "/third:3"}, basic, "third", "3"},
		{"with one that is given", "", "canary\n", []string{file, h.host() + "/fourth", "--user", "ada", "--password-stdin"}, basic, "fourth", "latest"},
		{"with a token", settingsFor(h.host()), "", []string{file, h.host() + "/fifth:5"}, h.tokens("pull,push"), "fifth", "5"},
		{"with a token for another one", `{"auths": {"` + h.host() + `": {"identitytoken": "canary"}}}`, "", []string{file, h.host() + "/sixth:6"}, h.tokens("pull,push"), "sixth", "6"},
	} {
		h.before = c.before
		out, err := runPush(t, c.settings, c.in, c.args...)
		if want := "pushed " + h.host() + "/" + c.repository + ":" + c.tag + "@" + digest.String() + "\n"; err != nil || out != want {
			t.Errorf("%s: %q, %v, want %q", c.what, out, err, want)
			continue
		}
		h.has(t, image, c.repository, c.tag)
	}
}

// tokens answers as a registry does whose tokens come from a place of their own, which asks for a
// password. grant is what it lets ada do.
func (h *hub) tokens(grant string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			user, password, _ := r.BasicAuth()
			scope := r.FormValue("scope")
			if r.Method == http.MethodPost && r.FormValue("grant_type") == "refresh_token" {
				user, password = "ada", r.FormValue("refresh_token")
			}
			if user != "ada" || password != "canary" || r.FormValue("service") != "hub" || !strings.HasPrefix(scope, "repository:") {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			fmt.Fprintf(w, `{"token": "canary %s"}`, strings.TrimPrefix(scope, "repository:"))
			return true
		}
		_, rest, _ := strings.Cut(r.URL.Path, "/v2/")
		have, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer canary ")
		repository, may, _ := strings.Cut(have, ":")
		if have != "" && strings.HasPrefix(rest, strings.TrimSuffix(repository, "/")) || rest == "" && have != "" {
			if may == grant || r.Method == http.MethodGet {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"errors": [{"code": "DENIED", "message": "requested access to the resource is denied"}]}`)
			return true
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+h.URL+`/token",service="hub",scope="repository:x:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestPushIsRefused(t *testing.T) {
	h := newHub(t, false, nil)
	file, _ := imageFile(t, "comb:1")
	at := h.host() + "/comb:1"
	empty := filepath.Join(t.TempDir(), "empty.tar")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(settingsFor(h.host()), base64.StdEncoding.EncodeToString([]byte("ada:canary")), base64.StdEncoding.EncodeToString([]byte("ada:canary-2")), 1)
	for _, c := range []struct {
		what, settings string
		args           []string
		before         func(http.ResponseWriter, *http.Request) bool
		want           string
	}{
		{"the name in the file has no registry", "", []string{file}, nil, "names no registry"},
		{"neither has the one that is given", "", []string{file, "team/comb:1"}, nil, "names no registry"},
		{"no name", "", []string{file, h.host() + "/Team"}, nil, "is no name of an image"},
		{"a digest", "", []string{file, h.host() + "/comb@sha256:" + strings.Repeat("a", 64)}, nil, "name a tag"},
		{"no file", "", []string{file + "x", at}, nil, "cannot read"},
		{"no image", "", []string{empty, at}, nil, "holds no image"},
		{"a user without a password", "", []string{file, at, "--user", "ada"}, nil, "--user and --password-stdin are given both or not at all"},
		{"nobody is known", "", []string{file, at}, basic, "wants a user and a password, and none is known here"},
		{"another password", wrong, []string{file, at}, basic, "401 Unauthorized"},
		{"another password for a token", wrong, []string{file, at}, h.tokens("pull,push"), "403 Forbidden; look at the user and the password"},
		{"a user that may only read", settingsFor(h.host()), []string{file, at}, h.tokens("pull"), "requested access to the resource is denied (DENIED)"},
		{"settings that are broken", "{", []string{file, at}, nil, "the passwords for registries in "},
		{"a program that is not there", `{"credsStore": "nowhere"}`, []string{file, at}, nil, "docker-credential-nowhere, which keeps the password"},
		{"no registry", "", []string{file, at}, func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true }, "refuses to be asked: 404"},
		{"an upload to another host without TLS", "", []string{file, at}, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			w.Header().Set("Location", "ftp://elsewhere.example/x")
			w.WriteHeader(http.StatusAccepted)
			return true
		}, "wants an upload to elsewhere.example, without TLS"},
	} {
		h.before = c.before
		_, err := runPush(t, c.settings, "", c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

// noWait lets no time pass, and counts.
func noWait(n *atomic.Int32) func(context.Context, time.Duration) error {
	return func(context.Context, time.Duration) error { n.Add(1); return nil }
}

// TestPushTriesAgain: what fails for reasons that pass is done again, each upload from its
// beginning; what stays wrong is said in the registry's words.
func TestPushTriesAgain(t *testing.T) {
	var asked, waits atomic.Int32
	h := newHub(t, false, func(w http.ResponseWriter, r *http.Request) bool {
		switch n := asked.Add(1); {
		case n%3 == 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case n%5 == 0:
			w.WriteHeader(http.StatusBadGateway)
		case n%7 == 0:
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	})
	_, image := imageFile(t, "comb:1")
	o := registryOptions{host: h.host(), repository: "comb", say: func(string) {}, wait: noWait(&waits)}
	r, err := openRegistry(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.push(t.Context(), image, "1"); err != nil || waits.Load() < 4 {
		t.Fatalf("after %d waits: %v", waits.Load(), err)
	}
	h.has(t, image, "comb", "1")

	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"errors": [{"code": "UNAVAILABLE", "message": "the disk is \u001b[31mfull"}]}`)
		return true
	}
	if err := r.push(t.Context(), image, "2"); err == nil || !strings.Contains(err.Error(), "503 the disk is  [31mfull (UNAVAILABLE)") {
		t.Errorf("a registry that does nothing: %q", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.push(ended, image, "2"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestPushByTLS: plain HTTP goes to other machines only where that is allowed, and a certificate
// must be signed by an authority that is known.
func TestPushByTLS(t *testing.T) {
	plain, secure := newHub(t, false, nil), newHub(t, true, nil)
	to := func(h *hub) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, h.host())
		}
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	for _, c := range []struct {
		what string
		o    registryOptions
		want string
	}{
		{"plain HTTP", registryOptions{host: "other.example", dial: to(plain)}, "speaks plain HTTP, so passwords and images would cross the network in clear"},
		{"plain HTTP that is allowed", registryOptions{host: "other.example", dial: to(plain), plain: true}, ""},
		{"this machine", registryOptions{host: "localhost:5000", dial: to(plain)}, ""},
		{"an authority that is not known", registryOptions{host: "example.com", dial: to(secure)}, "certificate"},
		{"one that is", registryOptions{host: "example.com", dial: to(secure), authorities: authority}, ""},
		{"no certificate in the file", registryOptions{host: "example.com", authorities: []byte("x")}, "holds no certificate"},
	} {
		c.o.repository, c.o.say = "comb", func(string) {}
		if _, err := openRegistry(t.Context(), c.o); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

// TestLoginOfDockersSettings: by which key and in which form the file has a password.
func TestLoginOfDockersSettings(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "docker-credential-safe"), []byte("#!/bin/sh\nread -r at\ncase $at in token.example) echo '{\"Username\": \"<token>\", \"Secret\": \"refresh\"}';; none.example) echo 'credentials not found in native keychain'; exit 1;; *) echo '{\"Username\": \"of\", \"Secret\": \"'$at'\"}';; esac\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	c := dockerConfig{CredsStore: "safe", CredHelpers: map[string]string{"helped.example": "safe"}, Auths: map[string]dockerAuth{
		"plain.example":               {Username: "a", Password: "b"},
		"https://index.docker.io/v1/": {Auth: base64.StdEncoding.EncodeToString([]byte("c:d:e"))},
		"refresh.example":             {IdentityToken: "f"},
		"bearer.example:5000":         {RegistryToken: "g"},
		"stored.example":              {},
	}}
	for host, want := range map[string]login{
		"plain.example": {user: "a", password: "b"}, "docker.io": {user: "c", password: "d:e"}, "refresh.example": {refresh: "f"}, "bearer.example:5000": {bearer: "g"},
		"helped.example": {user: "of", password: "helped.example"}, "stored.example": {user: "of", password: "stored.example"}, "token.example": {refresh: "refresh"}, "none.example": {},
	} {
		if got, err := c.loginTo(t.Context(), host); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", host, got, err, want)
		}
	}
}
