package policy

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// rounds is how the capacity policy takes cells back (YARN's
// ProportionalCapacityPreemptionPolicy), off by default as there. Time is cut into rounds, and
// in each cells are taken once at most. A queue's ideal is its guarantee as far as it has use
// for that, and a part of what other queues leave, in proportion to guarantees. A queue is over
// when it uses more than its ideal and the dead zone. Of what it is over, the
// natural-termination factor is taken in a round, and of all queues together no more than a
// part of the VC, the gangs submitted last first. As in YARN, where the last container may
// exceed it, a queue that is over loses a whole gang.
//
// Here a gang is preempted only if the gang that it makes room for fits then. So a gang takes
// what all rounds allow since it has waited long enough, or since cells were last taken back:
// with small rounds a large gang waits for several. It takes only what keeps its own queue
// within the ideal, so two queues cannot take from each other in turn. It takes only from gangs
// that have run for the wait as well, as YARN marks a container for so long: else a gang that
// starts, and thereby brings its queue over, would be preempted at the next look. The last
// round that took cells is noted.
type rounds struct {
	preempt bool // preempt=no
	// interval=3 seconds between rounds (monitoring_interval).
	interval model.Duration
	// wait=15 seconds that a gang waits before it preempts, and runs before it is preempted
	// (max_wait_before_kill; a victim has its grace period besides).
	wait model.Duration
	// In thousandths: round=0.1 of the VC in one round (total_preemption_per_round),
	// dead=0.1 (max_ignored_over_capacity), natural=0.2 (natural_termination_factor).
	round, dead, natural int64
}

func newRounds(a *args) rounds {
	return rounds{preempt: a.flag("preempt", false),
		interval: a.seconds("interval", 3, 1, 86_400),
		wait:     a.seconds("wait", 15, 0, 86_400),
		round:    a.thousandths("round", 100, 1, 1000), dead: a.thousandths("dead", 100, 0, 1000),
		natural: a.thousandths("natural", 200, 10, 1000)}
}

// at is the round of a time.
func (r *rounds) at(t model.Time) int64 { return int64(t) / int64(r.interval) }

// preemption is the state of preemption in one decision.
type preemption struct {
	*usage
	now    int64   // the round
	last   int64   // the last that took
	ideal  []int64 // by queue, in millionths of a leaf
	begin  []int64 // leaves that the queues used at first
	missed []bool  // leaf queues with a gang that preemption found no room for
	noted  bool
	// soonest keeps what ripens returned; 0 is not known yet.
	soonest int64
}

// startPreemption begins preemption; nil when it is off, or no queue is over.
func (u *usage) startPreemption() *preemption {
	if !u.c.preempt {
		return nil
	}
	r := &preemption{usage: u, now: u.c.at(u.v.Now()), ideal: u.ideals(), begin: slices.Clone(u.used), missed: make([]bool, len(u.used))}
	if n, err := strconv.ParseInt(string(u.v.Note(0)), 10, 64); err == nil {
		r.last = n
	}
	for q := range u.used {
		if len(u.c.tree.queues[q].below) == 0 && r.over(q) > 0 {
			return r
		}
	}
	return nil
}

// over is by how much a leaf queue was over at first, in millionths of a leaf.
func (r *preemption) over(q int) int64 {
	return r.begin[q]*fullShare - r.ideal[q]/1000*(1000+r.c.dead)
}

// rounds is how many rounds' allowance a gang may use by now; less than 1 is none.
func (r *preemption) rounds(g *model.GangView) int64 { return r.now - max(r.c.first(g)-1, r.last) }

// first is the first round in which a waiting gang may preempt, or a running one be preempted.
func (r *rounds) first(g *model.GangView) int64 { return r.at(g.Since.Add(r.wait + r.interval - 1)) }

// ripe reports whether a running gang may be preempted.
func (r *preemption) ripe(g *model.GangView) bool { return g.Started > 0 && r.c.first(g) <= r.now }

// victimsFor returns the gangs that a gang may preempt; nil for none.
func (r *preemption) victimsFor(q int, t *tenant, g *model.GangView) iter.Seq[model.GangRef] {
	if r == nil || r.missed[q] || r.rounds(g) < 1 || !r.within(q, g) {
		return nil
	}
	return r.victims(r.rounds(g))
}

// within reports whether a queue stays within its ideal with a gang.
func (r *preemption) within(q int, g *model.GangView) bool {
	return (r.used[q]+int64(g.Leaves))*fullShare <= r.ideal[q]
}

// victims yields the gangs that so many rounds may preempt: of the queues that are over most
// first, and of each the last submitted first.
func (r *preemption) victims(rounds int64) iter.Seq[model.GangRef] {
	return func(yield func(model.GangRef) bool) {
		var queues []int
		left := r.allowance(rounds)
		for q := range r.used {
			if len(r.c.tree.queues[q].below) == 0 && r.over(q) > 0 {
				queues = append(queues, q)
				left -= max(r.begin[q]-r.used[q], 0) * fullShare
			}
		}
		slices.SortStableFunc(queues, func(a, b int) int { return cmp.Compare(r.over(b), r.over(a)) })
		running := slices.SortedFunc(r.v.Running(), func(a, b model.GangView) int {
			return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Ref.Gang, b.Ref.Gang))
		})
		for _, q := range queues {
			part := r.part(q, rounds) - (r.begin[q]-r.used[q])*fullShare
			for _, g := range slices.Backward(running) {
				if part <= 0 {
					break
				}
				n := int64(g.Leaves) * fullShare
				if r.c.tree.leaf(g.Hints.Queue) != q || n > left || !r.ripe(&g) {
					continue
				}
				if part, left = part-n, left-n; !yield(g.Ref) {
					return
				}
			}
		}
	}
}

// passes reports whether a booked gang belongs to a queue that is over: those of other queues
// could not be preempted if they ran.
func (r *preemption) passes(ref model.GangRef) bool {
	h := r.v.Gang(ref).Hints
	return h != nil && r.over(r.c.tree.leaf(h.Queue)) > 0
}

// allowance is what so many rounds may take of all queues, in millionths of a leaf.
func (r *preemption) allowance(rounds int64) int64 {
	return r.total * min(rounds*r.c.round, 1000) * (fullShare / 1000)
}

// part is what so many rounds may take of one queue, in millionths of a leaf.
func (r *preemption) part(q int, rounds int64) int64 {
	rest := r.over(q)
	for range min(rounds, maxRounds) {
		rest -= rest / 1000 * r.c.natural
	}
	if rest < fullShare {
		rest = 0 // less than a leaf
	}
	return r.over(q) - rest
}

// maxRounds bounds for how many rounds a gang may save up.
const maxRounds = 1000

// taken returns the note of this round once cells were taken back in it, nil before and after
// that.
func (r *preemption) taken() *model.Note {
	if r == nil || r.noted {
		return nil
	}
	for q := range r.used {
		if len(r.c.tree.queues[q].below) == 0 && r.used[q] < r.begin[q] {
			r.noted = true
			return noteRound(r.now)
		}
	}
	return nil
}

// ideals returns the ideal of every queue in millionths of a leaf.
func (u *usage) ideals() []int64 {
	out := make([]int64, len(u.used))
	u.divide(u.c.tree.roots, u.total*fullShare, out)
	return out
}

// divide gives the queues of one level what there is: first their guarantees as
// far as they have use for them, then the rest in proportion to the guarantees, or
// equally among those without any.
func (u *usage) divide(level []int, rest int64, out []int64) {
	want := func(q int) int64 {
		return min((u.used[q]+u.waits[q])*fullShare, u.total*u.c.tree.queues[q].most)
	}
	for _, q := range level {
		out[q] = min(u.total*u.c.tree.queues[q].share, want(q), rest)
		rest -= out[q]
	}
	for range maxQueues {
		var sum, n int64
		for _, q := range level {
			if out[q] < want(q) {
				sum += u.c.tree.queues[q].share
				n++
			}
		}
		if n == 0 || rest < n {
			break
		}
		spare := rest
		for _, q := range level {
			if out[q] >= want(q) {
				continue
			}
			more := spare / n
			if sum > 0 {
				more = portion(spare, u.c.tree.queues[q].share, sum)
			}
			more = min(more, want(q)-out[q])
			out[q] += more
			rest -= more
		}
		if rest == spare {
			break
		}
	}
	for _, q := range level {
		u.divide(u.c.tree.queues[q].below, out[q], out)
	}
}

// portion is n*a/b without overflow; a and b are at most fullShare.
func portion(n, a, b int64) int64 { return n/b*a + n%b*a/b }

// nextRound is when the first gang may take cells back that may not yet, or more
// than before; 0 is never.
func (u *usage) nextRound() model.Time {
	r := u.startPreemption()
	if r == nil {
		return 0
	}
	next := int64(math.MaxInt64)
	for q := range u.tenants {
		for i := range u.tenants[q] {
			for k := range u.tenants[q][i].lines {
				next = min(next, r.next(q, &u.tenants[q][i], &u.tenants[q][i].lines[k]))
			}
		}
	}
	if next == math.MaxInt64 {
		return 0
	}
	return model.Time(next * int64(u.c.interval))
}

// next is the first round after now in which the first gang of a line that may take
// cells back may do so, or take more.
func (r *preemption) next(q int, t *tenant, l *line) int64 {
	g, ok := l.head, true
	for ok && (!r.within(q, &g) || !r.allows(q, t, int64(g.Leaves))) {
		g, ok = l.gangs.NextShape()
	}
	if !ok {
		return math.MaxInt64
	}
	next := max(r.now+1, r.now+1-r.rounds(&g))
	if n := next - r.now + r.rounds(&g); n > 1 && r.full(n-1) {
		return r.nextRipe() // more rounds allow no more
	}
	return next
}

// nextRipe is the first round after now in which one more gang may be preempted.
func (r *preemption) nextRipe() int64 {
	if r.soonest > 0 {
		return r.soonest
	}
	next := int64(math.MaxInt64)
	for g := range r.v.Running() {
		if first := r.c.first(&g); g.Started > 0 && first > r.now && r.over(r.c.tree.leaf(g.Hints.Queue)) > 0 {
			next = min(next, first)
		}
	}
	r.soonest = next
	return next
}

// full reports whether so many rounds allow all that may ever be taken.
func (r *preemption) full(rounds int64) bool {
	if rounds >= maxRounds {
		return true
	}
	if rounds*r.c.round < 1000 {
		return false
	}
	for q := range r.used {
		if len(r.c.tree.queues[q].below) == 0 && r.over(q) > 0 && r.part(q, rounds) < r.over(q) {
			return false
		}
	}
	return true
}
