package people

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/engine/store"
)

// ErrRedeem is the error of any code of a browser's sign-in that opens no session, for
// whatever reason.
var ErrRedeem = errors.New("the code is wrong, was used before, or is older than two minutes: begin again with comb login --web")

// Claimed is a person as an identity provider describes it, with proof.
type Claimed struct {
	Issuer, Subject string // name one person, whatever its name becomes
	Name            string // of the user that is created at the first sign-in
	Display, Email  string
	Groups          []string // the provider's names of its groups
	Prefix          string   // groups with it are created here, without it; "" creates none
	From            string   // address of its browser, for the audit log
}

// ProvidedUser returns the user of a person that an identity provider has named. It creates the
// user at the first sign-in. The user's provided groups are set to the provider's present
// ones. Groups to which administrators added the user stay.
func (d *Directory) ProvidedUser(ctx context.Context, c Claimed) (access.User, error) {
	d.write.Lock()
	defer d.write.Unlock()
	u, known := d.provided(c.Issuer, c.Subject)
	if known && u.Blocked {
		if err := d.Note(ctx, store.AuditLine{Subject: u.Name, Verb: signIn, Object: byProvider, Outcome: Refused,
			Detail: "it is blocked", From: c.From}); err != nil {
			return u, err
		}
		return u, problem(ErrBlocked, "%s may not sign in: an administrator has blocked it", u.Name)
	}
	groups, err := d.providedGroups(ctx, &c)
	if err != nil {
		return u, err
	}
	next := &access.User{Name: c.Name}
	if known {
		next = u.Clone()
	}
	next.Provider = &access.ProviderIdentity{Issuer: c.Issuer, Subject: c.Subject, Groups: groups}
	for _, field := range []struct {
		to   *string
		from string
	}{{&next.Display, c.Display}, {&next.Email, c.Email}} {
		was := *field.to
		if *field.to = field.from; field.from == "" || len((&access.User{Name: "a", Display: next.Display, Email: next.Email}).Check()) > 0 {
			*field.to = was // it is not worth refusing a sign-in
		}
	}
	if !known {
		if err := d.createUsers(ctx, "identity provider", []NewUser{{User: *next}}); err != nil {
			return u, d.adviseName(err, c.Name)
		}
		return d.User(c.Name)
	}
	if wrong := next.Check(); len(wrong) > 0 {
		return u, &Problem{ErrInvalid, wrong}
	}
	if slices.Equal(next.Provider.Groups, u.Provider.Groups) && next.Display == u.Display && next.Email == u.Email {
		return u, nil
	}
	detail := "as the identity provider says: " + groupsText(groups, u.Provider.Groups)
	return *next, d.commit(ctx, "identity provider", []change{{user: next, verb: "change user", detail: detail}})
}

// adviseName adds advice about a name that no user can have.
func (d *Directory) adviseName(err error, name string) error {
	users := d.Users()
	i := slices.IndexFunc(users, func(u access.User) bool { return strings.EqualFold(u.Name, name) })
	if !errors.Is(err, ErrExists) || i < 0 {
		return err
	}
	whose := "with a password"
	if users[i].Provider != nil {
		whose = "of another person at the identity provider, or of another provider"
	}
	return problem(ErrExists, "there is a user %s already, %s: it is not taken over. Where both are one person an administrator deletes that account "+
		"(its jobs stay, and are of the new one), else the identity provider must give another name", users[i].Name, whose)
}

// byProvider is how such a person signs in, for the audit log.
const byProvider = "by the identity provider"

// provided finds the user of a person at a provider.
func (d *Directory) provided(issuer, subject string) (access.User, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.users {
		if p := e.value.Provider; p != nil && p.Subject == subject && p.Issuer == issuer {
			return e.value, true
		}
	}
	return access.User{}, false
}

// providedGroups are the groups here for those at the provider: the group whose external name
// it is, or the group of the name without the prefix, which is created if it does not exist.
func (d *Directory) providedGroups(ctx context.Context, c *Claimed) (names []string, err error) {
	external := map[string]string{}
	for _, g := range d.Groups() {
		if g.External != "" {
			external[g.External] = g.Name
		}
	}
	var made []change
	for _, theirs := range c.Groups {
		name, ok := external[theirs]
		if !ok {
			name, ok = strings.CutPrefix(theirs, c.Prefix)
			if !ok || c.Prefix == "" || !access.ValidName(name) || name == access.Everyone {
				continue
			}
			if find(d, d.group, name) == nil && !slices.Contains(names, name) {
				made = append(made, change{verb: "create group", detail: "of the identity provider",
					group: &access.Group{Name: name, Description: "of the identity provider", External: clipText(theirs), Created: d.time().UTC()}})
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if n := len(d.Groups()) + len(made); n > MaxUserGroups {
		return nil, problem(ErrInvalid, "%d groups are too many: at most %d are allowed", n, MaxUserGroups)
	}
	if len(names) > access.MaxGroups {
		return nil, problem(ErrInvalid, "the identity provider puts %s into %d groups: at most %d are allowed", clip(c.Name), len(names), access.MaxGroups)
	}
	if len(made) > 0 {
		err = d.commit(ctx, "identity provider", made)
	}
	return names, err
}

// clipText shortens a text to what a group can have.
func clipText(s string) string {
	if len(s) > access.MaxText || len((&access.Group{Name: "a", External: s}).Check()) > 0 {
		return ""
	}
	return s
}

// Try counts a sign-in by the identity provider from an address, before the provider is
// asked, and waits for its turn. right takes a successful one back.
func (d *Directory) Try(ctx context.Context, from string) (right func(), err error) {
	b := bound{"provider from " + Network(from), maxFrom, strangePause}
	wait, err := d.gate.begin(d.time(), patience, b)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, wait); err != nil {
		d.gate.back(b)
		return nil, err
	}
	return func() { d.gate.back(b) }, nil
}

// Admit opens a session of a user that its identity provider has just named.
func (d *Directory) Admit(ctx context.Context, u access.User, from string, life time.Duration) (string, store.Token, error) {
	life, err := sessionLife(life)
	if err != nil {
		return "", store.Token{}, err
	}
	return d.openSession(ctx, u, byProvider, from, life)
}
