package policy

import (
	"fmt"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// probe lets jobs prove themselves on a small pool before they hold large cells: most
// failures come early, and are of the user's making, so a first attempt on few GPUs
// catches them (Jeon et al., ATC'19, section 5). A gang is on probation until it has run
// for some time, in all of its attempts. Those on probation hold no more than a pool of
// some nodes' worth, wherever it is. An elastic job runs with its least
// members meanwhile, and gets the others when it has proven itself.
//
// How long a gang ran says whether it is on probation, so nothing needs to be noted.
type probe struct {
	// probe=off, or so many nodes' worth of each type.
	nodes int64
	// probeTime=600 seconds of running, probeFrom=2: gangs with fewer leaves at their usual
	// size need no proof (both ours).
	lasts model.Duration
	from  int64
}

func newProbe(a *args) probe {
	return probe{
		nodes: a.nodes("probe"),
		lasts: a.seconds("probeTime", 600, 1, 1_000_000),
		from:  a.number("probeFrom", 2, 1, 1<<20),
	}
}

// poolShare is how many leaves of a type are so many nodes' worth: never all.
func poolShare(nodes int64, pool model.Pool) int64 {
	return min(nodes*int64(pool.PerNode), pool.Leaves-1)
}

// usual is how many leaves a gang has with its usual size.
func usual(g *model.GangView) int64 {
	return int64(g.Leaves) + int64(max(g.Sizes.Usual-g.Sizes.Least, 0))*int64(g.Sizes.MemberLeaves)
}

// onProbation reports whether a gang has yet to prove itself, and can do so in these pools.
func (p *probe) onProbation(g *model.GangView, pools []model.Pool) bool {
	return g.Ran < p.lasts && p.proves(g, pools)
}

// proves reports whether a gang has to prove itself in these pools, or had to.
func (p *probe) proves(g *model.GangView, pools []model.Pool) bool {
	return p.nodes > 0 && usual(g) >= p.from && g.Ref.Gang == 0 &&
		slices.ContainsFunc(pools, func(q model.Pool) bool {
			return usable(g, q.SKU) && int64(g.Leaves) <= poolShare(p.nodes, q)
		})
}

// probationPool is the pool as of a look.
type probationPool struct {
	*probe
	pools       []model.Pool
	share, used int64 // leaves
	held        int   // gangs that were passed over
}

// mostHeld bounds how many gangs that must wait for the pool a look passes over.
const mostHeld = 256

// proving sums up what the gangs on probation hold.
func (p *probe) proving(v model.View) *probationPool {
	out := &probationPool{probe: p}
	if p.nodes == 0 {
		return out
	}
	out.pools = v.Pools()
	for _, q := range out.pools {
		out.share += poolShare(p.nodes, q)
	}
	for g := range v.Running() {
		if out.onProbation(&g, out.pools) {
			out.used += int64(g.Leaves)
		}
	}
	return out
}

// mustWait reports whether a gang must wait for room in the pool.
func (p *probationPool) mustWait(g *model.GangView) bool {
	return p.onProbation(g, p.pools) && int64(g.Leaves) > p.share-p.used
}

// why says why a gang must wait for room in the pool; "" is that it need not.
func (p *probationPool) why(v model.View, g *model.GangView) string {
	if !p.mustWait(g) {
		return ""
	}
	return fmt.Sprintf("its first attempt runs in a pool of %s, and %d are free", v.Amount(p.share), max(p.share-p.used, 0))
}

// wish adds to a wish with how many members a gang on probation begins.
func (p *probationPool) wish(w model.Wish, g *model.GangView) model.Wish {
	if p.onProbation(g, p.pools) {
		w.Size = g.Sizes.Least
	}
	return w
}

// placed counts a gang in the pool once it is placed.
func (p *probationPool) placed(g *model.GangView) {
	if p.onProbation(g, p.pools) {
		p.used += int64(g.Leaves)
	}
}

// next is when the first gang has proven itself. That follows from its start: Ran counts up to
// the last event, which may be later than View.Now.
func (p *probationPool) next(v model.View) model.Time {
	var next model.Time
	if p.nodes == 0 {
		return 0
	}
	for g := range v.Running() {
		if t := g.Started.Add(p.lasts - g.RanBefore); g.Started > 0 && p.proves(&g, p.pools) && t > v.Now() && (next == 0 || t < next) {
			next = t
		}
	}
	return next
}

// probing is philly with a pool for first attempts.
type probing struct{ *philly }

// Tune implements model.Tuner: an elastic job that has proven itself gets its usual size.
func (p *probing) Tune(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		var proven []model.GangView
		for g := range v.Running() {
			if g.Ref.Gang == 0 && g.Sizes.Now < g.Sizes.Usual && g.Ran >= p.lasts {
				proven = append(proven, g)
			}
		}
		slices.SortFunc(proven, func(a, b model.GangView) int { return compareGangs(&a, &b) })
		for i := range proven {
			if !yield(model.Wish{Gang: proven[i].Ref, Size: proven[i].Sizes.Usual}) {
				return
			}
		}
	}
}

// Learn implements model.Learner: it sums up which jobs ended on probation, how much GPU
// time they had, and how much more it would have been at their usual size.
func (p *probing) Learn(note []byte, g *model.GangView) []byte {
	if g.Ref.Gang != 0 || g.Ran == 0 || g.Ran >= p.lasts || usual(g) < p.from {
		return nil
	}
	var ended, spent, saved int64
	_, _ = fmt.Sscanf(string(note), "probe %d ended, %d GPU-seconds, %d saved", &ended, &spent, &saved)
	had := int64(g.Leaves)
	if g.Sizes.Now > g.Sizes.Least {
		had = usual(g)
	}
	spent = plus(spent, times(int64(g.Ran), int32(had))/int64(model.Second))
	saved = plus(saved, times(int64(g.Ran), int32(usual(g)-had))/int64(model.Second))
	return fmt.Appendf(nil, "probe %d ended, %d GPU-seconds, %d saved", ended+1, spent, saved)
}

// provingAttentive is philly with the pool and with early stopping.
type provingAttentive struct {
	*probing
	early
}
