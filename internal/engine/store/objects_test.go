package store

import (
	"errors"
	"testing"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/google/go-cmp/cmp"
)

func problems(t *testing.T, s *Store) (out []string) {
	t.Helper()
	if _, err := s.Check(ctx, func(p string) { out = append(out, p) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// Objects are written as a whole or not at all, and only over the version that was read.
func TestObjects(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	alice, bob := Object{ID: "user/alice", Data: []byte("a")}, Object{ID: "user/bob", Data: []byte("b")}
	if err := s.PutObjects(ctx, []Object{alice, bob}, nil); err != nil {
		t.Fatal(err)
	}
	stale := []Object{{ID: "user/alice", Version: 1, Data: []byte("a2")}, {ID: "user/bob", Version: 7, Data: []byte("b2")}}
	if err := s.PutObjects(ctx, stale, []AuditLine{{Subject: "x"}}); !errors.Is(err, ErrStale) {
		t.Fatalf("a change to another version: %v", err)
	}
	if err := s.PutObjects(ctx, []Object{{ID: "user/carol", Version: 1, Data: []byte("c")}}, nil); !errors.Is(err, ErrStale) {
		t.Fatalf("a change to what is not there: %v", err)
	}
	if err := s.PutObjects(ctx, []Object{{ID: "user/alice", Version: 1, Data: []byte("a2")}, {ID: "user/bob", Version: 1}}, nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, dir)
	got, err := s.Objects(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Object{{ID: "user/alice", Version: 2, Data: []byte("a2")}}, got); diff != "" {
		t.Error(diff)
	}
	if lines, err := s.AuditLines(ctx, 0, 10); err != nil || len(lines) != 0 {
		t.Errorf("a change that was refused is in the audit log: %v %v", lines, err)
	}
	if p := problems(t, s); len(p) > 0 {
		t.Error(p)
	}
}

// A line of the audit log that is changed, removed or put in is found.
func TestAuditIsChained(t *testing.T) {
	for name, change := range map[string]string{
		"changed": "UPDATE audit SET outcome = 'done' WHERE seq = 2",
		"removed": "DELETE FROM audit WHERE seq = 2",
		"cut off": "DELETE FROM audit WHERE seq = 3",
		"put in":  "INSERT INTO audit SELECT 4, time, subject, verb, object, outcome, detail, link, sum FROM audit WHERE seq = 3",
		"nothing": "SELECT 1",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			if err := s.PutObjects(ctx, nil, []AuditLine{{Time: 5, Subject: "alice", Verb: "stop", Object: "job 3", Outcome: "done"}}); err != nil {
				t.Fatal(err)
			}
			if err := s.PutObjects(ctx, nil, []AuditLine{{Subject: "bob", Outcome: "refused", Detail: "why"}, {Subject: "eve", Outcome: "done"}}); err != nil {
				t.Fatal(err)
			}
			s.Close()
			execSQL(change)(t, dir)
			s = open(t, dir)
			if p := problems(t, s); (len(p) == 0) != (name == "nothing") {
				t.Errorf("%s: %q", name, p)
			}
		})
	}
}

func TestTokensExpire(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	bounds := TokenBounds{Kind: access.Session, Expires: 100, Scope: access.Scope{VCs: []string{"a"}}}
	text, made, err := s.SaveToken(ctx, Token{ID: NewTokenID(), Name: "n", Subject: "alice", Created: 1, TokenBounds: bounds})
	if err != nil {
		t.Fatal(err)
	}
	forever, _, err := s.SaveToken(ctx, Token{ID: NewTokenID(), Name: "n", Subject: "alice", Created: 1,
		TokenBounds: TokenBounds{Kind: access.Application, Scope: access.Scope{VCs: []string{}}}})
	if err != nil {
		t.Fatal(err)
	}
	root, _, err := s.CreateToken(ctx, "n", "alice", 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, dir)
	got, ok := s.CheckToken(ctx, text, 99)
	if made.Used = 99; !ok || !cmp.Equal(got, made) {
		t.Errorf("%+v, want %+v", got, made)
	}
	if _, ok := s.CheckToken(ctx, text, 100); ok {
		t.Error("it is valid when it has expired")
	}
	if _, ok := s.CheckToken(ctx, forever, 1<<60); !ok {
		t.Error("one without an end has expired")
	}
	if _, _, err := s.CreateToken(ctx, "n", "bob", 200); err != nil || len(s.ListTokens()) != 3 {
		t.Errorf("what expired is kept: %v %v", s.ListTokens(), err)
	}
	if n, err := s.RevokeTokensOf(ctx, "alice"); n != 1 || err != nil {
		t.Errorf("%d revoked, %v", n, err)
	}
	if _, ok := s.CheckToken(ctx, forever, 300); ok {
		t.Error("a revoked token is valid")
	}
	if _, ok := s.CheckToken(ctx, root, 300); !ok {
		t.Error("the data directory's token is revoked with those of a user of that name")
	}
	if p := problems(t, s); len(p) > 0 {
		t.Error(p)
	}
}

// A line of the audit log about a command is there with the batch of its events or not at all, also
// without events. Its address is in the digests, and an older line, which has none, is as it was.
func TestAuditWithEvents(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.PutObjects(ctx, nil, []AuditLine{{Time: 1, Subject: "old", Verb: "v", Outcome: "done",
		Detail: "d"}}); err != nil {
		t.Fatal(err)
	}
	line := engine.Audit{Time: 2, Subject: "carol", Verb: "drain node", Object: "node n1", Outcome: "done",
		Detail: "a\x1fforged", From: "10.0.0.1"}
	b := engine.Batch{First: 1, Epoch: s.Epoch(), Audit: []engine.Audit{line}}
	bad := b
	bad.Ended = []model.JobStatus{{ID: 9}, {ID: 9}} // no job ends twice
	if err := s.Append(ctx, bad); err == nil {
		t.Fatal("appended")
	}
	if err := s.Append(ctx, b); err != nil {
		t.Fatal(err)
	}
	want := []AuditLine{
		{Seq: 2, Time: 2, Subject: "carol", Verb: "drain node", Object: "node n1", Outcome: "done", Detail: "a forged",
			From: "10.0.0.1"},
		{Seq: 1, Time: 1, Subject: "old", Verb: "v", Outcome: "done", Detail: "d"}}
	if got, err := s.AuditLines(ctx, 0, 10); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if p, err := s.VerifyAudit(ctx); err != nil || p.Problem != "" || p.Lines != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := s.writer.conn.ExecContext(ctx,
		"UPDATE audit SET detail = replace(detail, '10.0.0.1', '10.0.0.2')"); err != nil {
		t.Fatal(err)
	}
	if p, err := s.VerifyAudit(ctx); err != nil || p.Problem == "" {
		t.Errorf("a forged address: %+v, %v", p, err)
	}
}
