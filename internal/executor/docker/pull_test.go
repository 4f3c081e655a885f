package docker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/jsonstream"
)

// What engines say, each as one of them has said it.
func TestPullError(t *testing.T) {
	for text, want := range map[string]error{
		"manifest for 127.0.0.1:5000/box:2 not found: manifest unknown: Unknown " +
			"manifest": ErrAbsent,
		"pull access denied for box, repository does not exist or may require 'docker login': denied: requested " +
			"access": ErrDenied,
		`Head "http://127.0.0.1:5000/v2/box/manifests/1": no basic auth credentials`:             ErrDenied,
		`Head "http://127.0.0.1:5000/v2/box/manifests/1": unauthorized: authentication required`: ErrDenied,
		"no matching manifest for linux/amd64 in the manifest list " +
			"entries": ErrForeign,
		"failed to register layer: Error processing tar file(exit status 1): write /x: no space left on " +
			"device": ErrFull,
		"toomanyrequests: You have reached your pull rate limit; access " +
			"denied": ErrRegistry,
		`Get "http://127.0.0.1:5000/v2/": dial tcp 127.0.0.1:5000: connect: connection refused`:                                     ErrRegistry,
		`Get "https://registry.example.com/v2/": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`:       ErrRegistry,
		"received unexpected HTTP status: 503 Service Unavailable":                                                                  ErrRegistry,
		`Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com on 10.0.0.2:53: server misbehaving`:          ErrRegistry,
		`Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com: Temporary failure in name resolution`:       ErrRegistry,
		`Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com on 10.0.0.2:53: no such host`:                ErrRegistry,
		`Get "https://not found.example.com/v2/": dial tcp: lookup x on 10.0.0.2:53: read udp 10.0.0.1:1->10.0.0.2:53: i/o timeout`: ErrRegistry,
		`Get "http://127.0.0.1:5000/v2/box/manifests/1": EOF`:                                                                       ErrRegistry,
		"unexpected EOF": ErrRegistry,
		"":               ErrRegistry,
	} {
		err := pullError("box", text, errors.New(text))
		if !errors.Is(err, want) || want != ErrForeign && Words(err) != plainWords(text) {
			t.Errorf("%q is %v, want %v", text, err, want)
		}
	}
	if err := pullError("box", "", context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a pull that was given up is %v", err)
	}
}

// Whatever a registry writes, and whatever an image is called, the engine's own words decide.
func TestWordsOfRegistries(t *testing.T) {
	for _, c := range []struct {
		ref, text string
		want      error
	}{
		{"reg.example/e:1", "pull access denied for reg.example/e, repository does not exist or may require 'docker " +
			"login': denied: requested access to the resource is denied", ErrDenied},
		{"reg.example/e:1", "manifest for reg.example/e:1 not found: manifest unknown: manifest unknown", ErrAbsent},
		{"reg.example/e:1", `Get "https://reg.example/v2/": dial tcp: lookup reg.example on 10.0.0.2:53: no such host`, ErrRegistry},
		{"e", "pull access denied for e, repository does not exist or may require 'docker login'", ErrDenied},
		{"denied", "manifest for denied:latest not found", ErrAbsent},
		{"denied/not-found:1", `failed to resolve reference "docker.io/denied/not-found:1": docker.io/denied/not-found:1: ` +
			`unexpected status from HEAD request to https://docker.io/v2/denied/not-found/manifests/1: 500 Internal`, ErrRegistry},
		{"box", `failed to resolve reference "docker.io/library/box:1": docker.io/library/box:1: not found`, ErrAbsent},
		{"box", "unexpected status from HEAD request to https://reg.example/v2/box/manifests/1: 403 Forbidden", ErrDenied},
		{"box", "error parsing HTTP 404 response body: invalid character '<': \"<html>no space left on device\"", ErrAbsent},
		{"box", "unknown: no space left on device", ErrRegistry},
		{"box", "unknown: lookup reg.example: no such host", ErrRegistry},
		{"box", "denied: connection refused: no matching manifest", ErrDenied},
		{"box", `Head "https://reg.example/v2/box/manifests/1": unauthorized: no such host`, ErrDenied},
		{"box", "received unexpected HTTP status: 503 no such host", ErrRegistry},
	} {
		err := pullError(c.ref, c.text, errors.New(c.text))
		if !errors.Is(err, c.want) || Words(err) != plainWords(c.text) {
			t.Errorf("%s: %q is %v, want %v", c.ref, c.text, err, c.want)
		}
		if got, want := NoHost(err), strings.Contains(c.text, "dial tcp"); got != want {
			t.Errorf("%s: %q is a fault of the registry's name: %v", c.ref, c.text, got)
		}
	}
}

// Only a name that the network does not know is at fault itself.
func TestNoHost(t *testing.T) {
	for text, want := range map[string]bool{
		"dial tcp: lookup registry.example.com on 10.0.0.2:53: no such host": true,
		"dial tcp: lookup registry.example.com on 10.0.0.2:53: server " +
			"misbehaving": false,
		"dial tcp: lookup registry.example.com: Temporary failure in name " +
			"resolution": false,
		"lookup a on 10.0.0.2:53: no such host; lookup a on 10.0.0.3:53: read udp 10.0.0.1:1->10.0.0.3:53: i/o " +
			"timeout": false,
		"dial tcp 10.0.0.9:443: connect: connection refused": false,
		"manifest unknown": false,
	} {
		if got := NoHost(pullError("registry.example.com/no-such-host:1", text, errors.New(text))); got != want {
			t.Errorf("%q is a fault of the name: %v", text, got)
		}
	}
	if err := pullError("registry.example.com/denied:1", "registry.example.com/denied: 503", errors.New("503")); !errors.Is(err, ErrRegistry) {
		t.Errorf("a word of the name decides: %v", err)
	}
}

// What was said is not said again in the same line.
func TestOnce(t *testing.T) {
	for text, want := range map[string]string{
		"manifest for box:2 not found: manifest unknown: manifest unknown": "manifest for box:2 not found: manifest unknown",
		"denied: requested access: Denied":                                 "denied: requested access",
		"":                                                                 "",
	} {
		if got := told(errors.New(text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// What a registry writes is one short line without control characters, and without the password
// that it was given.
func TestErrorsAreClean(t *testing.T) {
	l := &Login{User: "ada", Password: "s3cret"}
	text := l.hide(told(errors.New("Error response from daemon: denied: s3cret\x1b[2J is wrong\nmore " + strings.Repeat("x", 1000))))
	if text != "denied: ***[2J is wrong" {
		t.Errorf("%q", text)
	}
	if n := len(told(errors.New(strings.Repeat("é", 1000)))); n > longestError+3 {
		t.Errorf("%d bytes", n)
	}
}

func TestStep(t *testing.T) {
	of := func(id, status string, current, total int64) *jsonstream.Message {
		return &jsonstream.Message{ID: id, Status: status, Progress: &jsonstream.Progress{Current: current, Total: total}}
	}
	for _, c := range []struct {
		m    *jsonstream.Message
		want Step
		ok   bool
	}{
		{of("a", "Pulling fs layer", 0, 0), Step{Layer: "a"}, true},
		{of("a", "Downloading", 5, 10), Step{"a", Loads, 5, 10}, true},
		{of("a", "Downloading", -5, -10), Step{"a", Loads, 0, 0}, true},
		{&jsonstream.Message{ID: "a", Status: "Downloading"}, Step{"a", Loads, 0, 0}, true},
		{of("a", "Extracting", 5, 10), Step{"a", Loads, -1, 0}, true},
		{of("a", "Pull complete", 0, 0), Step{Layer: "a", State: Unpacked}, true},
		{of("a", "Already exists", 0, 0), Step{Layer: "a", State: Had}, true},
		{of("1", "Pulling from team/box", 0, 0), Step{Layer: "1"}, false},
		{of("", "Status: Downloaded newer image", 0, 0), Step{}, false},
		{of(strings.Repeat("a", 65), "Downloading", 5, 10), Step{}, false},
	} {
		if got, ok := step(c.m); ok != c.ok || ok && got != c.want {
			t.Errorf("%+v is %+v, %v", c.m, got, ok)
		}
	}
}

// TestWordsArePlain: what the packages of Go add about the network is left out.
func TestWordsArePlain(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.2:53: no such host`: "" +
			"registry-1.docker.io cannot be looked up from this node (no such host, says the name server 10.0.0.2)",
		"dial tcp: lookup a.example: no such host":                                         "a.example cannot be looked up from this node (no such host)",
		`Head "https://reg.example/v2/": dial tcp 10.0.0.9:443: connect: no route to host`: "10.0.0.9:443: no route to host",
		"manifest unknown": "manifest unknown",
	} {
		if got := Words(pullError("box", text, errors.New(text))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
