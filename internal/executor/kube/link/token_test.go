package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer issues tokens as an API server does.
type issuer struct {
	name  string
	signs jose.JSONWebKey   // with which it signs
	tells []jose.JSONWebKey // those it tells
	away  error
	asked int
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{name: "https://kubernetes.default.svc"}
	i.rotate(t, "first")
	return i
}

func (i *issuer) rotate(t testing.TB, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.signs = jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "ES256", Use: "sig"}
	i.tells = []jose.JSONWebKey{i.signs.Public()}
}

func (i *issuer) ask(context.Context) (string, []byte, error) {
	i.asked++
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: i.tells})
	return i.name, text, errors.Join(err, i.away)
}

// claims are those of a token of the pod comb/p, which a test changes.
func (i *issuer) claims(now time.Time) map[string]any {
	return map[string]any{"iss": i.name, "aud": []string{Audience}, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "nbf": now.Unix(), "sub": "system:serviceaccount:comb:default",
		"kubernetes.io": map[string]any{"namespace": "comb", "pod": map[string]string{"name": "p", "uid": "u"}, "serviceaccount": map[string]string{"name": "default", "uid": "s"}}}
}

// sign makes a token, with a key of its own where one is given.
func (i *issuer) sign(t testing.TB, alg jose.SignatureAlgorithm, key any, claims any) string {
	t.Helper()
	if key == nil {
		key = i.signs
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokensOfPods(t *testing.T) {
	now := time.Now()
	i := newIssuer(t)
	v := NewTokenVerifier(i.ask)
	good := i.sign(t, jose.ES256, nil, i.claims(now))
	if pod, err := v.Verify(t.Context(), good); err != nil || pod.Namespace != "comb" || pod.Name != "p" || pod.UID != "u" || pod.Expires.Unix() != now.Add(time.Hour).Unix() {
		t.Fatalf("it is %+v, %v", pod, err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := json.Marshal(i.signs.Public())
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(map[string]any)) string {
		c := i.claims(now)
		change(c)
		return i.sign(t, jose.ES256, nil, c)
	}
	set := func(key string, value any) string { return with(func(c map[string]any) { c[key] = value }) }
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"first"}`)) + "." + strings.Split(good, ".")[1] + "."
	body := strings.Split(good, ".")
	for name, text := range map[string]string{
		"stale": set("exp", now.Add(-2*time.Minute).Unix()), "not yet valid": set("nbf", now.Add(2*time.Minute).Unix()), "without an end": with(func(c map[string]any) { delete(c, "exp") }),
		"for another": set("aud", []string{"https://kubernetes.default.svc"}), "for nobody": with(func(c map[string]any) { delete(c, "aud") }),
		"of no pod":       set("kubernetes.io", map[string]any{"namespace": "comb"}),
		"without a UID":   set("kubernetes.io", map[string]any{"namespace": "comb", "pod": map[string]string{"name": "p"}}),
		"of another form": set("kubernetes.io", "comb"), "with texts for numbers": set("exp", "tomorrow"),
		"not signed":            none,
		"by a secret":           i.sign(t, jose.HS256, jose.JSONWebKey{Key: public, KeyID: "first"}, i.claims(now)),
		"by another's key":      i.sign(t, jose.ES256, jose.JSONWebKey{Key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), KeyID: "first"}, i.claims(now)),
		"with a signature less": body[0] + "." + body[1] + ".",
		"with another body":     body[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"x"}`)) + "." + body[2],
		"of two parts":          body[0] + "." + body[1], "empty": "", "dots": "..", "bytes": "\x00\xff.\x01.\x02", "no base64": "a!.b!.c!",
		"huge": good + strings.Repeat("A", longestToken), "many dots": strings.Repeat(".", longestToken-1), "encrypted": "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..AAAAAAAAAAAAAAAA.AA.AAAAAAAAAAAAAAAAAAAAAA",
		"two signatures": `{"payload":"` + body[1] + `","signatures":[{"protected":"` + body[0] + `","signature":"` + body[2] + `"},{"protected":"` + body[0] + `","signature":"` + body[2] + `"}]}`,
	} {
		if pod, err := v.Verify(t.Context(), text); !errors.Is(err, ErrToken) || pod != (TokenPod{}) {
			t.Errorf("a token that is %s: %+v, %v", name, pod, err)
		}
	}
	for name, text := range map[string]string{
		"another issuer":    set("iss", "https://another.test"),
		"another algorithm": i.sign(t, jose.RS256, jose.JSONWebKey{Key: rsaKey, KeyID: "first"}, i.claims(now)),
		"an unknown key":    i.sign(t, jose.ES256, jose.JSONWebKey{Key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), KeyID: "none"}, i.claims(now)),
	} {
		if pod, err := v.Verify(t.Context(), text); err == nil || errors.Is(err, ErrToken) || pod != (TokenPod{}) {
			t.Errorf("%s: %+v, %v", name, pod, err)
		}
	}
	if i.asked != 1 {
		t.Errorf("the keys were asked for %d times at once", i.asked)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Garbage is refused, whatever byte of a token is another.
func TestTokensWithAnotherByte(t *testing.T) {
	i := newIssuer(t)
	v := NewTokenVerifier(i.ask)
	good := i.sign(t, jose.ES256, nil, i.claims(time.Now()))
	for at := range good {
		for _, b := range []byte{'A', '.', '=', 0, 0xff} {
			text := good[:at] + string([]byte{b}) + good[at+1:]
			if text == good || at == len(good)-1 { // the last one has bits that mean nothing
				continue
			}
			if _, err := v.Verify(t.Context(), text); err == nil {
				t.Errorf("with %q at %d it is taken", b, at)
			}
		}
	}
}

func FuzzToken(f *testing.F) {
	i := newIssuer(f)
	v := NewTokenVerifier(i.ask)
	good := i.sign(f, jose.ES256, nil, i.claims(time.Now()))
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		if pod, err := v.Verify(t.Context(), text); err == nil && pod.UID != "u" {
			t.Errorf("%q is of %+v", text, pod)
		}
	})
}

// A key that its issuer has only now is asked for, at most each ten seconds; one that it withdraws
// is taken no more some time later. While the issuer is away what is known holds.
func TestKeysRotate(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	v := NewTokenVerifier(i.ask)
	v.now = func() time.Time { return now }
	verify := func(text string) error { _, err := v.Verify(t.Context(), text); return err }
	i.away = errors.New("nobody answers")
	first := i.sign(t, jose.ES256, nil, i.claims(now))
	if err := verify(first); err == nil || errors.Is(err, ErrToken) || !strings.Contains(err.Error(), "nobody answers") {
		t.Fatalf("the issuer was never heard: %v", err)
	}
	i.away = nil
	if err := verify(first); err == nil || i.asked != 1 {
		t.Fatalf("it is asked %d times at once: %v", i.asked, err)
	}
	now = now.Add(askKeysEvery)
	if err := verify(first); err != nil || i.asked != 2 {
		t.Fatalf("ten seconds later: %v, asked %d times", err, i.asked)
	}
	old := i.tells
	i.rotate(t, "second")
	i.tells = append(i.tells, old...)
	second := i.sign(t, jose.ES256, nil, i.claims(now))
	if err := verify(second); err == nil || errors.Is(err, ErrToken) || i.asked != 2 {
		t.Fatalf("a new key at once: %v, asked %d times", err, i.asked)
	}
	now = now.Add(askKeysEvery)
	for name, text := range map[string]string{"new": second, "old": first} {
		if err := verify(text); err != nil {
			t.Errorf("a token of the %s key: %v", name, err)
		}
	}
	i.away, now = errors.New("nobody answers"), now.Add(keysAge+time.Second)
	if err := verify(first); err != nil || i.asked != 4 {
		t.Errorf("while the issuer is away: %v, asked %d times", err, i.asked)
	}
	i.away, i.tells, now = nil, i.tells[:1], now.Add(askKeysEvery)
	if err := verify(first); err == nil {
		t.Error("a key that was withdrawn is taken")
	}
	if err := verify(second); err != nil {
		t.Errorf("the key that is left: %v", err)
	}
	for n := range 1000 {
		_ = verify(i.sign(t, jose.ES256, jose.JSONWebKey{Key: i.signs.Key, KeyID: fmt.Sprint("guess-", n)}, i.claims(now)))
	}
	if i.asked > 5 {
		t.Errorf("a thousand guessed keys: asked %d times", i.asked)
	}
}
