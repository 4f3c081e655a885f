package kubescale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/podinit"
	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/testkit"
)

var (
	tasks = flag.Int("tasks", 64, "tasks that print")
	away  = flag.Duration("away", time.Second, "for how long no server is there")
	cpu   = flag.String("cpu", "", "write a profile of the server's processor time while logs come to this file")
	keeps = flag.Int("keep", 512<<10, "what a pod keeps meanwhile, in bytes")
)

// lineBytes is how long each line is. So the byte at each place of what a task prints is known.
const lineBytes = 256

// printer is a task, and its process 1.
type printer struct {
	pod
	n       int
	in, out *os.File // of the pipe
	printed atomic.Int64
	finish  func()
}

// lines are those of a task from one on: each says whose and which one it is.
func (p *printer) lines(first, number int64) []byte {
	text := bytes.Repeat([]byte{'.'}, int(number*lineBytes))
	for i := range number {
		line := text[i*lineBytes : (i+1)*lineBytes]
		copy(line, strconv.Itoa(p.n))
		copy(line[lineBytes/2:], strconv.FormatInt(first+i, 10))
		line[lineBytes-1] = '\n'
	}
	return text
}

// prints prints so many lines more.
func (p *printer) prints(number int64) error {
	n, err := p.out.Write(p.lines(p.printed.Load()/lineBytes, number))
	p.printed.Add(int64(n))
	return err
}

// missing matches what the log says in place of bytes that did not come.
var missing = regexp.MustCompile(`\[comb: (\d+) bytes are missing here, printed up to [^\n]*\]\n`)

// check holds a log against what was printed, and returns how much is said to be missing. All of
// it is there once and in order, and what is said to be missing is as much as is missing.
func (p *printer) check(log []byte) (lost int64, err error) {
	all, at, from := p.lines(0, p.printed.Load()/lineBytes), int64(0), 0
	part := func(text []byte) {
		if want := all[at:min(at+int64(len(text)), int64(len(all)))]; err == nil && !bytes.Equal(text, want) {
			err = fmt.Errorf("what stands behind byte %d of what it printed is not that, or comes twice", at)
		}
		at = min(at+int64(len(text)), int64(len(all)))
	}
	for _, m := range missing.FindAllSubmatchIndex(log, -1) {
		text := log[from:m[0]]
		if n := len(text); n > 0 && at+int64(n) <= int64(len(all)) && text[n-1] == '\n' && all[at+int64(n)-1] != '\n' {
			text = text[:n-1] // so that what says it is a line
		}
		part(text)
		gone, _ := strconv.ParseInt(string(log[m[2]:m[3]]), 10, 64)
		if lost, at, from = lost+gone, at+gone, m[1]; at > int64(len(all)) {
			return lost, fmt.Errorf("%d bytes are said to be missing, and less was printed", gone)
		}
	}
	rest := log[from:]
	if part(rest); err == nil && at != int64(len(all)) {
		err = fmt.Errorf("the log ends at byte %d of %d", at, len(all))
	}
	return lost, err
}

// kept is how much of what a task printed the server has, by the mark beside its log.
func (c *cluster) kept(p *printer) int64 {
	names, _ := filepath.Glob(filepath.Join(c.server.Data, "jobs", fmt.Sprint(int64(p.job)), "*", "0", "stdout.mark"))
	if len(names) != 1 {
		return 0
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		return 0
	}
	var mark struct{ Sent int64 }
	_ = json.Unmarshal(bytes.TrimRight(text, "\x00 \n"), &mark) // it may be in the midst of a write
	return mark.Sent
}

// probes are how long other requests of pods took while logs came.
type probes struct {
	mu    sync.Mutex
	took  map[string][]time.Duration
	wrong map[string]int // what the server said instead, but for what is asked too soon
	lost  int            // without an answer: all connections are of one address, which has a bound
}

// ask asks once, and notes how long it took.
func (s *probes) ask(what string, ask func() error) {
	began := time.Now()
	err := ask()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.took[what] = append(s.took[what], time.Since(began))
	case !link.Answered(err):
		s.lost++
	case !errors.Is(err, link.ErrSoon):
		s.wrong[what+": "+err.Error()]++
	}
}

// probe lets a pod ask for all else that pods ask for, until ctx is done.
func (s *probes) probe(ctx context.Context, c *link.Client) {
	for ctx.Err() == nil {
		s.ask("turn", func() error { _, err := c.Turn(ctx, link.TurnReport{}); return err })
		s.ask("members", func() error { _, _, err := c.Members(ctx, 0); return err })
		s.ask("usage", func() error { return c.Take(ctx, link.Usage{CPU: 1}) })
		s.ask("progress", func() error { return c.Tell(ctx, []byte(`{"step": 1, "total": 2}`+"\n")) })
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // as often as a pod may
		}
	}
}

// Thousands of tasks print while no server is there, and print on when it comes back. All that
// their pods kept comes once and in order, the log says how much did not, a server that is killed
// meanwhile goes on, what else pods ask for is answered, and the server's memory stays bounded.
func TestTasksPrintWhileNoServerIsThere(t *testing.T) {
	figures := lab.Figures{Out: io.Discard}
	if testing.Verbose() {
		figures.Out = os.Stdout
	}
	at := []string{"tasks", fmt.Sprint(*tasks)}
	c := newCluster(t, (*tasks+gpus-1)/gpus)
	pods := c.run(0, *tasks, 1)
	alone := c.heap()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pin, all := c.pin(), make([]*printer, len(pods))
	for i, one := range pods {
		p := &printer{pod: one, n: i}
		if p.in, p.out, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		defer p.in.Close()
		defer p.out.Close()
		p.finish = podinit.SendPrinted(t.Context(), c.dial(one, pin), *keeps, p.in, null)
		if err := p.prints(10); err != nil {
			t.Fatal(err)
		}
		all[i] = p
	}
	behind := func() (left int64) {
		for _, p := range all {
			left += p.printed.Load() - c.kept(p)
		}
		return left
	}
	var left int64
	come := func(what string, enough int64) {
		t.Helper()
		if !testkit.Within(testkit.Patience+*away, func() bool { left = behind(); return left <= enough }) {
			t.Fatalf("%s: %d bytes have not come", what, left)
		}
	}
	come("at first", 0)
	kib, err := lab.Resident(c.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	figures.Print("heap_of_a_connection", float64(c.heap()-alone)/float64(*tasks), "bytes", at...)
	figures.Print("resident_with_all_connected", float64(kib)/1024, "MiB", at...)

	c.server.Kill()
	shares := []int64{int64(*keeps) / 8, int64(*keeps) / 2, int64(*keeps) * 3 / 2, int64(*keeps) * 3}
	const steps = 20
	for range steps { // an hour of printing in a short time
		for i, p := range all {
			if err := p.prints(shares[i%len(shares)] / steps / lineBytes); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(*away / steps) // so that senders try, and try less and less often
	}
	var printed int64
	for _, p := range all {
		printed += p.printed.Load()
	}

	c.start()
	began, end := time.Now(), make(chan struct{})
	var going sync.WaitGroup
	going.Go(func() { // they print on meanwhile
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Second):
			}
			for _, p := range all {
				if err := p.prints(2); err != nil {
					t.Error(err)
				}
			}
		}
	})
	asking := &probes{took: map[string][]time.Duration{}, wrong: map[string]int{}}
	asks := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range min(20, len(pods)) {
			group.Go(func() { asking.probe(ctx, c.dial(pods[i], pin)) })
		}
		return func() { cancel(); group.Wait() }
	}
	stop := asks()
	if *cpu != "" {
		go func() {
			text, err := c.profile("profile?seconds=5")
			if err == nil {
				err = os.WriteFile(*cpu, text, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	come("before the server is killed once more", behind()/2)
	down := time.Now()
	c.api.Kubelet("n0", false)
	testkit.Wait(t, "a node whose kubelet stops is told to be down", func() bool {
		n, err := c.client.Node(t.Context(), "n0")
		return err == nil && !n.Up
	})
	figures.Print("node_told_down", time.Since(down).Seconds(), "s", at...)
	c.api.Kubelet("n0", true)
	stop()
	if len(asking.took) < 4 || len(asking.wrong) > 0 {
		t.Errorf("meanwhile %d kinds of other requests of pods are answered, and wrongly: %v", len(asking.took), asking.wrong)
	}
	figures.Print("asked_in_vain", float64(asking.lost), "", at...)
	first := usageOf(t, c.server.PID())
	c.server.Kill()
	c.start()
	// Each prints something all the time, so what is behind never gets to nothing.
	come("after the second server came", int64(*tasks)*4*lineBytes)
	took := time.Since(began)
	second := usageOf(t, c.server.PID())
	close(end)
	going.Wait()
	come("in the end", 0)
	for _, p := range all {
		going.Go(p.finish)
	}
	going.Wait()

	var lost, kept int64
	for i, p := range all {
		var log bytes.Buffer
		_, err := c.client.Logs(t.Context(), rest.LogQuery{Job: rest.JobRef(p.job), Role: "worker"}, &log)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := p.check(log.Bytes())
		if err != nil {
			t.Errorf("task %d: %v", i, err)
		}
		share := shares[i%len(shares)]
		if most := max(0, share-int64(*keeps)+link.LongestLog+10*lineBytes); gone > most || share < int64(*keeps) && gone > 0 {
			t.Errorf("task %d printed %d bytes while no server was there, and %d are missing, more than %d", i, share, gone, most)
		}
		lost, kept = lost+gone, kept+p.printed.Load()-gone
	}
	if lost == 0 {
		t.Error("nothing was printed beyond what pods keep")
	}
	mb := float64(kept) / 1e6
	figures.Print("printed_while_away", float64(printed)/1e6, "MB", at...)
	figures.Print("kept_by_the_pods", mb, "MB", at...)
	figures.Print("catches_up", took.Seconds(), "s", at...)
	figures.Print("cpu_of_a_megabyte", (first.cpu+second.cpu).Seconds()*1000/mb, "ms", at...)
	for i, u := range []used{first, second} {
		figures.Print("most_resident", float64(u.kib)/1024, "MiB", append(at, "server", fmt.Sprint(i+1))...)
	}
	for what, took := range asking.took {
		figures.Quantiles("asked_meanwhile", slices.Clone(took), append(at, "what", what)...)
	}
}

// used is what a process has used.
type used struct {
	cpu time.Duration
	kib int // the most that was resident
}

func usageOf(t *testing.T, pid int) (u used) {
	t.Helper()
	var err error
	if u.cpu, err = lab.CPUTime(pid); err == nil {
		u.kib, err = lab.MostResident(pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}
