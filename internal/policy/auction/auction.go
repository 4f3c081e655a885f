// Package auction is the partial allocation auction with hidden payments of Themis
// (Mahajan et al., NSDI'20, section 4; the mechanism is that of Cole, Gkatzelis and
// Goel, EC'13), on plain numbers: lots of GPUs, agents that bid, winners and what
// they pay. It must not know jobs, clusters or the policy that holds it.
//
// There are two levels. The arbiter (Hold) offers all that is free to every agent at
// once, so each bids as if it were alone (the optimistic half); then each GPU goes to
// one agent (the pessimistic half). An agent speaks for one app, such as a
// hyper-parameter search: it alone knows what its jobs are worth to it, answers with
// a table of allocations and the finish-time fairness that each would bring, and
// splits what it won among its jobs.
package auction

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
	// offered. Rows that ask for more than a lot has, or for nothing, are ignored,
	// as are those beyond MaxRows.
	Bid(offer []int32) (nothing int64, rows []Row)
	// Split divides a row that the app won among its jobs, when it may keep so
	// many of the row's GPUs. It returns the GPUs of each lot that its jobs take,
	// whole gangs, and no more than the row had.
	Split(row int, keep int64) []int32
}

// Row is one line of a bid.
type Row struct {
	Take []int32 // GPUs, by lot
	Rho  int64   // finish-time fairness with them, parts per million, at least 1
}

// Outcome is what one agent got.
type Outcome struct {
	Row int // of its table; -1 when it won nothing
	// Won is what the row has, Fraction what the hidden payment leaves of it, in
	// parts per million, and Kept what the agent's jobs take of it: whole gangs.
	Won      int64
	Fraction int64
	Kept     []int32
}

// Result is one auction.
type Result struct {
	Outcomes []Outcome // by agent
	Left     []int32   // GPUs of each lot that nobody took, or that were paid
	Cut      bool      // a search reached MaxSteps: some allocation may not be the best
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
// which makes it useless to bid anything but the truth. A gang cannot be divided: what
// goes back is rounded down to whole gangs by Split, which may keep at most all but
// the whole GPUs that are paid.
func Hold(lots []int32, agents []Agent) Result {
	t := newTable(lots, agents)
	best, cut := t.winners(-1)
	out := Result{Outcomes: make([]Outcome, len(agents)), Left: slices.Clone(lots), Cut: cut}
	for i := range agents {
		o := &out.Outcomes[i]
		*o = Outcome{Row: -1, Fraction: PPM}
		if best[i] < 0 {
			continue
		}
		o.Row = t.bids[i].rows[best[i]].at
		o.Won = t.bids[i].rows[best[i]].sum
		if t.contended {
			without, cut := t.winners(i)
			out.Cut = out.Cut || cut
			o.Fraction = t.payment(i, best, without)
		}
		o.Kept = agents[i].Split(o.Row, o.Won*o.Fraction/PPM)
		for l := range o.Kept {
			out.Left[l] -= o.Kept[l]
		}
	}
	return out
}

// table is all bids, with logarithms instead of products: the smaller the sum of the
// logarithms of rho, the larger the product of the valuations.
type table struct {
	lots      []int32
	bids      []bid
	contended bool // not everybody can have the best of its rows
}

// bid is one agent's table, the best row first.
type bid struct {
	nothing int64 // logarithm of rho
	rows    []row
}

type row struct {
	at   int // in the agent's table
	take []int32
	sum  int64
	log  int64
}

func newTable(lots []int32, agents []Agent) *table {
	t := &table{lots: lots, bids: make([]bid, len(agents))}
	sum := make([]int64, len(lots))
	for i, a := range agents {
		nothing, rows := a.Bid(lots)
		b := &t.bids[i]
		b.nothing = Log2(nothing)
		for at := range rows[:min(len(rows), MaxRows)] {
			if r, ok := t.row(at, &rows[at]); ok && r.log < b.nothing {
				b.rows = append(b.rows, r)
			}
		}
		slices.SortStableFunc(b.rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.sum, b.sum)) })
		if len(b.rows) > 0 {
			for l, n := range b.rows[0].take {
				sum[l] += int64(n)
			}
		}
	}
	for l := range lots {
		t.contended = t.contended || sum[l] > int64(lots[l])
	}
	return t
}

// row checks one line of a bid.
func (t *table) row(at int, r *Row) (row, bool) {
	out := row{at: at, take: r.Take, log: Log2(r.Rho)}
	if len(r.Take) != len(t.lots) {
		return row{}, false
	}
	for l, n := range r.Take {
		if n < 0 || n > t.lots[l] {
			return row{}, false
		}
		out.sum += int64(n)
	}
	return out, out.sum > 0
}

// winners returns the row that each agent wins, -1 for none, without one agent
// unless that is -1; cut is set when not everything was tried.
func (t *table) winners(without int) (rows []int, cut bool) {
	s := winner{t: t, without: without, left: slices.Clone(t.lots), now: make([]int, len(t.bids)), rest: make([]int64, len(t.bids)+1)}
	for i := len(t.bids) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1]
		if b := &t.bids[i]; i != without && len(b.rows) > 0 {
			s.rest[i] += b.rows[0].log
		} else if i != without {
			s.rest[i] += b.nothing
		}
	}
	s.from(0, 0)
	return s.best, s.steps > MaxSteps
}

// winner is a branch and bound over the agents: each in turn takes one of its rows,
// the best first, or nothing. What the others could get at best bounds it.
type winner struct {
	t       *table
	without int
	left    []int32
	now     []int
	best    []int
	sum     int64   // of best
	rest    []int64 // the least sum of the agents from one on
	steps   int
}

func (s *winner) from(i int, sum int64) {
	if s.best != nil && (sum+s.rest[i] >= s.sum || s.steps > MaxSteps) {
		return
	}
	if i == len(s.t.bids) {
		s.best, s.sum = slices.Clone(s.now), sum
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
		if s.take(b.rows[k].take) {
			s.now[i] = k
			s.from(i+1, sum+b.rows[k].log)
			s.giveBack(b.rows[k].take)
		}
	}
	s.now[i] = -1
	s.from(i+1, sum+b.nothing)
}

func (s *winner) take(n []int32) bool {
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

func (s *winner) giveBack(n []int32) {
	for l := range n {
		s.left[l] += n[l]
	}
}

// payment is the fraction of its win that an agent keeps.
func (t *table) payment(i int, with, without []int) int64 {
	var log int64 // of the product with it over the product without it
	for j := range t.bids {
		if j != i {
			log += t.logOf(j, without[j]) - t.logOf(j, with[j])
		}
	}
	return Exp2(log)
}

func (t *table) logOf(j, row int) int64 {
	if row < 0 {
		return t.bids[j].nothing
	}
	return t.bids[j].rows[row].log
}
