package people

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
)

// Bounds of what one user has written to the audit log in full of each verb, and one network of
// wrong passwords. What comes beyond them goes to Crowded. Administrators of the cluster have
// none: they could change the cluster as well.
const (
	mostLines    = 600
	linesEvery   = model.Hour
	mostNetworks = 10_000 // that are counted at a time; others are as beyond theirs
)

// Networks in which a token was used.
const (
	mostPlaces  = 16                // of one token that are known; the least recently used goes
	placesEvery = model.Hour        // between two lines of a token that is used from more
	placeRetry  = 10 * model.Minute // after a line that could not be written
)

type fromKey struct{}

// Came puts the client's address of a request into its context, for the audit log; "" is this
// machine, by the server's socket.
func Came(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, fromKey{}, address)
}

// CameFrom is the client's address of a request; "" where none is known.
func CameFrom(ctx context.Context) string {
	from, _ := ctx.Value(fromKey{}).(string)
	if _, err := netip.ParseAddr(from); err != nil {
		return ""
	}
	return from
}

// trail is what bounds the audit log: how much of it is of which user, and where each token was
// used.
type trail struct {
	mu     sync.Mutex
	users  paces             // by user and verb
	guests paces             // by network: of wrong passwords
	places map[string]places // by token
}

// paces count lines. Users have their own: what comes from any number of networks fills nothing of
// theirs.
type paces map[string]*pace

type pace struct {
	since model.Time
	n     int
}

// places are the networks in which a token was used, the least recently used first. They are kept
// as an object of the store, together with the line that tells of the last one.
type places struct {
	networks []string
	version  int64
	later    model.Time // until then nothing is told: a place could not be written, or too many came
}

// inFull reports whether one more line is written as it is. Of more than so many, all that are over
// are forgotten; where that makes no room, bound has the new one be none in full.
func (p paces) inFull(whose string, now model.Time, most int, bound bool) bool {
	have := p[whose]
	if have == nil && len(p) >= most {
		for key, old := range p { // in any order: all that are over go
			if now >= old.since.Add(linesEvery) {
				delete(p, key)
			}
		}
	}
	switch {
	case have == nil && len(p) >= most && bound:
		return false
	case have == nil, now >= have.since.Add(linesEvery), now < have.since:
		p[whose] = &pace{now, 1}
		return true
	}
	have.n++
	return have.n <= mostLines
}

// inFull reports whether a line is within the bound of its user, or network. Guesses at a name
// count for the network that they come from: they must not hide what the user does.
func (d *Directory) inFull(l *store.AuditLine) bool {
	e := find(d, d.users, l.Subject)
	guess := l.Outcome == Refused && (l.Verb == signIn || e == nil)
	if !guess && (e == nil || e.value.Admin) {
		return true // an administrator, or the server itself
	}
	d.trail.mu.Lock()
	defer d.trail.mu.Unlock()
	if guess {
		return d.trail.guests.inFull(Network(l.From), d.now(), mostNetworks, true)
	}
	// Of each verb: what a user does often hides nothing else. There are as many as users and
	// verbs.
	return d.trail.users.inFull(l.Verb+" by "+l.Subject, d.now(), MaxUsers, false)
}

// bounded leaves out what is beyond its user's bound, and gives that to Crowded.
func (d *Directory) bounded(lines []store.AuditLine) []store.AuditLine {
	return slices.DeleteFunc(lines, func(l store.AuditLine) bool {
		if d.Crowded == nil || d.inFull(&l) {
			return false
		}
		d.Crowded(l)
		return true
	})
}

// Line makes a line for a command that the engine writes with its events. It is never counted with
// others: the journal has as much of the command. Beyond its user's bound a command that changes
// nothing has none.
func (d *Directory) Line(ctx context.Context, l store.AuditLine) *store.Audit {
	l.From = CameFrom(ctx)
	return &store.Audit{Subject: l.Subject, Verb: l.Verb, Object: l.Object, Outcome: l.Outcome, Detail: l.Detail,
		From: l.From, Changes: d.Crowded != nil && !d.inFull(&l)}
}

// placesID is the object with a token's networks.
func placesID(token string) string { return "places/" + token }

// loadPlaces reads where a token was used. Those of tokens that are gone are removed when others
// are written.
func (d *Directory) loadPlaces(o *store.Object) error {
	p := places{version: o.Version}
	err := json.Unmarshal(o.Data, &p.networks)
	_, token, _ := strings.Cut(o.ID, "/")
	d.trail.places[token] = p
	return err
}

// notePlace has the audit log tell that a token is used from a network for the first time. The
// one where it was made is known, and for the token of the data directory this machine. A place
// that cannot be written is told at a later use.
func (d *Directory) notePlace(ctx context.Context, t *store.Token) {
	from := CameFrom(ctx)
	if from == "" {
		return // by the server's socket: its own user alone can
	}
	if at, err := netip.ParseAddr(from); t.Kind == access.Root && err == nil && at.Unmap().IsLoopback() {
		return
	}
	network := Network(from)
	if network == t.From || d.trail.knows(t.ID, network, d.now()) {
		return
	}
	d.write.Lock()
	defer d.write.Unlock()
	d.learnPlace(context.WithoutCancel(ctx), t, network, from)
}

// knows reports whether nothing is to be told of a token in a network now. That it was used there
// is noted in memory alone: no request is a write because of that.
func (t *trail) knows(token, network string, now model.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places[token]
	i := slices.Index(p.networks, network)
	if i < 0 {
		return now < p.later
	}
	if last := len(p.networks) - 1; i < last {
		copy(p.networks[i:], p.networks[i+1:])
		p.networks[last] = network
	}
	return true
}

// learnPlace is notePlace under the write lock, where the network was not known a moment ago.
func (d *Directory) learnPlace(ctx context.Context, t *store.Token, network, from string) {
	if d.trail.knows(t.ID, network, d.now()) {
		return // by a request beside this one
	}
	d.trail.mu.Lock()
	p := d.trail.places[t.ID]
	networks := append(slices.Clone(p.networks), network)
	d.trail.mu.Unlock()
	line := store.AuditLine{Time: d.now(), Subject: string(t.Subject), Verb: useToken, Object: t.Name + " " + t.ID,
		Outcome: Done,
		Detail:  "the first time from there", From: from}
	later := model.Time(0)
	if len(networks) > mostPlaces {
		networks, later = networks[len(networks)-mostPlaces:], d.now().Add(placesEvery)
		line.Detail = fmt.Sprintf("from more than %d networks; of others nothing is said for an hour", mostPlaces)
	}
	lines := d.bounded([]store.AuditLine{line})
	var data []byte
	err := errors.New("it is counted alone")
	if len(lines) > 0 { // else neither lines nor rows are written of many addresses
		if data, err = json.Marshal(networks); err == nil {
			err = d.store.PutObjects(ctx, append(d.gonePlaces(), store.Object{ID: placesID(t.ID),
				Version: p.version, Data: data}), lines)
		}
		if err == nil {
			p = places{networks: networks, version: p.version + 1, later: later}
		}
	}
	if err != nil {
		p.later = d.now().Add(placeRetry)
	}
	d.trail.mu.Lock()
	defer d.trail.mu.Unlock()
	d.trail.places[t.ID] = p
}

// gonePlaces forgets where tokens were used that are not valid any more, and returns the objects
// to remove.
func (d *Directory) gonePlaces() (gone []store.Object) {
	valid := map[string]bool{}
	for _, t := range d.store.ListTokens() {
		valid[t.ID] = true
	}
	d.trail.mu.Lock()
	defer d.trail.mu.Unlock()
	for token, p := range d.trail.places { // in any order: all of them
		if valid[token] {
			continue
		}
		if p.version > 0 {
			gone = append(gone, store.Object{ID: placesID(token), Version: p.version})
		}
		delete(d.trail.places, token)
	}
	return gone
}

// standing says what a new user is given: that it is an administrator, and its groups.
func standing(u *access.User) string {
	text := "groups " + listed(u.AllGroups())
	if u.Provider != nil {
		text += " of the identity provider"
	}
	if u.Admin {
		text = "administrator, " + text
	}
	return text
}

// regrouped says which groups a user has, and had.
func regrouped(is, was []string) string { return "groups " + listed(is) + ", was " + listed(was) }

// listed is a list in a line.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// mostNamed bounds the users that one line names: each has a line of its own beside it.
const mostNamed = 20

func someNames(users []access.User) string {
	var names []string
	for i := range users[:min(len(users), mostNamed)] {
		names = append(names, users[i].Name)
	}
	text := listed(names)
	if more := len(users) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// tokenObject is a token in the audit log: its name, its id and whose it is.
func tokenObject(t *store.Token) string {
	name := t.Name
	if t.Kind == access.Session {
		name = "sign-in"
	} else if !access.ValidName(name) { // it could look like another token's
		name = strconv.Quote(name)
	}
	return fmt.Sprintf("%s (%s) of %s", name, t.ID, t.Subject)
}

// tokenBounds are what a token may do, and until when.
func tokenBounds(t *store.Token) string {
	var list []string
	if t.Scope.ReadOnly {
		list = append(list, "reads only")
	}
	if len(t.Scope.VCs) > 0 {
		list = append(list, "in "+listed(t.Scope.VCs))
	}
	return strings.Join(append(list, "until "+time.UnixMicro(int64(t.Expires)).UTC().Format(time.RFC3339)), ", ")
}
