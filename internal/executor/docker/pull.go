package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

// What keeps an engine from fetching an image. An error that is none of them is of the registry,
// or of the way to it.
var (
	ErrAbsent   = errors.New("is not in its registry")
	ErrDenied   = errors.New("is refused by its registry")
	ErrFull     = errors.New("the disk of the container engine is full")
	ErrForeign  = errors.New("is not there for this machine's CPU")
	ErrRegistry = errors.New("its registry cannot be used")
)

// Login is what a registry is asked with.
type Login struct{ User, Password string }

// header is what engines take; nil is nothing.
func (l *Login) header() (string, error) {
	if l == nil {
		return "", nil
	}
	return authconfig.Encode(registry.AuthConfig{Username: l.User, Password: l.Password})
}

// hide takes what is secret out of a text that a registry may have written.
func (l *Login) hide(text string) string {
	if l == nil || l.Password == "" {
		return text
	}
	return strings.ReplaceAll(text, l.Password, "***")
}

// Step is what an engine says while it fetches an image.
type Step struct {
	Layer   string
	State   Layer
	Current int64 // bytes that are here
	Total   int64 // bytes that the layer has in the registry; 0 is not known yet
}

// Layer is how far a layer is.
type Layer int

// The states of a layer, in their order.
const (
	Waits    Layer = iota
	Loads          // its bytes come
	Unpacked       // it is here
	Had            // it was here before
)

// Pull has the engine fetch an image by tag or digest, and tells its steps. It ends with the
// context. The errors are ErrAbsent, ErrDenied, ErrFull, ErrForeign, ErrNotName and ErrRegistry.
func (e *Engine) Pull(ctx context.Context, ref string, login *Login, tell func(Step)) error {
	if _, err := reference.ParseNormalizedNamed(ref); err != nil {
		return fmt.Errorf("%q %w", ref, ErrNotName)
	}
	auth, err := login.header()
	if err != nil {
		return err
	}
	r, err := e.c.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return pullError(ref, login.hide(told(err)), err)
	}
	for m, err := range r.JSONMessages(ctx) {
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return pullError(ref, login.hide(told(err)), err)
		}
		if s, ok := step(&m); ok {
			tell(s)
		}
	}
	return ctx.Err()
}

// step reads one message; false is one that is of no layer.
func step(m *jsonstream.Message) (s Step, ok bool) {
	if m.ID == "" || len(m.ID) > 64 {
		return s, false
	}
	s.Layer = m.ID
	switch m.Status {
	case "Pulling fs layer", "Waiting":
	case "Downloading":
		s.State = Loads
		if m.Progress != nil {
			s.Current, s.Total = max(m.Progress.Current, 0), max(m.Progress.Total, 0)
		}
	case "Verifying Checksum", "Download complete", "Extracting":
		s.State, s.Current = Loads, -1
	case "Pull complete":
		s.State = Unpacked
	case "Already exists":
		s.State = Had
	default: // such as "Pulling from NAME", of the tag
		return s, false
	}
	return s, true
}

// longestError bounds what is told of an error, in bytes: a registry may have written it.
const longestError = 300

// told is an error in one printable line.
func told(err error) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, reason(err))
	text = once(strings.TrimPrefix(text, "Error response from daemon: "))
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "..."
	}
	return text
}

// once leaves out what an error has said before: engines wrap errors in others of the same words.
func once(text string) string {
	var said []string
	for part := range strings.SplitSeq(text, ": ") {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.EqualFold(s, part) }) {
			said = append(said, part)
		}
	}
	return strings.Join(said, ": ")
}

// outages are an engine's words for trouble on the way to a registry, or of the resolver of its
// name.
func outages() []string {
	return []string{"server misbehaving", "temporary failure in name resolution", "i/o timeout", "timeout exceeded",
		"deadline exceeded", "handshake timeout", "connection refused", "connection reset", "network is unreachable", "no route to host"}
}

const noHost = "no such host"

func has(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// NoHost reports whether an error of Pull says that the name of the registry is not known to the
// network, and nothing else: a resolver that is out of order is no fault of the name.
func NoHost(err error) bool {
	var f *pullFault
	return errors.As(err, &f) && f.kind == ErrRegistry && has(f.own, noHost) && !has(f.own, outages()...)
}

// answers are what a registry's refusals begin with, behind the engine's own words, and what they
// mean. What follows one is the registry's text, which may say anything.
var answers = map[string]error{
	"unauthorized": ErrDenied, "denied": ErrDenied,
	"manifest unknown": ErrAbsent, "manifest_unknown": ErrAbsent, "name unknown": ErrAbsent, "name_unknown": ErrAbsent,
	"toomanyrequests": ErrRegistry, "too many requests": ErrRegistry, "unavailable": ErrRegistry,
	"unsupported": ErrRegistry, "unknown": ErrRegistry, "blob unknown": ErrRegistry, "name invalid": ErrRegistry,
	"tag invalid": ErrRegistry, "manifest invalid": ErrRegistry, "manifest unverified": ErrRegistry,
	"digest invalid": ErrRegistry, "size invalid": ErrRegistry,
}

// statuses begin the engine's words for an answer that has none of these, with its status behind.
var statuses = []string{"received unexpected http status", "unexpected status", "error parsing http "}

// quoted is an address, or what a registry answered, in an engine's words.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// split returns the engine's own words, in small letters and without the image's name, which may
// hold any word; and what a registry's answer means that is behind them, nil where there is none.
func split(ref, text string) (own string, answer error) {
	var kept []string
	parts := strings.Split(unnamed(ref, quoted.ReplaceAllString(strings.ToLower(text), "")), ": ")
	for i, part := range parts {
		if kind, known := answers[strings.TrimSpace(part)]; known {
			return strings.Join(kept, ": "), kind
		}
		if slices.ContainsFunc(statuses, func(s string) bool { return strings.HasPrefix(part, s) }) {
			return strings.Join(kept, ": "), statusIn(strings.Join(parts[i:], ": "))
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, ": "), nil
}

var httpStatus = regexp.MustCompile(`(?:^|[ :])([1-5][0-9][0-9])(?: |$)`)

// statusIn is what the HTTP status in an engine's words means.
func statusIn(words string) error {
	if m := httpStatus.FindStringSubmatch(words); m != nil {
		switch m[1] {
		case "401", "403":
			return ErrDenied
		case "404":
			return ErrAbsent
		}
	}
	return ErrRegistry
}

// unnamed takes an image's name out of an engine's words: a whole one wherever it is, and one as
// users write it, which may be a letter, where engines put it.
func unnamed(ref, words string) string {
	name, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return words
	}
	for _, whole := range []string{name.String(), name.Name()} {
		words = strings.ReplaceAll(words, strings.ToLower(whole), "")
	}
	for _, short := range []string{ref, reference.FamiliarString(name), reference.FamiliarName(name)} {
		short = regexp.QuoteMeta(strings.ToLower(short))
		words = regexp.MustCompile(`(for|image|reference) `+short+`([ ,:]|$)`).ReplaceAllString(words, "$1 $2")
	}
	return words
}

// pullError says what kept the engine from fetching. Engines give registries' refusals other codes
// from version to version, and what comes in the stream has none: their words decide.
func pullError(ref, text string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := ErrRegistry
	own, answer := split(ref, text)
	switch {
	case has(own, "no space left on device", "disk quota exceeded"):
		kind = ErrFull
	case has(own, "no matching manifest", "no match for platform", "cannot be used on this platform"):
		return fmt.Errorf("the image %s %w", ref, ErrForeign)
	case has(own, noHost), has(own, outages()...):
	case answer != nil:
		kind = answer
	case has(own, "unauthorized", "denied", "no basic auth credentials", "authentication required",
		"incorrect username or password", "forbidden"), errdefs.IsUnauthorized(err):
		kind = ErrDenied
	case has(own, "not found"), errdefs.IsNotFound(err):
		kind = ErrAbsent
	case has(own, "invalid reference format"):
		kind = ErrNotName
	}
	return &pullFault{ref: ref, kind: kind, text: text, own: own}
}

// pullFault keeps an engine's words beside what they mean. own are those of them that no registry
// said.
type pullFault struct {
	ref, text, own string
	kind           error
}

func (f *pullFault) Error() string {
	return fmt.Sprintf("the image %s: %v (%s)", f.ref, f.kind, f.text)
}
func (f *pullFault) Unwrap() error { return f.kind }

// Words are the engine's own of an error of Pull or Build, without what Go's packages add about the
// network; "" where there are none.
func Words(err error) string {
	var f *pullFault
	if !errors.As(err, &f) {
		return ""
	}
	return plainWords(f.text)
}

func plainWords(text string) string {
	text = lookedUp.ReplaceAllStringFunc(text, func(found string) string {
		part := lookedUp.FindStringSubmatch(found)
		if part[2] == "" {
			return fmt.Sprintf("%s cannot be looked up from this node (%s)", part[1], part[3])
		}
		return fmt.Sprintf("%s cannot be looked up from this node (%s, says the name server %s)", part[1], part[3],
			strings.TrimSuffix(part[2], ":53"))
	})
	return dialed.ReplaceAllString(text, "$1: ")
}

// What the packages of Go say of a name that was looked up, and of an address that was dialed.
var (
	lookedUp = regexp.MustCompile(`(?:[A-Z][a-z]+ "[^"]*": )?dial \w+: lookup (\S+?)(?: on (\S+?))?: (.+)`)
	dialed   = regexp.MustCompile(`(?:[A-Z][a-z]+ "[^"]*": )?dial \w+ (\S+): connect: `)
)

// Newest asks an image's registry, through the engine, which image a name stands for there, and
// returns its digest. Nothing is fetched. Errors are those of Pull.
func (e *Engine) Newest(ctx context.Context, ref string, login *Login) (digest string, err error) {
	if _, err := reference.ParseNormalizedNamed(ref); err != nil {
		return "", fmt.Errorf("%q %w", ref, ErrNotName)
	}
	auth, err := login.header()
	if err != nil {
		return "", err
	}
	r, err := e.c.DistributionInspect(ctx, ref, client.DistributionInspectOptions{EncodedRegistryAuth: auth})
	if err != nil {
		return "", pullError(ref, login.hide(told(err)), err)
	}
	return r.Descriptor.Digest.String(), nil
}
