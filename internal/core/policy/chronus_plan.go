package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy/leases"
)

// planned is a guaranteed gang as a plan sees it.
type planned struct {
	g    model.GangView
	r    chronusNote
	pool int // -1 where the VC has no leaves of that type any more
	gpus leases.Rounded
	has  int32 // GPUs that it runs on
	need int64 // leases, 0 when it has outrun its estimate
	// with are the leases by which its deadline was found possible, for a gang promised one
	// since the last plan.
	with leases.Vector
}

// ends is, for each deadline, how many leases end before it, counted from a first one on.
func (l *chronusPass) ends(g *model.GangView, first int64) []int32 {
	out := make([]int32, len(g.Hints.Deadlines))
	for i, d := range g.Hints.Deadlines {
		out[i] = int32(min(max(int64(g.Submitted.Add(d.After))/int64(l.lease)-first, 0), leases.MaxLeases))
	}
	return out
}

// need is how many leases a gang needs for the time that is left to run. A remainder below a
// twentieth of a lease, which starting late may cost, needs none.
func (c *chronus) need(left int64) int64 {
	if left <= 0 {
		return 0
	}
	left = max(left-int64(c.lease)/20, 1)
	return (left-1)/int64(c.lease) + 1
}

// rounded is a number of GPUs of a gang as it is planned in a pool.
func (l *chronusPass) rounded(g *model.GangView, gpus int32, pool int) leases.Rounded {
	node := int(l.pools[pool].part)
	r := leases.RoundUp(int(gpus), node)
	if l.split && int(gpus) > node {
		r = leases.Split(int(gpus), node)
	}
	if more := l.pieces(g, gpus, pool) - r.GPUs; more > 0 {
		r.GPUs, r.Waste = r.GPUs+more, r.Waste+more
	}
	return r
}

// pieces is how many GPUs the tasks of a gang need at most, wherever they stand: each counts as
// the part of a node that holds the largest of them (chronus_holders.go says why). In a pool
// that is one node they need no more than they have.
func (l *chronusPass) pieces(g *model.GangView, gpus int32, pool int) int {
	p := &l.pools[pool]
	if p.Leaves <= int64(p.part) {
		return 0
	}
	tasks := int64(max(membersOn(g, gpus)-g.Sizes.Least, 0))
	for _, m := range g.Members {
		tasks += int64(m.Tasks)
	}
	return int(min(tasks*int64(leases.Part(int(largestTask(g)), int(p.part))), leases.MaxGPUs))
}

// gather lists the guaranteed gangs in order of submission, and keeps in forcedIn the demoted ones
// that wait and can end within the lease. It reports whether there are demoted gangs. What a
// gang ran since from does not count, as the leases that it needs begin there.
func (l *chronusPass) gather(from model.Time) (someDemoted bool) {
	l.all, l.forcedIn, l.gathered = l.all[:0], l.forcedIn[:0], true
	add := func(g *model.GangView, runs bool) {
		r := readChronusNote(g.Note)
		switch {
		case r.guaranteed() && g.Ref.Gang == 0:
			l.all = append(l.all, l.planned(g, &r, from))
		case r.kind == noteDemoted && hasDeadline(g):
			someDemoted = true
			if runs {
				break
			}
			if l.endsWithin(g, &r) {
				l.forcedIn = append(l.forcedIn, *g)
			}
		}
	}
	for g := range l.v.Waiting() {
		add(&g, false)
	}
	for g := range l.v.Running() {
		add(&g, true)
	}
	for g := range l.v.Leaving() {
		add(&g, true) // a gang that is being stopped for others keeps its guarantee
	}
	slices.SortFunc(l.all, func(a, b *planned) int { return cmp.Compare(a.g.Order, b.g.Order) })
	return someDemoted
}

// planned reads a guaranteed gang as of a time.
func (l *chronusPass) planned(g *model.GangView, r *chronusNote, from model.Time) *planned {
	p := &planned{g: *g, r: *r}
	p.pool = l.poolOf(g, r.sku)
	f := l.forecastOf(g, r)
	p.has, p.gpus = f.at.gpus, l.rounded(g, f.at.gpus, max(p.pool, 0))
	then := *g
	if g.Started > 0 {
		then.Ran -= model.Duration(min(l.now-from, l.now-g.Started))
	}
	ran := f.ran(&then)
	if e := l.estimate(&f); e != unknown {
		p.need = l.need(e - ran)
		// It got its cells late where the gangs preempted for it were slow to leave. The margin
		// of safety and the starts of its past leases cover that delay: it is no reason for one
		// lease more, which may not be there.
		t := f.takes
		late := min(l.withStarts(&f, t)-ran-int64(l.lease)/20, l.withStarts(&f, max(t-ran, 0)))
		if late <= (p.need-1)*int64(l.lease) { // else it has too few
			if has := int64(r.leases(l.currentLease).Count()); 0 < has && has < p.need && late <= has*int64(l.lease) {
				p.need = has
			}
		}
	}
	return p
}

// plan decides which gangs hold the lease that begins, and notes it. It reports whether to go
// on.
func (l *chronusPass) plan() bool {
	someDemoted := l.gather(model.Time(l.currentLease * int64(l.lease)))
	var said planSummary
	for _, p := range l.all {
		if p.pool < 0 && !l.yield(remember(p.g.Ref.Job, p.r.demote("its guarantee is broken"))) {
			return false
		}
	}
	for pool := range l.pools {
		if !l.planPool(pool, someDemoted, &said) {
			return false
		}
	}
	prio, ok := l.priority()
	if !ok {
		return false
	}
	entry := fmt.Sprintf("%d: %d guaranteed, %d hold %d GPUs, rounding wastes %d", l.currentLease, said.jobs, said.hold, said.gpus, said.waste)
	return l.yield(remember(0, withLease(l.v.Note(0), prio, entry)))
}

// planSummary sums up a plan over all pools: guaranteed jobs, lease holders, their GPUs, and the
// GPUs that rounding wastes.
type planSummary struct{ jobs, hold, gpus, waste int }

// priority is that of the gangs of this look; false where there are none.
func (l *chronusPass) priority() (cell.Priority, bool) {
	for r := range l.v.WaitingByKey(math.MaxInt64) {
		return l.v.Gang(r.Ref).Priority, true
	}
	if l.elastic { // members above a minimum may wait
		for g := range l.v.Running() {
			return g.Priority, true
		}
	}
	return 0, false
}

// planPool plans the gangs of one pool and notes what came out. It reports whether to go on.
func (l *chronusPass) planPool(pool int, someDemoted bool, said *planSummary) bool {
	var in []*planned
	for i := range l.all {
		p := l.all[i]
		if p.pool != pool {
			continue
		}
		ends := l.ends(&p.g, l.currentLease)
		switch {
		case p.need == 0:
			if !l.yield(remember(p.g.Ref.Job, p.r.demote("outran its estimate"))) {
				return false
			}
		case int64(ends[len(ends)-1]) < p.need:
			if !l.yield(remember(p.g.Ref.Job, p.r.demote("its guarantee is broken"))) {
				return false
			}
		default:
			in = append(in, p)
		}
	}
	if len(in) == 0 {
		return true
	}
	out := l.solve(l.problem(pool, in, someDemoted))
	if !out.Complete() {
		l.recallPromises(pool, in)
		out = l.solve(l.problem(pool, in, someDemoted))
	}
	return l.notePlan(in, out, said)
}

// solve makes a plan.
func (l *chronusPass) solve(p *leases.Problem) *leases.Plan {
	var out leases.Plan
	var solver leases.Solver
	if err := solver.Solve(p, leases.DefaultLimits(), &out); err != nil {
		panic(err) // bounded above
	}
	return &out
}

// recallPromises finds, for the gangs promised a deadline since the last plan, the leases by which
// that was found possible: it repeats the admission test beside what the last plan gave. A plan
// that begins with these leases keeps all promises.
func (l *chronusPass) recallPromises(pool int, in []*planned) {
	var test leases.Admission
	l.reset(&test, pool, in, l.currentLease)
	at := map[int]*planned{}
	for _, p := range in {
		if p.r.kind == notePromised {
			at[test.Keep(l.keeps(p, l.currentLease))] = p
		}
	}
	test.Fill(func(number int, set leases.Vector) { at[number].with = slices.Clone(set) })
}

// problem writes the gangs of a pool as a problem of leases.
func (l *chronusPass) problem(pool int, in []*planned, someDemoted bool) *leases.Problem {
	p := &leases.Problem{CurrentWorth: 1}
	if l.reward == "keep" || l.reward == "adaptive" && someDemoted {
		p.CurrentWorth = -1
	}
	full := l.capacity(pool)
	top, horizon := int64(1), int32(1)
	for _, q := range in {
		horizon = max(horizon, slices.Max(l.ends(&q.g, l.currentLease)))
		for _, d := range q.g.Hints.Deadlines {
			top = max(top, d.Value)
		}
	}
	p.Capacity = make([]int32, horizon)
	for t := range p.Capacity {
		p.Capacity[t] = full
	}
	for _, q := range in {
		j := leases.Job{GPUs: int32(q.gpus.GPUs), Need: int32(q.need), Guaranteed: true,
			Cached: q.cached(l.currentLease)}
		last := int64(leases.MaxReward)
		for i, m := range l.ends(&q.g, l.currentLease) {
			// Rewards are multiples of the pool's GPUs, so that Now only decides ties.
			d := q.g.Hints.Deadlines[i]
			most := max(leases.MaxReward/int64(full+1), 1)
			last = min(last, scaled(max(d.Value, 0), top, most)*int64(full+1))
			j.Options = append(j.Options, leases.Option{Leases: m, Reward: last})
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// scaled is a reward, scaled down in proportion where the largest one, top, is above most.
func scaled(value, top, most int64) int64 {
	if top <= most {
		return value
	}
	return scale(value, most, top)
}

// cached is the warm start: the leases that the last plan gave, cut to what is needed. A gang
// that ran ahead of its leases gives back the first.
func (p *planned) cached(first int64) leases.Vector {
	if p.r.kind == notePromised {
		return p.with
	}
	set := p.r.leases(first)
	for i := range set {
		for extra := int64(set.Count()) - p.need; extra > 0 && set[i] != 0; extra-- {
			set[i] &= set[i] - 1
		}
	}
	return set
}

// notePlan notes the leases of each gang. It reports whether to go on.
func (l *chronusPass) notePlan(in []*planned, out *leases.Plan, said *planSummary) bool {
	for j, p := range in {
		said.jobs++
		r := p.r
		set := out.Leases(j)
		r.kind, r.option = notePlanned, max(out.Chosen[j], 0)
		switch {
		case out.Chosen[j] < 0:
			r.kind = notePromised // to be tried again
		case set.Has(0):
			r.kind = noteHolds
			said.hold++
			said.gpus += int(p.has)
			said.waste += p.gpus.Waste
		}
		if r.kind == p.r.kind && r.option == p.r.option && equalSets(p.r.leases(l.currentLease), set) {
			continue
		}
		if !l.yield(remember(p.g.Ref.Job, r.text(set, l.currentLease))) {
			return false
		}
	}
	return true
}

// admit runs the admission test for the gangs that are due: each is promised a deadline, or
// demoted. It reports whether to go on.
func (l *chronusPass) admit(due []model.GangView) bool {
	l.gather(l.now)
	tests := make([]leases.Admission, len(l.pools))
	for pool := range tests {
		l.open(&tests[pool], pool)
	}
	rest := int64(l.lease) - int64(l.now)%int64(l.lease)
	for i := range due {
		g := &due[i]
		r, ok := l.judge(tests, g)
		note := r.text(nil, 0)
		if !ok {
			r = l.asUsual(g)
			note = r.demote("")
			if g.Started == 0 && l.remains(g) <= rest {
				l.forcedIn = append(l.forcedIn, *g)
			}
		}
		if !l.yield(remember(g.Ref.Job, note)) || !l.resumeAfterProfile(g, &r) {
			return false
		}
	}
	return true
}

// judge finds a pool, and for an elastic job a size, with which a deadline can be guaranteed;
// false is none.
func (l *chronusPass) judge(tests []leases.Admission, g *model.GangView) (chronusNote, bool) {
	r := readChronusNote(g.Note)
	ends := l.ends(g, l.currentLease+1)
	offers := l.leasePlaces(g)
	at, option := choosePlace(tests, offers, ends)
	if at < 0 {
		return r, false
	}
	o := &offers[at]
	r.kind, r.option, r.sku, r.forecast = notePromised, int32(option), l.pools[o.pool].SKU, o.forecast
	return r, true
}

// asUsual is the record of a best-effort gang: it is to run with its usual size.
func (l *chronusPass) asUsual(g *model.GangView) chronusNote {
	r := readChronusNote(g.Note)
	if r.measured > 0 && elastic(g) {
		r.forecast = l.forecastAt(g, place{usualGPUs(g), r.where.sku})
	}
	return r
}

// resumeAfterProfile lets a gang whose profile has ended go on as decided: resized, or paused where
// it is promised leases of another type than it runs on. It reports whether to go on.
func (l *chronusPass) resumeAfterProfile(g *model.GangView, r *chronusNote) bool {
	if g.Started == 0 {
		return true
	}
	w := model.Wish{Gang: g.Ref, Size: membersOn(g, usualGPUs(g))}
	if r.guaranteed() {
		w.Size = membersOn(g, r.at.gpus)
	}
	if r.leasesElsewhere() {
		w.Size = model.Pause
	}
	return w.Size == g.Sizes.Now || l.yield(w)
}

// leasesElsewhere reports whether a gang is promised leases of another type than that on which it
// was measured.
func (r *chronusNote) leasesElsewhere() bool {
	return r.guaranteed() && r.where.sku != "" && r.where.sku != r.sku
}

// onProfiledType reports whether a gang still runs on the type that it was measured on, though its
// leases are of another.
func (l *chronusPass) onProfiledType(g *model.GangView, r *chronusNote) bool {
	return r.leasesElsewhere() && l.v.SKU(g.Ref) == r.where.sku
}

// leaveProfiledType pauses the gangs that still run on the type of their profile though their
// leases are of another: they could not be paused when it ended, since they had not run for the
// VC's minimum. There they would hold cells in their lease that are promised to others. A gang that
// was stopped since, and runs there again, found no other place, and stays. It reports whether to
// go on.
func (l *chronusPass) leaveProfiledType() bool {
	if len(l.types) == 1 || l.nodes == 0 {
		return true
	}
	var stay []model.GangView
	for g := range l.v.Running() {
		if r := readChronusNote(g.Note); g.Started > 0 && int64(g.RanBefore) < max(r.creditedRun, 1) && l.onProfiledType(&g, &r) {
			stay = append(stay, g)
		}
	}
	slices.SortFunc(stay, func(a, b model.GangView) int { return compareGangs(&a, &b) })
	for i := range stay {
		if !l.yield(model.Wish{Gang: stay[i].Ref, Size: model.Pause}) {
			return false
		}
	}
	return true
}

// usable reports whether all members of a gang can use a type.
func usable(g *model.GangView, sku cell.TypeName) bool {
	for _, m := range g.Members {
		if len(m.SKUs) > 0 && !slices.Contains(m.SKUs, sku) {
			return false
		}
	}
	return true
}

// open begins an admission test with what is left of a pool from the next lease on, beside all
// promises.
func (l *chronusPass) open(a *leases.Admission, pool int) {
	l.reset(a, pool, l.all, l.currentLease+1)
	for _, p := range l.all {
		if p.pool == pool && p.r.kind == notePromised {
			a.Keep(l.keeps(p, l.currentLease+1))
		}
	}
}

// reset begins an admission test with what the plan leaves of a pool from a first lease on.
func (l *chronusPass) reset(a *leases.Admission, pool int, all []*planned, first int64) {
	full := l.capacity(pool)
	var left []int32
	for _, p := range all {
		if p.pool != pool || p.r.kind == notePromised {
			continue
		}
		set := p.r.leases(first)
		for end := set.End(); len(left) < end; {
			left = append(left, full)
		}
		for t := range set.All() {
			left[t] -= int32(p.gpus.GPUs)
		}
	}
	a.Reset(left, full, l.rules)
}

// keeps is what a gang was promised, from a first lease on.
func (l *chronusPass) keeps(p *planned, first int64) leases.Request {
	at := min(int(p.r.option), len(p.g.Hints.Deadlines)-1)
	return leases.Request{GPUs: int32(p.gpus.GPUs), Need: int32(min(p.need, leases.MaxLeases)), Deadlines: l.ends(&p.g, first)[at:][:1]}
}

// capacity is how many GPUs plans may use of a pool. The profiler's share of a type comes out
// of the room that is not pinned: out of a small pinned cell it would leave nothing to plan.
func (l *chronusPass) capacity(pool int) int32 {
	p := &l.pools[pool]
	full := p.Leaves
	if p.pinned == "" {
		full -= l.share(l.types[p.typeIndex])
	}
	return int32(min(max(full, 1), leases.MaxGPUs))
}

// wish is the wish for a waiting gang, where and with what size it was planned.
func (l *chronusPass) wish(g *model.GangView) model.Wish {
	w := model.Wish{Gang: g.Ref}
	if r := readChronusNote(g.Note); r.guaranteed() {
		w.Size = membersOn(g, r.at.gpus)
		if typed(l.types, &r) {
			w.SKU = r.sku
		}
	}
	return w
}

// typed reports whether a VC has other types than that of the leases of a guaranteed gang.
func typed(pools []model.Pool, r *chronusNote) bool {
	return len(pools) > 1 || len(pools) == 1 && pools[0].SKU != r.sku
}
