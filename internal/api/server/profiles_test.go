package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/test/testkit"
)

// Profiles are for administrators alone, and only on this machine.
func TestProfiles(t *testing.T) {
	w := newWorld(t, 1)
	l, err := server.ListenProfiles(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := server.Profiles(w.handler)
	go h.Serve(l)
	t.Cleanup(func() { h.Close() })
	ask := func(authorization, path string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		r.AddCookie(&http.Cookie{Name: "comb", Value: w.token})
		resp, err := (&http.Client{Timeout: testkit.Patience}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	user := w.user("bob")
	for _, c := range []struct {
		authorization, path string
		status              int
		says                string
	}{
		{"", "/debug/pprof/heap", 401, "token"},
		{"Bearer wrong", "/debug/pprof/heap", 401, "token"},
		{"Basic " + w.token, "/debug/pprof/heap", 401, "token"},
		{"Bearer " + user, "/debug/pprof/", 403, "bob"},
		{"Bearer " + user, "/debug/pprof/heap", 403, "bob"},
		{"Bearer " + w.token, "/debug/pprof/goroutine?debug=1", 200, "goroutine profile: total"},
		{"Bearer " + w.token, "/debug/pprof/heap?debug=1", 200, "heap profile"},
		{"Bearer " + w.token, "/debug/pprof/profile?seconds=100000", 400, "at most 300"},
		{"Bearer " + w.token, "/debug/pprof/trace?seconds=Inf", 400, "at most 300"},
		{"Bearer " + w.token, "/debug/pprof/heap?seconds=NaN&debug=1", 400, "at most 300"},
		{"Bearer " + w.token, "/metrics", 404, ""},
		{"Bearer " + w.token, "/api/v1/jobs", 404, ""},
	} {
		status, text := ask(c.authorization, c.path)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %.200q, want %d with %q", c.path, status, text, c.status, c.says)
		}
	}
	for _, at := range []string{"0.0.0.0:0", ":0", "10.1.2.3:6060", "[::]:0", "comb.example:6060", "6060", ""} {
		l, err := server.ListenProfiles(context.Background(), at)
		if err == nil || !strings.Contains(err.Error(), "only this machine reaches") {
			t.Errorf("profiles at %q: %v, %v", at, l, err)
		}
	}
}
