package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// Under fifo it does not matter for who runs in the end whether events are decided
// on together or one by one, as long as the sizes leave no gaps.
func TestSplitBatches(t *testing.T) {
	contested := 0
	for seed := range seeds.Of(t, 150) {
		cfg := cluster(4, map[cell.VCName]int32{"a": 2, "b": 1})
		whole, split := newWorld(t, cfg), newWorld(t, cfg)
		r := rand.New(rand.NewPCG(seed, 11))
		names := 0
		for range 12 {
			group := drawGroup(r, whole, &names)
			whole.feed(group)
			for len(group) > 0 {
				n := 1 + r.IntN(len(group))
				split.feed(group[:n])
				group = group[n:]
			}
			whole.calm()
			split.calm()
			if a, b := whole.running(), split.running(); a != b {
				t.Fatalf("seed %d: together these run: %s; one by one: %s", seed, a, b)
			} else if a != "" && len(whole.s.Waiting()) > 0 {
				contested++
			}
		}
	}
	if contested < 500 && seeds.Modest() {
		t.Errorf("only %d times did some run while others waited: the histories show nothing", contested)
	}
}

// deed is what a group of events says about one job.
type deed struct {
	submit *model.Job
	finish model.JobName
	stop   model.JobName
}

// drawGroup draws up to five events that make sense now, each about another job.
func drawGroup(r *rand.Rand, w *world, names *int) []deed {
	var out []deed
	present := w.s.Jobs()
	r.Shuffle(len(present), func(i, k int) { present[i], present[k] = present[k], present[i] })
	for range 1 + r.IntN(5) {
		if len(present) == 0 || r.IntN(5) < 2 {
			*names++
			out = append(out, deed{submit: gangJob(fmt.Sprintf("j%d", *names), cell.VCName([]string{"a", "b"}[r.IntN(2)]), 1, 1+r.Int32N(5), 1)})
			continue
		}
		j := present[0]
		present = present[1:]
		if j.Phase == model.Active && r.IntN(3) > 0 {
			out = append(out, deed{finish: j.Name})
		} else {
			out = append(out, deed{stop: j.Name})
		}
	}
	return out
}

// feed gives a group of events to one Decide.
func (w *world) feed(group []deed) {
	w.t.Helper()
	for _, d := range group {
		switch {
		case d.submit != nil:
			w.note(command(w.s, model.Submit{Job: d.submit}))
		case d.stop != "":
			if id, ok := w.s.ByName("u", d.stop); ok {
				w.note(command(w.s, model.Stop{Job: id}))
			}
		default:
			w.finish(d.finish)
		}
	}
	w.decide()
}

// finish ends all tasks of a job that run.
func (w *world) finish(name model.JobName) {
	id, ok := w.s.ByName("u", name)
	if !ok {
		return
	}
	j, _ := w.s.Job(id)
	for o, task := range j.Tasks {
		if task.State == model.TaskRunning || task.State == model.TaskStopping {
			w.note(w.s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: id, Gang: task.Gang, N: task.Attempt}, Task: int32(o)}))
		}
	}
}

// note applies events without deciding.
func (w *world) note(events []model.Event) {
	for _, e := range events {
		w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e})
	}
}

// calm lets what starts start and what stops stop until nothing does.
func (w *world) calm() {
	for {
		before := w.s.Seq()
		for _, j := range w.s.Jobs() {
			w.start(j.ID)
			if j.Stopping {
				w.finish(j.Name)
				w.decide()
			}
		}
		if w.s.Seq() == before {
			return
		}
	}
}

// running names the jobs that run.
func (w *world) running() string {
	var out []string
	for _, j := range w.s.Jobs() {
		if j.Phase == model.Active {
			out = append(out, string(j.Name))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
