package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Tags are words that users give to jobs, also to those that have ended.
type Tags struct{ *Store }

func tagSum(id int64, job model.JobID, tag string) digest { return rowSum("tags", id, int64(job), tag) }

// Tag adds a tag to a job, or removes it. It returns engine.ErrTooMany where the job has most
// tags already.
func (s Tags) Tag(ctx context.Context, job model.JobID, tag string, on bool, most int) error {
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		var id, count int64
		err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id) FILTER (WHERE tag = ?), 0), count(*) FROM tags WHERE job = ?", tag, job).Scan(&id, &count)
		switch {
		case err != nil || on == (id != 0):
			return err
		case !on:
			m.rows.remove(tagSum(id, job, tag))
			_, err = tx.ExecContext(ctx, "DELETE FROM tags WHERE id = ?", id)
			return err
		case count >= int64(most):
			return fmt.Errorf("%w: it has %d tags", engine.ErrTooMany, count)
		}
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) + 1 FROM tags").Scan(&id); err != nil {
			return err
		}
		sum := tagSum(id, job, tag)
		m.rows.add(sum)
		_, err = tx.ExecContext(ctx, "INSERT INTO tags (id, job, tag, sum) VALUES (?, ?, ?, ?)", id, job, tag, sum[:])
		return err
	})
	return s.explain("cannot tag the job", s.classify(err))
}

// Of returns the tags of jobs, 1,000 at most, each in order.
func (s Tags) Of(ctx context.Context, jobs []model.JobID) (map[model.JobID][]string, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	args := make([]any, len(jobs))
	for i, id := range jobs {
		args[i] = int64(id)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT id, job, tag, sum FROM tags WHERE job IN ("+placeholders(len(jobs))+") ORDER BY job, tag", args...)
	if err != nil {
		return nil, s.explain("cannot read tags", err)
	}
	defer rows.Close()
	out := map[model.JobID][]string{}
	for rows.Next() {
		job, tag, err := s.scanTag(rows)
		if err != nil {
			return nil, err
		}
		out[job] = append(out[job], tag)
	}
	return out, s.explain("cannot read tags", rows.Err())
}

// scanTag reads a row of tags, and checks that it is as it was written.
func (s Tags) scanTag(rows *sql.Rows) (job model.JobID, tag string, err error) {
	var id int64
	var kept digest
	if err := rows.Scan(&id, &job, &tag, &kept); err != nil {
		return 0, "", s.explain("cannot read tags", err)
	}
	if tagSum(id, job, tag) != kept {
		return 0, "", s.damaged(fmt.Sprintf("a tag of job %d is not what was saved", job))
	}
	return job, tag, nil
}

// mostTagged bounds how many jobs are returned for a tag.
const mostTagged = 100_000

// With returns the latest jobs that have a tag.
func (s Tags) With(ctx context.Context, tag string) (map[model.JobID]bool, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT id, job, tag, sum FROM tags WHERE tag = ? ORDER BY job DESC LIMIT ?", tag, mostTagged)
	if err != nil {
		return nil, s.explain("cannot read tags", err)
	}
	defer rows.Close()
	out := map[model.JobID]bool{}
	for rows.Next() {
		job, _, err := s.scanTag(rows)
		if err != nil {
			return nil, err
		}
		out[job] = true
	}
	return out, s.explain("cannot read tags", rows.Err())
}
