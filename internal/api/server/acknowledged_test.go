package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// TestReadsSeeWhatWasAcknowledged submits, reads and stops by name, each on a connection
// that has not seen the submission, while thousands of jobs wait. Names are used again, so
// that an answer may also be about an older job.
func TestReadsSeeWhatWasAcknowledged(t *testing.T) {
	const clients = 24
	waiting, rounds := 2000, 25
	if testing.Short() {
		waiting, rounds = 400, 5
	}
	w := newWorld(t, 1)
	ctx := context.Background()
	flood(t, w, waiting)
	var missed, tries atomic.Int64
	miss := func(format string, args ...any) {
		if missed.Add(1) <= 5 {
			t.Errorf(format, args...)
		}
	}
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			writer, reader := w.fresh(), w.fresh()
			for range rounds {
				name := fmt.Sprintf("again-%d", c)
				made, err := writer.Submit(ctx, quickJob(name, 1), "")
				if err != nil {
					miss("submit %s: %v", name, err)
					return
				}
				tries.Add(3)
				if j, err := reader.Job(ctx, name); err != nil || j.ID != made.ID {
					miss("get %s: job %d, %v; want %d", name, j.ID, err, made.ID)
				}
				if _, err := w.fresh().Stop(ctx, name, ""); err != nil {
					miss("stop %s: %v", name, err)
				}
				// It never started, so it has ended as soon as it is stopped.
				if j, err := w.fresh().Job(ctx, name); err != nil || j.ID != made.ID || j.Phase != model.Stopped {
					miss("get %s after its stop: job %d is %s, %v; want %d, stopped", name, j.ID, j.Phase, err, made.ID)
				}
			}
		})
	}
	all.Wait()
	if n := missed.Load(); n > 0 {
		t.Errorf("%d of %d missed what had been acknowledged", n, tries.Load())
	}
}

// fresh is a client that has seen nothing yet.
func (w *world) fresh() *rest.Client {
	c, err := rest.NewClient(w.url, w.token)
	if err != nil {
		panic(err)
	}
	return c
}

func quickJob(name string, gpus int64) rest.SubmitRequest {
	return rest.SubmitRequest{Quick: &rest.QuickJob{Name: name, GPUs: gpus, CPUs: "1", MemoryMB: 100, Command: []string{"true"}}}
}

// flood cordons the one node and submits n jobs, which wait.
func flood(t testing.TB, w *world, n int) {
	t.Helper()
	if _, err := w.client.Cordon(context.Background(), "n1", "flood"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for c := range 16 {
		all.Go(func() {
			for i := c; i < n; i += 16 {
				if _, err := w.client.Submit(context.Background(), quickJob(fmt.Sprintf("waits-%d", i), 1), ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestReadsBehindAreBounded holds the replica up: a read that would show less than was
// acknowledged says so and when to come again, instead of waiting for ever or showing it.
func TestReadsBehindAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.replica.Read(context.Background(), 0, func(*core.State) { close(held); <-release })
	}()
	<-held
	reply := w.live.Do(context.Background(), model.Cordon{Node: "n1", On: true}, nil)
	if reply.Err != nil || reply.Refusal != nil {
		t.Fatal(reply)
	}
	status, header, body := w.request("GET", "/api/v1/nodes", "", nil)
	close(release)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body, "was acknowledged") {
		t.Errorf("a read behind: %d, Retry-After %q, %s", status, header.Get("Retry-After"), body)
	}
	checkProblem(t, "a read behind", status, header, body)
	if list, err := w.fresh().Nodes(context.Background()); err != nil || !list.Nodes[0].Cordoned {
		t.Errorf("once the replica goes on: %+v, %v", list, err)
	}
}
