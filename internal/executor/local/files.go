package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
)

// The files of one task's directory, <jobs>/<job>/<gang>.<n>/<task>/. Each is
// written once, or replaced as a whole by rename, so that a reader never sees a
// half of one.
const (
	specFile     = "spec.json"     // server: what to run, without secrets
	claimFile    = "started"       // link(2)ed once: the owner of the one start
	identityFile = "identity.json" // supervisor: which process the task is
	stopFile     = "stop.json"     // server: end it
	rotationFile = "rotation.json" // server: the rotation of its turns
	ackFile      = "suspended"     // task: it has released memory and may be frozen
	outcomeFile  = "outcome.json"  // supervisor: how it ended; final
	reserveFile  = "outcome.tmp."  // and a pid; becomes outcomeFile: reserved disk blocks
	progressFile = "progress"      // task: JSON lines
	toldFile     = "progress.told" // server: up to where progress was told
	workDir      = "work"          // the task's own directory
	noteFile     = "supervisor.log"
)

// The two streams of a task.
const (
	Stdout = executor.Stdout
	Stderr = executor.Stderr
)

// spec is what a supervisor needs and files may hold.
type spec struct {
	Cluster   string          `json:"cluster"`
	Attempt   model.AttemptID `json:"attempt"`
	Task      int32           `json:"task"`
	Boot      string          `json:"boot"`
	Shell     string          `json:"shell"`
	Dir       string          `json:"dir"` // working directory
	Env       []string        `json:"env"` // besides the surroundings
	Host      string          `json:"host"`
	Ports     []int32         `json:"ports,omitempty"`
	Locks     []deviceLock    `json:"locks,omitempty"`
	Parents   []cgroup.Parent `json:"parents,omitempty"`
	Limits    cgroup.Limits   `json:"limits"`
	Each      cell.TaskLimits `json:"each,omitzero"` // of each process
	Logs      task.LogCaps    `json:"logs"`
	Leftover  model.Duration  `json:"leftover"` // time for descendants that outlive the main process
	Suspend   *contract       `json:"suspend,omitempty"`
	Grace     model.Duration  `json:"grace,omitempty"` // for a checkpoint when it cannot be suspended
	Code      *task.Unpacking `json:"code,omitempty"`  // code for its working directory; nil: none
	Container *containerSpec  `json:"boxed,omitempty"` // nil: it runs as a process
	// As is the user that it runs as; nil: the image's, or the server's.
	As     *task.Account `json:"as,omitempty"`
	Groups []uint32      `json:"groups,omitempty"` // extra groups of the machine
}

// private is what a supervisor needs and no file may hold: the script has its secrets filled in,
// and the surroundings may be the caller's. It comes through a pipe.
type private struct {
	script       []byte
	surroundings []string // NAME=VALUE, for names that the spec's Env does not set
}

// files is the folder for a task's progress, and its acknowledgement of a suspension. It is the
// task's own folder, unless the task runs as another user.
func (s *spec) files(dir string) string {
	if s.Container != nil || s.As != nil {
		return filepath.Join(dir, sharedDir)
	}
	return dir
}

// marker is in the environment of every process of the task.
func (s *spec) marker() string { return markerOf(s.Cluster, s.Attempt, s.Task) }

func markerOf(cluster string, a model.AttemptID, task int32) string {
	return fmt.Sprintf("%s/%s/%d", cluster, a, task)
}

// groupName is the name of the task's group below each parent.
func (s *spec) groupName() string { return fmt.Sprintf("%s-%d", s.Attempt, s.Task) }

// groupDirs are the directories of the task's groups, made or not.
func (s *spec) groupDirs() []string { return cgroup.Dirs(s.Parents, s.groupName()) }

// outOfMemory counts the kernel's kills for the memory limit. A process without groups has no
// limit.
func (s *spec) outOfMemory() int64 {
	if s.Container == nil && len(s.Parents) == 0 {
		return 0
	}
	return cgroup.OutOfMemory(s.Parents, s.groupName())
}

// tooMany says that a task ended because its limit of processes refused one.
func tooMany(limit int64) string {
	return fmt.Sprintf("it may have %d processes and threads, and started more", limit)
}

// claim says what owns the start: a supervisor, or a server that made sure that no supervisor ever
// will.
type claim struct {
	Boot       string     `json:"boot"`
	Supervisor process.ID `json:"supervisor"` // PID 0: the server, before anything ran
}

// pidOrphans in a claim stands for a server that ends processes without a claim. Like a dead
// supervisor's claim it says that processes may be left.
const pidOrphans = -1

// identity names the task's main process.
type identity struct {
	Main process.ID `json:"main"`
	Host string     `json:"host,omitempty"` // its address, where that was not known before
	// Unenforced are limits that could not be set, in words for the user.
	Unenforced []string `json:"unenforced,omitempty"`
}

// stopOrder asks a supervisor to end its task.
type stopOrder struct {
	Grace model.Duration `json:"grace"`
}

// outcome is the end: a refusal or an exit.
type outcome struct {
	Refused string      `json:"refused,omitempty"`
	Job     bool        `json:"job,omitempty"`   // the refusal is the job's own fault
	Fetch   bool        `json:"fetch,omitempty"` // the refusal is that its image could not be fetched
	Exit    *model.Exit `json:"exit,omitempty"`
	// Forks counts the forks refused by its own limit before its main process ended.
	Forks int64 `json:"forks,omitempty"`
	// Looks is how often all processes of the machine, or of its container, were listed to end
	// it.
	Looks int64 `json:"looks,omitempty"`

	disk bool // the refusal is a full disk of the server's: it is tried again, and not recorded
}

// place is a jobs folder: it says where its parts are.
type place string

func (p place) job(id model.JobID) string {
	return filepath.Join(string(p), fmt.Sprint(int64(id)))
}

// checkpoints is where the tasks of a job save their work, for all of its attempts.
func (p place) checkpoints(id model.JobID) string { return filepath.Join(p.job(id), "checkpoint") }

func (p place) attempt(a model.AttemptID) string {
	return filepath.Join(p.job(a.Job), fmt.Sprintf("%d.%d", a.Gang, a.N))
}

func (p place) task(a model.AttemptID, task int32) string {
	return filepath.Join(p.attempt(a), fmt.Sprint(task))
}

// writeClaim claims the one start of a task. It returns false when it was claimed before. link(2)
// makes the claim appear at once with its content.
func writeClaim(dir string, c claim) (bool, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	tmp := filepath.Join(dir, fmt.Sprintf("%s.%d", claimFile, os.Getpid()))
	if err := safefile.WriteNew(tmp, data); err != nil {
		return false, err
	}
	defer os.Remove(tmp)
	err = os.Link(tmp, filepath.Join(dir, claimFile))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// reserveOutcome reserves the disk blocks that the outcome needs, while there are some.
func reserveOutcome(dir string) error {
	err := safefile.WriteNew(reservePath(dir), make([]byte, 4096))
	if err != nil {
		_ = os.Remove(reservePath(dir)) // the next try may be another process's
	}
	return err
}

// reservePath is unique to this process: a late supervisor must not write into the outcome of
// another process.
func reservePath(dir string) string {
	return filepath.Join(dir, reserveFile+fmt.Sprint(os.Getpid()))
}

// writeOutcome makes the end durable. The exit of a task is told once and must outlive a power
// cut, so this is the one file that waits for the disk.
func writeOutcome(dir, name string, o outcome) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	tmp := reservePath(dir)
	f, err := openReserve(tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := safefile.Replace(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return safefile.SyncDir(dir)
}

// openReserve opens the file with the reserved blocks, or makes it.
func openReserve(path string) (*os.File, error) {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() {
		return safefile.CreateNew(path)
	}
	return os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}
