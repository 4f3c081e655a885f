// Package tables holds the rows of the core: jobs, gangs, attempts, tasks, nodes and leaves, each
// at a slot that does not move, with the configuration and the cells. What depends on rows and the
// cluster alone stands here: what a gang asks for, as a shape, and what a leaf carries. It must not
// know any order of the rows, nor events.
package tables

import (
	"cmp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// Tables are the rows of jobs, gangs, attempts and nodes, with their configuration and cells.
type Tables struct {
	configured
	Seq     uint64 // of the last event
	Now     model.Time
	Decided model.Time // when the last Decide ran
	Cluster *cell.Cluster
	Base    *cell.Cluster // as configured; it never changes, and clones share it
	// Empty is the cluster with nothing in use and the present health, made when it
	// is first asked: what can ever fit.
	Empty         *cell.Cluster
	Configs       uint64           // counts configurations, by which caches see that they are stale
	Health        uint64           // counts changes of what is in service, in the same way
	Policies      []model.Policy   // by space; [0] is unused
	Quanta        []model.Duration // of these policies
	Jobs          []Job            // slots; a free slot has no spec
	Spare         []int32          // free slots
	Slots         SlotTable
	Names         nameTable
	Attempts      []Attempt // slots; a free one has no job
	SpareAttempts []int32
	ByAlloc       []int32           // attempt slot of each cell.AllocID, of its first member
	Shares        []Sharing         // how the members of allocations take turns
	Nodes         []NodeNote        // what is remembered about nodes, sorted by name
	Leaves        []LeafNote        // bad leaves, sorted by node, SKU, device, part
	Shapes        map[string]*Shape // a cache of what jobs asked for lately, by its text
	Arenas        Arenas
}

type configured struct { // since the last change of it
	Config *model.Config
	Exits  exit.Matcher // its exit rules, compiled
}

// Job is one job that has not ended: two lines of a processor's cache. Thousands of them are far
// away in memory, so what few jobs have stands apart, here and in gangs and attempts.
type Job struct {
	ID          model.JobID
	Spec        *model.Job
	Space       int32 // of its VC, 0 when that is gone
	Retry       int32
	Counted     int32
	Preempted   int32
	Yielded     int32  // stops by its own priority: what its VC's budget bounds
	named       uint32 // the hash of its name
	Size        int32  // members that it may have, of a partial job
	Stop        bool
	Quarantined bool
	Touched     bool // it is to be settled
	Dedicated   bool // it wants its nodes for itself
	Submitted   model.Time
	Started     model.Time
	Gangs       []Gang
	Tasks       []TaskRun
	Completing  *model.JobCompleting
	Rare        *JobRare // nil for most
}

// JobRare is what few jobs have. It never changes, since clones share it: who changes something
// takes another.
type JobRare struct {
	After      model.Time // no gang is placed before
	StopReason string
	Notices    []string
	Lasting    []Lasting         // what is told while it lasts
	Note       *Note             // of its VC's policy
	Aside      int32             // how often it was set aside after the first time
	Held       *model.HoldStatus // by a user; nil: it is not
}

// Lasting is a notice that goes when what it is about is over.
type Lasting struct {
	About   string `json:"about"`
	Message string `json:"message"`
}

// Note is what a policy noted about a job.
type Note struct {
	Policy string `json:"policy"`
	Data   []byte `json:"data"`
}

// Gang is one gang's place in its life: it waits (attempt None), or an attempt
// or reservation exists, or it is over for this attempt of the job (done).
type Gang struct {
	Attempt int32 // slot, None
	Next    int32 // slot of the promise to which it moves while its attempt leaves, None
	N       int32 // attempts so far
	Leaves  int32
	Faults  int32 // delayed retries of this attempt of the job: the back-off's exponent after platform faults
	Retries int32 // counted task retries,
	Free    int32 // and those that a failure of its task's own was worth without counting
	Done    bool
	Waiting bool                 // it is in its queue
	Listed  bool                 // and in a wait group
	Single  bool                 // that has no shape
	Alone   bool                 // it never shares leaves: a task of it was too slow to suspend
	Shape   *Shape               // equal shapes have equal placements
	Key     model.Key            // by which it stands in its wait group
	After   model.Time           // it is not placed before
	Ran     model.Duration       // how long its attempts ran that have ended
	Last    *model.AttemptStatus // the last that ended
	Rare    *GangRare            // nil for most
}

// GangRare is what few gangs have; it never changes, as oddJob.
type GangRare struct {
	Meant  []cell.NodeName // where it was to run next, since it was told to move; nil else
	Avoid  []Avoidance
	Booked *model.Booked // what is promised to it while it waits
}

// Avoidance is how a gang keeps off a node; zero where it does not.
func (g *Gang) Avoidance(n cell.NodeName) Avoidance {
	for _, a := range RareOf(g.Rare).Avoid {
		if a.Node == n {
			return a
		}
	}
	return Avoidance{}
}

// Avoidance keeps a gang off a node that refused it.
type Avoidance struct {
	Node  cell.NodeName `json:"node"`
	Until model.Time    `json:"until"`
	Times int32         `json:"times"`
}

// Attempt is one attempt or reservation.
//
//	Reserving -> Starting -> Running -> Stopping -> Ended
//	    |            |          |  ^        ^
//	    v            +--------->Unknown ----+
//	 (waits again)
type Attempt struct {
	ID         model.AttemptID
	Job        int32 // slot, None when this slot is free
	Alloc      cell.AllocID
	At         int32 // where it stands among the attempts of its VC
	Mate       int32 // the next member of its allocation; a slot or none
	Share      int32 // by which rotation it runs: its number in State.shares, from 1; 0 is all the time
	Alive      int32 // tasks not proven dead
	Left       int32 // of a promise: tasks from the first on whose leaves nobody holds any more; a cache
	Placed     model.Time
	Started    model.Time
	Checkpoint model.Time // work is saved up to here
	Told       model.Time // when it was told to stop
	Since      uint64     // the event that gave it what it has; only Decide's assertions read it
	Rank       model.Key  // by which it stands in the order of its VC, if it is ranked
	By         *model.AttemptID
	Rare       *AttemptRare // nil for most
	State      model.AttemptState
	Cause      model.EndCause
	Standing   standing
	Lazy       bool
	Orphaned   bool
	Refused    bool
	Platform   bool
	Joined     bool // it is not the first member of its allocation
}

// standing says whether an attempt is ranked, and whether it may have to stand elsewhere.
type standing uint8

// AttemptRare is what few attempts have; it never changes, as oddJob.
type AttemptRare struct {
	Message string
	Ran     model.Duration // before the rotation by which it runs
	Turn    int64          // of the booking that it had; 0 for none
	Drains  []cell.LeafID  // that count as bad until it has ended
	Origins []cell.Origin  // of its tasks, where the present cluster does not tell them
	Victims []model.AttemptID
	Requeue bool // a user wants its gang to wait again
}

// TaskRun is the present or last run of one task.
type TaskRun struct {
	Role     int32
	Index    int32
	Gang     int32
	Attempt  int32
	Retries  int32
	State    model.TaskState
	Dead     bool       // of the present attempt: proven
	Place    *cell.Task // as it was started: node, SKU and devices; its leaves now are the allocation's; nil before
	Begun    *Begun     // what its start told; nil before
	Exit     *model.Exit
	Progress *model.TaskProgress
}

// Begun is what is known of a task since it runs: apart from taskRun, as it is only looked at from
// outside.
type Begun struct {
	Host  string
	Pid   int32
	Ports []int32
}

// Sharing is how the members of one allocation take turns. Attempts name it by its
// number, from 1, for as long as they live, also when they are alone again.
type Sharing struct {
	Rotation model.Rotation
	Since    model.Time // when it began
	At       uint64     // the event that said so; only Decide reads it
	Members  int32      // attempts that name it; 0 is a free slot
}

// NodeNote is what facts and commands said about a node.
type NodeNote struct {
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
	Refused  []Refusal     `json:"refused,omitempty"`  // jobs refused there lately, the oldest first
}

// Refusal is one job that a node refused to start.
type Refusal struct {
	Job model.JobID `json:"job"`
	At  model.Time  `json:"at"`
}

// LeafNote is a bad leaf.
type LeafNote struct {
	Node   cell.NodeName `json:"node"`
	SKU    cell.TypeName `json:"sku"`
	Device int32         `json:"device"`
	Part   int32         `json:"part,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// EndedJob is a job that is over, with how and when: its status is made for who asks.
type EndedJob struct {
	Job
	End model.JobEnded
	At  model.Time
}

// None is no slot.
const None = -1

// LastEnd says how the last attempt of a gang failed, where the end of a task says it.
func (j *Job) LastEnd(g int32) string {
	for _, o := range j.Spec.Gangs[g].Tasks {
		if t := &j.Tasks[o]; t.Exit != nil && (t.Exit.Code != 0 || t.Exit.Cause != "") {
			return ": " + exit.Words(j.Spec.Roles[t.Role].Name, t.Index, t.Exit.Seen())
		}
	}
	return ""
}

// MaxBackOff bounds how long a gang waits after a fault of the platform.
const MaxBackOff = 5 * model.Minute

// FaultsInARow is how often a gang was delayed lately: an attempt that ran for
// longer than any back-off starts the count anew.
func (g *Gang) FaultsInARow() int32 {
	if g.Last != nil && g.Last.Started > 0 && g.Last.Ended > g.Last.Started.Add(MaxBackOff) {
		return 0
	}
	return g.Faults
}

// Counts reports whether a task announced how many steps it has.
func (t *TaskRun) Counts() bool { return t.Progress != nil && t.Progress.Total > 0 }

// DidAll reports whether an attempt of a task reported the last of its steps.
func (t *TaskRun) DidAll(a *Attempt) bool {
	return t.Counts() && t.Progress.Step >= t.Progress.Total && t.Progress.StepAt >= a.Started
}

// Finished reports whether a task that was asked to make room had done all its work
// when it ended: with code 0, and not before the last step that it announced.
func (t *TaskRun) Finished(a *Attempt, x *model.Exit, hints *model.Hints) bool {
	return x.Zero() && !x.Saved && (hints.ExitZeroMeansDone || !t.Counts() || t.DidAll(a))
}

// maxNotices bounds the warnings kept for one job.
const maxNotices = 20

// maxLasting bounds those that hold while something lasts.
const maxLasting = 8

// News reports whether a notice says something that is not kept already.
func (o JobRare) News(f model.Notice) bool {
	at := slices.IndexFunc(o.Lasting, func(l Lasting) bool { return l.About == f.About })
	switch {
	case f.About == "":
		return len(o.Notices) < maxNotices && !slices.Contains(o.Notices, f.Message)
	case at < 0:
		return f.Message != "" && len(o.Lasting) < maxLasting
	}
	return o.Lasting[at].Message != f.Message
}

// Told are a job's notices, those behind that hold while something lasts.
func (o JobRare) Told() []string {
	if len(o.Lasting) == 0 {
		return o.Notices
	}
	all := slices.Clone(o.Notices)
	for _, l := range o.Lasting {
		all = append(all, l.Message)
	}
	return all
}

// Compare orders by node, SKU, device and part.
func (n LeafNote) Compare(o LeafNote) int {
	return cmp.Or(strings.Compare(string(n.Node), string(o.Node)), strings.Compare(string(n.SKU), string(o.SKU)),
		cmp.Compare(n.Device, o.Device), cmp.Compare(n.Part, o.Part))
}

// What policies remember: the last note about each job, and about each VC. A note
// belongs to the policy that wrote it; another policy of the VC does not see it.

// An allocation may have several member attempts: equal in shape, of one VC and one
// priority, each with all of its leaves, task by task. The cells know one allocation;
// here its members are linked in order of their ids, and the first of them is whom
// byAlloc names. Which of them placed it makes no difference later: when one ends the
// allocation is that of those that are left, and it is given back with the last.
//
// What is counted in leaves is counted once, to the first member that was not told to
// stop. What happens to an allocation happens to all of its members: when it has to
// make room all are stopped, when it is made opportunistic all are.

// RareOf returns what few jobs, gangs or attempts have, to read.
func RareOf[T any](odd *T) (o T) {
	if odd != nil {
		o = *odd
	}
	return o
}

// SetRare returns it to change: another one, since clones share the one before.
func SetRare[T any](odd **T) *T {
	o := RareOf(*odd)
	*odd = &o
	return *odd
}

// Noted is what a policy noted about a job, nil for nothing.
func (j *Job) Noted() *Note {
	if j.Rare == nil {
		return nil
	}
	return j.Rare.Note
}

// Avoids reports whether a gang keeps off a node.
func (g *Gang) Avoids() bool { return g.Rare != nil && len(g.Rare.Avoid) > 0 }

// Intend says where a gang is to run next, when it is told to move; nil else.
func (g *Gang) Intend(nodes []cell.NodeName) {
	if nodes != nil || g.Rare != nil && g.Rare.Meant != nil {
		SetRare(&g.Rare).Meant = nodes
	}
}

// How an attempt stands in the order of those that run in its VC.
const (
	IsRanked standing = 1 << iota
	IsStale
)

// Say keeps the first message about an attempt's end.
func (a *Attempt) Say(message string) {
	if message != "" && RareOf(a.Rare).Message == "" {
		SetRare(&a.Rare).Message = message
	}
}

// Runs is what the start of a task told; zero before.
func (t *TaskRun) Runs() Begun {
	if t.Begun == nil {
		return Begun{}
	}
	return *t.Begun
}

// Started is where a task was started last; zero before it ever was.
func (t *TaskRun) Started() cell.Task {
	if t.Place == nil {
		return cell.Task{}
	}
	return *t.Place
}

// Find returns the job with that id, nil when it is unknown or ended.
func (s *Tables) Find(id model.JobID) *Job {
	if i, ok := s.Slots.Get(id); ok {
		return &s.Jobs[i]
	}
	return nil
}

// Live returns the attempt with exactly that id, nil when it is over or unknown.
func (s *Tables) Live(id model.AttemptID) *Attempt {
	j := s.Find(id.Job)
	if j == nil || id.Gang < 0 || int(id.Gang) >= len(j.Gangs) {
		return nil
	}
	g := &j.Gangs[id.Gang]
	for _, slot := range [...]int32{g.Attempt, g.Next} {
		if slot != None && s.Attempts[slot].ID == id {
			return &s.Attempts[slot]
		}
	}
	return nil
}

// Task returns a task of an attempt that runs, nil when the ordinal is not its.
func (s *Tables) Task(a *Attempt, ordinal int32) *TaskRun {
	j := &s.Jobs[a.Job]
	if ordinal < 0 || int(ordinal) >= len(j.Tasks) || j.Tasks[ordinal].Gang != a.ID.Gang {
		return nil
	}
	return &j.Tasks[ordinal]
}

// Space returns the VC's index in the present cluster, 0 when it is gone.
func (s *Tables) Space(v cell.VCName) int32 {
	if s.Cluster == nil {
		return 0
	}
	return max(s.Cluster.SpaceOf(v), 0)
}
