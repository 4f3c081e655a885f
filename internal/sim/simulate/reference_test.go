package simulate_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/trace"
)

// reference is the simulator behind the published figures of Chronus' baselines,
// written again from its rules: a look every minute, jobs chosen by counting GPUs, the
// chosen ones placed largest first. On nodes a job needs as few as can hold it; one
// that does not fit waits, and nobody else gets the GPUs for which it was chosen: that
// is the reference's defect, of which a scheduler that counts GPUs knows nothing.
type reference struct {
	rule  string // fifo, firstfit, edf-stay, srtf, edf, las or themis
	nodes bool   // jobs are placed on nodes of 8; else GPUs are only counted
	free  int32
	room  []int32 // by node
	limit float64 // of the first queue of las, in GPU-minutes
	now   float64
	jobs  []*refJob // that have not ended
}

// refJob is a job of the reference; times are in minutes.
type refJob struct {
	order              int
	gpus               int32
	submit, left, ran  float64
	overhead, deadline float64
	job                *trace.Job
	running            bool
	lease              float64       // how long it ran since its lease began
	parts              map[int]int32 // GPUs by node
	end                float64
}

func minutes(t int64) float64 { return float64(t) / float64(model.Minute) }

// late reports whether a job counts as best effort.
func (r *reference) late(j *refJob) bool {
	return j.job.Class == trace.BestEffort || j.deadline < r.now
}

// compare is the order of the rule.
func (r *reference) compare(a, b *refJob) int {
	c := 0
	flag := func(is bool) int { return map[bool]int{true: 1}[is] }
	switch r.rule {
	case "srtf":
		c = cmp.Compare(a.left, b.left)
	case "themis":
		c = cmp.Compare(r.rho(b), r.rho(a))
	case "las":
		c = flag(a.ran*float64(a.gpus) >= r.limit) - flag(b.ran*float64(b.gpus) >= r.limit)
	case "edf", "edf-stay":
		c = flag(r.late(a)) - flag(r.late(b))
		switch {
		case c == 0 && r.rule == "edf" && r.late(a):
			c = cmp.Compare(a.left, b.left)
		case c == 0 && (r.rule == "edf" || !r.late(a) || r.nodes):
			c = cmp.Compare(a.deadline, b.deadline)
		}
	}
	return cmp.Or(c, cmp.Compare(a.order, b.order))
}

// themisLease is the lease of the fairness order, in minutes.
const themisLease = 60

// rho is the finish-time fairness of a job: the time that it takes in all, if nobody
// stops it from now on, by the time that it would take on an equal part.
func (r *reference) rho(j *refJob) float64 {
	slower := float64(j.gpus) * float64(len(r.jobs)) / 960
	return (r.now - j.submit + j.left) / ((j.ran + j.left) * max(1, slower))
}

// place gives a job its GPUs: on the tightest node, or on empty ones and the rest on
// the tightest other.
func (r *reference) place(j *refJob) bool {
	if !r.nodes {
		r.free -= j.gpus
		return true
	}
	parts, need := map[int]int32{}, j.gpus
	for i := 0; i < len(r.room) && need >= 8; i++ {
		if r.room[i] == 8 {
			parts[i] = 8
			need -= 8
		}
	}
	best := -1
	for i, room := range r.room {
		if parts[i] == 0 && need > 0 && room >= need && (best < 0 || room < r.room[best]) {
			best = i
		}
	}
	if need >= 8 || need > 0 && best < 0 {
		return false
	}
	if need > 0 {
		parts[best] = need
	}
	for i, n := range parts {
		r.room[i] -= n
	}
	j.parts = parts
	r.free -= j.gpus
	return true
}

func (r *reference) release(j *refJob) {
	j.running = false
	r.free += j.gpus
	for i, n := range j.parts {
		r.room[i] += n
	}
	j.parts = nil
}

// minute lets every running job work, and takes off those that ended.
func (r *reference) minute() {
	r.jobs = slices.DeleteFunc(r.jobs, func(j *refJob) bool {
		if !j.running {
			return false
		}
		lost := min(1, j.overhead)
		j.overhead -= lost
		j.left -= 1 - lost
		j.ran++
		j.lease++
		if j.left > 1e-9 {
			return false
		}
		j.end = r.now
		r.release(j)
		return true
	})
}

// choose takes jobs in order while they fit by count, and starts and stops accordingly.
func (r *reference) choose() {
	preempts := r.rule == "srtf" || r.rule == "edf" || r.rule == "las" || r.rule == "themis"
	list := slices.DeleteFunc(slices.Clone(r.jobs), func(j *refJob) bool { return j.running && (!preempts || r.rule == "themis" && j.lease < themisLease) })
	if !slices.IsSortedFunc(list, r.compare) {
		slices.SortFunc(list, r.compare)
	}
	room := r.free
	for _, j := range list {
		if j.running { // and may be stopped
			room += j.gpus
			j.lease = 0
		}
	}
	var start []*refJob
	for _, j := range list {
		switch {
		case j.gpus <= room:
			room -= j.gpus
			if !j.running {
				start = append(start, j)
			}
		case j.running:
			r.release(j)
		case r.rule == "fifo":
			r.start(start)
			return
		}
	}
	r.start(start)
}

// start starts the chosen jobs, the largest first; in fifo in order, and the first
// that cannot be placed holds up the others.
func (r *reference) start(list []*refJob) {
	if r.rule != "fifo" {
		slices.SortStableFunc(list, func(a, b *refJob) int { return cmp.Compare(b.gpus, a.gpus) })
	}
	for _, j := range list {
		if !r.place(j) {
			if r.rule == "fifo" {
				return
			}
			continue
		}
		j.lease = 0
		if j.running = true; j.ran > 0 {
			j.overhead = 0.5 * (1 + math.Log2(float64(j.gpus)))
		}
	}
}

// run returns the miss rate and the mean latency of best effort in minutes.
func (r *reference) run(list []trace.Job) (miss, latency float64) {
	slices.SortStableFunc(list, func(a, b trace.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	all := make([]*refJob, len(list))
	for i := range list {
		t := &list[i]
		all[i] = &refJob{order: i, gpus: t.GPUs, submit: minutes(int64(t.Submit)), left: minutes(int64(t.Duration)), job: t}
		all[i].deadline = 2 * all[i].submit // what the trace says of best effort
		if len(t.Deadlines) > 0 {
			all[i].deadline = all[i].submit + minutes(int64(t.Deadlines[0].After))
		}
	}
	r.free, r.room = 960, slices.Repeat([]int32{8}, 120)
	for next := 0; next < len(all) || len(r.jobs) > 0; r.now++ {
		r.minute()
		for ; next < len(all) && all[next].submit <= r.now; next++ {
			r.jobs = append(r.jobs, all[next])
		}
		r.choose()
	}
	return figuresOf(all)
}

// figuresOf returns the miss rate of jobs with deadlines, and the mean time of best effort.
func figuresOf(all []*refJob) (miss, latency float64) {
	slo := 0
	for _, j := range all {
		if j.job.Class == trace.BestEffort {
			latency += j.end - j.submit
			continue
		}
		if slo++; j.end > j.deadline {
			miss++
		}
	}
	return miss / float64(slo), latency / float64(len(all)-slo)
}

// referenceFigures runs the reference's rule on the Chronus trace.
func referenceFigures(t *testing.T, file, rule string, nodes bool) (miss, latency float64) {
	t.Helper()
	jobs, _, err := trace.Load(file, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var service []float64
	for i := range jobs {
		service = append(service, float64(jobs[i].GPUs)*minutes(int64(jobs[i].Duration)))
	}
	slices.Sort(service)
	r := reference{rule: rule, nodes: nodes, limit: service[len(service)/2]}
	return r.run(jobs)
}
