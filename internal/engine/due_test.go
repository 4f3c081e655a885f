package engine_test

import (
	"context"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// crashing is a journal whose process dies before it leaves a snapshot at its end.
type crashing struct {
	*engine.Memory
	saved []uint64
	off   bool
}

func (c *crashing) SaveSnapshot(ctx context.Context, seq uint64, state []byte) error {
	if c.off {
		return nil
	}
	c.saved = append(c.saved, seq)
	return c.Memory.SaveSnapshot(ctx, seq, state)
}

// TestSnapshotsAreDueByEventsOfAllLives: a server that is killed again and again before it has
// written SnapshotEvery events by itself leaves snapshots all the same.
func TestSnapshotsAreDueByEventsOfAllLives(t *testing.T) {
	j := &crashing{Memory: engine.NewMemory(), off: true}
	r := newRig(t, j, 2)
	r.options.SnapshotEvery = 1000
	if err := r.run(func() { r.give(submit(job("one", "a", 1, model.Second)), nil) }, r.pass(model.Minute)); err != nil {
		t.Fatal(err)
	}
	before := r.seq
	if before < 6 {
		t.Fatalf("the first life has %d events", before)
	}
	j.off = false
	r.options.SnapshotEvery = before + 2 // more than either life has
	if err := r.run(func() { r.give(submit(job("two", "a", 1, model.Second)), nil) }, r.pass(model.Minute)); err != nil {
		t.Fatal(err)
	}
	if r.seq-before >= r.options.SnapshotEvery {
		t.Fatalf("the second life has %d events, enough for a snapshot of its own", r.seq-before)
	}
	if len(j.saved) < 2 || j.saved[0] >= r.seq {
		t.Errorf("snapshots of events %v, at the end %d: none is from before the end", j.saved, r.seq)
	}
}
