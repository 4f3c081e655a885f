package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/rest"
)

// open makes a request without a token as a browser does, which is led nowhere.
func (w *world) open(host, path string, header ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

const challenge = "&challenge=0123456789012345678901234567890123456789012"

// A sign-in begins under the name that the provider sends browsers back to, whatever name the
// browser came by; the server answers to that name. A page of another name of the server may begin
// one, but none for a command.
func TestSignInMoves(t *testing.T) {
	w := setup{gpus: 1, provider: oidc.New(&oidc.Settings{Issuer: "https://127.0.0.1:1", Address: "https://comb.example.com"})}.open(t)
	begin := rest.Prefix + "/sign-in/provider"
	for path, want := range map[string]string{
		begin + "?return=/jobs?mine":     "moved=true&return=%2Fjobs%3Fmine",
		begin + "?port=4000" + challenge: challenge[1:] + "&moved=true&port=4000",
	} {
		resp := w.open("localhost", path)
		if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "https://comb.example.com"+begin+"?"+want || len(resp.Cookies()) > 0 {
			t.Errorf("%s: %s, %v", path, resp.Status, resp.Header)
		}
	}
	for name, c := range map[string]struct {
		host, query, site string
		want              int
	}{
		"its own name":              {"comb.example.com", "", "same-origin", http.StatusBadGateway}, // the provider is not there
		"its own name and port":     {"comb.example.com:443", "", "none", http.StatusBadGateway},
		"a proxy hides the name":    {"localhost", "?moved=true", "same-origin", http.StatusBadGateway},
		"from another name":         {"comb.example.com", "?moved=true&return=/jobs", "cross-site", http.StatusBadGateway},
		"for a command":             {"comb.example.com", "?port=4000" + challenge, "none", http.StatusBadGateway},
		"for a command, by a page":  {"comb.example.com", "?port=4000" + challenge, "cross-site", http.StatusForbidden},
		"for a command, by another": {"comb.example.com", "?port=0&port=4000" + challenge, "same-site", http.StatusForbidden},
		"another site":              {"localhost", "?return=https://evil.example", "none", http.StatusUnprocessableEntity},
		"a strange name":            {"evil.example", "", "none", http.StatusForbidden},
	} {
		if resp := w.open(c.host, begin+c.query, "Sec-Fetch-Site", c.site); resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, c.want)
		}
	}
}

// Where browsers come over TLS, a cookie that another host or somebody on the way can set is none.
func TestCookiesOverTLS(t *testing.T) {
	w := setup{gpus: 1, provider: oidc.New(&oidc.Settings{Issuer: "https://127.0.0.1:1", Address: "https://comb.example.com"})}.open(t)
	for cookie, want := range map[string]int{
		"__Host-comb_session=" + w.token:                           http.StatusOK,
		"comb_session=" + w.token:                                  http.StatusUnauthorized,
		"comb_session=other; __Host-comb_session=" + w.token:       http.StatusOK,
		"__Host-comb_session=other; comb_session=" + w.token:       http.StatusUnauthorized,
		"__Host-comb_sign_in=other; comb_session_other=" + w.token: http.StatusUnauthorized,
	} {
		if resp := w.open("comb.example.com", rest.Prefix+"/jobs", "Cookie", cookie); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", strings.ReplaceAll(cookie, w.token, "TOKEN"), resp.Status, want)
		}
	}
	made(t, w.client.People(), nil, "alice")
	_, header, _ := w.request("POST", rest.Prefix+"/sessions", `{"user": "alice", "password": "`+canary+`-alice", "cookie": true}`,
		map[string]string{"Authorization": "", "Content-Type": "application/json"})
	if !strings.HasPrefix(header.Get("Set-Cookie"), "__Host-comb_session=") {
		t.Errorf("a session gets a cookie that is not read: %v", header)
	}
}

// A provider that is long in taking codes back keeps nobody from signing in with a password, and
// one address has not all places.
func TestSlowProvider(t *testing.T) {
	came, leave := make(chan struct{}, 1000), make(chan struct{})
	mux := http.NewServeMux()
	provider := httptest.NewServer(mux)
	defer provider.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.ReplaceAll(`{"issuer":"OWN","authorization_endpoint":"OWN/a","token_endpoint":"OWN/t","jwks_uri":"OWN/k"}`, "OWN", provider.URL))
	})
	mux.HandleFunc("/t", func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		<-leave
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
	})
	w := setup{gpus: 1, provider: oidc.New(&oidc.Settings{Issuer: provider.URL, ClientID: "comb", Secret: "x", Address: "http://localhost"})}.open(t)
	made(t, w.client.People(), nil, "alice")
	begun := w.open("localhost", rest.Prefix+"/sign-in/provider")
	to, err := url.Parse(begun.Header.Get("Location"))
	if err != nil || len(begun.Cookies()) != 1 {
		t.Fatalf("%s %v %v", begun.Status, begun.Header, err)
	}
	kept := begun.Cookies()[0]
	back := oidc.CallbackPath + "?code=guess&state=" + to.Query().Get("state")
	const all = 100
	var callbacks sync.WaitGroup
	for range all {
		callbacks.Go(func() { w.open("localhost", back, "Cookie", kept.Name+"="+kept.Value, "Sec-Fetch-Site", "cross-site") })
	}
	for i := range all {
		select {
		case <-came:
		case <-time.After(time.Minute):
			t.Errorf("%d of %d answers came to the provider", i, all)
			close(leave)
			return
		}
	}
	w.signIn("alice")
	if resp := w.open("localhost", back, "Cookie", kept.Name+"="+kept.Value); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more of the same address: %s", resp.Status)
	}
	close(leave)
	callbacks.Wait()
}
