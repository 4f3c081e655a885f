package sched

import (
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Lines implements View.
func (v view) Lines(by By, most func(*Line) int) []Line {
	s := v.s
	s.askLines(v.space, by)
	lazies := s.laziesAt(v.space, v.prio, false)
	out := s.mem.lines[:0]
	if up := s.lineup(v.space, v.prio); up != nil {
		out = slices.Grow(out, len(up.lines)+len(lazies))
		for i := range up.lines {
			l := &up.lines[i]
			if l.extra || len(l.gangs) == 0 {
				continue
			}
			out = append(out, Line{Party: l.party, Gangs: len(l.gangs)})
			line := &out[len(out)-1]
			if l.shape != "" {
				line.Leaves = l.leaves
			}
			line.First = v.heads(l, min(len(l.gangs), most(line)))
		}
	}
	for _, e := range lazies {
		out = append(out, Line{Party: by.party(s.jobs[e.slot].spec), Leaves: 0, Gangs: 1, First: []GangView{v.waiting(e, true)}})
	}
	s.mem.lines = out
	return out
}

// heads returns the first gangs of a line; beside bookings none says anything of others.
func (v view) heads(l *line, n int) []GangView {
	out := v.s.heads(l, n)
	if v.besideBookings() {
		out = slices.Clone(out)
		for i := range out {
			out[i].Shape = ""
		}
	}
	return out
}

// besideBookings reports whether the VC backfills; who asks for the order alone sees the
// same of those who wait as a walk.
func (v view) besideBookings() bool {
	return v.w != nil && v.w.outlook != nil || v.all && v.s.looks.always[v.space]
}

// Fruitless implements View.
func (v view) Fruitless(shape string) bool { return v.w.fruitless()[shape] }

// Parties implements View.
func (v view) Parties(by By, all bool) []PartyGangs {
	s := v.s
	s.askLines(v.space, by)
	ps := parties{v: v, lines: s.mem.chosen[:0]}
	up := s.lineup(v.space, v.prio)
	if up != nil {
		free, failed := v.roomFor(), v.hopeless()
		for i := range up.lines {
			l := &up.lines[i]
			if l.extra || len(l.gangs) == 0 || !all && l.shape != "" && (int64(l.leaves) > free || failed[l.shape]) {
				continue
			}
			ps.lines = append(ps.lines, chosen{line: int32(i), party: ps.of(l.party)})
		}
	}
	s.mem.chosen = ps.lines
	for _, e := range s.laziesAt(v.space, v.prio, false) {
		u := &ps.found[ps.of(by.party(s.jobs[e.slot].spec))]
		u.lazies = append(u.lazies, e)
		u.leaves += int64(s.jobs[e.slot].gangs[e.gang].leaves)
	}
	ps.layOut()
	for _, c := range ps.lines {
		l := &up.lines[c.line]
		u := &ps.found[c.party]
		u.merge.add(int(c.line), l)
		if all {
			u.leaves += s.leavesOfLine(l)
		}
	}
	out := make([]PartyGangs, len(ps.found))
	for i := range ps.found {
		u := &ps.found[i]
		u.merge.order()
		out[i] = PartyGangs{Party: u.name, Leaves: u.leaves, Next: u.next, Pass: u.pass}
	}
	return out
}

// parties are those that wait, with the lines that they have among some.
type parties struct {
	v     view
	lines []chosen
	found []partyGangs
	at    map[Party]int32 // where they stand, once they are many
}

// of returns where a party stands; one that is none yet becomes the last.
func (ps *parties) of(name Party) int32 {
	n := int32(len(ps.found))
	if n <= fewParties {
		for i := range ps.found {
			if ps.found[i].name == name {
				return int32(i)
			}
		}
	} else if i, ok := ps.at[name]; ok {
		return i
	}
	if n == fewParties {
		ps.at = map[Party]int32{}
		for i := range ps.found {
			ps.at[ps.found[i].name] = int32(i)
		}
	}
	if n >= fewParties {
		ps.at[name] = n
	}
	ps.found = append(ps.found, partyGangs{v: ps.v, name: name})
	return n
}

// layOut gives each party memory for its lines, taken at once for all.
func (ps *parties) layOut() {
	count := slices.Grow(ps.v.s.mem.counts[:0], len(ps.found))[:len(ps.found)]
	clear(count)
	for _, c := range ps.lines {
		count[c.party]++
	}
	heads := make([]head, len(ps.lines))
	for i, n := range count {
		ps.found[i].merge = merge{s: &ps.v.s.index, space: ps.v.space, prio: ps.v.prio, heads: heads[:0:n]}
		heads = heads[n:]
	}
	ps.v.s.mem.counts = count
}

// Queue implements View.
func (v view) Queue() PartyGangs {
	s := v.s
	s.askLines(v.space, byKey)
	u := &partyGangs{v: v, all: true, merge: merge{s: &s.index, space: v.space, prio: v.prio}, lazies: s.laziesAt(v.space, v.prio, false)}
	u.merge.addFull()
	return PartyGangs{Next: u.next, Pass: u.pass}
}

// partyGangs reads the gangs of one party: those that wait, and those that wait
// for an upgrade.
type partyGangs struct {
	v      view
	name   Party
	leaves int64
	merge  merge
	read   bool // what the merge comes to was returned
	all    bool // also those whose shape found nothing
	lazies []queued
}

func (u *partyGangs) failed() map[string]bool {
	if u.all {
		return nil
	}
	return u.v.w.fruitless()
}

func (u *partyGangs) next() (GangView, bool) {
	if u.read {
		u.merge.next()
		u.read = false
	}
	e, ok := u.merge.first(u.failed())
	switch {
	case len(u.lazies) > 0 && (!ok || u.lazies[0].compare(e) < 0):
		e, u.lazies = u.lazies[0], u.lazies[1:]
	case !ok:
		return GangView{}, false
	default:
		u.read = true
	}
	return u.v.waiting(e, !u.read), true
}

// waiting is what a policy sees of a gang that waits, or with lazy for an upgrade:
// the shape is left out where one gang says nothing of others.
func (v view) waiting(e queued, lazy bool) GangView {
	g := v.s.gangView(e)
	if lazy || v.besideBookings() || v.s.jobs[e.slot].gangs[e.gang].single {
		g.Shape = ""
	}
	return g
}

// pass is next without the others of the last one's shape.
func (u *partyGangs) pass() (GangView, bool) {
	if u.read {
		u.merge.pass()
		u.read = false
	}
	return u.next()
}

// roomFor bounds the leaves of the gangs that grant could place.
func (v view) roomFor() int64 {
	if v.w == nil {
		return math.MaxInt64
	}
	return v.Free()
}

// hopeless returns the shapes that a Patient policy need not see.
func (v view) hopeless() map[string]bool {
	if _, patient := v.s.pol[v.space].(Patient); patient {
		return v.w.fruitless()
	}
	return nil
}

// fruitless returns the shapes of which grant passes over all gangs.
func (w *walker) fruitless() map[string]bool {
	if w == nil || w.outlook != nil { // bookings are made for who cannot start
		return nil
	}
	return w.failed
}

// Share implements View: DRF's dominant share (NSDI'11), of a VC's guarantee.
func (v view) Share(by By, p Party) int64 {
	hs := v.s.holdings(v.space, by)
	var room [16]int64 // of most clusters' resources
	used := append(room[:0], make([]int64, len(hs.owned))...)
	for i := hs.from(by, p); i < len(hs.list) && hs.list[i].by == by && hs.list[i].party == p; i++ {
		v.s.addResources(used, int(hs.list[i].chain), hs.list[i].leaves)
	}
	var share int64
	for i, of := range hs.owned {
		if of > 0 {
			share = max(share, used[i]*1_000_000/of)
		}
	}
	return share
}

// Held implements View.
func (v view) Held(by By, p Party) int64 {
	hs := v.s.holdings(v.space, by)
	var n int64
	for i := hs.from(by, p); i < len(hs.list) && hs.list[i].by == by && hs.list[i].party == p; i++ {
		if hs.list[i].prio >= v.prio {
			n += hs.list[i].staying
		}
	}
	return n
}

// Holders implements View.
func (v view) Holders(by By) iter.Seq2[Party, int64] {
	return func(yield func(Party, int64) bool) {
		hs := v.s.holdings(v.space, by)
		for i := hs.from(by, Party{}); i < len(hs.list) && hs.list[i].by == by; {
			p, n := hs.list[i].party, int64(0)
			for ; i < len(hs.list) && hs.list[i].by == by && hs.list[i].party == p; i++ {
				if hs.list[i].prio >= v.prio {
					n += hs.list[i].staying
				}
			}
			if n > 0 && !yield(p, n) {
				return
			}
		}
	}
}

// Guaranteed implements View.
func (v view) Guaranteed() int64 { return v.s.looks.owned[v.space] }

// Amount implements View.
func (v view) Amount(leaves int64) string { return v.s.unitsIn(v.space, leaves) }

// Bad implements View.
func (v view) Bad() int64 {
	cl := v.s.cl
	if !cl.Ailed() {
		return 0
	}
	var n int64
	f, sp := cl.Forest(), cl.Space(v.space)
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if r.Cell == cell.None {
			continue // it can be bound to one that is not
		}
		first := f.Cells[r.Cell].FirstLeaf
		for l := first; l < first+cell.LeafID(f.NumLeaves(r.Cell)); l++ {
			hold, promised := cl.Holder(l)
			if v.s.leafBad(l) && promised == cell.None && (hold == cell.None || cl.Alloc(hold).Opportunistic() || v.s.holder(hold).cause != 0) {
				n++
			}
		}
	}
	return n
}
