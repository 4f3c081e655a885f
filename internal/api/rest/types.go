package rest

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Version is the name of this API in its paths.
const Version = "v1"

// Prefix starts every path of the API.
const Prefix = "/api/" + Version

// Limits of a request body, in bytes.
const (
	MaxBody       = 1 << 20 // a job file, and everything not named below
	MaxConfigBody = 8 << 20 // a cluster file
)

// NamePattern is the pattern of valid names in paths and queries: of jobs, VCs, nodes and
// roles. What does not match does not exist.
const NamePattern = `^[A-Za-z0-9_][A-Za-z0-9_.~-]{0,254}$`

// ValidName reports whether a name matches NamePattern.
func ValidName(name string) bool {
	return regexp.MustCompile(NamePattern).MatchString(name)
}

// SplitRef splits the name of a job in paths and in what users write: its number, its NAME,
// which is one of the caller's own jobs (user is ""), or USER~NAME. User names have no ~, so
// it splits at the first one. It is false for an invalid name.
func SplitRef(ref string) (user model.Subject, name model.JobName, ok bool) {
	before, after, cut := strings.Cut(ref, "~")
	if !cut {
		return "", model.JobName(ref), ValidName(ref)
	}
	odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	ok = before != "" && len(before) <= 255 && !strings.ContainsFunc(before, odd) && ValidName(after)
	return model.Subject(before), model.JobName(after), ok
}

// Info is the name and the version of a server.
type Info struct {
	Name       string `json:"name" doc:"Always comb"`
	Version    string `json:"version" doc:"Version of the program"`
	APIVersion string `json:"api_version"`
	Decisions  string `json:"decisions" doc:"Version of the decision code"`
	Cluster    string `json:"cluster" doc:"Id of this data directory"`
	Seq        uint64 `json:"seq" doc:"Last event that reads can see"`
	// Conditions are also in a header of each answer, HeaderCondition.
	Conditions []string `json:"conditions,omitempty" doc:"What concerns more than one job now: a sentence each"`
}

// Health is all that a server tells without a token.
type Health struct {
	Status string `json:"status" doc:"ok"`
}

// SubmitRequest is the JSON form of a submission: exactly one of Source and Quick.
type SubmitRequest struct {
	Source string    `json:"source,omitempty" doc:"A job file (YAML) as text"`
	Quick  *QuickJob `json:"quick,omitempty"`
	Name   string    `json:"name,omitempty" doc:"Replaces the job's name"`
	VC     string    `json:"vc,omitempty" doc:"Replaces the job's virtual cluster"`
	// DefaultVC is used where nothing names a VC. Without it that is the only VC to which the
	// caller may submit, else "default".
	DefaultVC string `json:"default_vc,omitempty" doc:"The virtual cluster of a job that names none"`
	Upload    string `json:"upload,omitempty" doc:"Replaces the job's upload: the digest of one of the caller's"`
}

// QuickJob is a job of one role, without a file. Empty fields take defaults.
type QuickJob struct {
	Name       string            `json:"name,omitempty" doc:"Made of the command if empty"`
	VC         string            `json:"vc,omitempty"`
	Command    []string          `json:"command,omitempty" doc:"Program and arguments; without it the image's own runs"`
	GPUs       int64             `json:"gpus,omitempty" doc:"Of each task"`
	AllGPUs    bool              `json:"all_gpus,omitempty" doc:"As many GPUs for each task as one node has with which the job could ever start; not with gpus"`
	CPUs       string            `json:"cpus,omitempty" doc:"Of each task, such as 0.5"`
	MemoryMB   int64             `json:"memory_mb,omitempty" doc:"Of each task"`
	DiskMB     int64             `json:"disk_mb,omitempty" doc:"What the container of each task may write to its own disk"`
	ShmMB      int64             `json:"shm_mb,omitempty" doc:"/dev/shm of each task; 0: as much as its memory"`
	Limits     map[string]string `json:"limits,omitempty" doc:"Of each process: nofile, stack, memlock; such as 64Mi"`
	Tasks      int32             `json:"tasks,omitempty" doc:"Equal tasks; 0 is 1"`
	SKU        string            `json:"sku,omitempty"`
	Pinned     string            `json:"pinned,omitempty" doc:"The pinned cell of the virtual cluster that it runs in; not with sku"`
	Priority   string            `json:"priority,omitempty" doc:"crit, prod, test, oppo or a number"`
	WorkDir    string            `json:"work_dir,omitempty"`
	Image      string            `json:"image,omitempty" doc:"Of the container that each task runs in"`
	Pull       string            `json:"pull,omitempty" doc:"Of the image: missing, or always at the first start"`
	Storages   []string          `json:"storages,omitempty" doc:"Those of the cluster file that its tasks see"`
	Upload     string            `json:"upload,omitempty" doc:"The digest of the code that its tasks find in their working directory: one of the caller's uploads"`
	TimeLimit  string            `json:"time_limit,omitempty" doc:"Such as 90m"`
	Grace      string            `json:"grace,omitempty" doc:"Between SIGTERM and SIGKILL, such as 30s"`
	Env        map[string]string `json:"env,omitempty"`
	Ports      map[string]int32  `json:"ports,omitempty" doc:"How many each task gets, by label"`
	Retries    int32             `json:"retries,omitempty" doc:"How often it is tried again after it failed"`
	Checkpoint bool              `json:"checkpoint,omitempty" doc:"It saves its work when it is asked to stop, or from time to time"`
	Caller     *Caller           `json:"caller,omitempty" doc:"Run it where its caller is; taken over the server's socket alone"`
}

// Caller is where a user submits a job: the job runs in that folder, with that environment.
// It is kept like the job's secrets, so it is in no event and no answer.
type Caller struct {
	Folder Folder `json:"folder"`
	Env    []byte `json:"env,omitempty" doc:"NAME=VALUE with a zero byte behind each; not needed to validate"`
}

// Folder is a folder of this machine by its path. Device and inode identify it, since another
// process may see other file systems.
type Folder struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Submitted answers a submission.
type Submitted struct {
	ID       model.JobID   `json:"id"`
	Name     model.JobName `json:"name"`
	Seq      uint64        `json:"seq" doc:"Read at after_seq to see the effect"`
	Repeated bool          `json:"repeated,omitempty" doc:"The idempotency key was seen before"`
	Warnings []string      `json:"warnings,omitempty"`
}

// Verdict is what would happen to a job that is submitted now.
type Verdict string

// The verdicts.
const (
	VerdictStarts Verdict = "starts"
	VerdictWaits  Verdict = "waits"
	VerdictNever  Verdict = "never"
)

// Validated answers a dry run of a valid job. Mistakes are a problem instead.
type Validated struct {
	Job      *model.Job    `json:"job,omitempty" doc:"The job with all defaults written out"`
	Verdict  Verdict       `json:"verdict" enum:"starts,waits,never"`
	Message  string        `json:"message"`
	Reason   *model.Reason `json:"reason,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
	// Guaranteed and Standing are set for a job that starts or waits.
	Guaranteed bool   `json:"guaranteed,omitempty" doc:"It runs on cells that its virtual cluster is guaranteed; otherwise on what others leave"`
	Standing   string `json:"standing,omitempty" doc:"The same in words, with what that means"`
	// In it the job has the number that it would get.
	Explanation *Explanation `json:"explanation,omitempty" doc:"Where it would start and which jobs would be stopped first, or why it waits and until when"`
}

// Job is a job's status and, when it waits, the reason.
type Job struct {
	JobStatus
	Ref    string  `json:"ref" doc:"What its reader calls it: its name if it is the reader's own job, else USER~NAME"`
	Reason *Reason `json:"reason,omitempty" doc:"Of the first gang that waits"`
	// CheckpointDir is not in lists.
	CheckpointDir string `json:"checkpoint_dir,omitempty" doc:"Where its tasks save their work (COMB_CHECKPOINT_DIR), on the server's machine; not in lists"`
	// Upload is not in lists.
	Upload   *Upload `json:"upload,omitempty" doc:"The code that its tasks find in their working directory; not in lists"`
	Position int32   `json:"position,omitempty" doc:"In its VC's order, among the jobs that wait there for the same: for what the VC is guaranteed, or for what others leave; from 1"`
}

// JobList is one page of jobs, newest first.
type JobList struct {
	Jobs []Job  `json:"jobs"`
	Next string `json:"next,omitempty" doc:"Cursor of the next page; empty at the end"`
	Seq  uint64 `json:"seq" doc:"Last event that this answer saw"`
}

// JobQuery filters a list of jobs; empty fields do not filter.
type JobQuery struct {
	States []model.Phase
	VCs    []cell.VCName
	Users  []model.Subject
	Name   string // a part of the name
	Tag    string
	Limit  int
	Cursor string
	Sort   string // order other than newest first: see the route
}

// StopRequest asks to end a job.
type StopRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Shown to users"`
}

// Tagged answers a change of a job's tags.
type Tagged struct {
	Tags []string `json:"tags"`
}

// JobUsage is what the running tasks of a job used of their machines in the last minutes.
type JobUsage struct {
	Job   model.JobID `json:"job"`
	Ref   string      `json:"ref"`
	Tasks []TaskUsage `json:"tasks"`
}

// TaskUsage is what one task used.
type TaskUsage struct {
	Role    string        `json:"role"`
	Index   int32         `json:"index"`
	Node    cell.NodeName `json:"node,omitempty"`
	Attempt int32         `json:"attempt"`
	Limits  model.Limits  `json:"limits"`
	GPUs    int           `json:"gpus,omitempty"`
	Devices *DeviceUse    `json:"devices,omitempty" doc:"What its GPUs were seen to do last"`
	Samples []Usage       `json:"samples" doc:"One each 10 seconds, the oldest first"`
}

// Usage is what a task used in the seconds before a moment.
type Usage struct {
	At       model.Time `json:"at"`
	MilliCPU int64      `json:"milli_cpu"`
	MemoryMB int64      `json:"memory_mb" doc:"MiB; what processes share is counted with each"`
	Read     int64      `json:"read" doc:"Bytes a second, from disks"`
	Written  int64      `json:"written" doc:"Bytes a second, to disks"`
}

// RequeueRequest asks to let a job wait again.
type RequeueRequest struct {
	Hold   bool   `json:"hold,omitempty" doc:"It is held from then on"`
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Shown to users"`
}

// UpdateRequest changes a job; absent fields stay.
type UpdateRequest struct {
	Priority  *cell.Priority  `json:"priority,omitempty" minimum:"-1" maximum:"32767" doc:"Of a job that waits; -1 borrows only"`
	TimeLimit *model.Duration `json:"time_limit,omitempty" minimum:"0" maximum:"315360000000000" doc:"Microseconds of running, up to 10 years; 0 is none"`
}

// CordonRequest takes a node out of placement.
type CordonRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Shown to users"`
}

// Done answers a write that has no data but its event number.
type Done struct {
	Seq      uint64   `json:"seq"`
	Repeated bool     `json:"repeated,omitempty"`
	Effects  []string `json:"effects,omitempty" doc:"What the change did to jobs"`
	Warnings []string `json:"warnings,omitempty" doc:"What is accepted in a cluster file, but probably not meant"`
}

// Starts are when jobs are expected to start.
type Starts struct {
	AsOf   model.Time       `json:"as_of" doc:"When this was worked out"`
	Starts []model.Expected `json:"starts" doc:"Of those of the jobs that wait and of which something is known"`
}

// Explanation is the core's explanation, with the names of jobs.
type Explanation struct {
	model.Explanation
	Ref    string     `json:"ref" doc:"What its reader calls the job"`
	Status *JobStatus `json:"status,omitempty" doc:"Of a job that runs, is being stopped, or has ended"`
	Names  []NamedJob `json:"names,omitempty" doc:"The jobs that reasons name"`
	// Notices are not in Status of a job that waits.
	Notices []string   `json:"notices,omitempty" doc:"What went wrong with it before, such as why a start was refused"`
	Nodes   []NodeNote `json:"nodes,omitempty" doc:"What was said of the first nodes that reasons name and that are out of service"`
}

// NodeNote says why a node is out of service.
type NodeNote struct {
	Name     cell.NodeName `json:"name"`
	Cordoned bool          `json:"cordoned,omitempty" doc:"By a user; otherwise it is down or suspect"`
	By       model.Subject `json:"by,omitempty" doc:"That user"`
	Since    model.Time    `json:"since,omitempty"`
	Reason   string        `json:"reason"`
}

// NamedJob is the name of a job for its number in a reason.
type NamedJob struct {
	ID   model.JobID   `json:"id"`
	Name model.JobName `json:"name,omitempty" doc:"None of a job that its reader may not see"`
	User model.Subject `json:"user,omitempty"`
	Ref  string        `json:"ref" doc:"What its reader calls it: NAME or USER~NAME"`
	VC   cell.VCName   `json:"vc"`
}

// Event is one event of the stream.
type Event struct {
	Seq     uint64          `json:"seq"`
	Time    model.Time      `json:"time" doc:"Microseconds since 1970"`
	Kind    model.Kind      `json:"kind"`
	Version int             `json:"version"`
	Job     model.JobID     `json:"job,omitempty"`
	Data    json.RawMessage `json:"data"`
	Says    string          `json:"says,omitempty" doc:"The event as a sentence, in the pages of one job"`
}

// EventList is a job's history.
type EventList struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next,omitempty" doc:"Ask again with after set to it; 0 at the end"`
}

// StorageStatus is a storage of the cluster file, as jobs see it.
type StorageStatus struct {
	Name     string        `json:"name"`
	Variable string        `json:"variable" doc:"Of the environment, which says where a task finds it"`
	ReadOnly bool          `json:"read_only"`
	PerUser  bool          `json:"per_user" doc:"Each user has a folder of its own in it"`
	VCs      []cell.VCName `json:"vcs" doc:"Those that may use it; none is all"`
}

// StorageList lists storages.
type StorageList struct {
	Storages []StorageStatus `json:"storages"`
}

// VCList lists virtual clusters.
type VCList struct {
	VCs []VCStatus `json:"vcs"`
}

// NodeList lists nodes.
type NodeList struct {
	Nodes   []NodeStatus `json:"nodes"`
	Runtime string       `json:"runtime,omitempty" doc:"What runs tasks; administrators get the details"`
}

// Node is one node with what runs there.
type Node struct {
	NodeStatus
	Jobs   []NodeJob `json:"jobs" doc:"What runs there, or may live there"`
	Hidden int       `json:"hidden,omitempty" doc:"Attempts there of jobs that the reader may not see"`
}

// NodeJob is an attempt on a node.
type NodeJob struct {
	NamedJob
	Attempt model.AttemptID    `json:"attempt"`
	State   model.AttemptState `json:"state"`
	Leaves  int32              `json:"leaves" doc:"GPUs, or CPU slots, that it has there"`
}

// DrainRequest makes what runs on a node leave it.
type DrainRequest struct {
	Within model.Duration `json:"within,omitempty" minimum:"0" maximum:"31536000000000" doc:"Microseconds in which it may end by itself; 0 stops it at once, with its grace"`
	Reason string         `json:"reason,omitempty" maxLength:"1000" doc:"Shown to users"`
}

// DrainPlanned is what a drain would do to each job.
type DrainPlanned struct {
	model.DrainPlan
}

// DeadRequest declares a node dead.
type DeadRequest struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Shown to users"`
}

// CellList is the physical forest.
type CellList struct {
	Cells []CellStatus `json:"cells"`
	Names []NamedJob   `json:"names,omitempty" doc:"The jobs that cells name"`
}

// ClusterConfig is the present configuration with its tag.
type ClusterConfig struct {
	Config *model.Config `json:"config"`
	ETag   string        `json:"etag" doc:"Send it as If-Match to change what you read"`
	Until  model.Time    `json:"until,omitempty" doc:"When the server goes back by itself"`
	Back   int64         `json:"back,omitempty" doc:"The version to which it goes back then"`
}

// ConfigVersion is a cluster file that was applied.
type ConfigVersion struct {
	Version  int64      `json:"version"`
	Time     model.Time `json:"time"`
	Author   string     `json:"author"`
	Reason   string     `json:"reason,omitempty"`
	ETag     string     `json:"etag" doc:"Of the configuration that was made of it"`
	Restores int64      `json:"restores,omitempty" doc:"The version whose file it brings back"`
	Bytes    int        `json:"bytes" doc:"Of the file; 0: it was not made of one that is kept"`
	Present  bool       `json:"present,omitempty" doc:"It is in force"`
	Until    model.Time `json:"until,omitempty" doc:"When the server goes back by itself"`
	Back     int64      `json:"back,omitempty" doc:"The version to which it goes back then"`
}

// ConfigVersions is a page of the versions of the cluster file, the latest first.
type ConfigVersions struct {
	Versions []ConfigVersion `json:"versions"`
	Next     int64           `json:"next,omitempty" doc:"Ask again with before set to it; 0 at the end"`
}

// ConfigChange says what a new cluster file replaces, and what is noted about it.
type ConfigChange struct {
	IfMatch  string // the tag of the configuration that is replaced; "*" is any
	On       int64  // the version on which it was planned; 0 is any
	Reason   string // up to MaxReason bytes
	Restores int64  // the version whose file it restores; 0 is none
	Until    string // when the server goes back by itself: RFC 3339, or a duration; "" is never
}

// MaxReason bounds the reason of a change, in bytes.
const MaxReason = 1000

// ConfigChecked answers the validation of a cluster file.
type ConfigChecked struct {
	Config   *model.Config `json:"config"`
	Changed  bool          `json:"changed" doc:"It differs from the present configuration"`
	Effects  []string      `json:"effects,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
}

// ConfigPlanned is every effect that a cluster file would have.
type ConfigPlanned struct {
	model.ConfigPlan
	Version  int64      `json:"version,omitempty" doc:"Of the present cluster file: apply with it as on, and a change of someone else between is not lost"`
	ETag     string     `json:"etag" doc:"Of the present configuration: apply with it as If-Match, and what was planned is what happens, unless jobs came or went"`
	Until    model.Time `json:"until,omitempty" doc:"When the server would go back by itself"`
	Back     int64      `json:"back,omitempty" doc:"The version to which it would go back then"`
	Drops    bool       `json:"drops,omitempty" doc:"The end of the present configuration would be dropped"`
	Ends     []string   `json:"ends,omitempty" doc:"What becomes of such ends, in sentences"`
	Warnings []string   `json:"warnings,omitempty"`
}
