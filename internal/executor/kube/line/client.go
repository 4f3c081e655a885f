package line

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// TokenFile is where a pod finds its token.
const TokenFile = "/comb/line/token"

// Client is a pod's end.
type Client struct {
	url, shown string
	http       *http.Client
}

// Open is the client of a pod, with its token.
func Open(url, pin, pod string) (*Client, error) {
	token, err := os.ReadFile(TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the token of this task: %w", err)
	}
	return NewClient(url, pin, pod, string(token)), nil
}

// NewClient speaks for a pod to the server at a URL, whose certificate has a pin.
func NewClient(url, pin, pod, token string) *Client {
	check := func(raw [][]byte, _ [][]*x509.Certificate) error {
		if len(raw) == 0 || subtle.ConstantTimeCompare([]byte(PinOf(raw[0])), []byte(pin)) != 1 {
			return errors.New("another server answers than the one that made this pod")
		}
		return nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyPeerCertificate: check} // the pin says more than a name
	return &Client{strings.TrimSuffix(url, "/"), "Bearer " + pod + ":" + token, &http.Client{Transport: t}}
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", c.shown)
	a, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if a.StatusCode/100 == 2 {
		return a.Body, nil
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(a.Body, 512))
	err = fmt.Errorf("the server says %s: %s", a.Status, bytes.TrimSpace(text))
	if a.StatusCode == http.StatusNotFound || a.StatusCode == http.StatusUnauthorized {
		err = fmt.Errorf("%w: %w", ErrNone, err)
	}
	return nil, err
}

// Code opens the code of this task's job.
func (c *Client) Code(ctx context.Context) (io.ReadCloser, error) {
	return c.ask(ctx, http.MethodGet, "/v1/code", nil)
}

// Tell tells lines of progress.
func (c *Client) Tell(ctx context.Context, lines []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := c.ask(ctx, http.MethodPost, "/v1/progress", lines)
	if err != nil {
		return err
	}
	return body.Close()
}
