package sched

import (
	"cmp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// lastEnd says how the last attempt of a gang failed, where the end of a task says it.
func (j *job) lastEnd(g int32) string {
	for _, o := range j.spec.Gangs[g].Tasks {
		if t := &j.tasks[o]; t.exit != nil && (t.exit.Code != 0 || t.exit.Cause != "") {
			return ": " + exit.Words(j.spec.Roles[t.role].Name, t.index, t.exit.Seen())
		}
	}
	return ""
}

const maxBackOff = 5 * model.Minute

// faultsInARow is how often a gang was delayed lately: an attempt that ran for
// longer than any back-off starts the count anew.
func (g *gang) faultsInARow() int32 {
	if g.last != nil && g.last.Started > 0 && g.last.Ended > g.last.Started.Add(maxBackOff) {
		return 0
	}
	return g.faults
}

// avoidance is how a gang keeps off a node; zero where it does not.
func (g *gang) avoidance(n cell.NodeName) avoidance {
	for _, a := range rare(g.odd).avoid {
		if a.Node == n {
			return a
		}
	}
	return avoidance{}
}

// counts reports whether a task announced how many steps it has.
func (t *taskRun) counts() bool { return t.progress != nil && t.progress.Total > 0 }

// didAll reports whether an attempt of a task reported the last of its steps.
func (t *taskRun) didAll(a *attempt) bool {
	return t.counts() && t.progress.Step >= t.progress.Total && t.progress.StepAt >= a.started
}

// finished reports whether a task that was asked to make room had done all its work
// when it ended: with code 0, and not before the last step that it announced.
func (t *taskRun) finished(a *attempt, x *Exit, hints *model.Hints) bool {
	return x.zero() && !x.Saved && (hints.ExitZeroMeansDone || !t.counts() || t.didAll(a))
}

// maxNotices bounds the warnings kept for one job.
const maxNotices = 20

// maxLasting bounds those that hold while something lasts.
const maxLasting = 8

// news reports whether a notice says something that is not kept already.
func (o oddJob) news(f Notice) bool {
	at := slices.IndexFunc(o.lasting, func(l lasting) bool { return l.About == f.About })
	switch {
	case f.About == "":
		return len(o.notices) < maxNotices && !slices.Contains(o.notices, f.Message)
	case at < 0:
		return f.Message != "" && len(o.lasting) < maxLasting
	}
	return o.lasting[at].Message != f.Message
}

// told are a job's notices, those behind that hold while something lasts.
func (o oddJob) told() []string {
	if len(o.lasting) == 0 {
		return o.notices
	}
	all := slices.Clone(o.notices)
	for _, l := range o.lasting {
		all = append(all, l.Message)
	}
	return all
}

// compare orders by node, SKU, device and part.
func (n leafNote) compare(o leafNote) int {
	return cmp.Or(strings.Compare(string(n.Node), string(o.Node)), strings.Compare(string(n.SKU), string(o.SKU)),
		cmp.Compare(n.Device, o.Device), cmp.Compare(n.Part, o.Part))
}

// What policies remember: the last note about each job, and about each VC. A note
// belongs to the policy that wrote it; another policy of the VC does not see it.

// note is what a policy noted about a job.
type note struct {
	Policy string `json:"policy"`
	Data   []byte `json:"data"`
}

// An allocation may have several member attempts: equal in shape, of one VC and one
// priority, each with all of its leaves, task by task. The cells know one allocation;
// here its members are linked in order of their ids, and the first of them is whom
// byAlloc names. Which of them placed it makes no difference later: when one ends the
// allocation is that of those that are left, and it is given back with the last.
//
// What is counted in leaves is counted once, to the first member that was not told to
// stop. What happens to an allocation happens to all of its members: when it has to
// make room all are stopped, when it is made opportunistic all are.

// sharing is how the members of one allocation take turns. Attempts name it by its
// number, from 1, for as long as they live, also when they are alone again.
type sharing struct {
	rotation model.Rotation
	since    model.Time // when it began
	at       uint64     // the event that said so; only Decide reads it
	members  int32      // attempts that name it; 0 is a free slot
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

// endedJob is a job that is over, with how and when: its status is made for who asks.
type endedJob struct {
	job
	end JobEnded
	at  model.Time
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
