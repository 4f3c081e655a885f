// Package store keeps Comb's durable state in one SQLite database in a data directory: the
// journal with its archive and snapshots, finished jobs, answers, secrets and tokens. It
// implements engine.Journal. It must not interpret events beyond what it indexes. It must refuse
// to start rather than guess or start empty.
package store

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/core/model"
)

const defaultReserve = 16 << 20

// Options change how a data directory is opened.
type Options struct {
	// Now is the present time, noted when a directory is initialised.
	Now model.Time
	// ReserveBytes is the size of the file that is freed when the disk is full, so that stops and
	// exits can still be written; 0 is 16 MiB. Below 8 MiB it may be too small to move the
	// write-ahead log into the database.
	ReserveBytes int64
	// Keys is how many idempotency keys of one subject are remembered; 0 is 300,000.
	Keys int
	// ReadOnly opens beside a running server: no lock, no new epoch, no writes.
	ReadOnly bool
	// Log, when set, gets what an operator must know; nil drops it.
	Log *slog.Logger
	// damaged also opens a directory that has lost something, for Examine.
	damaged bool
}

// Store is an open data directory. Its methods may be called from any goroutine.
type Store struct {
	reader
	clusterID string
	epoch     uint64
	lock      *os.File // nil when read-only
	key       []byte   // nil when read-only
	aead      cipher.AEAD
	reserve   *reserve
	writer    *writer // nil when read-only
	tokens    tokens
	answers   answers
	pages     pages
	log       *slog.Logger
	seal      *seal       // nil when read-only
	mark      journalMark // as of the last change; guarded by the writer's lock
	sealed    sealed      // content of the seal when the directory was opened
	loss      *Loss       // what a store opened by Examine has lost
}

// Open opens a data directory, and initialises it if it is empty or does not exist. It begins a
// new epoch, which fences off every earlier writer. A directory that is in use, foreign, damaged,
// newer than this program or on a network file system is refused with a *Refused.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = defaultReserve
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{reader: reader{dir: dir}, log: o.Log, pages: pages{turn: make(chan struct{}, pageReaders)}}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	if o.ReadOnly {
		return s.openReadOnly(ctx)
	}
	if o.damaged && !holdsDatabase(s.dir) {
		return &Refused{s.dir, "it holds no Comb database", "give the directory that `comb serve` was started with"}
	}
	if err := prepareDir(s.dir); err != nil {
		return err
	}
	// Checked twice: a foreign directory must not even get a lock file, and what counts is what
	// is there once the lock is held.
	_, err := survey(s.dir)
	if err != nil {
		return err
	}
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	found, err := survey(s.dir)
	if err != nil {
		return err
	}
	if err := s.openKey(found); err != nil {
		return err
	}
	if err := s.openDatabase(ctx, found, o); err != nil || o.damaged {
		return err
	}
	return s.openRest(ctx, o)
}

// openRest opens what is kept besides the events.
func (s *Store) openRest(ctx context.Context, o Options) error {
	s.writer.ahead = o.ReserveBytes
	s.writer.takeAhead()
	s.reserve = newReserve(filepath.Join(s.dir, reserveFile), o.ReserveBytes)
	if err := os.MkdirAll(s.JobsDir(), 0o700); err != nil {
		return fmt.Errorf("cannot make the jobs' directory: %w", err)
	}
	if err := s.openAnswers(ctx, o.Keys); err != nil {
		return err
	}
	return s.loadTokens(ctx)
}

func (s *Store) openReadOnly(ctx context.Context) error {
	found, err := survey(s.dir)
	if err != nil {
		return err
	}
	if found.id == "" || !found.database {
		return &Refused{s.dir, "it holds no Comb database", "give the directory that `comb serve` was started with"}
	}
	if err := s.inspect(ctx, found, false); err != nil {
		return err
	}
	s.read, err = openReaders(s.path(databaseFile))
	return err
}

// holdsDatabase reports whether there is a database to read.
func holdsDatabase(dir string) bool {
	c, err := survey(dir)
	return err != nil || c.id != ""
}

// JobsDir is where executors keep the jobs' own files.
func (s *Store) JobsDir() string { return s.path(jobsDir) }

// ClusterID is the identity of this data directory: 32 hex digits.
func (s *Store) ClusterID() string { return s.clusterID }

// Epoch is the fencing token that this Open has begun.
func (s *Store) Epoch() uint64 { return s.epoch }

// Close closes what is open, the lock last. Appends under way must have returned.
func (s *Store) Close() error {
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	errs = append(errs, s.seal.close())
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
