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

// What keeps an engine from fetching an image. Any other error is the registry's, or of the way
// to it.
var (
	ErrAbsent   = errors.New("is not in its registry")
	ErrDenied   = errors.New("is refused by its registry")
	ErrFull     = errors.New("the disk of the container engine is full")
	ErrForeign  = errors.New("is not there for this machine's CPU")
	ErrRegistry = errors.New("its registry cannot be used")
)

// Login are credentials for a registry.
type Login struct{ User, Password string }

// header encodes credentials for engines; nil gives "".
func (l *Login) header() (string, error) {
	if l == nil {
		return "", nil
	}
	return authconfig.Encode(registry.AuthConfig{Username: l.User, Password: l.Password})
}

// hide removes secrets from a text that a registry may have written.
func (l *Login) hide(text string) string {
	if l == nil || l.Password == "" {
		return text
	}
	return strings.ReplaceAll(text, l.Password, "***")
}

// Step is a message of an engine that fetches an image.
type Step struct {
	Layer   string
	State   Layer
	Current int64 // bytes that were fetched
	Total   int64 // bytes of the layer in the registry; 0 is not known yet
}

// Layer is how far a layer is.
type Layer int

// The states of a layer, in their order.
const (
	Waits    Layer = iota
	Loads          // its bytes are being fetched
	Unpacked       // it was fetched
	Had            // it was here before
)

// Pull makes the engine fetch an image by tag or digest, and tells its steps. It ends with ctx.
// The errors are ErrAbsent, ErrDenied, ErrFull, ErrForeign, ErrNotName and ErrRegistry.
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

// step reads one message; ok is false when it is not about a layer.
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
	default: // such as "Pulling from NAME", about the tag
		return s, false
	}
	return s, true
}

// longestError bounds the text of an error, in bytes: a registry may have written it.
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

// once removes repetitions from an error: engines wrap errors in others of the same words.
func once(text string) string {
	var said []string
	for part := range strings.SplitSeq(text, ": ") {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.EqualFold(s, part) }) {
			said = append(said, part)
		}
	}
	return strings.Join(said, ": ")
}

// outages are an engine's words for trouble on the way to a registry, or with the resolver.
func outages() []string {
	return []string{"server misbehaving", "temporary failure in name resolution", "i/o timeout", "timeout exceeded",
		"deadline exceeded", "handshake timeout", "connection refused", "connection reset", "network is unreachable", "no route to host"}
}

const noHost = "no such host"

func has(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// NoHost reports whether an error of Pull says that the name of the registry does not exist.
// Trouble with the resolver is not that.
func NoHost(err error) bool {
	var f *pullFault
	return errors.As(err, &f) && f.kind == ErrRegistry && has(f.own, noHost) && !has(f.own, outages()...)
}

// answers are the first words of a registry's refusals, behind the engine's own words, with their
// meaning. What follows them is the registry's text, which may say anything.
var answers = map[string]error{
	"unauthorized": ErrDenied, "denied": ErrDenied,
	"manifest unknown": ErrAbsent, "manifest_unknown": ErrAbsent, "name unknown": ErrAbsent, "name_unknown": ErrAbsent,
	"toomanyrequests": ErrRegistry, "too many requests": ErrRegistry, "unavailable": ErrRegistry,
	"unsupported": ErrRegistry, "unknown": ErrRegistry, "blob unknown": ErrRegistry, "name invalid": ErrRegistry,
	"tag invalid": ErrRegistry, "manifest invalid": ErrRegistry, "manifest unverified": ErrRegistry,
	"digest invalid": ErrRegistry, "size invalid": ErrRegistry,
}

// statuses begin the engine's words for any other answer; its HTTP status follows.
var statuses = []string{"received unexpected http status", "unexpected status", "error parsing http "}

// quoted matches an address, or a registry's answer, in an engine's words.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// split separates the engine's own words from a registry's answer behind them. own is in lower
// case and without the image's name, which may hold any word. answer is the meaning of the
// registry's answer, nil where there is none.
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

// statusIn is the meaning of the HTTP status in an engine's words.
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

// unnamed removes an image's name from an engine's words: the full name anywhere, and the name as
// users write it, which may be one letter, only where engines put it.
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

// pullError says what kept the engine from fetching. Engines map registries' refusals to other
// codes from version to version, and errors in the stream have none, so their words decide.
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

// pullFault keeps an engine's words with their meaning. own are those that did not come from a
// registry.
type pullFault struct {
	ref, text, own string
	kind           error
}

func (f *pullFault) Error() string {
	return fmt.Sprintf("the image %s: %v (%s)", f.ref, f.kind, f.text)
}
func (f *pullFault) Unwrap() error { return f.kind }

// Words are the engine's own words of an error of Pull or Build, without what Go's packages add
// about the network; "" where there are none.
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

// How Go's packages report the lookup of a name, and the dialing of an address.
var (
	lookedUp = regexp.MustCompile(`(?:[A-Z][a-z]+ "[^"]*": )?dial \w+: lookup (\S+?)(?: on (\S+?))?: (.+)`)
	dialed   = regexp.MustCompile(`(?:[A-Z][a-z]+ "[^"]*": )?dial \w+ (\S+): connect: `)
)

// Newest asks an image's registry, through the engine, which image a name stands for there, and
// returns its digest. It fetches nothing. Errors are those of Pull.
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
