package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/executor/docker"
)

// registry is a registry of container images that is asked over HTTP, by the distribution API of
// OCI, to take one repository's image. It is for one push.
type registry struct {
	base       url.URL // of its API
	host       string  // as people write it
	repository string
	login      login
	client     *http.Client
	auth       string // the Authorization header that it wants; "": none yet
	wait       func(context.Context, time.Duration) error
	say        func(string)
}

// login is how somebody signs in to a registry; the zero login is nobody.
type login struct {
	user, password string
	refresh        string // a token that a password was exchanged for
	bearer         string // a token that the registry itself takes
}

const (
	// tries is how often a request is made that fails for reasons that pass.
	tries = 5
	// mostAnswer bounds what is read of an answer, in bytes.
	mostAnswer = 1 << 20
	// silence is how long a registry may take to begin an answer.
	silence = 5 * time.Minute
)

// registryOptions say how a registry is reached.
type registryOptions struct {
	host, repository string
	plain            bool   // plain HTTP is allowed to other machines
	authorities      []byte // more authorities that sign its certificate, PEM
	login            login
	say              func(string)
	// Tests have their own; nil is a wait by the clock, and the network.
	wait func(context.Context, time.Duration) error
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// openRegistry finds out how a registry speaks. One that speaks plain HTTP must be on this
// machine, or be allowed to.
func openRegistry(ctx context.Context, o registryOptions) (*registry, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = silence
	if o.dial != nil {
		transport.DialContext = o.dial
	}
	if o.wait == nil {
		o.wait = waitFor
	}
	if len(o.authorities) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(o.authorities) {
			return nil, errors.New("the file of --registry-ca holds no certificate")
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	r := &registry{base: url.URL{Scheme: "https", Host: o.host, Path: "/v2/"}, host: o.host, repository: o.repository,
		login: o.login, client: &http.Client{Transport: transport}, say: o.say, wait: o.wait}
	if o.host == "docker.io" {
		r.base.Host = "registry-1.docker.io"
	}
	res, err := r.do(ctx, request{method: http.MethodGet, url: r.base.String()})
	if errors.Is(err, http.ErrSchemeMismatch) {
		if !o.plain && !onThisMachine(o.host) {
			return nil, fmt.Errorf("%s speaks plain HTTP, so passwords and images would cross the network in clear: "+
				"give it a certificate, or allow that with --insecure-http", o.host)
		}
		r.base.Scheme = "http"
		res, err = r.do(ctx, request{method: http.MethodGet, url: r.base.String()})
	}
	if err != nil {
		return nil, err
	}
	if res.code != http.StatusOK {
		return nil, r.refusal("be asked", res)
	}
	return r, nil
}

// onThisMachine reports whether a host is this machine by its name alone.
func onThisMachine(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// push uploads what the registry lacks of an image, and then names the image.
func (r *registry) push(ctx context.Context, image v1.Image, tag string) error {
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("the layers of the image cannot be read: %w", err)
	}
	for i, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return fmt.Errorf("layer %d of the image cannot be read: %w", i+1, err)
		}
		size, err := l.Size()
		if err != nil {
			return fmt.Errorf("layer %d of the image cannot be read: %w", i+1, err)
		}
		what := fmt.Sprintf("layer %d of %d", i+1, len(layers))
		if err := r.putBlob(ctx, blob{what, digest.String(), size, l.Compressed}); err != nil {
			return err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("the configuration of the image cannot be read: %w", err)
	}
	named, err := image.ConfigName()
	if err != nil {
		return fmt.Errorf("the configuration of the image cannot be read: %w", err)
	}
	if err := r.putBlob(ctx, blob{"configuration", named.String(), int64(len(config)), bytesOf(config)}); err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return fmt.Errorf("the manifest of the image cannot be read: %w", err)
	}
	kind, err := image.MediaType()
	if err != nil {
		return fmt.Errorf("the manifest of the image cannot be read: %w", err)
	}
	res, err := r.do(ctx, request{method: http.MethodPut, url: r.at("manifests/" + tag), kind: string(kind),
		size: int64(len(manifest)), body: bytesOf(manifest)})
	if err != nil {
		return err
	}
	if res.code != http.StatusCreated && res.code != http.StatusOK {
		return r.refusal("take the manifest of "+r.repository+":"+tag, res)
	}
	return nil
}

func bytesOf(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(data))), nil }
}

// blob is a part of an image, which may be read several times.
type blob struct {
	what, digest string
	size         int64
	open         func() (io.ReadCloser, error)
}

// putBlob uploads a blob, unless the registry has it.
func (r *registry) putBlob(ctx context.Context, b blob) error {
	for try := 1; ; try++ {
		res, err := r.do(ctx, request{method: http.MethodHead, url: r.at("blobs/" + b.digest)})
		if err != nil {
			return err
		}
		if res.code == http.StatusOK {
			r.say(b.what + ": is there already")
			return nil
		}
		if res, err = r.do(ctx, request{method: http.MethodPost, url: r.at("blobs/uploads/")}); err != nil {
			return err
		}
		if res.code != http.StatusAccepted {
			return r.refusal("begin the upload of the "+b.what, res)
		}
		to, err := r.uploadURL(res.header.Get("Location"), b.digest)
		if err != nil {
			return err
		}
		if try == 1 {
			r.say(b.what + ": " + docker.SizeText(b.size))
		}
		// An upload that broke off cannot be gone on with at once: another one is begun.
		res, err = r.once(ctx, request{method: http.MethodPut, url: to, kind: "application/octet-stream",
			size: b.size, body: b.open})
		switch {
		case err == nil && res.code == http.StatusCreated:
			return nil
		case try == tries || ctx.Err() != nil || err == nil && !passes(res.code):
			if err != nil {
				return err
			}
			return r.refusal("take the "+b.what, res)
		}
		r.say(b.what + ": the upload broke off, and is done again")
		if err := r.wait(ctx, pause(try, res)); err != nil {
			return err
		}
	}
}

func (r *registry) at(path string) string { return r.base.String() + r.repository + "/" + path }

// uploadURL is where a blob goes, by what the registry said. Some registries behind a proxy name
// themselves by a scheme that they are not called by.
func (r *registry) uploadURL(location, digest string) (string, error) {
	to, err := url.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("%s does not say where to upload to", r.host)
	}
	if to = r.base.ResolveReference(to); to.Host == r.base.Host {
		to.Scheme = r.base.Scheme
	}
	if to.Scheme != "https" && to.Scheme != r.base.Scheme {
		return "", fmt.Errorf("%s wants an upload to %s, without TLS", r.host, to.Host)
	}
	q := to.Query()
	q.Set("digest", digest)
	to.RawQuery = q.Encode()
	return to.String(), nil
}

// request is one to a registry. body may be opened several times.
type request struct {
	method, url, kind string
	size              int64
	body              func() (io.ReadCloser, error)
}

// reply is what came back, with at most mostAnswer of its body.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

// passes reports whether another try may go better.
func passes(code int) bool {
	return code == http.StatusTooManyRequests || code == http.StatusRequestTimeout ||
		code >= 500 && code != http.StatusNotImplemented
}

// pause is how long to wait after so many tries: what the registry says, else twice as long each
// time.
func pause(try int, res *reply) time.Duration {
	if res != nil {
		if s, err := strconv.Atoi(res.header.Get("Retry-After")); err == nil && s > 0 {
			return time.Duration(min(s, 60)) * time.Second
		}
	}
	return 500 * time.Millisecond << (try - 1)
}

// do makes a request, several times where it fails for reasons that pass.
func (r *registry) do(ctx context.Context, q request) (*reply, error) {
	for try := 1; ; try++ {
		res, err := r.once(ctx, q)
		certificate := (*tls.CertificateVerificationError)(nil)
		hopeless := errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &certificate) ||
			errors.Is(err, errSignIn) || ctx.Err() != nil
		if try == tries || err != nil && hopeless || err == nil && !passes(res.code) {
			return res, err
		}
		if err := r.wait(ctx, pause(try, res)); err != nil {
			return nil, err
		}
	}
}

// once makes a request, and signs in where the registry asks for that.
func (r *registry) once(ctx context.Context, q request) (*reply, error) {
	res, err := r.send(ctx, q, r.auth)
	if err != nil || res.code != http.StatusUnauthorized {
		return res, err
	}
	if r.auth, err = r.signIn(ctx, res.header.Values("WWW-Authenticate")); err != nil {
		return nil, err
	}
	return r.send(ctx, q, r.auth)
}

// send makes a request once. What proves who asks is for the registry's own host.
func (r *registry) send(ctx context.Context, q request, auth string) (*reply, error) {
	h, err := http.NewRequestWithContext(ctx, q.method, q.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		if h.Body, err = q.body(); err != nil {
			return nil, fmt.Errorf("the image cannot be read: %w", err)
		}
		h.ContentLength, h.GetBody = q.size, q.body // a redirect reads it again
		h.Header.Set("Content-Type", q.kind)
	}
	h.Header.Set("User-Agent", "comb")
	if auth != "" && h.URL.Host == r.base.Host && h.URL.Scheme == r.base.Scheme {
		h.Header.Set("Authorization", auth)
	}
	res, err := r.client.Do(h)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err // the address may hold what signs an upload
		}
		return nil, fmt.Errorf("cannot ask the registry %s: %w", r.host, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("the answer of the registry %s breaks off: %w", r.host, err)
	}
	return &reply{res.StatusCode, res.Header, body}, nil
}

// errSignIn says that a registry does not let somebody sign in.
var errSignIn = errors.New("sign in to the registry")

// challengePart is a parameter of a WWW-Authenticate header.
var challengePart = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// signIn returns the Authorization header that a registry wants.
func (r *registry) signIn(ctx context.Context, challenges []string) (string, error) {
	for _, c := range challenges {
		scheme, rest, _ := strings.Cut(c, " ")
		switch strings.ToLower(scheme) {
		case "basic":
			if r.login.user == "" {
				return "", fmt.Errorf("%w: %s wants a user and a password, and none is known here: "+
					"give --user and --password-stdin, or have it in ~/.docker/config.json", errSignIn, r.host)
			}
			h := http.Request{Header: http.Header{}}
			h.SetBasicAuth(r.login.user, r.login.password)
			return h.Header.Get("Authorization"), nil
		case "bearer":
			if r.login.bearer != "" {
				return "Bearer " + r.login.bearer, nil
			}
			with := map[string]string{}
			for _, part := range challengePart.FindAllStringSubmatch(rest, -1) {
				with[part[1]] = part[2]
			}
			return r.fetchToken(ctx, with["realm"], with["service"])
		}
	}
	return "", fmt.Errorf("%w: %s wants none of basic and bearer", errSignIn, r.host)
}

// fetchToken asks the place that a registry names for a token with which its repository may be
// written.
func (r *registry) fetchToken(ctx context.Context, realm, service string) (string, error) {
	at, err := url.Parse(realm)
	if err != nil || at.Host == "" {
		return "", fmt.Errorf("%w: %s does not say where tokens are", errSignIn, r.host)
	}
	if at.Scheme != "https" && (at.Scheme != "http" || r.base.Scheme != "http" && !onThisMachine(at.Host)) {
		return "", fmt.Errorf("%w: %s has tokens at %s, which has no TLS", errSignIn, r.host, at.Host)
	}
	scope := "repository:" + r.repository + ":pull,push"
	var h *http.Request
	if r.login.refresh != "" {
		form := url.Values{"grant_type": {"refresh_token"}, "service": {service}, "client_id": {"comb"},
			"scope": {scope}, "refresh_token": {r.login.refresh}}
		h, err = http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	} else {
		q := at.Query()
		q.Set("scope", scope)
		if service != "" {
			q.Set("service", service)
		}
		at.RawQuery = q.Encode()
		h, err = http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	}
	if err != nil {
		return "", err
	}
	switch {
	case r.login.refresh != "":
		h.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case r.login.user != "":
		h.SetBasicAuth(r.login.user, r.login.password)
	}
	res, err := r.client.Do(h)
	if err != nil {
		return "", fmt.Errorf("cannot ask %s for a token of %s: %w", at.Host, r.host, err)
	}
	defer res.Body.Close()
	var said struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, mostAnswer)).Decode(&said)
	switch token := cli.First(said.Token, said.AccessToken); {
	case passes(res.StatusCode):
		return "", fmt.Errorf("%s gives no token of %s now: %s", at.Host, r.host, res.Status)
	case res.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: %s gives no token of %s: %s; look at the user and the password",
			errSignIn, at.Host, r.host, res.Status)
	case err != nil || token == "":
		return "", fmt.Errorf("%w: %s gives no token of %s in its answer", errSignIn, at.Host, r.host)
	default:
		return "Bearer " + token, nil
	}
}

// refusal is the error of a registry that does not do what it is asked for, in its own words.
func (r *registry) refusal(what string, res *reply) error {
	var said struct {
		Errors []struct{ Code, Message string }
	}
	_ = json.Unmarshal(res.body, &said) // proxies write pages
	why := http.StatusText(res.code)
	if len(said.Errors) > 0 {
		e := said.Errors[0]
		why = strings.TrimSpace(e.Message + " (" + e.Code + ")")
	}
	if len(why) > 300 {
		why = strings.ToValidUTF8(why[:300], "") + "..."
	}
	err := fmt.Errorf("the registry %s refuses to %s: %d %s", r.host, what, res.code, cli.Clean(why, false))
	if res.code == http.StatusUnauthorized || res.code == http.StatusForbidden {
		return cli.Hint{Err: err, Next: "see that the user may write to " + r.repository +
			", and that its password is right (--user, --password-stdin, or ~/.docker/config.json)"}
	}
	return err
}
