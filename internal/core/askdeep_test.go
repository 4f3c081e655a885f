package core_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// BenchmarkAskDeep asks why a job waits among 10,000 that want the one GPU of a cluster.
func BenchmarkAskDeep(b *testing.B) {
	w := &world{s: core.New(policy.New), now: 1_000_000}
	apply := func(c model.Command) {
		events, _, no := w.s.Check(c, w.now)
		if no != nil {
			b.Fatal(no)
		}
		for _, e := range events {
			w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e})
		}
	}
	apply(model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 1, "b": 1})})
	apply(model.Submit{Job: gangJob("run", "a", 10, 1, 2)})
	w.s.Decide(w.now)
	for i := range 10_000 {
		apply(model.Submit{Job: gangJob(fmt.Sprint("wait", i), "a", 10, 1, 1)})
	}
	w.s.Decide(w.now)
	spare := new(core.CopyMemory)
	b.ResetTimer()
	i := 0
	for b.Loop() {
		id, _ := w.s.ByName("u", model.JobName(fmt.Sprint("wait", i*200%10_000)))
		i++
		c := w.s.AtIn(spare, w.now)
		c.Explain(id)
		c.Estimate(id, nil)
	}
}

// What is said in memory that is used again is what is said in new memory, and stays so when others
// are asked about in it.
func TestSpareMemory(t *testing.T) {
	said := map[string]any{} // by the text that it had
	for seed := range seeds.Of(t, 10) {
		w := troubled(t, rand.New(rand.NewPCG(seed, 18)))
		spare := new(core.CopyMemory)
		for _, j := range w.s.Jobs() {
			ask := func(s *core.State) [3]any {
				e, _ := s.Explain(j.ID)
				m, _ := s.Estimate(j.ID, nil)
				spec, _ := s.Spec(j.ID)
				again := *spec
				again.Name += "-again"
				d, _ := s.DryRun(&again, nil)
				return [3]any{e, m, d}
			}
			fresh, used := ask(w.s.At(w.now)), ask(w.s.AtIn(spare, w.now))
			if a, b := asText(t, fresh), asText(t, used); a != b {
				t.Errorf("seed %d: in new memory %s; in memory used before %s", seed, a, b)
			} else {
				said[a] = used
			}
		}
	}
	for was, now := range said {
		if now := asText(t, now); now != was {
			t.Errorf("said %s; it became %s", was, now)
		}
	}
	if len(said) < 50 && seeds.Modest() {
		t.Errorf("only %d answers", len(said))
	}
}

func asText(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
