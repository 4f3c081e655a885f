package lab

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// canaries are secrets that stand nowhere but where they must.
type canaries struct {
	t    *testing.T
	kept map[string]string // what each is, by itself
	read map[string]int    // bytes that were looked at, by kind of place
}

// one makes a secret that is found by itself.
func (k *canaries) one(what string) string {
	secret := "canary" + rand.Text()
	k.keep(secret, what)
	return secret
}

func (k *canaries) keep(secret, what string) {
	if len(secret) < 16 {
		k.t.Fatalf("the %s %q is too short to be looked for", what, secret)
	}
	k.kept[secret] = what
	for _, written := range []string{base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
		k.kept[strings.TrimRight(written, "=")] = what + ", written otherwise"
	}
}

// search looks for all of them in a place.
func (k *canaries) search(place, at string, text []byte) {
	k.read[place] += len(text)
	for _, what := range k.found(text) {
		k.t.Errorf("the %s stands in %s: %s", what, place, at)
	}
}

// found tells which of them stand in a text.
func (k *canaries) found(text []byte) (what []string) {
	for secret, name := range k.kept {
		if strings.Contains(string(text), secret) {
			what = append(what, name)
		}
	}
	return what
}

// processes looks at the arguments of all processes of the machine, and at the environment of the
// server's own.
func (k *canaries) processes(own ...int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, pid := range own {
		all = append(all, fmt.Sprintf("/proc/%d/environ", pid))
	}
	for _, path := range all {
		text, _ := os.ReadFile(path) // it may have ended
		k.search("the list of processes", path, text)
	}
}

// folder looks at all files below a folder, but at those with these names.
func (k *canaries) folder(place, root string, but ...string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range but {
			if d.Name() == name {
				return nil
			}
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		k.search(place, path, text)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

// backup looks into a backup.
func (k *canaries) backup(path string) {
	f, err := os.Open(path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		k.t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			k.t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			k.t.Fatal(err)
		}
		k.search("a backup", h.Name, text)
	}
}

// answers looks at all that the server tells an administrator.
func (k *canaries) answers(c *crash) {
	token, err := os.ReadFile(c.server.tokenFile())
	if err != nil {
		k.t.Fatal(err)
	}
	for _, path := range []string{"/events", "/jobs", "/users", "/groups", "/tokens?user=bob", "/audit", "/config", "/config/file", "/config/versions", "/nodes", "/cells", "/vcs", "/info",
		"/jobs/1", "/jobs/1/config", "/jobs/1/events", "/jobs/1/history", "/jobs/1/explain", "/jobs/2", "/jobs/2/config", "/jobs/2/events"} {
		r, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, c.server.URL+rest.Prefix+path, nil)
		if err != nil {
			k.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			k.t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != http.StatusOK {
			k.t.Errorf("%s: %s, %v: %.200s", path, a.Status, err, text)
		}
		k.search("an answer", path, text)
	}
}

const canaryJob = `protocolVersion: 2
name: keeper
type: job
prerequisites:
- {type: dockerimage, name: image, uri: "registry.invalid/keeper:1", auth: {username: ada, password: <%% $secrets.registry %%>}}
secrets: {word: %s, registry: %s}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64}
    commands: ["[ <%% $secrets.word %%> = sesame ] || echo it has its word; touch %s; while [ ! -e %s ]; do sleep 0.05; done"]
`

// TestSecretsAreKept: passwords, tokens, sessions, the secrets of jobs and their callers'
// environments stand in no log, event, answer, list of processes, backup or file of the data
// directory, while jobs run and after them, on a server that logs all it can.
func TestSecretsAreKept(t *testing.T) {
	t.Parallel()
	c := newCrashOn(t, killCluster, func(s *Server) { s.Args = append(s.Args, "--log", "debug", "--runtime", "process", "--trust-users") })
	k := &canaries{t: t, kept: map[string]string{}, read: map[string]int{}}
	admin, err := os.ReadFile(c.server.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	k.keep(strings.TrimSpace(string(admin)), "token of the data directory")
	password := k.one("password")
	if _, err := c.client.People().CreateUsers(t.Context(), rest.NewUser{Name: "bob", Password: password}); err != nil {
		t.Fatal(err)
	}
	in, err := c.client.People().SignIn(t.Context(), rest.SignIn{User: "bob", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	k.keep(in.Token, "token of a session")
	if _, err = c.client.People().SignIn(t.Context(), rest.SignIn{User: "bob", Password: k.one("wrong password")}); err == nil {
		t.Error("a wrong password signs in")
	}
	made, err := c.client.People().CreateToken(t.Context(), rest.NewToken{Name: "program"}, "bob")
	if err != nil {
		t.Fatal(err)
	}
	k.keep(made.Secret, "token of a program")
	runs, gate := filepath.Join(c.books, "runs"), filepath.Join(c.books, "gate")
	job := c.submit(fmt.Sprintf(canaryJob, k.one("secret of a job"), k.one("password of a registry"), runs, gate))
	run := exec.CommandContext(t.Context(), filepath.Join(bin, "comb"), "job", "run", "-d", "--gpus", "1", "--", "sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.05; done")
	run.Env = append(os.Environ(), "COMB_SERVER="+c.server.URL, "COMB_TOKEN_FILE="+c.server.tokenFile(), "MY_WORD="+k.one("environment of a caller"))
	run.Dir = c.books
	if text, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	c.await(job, "it runs", func(j rest.Job) bool { _, err := os.Stat(runs); return err == nil })
	c.await(job+1, "it runs", func(j rest.Job) bool { return j.Started > 0 })
	for range 20 {
		k.processes(c.server.PID())
		time.Sleep(20 * time.Millisecond) // the pace of the looks
	}
	k.look(c, "a backup while they run")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c.await(job+model.JobID(i), "it ends", func(j rest.Job) bool { return j.Phase.Ended() })
	}
	k.look(c, "a backup after them")
	if token, err := os.ReadFile(c.server.tokenFile()); err != nil || len(k.found(token)) != 1 {
		t.Errorf("the token is not found where it is kept, %v", err)
	}
	for _, place := range []string{"an answer", "the server's log", "the list of processes", "the data directory", "a backup"} {
		if k.read[place] < 500 {
			t.Errorf("of %s only %d bytes were looked at", place, k.read[place])
		}
	}
	t.Logf("bytes that were looked at: %v", k.read)
}

// look looks everywhere but at processes.
func (k *canaries) look(c *crash, backup string) {
	k.answers(c)
	file := filepath.Join(c.dir, strings.ReplaceAll(backup, " ", "-")+".tar.gz")
	if out, errs, code, err := c.server.CLI(context.WithoutCancel(k.t.Context()), "backup", "create", "--logs", "--data", c.server.Data, file); err != nil || code != 0 {
		k.t.Fatalf("no backup: %d, %v: %s%s", code, err, out, errs)
	}
	k.backup(file)
	k.folder("the data directory", c.server.Data, "admin-token")
	log, err := os.ReadFile(c.server.Log)
	if err != nil {
		k.t.Fatal(err)
	}
	k.search("the server's log", c.server.Log, log)
}
