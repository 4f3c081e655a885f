package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
)

const (
	tokenPrefix = "comb_"
	// usedEvery bounds how often the last use of a token is written.
	usedEvery = model.Minute
)

// Token is what is known of a token, without its secret.
type Token struct {
	ID      string // 16 hex digits
	Name    string
	Subject model.Subject
	Created model.Time
	Used    model.Time // last use, to the minute; 0: never
	TokenBounds
}

// TokenBounds are the purpose of a token and the end of its validity. Those of the token in the
// data directory are zero.
type TokenBounds struct {
	Kind    access.TokenKind `json:"kind,omitempty"`
	Expires model.Time       `json:"expires,omitempty"` // 0: never
	Scope   access.Scope     `json:"scope,omitzero"`
	From    string           `json:"from,omitempty"` // the network of the request; "": unknown
}

// NewTokenID makes an id for a token that must be named before it is made.
func NewTokenID() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// text is the stored form of the bounds; "": none.
func (b *TokenBounds) text() string {
	data, err := json.Marshal(b)
	if err != nil {
		panic(fmt.Sprintf("a token's bounds are no JSON: %v", err))
	}
	if string(data) == "{}" {
		return ""
	}
	return string(data)
}

// tokens holds all tokens in memory: only this process changes them.
type tokens struct {
	mu   sync.Mutex
	byID map[string]*token
}

type token struct {
	Token
	hash  [sha256.Size]byte
	saved model.Time // Used as it is in the database
	bound string     // the stored bounds: the sum covers these bytes
}

func (s *Store) loadTokens(ctx context.Context) error {
	s.tokens.byID = map[string]*token{}
	rows, err := s.read.QueryContext(ctx, "SELECT id, name, subject, hash, created, used, sum, bounds FROM tokens")
	if err != nil {
		return s.explain("cannot read the tokens", err)
	}
	defer rows.Close()
	for rows.Next() {
		var t token
		var hash []byte
		var kept digest
		var bounds string
		if err := rows.Scan(&t.ID, &t.Name, &t.Subject, &hash, &t.Created, &t.Used, &kept, &bounds); err != nil {
			return s.explain("cannot read the tokens", err)
		}
		t.bound = bounds
		if bounds != "" && json.Unmarshal([]byte(bounds), &t.TokenBounds) != nil {
			return s.damaged("what bounds the token " + t.ID + " cannot be read")
		}
		if copy(t.hash[:], hash) != sha256.Size {
			return s.damaged("a token's hash is cut off")
		}
		if tokenSum(&t) != kept {
			return s.damaged("the token " + t.ID + " is not what was saved")
		}
		t.saved = t.Used
		s.tokens.byID[t.ID] = &t
	}
	return rows.Err()
}

// CreateToken makes a token for subject and returns it, "comb_<id>_<secret>" with 256 random
// bits. It is returned only here: only its hash is kept.
func (s *Store) CreateToken(ctx context.Context, name string, subject model.Subject, now model.Time) (string, Token, error) {
	return s.SaveToken(ctx, Token{ID: NewTokenID(), Name: name, Subject: subject, Created: now})
}

// SaveToken makes the secret of a token, keeps the token, and returns its text with it. It also
// removes expired tokens.
func (s *Store) SaveToken(ctx context.Context, made Token) (string, Token, error) {
	s.forgetExpired(ctx, made.Created)
	if len(made.Scope.VCs) == 0 {
		made.Scope.VCs = nil // an empty list means no bound, as nil does
	}
	random := make([]byte, 32)
	rand.Read(random) // never fails
	secret := hex.EncodeToString(random)
	t := &token{Token: made}
	t.hash, t.bound = sha256.Sum256([]byte(secret)), made.text()
	sum := tokenSum(t)
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		m.rows.add(sum)
		_, err := tx.ExecContext(ctx, "INSERT INTO tokens (id, name, subject, hash, created, used, sum, bounds) VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
			t.ID, t.Name, string(t.Subject), t.hash[:], t.Created, sum[:], t.bound)
		return err
	})
	if err != nil {
		return "", Token{}, s.explain("cannot save the token", s.classify(err))
	}
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	s.tokens.byID[t.ID] = t
	return tokenPrefix + t.ID + "_" + secret, t.Token, nil
}

// CheckToken returns the token of a text; false if it is none, was revoked or has expired.
func (s *Store) CheckToken(ctx context.Context, text string, now model.Time) (Token, bool) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	id, secret, cut := strings.Cut(rest, "_")
	if !ok || !cut || len(text) > 200 {
		return Token{}, false
	}
	hash := sha256.Sum256([]byte(secret))
	s.tokens.mu.Lock()
	t := s.tokens.byID[id]
	if t == nil || t.Expires != 0 && now >= t.Expires || subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1 {
		s.tokens.mu.Unlock()
		return Token{}, false
	}
	t.Used = max(t.Used, now)
	due := t.Used >= t.saved.Add(usedEvery)
	if due {
		t.saved = t.Used
	}
	found := t.Token
	s.tokens.mu.Unlock()
	if due {
		s.noteUse(ctx, found)
	}
	return found, true
}

// noteUse writes down when a token was used. That may fail: the next use a minute later tries
// again.
func (s *Store) noteUse(ctx context.Context, t Token) {
	_ = s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		_, err := tx.ExecContext(ctx, "UPDATE tokens SET used = ? WHERE id = ?", t.Used, t.ID)
		return err
	})
}

// ListTokens returns all tokens, oldest first.
func (s *Store) ListTokens() []Token {
	s.tokens.mu.Lock()
	list := make([]Token, 0, len(s.tokens.byID))
	for _, t := range s.tokens.byID {
		list = append(list, t.Token)
	}
	s.tokens.mu.Unlock() // each request needs the lock: nothing waits during the sort
	slices.SortFunc(list, func(a, b Token) int {
		if a.Created != b.Created {
			return int(max(-1, min(1, a.Created-b.Created)))
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// RevokeToken ends a token at once; false if there is none with that id.
func (s *Store) RevokeToken(ctx context.Context, id string) (bool, error) {
	n, err := s.revoke(ctx, func(t *token) bool { return t.ID == id })
	return n > 0, err
}

// RevokeTokensOf ends all tokens of a user at once, and returns how many. The token of the data
// directory belongs to no user.
func (s *Store) RevokeTokensOf(ctx context.Context, subject model.Subject) (int, error) {
	return s.revoke(ctx, func(t *token) bool { return t.Subject == subject && t.Kind != access.Root })
}

// forgetExpired removes expired tokens, so that the table does not grow with each sign-in. What
// fails now is tried at the next sign-in.
func (s *Store) forgetExpired(ctx context.Context, now model.Time) {
	_, _ = s.revoke(ctx, func(t *token) bool { return t.Expires != 0 && now >= t.Expires })
}

func (s *Store) revoke(ctx context.Context, which func(*token) bool) (int, error) {
	var gone []*token
	s.tokens.mu.Lock()
	for _, t := range s.tokens.byID {
		if which(t) {
			gone = append(gone, t)
		}
	}
	s.tokens.mu.Unlock()
	if len(gone) == 0 {
		return 0, nil
	}
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		for _, t := range gone {
			done, err := tx.ExecContext(ctx, "DELETE FROM tokens WHERE id = ?", t.ID)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil {
				return err
			} else if n == 1 { // else another revocation was first
				m.rows.remove(tokenSum(t))
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot revoke the token: %w", s.classify(err))
	}
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	for _, t := range gone {
		delete(s.tokens.byID, t.ID)
	}
	return len(gone), nil
}

// tokenSum is rowSum of a token.
func tokenSum(t *token) digest {
	return rowSum("tokens", t.ID, t.Name, string(t.Subject), t.hash[:], fmt.Sprint(int64(t.Created))+t.bound)
}
