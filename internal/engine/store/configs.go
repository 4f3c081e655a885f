package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/engine"
)

// Bounds on the kept versions of the cluster file, and on their bytes. The latest ones are kept,
// at least one.
const (
	maxConfigs     = 1000
	maxConfigBytes = 64 << 20
)

const configColumns = "version, at, author, reason, tag, restored"

func configSum(v *engine.ConfigVersion, file []byte) digest {
	return rowSum("configs", v.Version, int64(v.Time), v.Author, v.Reason, v.Tag, v.Restored, file)
}

// BeginConfig records the cluster file that is about to be applied, with its author, reason and
// end: if the server ends before EndConfig, the next one knows. A file that was begun before is
// dropped, with its end.
func (s *Store) BeginConfig(ctx context.Context, v engine.ConfigVersion, file []byte) error {
	if file == nil {
		file = []byte{}
	}
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		if err := dropConfigs(ctx, tx, m, "tag = ''"); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) + 1 FROM configs").Scan(&v.Version); err != nil {
			return err
		}
		v.Tag = ""
		sum := configSum(&v, file)
		m.rows.add(sum)
		_, err := tx.ExecContext(ctx, "INSERT INTO configs ("+configColumns+", file, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			v.Version, v.Time, v.Author, v.Reason, v.Tag, v.Restored, file, sum[:])
		if err != nil {
			return err
		}
		return changeEnds(ctx, tx, m, func(ends []engine.ConfigEnd) []engine.ConfigEnd {
			ends = slices.DeleteFunc(ends, func(e engine.ConfigEnd) bool { return e.Version >= v.Version })
			if v.Until > 0 {
				ends = append(ends, engine.ConfigEnd{Version: v.Version, Back: v.Back, Until: v.Until})
			}
			return ends
		})
	})
	return s.explain("cannot note the version of the cluster file", s.classify(err))
}

// EndConfig makes what was begun a version, now that the configuration of that tag is in force; a
// tag of "" drops it. If file and configuration equal the latest version, no new version is made,
// and the latest one gets the end of what was begun, or none. The ends of earlier versions are
// dropped. The oldest versions are removed if there are too many.
func (s *Store) EndConfig(ctx context.Context, tag string) error {
	err := s.change(ctx, func(ctx context.Context, tx *sql.Conn, m *journalMark) error {
		v, file, err := scanConfig(tx.QueryRowContext(ctx, "SELECT "+configColumns+", file, sum FROM configs WHERE tag = ''"))
		if err != nil {
			return ignoreNoRows(err)
		}
		last, was, err := scanConfig(tx.QueryRowContext(ctx, "SELECT "+configColumns+", file, sum FROM configs WHERE tag <> '' ORDER BY version DESC LIMIT 1"))
		if ignoreNoRows(err) != nil {
			return err
		}
		if tag == "" {
			return forgetConfig(ctx, tx, m, v.Version, 0)
		}
		if err == nil && last.Tag == tag && string(was) == string(file) {
			return forgetConfig(ctx, tx, m, v.Version, last.Version)
		}
		m.rows.remove(configSum(&v, file))
		v.Tag = tag
		sum := configSum(&v, file)
		m.rows.add(sum)
		if _, err := tx.ExecContext(ctx, "UPDATE configs SET tag = ?, sum = ? WHERE version = ?", tag, sum[:], v.Version); err != nil {
			return err
		}
		if err := changeEnds(ctx, tx, m, func(ends []engine.ConfigEnd) []engine.ConfigEnd {
			return slices.DeleteFunc(ends, func(e engine.ConfigEnd) bool { return e.Version != v.Version })
		}); err != nil {
			return err
		}
		return boundConfigs(ctx, tx, m)
	})
	return s.explain("cannot keep the version of the cluster file", s.classify(err))
}

// forgetConfig removes what was begun. With heir, that version gets the end of what was begun, or
// none, in place of its own; 0: there is no heir.
func forgetConfig(ctx context.Context, tx *sql.Conn, m *journalMark, begun, heir int64) error {
	if err := dropConfigs(ctx, tx, m, "tag = ''"); err != nil {
		return err
	}
	return changeEnds(ctx, tx, m, func(ends []engine.ConfigEnd) (out []engine.ConfigEnd) {
		for _, e := range ends {
			switch {
			case heir == 0 && e.Version != begun:
				out = append(out, e)
			case heir > 0 && e.Version == begun:
				out = append(out, engine.ConfigEnd{Version: heir, Back: e.Back, Until: e.Until})
			}
		}
		return out
	})
}

// boundConfigs removes the oldest versions if there are too many.
func boundConfigs(ctx context.Context, tx *sql.Conn, m *journalMark) error {
	var from int64
	err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM (SELECT version, row_number() OVER w AS n, sum(length(file)) OVER w AS bytes
		FROM configs WINDOW w AS (ORDER BY version DESC)) WHERE (n > ? OR bytes > ?) AND n > 1`, maxConfigs, maxConfigBytes).Scan(&from)
	if err != nil || from == 0 {
		return err
	}
	return dropConfigs(ctx, tx, m, fmt.Sprintf("version <= %d", from))
}

// dropConfigs removes versions.
func dropConfigs(ctx context.Context, tx *sql.Conn, m *journalMark, which string) error {
	for {
		v, file, err := scanConfig(tx.QueryRowContext(ctx, "SELECT "+configColumns+", file, sum FROM configs WHERE "+which+" LIMIT 1"))
		if err != nil {
			return ignoreNoRows(err)
		}
		m.rows.remove(configSum(&v, file))
		if _, err := tx.ExecContext(ctx, "DELETE FROM configs WHERE version = ?", v.Version); err != nil {
			return err
		}
	}
}

func scanConfig(row interface{ Scan(...any) error }) (v engine.ConfigVersion, file []byte, err error) {
	var kept digest
	if err := row.Scan(&v.Version, &v.Time, &v.Author, &v.Reason, &v.Tag, &v.Restored, &file, &kept); err != nil {
		return v, nil, err
	}
	if v.Bytes = len(file); configSum(&v, file) != kept {
		return v, nil, fmt.Errorf("version %d of the cluster file is damaged: its checksum does not match; restore the data directory from a backup", v.Version)
	}
	return v, file, nil
}

// Configs returns up to limit versions of the cluster file before a version (0: from the latest),
// the latest first, without one that is being applied.
func (s *reader) Configs(ctx context.Context, before int64, limit int) (list []engine.ConfigVersion, err error) {
	rows, err := s.read.QueryContext(ctx, "SELECT "+configColumns+", file, sum FROM configs "+
		"WHERE tag <> '' AND (? = 0 OR version < ?) ORDER BY version DESC LIMIT ?", before, before, limit)
	if err != nil {
		return nil, s.explain("cannot list the versions of the cluster file", err)
	}
	defer rows.Close()
	for rows.Next() {
		v, _, err := scanConfig(rows)
		if err != nil {
			return nil, s.explain("cannot list the versions of the cluster file", err)
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain("cannot list the versions of the cluster file", err)
	}
	return list, s.withEnds(ctx, list)
}

// ConfigFile returns a version of the cluster file with its file, byte for byte; false: it is not
// kept.
func (s *reader) ConfigFile(ctx context.Context, version int64) (engine.ConfigVersion, []byte, bool, error) {
	v, file, err := scanConfig(s.read.QueryRowContext(ctx, "SELECT "+configColumns+", file, sum FROM configs WHERE tag <> '' AND version = ?", version))
	if errors.Is(err, sql.ErrNoRows) {
		return v, nil, false, nil
	}
	if err != nil {
		return v, nil, false, s.explain("cannot read a version of the cluster file", err)
	}
	one := []engine.ConfigVersion{v}
	err = s.withEnds(ctx, one)
	return one[0], file, err == nil, err
}

// RecordConfig makes the versions match the configuration in force at a start, by its tag. What
// an earlier server had begun to apply, or what came into force in another way, becomes a version
// of its own, with the given file; nil: the file is not known. If the latest version is in force,
// it keeps its end.
func RecordConfig(ctx context.Context, s *Store, tag string, v engine.ConfigVersion, file []byte) error {
	list, err := s.Configs(ctx, 0, 1)
	if err != nil {
		return err
	}
	if len(list) == 1 && list[0].Tag == tag {
		_, was, _, err := s.ConfigFile(ctx, list[0].Version)
		if err != nil {
			return err
		}
		if file == nil || string(was) == string(file) {
			return s.EndConfig(ctx, "")
		}
	}
	begun, err := begunConfig(ctx, s)
	if err != nil {
		return err
	}
	if file != nil || !begun {
		if file == nil {
			file, err = s.clusterFileOf(tag)
		}
		if err == nil {
			err = s.BeginConfig(ctx, v, file)
		}
		if err != nil {
			return err
		}
	}
	return s.EndConfig(ctx, tag)
}

// FinishBegun is RecordConfig only for what an earlier server had begun to apply; else it changes
// nothing.
func FinishBegun(ctx context.Context, s *Store, tag string) error {
	begun, err := begunConfig(ctx, s)
	if err != nil || !begun {
		return err
	}
	return RecordConfig(ctx, s, tag, engine.ConfigVersion{}, nil)
}

// begunConfig reports whether a server began to apply a file and has not noted how that ended.
func begunConfig(ctx context.Context, s *Store) (bool, error) {
	var n int
	err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM configs WHERE tag = ''").Scan(&n)
	return n > 0, s.explain("cannot read the versions of the cluster file", err)
}

// ByStart begins the reason of a version that a server applied because it was started with its
// file.
const ByStart = "comb serve: "

// Replaced reports whether a file was in force earlier and was then replaced, other than by the
// start of a server; was is its version. A server that is started with the old file again, as
// after a crash, must not undo that. Call FinishBegun first: a version that was only begun is not
// seen.
func Replaced(ctx context.Context, s *Store, file []byte) (was, latest engine.ConfigVersion, yes bool, err error) {
	list, err := s.Configs(ctx, 0, 1)
	if err != nil || len(list) == 0 {
		return was, latest, false, err
	}
	latest = list[0]
	var at int64
	row := s.read.QueryRowContext(ctx,
		"SELECT coalesce(max(version), 0) FROM configs WHERE tag <> '' AND file = ?", file)
	if err := row.Scan(&at); err != nil {
		return was, latest, false, s.explain("cannot read the versions of the cluster file", err)
	}
	if at == 0 || at == latest.Version || latest.Author == "system" && strings.HasPrefix(latest.Reason, ByStart) {
		return was, latest, false, nil
	}
	was, _, yes, err = s.ConfigFile(ctx, at)
	return was, latest, yes, err
}
