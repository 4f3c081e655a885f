package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

const (
	askedFile = `physicalCluster:
  skuTypes:
    GPU: {gpu: 1, cpu: 100m, memory: 10Mi}
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 1, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n1}
  - {cellType: NODE, cellAddress: n2}
virtualClusters:
  a:
    virtualCells: [{cellType: NODE, cellNumber: 2}]
`
	// One of the two jobs of a loses its guarantee by it.
	smallerFile = `  a:
    virtualCells: [{cellType: NODE, cellNumber: 1}]
  b:
    virtualCells: [{cellType: NODE, cellNumber: 1}]
`
)

// downAs is a server as another one says it is, but all its nodes are down.
func downAs(t *testing.T, to string) string {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		text := strings.Replace(string(body), `"up":true`, `"up":false`, 1)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		r.Header.Del("Content-Length")
		return err
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = target.Host
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// atTerminal runs a command at a real terminal that is its own until it shows a question, types
// keys there, and returns how it ended and what was shown.
func atTerminal(t *testing.T, ctx context.Context, question, keys string, args ...string) (code int, shown string) {
	t.Helper()
	keeper, side := openTerminal(t, 200, 30)
	var mu sync.Mutex
	g := &glass{width: 200}
	all := make(chan struct{})
	go func() { g.read(keeper, &mu); close(all) }()
	shows := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(g.shows(), "\n")
	}
	c := exec.CommandContext(ctx, "comb", args...)
	c.Stdin, c.Stdout, c.Stderr = side, side, side
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, func() string { return question + " is asked; it shows\n" + shows() },
		func() bool { return strings.Contains(shows(), question+" [y/N]") })
	if _, err := keeper.WriteString(keys); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	side.Close()
	<-all
	return c.ProcessState.ExitCode(), shows()
}

// TestQuestionsEnd: Ctrl-C at a question ends the command, and nothing is done; no is no, and yes
// is yes.
func TestQuestionsEnd(t *testing.T) {
	client, token := served(t, "64")
	ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Patience)
	defer cancel()
	if _, err := client.ApplyConfigAs(ctx, []byte(askedFile), rest.ConfigChange{IfMatch: "*"}); err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(askedFile, "  a:\n")
	file := filepath.Join(t.TempDir(), "smaller.yaml")
	if err := os.WriteFile(file, []byte(before+smallerFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"q-1", "q-2"} {
		if _, err := client.Submit(ctx, rest.SubmitRequest{Quick: &rest.QuickJob{Name: name, VC: "a", GPUs: 1,
			Command: []string{"sleep", "900"}}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	active := func() int {
		list, err := client.Jobs(ctx, rest.JobQuery{Name: "q-", States: []model.Phase{model.Active}})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Jobs)
	}
	if _, err := client.People().CreateUsers(ctx, rest.NewUser{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	testkit.Wait(t, "both jobs run", func() bool { return active() == 2 })
	down := downAs(t, client.URL())
	at := func(url string, args ...string) []string {
		return append(args, "--server", url, "--token-file", token)
	}
	questions := []struct {
		asks string
		args []string
	}{
		{"would do this. Apply it?", at(client.URL(), "config", "apply", file)},
		{"Apply it?", at(client.URL(), "config", "rollback", "1")},
		{"stop these 2 jobs?", at(client.URL(), "job", "stop", "--name", "q-")},
		{"1 attempt on n1 counts as ended then; if it lives, its tasks run twice. Is it dead?",
			at(down, "node", "declare-dead", "n1", "--reason", "burnt")},
		{"Remove user bob, its sessions and its tokens? Its jobs stay.", at(client.URL(), "user", "delete", "bob")},
	}
	for _, q := range questions {
		for keys, want := range map[string]int{"\x03": cli.ExitInterrupted, "n\n": cli.ExitFailure, "\x04": cli.ExitFailure} {
			code, shown := atTerminal(t, ctx, q.asks, keys, q.args...)
			if code != want {
				t.Errorf("%q at %q ends with %d, want %d:\n%s", keys, q.asks, code, want, shown)
			}
			if said := strings.Contains(shown, "interrupted: nothing was done"); said != (want == cli.ExitInterrupted) {
				t.Errorf("%q at %q: it shows\n%s", keys, q.asks, shown)
			}
		}
	}
	versions, err := client.ConfigVersions(ctx, 0, 10)
	if err != nil || len(versions.Versions) != 2 {
		t.Errorf("a configuration was applied: %+v %v", versions, err)
	}
	if n, err := client.Node(ctx, "n1"); err != nil || n.Dead || active() != 2 {
		t.Errorf("%+v %v, %d jobs run", n, err, active())
	}
	if _, err := client.People().User(ctx, "bob"); err != nil {
		t.Error(err)
	}
	if code, shown := atTerminal(t, ctx, questions[4].asks, "y\n", questions[4].args...); code != cli.ExitOK {
		t.Errorf("%d:\n%s", code, shown)
	}
	if _, err := client.People().User(ctx, "bob"); rest.CodeOf(err) != rest.CodeNotFound {
		t.Error(err)
	}
}

// TestNoAnswerToAChange: where the answer to a change does not come it is said that it may have
// been done, and how to look; where nothing was sent that is not said.
func TestNoAnswerToAChange(t *testing.T) {
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "cluster.yaml")
	for name, text := range map[string]string{token: "comb_1_2\n", file: askedFile} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	defer silent.Close()
	defer broken.Close()
	defer close(over)
	for _, c := range []struct {
		url, timeout string
		code         int
		unsure       bool
	}{{silent.URL, "1s", cli.ExitTimeout, true}, {broken.URL, "1h", cli.ExitUnreachable, true}, {gone.URL, "1h", cli.ExitUnreachable, false},
		{"http://nosuch.invalid:1", "1h", cli.ExitUnreachable, false}} {
		run := exec.Command("comb", "config", "apply", file, "--yes", "--timeout", c.timeout, "--server", c.url,
			"--token-file", token)
		out, _ := run.CombinedOutput()
		said := strings.Contains(string(out), "whether it was done is not known: look with comb config history")
		if run.ProcessState.ExitCode() != c.code || said != c.unsure {
			t.Errorf("it ends with %d, want %d, and says\n%s", run.ProcessState.ExitCode(), c.code, out)
		}
	}
}
