package pai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
)

const password = "correct horse battery"

// world is a handler over a directory with alice in vision, bob in nlp, and an administrator.
type world struct {
	testing.TB
	*memory
	h     *Handler
	root  string            // the token of the data directory
	token map[string]string // of each user
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ctx := t.Context()
	now := func() model.Time { return model.Time(1_000_000_000_000) }
	s, err := store.Open(ctx, t.TempDir(), store.Options{Now: now()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d, err := people.Open(ctx, s, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, vc := range vcs {
		if err := d.CreateGroup(ctx, "test", access.Group{Name: string(vc)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.CreateUsers(ctx, "test", []people.NewUser{{User: access.User{Name: "alice", Groups: []string{"vision"}}, Password: password},
		{User: access.User{Name: "bob", Groups: []string{"nlp"}}, Password: password}, {User: access.User{Name: "carol", Admin: true}, Password: password}}); err != nil {
		t.Fatal(err)
	}
	table := access.NewRights([]access.Grant{{VC: "vision", Members: []string{"vision"}}, {VC: "nlp", Members: []string{"nlp"}}}, []cell.VCSpec{{Name: "nlp"}, {Name: "vision"}})
	w := &world{TB: t, memory: &memory{table: table, vcs: vcs}, token: map[string]string{}}
	w.h = New(w.memory, d, "1.2.3")
	for _, name := range []string{"alice", "bob", "carol"} {
		var in struct{ Token string }
		w.to(&in, w.ask("", "POST", "/authn/basic/login", url.Values{"username": {name}, "password": {password}, "expiration": {"4000"}}.Encode(), 200))
		w.token[name] = in.Token
	}
	if w.root, _, err = s.CreateToken(ctx, "admin-token", "admin", now()); err != nil {
		t.Fatal(err)
	}
	return w
}

// ask sends a request with a user's token, and wants a status.
func (w *world) ask(user, method, path, body string, status int) string {
	w.Helper()
	if !strings.HasPrefix(path, Inspect) {
		path = Prefix + path
	}
	r := httptest.NewRequest(method, "http://comb"+path, strings.NewReader(body))
	kind := "application/json"
	if strings.HasPrefix(body, "expiration=") {
		kind = "application/x-www-form-urlencoded"
	}
	r.Header.Set("Content-Type", kind)
	if token := w.token[user]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	} else if user == "root" {
		r.Header.Set("Authorization", "Bearer "+w.root)
	}
	out := httptest.NewRecorder()
	w.h.Serve(out, r, w.h.Principal(r))
	text, _ := io.ReadAll(out.Result().Body)
	if out.Code != status {
		w.Fatalf("%s: %s %s answered %d, want %d: %s", user, method, path, out.Code, status, text)
	}
	return string(text)
}

// refused wants an error of OpenPAI's.
func (w *world) refused(user, call, body string, status int, code string) {
	w.Helper()
	method, path, _ := strings.Cut(call, " ")
	var in messageBody
	w.to(&in, w.ask(user, method, path, body, status))
	if in.Code != code || in.Message == "" {
		w.Errorf("%s: %s %s is refused with %+v, want %s", user, method, path, in, code)
	}
}

func (w *world) to(v any, text string) {
	w.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		w.Fatalf("%v in %s", err, text)
	}
}

func TestWhoIsNotSignedIn(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/jobs", "/jobs/protocolversion/config", "/users/", "/nothing", "/authn/basic/login"} {
		w.refused("", "GET "+path, "", 401, "UnauthorizedUserError")
	}
	var info map[string]string
	w.to(&info, w.ask("", "GET", "/info", "", 200))
	if info["authnMethod"] != "basic" || info["launcherType"] != "k8s" || info["version"] != "1.2.3" {
		t.Errorf("%v", info)
	}
	var device *http.Cookie
	for _, c := range w.login(nil).Result().Cookies() {
		if c.Name == "comb_device" && c.HttpOnly && c.SameSite == http.SameSiteStrictMode && c.Path == "/" && !c.Secure {
			device = c
		}
	}
	if device == nil {
		t.Fatal("a sign-in gives no cookie for the next one")
	}
	for _, c := range w.login(device, "Origin", "https://comb").Result().Cookies() {
		if c.Name != "__Host-comb_device" || !c.Secure || c.Value == device.Value {
			t.Errorf("to a page over TLS: %+v", c)
		}
	}
	w.refused("", "POST /authn/basic/login", "expiration=4000&username=alice&password=wrong+password", 400, "IncorrectPasswordError")
	w.refused("", "POST /authn/basic/login", "expiration=4000&username=nobody&password=wrong+password", 400, "IncorrectPasswordError")
	w.refused("", "POST /authn/basic/login", "expiration=soon&username=alice&password=x", 400, "InvalidParametersError")
	for range 4 {
		w.refused("", "POST /authn/basic/login", "expiration=1&username=alice&password=wrong+password", 400, "IncorrectPasswordError")
	}
	// Those behind them wait in line, and are refused where that is full.
	client, gone := context.WithCancel(t.Context())
	answers := make(chan *httptest.ResponseRecorder, 20)
	var guesses sync.WaitGroup
	for range cap(answers) {
		guesses.Go(func() {
			r := httptest.NewRequestWithContext(client, "POST", "http://comb"+Prefix+"/authn/basic/login", strings.NewReader("expiration=1&username=alice&password=wrong+password"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			out := httptest.NewRecorder()
			w.h.Serve(out, r, nil)
			answers <- out
		})
	}
	if out := <-answers; out.Code != http.StatusTooManyRequests || out.Header().Get("Retry-After") == "" || !strings.Contains(out.Body.String(), "ForbiddenUserError") {
		t.Errorf("the first answer to one guess of many is %d %v %s", out.Code, out.Header(), out.Body)
	}
	// A browser that signed in before passes them.
	if out := w.login(device); out.Code != http.StatusOK {
		t.Errorf("with the cookie of the sign-in before: %d %s", out.Code, out.Body)
	}
	gone()
	guesses.Wait()
	w.refused("alice", "GET /nothing", "", 404, "NoApiError")
	w.refused("alice", "PATCH /jobs", "", 404, "NoApiError")
	w.refused("alice", "GET /jobs/../users", "", 404, "NoApiError")
	w.refused("alice", "GET /jobs/protocolversion/config", "", 404, "NoJobError")
	w.ask("alice", "DELETE", "/authn/basic/logout", "", 200)
	w.refused("alice", "GET /jobs", "", 401, "UnauthorizedUserError")
}

// login signs alice in, from a browser that kept a cookie.
func (w *world) login(kept *http.Cookie, header ...string) *httptest.ResponseRecorder {
	form := url.Values{"username": {"alice"}, "password": {password}, "expiration": {"4000"}}.Encode()
	r := httptest.NewRequest("POST", "http://comb"+Prefix+"/authn/basic/login", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if kept != nil {
		r.AddCookie(kept)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	w.h.Serve(out, r, nil)
	return out
}

// TestPasswordsWaitTheirTurn: where a password is not looked at the answer says when to try again,
// whatever the password was for.
func TestPasswordsWaitTheirTurn(t *testing.T) {
	for _, c := range []struct {
		err              error
		code, text, wait string
	}{
		{&people.Slow{For: 1200 * time.Millisecond}, "ForbiddenUserError", "too many wrong passwords or codes: wait 2s", "2"},
		{people.ErrBusy, "UnknownError", "many passwords are being looked at", "1"},
	} {
		out := httptest.NewRecorder()
		fail(out, c.err, aboutUser)
		text := out.Body.String()
		if out.Code != http.StatusTooManyRequests || out.Header().Get("Retry-After") != c.wait ||
			!strings.Contains(text, c.code) || !strings.Contains(text, c.text) {
			t.Errorf("%v: %d %v %s", c.err, out.Code, out.Header(), text)
		}
	}
}

func TestTwoUsersOfOneName(t *testing.T) {
	w := newWorld(t)
	w.refused("alice", "POST /jobs", "nonsense", 400, "InvalidProtocolError")
	w.refused("alice", "POST /jobs", "", 400, "InvalidProtocolError")
	w.refused("alice", "POST /jobs", "vc: nlp", 403, "ForbiddenUserError")
	w.ask("alice", "POST", "/jobs", "vc: vision", 202)
	w.ask("bob", "POST", "/jobs", "vc: nlp", 202)
	w.refused("bob", "POST /jobs", "vc: nlp", 409, "ConflictJobError")
	for user, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		var all []summary
		w.to(&all, w.ask(user, "GET", "/jobs", "", 200))
		if len(all) != 1 || all[0].Username != user || all[0].State != "RUNNING" || *all[0].JobPriority != "test" {
			t.Errorf("%s sees %+v", user, all)
		}
		w.to(&all, w.ask(user, "GET", "/jobs?username="+other, "", 200))
		if len(all) != 0 {
			t.Errorf("%s sees %+v", user, all)
		}
		theirs := "/jobs/" + other + "~train"
		at := theirs + "/attempts/0/taskRoles/worker/taskIndex/0/attempts"
		for _, path := range []string{"", "/config", "/events", "/ssh", "/job-attempts", "/job-attempts/0", "/job-attempts/healthz", "/attempts/0"} {
			w.refused(user, "GET "+theirs+path, "", 404, "NoJobError")
		}
		w.refused(user, "GET "+at, "", 404, "NoJobError")
		w.refused(user, "GET "+at+"/0/logs", "", 404, "NoJobError")
		w.refused(user, "GET "+at+"/0/logs/stdout", "", 404, "NoJobError")
		w.refused(user, "PUT "+theirs+"/executionType", `{"value":"STOP"}`, 404, "NoJobError")
		if text := w.ask(user, "GET", "/jobs/"+user+"~train/config/", "", 200); text != "protocolVersion: 2\n" {
			t.Errorf("the file is %q", text)
		}
	}
	w.refused("alice", "PUT /jobs/alice~train/executionType", `{"value":"PAUSE"}`, 400, "InvalidParametersError")
	w.refused("alice", "PUT /jobs/alice~train/executionType", `{"value`, 400, "InvalidParametersError")
	w.ask("alice", "PUT", "/jobs/alice~train/executionType", `{"value":"STOP"}`, 202)
	var d detail
	w.to(&d, w.ask("carol", "GET", "/jobs/alice~train", "", 200))
	if s := d.JobStatus; s.State != "STOPPED" || *s.AppExitCode != -210 || s.AppExitSpec.Phrase != "StopFrameworkRequested" || s.ExecutionType != "STOP" {
		t.Errorf("%+v", s)
	}
	w.ask("alice", "PUT", "/jobs/alice~train/tag", `{"value":"x"}`, 200)
	w.ask("alice", "PUT", "/jobs/alice~train/tag", `{"value":"y"}`, 200)
	w.ask("alice", "DELETE", "/jobs/alice~train/tag", `{"value":"x"}`, 200)
	w.refused("alice", "PUT /jobs/alice~none/tag", `{"value":"x"}`, 404, "NoJobError")
	if w.to(&d, w.ask("carol", "GET", "/jobs/alice~train", "", 200)); !slices.Equal(d.Tags, []string{"y"}) {
		t.Errorf("the tags are %q", d.Tags)
	}
}

func TestTasksAndLogs(t *testing.T) {
	w := newWorld(t)
	w.ask("alice", "POST", "/jobs", "vc: vision", 202)
	var d detail
	w.to(&d, w.ask("alice", "GET", "/jobs/alice~train", "", 200))
	task := d.TaskRoles["worker"].Tasks[0]
	if task.Ports["ssh"] != 2022 || task.Ports["http"] != 8080 || *task.IP != "127.0.0.1" || *task.GPUs != "0,1" || task.AttemptState != "AttemptRunning" {
		t.Errorf("%+v", task)
	}
	logs := strings.TrimPrefix(task.Log, Prefix)
	var where struct{ Locations []struct{ Name, URI string } }
	w.to(&where, w.ask("alice", "GET", logs, "", 200))
	if len(where.Locations) != 2 {
		t.Fatalf("%+v", where)
	}
	address, err := url.Parse(where.Locations[1].URI)
	if err != nil {
		t.Fatal(err)
	}
	ticket := strings.TrimPrefix(address.Path, Prefix)
	if text := w.ask("", "GET", ticket, "", 200); text != "stderr of alice~train worker-0, attempt 1" {
		t.Errorf("the log is %q", text)
	}
	w.refused("", "GET "+ticket+"x", "", 404, "NoTaskLogError")
	w.refused("alice", "GET "+strings.Replace(logs, "attempts/0/logs", "attempts/1/logs", 1), "", 404, "NoTaskLogError")
	w.refused("alice", "GET "+strings.Replace(logs, "worker", "nobody", 1), "", 404, "NoTaskError")
	w.refused("alice", "GET /jobs/alice~train/attempts/1", "", 404, "NoJobError")
	var one taskDetail
	w.to(&one, w.ask("alice", "GET", strings.TrimSuffix(logs, "/0/logs"), "", 200))
	if len(one.Attempts) != 1 || one.TaskState != "RUNNING" || one.Attempts[0].Ports["http1"] != 8081 {
		t.Errorf("%+v", one)
	}
	var events struct {
		TotalCount int
		Data       []event
	}
	w.to(&events, w.ask("alice", "GET", "/jobs/alice~train/events?type=Warning", "", 200))
	if events.TotalCount != 1 || events.Data[0].Reason != "TaskRefused" || events.Data[0].Message != "worker-0 could not be started" {
		t.Errorf("%+v", events)
	}
	// A ticket ends with the token for which it was made.
	w.ask("alice", "DELETE", "/authn/basic/logout", "", 200)
	w.refused("", "GET "+ticket, "", 404, "NoTaskLogError")
}

func TestLists(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		j := &Job{}
		j.JobStatus = rest.JobStatus{ID: model.JobID(i + 1), Name: model.JobName(fmt.Sprintf("job%d", i)), User: "alice", VC: "vision", Phase: model.Waiting, GPUs: int64(i % 3), Priority: cell.Priority(i), Submitted: model.Time(i+1) * 1_000_000}
		if i == 4 {
			j.Phase, j.Tags = model.Succeeded, []string{"a", "b"}
		}
		if i == 3 {
			j.Tags = []string{"c"}
		}
		w.jobs = append([]*Job{j}, w.jobs...)
	}
	for query, want := range map[string]string{
		"": "5 4 3 2 1 0", "?limit=2": "5 4", "?offset=1&limit=2": "4 3", "?offset=9": "", "?limit=0": "",
		"?order=submissionTime,ASC&limit=3": "0 1 2", "?order=totalGpuNumber,DESC&offset=1&limit=2": "2 4", "?order=jobName": "0 1 2 3 4 5",
		"?state=SUCCEEDED": "4", "?state=WAITING,RUNNING&limit=2": "5 3", "?keyword=JOB3": "3", "?keyword=visio&limit=1": "5", "?vc=nlp": "", "?vc=nlp,vision&limit=1": "5",
		"?username=alice,bob&limit=1": "5", "?tagsContain=x": "", "?tagsContain=c,b": "4 3", "?tagsContain=b&tagsNotContain=a": "", "?tagsNotContain=a,c": "5 2 1 0", "?tagsNotContain=x&limit=1": "5", "?jobPriority=prod": "", "?jobPriority=default,prod&limit=1": "5",
	} {
		var all []summary
		w.to(&all, w.ask("alice", "GET", "/jobs"+query, "", 200))
		var got []string
		for i := range all {
			got = append(got, strings.TrimPrefix(all[i].Name, "job"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s lists %v, want %s", query, got, want)
		}
	}
	var both struct {
		TotalCount int
		Data       []summary
	}
	w.to(&both, w.ask("alice", "GET", "/jobs?withTotalCount=true&limit=2&offset=3", "", 200))
	if both.TotalCount != 6 || len(both.Data) != 2 || both.Data[0].Name != "job2" {
		t.Errorf("%+v", both)
	}
	for range userLists {
		free, why := w.h.lists.Take("alice")
		if why != "" {
			t.Fatal(why)
		}
		defer free()
	}
	w.refused("alice", "GET /jobs", "", 429, "UnknownError")
	w.ask("bob", "GET", "/jobs", "", 200)
	for _, query := range []string{"limit=50001", "limit=-1", "offset=x", "order=colour", "order=state,UP", "state=DREAMING"} {
		w.refused("alice", "GET /jobs?"+query, "", 400, "InvalidParametersError")
	}
}

func TestAccounts(t *testing.T) {
	w := newWorld(t)
	for _, call := range []string{"GET /users/", "GET /users/bob", "GET /users/nobody", "GET /groups", "GET /groups/nlp", "GET /groups/nlp/userlist", "GET /kubernetes/nodes",
		"POST /users/", "PUT /users", "DELETE /users/bob", "POST /groups", "PUT /groups", "DELETE /groups/nlp", "PUT /users/bob/group", "DELETE /users/bob/group", "PUT /users/bob/grouplist"} {
		w.refused("alice", call, "{}", 403, "ForbiddenUserError")
	}
	var u user
	w.to(&u, w.ask("alice", "GET", "/users/alice", "", 200))
	if u.Admin || !slices.Equal(u.VirtualCluster, []string{"vision"}) || !slices.Equal(u.StorageConfig, []string{"data", "images"}) || string(u.Extension) != "{}" {
		t.Errorf("%+v", u)
	}
	w.ask("carol", "POST", "/users/", `{"username":"dave","password":"a long password","email":"dave@example.com","virtualCluster":["nlp"],"extension":{"a":1}}`, 201)
	w.refused("carol", "POST /users/", `{"username":"dave","password":"a long password"}`, 409, "ConflictUserError")
	w.refused("carol", "POST /users/", `{"username":"eve","password":"short"}`, 400, "InvalidParametersError")
	w.ask("carol", "PUT", "/users/dave/group", `{"groupname":"vision"}`, 201)
	w.ask("carol", "DELETE", "/users/dave/group", `{"groupname":"nlp"}`, 201)
	w.refused("carol", "PUT /users/dave/group", `{"groupname":"none"}`, 404, "NoGroupError")
	w.ask("carol", "PUT", "/users", `{"patch":true,"data":{"username":"dave","email":"d@example.com"}}`, 201)
	w.to(&u, w.ask("carol", "GET", "/users/dave", "", 200))
	if u.Email != "d@example.com" || !slices.Equal(u.Grouplist, []string{"vision"}) || string(u.Extension) != `{"a":1}` {
		t.Errorf("%+v", u)
	}
	w.ask("carol", "PUT", "/users/dave/grouplist", `{"grouplist":[]}`, 201)
	w.ask("carol", "POST", "/groups", `{"groupname":"lab","description":"the lab"}`, 201)
	w.ask("carol", "PUT", "/groups", `{"groupname":"lab","externalName":"lab@example.com"}`, 201)
	w.ask("carol", "PUT", "/groups", `{"patch":true,"data":{"groupname":"lab","description":"a lab"}}`, 201)
	var g group
	w.to(&g, w.ask("carol", "GET", "/groups/lab", "", 200))
	if g.Description != "a lab" || g.ExternalName != "lab@example.com" {
		t.Errorf("%+v", g)
	}
	w.ask("carol", "DELETE", "/groups/lab", "", 201)
	w.refused("carol", "GET /groups/lab", "", 404, "NoGroupError")
	w.ask("carol", "DELETE", "/users/dave", "", 200)
	w.refused("carol", "GET /users/dave", "", 404, "NoUserError")
	w.refused("alice", "PUT /users/me", `{"data":{"username":"bob","email":"x@example.com"}}`, 403, "ForbiddenUserError")
	w.refused("alice", "PUT /users/me", `{"data":{"newPassword":"another long one","oldPassword":"a wrong one"}}`, 400, "IncorrectPasswordError")
	w.ask("alice", "PUT", "/users/me", fmt.Sprintf(`{"patch":true,"data":{"newPassword":"another long one","oldPassword":%q}}`, password), 201)
	w.refused("alice", "GET /jobs", "", 401, "UnauthorizedUserError") // sessions end with their password
	w.refused("root", "GET /tokens", "", 403, "ForbiddenUserError")
}

// On a cluster file without access each virtual cluster has its group, as in OpenPAI: a user is
// given one by OpenPAI's own calls.
func TestVCsHaveGroups(t *testing.T) {
	w := newWorld(t)
	w.vcs = []cell.VCName{"default", "open", "team", "vc1", "vc2"}
	w.table = access.NewRights([]access.Grant{{VC: "open", Members: []string{access.Everyone}}, {VC: "team", Members: []string{"leads"}}},
		[]cell.VCSpec{{Name: "default"}, {Name: "open"}, {Name: "team"}, {Name: "vc1"}, {Name: "vc2"}})
	has := func(name, groups, vcs string) {
		t.Helper()
		var u user
		w.to(&u, w.ask("carol", "GET", "/users/"+name, "", 200))
		if strings.Join(u.Grouplist, " ") != groups || strings.Join(u.VirtualCluster, " ") != vcs {
			t.Errorf("%s is in %q and has %q; want %s and %s", name, u.Grouplist, u.VirtualCluster, groups, vcs)
		}
	}
	w.ask("carol", "POST", "/users", `{"username":"dave","password":"a long password","virtualCluster":["vc1"]}`, 201)
	has("dave", "default vc1", "default open vc1")
	w.ask("carol", "POST", "/users", `{"username":"erin","password":"a long password"}`, 201)
	has("erin", "default", "default open")
	w.ask("carol", "PUT", "/users/dave/grouplist", `{"grouplist":["vc2"]}`, 201)
	has("dave", "vc2", "open vc2")
	w.ask("carol", "PUT", "/users/dave/group", `{"groupname":"vc1"}`, 201)
	has("dave", "vc1 vc2", "open vc1 vc2")
	w.ask("carol", "DELETE", "/users/dave/group", `{"groupname":"vc2"}`, 201)
	w.ask("carol", "DELETE", "/groups/vc2", "", 201) // as long as the virtual cluster is there its group comes back
	w.ask("carol", "PUT", "/users", `{"patch":true,"data":{"username":"dave","virtualCluster":["vc2","open"]}}`, 201)
	has("dave", "default vc2", "default open vc2")
	w.ask("carol", "PUT", "/users/dave/virtualcluster", `{"virtualCluster":[]}`, 201)
	has("dave", "default", "default open")
	var all []group
	w.to(&all, w.ask("carol", "GET", "/groups", "", 200))
	var names []string
	for _, g := range all {
		names = append(names, g.Groupname)
	}
	if got := strings.Join(names, " "); got != "default nlp vc1 vc2 vision" {
		t.Errorf("the groups are %s", got)
	}
	w.ask("carol", "DELETE", "/groups/vc1", "", 201)
	var one group
	w.to(&one, w.ask("carol", "GET", "/groups/vc1", "", 200))
	if string(one.Extension) != `{"acls":{"admin":false,"virtualClusters":["vc1"]}}` {
		t.Errorf("the group of vc1: %+v", one)
	}
	if text := w.ask("carol", "GET", "/groups/vc1/userlist", "", 200); strings.TrimSpace(text) != "[]" {
		t.Errorf("its users: %s", text)
	}
	for call, want := range map[string]string{
		`POST /users {"username":"fred","password":"a long password","virtualCluster":["gone"]}`: "there is no virtual cluster \"gone\", and no group of that name; virtual clusters: default, open, team, vc1, vc2",
		`POST /users {"username":"fred","password":"a long password","virtualCluster":["team"]}`: "gives virtual cluster team to other groups",
		`PUT /users {"data":{"username":"dave","virtualCluster":["team"]}}`:                      "gives virtual cluster team to other groups",
		`PUT /users/dave/grouplist {"grouplist":["admingroup"]}`:                                 "made with admin: true",
		`PUT /users/dave/virtualcluster {"virtualCluster":["everyone"]}`:                         "there is no virtual cluster",
	} {
		method, rest, _ := strings.Cut(call, " ")
		path, body, _ := strings.Cut(rest, " ")
		if text := w.ask("carol", method, path, body, 400); !strings.Contains(text, "NoVirtualClusterError") || !strings.Contains(text, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s: %s; want %s", call, text, want)
		}
	}
	has("dave", "default", "default open")
	w.refused("carol", "GET /users/fred", "", 404, "NoUserError")
	w.refused("carol", "GET /groups/team", "", 404, "NoGroupError") // the group of its name gives nothing
	w.refused("carol", `PUT /users/none/grouplist`, `{"grouplist":["vc1"]}`, 404, "NoUserError")
}

// START is the release of a held job: of another it changes nothing and says so, and it needs the
// right to change the job.
func TestStart(t *testing.T) {
	w := newWorld(t)
	w.ask("alice", "POST", "/jobs", "vc: vision", 202)
	const at, start = "/jobs/alice~train/executionType", `{"value":"START"}`
	if text := w.ask("alice", "PUT", at, start, 200); !strings.Contains(text, "is started already: nothing is changed") {
		t.Error(text)
	}
	w.jobs[0].Held = &rest.Held{}
	if text := w.ask("alice", "PUT", at, start, 202); w.jobs[0].Held != nil || !strings.Contains(text, "Execute job alice~train") {
		t.Error(text)
	}
	w.refused("bob", "PUT "+at, start, 404, "NoJobError")
}

// Addresses of logs have places for each user: one that asks for many ends its own, and none of
// another's.
func TestTicketsByUser(t *testing.T) {
	var all tickets
	soon := time.Now().Add(ticketLife)
	give := func(user string) string { return all.give(user, ticket{until: soon}) }
	valid := func(name string) bool { _, ok := all.find(name); return ok }
	bobs, first := give("bob"), give("alice")
	second := give("alice")
	for range userTickets - 1 {
		give("alice")
	}
	if !valid(bobs) || valid(first) || !valid(second) {
		t.Errorf("after one more than alice may have: bob's %v, alice's first %v and second %v", valid(bobs), valid(first), valid(second))
	}
	for range 3 * mostTickets {
		give("alice")
	}
	if n := len(all.of["alice"]); !valid(bobs) || n != userTickets || len(all.all) != userTickets+1 {
		t.Errorf("bob's %v, alice has %d, all are %d", valid(bobs), n, len(all.all))
	}
	for u := range mostTickets / userTickets * 2 { // together they want twice of what there is
		for range userTickets {
			give(fmt.Sprint("u", u))
		}
	}
	if len(all.all) != mostTickets || !valid(bobs) {
		t.Errorf("%d are kept, bob's only one %v", len(all.all), valid(bobs))
	}
	n := 0
	for _, names := range all.of {
		n += len(names)
	}
	if n != mostTickets {
		t.Errorf("%d are known by user, %d are kept", n, mostTickets)
	}
	// What is over makes room before what is not.
	var later tickets
	for range userTickets {
		later.give("old", ticket{until: time.Now().Add(-time.Second)})
	}
	kept := later.give("bob", ticket{until: soon})
	for u := range mostTickets / userTickets {
		for range userTickets {
			later.give(fmt.Sprint("u", u), ticket{until: soon})
		}
	}
	if _, ok := later.find(kept); !ok || len(later.of["old"]) != 0 {
		t.Errorf("what is valid ended (%v) before what is over (%d)", !ok, len(later.of["old"]))
	}
}

// What is wrong with a body is said in the words of its sender.
func TestWrongBodies(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`[]`:           "the body: want an object, have array",
		`"STOP"`:       "the body: want an object, have string",
		`{"value":1}`:  "the body: value cannot be number",
		``:             "the body: the JSON ends too early",
		`{"value":"S"`: "the body: the JSON ends too early",
		`{"value":}`:   "the body: invalid character '}' looking for beginning of value",
	} {
		var in messageBody
		w.to(&in, w.ask("alice", "PUT", "/jobs/alice~train/executionType", body, 400))
		if in.Message != want {
			t.Errorf("%s: %q, want %q", body, in.Message, want)
		}
	}
}

// Administrators who change different groups of one user at once undo nothing of each other's.
func TestGroupsChangeOneByOne(t *testing.T) {
	w := newWorld(t)
	const many = 8
	for i := range many {
		w.ask("carol", "POST", "/groups", fmt.Sprintf(`{"groupname":"g%d"}`, i), 201)
	}
	for _, c := range []struct {
		method string
		want   int
	}{{"PUT", many}, {"DELETE", 0}} {
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				r := httptest.NewRequest(c.method, "http://comb"+Prefix+"/users/bob/group", strings.NewReader(fmt.Sprintf(`{"groupname":"g%d"}`, i)))
				r.Header.Set("Authorization", "Bearer "+w.token["carol"])
				out := httptest.NewRecorder()
				if w.h.Serve(out, r, w.h.Principal(r)); out.Code != 201 {
					t.Errorf("%s: %d: %s", c.method, out.Code, out.Body)
				}
			})
		}
		all.Wait()
		var u user
		w.to(&u, w.ask("carol", "GET", "/users/bob", "", 200))
		if n := len(slices.DeleteFunc(u.Grouplist, func(g string) bool { return g == "nlp" })); n != c.want {
			t.Errorf("after %s bob is in %d of the groups, want %d", c.method, n, c.want)
		}
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	var made struct {
		Token       string
		Application bool
	}
	w.to(&made, w.ask("alice", "POST", "/tokens/application", "{}", 200))
	w.token["program"] = made.Token
	w.ask("program", "POST", "/jobs", "vc: vision", 202)
	var all struct{ Tokens []string }
	w.to(&all, w.ask("alice", "GET", "/tokens", "", 200))
	if len(all.Tokens) != 2 || !made.Application {
		t.Errorf("%+v", all)
	}
	w.refused("bob", "DELETE /tokens/"+made.Token, "", 403, "ForbiddenUserError")
	w.ask("program", "GET", "/jobs", "", 200)
	w.refused("program", "POST /tokens/application", "{}", 403, "ForbiddenUserError")
	w.refused("program", "DELETE /tokens/"+w.token["alice"], "", 403, "ForbiddenUserError")
	w.refused("program", "PUT /users/me", `{"data":{"email":"x@example.com"}}`, 403, "ForbiddenUserError")
	w.ask("alice", "DELETE", "/tokens/"+made.Token, "", 200)
	w.refused("program", "GET /jobs", "", 401, "UnauthorizedUserError")
}

func TestCluster(t *testing.T) {
	w := newWorld(t)
	var all map[string]virtualCluster
	w.to(&all, w.ask("alice", "GET", "/virtual-clusters", "", 200))
	v := all["vision"]
	if len(all) != 2 || v.Capacity != 50 || v.UsedCapacity != 25 || v.ResourcesTotal.GPU != 2 || v.ResourcesGuaranteed.GPUs != 1 || v.ResourcesUsed.VCores != 4 {
		t.Errorf("%+v", all)
	}
	w.ask("alice", "GET", "/virtual-clusters/nlp", "", 200)
	w.refused("alice", "GET /virtual-clusters/none", "", 404, "NoVirtualClusterError")
	for _, path := range []string{"/virtual-clusters/nlp/sku-types", "/cluster/sku-types?vc=nlp", "/cluster/sku-types"} {
		var skus map[string]sku
		w.to(&skus, w.ask("alice", "GET", path, "", 200))
		if skus["gpu"] != (sku{4, 1024, 1}) {
			t.Errorf("%s: %v", path, skus)
		}
	}
	var list struct{ Storages []storage }
	w.to(&list, w.ask("bob", "GET", "/storages", "", 200))
	if len(list.Storages) != 1 || list.Storages[0].Name != "data" {
		t.Errorf("%+v", list)
	}
	w.ask("alice", "GET", "/storages/images", "", 200)
	w.refused("bob", "GET /storages/images", "", 404, "NoStorageError")
	if text := w.ask("carol", "GET", "/kubernetes/nodes", "", 200); !strings.Contains(text, `"nvidia.com/gpu":"4"`) {
		t.Error(text)
	}
	w.refused("carol", "GET /kubernetes/pods", "", 501, "NotImplementedError")
}

// TestAlerts: what is wrong in the cluster now, in the form of an alert manager.
func TestAlerts(t *testing.T) {
	w := newWorld(t)
	if text := strings.TrimSpace(w.ask("carol", "GET", "/alerts", "", 200)); text != "[]" {
		t.Error(text)
	}
	w.broken = true
	var all []alert
	w.to(&all, w.ask("carol", "GET", "/alerts", "", 200))
	var told []string
	for _, a := range all {
		told = append(told, a.Labels["alertname"]+" "+a.Labels["node_name"]+": "+a.Annotations["summary"])
	}
	want := []string{"BadDevices node1: node node1: 1 of 4 of gpu get no new work: its node is cordoned", "NodeNotReady node2: node node2 does not answer: what runs there keeps its GPUs until it does"}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

func TestInspect(t *testing.T) {
	w := newWorld(t)
	w.ask("alice", "POST", "/jobs", "vc: vision", 202)
	var all clusterStatus
	w.to(&all, w.ask("alice", "GET", Inspect+"/clusterstatus", "", 200))
	node := all.PhysicalCluster[0]
	if !node.IsNodeLevel || node.Children[0].IsNodeLevel || node.Children[0].VirtualCell.CellAddress != "vision/0" || node.Children[1].Health != "Bad" {
		t.Errorf("%+v", node)
	}
	mine := all.VirtualClusters["vision"]
	if len(mine) != 2 || mine[0].PhysicalCell.CellAddress != "node1/0" || mine[1].CellState != "Free" || len(all.VirtualClusters["nlp"]) != 0 {
		t.Errorf("%+v", all.VirtualClusters)
	}
	var cells []cellStatus
	w.to(&cells, w.ask("alice", "GET", Inspect+"/clusterstatus/physicalcluster", "", 200))
	w.to(&cells, w.ask("alice", "GET", Inspect+"/clusterstatus/virtualclusters/vision", "", 200))
	if len(cells) != 2 {
		t.Errorf("%+v", cells)
	}
	w.refused("alice", "GET "+Inspect+"/clusterstatus/virtualclusters/none", "", 404, "NoVirtualClusterError")
	w.refused("", "GET "+Inspect+"/clusterstatus", "", 401, "UnauthorizedUserError")
	var groups struct{ Items []affinityGroup }
	w.to(&groups, w.ask("alice", "GET", Inspect+"/affinitygroups/", "", 200))
	if len(groups.Items) != 1 || groups.Items[0].Metadata.Name != "alice~train/0" || !slices.Equal(groups.Items[0].Status.PhysicalPlacement["node1"], []int32{0, 1}) {
		t.Errorf("%+v", groups)
	}
	w.ask("alice", "GET", Inspect+"/affinitygroups/alice~train/0", "", 200)
	w.refused("bob", "GET "+Inspect+"/affinitygroups/alice~train/0", "", 404, "NoAffinityGroupError")
	w.to(&groups, w.ask("bob", "GET", Inspect+"/affinitygroups/", "", 200))
	if len(groups.Items) != 0 {
		t.Errorf("bob sees %+v", groups)
	}
}

// TestOlderAttempts: each attempt of a job that was retried is told, the last one with its tasks.
func TestOlderAttempts(t *testing.T) {
	w := newWorld(t)
	w.ask("alice", "POST", "/jobs", "vc: vision", 202)
	w.jobs[0].Retry = 2
	w.past = []rest.PastAttempt{
		{ID: model.AttemptID{N: 1}, Retry: 0, Placed: 1_000_000, Started: 2_000_000, Ended: 5_000_000, Tasks: []rest.PastTask{{Task: "main-0", Exit: &rest.Exit{Code: 3, Message: "no data"}}}},
		{ID: model.AttemptID{N: 2}, Retry: 1, Placed: 6_000_000, Ended: 7_000_000}, {ID: model.AttemptID{N: 3}, Retry: 2},
	}
	var all []attempt
	w.to(&all, w.ask("alice", "GET", "/jobs/alice~train/job-attempts", "", 200))
	if len(all) != 3 || all[0].AttemptIndex != 2 || !all[0].IsLatest || all[2].AttemptIndex != 0 || *all[2].ExitCode != 3 || *all[2].AttemptStartedTime != 2000 || *all[2].AttemptCompletedTime != 5000 {
		t.Errorf("%+v", all)
	}
	var one attempt
	w.to(&one, w.ask("alice", "GET", "/jobs/alice~train/job-attempts/0", "", 200))
	if one.State != "FAILED" || *one.AppExitDiagnostics != "main-0: no data" || one.IsLatest {
		t.Errorf("%+v", one)
	}
	w.refused("alice", "GET /jobs/alice~train/job-attempts/3", "", 404, "NoJobError")
	w.refused("bob", "GET /jobs/alice~train/job-attempts/0", "", 404, "NoJobError")
	w.refused("alice", "GET /jobs/alice~train/attempts/0", "", 404, "NoJobError")
}
