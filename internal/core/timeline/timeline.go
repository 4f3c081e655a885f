// Package timeline keeps the bookings of a VC: cells for a waiting gang from a time on, under easy
// and conservative backfill.
//
// See docs/backfill.md. Bookings stand in the order in which they were made (Booked.Turn); later
// ones give way. Time limits count from the start of the tasks, which takes a while, so the times
// of bookings slip. A gang that passes a booking must be gone when the booked cells would be free
// if no gang had passed (booking.freeUnpassed), however late earlier ones made it. So all of them
// together delay it by at most one slow start. The leaves of a booking are excluded from the
// searches of other gangs (Request.Excluded), and its preassigned cells are held bound meanwhile
// (Cluster.Hold).
//
// A booking promises a waiting gang that its cells are free at a time, or when certain jobs have
// ended (the event Booked). It is part of the state: it survives a restart and all users can read
// it. The walk keeps it.
package timeline

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// The bounds of backfill, listed in docs/backfill.md.
const (
	maxBookings = 32 // bookings of one VC
	maxNoted    = 64 // bookings of one walk, with those that have ended
	maxInstants = 64 // times tried for one gang beside other bookings
	maxEarlier  = 8  // times tried to move a conservative booking forward
)

const (
	forever      = model.Time(1<<63 - 1)
	lostItsCells = "what it was booked for is no longer to be had"
)

// Timeline is the bookings of one VC during one walk.
type Timeline struct {
	s          *place.Finder
	blocked    []model.JobID // by chain: the first job that waits for it and blocks; 0 if none
	space      int32
	Prefer     cell.NodeSet // nodes that the policy of the tried gang prefers
	easy       bool
	prio       cell.Priority // the lowest priority that the walk has reached
	books      []booking
	held       []cell.RootID
	failed     map[passKey]bool
	unbookable map[string]model.Duration // by shape, the shortest gang that found nothing to book
	endless    []model.JobID             // by chain, first unbookable job; none without limit passes it
	lastTurn   int64                     // turn of the latest booking
	displaced  []model.GangRef           // gangs whose bookings were passed and ended
	idle       cell.LeafSet
	ends       []ending
	leftBy     []model.Time // by attempt slot: when it has left at the latest
	size       int32        // leaves of the VC's quota
	stopping   []int32      // slots of the VC's attempts that were told to stop
	moved      bool         // idle, ends, leftBy and stopping are stale
	heard      heard
	Changes    int    // how many bookings ended in this walk
	aside      uint64 // bit set of bookings whose cells are not held during a search
}

// heard caches, for one gang, which bookings its policy puts behind it. asked and behind are
// bit sets.
type heard struct {
	of            model.GangRef
	asked, behind uint64
}

// Candidate is a gang that asks for cells beside the bookings.
type Candidate struct {
	J         *tables.Job
	G         int32
	Ref       model.GangRef
	prio      cell.Priority
	length    model.Duration           // its time limit and grace; 0 without limit
	OverPeers bool                     // it may preempt gangs of its priority behind it
	Behind    func(model.GangRef) bool // whether a booked gang is behind it; nil: all not reached yet
	Blocked   []bool                   // by chain: reserved for gangs before it
	Size      int32                    // members it is to have; 0 is the usual number
	Others    []bool                   // by chain: of a type that it must not have
	by        model.Time               // latest start when its own booking is set aside; 0 for none
	turn      int64                    // turn of its booking; 0 without one
	atBooking bool                     // it asks for its booked cells
	late      model.Duration           // how much later than told these are free
}

// ending says when a guaranteed attempt has left its cells at the latest.
type ending struct {
	at     model.Time // forever if unknown
	prio   cell.Priority
	leaves int32
}

// passKey is the key for failed tries: gangs of equal keys fare alike.
type passKey struct {
	shape string     // with the chains in Candidate.Others
	mask  uint64     // bit set of bookings that it must leave alone
	by    model.Time // when its cells must be free; 0 without a booking
	limit bool       // it has a time limit; without one, Timeline.endless binds it
	aside uint64     // Timeline.aside
	size  int32      // wished number of members
	takes bool       // it may preempt its own priority
}

// booking is a booking in force during one walk.
type booking struct {
	ref          model.GangRef
	prio         cell.Priority
	start        model.Time // start as told; 0: unknown, and the cells are kept from now on
	first        model.Time // the earliest start that was told
	freeUnpassed model.Time // when its cells would be free if no gang had passed it; at least first
	free         model.Time // when its cells are free; later than start after slow starts
	end          model.Time // when the gang has left them again; forever without a limit
	turn         int64
	since        model.Time // when the booking was made
	after        []model.JobID
	leaves       []cell.LeafID
	set          cell.LeafSet
	binds        []cell.Bind
	chains       []bool
	pins         []cell.PinnedID
	due          bool // told for now: what is still in the way should leave any moment
	ended        bool // it has ended
	ranked       bool // the walk came to its gang: it is before all that follow
	keepsCells   bool // it keeps its cells under easy as well; see ranked
}

// New returns the bookings of a VC; nil for one without backfill. blocked is, by chain, the first
// job that waits for it and blocks, as the walk notes it.
func New(f *place.Finder, space int32, blocked []model.JobID) *Timeline {
	c := model.ConfigOfVC(f.Config, f.Cluster.Space(space).Name)
	if !Books(c) || len(f.Queues[space]) == 0 {
		return nil
	}
	tl := &Timeline{s: f, blocked: blocked, space: space, easy: c.Backfill == model.ModeEasy,
		prio: cell.MaxGuaranteed + 1, failed: map[passKey]bool{}, unbookable: map[string]model.Duration{},
		moved: true, endless: make([]model.JobID, len(f.Cluster.Forest().Chains)), lastTurn: f.Bookings}
	sp := f.Cluster.Space(space)
	for i := range sp.Roots {
		tl.size += f.Cluster.Forest().Chains[sp.Roots[i].Chain].LeavesAt(sp.Roots[i].Level)
	}
	return tl
}

// AskAnew forgets which bookings a policy put behind the last candidate.
func (tl *Timeline) AskAnew() { tl.heard = heard{} }

// Enter takes over the bookings of a priority when the walk reaches it, and reports whether it did
// not before.
func (tl *Timeline) Enter(p cell.Priority) bool {
	if p == tl.prio {
		return false
	}
	renewal{tl}.enterPriority(p)
	return true
}

// Reached notes that the walk came to a gang.
func (tl *Timeline) Reached(ref model.GangRef) {
	if i := tl.find(ref); i >= 0 {
		tl.books[i].ranked = true
	}
}

// Has reports whether a gang has a booking in force.
func (tl *Timeline) Has(ref model.GangRef) bool { return tl.find(ref) >= 0 }

// Any reports whether a booking is in force.
func (tl *Timeline) Any() bool { return tl.live() > 0 }

// late is how much later than told the cells are free.
func (b *booking) late() model.Duration {
	if b.start == 0 {
		return 0
	}
	return model.Duration(max(b.free-b.start, 0))
}

// timed reports whether the booking has a start time.
func (b *booking) timed() bool { return len(b.after) == 0 }

// Books reports whether a VC books cells for waiting gangs.
func Books(c *model.VCConfig) bool {
	return c.Backfill == model.ModeEasy || c.Backfill == model.ModeConserve
}

// outranks reports whether a booking is no obstacle to a gang that may preempt its own priority:
// the booked gang is behind it. Booked and running gangs share one order: otherwise a gang
// started now could be preempted at the next look.
func (tl *Timeline) outranks(a Candidate, i int) bool {
	b := &tl.books[i]
	if !a.OverPeers || b.ended || b.ranked || b.prio != a.prio || b.ref == a.Ref {
		return false
	}
	if a.Behind == nil {
		return true
	}
	if tl.heard.of != a.Ref {
		tl.heard = heard{of: a.Ref}
	}
	was := tl.s.EnterPolicy(tl.space)
	if bit := uint64(1) << i; tl.heard.asked&bit == 0 && a.Behind(b.ref) {
		tl.heard.behind |= bit
	}
	tl.heard.asked |= 1 << i
	tl.s.EnterPolicy(was)
	return tl.heard.behind>>i&1 != 0
}

func (tl *Timeline) find(ref model.GangRef) int {
	return slices.IndexFunc(tl.books, func(b booking) bool { return b.ref == ref && !b.ended })
}

func (tl *Timeline) live() int {
	n := 0
	for i := range tl.books {
		if !tl.books[i].ended {
			n++
		}
	}
	return n
}

// mayBook reports whether a gang may have a booking. Under conservative every gang may; under easy
// only the first for some chain or pinned cell that it could use. Its own booking is none before
// it.
func (tl *Timeline) mayBook(a Candidate) bool {
	if tl.live() >= maxBookings || len(tl.books) >= maxNoted {
		return false
	}
	chains, pins := tl.s.ChainsAndPins(a.J, a.G)
	for ci, by := range tl.blocked {
		chains[ci] = chains[ci] && (by == 0 || by == a.J.ID) &&
			(a.length > 0 || tl.endless[ci] == 0 || tl.endless[ci] == a.J.ID)
	}
	for i := range tl.books {
		b := &tl.books[i]
		if !tl.easy || b.ended || b.prio < a.prio || b.ref == a.Ref {
			continue
		}
		for ci := range chains {
			chains[ci] = chains[ci] && !b.chains[ci]
		}
		pins = slices.DeleteFunc(pins, func(p cell.PinnedID) bool { return slices.Contains(b.pins, p) })
	}
	return len(pins) > 0 || slices.Contains(chains, true)
}
