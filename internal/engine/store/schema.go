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

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"golang.org/x/sys/unix"
)

const (
	// applicationID marks a SQLite file as ours ("Comb").
	applicationID = 0x436F6D62
	// schemaVersion grows with every change of the tables.
	schemaVersion = 8
	// logPages is how many pages of 4 KiB the write-ahead log may have before it is moved into
	// the database; the reserve is twice that.
	logPages = 2000
)

// schema is version 8. Events move from events to archive when a snapshot has been cut;
// archive_jobs says which chunks hold events of a job. A link is the digest of an event, or of the
// last one of a chunk, and of all before it. A sum is the digest of its row; head.rows adds them
// all up. Version 1 had neither, version 2 did not say in its head which answers there are, version
// 3 knew no people, in version 4 a name was one job's of all users, version 5 had no index for
// lists, version 6 neither said what was removed of ended jobs nor kept versions of the cluster
// file, and version 7 had no tags: migrate.go.
const schema = answersTable + peopleTables + keepTables + tagsTable + `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
	changes INTEGER NOT NULL, job INTEGER NOT NULL, link BLOB NOT NULL, rows BLOB NOT NULL,
	forgot INTEGER NOT NULL, answered INTEGER NOT NULL);
INSERT INTO head VALUES (1, 0, 0, 0, 0, x'', x'', 0, 0);
CREATE TABLE events (
	seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL,
	job INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL, link BLOB NOT NULL);
CREATE INDEX events_job ON events (job, seq) WHERE job > 0;
CREATE TABLE archive (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, data BLOB NOT NULL, link BLOB NOT NULL);
CREATE TABLE archive_jobs (job INTEGER NOT NULL, first INTEGER NOT NULL, PRIMARY KEY (job, first)) WITHOUT ROWID;
CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, digest BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE jobs (
	id INTEGER PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL, vc TEXT NOT NULL, phase TEXT NOT NULL,
	submitted INTEGER NOT NULL, ended INTEGER NOT NULL, status BLOB NOT NULL, sum BLOB NOT NULL);
CREATE INDEX jobs_name ON jobs (user, name, id);
CREATE INDEX jobs_user ON jobs (user, id, vc, phase, name);
CREATE INDEX jobs_vc ON jobs (vc, id, user, phase, name);
CREATE INDEX jobs_list ON jobs (id, user, vc, phase, name);
CREATE TABLE secrets (job INTEGER PRIMARY KEY, sealed BLOB NOT NULL, sum BLOB NOT NULL);
CREATE TABLE tokens (
	id TEXT PRIMARY KEY, name TEXT NOT NULL, subject TEXT NOT NULL, hash BLOB NOT NULL,
	created INTEGER NOT NULL, used INTEGER NOT NULL, sum BLOB NOT NULL, bounds TEXT NOT NULL) WITHOUT ROWID;
`

// peopleTables hold users and groups, each as one object with a version, and the audit log, which
// is a chain like the journal.
const peopleTables = `
CREATE TABLE objects (id TEXT PRIMARY KEY, version INTEGER NOT NULL, data BLOB NOT NULL, sum BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE audit (
	seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, subject TEXT NOT NULL, verb TEXT NOT NULL, object TEXT NOT NULL,
	outcome TEXT NOT NULL, detail TEXT NOT NULL, link BLOB NOT NULL, sum BLOB NOT NULL);
`

// keepTables record of which ended jobs the files were removed, and hold the cluster files that
// were applied.
const keepTables = `
CREATE TABLE removed (job INTEGER PRIMARY KEY, at INTEGER NOT NULL, rule TEXT NOT NULL, sum BLOB NOT NULL);
CREATE TABLE configs (
	version INTEGER PRIMARY KEY, at INTEGER NOT NULL, author TEXT NOT NULL, reason TEXT NOT NULL, tag TEXT NOT NULL,
	restored INTEGER NOT NULL, sum BLOB NOT NULL, file BLOB NOT NULL);
`

// tagsTable holds the tags of jobs.
const tagsTable = `
CREATE TABLE tags (id INTEGER PRIMARY KEY, job INTEGER NOT NULL, tag TEXT NOT NULL, sum BLOB NOT NULL, UNIQUE (job, tag));
CREATE INDEX tags_tag ON tags (tag, job);
`

// writer is the one connection that writes. Its lock is held during a transaction.
type writer struct {
	db     *sql.DB
	log    string // path of the write-ahead log
	ahead  int64  // its bytes that are allocated before they are needed
	mu     sync.Mutex
	conn   *sql.Conn
	insert *sql.Stmt // inserts one event
	answer *sql.Stmt // inserts one answer
}

func openWriter(ctx context.Context, path string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(path, "rw",
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
	db, err := sql.Open("sqlite", dsn(path, "ro", "query_only(ON)", "cache_size(-4000)", "temp_store(MEMORY)", "cell_size_check(ON)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return db, nil
}

// dsn names a database; mode "ro" also keeps the log when the last connection closes.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{"busy_timeout(10000)"}, pragmas...), "mode": {mode}}
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

// transact runs f in a transaction that is durable when it returns nil; after an error nothing of
// it is kept. Once begun it is not cut off by ctx: a caller that went away must not leave the one
// connection in the middle of a transaction.
func (w *writer) transact(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begin(ctx, f)
}

// begin is transact with the lock held.
func (w *writer) begin(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
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
		// After some errors SQLite has rolled back by itself; then this fails.
		_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
	}
	return err
}

// add inserts one linked event.
func (w *writer) add(ctx context.Context, e *stored) error {
	_, err := w.insert.ExecContext(ctx, e.seq, e.time, string(e.kind), e.version, e.job, e.sum, e.data, e.link[:])
	return err
}

// addAll links records to the chain, inserts them, and advances the mark.
func (w *writer) addAll(ctx context.Context, records []model.Record, m *journalMark) error {
	for _, r := range records {
		e, err := encode(r)
		if err != nil {
			return err
		}
		if r.Seq != m.seq+1 {
			return fmt.Errorf("event %d of the batch follows event %d", r.Seq, m.seq)
		}
		m.link = m.link.next(&e)
		m.seq, m.job, e.link = r.Seq, max(m.job, e.job), m.link
		if err := w.add(ctx, &e); err != nil {
			return err
		}
	}
	return nil
}

// shrinkLog moves the write-ahead log into the database and truncates it, so that the free space
// serves the next appends. For a moment it needs as much space as the log has: therefore the
// reserve is larger.
func (w *writer) shrinkLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Readers, or a disk that is still full, may prevent it: then the log stays.
	_, _ = w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	w.takeAhead()
}

// takeAhead allocates the log's blocks, so that a task that fills the disk cannot take them:
// stops and exits are written there. Where the file system cannot, or has no room, appends fail
// until there is room again.
func (w *writer) takeAhead() {
	f, err := os.OpenFile(w.log, os.O_WRONLY, 0) // SQLite locks nothing of this file, unlike the database
	if err != nil {
		return
	}
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, w.ahead)
	_ = f.Close()
}

// openDatabase opens the database of a writing store. It creates the database in a directory that
// has none, and migrates an older one. It inspects an existing database first, without writing: a
// refused database stays as it was.
func (s *Store) openDatabase(ctx context.Context, found contents, o Options) error {
	if err := s.closeToOthers(); err != nil {
		return err
	}
	if found.id == "" && size(s.path(databaseFile+"-journal")) > 0 {
		// A first start was killed while it gave the file its log: only a writing connection
		// undoes that.
		w, err := openWriter(ctx, s.path(databaseFile))
		if err == nil {
			err = w.close()
		}
		if err != nil {
			return s.explain("cannot open the database", err)
		}
	}
	if err := s.inspect(ctx, found, o.damaged); err != nil || o.damaged {
		return err
	}
	if err := s.openWriter(ctx, o.Now); err != nil {
		return err
	}
	if err := s.beginEpoch(ctx); err != nil {
		return err
	}
	if found.id == "" {
		// Last of all: this file marks the directory as ours.
		if err := writeFile(s.path(clusterIDFile), []byte(s.clusterID+"\n")); err != nil {
			return fmt.Errorf("cannot write the cluster id: %w", err)
		}
	}
	if s.read != nil {
		return nil
	}
	var err error
	s.read, err = openReaders(s.path(databaseFile))
	return err
}

// openWriter opens the writing connection to an inspected database, and creates its tables or
// migrates an older database.
func (s *Store) openWriter(ctx context.Context, now model.Time) (err error) {
	if s.writer, err = openWriter(ctx, s.path(databaseFile)); err != nil {
		return s.explain("cannot open the database", err)
	}
	switch {
	case s.schema == 0:
		err = s.createDatabase(ctx, now)
	case s.schema < schemaVersion:
		err = s.migrate(ctx)
	}
	if err != nil {
		return err
	}
	if s.schema < schemaVersion {
		s.schema = schemaVersion
		// A copy of the main file alone then has tables at least, to say what is missing.
		s.writer.shrinkLog()
	}
	s.writer.insert, err = s.writer.conn.PrepareContext(ctx, "INSERT INTO events ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
	return err
}

// beginEpoch begins this process's epoch, once the tables exist: appends of an earlier epoch are
// refused. It writes both slots of the seal, so that a damaged one is whole again.
func (s *Store) beginEpoch(ctx context.Context) (err error) {
	if s.mark, err = readMark(ctx, s.writer.conn); err != nil {
		return s.explain("cannot read the database", err)
	}
	if s.seal, err = openSeal(s.path(sealFile), s.clusterID, s.log); err != nil {
		return err
	}
	s.seal.turn = s.sealed.turn
	s.seal.write(s.mark)
	err = s.change(ctx, func(_ context.Context, _ *sql.Conn, m *journalMark) error {
		m.epoch++
		return nil
	})
	if err != nil {
		return s.explain("cannot begin a new epoch", err)
	}
	s.epoch = s.mark.epoch
	return s.seal.trouble()
}

// closeToOthers lets only the owner read the database, also in a directory that others may enter:
// it holds all jobs' commands. SQLite gives its other files the same mode.
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

func (s *Store) createDatabase(ctx context.Context, now model.Time) error {
	if s.clusterID == "" {
		s.clusterID = newID()
	}
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

var _ engine.Journal = (*Store)(nil)
