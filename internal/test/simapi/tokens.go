package simapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
)

// Issuer issues the tokens of service accounts.
const Issuer = "https://issuer.sim.test"

// issuer signs tokens.
type issuer struct {
	key *ecdsa.PrivateKey
	id  string
}

func newIssuer(n int) issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // it has no other reason than a broken machine
	}
	return issuer{key, fmt.Sprint("key-", n)}
}

// RotateKeys lets tokens be signed with another key from now on; the one of before is told no more.
func (s *Server) RotateKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotated++
	s.issuer = newIssuer(s.rotated)
}

// Token is what a kubelet gives a pod: a token for an audience.
func (s *Server) Token(pod, audience string) string {
	s.mu.Lock()
	o := s.objects["pods"][pod].(*corev1.Pod)
	s.mu.Unlock()
	return s.TokenOf(o.Namespace, o.Name, string(o.UID), audience, time.Now().Add(time.Hour))
}

// TokenOf is a token for a pod, there or not, that ends at a time.
func (s *Server) TokenOf(space, name, uid, audience string, ends time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := jose.JSONWebKey{Key: s.issuer.key, KeyID: s.issuer.id}
	sign, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		panic(err)
	}
	since := jwt.NewNumericDate(ends.Add(-time.Hour))
	of := map[string]any{"namespace": space, "pod": map[string]string{"name": name, "uid": uid}}
	text, err := jwt.Signed(sign).Claims(jwt.Claims{Issuer: Issuer, Audience: jwt.Audience{audience},
		IssuedAt: since, NotBefore: since, Expiry: jwt.NewNumericDate(ends)}).
		Claims(map[string]any{"kubernetes.io": of}).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

// ofServer tells its version, the issuer of tokens, and its keys. It reports whether one of these
// was asked.
func (s *Server) ofServer(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/version":
		answer(w, http.StatusOK, version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0-sim"})
	case "/.well-known/openid-configuration":
		answer(w, http.StatusOK, map[string]string{"issuer": Issuer})
	case "/openid/v1/jwks":
		s.mu.Lock()
		now := s.issuer
		s.asked["keys"]++
		s.mu.Unlock()
		key := jose.JSONWebKey{Key: now.key.Public(), KeyID: now.id, Algorithm: string(jose.ES256), Use: "sig"}
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
	default:
		return false
	}
	return true
}
