package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
)

const (
	benchClients  = 64
	benchHolder   = "holder"
	benchTime     = 10 * time.Second
	benchSome     = 10_000 // jobs that wait when it is first asked why, and submissions are measured
	benchDeep     = 60_000 // jobs that wait when submissions are measured again
	benchStarts   = 100    // submissions whose first instruction is waited for
	idleTime      = 10 * time.Second
	stuckStreams  = 250 // event streams that nobody reads
	stuckTime     = 15 * time.Second
	ticksPerSec   = 100 // of /proc/PID/stat, fixed on Linux
	benchJobLines = `protocolVersion: 2
name: %s
type: job
taskRoles:
  worker:
    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 64}
    commands: [%q]
`
)

// Bench measures on a fresh server and prints one line a figure: name{labels}
// value unit. It asserts nothing: figures are compared, not tested.
func Bench(ctx context.Context, o Options) (err error) {
	o.Evidence, err = os.MkdirTemp("", "comb-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(o.Evidence)
	out := o.Out
	o.Out, o.trust = io.Discard, true
	l, err := open(ctx, o, "two-vcs.yaml")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.watch.end() // what watches would be measured too
	b := &bench{lab: l, Figures: Figures{out}, client: l.watch.client}
	for _, step := range []func(context.Context) error{b.idle, b.starts, b.submissions, b.crowded, b.recovery, b.asks, b.stuck, b.release} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w; the server said:\n%s", err, l.server.tail(0))
		}
	}
	return nil
}

type bench struct {
	lab *Lab
	Figures
	client *rest.Client
	sent   atomic.Int64
}

// idle measures what a server costs that has nothing to do.
func (b *bench) idle(ctx context.Context) error {
	pid := b.lab.server.PID()
	before, err := CPUTime(pid)
	if err != nil {
		return err
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	after, err := CPUTime(pid)
	if err != nil {
		return err
	}
	b.Print("comb_idle_cpu", 100*(after-before).Seconds()/idleTime.Seconds(), "percent_of_a_core", "server", "fresh")
	return b.memory("fresh")
}

func (b *bench) memory(label string) error {
	mib, err := b.resident()
	if err == nil {
		b.Print("comb_resident_memory", mib, "MiB", "server", label)
	}
	return err
}

// resident is the server's memory in MiB.
func (b *bench) resident() (float64, error) {
	kib, err := Resident(b.lab.server.PID())
	return float64(kib) / 1024, err
}

// CPUTime is the time that a process has spent on processors.
func CPUTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("cannot read the processor time in %q", text)
	}
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / ticksPerSec, errors.Join(err1, err2)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// starts measures from the submission to the task's first instruction, which
// writes into a pipe, on a server that is otherwise idle.
func (b *bench) starts(ctx context.Context) error {
	pipe := filepath.Join(b.lab.dir, "first-instruction")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return err
	}
	r, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	var all []time.Duration
	for i := range benchStarts {
		source := fmt.Sprintf(benchJobLines, fmt.Sprintf("start-%d", i), "echo > "+pipe)
		began := time.Now()
		s, err := b.client.Submit(ctx, rest.SubmitRequest{Source: source}, "")
		if err != nil {
			return err
		}
		if _, err := r.Read(make([]byte, 1)); err != nil {
			return err
		}
		all = append(all, time.Since(began))
		if err := b.untilEnded(ctx, rest.JobRef(s.ID)); err != nil {
			return err
		}
	}
	b.Quantiles("comb_submission_to_first_instruction", all)
	return nil
}

func (b *bench) untilEnded(ctx context.Context, ref string) error {
	for {
		j, err := b.client.Job(ctx, ref)
		if err != nil || j.Phase.Ended() {
			return err
		}
		if err := sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// submissions measures durable submissions by many clients at once, where some wait already, and
// how long it takes to say why. One job holds the GPU that they want: the others wait, and no task
// takes the processors away.
func (b *bench) submissions(ctx context.Context) error {
	if _, err := b.client.Submit(ctx, rest.SubmitRequest{Source: fmt.Sprintf(benchJobLines, benchHolder, "sleep 1000000")}, ""); err != nil {
		return err
	}
	if err := b.flood(ctx, func() bool { return b.sent.Load() >= benchSome }, func(time.Duration) {}); err != nil {
		return err
	}
	if err := b.explains(ctx); err != nil {
		return err
	}
	if err := b.submitting(ctx, benchSome); err != nil {
		return err
	}
	return b.explains(ctx)
}

// crowded measures the same where many jobs wait already.
func (b *bench) crowded(ctx context.Context) error {
	if b.lab.opts.Jobs < benchDeep {
		return nil // as many would not wait: -jobs says how many the run may make
	}
	if err := b.flood(ctx, func() bool { return b.sent.Load() >= benchDeep }, func(time.Duration) {}); err != nil {
		return err
	}
	return b.submitting(ctx, benchDeep)
}

func (b *bench) submitting(ctx context.Context, waiting int) error {
	var mu sync.Mutex
	var all []time.Duration
	began := time.Now()
	err := b.flood(ctx, func() bool { return time.Since(began) > benchTime }, func(d time.Duration) {
		mu.Lock()
		all = append(all, d)
		mu.Unlock()
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	labels := []string{"clients", strconv.Itoa(benchClients), "waiting", strconv.Itoa(waiting)}
	b.Print("comb_durable_submissions", float64(len(all))/took.Seconds(), "1/s", labels...)
	b.Quantiles("comb_durable_submission", all, labels...)
	return nil
}

// flood submits with many clients until enough is true.
func (b *bench) flood(ctx context.Context, enough func() bool, took func(time.Duration)) error {
	errs := make([]error, benchClients)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			client, err := b.lab.server.Client()
			for err == nil && ctx.Err() == nil && !enough() {
				source := fmt.Sprintf(benchJobLines, fmt.Sprintf("flood-%d", b.sent.Add(1)), "true")
				began := time.Now()
				_, err = client.Submit(ctx, rest.SubmitRequest{Source: source}, "")
				took(time.Since(began))
			}
			errs[i] = err
		})
	}
	group.Wait()
	for _, err := range append(errs, ctx.Err()) {
		if err != nil {
			return err // the others say the same
		}
	}
	return nil
}

// recovery journals many jobs, kills the server and measures until
// the next one answers with all of them.
func (b *bench) recovery(ctx context.Context) error {
	began, had := time.Now(), b.sent.Load()
	err := b.flood(ctx, func() bool { return b.sent.Load() >= int64(b.lab.opts.Jobs) }, func(time.Duration) {})
	if err != nil {
		return err
	}
	if n := b.sent.Load() - had; n > 0 {
		b.Print("comb_durable_submissions", float64(n)/time.Since(began).Seconds(), "1/s",
			"clients", strconv.Itoa(benchClients), "up_to", strconv.Itoa(b.lab.opts.Jobs))
	}
	if err := b.memory(fmt.Sprintf("%d waiting jobs", b.sent.Load())); err != nil {
		return err
	}
	info, err := b.client.Info(ctx)
	if err != nil {
		return err
	}
	b.lab.server.Kill()
	restarted := time.Now()
	if err := b.lab.server.Start(ctx); err != nil {
		return err
	}
	if b.client, err = b.lab.server.Client(); err != nil {
		return err
	}
	now, err := b.client.Info(ctx)
	if err != nil {
		return err
	}
	b.Print("comb_recovery", time.Since(restarted).Seconds(), "s", "jobs", strconv.FormatInt(b.sent.Load(), 10))
	if now.Seq < info.Seq {
		return fmt.Errorf("the server came back with %d events of %d", now.Seq, info.Seq)
	}
	return b.memory("after recovery")
}

// release stops the job for which the others wait; they go on waiting, for nodes.
func (b *bench) release(ctx context.Context) error {
	for _, n := range []cell.NodeName{"node-a", "node-b"} {
		if _, err := b.client.Cordon(ctx, n, "bench"); err != nil {
			return err
		}
	}
	if _, err := b.client.Stop(ctx, benchHolder, ""); err != nil {
		return err
	}
	return b.untilEnded(ctx, benchHolder)
}

// stuck opens streams of all events from the beginning and reads nothing of them: what they
// add to the server's memory at most.
func (b *bench) stuck(ctx context.Context) error {
	before, err := b.resident()
	if err != nil {
		return err
	}
	token, err := os.ReadFile(b.lab.server.tokenFile())
	if err != nil {
		return err
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	address := strings.TrimPrefix(b.lab.server.URL, "http://")
	for range stuckStreams {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		conns = append(conns, c)
		_, err = fmt.Fprintf(c, "GET %s/events?follow=true&after=0 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
			rest.Prefix, address, strings.TrimSpace(string(token)))
		if err != nil {
			return err
		}
	}
	most := before
	for end := time.Now().Add(stuckTime); time.Now().Before(end); {
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		mib, err := b.resident()
		if err != nil {
			return err
		}
		most = max(most, mib)
	}
	b.Print("comb_stuck_streams_memory", most-before, "MiB", "streams", strconv.Itoa(stuckStreams))
	return nil
}
