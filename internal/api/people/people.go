// Package people keeps users and groups, and their passwords and tokens: the directory of a
// cluster. Each change is written together with its line of the audit log, or not at all. The
// Authorizer checks for each request whether its principal may do it, by the rights of the present
// configuration; while a stream lasts it checks again, and refusals go to the audit log. The
// package must not define rights (internal/core/access does), and knows no routes.
package people

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
)

// Store keeps the directory's entries and tokens.
type Store interface {
	Objects(context.Context) ([]store.Object, error)
	PutObjects(context.Context, []store.Object, []store.AuditLine) error
	AuditLines(ctx context.Context, before int64, limit int) ([]store.AuditLine, error)
	VerifyAudit(ctx context.Context) (store.AuditProof, error)
	SaveToken(ctx context.Context, made store.Token) (string, store.Token, error)
	CheckToken(ctx context.Context, text string, now model.Time) (store.Token, bool)
	ListTokens() []store.Token
	RevokeToken(ctx context.Context, id string) (bool, error)
	RevokeTokensOf(ctx context.Context, subject model.Subject) (int, error)
}

// Limits of a directory.
const (
	MaxUsers      = 100_000
	MaxUserGroups = 10_000
)

// Directory is the users and groups of a cluster, in memory and in the store. Its methods may be
// called from any goroutine.
type Directory struct {
	store       Store
	now         func() model.Time
	write       sync.Mutex // one change at a time
	mu          sync.RWMutex
	users       map[string]*entry[access.User]
	group       map[string]*entry[access.Group]
	gate        *gate
	auditBounds auditBounds
	setup       setup
	cost        Cost
	// OverBound, when set, gets the lines of the audit log beyond their user's bound. It writes
	// summaries of them by WriteSummaries. It is set before the first request.
	OverBound func(store.AuditLine)
	// Platform are the UIDs with which the server and what it starts run. Tasks of users
	// never get them. It is set before the first request.
	Platform []int64

	noOnes sync.Once
	noOne  string // a hash that no password has
}

// SetHashCost hashes passwords at another cost, for tests that sign in often. It must be called
// before the first is hashed.
func (d *Directory) SetHashCost(c Cost) { d.cost = c }

var _ Store = (*store.Store)(nil)

// entry is an object with its version in the store. It is never changed, only replaced.
type entry[T any] struct {
	value   T
	version int64
}

// Errors that callers distinguish.
var (
	ErrNotFound = errors.New("it is not there")
	ErrExists   = errors.New("it is there already")
	ErrInvalid  = errors.New("it is not valid")
	ErrBlocked  = errors.New("it is blocked")
	ErrLast     = errors.New("it is the last one")
)

// Problem is an error with its kind, and all sentences where there are several.
type Problem struct {
	Kind  error // ErrNotFound, ErrExists or ErrInvalid
	Texts []string
}

// Error implements error.
func (p *Problem) Error() string { return strings.Join(p.Texts, "; ") }

// Unwrap returns the kind.
func (p *Problem) Unwrap() error { return p.Kind }

func problem(kind error, format string, args ...any) error {
	return &Problem{kind, []string{fmt.Sprintf(format, args...)}}
}

// Open reads the directory from its store.
func Open(ctx context.Context, s Store, now func() model.Time) (*Directory, error) {
	d := &Directory{store: s, now: now, gate: newGate(), cost: usual,
		users: map[string]*entry[access.User]{}, group: map[string]*entry[access.Group]{},
		auditBounds: auditBounds{users: lineCounts{}, guests: lineCounts{}, networks: map[string]tokenNetworks{}}}
	objects, err := s.Objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		kind, name, _ := strings.Cut(o.ID, "/")
		switch kind {
		case "user":
			e := &entry[access.User]{version: o.Version}
			err = json.Unmarshal(o.Data, &e.value)
			d.users[name] = e
		case "group":
			e := &entry[access.Group]{version: o.Version}
			err = json.Unmarshal(o.Data, &e.value)
			d.group[name] = e
		case "places":
			err = d.loadPlaces(&o)
		}
		if err != nil {
			return nil, fmt.Errorf("the entry %s of the data directory cannot be read: %w", o.ID, err)
		}
	}
	return d, nil
}

// Users returns all users in order of name. The caller must not change them.
func (d *Directory) Users() []access.User { return values(d, d.users) }

// Groups returns all groups in order of name, without everyone. The caller must not change them.
func (d *Directory) Groups() []access.Group { return values(d, d.group) }

func values[T any](d *Directory, m map[string]*entry[T]) []T {
	d.mu.RLock()
	defer d.mu.RUnlock()
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([]T, len(names))
	for i, name := range names {
		out[i] = m[name].value
	}
	return out
}

// Strangers reports whether there are users that need not trust each other: several, or one
// that is not an administrator, beside the holder of the data directory's token.
func (d *Directory) Strangers() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, u := range d.users {
		if len(d.users) > 1 || !u.value.Admin {
			return true
		}
	}
	return false
}

// User returns a user, which must not be changed.
func (d *Directory) User(name string) (access.User, error) {
	if e := find(d, d.users, name); e != nil {
		return e.value, nil
	}
	return access.User{}, problem(ErrNotFound, "there is no user %q", clip(name))
}

// Group returns a group, which must not be changed.
func (d *Directory) Group(name string) (access.Group, error) {
	if e := find(d, d.group, name); e != nil {
		return e.value, nil
	}
	return access.Group{}, problem(ErrNotFound, "there is no group %q", clip(name))
}

// Members returns the users of a group, in order of name.
func (d *Directory) Members(group string) (out []access.User) {
	for _, u := range d.Users() {
		if group == access.Everyone || slices.Contains(u.AllGroups(), group) {
			out = append(out, u)
		}
	}
	return out
}

func find[T any](d *Directory, m map[string]*entry[T], name string) *entry[T] {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return m[name]
}

// clip shortens a text of a stranger for a message.
func clip(s string) string {
	if len(s) > access.MaxName {
		return s[:access.MaxName] + "..."
	}
	return s
}

// reserved are subjects that are not users.
var reserved = []string{"admin", "system"}

// NewUser is a user to be created. Without a Password it cannot sign in by password.
type NewUser struct {
	access.User
	Password string
}

// CreateUsers creates users, all or none.
func (d *Directory) CreateUsers(ctx context.Context, by string, list []NewUser) error {
	d.write.Lock()
	defer d.write.Unlock()
	return d.createUsers(ctx, by, list)
}

// createUsers is CreateUsers under the write lock.
func (d *Directory) createUsers(ctx context.Context, by string, list []NewUser) error {
	var wrong []string
	var kind error
	var changes []change
	seen := map[string]string{}
	for _, u := range d.Users() {
		seen[strings.ToLower(u.Name)] = u.Name
	}
	if n := len(seen) + len(list); n > MaxUsers {
		return problem(ErrInvalid, "%d users are too many: at most %d are allowed", n, MaxUsers)
	}
	for i := range list {
		u := list[i].User.Clone()
		texts := u.Check()
		if slices.Contains(reserved, strings.ToLower(u.Name)) {
			texts = append(texts, "this name stands for the holder of the data directory's token, or for the server itself: take another")
		}
		if other, ok := seen[strings.ToLower(u.Name)]; ok {
			kind = ErrExists
			texts = append(texts, fmt.Sprintf("there is a user %s already", other))
		}
		seen[strings.ToLower(u.Name)] = u.Name
		if p := list[i].Password; p != "" {
			if text := checkPassword(u.Name, p); text != "" {
				texts = append(texts, text)
			}
		}
		texts = append(append(texts, d.checkGroups(u)...), d.checkIDs(u.IDs)...)
		for _, text := range texts {
			wrong = append(wrong, fmt.Sprintf("user %s: %s", clip(u.Name), text))
		}
		u.Created = d.time().UTC()
		changes = append(changes, change{user: u, verb: "create user", detail: withIDs(grantsText(u), u.IDs)})
	}
	if len(wrong) > 0 {
		if kind == nil {
			kind = ErrInvalid
		}
		return &Problem{kind, wrong}
	}
	for i := range changes {
		if p := list[i].Password; p != "" {
			sum, err := d.hash(ctx, by, p)
			if err != nil {
				return err
			}
			changes[i].user.Hash = sum
		}
		if _, err := d.store.RevokeTokensOf(ctx, model.Subject(list[i].Name)); err != nil { // of an earlier user
			return err
		}
	}
	return d.commit(ctx, by, changes)
}

// checkGroups sorts a user's groups and refuses those that do not exist.
func (d *Directory) checkGroups(u *access.User) (wrong []string) {
	slices.Sort(u.Groups)
	u.Groups = slices.Compact(u.Groups)
	u.Groups = slices.DeleteFunc(u.Groups, func(g string) bool { return g == access.Everyone })
	for _, g := range u.Groups {
		if find(d, d.group, g) == nil {
			wrong = append(wrong, fmt.Sprintf("there is no group %q; make it with comb group create", clip(g)))
		}
	}
	return wrong
}

// UserChange is a change of a user; nil fields stay.
type UserChange struct {
	Display, Email *string
	Admin, Blocked *bool
	Groups         *[]string
	Password       *string
	UID, GID       *int64 // access.NoID removes a number
	Extension      json.RawMessage
}

// UpdateUser changes a user. Its tokens end when its password changes, or when it is blocked.
func (d *Directory) UpdateUser(ctx context.Context, by, name string, c UserChange) (access.User, error) {
	d.write.Lock()
	defer d.write.Unlock()
	was, err := d.User(name)
	if err != nil {
		return was, err
	}
	u := was.Clone()
	var what []string
	set(&u.Display, c.Display, "full name", &what)
	set(&u.Email, c.Email, "e-mail address", &what)
	set(&u.Admin, c.Admin, "administrator", &what)
	set(&u.Blocked, c.Blocked, "blocked", &what)
	wrong := setIDs(&u.IDs, c.UID, c.GID, &what)
	if c.Groups != nil {
		u.Groups = slices.Clone(*c.Groups)
		wrong = append(wrong, d.checkGroups(u)...)
		if !slices.Equal(u.Groups, was.Groups) {
			what = append(what, groupsText(u.Groups, was.Groups))
		}
	}
	if c.Extension != nil && string(c.Extension) != string(u.Extension) {
		u.Extension = slices.Clone(c.Extension)
		what = append(what, "extension")
	}
	wrong = append(append(wrong, u.Check()...), d.checkIDs(u.IDs)...)
	if c.Password != nil {
		if text := checkPassword(u.Name, *c.Password); text != "" {
			wrong = append(wrong, text)
		}
		if u.Provider != nil {
			wrong = append(wrong, fmt.Sprintf("%s signs in by the identity provider, and has no password here: it is changed there; a program gets a token, by comb token create", u.Name))
		}
		what = append(what, "password")
	}
	if len(wrong) > 0 {
		return was, &Problem{ErrInvalid, wrong}
	}
	if len(what) == 0 {
		return was, nil // nothing changes
	}
	if !u.Admin || u.Blocked {
		if err := d.keepsAdmin(by, &was); err != nil {
			return was, err
		}
	}
	if c.Password != nil {
		if u.Hash, err = d.hash(ctx, by, *c.Password); err != nil {
			return was, err
		}
	}
	if c.Password != nil || u.Blocked {
		// The tokens end first, under the lock that sign-ins take too: a client may leave
		// between the two steps, or the server be killed. A session that ends while its
		// password stays costs a sign-in. One that outlives its password is what the change
		// should end.
		if _, err := d.store.RevokeTokensOf(ctx, model.Subject(name)); err != nil {
			return was, err
		}
	}
	if err := d.commit(ctx, by, []change{{user: u, verb: "change user",
		detail: strings.Join(what, ", ")}}); err != nil {
		return was, err
	}
	return *u, nil
}

// keepsAdmin refuses a change after which no administrator could sign in. The holder of the
// data directory's token may do it, since that token stays. The write lock is held.
func (d *Directory) keepsAdmin(by string, u *access.User) error {
	signsIn := func(u *access.User) bool { return u.Admin && !u.Blocked && (u.Hash != "" || u.Provider != nil) }
	if by == reserved[0] || !signsIn(u) {
		return nil
	}
	others := d.Users()
	for i := range others {
		if others[i].Name != u.Name && signsIn(&others[i]) {
			return nil
		}
	}
	return problem(ErrLast, "%s is the last administrator that may sign in: make another user one first "+
		"(comb user update NAME --admin), or act with the token of the data directory (--token-file DIR/admin-token)", u.Name)
}

// set changes a field and notes that, without the value of a text.
func set[T comparable](field *T, to *T, name string, what *[]string) {
	if to == nil || *to == *field {
		return
	}
	*field = *to
	if yes, ok := any(*to).(bool); ok {
		name = fmt.Sprintf("%s %v", name, yes)
	}
	*what = append(*what, name)
}

// DeleteUser removes a user and its tokens. Its jobs stay.
func (d *Directory) DeleteUser(ctx context.Context, by, name string) error {
	d.write.Lock()
	defer d.write.Unlock()
	u, err := d.User(name)
	if err != nil {
		return err
	}
	if err := d.keepsAdmin(by, &u); err != nil {
		return err
	}
	if _, err := d.store.RevokeTokensOf(ctx, model.Subject(name)); err != nil {
		return err
	}
	return d.commit(ctx, by, []change{{user: &u, gone: true, verb: "delete user"}})
}

// CreateGroup creates a group.
func (d *Directory) CreateGroup(ctx context.Context, by string, g access.Group) error {
	d.write.Lock()
	defer d.write.Unlock()
	if wrong := append(g.Check(), d.checkIDs(g.IDs)...); len(wrong) > 0 {
		return &Problem{ErrInvalid, wrong}
	}
	if find(d, d.group, g.Name) != nil {
		return problem(ErrExists, "there is a group %s already", g.Name)
	}
	if len(d.Groups()) >= MaxUserGroups {
		return problem(ErrInvalid, "there are %d groups already, the most that are allowed", MaxUserGroups)
	}
	if err := d.checkExternal(&g); err != nil {
		return err
	}
	g.Created = d.time().UTC()
	return d.commit(ctx, by, []change{{group: &g, verb: "create group", detail: withIDs("", g.IDs)}})
}

// checkExternal refuses the external name of another group: it would be unclear which of the
// two is the provider's group.
func (d *Directory) checkExternal(g *access.Group) error {
	for _, other := range d.Groups() {
		if g.External != "" && other.External == g.External && other.Name != g.Name {
			return problem(ErrExists, "the group %s has the external name %q already: put its users into that group, or take the name from it first", other.Name, g.External)
		}
	}
	return nil
}

// GroupChange is a change of a group; nil fields stay.
type GroupChange struct {
	Description, External *string
	UID, GID              *int64 // access.NoID removes a number
	Extension             json.RawMessage
}

// UpdateGroup changes a group.
func (d *Directory) UpdateGroup(ctx context.Context, by, name string, c GroupChange) (access.Group, error) {
	d.write.Lock()
	defer d.write.Unlock()
	g, err := d.Group(name)
	if err != nil {
		return g, err
	}
	var what []string
	set(&g.Description, c.Description, "description", &what)
	set(&g.External, c.External, "external name", &what)
	if c.Extension != nil && string(c.Extension) != string(g.Extension) {
		g.Extension = slices.Clone(c.Extension)
		what = append(what, "extension")
	}
	wrong := setIDs(&g.IDs, c.UID, c.GID, &what)
	if wrong = append(append(wrong, g.Check()...), d.checkIDs(g.IDs)...); len(wrong) > 0 {
		return g, &Problem{ErrInvalid, wrong}
	}
	if c.External != nil {
		if err := d.checkExternal(&g); err != nil {
			return g, err
		}
	}
	if len(what) == 0 {
		return g, nil // nothing changes
	}
	return g, d.commit(ctx, by, []change{{group: &g, verb: "change group", detail: strings.Join(what, ", ")}})
}

// DeleteGroup removes a group, and its members from it.
func (d *Directory) DeleteGroup(ctx context.Context, by, name string) error {
	d.write.Lock()
	defer d.write.Unlock()
	g, err := d.Group(name)
	if err != nil {
		return err
	}
	members := d.Members(name)
	changes := []change{{group: &g, gone: true, verb: "delete group", detail: "its members were " + someNames(members)}}
	for _, u := range members {
		c := u.Clone()
		gone := func(o string) bool { return o == name }
		c.Groups = slices.DeleteFunc(c.Groups, gone)
		if c.Provider != nil {
			c.Provider.Groups = slices.DeleteFunc(c.Provider.Groups, gone)
		}
		changes = append(changes, change{user: c, verb: "change user", detail: groupsText(c.AllGroups(), u.AllGroups())})
	}
	return d.commit(ctx, by, changes)
}

// change is one entry that is written or removed, with its line of the audit log.
type change struct {
	user   *access.User
	group  *access.Group
	gone   bool
	verb   string
	detail string
}

// commit writes changes, and shows them once they are durable. The write lock is held.
func (d *Directory) commit(ctx context.Context, by string, changes []change) error {
	var objects []store.Object
	var lines []store.AuditLine
	for _, c := range changes {
		var o store.Object
		var value any
		if c.user != nil {
			o.ID, value = "user/"+c.user.Name, c.user
			if e := find(d, d.users, c.user.Name); e != nil {
				o.Version = e.version
			}
		} else {
			o.ID, value = "group/"+c.group.Name, c.group
			if e := find(d, d.group, c.group.Name); e != nil {
				o.Version = e.version
			}
		}
		if !c.gone {
			data, err := json.Marshal(value)
			if err != nil {
				return err
			}
			o.Data = data
		}
		objects = append(objects, o)
		lines = append(lines, store.AuditLine{Time: d.now(), Subject: by, Verb: c.verb,
			Object: strings.Replace(o.ID, "/", " ", 1), Outcome: Done, Detail: c.detail, From: ClientAddress(ctx)})
	}
	if err := d.store.PutObjects(ctx, objects, d.bounded(lines)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range changes {
		switch version := objects[i].Version + 1; {
		case c.user != nil && c.gone:
			delete(d.users, c.user.Name)
		case c.user != nil:
			d.users[c.user.Name] = &entry[access.User]{*c.user, version}
		case c.gone:
			delete(d.group, c.group.Name)
		default:
			d.group[c.group.Name] = &entry[access.Group]{*c.group, version}
		}
	}
	return nil
}

// AuditLine is a line of the audit log.
type AuditLine = store.AuditLine

// Outcomes of lines of the audit log.
const (
	Done    = "done"
	Refused = "refused"
	Failed  = "failed"
)

// Verbs of the audit log that several functions write.
const (
	signIn   = "sign in"
	useToken = "use token from a new address"
)

// Note writes lines of the audit log, with the present time and the request's address. Lines
// beyond their user's bound are only counted.
func (d *Directory) Note(ctx context.Context, lines ...store.AuditLine) error {
	for i := range lines { // the bound of a network depends on it
		lines[i].From = cmp.Or(lines[i].From, ClientAddress(ctx))
	}
	if lines = d.bounded(lines); len(lines) == 0 {
		return nil
	}
	return d.WriteSummaries(ctx, lines...)
}

// WriteSummaries writes lines of the audit log that stand for many, or that are always written
// in full, with the present time.
func (d *Directory) WriteSummaries(ctx context.Context, lines ...store.AuditLine) error {
	for i := range lines {
		lines[i].Time, lines[i].From = d.now(), cmp.Or(lines[i].From, ClientAddress(ctx))
	}
	return d.store.PutObjects(ctx, nil, lines)
}

// Log returns up to limit lines of the audit log before a line (0: from the newest), newest first.
func (d *Directory) Log(ctx context.Context, before int64, limit int) ([]store.AuditLine, error) {
	return d.store.AuditLines(ctx, before, limit)
}
