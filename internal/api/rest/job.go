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
	Started   model.Time     `json:"started,omitempty"` // start of the first task of the first attempt
	Ended     model.Time     `json:"ended,omitempty"`
	Ran       model.Duration `json:"ran,omitempty"` // run time of its longest gang over all attempts, without suspensions
	// Waited is the time from its submission to now or its end, less the run time of its
	// longest gang.
	Waited    model.Duration  `json:"waited,omitempty"`
	Leaves    int32           `json:"leaves"`  // of all tasks
	GPUs      int64           `json:"gpus"`    // of all tasks; CPU slots have none
	Retry     int32           `json:"retry"`   // the job's attempt, from 0
	Counted   int32           `json:"counted"` // retries that counted
	Preempted int32           `json:"preempted"`
	Yielded   int32           `json:"yielded,omitempty"`  // stops for jobs of its own priority, which its VC's budget bounds
	Stopping  bool            `json:"stopping,omitempty"` // its stop was requested
	Cause     model.EndCause  `json:"cause,omitempty"`
	Exit      *Exit           `json:"exit,omitempty"`
	Message   string          `json:"message,omitempty"`
	ExitClass *ExitClass      `json:"exit_class,omitempty"` // of a job that failed or was stopped
	Outlook   *JobOutlook     `json:"outlook,omitempty"`    // of a job that runs or is being stopped
	Coming    []Coming        `json:"coming,omitempty"`     // announced events, the first one first
	Tasks     []TaskStatus    `json:"tasks"`
	Attempts  []AttemptStatus `json:"attempts"` // live attempts, and the last ended one of each gang
	Held      *Held           `json:"held,omitempty" doc:"It does not start until it is released"`
	Notices   []string        `json:"notices,omitempty"`
	Lasting   int             `json:"lasting,omitempty" doc:"So many of the notices, the last ones, go again"`
	Tags      []string        `json:"tags,omitempty"`
}

// JobOutlook is a job's progress and its expected end.
type JobOutlook struct {
	Done  int32      `json:"done,omitempty"`  // of its steps, in parts per thousand: the mean over tasks that report a total
	At    model.Time `json:"at,omitempty"`    // time of the last reported step; 0 where no task reports a total
	Ends  model.Time `json:"ends,omitempty"`  // expected end, or the latest one if Last; 0 is unknown
	Last  bool       `json:"last,omitempty"`  // Ends is the latest end
	Basis string     `json:"basis,omitempty"` // what Ends is based on, or why it is unknown
}

// Coming is an announced event of a running job: one sentence, and a time.
type Coming struct {
	Kind    string     `json:"kind" doc:"stop, drain, time limit, lease, configuration or hardware"`
	At      model.Time `json:"at,omitempty"` // 0 is no time
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
	Lost         []int32         `json:"lost,omitempty"`  // devices among them that the configuration no longer contains
	Host         string          `json:"host,omitempty"`
	Ports        []int32         `json:"ports,omitempty"`
	PID          int32           `json:"pid,omitempty"`
	Exit         *Exit           `json:"exit,omitempty"`
	ExitClass    *ExitClass      `json:"exit_class,omitempty"` // of one that ended and did not succeed
	Retries      int32           `json:"retries,omitempty"`
	Progress     *TaskProgress   `json:"progress,omitempty"`
	model.Limits                 // of a task that was started
}

// Held says since when a job is held, by which user, and why.
type Held struct {
	By     model.Subject `json:"by"`
	Since  model.Time    `json:"since"`
	Reason string        `json:"reason,omitempty"`
}

// TaskProgress is the last progress a task reported.
type TaskProgress struct {
	At         model.Time `json:"at"`
	Step       int64      `json:"step"`
	StepAt     model.Time `json:"step_at,omitempty"` // when Step was reported; At may be that of another value
	Total      int64      `json:"total,omitempty"`
	From       int64      `json:"from,omitempty"`    // the first step that was reported in the attempt of the last one
	FromAt     model.Time `json:"from_at,omitempty"` // when From was reported
	Loss       string     `json:"loss,omitempty"`
	LossAt     model.Time `json:"loss_at,omitempty"` // when Loss was reported
	MemoryMB   int64      `json:"memory_mb,omitempty"`
	Checkpoint model.Time `json:"checkpoint,omitempty"` // when the last checkpoint was reported
	// Use is the utilization of its devices; nil where it is not measured.
	Use *DeviceUse `json:"use,omitempty"`
}

// DeviceUse is a sample of the devices of one task.
type DeviceUse struct {
	Util     int32 `json:"util"`      // mean, in parts per thousand
	MemoryMB int64 `json:"memory_mb"` // in use on the fullest device; of a task, the most while its devices were not shared
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
	Told          model.Time         `json:"told,omitempty"` // when it was told to stop; 0 is never
	Ended         model.Time         `json:"ended,omitempty"`
	Victims       []model.AttemptID  `json:"victims,omitempty"` // of a reservation, still live
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
	// Own says that the task ended by itself before any stop reached it. An exit of a
	// stopping attempt without Own counts as caused by the stop.
	Own bool `json:"own,omitempty"`
	// At is when the task itself ended, by the clock of its machine, since facts about tasks
	// may come late or together. 0 is unknown.
	At model.Time `json:"at,omitempty"`
}

// ExitClass is the meaning of an end; docs/exit-codes.md has the table.
type ExitClass struct {
	Code   int32      `json:"code"`   // that of OpenPAI and FrameworkController; the program's own where they have none
	Phrase string     `json:"phrase"` // their name for it
	Class  exit.Class `json:"class"`  // the cause: user, transient, conflict, permanent, platform or resource
	Actor  exit.Actor `json:"actor"`  // must act: none, you (the job's user) or administrator
	Retry  exit.Retry `json:"retry"`  // never, counted, always or delayed: whether another try follows such an end
	Means  string     `json:"means"`  // one sentence
	Next   string     `json:"next"`   // what to do
}

// Reason is why a gang waits.
type Reason struct {
	Code    model.Code      `json:"code"`
	Message string          `json:"message"` // one sentence with numbers
	Until   model.Time      `json:"until,omitempty"`
	Jobs    []model.JobID   `json:"jobs,omitempty"`  // ahead of it, or leaving for it; at most 10
	Nodes   []cell.NodeName `json:"nodes,omitempty"` // bad, avoided or held nodes; at most 10
	// More and MoreNodes count further jobs and nodes, which are not named.
	More      int `json:"more,omitempty"`
	MoreNodes int `json:"more_nodes,omitempty"`
	// Besides are the codes of reasons that would keep it waiting even if all named jobs and
	// nodes were out of the way.
	Besides []model.Code `json:"besides,omitempty"`
	Need    int32        `json:"need"`            // leaves for which the gang asks
	Free    int32        `json:"free"`            // leaves that are free to it now: of all SKUs, or the most of one where it must run on one
	Total   int32        `json:"total"`           // leaves that it may ever use, counted the same way
	Asks    string       `json:"asks"`            // the leaves for which it asks, such as "4 GPUs"
	Rooms   []Room       `json:"rooms,omitempty"` // the same as Free and Total by SKU
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

// Removed says when the files of an ended job were removed, and by which rule.
type Removed struct {
	At   model.Time `json:"at"`
	Rule string     `json:"rule" doc:"In words, such as kept 30d"`
}

// Words is a part of a sentence: "kept 30d; removed on 2026-11-26".
func (r *Removed) Words() string {
	return r.Rule + "; removed on " + time.UnixMicro(int64(r.At)).UTC().Format(time.DateOnly)
}

// PastAttempt is one attempt of a gang, from its placement to its end.
type PastAttempt struct {
	ID         model.AttemptID  `json:"id"`
	Retry      int32            `json:"retry"` // the attempt of the job, from 0
	Nodes      []cell.NodeName  `json:"nodes"`
	GPUs       int64            `json:"gpus"`
	Lazy       bool             `json:"lazy,omitempty"` // it was lazily preempted until its end
	Placed     model.Time       `json:"placed"`
	Started    model.Time       `json:"started,omitempty"`    // start of its first task
	Checkpoint model.Time       `json:"checkpoint,omitempty"` // its last reported checkpoint
	Told       model.Time       `json:"told,omitempty"`       // when it was told to stop
	Ended      model.Time       `json:"ended,omitempty"`
	Cause      model.EndCause   `json:"cause,omitempty"`
	By         *model.AttemptID `json:"by,omitempty"`  // the attempt for which it was preempted
	Why        string           `json:"why,omitempty"` // by which job and rule, or by which user, it was stopped
	Message    string           `json:"message,omitempty"`
	Lost       int64            `json:"lost,omitempty"`       // GPU-seconds since its last checkpoint, or since its start
	Tasks      []PastTask       `json:"tasks,omitempty"`      // those that ended, in that order
	MoreNodes  int              `json:"more_nodes,omitempty"` // that a long history leaves out
	MoreTasks  int              `json:"more_tasks,omitempty"` // how many ends of tasks it leaves out, which are never the first failures
}

// PastTask is how one task of an attempt ended.
type PastTask struct {
	Task      string     `json:"task"` // such as main-0
	Exit      *Exit      `json:"exit"`
	ExitClass *ExitClass `json:"exit_class,omitempty"` // of a task that did not succeed
}
