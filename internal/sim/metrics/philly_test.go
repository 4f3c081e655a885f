package metrics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
)

// Five jobs of two sizes: two fail, one is stopped, one does not end.
func study() *stream {
	s := newStream(4, 8, "a:4")
	s.submit(0, 1, "a", "1x1")
	s.place(4, attempt(1, 1), "0-0") // waits 4 s for nothing: fragmentation
	s.submit(10, 2, "a", "2x8")
	s.place(10, attempt(2, 1), "8-15", "16-23")
	s.submit(10, 3, "a", "1x1")
	s.place(10, attempt(3, 1), "1-1") // beside job 1
	s.end(34, attempt(3, 1), model.EndFailed)
	s.add(34, model.JobEnded{Job: 3, Phase: model.Failed, Cause: model.EndFailed, Exit: model.Exit{Code: 1}})
	s.finish(40, attempt(1, 1))
	s.end(50, attempt(2, 1), model.EndFailed)
	s.add(50, model.JobEnded{Job: 2, Phase: model.Failed, Cause: model.EndFailed, Exit: model.Exit{Code: 137, Cause: model.OutOfMemory}})
	s.submit(50, 4, "a", "4x8")
	s.place(50, attempt(4, 1), "0-7", "8-15", "16-23", "24-31")
	s.submit(50, 5, "a", "1x1")
	s.end(60, attempt(4, 1), model.EndStopped)
	s.add(60, model.JobEnded{Job: 4, Phase: model.Stopped, Cause: model.EndStopped})
	s.place(70, attempt(5, 1), "0-0")
	s.add(80, model.Decided{})
	return s
}

func TestPhilly(t *testing.T) {
	var p metrics.Philly
	f := metrics.New(metrics.Options{Ended: p.Add})
	s := study()
	f.Add(s.records)
	if _, err := f.Finish(s.now); err != nil {
		t.Fatal(err)
	}
	r := p.Report()
	// Size 1: jobs 1 and 3 ended, job 5 did not.
	if d := r.Delay[0]; d.Size != "1" || d.Jobs != 2 || d.FairShare != 0 || d.Fragmentation != 2 || d.P50 != 2 || d.FragmentationJobs != .5 || d.Nodes != 1 {
		t.Errorf("delay %+v", d)
	}
	if d := r.Delay[1]; d.Size != "> 8" || d.Jobs != 2 || d.Nodes != 3 {
		t.Errorf("delay %+v", d)
	}
	// Job 1 shared its node for 24 of 36 s, job 3 all the time, job 5 never.
	want := []metrics.UseRow{
		{Size: "1", Nodes: "1", Jobs: 1, GPUHours: 10.0 / 3600, Utilization: 1},
		{Size: "1", Nodes: "1", Colocated: true, Jobs: 2, GPUHours: 60.0 / 3600, Utilization: 1},
		{Size: "> 8", Nodes: "2", Jobs: 1, GPUHours: 640.0 / 3600, Utilization: 1},
		{Size: "> 8", Nodes: "3-4", Jobs: 1, GPUHours: 320.0 / 3600, Utilization: 1},
	}
	if !reflect.DeepEqual(r.Use, want) {
		t.Errorf("use %+v", r.Use)
	}
	failures := []metrics.FailureRow{
		{Class: "exit 1", Size: "1", Jobs: 1, Attempts: 1, RunTime: 24.0 / 3600, GPUHours: 24.0 / 3600, WastedHours: 24.0 / 3600},
		{Class: "out of memory", Size: "> 8", Jobs: 1, Attempts: 1, RunTime: 640.0 / 3600, GPUHours: 640.0 / 3600, WastedHours: 640.0 / 3600},
	}
	if !reflect.DeepEqual(r.Failures, failures) {
		t.Errorf("failures %+v", r.Failures)
	}
	all := 36.0 + 24 + 640 + 320 + 10
	states := []metrics.StateRow{
		{State: model.Succeeded, Jobs: 1, JobShare: .2, GPUHours: 36.0 / 3600, GPUShare: metrics.Number(36 / all)},
		{State: model.Failed, Jobs: 2, JobShare: .4, GPUHours: 664.0 / 3600, GPUShare: metrics.Number(664 / all), WastedHours: 664.0 / 3600},
		{State: model.Stopped, Jobs: 1, JobShare: .2, GPUHours: 320.0 / 3600, GPUShare: metrics.Number(320 / all)},
		{State: model.Active, Jobs: 1, JobShare: .2, GPUHours: 10.0 / 3600, GPUShare: metrics.Number(10 / all)},
	}
	if !reflect.DeepEqual(r.States, states) {
		t.Errorf("states %+v", r.States)
	}
}

// The report of a folder is the report of the fold that wrote it.
func TestPhillyOfFolder(t *testing.T) {
	dir := t.TempDir()
	var p metrics.Philly
	folder(t, dir, metrics.Options{}, study().batches())
	f := metrics.New(metrics.Options{Ended: p.Add})
	f.Add(study().records)
	if _, err := f.Finish(0); err != nil {
		t.Fatal(err)
	}
	got, err := metrics.PhillyOf(dir)
	if err != nil || !reflect.DeepEqual(got, p.Report()) {
		t.Errorf("%v\n%+v\n%+v", err, got, p.Report())
	}
	var text, page, program bytes.Buffer
	if err := got.WriteText(&text); err != nil || !strings.Contains(text.String(), "out of memory") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if err := got.WriteHTML(&page); err != nil || !strings.Contains(page.String(), "out of memory") {
		t.Error(err)
	}
	if err := got.WriteJSON(&program); err != nil || !json.Valid(program.Bytes()) {
		t.Error(err)
	}
}

// What is written is read back: every field, whatever its text.
func TestJobsRoundTrip(t *testing.T) {
	clean := strings.ToValidUTF8(evil, "\ufffd") + "\nline, \"two\""
	rows := []metrics.Row{
		{ID: 7, TraceID: clean, Name: "n", VC: "v,1", User: "u", App: "", Model: "m", GPUs: 16, Nodes: 2, Submit: 1_500_000, Start: 2, End: 9_000_001,
			Phase: model.Failed, Cause: model.EndFailed, Class: "exit 1", Duration: 3, FairShare: 4, Fragmentation: 5, BackOff: 6, Attempts: 7,
			Preemptions: 8, Migrations: 9, Suspends: 10, GPU: 11, Effective: 12, Shared: 13, Wasted: 14, Saved: 15, Rho: 1.5, Miss: 0.2},
		{ID: 8, Phase: model.Stopped, Submit: 100, End: 100},
	}
	var b bytes.Buffer
	w := metrics.NewJobsWriter(&b, 0)
	for i := range rows {
		w.Write(&rows[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []metrics.Row
	if err := metrics.ReadJobs(&b, "jobs.csv", func(r *metrics.Row) error {
		got = append(got, *r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, rows) {
		t.Errorf("read %+v\nwrote %+v", got, rows)
	}
}

// A wrong file is refused with the place.
func TestJobsErrors(t *testing.T) {
	good, err := os.ReadFile("testdata/small/jobs.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	for _, c := range []struct{ text, want string }{
		{"", "jobs.csv:1: no header line"},
		{"id,name\n", `jobs.csv:1: there is no column "trace_id"`},
		{lines[0] + strings.Replace(lines[1], ",4,1,180,", ",four,1,180,", 1), `jobs.csv:2: column gpus: "four" is not a whole number`},
		{lines[0] + lines[1] + strings.Replace(lines[2], ",180,", ",1e3,", 1), `jobs.csv:3: column submit_s: "1e3" is not a number of seconds`},
		{lines[0] + strings.Replace(lines[1], ",Succeeded,", ",Fine,", 1), `jobs.csv:2: column phase: "Fine" is no phase`},
		{lines[0] + "1,2\n", "wrong number of fields"},
	} {
		err := metrics.ReadJobs(strings.NewReader(c.text), "jobs.csv", func(*metrics.Row) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Two runs of the same jobs, one of them slower.
func compared(t *testing.T) (*metrics.Comparison, []string) {
	t.Helper()
	dir := t.TempDir()
	dirs := []string{filepath.Join(dir, "one"), filepath.Join(dir, evil[:8])}
	for i, d := range dirs {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		s := newStream(1, 2, "a:1")
		s.submit(0, 1, "a", "1x2")
		s.place(0, attempt(1, 1), "0-1")
		s.finish(10-2*float64(i), attempt(1, 1))
		folder(t, d, metrics.Options{Policy: "p"}, s.batches())
	}
	c, err := metrics.Compare(dirs)
	if err != nil {
		t.Fatal(err)
	}
	return c, dirs
}

func TestCompare(t *testing.T) {
	c, dirs := compared(t)
	for _, r := range c.Rows {
		switch r.Key {
		case "jct_avg_s":
			if r.Values[0] != 10 || r.Values[1] != 8 || r.Best[0] || !r.Best[1] || r.Diff[0] != 0 || r.Diff[1] != -.2 {
				t.Errorf("%+v", r)
			}
		case "throughput_jobs_per_h":
			if r.Best[0] || !r.Best[1] || r.Diff[1] != .25 {
				t.Errorf("%+v", r)
			}
		case "jobs", "finished", "slo_miss_rate", "gpu_utilization":
			if r.Best[0] || r.Best[1] {
				t.Errorf("equal values have a best: %+v", r)
			}
		}
	}
	before := len(c.Rows)
	c.AddVCs()
	for _, r := range c.Rows[before:] {
		if !strings.HasPrefix(r.Key, "a: ") || r.Key == "a: jct_avg_s" && (r.Values[0] != 10 || r.Values[1] != 8 || !r.Best[1]) || r.Key == "a: slo_miss_rate" {
			t.Errorf("%+v", r)
		}
	}
	if len(c.Rows)-before < 5 {
		t.Errorf("%d rows of the virtual cluster", len(c.Rows)-before)
	}
	var text, table, page, program bytes.Buffer
	for _, f := range []error{c.WriteText(&text), c.WriteCSV(&table), c.WriteHTML(&page), c.WriteJSON(&program)} {
		if f != nil {
			t.Fatal(f)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "jct_avg_s s 10 8* -20.0 %") {
		t.Errorf("text:\n%s", text.String())
	}
	if !strings.Contains(table.String(), "jct_avg_s,one,10,0,false\n") {
		t.Errorf("csv:\n%s", table.String())
	}
	if strings.Contains(page.String(), "<script") || !strings.Contains(page.String(), `<span class="best">8</span>`) || !json.Valid(program.Bytes()) {
		t.Error("page or JSON")
	}
	if _, err := metrics.Compare(dirs[:1]); err == nil {
		t.Error("one run was compared")
	}
	if _, err := metrics.Compare([]string{dirs[0], "nowhere"}); err == nil || !strings.Contains(err.Error(), "nowhere/summary.json does not exist") {
		t.Errorf("got %v", err)
	}
}

// A table says the unit of each figure; a page of more runs than its chart draws names all.
func TestCompareNames(t *testing.T) {
	_, dirs := compared(t)
	for i := range 8 {
		dirs = append(dirs, filepath.Join(t.TempDir(), fmt.Sprint("run", i)))
		if err := os.CopyFS(dirs[len(dirs)-1], os.DirFS(dirs[0])); err != nil {
			t.Fatal(err)
		}
	}
	c, err := metrics.Compare(dirs)
	if err != nil {
		t.Fatal(err)
	}
	var text, page bytes.Buffer
	if err := errors.Join(c.WriteText(&text), c.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		f := strings.Fields(line)
		if key := f[0]; strings.HasSuffix(key, "_s") && f[1] != "s" || strings.Contains(key, "utilization") && (f[1] != "%" || f[2] != "100") {
			t.Errorf("the unit of %q", line)
		}
	}
	legend, _, _ := strings.Cut(page.String(), "<table>")
	for _, name := range c.Runs {
		if !strings.Contains(legend, "<li>"+html.EscapeString(name)) {
			t.Errorf("the legend does not name %s", name)
		}
	}
}

// A summary is read back as it was written.
func TestSummaryRoundTrip(t *testing.T) {
	want, err := os.ReadFile("testdata/small/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := metrics.ReadSummary("testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := s.WriteJSON(&got); err != nil || got.String() != string(want) {
		t.Errorf("%v\n%s", err, got.String())
	}
}

// Whatever is read, the reader does not panic; and what it understood is written
// and read again as the same.
func FuzzReadJobs(f *testing.F) {
	seed, err := os.ReadFile("testdata/small/jobs.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Add("id\n\"")
	read := func(text string) (rows []metrics.Row, err error) {
		var p metrics.Philly
		err = metrics.ReadJobs(strings.NewReader(text), "x", func(r *metrics.Row) error {
			rows = append(rows, *r)
			p.Add(r)
			return nil
		})
		p.Report()
		return rows, err
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := read(text)
		if err != nil {
			return
		}
		var b, c bytes.Buffer
		w := metrics.NewJobsWriter(&b, 0)
		for i := range rows {
			w.Write(&rows[i])
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := read(b.String())
		if err != nil || len(again) != len(rows) {
			t.Fatalf("%v: %d rows, %d at first\n%s", err, len(again), len(rows), b.String())
		}
		w = metrics.NewJobsWriter(&c, 0)
		for i := range again {
			w.Write(&again[i])
		}
		if err := w.Close(); err != nil || b.String() != c.String() {
			t.Fatalf("%v\n%s\n%s", err, b.String(), c.String())
		}
	})
}
