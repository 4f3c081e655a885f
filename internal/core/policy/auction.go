package policy

import (
	"cmp"
	"slices"
)

// PPM is 1 in the unit of finish-time fairness: parts per million.
const PPM = 1_000_000

// Agent speaks for one app.
type Agent interface {
	// Bid returns the app's finish-time fairness rho if it wins nothing, in parts per
	// million, and a table of what it could win, given the GPUs of each lot that is
	// offered. Rows that ask for more than a lot has, or for nothing, or whose gangs
	// need other GPUs than they take, are ignored, as are those beyond MaxRows.
	Bid(offer []int32) (nothing int64, rows []Row)
	// Split divides a row that the app won among its jobs, when it may keep the first
	// so many of the row's gangs. It returns the GPUs of each lot that these take.
	Split(row int, gangs int) []int32
}

// Row is one line of a bid.
type Row struct {
	Take []int32 // GPUs, by lot
	// Gangs are the GPUs of each gang that runs on them, in the order in which the app
	// would keep them. A gang cannot be divided.
	Gangs []int32
	Rho   int64 // finish-time fairness with them, parts per million, at least 1
}

// Outcome is what one agent got.
type Outcome struct {
	Row int // of its table; -1 when it won nothing
	// Won is what the row has, Gangs how many of its gangs the hidden payment leaves, and
	// Kept what these take.
	Won   int64
	Gangs int
	Kept  []int32
}

// Result is one auction.
type Result struct {
	Outcomes []Outcome // by agent
	Left     []int32   // GPUs of each lot that were not taken, or were paid
	Cut      bool      // the search reached MaxSteps: the allocation may not be the best
}

// The bounds of one auction.
const (
	// MaxRows is how many rows of a bid are read.
	MaxRows = 64
	// MaxSteps is how many choices of a row one search for winners tries. Up to
	// about four agents with ten rows each that is all of them.
	MaxSteps = 20_000
)

// Hold holds an auction among agents, for lots with so many GPUs. The winners are
// those with the largest product of valuations 1/rho (Nash's social welfare) that
// the lots can hold; of equal products the one that gives more to earlier agents.
// An agent pays with a part of what it won: it keeps the fraction
//
//	c = product of the others' valuations / the same if it had stayed away
//
// which makes it useless to bid anything but the truth where GPUs can be divided at will,
// and is never less than 1/e there (Cole et al.). A gang cannot be divided, so what an
// agent keeps is rounded down to whole gangs. It is one at least, for with gangs the
// fraction has no such bound: when two want the same cells, one of them gets nothing, so
// the other would pay for nearly all that it won, and neither would ever get the cells.
func Hold(lots []int32, agents []Agent) Result { return new(Arbiter).Hold(lots, agents) }

// Arbiter holds one auction after the other in the same memory. The zero value is ready.
type Arbiter struct {
	t    auctionTable
	s    winnerSearch
	best []int
	out  Result
}

// Hold is the function of that name; the result stands in the memory of the next.
func (a *Arbiter) Hold(lots []int32, agents []Agent) Result {
	t := &a.t
	t.read(lots, agents)
	cut := false
	if t.contended {
		cut = a.winners(-1)
		a.best = append(a.best[:0], a.s.best...)
	} else {
		a.best = a.best[:0]
		for i := range t.bids { // each gets its best row
			a.best = append(a.best, min(len(t.bids[i].rows), 1)-1)
		}
	}
	out := Result{Outcomes: a.out.Outcomes[:0], Left: append(a.out.Left[:0], lots...), Cut: cut}
	for i := range agents {
		o := Outcome{Row: -1}
		if best := a.best[i]; best >= 0 {
			r := &t.bids[i].rows[best]
			o.Row, o.Won, o.Gangs = r.at, r.sum, len(r.gangs)
			if o.Gangs > 1 { // else it keeps the one anyway
				o.Gangs = whole(r.gangs, o.Won, a.Fraction(i))
			}
			o.Kept = agents[i].Split(o.Row, o.Gangs)
			for l := range o.Kept {
				out.Left[l] -= o.Kept[l]
			}
		}
		out.Outcomes = append(out.Outcomes, o)
	}
	a.out = out
	return out
}

// Fraction is what the hidden payment leaves of what an agent won in the last auction, in
// parts per million to the nearest.
func (a *Arbiter) Fraction(agent int) int64 {
	if !a.t.contended || a.best[agent] < 0 {
		return PPM
	}
	a.winners(agent)
	return a.t.payment(agent, a.best, a.s.best)
}

// whole is how many of the gangs of a row an agent keeps of a fraction of it, in parts per
// million to the nearest: the first that it has room for, one at least.
func whole(gangs []int32, won, fraction int64) int {
	keep := won * min(fraction+1, PPM) / PPM // a third of three GPUs is one
	for i, n := range gangs {
		if keep -= int64(n); keep < 0 {
			return max(i, 1)
		}
	}
	return len(gangs)
}

// auctionTable is all bids, with logarithms instead of products: the smaller the sum of the
// logarithms of rho, the larger the product of the valuations.
type auctionTable struct {
	lots      []int32
	bids      []bid
	rows      []row   // of all bids
	sum       []int64 // of the best rows, by lot
	contended bool    // the lots do not hold the best row of every bid
}

// bid is one agent's table, the best row first.
type bid struct {
	nothing int64 // logarithm of rho
	rows    []row
	// later, where it is not 0, is the rho whose logarithm nothing is still to get: that is
	// only computed where lots are contended.
	later int64
}

type row struct {
	at    int // in the agent's table
	take  []int32
	gangs []int32
	sum   int64
	rho   int64
	log   int64 // of rho
}

// read asks all agents for their bids.
func (t *auctionTable) read(lots []int32, agents []Agent) {
	t.lots, t.bids, t.rows, t.contended = lots, t.bids[:0], t.rows[:0], false
	t.sum = append(t.sum[:0], make([]int64, len(lots))...)
	for _, a := range agents {
		nothing, rows := a.Bid(lots)
		if len(rows) == 0 { // its rho without a row makes no difference
			t.bids = append(t.bids, bid{})
			continue
		}
		b, first := bid{later: nothing}, len(t.rows)
		rows = rows[:min(len(rows), MaxRows)]
		// all are equally good, and better than nothing
		if rho := rows[0].Rho; rho > 0 && rho <= nothing/2 && alike(rows) {
			for at := range rows {
				if r, ok := t.row(at, &rows[at]); ok {
					t.rows = append(t.rows, r)
				}
			}
		} else {
			b = bid{nothing: Log2(nothing)}
			t.measured(rows, b.nothing)
		}
		b.rows = t.rows[first:len(t.rows):len(t.rows)]
		slices.SortStableFunc(b.rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.sum, b.sum)) })
		if len(b.rows) > 0 {
			for l, n := range b.rows[0].take {
				t.sum[l] += int64(n)
			}
		}
		t.bids = append(t.bids, b)
	}
	for l := range lots {
		t.contended = t.contended || t.sum[l] > int64(lots[l])
	}
	if t.contended {
		t.measure()
	}
}

// alike reports whether all rows have the same rho.
func alike(rows []Row) bool {
	return !slices.ContainsFunc(rows, func(r Row) bool { return r.Rho != rows[0].Rho })
}

// measured adds the rows that are better than winning nothing, with their logarithms.
func (t *auctionTable) measured(rows []Row, nothing int64) {
	var rho, log int64 // of the row before
	for at := range rows {
		if rows[at].Rho != rho {
			rho, log = rows[at].Rho, Log2(rows[at].Rho)
		}
		if r, ok := t.row(at, &rows[at]); ok && log < nothing {
			r.log = log
			t.rows = append(t.rows, r)
		}
	}
}

// measure takes the logarithms that were put off.
func (t *auctionTable) measure() {
	for i := range t.bids {
		b := &t.bids[i]
		if b.later == 0 {
			continue
		}
		b.nothing = Log2(b.later)
		for k := range b.rows {
			if k == 0 {
				b.rows[0].log = Log2(b.rows[0].rho)
			}
			b.rows[k].log = b.rows[0].log
		}
	}
}

// row checks one line of a bid, and sums it up.
func (t *auctionTable) row(at int, r *Row) (row, bool) {
	out := row{at: at, take: r.Take, gangs: r.Gangs, rho: r.Rho}
	if len(r.Take) != len(t.lots) {
		return row{}, false
	}
	for l, n := range r.Take {
		if n < 0 || n > t.lots[l] {
			return row{}, false
		}
		out.sum += int64(n)
	}
	rest := out.sum
	for _, n := range r.Gangs {
		if n < 0 {
			return row{}, false
		}
		rest -= int64(n)
	}
	return out, out.sum > 0 && rest == 0
}

// winners finds the row that each agent wins, -1 for none, without one agent
// unless that is -1; cut is set when not everything was tried.
func (a *Arbiter) winners(without int) (cut bool) {
	s, t := &a.s, &a.t
	n := len(t.bids)
	*s = winnerSearch{t: t, without: without, left: append(s.left[:0], t.lots...), now: slices.Grow(s.now[:0], n)[:n],
		best: s.best[:0], rest: slices.Grow(s.rest[:0], n+1)[:n+1]}
	s.rest[n] = 0
	for i := n - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1]
		if b := &t.bids[i]; i != without && len(b.rows) > 0 {
			s.rest[i] += b.rows[0].log
		} else if i != without {
			s.rest[i] += b.nothing
		}
	}
	s.from(0, 0)
	return s.steps > MaxSteps
}

// winnerSearch is a branch and bound over the agents: each in turn takes one of its rows,
// the best first, or nothing. What the others could get at best bounds it.
type winnerSearch struct {
	t       *auctionTable
	without int
	left    []int32
	now     []int
	best    []int
	found   bool    // there is a best
	sum     int64   // of it
	rest    []int64 // the least sum of the agents from one on
	steps   int
}

func (s *winnerSearch) from(i int, sum int64) {
	if s.found && (sum+s.rest[i] >= s.sum || s.steps > MaxSteps) {
		return
	}
	if i == len(s.t.bids) {
		s.best, s.sum, s.found = append(s.best[:0], s.now...), sum, true
		return
	}
	s.steps++
	s.now[i] = -1
	if i == s.without {
		s.from(i+1, sum)
		return
	}
	b := &s.t.bids[i]
	for k := range b.rows {
		if s.found && sum+b.rows[k].log+s.rest[i+1] >= s.sum {
			break // nor are the rows behind it better
		}
		if s.take(b.rows[k].take) {
			s.now[i] = k
			s.from(i+1, sum+b.rows[k].log)
			s.giveBack(b.rows[k].take)
		}
	}
	s.now[i] = -1
	s.from(i+1, sum+b.nothing)
}

func (s *winnerSearch) take(n []int32) bool {
	for l := range n {
		if n[l] > s.left[l] {
			return false
		}
	}
	for l := range n {
		s.left[l] -= n[l]
	}
	return true
}

func (s *winnerSearch) giveBack(n []int32) {
	for l := range n {
		s.left[l] += n[l]
	}
}

// payment is the hidden payment: the fraction of its win that an agent keeps.
func (t *auctionTable) payment(i int, with, without []int) int64 {
	var log int64 // of the product with it over the product without it
	for j := range t.bids {
		if j != i {
			log += t.logOf(j, without[j]) - t.logOf(j, with[j])
		}
	}
	return Exp2(log)
}

func (t *auctionTable) logOf(j, row int) int64 {
	if row < 0 {
		return t.bids[j].nothing
	}
	return t.bids[j].rows[row].log
}
