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

// Bounds on full lines in the audit log: of one user for each verb, and of one network for
// wrong passwords. Lines beyond them go to OverBound. Administrators of the cluster have no
// bound: they could change the cluster as well.
const (
	mostLines    = 600
	linesEvery   = model.Hour
	mostNetworks = 10_000 // that are counted at a time; lines of further ones are beyond the bound
)

// The networks in which a token was used.
const (
	mostPlaces  = 16                // of one token; the least recently used one is dropped
	placesEvery = model.Hour        // between two lines about a token that is used in more networks
	placeRetry  = 10 * model.Minute // after a line that could not be written
)

type fromKey struct{}

// WithClientAddress puts the client's address of a request into its context, for the audit log. ""
// is this machine, over the server's socket.
func WithClientAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, fromKey{}, address)
}

// ClientAddress is the client's address of a request; "" where it is unknown.
func ClientAddress(ctx context.Context) string {
	from, _ := ctx.Value(fromKey{}).(string)
	if _, err := netip.ParseAddr(from); err != nil {
		return ""
	}
	return from
}

// auditBounds bounds the audit log: it counts each user's lines, and knows where each token was
// used.
type auditBounds struct {
	mu       sync.Mutex
	users    lineCounts               // by user and verb
	guests   lineCounts               // wrong passwords, by network
	networks map[string]tokenNetworks // by token
}

// lineCounts count lines. Users have paces of their own, so that lines from any number of networks
// do not take theirs.
type lineCounts map[string]*lineCount

type lineCount struct {
	since model.Time
	n     int
}

// tokenNetworks are the networks in which a token was used, the least recently used first. They are
// stored as one object, together with the audit line about the newest one.
type tokenNetworks struct {
	networks []string
	version  int64
	later    model.Time // no lines before: a place could not be written, or too many came
}

// inFull reports whether one more line is written in full. Where there are most counts,
// expired ones are dropped. If that is not enough, with bound the new line is not in full.
func (p lineCounts) inFull(whose string, now model.Time, most int, bound bool) bool {
	have := p[whose]
	if have == nil && len(p) >= most {
		for key, old := range p { // in any order: all expired ones go
			if now >= old.since.Add(linesEvery) {
				delete(p, key)
			}
		}
	}
	switch {
	case have == nil && len(p) >= most && bound:
		return false
	case have == nil, now >= have.since.Add(linesEvery), now < have.since:
		p[whose] = &lineCount{now, 1}
		return true
	}
	have.n++
	return have.n <= mostLines
}

// inFull reports whether a line is within the bound of its user or network. Guesses at a name
// count for the network from which they come: they must not hide what the user does.
func (d *Directory) inFull(l *store.AuditLine) bool {
	e := find(d, d.users, l.Subject)
	guess := l.Outcome == Refused && (l.Verb == signIn || e == nil)
	if !guess && (e == nil || e.value.Admin) {
		return true // of an administrator, or of the server itself
	}
	d.auditBounds.mu.Lock()
	defer d.auditBounds.mu.Unlock()
	if guess {
		return d.auditBounds.guests.inFull(Network(l.From), d.now(), mostNetworks, true)
	}
	// For each verb: frequent use of one hides no other. The number of counts is bounded by
	// users times verbs.
	return d.auditBounds.users.inFull(l.Verb+" by "+l.Subject, d.now(), MaxUsers, false)
}

// bounded removes lines beyond their user's bound, and gives them to OverBound.
func (d *Directory) bounded(lines []store.AuditLine) []store.AuditLine {
	return slices.DeleteFunc(lines, func(l store.AuditLine) bool {
		if d.OverBound == nil || d.inFull(&l) {
			return false
		}
		d.OverBound(l)
		return true
	})
}

// Line makes the line of a command, which the engine writes with its events. It is always in
// full, since the journal has as much of the command. A command that changes nothing has no
// line beyond its user's bound.
func (d *Directory) Line(ctx context.Context, l store.AuditLine) *store.Audit {
	l.From = ClientAddress(ctx)
	return &store.Audit{Subject: l.Subject, Verb: l.Verb, Object: l.Object, Outcome: l.Outcome, Detail: l.Detail,
		From: l.From, Changes: d.OverBound != nil && !d.inFull(&l)}
}

// placesID is the id of the object with a token's networks.
func placesID(token string) string { return "places/" + token }

// loadPlaces reads where a token was used. Objects of tokens that are gone are removed with
// the next write.
func (d *Directory) loadPlaces(o *store.Object) error {
	p := tokenNetworks{version: o.Version}
	err := json.Unmarshal(o.Data, &p.networks)
	_, token, _ := strings.Cut(o.ID, "/")
	d.auditBounds.networks[token] = p
	return err
}

// notePlace writes a line when a token is used in a network for the first time. The network
// where it was made is known, and for the token of the data directory this machine. Where the
// line cannot be written it is tried at a later use.
func (d *Directory) notePlace(ctx context.Context, t *store.Token) {
	from := ClientAddress(ctx)
	if from == "" {
		return // over the server's socket, which only its own user can use
	}
	if at, err := netip.ParseAddr(from); t.Kind == access.Root && err == nil && at.Unmap().IsLoopback() {
		return
	}
	network := Network(from)
	if network == t.From || d.auditBounds.knows(t.ID, network, d.now()) {
		return
	}
	d.write.Lock()
	defer d.write.Unlock()
	d.learnPlace(context.WithoutCancel(ctx), t, network, from)
}

// knows reports whether a token needs no line for a network now. The use itself is noted only
// in memory, so that requests do not cause writes.
func (t *auditBounds) knows(token, network string, now model.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.networks[token]
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

// learnPlace is the part of notePlace under the write lock, for a network that was just
// unknown.
func (d *Directory) learnPlace(ctx context.Context, t *store.Token, network, from string) {
	if d.auditBounds.knows(t.ID, network, d.now()) {
		return // through a concurrent request
	}
	d.auditBounds.mu.Lock()
	p := d.auditBounds.networks[t.ID]
	networks := append(slices.Clone(p.networks), network)
	d.auditBounds.mu.Unlock()
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
	if len(lines) > 0 { // else many addresses would cause neither lines nor rows
		if data, err = json.Marshal(networks); err == nil {
			err = d.store.PutObjects(ctx, append(d.gonePlaces(), store.Object{ID: placesID(t.ID),
				Version: p.version, Data: data}), lines)
		}
		if err == nil {
			p = tokenNetworks{networks: networks, version: p.version + 1, later: later}
		}
	}
	if err != nil {
		p.later = d.now().Add(placeRetry)
	}
	d.auditBounds.mu.Lock()
	defer d.auditBounds.mu.Unlock()
	d.auditBounds.networks[t.ID] = p
}

// gonePlaces drops where tokens were used that are no longer valid, and returns the objects
// to remove.
func (d *Directory) gonePlaces() (gone []store.Object) {
	valid := map[string]bool{}
	for _, t := range d.store.ListTokens() {
		valid[t.ID] = true
	}
	d.auditBounds.mu.Lock()
	defer d.auditBounds.mu.Unlock()
	for token, p := range d.auditBounds.networks { // in any order: all of them go
		if valid[token] {
			continue
		}
		if p.version > 0 {
			gone = append(gone, store.Object{ID: placesID(token), Version: p.version})
		}
		delete(d.auditBounds.networks, token)
	}
	return gone
}

// grantsText describes what a new user gets: whether it is an administrator, and its groups.
func grantsText(u *access.User) string {
	text := "groups " + listed(u.AllGroups())
	if u.Provider != nil {
		text += " of the identity provider"
	}
	if u.Admin {
		text = "administrator, " + text
	}
	return text
}

// groupsText describes a change of a user's groups.
func groupsText(is, was []string) string { return "groups " + listed(is) + ", was " + listed(was) }

// listed is a list in a line.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// mostNamed bounds the users that one line names; each also has a line of its own.
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

// tokenObject is a token in the audit log: its name, its id and its user.
func tokenObject(t *store.Token) string {
	name := t.Name
	if t.Kind == access.Session {
		name = "sign-in"
	} else if !access.ValidName(name) { // it could look like another token's name
		name = strconv.Quote(name)
	}
	return fmt.Sprintf("%s (%s) of %s", name, t.ID, t.Subject)
}

// tokenBounds describes what a token may do, and until when.
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
