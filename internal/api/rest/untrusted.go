package rest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Untrusted is the cause of an Unreachable whose server did not prove its name, or does not
// speak TLS. Its text says what to do.
type Untrusted struct{ text string }

// Error implements error.
func (u *Untrusted) Error() string { return u.text }

// trusting is the TLS configuration of a client. The error is about invalid authorities.
func trusting(authorities []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(authorities) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("the file of --tls-ca or COMB_TLS_CA holds no certificate: it is to be that of the authority, or of the server itself, as PEM")
		}
	}
	return c, nil
}

// untrusted says what is wrong with a TLS connection; "" where TLS is not the cause.
func untrusted(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is signed by an authority that is not known here: name the authority's certificate with --tls-ca FILE or COMB_TLS_CA"
	case errors.As(err, &name):
		return fmt.Sprintf("its certificate is for %s, and not for %s: use such a name in --server, or have a certificate made for this one",
			names(name.Certificate), name.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is valid from %s to %s: if the clock of this machine is right, the server needs a new one",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &invalid):
		return "its certificate cannot be trusted: " + err.Error()
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it speaks no TLS there: use http:// in its address"
	}
	return ""
}

func names(c *x509.Certificate) string {
	list := c.DNSNames
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 {
		return "no name"
	}
	return strings.Join(list, ", ")
}
