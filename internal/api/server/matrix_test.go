package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/pai"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// asker is an identity of docs/rights.md that asks about jobs of VC a.
type asker struct {
	name, token string
	user        string
	column      string // its role in VC a, as the table's head says it; "" is none
	owner       bool   // the jobs are its own
	elsewhere   bool   // it is a member of VC b
	readOnly    bool   // its token reads alone
	bounded     bool   // its token is for VC b alone, of which it is a member, too
	root        bool   // its token is that of the data directory: of no account
}

// rightsTable reads the table of docs/rights.md: by verb and column what stands there.
func rightsTable(t *testing.T) map[access.Verb]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/rights.md")
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	table := map[access.Verb]map[string]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if head == nil {
			head = cells
			continue
		}
		row := map[string]string{}
		for i, cell := range cells {
			row[head[i]] = cell
		}
		table[access.Verb(row["what"])] = row
	}
	if len(table) < 17 || table[access.SeeJob]["viewer"] != "yes" {
		t.Fatalf("the table has %d rows: %v", len(table), table)
	}
	return table
}

// may is what the page says: of a job of VC a, or of the cluster.
func (a *asker) may(table map[access.Verb]map[string]string, verb access.Verb, job bool) bool {
	row := table[verb]
	reads := strings.HasPrefix(string(verb), "see ") || strings.HasPrefix(string(verb), "read ") || verb == access.OwnAccount
	outside := a.bounded && (job || row["member"] != "yes")
	switch {
	case row == nil || a.readOnly && !reads || outside:
		return false
	case a.column == "" && !job && (verb == access.SeeCluster || verb == access.OwnAccount): // a user in no group sees the cluster and its own account
		return true
	case row[a.column] == "yes":
		return true
	case (a.bounded || a.elsewhere) && !job && row["member"] == "yes":
		return true
	}
	own := row["the job's own user"]
	return job && a.owner && (own == "yes" || own == "as a member" && a.column == "member")
}

// tried is a request of the matrix.
type tried struct {
	route, method, path, body string
	verb                      access.Verb
	need                      string // job, list, submit, cluster, person or open
	asked                     string // the name in the path, which an answer may say again
	absent                    string // the same of a job that is not there
}

// matrixOf are all routes of both dialects, filled for jobs of a user.
func matrixOf(t *testing.T, owner string, id, ended model.JobID) (all []tried) {
	t.Helper()
	submit, err := json.Marshal(rest.SubmitRequest{Quick: &rest.QuickJob{VC: "a", GPUs: 1, CPUs: "1", MemoryMB: 100, Command: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	own := server.Needs()
	person := map[string]string{"DELETE /api/v1/sessions": "", "PUT /api/v1/me/password": `{"old":"not the password","new":"another long one"}`,
		"POST /api/v1/tokens": `{"name":"one more"}`, "DELETE /api/v1/tokens/{id}": ""}
	for _, route := range slices.Sorted(maps.Keys(described(t))) {
		n, ok := own[route]
		if !ok {
			t.Errorf("%s has no rights", route)
		}
		c := tried{route: route, verb: n.Verb, need: "cluster"}
		c.method, c.path, _ = strings.Cut(route, " ")
		job := id
		if c.method != http.MethodGet {
			c.body, job = "{}", ended // what is allowed does nothing to a job that has ended
		}
		body, alone := person[route]
		switch {
		case n.Open:
			c.need = "open"
		case alone:
			c.need, c.body = "person", body
		case route == "POST /api/v1/jobs" || route == "POST /api/v1/jobs:validate":
			c.need, c.body = "submit", string(submit)
		case n.Job && strings.Contains(route, "{ref}"):
			c.need, c.absent = "job", fill(c.path, "999999")
		case n.Job:
			c.need = "list"
		}
		if c.need != "job" {
			c.path = strings.ReplaceAll(c.path, "{name}", "none") // n1 is a node
		}
		c.path = fill(c.path, rest.JobRef(job))
		for _, variable := range []string{"{tag}", "{digest}", "{version}"} {
			c.path, c.absent = strings.ReplaceAll(c.path, variable, "7"), strings.ReplaceAll(c.absent, variable, "7")
		}
		c.asked = rest.JobRef(job)
		all = append(all, c)
	}
	theirs := pai.Needs()
	for _, route := range slices.Sorted(maps.Keys(theirs)) {
		n := theirs[route]
		c := tried{route: route, verb: n.Verb, need: "cluster", asked: "canary-" + owner}
		c.method, c.path, _ = strings.Cut(route, " ")
		if c.method != http.MethodGet {
			c.body, c.asked = "{}", c.asked+"-ended"
		}
		named := strings.Contains(c.path, "{job}") || strings.Contains(c.path, "{name...}")
		switch {
		case n.Open:
			c.need = "open"
		case n.InPerson || route == "DELETE "+pai.Prefix+"/tokens/{token}":
			c.need = "person"
		case route == "POST "+pai.Prefix+"/jobs":
			c.need, c.body = "submit", jobOfVC("a")
		case n.Job && named:
			c.need = "job"
		case n.Job:
			c.need = "list"
		}
		if strings.HasSuffix(route, "/executionType") {
			c.body = `{"value":"START"}`
		}
		if strings.HasSuffix(route, "/tag") {
			c.body = `{"value":"x"}`
		}
		filled := func(name string) string {
			return strings.NewReplacer("{job}", owner+"~"+name, "{name...}", owner+"~"+name+"/0", "{attempt}", "0", "{role}", "main", "{index}", "0", "{run}", "0", "{stream}", "stdout",
				"{vc}", "a", "{storage}", "none", "{user}", "none", "{group}", "none", "{token}", "none", "{ticket}", "none").Replace(c.path)
		}
		c.path, c.absent = filled(c.asked), filled("nothing")
		all = append(all, c)
		if strings.HasSuffix(route, "/executionType") {
			c.body = `{"value":"STOP"}`
			all = append(all, c)
		}
	}
	return append(all, tried{route: "GET /metrics", method: "GET", path: "/metrics", verb: access.SeeMetrics, need: "cluster"})
}

// fourOhFour are the routes that answer 404 to those that may ask: what they are for is not here.
var fourOhFour = []string{"GET " + pai.Prefix + "/jobs/{job}/ssh"}

// Every route of both dialects against each identity of docs/rights.md: what is allowed follows
// from the page's table alone. What may not be seen is answered as what is not there, and no answer
// has a part of a job that its reader may not know: each job has a mark in its name, and another in
// its file, its log and its notices.
func TestRightsMatrix(t *testing.T) {
	w := teams(t)
	ctx := context.Background()
	table := rightsTable(t)
	scoped := func(user string, scope access.Scope) string {
		token, _, err := w.people.CreateToken(ctx, user, people.NewToken{User: user, Name: "scoped", Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	alice, lou := w.user("alice", "red"), w.user("lou", "red")
	carol := w.user("carol")
	admin, blocked := true, true
	if _, err := w.people.UpdateUser(ctx, "test", "carol", people.UserChange{Admin: &admin}); err != nil {
		t.Fatal(err)
	}
	w.user("bea", "red", "blue")
	gone := w.user("gone", "red")
	if _, err := w.people.UpdateUser(ctx, "test", "gone", people.UserChange{Blocked: &blocked}); err != nil {
		t.Fatal(err)
	}
	const member, cluster = "member", "administrator of the cluster"
	askers := []asker{
		{name: "a viewer", user: "gus", token: w.user("gus", "guests"), column: "viewer"},
		{name: "a member", user: "anna", token: w.user("anna", "red"), column: member},
		{name: "an administrator of the VC", user: "lena", token: w.user("lena", "leads"), column: "administrator of the VC"},
		{name: "an administrator of the cluster", user: "carol", token: carol, column: cluster},
		{name: "the job's own user", user: "alice", token: alice, column: member, owner: true},
		{name: "the job's own user, which has left the VC", user: "lou", token: lou, owner: true},
		{name: "a member of another VC", user: "bob", token: w.user("bob", "blue"), elsewhere: true},
		{name: "a user in no group", user: "nils", token: w.user("nils")},
		{name: "the holder of the data directory's token", user: "admin", token: w.token, column: cluster, root: true},
		{name: "a member's token that reads alone", user: "anna", token: scoped("anna", access.Scope{ReadOnly: true}), column: member, readOnly: true},
		{name: "the own user's token that reads alone", user: "alice", token: scoped("alice", access.Scope{ReadOnly: true}), column: member, owner: true, readOnly: true},
		{name: "an administrator's token that reads alone", user: "carol", token: scoped("carol", access.Scope{ReadOnly: true}), column: cluster, readOnly: true},
		{name: "a member's token for another VC", user: "bea", token: scoped("bea", access.Scope{VCs: []string{"b"}}), column: member, bounded: true},
		{name: "an administrator's token for another VC", user: "carol", token: scoped("carol", access.Scope{VCs: []string{"b"}}), column: cluster, bounded: true},
	}
	if testing.Short() { // maybe with the race detector
		few := []string{"a member", "the job's own user, which has left the VC", "a member of another VC",
			"the holder of the data directory's token", "a member's token that reads alone"}
		askers = slices.DeleteFunc(askers, func(a asker) bool { return !slices.Contains(few, a.name) })
	}
	defer http.DefaultClient.CloseIdleConnections()
	calls := map[string][]tried{}
	for owner, token := range map[string]string{"alice": alice, "lou": lou} {
		id, ended := w.marked(owner, token, "canary-"+owner), w.marked(owner, token, "canary-"+owner+"-ended")
		if _, err := w.client.Stop(ctx, rest.JobRef(ended), ""); err != nil {
			t.Fatal(err)
		}
		w.until("it has ended", func() bool {
			j, err := w.client.Job(ctx, rest.JobRef(ended))
			return err == nil && j.Phase.Ended()
		})
		calls[owner] = matrixOf(t, owner, id, ended)
	}
	if _, err := w.people.UpdateUser(ctx, "test", "lou", people.UserChange{Groups: &[]string{}}); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i := range askers {
		a := &askers[i]
		owner, sees, reads := "alice", a.may(table, access.SeeJob, true), a.may(table, access.ReadJob, true)
		if a.user == "lou" {
			owner = "lou"
		}
		names, marks := 0, 0
		for _, c := range calls[owner] {
			status, text := w.ask(a.token, &c, c.path)
			asked++
			said := strings.ReplaceAll(strings.ReplaceAll(text, c.asked, "IT"), "inner-canary-of-"+owner, "MARK")
			if strings.Contains(text, "inner-canary") && reads {
				marks++
			}
			if strings.Contains(said, "canary-"+owner) {
				names++
			}
			if strings.HasSuffix(c.route, "/{run}/logs") && status == http.StatusOK {
				w.follow(a.name, text, "inner-canary-of-"+owner)
			}
			if !reads && strings.Contains(text, "inner-canary") {
				t.Errorf("%s, %s: it reads what it may not: %d %s", a.name, c.route, status, text)
			}
			if !sees && strings.Contains(said, "canary") {
				t.Errorf("%s, %s: it learns of a job that it may not see: %d %s", a.name, c.route, status, text)
			}
			may := a.may(table, c.verb, c.need == "job" || c.need == "submit")
			wrong := ""
			switch refused := status == http.StatusForbidden || status == http.StatusUnauthorized; {
			case status >= 500 && status != http.StatusNotImplemented && status != http.StatusServiceUnavailable:
				wrong = "no fault of the server"
			case c.need == "open":
			case a.root && (c.need == "person" || strings.HasSuffix(c.route, "/tokens")):
				if status != http.StatusForbidden && status != http.StatusConflict {
					wrong = "403 or 409: it is of no account"
				}
			case c.need == "person":
				if status != http.StatusForbidden {
					wrong = "403: it is a program's token"
				}
			case c.need == "list":
				if refused {
					wrong = "a list of what it may see"
				}
			case may && (refused || c.need == "job" && status == http.StatusNotFound && !slices.Contains(fourOhFour, c.route)):
				wrong = "what it may do"
			case may:
			case c.need == "job" && !sees:
				status2, text2 := w.ask(a.token, &c, c.absent)
				const code = `"status":404` // in which a job's number may be
				was := strings.ReplaceAll(strings.ReplaceAll(text, code, ""), c.asked, "IT")
				gone := strings.NewReplacer(code, "", "999999", "IT", "nothing", "IT").Replace(text2)
				if status != http.StatusNotFound || status2 != status || gone != was {
					wrong = fmt.Sprintf("404 as of what is not there: %d %s", status2, text2)
				}
			case status != http.StatusForbidden:
				wrong = "403"
			}
			if wrong != "" {
				t.Errorf("%s, %s (%q): %d %s; want %s", a.name, c.route, c.verb, status, text, wrong)
			}
		}
		if sees != (names > 0) || reads != (marks > 0) { // else the marks prove nothing
			t.Errorf("%s met the names of jobs %d times (%v) and what is in them %d times (%v)", a.name, names, sees, marks, reads)
		}
	}
	for name, token := range map[string]string{"no token": "", "a token that is none": "comb_nonsense", "a blocked user's token": gone} {
		for _, c := range calls["alice"] {
			status, text := w.ask(token, &c, c.path)
			asked++
			if strings.Contains(strings.ReplaceAll(text, c.asked, "IT"), "canary") || c.need != "open" && status != http.StatusUnauthorized {
				t.Errorf("%s, %s: %d %s; want 401", name, c.route, status, text)
			}
		}
	}
	t.Logf("%d requests of %d identities to %d routes", asked, len(askers)+3, len(calls["alice"]))
}

// marked submits a job with a mark in its file, its log and its notices, and waits until it runs.
func (w *world) marked(owner, token, name string) model.JobID {
	w.t.Helper()
	c, err := rest.NewClient(w.url, token)
	if err != nil {
		w.t.Fatal(err)
	}
	mark := "inner-canary-of-" + owner
	file := fmt.Sprintf("protocolVersion: 2\nname: %s\ntype: job\ntaskRoles:\n  main:\n    instances: 1\n    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 1}\n"+
		"    commands: [\"echo %s\"]\ndefaults: {virtualCluster: a}\n", name, mark)
	out, err := c.Submit(context.Background(), rest.SubmitRequest{Source: file}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.client.See(out.Seq)
	w.until("it runs", w.running(out.ID))
	for _, stream := range []string{"stdout", "stderr"} {
		w.logs.print(executor.LogRef{Attempt: model.AttemptID{Job: out.ID, N: 1}, Stream: stream}, mark+"\n")
	}
	w.live.Tell(model.Notice{Job: out.ID, Message: mark})
	w.until("its owner reads the notice", func() bool {
		_, text := w.as(token, "GET", rest.Prefix+"/jobs/"+rest.JobRef(out.ID), "")
		return strings.Contains(text, mark)
	})
	return out.ID
}

// follow asks for the logs whose addresses were given: no address is given that does not answer.
func (w *world) follow(name, text, mark string) {
	w.t.Helper()
	var in struct{ Locations []struct{ URI string } }
	if err := json.Unmarshal([]byte(text), &in); err != nil || len(in.Locations) != 2 {
		w.t.Errorf("%s gets the addresses %s: %v", name, text, err)
	}
	for _, at := range in.Locations {
		if status, log := w.ask("", &tried{method: "GET"}, strings.TrimPrefix(at.URI, w.url)); status != http.StatusOK || log != mark+"\n" {
			w.t.Errorf("%s, the log at %s: %d %s", name, at.URI, status, log)
		}
	}
}

// ask makes a request of the matrix, on connections that stay.
func (w *world) ask(token string, c *tried, path string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(c.method, w.url+path, strings.NewReader(c.body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(c.body, "protocolVersion") {
		r.Header.Set("Content-Type", "text/yaml")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatalf("%s: %v", c.route, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		w.t.Fatalf("%s: %v", c.route, err)
	}
	return resp.StatusCode, string(text)
}
