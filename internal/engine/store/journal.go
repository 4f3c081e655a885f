package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// keptSnapshots is how many snapshots are kept, in case the newest is damaged.
const keptSnapshots = 3

// change runs f in a transaction that also advances the mark. When it returns nil the change is
// durable, and so is the seal, unless Sealed says otherwise: an answer is then recorded in two
// places.
func (s *Store) change(ctx context.Context, f func(ctx context.Context, tx *sql.Conn, m *journalMark) error) error {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	m := s.mark
	err := s.writer.begin(ctx, func(ctx context.Context, tx *sql.Conn) error {
		if err := f(ctx, tx, &m); err != nil {
			return err
		}
		m.changes++
		res, err := tx.ExecContext(ctx, `UPDATE head SET epoch = ?, seq = ?, changes = ?, job = ?, link = ?, rows = ?
			WHERE seq = ? AND epoch = ? AND changes = ?`,
			m.epoch, m.seq, m.changes, m.job, m.link[:], m.rows[:], s.mark.seq, s.mark.epoch, s.mark.changes)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return s.fenced(ctx, tx)
	})
	if err != nil {
		return err
	}
	s.mark = m
	s.seal.write(m)
	return nil
}

func (s *Store) fenced(ctx context.Context, tx *sql.Conn) error {
	m, err := readMark(ctx, tx)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: it ends at event %d in epoch %d, and this process left it at event %d in epoch %d",
		engine.ErrFenced, m.seq, m.epoch, s.mark.seq, s.mark.epoch)
}

// Append implements engine.Journal: one transaction with one fsync, and then the seal.
func (s *Store) Append(ctx context.Context, b engine.Batch) error {
	if b.Empty() {
		return nil
	}
	var gone *forgottenAnswers
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
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
		if err := addAudit(ctx, tx, m, auditOf(b.Audit)); err != nil {
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

// classify recognizes a full disk among errors, and then frees the reserve.
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

// Room implements engine.Roomy: nil while the reserve is held and the seal can be written.
func (s *Store) Room() error {
	if err := s.Sealed(); err != nil {
		return err
	}
	return s.reserve.room()
}

// Sealed returns nil once the seal covers all that was durable before the call. If it could not
// be written, that is tried again; the error says why it failed.
func (s *Store) Sealed() error {
	if s.seal.trouble() == nil {
		return nil
	}
	s.writer.mu.Lock()
	s.seal.write(s.mark)
	s.writer.mu.Unlock()
	return s.seal.trouble()
}

func saveEnded(ctx context.Context, tx *sql.Conn, ended []model.JobStatus, rows *digest) error {
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

// Snapshot implements engine.Journal: the newest snapshot that is intact.
func (s *Store) Snapshot(ctx context.Context) (state []byte, seq uint64, err error) {
	err = s.snapshots(ctx, "DESC", func(k engine.KeptSnapshot, intact bool) error {
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

// SaveSnapshot implements engine.Journal. The log before the snapshot moves to the archive in
// small steps; between them appends go on.
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
