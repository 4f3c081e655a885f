package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/test/testkit"
)

// serverVar makes this test binary a server instead of a test.
const serverVar = "COMB_ENGINE_TEST_SERVER"

func TestMain(m *testing.M) {
	dir := os.Getenv(serverVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serve(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// instant is an executor whose tasks are over at once.
type instant struct{ live *engine.LiveInputs }

func (x instant) Do(a model.Action) {
	if a.Start == nil {
		return
	}
	for _, t := range a.Start.Tasks {
		if !a.Known {
			x.live.Tell(model.TaskStarted{Attempt: a.Attempt, Task: t.Task, Host: "h"})
		}
		x.live.Tell(model.TaskExited{Attempt: a.Attempt, Task: t.Task, Exit: model.Exit{Code: int32(a.Attempt.Job % 2)}})
	}
}

// durable is an engine on a real store with the wall clock.
type durable struct {
	store  *store.Store
	live   *engine.LiveInputs
	engine *engine.Engine
	end    func() error
}

func openDurable(dir string, every uint64) (*durable, error) {
	return openWith(dir, every, func(live *engine.LiveInputs) engine.Executor { return instant{live} })
}

func openWith(dir string, every uint64, runs func(*engine.LiveInputs) engine.Executor) (*durable, error) {
	s, err := store.Open(ctx, dir, store.Options{Now: clock()})
	if err != nil {
		return nil, err
	}
	d := &durable{store: s, live: engine.NewLiveInputs(clock)}
	d.engine, err = engine.Open(ctx, engine.Options{Inputs: d.live, Executor: runs(d.live), Journal: s,
		Policies: policy.New, Epoch: s.Epoch(), SnapshotEvery: every})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.engine.Run(running) }()
	d.end = func() error {
		cancel()
		return errors.Join(<-done, s.Close())
	}
	return d, nil
}

func (d *durable) configure() error {
	r := d.live.Do(ctx, model.Reconfigure{Meta: model.Meta{Subject: "system", Key: "first"}, Config: config(4)}, nil)
	if r.Refusal != nil {
		return r.Refusal
	}
	return r.Err
}

// serve submits from many goroutines and prints what was acknowledged.
func serve(dir string) error {
	d, err := openDurable(dir, 500)
	if err != nil {
		return err
	}
	if err := d.configure(); err != nil {
		return err
	}
	fmt.Println("open")
	var mu sync.Mutex
	for p := range 16 {
		go func() {
			for n := 0; ; n++ {
				j := job(fmt.Sprintf("p%d-%d-%d", os.Getpid(), p, n), "b", 1, 0)
				r := d.live.Do(ctx, submit(j), map[string]string{"k": string(j.Name)})
				mu.Lock()
				if r.Err == nil && r.Refusal == nil {
					fmt.Println("acked", r.Answer.Job, j.Name)
				} else {
					fmt.Println("failed", r.Err, r.Refusal)
				}
				mu.Unlock()
			}
		}()
	}
	select {}
}

// TestKilledServerLosesNothing kills a server under load again and again. Every
// acknowledged job exists exactly once, and the journal verifies.
func TestKilledServerLosesNothing(t *testing.T) {
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("COMB_KILL_LOOPS")); err == nil {
		kills = n
	}
	dir := filepath.Join(t.TempDir(), "data")
	random := rand.New(rand.NewPCG(3, 4))
	acked := map[model.JobID]model.JobName{}
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverVar+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "open" {
			t.Fatalf("the server says %q", lines.Text())
		}
		time.AfterFunc(time.Duration(50+random.IntN(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		collect(t, lines, acked)
		_ = cmd.Wait()
	}
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	d, err := openDurable(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitIdle(t, d, 0)
	for id, name := range acked {
		j, ok, err := d.store.Job(ctx, id)
		if err != nil || !ok || j.Name != name || !j.Phase.Ended() {
			t.Errorf("job %d (%s) was acknowledged: %v %v %+v", id, name, ok, err, j)
		}
		if values, err := d.store.Secrets(ctx, id); err != nil || values != nil {
			t.Errorf("job %d has ended; its secrets: %v %v", id, values, err)
		}
	}
	report := sound(t, d.store, policy.New, d.engine.Replica())
	if err := d.end(); err != nil {
		t.Error(err)
	}
	t.Logf("%d kills, %d acknowledged jobs, %+v", kills, len(acked), report)
}

func collect(t *testing.T, lines *bufio.Scanner, acked map[model.JobID]model.JobName) {
	t.Helper()
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) > 0 && f[0] == "failed" {
			t.Errorf("the server says %q", lines.Text())
		}
		if len(f) != 3 || f[0] != "acked" {
			continue // cut off
		}
		id, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := acked[model.JobID(id)]; ok {
			t.Errorf("job %d is %s and %s", id, other, f[2])
		}
		acked[model.JobID(id)] = model.JobName(f[2])
	}
}

// waitIdle waits until, at event seq or later, no job is left.
func waitIdle(t testing.TB, d *durable, seq uint64) {
	t.Helper()
	left := -1
	testkit.WaitFor(t, func() string { return fmt.Sprintf("all jobs end; %d are left", left) }, func() bool {
		if err := d.engine.Replica().Read(ctx, seq, func(s *core.State) { left = len(s.Jobs()) }); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}

// TestRestartFromStore ends a server in good order and begins it again.
func TestRestartFromStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	digest := ""
	for life := range 3 {
		d, err := openDurable(dir, 50)
		if err != nil {
			t.Fatal(err)
		}
		if life > 0 {
			if err := d.engine.Replica().Read(ctx, 0, func(s *core.State) {
				if s.Digest() != digest {
					t.Error("the state is another after the restart")
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.configure(); err != nil {
			t.Fatal(err)
		}
		seq := uint64(0)
		for i := range 50 {
			r := d.live.Do(ctx, submit(job(fmt.Sprint("job", i), "b", 2, 0)), nil)
			if r.Err != nil || r.Refusal != nil {
				t.Fatalf("%+v", r)
			}
			seq = r.Seq
		}
		waitIdle(t, d, seq)
		report := sound(t, d.store, policy.New, nil)
		digest = report.Digest
		if err := d.end(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(ctx, dir, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if report := sound(t, s, policy.New, nil); report.Snapshots == 0 || report.Digest != digest {
		t.Errorf("%+v", report)
	}
	events, err := s.JobEvents(ctx, 1, 0, 0)
	if err != nil || len(events) < 5 {
		t.Fatalf("%d events of job 1, %v", len(events), err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, string(model.KindOf(e.Event)))
	}
	if kinds[0] != "JobSubmitted" || !slices.Contains(kinds, "Placed") || kinds[len(kinds)-1] != "JobEnded" {
		t.Errorf("events of job 1: %v", kinds)
	}
}

// asked is an executor whose tasks run on. It says when it is asked for something, and waits then.
type asked struct{ comes, goes chan struct{} }

func (x asked) Do(model.Action) {
	x.comes <- struct{}{}
	<-x.goes
}

// TestTakenUp: what is a stray is said no sooner than the executor knows of all that was live.
func TestTakenUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for life := range 2 {
		x := asked{make(chan struct{}), make(chan struct{})}
		d, err := openWith(dir, 50, func(*engine.LiveInputs) engine.Executor { return x })
		if err != nil {
			t.Fatal(err)
		}
		if life == 0 {
			if err := d.configure(); err != nil {
				t.Fatal(err)
			}
			<-d.engine.TakenUp() // there was nothing
			for i := range 2 {
				go d.live.Do(ctx, submit(job(fmt.Sprint("job", i), "b", 1, 0)), nil)
				<-x.comes
				x.goes <- struct{}{}
			}
		} else {
			for range 2 {
				<-x.comes
				select {
				case <-d.engine.TakenUp():
					t.Error("all is taken up while the executor is still told of something")
				default:
				}
				x.goes <- struct{}{}
			}
			<-d.engine.TakenUp()
		}
		if err := d.end(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkSubmit prints durable submissions per second from 64 producers, and
// how long one waits for its answer.
func BenchmarkSubmit(b *testing.B) {
	d, err := openDurable(filepath.Join(b.TempDir(), "data"), 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := d.configure(); err != nil {
		b.Fatal(err)
	}
	took := submitAll(b, d, 64, b.N)
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submissions/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	if err := d.end(); err != nil {
		b.Error(err)
	}
}

// submitAll submits n jobs from several producers and returns how long each took.
func submitAll(b *testing.B, d *durable, producers, n int) []time.Duration {
	took := make([]time.Duration, n)
	var all sync.WaitGroup
	b.ResetTimer()
	for p := range producers {
		all.Go(func() {
			for i := p; i < n; i += producers {
				begin := time.Now()
				j := job(fmt.Sprint("job", i), "b", 1, 0)
				j.Source = strings.Repeat("source ", 150)
				if r := d.live.Do(ctx, submit(j), nil); r.Err != nil || r.Refusal != nil {
					b.Errorf("%+v", r)
					return
				}
				took[i] = time.Since(begin)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	return took
}

// BenchmarkRecover prints how long a start takes on a journal of 100,000 accepted
// jobs: from the log alone, and from a snapshot.
func BenchmarkRecover(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	s, err := store.Open(ctx, dir, store.Options{Now: clock()})
	if err != nil {
		b.Fatal(err)
	}
	if err := journalJobs(s, 100_000); err != nil {
		b.Fatal(err)
	}
	recoverOnce := func(b *testing.B) {
		for b.Loop() {
			if err := errors.Join(s.Close(), reopen(b, dir, &s)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("log", recoverOnce)
	e, err := engine.Open(ctx, engine.Options{Journal: s, Policies: policy.New})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Replica().Read(ctx, 0, func(state *core.State) {
		err = s.SaveSnapshot(ctx, state.Seq(), state.Save())
	}); err != nil {
		b.Fatal(err)
	}
	b.Run("snapshot", recoverOnce)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// reopen opens the store anew and recovers an engine from it.
func reopen(b *testing.B, dir string, to **store.Store) error {
	s, err := store.Open(ctx, dir, store.Options{Now: clock()})
	if err != nil {
		return err
	}
	*to = s
	opened := b.Elapsed()
	e, err := engine.Open(ctx, engine.Options{Journal: s, Policies: policy.New, Epoch: s.Epoch()})
	if err != nil {
		return err
	}
	b.ReportMetric((b.Elapsed()-opened).Seconds()*1000, "ms-fold")
	return e.Replica().Read(ctx, 0, func(state *core.State) { b.ReportMetric(float64(state.Seq()), "events") })
}

// journalJobs accepts n jobs in rounds of 1,000, without deciding anything.
func journalJobs(s *store.Store, n int) error {
	state := core.New(policy.New)
	now := clock()
	give := func(commands ...model.Command) error {
		b := engine.Batch{First: state.Seq() + 1, Epoch: s.Epoch()}
		for _, c := range commands {
			events, _, refusal := state.Check(c, now)
			if refusal != nil {
				return refusal
			}
			for _, e := range events {
				r := model.Record{Seq: state.Seq() + 1, Time: now, Event: e}
				state.Apply(r)
				b.Records = append(b.Records, r)
			}
		}
		return s.Append(ctx, b)
	}
	if err := give(model.Reconfigure{Config: config(4)}); err != nil {
		return err
	}
	for i := 0; i < n; i += 1000 {
		var commands []model.Command
		for k := range 1000 {
			j := job(fmt.Sprint("job", i+k), "b", 1, 0)
			j.Source = strings.Repeat("source ", 150)
			commands = append(commands, submit(j))
		}
		if err := give(commands...); err != nil {
			return err
		}
	}
	return nil
}
