package model

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// Dedicator is a Policy under which a job that says so (Hints.Dedicated) has its nodes for
// itself: it starts only on nodes where nobody else holds or was promised anything, and
// as long as it has them no other job of its VC, and no opportunistic one of any, starts
// there, unless its priority is higher. What others are guaranteed stays theirs: where
// their cells are parts of one of its nodes, they may come. It makes nobody leave for that.
type Dedicator interface {
	Policy
	Dedicates()
}

// Clear says who may move for a gang.
type Clear struct {
	Settle Duration // nobody who has not run for so long
	Most   int      // so many gangs
}

// A panic while the code of a VC's policy runs is that policy's doing, also where it shows in
// what the policy asked of its View: then the VC is served by the fallback until the next
// configuration, and nobody else notices. So who calls a policy says so before and after; on
// the way of each gang a deferred call would cost too much.

// Fallback is the policy that serves a VC whose own failed: without parameters it asks for no
// key and keeps nothing.
const Fallback = "fifo"

// Words says what it means for the VC, and what is to be done.
func (e *PolicyFailed) Words() string {
	if e.Why != "" {
		return fmt.Sprintf("the policy %s of virtual cluster %s cannot be made by this version (%s): until a configuration is applied "+
			"fifo without parameters serves it; apply one that names another policy, or the same one with a version that has it", e.Policy, e.VC, e.Why)
	}
	return fmt.Sprintf("the policy %s of virtual cluster %s failed with an internal error (number %s): until a configuration is applied "+
		"fifo without parameters serves it; report the number, and apply the configuration again with a mended server or with another policy", e.Policy, e.VC, e.Stack)
}

// Make makes a policy; an error where its constructor panics, too.
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
// by submission order.
type Policy interface {
	// Rank yields the wishes of one priority's waiting gangs, best first. After
	// each yield the View shows the effect, so an order may depend on what was
	// just placed. Stopping early is fine.
	Rank(View) iter.Seq[Wish]
}

// Keyed is a Policy whose order of those who wait is that of a key, which stays the
// same as long as a gang waits: View.Ordered then costs nothing for whom it does
// not come to.
type Keyed interface {
	Policy
	// Key is made of what the gang is while it waits; when its job gets another note
	// it may change. It must not keep the view.
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

// Straight is a Policy that yields a strict wish for each gang in order of submission,
// and nothing else: while nothing is left to those who wait, it need not be asked about
// who comes later.
type Straight interface {
	Policy
	Straight()
}

// Patient is a Policy that makes nobody leave, and whose order of the others does not
// depend on a gang for which there is nothing: who is of a shape that found nothing with
// a higher priority need not be seen where it would find the same.
type Patient interface {
	Policy
	Patient()
}

// Ranked is a gang that waits, with its key.
type Ranked struct {
	Ref    GangRef
	Key    Key
	Order  int64 // of submission
	Leaves int32
}

// Aging is a Keyed policy under which the key of a gang that runs stays the same until
// some time, too.
type Aging interface {
	Keyed
	// Until says when that key changes by itself for the first time after an instant,
	// which may have passed; 0 is never. It depends on nothing but the gang.
	Until(after Time, g *GangView) Time
}

// Falling is a Keyed policy under which the rank of a gang that runs falls as time goes by,
// at a rate of its own: those of one rate stay in their order.
type Falling interface {
	Keyed
	// Falls says when the rank of a gang would be 0 if it ran on, and by how much it falls in
	// each microsecond: it is that rate times the time from View.Now until then, and stays
	// the rate once no more than a microsecond is left. The rate is 0 where the rank does not
	// fall. It depends on nothing but the gang, and not on how long that ran by now.
	Falls(*GangView) (zero Time, rate int64)
}

// Keeper is a Policy that keeps what it must know of all who wait, so that a look need not
// read them (View.Kept).
type Keeper interface {
	Policy
	// Keep makes it of nobody.
	Keep() Keeping
}

// Keeping is what a Keeper keeps of those who wait with one priority, but not for an upgrade. It
// follows from them alone, in whatever order they came: it is made anew when it is not there.
type Keeping interface {
	// Add is told of a gang that waits: as it begins to, and again when its job gets another
	// note, or it becomes a case of its own (Shape ""). It must not keep the pointer. What
	// changes while it waits is left out: Delayed, Moved, and of Sizes Now, Live and Runs.
	Add(*GangView)
	// Drop is told of one that does not wait any more, or is to be added again.
	Drop(GangRef)
}

// Stander is a Policy that reads View.Standing though it is not Keyed: who runs has a
// key that stays the same until something happens to the gang.
type Stander interface {
	Policy
	// Stand is made of what the gang is while it runs, without how long. It must not
	// keep the view.
	Stand(*GangView) Key
}

// Timed is a Policy whose order changes by itself.
type Timed interface {
	Policy
	// NextChange says when the order of one priority changes by itself for the
	// first time after View.Now, the time of the last decision; 0 is never. It
	// depends on nothing but who waits, who runs and since when, what they reported, and what
	// is noted: not on GangView's Delayed, or on Ran of who runs, which time alone changes.
	// An instant that has passed counts as the next full second.
	NextChange(View) Time
}

// Paced is a Timed policy that does not look at every report: what jobs report may change
// whom it wants to start, and it sees that when its VC is looked at next, at NextChange at
// the latest. Explanations say so.
type Paced interface {
	Timed
	Paced()
}

// WaitsForRoom stands in what a Restrainer says of a gang that would fit, but not as near together
// as
// its policy wants it.
const WaitsForRoom = "waits for room"

// Restrainer is a Policy that makes gangs wait that would fit, for a limit or for a
// time. It is asked only for explanations.
type Restrainer interface {
	// Restrains says why a gang must wait though it fits, in a clause, and until
	// when, 0 where that is not known; "" is that it need not.
	Restrains(View, GangRef) (why string, until Time)
}

// Placing is a Policy that may say where a gang has to be (Wish.Only, Wish.Within, Wish.Free): what
// it can start may hang on which nodes other VCs use.
type Placing interface {
	Policy
	// Placing reports whether it does, as it is set up; always the same.
	Placing() bool
}

// Sparing is a Policy that lets a gang run for a while before another of its own priority and
// VC may stop it (Wish.Over): at least so long since its last start, or for the VC's minimum
// run time where that is longer.
type Sparing interface {
	Policy
	// Quantum is that while; 0 protects nobody. It is always the same.
	Quantum() Duration
}

// Needer is a Policy that works only with an executor that can do more than start
// and stop: a configuration that gives it to a VC elsewhere is refused.
type Needer interface {
	Policy
	Needs() []Ability
}

// Tuner is a Policy that changes how those run who have their cells.
type Tuner interface {
	Policy
	// Tune yields wishes for turns and for moves among the gangs of one priority, also
	// when nobody waits. It is asked behind Rank, whenever a VC is looked at; a Tuner
	// that is Timed is asked for its next change where gangs run, too.
	Tune(View) iter.Seq[Wish]
}

// Firm is a Policy under which members above a minimum stand where their minimum stands:
// who is made to leave for others of their priority is named by that (Wish.Over), and they
// get leaves of its types only. They need not be wished for to get free leaves; one that is
// (Wish.Gang) may have others leave for it.
type Firm interface {
	Policy
	Firm()
}

// Anchorer is a Policy under which some gangs stay where they are: they do not move for others
// that wait (VCConfig.Moves, Wish.Clear).
type Anchorer interface {
	Policy
	// Stays reports whether a gang that runs is one of these.
	Stays(*GangView) bool
}

// Judge is a Policy that says which failures no retry will mend.
type Judge interface {
	Policy
	// Permanent reports whether a job that failed like this must not run again.
	Permanent(Exit) bool
}

// Wish is one thing a policy wants to happen next.
type Wish struct {
	Gang GangRef
	// Strict makes those later in the walk of this VC wait when this wish is not
	// met: nothing later may use a chain that this gang could use. A gang that
	// waits for bad hardware or a back-off holds nobody up.
	Strict bool
	// Due says that the gang was promised its cells for now by the policy itself: then the
	// policy's quantum protects nobody from it, the VC's minimum run time alone does.
	Due bool
	// Over yields running gangs of this priority that stand behind this one, the
	// last in the order first: they may be made to leave for it when it does not
	// fit otherwise. It is read only then. nil makes nobody leave. Whoever has not
	// run for the VC's minimum run time and the policy's quantum, or used up its budget
	// of preemptions, is left alone.
	Over iter.Seq[GangRef]
	// Passes says, with Over, whether a gang that waits with a booking, or was promised
	// cells, stands behind this one as those do: it would be named if it ran. nil is
	// that of the booked all do to which the walk comes later, and nobody else.
	Passes func(GangRef) bool
	// Prefer are nodes to use if the gang fits on them alone, when its job names
	// none itself.
	Prefer cell.NodeSet
	// Only, when not nil, are the nodes that the gang may be placed on now, and Within
	// how far apart its leaves may be. Under backfill neither holds: a booking is for
	// where there will be room.
	Only   cell.NodeSet
	Within Within
	// Free keeps to cells that are free: nobody is made to leave, or to become
	// opportunistic. Under backfill it does not hold either.
	Free bool
	// SKU, where it is set, is the only type of leaves that the gang may get now. Under
	// backfill nothing is booked for it then.
	SKU cell.TypeName
	// Turns, where it is set, asks for no cells: the gangs in it share the leaves that all
	// but one of them hold, the gangs of one turn running at once (packed) and the turns
	// one after the other (sliced), each for Quantum. Gang is the one that waits, and
	// joins; when it runs as well, the others run by other turns than now. All who hold
	// the leaves are in it. Nobody is stopped for it. It is refused where the gangs differ
	// in shape, where a job does not let itself be suspended (hint suspendable) or packed
	// (hint packable), or where their memory does not fit together.
	Turns   [][]GangRef
	Quantum Duration
	// Move stops Gang, which runs, so that it runs elsewhere: the cells that were found
	// for it within Only and Within are promised to it while it leaves. Should the promise
	// be taken back it waits with Moved set. It is refused where the gang fits nowhere else
	// now, and to jobs without checkpoints.
	Move bool
	// Clear, where it is set, asks that others move so that Gang, which waits, gets cells
	// within Only and Within. It is refused where it would start without, where not
	// everybody who must make room finds a place, or where Clear does not let them.
	Clear *Clear
	// Size, where it is set, is how many members of an elastic job there may be from now
	// on: the first so many. Those of a gang that waits start together on free cells, or
	// from the least on as they find room; of one that runs, more start, or the last are
	// stopped. Pause stops them all: only to jobs with checkpoints. A size that is not
	// within the gang's Sizes is refused. Where it is not set a gang starts with its usual size.
	Size int32
	// Beside says, with the larger Size of a gang that runs, that its new members start now,
	// on free cells of the nodes on which the job runs. It is refused where not all of
	// them fit there, where anybody waits in the VC (View.Wanted), and under backfill.
	Beside bool
	// Shrink lets members of other jobs of this priority leave for a gang that does not
	// fit otherwise: those above the usual size of their job, the last first. It is for
	// policies that say no Over.
	Shrink bool
	// Last ends the walk of a VC in this decision, when it is heard: nothing is left to lower
	// priorities, since this very decision is to make room for a gang of this one (Tuner).
	Last bool
	// Note is something to remember. A wish with a note and no gang is that alone.
	Note *Note
}

// Within is how far apart the leaves of a gang may be. A gang that is too large for
// what it is limited to may be as far apart as its size needs.
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
	// its shape. "" is like no other: it may have cells or a promise already, and gets its wish
	// however little is free.
	Shape string
	// Delayed gangs wait until a time, after a refusal or a failure, or for their guarantee on
	// leaves that cannot have one (lost with their cell, or their node): a wish for one
	// finds nothing, whatever is free, and says nothing of others of its shape.
	Delayed bool
	Hints   *Hints
	// Moved gangs were stopped so that they run elsewhere: they should be first.
	Moved bool
	// Choosy is that its job names nodes that it must use, or must not.
	Choosy   bool
	Gangs    int32         // how many gangs its job has
	Sizes    Sizes         // of an elastic job, how many members it can have
	Speeds   []Throughput  // what was measured of its model, by type and GPUs; only to read
	Note     []byte        // what the policy noted last about the job; only to read
	Progress *TaskProgress // what its first task reported last; nil before; only to read
	Started  Time          // when its live attempt began to run; 0 before
	Since    Time          // when it began to wait or, when its attempt runs, to run
	Earlier  Duration      // how long its attempts ran that have ended
	Ran      Duration      // the same with the live one
}

// View is what a policy sees: one VC, one priority.
type View interface {
	Now() Time
	// Before is when the last decision was taken, 0 before the first: what came due since
	// then is seen by one decision, however late it is.
	Before() Time
	VC() cell.VCName
	// Waiting yields the gangs that wait for cells, or for their guarantee after
	// a lazy preemption, in submission order. A wish for one of the latter is an
	// upgrade: it blocks nobody and makes nobody leave.
	Waiting() iter.Seq[GangView]
	// Kept is what a Keeper keeps of those of them that wait for cells, nil while there is none,
	// and the others. A wish that is granted changes what is kept.
	Kept() (Keeping, []GangView)
	// Queue is the same gangs as of one party, with those of a shape that found nothing:
	// who cannot do anything for one gang of a shape passes over the others.
	Queue() PartyGangs
	// Moving reports whether any gang, of whatever VC, was stopped so that it runs elsewhere
	// and does not run yet: else nobody who waits is Moved.
	Moving() bool
	// Parties returns the same gangs apart by party, in no order of parties, each
	// party's in submission order. Those of a shape that found nothing in this walk
	// are left out, since a wish for them would find the same, and unless all is set
	// those that ask for more than Free: so passing over many gangs costs as much as
	// their shapes. A policy always asks for one By.
	Parties(by By, all bool) []PartyGangs
	// Lines returns the same gangs by party and shape, in no order of lines: of each line how
	// many they are, and so many of the first as the function says. So what it costs
	// does not grow with who waits. It stands in the memory of the next call.
	Lines(By, func(*Line) int) []Line
	// Fruitless reports whether a gang of that shape found nothing in this walk, with
	// nothing said of where: no other of it will.
	Fruitless(shape string) bool
	// Ordered yields the same gangs by the key of a Keyed policy. From that rank on it
	// leaves out those that ask for more than Free, as nobody makes room for them,
	// and always those of a shape that found nothing in this walk.
	Ordered(from int64) iter.Seq[Ranked]
	// Gang returns what is to be seen of a gang that waits or runs.
	Gang(GangRef) GangView
	// Running yields the gangs that run with a guarantee, in no order: one that a
	// restart may change, so nothing may depend on it.
	Running() iter.Seq[GangView]
	// Leaving yields those that were told to stop for others, as they ran, in no order either:
	// they neither wait nor run until their tasks are gone, and wait again then.
	Leaving() iter.Seq[GangView]
	// Standing yields the same gangs by the key of a Keyed policy, or of a Stander, the
	// last first.
	Standing() iter.Seq[Ranked]
	// Yields is how many gangs of its job may still be stopped for gangs of this priority,
	// 0 where one that runs may not be now: it has not run for the VC's minimum run time and
	// the policy's quantum, or its job's budget of preemptions is used up.
	Yields(GangRef) int32
	// Room reports whether a gang that waits would find free cells of a type now. It costs a
	// search, so it is for explanations.
	Room(GangRef, cell.TypeName) bool
	// Usable reports whether a gang could ever use leaves of a type that its VC is guaranteed:
	// by the types, the nodes and the pinned cells that its job names, and by its shape.
	Usable(GangRef, cell.TypeName) bool
	// SKU is the type on which a gang runs, that of its first task; "" of one that has no cells.
	SKU(GangRef) cell.TypeName
	// Promised yields those that wait and were promised cells by the key of a Keyed
	// policy, in no order.
	Promised() iter.Seq[Ranked]
	// Booked yields in the same way those for whom cells are kept for later.
	Booked() iter.Seq[Ranked]
	// Placed reports whether the gang holds or was promised cells by now.
	Placed(GangRef) bool
	// Wanted is how many leaves the gangs of the VC ask for, at all priorities, that wait for
	// its guarantee and were promised none.
	Wanted() int64
	// Beside is how many members more a gang that runs could have by Wish.Beside. It costs
	// some searches.
	Beside(GangRef) int32
	// Free is how many leaves of the VC's guarantee no gang of this or a higher
	// priority holds or was promised: a gang that asks for more cannot start unless
	// somebody of its priority leaves.
	Free() int64
	// Guaranteed is how many leaves the VC is guaranteed.
	Guaranteed() int64
	// Amount says what so many leaves of the VC's guarantee are, such as "8 GPUs".
	Amount(leaves int64) string
	// Bad is how many of these are bad, or on nodes that are not in service, and held by no
	// gang with a guarantee, but for those that leave.
	Bad() int64
	// Ill is how many such leaves a gang holds, of an elastic job as many of its members, the
	// first: nobody else can have them when they are left.
	Ill(ref GangRef, members int32) int64
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
	// cost does not grow with the cluster. They come in the order of the VC's own cells, those of
	// nobody last, so no other VC changes what is seen. Where the VC backfills, leaves of
	// opportunistic work count as idle.
	Nodes() iter.Seq[NodeView]
	// Note is what the policy noted last about a job, or with 0 about the VC; nil
	// when it noted nothing.
	Note(JobID) []byte
	// Undisturbed reports whether the VC is looked at only because its order changed by itself
	// (Timed): nothing else happened since the last look. False may be wrong.
	Undisturbed() bool
	// Backfills reports whether the VC backfills: then those behind the first that waits may have
	// to wait for it, so it matters who that is.
	Backfills() bool
	// Measured reports whether the configuration has a table of throughputs (GangView.Speeds).
	Measured() bool
	// Elastic reports whether any job of the VC that has not ended can have more than one size.
	Elastic() bool
	// Pools are what the VC is guaranteed, by type.
	Pools() []Pool
	// Allocations are the leaves that full gangs of this priority hold with a guarantee,
	// in order of the first gang on each; only to read.
	Allocations() []*Allocation
	// Scratch is where a policy may leave memory for its next look to use again. What is
	// written there must not matter: any look may find nothing, or that of another VC.
	Scratch() *any
	// Node is what a machine offers by number, Machines how many there are.
	Node(int32) NodeView
	// Idle sums what such a machine offers: how many idle leaves, of how many.
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
	// Steady is that all its gangs start or run and none was told to stop: else its
	// turns stay as they are.
	Steady bool
	// Turns, Quantum and Since are how its gangs take turns, and since when; nil when
	// there was never more than one.
	Turns   [][]GangRef
	Quantum Duration
	Since   Time
	// Each are its gangs, in their order.
	Each []Sharer
	Prio cell.Priority
}

// Sharer is a gang of an Allocation.
type Sharer struct {
	Hints   *Hints
	Gangs   int32 // how many its job has
	Started Time  // when its attempt began to run; 0 before
	Told    bool  // its first task told its progress
	Noted   bool  // there is a note about its job
}

// Pool is what a VC is guaranteed of one type: so many leaves, on nodes that have
// at most Node of them. What is bad counts as well.
type Pool struct {
	SKU    cell.TypeName
	Leaves int64
	Node   int32
	// Cells are what it is made of: first what is not pinned, by rising Part, then the
	// pinned cells.
	Cells []PoolCells
}

// PoolCells are cells of a Pool of one size within a node: each has room for gangs of Part
// leaves, or is several such. A pinned cell is for those alone who name it.
type PoolCells struct {
	Pinned cell.PinnedID
	Part   int32
	Leaves int64
}

// PartyGangs is one party with gangs that wait. Leaves is for how many in all,
// counted where all were asked for. Next
// returns the next of them, false when there is none; Pass does the same and
// leaves out all of the shape of the one returned last.
type PartyGangs struct {
	Party  Party
	Leaves int64
	Next   func() (GangView, bool)
	Pass   func() (GangView, bool)
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

// Policies makes the policy that a VC's configuration names. What is wrong with its
// parameters it says as BadParams.
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

// How many members an elastic job has. Its gangs are those of a partial gang: gang 0 is
// the least that it can do with, and each member above that is a gang of its own. The
// size says how many there may be: the first so many. Those above it do not wait, so
// nothing else in the core asks for a size. A policy gives it with a start or later
// (Wish.Size), one event names it, and it stays until the next.

// Pause as Wish.Size stops a gang that runs, with the members above its minimum: it
// waits again, and starts when a wish asks for that.
const Pause = -1

// Watcher is a Policy that watches what jobs report.
type Watcher interface {
	Policy
	// Watch is asked when a job's first gang reported its progress, and maybe again: what
	// it is to remember of that, nil for nothing new, and why the job is to be stopped, ""
	// where it goes on.
	Watch(*GangView) (note []byte, stop string)
}

// Learner is a Policy that learns from the jobs of its VC that end.
type Learner interface {
	Policy
	// Learn is asked once for each gang of a job that ends. It returns what is to be noted
	// about the VC, given what is, or nil for nothing new.
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

// Compare orders the last in the order of the policy first.
func (a *Ranked) Compare(b *Ranked) int {
	return cmp.Or(b.Key.Compare(a.Key), cmp.Compare(b.Order, a.Order), cmp.Compare(b.Ref.Gang, a.Ref.Gang))
}

// Add adds a cell to a pool.
func (p *Pool) Add(c PoolCells) {
	at, found := slices.BinarySearchFunc(p.Cells, c, func(a, b PoolCells) int {
		return cmp.Or(cmp.Compare(a.Pinned, b.Pinned), cmp.Compare(a.Part, b.Part))
	})
	if !found {
		p.Cells = slices.Insert(p.Cells, at, PoolCells{Pinned: c.Pinned, Part: c.Part})
	}
	p.Cells[at].Leaves += c.Leaves
}

// Leaser is a Policy that gives a gang its cells for a time.
type Leaser interface {
	Policy
	// LeaseEnds is when the lease ends that a gang has which started then.
	LeaseEnds(started, now Time) Time
}

// Compare orders by the first gang.
func (a *Allocation) Compare(b *Allocation) int { return a.Gangs[0].Compare(b.Gangs[0]) }

// Takes reports whether a gang may have cells of its own priority.
func (w *Wish) Takes() bool { return w.Over != nil || w.Shrink }

// Shape tells wishes apart of which one may be granted when another is not.
func (w *Wish) Shape(of string) string {
	if w.Within != Anywhere {
		of += string(rune('0' + w.Within)) // others may be farther apart
	}
	if w.SKU != "" {
		of += "@" + string(w.SKU)
	}
	return of
}
