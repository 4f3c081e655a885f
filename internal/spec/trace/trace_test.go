package trace

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/model"
)

var update = flag.Bool("update", false, "rewrite testdata/trace/golden")

// samples is where the hand-made traces are.
var samples = filepath.Join("..", "..", "..", "testdata", "trace")

func sample(name string) string { return filepath.Join(samples, name) }

// gavelOptions are what a gavel trace needs.
func gavelOptions(t testing.TB) Options {
	table, err := ReadThroughputs(sample("throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	return Options{Throughputs: table, GPU: "v100"}
}

func load(t testing.TB, path string, o Options) ([]Job, *Reader) {
	t.Helper()
	jobs, r, err := Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return jobs, r
}

// written gives jobs in a format.
func written(t testing.TB, to Format, jobs []Job) ([]byte, []Count) {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, to)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if err := w.Write(&jobs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), w.Lost()
}

// read gives the jobs of a text that has no mistake.
func read(t testing.TB, text string, o Options) []Job {
	t.Helper()
	r, err := NewReader("text", strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	var out []Job
	for j, err := range r.InOrder() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, j)
	}
	return out
}

// TestSamples reads one trace of each format, without being told which it is, and
// holds what it means, written as comb, to a golden file. Reading that again must
// give the same jobs.
func TestSamples(t *testing.T) {
	cases := []struct {
		file    string
		format  Format
		skipped string
		odd     string
	}{
		{"philly.json", Philly, "[{never started 1} {no GPU 1}]",
			"[{attempt that ends before it starts: counts nothing 1} {attempt without a start: taken as the submission 1} {attempt without both times: counts nothing 3}]"},
		{"philly.csv", PhillyCSV, "[]", "[]"},
		{"helios.csv", Helios, "[{no GPU 1}]", "[{state SUSPENDED taken as unknown 1}]"},
		{"alibaba2020/pai_task_table.csv", Alibaba2020, "[{never started 1} {no GPU 1}]", "[]"},
		{"alibaba2023.csv", Alibaba2023, "[{no GPU 1}]", "[]"},
		{"tiresias.csv", Tiresias, "[]", "[]"},
		{"gavel.trace", Gavel, "[]", "[]"},
		{"chronus.csv", Chronus, "[{no GPU 1}]", "[]"},
		{"comb.jsonl", Comb, "[]", "[]"},
	}
	for _, c := range cases {
		jobs, r := load(t, sample(c.file), gavelOptions(t))
		if r.Format() != c.format {
			t.Errorf("%s: detected %s", c.file, r.Format())
		}
		if got := fmt.Sprint(r.Skipped()); got != c.skipped {
			t.Errorf("%s: skipped %s", c.file, got)
		}
		if got := fmt.Sprint(r.Odd()); got != c.odd {
			t.Errorf("%s: mended %s", c.file, got)
		}
		text, _ := written(t, Comb, jobs)
		golden := sample("golden/" + strings.ReplaceAll(string(c.format), "/", "-") + ".jsonl")
		if *update {
			if err := os.WriteFile(golden, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(text)); diff != "" {
			t.Errorf("%s:\n%s", c.file, diff)
		}
		if diff := cmp.Diff(jobs, read(t, string(text), Options{})); diff != "" {
			t.Errorf("%s: read again:\n%s", c.file, diff)
		}
	}
}

// TestUnits checks by hand what each format's units become.
func TestUnits(t *testing.T) {
	philly, _ := load(t, sample("philly.json"), Options{})
	if len(philly) != 3 || philly[0].ID != "application_1_1" || philly[0].Submit != 0 || philly[0].User != "bö" || philly[0].Outcome != Killed {
		t.Errorf("philly: %+v", philly)
	}
	j := philly[1]
	if j.Submit != model.Time(700*model.Second) || j.Duration != model.Duration(74+193182)*model.Second || j.GPUs != 4 || j.Nodes != 2 ||
		j.Attempts[0] != (Attempt{Start: model.Time(730 * model.Second), Duration: 74 * model.Second, GPUs: 2, Nodes: 1}) {
		t.Errorf("philly: %+v", j)
	}
	helios, _ := load(t, sample("helios.csv"), Options{})
	if j := helios[3]; j.ID != "104" || j.Submit != model.Time(539*model.Second) || j.Duration != 24*model.Hour || j.MilliCPU != 64_000 || j.Nodes != 2 ||
		j.Outcome != Failed || j.Failure != "timeout" {
		t.Errorf("helios, sorted: %+v", j)
	}
	pai, _ := load(t, sample("alibaba2020/pai_task_table.csv"), Options{})
	if j := pai[1]; j.ID != "jobA" || j.User != "ann" || j.Submit != model.Time(450*model.Second) || j.Duration != 1000*model.Second ||
		j.GPUs != 2 || j.GPUMilli != 500 || j.MilliCPU != 14_000 || j.MemoryMB != 30_000+2*10_240 || len(j.Tasks) != 2 {
		t.Errorf("alibaba2020: %+v", j)
	}
	if j := pai[0]; j.Duration != 30_500*model.Millisecond || j.GPUs != 2 || !slices.Equal(j.SKUs, []string{"P100", "V100"}) || j.Outcome != Failed {
		t.Errorf("alibaba2020: %+v", j)
	}
	if j := pai[2]; j.ID != "jobC" || j.Duration != 0 || j.GPUs != 8 || j.User != "" || j.Outcome != "" {
		t.Errorf("alibaba2020: %+v", j)
	}
	pods, _ := load(t, sample("alibaba2023.csv"), Options{})
	if j := pods[1]; j.GPUMilli != 460 || j.Duration != 472*model.Second || j.Class != BestEffort || j.Submit != model.Time(327*model.Second) {
		t.Errorf("alibaba2023: %+v", j)
	}
	gavel, _ := load(t, sample("gavel.trace"), gavelOptions(t))
	if j := gavel[0]; j.Duration != 250*model.Second || j.GPUs != 2 || j.Weight != 1000 || len(j.Deadlines) != 0 {
		t.Errorf("gavel: %+v", j)
	}
	if j := gavel[1]; j.Duration != 100*model.Second || j.Weight != 2500 || j.Deadlines[0] != (model.Deadline{After: 120 * model.Second, Value: 10}) {
		t.Errorf("gavel: %+v", j)
	}
	chronus, _ := load(t, sample("chronus.csv"), Options{})
	if j := chronus[1]; j.ID != "3" || j.VC != "vc_b" || j.Submit != model.Time(434*model.Minute) || j.Interval != 17*model.Minute || j.Class != Soft ||
		j.Deadlines[3] != (model.Deadline{After: 90 * model.Minute, Value: 2}) {
		t.Errorf("chronus: %+v", j)
	}
}

// TestRoundTrips writes what a format carries and reads it back.
func TestRoundTrips(t *testing.T) {
	whole := []Job{
		{ID: "1", Submit: model.Time(120 * model.Second), Duration: 600 * model.Second, GPUs: 8, VC: `a,"b"`, Iterations: 7, Model: "m", Interval: 60 * model.Second},
		{ID: "2", Submit: model.Time(180 * model.Second), Duration: 60 * model.Second, GPUs: 1, VC: "c", Class: Soft,
			Deadlines: []model.Deadline{{After: 120 * model.Second, Value: 10}, {After: 180 * model.Second, Value: 2}}},
		{ID: "3", Submit: model.Time(180 * model.Second), GPUs: 1, Class: BestEffort},
		{ID: "4", Submit: model.Time(180 * model.Second), GPUs: 2, Class: BestEffort, MinGPUs: 1, MaxGPUs: 8,
			Loss: &Curve{First: 2_000_000_000, Last: 12_500_000, Half: model.Minute}},
	}
	keep := map[Format]func(Job) Job{
		PhillyCSV: func(j Job) Job {
			return Job{ID: j.ID, Submit: j.Submit, Duration: j.Duration, GPUs: j.GPUs, VC: j.VC}
		},
		Tiresias: func(j Job) Job {
			return Job{ID: j.ID, Submit: j.Submit, Duration: j.Duration, GPUs: j.GPUs, Iterations: j.Iterations, Model: j.Model, Interval: j.Interval}
		},
		Chronus: func(j Job) Job {
			if j.Class == "" {
				j.Class = BestEffort
			}
			j.MinGPUs, j.MaxGPUs, j.Loss = 0, 0, nil
			return j
		},
		Comb: func(j Job) Job { return j },
	}
	lost := map[Format]string{
		PhillyCSV: "[{class 3} {deadlines 1} {gpus_max 1} {gpus_min 1} {interval_us 1} {iterations 1} {loss 1} {model 1}]",
		Tiresias:  "[{class 3} {deadlines 1} {gpus_max 1} {gpus_min 1} {loss 1} {vc 2}]", Chronus: "[{class 1} {gpus_max 1} {gpus_min 1} {loss 1}]", Comb: "[]",
	}
	for _, to := range Writable() {
		text, gone := written(t, to, whole)
		if got := fmt.Sprint(gone); got != lost[to] {
			t.Errorf("%s: lost %s, want %s", to, got, lost[to])
		}
		var want []Job
		for _, j := range whole {
			want = append(want, keep[to](j))
		}
		if diff := cmp.Diff(want, read(t, string(text), Options{})); diff != "" {
			t.Errorf("%s:\n%s", to, diff)
		}
	}
}

// TestLoss checks the curve by hand: half of what it can fall after half_us, two thirds after
// twice that.
func TestLoss(t *testing.T) {
	c := Curve{First: 3_000_000_000, Last: 0, Half: 100}
	for work, want := range map[model.Duration]int64{0: 3_000_000_000, 100: 1_500_000_000, 200: 1_000_000_000, 900: 300_000_000} {
		if got := c.At(work); got != want {
			t.Errorf("after %d: %d, want %d", work, got, want)
		}
	}
}

// TestRounding checks that times are rounded, that it is said, and that nothing
// that takes time takes none afterwards.
func TestRounding(t *testing.T) {
	text, lost := written(t, Tiresias, []Job{{ID: "1", Submit: 400_000, Duration: 1, GPUs: 1}, {ID: "2", Submit: 1_500_000, Duration: 2_499_999, GPUs: 1}})
	if want := "1,1,0,0,,1,0\n2,1,2,0,,2,0\n"; !strings.HasSuffix(string(text), want) {
		t.Errorf("%s", text)
	}
	if fmt.Sprint(lost) != "[{duration_us rounded 2} {submit_us rounded 2}]" {
		t.Error(lost)
	}
}

// TestHostileTexts checks that what another program puts into a job can be read.
func TestHostileTexts(t *testing.T) {
	job := Job{ID: "a\x1b\n\"\\,\xff", GPUs: 1, VC: "v\r\n\x7f", Class: Soft, Deadlines: []model.Deadline{{After: 1, Value: 2}, {After: 2, Value: 1}}}
	for _, to := range Writable() {
		text, _ := written(t, to, []Job{job})
		got := read(t, string(text), Options{})[0]
		if want := "a\uFFFD\uFFFD\"\\,\uFFFD"; got.ID != want {
			t.Errorf("%s: %q", to, got.ID)
		}
		if to == Chronus && (got.VC != "v\uFFFD\uFFFD\uFFFD" || got.Deadlines[1].After != 2*model.Minute) {
			t.Errorf("%+v", got)
		}
	}
}

// TestQuotedHeader detects a table whose names are in quotes.
func TestQuotedHeader(t *testing.T) {
	if jobs := read(t, "\"job_id\",\"submit_s\",\"duration_s\",\"num_gpus\",\"vc\"\r\n\"1\",\"0\",\"5\",\"2\",\"a\"\"b\"\r\n", Options{}); len(jobs) != 1 || jobs[0].VC != `a"b` || jobs[0].GPUs != 2 {
		t.Error(jobs)
	}
}

// TestCreate checks that a file appears whole or not at all.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.jsonl.gz")
	job := Job{ID: "1", GPUs: 1}
	for _, finish := range []bool{false, true} {
		w, err := Create(path, Comb)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&job); err != nil {
			t.Fatal(err)
		}
		if finish {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			w.Abort()
		}
		files, _ := os.ReadDir(dir)
		if (len(files) == 1) != finish {
			t.Errorf("closed %v: %v", finish, files)
		}
	}
	if jobs, _ := load(t, path, Options{}); len(jobs) != 1 || jobs[0].ID != "1" {
		t.Errorf("packed: %v", jobs)
	}
	if _, err := Create(filepath.Join(dir, "no", "x"), Comb); err == nil {
		t.Error("a folder that is not there")
	}
	if _, err := Create(filepath.Join(dir, "y"), Philly); err == nil || !strings.Contains(err.Error(), "want comb, tiresias") {
		t.Error(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("left behind: %v", files)
	}
	w, _ := NewWriter(&bytes.Buffer{}, Comb)
	for _, bad := range []Job{{GPUs: 1}, {ID: "1"}, {ID: "1", GPUs: 1, Submit: -1}, {ID: "1", GPUs: 1, Duration: -1}} {
		if err := w.Write(&bad); err == nil || !strings.Contains(err.Error(), "want an id, at least one GPU and no negative times") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	_ = w.Write(&Job{ID: "1", GPUs: 1, Submit: 5})
	if err := w.Write(&job); err == nil || !strings.Contains(err.Error(), "in order") {
		t.Error(err)
	}
}

// TestSummary holds comb trace info to figures computed by hand.
func TestSummary(t *testing.T) {
	jobs := func(yield func(Job, error) bool) {
		for _, j := range []Job{
			{ID: "1", Submit: model.Time(10 * model.Second), Duration: 3600 * model.Second, GPUs: 2, VC: "b", User: "u", Class: Strict, App: "x"},
			{ID: "2", Submit: model.Time(3610 * model.Second), Duration: 7200 * model.Second, GPUs: 1, GPUMilli: 500, VC: "a", User: "u", Model: "m"},
			{ID: "3", Submit: model.Time(20 * model.Second), GPUs: 12, VC: "a", User: "w", SKUs: []string{"A", "B"}, Outcome: Failed},
		} {
			if !yield(j, nil) {
				return
			}
		}
	}
	s, err := Summarize(jobs, []NodeGroup{{Nodes: 2, GPUs: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Jobs != 3 || s.WithoutDuration != 1 || s.FirstSubmitS != 10 || s.SpanS != 3600 || s.Users != 2 || s.Apps != 1 || s.GPUHours != 3 ||
		s.LargestGang != 12 || s.MeanGPUs != 5 || *s.Load != (LoadOn{GPUs: 8, Load: 3.0 / 8, TooLarge: 1}) {
		t.Errorf("%+v", s)
	}
	if d := s.DurationS; d.Mean != 5400 || d.P50 != 5400 || d.P10 != 3960 || d.Min != 3600 || d.Max != 7200 {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff([]VCSummary{{"a", 2, 2, 1, 12}, {"b", 1, 1, 2, 2}}, s.VCs); diff != "" {
		t.Error(diff)
	}
	if fmt.Sprint(s.Classes, s.Outcomes, s.Models, s.SKUs) != "[{strict 1}] [{failed 1}] [{m 1}] [{A|B 1}]" {
		t.Error(s.Classes, s.Outcomes, s.Models, s.SKUs)
	}
	empty, err := Summarize(func(func(Job, error) bool) {}, nil)
	if err != nil || empty.Jobs != 0 || empty.VCs == nil {
		t.Errorf("%+v, %v", empty, err)
	}
}
