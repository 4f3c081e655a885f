package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/combsched/comb/internal/engine"
)

// Ends are those of versions of the cluster file: until when one is in force, and which one is then. They are one object beside
// users and groups.
type Ends struct{ *Store }

const endsID = "config/ends"

// Of returns which versions have an end.
func (s Ends) Of(ctx context.Context) (ends []engine.ConfigEnd, err error) {
	_, ends, err = s.all(ctx)
	return ends, err
}

func (s Ends) all(ctx context.Context) (version int64, ends []engine.ConfigEnd, err error) {
	o := Object{ID: endsID}
	var kept digest
	err = s.read.QueryRowContext(ctx, "SELECT version, data, sum FROM objects WHERE id = ?", endsID).Scan(&o.Version, &o.Data, &kept)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil, nil
	case err != nil:
		return 0, nil, s.explain("cannot read until when a configuration is in force", err)
	case o.sum() != kept:
		return 0, nil, s.damaged("the entry " + o.ID + " is not what was saved")
	}
	return o.Version, ends, json.Unmarshal(o.Data, &ends)
}

// Set keeps which versions have an end, in the place of those that were kept before.
func (s Ends) Set(ctx context.Context, ends []engine.ConfigEnd) error {
	version, had, err := s.all(ctx)
	if err != nil || len(had)+len(ends) == 0 {
		return err
	}
	data, err := json.Marshal(ends)
	if err != nil {
		return err
	}
	return s.PutObjects(ctx, []Object{{ID: endsID, Version: version, Data: data}}, nil)
}
