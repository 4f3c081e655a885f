package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// AuditLine is one line of the audit log: what a subject did, or was refused, and when.
type AuditLine struct {
	Seq     int64
	Time    model.Time
	Subject string
	Verb    string
	Object  string
	Outcome string // "done" or "refused"
	Detail  string
	From    string // the address of the request; "": unknown, or the server itself
}

// fromMark separates the detail in a row from the address behind it. The address was added after
// the table: in the same column the digests cover it, and older lines keep their digests.
const fromMark = "\x1f"

// encodedDetail is the detail as it is stored.
func (l *AuditLine) encodedDetail() string {
	if l.From == "" {
		return l.Detail
	}
	return l.Detail + fromMark + l.From
}

// decodeDetail reads the detail as it is stored.
func (l *AuditLine) decodeDetail() {
	if i := strings.LastIndex(l.Detail, fromMark); i >= 0 {
		l.Detail, l.From = l.Detail[:i], l.Detail[i+len(fromMark):]
	}
}

// sum is the line's own digest. link is the digest of the line and all before it.
func (l *AuditLine) sum(link digest) digest {
	return rowSum("audit", l.Seq, int64(l.Time), l.Subject, l.Verb, l.Object, l.Outcome, l.encodedDetail(), link[:])
}

func (l *AuditLine) link(before digest) digest {
	own := rowSum("audit line", l.Seq, int64(l.Time), l.Subject, l.Verb, l.Object, l.Outcome, l.encodedDetail())
	return sumOf(before[:], own[:])
}

// addAudit appends lines.
func addAudit(ctx context.Context, tx *sql.Conn, m *journalMark, lines []AuditLine) error {
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
		l.Detail = strings.ReplaceAll(l.Detail, fromMark, " ")
		link = l.link(link)
		sum := l.sum(link)
		m.rows.add(sum)
		if _, err := tx.ExecContext(ctx, "INSERT INTO audit (seq, time, subject, verb, object, outcome, detail, link, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			l.Seq, l.Time, l.Subject, l.Verb, l.Object, l.Outcome, l.encodedDetail(), link[:], sum[:]); err != nil {
			return err
		}
	}
	return nil
}

// Audit is a line that is written with a batch of events.
type Audit = engine.Audit

// auditOf converts the lines of a batch.
func auditOf(of []engine.Audit) (lines []AuditLine) {
	for _, a := range of {
		lines = append(lines, AuditLine{Time: a.Time, Subject: a.Subject, Verb: a.Verb, Object: a.Object,
			Outcome: a.Outcome,
			Detail:  a.Detail, From: a.From})
	}
	return lines
}

// AuditLines returns up to limit lines before a line (0: from the newest), newest first.
func (s *Store) AuditLines(ctx context.Context, before int64, limit int) ([]AuditLine, error) {
	const fields = "seq, time, subject, verb, object, outcome, detail, link, sum"
	rows, err := s.read.QueryContext(ctx, "SELECT "+fields+" FROM audit "+
		"WHERE ? = 0 OR seq < ? ORDER BY seq DESC LIMIT ?", before, before, limit)
	if err != nil {
		return nil, s.explain("cannot read the audit log", err)
	}
	defer rows.Close()
	var out []AuditLine
	for rows.Next() {
		var l AuditLine
		var link, kept digest
		err := rows.Scan(&l.Seq, &l.Time, &l.Subject, &l.Verb, &l.Object, &l.Outcome, &l.Detail, &link, &kept)
		if err != nil {
			return nil, s.explain("cannot read the audit log", err)
		}
		if l.sum(link) != kept {
			return nil, s.damaged(fmt.Sprintf("line %d of the audit log is not what was saved", l.Seq))
		}
		l.decodeDetail()
		out = append(out, l)
	}
	return out, s.explain("cannot read the audit log", rows.Err())
}

// forgetVerb is the verb of a line, by the server's own subject, that says which lines before it
// were removed.
const (
	forgetVerb  = "forget lines"
	auditServer = "system"
	forgetLines = 1000 // in one transaction at most
)

// forgotUpTo reads from a line with forgetVerb the last removed line, and its link.
func (l *AuditLine) forgotUpTo() (last int64, link digest, ok bool) {
	var head string
	if l.Subject != auditServer || l.Verb != forgetVerb {
		return 0, link, false
	}
	if n, err := fmt.Sscanf(l.Detail, "forgot lines 1 to %d, head %s", &last, &head); n != 2 || err != nil {
		return 0, link, false
	}
	b, err := hex.DecodeString(head)
	return last, link, err == nil && copy(link[:], b) == len(link) && len(b) == len(link)
}

// ForgetAudit removes the oldest lines of the audit log from before an instant, at most 1,000. It
// adds a line that says so, with which the rest can still be proven. It returns how many; fewer
// than 1,000 means that none is left to remove.
func (s Retention) ForgetAudit(ctx context.Context, before, now model.Time) (n int, err error) {
	err = s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		rows, err := tx.QueryContext(ctx, "SELECT seq, time, subject, verb, object, outcome, detail, link FROM audit ORDER BY seq LIMIT ?", forgetLines)
		if err != nil {
			return err
		}
		defer rows.Close()
		var last int64
		var link digest
		for rows.Next() {
			var l AuditLine
			var kept digest
			if err := rows.Scan(&l.Seq, &l.Time, &l.Subject, &l.Verb, &l.Object, &l.Outcome, &l.Detail, &kept); err != nil {
				return err
			}
			if l.Time >= before {
				break
			}
			n, last, link = n+1, l.Seq, kept
			m.rows.remove(l.sum(kept))
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
			return err
		}
		line := AuditLine{Time: now, Subject: auditServer, Verb: forgetVerb, Object: "the audit log", Outcome: "done",
			Detail: fmt.Sprintf("forgot lines 1 to %d, head %x", last, link[:])}
		if err := addAudit(ctx, tx, m, []AuditLine{line}); err != nil { // it follows the last line of all
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM audit WHERE seq <= ?", last)
		return err
	})
	if err != nil {
		return 0, s.explain("cannot forget old lines of the audit log", s.classify(err))
	}
	return n, nil
}

// OldestAudit is the time of the oldest line of the audit log; 0: there is none.
func (s Retention) OldestAudit(ctx context.Context) (at model.Time, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT time FROM audit ORDER BY seq LIMIT 1").Scan(&at)
	return at, s.explain("cannot read the audit log", ignoreNoRows(err))
}

// checkAudit follows the chain of the audit log.
func checkAudit(ctx context.Context, c querier, problem func(string)) error {
	_, err := followAudit(ctx, c, problem)
	return err
}

// AuditProof says how far the audit log's chain is intact.
type AuditProof struct {
	Forgotten int64  // lines 1 to this one were removed, as a later line says
	Lines     int64  // up to this line each follows from the one before
	Head      string // the digest of that line and all before, in hex; "": there is none
	Problem   string // what is wrong with the next line; "": nothing
}

// followAudit reads the audit log up to the first line that does not follow from those before it.
// Where lines were removed it begins behind them, with the link from the latest line about a
// removal, which must exist, too.
func followAudit(ctx context.Context, c querier, problem func(string)) (p AuditProof, err error) {
	var link digest
	var said AuditLine
	err = c.QueryRowContext(ctx, "SELECT seq, subject, verb, detail FROM audit WHERE subject = ? AND verb = ? ORDER BY seq DESC LIMIT 1", auditServer, forgetVerb).Scan(
		&said.Seq, &said.Subject, &said.Verb, &said.Detail)
	if ignoreNoRows(err) != nil {
		return p, err
	}
	if err == nil {
		var ok bool
		if p.Forgotten, link, ok = said.forgotUpTo(); !ok {
			problem(fmt.Sprintf("line %d of the audit log does not say which lines were forgotten", said.Seq))
			return p, nil
		}
	}
	p.Lines = p.Forgotten
	rows, err := c.QueryContext(ctx, "SELECT seq, time, subject, verb, object, outcome, detail, link FROM audit ORDER BY seq")
	if err != nil {
		return p, err
	}
	defer rows.Close()
	for rows.Next() {
		var l AuditLine
		var kept digest
		if err := rows.Scan(&l.Seq, &l.Time, &l.Subject, &l.Verb, &l.Object, &l.Outcome, &l.Detail, &kept); err != nil {
			return p, err
		}
		next := l.link(link)
		if l.Seq != p.Lines+1 || next != kept {
			problem(fmt.Sprintf("the audit log does not follow from what is before line %d: a line was changed, removed or put in", l.Seq))
			return p, nil
		}
		p.Lines, link, p.Head = l.Seq, next, hex.EncodeToString(next[:])
	}
	return p, rows.Err()
}

// VerifyAudit follows the chain of the audit log as it is now.
func (s *reader) VerifyAudit(ctx context.Context) (AuditProof, error) {
	var text string
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // lines may be removed meanwhile
	if err != nil {
		return AuditProof{}, s.explain("cannot read the audit log", err)
	}
	defer func() { _ = tx.Rollback() }()
	p, err := followAudit(ctx, tx, func(problem string) { text = problem })
	p.Problem = text
	return p, s.explain("cannot read the audit log", err)
}
