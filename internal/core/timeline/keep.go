package timeline

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// add puts a booking in force. It reports false if its cells cannot be held.
func (tl *Timeline) add(b booking) bool {
	if len(tl.books) == maxNoted {
		return false // a mask has no bit for more
	}
	held, ok := tl.s.Cluster.Hold(tl.space, b.binds)
	if ok {
		tl.held = append(tl.held, held...)
		tl.books = append(tl.books, b)
	}
	return ok
}

// forget ends a gang's booking, if it has one.
func (tl *Timeline) forget(ref model.GangRef) {
	if i := tl.find(ref); i >= 0 {
		tl.end(&tl.books[i])
	}
}

func (tl *Timeline) end(b *booking) {
	b.ended = true
	tl.Changes++
	clear(tl.failed)
	clear(tl.unbookable)
}

// Release gives the held cells back. Events are emitted only then: a replay applies them to
// cells that are not held.
func (tl *Timeline) Release() {
	tl.s.Cluster.Unhold(tl.space, tl.held)
	tl.held = nil
}

// HoldAll holds the cells of all bookings, and ends those whose cells cannot be held any more.
func (tl *Timeline) HoldAll() {
	tl.moved = true
	for i := range tl.books {
		b := &tl.books[i]
		if b.ended || tl.aside>>i&1 != 0 {
			continue
		}
		held, ok := tl.s.Cluster.Hold(tl.space, b.binds)
		if !ok {
			tl.end(b)
			continue
		}
		tl.held = append(tl.held, held...)
	}
}

// rehold holds exactly the cells of the bookings in force.
func (tl *Timeline) rehold() {
	moved := tl.moved
	tl.Release()
	tl.HoldAll()
	tl.moved = moved
}

// Started ends the booking of a gang that got cells, and the bookings whose cells it took.
func (tl *Timeline) Started(a Candidate) {
	left := tl.find(a.Ref)
	tl.forget(a.Ref)
	var passed []int
	for i := range tl.books {
		if tl.outranks(a, i) {
			passed = append(passed, i)
		}
	}
	tl.HoldAll()
	for _, i := range passed {
		if tl.books[i].ended { // its cells can no longer be held
			tl.displaced = append(tl.displaced, tl.books[i].ref)
		}
	}
	tl.displace(a)
	if left >= 0 && (tl.books[left].free > tl.s.Now || slices.ContainsFunc(tl.books[left].leaves, tl.unused)) {
		renewal{tl}.forward() // it did not use its booked cells as foreseen: later bookings may move forward
	}
}

// displace ends the bookings that a gang passed and whose cells it took. They are booked anew
// at their turn, as if they came then.
func (tl *Timeline) displace(a Candidate) {
	for i := range tl.books {
		if b := &tl.books[i]; tl.outranks(a, i) && !tl.obtainable(tl.CandidateOf(tl.s.Find(b.ref.Job), b.ref.Gang), b) {
			tl.end(b)
			tl.displaced = append(tl.displaced, b.ref)
		}
	}
	tl.rehold()
}

// noteUnbookable notes that nothing can be booked for a gang beside the bookings of others, which
// have no end. Gangs without a limit must then not pass it: each would be one more such booking. A
// gang with a limit may, since it is gone before those bookings begin or uses none of their cells.
func (tl *Timeline) noteUnbookable(a Candidate) {
	if !a.alone() {
		tl.unbookable[a.J.Gangs[a.G].Shape.Text] = a.length // later bookings only make it harder
	}
	chains, _ := tl.s.ChainsAndPins(a.J, a.G)
	for ci, could := range chains {
		if could && tl.endless[ci] == 0 {
			tl.endless[ci] = a.J.ID
		}
	}
}

// isUnbookable reports whether nothing can be booked for a gang since that was so for one of its
// shape that is gone as soon, or sooner.
func (tl *Timeline) isUnbookable(a Candidate) bool {
	least, found := tl.unbookable[a.J.Gangs[a.G].Shape.Text]
	return found && !a.alone() && (a.length == 0 || least != 0 && least <= a.length)
}

// ranked marks a booking made at its gang's turn. If chains were blocked then, it keeps its
// cells even under easy.
func (tl *Timeline) ranked(b booking, a Candidate) booking {
	b.ranked, b.keepsCells = true, slices.Contains(a.Blocked, true)
	return b
}

// leads reports whether a gang is the first of its priority to find nothing, but under easy a
// later gang is booked, since nothing could be booked for this one before.
func (tl *Timeline) leads(a Candidate) bool {
	return tl.easy && slices.ContainsFunc(tl.books, func(b booking) bool {
		return !b.ended && !b.ranked && b.prio == a.prio && tl.precededBy(&b, a.J.ID)
	})
}

// GaveBack forgets failures after a plan was carried out: more may have come free than it takes, or
// will.
func (tl *Timeline) GaveBack(p place.Plan) {
	if len(p.Revoked)+len(p.Demoted)+len(p.Unbound) > 0 {
		clear(tl.failed) // perhaps more came free than it takes
	}
	if p.Disturbs() {
		clear(tl.unbookable) // or more will come free
	}
}

// Book handles a gang that found nothing: it keeps its booking, gets one, or waits without. A gang
// that must have one type is not booked, since its policy names the type only at its turn. first:
// it is the first of its priority to find nothing. heldUp reports that it could not be booked
// although it may be; then blocks says whether it blocks those behind it, as without backfill.
func (tl *Timeline) Book(a Candidate, first bool) (heldUp, blocks bool) {
	if a.J.Spec.Gangs[a.G].Extra || a.Others != nil {
		return false, false
	}
	i := tl.find(a.Ref)
	if i >= 0 && (tl.books[i].free != tl.s.Now || tl.books[i].due) {
		return false, false
	}
	entitled := tl.mayBook(a)
	if i < 0 && (tl.isUnbookable(a) || !entitled && !(first && tl.leads(a))) {
		return false, false
	}
	if tl.s.BlockedOutside(place.Want{J: a.J, G: a.G, Prefer: tl.Prefer}) {
		tl.forget(a.Ref)
		return false, false
	}
	tl.forget(a.Ref)
	tl.rehold()
	b, behind, ok := finder{tl}.search(a, tl.s.Now+1)
	switch {
	case ok && !entitled:
		return false, false
	case ok && tl.add(tl.ranked(b, a)):
		tl.displace(a)
		return false, false
	case ok, !behind: // or its cells cannot be held beside the bookings
		return true, true
	}
	tl.noteUnbookable(a)
	return true, false
}

// EndUnranked ends the bookings of the priority entered last to which the walk has not come,
// where drop says so.
func (tl *Timeline) EndUnranked(drop func(model.GangRef, cell.Priority) bool) {
	for i := range tl.books {
		b := &tl.books[i]
		if b.ended || b.ranked || b.prio != tl.prio || b.prio < cell.MinGuaranteed {
			continue
		}
		if drop(b.ref, b.prio) {
			tl.end(b)
		}
	}
}

// News returns what differs from what was journaled before: the ends of bookings first.
func (tl *Timeline) News() []model.Booked {
	var out []model.Booked
	for _, ref := range tl.s.Booked {
		j := tl.s.Find(ref.Job)
		if tl.s.Space(j.Spec.VC) == tl.space && j.Spec.Priority >= tl.prio && tl.find(ref) < 0 &&
			j.Gangs[ref.Gang].Attempt == tables.None {
			out = append(out, model.Booked{Job: ref.Job, Gang: ref.Gang, Over: lostItsCells})
		}
	}
	for i := range tl.books {
		if e, ok := tl.news(&tl.books[i]); ok {
			out = append(out, e)
		}
	}
	return out
}

// news returns a booking in force that differs from what was journaled before.
func (tl *Timeline) news(b *booking) (e model.Booked, ok bool) {
	if b.ended {
		return e, false
	}
	defer tl.s.BlameJob(b.ref.Job)
	g := &tl.s.Find(b.ref.Job).Gangs[b.ref.Gang]
	if g.Attempt != tables.None || b.free == tl.s.Now {
		return e, false // it has its cells, or the walk did not reach it
	}
	e = model.Booked{Job: b.ref.Job, Gang: b.ref.Gang, Start: b.start, After: b.after, Turn: b.turn, Since: b.since}
	if b.first != b.start {
		e.First = b.first
	}
	if !tl.easy || !b.timed() || b.keepsCells {
		e.Leaves, e.Binds = b.leaves, b.binds
	}
	was := tables.RareOf(g.Rare).Booked
	same := was != nil && was.Start == e.Start && was.First == e.First && was.Turn == e.Turn &&
		slices.Equal(was.After, e.After) && slices.Equal(was.Leaves, e.Leaves) && slices.Equal(was.Binds, e.Binds)
	return e, !same
}

// Binding returns the leaves of the bookings that bind a lazily preempted attempt.
func (tl *Timeline) Binding(a *tables.Attempt) (kept cell.LeafSet) {
	for i := range tl.books {
		if b := &tl.books[i]; tl.precedes(b, a) {
			kept = kept.With(b.set)
		}
	}
	return kept
}
