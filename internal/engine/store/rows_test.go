package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Each row beside the journal is held to its checksum by what reads it, and not by a verification
// alone: a damaged version of the cluster file is no other version.
func TestDamagedRowIsNoAnswer(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	s := open(t, whole)
	b := submission(s, 1, 1, "source")
	b.Records = append(b.Records, model.Record{Seq: 3, Event: model.JobEnded{Job: 1}})
	b.Ended = []model.JobStatus{{ID: 1, Name: "done", User: "ann", Phase: model.Succeeded, Ended: 77}}
	line := AuditLine{Time: 4, Subject: "ann", Verb: "change user", Object: "user bob", Outcome: "done", Detail: "groups"}
	first := engine.ConfigVersion{Time: 7, Author: "ann", Reason: "why"}
	for _, err := range []error{
		s.Append(ctx, b), s.BeginConfig(ctx, first, []byte("first")), s.EndConfig(ctx, "one"),
		s.BeginConfig(ctx, engine.ConfigVersion{Time: 8}, []byte("second")), s.EndConfig(ctx, "two"),
		Tags{s}.Tag(ctx, 1, "good", true, 9), s.PutObjects(ctx, nil, []AuditLine{line}),
		Retention{s}.MarkRemoved(ctx, []engine.Removed{{Job: 1, At: 5, Rule: "kept 30d"}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	one := []model.JobID{1}
	reads := map[string]func(s *Store) error{
		"the versions":        func(s *Store) error { _, err := s.Configs(ctx, 0, 10); return err },
		"the first version":   func(s *Store) error { _, _, _, err := s.ConfigFile(ctx, 1); return err },
		"the tags":            func(s *Store) error { _, err := Tags{s}.Of(ctx, one); return err },
		"the jobs of a tag":   func(s *Store) error { _, err := Tags{s}.With(ctx, "good"); return err },
		"the audit log":       func(s *Store) error { _, err := s.AuditLines(ctx, 0, 10); return err },
		"what was removed":    func(s *Store) error { _, _, err := s.Removed(ctx, 1); return err },
		"when it ended":       func(s *Store) error { _, err := Retention{s}.EndedOf(ctx, one); return err },
		"the ended job":       func(s *Store) error { _, _, err := s.Job(ctx, 1); return err },
		"the present version": func(s *Store) error { _, err := s.Configs(ctx, 0, 1); return err },
	}
	versions := []string{"the versions", "the first version"}
	for sql, fails := range map[string][]string{
		"SELECT 1": nil,
		"UPDATE configs SET author = 'eve' WHERE version = 1":         versions,
		"UPDATE configs SET reason = '' WHERE version = 1":            versions,
		"UPDATE configs SET at = at + 1 WHERE version = 1":            versions,
		"UPDATE configs SET tag = 'x' WHERE version = 1":              versions,
		"UPDATE configs SET restored = 9 WHERE version = 1":           versions,
		"UPDATE configs SET file = x'00' WHERE version = 1":           versions,
		"UPDATE configs SET sum = zeroblob(16) WHERE version = 1":     versions,
		"UPDATE configs SET file = x'00' WHERE version = 2":           {"the versions", "the present version"},
		"UPDATE tags SET job = 2":                                     {"the jobs of a tag"},
		"UPDATE tags SET tag = 'bad'":                                 {"the tags"},
		"UPDATE tags SET sum = zeroblob(16)":                          {"the tags", "the jobs of a tag"},
		"UPDATE audit SET subject = 'eve' WHERE verb = 'change user'": {"the audit log"},
		"UPDATE audit SET detail = '' WHERE verb = 'change user'":     {"the audit log"},
		"UPDATE removed SET rule = 'none'":                            {"what was removed"},
		"UPDATE jobs SET ended = 78":                                  {"when it ended", "the ended job"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		copyDir(t, whole, dir)
		execSQL(sql)(t, dir)
		s := open(t, dir)
		damaged := map[string]bool{}
		for _, what := range fails {
			damaged[what] = true
		}
		for what, read := range reads {
			err := read(s)
			if (err != nil) != damaged[what] || err != nil && !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %s: %v", sql, what, err)
			}
		}
		said := 0
		if _, err := s.Check(ctx, func(string) { said++ }); err != nil || (said > 0) != (len(fails) > 0) {
			t.Errorf("%s: a verification says %d problems, %v", sql, said, err)
		}
		_ = s.Close() // it is closed again with the test
	}
}
