package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Retention is the part of a store that removes what is kept too long.
type Retention struct{ *Store }

func removedSum(r *engine.Removed) digest {
	return rowSum("removed", int64(r.Job), int64(r.At), r.Rule)
}

// MarkRemoved notes that the files of ended jobs are about to be removed. It comes before the
// removal, so that a removal which a killed server had begun is continued. A job that is noted
// already stays as it is.
func (s Retention) MarkRemoved(ctx context.Context, list []engine.Removed) error {
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		for i := range list {
			r := &list[i]
			sum := removedSum(r)
			done, err := tx.ExecContext(ctx, "INSERT INTO removed (job, at, rule, sum) SELECT id, ?, ?, ? FROM jobs WHERE id = ? ON CONFLICT (job) DO NOTHING",
				r.At, r.Rule, sum[:], r.Job)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil {
				return err
			} else if n == 1 {
				m.rows.add(sum)
			}
		}
		return nil
	})
	return s.explain("cannot note what is removed of ended jobs", s.classify(err))
}

// Removed returns what is noted about a job; false: nothing was removed.
func (s *reader) Removed(ctx context.Context, id model.JobID) (engine.Removed, bool, error) {
	r := engine.Removed{Job: id}
	var kept digest
	err := s.read.QueryRowContext(ctx, "SELECT at, rule, sum FROM removed WHERE job = ?", id).Scan(&r.At, &r.Rule, &kept)
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	if err == nil && removedSum(&r) != kept {
		return r, false, s.damaged(fmt.Sprintf("the note that files of job %d were removed is not what was saved", id))
	}
	return r, err == nil, s.explain("cannot read what was removed of ended jobs", err)
}

// EndedOf returns when jobs ended, for those among ids that have; at most 1,000 ids.
func (s Retention) EndedOf(ctx context.Context, ids []model.JobID) (map[model.JobID]model.Time, error) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = int64(id)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+jobColumns+", sum FROM jobs WHERE id IN ("+placeholders(len(ids))+")", args...)
	if err != nil {
		return nil, s.explain("cannot read when jobs ended", err)
	}
	defer rows.Close()
	out := map[model.JobID]model.Time{}
	for rows.Next() {
		j, err := scanStatus(rows)
		if err != nil {
			return nil, s.explain("cannot read when jobs ended", err)
		}
		out[j.ID] = j.Ended
	}
	return out, s.explain("cannot read when jobs ended", rows.Err())
}
