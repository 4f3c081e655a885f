package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// Examine opens a data directory that may have lost something. It locks the directory for this
// process and writes nothing. Loss says what is gone, and Repair continues without it.
func Examine(ctx context.Context, dir string, o Options) (*Store, error) {
	o.damaged = true
	return Open(ctx, dir, o)
}

// Loss says what a directory opened by Examine has lost, as far as its seal tells; nil if it
// tells of nothing. Damage inside the journal shows when it is read.
func (s *Store) Loss() *Loss { return s.loss }

// End is the last event ever acknowledged, as far as journal and seal tell.
func (s *Store) End(ctx context.Context) (uint64, error) {
	var head uint64
	if s.read == nil {
		return s.sealed.seq, nil
	}
	err := s.read.QueryRowContext(ctx, "SELECT seq FROM head").Scan(&head)
	return max(head, s.sealed.seq), s.explain("cannot read the journal", err)
}

// LastJob is the last job that the seal knows.
func (s *Store) LastJob() model.JobID { return s.sealed.job }

// RepairPlan says how to continue without what is lost.
type RepairPlan struct {
	// Cut is the last event that stays; later ones are removed.
	Cut uint64
	// Records follow it, from Cut+1 on.
	Records []model.Record
	// Live are the jobs that had not ended by Cut.
	Live []model.JobID
	Now  model.Time
}

// Repair copies the files of the journal aside, and then makes the directory of a store opened by
// Examine sound again, in one transaction. It returns the folder of the copies. After it the
// store can only be closed.
func (s *Store) Repair(ctx context.Context, g RepairPlan) (string, error) {
	kept, err := s.copyAside(g.Now)
	if err != nil {
		return "", fmt.Errorf("cannot copy the journal's files first, so nothing was changed: %w", err)
	}
	if err := s.openWriter(ctx, g.Now); err != nil {
		return kept, err
	}
	if s.read == nil {
		if s.read, err = openReaders(s.path(databaseFile)); err != nil {
			return kept, err
		}
	}
	link, err := s.linkAt(ctx, g.Cut)
	if err != nil {
		return kept, err
	}
	chunk, err := s.chunk(ctx, "WHERE first <= ? AND last > ?", g.Cut, g.Cut)
	if err != nil {
		return kept, err
	}
	err = s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		m, err := readMark(ctx, tx)
		if err != nil {
			return err
		}
		m.seq, m.link = g.Cut, link
		m.job, m.epoch, m.changes = max(m.job, s.sealed.job), max(m.epoch, s.sealed.epoch), max(m.changes, s.sealed.changes)+1
		if err := removeBehind(ctx, tx, g.Cut); err != nil {
			return err
		}
		// The events of a chunk around the cut return to the table of events, up to the cut.
		for i := 0; i < len(chunk) && chunk[i].seq <= g.Cut; i++ {
			if err := s.writer.add(ctx, &chunk[i]); err != nil {
				return err
			}
		}
		if err := s.writer.addAll(ctx, g.Records, &m); err != nil {
			return err
		}
		return reviveJobs(ctx, tx, g.Live, &m)
	})
	if err != nil {
		return kept, s.explain("cannot repair the journal", err)
	}
	return kept, s.beginEpoch(ctx)
}

// removeBehind removes all events and snapshots behind event cut.
func removeBehind(ctx context.Context, tx *sql.Conn, cut uint64) error {
	for _, query := range []string{"DELETE FROM events WHERE seq > ?", "DELETE FROM snapshots WHERE seq > ?",
		"DELETE FROM archive_jobs WHERE first IN (SELECT first FROM archive WHERE last > ?)", "DELETE FROM archive WHERE last > ?"} {
		if _, err := tx.ExecContext(ctx, query, cut); err != nil {
			return err
		}
	}
	return nil
}

// reviveJobs removes jobs that live again from the table of finished ones, and writes the head.
func reviveJobs(ctx context.Context, tx *sql.Conn, live []model.JobID, m *journalMark) (err error) {
	for _, id := range live {
		for _, query := range []string{"DELETE FROM jobs WHERE id = ?", "DELETE FROM removed WHERE job = ?"} {
			if _, err := tx.ExecContext(ctx, query, id); err != nil {
				return err
			}
		}
	}
	m.rows, err = sumRows(ctx, tx, schemaVersion, func(rowTable, any, digest, digest, string) error { return nil })
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE head SET epoch = ?, seq = ?, changes = ?, job = ?, link = ?, rows = ?",
		m.epoch, m.seq, m.changes, m.job, m.link[:], m.rows[:])
	return err
}

// copyAside copies the files of the journal as they are into a new folder.
func (s *Store) copyAside(now model.Time) (string, error) {
	first := s.path("before-repair-" + time.UnixMicro(int64(now)).UTC().Format("20060102-150405"))
	dir, err := first, os.Mkdir(first, 0o700)
	for n := 2; errors.Is(err, fs.ErrExist) && n < 100; n++ { // another copy of the same second exists
		dir = fmt.Sprintf("%s-%d", first, n)
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	for _, name := range []string{databaseFile, logFile, sealFile} {
		if _, err := os.Stat(s.path(name)); err != nil {
			continue // that file is missing, which may be the loss itself
		}
		if err := copyFile(s.path(name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, syncDir(dir)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
