package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/combsched/comb/internal/test/testkit"
)

// TestProvider runs the command line against servers that let a real OpenID provider say which user
// signs in.
func TestProvider(t *testing.T) {
	if !testkit.Live(t, "provider") {
		return
	}
	program := filepath.Join(t.TempDir(), "provider")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../internal/api/oidc/testdata/provider"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the provider: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/provider",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("PROVIDER", program)
			e.Setenv("PORT", freePort(t))
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"serving": untilServing, "eventually": eventually, "browser": browse},
	})
}

// freePort is one that was free a moment ago.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

var (
	refresh   = regexp.MustCompile(`content="0;url=([^"]*)"`)
	allowed   = regexp.MustCompile(`<a href="([^"]*)">Sign in the command`)
	requestID = regexp.MustCompile(`name="id" value="([^"]*)"`)
)

// browse opens an address as a browser does, signs in at the provider where its page asks, goes
// where pages lead, or what they ask leave for, and writes all that it is shown into a file, the
// own account at last: browser FILE ADDRESS USER PASSWORD. An ADDRESS of the form @NAME is in a
// file.
func browse(ts *testscript.TestScript, _ bool, args []string) {
	address := args[1]
	if name, ok := strings.CutPrefix(address, "@"); ok {
		address = strings.TrimSpace(ts.ReadFile(name))
	}
	jar, err := cookiejar.New(nil)
	ts.Check(err)
	var seen bytes.Buffer
	site := ""
	client := &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Host != via[len(via)-1].URL.Host {
			site = "cross-site"
		}
		r.Header.Set("Sec-Fetch-Site", site)
		fmt.Fprintf(&seen, "-> %s\n", r.URL)
		return nil
	}}
	do := func(r *http.Request, from string) (*http.Response, string) {
		site = from
		r.Header.Set("Sec-Fetch-Site", from)
		fmt.Fprintf(&seen, "%s %s\n", r.Method, r.URL)
		resp, err := client.Do(r)
		ts.Check(err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		ts.Check(err)
		fmt.Fprintf(&seen, "%s\n%s\n", resp.Status, text)
		return resp, string(text)
	}
	get := func(address, from string) (*http.Response, string) {
		r, err := http.NewRequest(http.MethodGet, address, nil)
		ts.Check(err)
		return do(r, from)
	}
	resp, text := get(address, "none")
	if id := requestID.FindStringSubmatch(text); id != nil {
		r, err := http.NewRequest(http.MethodPost, resp.Request.URL.String(), strings.NewReader(url.Values{"id": {id[1]}, "username": {args[2]}, "password": {args[3]}}.Encode()))
		ts.Check(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, text = do(r, "same-origin")
	}
	to := refresh.FindStringSubmatch(text)
	if to == nil {
		to = allowed.FindStringSubmatch(text)
	}
	if to != nil {
		next, err := resp.Request.URL.Parse(html.UnescapeString(to[1]))
		ts.Check(err)
		get(next.String(), "same-origin")
	}
	get("http://localhost:"+ts.Getenv("PORT")+"/api/v1/me", "same-origin")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), seen.Bytes(), 0o600))
}
