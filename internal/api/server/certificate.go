package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxFile   = 1 << 20             // bytes of a file of certificates, or of a key
	lookEvery = time.Second         // interval of checks whether the files changed
	soon      = 14 * 24 * time.Hour // how long before its end warnings begin
)

// Certificate is a certificate with its private key, in two files. Its methods may be called
// from any goroutine. nil is a server without TLS.
type Certificate struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu     sync.Mutex
	cert   *tls.Certificate
	marks  [2]fileMark // of the files when they were last read
	looked time.Time
	warned time.Time // when the last warning was logged
}

// fileMark tells one state of a file from another.
type fileMark struct {
	size    int64
	changed time.Time
	inode   uint64
}

// OpenCertificate reads a certificate with those that lead to its authority, and its key,
// from two PEM files. It returns all that is wrong as one error. Without a file name it
// returns nil.
func OpenCertificate(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	if certFile == "" {
		return nil, nil
	}
	p := &Certificate{certFile: certFile, keyFile: keyFile, now: now, log: log}
	p.marks = p.look()
	cert, err := p.read()
	if err != nil {
		return nil, err
	}
	p.cert = cert
	p.warn()
	return p, nil
}

// Over adds TLS to a listener: at least version 1.2, and only HTTP/1.1.
func (p *Certificate) Over(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.present(), nil }})
}

// For reports whether the certificate is for a name or an address.
func (p *Certificate) For(host string) bool {
	return p != nil && p.present().Leaf.VerifyHostname(host) == nil
}

// Address is the server's address for browsers: that of its listener, or with a name of the
// certificate if that is not valid for the listener's address.
func (p *Certificate) Address(listener string) string {
	if p == nil {
		return "http://" + listener
	}
	if host, port, err := net.SplitHostPort(listener); err == nil && !p.For(host) {
		for _, name := range p.present().Leaf.DNSNames {
			if !strings.HasPrefix(name, "*") {
				return "https://" + net.JoinHostPort(name, port)
			}
		}
	}
	return "https://" + listener
}

// Ends is the end of the certificate; zero without one.
func (p *Certificate) Ends() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.present().Leaf.NotAfter
}

// present returns the certificate, and reads it again after its files changed. An unusable
// new one is ignored.
func (p *Certificate) present() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); now.Sub(p.looked) >= lookEvery || now.Before(p.looked) {
		p.looked = now
		p.reload()
		p.warn()
	}
	return p.cert
}

func (p *Certificate) reload() {
	marks := p.look()
	if marks == p.marks {
		return
	}
	p.marks = marks
	cert, err := p.read()
	if err != nil {
		p.log.Error("the certificate before goes on, since the new one cannot be used", "error", err)
		return
	}
	p.cert, p.warned = cert, time.Time{}
	p.log.Info("the certificate was read again", "until", cert.Leaf.NotAfter)
}

// warn logs once a day that the certificate ends soon, or has ended.
func (p *Certificate) warn() {
	now := p.now()
	if p.cert.Leaf.NotAfter.Sub(now) > soon || now.Sub(p.warned) < 24*time.Hour {
		return
	}
	p.warned = now
	p.log.Warn("put a new certificate into the file: it is read without a restart", "file", p.certFile, "ends", p.cert.Leaf.NotAfter)
}

func (p *Certificate) look() (marks [2]fileMark) {
	for i, name := range []string{p.certFile, p.keyFile} {
		if info, err := os.Stat(name); err == nil {
			marks[i] = fileMark{size: info.Size(), changed: info.ModTime()}
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				marks[i].inode = st.Ino // another file may have replaced it
			}
		}
	}
	return marks
}

// read reads both files.
func (p *Certificate) read() (*tls.Certificate, error) {
	cert, certErr := readPEM("certificate", p.certFile)
	key, keyErr := readPEM("key", p.keyFile)
	if certErr != nil || keyErr != nil {
		return nil, errors.Join(certErr, keyErr)
	}
	if text := holds(cert, "CERTIFICATE"); text != "" {
		certErr = fmt.Errorf("%s holds no certificate: %s", p.certFile, text)
	}
	if text := holds(key, "PRIVATE KEY"); text != "" {
		keyErr = fmt.Errorf("%s holds no private key: %s", p.keyFile, text)
	}
	if certErr != nil || keyErr != nil {
		return nil, errors.Join(certErr, keyErr)
	}
	pair, err := tls.X509KeyPair(cert, key)
	switch {
	case err != nil && strings.Contains(err.Error(), "does not match"):
		return nil, fmt.Errorf("the key in %s is not that of the certificate in %s: name the two files that were made together", p.keyFile, p.certFile)
	case err != nil:
		return nil, fmt.Errorf("%s and %s cannot be used: %w", p.certFile, p.keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("%s cannot be read as a certificate: %w", p.certFile, err)
		}
	}
	return &pair, p.check(pair.Leaf)
}

// check refuses a certificate that no client accepts.
func (p *Certificate) check(leaf *x509.Certificate) error {
	switch now := p.now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate in %s ended at %s: put one that is valid into the file", p.certFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate in %s is valid from %s on: is the clock of this machine right?", p.certFile, leaf.NotBefore.UTC().Format(time.RFC3339))
	case len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return fmt.Errorf("the certificate in %s is for no name: have one made with the server's name as a subject alternative name", p.certFile)
	}
	return nil
}

func readPEM(what, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("cannot read the %s %s: %w", what, name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the %s %s: %w", what, name, err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("the %s %s has more than %d bytes: name a file of PEM", what, name, maxFile)
	}
	return data, nil
}

// holds says why a text has no block of a type; "" where it has.
func holds(text []byte, kind string) string {
	found := ""
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			return "the key in it is encrypted; write it without a passphrase, with openssl pkey, into a file that the server's user alone can read"
		case strings.HasSuffix(block.Type, kind):
			return ""
		}
		found = block.Type
	}
	if found != "" {
		return fmt.Sprintf("there is a block %q, and one of %q is wanted", found, kind)
	}
	return `there is no line "-----BEGIN ` + kind + `-----", as a file of PEM has`
}
