package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
)

// inParts is nodes of one GPU each, in so many parts; VC a owns them all.
func inParts(nodes int, parts int32) *model.Config {
	spec := cell.Spec{
		SKUs: []cell.SKU{{Name: "PART", GPU: 1, Device: cell.NVIDIA, Part: cell.Share}},
		Chains: []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{
			{Type: "PART"}, {Type: "GPU", Fanout: parts}, {Type: "NODE", Fanout: 1, IsNode: true}}}},
		VCs: []cell.VCSpec{{Name: "a", Quota: []cell.QuotaSpec{{Chain: "NODE", Level: 3, Number: int32(nodes)}}}},
	}
	for i := range nodes {
		gpu := cell.CellSpec{Type: "GPU", Address: "0"}
		for k := range parts {
			gpu.Children = append(gpu.Children, cell.CellSpec{Type: "PART", Address: fmt.Sprintf("0:%d", k)})
		}
		spec.Cells = append(spec.Cells, cell.CellSpec{Type: "NODE", Address: fmt.Sprintf("n%d", i+1), Children: []cell.CellSpec{gpu}})
	}
	return &model.Config{Cluster: spec, VCs: []model.VCConfig{{Name: "a"}}}
}

// withoutSnapshots is a store from which only the log is recovered.
type withoutSnapshots struct{ *store.Store }

func (withoutSnapshots) SaveSnapshot(context.Context, uint64, []byte) error { return nil }

// TestOriginsOutliveTheServer changes the file twice, with a new server in between. The
// one that recovers, from the log or from a snapshot behind the first change, still knows
// that a task has a quarter of a device that both files divide in halves: no half of it is
// free, whatever its number.
func TestOriginsOutliveTheServer(t *testing.T) {
	for _, test := range []struct {
		name    string
		journal func(*store.Store) engine.Journal
	}{
		{"from the log", func(s *store.Store) engine.Journal { return withoutSnapshots{s} }},
		{"from a snapshot", func(s *store.Store) engine.Journal { return s }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			open := func() *store.Store {
				s, err := store.Open(ctx, dir, store.Options{Now: clock()})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			r := newRig(t, test.journal(s), 2)
			r.options.Epoch, r.options.SnapshotEvery = s.Epoch(), 1
			quarter := func(name string, d model.Duration) func() {
				return func() { r.give(submit(job(name, "a", 1, d)), nil) }
			}
			var changed uint64 // the last event of the first change
			if err := r.run(
				func() { r.give(model.Reconfigure{Config: inParts(1, 4)}, nil) },
				quarter("first", model.Second), quarter("second", 0), r.pass(model.Minute),
				func() { r.give(model.Reconfigure{Config: inParts(1, 2)}, nil) },
				func() { changed = r.seq }, r.pass(model.Minute),
			); err != nil {
				t.Fatal(err)
			}
			_, seq, err := s.Snapshot(ctx)
			if _, none := r.journal.(withoutSnapshots); err != nil || none != (seq < changed) {
				t.Fatalf("the last snapshot is of event %d, the file was changed at %d: %v", seq, changed, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			s = open()
			defer s.Close()
			r.world.Reopen(true)
			r.journal, r.options.Journal, r.options.Epoch = s, test.journal(s), s.Epoch()
			third := job("third", "a", 1, 0)
			third.Roles[0].Tasks, third.Roles[0].MinSucceeded, third.Gangs[0].Tasks = 3, 3, []int32{0, 1, 2}
			third.Priority = cell.Opportunistic // it lets nobody leave
			if err := r.run(
				func() { r.give(model.Reconfigure{Config: inParts(2, 2)}, nil) },
				func() { r.give(submit(third), nil) }, r.pass(model.Minute),
			); err != nil {
				t.Fatal(err)
			}
			if got := r.phase(2); got != model.Active {
				t.Errorf("the second job is %v", got)
			}
			if got := r.phase(3); got != model.Waiting {
				t.Errorf("the third job is %v on three halves of two devices, of one of which another has a quarter", got)
			}
			if err := r.world.Err(); err != nil {
				t.Error(err)
			}
			sound(t, s, policy.New, r.engine.Replica())
		})
	}
}
