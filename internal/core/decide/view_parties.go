package decide

import (
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
)

// ShapeGroups implements View.
func (v view) ShapeGroups(by model.By, most func(*model.ShapeGroup) int) []model.ShapeGroup {
	s := v.s
	s.AskGroups(v.space, by)
	lazies := s.LazyGangs(v.space, v.prio, false)
	out := s.Mem.lines[:0]
	if up := s.GroupsOf(v.space, v.prio); up != nil {
		out = slices.Grow(out, len(up.Groups)+len(lazies))
		for i := range up.Groups {
			l := &up.Groups[i]
			if l.Extra || len(l.Gangs) == 0 {
				continue
			}
			out = append(out, model.ShapeGroup{Party: l.Party, Gangs: len(l.Gangs)})
			line := &out[len(out)-1]
			if l.Shape != "" {
				line.Leaves = l.Leaves
			}
			line.First = v.heads(l, min(len(l.Gangs), most(line)))
		}
	}
	for _, e := range lazies {
		out = append(out, model.ShapeGroup{Party: by.Party(s.Jobs[e.Slot].Spec), Leaves: 0, Gangs: 1,
			First: []model.GangView{v.waiting(e, true)}})
	}
	s.Mem.lines = out
	return out
}

// heads returns the first gangs of a wait group. With bookings they have no Shape: a failure
// says nothing of other gangs then.
func (v view) heads(l *index.WaitGroup, n int) []model.GangView {
	out := v.s.Heads(l, n)
	if v.besideBookings() {
		out = slices.Clone(out)
		for i := range out {
			out[i].Shape = ""
		}
	}
	return out
}

// besideBookings reports whether the VC backfills. A view for the order alone shows waiting
// gangs as a walk does.
func (v view) besideBookings() bool {
	return v.w != nil && v.w.bookings != nil || v.all && v.s.Dirty.Backfills[v.space]
}

// FoundNothing implements View.
func (v view) FoundNothing(shape string) bool { return v.w.fruitless()[shape] }

// Parties implements View.
func (v view) Parties(by model.By, all bool) []model.PartyGangs {
	s := v.s
	s.AskGroups(v.space, by)
	ps := parties{v: v, lines: s.Mem.chosen[:0]}
	up := s.GroupsOf(v.space, v.prio)
	if up != nil {
		free, failed := v.roomFor(), v.hopeless()
		for i := range up.Groups {
			l := &up.Groups[i]
			if l.Extra || len(l.Gangs) == 0 || !all && l.Shape != "" && (int64(l.Leaves) > free || failed[l.Shape]) {
				continue
			}
			ps.lines = append(ps.lines, index.PartyGroup{Group: int32(i), Party: ps.of(l.Party)})
		}
	}
	s.Mem.chosen = ps.lines
	for _, e := range s.LazyGangs(v.space, v.prio, false) {
		u := &ps.found[ps.of(by.Party(s.Jobs[e.Slot].Spec))]
		u.lazies = append(u.lazies, e)
		u.leaves += int64(s.Jobs[e.Slot].Gangs[e.Gang].Leaves)
	}
	ps.layOut()
	for _, c := range ps.lines {
		l := &up.Groups[c.Group]
		u := &ps.found[c.Party]
		u.merge.Add(int(c.Group), l)
		if all {
			u.leaves += s.LeavesOfGroup(l)
		}
	}
	out := make([]model.PartyGangs, len(ps.found))
	for i := range ps.found {
		u := &ps.found[i]
		u.merge.Order()
		out[i] = model.PartyGangs{Party: u.name, Leaves: u.leaves, Next: u.next, NextShape: u.pass}
	}
	return out
}

// parties are the parties that wait, with those wait groups of theirs that count.
type parties struct {
	v     view
	lines []index.PartyGroup
	found []partyGangs
	at    map[model.Party]int32 // their index in found, if there are many
}

// of returns the index of a party, which is appended if it is new.
func (ps *parties) of(name model.Party) int32 {
	n := int32(len(ps.found))
	if n <= index.FewParties {
		for i := range ps.found {
			if ps.found[i].name == name {
				return int32(i)
			}
		}
	} else if i, ok := ps.at[name]; ok {
		return i
	}
	if n == index.FewParties {
		ps.at = map[model.Party]int32{}
		for i := range ps.found {
			ps.at[ps.found[i].name] = int32(i)
		}
	}
	if n >= index.FewParties {
		ps.at[name] = n
	}
	ps.found = append(ps.found, partyGangs{v: ps.v, name: name})
	return n
}

// layOut gives all parties memory for their lines, allocated at once.
func (ps *parties) layOut() {
	count := slices.Grow(ps.v.s.Mem.counts[:0], len(ps.found))[:len(ps.found)]
	clear(count)
	for _, c := range ps.lines {
		count[c.Party]++
	}
	heads := make([]index.Head, len(ps.lines))
	for i, n := range count {
		ps.found[i].merge = index.Merge{S: &ps.v.s.Index, Space: ps.v.space, Prio: ps.v.prio, Heads: heads[:0:n]}
		heads = heads[n:]
	}
	ps.v.s.Mem.counts = count
}

// Queue implements View.
func (v view) Queue() model.PartyGangs {
	s := v.s
	s.AskGroups(v.space, model.ByKey)
	u := &partyGangs{v: v, all: true, merge: index.Merge{S: &s.Index, Space: v.space, Prio: v.prio},
		lazies: s.LazyGangs(v.space, v.prio, false)}
	u.merge.AddFull()
	return model.PartyGangs{Next: u.next, NextShape: u.pass}
}

// partyGangs reads the gangs of one party, with those that wait for an upgrade.
type partyGangs struct {
	v      view
	name   model.Party
	leaves int64
	merge  index.Merge
	read   bool // the merge's current gang was returned
	all    bool // includes shapes that found nothing
	lazies []index.Queued
}

func (u *partyGangs) failed() map[string]bool {
	if u.all {
		return nil
	}
	return u.v.w.fruitless()
}

func (u *partyGangs) next() (model.GangView, bool) {
	if u.read {
		u.merge.Next()
		u.read = false
	}
	e, ok := u.merge.First(u.failed())
	switch {
	case len(u.lazies) > 0 && (!ok || u.lazies[0].Compare(e) < 0):
		e, u.lazies = u.lazies[0], u.lazies[1:]
	case !ok:
		return model.GangView{}, false
	default:
		u.read = true
	}
	return u.v.waiting(e, !u.read), true
}

// waiting is what a policy sees of a gang that waits, with lazy for an upgrade. Shape is empty
// if its failure says nothing of other gangs.
func (v view) waiting(e index.Queued, lazy bool) model.GangView {
	g := v.s.GangView(e)
	if lazy || v.besideBookings() || v.s.Jobs[e.Slot].Gangs[e.Gang].Ungrouped {
		g.Shape = ""
	}
	return g
}

// pass is next, without the other gangs of the last one's shape.
func (u *partyGangs) pass() (model.GangView, bool) {
	if u.read {
		u.merge.Pass()
		u.read = false
	}
	return u.next()
}

// roomFor bounds the leaves of the gangs that can be placed.
func (v view) roomFor() int64 {
	if v.w == nil {
		return math.MaxInt64
	}
	return v.Free()
}

// hopeless returns the shapes that a IgnoresMisses policy need not see.
func (v view) hopeless() map[string]bool {
	if _, patient := v.s.Policies[v.space].(model.IgnoresMisses); patient {
		return v.w.fruitless()
	}
	return nil
}

// fruitless returns the shapes whose gangs grant passes over.
func (w *walker) fruitless() map[string]bool {
	if w == nil || w.bookings != nil { // gangs that cannot start may still be booked
		return nil
	}
	return w.failed
}

// Share implements View: DRF's dominant share (NSDI'11) of a VC's quota, in millionths.
func (v view) Share(by model.By, p model.Party) int64 {
	hs := v.s.Holdings(v.space, by)
	var room [16]int64 // enough for most clusters' resources
	used := append(room[:0], make([]int64, len(hs.Owned))...)
	for i := hs.From(by, p); i < len(hs.List) && hs.List[i].By == by && hs.List[i].Party == p; i++ {
		v.s.AddResources(used, int(hs.List[i].Chain), hs.List[i].Leaves)
	}
	var share int64
	for i, of := range hs.Owned {
		if of > 0 {
			share = max(share, used[i]*1_000_000/of)
		}
	}
	return share
}

// Held implements View.
func (v view) Held(by model.By, p model.Party) int64 {
	hs := v.s.Holdings(v.space, by)
	var n int64
	for i := hs.From(by, p); i < len(hs.List) && hs.List[i].By == by && hs.List[i].Party == p; i++ {
		if hs.List[i].Prio >= v.prio {
			n += hs.List[i].Staying
		}
	}
	return n
}

// Holders implements View.
func (v view) Holders(by model.By) iter.Seq2[model.Party, int64] {
	return func(yield func(model.Party, int64) bool) {
		hs := v.s.Holdings(v.space, by)
		for i := hs.From(by, model.Party{}); i < len(hs.List) && hs.List[i].By == by; {
			p, n := hs.List[i].Party, int64(0)
			for ; i < len(hs.List) && hs.List[i].By == by && hs.List[i].Party == p; i++ {
				if hs.List[i].Prio >= v.prio {
					n += hs.List[i].Staying
				}
			}
			if n > 0 && !yield(p, n) {
				return
			}
		}
	}
}

// Guaranteed implements View.
func (v view) Guaranteed() int64 { return v.s.Dirty.Owned[v.space] }

// Amount implements View.
func (v view) Amount(leaves int64) string { return v.s.UnitsIn(v.space, leaves) }

// Bad implements View.
func (v view) Bad() int64 {
	cl := v.s.Cluster
	if !cl.AnyBadOrUnknown() {
		return 0
	}
	var n int64
	f, sp := cl.Forest(), cl.Space(v.space)
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if r.Cell == cell.None {
			continue // it can be bound to a healthy cell
		}
		first := f.Cells[r.Cell].FirstLeaf
		for l := first; l < first+cell.LeafID(f.NumLeaves(r.Cell)); l++ {
			hold, promised := cl.Holder(l)
			if v.s.LeafBad(l) && promised == cell.None && (hold == cell.None || cl.Alloc(hold).Opportunistic() ||
				v.s.Holder(hold).Cause != 0) {
				n++
			}
		}
	}
	return n
}
