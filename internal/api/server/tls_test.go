package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// Names of the certificate are hosts of the server; over TLS browsers are told to stay with it,
// where no other service of that host is meant, and connections are known as the server's own, with
// all that bounds them.
func TestCertifiedHosts(t *testing.T) {
	s := New(Options{Version: "test", Certified: func(host string) bool { return host == "comb.example.com" }})
	ours, usual := false, false
	h := s.HTTP()
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if usual {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{Port: 443}))
		}
		s.ServeHTTP(w, r)
		own := connOf(r.Context())
		ours = own != nil && own.ours.Load()
	})
	plain, err := Listen(context.Background(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	web := &httptest.Server{Listener: plain, Config: h}
	web.StartTLS()
	defer web.Close()
	get := func(host string) (*http.Response, string) {
		r, err := http.NewRequest(http.MethodGet, web.URL+rest.Prefix+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	resp, _ := get("comb.example.com")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Strict-Transport-Security") != "" || !ours {
		t.Errorf("a name of the certificate: %s, %v, connection %v", resp.Status, resp.Header, ours)
	}
	usual = true
	if resp, _ := get("comb.example.com"); resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("at the usual port: %v", resp.Header)
	}
	if resp, text := get("evil.example.com"); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "does not answer to that host name") {
		t.Errorf("another name: %s %s", resp.Status, text)
	}
	resp, err = http.Get(strings.Replace(web.URL, "https", "http", 1) + rest.Prefix + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.Header.Get("Content-Type") != rest.ProblemType || !strings.Contains(string(text), "use https://") {
		t.Errorf("without TLS: %s %s", resp.Header, text)
	}
}
