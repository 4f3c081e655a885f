package decide

import (
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Pass is the work of one Decide, and memory for the next ones.
type Pass struct {
	place.Finder
	PartlyPlaced []model.JobID  // while a VC is walked: jobs of several gangs of which one runs and one found nothing
	Out          []model.Record // what it returns
	Mem          Memory
}

// Memory is what one Decide after the other uses again. A clone begins with memory of its own.
type Memory struct {
	records  []model.Record // for what Decide returns; all up to its length were handed out
	digests  *strings.Builder
	walker   walker          // of the VC that is walked
	heads    []index.Head    // of Ordered
	lines    []model.Line    // of Lines
	waits    []index.Merge   // of opportunistic
	chosen   []index.Chosen  // of Parties
	counts   []int           // the same
	failed   map[string]bool // shapes, of lend
	scratch  any             // of policies
	also     []bool          // by allocation: those that planOver may lift
	tail     tailing         // of planOver
	yielding yielding        // what may leave for its own priority
	fact     [1]model.Event  // of Accept
}

// text writes a digest as 16 hexadecimal digits.
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

// tailing hears whom a policy names; nothing is made anew for each time that it is asked.
type tailing struct {
	s     *Pass
	j     *tables.Job // for whom they may be lifted
	vc    *model.VCConfig
	due   bool // its policy's quantum protects nothing from it
	firm  bool
	out   []cell.AllocID
	left  int64                    // leaves that are still to be heard of
	also  map[cell.AllocID]int     // members of shared allocations that were named
	named map[model.JobID]int32    // gangs of jobs that have several: together they stay within the budget
	each  func(model.GangRef) bool // listen, made once
}

// comeback is a gang that is being stopped and waits again then.
type comeback struct {
	job   model.JobID
	gang  int32
	key   model.Key
	tried bool // in this walk
}

// missed is a wish that was not granted.
type missed struct {
	wish    model.Wish
	blocked []bool
}

// bookings is the bookings of one VC during one walk.
type bookings struct {
	s         *Pass
	w         *walker
	space     int32
	prefer    cell.NodeSet // where the policy of the gang that is tried wants it
	easy      bool
	prio      cell.Priority // the lowest priority that was reached
	books     []book
	held      []cell.RootID
	failed    map[passKey]bool
	crowded   map[string]model.Duration // shapes that found nothing to book beside the bookings of others, with the shortest that did not
	endless   []model.JobID             // by chain, the first of these: nobody without a limit goes before it
	waiting   int                       // gangs that found nothing
	turns     int64                     // of the booking that was made last
	heldUp    int                       // records of this Decide, when somebody first held others up without a booking; none
	displaced []model.GangRef           // whose bookings somebody passed who may
	idle      cell.LeafSet
	ends      []ending
	over      []model.Time // by attempt slot: when it has left
	size      int32        // leaves of the VC
	told      []int32      // attempts of the VC that were told to stop
	moved     bool         // ends and idle must be read again
	passed    []passed
	heard     heard
	changes   int    // bookings that ended or moved in this walk
	aside     uint64 // bookings that hold no cells during a search
}

// heard is what its policy said of a gang's wish: which bookings stand behind it.
type heard struct {
	of            model.GangRef
	asked, behind uint64
}

// passed is a gang that found nothing at its turn.
type passed struct {
	asking
	changes int // of bookings, before its last try
}

// asking is a gang's question to the outlook.
type asking struct {
	j       *tables.Job
	g       int32
	ref     model.GangRef
	prio    cell.Priority
	length  model.Duration           // with grace; 0 is without end
	over    bool                     // it may stop those behind it
	behind  func(model.GangRef) bool // who they are among the booked, nil for all to come
	blocked []bool                   // chains that it must leave to those before it
	size    int32                    // how many members it is to have; 0 is the usual ones
	others  []bool                   // chains of types that it is not to have
	by      model.Time               // when it must have its cells, though its booking is not looked at; 0 for none
	turn    int64                    // of its booking, 0 where it has none
	turns   bool                     // it asks for what it is booked for
	late    model.Duration           // how much later than told that is free
}

// ending is when guaranteed work of a priority has left at the latest.
type ending struct {
	at     model.Time // forever when nothing says when
	prio   cell.Priority
	leaves int32
}

// passKey names an attempt to pass: equal shapes that must leave the same
// bookings alone fare alike.
type passKey struct {
	shape string     // with the chains of types that it is not to have
	mask  uint64     // of the bookings to leave alone
	by    model.Time // when it must have its cells, 0 for no promise
	limit bool       // it has one: who has none leaves chains to those for whom nothing can be booked
	aside uint64     // bookings that hold no cells
	size  int32      // as it is wished for
	takes bool       // it may stop some behind it
}

// book is a booking in force during one walk.
type book struct {
	ref    model.GangRef
	prio   cell.Priority
	start  model.Time // as it was told; 0: from now on, since nobody knows until when
	first  model.Time // the earliest that was told
	clear  model.Time // when its cells are free of all but those who came after it, not before first
	free   model.Time // when its cells are free: later than told where somebody started slowly
	end    model.Time // when it leaves them again
	turn   int64
	since  model.Time // when it was booked
	after  []model.JobID
	leaves []cell.LeafID
	set    cell.LeafSet
	binds  []cell.Bind
	chains []bool
	pins   []cell.PinnedID
	due    bool // its cells are free now: who is in the way should leave any moment
	over   bool // its gang has started
	ranked bool // the walk came to its gang: it stands before those that are still to come
	kept   bool // it keeps its cells under easy as well, since it leaves chains to one before it
}

// pinWait is a pinned cell with the job that waits for it; the gangs of one job do not hold each
// other up.
type pinWait struct {
	pin cell.PinnedID
	by  model.JobID
}

// walker is one VC's walk.
type walker struct {
	s       *Pass
	space   int32
	blocked []model.JobID   // by chain: who waits for it first, 0 if nobody
	pins    []pinWait       // pinned cells that someone earlier waits for
	failed  map[string]bool // shapes that found nothing since capacity last grew
	noes    place.Misses
	freed   uint64       // of Dirty, when those were forgotten last
	outlook *bookings    // what is booked; nil without backfill
	sawIdle bool         // the policy read what is idle on nodes
	moves   int          // gangs that were stopped to move
	missed  []missed     // who found no cells, though enough leaves are free
	passed  uint64       // when a gang that may stop others of its priority first missed; 0 is never
	view    view         // what the policy sees of the priority that is walked
	over    bool         // of it: nothing is left to those behind
	waitOut []model.Wish // of gangs that were heard and wait for their next try
	back    []comeback   // of one priority, as of an event
	backAt  uint64
	backFor cell.Priority
	yield   func(model.Wish) bool // hear, made once
}

// view is what the policy of one VC sees at one priority.
type view struct {
	s     *Pass
	space int32
	prio  cell.Priority
	now   model.Time
	all   bool    // for the order alone: nothing is passed over because it cannot start
	w     *walker // whose walk it is, if it is one
}

// yielding is what one walk counted last, before so many events.
type yielding struct {
	seq    uint64
	prio   cell.Priority
	due    bool // for a gang that is
	leaves int64
}

// emit applies a decision and adds it to what Decide returns.
func (s *Pass) emit(e model.Event) {
	r := model.Record{Seq: s.Seq + 1, Time: s.Now, Event: e}
	s.Apply(r)
	s.Out = append(s.Out, r)
}
