package metrics

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// Figures are the figures of a run, and of each VC. Times are in seconds; null is "not
// defined". docs/metrics.md has the formula of each, in this order.
type Figures struct {
	Jobs                  int64  `json:"jobs"`
	Finished              int64  `json:"finished"`
	JCTAvg                Number `json:"jct_avg_s"`
	JCTP50                Number `json:"jct_p50_s"`
	JCTP95                Number `json:"jct_p95_s"`
	JCTP99                Number `json:"jct_p99_s"`
	Makespan              Number `json:"makespan_s"`
	Throughput            Number `json:"throughput_jobs_per_h"`
	QueueAvg              Number `json:"queue_avg_s"`
	QueueFairShareAvg     Number `json:"queue_fair_share_avg_s"`
	QueueFragmentationAvg Number `json:"queue_fragmentation_avg_s"`
	Preemptions           int64  `json:"preemptions"`
	Migrations            int64  `json:"migrations"`
	Suspends              int64  `json:"suspends"`
	GPUUtilization        Number `json:"gpu_utilization"`
	GPUEffective          Number `json:"gpu_effective_utilization"`
	Fragmentation         Number `json:"fragmentation"`
	RhoMax                Number `json:"rho_max"`
	RhoP95                Number `json:"rho_p95"`
	JainRho               Number `json:"jain_rho"`
	SLOMissRate           Number `json:"slo_miss_rate"`
	BELatencyAvg          Number `json:"be_latency_avg_s"`
	EarlySaved            Number `json:"early_saved_gpu_h"`
	ProbeSaved            Number `json:"probe_saved_gpu_h"`
	Profiler              Number `json:"profiler_gpu_h"`
}

// Cost is what a run took, which the caller measures. Only these figures may differ when the
// run is repeated.
type Cost struct {
	CPU     Number `json:"cpu_s"`
	Wall    Number `json:"wall_s"`
	PeakRSS int64  `json:"peak_rss_bytes"`
}

// Summary is summary.json. Keys stand in this order, VCs in order of name.
type Summary struct {
	Policy string `json:"policy"`
	Figures
	VC     map[string]Figures `json:"vc"`
	Events int64              `json:"events"` // submissions, starts, stops and ends of attempts
	Cost
}

// Result is the outcome of a fold.
type Result struct {
	// About says in the report what was run: the trace, the cluster and so on.
	About    string
	Summary  Summary
	Timeline Timeline
	// JCT are the completion times of each VC's ended jobs in microseconds, sorted.
	JCT map[string][]int64
	// Waits are the means behind the chart of waits, by VC.
	Waits []Waits
	gantt []ganttJob
}

// Waits are means over a VC's ended jobs, in seconds: of the time in the queue by cause, and
// of the rest beyond the ideal duration.
type Waits struct {
	VC                              string
	Jobs                            int64
	FairShare, Fragmentation, Other Number
}

// Finish ends the fold at an instant not before the last record, and computes all figures.
// Jobs that have not ended are passed to Options.Ended, in order of id. The fold must not be
// used afterwards. The error names the first record that did not fit.
func (f *Fold) Finish(at model.Time) (*Result, error) {
	if f.err != nil {
		return nil, f.err
	}
	if at > f.now {
		f.advance(at)
	}
	f.censor()
	if f.open > 0 || !f.began {
		f.close()
	}
	r := &Result{Timeline: f.points(f.now), JCT: map[string][]int64{}}
	r.Summary = Summary{Policy: f.o.Policy, VC: map[string]Figures{}, Events: f.events}
	vcs := slices.Clone(f.vcs)
	slices.SortFunc(vcs, func(a, b *account) int { return cmp.Compare(a.name, b.name) })
	var all ended
	for _, a := range vcs {
		e := &a.ended
		slices.Sort(e.jct)
		slices.Sort(e.rho)
		r.Summary.VC[string(a.name)] = f.figures(e, a)
		r.JCT[string(a.name)] = e.jct
		r.Waits = append(r.Waits, waitsOf(string(a.name), e))
		all.merge(e)
	}
	all.collect(vcs)
	r.Summary.Figures = f.figures(&all, nil)
	slices.SortFunc(f.gantt.jobs, func(a, b ganttJob) int {
		return cmp.Or(cmp.Compare(a.row.Submit, b.row.Submit), cmp.Compare(a.row.ID, b.row.ID))
	})
	r.gantt = f.gantt.jobs
	return r, nil
}

// censor counts what jobs that have not ended held, and passes them to Options.Ended.
func (f *Fold) censor() {
	for _, id := range slices.Sorted(maps.Keys(f.jobs)) {
		j := f.jobs[id]
		phase := model.Waiting
		bars := j.bars
		for i := range j.gangs {
			g := &j.gangs[i]
			f.pauseWait(g)
			if g.wait == backingOff {
				g.backOff += model.Duration(f.now - g.since)
			}
			if g.slot != none {
				f.cut(g)
				phase = model.Active
				bars = addBar(bars, Bar{g.placed, f.now, 0})
			}
		}
		r := f.fill(j)
		r.Phase = phase
		r.Miss = missOf(j.spec, model.Duration(f.now-j.submitted), false)
		if r.Miss.Defined() {
			j.vc.ended.slo++
			j.vc.ended.missed += billion
		}
		f.countHeld(j)
		f.gantt.offer(r, bars)
		if f.o.Ended != nil {
			f.o.Ended(r)
		}
	}
}

// merge adds the jobs of a VC to those of the run; collect gathers the lists.
func (e *ended) merge(o *ended) {
	if o.jobs > 0 && (e.jobs == 0 || o.first < e.first) {
		e.first = o.first
	}
	e.last = max(e.last, o.last)
	e.jobs += o.jobs
	e.durations.plus(o.durations)
	e.fairShare.plus(o.fairShare)
	e.fragmented.plus(o.fragmented)
	e.latency.plus(o.latency)
	e.preemptions += o.preemptions
	e.migrations += o.migrations
	e.suspends += o.suspends
	e.slo += o.slo
	e.missed += o.missed
	e.bestEffort += o.bestEffort
	e.gpu += o.gpu
	e.effective += o.effective
	e.early += o.early
	e.probed.all += o.probed.all
	e.profiled.all += o.profiled.all
}

func (e *ended) collect(vcs []*account) {
	jcts, rhos := make([][]int64, 0, len(vcs)), make([][]float64, 0, len(vcs))
	for _, a := range vcs {
		jcts, rhos = append(jcts, a.ended.jct), append(rhos, a.ended.rho)
	}
	e.jct, e.rho = merged(jcts...), merged(rhos...)
}

// figures computes the figures of one VC, or of the whole run where a is nil. The lists are
// sorted.
func (f *Fold) figures(e *ended, a *account) Figures {
	n := int64(len(e.jct))
	var jct sum
	for _, t := range e.jct {
		jct.add(t)
	}
	out := Figures{Jobs: e.jobs, Finished: n, Makespan: undefined(), Throughput: undefined(), RhoMax: undefined(),
		JCTAvg: jct.seconds(n), JCTP50: secondsOf(percentile(e.jct, 50)), JCTP95: secondsOf(percentile(e.jct, 95)),
		JCTP99: secondsOf(percentile(e.jct, 99)), QueueAvg: jct.minus(e.durations).seconds(n),
		QueueFairShareAvg: e.fairShare.seconds(n), QueueFragmentationAvg: e.fragmented.seconds(n),
		Preemptions: e.preemptions, Migrations: e.migrations, Suspends: e.suspends,
		RhoP95: percentile(e.rho, 95), JainRho: jain(e.rho),
		SLOMissRate: ratio(float64(e.missed), float64(e.slo)*billion), BELatencyAvg: e.latency.seconds(e.bestEffort),
		EarlySaved: hours(e.early), ProbeSaved: Number(float64(e.probed.all) / 3600), Profiler: Number(float64(e.profiled.all) / 3600)}
	if n > 0 {
		span := float64(e.last - e.first)
		out.Makespan = Number(span / float64(model.Second))
		out.Throughput = ratio(float64(n)*float64(model.Hour), span)
	}
	if len(e.rho) > 0 {
		out.RhoMax = Number(e.rho[len(e.rho)-1])
	}
	r := &f.leaves
	if a != nil {
		own := float64(a.closed[quota])
		out.GPUUtilization, out.GPUEffective = ratio(float64(e.gpu), own), ratio(float64(e.effective), own)
		out.Fragmentation = undefined()
		return out
	}
	usable := float64(r.closed[inUse] + r.closed[idle])
	out.GPUUtilization = ratio(float64(r.closed[inUse]), usable)
	out.GPUEffective = ratio(float64(e.effective), usable)
	out.Fragmentation = ratio(float64(r.closed[fragmentedIdle]), float64(r.closed[idle]))
	return out
}

func waitsOf(name string, e *ended) Waits {
	n := int64(len(e.jct))
	w := Waits{VC: name, Jobs: n, FairShare: e.fairShare.seconds(n), Fragmentation: e.fragmented.seconds(n)}
	var jct sum
	for _, t := range e.jct {
		jct.add(t)
	}
	w.Other = max(jct.minus(e.durations).seconds(n)-w.FairShare-w.Fragmentation, 0)
	return w
}

// WriteJSON writes summary.json.
func (s *Summary) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
