package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// Finished lists jobs that ended, latest submission first. next is the cursor of the next page, 0
// if there is none.
func (s *reader) Finished(ctx context.Context, f engine.FinishedFilter) (jobs []model.JobStatus, next model.JobID, err error) {
	limit := min(f.Limit, maxLimit)
	if limit <= 0 {
		limit = defaultLimit
	}
	ids, args := found(&f)
	order := " ORDER BY id DESC"
	if f.Order != nil {
		ids, args, order = inOrder(&f)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+jobColumns+", sum FROM jobs WHERE id IN ("+ids+order+" LIMIT ?)"+order, append(args, limit+1)...)
	if err != nil {
		return nil, 0, s.explain("cannot list jobs", err)
	}
	defer rows.Close()
	for rows.Next() {
		j, err := scanStatus(rows)
		if err != nil {
			return nil, 0, err
		}
		jobs = append(jobs, j)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, s.explain("cannot list jobs", err)
	}
	if len(jobs) > limit {
		jobs = jobs[:limit]
		next = jobs[limit-1].ID
	}
	return jobs, next, nil
}

// mostSources is how many users or VCs are looked up one by one; for more of them the list of all
// jobs is read.
const mostSources = 16

// found selects the ids of jobs by an index that covers the filter, so that other rows, which are
// large, are not read. Each user's or VC's jobs are adjacent there, the latest first, and are
// merged.
func found(f *engine.FinishedFilter) (query string, args []any) {
	of := func(index, column string, values []any) {
		for _, v := range values {
			terms, more := where(f, column+" = ?", v)
			if query != "" {
				query += " UNION "
			}
			query += "SELECT id FROM jobs INDEXED BY " + index + terms
			args = append(args, more...)
		}
	}
	users, vcs, w := anys(f.Users), anys(f.VCs), f.Within
	switch {
	case len(users) > 0 && len(users) <= mostSources:
		of("jobs_user", "user", users)
	case len(vcs) > 0 && len(vcs) <= mostSources:
		of("jobs_vc", "vc", vcs)
	case w != nil && len(w.VCs) < mostSources:
		of("jobs_vc", "vc", anys(w.VCs))
		of("jobs_user", "user", []any{w.User})
	default:
		terms, more := where(f, "id > ?", 0)
		return "SELECT id FROM jobs INDEXED BY jobs_list" + terms, more
	}
	return query, args
}

// inOrder selects the ids of jobs in an order of their own, by an index that covers the filter.
// Users and VCs are in order there. For names the index is read to its end, and only its first
// ones are kept.
func inOrder(f *engine.FinishedFilter) (query string, args []any, order string) {
	index, way, behind := "jobs_list", "", ">"
	switch f.Order.By {
	case "user", "vc":
		index = "jobs_" + f.Order.By
	}
	if f.Order.Down {
		way, behind = " DESC", "<"
	}
	terms, args := where(f, "id > ?", 0)
	order = " ORDER BY id" + way
	if by := f.Order.By; by != "" {
		order = " ORDER BY " + by + way + ", id" + way
	}
	if at := f.Order.After; at != nil && f.Order.By == "" {
		terms, args = terms+" AND id "+behind+" ?", append(args, at.Job)
	} else if at != nil {
		terms, args = terms+" AND ("+f.Order.By+", id) "+behind+" (?, ?)", append(args, at.Key, at.Job)
	}
	return "SELECT id FROM jobs INDEXED BY " + index + terms, args, order
}

// where returns the conditions of a filter, after a first one.
func where(f *engine.FinishedFilter, first string, arg any) (string, []any) {
	terms, args := []string{first}, []any{arg}
	add := func(term string, list ...any) {
		terms, args = append(terms, term), append(args, list...)
	}
	among := func(column string, values []any) {
		if len(values) > 0 {
			add(column+" IN ("+placeholders(len(values))+")", values...)
		}
	}
	among("user", anys(f.Users))
	among("vc", anys(f.VCs))
	among("phase", anys(f.Phases))
	if f.Before > 0 {
		add("id < ?", f.Before)
	}
	if f.Name != "" {
		add("instr(name, ?) > 0", f.Name)
	}
	if f.Tag != "" {
		add("id IN (SELECT job FROM tags WHERE tag = ?)", f.Tag)
	}
	if w := f.Within; w != nil {
		add("(vc IN ("+placeholders(len(w.VCs))+") OR user = ?)", append(anys(w.VCs), w.User)...)
	}
	return " WHERE " + strings.Join(terms, " AND "), args
}

// placeholders is n placeholders of arguments.
func placeholders(n int) string {
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
}

func anys[T ~string](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = string(x)
	}
	return out
}

const jobColumns = "id, name, user, vc, phase, submitted, ended, status"

// scanStatus reads a row of finished jobs, and checks that it is as it was written.
func scanStatus(row interface{ Scan(...any) error }) (j model.JobStatus, err error) {
	var fields [8]any
	var kept digest
	if err := row.Scan(&fields[0], &fields[1], &fields[2], &fields[3], &fields[4], &fields[5], &fields[6], &fields[7], &kept); err != nil {
		return j, err
	}
	data, _ := fields[7].([]byte)
	if rowSum("jobs", fields[:]...) != kept || json.Unmarshal(data, &j) != nil {
		return j, fmt.Errorf("what is kept of the finished job %v is damaged: its checksum does not match; restore the data directory from a backup", fields[0])
	}
	return j, nil
}

// Job returns a job that has ended; false if there is none with that id.
func (s *reader) Job(ctx context.Context, id model.JobID) (model.JobStatus, bool, error) {
	return s.one(s.read.QueryRowContext(ctx, "SELECT "+jobColumns+", sum FROM jobs WHERE id = ?", id))
}

// LastNamed returns the latest job of that name of a user that has ended.
func (s *reader) LastNamed(ctx context.Context, user model.Subject, name model.JobName) (model.JobStatus, bool, error) {
	return s.one(s.read.QueryRowContext(ctx, "SELECT "+jobColumns+", sum FROM jobs WHERE user = ? AND name = ? ORDER BY id DESC LIMIT 1", string(user), string(name)))
}

func (s *reader) one(row *sql.Row) (model.JobStatus, bool, error) {
	j, err := scanStatus(row)
	if errors.Is(err, sql.ErrNoRows) {
		return j, false, nil
	}
	if err != nil {
		return j, false, s.explain("cannot read a finished job", err)
	}
	return j, true, nil
}

// JobEvents returns the events about one job after event seq, oldest first, at most limit (0 is
// 1,000), from journal and archive. Events about several jobs, such as a new configuration, are
// not among them.
func (s *reader) JobEvents(ctx context.Context, id model.JobID, after uint64, limit int) ([]model.Record, error) {
	if limit <= 0 {
		limit = maxLimit
	}
	// The journal first: events may move to the archive meanwhile, never back.
	live, err := s.query(ctx, "WHERE job = ? AND job > 0 AND seq > ? ORDER BY seq LIMIT ?", id, after, limit)
	if err != nil {
		return nil, err
	}
	old, err := s.archivedOf(ctx, id, after, limit)
	if err != nil {
		return nil, err
	}
	var records []model.Record
	for _, e := range append(old, live...) {
		if len(records) == limit || e.seq <= after {
			continue
		}
		r, err := e.decode()
		if err != nil {
			return nil, err
		}
		records = append(records, r)
		after = e.seq
	}
	return records, nil
}

// archivedOf returns a job's archived events after event seq, at least limit if there are as
// many.
func (s *reader) archivedOf(ctx context.Context, id model.JobID, after uint64, limit int) ([]stored, error) {
	var found []stored
	for from := uint64(0); len(found) < limit; {
		chunk, err := s.chunk(ctx, `WHERE first = (SELECT j.first FROM archive_jobs j JOIN archive c ON c.first = j.first
			WHERE j.job = ? AND j.first > ? AND c.last > ? ORDER BY j.first LIMIT 1)`, id, from, after)
		if err != nil || len(chunk) == 0 {
			return found, err
		}
		from = chunk[0].seq
		for _, e := range chunk {
			if e.job == id && e.seq > after {
				found = append(found, e)
			}
		}
	}
	return found, nil
}

// Spec returns what was submitted for a job, live or ended; false if there is
// none with that id.
func (s *reader) Spec(ctx context.Context, id model.JobID) (*model.Job, bool, error) {
	records, err := s.JobEvents(ctx, id, 0, 1)
	if err != nil || len(records) == 0 {
		return nil, false, err
	}
	submitted, ok := records[0].Event.(model.JobSubmitted)
	if !ok {
		return nil, false, fmt.Errorf("the first event of job %d is not its submission", id)
	}
	return submitted.Job, true, nil
}
