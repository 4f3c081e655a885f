package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/test/testkit"
)

// user makes a user in groups, which are made with it, and returns its token.
func (w *world) user(name string, groups ...string) string {
	w.t.Helper()
	ctx := context.Background()
	for _, g := range groups {
		if _, err := w.people.Group(g); err != nil {
			if err := w.people.CreateGroup(ctx, "test", access.Group{Name: g}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if err := w.people.CreateUsers(ctx, "test", []people.NewUser{{User: access.User{Name: name, Groups: groups}}}); err != nil {
		w.t.Fatal(err)
	}
	token, _, err := w.people.CreateToken(ctx, name, people.NewToken{User: name, Name: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// as makes a request with another token.
func (w *world) as(token, method, path, body string) (int, string) {
	w.t.Helper()
	status, _, text := w.request(method, path, body, map[string]string{"Authorization": "Bearer " + token})
	return status, text
}

// teams is a world with two VCs on a node of four GPUs each, for the groups red and blue.
func teams(t *testing.T) *world {
	w := setup{gpus: 4, trust: true}.open(t)
	c := oneNode(4)
	two := c.Cluster.Cells[0]
	two.Address = "n2"
	c.Cluster.Cells = append(c.Cluster.Cells, two)
	quota := c.Cluster.VCs[0].Quota
	c.Cluster.VCs = []cell.VCSpec{{Name: "a", Quota: quota}, {Name: "b", Quota: quota}}
	c.VCs = []model.VCConfig{{Name: "a"}, {Name: "b"}}
	c.Access = []access.Grant{{VC: "a", Managers: []string{"leads"}, Members: []string{"red"}, Viewers: []string{"guests"}}, {VC: "b", Members: []string{"blue"}}}
	reply := w.live.Do(context.Background(), model.Reconfigure{Meta: model.Meta{Subject: "system"}, Config: c}, nil)
	if reply.Refusal != nil || reply.Err != nil {
		t.Fatal(reply.Refusal, reply.Err)
	}
	w.client.See(reply.Seq)
	return w
}

// submitAs submits a job of so many GPUs with a token.
func (w *world) submitAs(token, name, vc string, gpus int) rest.Submitted {
	w.t.Helper()
	priority := ""
	if name == "borrows" {
		priority = "oppo"
	}
	c, err := rest.NewClient(w.url, token)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := c.Submit(context.Background(), rest.SubmitRequest{Quick: &rest.QuickJob{Name: name, VC: vc, GPUs: int64(gpus), CPUs: "1",
		MemoryMB: 100, Command: []string{"echo", name}, Priority: priority}}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.client.See(out.Seq)
	return out
}

// Each route is tried by each kind of asker for bob's job: what may not be seen is answered as what
// is not there, and no answer holds its name, its file or its log.
func TestRightsOfEveryRoute(t *testing.T) {
	w := teams(t)
	bob := w.user("bob", "blue")
	askers := map[string]string{"member of another VC": w.user("alice", "red"), "administrator of another VC": w.user("lena", "leads"), "without a group": w.user("nils")}
	job := w.submitAs(bob, "canary-job", "b", 4)
	w.until("it runs", w.running(job.ID))
	w.logs.print(executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}, "canary-log\n")
	ended := w.submitAs(bob, "canary-job-ended", "b", 1)
	if _, err := w.client.Stop(context.Background(), rest.JobRef(ended.ID), ""); err != nil {
		t.Fatal(err)
	}
	mine := w.submitAs(askers["member of another VC"], "mine", "a", 4)
	w.until("it runs", w.running(mine.ID))
	waits := w.submitAs(askers["member of another VC"], "waits", "a", 4)
	borrows := w.submitAs(askers["member of another VC"], "borrows", "a", 4)
	needs := server.Needs()
	for _, route := range slices.Sorted(maps.Keys(described(t))) { // GET before POST: stops come last
		method, path, _ := strings.Cut(route, " ")
		if _, ok := needs[route]; !ok {
			t.Errorf("%s has no rights", route)
		}
		if strings.HasSuffix(path, "/health") {
			continue
		}
		for who, token := range askers {
			refs := []string{""}
			if strings.Contains(path, "{ref}") {
				refs = []string{rest.JobRef(job.ID), rest.JobRef(ended.ID), "bob~canary-job", rest.JobRef(waits.ID), rest.JobRef(borrows.ID)}
			}
			for _, ref := range refs {
				body := ""
				if method != http.MethodGet {
					body = "{}"
				}
				status, text := w.as(token, method, fill(path, ref), body)
				text = strings.ReplaceAll(text, `\"canary-job\" of user \"bob\"`, "IT") // what was asked for may be said again
				if strings.Contains(text, "canary") || strings.Contains(text, "bob") {
					t.Errorf("%s, %s of %s: %d %s", who, route, ref, status, text)
				}
				if ref == "" || ref == rest.JobRef(waits.ID) || ref == rest.JobRef(borrows.ID) {
					continue
				}
				gone := "999999"
				if ref == "bob~canary-job" {
					gone = "bob~nothing-job"
				}
				status2, text2 := w.as(token, method, fill(path, gone), body)
				if status != http.StatusNotFound || status2 != status || strings.NewReplacer(gone, ref, `\"nothing-job\" of user \"bob\"`, "IT").Replace(text2) != text {
					t.Errorf("%s, %s of %s: %d %s, but of what is not there: %d %s", who, route, ref, status, text, status2, text2)
				}
			}
		}
	}
}

// fill puts values into a route's path.
func fill(path, ref string) string {
	return strings.NewReplacer("{ref}", ref, "{role}", "main", "{index}", "0", "{port}", "80", "{name}", "n1", "{id}", "none").Replace(path)
}

// What each role may do with a job of its own VC.
func TestRightsInAVC(t *testing.T) {
	w := teams(t)
	alice, anna, lena, gus := w.user("alice", "red"), w.user("anna", "red"), w.user("lena", "leads"), w.user("gus", "guests")
	job := w.submitAs(alice, "train", "a", 1)
	w.until("it runs", w.running(job.ID))
	w.logs.print(executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}, "loss 0.5\n")
	path := rest.Prefix + "/jobs/" + rest.JobRef(job.ID)
	w.live.Tell(model.Notice{Job: job.ID, Message: "canary-notice"})
	w.until("its owner reads the notice", func() bool {
		_, text := w.as(alice, "GET", path, "")
		return strings.Contains(text, "canary-notice")
	})
	for _, from := range []string{path, path + "/explain", rest.Prefix + "/jobs", rest.Prefix + "/jobs?sort=name"} {
		if status, text := w.as(gus, "GET", from, ""); status != 200 || strings.Contains(text, "canary-notice") {
			t.Errorf("a viewer reads at %s: %d %s", from, status, text)
		}
	}
	for _, c := range []struct {
		who, token, method, path string
		want                     int
	}{
		{"a viewer", gus, "GET", path, 200}, {"a viewer", gus, "GET", path + "/explain", 200}, {"a viewer", gus, "GET", path + "/tasks/main/0/logs", 403},
		{"a viewer", gus, "GET", path + "/tasks/main/0/logs?stream=both", 403},
		{"a member", anna, "GET", path + "/tasks/main/0/logs?stream=both", 200},
		{"a viewer", gus, "GET", path + "/config", 403}, {"a viewer", gus, "POST", path + "/stop", 403}, {"a viewer", gus, "GET", path + "/events", 403},
		{"a member", anna, "GET", path + "/tasks/main/0/logs", 200}, {"a member", anna, "GET", path + "/config", 200}, {"a member", anna, "POST", path + "/stop", 403},
		{"a member", anna, "GET", path + "/tasks/main/0/exec", 403}, {"a member", anna, "PUT", rest.Prefix + "/config", 403},
		{"a member", anna, "POST", rest.Prefix + "/nodes/n1/cordon", 403}, {"a member", anna, "GET", rest.Prefix + "/nodes", 200},
		{"its owner", alice, "GET", path + "/tasks/main/0/exec", 426}, {"the VC's administrator", lena, "GET", path + "/tasks/main/0/exec", 426},
		{"the VC's administrator", lena, "POST", path + "/stop", 200},
	} {
		if status, text := w.as(c.token, c.method, c.path, ""); status != c.want {
			t.Errorf("%s, %s %s: %d %s, want %d", c.who, c.method, c.path, status, text, c.want)
		}
	}
	status, text := w.as(alice, "POST", rest.Prefix+"/jobs", "{}")
	if status == 200 {
		t.Errorf("%d %s", status, text)
	}
	c, err := rest.NewClient(w.url, alice)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Submit(context.Background(), rest.SubmitRequest{Quick: &rest.QuickJob{Name: "x", VC: "b", GPUs: 1, Command: []string{"true"}}}, "")
	if rest.CodeOf(err) != rest.CodeForbidden || !strings.Contains(err.Error(),
		"a member of the VC can. alice has no role there") {
		t.Errorf("a job for another team's VC: %v", err)
	}
	w.until("the refusals are in the audit log", func() bool {
		lines, err := w.people.Log(context.Background(), 0, 100)
		return err == nil && slices.ContainsFunc(lines, func(l people.AuditLine) bool {
			return l.Subject == "alice" && l.Outcome == people.Refused && strings.Contains(l.Object, "VC b")
		})
	})
}

// However much a VC's administrator has written, each command that changes a job of another user,
// or runs in it, is named. Of those that change nothing, and of tags, there are no more lines.
func TestNoCommandIsHidden(t *testing.T) {
	w := teams(t)
	alice, lena := w.user("alice", "red"), w.user("lena", "leads")
	runs := w.submitAs(alice, "train", "a", 1)
	w.until("it runs", w.running(runs.ID))
	waits := w.submitAs(alice, "train-2", "a", 4)
	verbs := []string{"tag job", "hold job", "run a command in job"}
	for _, verb := range verbs {
		lines := make([]people.AuditLine, 600)
		for i := range lines {
			lines[i] = people.AuditLine{Subject: "lena", Verb: verb, Object: "another job", Outcome: people.Done}
		}
		if err := w.people.Note(context.Background(), lines...); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		method string
		job    model.JobID
		path   string
		want   int
	}{
		{"PUT", runs.ID, "/tags/hidden", 200}, {"POST", waits.ID, "/hold", 200}, {"POST", waits.ID, "/hold", 200},
		{"GET", runs.ID, "/tasks/main/0/exec", 426}, // no visit, and no line
	} {
		path := rest.Prefix + "/jobs/" + rest.JobRef(c.job) + c.path
		if status, text := w.as(lena, c.method, path, ""); status != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, path, status, text, c.want)
		}
	}
	leads, err := rest.NewClient(w.url, lena)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"cat", "a b"}, {"refused", strings.Repeat("é", 200)}} {
		e, err := leads.Exec(t.Context(), rest.TaskName{Job: rest.JobRef(runs.ID), Role: "main"},
			rest.ExecRequest{Command: command})
		if err != nil {
			t.Fatal(err)
		}
		_ = e.CloseWrite()
		_, _ = e.Follow(io.Discard, io.Discard) // its line is written before it begins
		e.Close()
	}
	lines, err := w.people.Log(context.Background(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	var commands []string
	for _, l := range lines {
		if l.Verb == "run a command in job" && strings.Contains(l.Object, "alice~train") {
			commands = append(commands, l.Detail)
		}
		if l.Subject == "lena" && strings.Contains(l.Object, "alice~train") {
			named[l.Verb]++
		}
	}
	if named["tag job"] != 0 || named["hold job"] != 1 || named["run a command in job"] != 2 {
		t.Errorf("named are %v", named)
	}
	want := []string{`task main-0: refused "` + strings.Repeat("é", 95) + "...", `task main-0: cat "a b"`}
	if !slices.Equal(commands, want) {
		t.Errorf("the commands are %q, want %q", commands, want)
	}
}

// Lists and streams show what the asker may see, and nothing when that is taken back.
func TestSightOfListsAndStreams(t *testing.T) {
	w := teams(t)
	alice, bob := w.user("alice", "red"), w.user("bob", "blue")
	for i := range 5 {
		w.submitAs(bob, fmt.Sprint("canary-", i), "b", 4)
	}
	own := w.submitAs(alice, "train", "a", 1)
	c, err := rest.NewClient(w.url, alice)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	c.See(own.Seq)
	list, err := c.Jobs(ctx, rest.JobQuery{})
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Name != "train" {
		t.Errorf("%+v %v", list.Jobs, err)
	}
	if _, text := w.as(alice, "GET", rest.Prefix+"/events", ""); strings.Contains(text, "canary") || !strings.Contains(text, "train") {
		t.Errorf("a page of events: %s", text)
	}
	if _, text := w.as(bob, "GET", rest.Prefix+"/events", ""); !strings.Contains(text, "canary") || strings.Contains(text, "train") {
		t.Errorf("a page of events: %s", text)
	}
	if _, err := w.people.UpdateUser(ctx, "test", "alice", people.UserChange{Groups: &[]string{}}); err != nil {
		t.Fatal(err)
	}
	if status, _ := w.as(alice, "GET", rest.Prefix+"/jobs/"+rest.JobRef(own.ID), ""); status != 200 {
		t.Errorf("its own job, without a group: %d", status)
	}
	_, err = c.Submit(ctx, rest.SubmitRequest{Quick: &rest.QuickJob{Name: "x", VC: "a", GPUs: 1, Command: []string{"true"}}}, "")
	if rest.CodeOf(err) != rest.CodeForbidden {
		t.Errorf("a job without a group: %v", err)
	}
}

// With several users known a job without an image is refused, unless they trust each other.
func TestProcessesOfStrangers(t *testing.T) {
	w := newWorld(t, 4)
	w.submit("alone", 1)
	w.user("alice")
	admin := true
	if _, err := w.people.UpdateUser(context.Background(), "test", "alice", people.UserChange{Admin: &admin}); err != nil {
		t.Fatal(err)
	}
	w.submit("one", 1)
	w.user("bob")
	_, err := w.client.Submit(context.Background(), rest.SubmitRequest{Quick: &rest.QuickJob{Name: "x", GPUs: 1, Command: []string{"true"}}}, "")
	if rest.CodeOf(err) != rest.CodeForbidden || !strings.Contains(err.Error(), "--trust-users") {
		t.Errorf("%v", err)
	}
}

// TestEventsDoNotNameStrangers: the sentences of a job's events name the job that it made room for
// to those that may see that one alone.
func TestEventsDoNotNameStrangers(t *testing.T) {
	w := teams(t)
	alice, bob := w.user("alice", "red"), w.user("bob", "blue")
	w.submitAs(alice, "mine", "a", 4)
	lent := w.submitAs(alice, "borrows", "a", 4)
	w.until("it borrows", w.running(lent.ID))
	returns := w.submitAs(bob, "canary-job", "b", 4)
	told := func(token string) string {
		c, err := rest.NewClient(w.url, token)
		if err != nil {
			t.Fatal(err)
		}
		c.See(returns.Seq)
		page, err := c.JobEvents(t.Context(), rest.JobRef(lent.ID), 0)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, e := range page.Events {
			text += e.Says + "\n"
		}
		return text
	}
	number := fmt.Sprint("job ", returns.ID)
	if text := told(alice); !strings.Contains(text, "told to stop") || !strings.Contains(text, " for "+number+"\n") || strings.Contains(text, "canary") {
		t.Errorf("alice is told\n%s", text)
	}
	if text := told(w.token); !strings.Contains(text, " for "+number+" (bob~canary-job)\n") {
		t.Errorf("the administrator is told\n%s", text)
	}
}

// TestServerInternals: where the engine listens and what is wrong with it is told to
// administrators; others learn in plain words what runs tasks.
func TestServerInternals(t *testing.T) {
	w := teams(t)
	tokens := map[string]string{w.user("alice", "red"): "processes", w.user("lena", "leads"): "processes", w.token: saidRuntime}
	for token, want := range tokens {
		status, text := w.as(token, "GET", rest.Prefix+"/nodes", "")
		var list rest.NodeList
		if err := json.Unmarshal([]byte(text), &list); err != nil || status != 200 || list.Runtime != want {
			t.Errorf("%d %v: tasks run as %q, want %q", status, err, list.Runtime, want)
		}
	}
}
