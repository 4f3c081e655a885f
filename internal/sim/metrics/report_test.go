package metrics_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
)

var (
	rewrite = flag.Bool("rewrite", false, "writes the golden files anew")
	sample  = flag.String("sample", "", "an existing folder into which a large sample report is written, to look at")
)

// folder folds batches into an output folder.
func folder(t *testing.T, dir string, o metrics.Options, batches [][]model.Record) *metrics.Result {
	t.Helper()
	out, err := os.Create(filepath.Join(dir, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	w := metrics.NewJobsWriter(out, o.Origin)
	o.Ended = w.Write
	f := metrics.New(o)
	var at model.Time
	for _, b := range batches {
		f.Add(b)
		at = b[len(b)-1].Time
	}
	r, err := f.Finish(at)
	if err := errors.Join(err, w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	return r
}

// A small run of everything: what it writes is reviewed and kept.
func TestGoldenReport(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/small.txt")
	if err != nil {
		t.Fatal(err)
	}
	o := metrics.Options{Policy: "fifo", Origin: model.Time(1_000_000_000 * model.Second), Steps: 32}
	folder(t, dir, o, history(t, "", commandsOf(string(text))))
	for _, name := range []string{"summary.json", "jobs.csv", "timeline.csv", "report.html", "jobs.svg"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "small", name)
		if *rewrite {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from %s; look at it and run the test with -args -rewrite", name, golden)
		}
	}
}

// Every chart is well-formed XML on its own, with a title and a description.
func TestChartsAreWellFormed(t *testing.T) {
	dir := t.TempDir()
	folder(t, dir, metrics.Options{Policy: "x"}, hostile().batches())
	files, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(files) != 5 {
		t.Fatalf("charts %v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for d := xml.NewDecoder(bytes.NewReader(text)); ; {
			tok, err := d.Token()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := tok.(xml.StartElement); ok {
				seen[e.Name.Local]++
			}
		}
		if seen["desc"] != 1 || seen["title"] == 0 || seen["script"] > 0 || seen["image"] > 0 {
			t.Errorf("%s: %v", name, seen)
		}
	}
}

func (s *stream) batches() [][]model.Record { return [][]model.Record{s.records} }

// evil tries to leave every place in which a name may stand.
const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'&amp;]]>--> ` + "\x00\x1b\u202e\xff"

// hostile is a run whose names all are.
func hostile() *stream {
	s := newStream(2, 2, evil+":1", "b:1")
	names := func(j *model.Job) {
		j.Name, j.User, j.Hints.App, j.Hints.Model = evil, evil, evil, evil
	}
	s.submit(1, 1, evil, "1x2", names)
	s.place(1, attempt(1, 1), "0-1")
	s.end(5, attempt(1, 1), model.EndPreempted)
	s.add(5, model.TaskRetried{Job: 1})
	s.place(7, attempt(1, 2), "0-1")
	s.end(9, attempt(1, 2), model.EndFailed)
	s.add(9, model.JobEnded{Job: 1, Phase: model.Failed, Cause: model.EndFailed, Exit: model.Exit{Cause: evil}, Message: evil})
	s.submit(10, 2, "b", "1x1", names)
	return s
}

// unsafeIn looks for what a name may have smuggled into a page.
func unsafeIn(t *testing.T, page string) {
	t.Helper()
	for _, bad := range []string{"<script", "<img", "\x00", "\x1b", "\u202e", "\xff", "http://", "https://", "javascript:"} {
		if strings.Contains(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;") {
		t.Error("the page does not show the name at all")
	}
}

func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	folder(t, dir, metrics.Options{Policy: evil, Facts: func(model.JobID, *model.Job) metrics.Facts {
		return metrics.Facts{TraceID: evil}
	}}, hostile().batches())
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	unsafeIn(t, string(page))
	p, err := metrics.PhillyOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	var study, text bytes.Buffer
	if err := errors.Join(p.WriteHTML(&study), p.WriteText(&text)); err != nil {
		t.Fatal(err)
	}
	unsafeIn(t, study.String())
	if strings.ContainsAny(text.String(), "\x00\x1b\u202e") {
		t.Errorf("the text could command a terminal: %q", text.String())
	}
}

// TestSample writes a large report when it is asked to; and always checks that a
// page stays small however many jobs and VCs there are.
func TestSample(t *testing.T) {
	dir := *sample
	if dir == "" {
		dir = t.TempDir()
	}
	var dirs []string
	for i, name := range []string{"fifo", "first fit", "las"} {
		to := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.MkdirAll(to, 0o777); err != nil {
			t.Fatal(err)
		}
		folder(t, to, metrics.Options{Policy: name}, crowd(uint64(i)).batches())
		info, err := os.Stat(filepath.Join(to, "report.html"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 250_000 {
			t.Errorf("the report of %s has %d bytes", name, info.Size())
		}
		dirs = append(dirs, to)
	}
	c, err := metrics.Compare(dirs)
	if err != nil {
		t.Fatal(err)
	}
	p, err := metrics.PhillyOf(dirs[2])
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer) error{"compare.html": c.WriteHTML, "philly.html": p.WriteHTML, "compare.txt": c.WriteText, "philly.txt": p.WriteText} {
		var b bytes.Buffer
		if err := errors.Join(write(&b), os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

// crowd plays 3,000 jobs of 24 VCs on 16 nodes of 8 GPUs, each as soon as a node
// has room for it; by mode in another order.
func crowd(mode uint64) *stream {
	r := rand.New(rand.NewPCG(1, 1))
	vcs := make([]string, 24)
	for i := range vcs {
		vcs[i] = fmt.Sprintf("team-%02d:%d", i, (i+15)/24*(i%2))
	}
	s := newStream(16, 8, vcs...)
	var m machines
	at := 0.0
	for id := model.JobID(1); id <= 3000; id++ {
		at += r.ExpFloat64() * (60 + 50*float64(id/600%2))
		m.play(s, at, mode)
		size := []int32{1, 1, 1, 2, 4, 8}[r.IntN(6)]
		vc := fmt.Sprintf("team-%02d", min(int(r.ExpFloat64()*5), 23))
		s.submit(at, id, vc, fmt.Sprintf("1x%d", size), func(j *model.Job) {
			j.Priority = cell.Priority(min(r.IntN(4), 1) - 1)
			j.Hints.Deadlines = []model.Deadline{{After: model.Duration(r.IntN(40)) * model.Hour / 10, Value: 10}}
		})
		m.queue = append(m.queue, waiter{id, size, 60 + r.ExpFloat64()*r.ExpFloat64()*2500, 0})
		if id == 900 || id == 1400 {
			s.add(at, model.NodeHealth{Node: "n15", Up: id == 1400})
		}
		m.play(s, at, mode)
	}
	m.play(s, 1e9, mode)
	return s
}

// machines are what crowd plays on: the free leaves of each node, and who runs.
type machines struct {
	used    [16][8]bool
	queue   []waiter
	running []runner
}

type waiter struct {
	id      model.JobID
	size    int32
	seconds float64
	n       int32
}

type runner struct {
	waiter
	end    float64
	leaves string
}

// play lets time pass: who ends first ends first, and who waits starts where there
// is room. A job of more than a third of an hour may be preempted once on the way.
func (m *machines) play(s *stream, to float64, mode uint64) {
	for i := m.next(to); i >= 0; i = m.next(to) {
		r := m.running[i]
		m.running = append(m.running[:i], m.running[i+1:]...)
		m.leave(s, r, mode)
	}
	m.fill(s, float64(s.now)/float64(model.Second), mode)
}

// next is who ends first by then, -1 for nobody.
func (m *machines) next(to float64) int {
	next := -1
	for i := range m.running {
		if m.running[i].end <= to && (next < 0 || m.running[i].end < m.running[next].end) {
			next = i
		}
	}
	return next
}

func (m *machines) leave(s *stream, r runner, mode uint64) {
	var from, end int
	fmt.Sscanf(r.leaves, "%d-%d", &from, &end)
	for l := from; l <= end; l++ {
		m.used[l/8][l%8] = false
	}
	a := attempt(r.id, r.n)
	if r.seconds > 0 {
		s.end(r.end, a, model.EndPreempted)
		s.add(r.end, model.TaskRetried{Job: r.id})
		m.queue = append(m.queue, r.waiter)
	} else {
		s.finish(r.end, a)
	}
	m.fill(s, r.end, mode)
}

func (m *machines) fill(s *stream, at float64, mode uint64) {
	var still []waiter
	blocked := false
	for _, w := range m.queue {
		from := m.room(w.size)
		if from < 0 || blocked {
			blocked = blocked || mode == 0
			still = append(still, w)
			continue
		}
		for l := from; l < from+int(w.size); l++ {
			m.used[l/8][l%8] = true
		}
		w.n++
		run := w.seconds
		if mode == 2 && w.n < 4 && run > 1200 {
			run = 1200
		}
		w.seconds -= run
		leaves := fmt.Sprintf("%d-%d", from, from+int(w.size)-1)
		s.place(at, attempt(w.id, w.n), leaves)
		m.running = append(m.running, runner{w, at + run, leaves})
	}
	m.queue = still
}

// room finds leaves side by side on one node.
func (m *machines) room(size int32) int {
	for n := range m.used {
		for from := 0; from+int(size) <= 8; from += int(size) {
			if !slices.Contains(m.used[n][from:from+int(size)], true) {
				return n*8 + from
			}
		}
	}
	return -1
}
