package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// described gives the routes of the API's description, so that a route without a row in the tests
// below cannot exist, and the statuses that each names.
func described(t *testing.T) map[string][]string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]any `yaml:"responses"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			out[strings.ToUpper(method)+" "+path] = slices.Sorted(maps.Keys(operation.Responses))
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d routes are described", len(out))
	}
	return out
}

// TestDescriptionIsServed: the server gives its own description, which is that in docs, to all with
// a token.
func TestDescriptionIsServed(t *testing.T) {
	w := newWorld(t, 1)
	status, header, have := w.request("GET", "/api/v1/openapi.yaml", "", nil)
	want, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "application/yaml") || have != string(want) {
		t.Errorf("%d %v and %d bytes, which are not those of docs/openapi.yaml", status, header, len(have))
	}
	if status, _, _ := w.request("GET", "/api/v1/openapi.yaml", "", map[string]string{"Authorization": ""}); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
}

// TestRefusalsAreDescribed gives every route what is refused before its handler, and wants the
// status in its description.
func TestRefusalsAreDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	known := "Host: 127.0.0.1\r\nAuthorization: Bearer " + w.token + "\r\n"
	for route, statuses := range described(t) {
		route = strings.NewReplacer("{ref}", "some", "{role}", "main", "{index}", "0", "{name}", "n1").Replace(route)
		for want, head := range map[int]string{
			401: " HTTP/1.1\r\nHost: 127.0.0.1\r\n",
			403: " HTTP/1.1\r\nHost: evil.example\r\n",
			413: " HTTP/1.1\r\n" + known + "Content-Length: 100000000\r\n",
			417: " HTTP/1.1\r\n" + known + "Expect: more\r\n",
			431: " HTTP/1.1\r\n" + known + "X: " + strings.Repeat("a", 80<<10) + "\r\n",
			501: " HTTP/1.1\r\n" + known + "Transfer-Encoding: gzip\r\n",
			505: " HTTP/3.0\r\n" + known,
		} {
			if want == 413 && strings.HasPrefix(route, "GET ") || want == 401 && withoutToken[route] != 0 {
				continue
			}
			c := w.dial()
			go func() { _, _ = io.WriteString(c, route+head+"\r\n"+strings.Repeat("a", 9<<20)) }()
			_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != want || !slices.Contains(statuses, strconv.Itoa(want)) {
				t.Errorf("%s: %v %v, where %v are described; want %d", route, resp, err, statuses, want)
			}
			c.Close()
		}
	}
}

// withoutToken are the routes that need no token, and what they answer to a request without a body.
var withoutToken = map[string]int{
	"GET " + rest.Prefix + "/health":    http.StatusOK,
	"GET " + rest.Prefix + "/sign-in":   http.StatusOK,
	"POST " + rest.Prefix + "/sessions": http.StatusBadRequest,
	"POST " + rest.Prefix + "/setup":    http.StatusBadRequest,

	"GET " + rest.Prefix + "/sign-in/provider": http.StatusNotFound, // there is none
	"GET " + oidc.CallbackPath:                 http.StatusNotFound,
	"POST " + rest.Prefix + "/sessions:redeem": http.StatusBadRequest,
}

// TestEveryRouteNeedsAToken tries every route without a token, with wrong ones,
// and with a good one.
func TestEveryRouteNeedsAToken(t *testing.T) {
	w := newWorld(t, 1)
	job := w.submit("some", 1)
	w.until("it runs", w.running(job.ID))
	replace := strings.NewReplacer("{ref}", "some", "{role}", "main", "{index}", "0", "{name}", "n1")
	for route := range described(t) {
		method, path, _ := strings.Cut(route, " ")
		path = replace.Replace(path)
		open := withoutToken[route]
		for _, token := range []string{"", "Bearer", "Bearer ", "Bearer x", "Basic " + w.token, "Bearer " + w.token + "0",
			"Bearer " + w.token[:len(w.token)-1], "Bearer " + strings.Repeat("a", 4000)} {
			status, header, body := w.request(method, path, "", map[string]string{"Authorization": token})
			if open == status {
				continue
			}
			if status != http.StatusUnauthorized || header.Get("Content-Type") != rest.ProblemType || header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %.20q: %d %s", route, token, status, body)
			}
			if strings.Contains(body, w.token) {
				t.Errorf("%s gives the token away", route)
			}
		}
		status, header, body := w.request(method, path, "", nil)
		if status == http.StatusUnauthorized || status == http.StatusForbidden || status >= 500 {
			t.Errorf("%s with a good token: %d %s", route, status, body)
		}
		if status >= 400 {
			checkProblem(t, route, status, header, body)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Access-Control-Allow-Origin": "", "X-Frame-Options": "DENY"} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: header %s is %q; want %q", route, name, got, want)
			}
		}
	}
}

func checkProblem(t *testing.T, what string, status int, header http.Header, body string) rest.Problem {
	t.Helper()
	var p rest.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || header.Get("Content-Type") != rest.ProblemType ||
		p.Status != status || p.Code == "" || p.Title == "" || p.Detail == "" {
		t.Errorf("%s: %d %s: no problem body: %.300s", what, status, header.Get("Content-Type"), body)
	}
	return p
}

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	yamlType := map[string]string{"Content-Type": "application/yaml"}
	jsonType := map[string]string{"Content-Type": "application/json"}
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		name, method, path, body string
		header                   map[string]string
		status                   int
		says                     string
	}{
		{"unknown path", "GET", "/api/v1/secrets", "", nil, 404, "no such path"},
		{"root", "GET", "/", "", nil, 404, "no such path"},
		{"docs are off", "GET", "/docs", "", nil, 404, "no such path"},
		{"openapi is off", "GET", "/openapi.json", "", nil, 404, "no such path"},
		{"wrong method", "DELETE", "/api/v1/jobs", "", nil, 405, "POST"},
		{"wrong method on health", "POST", "/api/v1/health", "", nil, 405, "GET"},
		{"dots", "GET", "/api/v1/jobs/../config", "", nil, 404, "no such path"},
		{"coded dots", "GET", "/api/v1/jobs/%2e%2e", "", nil, 404, ""},
		{"coded slash", "GET", "/api/v1/jobs/a%2Fb", "", nil, 404, "no such job"},
		{"nul", "GET", "/api/v1/jobs/a%00b", "", nil, 404, ""},
		{"role with path", "GET", "/api/v1/jobs/x/tasks/..%2f..%2fkey/0/logs", "", nil, 404, ""},
		{"long name", "GET", "/api/v1/jobs/" + long, "", nil, 404, "no such job"},
		{"very long path", "GET", "/api/v1/jobs/" + strings.Repeat(long, 10), "", nil, 414, "too long"},
		{"unknown query", "GET", "/api/v1/jobs?admin=1", "", nil, 422, "unknown query parameter"},
		{"bad limit", "GET", "/api/v1/jobs?limit=-5", "", nil, 422, "limit"},
		{"huge limit", "GET", "/api/v1/jobs?limit=1000000", "", nil, 422, "limit"},
		{"bad state", "GET", "/api/v1/jobs?state=Lost", "", nil, 422, "not a state"},
		{"bad cursor", "GET", "/api/v1/jobs?cursor=x", "", nil, 422, "cursor"},
		{"bad after_seq", "GET", "/api/v1/jobs?after_seq=-1", "", nil, 422, "after_seq"},
		{"bad event id", "GET", "/api/v1/events?after=abc", "", nil, 422, "not an event number"},
		{"wrong host", "GET", "/api/v1/info", "", map[string]string{"Host": "evil.example"}, 403, "host name"},
		{"other address", "GET", "/api/v1/info", "", map[string]string{"Host": "192.0.2.7"}, 403, "host name"},
		{"name behind an address", "GET", "/api/v1/info", "", map[string]string{"Host": "127.0.0.1:8420.evil.example"}, 403, "host name"},
		{"name behind localhost", "GET", "/api/v1/info", "", map[string]string{"Host": "localhost:evil"}, 403, "host name"},
		{"no origin told", "POST", "/api/v1/jobs", "{}", map[string]string{"Origin": "null"}, 403, "other web sites"},
		{"other origin", "GET", "/api/v1/jobs", "", map[string]string{"Origin": "http://evil.example"}, 403, "other web sites"},
		{"other port", "GET", "/api/v1/jobs", "", map[string]string{"Origin": "http://127.0.0.1:1"}, 403, "other web sites"},
		{"same site, other origin", "GET", "/api/v1/jobs", "", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, "other web sites"},
		{"32 bits of an attempt", "GET", "/api/v1/jobs/x/tasks/main/0/logs?attempt=4294967297", "", nil, 422, "attempt"},
		{"32 bits of an index", "GET", "/api/v1/jobs/x/tasks/main/4294967296/logs", "", nil, 422, "index"},
		{"cross site", "POST", "/api/v1/jobs", "{}", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "other web sites"},
		{"long key", "POST", "/api/v1/jobs", "x", map[string]string{rest.HeaderIdempotency: long}, 400, "printable"},
		{"spaced key", "POST", "/api/v1/jobs", "x", map[string]string{rest.HeaderIdempotency: "a b"}, 400, "printable"},
		{"media type", "POST", "/api/v1/jobs", "x", map[string]string{"Content-Type": "text/html"}, 415, "application/yaml"},
		{"no body", "POST", "/api/v1/jobs", "", yamlType, 400, ""},
		{"large body", "POST", "/api/v1/jobs", strings.Repeat("#", rest.MaxBody+1), yamlType, 413, "too large"},
		{"large config", "PUT", "/api/v1/config", strings.Repeat("#", rest.MaxConfigBody+1), yamlType, 413, "too large"},
		{"broken json", "POST", "/api/v1/jobs", "{\n \"quick\": {]", jsonType, 400, `"line":2`},
		{"cut json", "POST", "/api/v1/jobs", "{", jsonType, 400, "too early"},
		{"two values", "POST", "/api/v1/jobs", "{} {}", jsonType, 400, "more than one"},
		{"unknown field", "POST", "/api/v1/jobs", `{"quick":{"command":["x"]},"user":"root"}`, jsonType, 400, "user"},
		{"bytes that are no text", "POST", "/api/v1/jobs", "{\"quick\":\n{\"command\":[\"caf\xe9\"]}}", jsonType, 400, `"line":2,"column":17`},
		{"half a character", "POST", "/api/v1/jobs:validate", `{"source":"\ud800"}`, jsonType, 400, "half a character"},
		{"a reason that is no text", "POST", "/api/v1/jobs/x/stop", "{\"reason\":\"\xe9\"}", jsonType, 400, "0xe9, is not UTF-8"},
		{"a job file that is no text", "POST", "/api/v1/jobs", "name: caf\xe9", yamlType, 422, `"line":1,"column":10`},
		{"a cluster file that is no text", "POST", "/api/v1/config:plan", "a: caf\xe9", yamlType, 422, "UTF-8"},
		{"wrong kind", "POST", "/api/v1/jobs", `{"quick":{"gpus":"many"}}`, jsonType, 400, "gpus"},
		{"both forms", "POST", "/api/v1/jobs", `{"quick":{},"source":"x"}`, jsonType, 422, "exactly one"},
		{"bad yaml", "POST", "/api/v1/jobs", "protocolVersion: 2\nname: [", yamlType, 422, `"line":2`},
		{"aliases", "POST", "/api/v1/jobs", "a: &a [x]\nb: [*a, *a]\n", yamlType, 422, `"line":1`},
		{"unknown key", "POST", "/api/v1/jobs", "protocolVersion: 2\nname: x\ntype: job\nspeed: 9\n", yamlType, 422, "speed"},
		{"unknown stop field", "POST", "/api/v1/jobs/x/stop", `{"force":true}`, jsonType, 422, "force"},
		{"no such job", "GET", "/api/v1/jobs/x", "", nil, 404, "no job"},
		{"future seq", "GET", "/api/v1/nodes?after_seq=99999999999", "", nil, 503, "cannot be seen yet"},
	} {
		status, header, body := w.request(c.method, c.path, c.body, c.header)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %.400s; want %d with %q", c.name, status, body, c.status, c.says)
			continue
		}
		checkProblem(t, c.name, status, header, body)
	}
	if status, _, body := w.request("GET", "/api/v1/info", "", nil); status != 200 {
		t.Errorf("after all that: %d %s", status, body)
	}
}

// TestRawConnections sends what no client library would. net/http answers most of it before a
// handler is asked, and that is a problem, too.
func TestRawConnections(t *testing.T) {
	w := newWorld(t, 1)
	const host = "Host: 127.0.0.1\r\n"
	good := "GET /api/v1/info HTTP/1.1\r\n" + host + "Authorization: Bearer " + w.token + "\r\n\r\n"
	for name, c := range map[string]struct {
		text   string
		status int
		says   string
	}{
		"wrong token":       {"GET /api/v1/info HTTP/1.1\r\n" + host + "Authorization: Bearer x\r\nX-Admin: 1\r\n\r\n", 401, "token"},
		"no host":           {"GET /api/v1/info HTTP/1.1\r\n\r\n", 400, "Host"},
		"two hosts":         {"GET /api/v1/info HTTP/1.1\r\n" + host + "Host: evil.example\r\n\r\n", 400, "HTTP/1.1"},
		"bad host":          {"GET /api/v1/info HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "Host"},
		"bad request line":  {"GARBAGE\r\n\r\n", 400, "HTTP/1.1"},
		"bad method":        {"G@T /api/v1/info HTTP/1.1\r\n" + host + "\r\n", 400, "HTTP/1.1"},
		"bad escape":        {"GET /api/v1/%zz HTTP/1.1\r\n" + host + "\r\n", 400, "HTTP/1.1"},
		"bad header name":   {"GET /api/v1/info HTTP/1.1\r\n" + host + "X@: 1\r\n\r\n", 400, "HTTP/1.1"},
		"bad header value":  {"GET /api/v1/info HTTP/1.1\r\n" + host + "X: a\x01b\r\n\r\n", 400, "HTTP/1.1"},
		"no colon":          {"GET /api/v1/info HTTP/1.1\r\n" + host + "Nonsense\r\n\r\n", 400, "HTTP/1.1"},
		"huge header":       {"GET /api/v1/info HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", 431, "64 KiB"},
		"huge line":         {"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\n\r\n", 431, "64 KiB"},
		"many headers":      {"GET / HTTP/1.1\r\n" + host + strings.Repeat("X: a\r\n", 1<<16) + "\r\n", 431, "64 KiB"},
		"two lengths":       {"POST /api/v1/jobs HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, "HTTP/1.1"},
		"negative length":   {"POST /api/v1/jobs HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\nabc", 400, "HTTP/1.1"},
		"unknown encoding":  {"POST /api/v1/jobs HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\nabc", 501, "chunked"},
		"expects too much":  {"POST /api/v1/jobs HTTP/1.1\r\n" + host + "Expect: 200-ok\r\nContent-Length: 3\r\n\r\nabc", 417, "100-continue"},
		"version 2":         {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"},
		"version 3":         {"GET / HTTP/3.0\r\n" + host + "\r\n", 505, "HTTP/1.1"},
		"absolute target":   {"GET http://evil.example/api/v1/info HTTP/1.1\r\n" + host + "\r\n", 403, "host name"},
		"all options":       {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 401, "token"},
		"tunnel":            {"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + host + "\r\n", 401, "token"},
		"after a good one":  {good + "GARBAGE\r\n\r\n", 400, "HTTP/1.1"},
		"body that is left": {"GARBAGE\r\n\r\n" + strings.Repeat("a", 256<<10), 400, "HTTP/1.1"},
	} {
		conn := w.dial()
		_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
		go func() { _, _ = io.WriteString(conn, c.text) }()
		from := bufio.NewReader(conn)
		resp, err := http.ReadResponse(from, nil)
		if err == nil && strings.HasPrefix(c.text, good) {
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: the good one is answered %s", name, resp.Status)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp, err = http.ReadResponse(from, nil)
		}
		if err != nil {
			t.Errorf("%s: %v; want %d", name, err, c.status)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != c.status {
			t.Errorf("%s: %s %s %v; want %d", name, resp.Status, body, err, c.status)
		}
		if p := checkProblem(t, name, resp.StatusCode, resp.Header, string(body)); !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: %q; want it to say %q", name, p.Detail, c.says)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: without the headers of every answer: %v", name, resp.Header)
		}
		conn.Close()
	}
}

// TestSlowClientsAreCutOff holds connections open that say nothing more, and
// sees that others are served and that the slow ones end by themselves.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	slow := w.dial()
	fmt.Fprintf(slow, "GET /api/v1/info HTTP/1.1\r\nHost: 127.0.0.1\r\n")
	for range 50 {
		fmt.Fprintf(w.dial(), "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
	}
	if status, _, body := w.request("GET", "/api/v1/info", "", nil); status != 200 {
		t.Fatalf("beside slow clients: %d %s", status, body)
	}
	_ = slow.SetReadDeadline(time.Now().Add(testkit.Patience))
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("the slow connection stays open: %v", err)
	}
}
