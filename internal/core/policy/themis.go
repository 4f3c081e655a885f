package policy

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// themis is finish-time fairness (Mahajan et al., NSDI'20). An app is a set of jobs that belong
// together, such as a hyper-parameter search, or else a job by itself. Its finish-time fairness
// rho is the time that it takes in the shared VC divided by the time that it would take on its
// equal part; no app is worse off for sharing where rho is at most 1. The app with the largest
// rho is served first.
//
// A gang holds its cells for a lease. At the end of each lease, counted from its start, a gang
// of its own priority may preempt it. If none takes its cells it goes on for another lease,
// which costs nothing.
type themis struct {
	// f=0.8: the 1-f of the apps with the largest rho bid in the auction; in
	// thousandths. The paper's value.
	f int64
	// lease=1200 seconds, the paper's value.
	lease model.Duration
	// round=300 seconds, at most a quarter of a lease: leases that end in one round, counted
	// from 1970, are auctioned together at its end (ours: a larger offer, and fewer auctions).
	round model.Duration
	// auction=on; off serves by rho alone.
	auction bool
	// seed of the random order in which apps that did not bid get leftovers.
	seed int64
	// slow=MODEL:FACTOR/...: how many times longer a job of a model takes on more nodes than it
	// needs, in thousandths (placement sensitivity).
	slow map[string]int64
}

func newThemis(a *args) model.Policy {
	t := &themis{
		f:       a.thousandths("f", 800, 0, 1000),
		lease:   a.seconds("lease", 1200, 1, maxLease),
		auction: a.flag("auction", true),
		seed:    a.number("seed", 1, 0, 1<<40),
		slow:    a.factors("slow"),
	}
	t.round = a.seconds("round", min(300, int64(t.lease/model.Second)/4), 0, maxLease)
	if t.round > t.lease/4 {
		a.refuse("round", `parameter "round" of policy "themis" must be at most a quarter of "lease"`)
	}
	return t
}

// maxLease bounds a lease to a year.
const maxLease = 366 * 86_400

// RestrictsNodes implements model.RestrictsNodes: a winner is placed on the nodes that it won.
func (t *themis) RestrictsNodes() bool { return t.auction }

// offered reports whether the cells of a gang that started then are auctioned now: the round in
// which its lease ended is over since the last decision. If no gang waited by then it holds
// them for another lease, whatever other VCs had decided meanwhile.
func (m *market) offered(started model.Time) bool {
	if started == 0 || m.now < started.Add(m.t.lease) {
		return false
	}
	end := m.t.roundUp(m.t.lastEnd(started, m.now))
	return m.before < end && end <= m.now && m.waited <= end
}

// waitsSince is since when a gang waits, as far as the first few tell.
func waitsSince(v model.View) (first model.Time) {
	n := 0
	for g := range v.Waiting() {
		if n == 0 || g.Since < first {
			first = g.Since
		}
		if n++; n == sampled {
			break
		}
	}
	return first
}

// lastEnd is when the last lease of a gang that started then has ended, or the first will.
func (t *themis) lastEnd(started, now model.Time) model.Time {
	return started.Add(max(model.Duration(now-started)/t.lease, 1) * t.lease)
}

// Stand implements model.RunKeyed: gangs that are apps by themselves first, by when they
// started.
func (t *themis) Stand(g *model.GangView) model.Key {
	k := model.Key{Then: int64(g.Started)}
	if g.Hints.App != "" || g.Gangs > 1 {
		k.Rank = 1
	}
	return k
}

// NextChange implements model.Timed: the end of the first round in which a lease ends.
func (t *themis) NextChange(v model.View) model.Time {
	var next model.Time
	now := v.Now()
	over := now // the end of the last round
	if t.round > 0 {
		over -= now % model.Time(t.round)
	}
	for r := range v.RunningByKey() {
		started := model.Time(r.Key.Then)
		if started == 0 {
			continue
		}
		at := t.lastEnd(started, now)
		if at <= over {
			at = at.Add(t.lease)
		}
		if next == 0 || at < next {
			next = at
		}
	}
	return t.roundUp(next)
}

// roundUp is the end of the round in which an instant is.
func (t *themis) roundUp(at model.Time) model.Time {
	if t.round == 0 {
		return at
	}
	r := model.Time(t.round)
	return (at + r - 1) / r * r
}

// Rank implements model.Policy.
func (t *themis) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		scratch := v.Scratch()
		m, ok := (*scratch).(*market)
		if !ok {
			m = &market{}
		}
		*scratch = nil // while it is in use
		switch some := m.open(t, v); {
		case some && t.auction:
			m.holdAuction(yield)
		case some:
			m.serve(yield)
		}
		*scratch = m
	}
}

// app is a set of jobs that have not ended: what they need and what they hold.
type app struct {
	order int64
	// start is when the first of its jobs that have not ended was submitted: a trial
	// that stopped early takes its work and its time with it.
	start   model.Time
	work    int64 // total GPU-microseconds of all its jobs, and what is left of them
	left    int64
	longest int64 // run time of its longest job, and what is left of the one with most left
	last    int64
	most    int64 // GPUs of all its gangs, and of the running ones
	held    int64
	slow    int64 // of its job most sensitive to placement, in thousandths
	ended   int   // of its gangs, how many leases
	waits   []*model.GangView
	rho     int64
	bids    int // its place among the bidders, from 1; 0 is none
}

// before orders apps by rho, the largest first, then by submission.
func (a *app) before(b *app) int {
	return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.order, b.order))
}

// length is the run time of a gang: as declared, or a little more than it ran if that
// is more; where nothing is declared, twice what it ran, at least a lease.
func (t *themis) length(g *model.GangView) int64 {
	if g.Hints.Duration <= 0 {
		return max(2*int64(g.Ran), int64(t.lease))
	}
	return max(int64(g.Hints.Duration), int64(g.Ran)+1)
}

func (a *app) add(t *themis, g *model.GangView) {
	if a.most == 0 {
		a.start, a.order, a.slow = g.Submitted, g.Order, PPM/1000
	}
	a.start, a.order = min(a.start, g.Submitted), min(a.order, g.Order)
	length := t.length(g)
	left := length - int64(g.Ran)
	a.work = plus(a.work, times(length, g.Leaves))
	a.left = plus(a.left, times(left, g.Leaves))
	a.longest, a.last = max(a.longest, length), max(a.last, left)
	a.most += int64(g.Leaves)
	a.slow = max(a.slow, t.slowed(g))
}

// slowed is how many times longer a gang takes on more nodes than it needs.
func (t *themis) slowed(g *model.GangView) int64 {
	if len(t.slow) == 0 {
		return 0
	}
	return t.slow[g.Hints.Model]
}

// independentTime is T_ID, the time that the app would take on an equal part of the VC. The paper
// has N times the time on the whole VC, which for an app that cannot use all of that is longer than
// its part takes, and the same for one that can.
func (a *app) independentTime(total, apps int64) int64 {
	part := scale(a.work, apps, max(total, 1)) // on total/apps GPUs
	if a.most*apps <= total {
		part = a.work / a.most
	}
	return max(part, a.longest, 1)
}

// sharedTime is T_SH, the time that the app takes from its start if from now on it holds so many
// GPUs, slowed down by spreading: all that is left at the speed of these, and not less than the
// job with most left. With none it waits for a lease.
func (a *app) sharedTime(t *themis, now model.Time, gpus, slow int64) int64 {
	past := int64(now - a.start)
	if gpus == 0 {
		past, gpus = past+int64(t.lease), a.most
	}
	left := max(a.left/gpus, a.last)
	return plus(past, scale(left, slow, 1000))
}

// fairness is rho in parts per million.
func (m *market) fairness(a *app, gpus, slow int64) int64 {
	return max(scale(a.sharedTime(m.t, m.now, gpus, slow), PPM, a.independentTime(m.total, m.count)), 1)
}

// singleRho is rho of a waiting gang that is an app by itself, if it gets all its GPUs.
func (m *market) singleRho(g *model.GangView) int64 {
	length, leaves := m.t.length(g), int64(g.Leaves)
	if length > unknown/max(leaves, 1) || leaves == 0 {
		var a app
		a.add(m.t, g)
		return m.fairness(&a, a.most, 1000)
	}
	alone := length
	if leaves*m.count > m.total {
		alone = max(scale(length*leaves, m.count, max(m.total, 1)), length)
	}
	shared := plus(int64(m.now-g.Submitted), length-int64(g.Ran))
	return max(scale(shared, PPM, max(alone, 1)), 1)
}

// below reports whether singleRho(g) is less than rho, by a bound that needs no division; false may
// also mean that the bound does not show it. Most gangs need no more.
func (m *market) below(g *model.GangView, rho int64) bool {
	length, leaves := m.t.length(g), int64(g.Leaves)
	if leaves != m.parts.leaves {
		m.parts.leaves, m.parts.of = leaves, max(leaves*m.count/max(m.total, 1), 1)
	}
	over, alone := bits.Mul64(uint64(length), uint64(m.parts.of)) // at least so long
	if over > 0 || length < int64(g.Ran) || m.now < g.Submitted {
		return false
	}
	hi, lo := bits.Mul64(uint64(plus(int64(m.now-g.Submitted), length-int64(g.Ran))), PPM)
	least, rest := bits.Mul64(uint64(rho), max(alone, 1))
	return hi < least || hi == least && lo < rest
}

// market is the state of one decision: the apps, and what they hold and want. Most gangs are
// apps by themselves: running ones whose leases go on are only counted, and waiting ones become
// apps when they bid. Its memory is its own, and is used again by the next decision.
type market struct {
	marketNow
	apps    []app
	made    []app             // apps made of singles
	singles []*model.GangView // that wait, of the lines in which one could get cells
	crowded []crowded
	aged    []aged
	large   []*model.GangView  // the first that wait of the other lines, when a round ends
	lines   []model.ShapeGroup // lines that were not read to their end
	// expired are the gangs whose lease has ended, of the smallest rho first.
	expired []expired

	runs         []leased
	views        []model.GangView      // of the gangs in runs
	offeredOfJob map[model.JobID]int32 // how many gangs of a job are offered for auction
	named        map[string]int        // index in apps, by name
	jobs         map[model.JobID]int   // index in apps, by job: for jobs of several gangs without an app
	bidders      []*app
	agents       []agent
	asked        []Agent
	lots         []lot
	offer        []int32
	turns        []turn
	room         []int32 // scratch memory of bids
	used         int     // of it
	arbiter      Arbiter
	winner       *app // the app that is served now
	losers       iter.Seq[model.GangRef]
}

// marketNow is the part of a market that is made anew for each decision.
type marketNow struct {
	t           *themis
	v           model.View
	now         model.Time
	before      model.Time // the last decision
	waited      model.Time // since when a gang waits
	total       int64
	count       int64 // of apps
	free        int64
	leaving     int64                      // GPUs of the gangs whose lease has ended
	more        int                        // waiting apps that were not read, and might fit
	roundClosed bool                       // a round in which a lease ended is over
	largest     int32                      // GPUs of the largest lot
	parts       struct{ leaves, of int64 } // how many times longer so many leaves take on an equal part
}

// leased is a gang that runs; ended says that its lease has ended, and that it may be
// preempted.
type leased struct {
	ref   model.GangRef
	ended bool
}

type expired struct {
	gang *model.GangView
	app  *app
	won  bool // its cells again
}

// sampled is how many gangs of one shape and about one run time are read, the first
// submitted: of equal run times they have the largest rho.
const sampled = 4

// byApp is how gangs that wait are told apart.
const byApp = model.ByApp | model.ByLength

// open reads the view: the running gangs, and the first of the waiting ones. It is false where
// no gang could get anything.
func (m *market) open(t *themis, v model.View) (some bool) {
	m.marketNow = marketNow{t: t, v: v, now: v.Now(), before: v.LastDecision(), total: v.Guaranteed(), free: min(v.Free(), 1<<40)}
	m.runs = m.runs[:0]
	passed := t.round == 0 || m.now/model.Time(t.round) > m.before/model.Time(t.round)
	if passed { // else no round is over, and no lease up for auction
		m.waited = waitsSince(v)
		m.stand(passed)
	}
	lines := v.ShapeGroups(byApp, func(l *model.ShapeGroup) int {
		useful := m.reachable(l)
		some = some || useful || m.roundClosed && int64(l.Leaves) <= m.total
		switch {
		case grouped(l):
			return math.MaxInt
		case !useful && m.roundClosed:
			return 1
		case !useful:
			return 0
		case !t.auction:
			return math.MaxInt
		}
		return sampled
	})
	if !some {
		return false
	}
	if !passed {
		m.stand(passed)
	}
	m.read(lines)
	m.rank()
	return true
}

// stand reads the running gangs; passed says that a round is over, in which leases may have
// ended.
func (m *market) stand(passed bool) {
	clear(m.offeredOfJob)
	for r := range m.v.RunningByKey() {
		ended := passed && m.ended(&r)
		if ended {
			m.leaving += int64(r.Leaves)
		}
		if ended || r.Key.Rank > 0 {
			m.runs = append(m.runs, leased{r.Ref, ended})
		} else {
			m.count++
		}
	}
}

// ended reports whether the lease of a gang has ended and others may have its cells. A gang
// that may not be preempted, or not yet, keeps them, and bids for none. Of a job with several
// gangs no more are offered than its budget of preemptions allows.
func (m *market) ended(r *model.Ranked) bool {
	if !m.offered(model.Time(r.Key.Then)) {
		return false
	}
	m.roundClosed = true
	left := m.v.Yields(r.Ref)
	if r.Key.Rank > 0 && left > 0 {
		if m.offeredOfJob == nil {
			m.offeredOfJob = map[model.JobID]int32{}
		}
		left -= m.offeredOfJob[r.Ref.Job]
		m.offeredOfJob[r.Ref.Job]++
	}
	return left > 0
}

// reachable reports whether there could be as many free GPUs as each gang of a line
// asks for.
func (m *market) reachable(l *model.ShapeGroup) bool { return int64(l.Leaves) <= m.free+m.leaving }

// read makes apps of the gangs in runs and of the waiting ones in grouped lines, and counts the
// others.
func (m *market) read(lines []model.ShapeGroup) {
	n := len(m.runs)
	for i := range lines {
		if l := &lines[i]; grouped(l) {
			n += len(l.First)
		}
	}
	m.apps, m.views = slices.Grow(m.apps[:0], n), slices.Grow(m.views[:0], len(m.runs))
	m.singles, m.large, m.lines, m.expired = m.singles[:0], m.large[:0], m.lines[:0], m.expired[:0]
	clear(m.named)
	clear(m.jobs)
	for _, r := range m.runs {
		m.views = append(m.views, m.v.Gang(r.ref))
		g := &m.views[len(m.views)-1]
		a := m.app(g)
		a.add(m.t, g)
		a.held += int64(g.Leaves)
		if r.ended {
			a.ended++
			m.expired = append(m.expired, expired{gang: g, app: a})
		}
	}
	for i := range lines {
		l := &lines[i]
		if rest := l.Gangs - len(l.First); rest > 0 {
			m.count += int64(rest)
			if m.reachable(l) {
				m.more += rest
				m.lines = append(m.lines, *l)
			}
		}
		for k := range l.First {
			g := &l.First[k]
			switch {
			case grouped(l):
			case m.reachable(l):
				m.singles = append(m.singles, g)
				continue
			default:
				m.large = append(m.large, g)
				continue
			}
			a := m.app(g)
			a.add(m.t, g)
			a.waits = append(a.waits, g)
		}
	}
	m.count += int64(len(m.apps) + len(m.singles) + len(m.large))
}

// grouped reports whether the gangs of a line may belong to apps of several, or are cases
// of their own.
func grouped(l *model.ShapeGroup) bool { return l.Party.Length < 0 || l.Leaves == 0 }

// app returns the app of a gang.
func (m *market) app(g *model.GangView) *app {
	if m.named == nil && (g.Hints.App != "" || g.Gangs > 1) {
		m.named, m.jobs = map[string]int{}, map[model.JobID]int{}
	}
	at, known := 0, false
	switch {
	case g.Hints.App != "":
		at, known = m.named[g.Hints.App]
	case g.Gangs > 1:
		at, known = m.jobs[g.Ref.Job]
	}
	if known {
		return &m.apps[at]
	}
	at = len(m.apps)
	m.apps = m.apps[:at+1]
	a := &m.apps[at]
	*a = app{waits: a.waits[:0]}
	if g.Hints.App != "" {
		m.named[g.Hints.App] = at
	} else if g.Gangs > 1 {
		m.jobs[g.Ref.Job] = at
	}
	return a
}

// rank computes the rho of the apps, and sorts the gangs whose lease has ended.
func (m *market) rank() {
	for i := range m.apps {
		a := &m.apps[i]
		a.rho = m.fairness(a, a.most, 1000)
		slices.SortFunc(a.waits, compareGangs) // lines come in no order
	}
	slices.SortFunc(m.expired, func(a, b expired) int {
		return cmp.Or(b.app.before(a.app),
			compareGangs(b.gang, a.gang))
	})
}

// compareGangs orders gangs by submission.
func compareGangs(a, b *model.GangView) int {
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Ref.Gang, b.Ref.Gang))
}

// singleApp makes an app of a gang that waits and is one by itself; there is room for it.
func (m *market) singleApp(at int) *app {
	m.made = append(m.made, app{})
	a := &m.made[len(m.made)-1]
	a.add(m.t, m.singles[at])
	a.waits, a.rho = m.singles[at:at+1:at+1], m.singleRho(m.singles[at])
	return a
}

// serve yields the gangs by the rho of their apps. Preemptible are the gangs of apps with a
// smaller one whose leases have ended.
func (m *market) serve(yield func(model.Wish) bool) {
	var all []*app
	for i := range m.apps {
		all = append(all, &m.apps[i])
	}
	m.made = slices.Grow(m.made[:0], len(m.singles))
	for i := range m.singles {
		all = append(all, m.singleApp(i))
	}
	slices.SortFunc(all, (*app).before)
	for _, a := range all {
		for _, g := range a.waits {
			if fits(g, m.free+m.leaving) && !yield(model.Wish{Gang: g.Ref, Preemptible: m.over(func(e *expired) bool { return e.app.rho < a.rho })}) {
				return
			}
		}
	}
	m.offers()
	m.collect(yield)
}

// over yields the gangs that may be preempted, nil where there are none.
func (m *market) over(may func(*expired) bool) iter.Seq[model.GangRef] {
	if len(m.expired) == 0 || !slices.ContainsFunc(m.expired, func(e expired) bool { return may(&e) }) {
		return nil
	}
	return func(yield func(model.GangRef) bool) {
		for i := range m.expired {
			if e := &m.expired[i]; may(e) && !yield(e.gang.Ref) {
				return
			}
		}
	}
}

// LeaseEnds implements model.Leaser: leases are counted from a gang's start.
func (t *themis) LeaseEnds(started, now model.Time) model.Time {
	return started.Add((model.Duration(max(now-started, 0))/t.lease + 1) * t.lease)
}
