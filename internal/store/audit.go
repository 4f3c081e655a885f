package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/sched"
)

// AuditLine is one line of the audit log: which subject did, or was refused, what, and when.
type AuditLine struct {
	Seq     int64
	Time    sched.Time
	Subject string
	Verb    string
	Object  string
	Outcome string // "done" or "refused"
	Detail  string
}

// sum is the line's own; link that of the line and all before it.
func (l *AuditLine) sum(link digest) digest {
	return rowSum("audit", l.Seq, int64(l.Time), l.Subject, l.Verb, l.Object, l.Outcome, l.Detail, link[:])
}

func (l *AuditLine) link(before digest) digest {
	own := rowSum("audit line", l.Seq, int64(l.Time), l.Subject, l.Verb, l.Object, l.Outcome, l.Detail)
	return sumOf(before[:], own[:])
}

// addAudit adds lines behind the last one.
func addAudit(ctx context.Context, tx *sql.Conn, m *mark, lines []AuditLine) error {
	if len(lines) == 0 {
		return nil
	}
	var last int64
	var link digest
	err := tx.QueryRowContext(ctx, "SELECT seq, link FROM audit ORDER BY seq DESC LIMIT 1").Scan(&last, &link)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	for _, l := range lines {
		last++
		l.Seq = last
		link = l.link(link)
		sum := l.sum(link)
		m.rows.add(sum)
		if _, err := tx.ExecContext(ctx, "INSERT INTO audit (seq, time, subject, verb, object, outcome, detail, link, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			l.Seq, l.Time, l.Subject, l.Verb, l.Object, l.Outcome, l.Detail, link[:], sum[:]); err != nil {
			return err
		}
	}
	return nil
}

// AuditLines returns up to limit lines of the audit log before a line (0: from the newest), newest first.
func (s *Store) AuditLines(ctx context.Context, before int64, limit int) ([]AuditLine, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT seq, time, subject, verb, object, outcome, detail FROM audit WHERE ? = 0 OR seq < ? ORDER BY seq DESC LIMIT ?", before, before, limit)
	if err != nil {
		return nil, s.explain("cannot read the audit log", err)
	}
	defer rows.Close()
	var out []AuditLine
	for rows.Next() {
		var l AuditLine
		if err := rows.Scan(&l.Seq, &l.Time, &l.Subject, &l.Verb, &l.Object, &l.Outcome, &l.Detail); err != nil {
			return nil, s.explain("cannot read the audit log", err)
		}
		out = append(out, l)
	}
	return out, s.explain("cannot read the audit log", rows.Err())
}

// checkAudit follows the chain of the audit log.
func checkAudit(ctx context.Context, c querier, problem func(string)) error {
	_, _, err := followAudit(ctx, c, problem)
	return err
}

// followAudit reads the audit log up to the first line that does not follow from what is before it. It returns how
// many do, and the link of the last of them.
func followAudit(ctx context.Context, c querier, problem func(string)) (lines int64, link digest, err error) {
	rows, err := c.QueryContext(ctx, "SELECT seq, time, subject, verb, object, outcome, detail, link FROM audit ORDER BY seq")
	if err != nil {
		return 0, link, err
	}
	defer rows.Close()
	for rows.Next() {
		var l AuditLine
		var kept digest
		if err := rows.Scan(&l.Seq, &l.Time, &l.Subject, &l.Verb, &l.Object, &l.Outcome, &l.Detail, &kept); err != nil {
			return lines, link, err
		}
		next := l.link(link)
		if l.Seq != lines+1 || next != kept {
			problem(fmt.Sprintf("the audit log does not follow from what is before line %d: a line was changed, removed or put in", l.Seq))
			return lines, link, nil
		}
		lines, link = l.Seq, next
	}
	return lines, link, rows.Err()
}

// VerifyAudit follows the chain of the audit log as it is now. It returns how many lines follow from one another, the
// digest of the last of them with all before, and what is wrong with the next one; "" is nothing.
func (s *reader) VerifyAudit(ctx context.Context) (lines int64, head, problem string, err error) {
	lines, link, err := followAudit(ctx, s.read, func(text string) { problem = text })
	if lines > 0 {
		head = hex.EncodeToString(link[:])
	}
	return lines, head, problem, s.explain("cannot read the audit log", err)
}
