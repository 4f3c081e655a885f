package access

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Everyone is the group that each user is in without being put there.
const Everyone = "everyone"

// Limits of what a user or a group may hold.
const (
	MaxName      = 64 // bytes of a name
	MaxGroups    = 64 // of one user
	MaxText      = 255
	MaxExtension = 16 << 10 // bytes of what other programs keep with a user or a group
)

// namePattern has no "~": USER~JOB names a user's job.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// ValidName reports whether a user or a group may have a name.
func ValidName(name string) bool {
	return len(name) <= MaxName && namePattern.MatchString(name)
}

// NameRule is what a name must be, in words.
const NameRule = `a name has 1 to 64 letters, digits, ".", "_" and "-", a letter or digit first and last`

// User is a person, or a program that has an account.
type User struct {
	Name    string    `json:"name"`
	Display string    `json:"display,omitempty"` // the full name
	Email   string    `json:"email,omitempty"`
	Admin   bool      `json:"admin,omitempty"`    // an administrator of the whole cluster
	Blocked bool      `json:"blocked,omitempty"`  // may not sign in, and none of its tokens is valid
	Groups  []string  `json:"groups,omitempty"`   // given by administrators: sorted; without Everyone
	Hash    string    `json:"password,omitempty"` // of the password; "" is a user without one
	Created time.Time `json:"created"`
	IDs
	// Extension is what another program keeps with the user: an object of JSON.
	Extension json.RawMessage `json:"extension,omitempty"`
	// Provider is set for a user that an identity provider has told of.
	Provider *ProviderIdentity `json:"provider,omitempty"`
}

// ProviderIdentity is what an identity provider told of a user at its last sign-in.
type ProviderIdentity struct {
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`          // with the issuer: one person, under any name
	Groups  []string `json:"groups,omitempty"` // given by the provider: sorted; without Everyone
}

// AllGroups are those that administrators put the user into and those of its identity provider:
// sorted; without Everyone.
func (u *User) AllGroups() []string {
	if u.Provider == nil || len(u.Provider.Groups) == 0 {
		return u.Groups
	}
	all := slices.Concat(u.Groups, u.Provider.Groups)
	slices.Sort(all)
	return slices.Compact(all)
}

// Group is a set of users. Its members are not listed here: each user lists its groups.
type Group struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	External    string    `json:"external,omitempty"` // its name at the identity provider
	Created     time.Time `json:"created"`
	IDs                   // of the tasks of its members that have none themselves
	// Extension is what another program keeps with the group: an object of JSON.
	Extension json.RawMessage `json:"extension,omitempty"`
}

// Clone returns a copy that shares nothing with the user.
func (u *User) Clone() *User {
	c := *u
	c.Groups, c.Extension = slices.Clone(u.Groups), slices.Clone(u.Extension)
	if u.Provider != nil {
		p := *u.Provider
		p.Groups = slices.Clone(p.Groups)
		c.Provider = &p
	}
	return &c
}

// Check returns all that is wrong with a user, a sentence each.
func (u *User) Check() (wrong []string) {
	if !ValidName(u.Name) {
		wrong = append(wrong, fmt.Sprintf("%q cannot be a user: %s", clip(u.Name), NameRule))
	}
	wrong = append(wrong, text("the full name", u.Display)...)
	wrong = append(wrong, text("the e-mail address", u.Email)...)
	if at := strings.IndexByte(u.Email, '@'); u.Email != "" && (at <= 0 || at == len(u.Email)-1 || strings.ContainsAny(u.Email, " \t")) {
		wrong = append(wrong, fmt.Sprintf("%q is no e-mail address: want NAME@HOST", clip(u.Email)))
	}
	if n := len(u.AllGroups()); n > MaxGroups {
		wrong = append(wrong, fmt.Sprintf("%d groups are too many for one user: at most %d are allowed", n, MaxGroups))
	}
	wrong = append(wrong, u.IDs.Check()...)
	return append(wrong, extension(u.Extension)...)
}

// Check returns all that is wrong with a group, a sentence each.
func (g *Group) Check() (wrong []string) {
	switch {
	case !ValidName(g.Name):
		wrong = append(wrong, fmt.Sprintf("%q cannot be a group: %s", clip(g.Name), NameRule))
	case g.Name == Everyone:
		wrong = append(wrong, "each user is in the group everyone already: it is not made, changed or deleted")
	}
	wrong = append(wrong, text("the description", g.Description)...)
	wrong = append(wrong, text("the external name", g.External)...)
	wrong = append(wrong, g.IDs.Check()...)
	return append(wrong, extension(g.Extension)...)
}

// text refuses what a line of a table cannot show.
func text(what, s string) []string {
	if len(s) > MaxText {
		return []string{fmt.Sprintf("%s has %d bytes: at most %d are allowed", what, len(s), MaxText)}
	}
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xFFFD }) >= 0 {
		return []string{what + " has characters that cannot be shown"}
	}
	return nil
}

func extension(raw json.RawMessage) []string {
	if len(raw) > MaxExtension {
		return []string{fmt.Sprintf("the extension has %d bytes: at most %d are allowed", len(raw), MaxExtension)}
	}
	if len(raw) > 0 && (!json.Valid(raw) || raw[0] != '{') {
		return []string{"the extension is no object of JSON"}
	}
	return nil
}

// clip shortens a stranger's text for a message.
func clip(s string) string {
	if len(s) > MaxName {
		return s[:MaxName] + "..."
	}
	return s
}

// TokenKind says what a token was made for.
type TokenKind string

// The kinds of token.
const (
	// Root is the token in the data directory: its holder is an administrator.
	Root TokenKind = ""
	// Session is made by signing in.
	Session TokenKind = "session"
	// Application is made by a user for a program.
	Application TokenKind = "application"
)

// Scope is what a token may be used for; the rights of its user bound it. The zero Scope bounds
// nothing.
type Scope struct {
	ReadOnly bool     `json:"read_only,omitempty"`
	VCs      []string `json:"vcs,omitempty"` // only these, with those inside of them
}

// Principal makes a request.
type Principal struct {
	User   string // the name that jobs and the audit log show
	Admin  bool
	Groups []string // sorted; without Everyone
	Token  string   // the token's id
	Scope  Scope
	IsUser bool // it is a user; else it is the holder of the data directory's token
}

// In reports whether the principal is in a group. The holder of the data directory's token is in
// none.
func (p *Principal) In(group string) bool {
	if group == Everyone {
		return p.IsUser
	}
	_, ok := slices.BinarySearch(p.Groups, group)
	return ok
}
