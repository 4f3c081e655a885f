package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/server"
)

// madeCertificate makes a certificate that has signed itself, and its key, both PEM.
func madeCertificate(t *testing.T, name string, from, to time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true}
	if name != "" {
		leaf.DNSNames = []string{"*.pool.example.com", name}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// certificateClock is a time that a test sets.
type certificateClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *certificateClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *certificateClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// files writes a certificate and its key where each test of a folder has them.
func files(t *testing.T, dir string, cert, key []byte) (string, string) {
	t.Helper()
	c, k := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, data := range map[string][]byte{c: cert, k: key} {
		if err := os.WriteFile(name+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	return c, k
}

// What is wrong with the files is said with what to do.
func TestOpenRefuses(t *testing.T) {
	now := time.Now()
	good, key := madeCertificate(t, "comb.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	old, oldKey := madeCertificate(t, "comb.example.com", now.Add(-2*time.Hour), now.Add(-time.Hour))
	early, earlyKey := madeCertificate(t, "comb.example.com", now.Add(time.Hour), now.Add(2*time.Hour))
	nameless, namelessKey := madeCertificate(t, "", now.Add(-time.Hour), now.Add(time.Hour))
	sealed := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	for name, c := range map[string]struct {
		cert, key []byte
		want      []string
	}{
		"another key":   {good, oldKey, []string{"key.pem is not that of the certificate in", "made together"}},
		"ended":         {old, oldKey, []string{"cert.pem ended at", "put one that is valid"}},
		"not yet":       {early, earlyKey, []string{"is valid from", "clock"}},
		"no name":       {nameless, namelessKey, []string{"is for no name", "subject alternative name"}},
		"two mistakes":  {[]byte("hello"), []byte("hello"), []string{"cert.pem holds no certificate", "key.pem holds no private key", "-----BEGIN PRIVATE KEY-----"}},
		"swapped":       {key, good, []string{`there is a block "PRIVATE KEY", and one of "CERTIFICATE" is wanted`}},
		"encrypted key": {good, sealed, []string{"the key in it is encrypted", "openssl pkey"}},
		"too long":      {bytes.Repeat([]byte("x"), 1<<20+1), key, []string{"has more than 1048576 bytes"}},
	} {
		certFile, keyFile := files(t, t.TempDir(), c.cert, c.key)
		_, err := server.OpenCertificate(certFile, keyFile, time.Now, slog.New(slog.DiscardHandler))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	_, err := server.OpenCertificate("/nonexistent/a", "/nonexistent/b", time.Now, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "certificate /nonexistent/a: no such file") || !strings.Contains(err.Error(), "key /nonexistent/b") {
		t.Errorf("no files: %v", err)
	}
}

// A new certificate is used without a restart; one that cannot be used changes nothing, and the log
// says so.
func TestReload(t *testing.T) {
	dir, c := t.TempDir(), &certificateClock{at: time.Now()}
	var log bytes.Buffer
	first, firstKey := madeCertificate(t, "old.example.com", c.at.Add(-time.Hour), c.at.Add(100*24*time.Hour))
	certFile, keyFile := files(t, dir, first, firstKey)
	p, err := server.OpenCertificate(certFile, keyFile, c.now, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !p.For("old.example.com") || !p.For("a.pool.example.com") || p.For("new.example.com") || p.Address("127.0.0.1:1") != "https://old.example.com:1" {
		t.Error("the names of the first certificate")
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := p.Over(plain)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}()
		}
	}()
	shown := func(version uint16) string {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}) // the test looks at the certificate itself
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].DNSNames[1]
	}
	if got := shown(tls.VersionTLS12); got != "old.example.com" {
		t.Errorf("TLS 1.2 is shown %s", got)
	}
	if got := shown(tls.VersionTLS11); !strings.Contains(got, "protocol version") {
		t.Errorf("TLS 1.1 is shown %s", got)
	}
	second, secondKey := madeCertificate(t, "new.example.com", c.at.Add(-time.Hour), c.at.Add(10*24*time.Hour))
	files(t, dir, second, firstKey) // half of a change
	c.pass(2 * time.Second)
	if got := shown(0); got != "old.example.com" || !strings.Contains(log.String(), "the certificate before goes on") {
		t.Errorf("with half of a change: %s, log %s", got, &log)
	}
	files(t, dir, second, secondKey)
	c.pass(2 * time.Second)
	if got := shown(0); got != "new.example.com" || !strings.Contains(log.String(), "put a new certificate into the file") {
		t.Errorf("after the change: %s, log %s", got, &log)
	}
}
