package decide

import (
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
	"github.com/combsched/comb/internal/core/timeline"
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

// bookings are the bookings of one VC during one walk, and what the walk does beside them.
type bookings struct {
	*timeline.Timeline
	s       *Pass
	w       *walker
	waiting int // how many gangs found nothing
	heldUp  int // len(Out) when a gang first blocked unbooked; else None
	waiters []waiter
}

// waiter is a gang that found nothing at its turn.
type waiter struct {
	timeline.Candidate
	changes int // Timeline.Changes at its last try
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
	freed      uint64       // Dirty.CellChanges when failed was last cleared
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
