// Package tables holds the rows of the core: jobs, gangs, attempts, tasks, nodes and leaves, each
// at a slot that does not move, with the configuration and the cells. It also holds what depends
// on rows and the cluster alone: what a gang asks for, as a shape, and what a leaf carries. It
// must not know any order of the rows, nor events.
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
	Seq       uint64 // number of the last event
	Now       model.Time
	DecidedAt model.Time // when the last Decide ran
	Cluster   *cell.Cluster
	Base      *cell.Cluster // as configured; it never changes, and clones share it
	// Empty is the cluster with nothing in use and the present health: it shows what can ever fit.
	// nil until first asked for.
	Empty         *cell.Cluster
	Configs       uint64           // counts configurations: caches compare it
	Health        uint64           // counts changes of what is in service: caches compare it
	Policies      []model.Policy   // by space; [0] is unused
	Quanta        []model.Duration // of these policies
	Jobs          []Job            // by slot; a free slot has no Spec
	FreedJobs     []int32          // free slots
	Slots         SlotTable
	Names         nameTable
	Attempts      []Attempt // by slot; a free slot has Job None
	FreedAttempts []int32
	ByAlloc       []int32           // by allocation: slot of its first member, or None
	Shares        []Sharing         // how the members of allocations take turns
	Nodes         []NodeNote        // what is remembered about nodes, sorted by name
	Leaves        []LeafNote        // bad leaves, sorted by node, SKU, device, part
	Shapes        map[string]*Shape // a cache of the shapes that jobs asked for lately, by Text
	Arenas        Arenas
}

type configured struct { // what the last configuration says
	Config *model.Config
	Exits  exit.Matcher // its exit rules, compiled
}

// Job is one job that has not ended. It fits in two lines of a processor's cache, since thousands
// of them lie far apart in memory. So what few jobs have stands apart, in Rare; gangs and attempts
// do the same.
type Job struct {
	ID          model.JobID
	Spec        *model.Job
	Space       int32 // of its VC; 0 if that is gone
	Retry       int32
	Counted     int32
	Preempted   int32
	Yielded     int32  // stops by its own priority, which its VC's preemption budget bounds
	named       uint32 // the hash of its name
	Size        int32  // of a partial job: how many members it may have
	Stop        bool
	Quarantined bool
	Touched     bool // the next Decide looks at it
	Dedicated   bool // it wants its nodes for itself
	Submitted   model.Time
	Started     model.Time
	Gangs       []Gang
	Tasks       []TaskRun
	Completing  *model.JobCompleting
	Rare        *JobRare // nil for most
}

// JobRare is what few jobs have. Clones share it, so it is never changed in place: SetRare makes a
// copy to change.
type JobRare struct {
	After      model.Time // no gang is placed before
	StopReason string
	Notices    []string
	Lasting    []Lasting         // notices that hold while something lasts
	Note       *Note             // of its VC's policy
	Aside      int32             // how often it was set aside again after the first time
	Held       *model.HoldStatus // the hold of a user; nil if there is none
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

// Gang is the state of one gang: it waits (Attempt is None), or an attempt or reservation exists,
// or it is over for this attempt of the job (Done).
type Gang struct {
	Attempt          int32 // slot of its attempt or reservation, or None
	Next             int32 // slot of the promise to which it moves while its attempt leaves, or None
	N                int32 // number of attempts so far
	Leaves           int32
	Faults           int32 // delayed retries in this attempt of the job: the exponent of the back-off
	Retries          int32 // retries that count against the limit
	UncountedRetries int32 // delayed retries after its own failure that did not count
	Done             bool
	Waiting          bool                 // it is in its queue
	Listed           bool                 // it is in a wait group
	Ungrouped        bool                 // the wait group has no shape: the gang is a case of its own
	NeverShares      bool                 // it never shares leaves again: say, a task was too slow to suspend
	Shape            *Shape               // gangs of equal shape fit the same places
	Key              model.Key            // orders its wait group
	After            model.Time           // it is not placed before
	Ran              model.Duration       // run time of its ended attempts
	Last             *model.AttemptStatus // its last attempt that ended; nil before
	Rare             *GangRare            // nil for most
}

// GangRare is what few gangs have; like JobRare it is never changed in place.
type GangRare struct {
	MoveTo []cell.NodeName // nodes to run on next, since it was told to move; nil if it was not
	Avoid  []Avoidance
	Booked *model.Booked // its booking while it waits; nil without
}

// Avoidance is how a gang avoids a node; zero if it does not.
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
	ID           model.AttemptID
	Job          int32 // slot of its job; None if this slot is free
	Alloc        cell.AllocID
	At           int32 // its index among the attempts of its VC (Index.Holders)
	NextMember   int32 // slot of the next member of its allocation, or None
	Share        int32 // the rotation it follows: index in Tables.Shares plus 1; 0 runs all the time
	Alive        int32 // tasks not proven dead
	VacatedTasks int32 // of a promise: its first tasks with leaves that have no holder any more; a cache
	Placed       model.Time
	Started      model.Time
	Checkpoint   model.Time // work is saved up to here
	StopSentAt   model.Time // when it was told to stop
	SinceSeq     uint64     // number of the event that gave it its cells, or its guarantee back
	Rank         model.Key  // its key in the run order of its VC, if it is ranked
	By           *model.AttemptID
	Rare         *AttemptRare // nil for most
	State        model.AttemptState
	Cause        model.EndCause
	OrderFlags   orderFlags
	Lazy         bool
	Orphaned     bool
	Refused      bool
	Platform     bool
	NotFirst     bool // it is not the first member of its allocation
}

// orderFlags says whether an attempt is in the run order, and whether its place there is stale.
type orderFlags uint8

// AttemptRare is what few attempts have; like JobRare it is never changed in place.
type AttemptRare struct {
	Message        string
	RanBefore      model.Duration // run time before its present rotation
	BookingTurn    int64          // of the booking that it started from; 0 for none
	DrainingLeaves []cell.LeafID  // leaves that count as bad until it has ended
	Origins        []cell.Origin  // what its tasks were started with, if the present cluster does not tell
	Victims        []model.AttemptID
	Requeue        bool // a user wants its gang back in the queue
}

// TaskRun is the present or last run of one task.
type TaskRun struct {
	Role     int32
	Index    int32
	Gang     int32
	Attempt  int32
	Retries  int32
	State    model.TaskState
	Dead     bool       // its present attempt is proven to have ended
	Place    *cell.Task // where it was started: node, SKU, devices; nil before. Its leaves: see Alloc
	Begun    *Begun     // what its start reported; nil before
	Exit     *model.Exit
	Progress *model.TaskProgress
}

// Begun is what the start of a task reported. It is apart from TaskRun since decisions do not read
// it.
type Begun struct {
	Host  string
	Pid   int32
	Ports []int32
}

// Sharing is how the members of one allocation take turns. Attempts refer to it by number, from 1,
// as long as they live, also when one is alone again.
type Sharing struct {
	Rotation model.Rotation
	Since    model.Time // when the rotation began
	SinceSeq uint64     // number of the event that began it; only Decide reads it
	Members  int32      // how many attempts refer to it; 0 is a free slot
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
	Drain    model.Time    `json:"drain,omitempty"`    // what runs there leaves by then; 0: it stays
	Dead     bool          `json:"dead,omitempty"`     // a user declared it dead
	Refused  []Refusal     `json:"refused,omitempty"`  // jobs refused there lately, the oldest first
}

// Refusal is one job that a node refused to start.
type Refusal struct {
	Job model.JobID `json:"job"`
	At  model.Time  `json:"at"`
}

// LeafNote is a bad leaf, one that others hold, or one of a node that was cordoned elsewhere.
type LeafNote struct {
	Node         cell.NodeName `json:"node"`
	SKU          cell.TypeName `json:"sku"`
	Device       int32         `json:"device"`
	Part         int32         `json:"part,omitempty"`
	HeldByOthers bool          `json:"held_by_others,omitempty"` // see model.LeafHealth
	Cordoned     bool          `json:"cordoned,omitempty"`       // likewise
	Reason       string        `json:"reason,omitempty"`
}

// EndedJob is a job that is over, with how and when. Its status is made when it is asked for.
type EndedJob struct {
	Job
	End model.JobEnded
	At  model.Time
}

// None is no slot.
const None = -1

// LastEnd says how a task of a gang's last attempt failed; "" if none did.
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

// FaultsInARow is how often a gang was delayed lately: an attempt that ran for longer than the
// longest back-off starts the count anew.
func (g *Gang) FaultsInARow() int32 {
	if g.Last != nil && g.Last.Started > 0 && g.Last.Ended > g.Last.Started.Add(MaxBackOff) {
		return 0
	}
	return g.Faults
}

// AnnouncesSteps reports whether a task announced how many steps it has.
func (t *TaskRun) AnnouncesSteps() bool { return t.Progress != nil && t.Progress.Total > 0 }

// DidAll reports whether a task reported the last of its steps in this attempt.
func (t *TaskRun) DidAll(a *Attempt) bool {
	return t.AnnouncesSteps() && t.Progress.Step >= t.Progress.Total && t.Progress.StepAt >= a.Started
}

// Finished reports whether a task that was asked to make room had done all its work when it ended:
// it ended with code 0, and not before the last step that it announced.
func (t *TaskRun) Finished(a *Attempt, x *model.Exit, hints *model.Hints) bool {
	return x.Zero() && !x.Saved && (hints.ExitZeroMeansDone || !t.AnnouncesSteps() || t.DidAll(a))
}

// maxNotices bounds the warnings kept for one job.
const maxNotices = 20

// maxLasting bounds the notices of one job that hold while something lasts.
const maxLasting = 8

// News reports whether a notice says something that is not kept yet and may be.
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

// AllNotices are a job's notices; those that hold while something lasts come last.
func (o JobRare) AllNotices() []string {
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

// An allocation may have several member attempts: equal in shape, of one VC and one priority, each
// on all of its leaves, task by task. The cells know one allocation. Here its members are linked
// in order of their ids, and ByAlloc names the first. Which of them was placed on the cells makes
// no difference later: the allocation lives on with the members that are left, and is freed with
// the last.
//
// Leaves are counted once, for the first member that was not told to stop. What happens to an
// allocation happens to all of its members: all are stopped when it has to make room, and all
// become opportunistic with it.

// RareOf returns the Rare part of a row to read; zero if it has none.
func RareOf[T any](odd *T) (o T) {
	if odd != nil {
		o = *odd
	}
	return o
}

// SetRare returns the Rare part of a row to change. It is a copy, since clones share the one
// before.
func SetRare[T any](odd **T) *T {
	o := RareOf(*odd)
	*odd = &o
	return *odd
}

// PolicyNote is what a policy noted about a job, nil for nothing.
func (j *Job) PolicyNote() *Note {
	if j.Rare == nil {
		return nil
	}
	return j.Rare.Note
}

// Avoids reports whether a gang avoids any node.
func (g *Gang) Avoids() bool { return g.Rare != nil && len(g.Rare.Avoid) > 0 }

// SetMoveTo notes on which nodes a gang is to run next when it is told to move; nil ends that.
func (g *Gang) SetMoveTo(nodes []cell.NodeName) {
	if nodes != nil || g.Rare != nil && g.Rare.MoveTo != nil {
		SetRare(&g.Rare).MoveTo = nodes
	}
}

// The place of an attempt in the run order of its VC.
const (
	InRunOrder orderFlags = 1 << iota
	OrderStale
)

// Say keeps the first message about an attempt's end.
func (a *Attempt) Say(message string) {
	if message != "" && RareOf(a.Rare).Message == "" {
		SetRare(&a.Rare).Message = message
	}
}

// StartReport is what the start of a task reported; zero before.
func (t *TaskRun) StartReport() Begun {
	if t.Begun == nil {
		return Begun{}
	}
	return *t.Begun
}

// StartPlace is where a task was started last; zero before its first start.
func (t *TaskRun) StartPlace() cell.Task {
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

// Task returns a task of an attempt by its ordinal in the job, nil if it is not of the attempt's
// gang.
func (s *Tables) Task(a *Attempt, ordinal int32) *TaskRun {
	j := &s.Jobs[a.Job]
	if ordinal < 0 || int(ordinal) >= len(j.Tasks) || j.Tasks[ordinal].Gang != a.ID.Gang {
		return nil
	}
	return &j.Tasks[ordinal]
}

// Space is the index of a VC in the present cluster, 0 if it is gone.
func (s *Tables) Space(v cell.VCName) int32 {
	if s.Cluster == nil {
		return 0
	}
	return max(s.Cluster.SpaceOf(v), 0)
}
