package pai_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/test/testkit"
)

var client = flag.String("client", "", "the folder in which OpenPAI's client is installed")

const password = "correct horse battery"

// job is a job file; the words are the VC and what it prints.
const job = `protocolVersion: 2
name: %s
type: job
prerequisites:
- protocolVersion: 2
  name: image
  type: dockerimage
  uri: example/train
taskRoles:
  worker:
    instances: 1
    completion: {minFailedInstances: 1, minSucceededInstances: 1}
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 256
      gpu: 1
      ports: {ssh: 1}
    commands:
    - echo hello from %s
    - %s
defaults:
  virtualCluster: %s
extras:
  hivedScheduler:
    jobPriorityClass: test
`

// cluster is a real server with alice in vision, bob in nlp, and carol, who administers it.
type cluster struct {
	*testing.T
	bin   string // its programs
	dir   string // its data
	uri   string
	codes chan string // for the first administrator
	// call is how long the last call of the client took.
	call atomic.Int64
}

var setupCode = regexp.MustCompile(`^no administrator account yet: .* the code (\S+),`)

func start(t *testing.T) *cluster {
	dir := t.TempDir()
	makePeople(t, filepath.Join(dir, "data"))
	file, err := filepath.Abs("testdata/client/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, dir, "--cluster", file, "--overcommit", "--virtual-gpus", "2")
}

// serve starts a real server, whose programs, home and data are in a folder.
func serve(t *testing.T, dir string, args ...string) *cluster {
	if *client == "" {
		t.Fatal("say -client: make test-pai does")
	}
	bin := testkit.Bin(t)
	c := exec.Command(filepath.Join(bin, "comb"), append([]string{"serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--trust-users", "--runtime", "process"}, args...)...)
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		if t.Failed() {
			t.Log(errs.String())
		}
	})
	serves := regexp.MustCompile(`serves at (http://\S+)`)
	codes := make(chan string, 1)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := serves.FindStringSubmatch(lines.Text()); m != nil {
			go pass(lines, codes)
			return &cluster{T: t, bin: bin, dir: dir, uri: m[1], codes: codes}
		}
	}
	t.Fatal("the server does not serve: " + errs.String())
	return nil
}

// pass reads what a server prints, and passes the code for the first administrator on.
func pass(lines *bufio.Scanner, codes chan<- string) {
	for lines.Scan() {
		if m := setupCode.FindStringSubmatch(lines.Text()); m != nil {
			codes <- m[1]
		}
	}
}

// makePeople makes the users before the server starts.
func makePeople(t *testing.T, data string) {
	t.Helper()
	ctx := t.Context()
	now := func() model.Time { return model.Time(time.Now().UnixMicro()) }
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(ctx, data, store.Options{Now: now()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := people.Open(ctx, s, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []string{"vision", "nlp"} {
		if err := d.CreateGroup(ctx, "test", access.Group{Name: g}); err != nil {
			t.Fatal(err)
		}
	}
	err = d.CreateUsers(ctx, "test", []people.NewUser{{User: access.User{Name: "alice", Groups: []string{"vision"}}, Password: password},
		{User: access.User{Name: "bob", Groups: []string{"nlp"}}, Password: password}, {User: access.User{Name: "carol", Admin: true}, Password: password}})
	if err != nil {
		t.Fatal(err)
	}
}

// user is a user of OpenPAI's command, with a home of its own.
type user struct {
	*cluster
	name, vc, home, token string
}

func (c *cluster) user(name, vc string) *user {
	c.Helper()
	u := &user{cluster: c, name: name, vc: vc, home: c.TempDir()}
	form := fmt.Sprintf("username=%s&password=%s&expiration=4000", name, strings.ReplaceAll(password, " ", "+"))
	resp, err := http.Post(c.uri+"/rest-server/api/v2/authn/basic/login", "application/x-www-form-urlencoded", strings.NewReader(form))
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	var in struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil || in.Token == "" {
		c.Fatalf("%s cannot sign in: %d, %v", name, resp.StatusCode, err)
	}
	u.token = in.Token
	u.pai("addc", "--alias", "comb", c.uri, name, in.Token)
	return u
}

// pai runs OpenPAI's command.
func (u *user) pai(args ...string) string {
	u.Helper()
	began := time.Now()
	out, err := u.node(append([]string{filepath.Join(*client, "node_modules/@microsoft/openpai-js-sdk/lib/src/cli.js")}, args...)...)
	u.call.Store(int64(time.Since(began)))
	if err != nil {
		u.Fatalf("%s: pai %q: %v: %s", u.name, args, err, out)
	}
	return out
}

func (u *user) node(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(u.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "node", args...)
	c.Dir = *client
	c.Env = append(os.Environ(), "HOME="+u.home, "NO_PROXY=127.0.0.1")
	out, err := c.CombinedOutput()
	return string(out), err
}

// file writes a job file of the user's.
func (u *user) file(name, last string) string {
	u.Helper()
	at := filepath.Join(u.home, name+".yaml")
	if err := os.WriteFile(at, fmt.Appendf(nil, job, name, u.name, last, u.vc), 0o600); err != nil {
		u.Fatal(err)
	}
	return at
}

// until asks for a job until its answer matches.
func (u *user) until(name, pattern string) string {
	u.Helper()
	out := ""
	testkit.WaitFor(u, func() string { return fmt.Sprintf("%s sees %s: %s", u.name, pattern, out) }, func() bool {
		out = u.pai("getj", "--user", u.name, "comb", name)
		return regexp.MustCompile(pattern).MatchString(out)
	})
	return out
}

// Alice and bob, in two VCs, sign in by OpenPAI's command, each runs a job named train, and
// neither sees the other's
// on any route or stream.
func TestClientOfTwoUsers(t *testing.T) {
	if !testkit.Live(t, "pai") {
		return
	}
	c := start(t)
	alice, bob := c.user("alice", "vision"), c.user("bob", "nlp")
	for _, u := range []*user{alice, bob} {
		out := u.pai("subj", "comb", u.file("train", "while [ ! -e "+filepath.Join(u.home, "end")+" ]; do sleep 0.1; done"))
		if !strings.Contains(out, "Update job train for user "+u.name+" successfully") {
			t.Fatalf("%s: %s", u.name, out)
		}
	}
	for u, other := range map[*user]*user{alice: bob, bob: alice} {
		if out := u.until("train", `"state": "RUNNING"`); !strings.Contains(out, `"virtualCluster": "`+u.vc+`"`) {
			t.Errorf("%s", out)
		}
		if out := u.pai("ssh", "--user", u.name, "comb", "train"); !regexp.MustCompile(`ssh .*-p \d+ 127\.0\.0\.1`).MatchString(out) {
			t.Errorf("%s", out)
		}
		for _, out := range []string{u.pai("listj", "comb", "--all"), u.pai("listj", "comb", "--user", u.name), u.pai("listj", "comb", "--user", other.name)} {
			if strings.Contains(out, other.name) {
				t.Errorf("%s sees a job of %s: %s", u.name, other.name, out)
			}
		}
		if out := u.pai("listj", "comb", "--all"); !strings.Contains(out, "train") {
			t.Errorf("%s does not see its own job: %s", u.name, out)
		}
		if out := u.pai("getj", "--user", other.name, "comb", "train"); !strings.Contains(out, "NoJobError") {
			t.Errorf("%s reads the job of %s: %s", u.name, other.name, out)
		}
		if out := u.pai("subj", "comb", u.file("train", "true")); !strings.Contains(out, "ConflictJobError") || strings.Contains(out, other.name) {
			t.Errorf("%s: %s", u.name, out)
		}
		c.native(u, other)
	}
	for _, u := range []*user{alice, bob} {
		if err := os.WriteFile(filepath.Join(u.home, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		u.until("train", `"state": "SUCCEEDED"`)
	}
	if out := alice.pai("subj", "comb", (&user{c, "alice", "nlp", alice.home, ""}).file("stranger", "true")); !strings.Contains(out, "ForbiddenUserError") {
		t.Errorf("alice submits to nlp: %s", out)
	}
}

// native asks our own routes and streams for another's job.
func (c *cluster) native(u, other *user) {
	c.Helper()
	ask := func(path string) (int, string) {
		ctx, cancel := context.WithTimeout(c.Context(), testkit.Patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", c.uri+path, nil)
		if err != nil {
			c.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+u.token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			c.Fatal(err)
		}
		defer resp.Body.Close()
		if strings.Contains(path, "follow=true") { // what it has is there by then
			time.AfterFunc(2*time.Second, cancel)
		}
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body) // a stream ends with its time
		return resp.StatusCode, text.String()
	}
	for _, path := range []string{"", "/config", "/explain", "/events", "/events?follow=true", "/tasks/worker/0/logs"} {
		if status, text := ask("/api/v1/jobs/" + other.name + "~train" + path); status != http.StatusNotFound {
			c.Errorf("%s: %s of the job of %s answers %d: %s", u.name, path, other.name, status, text)
		}
	}
	for _, path := range []string{"/api/v1/jobs", "/api/v1/events", "/api/v1/events?follow=true&after=0", "/api/v1/cells"} {
		status, text := ask(path)
		if status != http.StatusOK || strings.Contains(text, other.name) {
			c.Errorf("%s: %s answers %d: %s", u.name, path, status, text)
		}
	}
}

// Every call of the client's library, each answer held against its own description of the API.
func TestClientMakesEveryCall(t *testing.T) {
	if !testkit.Live(t, "pai") {
		return
	}
	c := start(t)
	u := c.user("alice", "vision")
	setup, err := json.Marshal(map[string]any{"uri": c.uri, "user": "alice", "password": password, "admin": "carol", "vc": "vision",
		"other": map[string]string{"user": "bob", "vc": "nlp"}, "job": fmt.Sprintf(job, "calls", "alice", "exec sleep 600", "vision")})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(u.home, "setup.json")
	if err := os.WriteFile(at, setup, 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/client/calls.js")
	if err != nil {
		t.Fatal(err)
	}
	out, err := u.node(script, at)
	t.Log(out)
	if err != nil || strings.Contains(out, "MISTAKE") || !strings.Contains(out, " 0 mistakes") {
		t.Errorf("%v", err)
	}
}
