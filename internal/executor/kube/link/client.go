package link

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/executor"
)

// TokenFile is where a pod finds its token.
const TokenFile = "/comb/line/token"

// Client is a pod's end of the line to the server.
type Client struct {
	url, pod string
	token    func() (string, error)
	http     *http.Client
}

// Open returns the client of a pod. The pod's token is read for each request: the kubelet renews
// it.
func Open(address, pin, pod string) (*Client, error) {
	token := func() (string, error) {
		text, err := os.ReadFile(TokenFile)
		if err != nil {
			return "", fmt.Errorf("read the token of this task: %w", err)
		}
		return string(bytes.TrimSpace(text)), nil
	}
	if _, err := token(); err != nil {
		return nil, err
	}
	c := NewClient(address, pin, pod, "")
	c.token = token
	return c, nil
}

// NewClient speaks for a pod to the server at a URL, and checks its certificate by the pin.
func NewClient(address, pin, pod, token string) *Client {
	check := func(raw [][]byte, _ [][]*x509.Certificate) error {
		if len(raw) == 0 || subtle.ConstantTimeCompare([]byte(PinOf(raw[0])), []byte(pin)) != 1 {
			return errors.New("another server answers than the one that made this pod")
		}
		return nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	// A pod keeps one connection: a server may have many pods.
	t.Proxy, t.MaxIdleConnsPerHost = nil, 1
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyPeerCertificate: check} // the pin proves more than a name
	known := func() (string, error) { return token, nil }
	return &Client{strings.TrimSuffix(address, "/"), pod, known, &http.Client{Transport: t}}
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.pod+":"+token)
	a, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if a.StatusCode/100 == 2 {
		return a.Body, nil
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(a.Body, 512))
	err = &saysNo{a.Status, string(bytes.TrimSpace(text))}
	switch a.StatusCode {
	case http.StatusUnauthorized:
		err = fmt.Errorf("%w: %w", ErrToken, err)
	case http.StatusNotFound:
		err = fmt.Errorf("%w: %w", ErrNoTask, err)
	case http.StatusTooManyRequests:
		err = fmt.Errorf("%w: %w", ErrSoon, err)
	}
	return nil, err
}

// saysNo is an answer of the server that is a refusal.
type saysNo struct{ status, text string }

// Error implements error.
func (e *saysNo) Error() string { return "the server says " + e.status + ": " + e.text }

// Answered reports whether an error is an answer of the server, and not its absence.
func Answered(err error) bool {
	var no *saysNo
	return errors.As(err, &no)
}

// Code opens the code of this task's job.
func (c *Client) Code(ctx context.Context) (io.ReadCloser, error) {
	return c.ask(ctx, http.MethodGet, "/v1/code", nil)
}

// maxGang bounds the answer about other tasks, in bytes.
const maxGang = 4 << 20

// Gang asks for the addresses of the tasks of this task's gang, by the host names that they were
// given for each other.
func (c *Client) Gang(ctx context.Context) (known map[string]string, err error) {
	err = c.get(ctx, "/v1/gang", &known)
	return known, err
}

// Members asks which tasks of this task's job run. changed is false where the client already has
// that version.
func (c *Client) Members(ctx context.Context, has int64) (m executor.Membership, changed bool, err error) {
	err = c.get(ctx, fmt.Sprint("/v1/members?has=", has), &m)
	if errors.Is(err, io.EOF) {
		return m, false, nil
	}
	return m, err == nil, err
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, maxGang)).Decode(into)
}

// Tell sends lines of progress.
func (c *Client) Tell(ctx context.Context, lines []byte) error {
	return c.post(ctx, "/v1/progress", lines)
}

// Take sends what the task used lately.
func (c *Client) Take(ctx context.Context, u Usage) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return c.post(ctx, "/v1/usage", text)
}

// Log sends some of what the task printed, and returns up to where the server has it.
func (c *Client) Log(ctx context.Context, b LogBlock) (kept int64, err error) {
	q := url.Values{"from": {strconv.FormatInt(b.From, 10)}, "at": {strconv.FormatInt(b.At.UnixMicro(), 10)}}
	if b.Last {
		q.Set("last", "true")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := c.ask(ctx, http.MethodPost, logPath+"?"+q.Encode(), b.Text)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	var says logAnswer
	err = json.NewDecoder(io.LimitReader(body, 1024)).Decode(&says)
	return says.Kept, err
}

func (c *Client) post(ctx context.Context, path string, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := c.ask(ctx, http.MethodPost, path, text)
	if err != nil {
		return err
	}
	return body.Close()
}

// Turn reports how far a task is with its turns, and asks for the rotation.
func (c *Client) Turn(ctx context.Context, ask TurnReport) (says TurnAnswer, err error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return says, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := c.ask(ctx, http.MethodPost, "/v1/turn", text)
	if err != nil {
		return says, err
	}
	defer body.Close()
	return says, json.NewDecoder(io.LimitReader(body, maxGang)).Decode(&says)
}
