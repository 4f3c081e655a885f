package store

import (
	"context"
	"database/sql"
	"fmt"
)

// toVersion2 adds the columns that version 1 lacks.
const toVersion2 = `
ALTER TABLE head ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN job INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN link BLOB NOT NULL DEFAULT x'';
ALTER TABLE head ADD COLUMN rows BLOB NOT NULL DEFAULT x'';
ALTER TABLE events ADD COLUMN link BLOB NOT NULL DEFAULT x'';
ALTER TABLE archive ADD COLUMN link BLOB NOT NULL DEFAULT x'';
ALTER TABLE jobs ADD COLUMN sum BLOB NOT NULL DEFAULT x'';
ALTER TABLE secrets ADD COLUMN sum BLOB NOT NULL DEFAULT x'';
ALTER TABLE tokens ADD COLUMN sum BLOB NOT NULL DEFAULT x'';
`

// toVersion3 adds what version 2 lacks. The numbers of answers have no gap.
const toVersion3 = answersTable + `
ALTER TABLE head ADD COLUMN forgot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;
UPDATE head SET forgot = (SELECT coalesce(min(id) - 1, 0) FROM answers), answered = (SELECT coalesce(max(id), 0) FROM answers);
`

// toVersion4 adds people.
const toVersion4 = peopleTables + `
ALTER TABLE tokens ADD COLUMN bounds TEXT NOT NULL DEFAULT '';
`

// toVersion5 finds ended jobs by user and name; before, a name was unique over all users.
const toVersion5 = `
DROP INDEX IF EXISTS jobs_name;
CREATE INDEX jobs_name ON jobs (user, name, id);
`

// toVersion6 lists ended jobs without reading all of them.
const toVersion6 = `
DROP INDEX jobs_user;
DROP INDEX jobs_vc;
CREATE INDEX jobs_user ON jobs (user, id, vc, phase, name);
CREATE INDEX jobs_vc ON jobs (vc, id, user, phase, name);
CREATE INDEX jobs_list ON jobs (id, user, vc, phase, name);
`

// migrate brings a database to this version, in one transaction: existing data is chained, summed
// and counted as it is. Damage that it has already is found where it was found before.
func (s *Store) migrate(ctx context.Context) error {
	s.log.Info("the data directory is brought up to date; this is done once", "dir", s.dir, "from", s.schema, "to", schemaVersion)
	err := s.writer.transact(ctx, func(ctx context.Context, tx *sql.Conn) error {
		if s.schema == 1 {
			if err := addSums(ctx, tx); err != nil {
				return err
			}
		}
		steps := tagsTable
		if s.schema < 7 {
			steps = keepTables + steps
		}
		if s.schema < 6 {
			steps = toVersion6 + steps
		}
		if s.schema < 5 {
			steps = toVersion5 + steps
		}
		if s.schema < 4 {
			steps = toVersion4 + steps
		}
		if s.schema < 3 {
			steps = toVersion3 + steps
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("%s PRAGMA user_version = %d;", steps, schemaVersion))
		return err
	})
	return s.explain("cannot bring the database up to date", err)
}

// addSums makes version 2 of version 1.
func addSums(ctx context.Context, tx *sql.Conn) error {
	if _, err := tx.ExecContext(ctx, toVersion2); err != nil {
		return err
	}
	link, err := chainArchive(ctx, tx)
	if err != nil {
		return err
	}
	if link, err = chainEvents(ctx, tx, link); err != nil {
		return err
	}
	rows, err := sumRows(ctx, tx, 2, func(_ rowTable, key any, sum, _ digest, update string) error {
		_, err := tx.ExecContext(ctx, update, sum[:], key)
		return err
	})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE head SET link = ?, rows = ?, job = max(
		(SELECT coalesce(max(job), 0) FROM events), (SELECT coalesce(max(job), 0) FROM archive_jobs), (SELECT coalesce(max(id), 0) FROM jobs))`,
		link[:], rows[:])
	return err
}

// chainArchive links the chunks of the archive. A chunk that cannot be read is linked as it is.
func chainArchive(ctx context.Context, tx *sql.Conn) (link digest, err error) {
	for last := uint64(0); ; {
		var first uint64
		var data []byte
		err := tx.QueryRowContext(ctx, "SELECT first, last, data FROM archive WHERE last > ? ORDER BY first LIMIT 1", last).Scan(&first, &last, &data)
		if err != nil {
			return link, ignoreNoRows(err)
		}
		events, err := unpackChunk(data)
		if err == nil {
			link, err = chain(link, events, true)
		}
		if err != nil {
			link = sumOf(link[:], data)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE archive SET link = ? WHERE first = ?", link[:], first); err != nil {
			return link, err
		}
	}
}

// chainEvents links the events that are in no archive.
func chainEvents(ctx context.Context, tx *sql.Conn, link digest) (digest, error) {
	for after := uint64(0); ; {
		rows, err := tx.QueryContext(ctx, "SELECT "+columns+" FROM events WHERE seq > ? ORDER BY seq LIMIT ?", after, pageEvents)
		if err != nil {
			return link, err
		}
		events, err := scanEvents(rows)
		if err != nil || len(events) == 0 {
			return link, err
		}
		if link, err = chain(link, events, true); err != nil {
			return link, err
		}
		for i := range events {
			e := &events[i]
			if _, err := tx.ExecContext(ctx, "UPDATE events SET link = ? WHERE seq = ?", e.link[:], e.seq); err != nil {
				return link, err
			}
		}
		after = events[len(events)-1].seq
	}
}
