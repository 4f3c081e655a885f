package metrics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// maxSeries is how many VCs or runs a chart draws one by one.
const maxSeries = 8

// maxSteps is how many steps a chart over time has.
const maxSteps = 400

// curve is one line of a distribution: its values are microseconds, sorted.
type curve struct {
	name   string
	values []int64
}

// distribution draws what share of jobs ended within which time; the time is
// logarithmic.
func distribution(id, title, description string, curves []curve) string {
	c := newChart(id, title, description, 260)
	lo, hi := int64(0), int64(0)
	for _, v := range curves {
		if n := len(v.values); n > 0 {
			hi = max(hi, v.values[n-1])
			if first := v.values[n/100]; lo == 0 || first < lo {
				lo = first
			}
		}
	}
	low := min(max(float64(lo)/float64(model.Second), 0.001), max(float64(hi)/float64(model.Second)/10, 0.001))
	c.x = axis{min: low, max: max(float64(hi)/float64(model.Second), 2*low), from: c.left, to: c.right, log: true}
	c.y = axis{min: 0, max: 1, from: c.bottom, to: c.top}
	c.axes(logTicks(c.x.min, c.x.max), []tick{{0, "0 %"}, {.25, "25 %"}, {.5, "50 %"}, {.75, "75 %"}, {1, "100 %"}}, "completion time (logarithmic)")
	keys := make([]key, len(curves))
	for i := len(curves) - 1; i >= 0; i-- { // the first on top
		v := &curves[i]
		class := fmt.Sprintf("l%d", i%maxSeries)
		if i > 0 && len(curves) > 4 {
			class += " thin"
		}
		if i >= maxSeries/2 {
			class += " dash"
		}
		keys[i] = key{class, v.name, true}
		median := secondsOf(percentile(v.values, 50))
		c.path(class, fmt.Sprintf("%s: %d jobs, half of them within %s", v.name, len(v.values), spanOf(median)), cdf(v.values), true)
	}
	c.legend(keys)
	return c.String()
}

// cdf turns sorted values into a cumulative distribution of at most 401 points.
func cdf(sorted []int64) []point {
	n := len(sorted)
	if n == 0 {
		return nil
	}
	steps := min(n, maxSteps)
	ps := make([]point, 0, steps+1)
	ps = append(ps, point{float64(sorted[0]) / float64(model.Second), 0})
	for i := 1; i <= steps; i++ {
		k := i * n / steps
		ps = append(ps, point{float64(sorted[k-1]) / float64(model.Second), float64(k) / float64(n)})
	}
	return ps
}

// spanOf writes a figure in seconds in the unit that fits.
func spanOf(n Number) string {
	if !n.Defined() {
		return "-"
	}
	if n < 0 {
		return "-" + span(float64(-n))
	}
	return span(float64(n))
}

// jctChart is the distribution of completion times, of all jobs and of the VCs with the most
// jobs.
func (r *Result) jctChart() string {
	names := make([]string, 0, len(r.JCT))
	var lists [][]int64
	// The names are sorted below, and merged puts the lists together in that order.
	for name, list := range r.JCT {
		if len(list) > 0 {
			names = append(names, name)
			lists = append(lists, list)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(r.JCT[b]), len(r.JCT[a])), cmp.Compare(a, b)) })
	curves := []curve{{"all jobs", merged(lists...)}}
	for _, name := range names {
		if len(names) > 1 && len(curves) < maxSeries {
			curves = append(curves, curve{name, r.JCT[name]})
		}
	}
	f := &r.Summary.Figures
	return distribution("jct", "Completion times", fmt.Sprintf("Share of jobs that ended within a time. Of %d finished jobs half ended within %s, 95 in 100 within %s.",
		f.Finished, spanOf(f.JCTP50), spanOf(f.JCTP95)), curves)
}

// steps merges neighbouring rows of the timeline until there are at most maxSteps. It returns
// the cluster's means, and the time in seconds at which each begins.
func (t *Timeline) steps() (xs []float64, ps []Point, end float64) {
	if len(t.Steps) == 0 {
		return nil, nil, 1
	}
	start := t.Steps[0][0].At
	each := (len(t.Steps) + maxSteps - 1) / maxSteps
	for from := 0; from < len(t.Steps); from += each {
		var sum Point
		var all float64
		for i := from; i < min(from+each, len(t.Steps)); i++ {
			to := t.End
			if i+1 < len(t.Steps) {
				to = t.Steps[i+1][0].At
			}
			dt := since(to, t.Steps[i][0].At)
			all += dt
			sum.add(&t.Steps[i][0], Number(dt))
		}
		mean := Point{}
		mean.add(&sum, Number(1/all))
		xs, ps = append(xs, since(t.Steps[from][0].At, start)), append(ps, mean)
	}
	return xs, ps, max(since(t.End, start), 1e-6)
}

func (p *Point) add(o *Point, w Number) {
	p.Waiting += o.Waiting * w
	p.Running += o.Running * w
	p.Guaranteed += o.Guaranteed * w
	p.Opportunistic += o.Opportunistic * w
	p.Idle += o.Idle * w
	p.Bad += o.Bad * w
}

// over makes a line of steps of one value, which ends at end.
func over(xs []float64, end float64, value func(i int) float64) []point {
	ps := make([]point, 0, len(xs)+1)
	for i, x := range xs {
		ps = append(ps, point{x, value(i)})
	}
	if n := len(ps); n > 0 {
		ps = append(ps, point{end, ps[n-1].y})
	}
	return ps
}

// useChart shows what the GPUs do over time.
func (r *Result) useChart() string {
	c := newChart("use", "GPUs over time", fmt.Sprintf("How many GPUs are in use within guarantees, in use beyond them, idle, or bad, over the run. %s of the GPU-time was in use.",
		percent(r.Summary.GPUUtilization)), 220)
	xs, ps, end := r.Timeline.steps()
	top := 0.0
	for i := range ps {
		top = max(top, float64(ps[i].Guaranteed+ps[i].Opportunistic+ps[i].Idle+ps[i].Bad))
	}
	ys := valueTicks(top)
	c.x = axis{max: end, from: c.left, to: c.right}
	c.y = axis{max: max(top, 1e-9), from: c.bottom, to: c.top}
	if ys[len(ys)-1].at > top {
		ys = ys[:len(ys)-1]
	}
	low := over(xs, end, func(int) float64 { return 0 })
	var keys []key
	for _, s := range []struct {
		class, name string
		of          func(*Point) Number
	}{
		{"f0", "guaranteed", func(p *Point) Number { return p.Guaranteed }},
		{"f1", "opportunistic", func(p *Point) Number { return p.Opportunistic }},
		{"fnone", "idle", func(p *Point) Number { return p.Idle }},
		{"fbad", "bad", func(p *Point) Number { return p.Bad }},
	} {
		high := over(xs, end, func(i int) float64 { return low[i].y + float64(s.of(&ps[i])) })
		c.area(s.class, s.name, low, high)
		keys = append(keys, key{s.class, s.name, false})
		low = high
	}
	c.axes(timeTicks(end), ys, "time since the first submission")
	c.legend(keys)
	return c.String()
}

// queueChart shows how many gangs wait and run over time.
func (r *Result) queueChart() string {
	f := &r.Summary.Figures
	c := newChart("queue", "Gangs over time", fmt.Sprintf("How many gangs wait and how many run. A job waited %s on average.", spanOf(f.QueueAvg)), 180)
	xs, ps, end := r.Timeline.steps()
	top := 1.0
	for i := range ps {
		top = max(top, float64(ps[i].Waiting), float64(ps[i].Running))
	}
	ys := valueTicks(top)
	c.x = axis{max: end, from: c.left, to: c.right}
	c.y = axis{max: ys[len(ys)-1].at, from: c.bottom, to: c.top}
	c.axes(timeTicks(end), ys, "time since the first submission")
	c.path("l0 thin", "running", over(xs, end, func(i int) float64 { return float64(ps[i].Running) }), true)
	c.path("l1", "waiting", over(xs, end, func(i int) float64 { return float64(ps[i].Waiting) }), true)
	c.legend([]key{{"l1", "waiting", true}, {"l0 thin", "running", true}})
	return c.String()
}

// maxBarsOfVCs is how many VCs the chart of waits shows.
const maxBarsOfVCs = 20

// waitsChart shows the mean waits of each VC by cause.
func (r *Result) waitsChart() string {
	var rows []stack
	for _, w := range r.Waits {
		if w.Jobs > 0 {
			rows = append(rows, stack{w.VC, [3]Number{w.FairShare, w.Fragmentation, w.Other}})
		}
	}
	slices.SortStableFunc(rows, func(a, b stack) int { return cmp.Compare(b.total(), a.total()) })
	more := max(len(rows)-maxBarsOfVCs, 0)
	description := "Mean time that a job's completion takes beyond its ideal duration, by virtual cluster and cause."
	if more > 0 {
		description += fmt.Sprintf(" %d virtual clusters with shorter waits are left out.", more)
	}
	return stacks(newStacks("waits", "Waits by virtual cluster and cause", description, len(rows)-more), rows[:len(rows)-more], causes)
}

// stack is one bar of three parts in seconds.
type stack struct {
	label string
	parts [3]Number
}

func (s *stack) total() Number { return s.parts[0] + s.parts[1] + s.parts[2] }

const stackRow = 24

func newStacks(id, title, description string, rows int) *chart {
	c := newChart(id, title, description, float64(stackRow*max(rows, 1)))
	c.left = 150
	return c
}

// stacks draws bars of times side by side.
func stacks(c *chart, rows []stack, names [3]string) string {
	top := 1e-6
	for i := range rows {
		top = max(top, float64(rows[i].total()))
	}
	c.x = axis{max: top, from: c.left, to: c.right - 70}
	c.axes(timeTicks(top), nil, "mean per finished job")
	for i := range rows {
		r := &rows[i]
		y, x := c.top+float64(stackRow*i), 0.0
		c.addf(`<text class="label" x="%s" y="%s" text-anchor="end">%s</text>`, px(c.left-8), px(y+15), esc(clip(r.label, 20)))
		for k, part := range r.parts {
			if part > 0 {
				from, to := c.x.at(x), c.x.at(x+float64(part))
				c.bar(fmt.Sprintf("f%d", k), box{from, y + 4, to - from, stackRow - 8}, fmt.Sprintf("%s, %s: %s", r.label, names[k], spanOf(part)))
				x += float64(part)
			}
		}
		c.addf(`<text x="%s" y="%s">%s</text>`, px(c.x.at(x)+6), px(y+15), esc(spanOf(r.total())))
	}
	c.legend([]key{{"f0", names[0], false}, {"f1", names[1], false}, {"f2", names[2], false}})
	return c.String()
}

// causes are what a job's time beyond its ideal duration is made of.
var causes = [3]string{"its guarantee was used up", "enough was free: shape or order", "restarts, slow-down, back-off"}

// ganttChart shows the jobs with most GPU-time, from submission to end.
func (r *Result) ganttChart() string {
	const row = 17
	c := newChart("jobs", "Jobs with most GPU-time", fmt.Sprintf("The %d jobs that held most GPU-time: a line from submission to end, a bar for each attempt; a dark mark ends an attempt that was preempted.",
		len(r.gantt)), max(float64(row*len(r.gantt)), row))
	c.left = 190
	var start model.Time
	if len(r.Timeline.Steps) > 0 {
		start = r.Timeline.Steps[0][0].At
	}
	end := r.Timeline.End
	c.x = axis{max: max(since(end, start), 1e-6), from: c.left, to: c.right}
	ticks := timeTicks(c.x.max)
	for _, t := range ticks {
		c.addf(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, px(c.x.at(t.at)), px(c.x.at(t.at)), px(c.top), px(c.bottom))
	}
	c.axes(ticks, nil, "time since the first submission")
	var vcs []string
	for i := range r.gantt {
		j := &r.gantt[i]
		if !slices.Contains(vcs, j.row.VC) {
			vcs = append(vcs, j.row.VC)
		}
		c.job(j, c.top+float64(row*i), fmt.Sprintf("f%d", slices.Index(vcs, j.row.VC)%maxSeries), window{from: start, to: end})
	}
	var keys []key
	for i, name := range vcs[:min(len(vcs), maxSeries)] {
		keys = append(keys, key{fmt.Sprintf("f%d", i), name, false})
	}
	c.legend(keys)
	return c.String()
}

// job draws one job of the chart of jobs, in a row that begins at y.
func (c *chart) job(j *ganttJob, y float64, class string, run window) {
	label := fmt.Sprintf("%s (%d)", clip(cmp.Or(j.row.TraceID, j.row.Name), 20), j.row.GPUs)
	c.addf(`<text class="label" x="%s" y="%s" text-anchor="end">%s</text>`, px(c.left-8), px(y+12), esc(label))
	to := run.to
	if j.row.Phase.Ended() {
		to = j.row.End
	}
	c.addf(`<line class="span" x1="%s" x2="%s" y1="%s" y2="%s"/>`, px(c.x.at(since(j.row.Submit, run.from))), px(c.x.at(since(to, run.from))), px(y+8), px(y+8))
	for _, b := range j.bars {
		from, to := c.x.at(since(b.From, run.from)), c.x.at(since(b.To, run.from))
		cause := cmp.Or(b.Cause.String(), "still running")
		c.bar(class, box{from, y + 3, to - from, 10}, fmt.Sprintf("%s of %s, %d GPUs: %s, %s", j.row.Name, j.row.VC, j.row.GPUs, span(since(b.To, b.From)), cause))
		if b.Cause == model.EndPreempted {
			c.addf(`<line class="cut" x1="%s" x2="%s" y1="%s" y2="%s"/>`, px(to), px(to), px(y+1), px(y+15))
		}
	}
}

// percent writes a share.
func percent(n Number) string {
	if !n.Defined() {
		return "-"
	}
	return string(append((Number(float64(int64(float64(n)*1000+0.5)) / 10)).append(nil), " %"...))
}
