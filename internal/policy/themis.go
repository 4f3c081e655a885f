package policy

import (
	"cmp"
	"iter"
	"math"
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
	// round=300 seconds, at most a quarter of a lease: leases that end in one round, counted
	// from 1970, are auctioned together at its end (ours: a larger offer, and fewer auctions).
	round sched.Duration
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
		lease:   a.seconds("lease", 1200, 1, maxLease),
		auction: a.flag("auction", true),
		seed:    a.number("seed", 1, 0, 1<<40),
		slow:    a.factors("slow"),
	}
	t.round = a.seconds("round", min(300, int64(t.lease/sched.Second)/4), 0, maxLease)
	if t.round > t.lease/4 {
		a.wrong = append(a.wrong, `parameter "round" of policy "themis" must be at most a quarter of "lease"`)
	}
	return t
}

// maxLease bounds a lease to a year.
const maxLease = 366 * 86_400

// grace is how long after its lease has ended a gang may be lifted, until its next
// lease begins: until its round ends, and a little longer, for a server may look late.
func (t *themis) grace() sched.Duration { return t.round + min(t.lease/20+1, sched.Minute) }

// expired reports whether a gang's lease has just ended.
func (t *themis) expired(g *sched.GangView, now sched.Time) bool {
	if g.Started == 0 {
		return false
	}
	ran := sched.Duration(now - g.Started)
	return ran >= t.lease && ran%t.lease < t.grace()
}

// NextChange implements sched.Timed: the end of the first round in which a lease ends.
func (t *themis) NextChange(v sched.View) sched.Time {
	var next sched.Time
	for g := range v.Running() {
		if g.Started == 0 {
			continue
		}
		ran := sched.Duration(v.Now() - g.Started)
		at := t.roundUp(g.Started.Add(ran / t.lease * t.lease))
		if ran < t.lease || at <= v.Now() {
			at = t.roundUp(g.Started.Add((ran/t.lease + 1) * t.lease))
		}
		if next == 0 || at < next {
			next = at
		}
	}
	return next
}

// roundUp is the end of the round in which an instant is.
func (t *themis) roundUp(at sched.Time) sched.Time {
	if t.round == 0 {
		return at
	}
	r := sched.Time(t.round)
	return (at + r - 1) / r * r
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
	apps    []*app
	free    int64
	leaving int64 // GPUs of the gangs whose lease has ended
	more    int   // apps that wait for something that could be free, and were not read
	// expired are those gangs, of the smallest rho first.
	expired []expired
}

type expired struct {
	gang sched.GangView
	app  int
	won  bool // its cells again
}

// sampled is how many gangs of one shape and about one run time are read, the first
// submitted: of equal run times they have the largest rho.
const sampled = 4

// byApp is how gangs that wait are told apart.
const byApp = sched.ByApp | sched.ByLength

// reader makes apps of gangs.
type reader struct {
	m     *market
	named map[string]int
	jobs  map[sched.JobID]int // of several gangs
	room  []app
}

// app returns the app of a gang.
func (r *reader) app(g *sched.GangView) *app {
	at, known := 0, false
	switch {
	case g.Hints.App != "":
		at, known = r.named[g.Hints.App]
	case g.Gangs > 1:
		at, known = r.jobs[g.Ref.Job]
	}
	if !known {
		at = len(r.m.apps)
		if len(r.room) == 0 {
			r.room = make([]app, 64)
		}
		r.room[0].name = g.Hints.App
		r.m.apps, r.room = append(r.m.apps, &r.room[0]), r.room[1:]
		if g.Hints.App != "" {
			r.named[g.Hints.App] = at
		} else if g.Gangs > 1 {
			r.jobs[g.Ref.Job] = at
		}
	}
	return r.m.apps[at]
}

// market reads the view: who runs, and the first of those who wait.
func (t *themis) market(v sched.View) *market {
	m := &market{t: t, v: v, now: v.Now(), total: v.Guaranteed(), free: min(v.Free(), 1<<40)}
	r := reader{m: m, named: map[string]int{}, jobs: map[sched.JobID]int{}}
	var runs []sched.GangView
	for g := range v.Running() {
		runs = append(runs, g)
		if t.expired(&g, m.now) {
			m.leaving += int64(g.Leaves)
		}
	}
	some := false
	lines := v.Lines(byApp, func(l *sched.Line) int {
		useful := int64(l.Leaves) <= m.free+m.leaving
		some = some || useful
		switch {
		case l.Party.Length < 0 || l.Leaves == 0:
			return math.MaxInt
		case !useful:
			return 0
		case !t.auction:
			return math.MaxInt
		}
		return sampled
	})
	if !some {
		return m // nobody could get anything
	}
	m.apps = make([]*app, 0, len(runs)+2*len(lines))
	for i := range runs {
		a := r.app(&runs[i])
		a.add(t, &runs[i])
		a.runs = join(a.runs, runs[i:i+1])
		a.held += int64(runs[i].Leaves)
	}
	for i := range lines {
		l := &lines[i]
		for k := range l.First {
			a := r.app(&l.First[k])
			a.add(t, &l.First[k])
			a.waits = join(a.waits, l.First[k:k+1])
		}
		if n := l.Gangs - len(l.First); n > 0 {
			m.count += int64(n)
			if int64(l.Leaves) <= m.free+m.leaving {
				m.more += n
			}
		}
	}
	for i := range m.apps { // lines come in no order
		slices.SortFunc(m.apps[i].waits, func(a, b sched.GangView) int { return compareGangs(&a, &b) })
	}
	m.count += int64(len(m.apps))
	m.rank()
	return m
}

// join appends one gang; the first costs nothing.
func join(to, one []sched.GangView) []sched.GangView {
	if to == nil {
		return one[:1:1]
	}
	return append(to, one[0])
}

// rank sorts the apps by rho, the largest first, and lists whose lease has ended.
func (m *market) rank() {
	for i := range m.apps {
		a := m.apps[i]
		a.rho = m.fairness(a, a.most, 1000)
	}
	slices.SortFunc(m.apps, func(a, b *app) int { return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.order, b.order)) })
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
		a := m.apps[i]
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
