package policy

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// capacity is YARN's Capacity Scheduler inside one VC: a tree of queues, each guaranteed a
// percentage of the queue above it and allowed a maximum. At every level the queue that uses
// least of its guarantee comes first; in a leaf queue the gang submitted first. No gang is held
// up: what does not fit, or would break a limit, is passed over. Capacities count leaves, in
// gangs of this priority and above.
//
// A user of a queue with capacity C and U active users (who wait or hold in it) gets at most
// min(max(C/U, C*minimumUserLimit/100), guarantee*userLimitFactor) leaves, rounded up; C is the
// guarantee, or what the queue would use where that is more. A gang cannot be divided, so a
// user who holds nothing may start one that exceeds a limit: it could never start otherwise.
//
// With preempt, a queue below its ideal takes cells back from queues beyond theirs, in
// rounds as YARN's ProportionalCapacityPreemptionPolicy does: see capacity_preempt.go.
type capacity struct {
	// queues=prod:60:100/prod.train:70/prod.serve:30/dev:40 is the tree; default: one queue.
	tree *tree
	// factor is userLimitFactor=1, in thousandths (YARN's user-limit-factor).
	factor int64
	// least is minimumUserLimit=100 percent (YARN's minimum-user-limit-percent).
	least int64
	rounds
}

func newCapacity(a *args) *capacity {
	return &capacity{tree: a.queues("queues"), factor: a.thousandths("userLimitFactor", 1000, 0, 1_000_000),
		least: a.number("minimumUserLimit", 100, 1, 100), rounds: newRounds(a)}
}

// byLeaf tells gangs apart by what their limits depend on.
const byLeaf = model.ByQueue | model.ByUser

// tenant is one user in one leaf queue, with its waiting gangs.
type tenant struct {
	user  model.Subject
	used  int64
	waits int64 // leaves
	lines []line
}

// line is the gangs of a tenant under one name of the queue.
type line struct {
	gangs model.PartyGangs
	head  model.GangView
}

// usage is the state of one walk: what all queues use and what waits in them.
type usage struct {
	c       *capacity
	v       model.View
	total   int64
	used    []int64    // leaves, by queue
	waits   []int64    // leaves, by queue
	tenants [][]tenant // by leaf queue, sorted by user
	alive   []int      // lines with a head in or below the queue
}

// usage reads what all queues and users hold, and what waits; with all also the gangs that ask
// for more than is free.
func (c *capacity) usage(v model.View, all bool) *usage {
	n := len(c.tree.queues)
	u := &usage{c: c, v: v, total: v.Guaranteed(), used: make([]int64, n), waits: make([]int64, n),
		tenants: make([][]tenant, n), alive: make([]int, n)}
	waits := v.Parties(byLeaf, all)
	if len(waits) == 0 {
		return u
	}
	u.count()
	for _, gs := range waits {
		q := c.tree.leaf(gs.Party.Queue)
		t := u.tenant(q, gs.Party.User)
		t.waits += gs.Leaves
		u.add(u.waits, q, gs.Leaves)
		if head, ok := gs.Next(); ok {
			t.lines = append(t.lines, line{gs, head})
			u.live(q, 1)
		}
	}
	return u
}

// count reads what all queues and users hold.
func (u *usage) count() {
	clear(u.used)
	for q := range u.tenants {
		for i := range u.tenants[q] {
			u.tenants[q][i].used = 0
		}
	}
	for p, n := range u.v.Holders(byLeaf) {
		q := u.c.tree.leaf(p.Queue)
		u.tenant(q, p.User).used += n
		u.add(u.used, q, n)
	}
}

func (u *usage) tenant(q int, user model.Subject) *tenant {
	i, found := slices.BinarySearchFunc(u.tenants[q], user, func(t tenant, k model.Subject) int { return cmp.Compare(t.user, k) })
	if !found {
		u.tenants[q] = slices.Insert(u.tenants[q], i, tenant{user: user})
	}
	return &u.tenants[q][i]
}

// add adds to a queue and those above it.
func (u *usage) add(to []int64, q int, n int64) {
	for ; q >= 0; q = u.c.tree.queues[q].up {
		to[q] += n
	}
}

func (u *usage) live(q, n int) {
	for ; q >= 0; q = u.c.tree.queues[q].up {
		u.alive[q] += n
	}
}

// Rank implements model.Policy. It walks once more where a placement raised a limit for which
// another gang was passed over.
func (c *capacity) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for c.serve(v, yield) {
		}
	}
}

// serve wishes for each gang that the limits of its queue and its user allow; it reports
// whether one that they did not allow is allowed by now.
func (c *capacity) serve(v model.View, yield func(model.Wish) bool) (again bool) {
	free := v.Free()
	u := c.usage(v, c.preempt || free > 0)
	r := u.startPreemption()
	var limited []model.GangView
	placed := false
	for {
		q, t, l := u.next()
		if q < 0 {
			break
		}
		g := &t.lines[l].head
		over := r.victimsFor(q, t, g)
		promised := g.Started == 0 && v.Placed(g.Ref)
		allowed := promised || u.allows(q, t, int64(g.Leaves))
		if !allowed || !fits(g, free) && over == nil {
			if !allowed && fits(g, free) {
				limited = append(limited, *g)
			}
			u.step(q, t, l, true)
			continue
		}
		if !yield(model.Wish{Gang: g.Ref, Preemptible: over, IsBehind: r.passes}) {
			return false
		}
		if user := t.user; v.Placed(g.Ref) {
			placed = placed || !promised
			u.count()
			t, free = u.tenant(q, user), v.Free()
			if n := r.taken(); n != nil && !yield(model.Wish{Note: n}) {
				return false
			}
		} else if over != nil {
			r.missed[q] = true
		}
		u.step(q, t, l, false)
	}
	return placed && slices.ContainsFunc(limited, func(g model.GangView) bool {
		q := c.tree.leaf(g.Hints.Queue)
		return fits(&g, free) && u.allows(q, u.tenant(q, g.User), int64(g.Leaves))
	})
}

// next returns the leaf queue to serve, with the tenant and line of the gang that was submitted
// first in it; -1 when no gang waits.
func (u *usage) next() (queue int, first *tenant, at int) {
	queue = -1
	for level := u.c.tree.roots; len(level) > 0; level = u.c.tree.queues[queue].below {
		best := -1
		for _, q := range level {
			if u.alive[q] > 0 && (best < 0 || u.before(q, best)) {
				best = q
			}
		}
		if queue = best; best < 0 {
			return -1, nil, 0
		}
	}
	for i := range u.tenants[queue] {
		t := &u.tenants[queue][i]
		for k := range t.lines {
			if first == nil || submittedBefore(&t.lines[k].head, &first.lines[at].head) {
				first, at = t, k
			}
		}
	}
	return queue, first, at
}

func submittedBefore(a, b *model.GangView) bool {
	return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Ref.Gang, b.Ref.Gang)) < 0
}

// before reports whether a queue uses less of its guarantee than another that
// stands before it.
func (u *usage) before(q, other int) bool {
	a, b := u.c.tree.queues[q].share, u.c.tree.queues[other].share
	if a == 0 || b == 0 {
		return a > 0 || b == 0 && u.used[q] < u.used[other]
	}
	return u.used[q]*b < u.used[other]*a
}

// step goes on to the next gang of a line, or of another shape.
func (u *usage) step(q int, t *tenant, l int, pass bool) {
	gs, more := t.lines[l].gangs, false
	if pass {
		t.lines[l].head, more = gs.NextShape()
	} else {
		t.lines[l].head, more = gs.Next()
	}
	if !more {
		t.lines = slices.Delete(t.lines, l, l+1)
		u.live(q, -1)
	}
}

// allows reports whether a tenant may have so many leaves more.
func (u *usage) allows(q int, t *tenant, need int64) bool {
	for at := q; at >= 0; at = u.c.tree.queues[at].up {
		if u.used[at] > 0 && (u.used[at]+need)*fullShare > u.total*u.c.tree.queues[at].most {
			return false
		}
	}
	return t.used == 0 || t.used+need <= u.limit(q, need)
}

// limit is how many leaves one user of a leaf queue may hold.
func (u *usage) limit(q int, need int64) int64 {
	guarantee := u.total * u.c.tree.queues[q].share // in millionths of a leaf, as is c
	c := max(guarantee, (u.used[q]+need)*fullShare)
	active := int64(0)
	for i := range u.tenants[q] {
		if t := &u.tenants[q][i]; t.used > 0 || t.waits > 0 {
			active++
		}
	}
	most := max(c/max(active, 1), c/100*u.c.least)
	if guarantee > 0 {
		most = min(most, guarantee/1000*u.c.factor)
	}
	return (most + fullShare - 1) / fullShare
}

// WhyHeldBack implements model.HoldsBack: the limits of users and queues.
func (c *capacity) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	g, ok := findWaiting(v, ref)
	if !ok {
		return "", 0
	}
	u := c.usage(v, true)
	q := c.tree.leaf(g.Hints.Queue)
	t, need := u.tenant(q, g.User), int64(g.Leaves)
	if u.allows(q, t, need) {
		return "", 0
	}
	for at := q; at >= 0; at = c.tree.queues[at].up {
		if queue := &c.tree.queues[at]; queue.most < fullShare && u.used[at] > 0 && (u.used[at]+need)*fullShare > u.total*queue.most {
			return fmt.Sprintf("queue %s uses %s of at most %d", queue.name, v.Amount(u.used[at]), u.total*queue.most/fullShare), 0
		}
	}
	limit := u.limit(q, need)
	if limit >= u.total { // the VC is full, which says all
		return "", 0
	}
	return fmt.Sprintf("user %s holds %s in queue %s, of at most %d", g.User, v.Amount(t.used), c.tree.queues[q].name, limit), 0
}

// findWaiting returns a gang that waits.
func findWaiting(v model.View, ref model.GangRef) (model.GangView, bool) {
	for g := range v.Waiting() {
		if g.Ref == ref {
			return g, true
		}
	}
	return model.GangView{}, false
}

// NextChange implements model.Timed: the next round in which a gang may take cells back.
func (c *capacity) NextChange(v model.View) model.Time {
	if !c.preempt {
		return 0
	}
	return c.usage(v, true).nextRound()
}

// noteRound notes that a round took cells back.
func noteRound(round int64) *model.Note {
	return &model.Note{Data: strconv.AppendInt(nil, round, 10)}
}
