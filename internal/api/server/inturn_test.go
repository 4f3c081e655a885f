package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core/model"
)

// status sends a request with a token and returns the status and the headers; 0 is that none came.
func (w *world) status(ctx context.Context, token, call, body string) (int, http.Header) {
	method, path, _ := strings.Cut(call, " ")
	if !strings.HasPrefix(path, "/rest-server") {
		path = rest.Prefix + path
	}
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/yaml")
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, nil
	}
	return resp.StatusCode, resp.Header
}

// hold takes all places of a lane, and notes whose turns come after them.
func hold(t *testing.T, lane *limiter.Limiter) (turns func() []string, release func()) {
	t.Helper()
	lane.SetOnTurn(nil) // requests of the test before may be on their way
	var held []func()
	for range lane.All {
		leave, err := lane.Wait(t.Context(), "the test")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, leave)
	}
	var mu sync.Mutex
	var order []string
	lane.SetOnTurn(func(by string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, by)
	})
	return func() []string {
			mu.Lock()
			defer mu.Unlock()
			return append([]string{}, order...)
		}, sync.OnceFunc(func() {
			for _, leave := range held {
				leave()
			}
		})
}

type dearRead struct {
	call, body, lane string
	wait             int
}

const turnJob = "protocolVersion: 2\nname: wants\ntype: job\ntaskRoles:\n  main:\n    commands: [\"true\"]\n    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 100}\n"

// dearReads are what users may ask for in loops: where each waits, and how many of one user's may
// wait there at a time, of sixteen.
var dearReads = []dearRead{
	{"GET /jobs", "", "look", 16},
	{"GET /jobs?sort=name", "", "look", 16},
	{"GET /jobs/waits", "", "look", 16},
	{"GET /jobs/waits/explain", "", "think", 16},
	{"GET /starts?job=2", "", "think", 16},
	{"POST /jobs:validate", turnJob, "think", 16},
	{"GET /jobs/runs/logs", "", "think", 2}, // others wait for a place to be sent from
	{"POST /nodes/n1/drain:plan", "{}", "think", 16},
	{"POST /config:plan", turnJob, "plan", 16},
	{"POST /config:validate", turnJob, "plan", 16},
	{"GET /events", "", "look", 16},
	{"GET /jobs/runs/events", "", "look", 16},
	{"GET /jobs/runs/history", "", "look", 1}, // others are refused
	{"GET /vcs", "", "look", 16},
	{"GET /nodes", "", "look", 16},
	{"GET /cells", "", "look", 16},
	{"GET /rest-server/api/v2/jobs", "", "look", 2},
	{"GET /rest-server/api/v2/jobs/USER~runs", "", "look", 16},
	{"GET /rest-server/api/v2/jobs/USER~runs/events", "", "look", 16},
	{"GET /rest-server/api/v2/virtual-clusters", "", "look", 16},
}

// TestTenantsTakeTurns: sixteen loops of one user hold up another's request of the same kind for a
// turn or two, however many there are, and its commands not at all.
func TestTenantsTakeTurns(t *testing.T) {
	w := newWorld(t, 1)
	tokens := map[string]string{}
	for _, user := range []string{"mallory", "victim"} {
		tokens[user] = w.tokenOf(model.Subject(user))
		c, err := rest.NewClient(w.url, tokens[user])
		if err != nil {
			t.Fatal(err)
		}
		runs, err := c.Submit(t.Context(), quickJob("runs", 1), "")
		if err != nil {
			t.Fatal(err)
		}
		w.client.See(runs.Seq)
		w.until("it runs", w.running(runs.ID))
		if user == "mallory" { // room for the other's
			w.exit(runs.ID, 1, 0)
		}
	}
	for user := range tokens {
		c, err := rest.NewClient(w.url, tokens[user])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Submit(t.Context(), quickJob("waits", 1), ""); err != nil {
			t.Fatal(err)
		}
	}
	for i, read := range dearReads {
		if testing.Short() && i%3 != 0 { // maybe with the race detector
			continue
		}
		t.Run(read.call, func(t *testing.T) { w.turnsOf(t, tokens, &read, fmt.Sprintf("beside-%d", i)) })
	}
}

// turnsOf has sixteen loops of one user and one request of another wait for a turn.
func (w *world) turnsOf(t *testing.T, tokens map[string]string, read *dearRead, beside string) {
	lane := w.handler.Lanes()[read.lane]
	turns, release := hold(t, lane)
	defer release()
	ctx, stop := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	defer loops.Wait()
	defer stop()
	for range 16 {
		loops.Go(func() {
			for ctx.Err() == nil {
				w.status(ctx, tokens["mallory"], strings.ReplaceAll(read.call, "USER", "mallory"), read.body)
			}
		})
	}
	w.until("the loops wait", func() bool { return lane.Waiting("mallory") >= read.wait })
	answer := make(chan int, 1)
	loops.Go(func() {
		status, _ := w.status(ctx, tokens["victim"], strings.ReplaceAll(read.call, "USER", "victim"), read.body)
		answer <- status
	})
	w.until("the victim waits", func() bool { return lane.Waiting("victim") == 1 })
	c, err := rest.NewClient(w.url, tokens["victim"])
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.Submit(ctx, quickJob(beside, 1), "") // commands wait for no turn
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stop(ctx, rest.JobRef(job.ID), ""); err != nil {
		t.Fatal(err)
	}
	release()
	if status := <-answer; status != http.StatusOK && read.lane != "plan" { // the job file is no cluster file
		t.Errorf("the victim got %d", status)
	}
	before := strings.Split(strings.Join(turns(), " "), "victim")
	for _, others := range before[:len(before)-1] {
		if n := strings.Count(others, "mallory"); n > lane.All+1 {
			t.Errorf("the victim waits for %d others, more than %d", n, lane.All+1)
		}
	}
	if len(before) == 1 {
		t.Errorf("the victim had no turn: %v", before)
	}
}

// TestLinesOfReadsAreBounded: one user may have so many reads that wait; beyond, they are refused
// and told when to come again.
func TestLinesOfReadsAreBounded(t *testing.T) {
	w := newWorld(t, 1)
	lane := w.handler.Lanes()["look"]
	_, release := hold(t, lane)
	defer release()
	mallory, victim := w.tokenOf("mallory"), w.tokenOf("victim")
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for range lane.Line + 20 {
		all.Go(func() {
			status, header := w.status(t.Context(), mallory, "GET /jobs", "")
			if status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
				t.Error("it is not told when to come again")
			}
			mu.Lock()
			defer mu.Unlock()
			count[status]++
		})
	}
	w.until("twenty are refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return count[http.StatusTooManyRequests] == 20 && lane.Waiting("mallory") == lane.Line
	})
	all.Go(func() {
		if status, _ := w.status(t.Context(), victim, "GET /jobs", ""); status != http.StatusOK {
			t.Errorf("another user's: %d", status)
		}
	})
	w.until("another user waits, too", func() bool { return lane.Waiting("victim") == 1 })
	release()
	all.Wait()
	if count[http.StatusOK] != lane.Line || lane.Taken() != 0 {
		t.Errorf("answers: %v, %d places taken", count, lane.Taken())
	}
}

// TestWhatIsNotThereYetTakesNoTurn: reads that wait for an event hold up no others.
func TestWhatIsNotThereYetTakesNoTurn(t *testing.T) {
	w := newWorld(t, 1)
	lane := w.handler.Lanes()["look"]
	ctx, stop := context.WithCancel(t.Context())
	var early sync.WaitGroup
	defer early.Wait()
	defer stop()
	var arrived sync.WaitGroup
	answered := make(chan int, 2*lane.All)
	for range cap(answered) {
		arrived.Add(1)
		early.Go(func() {
			arrived.Done()
			status, _ := w.status(ctx, w.token, "GET /jobs?after_seq=1000000", "")
			answered <- status
		})
	}
	arrived.Wait()
	for range 50 {
		if status, _ := w.status(t.Context(), w.token, "GET /jobs", ""); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	select {
	case status := <-answered:
		t.Errorf("others waited until one that is early was answered: %d", status)
	default:
	}
}
