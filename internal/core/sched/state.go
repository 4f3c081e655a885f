// Package sched is the decision core: State, which checks commands, applies
// events, decides and explains. It is pure: it takes time, ids and randomness, it
// never fetches them, and the same events give the same decisions bit for bit. It
// must not know how tasks run, how events are stored or how users reach the
// system.
package sched

import (
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// Version names the decision code. Journal entries of another version are replayed but not decided
// again by `journal verify`. 42: a task whose program was not found, in the words of any shell, is
// not tried again (internal/core/exit).
const Version = "42"

// explainer says why jobs wait, when they start, and what would become of a change: on copies of
// itself that decide.
type explainer struct {
	pass
	ranks      ranking // of the policies' orders
	said       said    // of shapes
	copyMemory *Spare  // for copies of this copy
	whole      bool    // reasons name all that they know of, for what is tried with them
}

// tables are the rows of jobs, gangs, attempts and nodes, with their configuration and cells.
type tables struct {
	configured
	seq     uint64 // of the last event
	now     model.Time
	decided model.Time // when the last Decide ran
	cl      *cell.Cluster
	base    *cell.Cluster // as configured; it never changes, and clones share it
	// empty is the cluster with nothing in use and the present health, made when it
	// is first asked: what can ever fit.
	empty    *cell.Cluster
	configs  uint64           // counts configurations, by which caches see that they are stale
	health   uint64           // counts changes of what is in service, in the same way
	pol      []Policy         // by space; [0] is unused
	quanta   []model.Duration // of these policies
	jobs     []job            // slots; a free slot has no spec
	spare    []int32          // free slots
	slots    SlotTable
	names    nameTable
	attempts []attempt // slots; a free one has no job
	spareAtt []int32
	byAlloc  []int32           // attempt slot of each cell.AllocID, of its first member
	shares   []sharing         // how the members of allocations take turns
	nodes    []nodeNote        // what is remembered about nodes, sorted by name
	leaves   []leafNote        // bad leaves, sorted by node, SKU, device, part
	shapes   map[string]*shape // a cache of what jobs asked for lately, by its text
	arenas   arenas
}

// index follows from the tables: Apply keeps it, and Verify makes it again and compares.
type index struct {
	tables
	holders  [][]int32     // by space: its attempts and promises, in no order
	queues   [][]queued    // waiting gangs by space, sorted; [0] holds those without a VC
	lines    lineups       // of the waiting gangs, for those who pass over what does not fit
	lazy     [][]queued    // lazily preempted gangs by space, sorted
	tallies  []tally       // by space
	running  []runners     // by space
	allocs   []allocations // by space
	booked   []GangRef     // gangs with a booking, sorted
	partials int           // jobs with members above a minimum
	loners   int           // jobs that want their nodes for themselves
	away     int           // gangs that should run on other nodes next
	timers   collections.Heap[timer]
	dirty    collections.Heap[model.JobID] // to settle, a heap of ids, since slots differ after a restart
	again    model.Time                    // the next decision that Decided asked for
	againFor []cell.VCName                 // for these VCs; none is all; never changed in place
	look     bool                          // capacity or queues changed: the whole walk is due
	looks    looks                         // or parts of it
	grew     askers                        // for which VCs the decision that is being made asks for another one
	notYet   map[model.AttemptID]notYet    // gangs that are promised cells and found no free ones
	recount  bool                          // tallies are made anew: no time passes
	calls    calls                         // of policies' code
	users    limited                       // what users hold
}

// fold is what events say: the tables with their index, and the rest of it.
type fold struct {
	index
	policies Policies
	nextJob  model.JobID
	notes    []Noted        // what policies remember about their VCs, sorted by VC
	failed   []PolicyFailed // sorted by VC; never changed in place
	unmade   []PolicyFailed // see Unmade; never changed in place
	promises []int32        // attempt slots of reservations, in no order
	moved    []moved        // when gangs moved lately, sorted by VC
	habits   Habits         // what part of what it declared work took; no decision depends on it
	debts    []debt         // what VCs borrowed over time, sorted by VC
	bookings int64          // the highest turn of a booking
	turns    int            // how many decisions in a row asked for another
	ended    []endedJob     // since somebody asked
}

// finder finds cells in a fold.
type finder struct {
	fold
	cache   cache
	through uint64  // the last event before the present decision
	charges moving  // of bad hardware
	claims  claimed // of VCs that lend nothing
}

// pass is the work of one Decide, and memory for the next ones.
type pass struct {
	finder
	hungry []model.JobID // while a VC is walked: jobs of several gangs of which one runs and one found nothing
	out    []Record      // what it returns
	mem    memory
}

type configured struct { // since the last change of it
	cfg   *model.Config
	exits exit.Matcher // its exit rules, compiled
}

// job is one job that has not ended: two lines of a processor's cache. Thousands of them are far
// away in memory, so what few jobs have stands apart, here and in gangs and attempts.
type job struct {
	id          model.JobID
	spec        *model.Job
	space       int32 // of its VC, 0 when that is gone
	retry       int32
	counted     int32
	preempted   int32
	yielded     int32  // stops by its own priority: what its VC's budget bounds
	named       uint32 // the hash of its name
	size        int32  // members that it may have, of a partial job
	stop        bool
	quarantined bool
	touched     bool // it is to be settled
	loner       bool // it wants its nodes for itself
	submitted   model.Time
	started     model.Time
	gangs       []gang
	tasks       []taskRun
	completing  *JobCompleting
	odd         *oddJob // nil for most
}

// oddJob is what few jobs have. It never changes, since clones share it: who changes something
// takes another.
type oddJob struct {
	after      model.Time // no gang is placed before
	stopReason string
	notices    []string
	lasting    []lasting         // what is told while it lasts
	note       *note             // of its VC's policy
	aside      int32             // how often it was set aside after the first time
	held       *model.HoldStatus // by a user; nil: it is not
}

// lasting is a notice that goes when what it is about is over.
type lasting struct {
	About   string `json:"about"`
	Message string `json:"message"`
}

// rare returns what few jobs, gangs or attempts have, to read.
func rare[T any](odd *T) (o T) {
	if odd != nil {
		o = *odd
	}
	return o
}

// alter returns it to change: another one, since clones share the one before.
func alter[T any](odd **T) *T {
	o := rare(*odd)
	*odd = &o
	return *odd
}

// noted is what a policy noted about a job, nil for nothing.
func (j *job) noted() *note {
	if j.odd == nil {
		return nil
	}
	return j.odd.note
}

// gang is one gang's place in its life: it waits (attempt None), or an attempt
// or reservation exists, or it is over for this attempt of the job (done).
type gang struct {
	attempt int32 // slot, None
	next    int32 // slot of the promise to which it moves while its attempt leaves, None
	n       int32 // attempts so far
	leaves  int32
	faults  int32 // delayed retries of this attempt of the job: the back-off's exponent after platform faults
	retries int32 // counted task retries,
	free    int32 // and those that a failure of its task's own was worth without counting
	done    bool
	waiting bool                 // it is in its queue
	listed  bool                 // and in a line
	single  bool                 // that has no shape
	alone   bool                 // it never shares leaves: a task of it was too slow to suspend
	shape   *shape               // equal shapes have equal placements
	key     Key                  // by which it stands in its line
	after   model.Time           // it is not placed before
	ran     model.Duration       // how long its attempts ran that have ended
	last    *model.AttemptStatus // the last that ended
	odd     *oddGang             // nil for most
}

// oddGang is what few gangs have; it never changes, as oddJob.
type oddGang struct {
	meant  []cell.NodeName // where it was to run next, since it was told to move; nil else
	avoid  []avoidance
	booked *Booked // what is promised to it while it waits
}

// avoids reports whether a gang keeps off a node.
func (g *gang) avoids() bool { return g.odd != nil && len(g.odd.avoid) > 0 }

// intend says where a gang is to run next, when it is told to move; nil else.
func (g *gang) intend(nodes []cell.NodeName) {
	if nodes != nil || g.odd != nil && g.odd.meant != nil {
		alter(&g.odd).meant = nodes
	}
}

// avoidance keeps a gang off a node that refused it.
type avoidance struct {
	Node  cell.NodeName `json:"node"`
	Until model.Time    `json:"until"`
	Times int32         `json:"times"`
}

// attempt is one attempt or reservation.
//
//	Reserving -> Starting -> Running -> Stopping -> Ended
//	    |            |          |  ^        ^
//	    v            +--------->Unknown ----+
//	 (waits again)
type attempt struct {
	id         model.AttemptID
	job        int32 // slot, None when this slot is free
	alloc      cell.AllocID
	at         int32 // where it stands among the attempts of its VC
	mate       int32 // the next member of its allocation; a slot or none
	share      int32 // by which rotation it runs: its number in State.shares, from 1; 0 is all the time
	alive      int32 // tasks not proven dead
	left       int32 // of a promise: tasks from the first on whose leaves nobody holds any more; a cache
	placed     model.Time
	started    model.Time
	checkpoint model.Time // work is saved up to here
	told       model.Time // when it was told to stop
	since      uint64     // the event that gave it what it has; only Decide's assertions read it
	rank       Key        // by which it stands in the order of its VC, if it is ranked
	by         *model.AttemptID
	odd        *oddAttempt // nil for most
	state      model.AttemptState
	cause      model.EndCause
	standing   standing
	lazy       bool
	orphaned   bool
	refused    bool
	platform   bool
	joined     bool // it is not the first member of its allocation
}

// standing says whether an attempt is ranked, and whether it may have to stand elsewhere.
type standing uint8

const (
	isRanked standing = 1 << iota
	isStale
)

// oddAttempt is what few attempts have; it never changes, as oddJob.
type oddAttempt struct {
	message string
	ran     model.Duration // before the rotation by which it runs
	turn    int64          // of the booking that it had; 0 for none
	drains  []cell.LeafID  // that count as bad until it has ended
	origins []cell.Origin  // of its tasks, where the present cluster does not tell them
	victims []model.AttemptID
	requeue bool // a user wants its gang to wait again
}

// say keeps the first message about an attempt's end.
func (a *attempt) say(message string) {
	if message != "" && rare(a.odd).message == "" {
		alter(&a.odd).message = message
	}
}

// taskRun is the present or last run of one task.
type taskRun struct {
	role     int32
	index    int32
	gang     int32
	attempt  int32
	retries  int32
	state    model.TaskState
	dead     bool       // of the present attempt: proven
	place    *cell.Task // as it was started: node, SKU and devices; its leaves now are the allocation's; nil before
	begun    *begun     // what its start told; nil before
	exit     *Exit
	progress *model.TaskProgress
}

// begun is what is known of a task since it runs: apart from taskRun, as it is only looked at from
// outside.
type begun struct {
	host  string
	pid   int32
	ports []int32
}

// runs is what the start of a task told; zero before.
func (t *taskRun) runs() begun {
	if t.begun == nil {
		return begun{}
	}
	return *t.begun
}

// started is where a task was started last; zero before it ever was.
func (t *taskRun) started() cell.Task {
	if t.place == nil {
		return cell.Task{}
	}
	return *t.place
}

// nodeNote is what facts and commands said about a node.
type nodeNote struct {
	Name     cell.NodeName `json:"name"`
	Down     bool          `json:"down,omitempty"`
	Cordon   bool          `json:"cordon,omitempty"`
	Suspect  model.Time    `json:"suspect,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Cordoned string        `json:"cordoned,omitempty"` // why it is cordoned,
	By       model.Subject `json:"by,omitempty"`       // by which user,
	Since    model.Time    `json:"since,omitempty"`    // and since when
	Drain    model.Time    `json:"drain,omitempty"`    // what runs there leaves it by then; 0: it may stay
	Dead     bool          `json:"dead,omitempty"`     // a user says so
	Refused  []refusal     `json:"refused,omitempty"`  // jobs refused there lately, the oldest first
}

// refusal is one job that a node refused to start.
type refusal struct {
	Job model.JobID `json:"job"`
	At  model.Time  `json:"at"`
}

// leafNote is a bad leaf.
type leafNote struct {
	Node   cell.NodeName `json:"node"`
	SKU    cell.TypeName `json:"sku"`
	Device int32         `json:"device"`
	Part   int32         `json:"part,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

const none = -1

// Seq returns the number of events applied so far.
func (s *tables) Seq() uint64 { return s.seq }

// Now returns the time of the latest event or decision: time never goes back.
func (s *tables) Now() model.Time { return s.now }

// Config returns the present configuration, nil before the first; do not change it.
func (s *tables) Config() *model.Config { return s.cfg }

// endedJob is a job that is over, with how and when: its status is made for who asks.
type endedJob struct {
	job
	end JobEnded
	at  model.Time
}

// TakeEnded returns the final status of the jobs that ended since the last call.
func (s *fold) TakeEnded() []JobStatus {
	if len(s.ended) == 0 {
		return nil
	}
	out := make([]JobStatus, len(s.ended))
	for i := range s.ended {
		out[i] = s.finalStatus(&s.ended[i])
	}
	s.DropEnded()
	return out
}

// DropEnded forgets the jobs that ended, where nobody wants their status.
func (s *fold) DropEnded() {
	for i := range s.ended {
		s.arenas.rooms.leave(&s.ended[i].job)
	}
	clear(s.ended)
	s.ended = s.ended[:0]
}

// copy is Clone of what explains.
func (s *explainer) copy() *explainer { return s.cloneIn(&copyRoom{}) }

// Spare is memory for a copy and for those that are made of it to see what comes of a change. It is
// much, and taking it anew for each question is a third of what an answer costs.
type Spare struct{ state, with, base, tried copyRoom }

// copies is the memory of a copy for copies of it.
func (s *explainer) copies() *Spare {
	if s.copyMemory == nil {
		s.copyMemory = &Spare{}
	}
	return s.copyMemory
}

// copyRoom is memory for one copy after the other: each is the end of the one before.
type copyRoom struct {
	state explainer
	tasks []taskRun
	gangs []gang
}

// cloneIn is Clone in memory that is used again.
func (s *explainer) cloneIn(room *copyRoom) *explainer {
	d, was := &room.state, room.state
	*d = *s
	if s.cl != nil {
		d.cl, d.empty = s.cl.Clone(), nil
	}
	d.jobs = CopyAgain(was.jobs, s.jobs)
	tasks, gangs := room.tasks[:0], room.gangs[:0]
	var nt, ng int
	for i := range s.jobs {
		nt += len(s.jobs[i].tasks)
		ng += len(s.jobs[i].gangs)
	}
	for i := range s.ended {
		nt += len(s.ended[i].tasks)
		ng += len(s.ended[i].gangs)
	}
	tasks, gangs = slices.Grow(tasks, nt), slices.Grow(gangs, ng)
	for i := range d.jobs {
		j := &d.jobs[i]
		j.tasks, tasks = CopyPooled(j.tasks, tasks)
		j.gangs, gangs = CopyPooled(j.gangs, gangs)
	}
	d.ended = slices.Clone(s.ended)
	for i := range d.ended {
		j := &d.ended[i]
		j.tasks, tasks = CopyPooled(j.tasks, tasks)
		j.gangs, gangs = CopyPooled(j.gangs, gangs)
	}
	room.tasks, room.gangs = tasks, gangs
	d.spare, d.spareAtt = slices.Clone(s.spare), slices.Clone(s.spareAtt)
	d.slots, d.names = s.slots.CloneIn(&was.slots), s.names.cloneIn(&was.names)
	d.promises = slices.Clone(s.promises)
	d.attempts, d.byAlloc = CopyAgain(was.attempts, s.attempts), slices.Clone(s.byAlloc)
	d.holders, d.shares = slices.Clone(s.holders), slices.Clone(s.shares)
	for i := range d.holders {
		d.holders[i] = slices.Clone(d.holders[i])
	}
	d.queues = slices.Clone(s.queues)
	for i := range d.queues {
		var had []queued
		if i < len(was.queues) {
			had = was.queues[i]
		}
		d.queues[i] = CopyAgain(had, s.queues[i])
	}
	d.lines = s.lines.clone()
	d.tallies, d.running, d.allocs = cloneTallies(s.tallies), cloneRunners(s.running), make([]allocations,
		len(s.allocs))
	d.looks.spaces, d.looks.itself = slices.Clone(s.looks.spaces), slices.Clone(s.looks.itself)
	d.looks.changes, d.looks.shut = slices.Clone(s.looks.changes), slices.Clone(s.looks.shut)
	d.lazy = slices.Clone(s.lazy)
	for i := range d.lazy {
		d.lazy[i] = slices.Clone(d.lazy[i])
	}
	d.notes, d.debts, d.moved = slices.Clone(s.notes), slices.Clone(s.debts), slices.Clone(s.moved)
	d.nodes, d.leaves = slices.Clone(s.nodes), slices.Clone(s.leaves)
	d.booked, d.habits = slices.Clone(s.booked), s.habits.Clone()
	d.timers, d.dirty = slices.Clone(s.timers), slices.Clone(s.dirty)
	d.cache, d.hungry, d.out, d.mem, d.arenas = cache{}, nil, nil, memory{}, arenas{}
	d.ranks, d.said, d.copyMemory, d.whole, d.shapes, d.grew = ranking{}, said{}, nil, false, nil, askers{}
	d.calls, d.users, d.charges, d.claims, d.notYet, d.recount = calls{}, limited{}, moving{}, claimed{}, nil, false
	return d
}

// find returns the job with that id, nil when it is unknown or ended.
func (s *tables) find(id model.JobID) *job {
	if i, ok := s.slots.Get(id); ok {
		return &s.jobs[i]
	}
	return nil
}

// live returns the attempt with exactly that id, nil when it is over or unknown.
func (s *tables) live(id model.AttemptID) *attempt {
	j := s.find(id.Job)
	if j == nil || id.Gang < 0 || int(id.Gang) >= len(j.gangs) {
		return nil
	}
	g := &j.gangs[id.Gang]
	for _, slot := range [...]int32{g.attempt, g.next} {
		if slot != none && s.attempts[slot].id == id {
			return &s.attempts[slot]
		}
	}
	return nil
}

// task returns a task of an attempt that runs, nil when the ordinal is not its.
func (s *tables) task(a *attempt, ordinal int32) *taskRun {
	j := &s.jobs[a.job]
	if ordinal < 0 || int(ordinal) >= len(j.tasks) || j.tasks[ordinal].gang != a.id.Gang {
		return nil
	}
	return &j.tasks[ordinal]
}

// space returns the VC's index in the present cluster, 0 when it is gone.
func (s *tables) space(v cell.VCName) int32 {
	if s.cl == nil {
		return 0
	}
	return max(s.cl.SpaceOf(v), 0)
}
