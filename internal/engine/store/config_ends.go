package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/engine"
)

// Ends are the ends of versions of the cluster file: until when one is in force, and which one
// follows. They are one object beside users and groups. BeginConfig and EndConfig write it
// together with the versions, so an end exists exactly as long as its version.
type Ends struct{ *Store }

const endsID = "config/ends"

// Drop removes the end of a version.
func (s Ends) Drop(ctx context.Context, version int64) error {
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		return changeEnds(ctx, tx, m, func(ends []engine.ConfigEnd) []engine.ConfigEnd {
			return slices.DeleteFunc(ends, func(e engine.ConfigEnd) bool { return e.Version == version })
		})
	})
	return s.explain("cannot drop the end of a version of the cluster file", s.classify(err))
}

// endsOf returns the object of all ends, and its content.
func endsOf(ctx context.Context, c querier) (o Object, ends []engine.ConfigEnd, err error) {
	o.ID = endsID
	var kept digest
	err = c.QueryRowContext(ctx, "SELECT version, data, sum FROM objects WHERE id = ?", endsID).Scan(&o.Version, &o.Data, &kept)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return o, nil, nil
	case err != nil:
		return o, nil, err
	case o.sum() != kept:
		return o, nil, fmt.Errorf("the entry %s is damaged: its checksum does not match; restore the data directory from a backup", o.ID)
	}
	return o, ends, json.Unmarshal(o.Data, &ends)
}

// changeEnds replaces the kept ends.
func changeEnds(ctx context.Context, tx *sql.Conn, m *journalMark, f func([]engine.ConfigEnd) []engine.ConfigEnd) error {
	o, had, err := endsOf(ctx, tx)
	if err != nil {
		return err
	}
	ends := f(slices.Clone(had))
	if slices.Equal(had, ends) {
		return nil
	}
	o.Data = nil
	if len(ends) > 0 {
		if o.Data, err = json.Marshal(ends); err != nil {
			return err
		}
	}
	return putObject(ctx, tx, m, o)
}

// withEnds sets the ends of versions.
func (s *reader) withEnds(ctx context.Context, list []engine.ConfigVersion) error {
	_, ends, err := endsOf(ctx, s.read)
	for i := range list {
		for _, e := range ends {
			if e.Version == list[i].Version {
				list[i].Until, list[i].Back = e.Until, e.Back
			}
		}
	}
	return s.explain("cannot read until when a configuration is in force", err)
}
