package policy

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy/leases"
)

// chronus guarantees deadlines with leases (Gao et al., Chronus, SoCC'21). Time is
// cut into leases, counted from 1970, so that those of 20 minutes begin on the
// hour. A job with deadlines is judged at the next slot boundary: it is guaranteed
// one of them when enough leases are left before it beside what is promised, else it
// is demoted to best effort. At each lease boundary a plan says which guaranteed
// jobs hold the lease that begins; they keep their cells until it ends. Best effort
// takes the rest, the shortest remaining service first.
//
// State is kept in notes: the note of a job says what it was promised and which leases it is to
// have, that of the VC for which lease the last plan was made. Only a job of one gang, or an
// elastic one, can be guaranteed. Each priority is planned as if it had the VC for itself.
type chronus struct {
	// lease=1200 and slot=300 seconds, as in the authors' artifact.
	lease, slot model.Duration
	// restart=30 seconds times 1 + log2 GPUs is what a start costs: the artifact's 0.4
	// minutes to resume and 0.1 to checkpoint.
	restart int64
	// safety=10 percent is added to run times, as in the artifact.
	safety int64
	// round=up plans 10 GPUs as 16 on nodes of 8, round=split as 8+2.
	split bool
	// reward=adaptive, use, or keep: whether plans use much of the lease that begins,
	// or keep it free. adaptive keeps it free while a demoted job is there.
	reward string
	// rules=ours or published: see leases.Rules.
	rules leases.Rules
	// quantum=60 seconds: so long a best-effort gang runs before another best-effort gang, or a
	// profile, may preempt it. A lease holder does not wait for that.
	quantum model.Duration
	// spared is the longer of quantum and the VC's minimum run time.
	spared model.Duration
	// profiler=off, or a share of the VC where jobs run first: see chronus_profile.go.
	profiler
}

func newChronus(a *args) *chronus {
	c := &chronus{
		lease:   a.seconds("lease", 1200, 60, 1_000_000),
		slot:    a.seconds("slot", 300, 1, 1_000_000),
		restart: int64(a.seconds("restart", 30, 0, 100_000) / model.Second),
		safety:  a.number("safety", 10, 0, 1000),
		split:   a.choice("round", "up", "split") == "split",
		reward:  a.choice("reward", "adaptive", "use", "keep"),
	}
	if a.choice("rules", "ours", "published") == "published" {
		c.rules = leases.PublishedRules()
	}
	if c.lease%c.slot != 0 {
		a.refuse("lease", `parameter "lease" of policy "chronus" must be a multiple of "slot"`)
	}
	c.quantum, c.profiler = a.quantum(), newProfiler(a)
	c.spared = max(c.quantum, a.minRun)
	return c
}

// Quantum implements model.HasQuantum.
func (c *chronus) Quantum() model.Duration { return c.quantum }

// sparingLag is for how long the end of a gang's spared time counts as just past: a look may come
// so late.
const sparingLag = model.Second

// The classes in which gangs wait, by model.Key.Rank. Three of them are the base to which a
// time or a service is added.
const (
	rankUndecided = math.MinInt64     // waits for a slot boundary, or for the profiler
	rankHolder    = math.MinInt64 + 1 // holds the lease
	rankEffort    = 0                 // plus the remaining service: best effort
	rankPromised  = 1 << 60           // plus the latest start: guaranteed, but holds no lease now
	rankLate      = 1 << 61           // plus the remaining service: demoted, can meet no deadline
	maxWithin     = 1<<60 - 1
)

// Key implements model.Keyed.
func (c *chronus) Key(g *model.GangView) model.Key {
	r := readChronusNote(g.Note)
	switch {
	case r.kind == noteProfiles || !c.profiled(g) || r.kind == noteUndecided && hasDeadline(g):
		return model.Key{Rank: rankUndecided}
	case r.kind == noteHolds:
		f := c.forecastOf(g, &r) // the largest tasks first, as they are placed
		return model.Key{Rank: rankHolder, Then: -int64(largestTask(g))<<31 - int64(max(f.at.gpus, g.Leaves))}
	case r.guaranteed():
		return model.Key{Rank: rankPromised + min(c.latestStart(g), maxWithin)}
	}
	return model.Key{Rank: rankEffort + min(c.service(g), maxWithin)}
}

// hasDeadline reports whether a gang can be guaranteed anything.
func hasDeadline(g *model.GangView) bool {
	return len(g.Hints.Deadlines) > 0 && (g.Gangs == 1 || elastic(g)) && g.Hints.Class != "besteffort"
}

// estimate is how long a gang runs in all, as it is planned: its run time, one start
// in each lease, and the margin of safety.
func (c *chronus) estimate(f *forecast) int64 {
	t := c.withStarts(f, f.takes)
	if t == unknown {
		return unknown
	}
	return plus(t, scale(t, c.safety, 100))
}

// withStarts is a run time with one start in each lease.
func (c *chronus) withStarts(f *forecast, t int64) int64 {
	if t == unknown {
		return unknown
	}
	start := model.Duration(c.restart*startCost(f.at.gpus)) * model.Second
	return plus(t, scale(t, int64(start), int64(c.lease)))
}

// left is the estimate less what the gang ran, at least 1 microsecond; unknown without a run
// time.
func (c *chronus) left(g *model.GangView, f *forecast) int64 {
	e := c.estimate(f)
	if e == unknown {
		return unknown
	}
	return max(e-f.ran(g), 1)
}

// remains is left for the place where the gang is meant to run.
func (c *chronus) remains(g *model.GangView) int64 {
	f := c.forecast(g)
	return c.left(g, &f)
}

// service is the remaining service in GPU-microseconds.
func (c *chronus) service(g *model.GangView) int64 {
	f := c.forecast(g)
	return times(c.left(g, &f), f.at.gpus)
}

// latestStart is when a gang must start to meet its last deadline.
func (c *chronus) latestStart(g *model.GangView) int64 {
	d := g.Hints.Deadlines
	return max(int64(g.Submitted.Add(d[len(d)-1].After))-c.remains(g), 0)
}

// lateKey is the key of a demoted gang that can meet no deadline any more; false for all other
// gangs.
func (c *chronus) lateKey(g *model.GangView, now model.Time) (model.Key, bool) {
	if !hasDeadline(g) || readChronusNote(g.Note).kind != noteDemoted || c.latestStart(g) >= int64(now) {
		return model.Key{}, false
	}
	return model.Key{Rank: rankLate + min(c.service(g), maxWithin)}, true
}

// chronusPass is one call of Rank.
type chronusPass struct {
	*chronus
	v            model.View
	yield        func(model.Wish) bool
	now          model.Time
	currentLease int64 // number of the current lease, from 1970
	types        []model.Pool
	pools        []leaseRoom
	all          []*planned       // the guaranteed gangs, as gather found them
	forcedIn     []model.GangView // demoted gangs that can end within the lease
	// gathered says that gather has filled forcedIn.
	gathered            bool
	ended               []model.GangView // with deadlines to judge, since their profile just ended
	profilerPool        profilerPool
	preemptible         []model.Ranked // running gangs without a lease, which may be preempted, the worst first
	preemptibleByHolder []pieceHolder  // gangs that only a lease holder may preempt, the first to go first
	mayPreempt          bool           // best effort preempts now: a lease began, or ripens
	// elastic says that the VC has jobs of several sizes.
	elastic bool
}

// Rank implements model.Policy.
func (c *chronus) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		l := &chronusPass{chronus: c, v: v, yield: yield, now: v.Now(), types: v.Pools()}
		l.pools = leaseRooms(l.types)
		l.currentLease = int64(l.now) / int64(c.lease)
		l.elastic = v.Elastic()
		prio, some := l.priority()
		if !some || len(l.pools) == 0 { // a VC that lost all its cells has nothing to plan
			return
		}
		if !l.noteProgress() || !l.leaveProfiledType() {
			return
		}
		boundary := leaseOf(v.Note(0), prio) != l.currentLease // another lease length numbers the leases anew
		if boundary && !l.plan() {
			return
		}
		if !l.measure() || !l.exempt() {
			return
		}
		due := append(l.due(), l.ended...)
		if len(due) > 0 && !l.admit(due) {
			return
		}
		slot := l.now - l.now%model.Time(l.slot)
		if len(due) == 0 && !boundary && l.sparingEnds(slot) { // else plan or admit gathered them
			l.gather(l.now)
		}
		l.mayPreempt = boundary || l.sparingEnds(model.Time(l.currentLease*int64(l.lease)))
		if l.mayPreempt || len(l.forcedIn) > 0 {
			l.findPreemptible()
		}
		if l.serveHolders() && l.profile() && l.forced() {
			l.serveRest()
		}
	}
}

// sparingEnds reports whether a gang that was spared when a lease or a slot began has just ceased
// to be: what was refused then for its sake is tried again. A gang that started after that moment
// refused nothing.
func (l *chronusPass) sparingEnds(began model.Time) bool {
	if l.now <= began || l.now >= began.Add(l.spared+sparingLag) {
		return false
	}
	for g := range l.v.Running() {
		ripe := g.Started.Add(l.spared)
		if 0 < g.Started && g.Started < began && began < ripe && ripe <= l.now && l.now < ripe.Add(sparingLag) {
			return true
		}
	}
	return false
}

// MembersFollowMinimum implements model.MembersFollowMinimum: all members of a job hold its lease
// together.
func (c *chronus) MembersFollowMinimum() {}

// Stays implements model.KeepsInPlace: no gang is moved for another during its lease or its
// profile.
func (c *chronus) Stays(g *model.GangView) bool {
	k := readChronusNote(g.Note).kind
	return k == noteHolds || k == noteProfiles
}

// due returns the gangs whose deadlines are to be judged, in order of submission: those
// submitted by the last slot boundary.
func (l *chronusPass) due() []model.GangView {
	var due []model.GangView
	slot := int64(l.now) / int64(l.slot) * int64(l.slot)
	for r := range l.v.WaitingByKey(math.MaxInt64) {
		if r.Key.Rank != rankUndecided {
			break
		}
		g := l.v.Gang(r.Ref)
		if int64(g.Submitted) > slot {
			break
		}
		if l.profiled(&g) {
			due = append(due, g)
		}
	}
	return due
}

// keyNow is the key of a gang as of now, late or not.
func (l *chronusPass) keyNow(g *model.GangView) model.Key {
	if moved, late := l.lateKey(g, l.now); late {
		return moved
	}
	return l.Key(g)
}

// placeNow is the key that decides whether a gang that runs, or was promised cells, may be
// preempted. A demoted gang that can end within the lease keeps the rank of its service even
// when late: else two such gangs would take each other's cells in turn. A gang that outran its
// estimate is not spared so: how long it still takes is not known.
func (l *chronusPass) placeNow(g *model.GangView) model.Key {
	if r := readChronusNote(g.Note); l.gathered && r.kind == noteDemoted && l.endsWithin(g, &r) && (g.Started == 0 || l.remains(g) > 1) {
		return l.Key(g)
	}
	return l.keyNow(g)
}

// endsWithin reports whether a gang can end within the lease.
func (l *chronusPass) endsWithin(g *model.GangView, r *chronusNote) bool {
	f := l.forecastOf(g, r)
	return l.left(g, &f) <= int64(l.lease)-int64(l.now)%int64(l.lease)
}

// overRank lets a wish preempt the gangs of a worse rank, those that run and those only
// promised cells: the latter would otherwise start, and be preempted at the next look.
func (l *chronusPass) overRank(w *model.Wish, rank int64) {
	w.Preemptible = behind(slices.Values(l.preemptible), rank)
	w.IsBehind = func(ref model.GangRef) bool {
		g := l.v.Gang(ref)
		return readChronusNote(g.Note).kind != noteHolds && l.placeNow(&g).Rank > rank
	}
}

// noteProgress notes what guaranteed elastic gangs did so far when their number of members changed.
// It reports whether to go on.
func (l *chronusPass) noteProgress() bool {
	if !l.elastic {
		return true
	}
	var changed []model.GangView
	for g := range l.v.Running() {
		if elastic(&g) && g.Started > 0 {
			changed = append(changed, g)
		}
	}
	slices.SortFunc(changed, func(a, b model.GangView) int { return compareGangs(&a, &b) })
	for i := range changed {
		g := &changed[i]
		r := readChronusNote(g.Note)
		if r.guaranteed() && !l.onProfiledType(g, &r) && r.forecast.creditRun(g) && !l.yield(remember(g.Ref.Job, r.text(r.leases(l.currentLease), l.currentLease))) {
			return false
		}
	}
	return true
}

// forced serves demoted gangs that can end within the lease, the least service first. They
// preempt, too. It reports whether to go on.
func (l *chronusPass) forced() bool {
	slices.SortStableFunc(l.forcedIn, func(a, b model.GangView) int {
		return cmp.Compare(l.service(&a),
			l.service(&b))
	})
	for i := range l.forcedIn {
		w := model.Wish{Gang: l.forcedIn[i].Ref}
		l.overRank(&w, l.service(&l.forcedIn[i]))
		if !l.yield(w) {
			return false
		}
	}
	return true
}

// serveRest serves all other gangs with what is left. With stops set, better ranks preempt worse
// ones.
func (l *chronusPass) serveRest() {
	from, room := int64(rankHolder+1), int64(0) // room: GPUs of running gangs of a worse rank
	if l.mayPreempt && len(l.preemptible) > 0 {
		from = l.preemptible[0].Key.Rank
		for _, r := range l.preemptible {
			room += int64(r.Leaves)
		}
	}
	at, gone := len(l.preemptible), int64(0)
	for r := range l.ordered(from) {
		if r.Key.Rank <= rankHolder {
			continue
		}
		for ; at > 0 && l.preemptible[at-1].Key.Rank <= r.Key.Rank; at-- {
			room -= int64(l.preemptible[at-1].Leaves)
		}
		w, needs := l.ahead(r)
		free := l.v.Free()
		if needs-max(room-gone, 0) > free { // free stands alone, as it may be the largest number
			continue
		}
		// the VC may have lost the type of its leases
		if r.Key.Rank >= rankPromised && r.Key.Rank < rankLate {
			g := l.v.Gang(r.Ref)
			w = l.wish(&g)
		}
		if l.mayPreempt && room > gone && needs > free {
			l.overRank(&w, r.Key.Rank)
		}
		if !l.yield(w) {
			return
		}
		if w.Preemptible != nil && l.v.Placed(r.Ref) {
			gone += needs - free
		}
	}
}

// ahead is a wish for a gang that holds no lease, and how many GPUs it needs.
func (l *chronusPass) ahead(r model.Ranked) (model.Wish, int64) {
	if r.Key.Rank < rankPromised || r.Key.Rank >= rankLate || len(l.types) == 1 && !l.elastic {
		return model.Wish{Gang: r.Ref}, int64(r.Leaves)
	}
	g := l.v.Gang(r.Ref) // only on the type, and with the size, that it was planned for
	f := l.forecast(&g)
	return l.wish(&g), int64(max(f.at.gpus, r.Leaves))
}

// ordered yields the waiting gangs in order, best effort that became late last.
func (l *chronusPass) ordered(from int64) iter.Seq[model.Ranked] {
	o := &order{changedKey: func(v model.View, r model.Ranked) (model.Key, bool) {
		if r.Key.Rank <= rankHolder || r.Key.Rank >= rankPromised {
			return model.Key{}, false
		}
		g := v.Gang(r.Ref)
		return l.lateKey(&g, l.now)
	}}
	return o.waiting(l.v, from)
}

// Tune implements model.Tuner. While no gang waits, profiles of elastic jobs still end, these
// jobs get the sizes of their leases, and a gang with leases of another type leaves the one
// that it was measured on. While a gang waits, Rank does this.
func (c *chronus) Tune(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		switch {
		case somebodyWaits(v):
		case runsElastic(v):
			c.Rank(v)(yield)
		case c.nodes > 0:
			l := &chronusPass{chronus: c, v: v, yield: yield, now: v.Now(), types: v.Pools()}
			l.leaveProfiledType()
		}
	}
}

func somebodyWaits(v model.View) bool {
	for range v.WaitingByKey(math.MaxInt64) {
		return true
	}
	return false
}

// runsElastic reports whether an elastic job of this priority runs.
func runsElastic(v model.View) bool {
	if !v.Elastic() {
		return false
	}
	for g := range v.Running() {
		if elastic(&g) {
			return true
		}
	}
	return false
}

// NextChange implements model.Timed: the next slot boundary while a gang waits to be judged,
// else the next lease, or the end of a profile before that. While no gang waits that only
// matters to elastic jobs.
func (c *chronus) NextChange(v model.View) model.Time {
	step, waits := c.lease, 0
	for r := range v.WaitingByKey(math.MaxInt64) {
		if waits == 0 && r.Key.Rank == rankUndecided {
			step = c.slot
		}
		if waits++; waits > 1 {
			break
		}
	}
	if waits == 0 && !runsElastic(v) {
		return 0
	}
	next := model.Time((int64(v.Now())/int64(step) + 1) * int64(step))
	if waits > 1 && v.Free() > 0 && v.Backfills() && int64(v.Now())%int64(step) == 0 {
		// a forced gang for which nothing could be booked held up the others: look again
		next = v.Now() + 1
	}
	if at := c.change(v); at > 0 && at < next {
		next = at
	}
	return next
}

// WhyHeldBack implements model.HoldsBack: a guaranteed gang may wait for the size or type of its
// leases, one to be judged waits for the slot, and one to be measured for room in the
// profiler's pool.
func (c *chronus) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	g := v.Gang(ref)
	r := readChronusNote(g.Note)
	switch f := c.forecast(&g); {
	case elastic(&g) && r.guaranteed() && int64(f.at.gpus) > v.Free():
		return fmt.Sprintf("its leases are for %d of its %d members, on %d GPUs, and %d are free",
			membersOn(&g, f.at.gpus), g.Sizes.Most, f.at.gpus, v.Free()), 0
	case r.guaranteed() && typed(v.Pools(), &r) && !v.FindsFree(ref, r.sku):
		return fmt.Sprintf("its leases are for %s alone, and there is no room on these", r.sku), 0
	case c.Key(&g).Rank != rankUndecided:
		return "", 0
	case !c.profiled(&g):
		return "it runs in the profiler's pool first, and there is no room there", 0
	}
	return "its deadlines are judged when the next slot begins", model.Time((int64(v.Now())/int64(c.slot) + 1) * int64(c.slot))
}

// LeaseEnds implements model.Leaser: all leases begin and end together.
func (c *chronus) LeaseEnds(_, now model.Time) model.Time {
	return model.Time((int64(now)/int64(c.lease) + 1) * int64(c.lease))
}
