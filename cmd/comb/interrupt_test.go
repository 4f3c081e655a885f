package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// slowWay passes requests on to a server. What it does with the answer to the first
// submission is up to the test.
type slowWay struct {
	*httptest.Server
	held    chan struct{} // closed when the server has answered it
	release chan struct{} // closed: the answer goes on
	lose    bool          // the answers to the first three tries are lost with their connections
	seen    atomic.Int32
}

func newSlowWay(t *testing.T, to string, lose bool) *slowWay {
	s := &slowWay{held: make(chan struct{}), release: make(chan struct{}), lose: lose}
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = target.Host
		if r.Method != http.MethodPost || r.URL.Path != rest.Prefix+"/jobs" {
			proxy.ServeHTTP(w, r)
			return
		}
		n := s.seen.Add(1)
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		if n == 1 {
			close(s.held)
			<-s.release
		}
		if s.lose && n <= 3 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s
}

// served is a real server with pretended GPUs, and a client of it.
func served(t *testing.T, gpus string) (client *rest.Client, token string) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	server := exec.Command("comb", "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--virtual-gpus", gpus)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	})
	var at contexts.Endpoint
	var err error
	testkit.WaitFor(t, func() string { return fmt.Sprint("the server says where it is: ", err) }, func() bool {
		at, err = contexts.ReadEndpoint(filepath.Join(dir, "data", contexts.EndpointFile))
		return err == nil
	})
	if token, err = contexts.ReadToken(at.TokenFile); err != nil {
		t.Fatal(err)
	}
	if client, err = rest.NewClient(at.URL, token); err != nil {
		t.Fatal(err)
	}
	return client, at.TokenFile
}

// One Ctrl-C while a job is being submitted ends in a stopped job or in none,
// whenever the answer comes and however often its connection breaks.
func TestInterruptedSubmission(t *testing.T) {
	client, token := served(t, "1")
	for _, c := range []struct {
		name string
		args []string
		lose bool
		want model.Phase
		code int
	}{
		{"slow", []string{"run", "--clean", "--gpus", "1", "--name", "slow", "--", "sleep", "300"}, false, model.Stopped, cli.ExitInterrupted},
		{"detached", []string{"run", "--clean", "-d", "--gpus", "1", "--name", "detached", "--", "sleep", "300"}, false, model.Stopped, cli.ExitInterrupted},
		{"lost", []string{"run", "--clean", "--gpus", "1", "--name", "lost", "--", "sleep", "300"}, true, model.Stopped, cli.ExitInterrupted},
		{"refused", []string{"run", "--clean", "--gpus", "9", "--name", "refused", "--", "sleep", "300"}, false, "", cli.ExitFailure},
	} {
		way := newSlowWay(t, client.URL(), c.lose)
		run := exec.Command("comb", append([]string{"job", "--server", way.URL, "--token-file", token}, c.args...)...)
		var said testkit.Output
		run.Stdout, run.Stderr = &said, &said
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		<-way.held
		if err := run.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if c.name != "refused" {
			testkit.WaitFor(t, func() string { return "the command says that it waits; it said " + said.String() },
				func() bool {
					return strings.Contains(said.String(), "Ctrl-C: waiting for the server to confirm the job")
				})
		}
		close(way.release)
		_ = run.Wait()
		if code := run.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.name, code, c.code, said.String())
		}
		list, err := client.Jobs(context.Background(), rest.JobQuery{Name: c.name})
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" {
			if len(list.Jobs) > 0 {
				t.Errorf("%s: there is a job: %+v", c.name, list.Jobs)
			}
			continue
		}
		if len(list.Jobs) != 1 || list.Jobs[0].Phase != c.want {
			t.Errorf("%s: the jobs are %+v\n%s", c.name, list.Jobs, said.String())
		}
	}
}

// A second Ctrl-C leaves at once, and says that the job may be there.
func TestInterruptedTwice(t *testing.T) {
	client, token := served(t, "1")
	way := newSlowWay(t, client.URL(), false)
	run := exec.Command("comb", "job", "--server", way.URL, "--token-file", token, "run", "--clean", "--gpus", "1", "--", "sleep", "300")
	said := &bytes.Buffer{}
	run.Stderr = said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	<-way.held
	ended := make(chan struct{})
	go func() { _ = run.Wait(); close(ended) }()
	for done := false; !done; {
		_ = run.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
			done = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	close(way.release)
	if !strings.Contains(said.String(), "it is not known whether the server took the job") {
		t.Errorf("it says %q", said.String())
	}
	list, err := client.Jobs(context.Background(), rest.JobQuery{})
	if err != nil || len(list.Jobs) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := client.Stop(context.Background(), rest.JobRef(list.Jobs[0].ID), ""); err != nil {
		t.Error(err)
	}
}

// A second Ctrl-C leaves a job that takes its time to end, and says so.
func TestInterruptedTwiceWhileItRuns(t *testing.T) {
	enough := filepath.Join(t.TempDir(), "enough")
	client, token := served(t, "1")
	run := exec.Command("comb", "job", "--server", client.URL(), "--token-file", token, "run", "--clean", "--gpus", "1",
		"--grace", "60s", "--", "sh", "-c",
		`trap '' TERM; echo begun; until test -e "$1"; do sleep 0.05; done`, "sh", enough)
	var said testkit.Output
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	says := func(text string) {
		t.Helper()
		testkit.WaitFor(t, func() string { return "it says " + text + "; it said " + said.String() },
			func() bool { return strings.Contains(said.String(), text) })
	}
	says("begun")
	_ = run.Process.Signal(syscall.SIGINT)
	says("stopping job 1; interrupt again to leave it")
	testkit.Wait(t, "the job is asked to stop", func() bool {
		j, err := client.Job(context.Background(), "1")
		return err == nil && len(j.Attempts) > 0 && j.Attempts[0].State == model.AttemptStopping
	})
	_ = run.Process.Signal(syscall.SIGINT)
	_ = run.Wait()
	says("job 1 was asked to stop, and lives on until it ends or its grace is over; see: comb job get 1\n")
	if code := run.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	j, err := client.Job(context.Background(), "1")
	if err != nil || j.Phase.Ended() {
		t.Errorf("%+v, %v", j, err)
	}
	touch(t, enough)
	testkit.Wait(t, "the job has ended", func() bool {
		j, err := client.Job(context.Background(), "1")
		return err == nil && j.Phase.Ended()
	})
}

// A script ends on a signal in the middle of its work, however much of it is left.
func TestInterruptedScript(t *testing.T) {
	var src strings.Builder
	src.WriteString("cluster nodes=200 gpus=8\n\n")
	for i := range 10_000 {
		fmt.Fprintf(&src, "submit job%d gpus=8\n", i)
	}
	file := filepath.Join(t.TempDir(), "long.txt")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		run := exec.Command("comb", "script", file)
		out, err := run.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(out)
		if _, err := said.ReadString('\n'); err != nil { // the cluster is there: the jobs come next
			t.Fatal(err)
		}
		if err := run.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(said)
		if err != nil {
			t.Fatal(err)
		}
		if _ = run.Wait(); run.ProcessState.ExitCode() != cli.ExitInterrupted {
			t.Errorf("after %v it exits with %d, want %d", sig, run.ProcessState.ExitCode(), cli.ExitInterrupted)
		}
		if strings.Contains(string(rest), "job9999 is accepted") {
			t.Errorf("after %v it did all of its work", sig)
		}
	}
}
