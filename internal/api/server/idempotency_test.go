package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// clock is a wall clock that a test sets forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() model.Time          { return wall().Add(model.Duration(c.ahead.Load())) }
func (c *clock) forward(d model.Duration) { c.ahead.Add(int64(d)) }

// ask is one write, as a client repeats it.
type ask struct{ method, path, body, media, match, key string }

// send makes the write and returns its answer, without the mark of a repeated one.
func (w *world) send(a ask) (status int, repeated bool, text string) {
	w.t.Helper()
	header := map[string]string{rest.HeaderIdempotency: a.key, "Content-Type": a.media}
	if a.match != "" {
		header["If-Match"] = a.match
	}
	status, _, body := w.request(a.method, "/api/v1"+a.path, a.body, header)
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		w.t.Fatalf("%+v: %d %s", a, status, body)
	}
	repeated, _ = fields["repeated"].(bool)
	delete(fields, "repeated")
	out, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	return status, repeated, string(out)
}

const jobFile = `{"source": "protocolVersion: 2\nname: %s\ntype: job\ntaskRoles:\n  worker:\n    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 64}\n    commands: [\"true\"]\n"}`

// TestSameKeyGetsTheFirstAnswer repeats every kind of write after all that it says has become
// wrong: its job has ended, its virtual cluster has left the file, its tag is an old one, its
// node is what it was before. Then again on the next server.
func TestSameKeyGetsTheFirstAnswer(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	present, err := w.client.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const yaml, js = "application/yaml", "application/json"
	other := strings.Replace(clusterFile, "  default:", "  other:", 1)
	asks := []ask{
		{"POST", "/jobs", fmt.Sprintf(jobFile, "named"), js, "", "submit"},
		{"POST", "/jobs", `{"quick": {"command": ["true"], "gpus": 1, "cpus": "1", "memory_mb": 10}}`, js, "", "quick"},
		{"POST", "/jobs/named/stop", `{"reason": "enough"}`, js, "", "stop"},
		{"POST", "/nodes/n1/cordon", `{"reason": "fan"}`, js, "", "cordon"},
		{"POST", "/nodes/n1/uncordon", `{}`, js, "", "uncordon"},
		{"PUT", "/config", other, yaml, present.ETag, "config"},
	}
	first := make([]string, len(asks))
	for i, a := range asks {
		status, repeated, text := w.send(a)
		if status/100 != 2 || repeated {
			t.Fatalf("%s: %d, repeated %v, %s", a.key, status, repeated, text)
		}
		first[i] = text
	}
	w.until("the job has ended", func() bool {
		j, err := w.client.Job(ctx, "named")
		return err == nil && j.Phase.Ended()
	})
	again := func(when string) {
		for i, a := range asks {
			if status, repeated, text := w.send(a); status/100 != 2 || !repeated || text != first[i] {
				t.Errorf("%s, %s again: %d, repeated %v, %s; want %s", when, a.key, status, repeated, text, first[i])
			}
			a.body = strings.Replace(a.body+" ", "enough", "now", 1)
			a.body = strings.Replace(a.body, "fan", "dust", 1)
			a.body = strings.Replace(a.body, "true", "false", 1)
			a.body = strings.Replace(a.body, "{}", `{"reason": "mended"}`, 1)
			if status, _, text := w.send(a); status != http.StatusConflict {
				t.Errorf("%s, %s with another body: %d %s; want 409", when, a.key, status, text)
			}
		}
		nodes, err := w.client.Nodes(ctx)
		if err != nil || slices.ContainsFunc(nodes.Nodes, func(n rest.NodeStatus) bool { return n.Cordoned }) {
			t.Errorf("%s the cordon had a second effect: %+v, %v", when, nodes, err)
		}
		jobs, err := w.client.Jobs(ctx, rest.JobQuery{})
		if err != nil || len(jobs.Jobs) != 2 {
			t.Errorf("%s there are %d jobs, %v; want 2", when, len(jobs.Jobs), err)
		}
	}
	again("on the same server")
	w.stop()
	w = setup{dir: w.dir}.open(t)
	again("on the next server")
}

// TestSameKeyAtOnce sends one write on many connections at once: one has the effect, all get
// its answer, also those that come when it is no longer possible.
func TestSameKeyAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	job := w.submit("one", 1)
	w.until("it runs", w.running(job.ID))
	present, err := w.client.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []ask{
		{"POST", "/jobs", fmt.Sprintf(jobFile, "two"), "application/json", "", "a"},
		{"POST", "/jobs/one/stop", `{}`, "application/json", "", "b"},
		{"PUT", "/config", clusterFile, "application/yaml", present.ETag, "c"},
	} {
		var all sync.WaitGroup
		var mu sync.Mutex
		effects, answers := 0, map[string]int{}
		for range 16 {
			all.Go(func() {
				status, repeated, text := w.send(a)
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(status/100, text)]++
				if !repeated {
					effects++
				}
			})
		}
		all.Wait()
		if effects != 1 || len(answers) != 1 {
			t.Errorf("%s %s: %d effects, answers %v", a.method, a.path, effects, answers)
		}
	}
}

// TestKeysAreKeptForADay remembers a key beside 20,100 others of the same subject (in the short
// form a tenth of them), over a restart, for a day by time.
func TestKeysAreKeptForADay(t *testing.T) {
	var c clock
	others := 20_100
	if testing.Short() {
		others /= 10
	}
	w := setup{gpus: 1, now: c.now}.open(t)
	a := ask{"POST", "/jobs", fmt.Sprintf(jobFile, "kept"), "application/json", "", "mine"}
	status, _, first := w.send(a)
	if status != http.StatusCreated {
		t.Fatal(first)
	}
	if _, err := w.client.Stop(context.Background(), "kept", ""); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			for i := n; i < others; i += 64 {
				m := model.Meta{Subject: "alice", Key: fmt.Sprintf("other-%d", i)}
				if r := w.live.Do(context.Background(), model.Cordon{Meta: m, Node: "n1", On: i%2 == 0}, nil); r.Err != nil || r.Refusal != nil {
					t.Error(r)
					return
				}
			}
		})
	}
	all.Wait()
	c.forward(23*model.Hour + 55*model.Minute)
	w.stop()
	w = setup{dir: w.dir, now: c.now}.open(t)
	if status, repeated, text := w.send(a); status/100 != 2 || !repeated || text != first {
		t.Errorf("after %d keys and nearly a day: %d, repeated %v, %s; want %s", others, status, repeated, text, first)
	}
	c.forward(10 * model.Minute)
	for range 2 { // the first batch forgets what is old enough
		if _, err := w.client.Cordon(context.Background(), "n1", ""); err != nil {
			t.Fatal(err)
		}
	}
	if status, repeated, text := w.send(a); status/100 != 2 || repeated || text == first {
		t.Errorf("after a day: %d, repeated %v, %s; want a new job", status, repeated, text)
	}
}

// TestKeysAreBounded lets a subject use up its keys: young ones are kept, new ones refused
// with what to do, and neither stops nor other subjects are held up.
func TestKeysAreBounded(t *testing.T) {
	var c clock
	w := setup{gpus: 1, keys: 5, now: c.now}.open(t)
	send := func(key string) (int, bool) {
		status, repeated, _ := w.send(ask{"POST", "/jobs", fmt.Sprintf(jobFile, key), "application/json", "", key})
		return status, repeated
	}
	for i := range 5 {
		if status, _ := send(fmt.Sprintf("k%d", i)); status != http.StatusCreated {
			t.Fatalf("key %d: %d", i, status)
		}
	}
	status, header, body := w.request("POST", "/api/v1/jobs", fmt.Sprintf(jobFile, "k5"),
		map[string]string{rest.HeaderIdempotency: "k5", "Content-Type": "application/json"})
	p := checkProblem(t, "one key too many", status, header, body)
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "5 idempotency keys of alice") {
		t.Errorf("one key too many: %d %s", status, body)
	}
	if status, repeated := send("k0"); status/100 != 2 || !repeated {
		t.Errorf("the first key: %d, repeated %v", status, repeated)
	}
	if status, _ := send(""); status != http.StatusUnprocessableEntity && status != http.StatusCreated {
		t.Errorf("without a key: %d", status)
	}
	if _, err := w.client.Stop(context.Background(), "k1", ""); err != nil {
		t.Errorf("a stop: %v", err)
	}
	token, _, err := w.store.CreateToken(context.Background(), "other", "bob", c.now())
	if err != nil {
		t.Fatal(err)
	}
	bob, err := rest.NewClient(w.url, token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Submit(context.Background(), quickJob("bobs", 1), ""); err != nil {
		t.Errorf("another subject: %v", err)
	}
	c.forward(25 * model.Hour)
	if status, _ := send("k5"); status != http.StatusCreated {
		t.Errorf("a day later: %d", status)
	}
}
