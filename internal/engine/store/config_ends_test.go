package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
)

// endsWorld is a data directory that is opened anew for each step, as after a kill.
type endsWorld struct {
	*testing.T
	dir string
}

func (w endsWorld) do(f func(ctx context.Context, s *store.Store) error) {
	w.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, w.dir, store.Options{ReserveBytes: 1 << 20})
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	if err := f(ctx, s); err != nil {
		w.Fatal(err)
	}
	if _, err := s.Check(ctx, func(p string) { w.Error(p) }); err != nil {
		w.Fatal(err)
	}
}

func (w endsWorld) begin(file string, until model.Time, back int64) {
	w.Helper()
	w.do(func(ctx context.Context, s *store.Store) error {
		return s.BeginConfig(ctx, engine.ConfigVersion{Time: 1, Author: "ann", Until: until, Back: back}, []byte(file))
	})
}

func (w endsWorld) end(tag string) {
	w.Helper()
	w.do(func(ctx context.Context, s *store.Store) error { return s.EndConfig(ctx, tag) })
}

func (w endsWorld) settle(tag string, file []byte) {
	w.Helper()
	w.do(func(ctx context.Context, s *store.Store) error {
		return store.RecordConfig(ctx, s, tag, engine.ConfigVersion{Time: 2, Author: "system"}, file)
	})
}

// has compares the ends of all versions, the latest first: {version, until, back}.
func (w endsWorld) has(what string, want ...[3]int64) {
	w.Helper()
	w.do(func(ctx context.Context, s *store.Store) error {
		list, err := s.Configs(ctx, 0, 10)
		var got [][3]int64
		for _, v := range list {
			got = append(got, [3]int64{v.Version, int64(v.Until), v.Back})
			if one, _, _, err := s.ConfigFile(ctx, v.Version); err != nil || one != v {
				w.Errorf("%s: version %d alone is %+v, %v", what, v.Version, one, err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("%s: %s", what, diff)
		}
		return err
	})
}

// A server that is killed when an apply is in the journal and not yet a version: the file of its
// unit was replaced, once what was begun is settled. What did not come into force replaced none.
func TestReplacedByWhatWasBegun(t *testing.T) {
	for tag, yes := range map[string]bool{"2": true, "1": false} {
		w := newEnds(t)
		w.begin("two", 0, 0)
		w.do(func(ctx context.Context, s *store.Store) error { return store.FinishBegun(ctx, s, tag) })
		w.do(func(ctx context.Context, s *store.Store) error {
			was, latest, got, err := store.Replaced(ctx, s, []byte("one"))
			if got != yes || yes && (was.Version != 1 || latest.Version != 2 || latest.Author != "ann") {
				t.Errorf("with %s in force it was version %d, replaced by %+v: %v", tag, was.Version, latest, got)
			}
			return err
		})
		list := map[bool][][3]int64{true: {{2, 0, 0}, {1, 0, 0}}, false: {{1, 0, 0}}}[yes]
		w.has("settled", list...)
		// Where nothing is begun, another configuration in force is no version by this.
		w.do(func(ctx context.Context, s *store.Store) error { return store.FinishBegun(ctx, s, "3") })
		w.has("settled again", list...)
	}
}

func newEnds(t *testing.T) endsWorld {
	w := endsWorld{t, filepath.Join(t.TempDir(), "data")}
	w.begin("one", 0, 0)
	w.end("1")
	return w
}

// An end comes with its version, and goes with it.
func TestEndsGoWithVersions(t *testing.T) {
	w := newEnds(t)
	w.begin("two", 9, 1)
	w.has("while it is applied", [3]int64{1, 0, 0})
	w.end("2")
	w.has("in force", [3]int64{2, 9, 1}, [3]int64{1, 0, 0})
	w.begin("two", 11, 1)
	w.end("2")
	w.has("another end of the same", [3]int64{2, 11, 1}, [3]int64{1, 0, 0})
	w.begin("three", 12, 1)
	w.end("")
	w.has("a further one is refused", [3]int64{2, 11, 1}, [3]int64{1, 0, 0})
	w.settle("2", []byte("two"))
	w.has("a start with the same file", [3]int64{2, 11, 1}, [3]int64{1, 0, 0})
	w.begin("two", 0, 0)
	w.end("2")
	w.has("the same without an end", [3]int64{2, 0, 0}, [3]int64{1, 0, 0})
	w.begin("two", 13, 1)
	w.end("2")
	w.begin("three", 14, 1)
	w.end("3")
	w.has("one on top of another", [3]int64{3, 14, 1}, [3]int64{2, 0, 0}, [3]int64{1, 0, 0})
	w.do(func(ctx context.Context, s *store.Store) error { return store.Ends{Store: s}.Drop(ctx, 2) })
	w.has("none of it is dropped", [3]int64{3, 14, 1}, [3]int64{2, 0, 0}, [3]int64{1, 0, 0})
	w.do(func(ctx context.Context, s *store.Store) error { return store.Ends{Store: s}.Drop(ctx, 3) })
	w.has("dropped", [3]int64{3, 0, 0}, [3]int64{2, 0, 0}, [3]int64{1, 0, 0})
}

// What was begun with an end and never came into force gives that end to no other file, whatever is
// started next.
func TestEndsOfWhatNeverCameIntoForce(t *testing.T) {
	for _, way := range []struct {
		name string
		end  bool // the refusal is noted, and not cut off by a kill
		next func(endsWorld)
	}{
		{"refused, then another file at a start", true, func(w endsWorld) { w.settle("2", []byte("other")) }},
		{"killed, then another file at a start", false, func(w endsWorld) { w.settle("2", []byte("other")) }},
		{"refused, then another file", true, func(w endsWorld) { w.begin("other", 0, 0); w.end("2") }},
		{"killed, then another file", false, func(w endsWorld) { w.begin("other", 0, 0); w.end("2") }},
		{"killed, then a start with nothing, then another file at one", false, func(w endsWorld) { w.settle("1", nil); w.settle("2", []byte("other")) }},
		{"killed, then a start with the same file, then another file at one", false, func(w endsWorld) { w.settle("1", []byte("one")); w.settle("2", []byte("other")) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			w := newEnds(t)
			w.begin("bad", 9, 1)
			if way.end {
				w.end("")
			}
			way.next(w)
			w.has("at last", [3]int64{2, 0, 0}, [3]int64{1, 0, 0})
		})
	}
}

// What came into force keeps its end where the server was killed before that was noted.
func TestEndsOfWhatCameIntoForce(t *testing.T) {
	w := newEnds(t)
	w.begin("two", 9, 1)
	w.settle("2", nil)
	w.has("after the start", [3]int64{2, 9, 1}, [3]int64{1, 0, 0})
}
