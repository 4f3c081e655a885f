package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sched"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// applicationID marks a SQLite file as ours ("Comb").
	applicationID = 0x436F6D62
	// schemaVersion grows with every change of the tables.
	schemaVersion = 1
	// logPages of 4 KiB are how far the write-ahead log grows before it is moved
	// into the database; the reserve is twice that.
	logPages = 2000
)

// schema is version 1. Events move from events to archive when a snapshot has
// been cut; archive_jobs says which chunks hold events of a job.
const schema = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, epoch INTEGER NOT NULL);
INSERT INTO head VALUES (1, 0, 0);
CREATE TABLE events (
	seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL,
	job INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX events_job ON events (job, seq) WHERE job > 0;
CREATE TABLE archive (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE archive_jobs (job INTEGER NOT NULL, first INTEGER NOT NULL, PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, digest BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE jobs (
	id INTEGER PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL, vc TEXT NOT NULL, phase TEXT NOT NULL,
	submitted INTEGER NOT NULL, ended INTEGER NOT NULL, status BLOB NOT NULL);
CREATE INDEX jobs_name ON jobs (name, id);
CREATE INDEX jobs_user ON jobs (user, id);
CREATE INDEX jobs_vc ON jobs (vc, id);
CREATE TABLE secrets (job INTEGER PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE tokens (
	id TEXT PRIMARY KEY, name TEXT NOT NULL, subject TEXT NOT NULL, hash BLOB NOT NULL,
	created INTEGER NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
`

// writer is the one connection that writes. Its lock is held for a transaction.
type writer struct {
	db     *sql.DB
	log    string // path of the write-ahead log
	ahead  int64  // bytes of it that are taken from the disk before they are needed
	mu     sync.Mutex
	conn   *sql.Conn
	insert *sql.Stmt // one event
	answer *sql.Stmt // one answer
}

func openWriter(ctx context.Context, path string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(path,
		"journal_mode(WAL)", "synchronous(FULL)", fmt.Sprintf("wal_autocheckpoint(%d)", logPages), "journal_size_limit(67108864)",
		"cache_size(-16000)", "secure_delete(FAST)", "temp_store(MEMORY)", "cell_size_check(ON)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &writer{db: db, conn: conn, log: path + "-wal"}, nil
}

func openReaders(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, "query_only(ON)", "cache_size(-4000)", "temp_store(MEMORY)", "cell_size_check(ON)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return db, nil
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{"busy_timeout(10000)"}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

func (w *writer) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{w.insert, w.answer} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// transact runs f in a transaction that is durable when it returns nil; after an
// error nothing of it is kept. Once begun it is not cut off by ctx: a caller that
// hung up must not leave the one connection in the middle of something.
func (w *writer) transact(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	_, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		err = f(ctx, w.conn)
	}
	if err == nil {
		_, err = w.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		// SQLite has rolled back by itself after some errors; then this one fails.
		_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
	}
	return err
}

// shrinkLog moves what is in the write-ahead log into the database and cuts the
// log to nothing, so that what is free serves the next appends. It needs as much
// space for a moment as the log has: that is why the reserve is larger.
func (w *writer) shrinkLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Readers or a disk that is still full may be in its way: then the log stays.
	_, _ = w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	w.takeAhead()
}

// takeAhead takes the log's blocks from the disk, so that a task that fills the
// disk cannot have them: stops and exits are written there. Where the file
// system cannot, or has no room, appends fail until there is room again.
func (w *writer) takeAhead() {
	f, err := os.OpenFile(w.log, os.O_WRONLY, 0) // unlike the database, SQLite locks nothing of this file
	if err != nil {
		return
	}
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, w.ahead)
	_ = f.Close()
}

// openDatabase opens, and creates or checks, the database of a writing store.
func (s *Store) openDatabase(ctx context.Context, found contents, now sched.Time) error {
	if err := s.closeToOthers(); err != nil {
		return err
	}
	var err error
	if s.writer, err = openWriter(ctx, s.path(databaseFile)); err != nil {
		return s.explain("cannot open the database", err)
	}
	var tables int
	if err := s.writer.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return s.explain("cannot read the database", err)
	}
	switch {
	case tables == 0 && found.id != "":
		return &Refused{s.dir, "it belongs to cluster " + found.id + ", but its database " + databaseFile + " is empty",
			"restore it from a backup; nothing is started empty in its place"}
	case tables == 0:
		s.clusterID = newID()
		err = s.createDatabase(ctx, now)
	default:
		s.clusterID = found.id
		err = s.checkExisting(ctx, found)
	}
	if err != nil {
		return err
	}
	if found.id == "" {
		// Last of all: with this file the directory is ours.
		if err := writeFile(s.path(clusterIDFile), []byte(s.clusterID+"\n")); err != nil {
			return fmt.Errorf("cannot write the cluster id: %w", err)
		}
	}
	s.writer.insert, err = s.writer.conn.PrepareContext(ctx,
		"INSERT INTO events (seq, time, kind, version, job, sum, data) VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	s.read, err = openReaders(s.path(databaseFile))
	return err
}

// closeToOthers makes the database for its owner only, also in a directory that
// others may enter: it holds all jobs' commands. SQLite gives its other files the
// same mode.
func (s *Store) closeToOthers() error {
	f, err := os.OpenFile(s.path(databaseFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make the database: %w", err)
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(s.path(databaseFile+end), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot close the database to other users: %w", err)
		}
	}
	return nil
}

func (s *Store) createDatabase(ctx context.Context, now sched.Time) error {
	err := s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("%s PRAGMA application_id = %d; PRAGMA user_version = %d;",
			schema, applicationID, schemaVersion))
		if err != nil {
			return err
		}
		for key, value := range map[string]string{
			"cluster_id": s.clusterID, "key_mark": s.keyMark(), "created": fmt.Sprint(int64(now))} {
			if _, err := tx.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES (?, ?)", key, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot create the database in %s: %w", s.dir, err)
	}
	return nil
}

// checkExisting checks the database and that the key file belongs to it.
func (s *Store) checkExisting(ctx context.Context, found contents) error {
	meta, err := s.checkDatabase(ctx, s.writer.conn, found)
	if err != nil {
		return err
	}
	if meta["key_mark"] != s.keyMark() {
		return &Refused{s.dir, "its file key belongs to another data directory: secrets could not be read",
			"restore the key file that belongs to this database"}
	}
	return nil
}

// checkDatabase refuses a database that is foreign, newer or damaged, and
// returns what its table meta says.
func (s *Store) checkDatabase(ctx context.Context, c *sql.Conn, found contents) (map[string]string, error) {
	var app, version int
	var check string
	for query, to := range map[string]any{"PRAGMA application_id": &app, "PRAGMA user_version": &version} {
		if err := c.QueryRowContext(ctx, query).Scan(to); err != nil {
			return nil, s.explain("cannot read the database", err)
		}
	}
	switch {
	case app != applicationID:
		return nil, &Refused{s.dir, "its " + databaseFile + " is not a database of Comb", "give another directory"}
	case version > schemaVersion:
		return nil, &Refused{s.dir, fmt.Sprintf("it was written by a newer version of Comb (schema %d; this program knows %d)",
			version, schemaVersion), "start that version or a later one"}
	}
	if err := c.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&check); err != nil {
		return nil, s.explain("cannot check the database", err)
	}
	if check != "ok" {
		return nil, s.damaged(check)
	}
	meta, err := readMeta(ctx, c)
	if err != nil {
		return nil, s.explain("cannot read the database", err)
	}
	return meta, s.checkIdentity(ctx, c, found, meta["cluster_id"])
}

// checkIdentity compares the ids of directory and database, and the ends of the
// tables with the head.
func (s *Store) checkIdentity(ctx context.Context, c *sql.Conn, found contents, id string) error {
	var head, events, archived, first uint64
	err := c.QueryRowContext(ctx, `SELECT (SELECT seq FROM head), (SELECT coalesce(max(seq), 0) FROM events),
		(SELECT coalesce(max(last), 0) FROM archive), (SELECT coalesce(min(seq), 0) FROM events)`).
		Scan(&head, &events, &archived, &first)
	if err != nil {
		return s.explain("cannot read the database", err)
	}
	switch {
	case found.id == "" && head > 0:
		return &Refused{s.dir, "its file cluster-id is gone (the database says " + id + ")",
			"if the database is the right one, write that id into the file cluster-id"}
	case found.id != "" && found.id != id:
		return &Refused{s.dir, fmt.Sprintf("it belongs to cluster %s, but its database to cluster %s", found.id, id),
			"put the files back that belong together"}
	case max(events, archived) != head, events != 0 && first != archived+1:
		return s.damaged(fmt.Sprintf("the journal should end at event %d; events %d to %d and an archive up to %d are there",
			head, first, events, archived))
	}
	s.clusterID = id
	return nil
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

// bumpEpoch begins this process's epoch: appends of an earlier one are refused.
func (s *Store) bumpEpoch(ctx context.Context) error {
	err := s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		return tx.QueryRowContext(ctx, "UPDATE head SET epoch = epoch + 1 RETURNING epoch").Scan(&s.epoch)
	})
	if err != nil {
		return s.explain("cannot begin a new epoch", err)
	}
	return nil
}

// explain turns an error of SQLite that means damage into a refusal.
func (s *Store) explain(doing string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return s.damaged(err.Error())
		}
	}
	return fmt.Errorf("%s in %s: %w", doing, s.dir, err)
}

func (s *Store) damaged(what string) error {
	return &Refused{s.dir, "its database " + databaseFile + " is damaged (" + what + ")",
		"keep a copy of it as it is, then restore the directory from a backup"}
}

var _ engine.Journal = (*Store)(nil)
