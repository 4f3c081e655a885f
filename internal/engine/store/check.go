package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Check implements engine.Tables. It checks SQLite's own structures, snapshots, and the list of
// the archive's jobs; each finished job, secret and token against its sum, and all of them
// against the head's sum; and each answer to an idempotency key. The events themselves are
// checked as they are replayed.
func (s *reader) Check(ctx context.Context, problem func(string)) (engine.Checked, error) {
	var n engine.Checked
	if err := s.checkStructure(ctx, problem); err != nil {
		return n, err
	}
	err := s.snapshots(ctx, "ASC", func(k engine.KeptSnapshot, intact bool) error {
		if !intact {
			problem(fmt.Sprintf("the snapshot of event %d is damaged; a start uses an older one, or reads more events", k.Seq))
		}
		return nil
	})
	if err == nil {
		err = s.checkArchiveJobs(ctx, problem)
	}
	if err == nil && s.schema > 1 {
		err = s.checkRows(ctx, &n, problem)
	}
	if err == nil && s.schema > 2 {
		err = s.checkAnswers(ctx, &n, problem)
	}
	return n, err
}

func (s *reader) checkStructure(ctx context.Context, problem func(string)) error {
	rows, err := s.read.QueryContext(ctx, "PRAGMA integrity_check(10)")
	if err != nil {
		return s.explain("cannot check the database", err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return s.explain("cannot check the database", err)
		}
		if text != "ok" {
			problem("the database " + databaseFile + " is damaged: " + text)
		}
	}
	return s.explain("cannot check the database", rows.Err())
}

// checkArchiveJobs compares the list of which chunk holds events of which job with the chunks.
func (s *reader) checkArchiveJobs(ctx context.Context, problem func(string)) error {
	for after := uint64(0); ; {
		chunk, err := s.chunk(ctx, "WHERE first > ? ORDER BY first LIMIT 1", after)
		if err != nil || len(chunk) == 0 {
			return err
		}
		after = chunk[0].seq
		rows, err := s.read.QueryContext(ctx, "SELECT job FROM archive_jobs WHERE first = ?", after)
		if err != nil {
			return s.explain("cannot read the archive", err)
		}
		listed, err := scanIDs(rows)
		if err != nil {
			return s.explain("cannot read the archive", err)
		}
		if slices.Sort(listed); !slices.Equal(listed, jobsIn(chunk)) {
			problem(fmt.Sprintf("the list of the jobs in the archive of events %d to %d is damaged: events of some are not found", after, chunk[len(chunk)-1].seq))
		}
	}
}

func scanIDs(rows *sql.Rows) (ids []model.JobID, err error) {
	defer rows.Close()
	for rows.Next() {
		var id model.JobID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// checkRows reads all rows besides the journal in one transaction, so that a server may go on.
func (s *reader) checkRows(ctx context.Context, n *engine.Checked, problem func(string)) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.explain("cannot read the database", err)
	}
	defer func() { _ = tx.Rollback() }()
	m, err := readMark(ctx, tx)
	if err != nil {
		return s.explain("cannot read the database", err)
	}
	counts := map[string]*int{"jobs": &n.Finished, "secrets": &n.Secrets, "tokens": &n.Tokens, "objects": &n.Objects, "audit": &n.Audit, "removed": &n.Removed, "configs": &n.Configs, "tags": &n.Tags}
	damaged := false
	total, err := sumRows(ctx, tx, s.schema, func(t rowTable, key any, sum, kept digest, _ string) error {
		*counts[t.name]++
		if sum != kept {
			damaged = true
			problem(fmt.Sprintf("%s %v is damaged: its checksum does not match", t.what, key))
		}
		return nil
	})
	if err != nil {
		return s.explain("cannot read the database", err)
	}
	if s.schema >= 4 {
		if err := checkAudit(ctx, tx, problem); err != nil {
			return s.explain("cannot read the audit log", err)
		}
	}
	if total != m.rows && !damaged {
		problem("a finished job, a secret, a token, a user, a group, a line of the audit log, a version of the cluster file, a tag or a note of what was removed is missing, or there is one too many: their sum is not what it was")
	}
	return nil
}

// checkAnswers reads the answers to idempotency keys in one transaction: each against its
// checksum, and their numbers against the head.
func (s *reader) checkAnswers(ctx context.Context, n *engine.Checked, problem func(string)) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.explain("cannot read the database", err)
	}
	defer func() { _ = tx.Rollback() }()
	var before, last int64
	if err := tx.QueryRowContext(ctx, "SELECT forgot, answered FROM head").Scan(&before, &last); err != nil {
		return s.explain("cannot read the database", err)
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, mark, subject, at, sum, data FROM answers ORDER BY id")
	if err != nil {
		return s.explain("cannot read the answers", err)
	}
	defer rows.Close()
	missing := func(next int64) {
		which := fmt.Sprintf("answers %d to %d are", before+1, next-1)
		if next == before+2 {
			which = fmt.Sprintf("answer %d is", before+1)
		}
		if next > before+1 {
			problem(which + " missing: a request that comes again with such an idempotency key would be done again")
		}
	}
	for rows.Next() {
		var r answerRow
		if err := rows.Scan(&r.id, &r.mark, &r.subject, &r.at, &r.sum, &r.data); err != nil {
			return s.explain("cannot read the answers", err)
		}
		n.Answers++
		missing(r.id)
		if before = r.id; r.id > last {
			problem(fmt.Sprintf("answer %d is one too many: the last one was %d", r.id, last))
		}
		if bad := r.damage(); bad != "" {
			problem(bad)
		}
	}
	missing(last + 1)
	return s.explain("cannot read the answers", rows.Err())
}
