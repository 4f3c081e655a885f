package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/test/testkit"
)

// fake is an engine of which a test says what it answers.
func fake(t *testing.T, answer http.HandlerFunc) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			return
		}
		answer(w, r)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	e, err := OpenEngine(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestEnsure: a network of the right name that is otherwise than it would be made is replaced where
// it is ours and unused, and else refused with what an administrator must do.
func TestEnsure(t *testing.T) {
	const good = `{"Name": "comb-x", "Driver": "bridge", "Scope": "local", "Labels": {"comb.job": "0"}, "Options": {"com.docker.network.bridge.enable_icc": "false"}}`
	for name, c := range map[string]struct {
		have string // "" is none
		used bool
		want string // in the error
		made bool
	}{
		"none":         {made: true},
		"as it is":     {have: good},
		"another's":    {have: strings.Replace(good, `"0"`, `"7"`, 1), want: `its label comb.job is "7", not "0"`},
		"without":      {have: strings.Replace(good, `{"comb.job": "0"}`, `null`, 1), want: `its label comb.job is "", not "0"`},
		"open":         {have: strings.Replace(good, `"false"`, `"true"`, 1), made: true},
		"open, in use": {have: strings.Replace(good, `"false"`, `"true"`, 1), used: true, want: "its containers reach each other; an administrator ends what uses it and removes it (docker network rm comb-x)"},
		"by default":   {have: strings.Replace(good, `"com.docker.network.bridge.enable_icc": "false"`, "", 1), made: true},
		"another kind": {have: strings.Replace(good, `"bridge"`, `"macvlan"`, 1), used: true, want: `it is a network of kind "macvlan"`},
		"inside only":  {have: strings.Replace(good, `"Scope"`, `"Internal": true, "Scope"`, 1), used: true, want: "reach nothing outside"},
	} {
		made, gone := "", false
		e := fake(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				var body struct {
					Name, Driver    string
					Labels, Options map[string]string
				}
				_ = json.NewDecoder(r.Body).Decode(&body)
				made = fmt.Sprint(body.Name, body.Driver, body.Labels, body.Options)
				fmt.Fprint(w, `{"Id": "1"}`)
			case r.Method == http.MethodDelete && c.used:
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"message": "error while removing network: network comb-x has active endpoints"}`)
			case r.Method == http.MethodDelete:
				gone = true
				w.WriteHeader(http.StatusNoContent)
			case c.have == "":
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"message": "network comb-x not found"}`)
			default:
				fmt.Fprint(w, c.have)
			}
		})
		err := e.Ensure(t.Context(), &Network{Name: "comb-x", Apart: true, Labels: map[string]string{"comb.job": "0"}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
		if (made != "") != c.made || gone != (c.made && c.have != "") || c.made && made != "comb-xbridgemap[comb.job:0] map[com.docker.network.bridge.enable_icc:false]" {
			t.Errorf("%s: made %q, removed %v", name, made, gone)
		}
	}
}

// TestHungEngine: a look at an image that an engine does not answer holds up no other start that is
// stopped meanwhile.
func TestHungEngine(t *testing.T) {
	asked := make(chan struct{}, 10)
	e := fake(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	first, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- e.Fits(first, &Image{ID: "one"}, "look", "/comb") }()
	<-asked
	second, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := e.Fits(second, &Image{ID: "two"}, "look", "/comb"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second ended with %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("the second ended behind the first, which ended with %v", err)
	default:
	}
	stop()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the first was told that the image fits")
		}
	case <-time.After(testkit.Patience):
		t.Error("the first goes on after it was stopped")
	}
}
