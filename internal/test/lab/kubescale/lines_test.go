package kubescale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
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

// crowd are tasks that print, and their server.
type crowd struct {
	*cluster
	pin     string
	all     []*printer
	figures lab.Figures
	at      []string // labels of figures
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	w := &crowd{cluster: newCluster(t, (*tasks+gpus-1)/gpus), figures: lab.Figures{Out: io.Discard},
		at: []string{"tasks", fmt.Sprint(*tasks)}}
	if testing.Verbose() {
		w.figures.Out = os.Stdout
	}
	pods := w.run(0, *tasks, 1)
	alone := w.heap()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	w.pin = w.cluster.pin()
	for i, one := range pods {
		p := &printer{pod: one, n: i}
		if p.in, p.out, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.in.Close(); p.out.Close() })
		p.finish = podinit.SendPrinted(t.Context(), w.dial(one, w.pin), *keeps, p.in, null)
		w.all = append(w.all, p)
	}
	w.print(10)
	w.come("at first", 0)
	w.figures.Print("heap_of_a_connection", float64(w.heap()-alone)/float64(*tasks), "bytes", w.at...)
	return w
}

// print lets each task print so many lines.
func (w *crowd) print(lines int64) {
	for _, p := range w.all {
		if err := p.prints(lines); err != nil {
			w.t.Error(err)
		}
	}
}

// share is how much a task prints while no server is there: a fourth of the tasks a little, a
// fourth half of what is kept, and the others more than that.
func (p *printer) share() int64 {
	keep := int64(*keeps)
	return []int64{keep / 8, keep / 2, keep * 3 / 2, keep * 3}[p.n%4]
}

// printAway lets the tasks print what they do in an hour, in a short time. It returns how much all
// have printed by then.
func (w *crowd) printAway() (printed int64) {
	const steps = 20
	for range steps {
		for _, p := range w.all {
			if err := p.prints(p.share() / steps / lineBytes); err != nil {
				w.t.Fatal(err)
			}
		}
		time.Sleep(*away / steps) // so that senders try, and try less and less often
	}
	for _, p := range w.all {
		printed += p.printed.Load()
	}
	return printed
}

// printOn lets the tasks print a little until stop is called.
func (w *crowd) printOn() (stop func()) {
	end := make(chan struct{})
	var going sync.WaitGroup
	going.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Second):
				w.print(2)
			}
		}
	})
	return func() { close(end); going.Wait() }
}

// behind is how much the server has not yet.
func (w *crowd) behind() (left int64) {
	for _, p := range w.all {
		left += p.printed.Load() - w.kept(p)
	}
	return left
}

// come waits until the server has all but so much.
func (w *crowd) come(what string, enough int64) {
	w.t.Helper()
	var left int64
	if !testkit.Within(testkit.Patience+*away, func() bool { left = w.behind(); return left <= enough }) {
		w.t.Fatalf("%s: %d bytes have not come", what, left)
	}
}

// probed lets some pods ask for all else until stop is called.
func (w *crowd) probed() (asked *probes, stop func()) {
	asked = &probes{took: map[string][]time.Duration{}, wrong: map[string]int{}}
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	for _, p := range w.all[:min(20, len(w.all))] {
		group.Go(func() { asked.probe(ctx, w.dial(p.pod, w.pin)) })
	}
	return asked, func() {
		cancel()
		group.Wait()
		if len(asked.took) < 4 || len(asked.wrong) > 0 {
			w.t.Errorf("meanwhile %d kinds of other requests of pods are answered, and wrongly: %v",
				len(asked.took), asked.wrong)
		}
	}
}

// nodeDown stops a kubelet, and waits until that is told.
func (w *crowd) nodeDown() {
	w.t.Helper()
	began := time.Now()
	w.api.Kubelet("n0", false)
	testkit.Wait(w.t, "a node whose kubelet stops is told to be down", func() bool {
		n, err := w.client.Node(w.t.Context(), "n0")
		return err == nil && !n.Up
	})
	w.figures.Print("node_told_down", time.Since(began).Seconds(), "s", w.at...)
	w.api.Kubelet("n0", true)
}

// checkLogs looks at the log of each task, and returns how much of what was printed is there.
func (w *crowd) checkLogs() (kept int64) {
	w.t.Helper()
	lost := int64(0)
	for _, p := range w.all {
		var log bytes.Buffer
		_, err := w.client.Logs(w.t.Context(), rest.LogQuery{Job: rest.JobRef(p.job), Role: "worker"}, &log)
		if err != nil {
			w.t.Fatal(err)
		}
		gone, err := p.check(log.Bytes())
		if err != nil {
			w.t.Errorf("task %d: %v", p.n, err)
		}
		most := max(0, p.share()-int64(*keeps)+link.LongestLog+10*lineBytes)
		if gone > most || p.share() < int64(*keeps) && gone > 0 {
			w.t.Errorf("task %d printed %d bytes while no server was there, and %d are missing, more than %d", p.n,
				p.share(), gone, most)
		}
		lost, kept = lost+gone, kept+p.printed.Load()-gone
	}
	if lost == 0 {
		w.t.Error("nothing was printed beyond what pods keep")
	}
	return kept
}

// Thousands of tasks print while no server is there, and print on when it comes back. All that
// their pods kept comes once and in order, the log says how much did not, a server that is killed
// meanwhile goes on, what else pods ask for is answered, and the server's memory stays bounded.
func TestTasksPrintWhileNoServerIsThere(t *testing.T) {
	w := newCrowd(t)
	before := usageOf(t, w.server.PID())
	w.server.Kill()
	printed := w.printAway()

	w.start()
	began, stopPrinting := time.Now(), w.printOn()
	asked, stopAsking := w.probed()
	if *cpu != "" {
		go w.keepProfile("profile?seconds=5", *cpu)
	}
	w.come("before the server is killed once more", w.behind()/2)
	w.nodeDown()
	stopAsking()
	first := usageOf(t, w.server.PID())
	w.server.Kill()
	w.start()
	w.come("after the second server came", int64(*tasks)*4*lineBytes) // they print on: it is never nothing
	took, second := time.Since(began), usageOf(t, w.server.PID())
	stopPrinting()
	w.come("in the end", 0)
	var ending sync.WaitGroup
	for _, p := range w.all {
		ending.Go(p.finish)
	}
	ending.Wait()
	kept := w.checkLogs()
	if most := 2*before.kib + 200<<10; max(first.kib, second.kib) > most {
		t.Errorf("the server takes up to %d and %d KiB while it catches up, more than %d", first.kib, second.kib, most)
	}

	mb, f := float64(kept)/1e6, w.figures
	f.Print("printed_while_away", float64(printed)/1e6, "MB", w.at...)
	f.Print("kept_by_the_pods", mb, "MB", w.at...)
	f.Print("catches_up", took.Seconds(), "s", w.at...)
	f.Print("cpu_of_a_megabyte", (first.cpu+second.cpu).Seconds()*1000/mb, "ms", w.at...)
	for i, u := range []used{before, first, second} {
		f.Print("most_resident", float64(u.kib)/1024, "MiB", append(w.at, "server", fmt.Sprint(i))...)
	}
	f.Print("asked_in_vain", float64(asked.lost), "", w.at...)
	for _, what := range slices.Sorted(maps.Keys(asked.took)) {
		f.Quantiles("asked_meanwhile", asked.took[what], append(w.at, "what", what)...)
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
