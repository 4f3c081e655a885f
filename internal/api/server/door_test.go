package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
)

func proxies(t *testing.T, networks ...string) server.Proxies {
	t.Helper()
	p, err := server.ParseProxies(networks)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestForwarded: of what proxies say the last address counts that is no trusted proxy's.
func TestForwarded(t *testing.T) {
	trusted := proxies(t, "10.0.0.0/8", "127.0.0.1", "2001:db8:f::/48")
	for _, c := range []struct {
		peer string
		said []string
		want string
	}{
		{"192.0.2.1:5", []string{"203.0.113.7"}, "192.0.2.1"}, // a stranger's word counts for nothing
		{"127.0.0.1:5", nil, "127.0.0.1"},
		{"127.0.0.1:5", []string{"203.0.113.7"}, "203.0.113.7"},
		{"127.0.0.1:5", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"}, // the first one may be invented
		{"127.0.0.1:5", []string{"198.51.100.1", "203.0.113.7 , 10.1.2.3"}, "203.0.113.7"},
		{"127.0.0.1:5", []string{"10.1.2.3,10.1.2.4"}, "10.1.2.3"},
		{"127.0.0.1:5", []string{"203.0.113.7:4711"}, "203.0.113.7"},
		{"127.0.0.1:5", []string{"[2001:db8:1::9]:4711"}, "2001:db8:1::9"},
		{"127.0.0.1:5", []string{"2001:db8:1::9, 2001:db8:f::1"}, "2001:db8:1::9"},
		{"[2001:db8:f::1]:5", []string{"203.0.113.7"}, "203.0.113.7"},
		{"[::ffff:10.0.0.1]:5", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"127.0.0.1:5", []string{"203.0.113.7, unknown"}, "127.0.0.1"},
		{"127.0.0.1:5", []string{"203.0.113.7, , 10.1.2.3"}, "10.1.2.3"},
		{"@", []string{"203.0.113.7"}, "@"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.said
		if got := trusted.Client(r); got != c.want {
			t.Errorf("%s that says %q: the client is %s; want %s", c.peer, c.said, got, c.want)
		}
		if got := (server.Proxies)(nil).Client(r); r.RemoteAddr != c.peer || strings.Contains(got, "203.0.113") {
			t.Errorf("without trusted proxies %s is %s", c.peer, got)
		}
	}
	for _, wrong := range []string{"", "proxy", "10.0.0.0/33", "10.0.0.1:80"} {
		if _, err := server.ParseProxies([]string{wrong}); err == nil {
			t.Errorf("%q is taken for a network", wrong)
		}
	}
}

// dialects are the ways to sign in.
var dialects = map[string]dialect{
	"Comb's": {rest.Prefix + "/sessions", "application/json", func(user, password string) string {
		return fmt.Sprintf(`{"user": %q, "password": %q}`, user, password)
	}, 200, 401, 429},
	"OpenPAI's": {"/rest-server/api/v2/authn/basic/login", "application/x-www-form-urlencoded", func(user, password string) string {
		return url.Values{"username": {user}, "password": {password}, "expiration": {"3600"}}.Encode()
	}, 200, 400, 429},
}

// dialect is how one signs in.
type dialect struct {
	path, kind          string
	body                func(user, password string) string
	right, wrong, later int // the statuses of passwords that are right, wrong and not looked at
}

// from signs in from an address, by a proxy; 0 is that it waited in line until the test was over.
func (d *dialect) from(ctx context.Context, w *world, address, password string) int {
	r, err := http.NewRequestWithContext(ctx, "POST", w.url+d.path, strings.NewReader(d.body("alice", password)))
	if err != nil {
		w.t.Error(err)
		return 0
	}
	r.Header.Set("Content-Type", d.kind)
	r.Header.Set("X-Forwarded-For", address)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// guesser sends wrong passwords, twenty at a time at most, and counts how they are answered.
type guesser struct {
	sync.WaitGroup
	mu       sync.Mutex
	statuses map[int]int
	places   chan struct{}
}

// guess sends one more, where not all places are taken by those that wait in line.
func (g *guesser) guess(send func() int) {
	select {
	case g.places <- struct{}{}:
	default:
		return
	}
	g.Go(func() {
		status := send()
		<-g.places
		g.mu.Lock()
		defer g.mu.Unlock()
		g.statuses[status]++
	})
}

// TestGuessesBehindAProxyLockNobodyOut: two hundred sign-ins with the right password (in the short
// form fifty), with up to twenty guesses beside each, all by one trusted proxy: none is refused.
func TestGuessesBehindAProxyLockNobodyOut(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guessesByProxy(t, &d)
		})
	}
}

func guessesByProxy(t *testing.T, d *dialect) {
	w := setup{gpus: 1, proxies: proxies(t, "127.0.0.0/8")}.open(t)
	made(t, w.client.People(), nil, "alice")
	client, gone := context.WithCancel(t.Context())
	g := &guesser{statuses: map[int]int{}, places: make(chan struct{}, 20)}
	right := 200
	if testing.Short() {
		right = 50
	}
	for i := range right {
		for range 20 {
			g.guess(func() int { return d.from(client, w, "203.0.113.6", "a wrong one") })
		}
		if status := d.from(t.Context(), w, "10.0.0.1, 192.0.2.1", canary+"-alice"); status != d.right {
			t.Errorf("sign-in %d: %d", i, status)
		}
	}
	gone()
	g.Wait()
	if g.statuses[d.wrong] < 5 || g.statuses[d.wrong] > 100 || g.statuses[d.later] < 20 || g.statuses[d.right] != 0 {
		t.Errorf("guesses were answered %v", g.statuses)
	}
	log, err := w.client.People().Audit(t.Context(), 0, 500)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, l := range log.Lines {
		if l.Verb == "sign in" {
			seen[l.From+" "+l.Outcome]++
		}
	}
	if seen["192.0.2.1 done"] != right || seen["203.0.113.6 refused"] < 5 || len(seen) != 2 {
		t.Errorf("the audit log has %v", seen)
	}
}

// TestDeviceSignsInAgain: a browser and a command that signed in before do so again while others
// guess from the very same address, where the rest wait; a new password ends that.
func TestDeviceSignsInAgain(t *testing.T) {
	w, people := admin(t)
	made(t, people, nil, "alice", "bob")
	ctx := t.Context()
	first, err := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: canary + "-alice"})
	if err != nil || first.Ticket == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	browser := func(user, cookie string) (int, string) {
		header := map[string]string{"Authorization": "", "Content-Type": "application/json"}
		if cookie != "" {
			header["Cookie"] = cookie
		}
		status, got, text := w.request("POST", rest.Prefix+"/sessions", fmt.Sprintf(`{"user": %q, "password": "%s-%[1]s", "cookie": true}`, user, canary), header)
		for _, set := range got.Values("Set-Cookie") {
			if c, err := http.ParseSetCookie(set); err == nil && c.Name == "comb_device" {
				if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge < 300*86400 || strings.Contains(text, c.Value) {
					t.Errorf("%s %s", set, text)
				}
				cookie = c.Name + "=" + c.Value
			}
		}
		return status, cookie
	}
	_, device := browser("bob", "")
	_, device = browser("alice", device)
	client, gone := context.WithCancel(ctx)
	var guesses sync.WaitGroup
	full := make(chan struct{})
	tell := sync.OnceFunc(func() { close(full) })
	for range 8 { // those that find the line full try again, so that it stays so
		guesses.Go(func() {
			for client.Err() == nil {
				_, err := w.with("").SignIn(client, rest.SignIn{User: "alice", Password: "guess-guess"})
				if rest.CodeOf(err) == rest.CodeBusy {
					tell()
				}
			}
		})
	}
	<-full
	for i := range 20 {
		out, err := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: canary + "-alice", Ticket: first.Ticket})
		if err != nil || out.Ticket == "" {
			t.Errorf("sign-in %d of the command: %+v, %v", i, out, err)
		}
		status := 0
		if status, device = browser("alice", device); status != http.StatusOK {
			t.Errorf("sign-in %d of the browser: %d", i, status)
		}
	}
	if status, _ := browser("bob", device); status != http.StatusOK {
		t.Errorf("the browser's other user: %d", status)
	}
	if _, err := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: canary + "-alice"}); rest.CodeOf(err) != rest.CodeBusy {
		t.Errorf("without a ticket, where the line is full: %v", err)
	}
	// A signed-in user's own password is looked at beside all that, and the ticket of the one
	// before counts for nothing.
	if err := w.with(first.Token).ChangePassword(ctx, rest.PasswordChange{Old: canary + "-alice", New: canary + "-new-alice"}); err != nil {
		t.Error(err)
	}
	if _, err := w.with("").SignIn(ctx, rest.SignIn{User: "alice", Password: canary + "-new-alice", Ticket: first.Ticket}); rest.CodeOf(err) != rest.CodeBusy {
		t.Errorf("with the ticket of the password before: %v", err)
	}
	gone()
	guesses.Wait()
}
