package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/core/model"
)

// Copied says what a copy of a data directory holds.
type Copied struct {
	Cluster string      // the id of the cluster
	Event   uint64      // the last event
	Job     model.JobID // the last job
}

// CopyFiles are the files that Copy makes.
var CopyFiles = []string{databaseFile, sealFile, keyFile, clusterIDFile}

// Copy makes a consistent copy of the database of a data directory, with what belongs to it, in a
// new or empty folder. A server may use the directory meanwhile: the copy is as of one event.
// Secrets stay encrypted; their key is copied, too.
func Copy(ctx context.Context, dir, into string) (c Copied, err error) {
	s, err := Open(ctx, dir, Options{ReadOnly: true}) // it ends with a check of the directory
	if err != nil {
		return c, err
	}
	c.Cluster = s.ClusterID()
	if err := s.Close(); err != nil {
		return c, err
	}
	if dir, err = filepath.Abs(dir); err == nil {
		into, err = filepath.Abs(into)
	}
	if err = errors.Join(err, os.MkdirAll(into, 0o700)); err != nil {
		return c, err
	}
	made := filepath.Join(into, databaseFile)
	if err := copyDatabase(ctx, filepath.Join(dir, databaseFile), made); err != nil {
		return c, fmt.Errorf("cannot copy the database: %w", err)
	}
	for _, name := range []string{keyFile, clusterIDFile} {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(into, name)); err != nil {
			return c, fmt.Errorf("cannot copy the file %s: %w", name, err)
		}
	}
	db, err := openReaders(made)
	if err != nil {
		return c, err
	}
	m, err := readMark(ctx, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return c, fmt.Errorf("cannot read the copy of the database: %w", err)
	}
	c.Event, c.Job = m.seq, m.job
	seal, err := openSeal(filepath.Join(into, sealFile), c.Cluster, slog.New(slog.DiscardHandler))
	if err != nil {
		return c, err
	}
	seal.write(m)
	return c, errors.Join(seal.trouble(), seal.close())
}

// copyDatabase makes SQLite write one reader's view into a new file.
func copyDatabase(ctx context.Context, from, to string) error {
	db, err := sql.Open("sqlite", dsn(from, "ro", "cache_size(-4000)", "temp_store(MEMORY)"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close())
}
