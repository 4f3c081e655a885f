package model

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// NodeDedicator is a Policy that gives a job with Hints.Dedicated whole nodes: it starts only on
// nodes where no other job holds or was promised anything. While it has them no other job of its
// VC, and no opportunistic job, starts there unless its priority is higher. Guarantees of other VCs
// stand: where their cells are parts of such a node, their jobs may start there. Nothing is
// preempted for it.
type NodeDedicator interface {
	Policy
	Dedicates()
}

// MoveOthers bounds which gangs may be relocated so that another one gets cells (Wish.MoveOthers).
type MoveOthers struct {
	MinRun   Duration // a gang that has run for less stays
	MaxMoves int      // how many gangs may move
}

// A panic while a VC's policy runs counts as that policy's, also where it comes up in what the
// policy asked of its View. Fallback then serves the VC until the next configuration, and other VCs
// are not affected. So callers of a policy mark the call's begin and end: a deferred call for each
// gang would cost too much.

// Fallback is the policy that serves a VC with a failed policy. Without parameters it is neither
// Keyed nor a WaitIndexer.
const Fallback = "fifo"

// Words says what the failed policy means for the VC, and what an admin can do.
func (e *PolicyFailed) Words() string {
	if e.Why != "" {
		return fmt.Sprintf("the policy %s of virtual cluster %s cannot be made by this version (%s): until a configuration is applied "+
			"fifo without parameters serves it; apply one that names another policy, or the same one with a version that has it", e.Policy, e.VC, e.Why)
	}
	return fmt.Sprintf("the policy %s of virtual cluster %s failed with an internal error (number %s): until a configuration is applied "+
		"fifo without parameters serves it; report the number, and apply the configuration again with a mended server or with another policy", e.Policy, e.VC, e.Stack)
}

// Make makes a policy. A panic of its constructor is returned as an error.
func (of Policies) Make(c VCConfig) (p Policy, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the policy %s failed with an internal error while it was made (%v): report that, and give the virtual cluster other parameters or another policy",
				cmp.Or(c.Policy, Fallback), v)
		}
	}()
	return of(c)
}

// Policy is the order inside one VC: a pure, lazy sequence over a View. It holds
// no state of its own; what it must remember it notes (Wish.Note). Ties are broken
// by submission order. More interfaces, such as Keyed or Timed, are optional: each is
// something more that a policy does, or a promise that saves work.
type Policy interface {
	// Rank yields the wishes of one priority's waiting gangs, best first. After
	// each yield the View shows the effect, so an order may depend on what was
	// just placed. Stopping early is fine.
	Rank(View) iter.Seq[Wish]
}

// Keyed is a Policy that orders waiting gangs by a key. A gang's key is constant while it waits, so
// gangs are kept sorted, and View.WaitingByKey costs nothing for those that the policy does not get
// to.
type Keyed interface {
	Policy
	// Key is the key of a waiting gang. It may change only when its job gets another note.
	// Key must not keep the pointer.
	Key(*GangView) Key
}

// Key is compared part by part; the smaller is served first. Ties go by submission.
type Key struct{ Rank, Then int64 }

// Compare orders keys.
func (a Key) Compare(b Key) int {
	if c := cmp.Compare(a.Rank, b.Rank); c != 0 {
		return c
	}
	return cmp.Compare(a.Then, b.Then)
}

// StrictFIFO is a Policy that is strict FIFO: it yields a strict wish for each gang in order of
// submission, and nothing else. Once nothing is left for the gangs that wait, it need not be asked
// about later ones.
type StrictFIFO interface {
	Policy
	StrictFIFO()
}

// IgnoresMisses is a Policy that preempts nothing, and whose order of other gangs does not depend
// on a gang that finds no cells. A gang whose shape found nothing with a higher priority is then
// not shown to it, if it would find the same.
type IgnoresMisses interface {
	Policy
	IgnoresMisses()
}

// Ranked is a gang with its key.
type Ranked struct {
	Ref    GangRef
	Key    Key
	Order  int64 // of submission
	Leaves int32
}

// StepKeyed is a Keyed policy under which the key of a running gang changes in steps: it stays the
// same until a time that is known.
type StepKeyed interface {
	Keyed
	// NextKeyChange is the first time after an instant at which the key changes by itself; 0 is
	// never. The instant may have passed. The result depends on the gang alone.
	NextKeyChange(after Time, g *GangView) Time
}

// LinearKeyed is a Keyed policy under which the rank of a running gang falls linearly, at a rate of
// its own: gangs of one rate keep their order.
type LinearKeyed interface {
	Keyed
	// Falls returns when the rank of a gang reaches 0 if it runs on, and by how much it falls in a
	// microsecond. The rank is rate times the time from View.Now to zero, and no less than rate.
	// A rate of 0 is a rank that does not fall. Both depend on the gang alone, and not on how
	// long it has run by now.
	Falls(*GangView) (zero Time, rate int64)
}

// WaitIndexer is a Policy with an index of its own over all waiting gangs, which the core updates:
// so a look need not read them all (View.WaitIndex).
type WaitIndexer interface {
	Policy
	// NewWaitIndex returns an empty index.
	NewWaitIndex() WaitIndex
}

// WaitIndex is the index of a WaitIndexer over the waiting gangs of one priority, without those
// that wait for an upgrade. It must depend on these gangs alone, not on the order in which they
// were added, since it is built anew when it is missing.
type WaitIndex interface {
	// Add adds a gang when it begins to wait, and again when its job gets another note or it is
	// like no other gang (Shape ""). It must not keep the pointer. Fields that change while the
	// gang waits are not set: Delayed, Moved, and of Sizes Now, Live and Runs.
	Add(*GangView)
	// Drop removes a gang that waits no more, or that is to be added again.
	Drop(GangRef)
}

// RunKeyed is a Policy that is not Keyed but has a key for running gangs, for View.RunningByKey.
// The key stays the same until an event concerns the gang.
type RunKeyed interface {
	Policy
	// Stand is the key of a running gang. It must not depend on how long the gang has run.
	// Stand must not keep the pointer.
	Stand(*GangView) Key
}

// Timed is a Policy whose order changes by itself as time goes by.
type Timed interface {
	Policy
	// NextChange is the first time after View.Now, the time of the last decision, at which the
	// order of one priority changes by itself; 0 is never. It depends only on which gangs wait,
	// which run and since when, what they reported, and notes. It must not use GangView.Delayed,
	// or Ran of a running gang, which change with time alone. A time that has passed counts as the
	// next full second.
	NextChange(View) Time
}

// DefersReports is a Timed policy that does not look at every progress report. A report may change
// which gang it wants to start; the policy sees that when its VC is looked at next, at NextChange
// at the latest. Explanations say so.
type DefersReports interface {
	Timed
	DefersReports()
}

// WaitsForRoom is part of what a HoldsBack says of a gang that would fit, but not as close
// together as the policy wants it.
const WaitsForRoom = "waits for room"

// HoldsBack is a Policy that keeps gangs waiting that would fit, for a limit or for a time. It is
// asked for explanations, and of bookings: these end while their gang is held back without a known
// end.
type HoldsBack interface {
	// WhyHeldBack says in a clause why a gang must wait though it fits, "" where it need not, and
	// until when; 0 is not known.
	WhyHeldBack(View, GangRef) (why string, until Time)
}

// RestrictsNodes is a Policy that may restrict where a gang is placed (Wish.OnlyNodes, Wish.Within,
// Wish.FreeOnly). What it can start may then depend on which nodes other VCs use.
type RestrictsNodes interface {
	Policy
	// RestrictsNodes reports whether it does so with its parameters. The answer is constant.
	RestrictsNodes() bool
}

// HasQuantum is a Policy with a quantum: a gang runs for so long since its last start, or for the
// VC's minimum run time if that is longer, before another of its VC and priority may preempt it
// (Wish.Preemptible).
type HasQuantum interface {
	Policy
	// Quantum is constant; 0 protects no gang.
	Quantum() Duration
}

// NeedsAbilities is a Policy that needs an executor with more abilities than start and stop. With
// an executor that lacks one, a configuration that names the policy is refused.
type NeedsAbilities interface {
	Policy
	Needs() []Ability
}

// Tuner is a Policy that changes how running gangs run.
type Tuner interface {
	Policy
	// Tune yields wishes for turns, moves and sizes of the gangs of one priority, also when no
	// gang waits. It is asked after Rank, whenever a VC is looked at. A Tuner that is Timed is
	// asked for its next change also where gangs only run.
	Tune(View) iter.Seq[Wish]
}

// MembersFollowMinimum is a Policy under which the members above a job's minimum have the minimum's
// place in the order: where Wish.Preemptible names the minimum, they are preempted before it. They
// get leaves only of the types on which their minimum runs. They need no wish to get free leaves;
// with a wish of its own (Wish.Gang) a member may preempt others.
type MembersFollowMinimum interface {
	Policy
	MembersFollowMinimum()
}

// KeepsInPlace is a Policy that keeps some gangs in place: they are not relocated for gangs that
// wait (VCConfig.Moves, Wish.MoveOthers).
type KeepsInPlace interface {
	Policy
	// Stays reports whether a running gang is one of these.
	Stays(*GangView) bool
}

// FailureJudge is a Policy that says after which failures a retry is useless.
type FailureJudge interface {
	Policy
	// Permanent reports whether a job that failed like this must not run again.
	Permanent(Exit) bool
}

// Wish is one thing a policy wants to happen next.
type Wish struct {
	Gang GangRef
	// Strict makes gangs later in the run order of this VC wait if this wish is not
	// met: they may not use a chain that this gang could use. A gang that waits for
	// bad hardware or a back-off holds up no other.
	Strict bool
	// IgnoreQuantum says that the policy itself promised the gang cells for now: then only the VC's
	// minimum run time protects gangs from it, and not the policy's quantum.
	IgnoreQuantum bool
	// Preemptible yields running gangs of this priority that are behind this one in the order, the
	// last one first: they may be preempted for it when it does not fit otherwise. It is read only
	// then; nil preempts none. A gang is spared that has not run for the VC's minimum run time and
	// the policy's quantum, or whose job used up its budget of preemptions.
	Preemptible iter.Seq[GangRef]
	// IsBehind says, with Preemptible, whether a waiting gang with a booking or a promise of cells
	// is behind this one, so that Preemptible would yield it if it ran. With nil those are the
	// booked gangs that come later in the run order, and none with a promise.
	IsBehind func(GangRef) bool
	// Prefer are nodes to use if the gang fits on them alone, when its job names
	// none itself.
	Prefer cell.NodeSet
	// OnlyNodes, when not nil, are the nodes that the gang may be placed on now, and Within
	// how far apart its leaves may be. Under backfill neither holds: a booking is for
	// where there will be room.
	OnlyNodes cell.NodeSet
	Within    Within
	// FreeOnly keeps to free cells: nothing is preempted or demoted. Under backfill it does not
	// hold either.
	FreeOnly bool
	// SKU, where it is set, is the only type of leaves that the gang may get now. Under
	// backfill nothing is booked for it then.
	SKU cell.TypeName
	// Turns, where it is set, asks for no cells: its gangs share the leaves that all but one of
	// them hold. The gangs of one turn run at once (packed), and the turns one after the other
	// (sliced), each for Quantum. Gang is the one that waits and joins; if it runs already, only
	// the turns change. All gangs on the leaves must be in Turns, and none is stopped for it. It
	// is refused where the gangs differ in shape, where a job may not be suspended (hint
	// suspendable) or packed (hint packable), or where their memory does not fit together.
	Turns   [][]GangRef
	Quantum Duration
	// Move relocates Gang, which runs: it is promised cells within OnlyNodes and Within, and
	// stopped. If the promise is taken back the gang waits with Moved set. It is refused where the
	// gang fits nowhere else now, and for jobs without checkpoints.
	Move bool
	// MoveOthers, where it is set, asks to relocate other gangs so that Gang, which waits, gets
	// cells within OnlyNodes and Within. It is refused where Gang would start without that, where a
	// gang that must make room fits nowhere else, or beyond the bounds of MoveOthers.
	MoveOthers *MoveOthers
	// Size, where it is set, is how many members an elastic job may have from now on: the first so
	// many. The members of a waiting gang start together on free cells, or as room is found, the
	// minimum first. Of a running gang more members start, or the last are stopped. Pause stops
	// all, and is only for jobs with checkpoints. A size outside the gang's Sizes is refused.
	// Where Size is not set a gang starts with its usual size.
	Size int32
	// OnOwnNodes says, with the larger Size of a running gang, that its new members start now,
	// on free cells of the nodes on which the job runs. It is refused where not all of
	// them fit there, where any gang waits in the VC (View.Wanted), and under backfill.
	OnOwnNodes bool
	// ShrinkOthers lets members of other jobs of this priority be preempted for a gang that does
	// not fit otherwise: those above the usual size of their job, the last first. It is for
	// policies without Preemptible.
	ShrinkOthers bool
	// Last ends the walk of a VC in this decision with this wish: nothing is left to lower
	// priorities, since the same decision is to make room for a gang of this priority (Tuner).
	Last bool
	// Note is something to remember. A wish with a note and no gang is that alone.
	Note *Note
}

// Within is how far apart the leaves of a gang may be. A gang that is too large for one
// such cell may be spread as far as its size needs.
type Within uint8

// The limits, from the widest; a switch is the largest cell below a node, and a rack
// the smallest above.
const (
	Anywhere Within = iota
	OneRack
	OneNode
	OneSwitch
)

// Note is what a policy remembers about a job, or with job 0 about its VC, until
// it notes something else, the job ends, or the VC gets another policy. It becomes
// a Noted event.
type Note struct {
	Job  JobID
	Data []byte // empty forgets
}

// GangRef names a gang of a job.
type GangRef struct {
	Job  JobID
	Gang int32
}

// GangView is what a policy sees of one gang.
type GangView struct {
	Ref       GangRef
	User      Subject
	Priority  cell.Priority
	Submitted Time
	Order     int64         // submission order
	Leaves    int32         // of an elastic job, of its least size
	Members   []cell.Member // what its tasks ask for; only to read
	// Shape is set by View.Parties and View.Waiting: when one gang does not fit, nor do others of
	// its shape. "" is like no other gang: it may have cells or a promise already, and a wish for
	// it may be granted however little is free.
	Shape string
	// Delayed gangs wait until a time, after a refusal or a failure, or wait for their guarantee on
	// leaves that cannot have one (lost with their cell, or their node). A wish for one
	// finds nothing, whatever is free, and says nothing of other gangs of its shape.
	Delayed bool
	Hints   *Hints
	// Moved gangs were stopped to be relocated, and wait again: they should be first.
	Moved bool
	// NodesRestricted says that its job names nodes that it must use, or must not.
	NodesRestricted bool
	Gangs           int32         // how many gangs its job has
	Sizes           Sizes         // of an elastic job, how many members it can have
	Speeds          []Throughput  // what was measured of its model, by type and GPUs; only to read
	Note            []byte        // what the policy noted last about the job; only to read
	Progress        *TaskProgress // what its first task reported last; nil before; only to read
	Started         Time          // when its live attempt began to run; 0 before
	Since           Time          // when it began to wait or, if its attempt runs, to run
	RanBefore       Duration      // run time of its ended attempts
	Ran             Duration      // run time of all its attempts
}

// View is what a policy sees: one VC, one priority.
type View interface {
	Now() Time
	// LastDecision is when the last decision was taken, 0 before the first: what came due since
	// then is seen by one decision, however late it is.
	LastDecision() Time
	VC() cell.VCName
	// Waiting yields the gangs that wait for cells, or for their guarantee after
	// a lazy preemption, in submission order. A wish for one of the latter is an
	// upgrade: it blocks and preempts no other gang.
	Waiting() iter.Seq[GangView]
	// WaitIndex returns the index of a WaitIndexer over the gangs of Waiting that wait for cells,
	// nil while there are none, and those that wait for an upgrade. Granting a wish changes the
	// index.
	WaitIndex() (WaitIndex, []GangView)
	// Queue returns the gangs of Waiting as one party. It includes those of a shape that found
	// nothing: a policy that can do nothing for one of a shape calls NextShape.
	Queue() PartyGangs
	// Moving reports whether any gang, of any VC, was stopped to be relocated and does not run
	// yet. If not, no waiting gang is Moved.
	Moving() bool
	// Parties returns the gangs of Waiting by party. Parties have no order; the gangs of each are
	// in submission order. Gangs of a shape that found nothing in this walk are left out, since a
	// wish for them would find nothing either. Unless all is set, so are gangs that ask for more
	// than Free. So passing over many gangs costs as much as their shapes. A policy must always
	// ask with the same By.
	Parties(by By, all bool) []PartyGangs
	// ShapeGroups returns the gangs of Waiting by party and shape, in no order of lines: the number
	// of each line, and as many of its first gangs as the function says. So the cost does not grow
	// with the queue. The result is valid until the next call.
	ShapeGroups(By, func(*ShapeGroup) int) []ShapeGroup
	// FoundNothing reports whether a wish for a gang of that shape found nothing in this walk,
	// without a limit to where: wishes for others of the shape will find nothing either.
	FoundNothing(shape string) bool
	// WaitingByKey yields the gangs of Waiting by the key of a Keyed policy. Gangs of a shape that
	// found nothing in this walk are left out. From the given rank on so are gangs that ask for
	// more than Free, as nothing is preempted for them.
	WaitingByKey(from int64) iter.Seq[Ranked]
	// Gang returns the view of a gang that waits or runs.
	Gang(GangRef) GangView
	// Running yields the gangs that run with a guarantee. Their order may change with a restart, so
	// nothing may depend on it.
	Running() iter.Seq[GangView]
	// Leaving yields the gangs that were told to stop for others, as they ran, in no order either.
	// Until their tasks are gone they neither wait nor run; then they wait again.
	Leaving() iter.Seq[GangView]
	// RunningByKey yields the gangs of Running by the key of a Keyed policy, or of a RunKeyed, the
	// last first.
	RunningByKey() iter.Seq[Ranked]
	// Yields is how many gangs of the gang's job may still be preempted by gangs of this priority.
	// It is 0 where the gang runs and may not be preempted now: it has not run for the VC's minimum
	// run time and the policy's quantum, or its job's budget of preemptions is used up.
	Yields(GangRef) int32
	// FindsFree reports whether a waiting gang would find free cells of a type now. It costs a
	// search, so it is for explanations.
	FindsFree(GangRef, cell.TypeName) bool
	// Usable reports whether a gang could ever use leaves of a type that its VC is guaranteed:
	// by the types, the nodes and the pinned cells that its job names, and by its shape.
	Usable(GangRef, cell.TypeName) bool
	// SKU is the type on which a gang's first task runs; "" of a gang without cells.
	SKU(GangRef) cell.TypeName
	// Promised yields the waiting gangs that were promised cells, with the key of a Keyed
	// policy, in no order.
	Promised() iter.Seq[Ranked]
	// Booked yields in the same way the gangs for which cells are booked.
	Booked() iter.Seq[Ranked]
	// Placed reports whether the gang holds or was promised cells by now.
	Placed(GangRef) bool
	// Wanted is how many leaves the gangs of the VC ask for, at all priorities, that wait for
	// its guarantee and were promised none.
	Wanted() int64
	// GrowthOnOwnNodes is by how many members a running gang could grow with Wish.OnOwnNodes. It
	// costs some searches.
	GrowthOnOwnNodes(GangRef) int32
	// Free is how many leaves of the VC's guarantee no gang of this or a higher priority holds or
	// was promised: a gang that asks for more cannot start unless one of its priority leaves.
	Free() int64
	// Guaranteed is how many leaves the VC is guaranteed.
	Guaranteed() int64
	// Amount says what so many leaves of the VC's guarantee are, such as "8 GPUs".
	Amount(leaves int64) string
	// Bad is how many of the Guaranteed leaves are bad, or on nodes that are not in service.
	// Leaves that a guaranteed gang holds do not count, unless it is being stopped.
	Bad() int64
	// BadHeld is how many such leaves a gang holds, or the first so many members of an elastic job:
	// once left, no gang can have them.
	BadHeld(ref GangRef, members int32) int64
	// Share is a party's dominant share of the VC's guarantee now, in parts per
	// million: the largest over GPUs, GPU memory, cores, memory and each SKU. What
	// the leaves carry that its gangs hold counts, at all priorities.
	Share(By, Party) int64
	// Held is how many leaves a party's guaranteed gangs of this or a higher
	// priority hold or were promised, without those that were told to stop.
	Held(By, Party) int64
	// Holders yields the parties that hold any, with how many, in order.
	Holders(By) iter.Seq2[Party, int64]
	// Nodes yields nodes on which this VC may find idle leaves, some of each kind of offer: the
	// cost does not grow with the cluster. Nodes in the VC's own cells come first, in the order of
	// these cells, and nodes in no VC's cells last, so no other VC changes what is seen. Where the
	// VC backfills, leaves of opportunistic work count as idle.
	Nodes() iter.Seq[NodeView]
	// Note is what the policy noted last about a job, or with 0 about the VC; nil
	// when it noted nothing.
	Note(JobID) []byte
	// OnlyTimePassed reports whether the VC is looked at only because its order changed by itself
	// (Timed): nothing else happened since the last look. False may be wrong.
	OnlyTimePassed() bool
	// Backfills reports whether the VC backfills: then gangs may have to wait for the first one in
	// the order, so it matters which that is.
	Backfills() bool
	// HasThroughputs reports whether the configuration has a table of throughputs
	// (GangView.Speeds).
	HasThroughputs() bool
	// Elastic reports whether any job of the VC that has not ended can have more than one size.
	Elastic() bool
	// Pools are what the VC is guaranteed, by type.
	Pools() []Pool
	// Allocations are the leaves that full gangs of this priority hold with a guarantee,
	// in order of the first gang on each; only to read.
	Allocations() []*Allocation
	// Scratch is where a policy may leave memory for its next look to use again. Decisions must not
	// depend on its content: a look may find nothing there, or memory of another VC.
	Scratch() *any
	// Node returns what the node of a number offers; Machines is how many there are.
	Node(int32) NodeView
	// Idle sums that over SKUs: how many idle leaves, of how many.
	Idle(int32) (idle, of int64)
	Machines() int32
	// Moves are when gangs of this VC were told to move within the last hour, in order.
	Moves() []Time
}

// Allocation is a set of leaves with the gangs that run there.
type Allocation struct {
	Gangs  []GangRef // in order of their jobs
	Nodes  []int32   // ascending
	Leaves int32
	Shape  string
	Memory int64 // of the smallest of its devices in MiB; 0 is not known
	// Steady says that all its gangs start or run and none was told to stop. The turns of an
	// Allocation that is not Steady cannot change.
	Steady bool
	// Turns and Quantum are how its gangs take turns, Since since when; Turns is nil if there was
	// never more than one gang.
	Turns   [][]GangRef
	Quantum Duration
	Since   Time
	// Sharers has more about each of Gangs, in the same order.
	Sharers []Sharer
	Prio    cell.Priority
}

// Sharer is a gang of an Allocation.
type Sharer struct {
	Hints    *Hints
	Gangs    int32 // how many its job has
	Started  Time  // when its attempt began to run; 0 before
	Reported bool  // its first task reported progress
	HasNote  bool  // there is a note about its job
}

// Pool is what a VC is guaranteed of one type, bad leaves included.
type Pool struct {
	SKU     cell.TypeName
	Leaves  int64
	PerNode int32 // the most of these leaves that one node has
	// Cells are what it is made of: first what is not pinned, by rising Size, then the
	// pinned cells.
	Cells []PoolCells
}

// PoolCells are the cells of a Pool that hold gangs of up to Size leaves within one node: cells of
// that size, or larger ones made of several. A pinned cell is only for jobs that name it.
type PoolCells struct {
	Pinned cell.PinnedID
	Size   int32
	Leaves int64
}

// PartyGangs is one party with its waiting gangs. Leaves is how many leaves they ask for
// in all, counted only if all gangs were asked for. Next returns the next gang, false
// when there is none. NextShape does the same, and leaves out the gangs of the shape that was
// returned last.
type PartyGangs struct {
	Party     Party
	Leaves    int64
	Next      func() (GangView, bool)
	NextShape func() (GangView, bool)
}

// NodeView is one machine with what it offers to a VC, by chain.
type NodeView struct {
	Node   int32 // for Wish.Prefer
	Offers []Offer
}

// Offer is how many leaves of a SKU a machine has, and how many are idle and healthy.
type Offer struct {
	SKU      cell.TypeName
	Idle, Of int32
}

// Policies makes the policy that a VC's configuration names. Errors about its parameters are
// BadParams.
type Policies func(VCConfig) (Policy, error)

// BadParams are all parameters of a policy that cannot be used.
type BadParams []BadParam

// BadParam is one of them: which, and a sentence of why.
type BadParam struct{ Key, Why string }

// Error implements error.
func (b BadParams) Error() string {
	var all []string
	for _, p := range b {
		all = append(all, p.Why)
	}
	return strings.Join(all, "; ")
}

// An elastic job is a partial gang: gang 0 is its minimum, and each member above that is a gang of
// its own. The job's size is how many members it may have: the first so many. Members above the
// size do not wait, so nothing else in the core asks for a size. A policy gives a size with a start
// or later (Wish.Size), the event Sized records it, and it holds until the next.

// Pause as Wish.Size stops a running gang, with the members above its minimum: it
// waits again, and starts when a wish asks for that.
const Pause = -1

// ProgressWatcher is a Policy that watches what jobs report.
type ProgressWatcher interface {
	Policy
	// Watch is asked when a job's first gang reported its progress, and maybe again with the same.
	// It returns a note about the job, nil for nothing new, and why the job is to be stopped, ""
	// where it goes on.
	Watch(*GangView) (note []byte, stop string)
}

// Learner is a Policy that learns from the jobs of its VC that end.
type Learner interface {
	Policy
	// Learn is asked once for each gang of a job that ends. It gets the note about the VC, and
	// returns the new one, or nil for nothing new.
	Learn(note []byte, g *GangView) []byte
}

// Compare orders by job, then gang.
func (a GangRef) Compare(b GangRef) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang))
}

// How a VC backfills (VCConfig.Backfill).
const (
	ModeEasy     = "easy"
	ModeConserve = "conservative"
)

// Backfills are the modes that VCConfig.Backfill may name, beside "".
func Backfills() []string { return []string{"none", ModeEasy, ModeConserve} }

// Compare is the reverse of the policy's order: the gang that is served last comes first.
func (a *Ranked) Compare(b *Ranked) int {
	return cmp.Or(b.Key.Compare(a.Key), cmp.Compare(b.Order, a.Order), cmp.Compare(b.Ref.Gang, a.Ref.Gang))
}

// Add adds a cell to a pool.
func (p *Pool) Add(c PoolCells) {
	at, found := slices.BinarySearchFunc(p.Cells, c, func(a, b PoolCells) int {
		return cmp.Or(cmp.Compare(a.Pinned, b.Pinned), cmp.Compare(a.Size, b.Size))
	})
	if !found {
		p.Cells = slices.Insert(p.Cells, at, PoolCells{Pinned: c.Pinned, Size: c.Size})
	}
	p.Cells[at].Leaves += c.Leaves
}

// Leaser is a Policy that gives a gang its cells for a time.
type Leaser interface {
	Policy
	// LeaseEnds is when the lease of a gang ends that started at a time.
	LeaseEnds(started, now Time) Time
}

// Compare orders by the first gang.
func (a *Allocation) Compare(b *Allocation) int { return a.Gangs[0].Compare(b.Gangs[0]) }

// MayPreempt reports whether gangs of the same priority may be preempted for the gang.
func (w *Wish) MayPreempt() bool { return w.Preemptible != nil || w.ShrinkOthers }

// Shape extends a gang's shape by the wish's limits: of two wishes with one Shape, the second
// finds nothing if the first found nothing.
func (w *Wish) Shape(of string) string {
	if w.Within != Anywhere {
		of += string(rune('0' + w.Within)) // a wish with a wider limit may still be granted
	}
	if w.SKU != "" {
		of += "@" + string(w.SKU)
	}
	return of
}
