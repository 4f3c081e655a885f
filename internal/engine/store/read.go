package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// reader is the part of a store that only reads its database. Everything that it returns was
// checked against its checksums.
type reader struct {
	dir    string
	read   *sql.DB // nil for a database without tables
	schema int     // the version found; 0: no tables
}

const columns = "seq, time, kind, version, job, sum, data, link"

// query returns the events of the table events that where selects.
func (s *reader) query(ctx context.Context, where string, args ...any) ([]stored, error) {
	names := columns
	if s.schema == 1 {
		names = strings.Replace(columns, "link", "x''", 1)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+names+" FROM events "+where, args...)
	if err != nil {
		return nil, s.explain("cannot read the journal", err)
	}
	events, err := scanEvents(rows)
	if err != nil {
		return nil, s.explain("cannot read the journal", err)
	}
	return events, nil
}

func scanEvents(rows *sql.Rows) (events []stored, err error) {
	defer rows.Close()
	for rows.Next() {
		var e stored
		if err := rows.Scan(&e.seq, &e.time, &e.kind, &e.version, &e.job, &e.sum, &e.data, &e.link); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

// page returns the events from seq on, as many as fit; none at the end. Events only move from the
// table to the archive, so it looks in that order.
func (s *reader) page(ctx context.Context, seq uint64) ([]stored, error) {
	limit, err := s.fits(ctx, seq, pageEvents)
	if err != nil {
		return nil, err
	}
	events, err := s.query(ctx, "WHERE seq >= ? ORDER BY seq LIMIT ?", seq, limit)
	if err != nil || len(events) > 0 && events[0].seq == seq {
		return events, err
	}
	chunk, err := s.chunk(ctx, "WHERE first <= ? AND last >= ? ORDER BY first DESC LIMIT 1", seq, seq)
	if err != nil {
		return nil, err
	}
	for len(chunk) > 0 && chunk[0].seq < seq {
		chunk = chunk[1:]
	}
	if len(chunk) == 0 {
		return events, nil // the end, or a gap
	}
	return chunk, nil
}

// chunk returns the events of the archive chunk that where selects, checked against the chain;
// none if it selects none.
func (s *reader) chunk(ctx context.Context, where string, args ...any) ([]stored, error) {
	links := "link, coalesce((SELECT link FROM archive b WHERE b.last = a.first - 1), x'')"
	if s.schema == 1 {
		links = "x'', x''"
	}
	var first, last uint64
	var data []byte
	var link, before digest
	err := s.read.QueryRowContext(ctx, "SELECT first, last, data, "+links+" FROM archive a "+where, args...).Scan(&first, &last, &data, &link, &before)
	if err != nil {
		return nil, s.explain("cannot read the archive", ignoreNoRows(err))
	}
	events, err := unpackChunk(data)
	if err == nil && (len(events) == 0 || events[0].seq != first || events[len(events)-1].seq != last) {
		err = errors.New("it does not hold them")
	}
	if err == nil && s.schema > 1 {
		if before, err = chain(before, events, true); err == nil && before != link {
			err = errors.New("the chain of checksums breaks there")
		}
	}
	if err != nil {
		return nil, s.damaged(fmt.Sprintf("the archive of events %d to %d: %v", first, last, err))
	}
	return events, nil
}

// ignoreNoRows turns the error that there is no row into nil.
func ignoreNoRows(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// linkAt returns the chain's digest at event seq, as it is stored.
func (s *reader) linkAt(ctx context.Context, seq uint64) (d digest, err error) {
	if seq == 0 {
		return d, nil
	}
	// Events move to the archive, never back: so it looks in that order.
	err = s.read.QueryRowContext(ctx, "SELECT link FROM events WHERE seq = ?", seq).Scan(&d)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.read.QueryRowContext(ctx, "SELECT link FROM archive WHERE last = ?", seq).Scan(&d)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return d, err
	}
	chunk, err := s.chunk(ctx, "WHERE first <= ? AND last >= ? ORDER BY first DESC LIMIT 1", seq, seq)
	for i := range chunk {
		if chunk[i].seq == seq {
			return chunk[i].link, err
		}
	}
	if err == nil {
		err = s.damaged(fmt.Sprintf("event %d is missing", seq))
	}
	return d, err
}

// fits returns how many events from seq on, at most limit and at least one, have no more than
// pageBytes of data. It reads only their lengths.
func (s *reader) fits(ctx context.Context, seq uint64, limit int) (int, error) {
	var n int
	err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT sum(length(data)) OVER (ORDER BY seq) AS total
		FROM (SELECT seq, data FROM events WHERE seq >= ? ORDER BY seq LIMIT ?)) WHERE total <= ?`, seq, limit, pageBytes).Scan(&n)
	if err != nil {
		return 0, s.explain("cannot read the journal", err)
	}
	return max(n, 1), nil
}

// Replay implements engine.Journal and engine.History. It reads page by page, so that a slow f
// delays no other reader, and one page ahead, so that reading, decoding and f run in parallel.
func (s *reader) Replay(ctx context.Context, after uint64, f func(model.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan decoded, 1)
	var reader sync.WaitGroup
	reader.Go(func() { s.readAhead(ctx, after, pages) })
	defer reader.Wait()
	defer cancel()
	for p := range pages {
		for i := range p.records {
			if err := f(p.records[i]); err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
	}
	return ctx.Err()
}

// decoded is a page of records, and the error after them.
type decoded struct {
	records []model.Record
	err     error
}

// readAhead sends all pages after event seq, the last of them with the error, if any.
func (s *reader) readAhead(ctx context.Context, after uint64, to chan<- decoded) {
	defer close(to)
	if s.read == nil {
		return // an empty database, opened by Examine
	}
	link, err := s.replayFrom(ctx, after)
	for {
		var page []stored
		if err == nil {
			page, err = s.page(ctx, after+1)
		}
		if err == nil && len(page) == 0 {
			return
		}
		d := decoded{err: err}
		if err == nil {
			d = s.decodePage(page, after+1, &link)
		}
		select {
		case to <- d:
		case <-ctx.Done():
			return
		}
		if d.err != nil {
			return
		}
		after = page[len(page)-1].seq
	}
}

// replayFrom returns the chain's digest at event after, or at the end if that is earlier: then
// there is nothing to read.
func (s *reader) replayFrom(ctx context.Context, after uint64) (digest, error) {
	var end uint64
	if err := s.read.QueryRowContext(ctx, "SELECT seq FROM head").Scan(&end); err != nil {
		return digest{}, s.explain("cannot read the journal", err)
	}
	if s.schema == 1 || after > end {
		return digest{}, nil
	}
	return s.linkAt(ctx, after)
}

// decodePage decodes a page, on all processors. It must begin with event first, have no gap, and
// continue the chain of events. With an error come the records before it that are sound.
func (s *reader) decodePage(page []stored, first uint64, link *digest) decoded {
	records := make([]model.Record, len(page))
	errs := make([]error, len(page))
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(page); i += workers {
				records[i], errs[i] = page[i].decode()
			}
		})
	}
	all.Wait()
	for i := range page {
		if want := first + uint64(i); page[i].seq != want {
			return decoded{records[:i], s.damaged(fmt.Sprintf("event %d is missing, event %d follows", want, page[i].seq))}
		}
		if errs[i] != nil {
			return decoded{records[:i], s.damaged(errs[i].Error())}
		}
		if s.schema > 1 {
			var err error
			if *link, err = chain(*link, page[i:i+1], false); err != nil {
				return decoded{records[:i], s.damaged(err.Error())}
			}
		}
	}
	return decoded{records: records}
}

// Snapshots implements engine.History: it calls f for the intact ones. Check reports the others.
func (s *reader) Snapshots(ctx context.Context, f func(engine.KeptSnapshot) error) error {
	return s.snapshots(ctx, "ASC", func(k engine.KeptSnapshot, intact bool) error {
		if !intact {
			return nil
		}
		return f(k)
	})
}

func (s *reader) snapshots(ctx context.Context, order string, f func(k engine.KeptSnapshot, intact bool) error) error {
	if s.read == nil {
		return nil // an empty database, opened by Examine
	}
	rows, err := s.read.QueryContext(ctx, "SELECT seq, digest, data FROM snapshots ORDER BY seq "+order)
	if err != nil {
		return s.explain("cannot read the snapshots", err)
	}
	defer rows.Close()
	for rows.Next() {
		var k engine.KeptSnapshot
		var digest, packed []byte
		if err := rows.Scan(&k.Seq, &digest, &packed); err != nil {
			return s.explain("cannot read the snapshots", err)
		}
		sum := sha256.Sum256(packed)
		intact := string(sum[:]) == string(digest)
		if intact {
			if k.State, err = unpack(packed); err != nil {
				intact = false
			}
		}
		if err := f(k, intact); err != nil {
			return err
		}
	}
	return rows.Err()
}

// explain turns an error of SQLite that means damage into a refusal.
func (s *reader) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return s.unreadable(err.Error())
		}
	}
	return fmt.Errorf("%s in %s: %w", doing, s.dir, err)
}

func (s *reader) damaged(what string) error {
	return &Refused{s.dir, "its database " + databaseFile + " is damaged (" + what + ")",
		"keep a copy of the directory as it is, and restore it from a backup; what else can be done says comb journal repair --data " + s.dir}
}

// unreadable is damage that SQLite itself reports: repair relies on it, too.
func (s *reader) unreadable(what string) error {
	return &Refused{s.dir, "its database " + databaseFile + " is damaged (" + what + ")",
		"keep a copy of the directory as it is, and " +
			"restore a backup: comb backup restore FILE --data DIR; comb journal repair cannot mend it"}
}

func (s *reader) path(name string) string { return filepath.Join(s.dir, name) }

// Refused says why a data directory cannot be used, and what to do about it.
type Refused struct {
	Dir     string
	Problem string
	Advice  string
}

// Error gives the directory, the problem and the advice.
func (r *Refused) Error() string {
	return fmt.Sprintf("data directory %s: %s; %s", r.Dir, r.Problem, r.Advice)
}
