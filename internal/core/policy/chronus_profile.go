package policy

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// profiler is Chronus' first stage (SoCC'21, section 4): every job runs first for a short
// time on a few nodes' worth of its VC, which plans leave alone. A job that is short, or
// buggy, ends there. Of the others the run time is measured from the progress that they
// report, instead of being believed.
//
// The dry run of the authors' artifact gives the times: a job of g GPUs is measured for
// 30 g seconds, at most 120; one of at most five minutes may end where it is; and one user
// has at most all but half a node of the pool.
type profiler struct {
	// nodes is profiler=off, or so many nodes' worth of each type.
	nodes int64
	// profileTime=120 seconds is the longest profile, as in the artifact.
	profileTime int64
}

// The times of the artifact, in seconds.
const (
	profileEach  = 30  // for each GPU
	profileShort = 300 // a run time that may be spent in the pool
)

func newProfiler(a *args) profiler {
	p := profiler{profileTime: int64(a.seconds("profileTime", 120, 1, 100_000) / model.Second)}
	p.nodes = a.nodes("profiler")
	return p
}

// nodes reads the size of a pool in nodes; off is 0.
func (a *args) nodes(key string) int64 {
	v, ok := a.take(key)
	if !ok || v == "off" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 1 || n > 64 {
		a.fail(key, "off or a number of nodes from 1 to 64", v)
	}
	return n
}

// profiled reports whether a gang has been in the pool, or need not be: one with guaranteed
// leases is not measured.
func (p profiler) profiled(g *model.GangView) bool {
	if p.nodes == 0 {
		return true
	}
	r := readChronusNote(g.Note)
	return r.profiled || r.guaranteed()
}

// share is how many leaves of a type are the pool: never all.
func (p profiler) share(pool model.Pool) int64 {
	return poolShare(p.nodes, pool)
}

// lasts is how long a gang is measured, from its start.
func (p profiler) lasts(g *model.GangView) model.Duration {
	return model.Duration(min(p.profileTime, profileEach*int64(gpusHeld(g)))) * model.Second
}

// gpusHeld is how many GPUs a gang that runs has, with those that its members were promised.
func gpusHeld(g *model.GangView) int32 { return gpusOf(g, max(g.Sizes.Live, g.Sizes.Least)) }

// gpusRunning is on how many GPUs a gang runs: members that were only promised cells do not count.
func gpusRunning(g *model.GangView) int32 { return gpusOf(g, max(g.Sizes.Runs, g.Sizes.Least)) }

// reportedRunTime is the total run time that a gang's progress implies: all of its steps at the
// pace of those made. It is 0 where it reported nothing since it started.
func reportedRunTime(g *model.GangView) int64 {
	p := g.Progress
	if p == nil || p.Step <= 0 || g.Started == 0 || p.StepAt <= g.Started {
		return 0
	}
	total := max(p.Total, g.Hints.Iterations)
	if total < p.Step || total > math.MaxInt64/int64(model.Second) {
		return 0
	}
	ran := int64(g.RanBefore) + int64(p.StepAt-g.Started)
	return scale(ran, total, p.Step)
}

// until is when the profile of a gang that runs ends.
func (p profiler) until(g *model.GangView) model.Time {
	last := p.lasts(g)
	if t := reportedRunTime(g); t > 0 && t <= profileShort*int64(model.Second) {
		last = max(last, profileShort*model.Second)
	}
	return g.Started.Add(last - g.RanBefore)
}

// change is when the first profile ends, 0 for none. It may be past: a report since the last
// look can show that the job is no short one.
func (p profiler) change(v model.View) model.Time {
	var next model.Time
	if p.nodes == 0 || len(v.Pools()) == 0 {
		return 0
	}
	for g := range v.Running() {
		if r := readChronusNote(g.Note); r.kind != noteProfiles || g.Started == 0 {
			continue
		}
		if t := p.until(&g); next == 0 || t < next {
			next = t
		}
	}
	return next
}

// profilerPool is what the gangs in the profiler's pool hold, and what profiles cost so far.
type profilerPool struct {
	used  []int64 // leaves, by type
	users map[model.Subject]int64
	cost  profilerCost
}

// exempt notes the gangs that are larger than any pool as profiled, before deadlines are
// judged: their declared run times must do. It reports whether to go on.
func (l *chronusPass) exempt() bool {
	if l.nodes == 0 {
		return true
	}
	var large []model.GangView
	for r := range l.v.WaitingByKey(math.MaxInt64) {
		if r.Key.Rank != rankUndecided {
			break
		}
		if g := l.v.Gang(r.Ref); !l.profiled(&g) && !l.poolable(&g) {
			large = append(large, g)
		}
	}
	r := chronusNote{profiled: true}
	for i := range large {
		if !l.yield(remember(large[i].Ref.Job, r.text(nil, 0))) {
			return false
		}
	}
	return true
}

// poolable reports whether a gang would fit into the empty pool of some type.
func (l *chronusPass) poolable(g *model.GangView) bool {
	for i := range l.pools {
		if l.holdsIn(g, i) {
			return true
		}
	}
	return false
}

// holdsIn reports whether the pool in which a room counts is large enough for a gang, and the
// gang can use the room.
func (l *chronusPass) holdsIn(g *model.GangView, room int) bool {
	return int64(g.Leaves) <= l.share(l.types[l.pools[room].typeIndex]) && l.uses(g, room)
}

// measure ends the profiles that are over, and notes what they measured; gangs with deadlines
// are to be judged at once. It reports whether to go on.
func (l *chronusPass) measure() bool {
	if l.nodes == 0 {
		return true
	}
	l.profilerPool = profilerPool{make([]int64, len(l.types)), map[model.Subject]int64{}, l.cost()}
	var ended []model.GangView
	for g := range l.v.Running() {
		r := readChronusNote(g.Note)
		switch {
		case r.kind != noteProfiles:
		case g.Started > 0 && l.until(&g) <= l.now:
			ended = append(ended, g)
		default: // counted with the members that have not started yet
			sku := cell.TypeName(r.rest)
			kind := slices.IndexFunc(l.types, func(p model.Pool) bool { return p.SKU == sku })
			l.profilerPool.take(max(kind, 0), &g, gpusOf(&g, g.Sizes.Now))
		}
	}
	slices.SortFunc(ended, func(a, b model.GangView) int { return compareGangs(&a, &b) })
	for i := range ended {
		g, cost := &ended[i], &l.profilerPool.cost
		if now := l.v.Gang(g.Ref); l.profiled(&now) { // noted by another gang of its job already
			continue
		}
		spent := times(min(int64(g.Ran), int64(l.until(g)-g.Started)+int64(g.RanBefore)), gpusRunning(g))
		cost.measured, cost.spent = cost.measured+1, plus(cost.spent, spent/int64(model.Second))
		r := chronusNote{profiled: true, measured: reportedRunTime(g)}
		if len(l.types) > 1 || elastic(g) { // it might take another time elsewhere
			r.where = place{gpusRunning(g), cell.TypeName(readChronusNote(g.Note).rest)}
		}
		if g.Note = r.text(nil, 0); hasDeadline(g) {
			l.ended = append(l.ended, *g)
			continue
		}
		r = l.asUsual(g)
		if !l.yield(remember(g.Ref.Job, r.text(nil, 0))) || !l.resumeAfterProfile(g, &r) {
			return false
		}
	}
	return true
}

func (p *profilerPool) take(kind int, g *model.GangView, gpus int32) {
	p.used[kind] += int64(gpus)
	p.users[g.User] += int64(gpus)
}

// profile starts profiles while the pool has room, and preempts best effort for them. It
// reports whether to go on.
func (l *chronusPass) profile() bool {
	if l.nodes == 0 {
		return true
	}
	var waiting []model.GangView
	for r := range l.v.WaitingByKey(math.MaxInt64) {
		if r.Key.Rank != rankUndecided {
			break
		}
		if g := l.v.Gang(r.Ref); !l.profiled(&g) {
			waiting = append(waiting, g)
		}
	}
	if len(waiting) > 0 {
		l.findPreemptible()
	}
	for i := range waiting {
		now := l.v.Gang(waiting[i].Ref) // another gang of its job may have been noted since
		if l.profiled(&now) {
			continue
		}
		if !l.startProfile(&now) {
			return false
		}
	}
	return l.yield(remember(0, withEntry(l.v.Note(0), "profiler", l.profilerPool.cost.text())))
}

// startProfile starts a profile on the first type whose pool has room and where the gang finds
// cells: its job may be limited to one type, or fit on no other. In a pinned cell it counts in
// the pool of the type, too. It reports whether to go on.
func (l *chronusPass) startProfile(g *model.GangView) bool {
	at, gpus := 0, int32(0)
	promised := l.v.Placed(g.Ref) // it keeps these cells, of the type asked for then
	for i := range l.pools {
		kind := l.pools[i].typeIndex
		share := l.share(l.types[kind])
		if !l.holdsIn(g, i) || promised && l.v.SKU(g.Ref) != l.pools[i].SKU {
			continue
		}
		at, gpus = kind, profileSize(g, min(share, l.pools[i].Leaves))
		if l.profilerPool.used[kind]+int64(gpus) > share || !l.admits(g, gpus, l.types[kind]) {
			continue
		}
		w := model.Wish{Gang: g.Ref, SKU: l.pools[i].SKU, Size: membersOn(g, gpus)}
		l.overRank(&w, rankHolder)
		if !l.yield(w) {
			return false
		}
		if l.v.Placed(g.Ref) {
			break
		}
	}
	if gpus == 0 || !l.v.Placed(g.Ref) {
		return true
	}
	l.profilerPool.take(at, g, gpus)
	switch r := readChronusNote(g.Note); {
	case r.kind != noteProfiles:
		l.profilerPool.cost.started++
	case string(r.rest) == string(l.types[at].SKU):
		return true // it was stopped, and goes on
	}
	return l.yield(remember(g.Ref.Job, fmt.Appendf(nil, "%s %s", noteWords[noteProfiles], l.types[at].SKU)))
}

// admits reports whether a user may have so many more GPUs in a pool: one gang always, and no
// more than all but half a node.
func (l *chronusPass) admits(g *model.GangView, gpus int32, p model.Pool) bool {
	has := l.profilerPool.users[g.User]
	return has == 0 || has+int64(gpus) <= l.share(p)-int64(p.PerNode)/2
}

// profileSize is the number of GPUs on which a gang is measured. An elastic job has its least
// where the offline model says how fast it is with more. Else extrapolation would be a guess,
// so it has as many of its usual ones as the pool holds.
func profileSize(g *model.GangView, share int64) int32 {
	if !elastic(g) || sizable(g) {
		return g.Leaves
	}
	n := membersOn(g, int32(min(int64(usualGPUs(g)), share)))
	return gpusOf(g, min(n, g.Sizes.Usual))
}

// profilerCost is what the profiler cost so far; spent is in GPU-seconds. Gangs that were
// started but not measured ended in the pool, or are there.
type profilerCost struct{ started, measured, spent int64 }

func (c *profilerCost) text() string {
	return fmt.Sprintf("%d started, %d measured, %d GPU-seconds", c.started, c.measured, c.spent)
}

// cost reads what is noted about the VC.
func (l *chronusPass) cost() (c profilerCost) {
	for e := range bytes.SplitSeq(l.v.Note(0), []byte("; ")) {
		if rest, ok := bytes.CutPrefix(e, []byte("profiler ")); ok {
			_, _ = fmt.Sscanf(string(rest), "%d started, %d measured, %d GPU-seconds", &c.started, &c.measured,
				&c.spent)
		}
	}
	return c
}
