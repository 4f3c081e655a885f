package policy

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/policy/auction"
	"github.com/combsched/comb/internal/sched"
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

// sell holds the auction, and gives what is left to the others.
func (m *market) sell(yield func(sched.Wish) bool) {
	lots, offer := m.lots()
	bidders := m.bidders()
	agents := make([]auction.Agent, len(bidders))
	for i, at := range bidders {
		agents[i] = m.agent(at, lots)
	}
	auction.Hold(offer, agents)
	for i := range agents {
		for _, c := range agents[i].(*agent).kept {
			if c.expired >= 0 {
				m.expired[c.expired].won = true
			}
		}
	}
	for i := range agents {
		for _, c := range agents[i].(*agent).kept {
			if c.expired >= 0 {
				continue
			}
			if !yield(sched.Wish{Gang: c.gang.Ref, Only: c.nodes, Over: m.over(func(e *expired) bool { return !e.won && e.app != bidders[i] })}) {
				return
			}
		}
	}
	m.leftovers(len(bidders), yield)
}

// lots are what is offered: idle leaves, no more than the VC's guarantee has free,
// and the cells of the gangs whose leases have ended.
func (m *market) lots() (lots []lot, offer []int32) {
	free := m.free
	for n := range m.v.Nodes() {
		for _, o := range n.Offers {
			if k := int32(min(int64(o.Idle), free)); k > 0 && len(lots) < maxLots {
				lots, offer = append(lots, lot{node: n.Node, of: o.Of, sku: o.SKU, gang: -1}), append(offer, k)
				free -= int64(k)
			}
		}
	}
	for i := range m.expired {
		if g := &m.expired[i].gang; len(lots) < maxLots {
			lots, offer = append(lots, lot{node: cell.None, of: g.Leaves, gang: i}), append(offer, g.Leaves)
		}
	}
	return lots, offer
}

// bidders are the 1-f of the apps with the largest rho that want something, at least
// one.
func (m *market) bidders() []int {
	var want []int
	n := 0
	for i := range m.apps {
		if a := m.apps[i]; m.useful(a) || m.leased(a) {
			if n++; len(want) < maxBidders {
				want = append(want, i)
			}
		}
	}
	most := (int64(n+m.more)*(1000-m.t.f) + 999) / 1000
	return want[:min(int64(len(want)), max(most, 1))]
}

// useful reports whether an app waits for something that could be free.
func (m *market) useful(a *app) bool {
	return slices.ContainsFunc(a.waits, func(g sched.GangView) bool { return fits(&g, m.free+m.leaving) })
}

// leased reports whether a lease of an app has ended.
func (m *market) leased(a *app) bool {
	return slices.ContainsFunc(a.runs, func(g sched.GangView) bool { return m.t.expired(&g, m.now) })
}

// leftovers yields those that did not bid: those whose jobs care where they run
// first, each in an order that the seed and the time say; then those that bid and
// got less than they want, by rho. Nobody is lifted for them.
func (m *market) leftovers(bid int, yield func(sched.Wish) bool) {
	type turn struct {
		app    int
		lot    uint64
		picky  bool
		bidder bool
	}
	var turns []turn
	bidders, free := m.bidders(), m.v.Free()
	for i := range m.apps {
		a := m.apps[i]
		if slices.ContainsFunc(a.waits, func(g sched.GangView) bool { return fits(&g, free) }) {
			turns = append(turns, turn{i, draw(m.t.seed, m.now, a.order), a.slow > 1000, slices.Contains(bidders[:bid], i)})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		switch {
		case a.bidder != b.bidder:
			return sign(a.bidder)
		case a.bidder:
			return cmp.Compare(a.app, b.app)
		case a.picky != b.picky:
			return sign(b.picky)
		}
		return cmp.Or(cmp.Compare(a.lot, b.lot), cmp.Compare(a.app, b.app))
	})
	for _, u := range turns {
		for _, g := range m.apps[u.app].waits {
			if fits(&g, m.v.Free()) && !yield(sched.Wish{Gang: g.Ref}) {
				return
			}
		}
	}
	m.unread(yield)
}

// unread yields those that were not read, while something is free: of about one run
// time and shape in order of submission, these in an order that the seed says.
func (m *market) unread(yield func(sched.Wish) bool) {
	if m.count == int64(len(m.apps)) || m.v.Free() == 0 {
		return
	}
	lines := m.v.Parties(byApp, false)
	slices.SortFunc(lines, func(a, b sched.PartyGangs) int {
		return cmp.Or(cmp.Compare(draw(m.t.seed, m.now, int64(a.Party.Length)), draw(m.t.seed, m.now, int64(b.Party.Length))), a.Party.Compare(b.Party))
	})
	for i := range lines {
		for g, ok := lines[i].Next(); ok; g, ok = lines[i].Next() {
			if fits(&g, m.v.Free()) && !yield(sched.Wish{Gang: g.Ref}) {
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

// draw mixes the seed, the time and an app into a number (the finalizer of
// splitmix64).
func draw(seed int64, now sched.Time, app int64) uint64 {
	x := uint64(seed)*0x9E3779B97F4A7C15 + uint64(now)*0xBF58476D1CE4E5B9 + uint64(app)*0x94D049BB133111EB
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// agent bids for one app.
type agent struct {
	m     *market
	app   *app
	lots  []lot
	stays int64       // GPUs that it holds and whose leases have not ended
	gangs []candidate // that it wants, in the order in which they are served
	plans []plan      // by row
	kept  []candidate
}

// candidate is a gang that an app wants cells for.
type candidate struct {
	gang    *sched.GangView
	expired int          // in market.expired, -1 for one that waits
	nodes   cell.NodeSet // that it won, nil where it won cells of another gang
}

// plan is where the first gangs of an app would go.
type plan struct {
	take  [][]int32 // by gang and lot
	nodes []cell.NodeSet
}

// agent makes the agent of an app: what it holds it wants to keep, then its jobs are
// served in the order of submission.
func (m *market) agent(at int, lots []lot) *agent {
	a := &agent{m: m, app: m.apps[at], lots: lots, stays: m.apps[at].held}
	for i := range m.expired {
		if e := &m.expired[i]; e.app == at {
			a.stays -= int64(e.gang.Leaves)
			a.gangs = append(a.gangs, candidate{gang: &e.gang, expired: i})
		}
	}
	for i := range a.app.waits {
		a.gangs = append(a.gangs, candidate{gang: &a.app.waits[i], expired: -1})
	}
	a.gangs = a.gangs[:min(len(a.gangs), maxGangs)]
	return a
}

// The ways in which an agent fills lots: a gang on the fullest node that holds all of
// it, on the emptiest, or on what is left of nodes, the smallest first.
const (
	tight = iota
	loose
	fragments
	ways
)

// Bid implements auction.Agent: for each way, the first of its gangs, the first two,
// and so on.
func (a *agent) Bid(offer []int32) (nothing int64, rows []auction.Row) {
	for way := range ways {
		left := slices.Clone(offer)
		held, slow := a.stays, int64(1000)
		var p plan
		for i := range a.gangs {
			take, nodes, spread, ok := a.place(&a.gangs[i], left, way)
			if !ok {
				break
			}
			p = plan{append(p.take[:len(p.take):len(p.take)], take), append(p.nodes[:len(p.nodes):len(p.nodes)], nodes)}
			all := make([]int32, len(offer))
			for l := range left {
				left[l] -= take[l]
				all[l] = offer[l] - left[l]
			}
			if spread {
				slow = max(slow, a.m.t.slow[a.gangs[i].gang.Hints.Model])
			}
			held += int64(a.gangs[i].gang.Leaves)
			if slices.ContainsFunc(rows, func(r auction.Row) bool { return slices.Equal(r.Take, all) }) {
				continue // another way comes to the same
			}
			rows = append(rows, auction.Row{Take: all, Rho: a.m.fairness(a.app, held, slow)})
			a.plans = append(a.plans, p)
		}
	}
	nothing = a.m.fairness(a.app, a.stays, 1000)
	if a.stays == 0 {
		nothing = times(nothing, unbounded)
	}
	return nothing, rows
}

// unbounded is how many times worse than waiting for one lease it is to hold nothing:
// an app that never gets anything never ends, so its rho has no bound (the paper). With
// less an app that has waited for long would hardly gain by a first gang, and lose to
// others for ever.
const unbounded = 1000

// place says what a gang would take of what is left of the lots, and whether it is
// on more nodes than it needs.
func (a *agent) place(c *candidate, left []int32, way int) (take []int32, nodes cell.NodeSet, spread, ok bool) {
	take = make([]int32, len(left))
	if c.expired >= 0 {
		at := slices.IndexFunc(a.lots, func(l lot) bool { return l.gang == c.expired })
		if at < 0 || left[at] < c.gang.Leaves {
			return nil, nil, false, false
		}
		take[at] = c.gang.Leaves
		return take, nil, false, true
	}
	if at := a.choose(c, left, take, c.gang.Leaves, way); at >= 0 && way != fragments {
		take[at] = c.gang.Leaves
		if a.lots[at].node >= 0 {
			nodes = nodes.Add(a.lots[at].node)
		}
		return take, nodes, false, true
	}
	used, widest, known := int32(0), int32(1), true
	for _, m := range c.gang.Members {
		for range m.Tasks {
			at := a.choose(c, left, take, m.Leaves, way)
			if at < 0 {
				return nil, nil, false, false
			}
			if take[at] == 0 {
				used++
			}
			take[at] += m.Leaves
			widest = max(widest, a.lots[at].of)
			known = known && a.lots[at].node >= 0
			if known {
				nodes = nodes.Add(a.lots[at].node)
			}
		}
	}
	if !known {
		nodes = nil
	}
	return take, nodes, used > (c.gang.Leaves+widest-1)/widest, true
}

// choose returns the lot for n leaves of a gang, -1 where none has room.
func (a *agent) choose(c *candidate, left, take []int32, n int32, way int) int {
	best := -1
	for l := range a.lots {
		room := left[l] - take[l]
		if room < n || !a.fits(c, &a.lots[l]) {
			continue
		}
		better := best < 0 || room < left[best]-take[best]
		if way == loose && best >= 0 {
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

func anySKU(g *sched.GangView) bool {
	return !slices.ContainsFunc(g.Members, func(m cell.Member) bool { return len(m.SKUs) > 0 })
}

// Split implements auction.Agent: what goes back is rounded down to whole gangs.
func (a *agent) Split(row int, keep int64) []int32 {
	p := &a.plans[row]
	out := make([]int32, len(a.lots))
	for i := range p.take {
		if keep <= 0 {
			break
		}
		keep -= int64(a.gangs[i].gang.Leaves)
		c := a.gangs[i]
		c.nodes = p.nodes[i]
		a.kept = append(a.kept, c)
		for l := range out {
			out[l] += p.take[i][l]
		}
	}
	return out
}
