package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/store"
)

// The ends of versions are kept over restarts, and the last ones take the place of those before.
func TestEnds(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "data")
	for _, ends := range [][]engine.ConfigEnd{nil, {{Version: 3, Back: 1, Until: 9}, {Version: 4, Back: 1, Until: 10}}, {{Version: 4, Back: 1, Until: 11}}, nil} {
		s, err := store.Open(ctx, dir, store.Options{ReserveBytes: 1 << 20})
		if err == nil {
			err = store.Ends{Store: s}.Set(ctx, ends)
			s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, err = store.Open(ctx, dir, store.Options{ReserveBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		got, err := store.Ends{Store: s}.Of(ctx)
		if diff := cmp.Diff(ends, got); diff != "" || err != nil {
			t.Errorf("%v: %s", err, diff)
		}
		s.Close()
	}
}
