package jobspec

import (
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// inOrder is the plainest policy: submission order.
type inOrder struct{}

func (inOrder) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for g := range v.Waiting() {
			if !yield(model.Wish{Gang: g.Ref}) {
				return
			}
		}
	}
}

// What Parse accepts, the core must be able to place on the empty cluster.
func TestTheCorePlacesGoodFiles(t *testing.T) {
	policies := func(model.VCConfig) (model.Policy, error) { return inOrder{}, nil }
	for _, path := range files(t, "good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			result, problems := Parse(path, src, testEnv())
			if problems != nil {
				t.Fatal(problems)
			}
			s := core.New(policies)
			give(t, s, model.Reconfigure{Config: testCluster()})
			give(t, s, model.Submit{Job: result.Job})
			placed := 0
			for _, r := range s.Decide(1000) {
				if e, ok := r.Event.(model.Placed); ok {
					placed += len(e.Placement.Tasks)
				}
			}
			want := 0
			for _, role := range result.Job.Roles {
				want += int(role.Tasks)
			}
			if n := int(result.Job.Size); n > 0 { // it begins with fewer than it may have
				want = n
			}
			if placed != want {
				why, _ := s.Explain(1)
				t.Errorf("%d of %d tasks are placed: %+v", placed, want, why)
			}
			if err := s.Verify(); err != nil {
				t.Error(err)
			}
		})
	}
}

func give(t *testing.T, s *core.State, c model.Command) {
	t.Helper()
	events, _, refusal := s.Check(c, 1000)
	if refusal != nil {
		t.Fatalf("%T is refused: %v", c, refusal)
	}
	for _, e := range events {
		s.Apply(model.Record{Seq: s.Seq() + 1, Time: 1000, Event: e})
	}
}
