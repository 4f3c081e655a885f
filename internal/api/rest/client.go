package rest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// Header names beside the standard ones.
const (
	HeaderAfterSeq    = "Comb-After-Seq"       // on a read: wait until this event is visible
	HeaderIdempotency = "Idempotency-Key"      // on a write: the same key has one effect
	HeaderLogOffset   = "Comb-Log-Offset"      // on logs: the offset of the first byte
	HeaderCondition   = "Comb-Condition"       // on each answer, for each of Info.Conditions, in ASCII
	TrailerLogDone    = "Comb-Log-Complete"    // after followed logs: no more output will come
	MaxIdempotencyKey = 255                    // bytes
	maxAnswer         = 256 << 20              // bytes of one JSON answer
	requestTimeout    = 60 * time.Second       // of one request that is not a stream
	continueTimeout   = 10 * time.Second       // until a body is sent without the server's 100-continue
	retryPause        = 200 * time.Millisecond // before the first retry
	longestPause      = 10 * time.Second       // before another one, where the server names the pause
)

// Client is a client of one server. It is safe for concurrent use. Its reads see what it
// wrote before.
type Client struct {
	base  *url.URL
	token string
	// OnWait, when set, is called with the cause when a stream broke and starts to wait for
	// the server. Set it before the first call.
	OnWait func(error)
	// OnCondition, when set, is called with each condition of the server that an answer names; see
	// Info.Conditions. Set it before the first call.
	OnCondition func(string)
	// DefaultVC is the virtual cluster of jobs that name none. Set it before the first call.
	DefaultVC string
	http      *http.Client
	seq       atomic.Uint64
}

// Unreachable says that there was no answer. Either nothing listens at the address, the
// connection broke, or without a URL the server's address is unknown.
type Unreachable struct {
	URL string
	Err error
}

// Error names the address and the cause.
func (u *Unreachable) Error() string {
	if dns := (*net.DNSError)(nil); errors.As(u.Err, &dns) {
		return fmt.Sprintf("cannot reach the server at %s: no address of %s is found; is the name right?",
			u.URL, dns.Name)
	}
	if u.URL == "" {
		return fmt.Sprintf("no server is known: %v", u.Err)
	}
	return fmt.Sprintf("cannot reach the server at %s: %v", u.URL, rootCause(u.Err))
}

// Refused reports that nothing was sent, since nothing listens or the address is unknown.
func (u *Unreachable) Refused() bool {
	return u.URL == "" || errors.Is(u.Err, syscall.ECONNREFUSED) || errors.Is(u.Err, syscall.ENOENT)
}

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// NewClient makes a client for a base address such as http://127.0.0.1:8420. The
// token goes into the Authorization header only; redirects are never followed.
func NewClient(base, token string) (*Client, error) { return NewTrustingClient(base, token, nil) }

// NewTrustingClient is NewClient for a server whose certificate is signed by one of these
// authorities, in PEM. nil stands for the authorities of this machine.
func NewTrustingClient(base, token string, authorities []byte) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("server address %q: want http://HOST:PORT or https://HOST:PORT", base)
	}
	if strings.ContainsAny(token, "\r\n\x00 ") {
		return nil, errors.New("the token holds a space or a line break: pass the file that holds only the token")
	}
	u.Path, u.RawQuery, u.Fragment, u.User = "", "", "", nil
	trust, err := trusting(authorities)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: requestTimeout,
		ExpectContinueTimeout: continueTimeout,
		TLSHandshakeTimeout:   10 * time.Second,
		TLSClientConfig:       trust,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
	}
	return &Client{base: u, token: token, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// URL is the server's base address.
func (c *Client) URL() string { return c.base.String() }

// Seen returns the event number of this client's last write.
func (c *Client) Seen() uint64 { return c.seq.Load() }

// See makes later reads wait until the server's answers include event seq.
func (c *Client) See(seq uint64) {
	for {
		old := c.seq.Load()
		if seq <= old || c.seq.CompareAndSwap(old, seq) {
			return
		}
	}
}

// NewKey returns a fresh idempotency key.
func NewKey() string { return rand.Text() }

// call is one request. Elements of its path must be escaped.
type call struct {
	method string
	path   string
	query  url.Values
	body   []byte
	media  string  // of the body
	json   any     // used instead of body and media
	stream *stream // used instead of body, media and json
	accept string
	header map[string]string
}

// send makes the request and returns the answer when its status is 2xx. Any other answer
// becomes a *Problem, and no answer an *Unreachable.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	target := c.base.String() + Prefix + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var body io.Reader = bytes.NewReader(k.body)
	if k.stream != nil {
		body = k.stream
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, err
	}
	if k.stream != nil {
		req.ContentLength = k.stream.size
		req.Header.Set("Expect", "100-continue") // a body that the server does not want is then not sent
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if k.media != "" {
		req.Header.Set("Content-Type", k.media)
	}
	if k.accept != "" {
		req.Header.Set("Accept", k.accept)
	}
	if s := c.seq.Load(); s > 0 && k.method == http.MethodGet {
		req.Header.Set(HeaderAfterSeq, strconv.FormatUint(s, 10))
	}
	for name, value := range k.header {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Unreachable{URL: c.base.String(), Err: rootCause(err)}
	}
	if c.OnCondition != nil {
		for _, text := range resp.Header.Values(HeaderCondition) {
			c.OnCondition(text)
		}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, problemOf(resp)
}

// rootCause strips the method and address that net/http and net add, since Unreachable names
// them better. The system's text stays.
func rootCause(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection broke before the answer was complete")
	}
	if text := untrusted(err); text != "" {
		return &Untrusted{text}
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// problemOf turns an error answer into a problem, also one without a problem as its body.
func problemOf(resp *http.Response) error {
	p := &Problem{}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if media != ProblemType || json.Unmarshal(body, p) != nil || p.Status == 0 {
		p = NewProblem(resp.StatusCode, CodeForStatus(resp.StatusCode),
			fmt.Sprintf("the server answered %s without saying why; is it a Comb server?", resp.Status))
	}
	p.Seconds, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return p
}

// do makes a request that is not a stream and decodes its JSON answer into out,
// unless out is nil.
func (c *Client) do(ctx context.Context, k call, out any) error {
	if k.json != nil {
		var err error
		if k.body, err = encode(k.json); err != nil {
			return err
		}
		k.media = mediaJSON
	}
	if k.stream == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	resp, err := c.send(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &Unreachable{URL: c.base.String(), Err: err}
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("the server's answer to %s %s cannot be read: %w", k.method, k.path, err)
	}
	return nil
}

// write is do for a request with an effect. It carries an idempotency key. So it can be
// repeated, and is repeated twice, when the connection breaks or the server says that it
// cannot answer now.
func (c *Client) write(ctx context.Context, k call, out any) (err error) {
	defer func() { err = unsure(&k, err) }()
	if k.header == nil {
		k.header = map[string]string{}
	}
	if k.header[HeaderIdempotency] == "" {
		k.header[HeaderIdempotency] = NewKey()
	}
	pause := retryPause
	var broke error // error of a try that may have had its effect
	for try := 0; ; try++ {
		err := c.do(ctx, k, out)
		var lost *Unreachable
		var busy *Problem
		switch {
		case errors.As(err, &lost) && !lost.Refused():
			broke = err
		case lost != nil && broke == nil:
			return err // nothing listens, which rarely changes within a moment
		case lost != nil:
		case errors.As(err, &busy) && busy.Code == CodeUnavailable && busy.Seconds > 0:
			broke, pause = err, min(time.Duration(busy.Seconds)*time.Second, longestPause)
		default:
			return err
		}
		if try == 2 {
			return broke
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 4
	}
}

// Unsure is the error of a request with an effect that was sent and not answered. It may have
// had its effect.
type Unsure struct {
	Err  error
	Look string // the command that shows whether it had
}

// Error is the text of Err.
func (u *Unsure) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u *Unsure) Unwrap() error { return u.Err }

func unsure(k *call, err error) error {
	var lost *Unreachable
	if !errors.Is(err, context.DeadlineExceeded) && (!errors.As(err, &lost) || lost.Refused() || unsent(err)) {
		return err
	}
	look := "comb audit list"
	for prefix, command := range map[string]string{"/config": "comb config history",
		"/jobs": "comb job list --state all", "/nodes": "comb node list"} {
		if strings.HasPrefix(k.path, prefix) {
			look = command
		}
	}
	return &Unsure{err, look}
}

// unsent reports whether there was no connection, so that nothing can have been sent.
func unsent(err error) bool {
	var (
		dns   *net.DNSError
		dial  *net.OpError
		other *Untrusted
	)
	return errors.As(err, &dns) || errors.As(err, &other) || errors.As(err, &dial) && dial.Op == "dial"
}

// element escapes a name for a path.
func element(name string) string { return url.PathEscape(name) }

// jobElement is a job's number as an element of a path.
func jobElement(id model.JobID) string { return strconv.FormatInt(int64(id), 10) }
