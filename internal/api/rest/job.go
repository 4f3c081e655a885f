package rest

import (
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// JobStatus is a job as clients see it.
type JobStatus struct {
	ID        model.JobID    `json:"id"`
	Name      model.JobName  `json:"name"`
	User      model.Subject  `json:"user"`
	VC        cell.VCName    `json:"vc"`
	Priority  cell.Priority  `json:"priority"`
	Phase     model.Phase    `json:"phase"`
	Submitted model.Time     `json:"submitted"`
	Started   model.Time     `json:"started,omitempty"` // first task of the first attempt
	Ended     model.Time     `json:"ended,omitempty"`
	Ran       model.Duration `json:"ran,omitempty"` // how long its longest gang ran, in all attempts: not while it waited or was suspended
	// Waited is the time since it was submitted, until now or its end, less the run time of its
	// longest gang.
	Waited    model.Duration  `json:"waited,omitempty"`
	Leaves    int32           `json:"leaves"`  // of all tasks
	GPUs      int64           `json:"gpus"`    // that all tasks take; CPU slots have none
	Retry     int32           `json:"retry"`   // the job's attempt, from 0
	Counted   int32           `json:"counted"` // retries that counted
	Preempted int32           `json:"preempted"`
	Yielded   int32           `json:"yielded,omitempty"`  // stops by its own priority, which its VC's budget bounds
	Stopping  bool            `json:"stopping,omitempty"` // a stop was asked
	Cause     model.EndCause  `json:"cause,omitempty"`
	Exit      *Exit           `json:"exit,omitempty"`
	Message   string          `json:"message,omitempty"`
	ExitClass *ExitClass      `json:"exit_class,omitempty"` // of one that failed or was stopped
	Outlook   *JobOutlook     `json:"outlook,omitempty"`    // of one that runs or is being stopped
	Coming    []Coming        `json:"coming,omitempty"`     // what will happen to it, the first thing first
	Tasks     []TaskStatus    `json:"tasks"`
	Attempts  []AttemptStatus `json:"attempts"` // live ones and the last ended of each gang
	Held      *Held           `json:"held,omitempty" doc:"It does not start until it is released"`
	Notices   []string        `json:"notices,omitempty"`
	Lasting   int             `json:"lasting,omitempty" doc:"So many of the notices, the last ones, go again"`
	Tags      []string        `json:"tags,omitempty"`
}

// JobOutlook is how far a job is, and when it ends.
type JobOutlook struct {
	Done  int32      `json:"done,omitempty"`  // of its steps, in parts per thousand: the mean of the tasks that report a total
	At    model.Time `json:"at,omitempty"`    // of the last step that was reported; 0 where none reports a total
	Ends  model.Time `json:"ends,omitempty"`  // likely, or at the latest; 0 is not known
	Last  bool       `json:"last,omitempty"`  // Ends is when it ends at the latest
	Basis string     `json:"basis,omitempty"` // of Ends, or why it is not known
}

// Coming is what will happen to a job that runs: one sentence, and a time.
type Coming struct {
	Kind    string     `json:"kind" doc:"stop, drain, time limit, lease, configuration or hardware"`
	At      model.Time `json:"at,omitempty"` // left out where it has no time
	Message string     `json:"message"`
}

// TaskStatus is one task's present or last run.
type TaskStatus struct {
	Role         string          `json:"role"`
	Index        int32           `json:"index"`
	Gang         int32           `json:"gang"`
	State        model.TaskState `json:"state"`
	Attempt      int32           `json:"attempt"` // N of the gang's attempt, 0 before the first
	Node         cell.NodeName   `json:"node,omitempty"`
	SKU          cell.TypeName   `json:"sku,omitempty"`
	Devices      []int32         `json:"devices,omitempty"`
	Parts        []int32         `json:"parts,omitempty"` // of each device, where leaves are parts
	Lost         []int32         `json:"lost,omitempty"`  // devices among them that the configuration lacks now: they drain
	Host         string          `json:"host,omitempty"`
	Ports        []int32         `json:"ports,omitempty"`
	PID          int32           `json:"pid,omitempty"`
	Exit         *Exit           `json:"exit,omitempty"`
	ExitClass    *ExitClass      `json:"exit_class,omitempty"` // of one that ended and did not succeed
	Retries      int32           `json:"retries,omitempty"`
	Progress     *TaskProgress   `json:"progress,omitempty"`
	model.Limits                 // of one that was started
}

// Held says since when a job is held, by which user and why.
type Held struct {
	By     model.Subject `json:"by"`
	Since  model.Time    `json:"since"`
	Reason string        `json:"reason,omitempty"`
}

// TaskProgress is the last progress a task reported.
type TaskProgress struct {
	At         model.Time `json:"at"`
	Step       int64      `json:"step"`
	StepAt     model.Time `json:"step_at,omitempty"` // when that was reported: At may be of something else
	Total      int64      `json:"total,omitempty"`
	From       int64      `json:"from,omitempty"`    // the first step that was reported in the attempt of the last
	FromAt     model.Time `json:"from_at,omitempty"` // when that was
	Loss       string     `json:"loss,omitempty"`
	LossAt     model.Time `json:"loss_at,omitempty"` // when that was reported
	MemoryMB   int64      `json:"memory_mb,omitempty"`
	Checkpoint model.Time `json:"checkpoint,omitempty"` // of the last checkpoint
	// Use is what its devices were seen to do; nil where that is not looked at.
	Use *DeviceUse `json:"use,omitempty"`
}

// DeviceUse is a sample of the devices of one task.
type DeviceUse struct {
	Util     int32 `json:"util"`      // mean, in parts per thousand
	MemoryMB int64 `json:"memory_mb"` // in use on the fullest of them; of a task, the most that was seen while they were not shared
}

// AttemptStatus is one attempt or reservation of a gang.
type AttemptStatus struct {
	ID            model.AttemptID    `json:"id"`
	State         model.AttemptState `json:"state"`
	Opportunistic bool               `json:"opportunistic,omitempty"` // by priority or lazily preempted
	Lazy          bool               `json:"lazy,omitempty"`
	Orphaned      bool               `json:"orphaned,omitempty"`
	Cause         model.EndCause     `json:"cause,omitempty"`
	Placed        model.Time         `json:"placed,omitempty"`
	Started       model.Time         `json:"started,omitempty"`
	Told          model.Time         `json:"told,omitempty"` // when it was told to stop
	Ended         model.Time         `json:"ended,omitempty"`
	Victims       []model.AttemptID  `json:"victims,omitempty"` // of a reservation, still alive
	By            *model.AttemptID   `json:"by,omitempty"`      // the preemptor
	Message       string             `json:"message,omitempty"`
}

// Exit is how a task ended.
type Exit struct {
	Code   int32 `json:"code"`             // exit code; 128+signal when a signal ended it
	Signal int32 `json:"signal,omitempty"` // the signal, 0 if none
	// Cause is set when the platform, not the task, made it end.
	Cause   model.ExitCause `json:"cause,omitempty"`
	Message string          `json:"message,omitempty"`
	// Own is true when the task had ended by itself before any stop reached it.
	// An exit of a stopping attempt without Own counts as the stop's doing.
	Own bool `json:"own,omitempty"`
	// At is when the task itself ended, by the clock of its machine: facts of several tasks may
	// come together, or late. 0 is not known.
	At model.Time `json:"at,omitempty"`
}

// ExitClass is what an end means; docs/exit-codes.md has the table.
type ExitClass struct {
	Code   int32      `json:"code"`   // OpenPAI's and FrameworkController's; the program's own where they have none
	Phrase string     `json:"phrase"` // what they call it
	Class  exit.Class `json:"class"`  // user, transient, conflict, permanent, platform or resource: whose doing it was
	Actor  exit.Actor `json:"actor"`  // must act: none, you (the job's user) or administrator
	Retry  exit.Retry `json:"retry"`  // never, counted, always or delayed: whether such an end is followed by another try
	Means  string     `json:"means"`  // one sentence
	Next   string     `json:"next"`   // what to do
}

// Reason is why a gang waits.
type Reason struct {
	Code    model.Code      `json:"code"`
	Message string          `json:"message"` // one sentence with the numbers
	Until   model.Time      `json:"until,omitempty"`
	Jobs    []model.JobID   `json:"jobs,omitempty"`  // ahead of it, or leaving; at most 10
	Nodes   []cell.NodeName `json:"nodes,omitempty"` // bad, avoided or held nodes; at most 10
	// More and MoreNodes are how many jobs and nodes there are besides, which are not named.
	More      int `json:"more,omitempty"`
	MoreNodes int `json:"more_nodes,omitempty"`
	// Besides are the codes of what would keep it waiting when all is gone that is named, and
	// neither job nor node is.
	Besides []model.Code `json:"besides,omitempty"`
	Need    int32        `json:"need"`            // leaves the gang asks for
	Free    int32        `json:"free"`            // leaves free to it now, of all SKUs together, or the most of one where it runs on one
	Total   int32        `json:"total"`           // leaves it may ever use, counted likewise
	Asks    string       `json:"asks"`            // what the leaves it asks for are, such as "4 GPUs"
	Rooms   []Room       `json:"rooms,omitempty"` // what is free to it now, and what it may ever use, by SKU
}

// Room counts the leaves of one SKU that a gang may use.
type Room struct {
	model.Carry
	Free  int32 `json:"free"`  // leaves that are free to it now
	Total int32 `json:"total"` // leaves that it may ever use
}

// JobHistory is a job's attempts, the oldest first.
type JobHistory struct {
	Ref      string        `json:"ref" doc:"As the reader calls the job"`
	Attempts []PastAttempt `json:"attempts"`
	Left     int           `json:"left,omitempty" doc:"Older attempts that are left out"`
	Removed  *Removed      `json:"removed,omitempty" doc:"The job's logs, work and checkpoints are not there any more"`
}

// Removed says when the files of a job that has ended were removed, and by which rule.
type Removed struct {
	At   model.Time `json:"at"`
	Rule string     `json:"rule" doc:"In words, such as kept 30d"`
}

// Words says it in a sentence's part: "kept 30d; removed on 2026-11-26".
func (r *Removed) Words() string {
	return r.Rule + "; removed on " + time.UnixMicro(int64(r.At)).UTC().Format(time.DateOnly)
}

// PastAttempt is one attempt of a gang, from its placement to its end.
type PastAttempt struct {
	ID         model.AttemptID  `json:"id"`
	Retry      int32            `json:"retry"` // the job's attempt that it belongs to, from 0
	Nodes      []cell.NodeName  `json:"nodes"`
	GPUs       int64            `json:"gpus"`
	Lazy       bool             `json:"lazy,omitempty"` // it ran without its guarantee in the end
	Placed     model.Time       `json:"placed"`
	Started    model.Time       `json:"started,omitempty"`    // of its first task
	Checkpoint model.Time       `json:"checkpoint,omitempty"` // the last that it told
	Told       model.Time       `json:"told,omitempty"`       // when it was told to stop
	Ended      model.Time       `json:"ended,omitempty"`
	Cause      model.EndCause   `json:"cause,omitempty"`
	By         *model.AttemptID `json:"by,omitempty"`  // what it made room for
	Why        string           `json:"why,omitempty"` // by which job and rule, or by which user, it was stopped
	Message    string           `json:"message,omitempty"`
	Lost       int64            `json:"lost,omitempty"`       // GPU-seconds since its last checkpoint, or since its start
	Tasks      []PastTask       `json:"tasks,omitempty"`      // those that ended, in this order
	MoreNodes  int              `json:"more_nodes,omitempty"` // that are left out of a long history
	MoreTasks  int              `json:"more_tasks,omitempty"` // ends of tasks that are left out of it: not the first failures
}

// PastTask is how one task of an attempt ended.
type PastTask struct {
	Task      string     `json:"task"` // such as main-0
	Exit      *Exit      `json:"exit"`
	ExitClass *ExitClass `json:"exit_class,omitempty"` // of one that did not succeed
}
