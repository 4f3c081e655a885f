package decide

import (
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Pass does the work of one Decide after the other.
type Pass struct {
	place.Finder
	PartlyPlaced []model.JobID  // in a walk: jobs with one gang that runs and one that found nothing
	Out          []model.Record // the records of this Decide
	Mem          Memory
}

// Memory is buffers that successive Decides reuse. A clone starts with empty ones.
type Memory struct {
	records  []model.Record // backs what Decide returns; all up to len is in use
	digests  *strings.Builder
	walker   walker             // of the current walk
	heads    []index.Head       // for WaitingByKey
	lines    []model.ShapeGroup // for ShapeGroups
	waits    []index.Merge      // for opportunistic
	chosen   []index.PartyGroup // for Parties
	counts   []int              // for Parties
	failed   map[string]bool    // for lend: shapes that found nothing
	scratch  any                // for policies (View.Scratch)
	also     []bool             // by allocation: whether planOverPeers may preempt it
	tail     tailing            // for planOverPeers
	yielding peerLeaves         // cached count of leaves
	fact     [1]model.Event     // for Accept
}

// text returns a digest as 16 hexadecimal digits.
func (m *Memory) text(d model.Digest) string {
	const size = 16
	if m.digests == nil || m.digests.Cap()-m.digests.Len() < size {
		m.digests = &strings.Builder{}
		m.digests.Grow(tables.ArenaChunk * size)
	}
	text := d.Hex()
	m.digests.Write(text[:])
	all := m.digests.String()
	return all[len(all)-size:]
}

// tailing collects the running gangs that a policy lets a gang of the same priority stop.
type tailing struct {
	s     *Pass
	j     *tables.Job // the job that may preempt them
	vc    *model.VCConfig
	due   bool // it may preempt within the policy's quantum
	firm  bool
	out   []cell.AllocID
	left  int64                    // leaves that are still wanted; at 0 the policy is not asked on
	also  map[cell.AllocID]int     // by shared allocation, how many members were named
	named map[model.JobID]int32    // named gangs of jobs with several: they share one budget
	each  func(model.GangRef) bool // listen, bound once
}

// returning is a gang that is being stopped and will wait again.
type returning struct {
	job   model.JobID
	gang  int32
	key   model.Key
	tried bool // it was tried in this walk
}

// missed is a wish for which no cells were found.
type missed struct {
	wish    model.Wish
	blocked []bool
}

// bookings are the bookings of one VC during one walk.
type bookings struct {
	s          *Pass
	w          *walker
	space      int32
	prefer     cell.NodeSet // nodes that the policy of the tried gang prefers
	easy       bool
	prio       cell.Priority // the lowest priority that the walk has reached
	books      []booking
	held       []cell.RootID
	failed     map[passKey]bool
	unbookable map[string]model.Duration // by shape, the shortest gang that found nothing to book
	endless    []model.JobID             // by chain, first unbookable job; none without limit passes it
	waiting    int                       // how many gangs found nothing
	lastTurn   int64                     // turn of the latest booking
	heldUp     int                       // len(Out) when a gang first blocked unbooked; else None
	displaced  []model.GangRef           // gangs whose bookings were passed and ended
	idle       cell.LeafSet
	ends       []ending
	leftBy     []model.Time // by attempt slot: when it has left at the latest
	size       int32        // leaves of the VC's quota
	stopping   []int32      // slots of the VC's attempts that were told to stop
	moved      bool         // idle, ends, over and told are stale
	waiters    []waiter
	heard      heard
	changes    int    // how many bookings ended in this walk
	aside      uint64 // bit set of bookings whose cells are not held during a search
}

// heard caches, for one gang, which bookings its policy puts behind it. asked and behind are
// bit sets.
type heard struct {
	of            model.GangRef
	asked, behind uint64
}

// waiter is a gang that found nothing at its turn.
type waiter struct {
	candidate
	changes int // bookings.changes at its last try
}

// candidate is a gang that asks for cells beside the bookings.
type candidate struct {
	j         *tables.Job
	g         int32
	ref       model.GangRef
	prio      cell.Priority
	length    model.Duration           // its time limit and grace; 0 without limit
	overPeers bool                     // it may preempt gangs of its priority behind it
	behind    func(model.GangRef) bool // whether a booked gang is behind it; nil: all not reached yet
	blocked   []bool                   // by chain: reserved for gangs before it
	size      int32                    // members it is to have; 0 is the usual number
	others    []bool                   // by chain: of a type that it must not have
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
	shape string     // with the chains in asking.others
	mask  uint64     // bit set of bookings that it must leave alone
	by    model.Time // when its cells must be free; 0 without a booking
	limit bool       // it has a time limit; without one, bookings.endless binds it
	aside uint64     // bookings.aside
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

// pinWait is a pinned cell with the job that waits for it. Gangs of that job may still use it.
type pinWait struct {
	pin cell.PinnedID
	by  model.JobID
}

// walker is the walk of one VC.
type walker struct {
	s          *Pass
	space      int32
	blocked    []model.JobID   // by chain: the first job that waits for it and blocks; 0 if none
	pins       []pinWait       // pinned cells that earlier gangs wait for
	failed     map[string]bool // shapes that found nothing since capacity last grew
	misses     place.Misses
	freed      uint64       // Dirty.Freed when failed was last cleared
	bookings   *bookings    // nil without backfill
	sawIdle    bool         // the policy read how many leaves are idle on nodes
	moves      int          // gangs stopped to run elsewhere
	missed     []missed     // found no cells, though enough leaves are free
	missedAt   uint64       // Seq when a gang that may preempt its priority first missed; 0: none
	view       view         // what the policy sees of the walked priority
	done       bool         // the walked priority is done
	backingOff []model.Wish // of gangs in back-off whose place is still to be kept
	back       []returning  // cache of comebacks for backFor, as of backAt
	backAt     uint64
	backFor    cell.Priority
	yield      func(model.Wish) bool // hear, bound once
}

// view is what the policy of one VC sees at one priority.
type view struct {
	s     *Pass
	space int32
	prio  cell.Priority
	now   model.Time
	all   bool    // for the order alone: includes gangs that cannot start
	w     *walker // its walk; nil outside of one
}

// peerLeaves caches the last result of Pass.peerLeaves, which holds at seq.
type peerLeaves struct {
	seq    uint64
	prio   cell.Priority
	due    bool // see Pass.peerLeaves
	leaves int64
}

// emit applies a decision and adds it to what Decide returns.
func (s *Pass) emit(e model.Event) {
	r := model.Record{Seq: s.Seq + 1, Time: s.Now, Event: e}
	s.Apply(r)
	s.Out = append(s.Out, r)
}
