package lab

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// acked are what a server said of people before it was killed.
type acked struct {
	mu      sync.Mutex
	users   []string
	valid   map[string]string // secrets of tokens by their ids
	revoked map[string]string
}

// unanswered reports whether an answer says nothing about what was done: the server was killed, or
// has too much to do.
func unanswered(err error) bool {
	code := rest.CodeOf(err)
	return err != nil && (code == "" || code == rest.CodeBusy || code == rest.CodeUnavailable)
}

const killPassword = "a long word for tests"

// visit makes a user, signs it in, and makes and revokes tokens until ctx ends.
func (a *acked) visit(ctx context.Context, t *testing.T, c *crash, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("user-%d-%d", n, i)
		_, err := c.client.People().CreateUsers(t.Context(), rest.NewUser{Name: name, Password: killPassword})
		if unanswered(err) {
			time.Sleep(20 * time.Millisecond) // the pace of a client
			continue                          // it may be there, or not
		}
		if err != nil {
			t.Errorf("%s is not made: %v", name, err)
			return
		}
		a.mu.Lock()
		a.users = append(a.users, name)
		a.mu.Unlock()
		a.tokens(ctx, t, c, name)
	}
}

// tokens signs a user in, makes two tokens and revokes one.
func (a *acked) tokens(ctx context.Context, t *testing.T, c *crash, name string) {
	in := rest.SignedIn{}
	err := error(nil)
	for in.Token == "" && ctx.Err() == nil {
		if in, err = c.client.People().SignIn(t.Context(), rest.SignIn{User: name, Password: killPassword}); err != nil && !unanswered(err) {
			t.Errorf("%s is not signed in: %v", name, err)
			return
		}
	}
	client, err := rest.NewClient(c.client.URL(), in.Token)
	if err != nil || in.Token == "" {
		return
	}
	for i := range 2 {
		made, err := client.People().CreateToken(t.Context(), rest.NewToken{Name: fmt.Sprint("t", i)}, "")
		if err != nil {
			if !unanswered(err) {
				t.Errorf("%s gets no token: %v", name, err)
			}
			return
		}
		a.mu.Lock()
		a.valid[made.ID] = made.Secret
		a.mu.Unlock()
		if i == 0 {
			continue
		}
		a.mu.Lock()
		delete(a.valid, made.ID) // until the answer is there either may hold
		a.mu.Unlock()
		if err := client.People().RevokeToken(t.Context(), made.ID, ""); err == nil {
			a.mu.Lock()
			a.revoked[made.ID] = made.Secret
			a.mu.Unlock()
		} else if !unanswered(err) {
			t.Errorf("a token of %s is not revoked: %v", name, err)
		}
	}
}

// each reports whether something of each kind was acknowledged.
func (a *acked) each() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.users) >= 3 && len(a.valid) > 0 && len(a.revoked) > 0
}

// TestServerKilledUnderSignIns kills the server again and again while users are made, sign in, and
// make and revoke tokens: what was acknowledged holds afterwards, and the audit log is whole.
func TestServerKilledUnderSignIns(t *testing.T) {
	t.Parallel()
	c := newCrashOn(t, killCluster, func(s *Server) { s.Args = append(s.Args, "--trust-users") })
	a := &acked{valid: map[string]string{}, revoked: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() { a.visit(ctx, t, c, i) })
	}
	for range few(*serverKills) {
		pace(200, 900)
		c.server.Kill()
		c.start()
	}
	testkit.Within(testkit.Patience, a.each) // a slow machine needs longer
	stop()
	group.Wait()
	if len(a.users) < 3 || len(a.valid) == 0 || len(a.revoked) == 0 {
		t.Fatalf("only %d users, %d tokens and %d revocations", len(a.users), len(a.valid), len(a.revoked))
	}
	for _, name := range a.users {
		if _, err := c.client.People().User(t.Context(), name); err != nil {
			t.Errorf("%s was made: %v", name, err)
		}
	}
	asks := func(secret string) error {
		client, err := rest.NewClient(c.client.URL(), secret)
		if err != nil {
			return err
		}
		_, err = client.People().Me(t.Context())
		return err
	}
	for id, secret := range a.valid {
		if err := asks(secret); err != nil {
			t.Errorf("token %s was made: %v", id, err)
		}
	}
	for id, secret := range a.revoked {
		if err := asks(secret); rest.CodeOf(err) != rest.CodeUnauthorized {
			t.Errorf("token %s was revoked: %v", id, err)
		}
	}
	audit, err := c.client.People().VerifyAudit(t.Context())
	if err != nil || !audit.Sound || audit.Lines < int64(len(a.users)+len(a.valid)+2*len(a.revoked)) {
		t.Errorf("the audit log: %+v, %v", audit, err)
	}
	t.Logf("%d users, %d tokens, %d revocations over %d kills", len(a.users), len(a.valid), len(a.revoked), few(*serverKills))
	c.checkAfter()
}
