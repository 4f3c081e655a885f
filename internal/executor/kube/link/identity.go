package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Identity is the certificate that the server shows to pods. It is made once and kept in a file.
// Pods know it by its pin.
func Identity(file string) (tls.Certificate, string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = newIdentity(); err == nil {
			err = keep(file, text)
		}
	}
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("the certificate for pods: %w", err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return tls.Certificate{}, "", fmt.Errorf("the certificate for pods, %s, is damaged: remove it, and pods of before are told no more: %w", file, err)
	}
	return pair, PinOf(pair.Certificate[0]), nil
}

// PinOf is the pin of a certificate: by it a pod knows the server.
func PinOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func newIdentity() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	form := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "comb"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(30, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// keep writes a file whole or not at all.
func keep(file string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
