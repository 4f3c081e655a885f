package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Audience is what the tokens of pods are for. A token for anything else is refused.
const Audience = "comb"

const (
	longestToken = 8 << 10          // bytes; those of kubelets have about 1 KB
	askKeysEvery = 10 * time.Second // at most, whatever tokens are shown
	askKeysFor   = 5 * time.Second
	// keysAge is when the keys are asked for again although all tokens name a known one, so that
	// one that its issuer has withdrawn is taken no more.
	keysAge = 10 * time.Minute
	leeway  = time.Minute // between the clocks of the issuer and of this server
)

// The algorithms with which Kubernetes signs. None of them takes a secret as its key.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512}

// ErrToken says that a token is not that of the pod for which it was shown.
var ErrToken = errors.New("this is for the tasks of Comb alone")

// errUnknownKey says that the key or the issuer of a token is not known, or not yet.
var errUnknownKey = errors.New("the key of this token is not one of the issuer's")

// TokenPod is the pod for which a service account's token was made.
type TokenPod struct {
	Namespace, Name, UID string
	Expires              time.Time
}

// TokenVerifier verifies tokens of service accounts by the keys of their issuer, which it keeps.
type TokenVerifier struct {
	ask func(context.Context) (issuer string, keys []byte, err error)
	now func() time.Time

	asking sync.Mutex // held while the keys are asked for; before mu

	mu     sync.Mutex
	known  issuerKeys
	asked  time.Time // when they were asked for last
	heard  time.Time // when they came last
	failed error     // why they did not come when they were asked for last
}

// issuerKeys are the keys of an issuer, by their ids. They are replaced, never changed.
type issuerKeys struct {
	issuer string
	byID   map[string]jose.JSONWebKey
}

// NewTokenVerifier takes what asks for the issuer and its keys, a JSON Web Key Set. It is called
// when a token names a key that is not known, at most once each ten seconds.
func NewTokenVerifier(ask func(context.Context) (issuer string, keys []byte, err error)) *TokenVerifier {
	return &TokenVerifier{ask: ask, now: time.Now}
}

// Verify returns the pod of a token. ErrToken says that there is none, or that it is over or for
// another audience. Any other error says that this cannot be told now.
func (v *TokenVerifier) Verify(ctx context.Context, text string) (TokenPod, error) {
	if len(text) > longestToken {
		return TokenPod{}, ErrToken
	}
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(token.Headers) != 1 {
		return TokenPod{}, ErrToken
	}
	v.renew(ctx)
	known, err := v.keys()
	pod, wrong := known.read(token, v.now())
	if errors.Is(wrong, errUnknownKey) {
		known, err = v.refresh(ctx)
		pod, wrong = known.read(token, v.now())
	}
	if errors.Is(wrong, errUnknownKey) && err != nil {
		return TokenPod{}, fmt.Errorf("the keys of the issuer of tokens cannot be asked for: %w", err)
	}
	return pod, wrong
}

// read verifies a token.
func (k issuerKeys) read(token *jwt.JSONWebToken, now time.Time) (pod TokenPod, err error) {
	key, ok := k.byID[token.Headers[0].KeyID]
	if !ok || key.Algorithm != "" && key.Algorithm != token.Headers[0].Algorithm {
		return pod, errUnknownKey
	}
	var said struct {
		jwt.Claims
		Of struct {
			Namespace string `json:"namespace"`
			Pod       struct {
				Name string `json:"name"`
				UID  string `json:"uid"`
			} `json:"pod"`
		} `json:"kubernetes.io"`
	}
	if err := token.Claims(key.Key, &said); err != nil {
		return pod, ErrToken
	}
	if said.Issuer != k.issuer {
		return pod, errUnknownKey
	}
	want := jwt.Expected{Issuer: k.issuer, AnyAudience: jwt.Audience{Audience}, Time: now}
	err = said.ValidateWithLeeway(want, leeway)
	of := said.Of
	if err != nil || said.Expiry == nil || of.Namespace == "" || of.Pod.Name == "" || of.Pod.UID == "" {
		return pod, ErrToken
	}
	return TokenPod{of.Namespace, of.Pod.Name, of.Pod.UID, said.Expiry.Time()}, nil
}

// keys are those that are known, and why they may not be the present ones.
func (v *TokenVerifier) keys() (issuerKeys, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known, v.failed
}

// renew asks for keys that are old. It holds up one request at most.
func (v *TokenVerifier) renew(ctx context.Context) {
	v.mu.Lock()
	old := !v.heard.IsZero() && v.now().Sub(v.heard) > keysAge
	v.mu.Unlock()
	if old && v.asking.TryLock() {
		defer v.asking.Unlock()
		v.fetch(ctx)
	}
}

// refresh asks for the keys, and waits while another does.
func (v *TokenVerifier) refresh(ctx context.Context) (issuerKeys, error) {
	v.asking.Lock()
	defer v.asking.Unlock()
	v.fetch(ctx)
	return v.keys()
}

// fetch asks for the keys, unless they were asked for just now. v.asking is held.
func (v *TokenVerifier) fetch(ctx context.Context) {
	now := v.now()
	v.mu.Lock()
	soon := !v.asked.IsZero() && now.Sub(v.asked) < askKeysEvery
	if !soon {
		v.asked = now
	}
	v.mu.Unlock()
	if soon {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askKeysFor) // others wait for it
	defer cancel()
	issuer, text, err := v.ask(ctx)
	var next issuerKeys
	if err == nil {
		next, err = readKeys(issuer, text)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failed = err; err == nil {
		v.known, v.heard = next, now
	}
}

// readKeys reads a JSON Web Key Set. Keys of other kinds than those that sign tokens are left out.
func readKeys(issuer string, text []byte) (issuerKeys, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || issuer == "" {
		return issuerKeys{}, fmt.Errorf("it is no set of keys with an issuer: %w", err)
	}
	out := issuerKeys{issuer, map[string]jose.JSONWebKey{}}
	for _, one := range set.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(one); err != nil || !key.Valid() || key.Use != "" && key.Use != "sig" {
			continue
		}
		switch key.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey:
			out.byID[key.KeyID] = key
		}
	}
	return out, nil
}
