package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// TestSortedLists wants the jobs that end first, and a virtual cluster's line, whatever the order of submission.
func TestSortedLists(t *testing.T) {
	w := newWorld(t, 3)
	ctx := context.Background()
	submit := func(name, limit, priority string) sched.JobID {
		t.Helper()
		out, err := w.client.Submit(ctx, rest.SubmitRequest{Quick: &rest.QuickJob{Name: name, GPUs: 1, CPUs: "1", MemoryMB: 100,
			TimeLimit: limit, Priority: priority, Command: []string{"true"}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		return out.ID
	}
	for _, j := range []struct{ name, limit string }{{"three-hours", "3h"}, {"endless", ""}, {"one-hour", "1h"}} {
		w.until(j.name+" runs", w.running(submit(j.name, j.limit, "crit")))
	}
	submit("later", "", "oppo")
	submit("second", "", "test")
	submit("first", "", "prod")
	names := func(q rest.JobQuery) string {
		t.Helper()
		list, err := w.client.Jobs(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, j := range list.Jobs {
			out = append(out, string(j.Name))
		}
		if list.Next != "" {
			t.Errorf("%+v has a next page %q; want none", q, list.Next)
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		q    rest.JobQuery
		want string
	}{
		{rest.JobQuery{Sort: "left", States: []sched.Phase{sched.Active}}, "one-hour three-hours endless"},
		{rest.JobQuery{Sort: "left", Limit: 1}, "one-hour"},
		{rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}}, "first second later"},
		{rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}, Limit: 2}, "first second"},
		{rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}, Name: "e", States: []sched.Phase{sched.Waiting}}, "second later"},
	} {
		if have := names(c.q); have != c.want {
			t.Errorf("%+v gives %q; want %q", c.q, have, c.want)
		}
	}
	for _, path := range []string{"/api/v1/jobs?sort=place", "/api/v1/jobs?sort=place&vc=default&cursor=3", "/api/v1/jobs?sort=age"} {
		if status, _, _ := w.request(http.MethodGet, path, "", nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%s is answered with %d; want 422", path, status)
		}
	}
	if status, _, _ := w.request(http.MethodGet, "/api/v1/jobs?sort=place&vc=none-such", "", nil); status != http.StatusNotFound {
		t.Errorf("a virtual cluster that there is not gives %d; want 404", status)
	}
}
