package oidc

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

const (
	maxSettings = 64 << 10 // bytes of the file, and of those that it names
	maxSecret   = 4096     // bytes of the client's secret
	maxClaim    = 255      // bytes of a claim's name, and of other short texts
)

// Settings say which provider is asked, and how its claims become a user.
type Settings struct {
	Issuer      string // exactly as the provider writes it
	ClientID    string
	Secret      string // "" for a client without a secret; never shown
	Address     string // of this server in browsers, without a slash at its end
	Title       string // name of the provider for people
	Scopes      []string
	NameClaim   string
	NameSuffix  string // removed from the name claim, which must end with it
	GroupClaim  string
	GroupPrefix string // of groups that are created here; "" creates none
	Authorities *x509.CertPool
}

// ReadSettings reads a settings file, and the files that it names relative to it. It reports
// all mistakes at once, with their places, and never a secret.
func ReadSettings(path string) (*Settings, error) {
	src, err := readFile(path, maxSettings)
	if err != nil {
		return nil, err
	}
	node, problems := document.Parse(path, src, document.Limits{Bytes: maxSettings})
	if len(problems) > 0 {
		return nil, problems.Err()
	}
	r := document.NewReader()
	m := r.Map(node, "the settings of the identity provider")
	short := document.Text{Max: maxClaim}
	s := &Settings{
		Issuer: m.String("issuer", document.Text{Required: true, Max: 1024}), ClientID: m.String("clientID", document.Text{Required: true, Max: maxClaim}),
		Address: m.String("address", document.Text{Required: true, Max: 1024}), Title: m.String("title", short),
		Scopes: m.Strings("scopes", short), NameSuffix: m.String("nameSuffix", short), GroupPrefix: m.String("groupPrefix", short),
		NameClaim:  m.String("nameClaim", document.Text{Max: maxClaim, Default: "preferred_username"}),
		GroupClaim: m.String("groupClaim", document.Text{Max: maxClaim, Default: "groups"}),
	}
	at := func(key string) *document.Node {
		if n := m.Node(key); n != nil {
			return n
		}
		return node
	}
	if text := checkURL(s.Issuer, true); s.Issuer != "" && text != "" {
		r.Problem(at("issuer"), "%s %s", document.Quote(s.Issuer), text)
	}
	if text := checkURL(s.Address, false); s.Address != "" && text != "" {
		r.Problem(at("address"), "%s %s", document.Quote(s.Address), text)
	}
	for _, scope := range s.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \"\\") {
			r.Problem(at("scopes"), "%s is no scope", document.Quote(scope))
		}
	}
	beside := func(key string, most int64) []byte {
		name := m.String(key, document.Text{Max: 4096})
		if name == "" {
			return nil
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		data, err := readFile(name, most)
		if err != nil {
			r.Problem(at(key), "%s", err)
		}
		return data
	}
	s.Secret = strings.TrimSpace(string(beside("clientSecretFile", maxSecret)))
	if strings.ContainsAny(s.Secret, "\n\r\x00") {
		r.Problem(at("clientSecretFile"), "the file has more than one line: it is to hold the secret alone")
	}
	if pem := beside("ca", maxSettings); pem != nil {
		if s.Authorities = x509.NewCertPool(); !s.Authorities.AppendCertsFromPEM(pem) {
			r.Problem(at("ca"), "the file holds no certificate: it is to be that of the provider's authority, as PEM")
		}
	}
	m.Rest()
	s.Address = strings.TrimRight(s.Address, "/")
	if s.Title == "" {
		if u, err := url.Parse(s.Issuer); err == nil {
			s.Title = u.Hostname()
		}
	}
	return s, r.Problems().Err()
}

// Host is the name of this server in browsers, without a port.
func (s *Settings) Host() string {
	u, err := url.Parse(s.Address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// At reports whether a request's host and port are those of Address.
func (s *Settings) At(host string) bool {
	u, err := url.Parse(s.Address)
	if err != nil {
		return false
	}
	usual := map[string]string{"https": ":443", "http": ":80"}[u.Scheme] // browsers omit it
	return strings.EqualFold(strings.TrimSuffix(host, usual), strings.TrimSuffix(u.Host, usual))
}

// checkURL says what is wrong with an address; "" is nothing. Without TLS it must be of this
// machine itself.
func checkURL(text string, path bool) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "is no address: want https://HOST"
	case !path && strings.Trim(u.Path, "/") != "":
		return "has a path: want https://HOST alone"
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return ""
	}
	return "must begin with https://: codes and tokens would cross the network in clear"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the settings of the identity provider: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = errors.New("it has more than " + fmt.Sprint(most) + " bytes")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return data, nil
}
