package server_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/test/testkit"
)

var errEnough = errors.New("enough")

// collect follows until n events came.
func collect(t *testing.T, c *rest.Client, after uint64, n int) []rest.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	var out []rest.Event
	err := c.Follow(ctx, "", after, rest.Follower{Event: func(e rest.Event) error {
		if out = append(out, e); len(out) == n {
			return errEnough
		}
		return nil
	}})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%d of %d events, then %v", len(out), n, err)
	}
	return out
}

func TestEventStreamResumesWithoutGapOrRepeat(t *testing.T) {
	w := newWorld(t, 1)
	for _, name := range []string{"a", "b", "c"} {
		w.submit(name, 1)
	}
	all := collect(t, w.client, 0, 6)
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	for from := range all {
		part := collect(t, w.client, uint64(from), len(all)-from)
		if part[0].Seq != uint64(from+1) {
			t.Errorf("resumed after %d: begins at %d", from, part[0].Seq)
		}
	}
}

func TestStreamAheadOfTheJournalSaysResync(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	err := w.client.Follow(ctx, "", 1<<40, rest.Follower{
		Event: func(rest.Event) error { return nil },
		Resync: func(r rest.Resync) error {
			if r.Seq == 0 || r.Seq > 100 {
				t.Errorf("resync at %d", r.Seq)
			}
			return errEnough
		}})
	if !errors.Is(err, errEnough) {
		t.Errorf("a place that does not exist: %v; want a resync", err)
	}
}

func TestJobStreamEndsWithTheJob(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	job, other := w.submit("mine", 1), w.submit("other", 1)
	w.until("it runs", w.running(job.ID))
	go w.exit(job.ID, 1, 0)
	for _, when := range []string{"live", "after its end"} {
		last, kinds := uint64(0), map[model.Kind]int{}
		err := w.client.Follow(ctx, "mine", 0, rest.Follower{Event: func(e rest.Event) error {
			if e.Job != job.ID || e.Seq <= last {
				t.Errorf("%s: event %d of job %d after %d", when, e.Seq, e.Job, last)
			}
			last = e.Seq
			kinds[e.Kind]++
			return nil
		}})
		if err != nil || kinds["JobSubmitted"] != 1 || kinds["JobEnded"] != 1 {
			t.Errorf("%s: %v, %v", when, kinds, err)
		}
	}
	page, err := w.client.JobEvents(ctx, rest.JobRef(other.ID), 0)
	if err != nil || len(page.Events) == 0 || page.Events[0].Kind != "JobSubmitted" || !strings.HasPrefix(page.Events[0].Says, "submitted by ") {
		t.Errorf("a page: %+v, %v", page, err)
	}
}

func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}}
	refused := 0
	for range 504 {
		req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/api/v1/events?follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+w.token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" {
			refused++
			resp.Body.Close()
		}
	}
	if refused != 4 {
		t.Errorf("%d of 504 streams were refused; want 4", refused)
	}
	cancel()
	w.until("the streams are closed", func() bool {
		status, _, _ := w.request("GET", "/api/v1/events", "", nil)
		return status == 200
	})
}

func TestLogs(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	job := w.submit("chatty", 1)
	w.until("it runs", w.running(job.ID))
	ref := executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}
	w.logs.print(ref, "one\ntwo\nthree\n")
	q := rest.LogQuery{Job: "chatty", Role: "main", Index: 0}
	for _, c := range []struct {
		offset, tail int64
		want         string
	}{{0, -1, "one\ntwo\nthree\n"}, {0, 0, ""}, {0, 1, "three\n"}, {0, 2, "two\nthree\n"}, {0, 9, "one\ntwo\nthree\n"}, {4, -1, "two\nthree\n"}, {99, -1, ""}} {
		var out bytes.Buffer
		if q.Offset, q.Tail = c.offset, &c.tail; c.tail < 0 {
			q.Tail = nil
		}
		if _, err := w.client.Logs(ctx, q, &out); err != nil || out.String() != c.want {
			t.Errorf("offset %d, tail %d: %q, %v; want %q", c.offset, c.tail, out.String(), err, c.want)
		}
	}
	status, header, _ := w.request("GET", "/api/v1/jobs/chatty/tasks/main/0/logs", "", nil)
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") || header.Get("Comb-Log-Offset") != "0" {
		t.Errorf("the log itself: %d %v", status, header)
	}
	for path, want := range map[string]int{"main/7": 404, "boss/0": 404, "main/0?attempt=5": 404, "main/0?stream=key": 422} {
		full := "/api/v1/jobs/chatty/tasks/" + strings.Replace(path, "?", "/logs?", 1)
		if !strings.Contains(path, "?") {
			full += "/logs"
		}
		if status, _, body := w.request("GET", full, "", nil); status != want {
			t.Errorf("%s: %d %s; want %d", path, status, body, want)
		}
	}
}

// TestJobLogs wants the logs of all tasks in one archive, what rotation dropped told in its place,
// and no more than what its reader may.
func TestJobLogs(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	job := w.submit("chatty", 1)
	waits := w.submit("silent", 1)
	w.until("it runs", w.running(job.ID))
	ref := executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}
	w.logs.print(ref, "one\ntwo\nthree\n")
	ref.Stream = "stderr"
	w.logs.print(ref, "a warning\n")
	files := func() map[string]string {
		t.Helper()
		var out bytes.Buffer
		if err := w.client.JobLogs(ctx, "chatty", &out); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			have[f.Name] = string(text)
		}
		return have
	}
	if have, want := files(), map[string]string{"main-0.stdout.log": "one\ntwo\nthree\n", "main-0.stderr.log": "a warning\n"}; !maps.Equal(have, want) {
		t.Errorf("the archive holds %q; want %q", have, want)
	}
	w.logs.cut(4, 8)
	if have := files()["main-0.stdout.log"]; !strings.HasPrefix(have, "one\n\n[comb: 4 bytes of output are missing here") || !strings.HasSuffix(have, "three\n") {
		t.Errorf("the log with a gap is %q", have)
	}
	w.logs.broken = fmt.Errorf("%w: a link", executor.ErrReplaced)
	if have := files()["main-0.stdout.log.cannot-be-read.txt"]; !strings.Contains(have, "put back what was there") {
		t.Errorf("what cannot be read is told by %q", have)
	}
	w.logs.broken = errors.New("disk error")
	if err := w.client.JobLogs(ctx, "chatty", io.Discard); err == nil {
		t.Error("an archive that breaks off looks whole")
	}
	status, header, _ := w.request("GET", "/api/v1/jobs/"+rest.JobRef(waits.ID)+"/logs", "", nil)
	if status != 404 || header.Get("Content-Type") != rest.ProblemType {
		t.Errorf("a job that has not run: %d %v", status, header)
	}
}

// TestLogWithAGap: what rotation dropped is told in one line with its size, behind the first lines,
// and who follows goes on at the right place, also when it is overtaken or its connection breaks.
func TestLogWithAGap(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	job := w.submit("long", 1)
	w.until("it runs", w.running(job.ID))
	ref := executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}
	w.logs.print(ref, "lr=0.1\n"+strings.Repeat("x", 9992)+"\nlast but one\nlast\n")
	notice := func(n int) string {
		return fmt.Sprintf("\n[comb: %d bytes of output are missing here: they were removed to make room for what follows]\n", n)
	}
	w.logs.cut(7, 10_000)
	q := rest.LogQuery{Job: "long", Role: "main"}
	for _, c := range []struct {
		offset, tail int64
		want         string
	}{
		{0, -1, "lr=0.1\n" + notice(9993) + "last but one\nlast\n"},
		{3, -1, "0.1\n" + notice(9993) + "last but one\nlast\n"},
		{7, -1, notice(9993) + "last but one\nlast\n"},
		{9000, -1, notice(1000) + "last but one\nlast\n"},
		{10_000, -1, "last but one\nlast\n"},
		{0, 1, "last\n"},
		{0, 2, notice(9993) + "last but one\nlast\n"},
		{0, 7, notice(9993) + "last but one\nlast\n"},
	} {
		var out bytes.Buffer
		if q.Offset, q.Tail = c.offset, &c.tail; c.tail < 0 {
			q.Tail = nil
		}
		next, err := w.client.Logs(ctx, q, &out)
		if err != nil || out.String() != c.want || next != 10_018 {
			t.Errorf("offset %d, tail %d: %q, next %d, %v; want %q", c.offset, c.tail, out.String(), next, err, c.want)
		}
	}
	w.logs.cut(0, 10_000) // a log of which no first lines were kept
	var out bytes.Buffer
	if _, err := w.client.Logs(ctx, rest.LogQuery{Job: "long", Role: "main"}, &out); err != nil || out.String() != notice(10_000)+"last but one\nlast\n" {
		t.Errorf("without its first lines: %q, %v", out.String(), err)
	}

	w.logs.cut(7, 10_000)
	r, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := w.client.Logs(ctx, rest.LogQuery{Job: "long", Role: "main", Follow: true}, in)
		in.Close()
		done <- err
	}()
	have := ""
	until := func(end string) {
		t.Helper()
		buf := make([]byte, 1<<10)
		for !strings.HasSuffix(have, end) {
			n, err := r.Read(buf)
			if have += string(buf[:n]); err != nil {
				t.Fatalf("it ends with %v behind %q", err, have)
			}
		}
	}
	until("\nlast\n")
	w.logs.mu.Lock()
	w.logs.logs[logKey(ref)] += strings.Repeat("y", 5000) + "\nend\n" // it is dropped before it is read
	w.logs.gap = [2]int64{7, 15_019}
	w.logs.mu.Unlock()
	until("\nend\n")
	if want := "lr=0.1\n" + notice(9993) + "last but one\nlast\n" + notice(5001) + "end\n"; have != want {
		t.Errorf("followed: %q, want %q", have, want)
	}
	w.live.Tell(model.TaskExited{Attempt: ref.Attempt, Exit: model.Exit{Own: true}})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTailReadsWhatItAnswers: to find the last lines no more is read than they have, and a piece.
func TestTailReadsWhatItAnswers(t *testing.T) {
	w := newWorld(t, 1)
	job := w.submit("chatty", 1)
	w.until("it runs", w.running(job.ID))
	ref := executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}
	const piece, most = 256 << 10, 64 << 20
	line := strings.Repeat("x", 999) + "\n"
	w.logs.print(ref, strings.Repeat("y", most)+"\n"+strings.Repeat(line, 20_000)) // its first line begins before the limit
	for tail, want := range map[int64]int{1: 1000, 2: 2000, 262: 262_000, 263: 263_000, 9_000: 9_000_000, 20_000: 20_000_000, 20_001: most, 99_999: most} {
		before := w.logs.read.Load()
		var out discarded
		q := rest.LogQuery{Job: "chatty", Role: "main", Tail: &tail}
		if _, err := w.client.Logs(context.Background(), q, &out); err != nil || int(out) != want {
			t.Errorf("the last %d lines have %d bytes, %v; want %d", tail, out, err, want)
		}
		if searched := w.logs.read.Load() - before - int64(out); searched > int64(want)+piece {
			t.Errorf("%d bytes were read to find the last %d lines, which have %d", searched, tail, want)
		}
	}
}

type discarded int

func (d *discarded) Write(p []byte) (int, error) {
	*d += discarded(len(p))
	return len(p), nil
}

// TestLogsThatCannotBeRead: what a task did to its own files is no error of the server.
func TestLogsThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 1)
	job := w.submit("odd", 1)
	w.until("it runs", w.running(job.ID))
	for want, err := range map[string]error{
		"attempt 1 of task main-0 cannot be read: something else was put in the place of this log: 0.1 is a symbolic link, not a folder": fmt.Errorf("%w: 0.1 is a symbolic link, not a folder", executor.ErrReplaced),
		"the server's user may not open it": &fs.PathError{Op: "open", Path: "secret", Err: fs.ErrPermission},
	} {
		w.logs.mu.Lock()
		w.logs.broken = err
		w.logs.mu.Unlock()
		for _, query := range []string{"", "?follow=true", "?tail=3"} {
			status, header, text := w.request("GET", "/api/v1/jobs/odd/tasks/main/0/logs"+query, "", nil)
			if p := checkProblem(t, query, status, header, text); status != http.StatusConflict || !strings.Contains(p.Detail, want) || strings.Contains(p.Detail, "secret") {
				t.Errorf("%q: %d %s; want 409 and %s", query, status, p.Detail, want)
			}
		}
	}
}

func TestFollowedLogIsCompleteAtTheEnd(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	blocker := w.submit("blocker", 1)
	w.until("it runs", w.running(blocker.ID))
	job := w.submit("later", 1)
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := w.client.Logs(ctx, rest.LogQuery{Job: "later", Role: "main", Follow: true}, in)
		in.Close()
		done <- err
	}()
	w.exit(blocker.ID, 1, 0)
	w.until("the job runs", w.running(job.ID))
	ref := executor.LogRef{Attempt: model.AttemptID{Job: job.ID, N: 1}, Stream: "stdout"}
	var want strings.Builder
	for i := range 5 {
		want.WriteString(strings.Repeat("x", i*1000) + "\n")
	}
	go func() {
		for i := range 5 {
			w.logs.print(ref, strings.Repeat("x", i*1000)+"\n")
			time.Sleep(50 * time.Millisecond) // the pace of the task
		}
		w.exit(job.ID, 1, 0)
	}()
	got, err := io.ReadAll(out)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err != nil || string(got) != want.String() {
		t.Errorf("followed %d bytes of %d, %v", len(got), want.Len(), err)
	}
}

// TestRevokedTokenEndsItsStreams waits for the next sign of life of a stream,
// at which its token is checked again.
func TestRevokedTokenEndsItsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ctx := context.Background()
	text, token, err := w.store.CreateToken(ctx, "short", "bob", wall())
	if err != nil {
		t.Fatal(err)
	}
	bob, err := rest.NewClient(w.url, text)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- bob.Follow(ctx, "", 0, rest.Follower{Event: func(rest.Event) error { begun <- struct{}{}; return nil }})
	}()
	<-begun
	if ok, err := w.store.RevokeToken(ctx, token.ID); !ok || err != nil {
		t.Fatal(ok, err)
	}
	select {
	case err := <-ended:
		if rest.CodeOf(err) != rest.CodeUnauthorized {
			t.Errorf("the stream ended with %v; want unauthorized at the reconnect", err)
		}
	case <-time.After(testkit.Patience):
		t.Error("the stream of a revoked token goes on")
	}
}
