package core_test

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// TestTwoUsersOfOneName: alice and bob have a job train each. Each finds its own, is told of
// its own alone when it submits it again, and reads of the other's by user and name.
func TestTwoUsersOfOneName(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	train := func(user model.Subject) *model.Job {
		j := gangJob("train", "a", 10, 2, 4)
		j.User = user
		return j
	}
	hers := w.submit(train("alice"))
	w.start(hers)
	his := w.submit(train("bob"))
	other := train("alice")
	other.Name = "other"
	third := w.submit(other)

	for user, whose := range map[model.Subject]model.JobID{"alice": hers, "bob": his, "eve": 0} {
		id, _ := w.s.ByName(user, "train")
		want(t, string(user)+"'s train", id, whose)
	}
	for _, user := range []model.Subject{"alice", "bob"} {
		_, _, no := w.s.Check(model.Submit{Job: train(user)}, w.now)
		mine := map[model.Subject]string{"alice": "(id 1)", "bob": "(id 2)"}[user]
		if no == nil || no.Kind != model.Conflict || !strings.Contains(no.Message, mine) || strings.Count(no.Message, "(id ") != 1 {
			t.Errorf("%s submits its train again: %+v, want a conflict with %s", user, no, mine)
		}
	}

	// Who is told of another user's job reads whose it is, and of its own the name alone.
	e := w.explain(his)
	want(t, "bob reads", strings.Contains(e.Gangs[0].Reason.Message, "in use by alice~train"), true)
	e = w.explain(third)
	want(t, "alice reads", strings.Contains(e.Gangs[0].Reason.Message, "train") && !strings.Contains(e.Gangs[0].Reason.Message, "alice~"), true)
	c := model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"b": 1}), Meta: model.Meta{Subject: "alice"}}
	plan, no := w.s.PlanConfig(c)
	if no != nil {
		t.Fatal(no)
	}
	said := strings.Join(plan.Effects, "\n")
	for _, text := range []string{"job train (attempt 1.0.1)", "running job train ", "waiting job bob~train ", "waiting job other "} {
		want(t, text+" in\n"+said, strings.Contains(said, text), true)
	}

	// When hers ends, his starts, and her name is free again: his stays his, also in a snapshot.
	w.exit(hers, 0)
	w.start(his)
	again := w.submit(train("alice"))
	s, err := core.Load(w.s.Save(), policy.New)
	if err != nil {
		t.Fatal(err)
	}
	for user, whose := range map[model.Subject]model.JobID{"alice": again, "bob": his} {
		id, _ := s.ByName(user, "train")
		want(t, string(user)+"'s train in a snapshot", id, whose)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	w.replay()
}
