package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

// TestHiddenAsAbsent: what a user may not see is answered as what is not there, word for word and
// in the same time. Of 1,000 answers each, one asked after the other, those that a tenth is faster
// than are less than a millisecond apart: more work would show in all, and what else runs on a busy
// machine shows in the slower ones.
func TestHiddenAsAbsent(t *testing.T) {
	answers, limit := 1000, time.Millisecond
	if testing.Short() { // and maybe with the race detector
		answers, limit = 100, 10*time.Millisecond
	}
	w := teams(t)
	alice, bob := w.user("alice", "red"), w.user("bob", "blue")
	ended := w.submitAs(alice, "ended", "a", 1)
	w.until("it runs", w.running(ended.ID))
	w.exit(ended.ID, 1, 0)
	w.until("it is in the history", func() bool {
		status, text := w.as(alice, http.MethodGet, fmt.Sprintf(rest.Prefix+"/jobs/%d", ended.ID), "")
		return status == http.StatusOK && strings.Contains(text, `"Succeeded"`)
	})
	runs := w.submitAs(alice, "runs", "a", 4)
	w.until("it runs", w.running(runs.ID))
	waits := w.submitAs(alice, "waits", "a", 4)
	mine := w.submitAs(bob, "mine", "b", 1)
	w.until("it runs", w.running(mine.ID))
	answer := func(method, path string) (int, string) { // over one connection
		q, err := http.NewRequest(method, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+bob)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(text)
	}
	for _, ask := range []struct{ method, path, hidden, absent string }{
		{http.MethodGet, "/jobs/%s", fmt.Sprint(runs.ID), "7777"},
		{http.MethodGet, "/jobs/%s", fmt.Sprint(ended.ID), "7777"},
		{http.MethodGet, "/jobs/%s", "alice~ended", "alice~gone"},
		{http.MethodGet, "/jobs/%s/explain", fmt.Sprint(waits.ID), "7777"},
		{http.MethodGet, "/jobs/%s/tasks/main/0/logs", fmt.Sprint(runs.ID), "7777"},
		{http.MethodPost, "/jobs/%s/stop", fmt.Sprint(runs.ID), "7777"},
	} {
		var took [2][]time.Duration
		for range answers {
			var said [2]string
			for i, ref := range []string{ask.hidden, ask.absent} {
				began := time.Now()
				status, text := answer(ask.method, fmt.Sprintf(rest.Prefix+ask.path, ref))
				took[i] = append(took[i], time.Since(began))
				_, name, _ := strings.Cut(ref, "~")
				said[i] = fmt.Sprint(status, " ", strings.NewReplacer("\\\""+name+"\\\"", "IT", ref, "IT").Replace(text))
			}
			if said[0] != said[1] || !strings.HasPrefix(said[0], "404 ") {
				t.Fatalf("%s %s of %s says %s, of %s %s", ask.method, ask.path, ask.hidden, said[0], ask.absent, said[1])
			}
		}
		for i := range took {
			slices.Sort(took[i])
		}
		hidden, absent := took[0][answers/10], took[1][answers/10]
		t.Logf("%s %s: %s %v, %s %v", ask.method, ask.path, ask.hidden, hidden, ask.absent, absent)
		if apart := (hidden - absent).Abs(); apart >= limit {
			t.Errorf("%s %s: the answers about %s and %s are %v apart", ask.method, ask.path, ask.hidden, ask.absent, apart)
		}
	}
}

// When jobs start is told of those that were asked for and may be seen, and what helps to start
// only where the asker may do it.
func TestStarts(t *testing.T) {
	w := teams(t)
	alice, bob := w.user("alice", "red"), w.user("bob", "blue")
	file := func(name, vc string) string {
		return fmt.Sprintf("protocolVersion: 2\nname: %s\ntype: job\ndefaults: {virtualCluster: %s}\nextras: {comb: {timeLimit: 10m, grace: 0s}}\ntaskRoles:\n  main:\n    resourcePerInstance: {gpu: 4, cpu: 1, memoryMB: 100}\n    commands: [work]\n", name, vc)
	}
	var ids []int64
	for i, name := range []string{"one", "two", "three", "four"} {
		asker, vc := alice, "a"
		if i == 3 {
			asker, vc = bob, "b"
		}
		status, text := w.as(asker, http.MethodPost, rest.Prefix+"/jobs", file(name, vc))
		var job rest.Submitted
		if err := json.Unmarshal([]byte(text), &job); err != nil || status != http.StatusCreated {
			t.Fatal(status, text)
		}
		ids = append(ids, int64(job.ID))
		w.client.See(job.Seq)
		if name == "one" || name == "four" {
			w.until("it runs", w.running(job.ID))
		}
	}
	path := fmt.Sprintf(rest.Prefix+"/starts?job=%d&job=%d&job=%d&job=7777", ids[0], ids[1], ids[2])
	read := func(token string) (out rest.Starts) {
		t.Helper()
		status, text := w.as(token, http.MethodGet, path, "")
		if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK {
			t.Fatal(status, text)
		}
		return out
	}
	mine := read(alice)
	if len(mine.Starts) != 2 {
		t.Fatalf("of two jobs that wait: %+v", mine)
	}
	second := mine.Starts[1].Latest - mine.Starts[0].Latest
	if mine.Starts[0].Latest <= mine.AsOf || time.Duration(second)*time.Microsecond < 10*time.Minute {
		t.Errorf("the second starts %v after the first, which runs 10 min: %+v", time.Duration(second)*time.Microsecond, mine)
	}
	if others := read(bob); len(others.Starts) != 0 {
		t.Errorf("bob learns of jobs of another VC: %+v", others)
	}
	status, text := w.as(alice, http.MethodGet, fmt.Sprintf(rest.Prefix+"/jobs/%d/explain", ids[1]), "")
	if status != http.StatusOK || !strings.Contains(text, `"suggestions"`) || strings.Contains(text, "it would start in virtual cluster b") {
		t.Errorf("alice may not submit jobs in b: %d %s", status, text)
	}
}
