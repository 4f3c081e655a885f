package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/combsched/comb/internal/core/model"
)

// Loss says what a data directory has lost of what was acknowledged.
type Loss struct {
	// Problem is what shows the loss, in words.
	Problem string
	// First and Last are the lost events, 0 if none is known to be lost.
	First, Last uint64
	// FirstJob and LastJob are the jobs accepted in these events, 0 if none was.
	FirstJob, LastJob model.JobID
}

// Words describes the loss in a sentence without its end.
func (l *Loss) Words() string {
	text := l.Problem
	if l.First > 0 {
		text += fmt.Sprintf("; gone is what was acknowledged in %s", span("event", l.First, l.Last))
	}
	if l.FirstJob > 0 {
		text += " with " + span("job", uint64(l.FirstJob), uint64(l.LastJob))
	}
	return text
}

// span names consecutive numbers, and how many they are.
func span(what string, first, last uint64) string {
	if first == last {
		return fmt.Sprintf("%s %d", what, first)
	}
	return fmt.Sprintf("%ss %d to %d (%d %ss)", what, first, last, last-first+1, what)
}

// RepairAdvice says what can be done about a loss.
func RepairAdvice(dir string) string {
	return "nothing was started, stopped or changed: put the files back that are missing, or restore the whole directory from a backup; " +
		"what goes on without what is lost: comb journal repair --data " + dir
}

// inspect checks a directory's database without writing, and compares it with its seal. It sets
// s.schema, and opens readers where there are tables. It refuses a loss, or with note only
// records it.
func (s *Store) inspect(ctx context.Context, found contents, note bool) error {
	var sealErr error
	if s.sealed, sealErr = readSeal(s.path(sealFile)); sealErr != nil && !errors.Is(sealErr, fs.ErrNotExist) && !errors.Is(sealErr, errSeal) {
		return fmt.Errorf("cannot read %s of data directory %s: %w", sealFile, s.dir, sealErr)
	}
	s.clusterID = found.id
	log := size(s.path(logFile))
	tables, err := s.openInspected(ctx)
	if err != nil {
		return err
	}
	var loss *Loss
	switch {
	case tables > 0:
		loss, err = s.inspectTables(ctx, found, sealErr)
	case found.id != "" && sealErr != nil:
		err = &Refused{s.dir, "it belongs to cluster " + found.id + ", but its database " + databaseFile + " is empty",
			"restore it from a backup; nothing is started empty in its place"}
	case found.id != "":
		loss = &Loss{Problem: "its database " + databaseFile + " is empty"}
		loss.between(journalMark{}, s.sealed.journalMark)
	}
	if err != nil || loss == nil {
		return err
	}
	if loss.Last > 0 && log <= 0 {
		loss.Problem += " (its write-ahead log " + logFile + " is missing or empty: the two belong together)"
	} else if loss.Last > 0 {
		loss.Problem += " (its write-ahead log " + logFile + " is cut off, damaged or another one)"
	}
	if s.loss = loss; note {
		return nil
	}
	return &Refused{s.dir, loss.Words(), RepairAdvice(s.dir)}
}

// openInspected opens the readers and counts the tables.
func (s *reader) openInspected(ctx context.Context) (tables int, err error) {
	if size(s.path(databaseFile)) == 0 {
		return 0, nil // SQLite would remove a log beside it
	}
	if s.read, err = openReaders(s.path(databaseFile)); err != nil {
		return 0, err
	}
	if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return 0, s.explain("cannot read the database", err)
	}
	if tables == 0 {
		err := s.read.Close()
		s.read = nil
		return 0, err
	}
	return tables, nil
}

// inspectTables refuses a database that is foreign, newer or damaged, and returns what it lost.
func (s *Store) inspectTables(ctx context.Context, found contents, sealErr error) (*Loss, error) {
	c, err := s.read.Conn(ctx)
	if err != nil {
		return nil, s.explain("cannot open the database", err)
	}
	defer c.Close()
	if err := s.checkFormat(ctx, c); err != nil {
		return nil, err
	}
	head, gap, err := s.checkTables(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.checkIdentity(ctx, c, found, head.seq); err != nil {
		return nil, err
	}
	if sealErr == nil && s.sealed.cluster != s.clusterID {
		return nil, &Refused{s.dir, fmt.Sprintf("it belongs to cluster %s, but its %s to cluster %s", s.clusterID, sealFile, s.sealed.cluster),
			"put the files back that belong together"}
	}
	if gap != "" {
		loss := &Loss{Problem: gap}
		loss.between(head, s.sealed.journalMark)
		return loss, nil
	}
	return s.compare(ctx, head, sealErr)
}

// checkFormat refuses a file that is not a database of ours, is of a newer program, or is broken
// inside.
func (s *reader) checkFormat(ctx context.Context, c *sql.Conn) error {
	var app int
	var check string
	for query, to := range map[string]any{"PRAGMA application_id": &app, "PRAGMA user_version": &s.schema} {
		if err := c.QueryRowContext(ctx, query).Scan(to); err != nil {
			return s.explain("cannot read the database", err)
		}
	}
	switch {
	case app != applicationID:
		return &Refused{s.dir, "its " + databaseFile + " is not a database of Comb", "give another directory"}
	case s.schema > schemaVersion:
		return &Refused{s.dir, fmt.Sprintf("it was written by a newer version of Comb (schema %d; this program knows %d)",
			s.schema, schemaVersion), "start that version or a later one"}
	case s.schema < 1:
		return s.damaged("it has no version")
	}
	if err := c.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&check); err != nil {
		return s.explain("cannot check the database", err)
	}
	if check != "ok" {
		return s.unreadable(check)
	}
	return nil
}

// checkTables compares the ends of the tables with the head.
func (s *reader) checkTables(ctx context.Context, c *sql.Conn) (head journalMark, gap string, err error) {
	var events, archived, first uint64
	if s.schema == 1 {
		err = c.QueryRowContext(ctx, "SELECT seq, epoch, (SELECT coalesce(max(id), 0) FROM jobs) FROM head").Scan(&head.seq, &head.epoch, &head.job)
	} else {
		head, err = readMark(ctx, c)
	}
	if err == nil {
		err = c.QueryRowContext(ctx, `SELECT (SELECT coalesce(max(seq), 0) FROM events), (SELECT coalesce(max(last), 0) FROM archive),
			(SELECT coalesce(min(seq), 0) FROM events)`).Scan(&events, &archived, &first)
	}
	if err != nil {
		return head, "", s.explain("cannot read the database", err)
	}
	if max(events, archived) != head.seq || events != 0 && first != archived+1 {
		gap = fmt.Sprintf("its database %s is damaged (the journal should end at event %d; events %d to %d and an archive up to %d are there)",
			databaseFile, head.seq, first, events, archived)
		head.seq = min(head.seq, max(events, archived))
		if events != 0 && first != archived+1 {
			head.seq = archived
		}
	}
	return head, gap, nil
}

// checkIdentity compares the ids of directory and database, and checks that the key is theirs.
func (s *Store) checkIdentity(ctx context.Context, c *sql.Conn, found contents, head uint64) error {
	meta, err := readMeta(ctx, c)
	if err != nil {
		return s.explain("cannot read the database", err)
	}
	id := meta["cluster_id"]
	switch {
	case !validID(id):
		return s.damaged("it names no cluster")
	case found.id == "" && head > 0:
		return &Refused{s.dir, "its file cluster-id is gone (the database says " + id + ")",
			"if the database is the right one, write that id into the file cluster-id"}
	case found.id != "" && found.id != id:
		return &Refused{s.dir, fmt.Sprintf("it belongs to cluster %s, but its database to cluster %s", found.id, id),
			"put the files back that belong together"}
	}
	s.clusterID = id
	if s.key != nil && meta["key_mark"] != s.keyMark() {
		return &Refused{s.dir, "its file key belongs to another data directory: secrets could not be read",
			"restore the key file that belongs to this database"}
	}
	return nil
}

// compare compares the head of a database with its seal: the head must be at least as far, and
// agree with the seal up to where the seal is.
func (s *Store) compare(ctx context.Context, head journalMark, sealErr error) (*Loss, error) {
	seal := s.sealed.journalMark
	switch {
	case sealErr != nil && (s.schema == 1 || head.changes == 0):
		return nil, nil // it was never sealed
	case errors.Is(sealErr, fs.ErrNotExist):
		return &Loss{Problem: "its file " + sealFile + " is gone, which says how far the journal went"}, nil
	case sealErr != nil:
		return &Loss{Problem: "its file " + sealFile + " is damaged, which says how far the journal went (" + sealErr.Error() + ")"}, nil
	case seal.seq > head.seq:
		loss := &Loss{Problem: fmt.Sprintf("its database %s ends at event %d, and event %d was durable (%s says so)",
			databaseFile, head.seq, seal.seq, sealFile)}
		loss.between(head, seal)
		return loss, nil
	case s.schema == 1, seal.epoch > head.epoch, seal.changes > head.changes:
		return &Loss{Problem: fmt.Sprintf("its database %s is older than its %s: no event is missing, but changes of tokens may be", databaseFile, sealFile)}, nil
	}
	for _, m := range []journalMark{seal, head} {
		link, err := s.linkAt(ctx, m.seq)
		if err != nil && !errors.As(err, new(*Refused)) {
			return nil, s.explain("cannot read the journal", err)
		}
		if err != nil || link != m.link {
			return &Loss{Problem: fmt.Sprintf("its database %s has other events up to %d than were acknowledged: their checksums differ", databaseFile, m.seq)}, nil
		}
	}
	if seal.changes == head.changes && seal.rows != head.rows {
		return &Loss{Problem: fmt.Sprintf("its database %s has other finished jobs, secrets, tokens, users, groups, tags, "+
			"lines of the audit log or versions of the cluster file than its %s says", databaseFile, sealFile)}, nil
	}
	return nil, nil
}

// between fills in what lies between where a journal is and where it was.
func (l *Loss) between(is, was journalMark) {
	if was.seq > is.seq {
		l.First, l.Last = is.seq+1, was.seq
	}
	if was.job > is.job {
		l.FirstJob, l.LastJob = is.job+1, was.job
	}
}

func readMeta(ctx context.Context, c *sql.Conn) (map[string]string, error) {
	rows, err := c.QueryContext(ctx, "SELECT key, value FROM meta")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	meta := map[string]string{}
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return nil, err
		}
		meta[key] = value
	}
	return meta, rows.Err()
}
