package metrics

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Comparison puts the summaries of several runs side by side. Runs are named after their
// folders, made unique. The first is the one that the others are compared with.
type Comparison struct {
	Runs []string        `json:"runs"`
	Rows []ComparisonRow `json:"rows"`
	jct  []curve
	all  []*Summary
}

// ComparisonRow is one figure of all runs.
type ComparisonRow struct {
	Key  string `json:"key"`
	unit string // in which people see it; Values are in the unit of the key
	// Better is "lower" or "higher", and "" where neither is better.
	Better string   `json:"better,omitempty"`
	Values []Number `json:"values"`
	// Diff is the relative difference to the first run: 0.1 is 10 % more.
	Diff []Number `json:"diff"`
	// Best marks the best run, or those that are equally good; none when all are.
	Best []bool `json:"best"`
}

// figure is one row of a comparison.
type figure struct {
	key    string
	unit   string // in which people see it
	better string
	of     func(*Summary) Number
}

const lower, higher = "lower", "higher"

// figures are the figures that are compared, in the order of a summary.
func figures() []figure {
	whole := func(get func(*Summary) int64) func(*Summary) Number {
		return func(s *Summary) Number { return Number(get(s)) }
	}
	return []figure{
		{"jobs", "jobs", "", whole(func(s *Summary) int64 { return s.Jobs })},
		{"finished", "jobs", higher, whole(func(s *Summary) int64 { return s.Finished })},
		{"jct_avg_s", "s", lower, func(s *Summary) Number { return s.JCTAvg }},
		{"jct_p50_s", "s", lower, func(s *Summary) Number { return s.JCTP50 }},
		{"jct_p95_s", "s", lower, func(s *Summary) Number { return s.JCTP95 }},
		{"jct_p99_s", "s", lower, func(s *Summary) Number { return s.JCTP99 }},
		{"makespan_s", "s", lower, func(s *Summary) Number { return s.Makespan }},
		{"throughput_jobs_per_h", "jobs/h", higher, func(s *Summary) Number { return s.Throughput }},
		{"queue_avg_s", "s", lower, func(s *Summary) Number { return s.QueueAvg }},
		{"queue_fair_share_avg_s", "s", lower, func(s *Summary) Number { return s.QueueFairShareAvg }},
		{"queue_fragmentation_avg_s", "s", lower, func(s *Summary) Number { return s.QueueFragmentationAvg }},
		{"preemptions", "times", lower, whole(func(s *Summary) int64 { return s.Preemptions })},
		{"migrations", "times", lower, whole(func(s *Summary) int64 { return s.Migrations })},
		{"suspends", "times", "", whole(func(s *Summary) int64 { return s.Suspends })},
		{"gpu_utilization", "%", higher, func(s *Summary) Number { return s.GPUUtilization }},
		{"gpu_effective_utilization", "%", higher, func(s *Summary) Number { return s.GPUEffective }},
		{"fragmentation", "%", lower, func(s *Summary) Number { return s.Fragmentation }},
		{"rho_max", "", lower, func(s *Summary) Number { return s.RhoMax }},
		{"rho_p95", "", lower, func(s *Summary) Number { return s.RhoP95 }},
		{"jain_rho", "", higher, func(s *Summary) Number { return s.JainRho }},
		{"slo_miss_rate", "%", lower, func(s *Summary) Number { return s.SLOMissRate }},
		{"be_latency_avg_s", "s", lower, func(s *Summary) Number { return s.BELatencyAvg }},
		{"early_saved_gpu_h", "GPU h", "", func(s *Summary) Number { return s.EarlySaved }},
		{"probe_saved_gpu_h", "GPU h", "", func(s *Summary) Number { return s.ProbeSaved }},
		{"profiler_gpu_h", "GPU h", "", func(s *Summary) Number { return s.Profiler }},
		{"events", "", "", whole(func(s *Summary) int64 { return s.Events })},
		{"cpu_s", "s", "", func(s *Summary) Number { return s.CPU }},
		{"wall_s", "s", "", func(s *Summary) Number { return s.Wall }},
		{"peak_rss_bytes", "MiB", "", whole(func(s *Summary) int64 { return s.PeakRSS })},
	}
}

// maxRuns bounds a comparison.
const maxRuns = 1000

// Compare reads the output folders of several runs.
func Compare(dirs []string) (*Comparison, error) {
	if len(dirs) < 2 || len(dirs) > maxRuns {
		return nil, fmt.Errorf("a comparison wants 2 to %d folders, not %d", maxRuns, len(dirs))
	}
	all := make([]*Summary, len(dirs))
	c := &Comparison{Runs: runNames(dirs), all: all}
	for i, dir := range dirs {
		var err error
		if all[i], err = ReadSummary(dir); err != nil {
			return nil, err
		}
		if i >= maxSeries {
			continue // the chart shows no more runs
		}
		v := curve{name: c.Runs[i]}
		err = readJobsOf(dir, func(r *Row) error {
			if r.Phase.Ended() {
				v.values = append(v.values, int64(r.JCT()))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		slices.Sort(v.values)
		c.jct = append(c.jct, v)
	}
	for _, f := range figures() {
		row := ComparisonRow{Key: f.key, unit: f.unit, Better: f.better}
		for _, s := range all {
			row.Values = append(row.Values, f.of(s))
		}
		row.judge()
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

// vcFigures are those by which a team judges a policy.
var vcFigures = []string{"jobs", "jct_avg_s", "jct_p95_s", "queue_avg_s", "preemptions", "gpu_utilization", "rho_max", "slo_miss_rate"}

// AddVCs adds rows for each virtual cluster of any run, in order of name: "vision:
// jct_avg_s". A row without a value in any run is left out.
func (c *Comparison) AddVCs() {
	names := map[string]bool{}
	for _, s := range c.all {
		for name := range s.VC {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, f := range figures() {
			if !slices.Contains(vcFigures, f.key) {
				continue
			}
			row, some := ComparisonRow{Key: name + ": " + f.key, unit: f.unit, Better: f.better}, false
			for _, s := range c.all {
				v := undefined()
				if of, has := s.VC[name]; has {
					v = f.of(&Summary{Figures: of})
				}
				row.Values, some = append(row.Values, v), some || v.Defined()
			}
			if some {
				row.judge()
				c.Rows = append(c.Rows, row)
			}
		}
	}
}

// runNames are the last parts of the folders' names, or all of them where two
// would be the same.
func runNames(dirs []string) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = filepath.Base(filepath.Clean(d))
	}
	sorted := slices.Clone(out)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) == len(dirs) {
		return out
	}
	return slices.Clone(dirs)
}

// judge finds the best values and the differences.
func (r *ComparisonRow) judge() {
	best := undefined()
	equal := true
	for _, v := range r.Values {
		equal = equal && (v == r.Values[0] || !v.Defined() && !r.Values[0].Defined())
		if v.Defined() && (!best.Defined() || r.Better == lower && v < best || r.Better == higher && v > best) {
			best = v
		}
	}
	for _, v := range r.Values {
		r.Best = append(r.Best, r.Better != "" && !equal && v == best)
		diff := undefined()
		if first := r.Values[0]; first != 0 {
			diff = (v - first) / Number(math.Abs(float64(first)))
		} else if v == 0 {
			diff = 0
		}
		r.Diff = append(r.Diff, diff)
	}
}

// change writes the difference of run i; "" for the first run and where there is none.
func (r *ComparisonRow) change(i int) string {
	switch d := float64(r.Diff[i]) * 100; {
	case i == 0 || !r.Diff[i].Defined() || d == 0:
		return ""
	case math.Abs(d) < 0.1:
		return fmt.Sprintf("%+.1g %%", d)
	default:
		return fmt.Sprintf("%+.1f %%", d)
	}
}

// shown writes a value for people, with enough decimals to tell runs apart.
func (n Number) shown() string {
	decimals := 4
	switch {
	case !n.Defined():
		return "-"
	case n == Number(math.Trunc(float64(n))):
		decimals = 0
	case n >= 1000:
		decimals = 1
	case n >= 10:
		decimals = 2
	}
	return strconv.FormatFloat(float64(n), 'f', decimals, 64)
}

// shown writes a value in the unit of its row.
func (r *ComparisonRow) shown(v Number) string {
	switch r.unit {
	case "%":
		v *= 100
	case "MiB":
		v /= 1 << 20
	}
	return v.shown()
}

// WriteText writes a table for people; * marks the best values.
func (c *Comparison) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tunit\t")
	for i, name := range c.Runs {
		fmt.Fprintf(t, "%s\t", printable(name))
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
	}
	fmt.Fprintln(t)
	for _, r := range c.Rows {
		fmt.Fprintf(t, "%s\t%s\t", printable(r.Key), r.unit)
		for i, v := range r.Values {
			mark := " "
			if r.Best[i] {
				mark = "*"
			}
			fmt.Fprintf(t, "%s%s\t", r.shown(v), mark)
			if i > 0 {
				fmt.Fprintf(t, "%s\t", r.change(i))
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// printable replaces characters that a terminal could act on.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, s)
}

// WriteJSON writes the comparison for programs.
func (c *Comparison) WriteJSON(w io.Writer) error { return writeJSON(w, c) }

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// WriteCSV writes a line for each figure and run.
func (c *Comparison) WriteCSV(w io.Writer) error {
	b := []byte("key,run,value,diff,best\n")
	for _, r := range c.Rows {
		for i, v := range r.Values {
			b = appendText(append(appendText(b, r.Key), ','), c.Runs[i])
			b = append(append(append(b, ','), v.text("")...), ',')
			b = append(append(b, r.Diff[i].text("")...), ',')
			b = fmt.Appendf(b, "%t\n", r.Best[i])
		}
	}
	_, err := w.Write(b)
	return err
}

// WriteHTML writes one page with the table and the distributions of completion
// times over each other, of the first eight runs.
func (c *Comparison) WriteHTML(w io.Writer) error {
	p := newPage("Comparison of " + c.Runs[0] + " with others")
	p.addf("<h1>Comparison</h1>\n<p class=\"lead\">%d runs; differences are to the first. The best of each row is bold.</p>\n", len(c.Runs))
	p.figure(distribution("jct", "Completion times", "Share of jobs that ended within a time, in each run.", c.jct))
	if len(c.Runs) > len(c.jct) {
		p.addf(`<p class="note">Drawn are the first %d runs. All of them, in the order of the table:</p>`+"\n<ol>", len(c.jct))
		for i, name := range c.Runs {
			drawn := ""
			if i < len(c.jct) {
				drawn = " (drawn)"
			}
			p.addf("<li>%s%s</li>\n", esc(name), drawn)
		}
		p.addf("</ol>\n")
	}
	p.addf(`<div class="wide"><table><caption>Figures</caption><thead><tr><th scope="col">figure</th><th scope="col">unit</th>`)
	for _, name := range c.Runs {
		p.addf(`<th scope="col">%s</th>`, esc(clip(name, 40)))
	}
	p.addf("</tr></thead><tbody>\n")
	for _, r := range c.Rows {
		p.addf(`<tr><th scope="row">%s</th><td>%s</td>`, esc(r.Key), r.unit)
		for i, v := range r.Values {
			class := ""
			if r.Best[i] {
				class = ` class="best"`
			}
			p.addf(`<td><span%s>%s</span> <span class="diff">%s</span></td>`, class, esc(r.shown(v)), esc(r.change(i)))
		}
		p.addf("</tr>\n")
	}
	p.addf("</tbody></table></div>\n<p class=\"note\">Every figure is defined in docs/metrics.md.</p>")
	return p.writeTo(w)
}
