package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// The bounds of one auction: what an agent could win beyond them it gets as
// leftovers, or at the next decision.
const (
	maxBidders = 8
	maxLots    = 64 // nodes with idle leaves, and gangs whose lease has ended
	maxGangs   = 6  // of one app
)

// lot is what can be won of one node, or the cells of one gang whose lease has ended.
type lot struct {
	node int32 // cell.None for a gang's cells: only placement knows where they are
	of   int32 // leaves of the whole node
	sku  cell.TypeName
	gang int // in market.expired, -1 for a node
}

// holdAuction holds the auction, and then gives the leftovers to all apps.
func (m *market) holdAuction(yield func(model.Wish) bool) {
	m.offers()
	m.bid()
	bidders := m.bidders
	m.agents, m.asked = slices.Grow(m.agents[:0], len(bidders))[:len(bidders)], m.asked[:0]
	agents := m.agents
	for i, a := range bidders {
		agents[i].begin(m, a)
		m.asked = append(m.asked, &agents[i])
	}
	clear(m.room[:m.used])
	m.used = 0
	m.arbiter.Hold(m.offer, m.asked)
	for i := range agents {
		for _, c := range agents[i].kept {
			if c.expired >= 0 {
				m.expired[c.expired].won = true
			}
		}
	}
	for i := range agents {
		for _, c := range agents[i].kept {
			if c.expired >= 0 {
				continue
			}
			if !yield(model.Wish{Gang: c.gang.Ref, OnlyNodes: c.nodes, Preemptible: m.overFor(bidders[i])}) {
				return
			}
		}
	}
	if m.collect(yield) {
		m.leftovers(yield)
	}
}

// overFor yields the gangs that may be preempted for a winner: those whose cells no app won.
// nil is that there are none. The sequence is valid until the next call.
func (m *market) overFor(a *app) iter.Seq[model.GangRef] {
	if m.winner = a; !slices.ContainsFunc(m.expired, m.loses) {
		return nil
	}
	if m.losers == nil { // made once
		m.losers = func(yield func(model.GangRef) bool) {
			for i := range m.expired {
				if e := &m.expired[i]; m.loses(*e) && !yield(e.gang.Ref) {
					return
				}
			}
		}
	}
	return m.losers
}

// loses reports whether a gang may be preempted for the winner.
func (m *market) loses(e expired) bool { return !e.won && e.app != m.winner }

// offers lists what is offered: idle leaves, no more than the VC's guarantee has free,
// and the cells of the gangs whose leases have ended.
func (m *market) offers() {
	m.lots, m.offer = m.lots[:0], m.offer[:0]
	if free := m.free; free > 0 {
		for n := range m.v.Nodes() {
			for _, o := range n.Offers {
				if k := int32(min(int64(o.Idle), free)); k > 0 && len(m.lots) < maxLots {
					m.lots, m.offer = append(m.lots, lot{node: n.Node, of: o.Of, sku: o.SKU,
						gang: -1}), append(m.offer, k)
					free -= int64(k)
				}
			}
		}
	}
	for i := range m.expired[:min(len(m.expired), maxLots-len(m.lots))] {
		n := m.expired[i].gang.Leaves
		m.lots, m.offer = append(m.lots, lot{node: cell.None, of: n, gang: i}), append(m.offer, n)
	}
	for _, n := range m.offer {
		m.largest = max(m.largest, n)
	}
}

// bid chooses the bidders: the 1-f of the apps with the largest rho that want something,
// at least one.
func (m *market) bid() {
	var best [maxBidders]contender
	n := 0
	for i := range m.apps {
		if a := &m.apps[i]; m.useful(a) || a.ended > 0 {
			n++
			insert(&best, n, contender{a.rho, a.order, i, -1})
		}
	}
	for i, g := range m.singles { // of lines that could get something
		if n++; n <= maxBidders || !m.below(g, best[maxBidders-1].rho) {
			insert(&best, n, contender{m.singleRho(g), g.Order, -1, i})
		}
	}
	most := max((int64(n+m.more)*(1000-m.t.f)+999)/1000, 1)
	m.bidders, m.made = m.bidders[:0], slices.Grow(m.made[:0], maxBidders)
	for i := range min(int64(min(n, maxBidders)), most) {
		if c := &best[i]; c.app >= 0 {
			m.bidders = append(m.bidders, &m.apps[c.app])
		} else {
			m.bidders = append(m.bidders, m.singleApp(c.single))
		}
		m.bidders[i].bids = int(i) + 1
	}
}

// insert puts the n-th contender among the best.
func insert(best *[maxBidders]contender, n int, c contender) {
	k := min(n, maxBidders) - 1
	if n > maxBidders && c.compare(&best[k]) > 0 {
		return
	}
	for ; k > 0 && c.compare(&best[k-1]) < 0; k-- {
		best[k] = best[k-1]
	}
	best[k] = c
}

// contender is an app that may bid: one that was made, or that of a gang that is one by
// itself.
type contender struct {
	rho, order  int64
	app, single int
}

func (c *contender) compare(o *contender) int {
	return cmp.Or(cmp.Compare(o.rho, c.rho), cmp.Compare(c.order, o.order))
}

// useful reports whether an app waits for something that could be free.
func (m *market) useful(a *app) bool {
	return slices.ContainsFunc(a.waits, func(g *model.GangView) bool { return fits(g, m.free+m.leaving) })
}

// turn is an app's place in the order of leftovers.
type turn struct {
	app, single int32  // one is -1
	bids        int32  // as of the app
	sensitive   bool   // sensitive to placement
	lot         uint64 // the number drawn for it
	order       int64
}

func (a *turn) compare(b *turn) int {
	switch {
	case a.bids != b.bids:
		return cmp.Compare(a.bids, b.bids)
	case a.sensitive != b.sensitive:
		return sign(b.sensitive)
	}
	return cmp.Or(cmp.Compare(a.lot, b.lot), cmp.Compare(a.order, b.order))
}

// leftovers serves the apps that did not bid: those sensitive to placement first, each group in
// an order drawn from the seed and the time; then the bidders that got less than they want, by
// rho. No gang is preempted for them.
func (m *market) leftovers(yield func(model.Wish) bool) {
	m.listTurns(m.v.Free())
	for i := range m.turns {
		u := &m.turns[i]
		var waits []*model.GangView
		if u.app >= 0 {
			waits = m.apps[u.app].waits
		} else {
			waits = m.singles[u.single : u.single+1]
		}
		for _, g := range waits {
			if fits(g, m.v.Free()) && !m.v.FoundNothing(g.Shape) && !yield(model.Wish{Gang: g.Ref}) {
				return
			}
		}
	}
	m.unread(yield)
}

// listTurns lists the apps for which there could be leftovers, in order.
func (m *market) listTurns(free int64) {
	m.turns = m.turns[:0]
	for i := range m.apps {
		a := &m.apps[i]
		if slices.ContainsFunc(a.waits, func(g *model.GangView) bool { return fits(g, free) }) {
			m.turns = append(m.turns, turn{int32(i), -1, int32(a.bids), a.slow > 1000, draw(m.t.seed, m.now, int64(a.start)), a.order})
		}
	}
	shape, vain := "", false
	for i, g := range m.singles {
		if !fits(g, free) {
			continue
		}
		if g.Shape != shape {
			shape, vain = g.Shape, m.v.FoundNothing(g.Shape)
		}
		if vain {
			continue
		}
		u := turn{-1, int32(i), 0, m.t.slowed(g) > 1000, draw(m.t.seed, m.now, int64(g.Submitted)), g.Order}
		if at := slices.IndexFunc(m.bidders, func(a *app) bool { return a.order == g.Order }); at >= 0 {
			u.bids = int32(at) + 1
		}
		m.turns = append(m.turns, u)
	}
	slices.SortFunc(m.turns, func(a, b turn) int { return a.compare(&b) })
}

// unread serves the gangs that were not read, while something is free: those of about one run
// time and shape in order of submission, the groups in an order drawn from the seed.
func (m *market) unread(yield func(model.Wish) bool) {
	free := m.v.Free()
	if !slices.ContainsFunc(m.lines, func(l model.ShapeGroup) bool { return int64(l.Leaves) <= free && !m.v.FoundNothing(l.First[0].Shape) }) {
		return
	}
	lines := m.v.Parties(byApp, false)
	slices.SortFunc(lines, func(a, b model.PartyGangs) int {
		return cmp.Or(cmp.Compare(draw(m.t.seed, m.now, int64(a.Party.Length)), draw(m.t.seed, m.now, int64(b.Party.Length))), a.Party.Compare(b.Party))
	})
	for i := range lines {
		for g, ok := lines[i].Next(); ok; g, ok = lines[i].Next() {
			if fits(&g, m.v.Free()) && !yield(model.Wish{Gang: g.Ref}) {
				return
			}
		}
	}
}

func sign(after bool) int {
	if after {
		return 1
	}
	return -1
}

// draw mixes the seed, the time and what tells apps apart into a number (the finalizer of
// splitmix64). of must not be the number of a job: that depends on which other jobs are
// submitted.
func draw(seed int64, now model.Time, of int64) uint64 {
	x := uint64(seed)*0x9E3779B97F4A7C15 + uint64(now)*0xBF58476D1CE4E5B9 + uint64(of)*0x94D049BB133111EB
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// agent bids for one app.
type agent struct {
	m     *market
	app   *app
	stays int64           // GPUs that it holds by leases that have not ended
	gangs []candidate     // that it wants, in the order in which they are served
	sizes []int32         // leaves of each of gangs
	took  [ways][][]int32 // GPUs that they would take: by way, gang and lot
	by    []int           // the way of each row
	rows  []Row
	kept  []candidate
}

// candidate is a gang that an app wants cells for.
type candidate struct {
	gang    *model.GangView
	expired int          // in market.expired, -1 for one that waits
	nodes   cell.NodeSet // that it won, nil where it won cells of another gang
}

// begin makes the agent of an app: it bids for the cells that the app holds first, then for its
// waiting gangs in order of submission.
func (a *agent) begin(m *market, of *app) {
	*a = agent{m: m, app: of, stays: of.held, gangs: a.gangs[:0], sizes: a.sizes[:0], took: a.took, by: a.by[:0], kept: a.kept[:0], rows: a.rows[:0]}
	for way := range a.took {
		a.took[way] = a.took[way][:0]
	}
	for i := range m.expired {
		if e := &m.expired[i]; e.app == of {
			a.stays -= int64(e.gang.Leaves)
			if len(a.gangs) < maxGangs {
				a.gangs = append(a.gangs, candidate{gang: e.gang, expired: i})
			}
		}
	}
	for _, g := range of.waits[:min(len(of.waits), maxGangs-len(a.gangs))] {
		a.gangs = append(a.gangs, candidate{gang: g, expired: -1})
	}
	for i := range a.gangs {
		a.sizes = append(a.sizes, a.gangs[i].gang.Leaves)
	}
}

// The ways in which an agent fills lots: a gang on the fullest node that holds all of
// it, on the emptiest, or on what is left of nodes, the smallest first.
const (
	fullestNode = iota
	emptiestNode
	fragments
	ways
)

// Bid implements Agent: for each way, the first of its gangs, the first two,
// and so on.
func (a *agent) Bid(offer []int32) (nothing int64, rows []Row) {
	if c := &a.gangs[0]; c.expired < 0 && slices.ContainsFunc(c.gang.Members, func(m cell.Member) bool { return m.Leaves > a.m.largest }) {
		return 0, nil // no lot is large enough for one of its tasks
	}
	b := bidding{agent: a, offer: offer, left: a.m.take(len(offer))}
	for way := range ways {
		if way == fragments && b.whole {
			break // each gang goes to the smallest lot, as when fullestNode
		}
		copy(b.left, offer)
		b.way(way)
		if way == fullestNode && b.stuck {
			break
		}
	}
	nothing = a.m.fairness(a.app, a.stays, 1000)
	if a.stays == 0 {
		nothing = times(nothing, unbounded)
	}
	return nothing, b.rows
}

// bidding is a bid as it is made.
type bidding struct {
	*agent
	offer, left []int32
	whole       bool            // its gangs that were tried go to one lot each, whichever way
	stuck       bool            // no lot has room for the first of them
	fair        [maxGangs]int64 // by number of gangs: rho if none is slowed down; 0 is not known
}

// way fills lots in one way.
func (b *bidding) way(way int) {
	held, slow := b.stays, int64(1000)
	for i := range b.gangs {
		c := &b.gangs[i]
		if way == fullestNode {
			b.whole = (i == 0 || b.whole) && (c.expired >= 0 || oneTask(c.gang))
		}
		take, spread, ok := b.place(c, b.left, way)
		if !ok {
			b.stuck = i == 0 && b.whole
			return
		}
		all := take // of all gangs so far
		if i > 0 {
			all = b.m.take(len(b.offer))
		}
		for l := range b.left {
			b.left[l] -= take[l]
			all[l] = b.offer[l] - b.left[l]
		}
		if spread {
			slow = max(slow, b.m.t.slowed(c.gang))
		}
		held += int64(c.gang.Leaves)
		b.took[way] = append(b.took[way], take)
		if slices.ContainsFunc(b.rows, func(r Row) bool { return slices.Equal(r.Take, all) }) {
			continue // another way comes to the same
		}
		b.rows = append(b.rows, Row{Take: all, Gangs: b.sizes[:i+1], Rho: b.rho(i, held, slow)})
		b.by = append(b.by, way)
	}
}

// rho is the fairness with the gangs up to one, which hold so many GPUs.
func (b *bidding) rho(last int, held, slow int64) int64 {
	if slow > 1000 {
		return b.m.fairness(b.app, held, slow)
	}
	if b.fair[last] == 0 {
		b.fair[last] = b.m.fairness(b.app, held, slow)
	}
	return b.fair[last]
}

// take returns memory for a number by lot, all zero.
func (m *market) take(n int) []int32 {
	if m.used+n > len(m.room) {
		m.room, m.used = make([]int32, max(n, 2*len(m.room), 512)), 0
	}
	m.used += n
	return m.room[m.used-n : m.used : m.used]
}

// oneTask reports whether a gang is a single task.
func oneTask(g *model.GangView) bool { return len(g.Members) == 1 && g.Members[0].Tasks == 1 }

// unbounded is how many times worse than waiting for one lease it is to hold nothing:
// an app that never gets anything never ends, so its rho has no bound (the paper). With
// less an app that has waited for long would hardly gain by a first gang, and lose to
// others for ever.
const unbounded = 1000

// place says what a gang would take of what is left of the lots, and whether it is
// on more nodes than it needs.
func (a *agent) place(c *candidate, left []int32, way int) (take []int32, spread, ok bool) {
	take = a.m.take(len(left))
	if c.expired >= 0 {
		at := slices.IndexFunc(a.m.lots, func(l lot) bool { return l.gang == c.expired })
		if at < 0 || left[at] < c.gang.Leaves {
			return nil, false, false
		}
		take[at] = c.gang.Leaves
		return take, false, true
	}
	if way != fragments {
		if at := a.choose(c, left, take, c.gang.Leaves, way); at >= 0 {
			take[at] = c.gang.Leaves
			return take, false, true
		}
	}
	used, widest := int32(0), int32(1)
	for _, m := range c.gang.Members {
		for range m.Tasks {
			at := a.choose(c, left, take, m.Leaves, way)
			if at < 0 {
				return nil, false, false
			}
			if take[at] == 0 {
				used++
			}
			take[at] += m.Leaves
			widest = max(widest, a.m.lots[at].of)
		}
	}
	return take, used > (c.gang.Leaves+widest-1)/widest, true
}

// nodesOf are the nodes of lots; nil where some are cells of gangs.
func (a *agent) nodesOf(take []int32) cell.NodeSet {
	var nodes cell.NodeSet
	for l, n := range take {
		switch {
		case n == 0:
		case a.m.lots[l].node < 0:
			return nil
		default:
			nodes = nodes.Add(a.m.lots[l].node)
		}
	}
	return nodes
}

// choose returns the lot for n leaves of a gang, -1 where none has room.
func (a *agent) choose(c *candidate, left, take []int32, n int32, way int) int {
	best := -1
	for l := range a.m.lots {
		room := left[l] - take[l]
		if room < n || !a.fits(c, &a.m.lots[l]) {
			continue
		}
		better := best < 0 || room < left[best]-take[best]
		if way == emptiestNode && best >= 0 {
			better = room > left[best]-take[best]
		}
		if better {
			best = l
		}
	}
	return best
}

// fits reports whether a gang could use a lot, going by its first members.
func (a *agent) fits(c *candidate, l *lot) bool {
	if l.gang >= 0 {
		return slices.EqualFunc(c.gang.Members, a.m.expired[l.gang].gang.Members, sameSKUs) || anySKU(c.gang)
	}
	return len(c.gang.Members) == 0 || anySKU(c.gang) || slices.ContainsFunc(c.gang.Members, func(m cell.Member) bool { return slices.Contains(m.SKUs, l.sku) })
}

func sameSKUs(a, b cell.Member) bool { return slices.Equal(a.SKUs, b.SKUs) }

func anySKU(g *model.GangView) bool {
	return !slices.ContainsFunc(g.Members, func(m cell.Member) bool { return len(m.SKUs) > 0 })
}

// Split implements Agent.
func (a *agent) Split(row, gangs int) []int32 {
	out := make([]int32, len(a.m.lots))
	for i, take := range a.took[a.by[row]][:gangs] {
		c := a.gangs[i]
		c.nodes = a.nodesOf(take)
		a.kept = append(a.kept, c)
		for l := range out {
			out[l] += take[l]
		}
	}
	return out
}
