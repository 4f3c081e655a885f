package metrics

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/combsched/comb/internal/core/model"
)

// PhillyReport repeats the study of the jobs of Microsoft's cluster Philly (ATC'19): why they
// wait, how well they use what they hold, how they fail, and where the GPU-time goes.
type PhillyReport struct {
	Delay    []DelayRow   `json:"delay"`
	Use      []UseRow     `json:"use"`
	Failures []FailureRow `json:"failures"`
	States   []StateRow   `json:"states"`
}

// DelayRow is how long ended jobs of one size waited. Means and percentiles are in seconds of
// the time in the queue, by cause.
type DelayRow struct {
	Size          string `json:"gpus"`
	Jobs          int64  `json:"jobs"`
	FairShare     Number `json:"fair_share_avg_s"`
	Fragmentation Number `json:"fragmentation_avg_s"`
	BackOff       Number `json:"backoff_avg_s"`
	P50           Number `json:"wait_p50_s"`
	P95           Number `json:"wait_p95_s"`
	// Shares of the jobs that waited for either cause at all.
	FairShareJobs     Number `json:"fair_share_jobs"`
	FragmentationJobs Number `json:"fragmentation_jobs"`
	Nodes             Number `json:"nodes_avg"`
}

// UseRow is how well jobs of one size used their GPUs: their GPU-time times speed,
// over their GPU-time. A job is co-located when it shared a node for at least half
// of its GPU-time.
type UseRow struct {
	Size        string `json:"gpus"`
	Nodes       string `json:"nodes"`
	Colocated   bool   `json:"colocated"`
	Jobs        int64  `json:"jobs"`
	GPUHours    Number `json:"gpu_h"`
	Utilization Number `json:"utilization"`
}

// FailureRow counts failed jobs of one class and size.
type FailureRow struct {
	Class       string `json:"class"`
	Size        string `json:"gpus"`
	Jobs        int64  `json:"jobs"`
	Attempts    Number `json:"attempts_avg"`
	RunTime     Number `json:"gpu_h_avg"`
	GPUHours    Number `json:"gpu_h"`
	WastedHours Number `json:"wasted_gpu_h"`
}

// StateRow is what jobs with one final state held. Jobs without an end are listed under their
// present state.
type StateRow struct {
	State       model.Phase `json:"state"`
	Jobs        int64       `json:"jobs"`
	JobShare    Number      `json:"jobs_share"`
	GPUHours    Number      `json:"gpu_h"`
	GPUShare    Number      `json:"gpu_share"`
	WastedHours Number      `json:"wasted_gpu_h"`
}

// Philly folds jobs into a PhillyReport. The zero value is empty.
type Philly struct {
	delay    [len(sizes)]delays
	use      map[useKey]*held
	failures map[failureKey]*held
	states   map[model.Phase]*held
	classes  map[string]bool
}

// sizes are Philly's classes of jobs by GPUs; places those by nodes.
var (
	sizes  = [...]sizeClass{{1, "1"}, {4, "2-4"}, {8, "5-8"}, {1<<31 - 1, "> 8"}}
	places = [...]sizeClass{{1, "1"}, {2, "2"}, {4, "3-4"}, {1<<31 - 1, "> 4"}}
)

// sizeClass holds numbers up to a limit.
type sizeClass struct {
	limit int32
	name  string
}

func classOf(classes []sizeClass, n int32) int {
	return slices.IndexFunc(classes, func(c sizeClass) bool { return n <= c.limit })
}

// delays are the delays of jobs of one size.
type delays struct {
	jobs, nodes              int64
	fair, frag, back         sum
	fairJobs, fragmentedJobs int64
	waits                    []int64
}

// held sums what some jobs held.
type held struct {
	jobs, attempts         int64
	gpu, effective, wasted uint64
}

func (h *held) add(r *Row) {
	h.jobs++
	h.attempts += int64(r.Attempts)
	h.gpu += r.GPU
	h.effective += r.Effective
	h.wasted += r.Wasted
}

type useKey struct {
	size, nodes int
	colocated   bool
}

type failureKey struct {
	class string
	size  int
}

// maxClasses bounds the classes of failures; the rest is "other".
const maxClasses = 100

// Add counts one job. It fits Options.Ended and ReadJobs.
func (p *Philly) Add(r *Row) {
	if p.use == nil {
		p.use, p.failures, p.states, p.classes = map[useKey]*held{}, map[failureKey]*held{}, map[model.Phase]*held{}, map[string]bool{}
	}
	size := max(classOf(sizes[:], r.GPUs), 0)
	entry(p.states, r.Phase).add(r)
	if r.GPU > 0 {
		entry(p.use, useKey{size, max(classOf(places[:], r.Nodes), 0), r.Shared >= r.GPU-r.GPU/2}).add(r)
	}
	if !r.Phase.Ended() {
		return
	}
	p.delay[size].add(r)
	if r.Phase != model.Failed {
		return
	}
	class := cmp.Or(r.Class, "unknown")
	if !p.classes[class] && len(p.classes) >= maxClasses {
		class = "other"
	}
	p.classes[class] = true
	entry(p.failures, failureKey{class, size}).add(r)
}

func (d *delays) add(r *Row) {
	d.jobs++
	d.nodes += int64(r.Nodes)
	d.fair.add(int64(r.FairShare))
	d.frag.add(int64(r.Fragmentation))
	d.back.add(int64(r.BackOff))
	d.fairJobs += positive(r.FairShare)
	d.fragmentedJobs += positive(r.Fragmentation)
	d.waits = append(d.waits, int64(r.FairShare+r.Fragmentation+r.BackOff))
}

func positive(d model.Duration) int64 {
	if d > 0 {
		return 1
	}
	return 0
}

// entry returns the value of a key, which it adds when there is none.
func entry[K comparable](m map[K]*held, k K) *held {
	if m[k] == nil {
		m[k] = &held{}
	}
	return m[k]
}

// hours turns leaf-microseconds into GPU-hours.
func hours(t uint64) Number { return Number(float64(t) / float64(model.Hour)) }

// Report returns the report of the jobs so far.
func (p *Philly) Report() *PhillyReport {
	out := &PhillyReport{Delay: []DelayRow{}, Use: []UseRow{}, Failures: []FailureRow{}, States: []StateRow{}}
	for i := range p.delay {
		if d := &p.delay[i]; d.jobs > 0 {
			slices.Sort(d.waits)
			out.Delay = append(out.Delay, DelayRow{Size: sizes[i].name, Jobs: d.jobs, FairShare: d.fair.seconds(d.jobs),
				Fragmentation: d.frag.seconds(d.jobs), BackOff: d.back.seconds(d.jobs),
				P50: secondsOf(percentile(d.waits, 50)), P95: secondsOf(percentile(d.waits, 95)),
				FairShareJobs:     ratio(float64(d.fairJobs), float64(d.jobs)),
				FragmentationJobs: ratio(float64(d.fragmentedJobs), float64(d.jobs)), Nodes: ratio(float64(d.nodes), float64(d.jobs))})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.use), useKey.compare) {
		h := p.use[k]
		out.Use = append(out.Use, UseRow{Size: sizes[k.size].name, Nodes: places[k.nodes].name, Colocated: k.colocated, Jobs: h.jobs,
			GPUHours: hours(h.gpu), Utilization: ratio(float64(h.effective), float64(h.gpu))})
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.failures), failureKey.compare) {
		h := p.failures[k]
		out.Failures = append(out.Failures, FailureRow{Class: k.class, Size: sizes[k.size].name, Jobs: h.jobs,
			Attempts: ratio(float64(h.attempts), float64(h.jobs)), RunTime: hours(h.gpu) / Number(h.jobs), GPUHours: hours(h.gpu), WastedHours: hours(h.wasted)})
	}
	var all held
	for _, h := range p.states { // sums do not depend on the order
		all.jobs += h.jobs
		all.gpu += h.gpu
	}
	for _, s := range []model.Phase{model.Succeeded, model.Failed, model.Stopped, model.Active, model.Waiting} {
		if h := p.states[s]; h != nil {
			out.States = append(out.States, StateRow{State: s, Jobs: h.jobs, JobShare: ratio(float64(h.jobs), float64(all.jobs)),
				GPUHours: hours(h.gpu), GPUShare: ratio(float64(h.gpu), float64(all.gpu)), WastedHours: hours(h.wasted)})
		}
	}
	return out
}

func (k useKey) compare(o useKey) int {
	return cmp.Or(cmp.Compare(k.size, o.size), cmp.Compare(k.nodes, o.nodes), cmp.Compare(colocation(k.colocated), colocation(o.colocated)))
}

func (k failureKey) compare(o failureKey) int {
	return cmp.Or(cmp.Compare(k.class, o.class), cmp.Compare(k.size, o.size))
}

func colocation(shared bool) string {
	if shared {
		return "shared"
	}
	return "alone"
}

// PhillyOf reads the jobs.csv of an output folder into the report.
func PhillyOf(dir string) (*PhillyReport, error) {
	var p Philly
	err := readJobsOf(dir, func(r *Row) error {
		p.Add(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.Report(), nil
}

// PhillyOfEvents makes the report of a journal; replay passes its records in order. Jobs that
// have not ended count with what they held until the last event.
func PhillyOfEvents(replay func(func(model.Record) error) error) (*PhillyReport, error) {
	var p Philly
	f := New(Options{Ended: p.Add})
	last := model.Time(0)
	one := make([]model.Record, 1)
	err := replay(func(r model.Record) error {
		one[0], last = r, r.Time
		f.Add(one)
		return nil
	})
	if err == nil {
		_, err = f.Finish(last)
	}
	if err != nil {
		return nil, err
	}
	return p.Report(), nil
}

// section is one table of the report.
type section struct {
	title string
	head  []string
	rows  [][]string
}

func (r *PhillyReport) sections() []section {
	n := func(v int64) string { return fmt.Sprint(v) }
	delay := section{title: "Delay in the queue by size", head: []string{"GPUs", "jobs", "fair share", "fragmentation", "back-off", "p50", "p95", "jobs with fair share", "with fragm.", "nodes"}}
	for _, d := range r.Delay {
		delay.rows = append(delay.rows, []string{d.Size, n(d.Jobs), spanOf(d.FairShare), spanOf(d.Fragmentation), spanOf(d.BackOff), spanOf(d.P50), spanOf(d.P95),
			percent(d.FairShareJobs), percent(d.FragmentationJobs), d.Nodes.round()})
	}
	use := section{title: "Utilization by size, nodes used and co-location", head: []string{"GPUs", "nodes", "co-location", "jobs", "GPU-hours", "utilization"}}
	for _, u := range r.Use {
		use.rows = append(use.rows, []string{u.Size, u.Nodes, colocation(u.Colocated), n(u.Jobs), short(float64(u.GPUHours)), percent(u.Utilization)})
	}
	failures := section{title: "Failures by class and size", head: []string{"class", "GPUs", "jobs", "attempts", "GPU-hours each", "GPU-hours", "wasted"}}
	for _, f := range r.Failures {
		failures.rows = append(failures.rows, []string{f.Class, f.Size, n(f.Jobs), f.Attempts.round(), f.RunTime.round(), short(float64(f.GPUHours)), short(float64(f.WastedHours))})
	}
	states := section{title: "GPU-time by final state", head: []string{"state", "jobs", "of all", "GPU-hours", "of all", "wasted"}}
	for _, s := range r.States {
		states.rows = append(states.rows, []string{string(s.State), n(s.Jobs), percent(s.JobShare), short(float64(s.GPUHours)), percent(s.GPUShare), short(float64(s.WastedHours))})
	}
	return []section{delay, use, failures, states}
}

// WriteText writes the report for people.
func (r *PhillyReport) WriteText(w io.Writer) error {
	for i, s := range r.sections() {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, s.title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{s.head}, s.rows...) {
			for k, c := range row {
				if k > 0 {
					fmt.Fprint(t, "\t")
				}
				fmt.Fprintf(t, "  %s", printable(clip(c, 40)))
			}
			fmt.Fprintln(t)
		}
		if len(s.rows) == 0 {
			fmt.Fprintln(t, "  none")
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes the report for programs.
func (r *PhillyReport) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteHTML writes the report as one page.
func (r *PhillyReport) WriteHTML(w io.Writer) error {
	p := newPage("Philly's study")
	p.addf("<h1>Where the time goes</h1>\n<p class=\"lead\">The study that was made of Philly (ATC'19), of these jobs.</p>\n")
	var rows []stack
	for _, d := range r.Delay {
		name := d.Size + " GPUs"
		if d.Size == "1" {
			name = "1 GPU"
		}
		rows = append(rows, stack{name, [3]Number{d.FairShare, d.Fragmentation, d.BackOff}})
	}
	names := [3]string{causes[0], causes[1], "back-off"}
	p.figure(stacks(newStacks("delay", "Delay by size and cause", "Mean time in the queue by the job's GPUs and the cause.", len(rows)), rows, names))
	for _, s := range r.sections() {
		p.table(s.title, s.head, s.rows)
	}
	p.addf(`<p class="note">Causes of delay and all columns are defined in docs/metrics.md.</p>`)
	return p.writeTo(w)
}
