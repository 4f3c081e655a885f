package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Lasts is how long a sign-in may take, from its begin to the provider's answer.
const Lasts = 10 * time.Minute

// AfterSignIn says what follows a sign-in.
type AfterSignIn struct {
	Return    string `json:"r,omitempty"` // page of this server to which the browser goes
	Port      int    `json:"p,omitempty"` // of the user's command on its machine, which waits for a code; 0 is the browser itself
	Challenge string `json:"c,omitempty"` // challenge of that command
}

// pendingSignIn is a sign-in in progress.
type pendingSignIn struct {
	AfterSignIn
	State, Nonce, Verifier string
	Until                  time.Time
}

// seal encrypts what a browser carries with a key of this process: nothing can be read or
// changed by the browser.
type seal struct{ aead cipher.AEAD }

func newSeal() *seal {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is right
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block is one of 16 bytes
	}
	return &seal{aead}
}

func (s *seal) close(w *pendingSignIn) (string, error) {
	data, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, data, nil)), nil
}

func (s *seal) open(text string) (w pendingSignIn, ok bool) {
	if len(text) > 8<<10 {
		return w, false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return w, false
	}
	data, err = s.aead.Open(nil, nil, data, nil)
	return w, err == nil && json.Unmarshal(data, &w) == nil
}

// secret is text that cannot be guessed: 130 random bits.
func secret() string { return rand.Text() }

// SafeReturn reports whether a browser may be sent to an address after it signed in: only to
// pages of this server.
func SafeReturn(address string) bool {
	if len(address) == 0 || len(address) > 1024 || address[0] != '/' || strings.HasPrefix(address, "/api/") {
		return false
	}
	if len(address) > 1 && (address[1] == '/' || address[1] == '\\') {
		return false // the name of another host would follow
	}
	return strings.IndexFunc(address, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '\\' || r == '"' || r == '\'' || r == '<' || r == '>'
	}) < 0
}
