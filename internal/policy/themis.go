package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/policy/auction"
	"github.com/combsched/comb/internal/sched"
)

// themis is finish-time fairness (Mahajan et al., NSDI'20). An app is a set of jobs
// that belong together, such as a hyper-parameter search, or else a job by itself.
// Its finish-time fairness rho is the time that it takes in the shared VC divided by
// the time that it would take on its equal part; nobody is worse off for sharing
// where rho is at most 1. Who has the largest rho is served first.
//
// A gang holds its cells for a lease. At the end of each lease, counted from its
// start, it may be lifted by a gang of its own priority; when nobody takes its cells
// it goes on for another lease, which costs nothing.
type themis struct {
	// f=0.8: the 1-f of the apps with the largest rho bid in the auction; in
	// thousandths. The paper's value.
	f int64
	// lease=1200 seconds, the paper's value.
	lease sched.Duration
	// auction=on; off serves by rho alone.
	auction bool
	// seed of the order in which the others get leftovers.
	seed int64
	// slow=MODEL:FACTOR/...: how many times longer a job of a model takes on more
	// nodes than it needs, in thousandths.
	slow map[string]int64
}

func newThemis(a *args) sched.Policy {
	t := &themis{
		f:       a.thousandths("f", 800, 0, 1000),
		lease:   sched.Duration(a.number("lease", 1200, 1, maxLease)) * sched.Second,
		auction: a.flag("auction", true),
		seed:    a.number("seed", 1, 0, 1<<40),
		slow:    a.factors("slow"),
	}
	return t
}

// maxLease bounds a lease to a year.
const maxLease = 366 * 86_400

// grace is how long after its lease has ended a gang may be lifted, until its next
// lease begins: a server may look a little late.
func (t *themis) grace() sched.Duration { return min(t.lease/20+1, sched.Minute) }

// expired reports whether a gang's lease has just ended.
func (t *themis) expired(g *sched.GangView, now sched.Time) bool {
	if g.Started == 0 {
		return false
	}
	ran := sched.Duration(now - g.Started)
	return ran >= t.lease && ran%t.lease < t.grace()
}

// NextChange implements sched.Timed: the end of the next lease.
func (t *themis) NextChange(v sched.View) sched.Time {
	var next sched.Time
	for g := range v.Running() {
		if g.Started == 0 {
			continue
		}
		n := (v.Now() - g.Started) / sched.Time(t.lease)
		if at := g.Started + (n+1)*sched.Time(t.lease); next == 0 || at < next {
			next = at
		}
	}
	return next
}

// Rank implements sched.Policy.
func (t *themis) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		m := t.market(v)
		if m.apps == nil {
			return
		}
		if t.auction {
			m.sell(yield)
		} else {
			m.serve(yield)
		}
	}
}

// app is what a set of jobs that have not ended needs and holds.
type app struct {
	name  string // of Hints.App; "" is a job by itself
	order int64
	// start is when the first of its jobs that have not ended was submitted: a trial
	// that stopped early takes its work and its time with it.
	start   sched.Time
	work    int64 // GPU-microseconds of all its jobs, and what is left of them
	left    int64
	longest int64 // run time of its longest job, and of the one with most left
	last    int64
	most    int64 // GPUs of all its gangs, and of those that hold cells
	held    int64
	slow    int64 // of its most sensitive job, in thousandths
	runs    []sched.GangView
	waits   []sched.GangView
	rho     int64
}

// length is the run time of a gang: as declared, or a little more than it ran if that
// is more; where nothing is declared, twice what it ran, at least a lease.
func (t *themis) length(g *sched.GangView) int64 {
	if g.Hints.Duration <= 0 {
		return max(2*int64(g.Ran), int64(t.lease))
	}
	return max(int64(g.Hints.Duration), int64(g.Ran)+1)
}

func (a *app) add(t *themis, g *sched.GangView) {
	if a.most == 0 {
		a.start, a.order, a.slow = g.Submitted, g.Order, auction.PPM/1000
	}
	a.start, a.order = min(a.start, g.Submitted), min(a.order, g.Order)
	length := t.length(g)
	left := length - int64(g.Ran)
	a.work = plus(a.work, times(length, g.Leaves))
	a.left = plus(a.left, times(left, g.Leaves))
	a.longest, a.last = max(a.longest, length), max(a.last, left)
	a.most += int64(g.Leaves)
	a.slow = max(a.slow, t.slow[g.Hints.Model])
}

// alone is the time that the app would take on an equal part of the VC, T_id. The
// paper has N times the time on the whole VC, which for an app that cannot use all
// of that is longer than its part takes, and the same for one that can.
func (a *app) alone(total, apps int64) int64 {
	part := scale(a.work, apps, max(total, 1)) // on total/apps GPUs
	if a.most*apps <= total {
		part = a.work / a.most
	}
	return max(part, a.longest, 1)
}

// shared is the time that it takes from its start, T_sh, if from now on it holds so
// many GPUs, slowed down by spreading: all that is left at the speed of these, and
// not less than the job with most left. With none it waits for a lease.
func (a *app) shared(t *themis, now sched.Time, gpus, slow int64) int64 {
	past := int64(now - a.start)
	if gpus == 0 {
		past, gpus = past+int64(t.lease), a.most
	}
	left := max(a.left/gpus, a.last)
	return plus(past, scale(left, slow, 1000))
}

// fairness is rho in parts per million.
func (m *market) fairness(a *app, gpus, slow int64) int64 {
	return max(scale(a.shared(m.t, m.now, gpus, slow), auction.PPM, a.alone(m.total, m.count)), 1)
}

// market is who wants what at one decision.
type market struct {
	t       *themis
	v       sched.View
	now     sched.Time
	total   int64
	count   int64 // of apps
	apps    []app
	free    int64
	leaving int64 // GPUs of the gangs whose lease has ended
	// expired are those gangs, of the smallest rho first.
	expired []expired
}

type expired struct {
	gang sched.GangView
	app  int
	won  bool // its cells again
}

// market reads the view.
func (t *themis) market(v sched.View) *market {
	m := &market{t: t, v: v, now: v.Now(), total: v.Guaranteed(), free: min(v.Free(), 1<<40)}
	named := map[string]int{}
	jobs := map[sched.JobID]int{} // that run
	last := sched.JobID(0)        // the job that was read last
	find := func(g *sched.GangView, running bool) *app {
		at, ok := jobs[g.Ref.Job]
		if g.Hints.App != "" {
			at, ok = named[g.Hints.App]
		} else if !ok && g.Ref.Job == last {
			at, ok = len(m.apps)-1, true
		}
		if !ok {
			at = len(m.apps)
			m.apps = append(m.apps, app{name: g.Hints.App})
			if g.Hints.App != "" {
				named[g.Hints.App] = at
			} else if last = g.Ref.Job; running {
				jobs[last] = at
			}
		}
		m.apps[at].add(t, g)
		return &m.apps[at]
	}
	for g := range v.Running() {
		a := find(&g, true)
		a.runs = append(a.runs, g)
		a.held += int64(g.Leaves)
		if t.expired(&g, m.now) {
			m.leaving += int64(g.Leaves)
		}
	}
	if last = 0; m.free+m.leaving == 0 && len(v.Parties(sched.ByApp, false)) == 0 {
		m.apps = nil // nobody could get anything
		return m
	}
	for g := range v.Waiting() {
		a := find(&g, false)
		a.waits = append(a.waits, g)
	}
	m.count = int64(len(m.apps))
	m.rank()
	return m
}

// rank sorts the apps by rho, the largest first, and lists whose lease has ended.
func (m *market) rank() {
	for i := range m.apps {
		a := &m.apps[i]
		a.rho = m.fairness(a, a.most, 1000)
	}
	slices.SortFunc(m.apps, func(a, b app) int { return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.order, b.order)) })
	for i := len(m.apps) - 1; i >= 0; i-- {
		from := len(m.expired)
		for _, g := range m.apps[i].runs {
			if m.t.expired(&g, m.now) {
				m.expired = append(m.expired, expired{gang: g, app: i})
			}
		}
		slices.SortFunc(m.expired[from:], func(a, b expired) int { return compareGangs(&b.gang, &a.gang) })
	}
}

// compareGangs orders gangs by submission.
func compareGangs(a, b *sched.GangView) int {
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Ref.Gang, b.Ref.Gang))
}

// serve yields the gangs by the rho of their apps. Over are the gangs of apps with a
// smaller one whose leases have ended.
func (m *market) serve(yield func(sched.Wish) bool) {
	for i := range m.apps {
		a := &m.apps[i]
		for k := range a.waits {
			if fits(&a.waits[k], m.free+m.leaving) && !yield(sched.Wish{Gang: a.waits[k].Ref, Over: m.over(func(e *expired) bool { return m.apps[e.app].rho < a.rho })}) {
				return
			}
		}
	}
}

// over yields the gangs that may be lifted, nil where there are none.
func (m *market) over(may func(*expired) bool) iter.Seq[sched.GangRef] {
	if len(m.expired) == 0 || !slices.ContainsFunc(m.expired, func(e expired) bool { return may(&e) }) {
		return nil
	}
	return func(yield func(sched.GangRef) bool) {
		for i := range m.expired {
			if e := &m.expired[i]; may(e) && !yield(e.gang.Ref) {
				return
			}
		}
	}
}
