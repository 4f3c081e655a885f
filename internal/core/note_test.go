package core_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// counter is a policy that prefers a node; it notes each job's place among those
// that wait, and about its VC the first of them.
type counter struct{ node int32 }

func (c counter) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		n := 0
		for g := range v.Waiting() {
			n++
			w := model.Wish{Gang: g.Ref, Prefer: cell.NodeSet{}.Add(c.node)}
			if n == 1 {
				w.Note = &model.Note{Data: fmt.Appendf(nil, "first %d", g.Ref.Job)}
			}
			if !yield(model.Wish{Note: &model.Note{Job: g.Ref.Job, Data: fmt.Appendf(nil, "place %d", n)}}) || !yield(w) {
				return
			}
		}
	}
}

func (counter) NextChange(model.View) model.Time { return 0 }

// blind notes nothing; it would panic if it saw what another noted.
type blind struct{}

func (blind) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for g := range v.Waiting() {
			if v.Note(0) != nil || v.Note(g.Ref.Job) != nil {
				panic("a policy sees what another noted")
			}
			if !yield(model.Wish{Gang: g.Ref}) {
				return
			}
		}
	}
}

func (blind) NextChange(model.View) model.Time { return 0 }

func noting(c model.VCConfig) (model.Policy, error) {
	if c.Policy == "counter" {
		return counter{node: 1}, nil
	}
	return blind{}, nil
}

func notes(w *world) string {
	var out []string
	for _, r := range w.log {
		if n, ok := r.Event.(model.Noted); ok {
			out = append(out, fmt.Sprintf("%s %d: %s", n.Policy, n.Job, n.Data))
		}
	}
	w.log = nil
	return strings.Join(out, ", ")
}

// What a policy notes is an event, only when it is new; it lives through a
// snapshot, and ends with its job or with the policy.
func TestNotes(t *testing.T) {
	cfg := cluster(2, map[cell.VCName]int32{"a": 2})
	cfg.VCs = []model.VCConfig{{Name: "a", Policy: "counter"}}
	w := &world{t: t, s: core.New(noting), now: 1_000_000}
	w.do(model.Reconfigure{Config: cfg})
	first := w.submit(gangJob("first", "a", 10, 1, 4))
	want(t, "the node that the policy prefers", w.where(first), "n1[0 1 2 3]")
	w.submit(gangJob("second", "a", 10, 1, 4))
	third := w.submit(gangJob("third", "a", 10, 1, 4))
	w.submit(gangJob("fourth", "a", 10, 1, 4))
	want(t, "notes", notes(w), "counter 1: place 1, counter 0: first 1, counter 2: place 1, counter 0: first 2, "+
		"counter 3: place 1, counter 0: first 3, counter 4: place 2")
	loaded, err := core.Load(w.s.Save(), noting)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "digest of what was read back", loaded.Digest(), w.s.Digest())
	other := *cfg
	other.VCs = []model.VCConfig{{Name: "a", Policy: "blind"}}
	w.do(model.Reconfigure{Config: &other})
	want(t, "another policy's notes", notes(w), "")
	w.do(model.Reconfigure{Config: cfg})
	want(t, "notes begin anew", notes(w), "counter 3: place 1, counter 0: first 3, counter 4: place 2")
	w.do(model.Stop{Job: third})
	want(t, "a note changes with what it says", notes(w), "counter 4: place 1, counter 0: first 4")
}

// What is noted of a VC goes along when it gets another name; whoever joins another VC reads
// what is noted there.
func TestNotesRenamed(t *testing.T) {
	counting := func(quota map[cell.VCName]int32) *model.Config {
		cfg := cluster(2, quota)
		for i := range cfg.VCs {
			cfg.VCs[i].Policy = "counter"
		}
		return cfg
	}
	w := &world{t: t, s: core.New(noting), now: 1_000_000, policies: noting}
	w.do(model.Reconfigure{Config: counting(map[cell.VCName]int32{"a": 1, "c": 1})})
	for _, vc := range []cell.VCName{"a", "c"} {
		w.submit(gangJob("runs in "+string(vc), vc, 10, 1, 4))
		w.submit(gangJob("waits in "+string(vc), vc, 10, 1, 4))
	}
	want(t, "notes", notes(w), "counter 1: place 1, counter 0: first 1, counter 2: place 1, counter 0: first 2, "+
		"counter 3: place 1, counter 0: first 3, counter 4: place 1, counter 0: first 4")
	w.do(model.Reconfigure{Config: counting(map[cell.VCName]int32{"b": 1, "c": 1}), Renamed: []model.Rename{{From: "a", To: "b"}}})
	want(t, "notes of a renamed VC", notes(w), "")
	w.do(model.Reconfigure{Config: counting(map[cell.VCName]int32{"c": 2}), Renamed: []model.Rename{{From: "b", To: "c"}}})
	want(t, "notes of a joined VC", notes(w), "counter 0: first 2, counter 4: place 2")
}
