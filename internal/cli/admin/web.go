package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

// browserWait is how long a sign-in by a browser may take.
const browserWait = 10 * time.Minute

// byBrowser signs in through a browser at the server's identity provider. The browser brings
// a code to a port of this machine, or the user types the code here. The code is only valid
// with a secret that does not leave this process.
func (k *peopleCommands) byBrowser(ctx context.Context, client *rest.Client, server string) (out rest.SignedIn,
	err error) {
	ways, err := client.People().WaysIn(ctx)
	if err != nil {
		return out, err
	}
	if ways.Provider == nil {
		return out, errors.New("the server has no identity provider: sign in with a password, without --web")
	}
	ctx, cancel := context.WithTimeout(ctx, browserWait)
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return out, fmt.Errorf("cannot wait for the browser: %w", err)
	}
	codes := make(chan string, 1)
	web := &http.Server{Handler: receiveCode(codes), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = web.Serve(l) }()
	defer web.Close()
	random := make([]byte, 32)
	rand.Read(random) // never fails
	verifier := base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{"port": {strconv.Itoa(l.Addr().(*net.TCPAddr).Port)},
		"challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}
	k.Say("to sign in at " + ways.Provider.Title + " open " + server + ways.Provider.Path + "?" + q.Encode())
	typed := make(chan error, 1)
	go func() {
		text, err := k.line(ctx, "code, where the browser is on another machine: ", false)
		if err == nil {
			codes <- strings.TrimSpace(text)
		} else if !errors.Is(err, errNoTerminal) { // else only the browser can bring it
			typed <- err
		}
	}()
	select {
	case code := <-codes:
		return client.People().Redeem(ctx, rest.Redeem{Code: code, Verifier: verifier})
	case err = <-typed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return out, err
}

// receiveCode receives the code that a browser brings. All other requests are not found.
func receiveCode(codes chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := r.URL.Query().Get("code")
		if r.Method != http.MethodGet || r.URL.Path != "/" || code == "" || len(code) > 100 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		_, _ = io.WriteString(w, "The command has what it needs; this page can be closed.\n")
		select {
		case codes <- code:
		default: // a code was received before
		}
	})
}
