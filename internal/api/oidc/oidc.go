// Package oidc authenticates the person at a browser by an identity provider: OpenID Connect,
// code flow with PKCE, state and nonce. It must not know users or sessions. It stores nothing
// about a sign-in in progress: that is in a sealed cookie.
package oidc

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// CallbackPath is the path on this server to which the provider sends browsers back. It must
// be registered at the provider.
const CallbackPath = "/api/v1/sign-in/callback"

const (
	askWithin = 15 * time.Second // for all requests of one sign-in to the provider
	maxAnswer = 1 << 20          // bytes of each answer of the provider
	failsFor  = 2 * time.Second  // after a failure the provider is asked again after this time
	maxGroups = 1000             // values of the groups claim that are read
)

// Provider is one identity provider. It is first asked at the first sign-in, so a server
// starts without it. Its methods may be called from any goroutine.
type Provider struct {
	Settings
	seal   *seal
	client *http.Client

	mu    sync.Mutex
	found *oidc.Provider
	err   error
	tried time.Time
}

// Person is a person in the provider's words.
type Person struct {
	Issuer  string
	Subject string // never changes, and is not a name
	Name    string // from the name claim, without its suffix
	Display string
	Email   string
	Groups  []string // values of the group claim
}

// Open makes the provider of a settings file; nil for "".
func Open(path string) (*Provider, error) {
	if path == "" {
		return nil, nil
	}
	s, err := ReadSettings(path)
	if err != nil {
		return nil, err
	}
	return New(s), nil
}

// New makes the provider of settings.
func New(s *Settings) *Provider {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.Authorities},
		TLSHandshakeTimeout: askWithin, ResponseHeaderTimeout: askWithin, IdleConnTimeout: time.Minute}
	return &Provider{Settings: *s, seal: newSeal(), client: &http.Client{Transport: bounded{transport}, Timeout: askWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// OverTLS reports whether browsers use TLS, by Address: to this server or to a proxy before
// it. Without a provider it is false.
func (p *Provider) OverTLS() bool { return p != nil && strings.HasPrefix(p.Address, "https://") }

// bounded limits the length of answers.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// discover asks the provider for its endpoints, until it has answered once. It does not stop
// when its client leaves, since others wait for the same answer.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil || time.Since(p.tried) < failsFor {
		return p.found, p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	found, err := oidc.NewProvider(ctx, p.Issuer)
	p.tried = time.Now()
	if err == nil {
		err = checkTLS(found)
	}
	if p.err = err; err != nil {
		p.err = fmt.Errorf("the identity provider %s cannot be asked: %s", p.Issuer, clip(err.Error())) // it contains the provider's page
		return nil, p.err
	}
	p.found = found
	return found, nil
}

// checkTLS refuses a provider that has an endpoint without TLS.
func checkTLS(found *oidc.Provider) error {
	var keys struct {
		Address string `json:"jwks_uri"`
	}
	if err := found.Claims(&keys); err != nil {
		return err
	}
	e := found.Endpoint()
	addresses := []string{e.AuthURL, e.TokenURL, keys.Address}
	if info := found.UserInfoEndpoint(); info != "" {
		addresses = append(addresses, info)
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
			return fmt.Errorf("it names the address %q, which has no TLS", clip(address))
		}
	}
	return nil
}

// config is the OAuth configuration for the provider.
func (p *Provider) config(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.Secret, Endpoint: found.Endpoint(), RedirectURL: p.Address + CallbackPath,
		Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.Scopes...)}
}

// Begin starts a sign-in. The browser goes to address, and kept is what it returns in a
// cookie within Lasts. Finish returns u.
func (p *Provider) Begin(ctx context.Context, u AfterSignIn) (address, kept string, err error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), askWithin)
	defer cancel()
	found, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	w := pendingSignIn{AfterSignIn: u, State: secret(), Nonce: secret(), Verifier: oauth2.GenerateVerifier(), Until: time.Now().Add(Lasts)}
	address = p.config(found).AuthCodeURL(w.State, oidc.Nonce(w.Nonce), oauth2.S256ChallengeOption(w.Verifier))
	kept, err = p.seal.close(&w)
	return address, kept, err
}

// ErrStale is the error of an answer that belongs to no sign-in of this browser, or to an
// older one.
var ErrStale = errors.New("this sign-in was not begun in this browser, took too long, or was finished before: begin again")

// Finish takes the provider's answer, the query of the callback, and returns the person that
// signed in. kept is from Begin.
func (p *Provider) Finish(ctx context.Context, kept string, answer url.Values) (Person, AfterSignIn, error) {
	w, ok := p.seal.open(kept)
	if !ok || time.Now().After(w.Until) || subtle.ConstantTimeCompare([]byte(w.State), []byte(answer.Get("state"))) != 1 {
		return Person{}, AfterSignIn{}, ErrStale
	}
	if text := answer.Get("error"); text != "" {
		return Person{}, w.AfterSignIn, fmt.Errorf("the identity provider did not let you in: %s", clip(text+" "+answer.Get("error_description")))
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), askWithin)
	defer cancel()
	found, err := p.discover(ctx)
	if err != nil {
		return Person{}, w.AfterSignIn, err
	}
	token, err := p.config(found).Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(w.Verifier))
	if err != nil {
		return Person{}, w.AfterSignIn, &Failed{"did not take the code that it gave", err}
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err == nil && id.AccessTokenHash != "" {
		err = id.VerifyAccessToken(token.AccessToken)
	}
	if err != nil {
		return Person{}, w.AfterSignIn, &Failed{"gave an identity that is not valid", err}
	}
	if id.Subject == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(w.Nonce)) != 1 {
		return Person{}, w.AfterSignIn, &Failed{"gave an identity of another sign-in", errors.New("its nonce differs, or it has no subject")}
	}
	claims, err := p.claims(ctx, found, id, token)
	if err != nil {
		return Person{}, w.AfterSignIn, err
	}
	person, err := p.person(id.Subject, claims)
	return person, w.AfterSignIn, err
}

// Failed is a rejected answer of the provider. The cause is only for the log, since it may
// contain what was sent.
type Failed struct {
	What  string
	Cause error
}

// Error implements error.
func (f *Failed) Error() string {
	return "the identity provider " + f.What + "; the server's log says more"
}

// claims are the claims of the identity. Missing ones are fetched from the provider.
func (p *Provider) claims(ctx context.Context, found *oidc.Provider, id *oidc.IDToken, token *oauth2.Token) (map[string]any, error) {
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return nil, &Failed{"gave an identity that cannot be read", err}
	}
	if (claims[p.NameClaim] != nil && claims[p.GroupClaim] != nil) || found.UserInfoEndpoint() == "" {
		return claims, nil
	}
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, &Failed{"did not tell more about the user", err}
	}
	if info.Subject != id.Subject {
		return nil, &Failed{"told about another user", fmt.Errorf("subject %q instead of %q", clip(info.Subject), clip(id.Subject))}
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return nil, &Failed{"told about the user what cannot be read", err}
	}
	for name, value := range more {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return claims, nil
}
