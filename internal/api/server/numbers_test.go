package server_test

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// numbersOf are those with which the tasks of a job run.
func (w *world) numbersOf(id model.JobID, seq uint64) (n [2]uint32) {
	w.t.Helper()
	err := w.replica.Read(w.t.Context(), seq, func(s *core.State) {
		if job, ok := s.Spec(id); ok {
			if n = [2]uint32{job.UID, job.GID}; !job.Numbered {
				w.t.Errorf("job %d does not say that its numbers were asked for", id)
			}
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// A job has the numbers that its user had when it was submitted, whatever becomes of the account:
// another number, none, or that the account is gone. None runs as the server instead.
func TestNumbersOfJobs(t *testing.T) {
	w, admin := admin(t)
	ctx := t.Context()
	uid := func(n int64) *int64 { return &n }
	made(t, admin, []string{"red"}, "alice", "carol")
	if _, err := admin.UpdateGroup(ctx, "red", rest.GroupChange{UID: uid(5001), GID: uid(5000)}); err != nil {
		t.Fatal(err)
	}
	token, other := w.signIn("alice"), w.signIn("carol")
	jobs := map[model.JobID][2]uint32{}
	submit := func(token, name string, want [2]uint32) {
		t.Helper()
		job := w.submitAs(token, name, "a", 4)
		if got := w.numbersOf(job.ID, job.Seq); got != want {
			t.Errorf("job %s has %v, want %v", name, got, want)
		}
		jobs[job.ID] = want
	}
	submit(w.token, "of-the-token", [2]uint32{5001, 5000}) // in the name of alice
	submit(token, "of-the-group", [2]uint32{5001, 5000})
	if _, err := admin.UpdateUser(ctx, "alice", rest.UserChange{UID: uid(4001)}); err != nil {
		t.Fatal(err)
	}
	submit(token, "of-the-user", [2]uint32{4001, 5000})
	if _, err := admin.UpdateUser(ctx, "alice", rest.UserChange{UID: uid(-1)}); err != nil {
		t.Fatal(err)
	}
	submit(token, "again", [2]uint32{5001, 5000})
	if _, err := admin.UpdateGroup(ctx, "red", rest.GroupChange{UID: uid(-1)}); err != nil {
		t.Fatal(err)
	}
	submit(token, "of-none", [2]uint32{})
	if err := admin.DeleteUser(ctx, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.UpdateUser(ctx, "carol", rest.UserChange{UID: uid(4003)}); err != nil {
		t.Fatal(err)
	}
	submit(other, "of-another", [2]uint32{4003, 5000})
	submit(w.token, "without-an-account", [2]uint32{}) // alice is none now
	for id, want := range jobs {
		if got := w.numbersOf(id, 0); got != want {
			t.Errorf("job %d has %v now, want %v", id, got, want)
		}
	}
	w.stop()

	// Also over a restart of the server, which then runs as that user itself.
	w = setup{dir: w.dir, trust: true}.open(t)
	w.people.Platform = []int64{4003}
	for id, want := range jobs {
		if got := w.numbersOf(id, 0); got != want {
			t.Errorf("after a restart job %d has %v, want %v", id, got, want)
		}
	}
	c, err := rest.NewClient(w.url, other)
	if err != nil {
		t.Fatal(err)
	}
	quick := &rest.QuickJob{VC: "a", GPUs: 1, CPUs: "1", MemoryMB: 100, Command: []string{"true"}}
	_, err = c.Submit(ctx, rest.SubmitRequest{Quick: quick}, "")
	const why = "would run with uid 4003 and gid 5000, and Comb itself runs with one of them now"
	if rest.CodeOf(err) != rest.CodeConflict || !strings.Contains(err.Error(), why) {
		t.Errorf("of numbers that are Comb's own: %v", err)
	}
}
