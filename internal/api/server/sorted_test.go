package server_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TestSortedLists wants the jobs that end first, and a virtual cluster's line, whatever the order
// of submission.
func TestSortedLists(t *testing.T) {
	w := newWorld(t, 3)
	ctx := context.Background()
	submit := func(name, limit, priority string) model.JobID {
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
		if more := q.Limit > 0; more != (list.Next != "") {
			t.Errorf("%+v has a next page %q; want one: %v", q, list.Next, more)
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		q    rest.JobQuery
		want string
	}{
		{rest.JobQuery{Sort: "left", States: []model.Phase{model.Active}}, "one-hour three-hours endless"},
		{rest.JobQuery{Sort: "left", Limit: 1}, "one-hour"},
		{rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}}, "first second later"},
		{rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}, Limit: 2}, "first second"},
		{rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}, Name: "e", States: []model.Phase{model.Waiting}}, "second later"},
	} {
		if have := names(c.q); have != c.want {
			t.Errorf("%+v gives %q; want %q", c.q, have, c.want)
		}
	}
	for _, path := range []string{"/api/v1/jobs?sort=place", "/api/v1/jobs?sort=place&vc=default&cursor=x", "/api/v1/jobs?sort=name&cursor=-3.a", "/api/v1/jobs?sort=age"} {
		if status, _, _ := w.request(http.MethodGet, path, "", nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%s is answered with %d; want 422", path, status)
		}
	}
	if status, _, _ := w.request(http.MethodGet, "/api/v1/jobs?sort=place&vc=none-such", "", nil); status != http.StatusNotFound {
		t.Errorf("a virtual cluster that there is not gives %d; want 404", status)
	}
}

// TestSortedPages reads lists of jobs that run, wait and have ended in all orders, page by page:
// each job once, where it belongs.
func TestSortedPages(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	names := []string{"delta", "alpha", "echo", "bravo", "Zulu", "charlie", "alpha-2", "0x"}
	var ids []model.JobID
	for i, name := range names {
		out, err := w.client.Submit(ctx, rest.SubmitRequest{Quick: &rest.QuickJob{Name: name, GPUs: int64(1 + i%2), CPUs: "1", MemoryMB: 100,
			TimeLimit: strconv.Itoa(9-i) + "h", Command: []string{"true"}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.ID)
	}
	for _, i := range []int{1, 4, 5} {
		if _, err := w.client.Stop(ctx, rest.JobRef(ids[i]), ""); err != nil {
			t.Fatal(err)
		}
		w.until(names[i]+" is stopped", func() bool {
			j, err := w.client.Job(ctx, rest.JobRef(ids[i]))
			return err == nil && j.Phase == model.Stopped
		})
	}
	walk := func(q rest.JobQuery) string {
		t.Helper()
		var out []string
		for range 20 {
			list, err := w.client.Jobs(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Jobs) > q.Limit {
				t.Fatalf("%+v gives %d jobs", q, len(list.Jobs))
			}
			for _, j := range list.Jobs {
				out = append(out, string(j.Name))
			}
			if q.Cursor = list.Next; q.Cursor == "" {
				break
			}
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		q    rest.JobQuery
		want string
	}{
		{rest.JobQuery{Sort: "name"}, "0x Zulu alpha alpha-2 bravo charlie delta echo"},
		{rest.JobQuery{Sort: "-name"}, "echo delta charlie bravo alpha-2 alpha Zulu 0x"},
		{rest.JobQuery{Sort: "name", Name: "l"}, "Zulu alpha alpha-2 charlie delta"},
		{rest.JobQuery{Sort: "name", States: []model.Phase{model.Stopped}}, "Zulu alpha charlie"},
		{rest.JobQuery{Sort: "submitted"}, strings.Join(names, " ")},
		{rest.JobQuery{Sort: "-submitted"}, "0x alpha-2 charlie Zulu bravo echo alpha delta"},
		{rest.JobQuery{Sort: "user"}, strings.Join(names, " ")},
		{rest.JobQuery{Sort: "-vc", VCs: []cell.VCName{"default"}}, "0x alpha-2 charlie Zulu bravo echo alpha delta"},
		{rest.JobQuery{Sort: "gpus"}, "delta echo alpha-2 bravo 0x"},
		{rest.JobQuery{Sort: "-gpus"}, "0x bravo alpha-2 echo delta"},
	} {
		for c.q.Limit = 1; c.q.Limit < 10; c.q.Limit++ {
			if have := walk(c.q); have != c.want {
				t.Errorf("%+v gives %q; want %q", c.q, have, c.want)
			}
		}
	}
	for limit := 1; limit < 6; limit++ {
		q := rest.JobQuery{Sort: "place", VCs: []cell.VCName{"default"}, Limit: limit}
		whole := q
		whole.Limit = 100
		if have, want := walk(q), walk(whole); have != want || strings.Count(want, " ") < 2 {
			t.Errorf("the line in pages of %d is %q; as a whole %q", limit, have, want)
		}
		q.Sort, whole.Sort = "left", "left"
		if have, want := walk(q), walk(whole); have != want || strings.Count(want, " ") != 4 {
			t.Errorf("what ends first in pages of %d is %q; as a whole %q", limit, have, want)
		}
	}
}
