package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sched"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// pageEvents is how many events one step of a replay reads.
	pageEvents = 1000
	// keptSnapshots are kept, newest first, in case the newest is damaged.
	keptSnapshots = 3
)

// stored is an event as it lies in the tables.
type stored struct {
	seq     uint64
	time    sched.Time
	kind    sched.Kind
	version int
	job     sched.JobID
	sum     uint32
	data    []byte
	link    digest // of it and all before it
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers all of an event: SQLite itself would not notice a flipped bit.
func (e *stored) checksum() uint32 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], e.seq)
	binary.LittleEndian.PutUint64(b[8:], uint64(e.time))
	binary.LittleEndian.PutUint64(b[16:], uint64(e.version))
	sum := crc32.Update(0, castagnoli, b[:])
	sum = crc32.Update(sum, castagnoli, []byte(e.kind))
	return crc32.Update(sum, castagnoli, e.data)
}

func encode(r sched.Record) (stored, error) {
	kind, version, data, err := sched.EncodeEvent(r.Event)
	if err != nil {
		return stored{}, fmt.Errorf("cannot encode event %d: %w", r.Seq, err)
	}
	e := stored{seq: r.Seq, time: r.Time, kind: kind, version: version, job: engine.JobOf(r.Event), data: data}
	e.sum = e.checksum()
	return e, nil
}

func (e *stored) decode() (sched.Record, error) {
	if e.checksum() != e.sum {
		return sched.Record{}, fmt.Errorf("event %d is damaged: its checksum does not match; restore the data directory from a backup", e.seq)
	}
	event, err := sched.DecodeEvent(e.kind, e.version, e.data)
	if err != nil {
		return sched.Record{}, fmt.Errorf("event %d: %w", e.seq, err)
	}
	return sched.Record{Seq: e.seq, Time: e.time, Event: event}, nil
}

// Append implements engine.Journal: one transaction with one fsync, and then the seal.
func (s *Store) Append(ctx context.Context, b engine.Batch) error {
	if len(b.Records) == 0 && len(b.Answers) == 0 {
		return nil
	}
	var gone *forgotten
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *mark) error {
		if m.seq != b.First-1 || m.epoch != b.Epoch {
			return fmt.Errorf("%w: it ends at event %d in epoch %d; the batch begins at event %d in epoch %d",
				engine.ErrFenced, m.seq, m.epoch, b.First, b.Epoch)
		}
		if err := s.writer.addAll(ctx, b.Records, m); err != nil {
			return err
		}
		if err := saveEnded(ctx, tx, b.Ended, &m.rows); err != nil {
			return err
		}
		if err := s.saveSecrets(ctx, tx, &b, &m.rows); err != nil {
			return err
		}
		var err error
		gone, err = s.saveAnswers(ctx, tx, b.Answers)
		return err
	})
	if err == nil {
		s.keepAnswers(b.Answers, gone)
	}
	return s.classify(err)
}

// classify tells a full disk from other errors, and then frees the reserve.
func (s *Store) classify(err error) error {
	var e *sqlite.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	full := e.Code()&0xff == sqlite3.SQLITE_FULL
	if e.Code()&0xff == sqlite3.SQLITE_IOERR {
		free, err := freeBytes(s.dir)
		full = err == nil && free < 1<<20 || errors.Is(err, unix.ENOSPC)
	}
	if !full {
		return err
	}
	s.reserve.free()
	s.writer.shrinkLog()
	return fmt.Errorf("%w: %w", engine.ErrFull, err)
}

// Room implements engine.Roomy: nil while the reserve is there and the seal can be written.
func (s *Store) Room() error {
	if s.seal.trouble() != nil {
		s.writer.mu.Lock()
		s.seal.write(s.mark)
		s.writer.mu.Unlock()
	}
	if err := s.seal.trouble(); err != nil {
		return err
	}
	return s.reserve.room()
}

func saveEnded(ctx context.Context, tx *sql.Conn, ended []sched.JobStatus, rows *digest) error {
	for i := range ended {
		j := &ended[i]
		status, err := json.Marshal(j)
		if err != nil {
			return err
		}
		fields := []any{int64(j.ID), string(j.Name), string(j.User), string(j.VC), string(j.Phase), int64(j.Submitted), int64(j.Ended), status}
		sum := rowSum("jobs", fields...)
		rows.add(sum)
		if _, err := tx.ExecContext(ctx, "INSERT INTO jobs ("+jobColumns+", sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", append(fields, sum[:])...); err != nil {
			return err
		}
	}
	return nil
}

// Replay implements engine.Journal and engine.History. It reads page by page, so
// that a slow f holds nobody up, and a page ahead, so that reading, decoding and
// f go on side by side.
func (s *Store) Replay(ctx context.Context, after uint64, f func(sched.Record) error) error {
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

// decoded is a page of records, and the error that ends it.
type decoded struct {
	records []sched.Record
	err     error
}

// readAhead sends all pages after event seq, the last of them with the error, if any.
func (s *Store) readAhead(ctx context.Context, after uint64, to chan<- decoded) {
	defer close(to)
	if s.read == nil {
		return // an empty database, which Examine opened
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

// replayFrom returns the chain's digest at event after, or at the end if that is earlier: there
// is nothing to read then.
func (s *Store) replayFrom(ctx context.Context, after uint64) (digest, error) {
	var end uint64
	if err := s.read.QueryRowContext(ctx, "SELECT seq FROM head").Scan(&end); err != nil {
		return digest{}, s.explain("cannot read the journal", err)
	}
	if s.schema == 1 || after > end {
		return digest{}, nil
	}
	return s.linkAt(ctx, after)
}

// decodePage decodes a page that must begin with event first, have no gap, and go on with the
// chain of events, on all processors. Before an error come the records that are sound.
func (s *Store) decodePage(page []stored, first uint64, link *digest) decoded {
	records := make([]sched.Record, len(page))
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

// page returns the events from seq on, as many as fit; none at the end. Events
// only ever move from the table to the archive, so they are looked for in that
// order.
func (s *Store) page(ctx context.Context, seq uint64) ([]stored, error) {
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

const columns = "seq, time, kind, version, job, sum, data, link"

// query returns the events of the table events that where chooses.
func (s *Store) query(ctx context.Context, where string, args ...any) ([]stored, error) {
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

// Snapshot implements engine.Journal: the newest snapshot that is intact.
func (s *Store) Snapshot(ctx context.Context) (state []byte, seq uint64, err error) {
	err = s.snapshots(ctx, "DESC", func(k engine.Kept, intact bool) error {
		if !intact {
			s.log.Warn("a snapshot is damaged; nothing is lost: an older one and more of the journal are read instead",
				"event", k.Seq, "look", "comb journal verify --data "+s.dir)
			return nil
		}
		state, seq = k.State, k.Seq
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return state, seq, err
}

var errFound = errors.New("found")

// Snapshots implements engine.History: those that are intact. Check tells of the others.
func (s *Store) Snapshots(ctx context.Context, f func(engine.Kept) error) error {
	return s.snapshots(ctx, "ASC", func(k engine.Kept, intact bool) error {
		if !intact {
			return nil
		}
		return f(k)
	})
}

func (s *Store) snapshots(ctx context.Context, order string, f func(k engine.Kept, intact bool) error) error {
	if s.read == nil {
		return nil // an empty database, which Examine opened
	}
	rows, err := s.read.QueryContext(ctx, "SELECT seq, digest, data FROM snapshots ORDER BY seq "+order)
	if err != nil {
		return s.explain("cannot read the snapshots", err)
	}
	defer rows.Close()
	for rows.Next() {
		var k engine.Kept
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

// SaveSnapshot implements engine.Journal. The log behind the snapshot moves to
// the archive in small steps, between which appends go on.
func (s *Store) SaveSnapshot(ctx context.Context, seq uint64, state []byte) error {
	packed, err := pack(state)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(packed)
	err = s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO snapshots (seq, digest, data) VALUES (?, ?, ?)", seq, sum[:], packed)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			"DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)", keptSnapshots)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot save the snapshot of event %d: %w", seq, err)
	}
	return s.archiveUpTo(ctx, seq)
}
