package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Object is one entry besides the journal, such as a user: bytes that only its caller interprets,
// with a version that grows by one with each change.
type Object struct {
	ID      string // kind and name, "user/alice"
	Version int64
	Data    []byte
}

// ErrStale says that a change was to another version of an object than the kept one.
var ErrStale = errors.New("it was changed meanwhile")

// Objects returns all objects in order of their ids.
func (s *Store) Objects(ctx context.Context) ([]Object, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT id, version, data, sum FROM objects ORDER BY id")
	if err != nil {
		return nil, s.explain("cannot read users and groups", err)
	}
	defer rows.Close()
	var out []Object
	for rows.Next() {
		var o Object
		var kept digest
		if err := rows.Scan(&o.ID, &o.Version, &o.Data, &kept); err != nil {
			return nil, s.explain("cannot read users and groups", err)
		}
		if o.sum() != kept {
			return nil, s.damaged("the entry " + o.ID + " is not what was saved")
		}
		out = append(out, o)
	}
	return out, s.explain("cannot read users and groups", rows.Err())
}

func (o *Object) sum() digest { return rowSum("objects", o.ID, o.Version, o.Data) }

// PutObjects writes objects and lines of the audit log in one transaction. Each object's Version
// is the one that it replaces, 0 for a new one, and Data nil removes it. If another version is
// kept, it returns ErrStale and writes nothing.
func (s *Store) PutObjects(ctx context.Context, objects []Object, lines []AuditLine) error {
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		for _, o := range objects {
			if err := putObject(ctx, tx, m, o); err != nil {
				return err
			}
		}
		return addAudit(ctx, tx, m, lines)
	})
	if errors.Is(err, ErrStale) {
		return err
	}
	return s.explain("cannot save the change", s.classify(err))
}

func putObject(ctx context.Context, tx *sql.Conn, m *journalMark, o Object) error {
	was := Object{ID: o.ID}
	err := tx.QueryRowContext(ctx, "SELECT version, data FROM objects WHERE id = ?", o.ID).Scan(&was.Version, &was.Data)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if was.Version != o.Version {
		return fmt.Errorf("%s: %w", o.ID, ErrStale)
	}
	if err == nil {
		m.rows.remove(was.sum())
	}
	if o.Data == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM objects WHERE id = ?", o.ID)
		return err
	}
	o.Version++
	sum := o.sum()
	m.rows.add(sum)
	_, err = tx.ExecContext(ctx, "INSERT INTO objects (id, version, data, sum) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET version = excluded.version, data = excluded.data, sum = excluded.sum",
		o.ID, o.Version, o.Data, sum[:])
	return err
}
