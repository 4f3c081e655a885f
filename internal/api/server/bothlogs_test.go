package server_test

import (
	"bytes"
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// TestBothStreams wants standard output and standard error in the order in which they were
// printed: whole, the last lines, from the offsets of a piece on, and where something was
// removed; a task that has one of them alone has that one.
func TestBothStreams(t *testing.T) {
	w := newWorld(t, 1)
	job := w.submit("chatty", 1)
	w.until("it runs", w.running(job.ID))
	out := executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: executor.Stdout}
	errs := out
	errs.Stream = executor.Stderr
	w.logs.print(out, "one\ntwo\nthr")
	w.logs.print(errs, "E1\nE2\n")
	w.logs.print(out, "ee\nfour\n")
	w.logs.print(errs, "E3")
	w.logs.mu.Lock()
	w.logs.turns = []executor.StreamSwitch{{Stream: executor.Stdout, To: 4}, {Stream: executor.Stderr, To: 3},
		{Stream: executor.Stdout, To: 11}, {Stream: executor.Stderr, To: 6}}
	w.logs.mu.Unlock()
	get := func(query string) string {
		t.Helper()
		status, header, body := w.request("GET", "/api/v1/jobs/chatty/tasks/main/0/logs?stream=both"+query, "", nil)
		if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v", query, status, header)
		}
		return string(body)
	}
	for query, want := range map[string]string{
		"":         "one\nE1\ntwo\nE2\nthree\nfour\nE3",
		"&tail=0":  "",
		"&tail=1":  "E3", // which has not ended
		"&tail=99": "one\nE1\ntwo\nE2\nthree\nfour\nE3",
		"&frames=true": "stdout 0 0\nstderr 0 0\nstdout 0 4\none\nstderr 0 3\nE1\n" +
			"stdout 4 7\ntwo\nthrstderr 3 3\nE2\nstdout 11 8\nee\nfour\nstderr 6 2\nE3",
		"&frames=true&offset=11&errors=3": "stdout 11 0\nstderr 3 0\nstderr 3 3\nE2\nstdout 11 8\nee\nfour\nstderr 6 2\nE3",
		"&frames=true&offset=99&errors=8": "stdout 99 0\nstderr 8 0\n",
		"&frames=true&tail=2":             "stdout 14 0\nstderr 6 0\nstdout 14 5\nfour\nstderr 6 2\nE3",
	} {
		if got := get(query); got != want {
			t.Errorf("%s:\n%q\nwant\n%q", query, got, want)
		}
	}
	disorder := func(err error) {
		w.logs.mu.Lock()
		defer w.logs.mu.Unlock()
		w.logs.disordered = err
	}
	disorder(fs.ErrPermission) // a task may close the file of its order
	if got, want := get(""), "one\ntwo\nthree\nfour\nE1\nE2\nE3"; got != want {
		t.Errorf("without an order: %q, want %q", got, want)
	}
	disorder(nil)
	w.logs.cut(4, 8)
	if got, want := get("&frames=true&errors=8"), "stdout 0 0\nstderr 8 0\nstdout 0 4\none\ncomb 0 93\n"+
		"\n[comb: 4 bytes of output are missing here: they were removed to make room for what follows]\n"+
		"stdout 8 3\nthrstdout 11 8\nee\nfour\n"; got != want {
		t.Errorf("with a gap:\n%q\nwant\n%q", got, want)
	}
	w.logs.mu.Lock()
	delete(w.logs.logs, logKey(out))
	w.logs.mu.Unlock()
	w.logs.cut(0, 0)
	if got := get(""); got != "E1\nE2\nE3" {
		t.Errorf("of standard error alone: %q", got)
	}
	status, _, _ := w.request("GET", "/api/v1/jobs/chatty/tasks/main/0/logs?stream=both&attempt=7", "", nil)
	if status != 404 {
		t.Errorf("an attempt that has not been: %d", status)
	}
	w.logs.print(out, "one\n")
	followed, ended := bytes.Buffer{}, make(chan error, 1)
	q := rest.LogQuery{Job: "chatty", Role: "main", Stream: "both", Follow: true}
	go func() {
		_, err := w.client.Logs(context.Background(), q, &followed)
		ended <- err
	}()
	if _, err := w.client.Stop(context.Background(), "chatty", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || followed.String() != "one\nE1\nE2\nE3" {
		t.Errorf("followed to the end: %q, %v", followed.String(), err)
	}
}
