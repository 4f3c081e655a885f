package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/storetest"
)

// What the server needs of a store, the suite of stores shows.
var _ server.Store = storetest.Store(nil)

// of is a client of another user.
func (w *world) of(user model.Subject) *rest.Client {
	w.t.Helper()
	token, _, err := w.store.CreateToken(context.Background(), "other", user, wall())
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := rest.NewClient(w.url, token)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestTwoUsersOfOneName: alice and bob have a job train each. To each the bare name is its own job,
// while it lives and when it has ended, USER~NAME is anybody's, and numbers are the cluster's.
func TestTwoUsersOfOneName(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	alice, bob, eve := w.client, w.of("bob"), w.of("eve")
	train := rest.SubmitRequest{Quick: &rest.QuickJob{Name: "train", GPUs: 2, CPUs: "1", MemoryMB: 100, Command: []string{"true"}}}
	hers, err := alice.Submit(ctx, train, "")
	if err != nil {
		t.Fatal(err)
	}
	w.until("hers runs", w.running(hers.ID))
	his, err := bob.Submit(ctx, train, "")
	if err != nil {
		t.Fatalf("bob cannot have a train of his own: %v", err)
	}
	alice.See(his.Seq)
	eve.See(his.Seq)

	// Neither's conflict names the other's job.
	for c, ids := range map[*rest.Client][2]model.JobID{alice: {hers.ID, his.ID}, bob: {his.ID, hers.ID}} {
		_, err := c.Submit(ctx, train, "")
		mine, others := "(id "+rest.JobRef(ids[0])+")", "(id "+rest.JobRef(ids[1])+")"
		if rest.CodeOf(err) != rest.CodeConflict || !strings.Contains(err.Error(), mine) || strings.Contains(err.Error(), others) {
			t.Errorf("a second train: %v; want a conflict with %s alone", err, mine)
		}
	}

	found := func(when string) {
		t.Helper()
		for _, c := range []struct {
			who  *rest.Client
			ref  string
			want model.JobID
			as   string
		}{
			{alice, "train", hers.ID, "train"}, {bob, "train", his.ID, "train"}, {eve, "train", 0, ""},
			{alice, "alice~train", hers.ID, "train"}, {alice, "bob~train", his.ID, "bob~train"}, {bob, "alice~train", hers.ID, "alice~train"},
			{eve, "bob~train", his.ID, "bob~train"}, {eve, rest.JobRef(hers.ID), hers.ID, "alice~train"},
			{eve, "eve~train", 0, ""}, {alice, "alice~" + rest.JobRef(hers.ID), 0, ""}, {alice, "~train", 0, ""}, {alice, "bob~", 0, ""}, {alice, "bob~~train", 0, ""},
		} {
			j, err := c.who.Job(ctx, c.ref)
			if c.want == 0 && rest.CodeOf(err) != rest.CodeNotFound || c.want > 0 && (err != nil || j.ID != c.want || j.Ref != c.as) {
				t.Errorf("%s: %s is job %d, %q, %v; want %d, %q", when, c.ref, j.ID, j.Ref, err, c.want, c.as)
			}
		}
	}
	found("while they live")
	if _, err := eve.Job(ctx, "train"); err == nil || !strings.Contains(err.Error(), "USER~NAME") || strings.Contains(err.Error(), "alice") {
		t.Errorf("what eve is told: %v; want USER~NAME, and nobody's name", err)
	}

	// Lists and explanations call a job as their reader would.
	list, err := bob.Jobs(ctx, rest.JobQuery{})
	if err != nil || len(list.Jobs) != 2 || list.Jobs[0].Ref != "train" || list.Jobs[1].Ref != "alice~train" {
		t.Errorf("bob's list: %+v, %v", list.Jobs, err)
	}
	ex, err := bob.Explain(ctx, "train")
	if err != nil || ex.Ref != "train" || ex.Job != his.ID || !strings.Contains(ex.Gangs[0].Reason.Message, "in use by alice~train") ||
		!slices.ContainsFunc(ex.Names, func(n rest.NamedJob) bool { return n.ID == hers.ID && n.User == "alice" && n.Ref == "alice~train" }) {
		t.Errorf("bob's explanation: %+v, %v", ex, err)
	}
	// Reasons of another's job, in its page, a list and an explanation, name the reader's own as
	// the reader does.
	ex, err = alice.Explain(ctx, "bob~train")
	if err != nil || !strings.Contains(ex.Gangs[0].Reason.Message, "in use by train") {
		t.Errorf("alice is told of bob's: %+v, %v", ex, err)
	}
	if j, err := alice.Job(ctx, "bob~train"); err != nil || j.Reason == nil || !strings.Contains(j.Reason.Message, "in use by train") {
		t.Errorf("alice's page of bob's: %+v, %v", j.Reason, err)
	}
	list, err = eve.Jobs(ctx, rest.JobQuery{})
	if err != nil || list.Jobs[0].Reason == nil || !strings.Contains(list.Jobs[0].Reason.Message, "in use by alice~train") {
		t.Errorf("eve's list: %+v, %v", list.Jobs, err)
	}
	cells, err := eve.Cells(ctx)
	if err != nil || len(cells.Names) != 1 || cells.Names[0].Ref != "alice~train" {
		t.Errorf("eve's cells name %+v, %v", cells.Names, err)
	}
	if status, _, text := w.request(http.MethodGet, rest.Prefix+"/jobs/bob~train/config", "", nil); status != http.StatusOK || !strings.Contains(text, `name: "train"`) {
		t.Errorf("the job file of bob~train: %d %s", status, text)
	}

	// A stop by a bare name ends the caller's own job; then the same holds of those that ended.
	if _, err := bob.Stop(ctx, "train", ""); err != nil {
		t.Fatal(err)
	}
	w.until("his is stopped", func() bool {
		j, err := bob.Job(ctx, "train")
		return err == nil && j.Phase == model.Stopped
	})
	if !w.running(hers.ID)() {
		t.Error("alice's train does not run any more")
	}
	if _, err := eve.Stop(ctx, "train", ""); rest.CodeOf(err) != rest.CodeNotFound {
		t.Errorf("eve stops train: %v", err)
	}
	w.exit(hers.ID, 1, 0)
	w.until("hers has ended", func() bool {
		j, err := alice.Job(ctx, "train")
		return err == nil && j.Phase == model.Succeeded
	})
	found("when they have ended")
	var p *rest.Problem
	if _, err := bob.Stop(ctx, "alice~train", ""); !errors.As(err, &p) || p.Code != rest.CodeConflict || !strings.Contains(p.Detail, "job alice~train has ended already") {
		t.Errorf("a stop of an ended job of another user: %v", err)
	}
}
