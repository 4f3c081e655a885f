package store_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/test/storetest"
)

// TestContract holds the store on SQLite to what its users rely on.
func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		dir := filepath.Join(t.TempDir(), "data")
		return &storetest.Harness{
			Open: func(keys int) storetest.Store {
				s, err := store.Open(context.Background(), dir, store.Options{ReserveBytes: 1 << 20, Keys: keys})
				if err != nil {
					t.Fatal(err)
				}
				return store.Retention{Store: s}
			},
			CreateToken: func(ctx context.Context, s storetest.Store, name string, subject model.Subject, now model.Time) (string, storetest.Token, error) {
				text, made, err := s.(store.Retention).CreateToken(ctx, name, subject, now)
				return text, token(made), err
			},
			CheckToken: func(ctx context.Context, s storetest.Store, text string, now model.Time) (model.Subject, bool) {
				t, ok := s.(store.Retention).CheckToken(ctx, text, now)
				return t.Subject, ok
			},
			Tokens: func(s storetest.Store) (out []storetest.Token) {
				for _, t := range s.(store.Retention).ListTokens() {
					out = append(out, token(t))
				}
				return out
			},
			Lies:   func(text string) bool { return lies(t, dir, text) },
			Forget: store.KeepAnswers,
		}
	})
}

func token(t store.Token) storetest.Token {
	return storetest.Token{ID: t.ID, Name: t.Name, Subject: t.Subject, Used: t.Used}
}

// lies looks for a text in every file of a directory.
func lies(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
