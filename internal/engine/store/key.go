package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// openKey reads the key that encrypts secrets, or makes one.
func (s *Store) openKey(found contents) error {
	path := s.path(keyFile)
	if !found.key {
		key := make([]byte, 32)
		rand.Read(key) // never fails
		if err := writeFile(path, []byte(hex.EncodeToString(key)+"\n")); err != nil {
			return fmt.Errorf("cannot make the key file: %w", err)
		}
	}
	key, err := readKey(s.dir, path)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	s.key = key
	s.aead, err = cipher.NewGCM(block)
	return err
}

func readKey(dir, path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the key file: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, &Refused{dir, "its key is not a regular file", "replace it by the file itself"}
	case info.Mode().Perm()&0o077 != 0:
		return nil, &Refused{dir, fmt.Sprintf("its file key can be reached by others (mode %04o)", info.Mode().Perm()),
			"run: chmod 600 " + path}
	case ok && int(st.Uid) != os.Geteuid():
		return nil, &Refused{dir, fmt.Sprintf("its file key belongs to user %d, not to the server's user %d", st.Uid, os.Geteuid()),
			"start the server as its owner"}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key file: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, &Refused{dir, "its file key is damaged: it must hold 64 hex digits", "restore it from a backup"}
	}
	return key, nil
}

// keyMark is kept in the database, so that a wrong key is noticed.
func (s *Store) keyMark() string {
	m := hmac.New(sha256.New, s.key)
	m.Write([]byte("comb key of cluster " + s.clusterID))
	return hex.EncodeToString(m.Sum(nil))
}

// bound is the associated data that ties a sealed value to its job and cluster.
func (s *Store) bound(id model.JobID) []byte {
	return fmt.Appendf(nil, "comb secrets 1 cluster %s job %d", s.clusterID, id)
}

// saveSecrets keeps the secrets of a batch's new jobs and erases those of the jobs that ended in
// it.
func (s *Store) saveSecrets(ctx context.Context, tx *sql.Conn, b *engine.Batch, rows *digest) error {
	for _, js := range b.Secrets {
		plain, err := json.Marshal(js.Values)
		if err != nil {
			return err
		}
		nonce := make([]byte, s.aead.NonceSize())
		rand.Read(nonce) // never fails
		sealed := s.aead.Seal(nonce, nonce, plain, s.bound(js.Job))
		sum := rowSum("secrets", int64(js.Job), sealed)
		rows.add(sum)
		if _, err := tx.ExecContext(ctx, "INSERT INTO secrets (job, sealed, sum) VALUES (?, ?, ?)", js.Job, sealed, sum[:]); err != nil {
			return err
		}
	}
	for i := range b.Ended {
		var sealed []byte
		id := b.Ended[i].ID
		err := tx.QueryRowContext(ctx, "DELETE FROM secrets WHERE job = ? RETURNING sealed", id).Scan(&sealed)
		if ignoreNoRows(err) != nil {
			return err
		}
		if err == nil {
			rows.remove(rowSum("secrets", int64(id), sealed))
		}
	}
	return nil
}

// Secrets returns the secret values of a job that has not ended; nil if it has none. An EIO error
// may go away by itself.
func (s *Store) Secrets(ctx context.Context, id model.JobID) (map[string]string, error) {
	var sealed []byte
	err := s.read.QueryRowContext(ctx, "SELECT sealed FROM secrets WHERE job = ?", id).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		err = s.explain(fmt.Sprintf("cannot read the secrets of job %d", id), err)
		if !errors.As(err, new(*Refused)) {
			err = fmt.Errorf("%w: %w", err, syscall.EIO) // it is not damaged: the disk or the machine fails for now
		}
		return nil, err
	}
	if s.aead == nil {
		return nil, errors.New("secrets cannot be read from a database opened for reading only")
	}
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, fmt.Errorf("the secrets of job %d are damaged: too short", id)
	}
	plain, err := s.aead.Open(nil, sealed[:n], sealed[n:], s.bound(id))
	if err != nil {
		return nil, fmt.Errorf("the secrets of job %d do not open with this key: %w", id, err)
	}
	var values map[string]string
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("the secrets of job %d are damaged", id)
	}
	return values, nil
}
