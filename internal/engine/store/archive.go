package store

import (
	"context"
	"database/sql"
	"fmt"
)

// archiveUpTo moves the events up to seq to the archive.
func (s *Store) archiveUpTo(ctx context.Context, seq uint64) error {
	for {
		n, err := s.archiveChunk(ctx, seq)
		if err != nil {
			return fmt.Errorf("cannot archive events: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}

// archiveChunk moves the oldest events, at most one chunk of them.
func (s *Store) archiveChunk(ctx context.Context, seq uint64) (int, error) {
	limit, err := s.fits(ctx, 0, chunkEvents)
	if err != nil {
		return 0, err
	}
	events, err := s.query(ctx, "WHERE seq <= ? ORDER BY seq LIMIT ?", seq, limit)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	// Nothing is moved unchecked: damage must not hide in the archive.
	for i := range events {
		if events[i].checksum() != events[i].sum {
			return 0, fmt.Errorf("event %d is damaged: its checksum does not match", events[i].seq)
		}
	}
	before, err := s.linkAt(ctx, events[0].seq-1)
	if err == nil {
		_, err = chain(before, events, false)
	}
	if err != nil {
		return 0, err
	}
	data, err := packChunk(events)
	if err != nil {
		return 0, err
	}
	link := events[len(events)-1].link
	first, last := events[0].seq, events[len(events)-1].seq
	return len(events), s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO archive (first, last, data, link) VALUES (?, ?, ?, ?)", first, last, data, link[:]); err != nil {
			return err
		}
		for _, job := range jobsIn(events) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO archive_jobs (job, first) VALUES (?, ?)", job, first); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM events WHERE seq BETWEEN ? AND ?", first, last)
		return err
	})
}
