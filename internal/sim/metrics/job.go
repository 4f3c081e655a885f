package metrics

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// job is a job that has not ended.
type job struct {
	id        model.JobID
	spec      *model.Job
	facts     Facts
	vc        *account
	app       *app
	submitted model.Time
	started   model.Time
	apps      uint64 // integral of active apps in its VC at its submission
	gangs     []gang
	leaves    int32 // of all tasks
	nodes     int32 // most nodes that one of its attempts used
	attempts  int32
	preempted int32
	migrated  int32
	suspended int32
	gpu       uint64 // leaf-microseconds held
	effective uint64 // gpu times speed
	shared    uint64 // part of gpu while a node was shared with another gang
	wasted    uint64 // part of gpu whose work was lost
	saved     uint64 // GPU-time that it did not take, since it was stopped for its loss
	step      int64  // step of its last progress report, and how many steps there are
	total     int64
	bars      []Bar
}

// appKey names an app.
type appKey struct {
	vc  *account
	app string
}

// app is a set of jobs of one VC that are judged together. It ends when none of its jobs is
// left. Jobs of that name that come later are another app.
type app struct {
	open      int
	submitted model.Time
	apps      uint64
	work      uint64 // leaf-microseconds at full speed
	leaves    int64
}

// ended are the jobs of one VC that ended, and what happened to all its jobs.
type ended struct {
	jobs        int64 // submitted, ended or not
	jct         []int64
	rho         []float64
	durations   sum
	fairShare   sum
	fragmented  sum
	preemptions int64
	migrations  int64
	suspends    int64
	slo         int64 // jobs with a deadline
	missed      int64 // lost value of deadlines, in parts per billion of a job
	bestEffort  int64
	latency     sum
	gpu         uint64
	effective   uint64
	early       uint64     // GPU-time that jobs did not take, since they were stopped for their loss
	probed      counted    // leaf-seconds that first attempts in philly's probe pool saved
	profiled    counted    // leaf-seconds that chronus' profiler took
	first, last model.Time // first submission, last end
}

func (f *Fold) submitted(e model.JobSubmitted) {
	if !f.began {
		f.begin()
	}
	j := f.newJob(len(e.Job.Gangs))
	j.id, j.spec, j.submitted = e.ID, e.Job, f.now
	if f.o.Facts != nil {
		j.facts = f.o.Facts(e.ID, e.Job)
	}
	if j.facts.App == "" {
		j.facts.App = e.Job.Hints.App
	}
	if j.facts.Model == "" {
		j.facts.Model = e.Job.Hints.Model
	}
	a := f.account(e.Job.VC)
	j.vc = a
	if a.ended.jobs++; a.ended.jobs == 1 {
		a.ended.first = f.now
	}
	f.jobs[e.ID], f.found = j, j
	f.open++
	f.layOut(j)
	f.joinApp(j)
	for g := range j.gangs {
		f.beginWait(&j.gangs[g], 0)
	}
}

// begin starts all integrals, as the first job is submitted.
func (f *Fold) begin() {
	f.began, f.start = true, f.now
	f.leaves.last = f.now
	for _, a := range f.vcs {
		a.last = f.now
	}
	f.line.begin(f.now)
}

// newJob returns an empty job with memory for this many gangs.
func (f *Fold) newJob(gangs int) *job {
	var j *job
	if n := len(f.freedJobs); n > 0 {
		j, f.freedJobs = f.freedJobs[n-1], f.freedJobs[:n-1]
		*j = job{gangs: j.gangs[:0], bars: j.bars[:0]}
	} else {
		j = &job{}
	}
	j.gangs = slices.Grow(j.gangs, gangs)[:gangs]
	return j
}

// layOut fills in the gangs: how many leaves each needs, and of which SKUs.
func (f *Fold) layOut(j *job) {
	var room [8]int32
	of := room[:0] // role of each task
	if len(j.spec.Roles) > 1 {
		for r := range j.spec.Roles {
			for range j.spec.Roles[r].Tasks {
				of = append(of, int32(r))
			}
		}
	}
	for i := range j.spec.Gangs {
		spec := &j.spec.Gangs[i]
		g := &j.gangs[i]
		*g = gang{job: j, index: int32(i), extra: spec.Extra, slot: none}
		last := int32(none)
		for _, t := range spec.Tasks {
			r := int32(0)
			if len(of) > 0 {
				r = of[t]
			}
			g.need += j.spec.Roles[r].Leaves
			if r != last {
				g.skus |= f.maskOf(j.spec.Roles[r].SKUs)
				last = r
			}
		}
		j.leaves += g.need
	}
}

// maskOf returns the set of SKUs with these names, and anySKU for no names.
func (f *Fold) maskOf(names []cell.TypeName) uint64 {
	if len(names) == 0 {
		return anySKU
	}
	var m uint64
	for _, n := range names {
		if slices.Contains(f.leaves.skus, n) {
			m |= 1 << f.leaves.skuIndex(n)
		}
	}
	return m
}

// joinApp counts a job among those of its app, or alone as an app of its own.
func (f *Fold) joinApp(j *job) {
	a := j.vc
	if j.facts.App == "" {
		f.change(a, active, 1)
	} else {
		k := appKey{a, j.facts.App}
		if f.apps[k] == nil {
			f.change(a, active, 1)
			f.apps[k] = &app{submitted: f.now, apps: a.area[active]}
		}
		j.app = f.apps[k]
		j.app.open++
	}
	a.integrate(f.now)
	j.apps = a.area[active]
}

// leaveApp takes an ended job out of its app. The last job of an app returns its finish-time
// fairness.
func (f *Fold) leaveApp(j *job, ideal model.Duration) Number {
	a := j.vc
	a.integrate(f.now)
	alone := app{submitted: j.submitted, apps: j.apps, work: uint64(max(ideal, 0)) * uint64(j.leaves), leaves: int64(j.leaves)}
	own := f.fairness(a, &alone)
	all := own
	if j.app != nil {
		j.app.work += alone.work
		j.app.leaves += alone.leaves
		if j.app.open--; j.app.open > 0 {
			return own
		}
		all = f.fairness(a, j.app)
		delete(f.apps, appKey{a, j.facts.App})
	}
	f.change(a, active, -1)
	if all.Defined() {
		a.ended.rho = append(a.ended.rho, float64(all))
	}
	return own
}

// fairness is Themis' rho = T_sh / T_id of an app that ends now: T_sh is its time
// from submission to end, T_id = N x W / min(R_cluster, R_max), with N the number
// of active apps in its VC, averaged over its life, W its work in leaf-seconds,
// R_cluster the VC's leaves and R_max the most that it can use (NSDI'20, section 4).
func (f *Fold) fairness(a *account, p *app) Number {
	life := uint64(f.now - p.submitted)
	cluster := a.cur[quota]
	if cluster == 0 {
		cluster = f.leaves.cur[inUse] + f.leaves.cur[idle] + f.leaves.cur[bad]
	}
	leaves := min(cluster, p.leaves)
	if life == 0 || p.work == 0 || leaves == 0 {
		return undefined()
	}
	n := float64(a.area[active]-p.apps) / float64(life)
	ideal := float64(n*float64(p.work)) / float64(leaves)
	return ratio(float64(life), ideal)
}

func (f *Fold) jobEnded(e *model.JobEnded) {
	j := f.find(e.Job)
	if j == nil {
		f.fail("job %d ended and was never submitted", e.Job)
		return
	}
	for g := range j.gangs {
		f.endWait(&j.gangs[g])
		if j.gangs[g].slot != none {
			f.endAttempt(&j.gangs[g], e.Cause)
		}
	}
	f.reportJob(j, e)
	delete(f.jobs, e.Job)
	f.found = nil
	f.end = f.now
	f.gantt.offer(&f.row, j.bars)
	f.freedJobs = append(f.freedJobs, j)
	if f.open--; f.open == 0 {
		f.close()
	}
}

// close notes the integrals when no job is left, so that idle time at the end does not count.
func (f *Fold) close() {
	f.leaves.integrate(f.now)
	f.leaves.closed = f.leaves.area
	for _, a := range f.vcs {
		a.integrate(f.now)
		a.closed = a.area
	}
}

// reportJob counts a job that ended now and passes its row to Options.Ended.
func (f *Fold) reportJob(j *job, e *model.JobEnded) {
	r := f.fill(j)
	v := &j.vc.ended
	r.End, r.Phase, r.Cause, r.Class = f.now, e.Phase, e.Cause, failureClass(e)
	if e.Cause == model.EndStopped || e.Cause == model.EndTimeLimit || e.Cause == model.EndEarly {
		r.Duration = min(r.Duration, kept(j)) // it did not need the rest
	}
	r.Rho = f.leaveApp(j, r.Duration)
	jct := f.now - j.submitted
	r.Miss = missOf(j.spec, model.Duration(jct), true)
	v.jct = append(v.jct, int64(jct))
	v.durations.add(int64(r.Duration))
	v.fairShare.add(int64(r.FairShare))
	v.fragmented.add(int64(r.Fragmentation))
	v.last = f.now
	v.judge(r.Miss, int64(jct))
	f.countHeld(j)
	if f.o.Ended != nil {
		f.o.Ended(r)
	}
}

// judge counts a job's deadline, or its latency when it has none.
func (v *ended) judge(miss Number, jct int64) {
	if !miss.Defined() {
		v.bestEffort++
		v.latency.add(jct)
		return
	}
	v.slo++
	v.missed += int64(math.Round(float64(miss) * billion))
}

const billion = 1_000_000_000

// countHeld adds what a job held to its VC.
func (f *Fold) countHeld(j *job) {
	v := &j.vc.ended
	v.gpu += j.gpu
	v.effective += j.effective
}

// kept is the work of the job's gang with the most work that counts.
func kept(j *job) model.Duration {
	most := model.Duration(0)
	for i := range j.gangs {
		most = max(most, model.Duration(j.gangs[i].kept))
	}
	return most
}

// fill fills in the row of a job with what is known now.
func (f *Fold) fill(j *job) *Row {
	f.row = Row{ID: j.id, TraceID: j.facts.TraceID, Name: string(j.spec.Name), VC: string(j.vc.name), User: string(j.spec.User),
		App: j.facts.App, Model: j.facts.Model, GPUs: j.leaves, Nodes: j.nodes, Submit: j.submitted, Start: j.started,
		Duration: j.facts.Duration, Attempts: j.attempts, Preemptions: j.preempted, Migrations: j.migrated,
		Suspends: j.suspended, GPU: j.gpu, Effective: j.effective, Shared: j.shared, Wasted: j.wasted, Saved: j.saved,
		Rho: undefined(), Miss: undefined()}
	r := &f.row
	if r.Duration == 0 {
		r.Duration = kept(j)
	}
	var fair, frag, back sum
	var weight int64
	for i := range j.gangs {
		g := &j.gangs[i]
		if !g.extra {
			n := int64(g.need)
			weight += n
			fair.add(n * int64(g.fair))
			frag.add(n * int64(g.frag))
			back.add(n * int64(g.backOff))
		}
	}
	r.FairShare, r.Fragmentation, r.BackOff = fair.over(weight), frag.over(weight), back.over(weight)
	return r
}

// missOf is the part of a job's value that it lost (Chronus): 1 - v/v1, where v is the value
// of the first deadline that it met, and v1 that of the first deadline of all. It is not
// defined without a deadline, for best effort, and while a deadline of a job that has not
// ended lies ahead.
func missOf(spec *model.Job, jct model.Duration, over bool) Number {
	ds := spec.Hints.Deadlines
	if len(ds) == 0 || spec.Hints.Class == "besteffort" || ds[0].Value <= 0 {
		return undefined()
	}
	for _, d := range ds {
		switch {
		case jct <= d.After && !over:
			return undefined()
		case jct <= d.After:
			return Number(1 - float64(d.Value)/float64(ds[0].Value))
		}
	}
	return 1
}

// failureClass says why a job failed; "" when it did not.
func failureClass(e *model.JobEnded) string {
	switch {
	case e.Phase != model.Failed:
		return ""
	case e.Exit.Cause != "":
		return string(e.Exit.Cause)
	case e.Cause == model.EndTimeLimit:
		return e.Cause.String()
	case e.Exit.Signal != 0:
		return "signal " + strconv.Itoa(int(e.Exit.Signal))
	case e.Exit.Code != 0:
		return "exit " + strconv.Itoa(int(e.Exit.Code))
	}
	return e.Cause.String()
}

// stopWaiting ends the waits of a job that will start no more, or not before it is retried.
func (f *Fold) stopWaiting(id model.JobID) {
	if j := f.find(id); j != nil {
		for g := range j.gangs {
			f.endWait(&j.gangs[g])
		}
	}
}

// retried puts a gang into the queue again; after a failure its work begins anew.
func (f *Fold) retried(e *model.TaskRetried) {
	j := f.find(e.Job)
	if j == nil || int(e.Gang) >= len(j.gangs) {
		return
	}
	if e.Counted {
		j.gangs[e.Gang].kept = 0
	}
	f.beginWait(&j.gangs[e.Gang], e.After)
}

func (f *Fold) jobRetried(e *model.JobRetried) {
	if j := f.find(e.Job); j != nil {
		for g := range j.gangs {
			j.gangs[g].kept = 0
			f.beginWait(&j.gangs[g], e.After)
		}
	}
}

// eachGang calls do for the gangs of all jobs, in order of job.
func (f *Fold) eachGang(do func(*gang)) {
	for _, id := range slices.Sorted(maps.Keys(f.jobs)) {
		for g := range f.jobs[id].gangs {
			do(&f.jobs[id].gangs[g])
		}
	}
}
