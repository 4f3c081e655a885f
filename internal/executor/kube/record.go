package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core/model"
)

// record is what is kept of a task outside the API server, so that nothing depends on what a
// tenant can write there.
type record struct {
	UID  types.UID   `json:"uid,omitempty"`  // "" in an existing record: its pod may have been made
	Made types.UID   `json:"made,omitempty"` // the pod's UID, before the pod has what it needs
	Exit *model.Exit `json:"exit,omitempty"`
	// Refused is told again after a restart, as an exit is. Refusing is told once the pod is
	// gone.
	Refused  *model.TaskRefused `json:"refused,omitempty"`
	Refusing *model.TaskRefused `json:"refusing,omitempty"`
	// Namespace is the pod's; "" is the server's own. NamespaceFault says that the refusal is for
	// the sake of its namespace, or of the image of Comb, and not for its node's.
	Namespace      string `json:"namespace,omitempty"`
	NamespaceFault bool   `json:"space,omitempty"`
	// Devices are the devices that its claims were given, each as POOL/DEVICE.
	Devices []string `json:"devices,omitempty"`
	// Node is the node that the task was given, as the first line of the attempt says it for all of
	// its tasks (Nodes, by their numbers); "" where a version before this one wrote that line.
	Node  string           `json:"node,omitempty"`
	Nodes map[int32]string `json:"nodes,omitempty"`
	// Since is from when on a pod of the attempt may have been made, in seconds since 1970, as its
	// first line says it for all of its tasks; 0 where an earlier version wrote that line.
	Since int64 `json:"since,omitempty"`
}

// ran reports whether a task whose pod is gone has run, as far as its record says.
func (r *record) ran() bool {
	if r.Exit != nil {
		return r.Exit.Cause != model.NeverStarted
	}
	return r.Refused == nil && r.UID != ""
}

// gangRecords are the records of the tasks of one attempt, in one file. Each line of it is the
// number of a task, a blank and its record. The last whole line of a task counts. The first line
// has anyTask in place of a number, and says that pods of the attempt may have been made.
type gangRecords struct {
	dir string // of the attempt; it is made with the first line

	mu sync.Mutex
	// none says that there was no folder when this process looked: only what it writes is there.
	none bool
	// before is what was in the file when this process looked, by the first word of a line.
	before  map[string]record
	begun   bool // the first line was written by this process
	written int  // so many lines were written by it

	syncing sync.Mutex // held while the file is synced; before mu
	synced  int        // so many of these lines are on the disk
}

const (
	recordsFile = "pods"
	anyTask     = "*"
	// taskRecordFile is where versions before this one kept the record of a task, in its folder.
	taskRecordFile = "pod.json"
)

// recordsOf are those of the tasks of an attempt. Those of its strays may be written besides: each
// line is appended at once.
func recordsOf(e *Executor, at model.AttemptID) *gangRecords {
	return &gangRecords{dir: filepath.Join(e.jobDir(at.Job), strconv.Itoa(int(at.Gang))+"."+strconv.Itoa(int(at.N)))}
}

// recordsRead are the records of the attempts that one look at all pods meets, so that the file of
// each is read once for it.
type recordsRead map[model.AttemptID]*gangRecords

func (all recordsRead) of(e *Executor, at model.AttemptID) *gangRecords {
	if all[at] == nil {
		all[at] = recordsOf(e, at)
	}
	return all[at]
}

// taskDir is the folder of a task's log.
func (g *gangRecords) taskDir(n int32) string { return filepath.Join(g.dir, strconv.Itoa(int(n))) }

// load reads the record of a task as it was when this process first looked. begun says that its pod
// may have been made.
func (g *gangRecords) load(n int32) (r record, begun bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.read(); err != nil || g.none {
		return r, false, err
	}
	all, led := g.before[anyTask]
	if r, begun = g.before[strconv.Itoa(int(n))]; begun {
		r.Since = all.Since
		return r, true, nil
	}
	if r, begun, err = loadTaskRecord(g.taskDir(n)); err != nil || begun {
		return r, begun, err
	}
	if !led || all.Nodes == nil {
		return all, led, nil
	}
	r = all
	r.Node, begun = r.Nodes[n]
	r.Nodes = nil
	return r, begun, nil
}

// read reads the file, once for all tasks. g.mu is held.
func (g *gangRecords) read() error {
	if g.none || g.before != nil {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(g.dir, recordsFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(g.dir); errors.Is(err, fs.ErrNotExist) {
			g.none = true
			return nil
		}
		err = nil
	}
	if err != nil {
		return err
	}
	g.before = map[string]record{}
	for line := range bytes.Lines(data) {
		who, text, _ := bytes.Cut(line, []byte{' '})
		r := record{}
		if len(text) == 0 || json.Unmarshal(text, &r) != nil {
			continue // it is torn: by a crash, or a full disk
		}
		if first, led := g.before[anyTask]; led && string(who) == anyTask {
			r.Since = first.Since // that of the first server counts
		}
		g.before[string(who)] = r
	}
	return nil
}

// loadTaskRecord reads what a version before this one kept of a task, in the task's folder.
func loadTaskRecord(dir string) (r record, found bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, taskRecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	for err == nil && len(data) > 0 {
		data = bytes.TrimSuffix(data, []byte("\n"))
		from := bytes.LastIndexByte(data, '\n') + 1
		r = record{}
		if json.Unmarshal(data[from:], &r) == nil { // else it is torn
			return r, true, nil
		}
		data = data[:from]
	}
	return record{}, false, err
}

// any returns the record of some task.
func (g *gangRecords) any() (r record, found bool) {
	data, err := os.ReadFile(filepath.Join(g.dir, recordsFile))
	if err == nil {
		for line := range bytes.Lines(data) {
			_, text, _ := bytes.Cut(line, []byte{' '})
			if r = (record{}); json.Unmarshal(text, &r) == nil {
				return r, true
			}
		}
	}
	list, err := os.ReadDir(g.dir)
	if err != nil {
		return record{}, false
	}
	for _, d := range list {
		if !d.IsDir() {
			continue
		}
		if r, found, err = loadTaskRecord(filepath.Join(g.dir, d.Name())); found && err == nil {
			return r, true
		}
	}
	return record{}, false
}

// begin notes, once for all of them, that pods of the attempt may be made now, in a namespace and
// on which nodes.
func (g *gangRecords) begin(space string, start *model.Start) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun {
		return nil
	}
	nodes := make(map[int32]string, len(start.Tasks))
	for i := range start.Tasks {
		nodes[start.Tasks[i].Task] = string(start.Tasks[i].Place.Node)
	}
	since := time.Now().Add(-clockSkew).Unix()
	f, err := g.add(anyTask, &record{Namespace: space, Nodes: nodes, Since: since})
	if err == nil {
		err = f.Close()
	}
	g.begun = err == nil
	return err
}

// note adds the record of a task. A crash of the machine may lose it unless it is kept: then it is
// on the disk when this returns.
func (g *gangRecords) note(n int32, r *record, kept bool) error {
	g.mu.Lock()
	f, err := g.add(strconv.Itoa(int(n)), r)
	g.written++
	line := g.written
	g.mu.Unlock()
	if err != nil {
		return err
	}
	if kept {
		err = g.sync(f, line)
	}
	return errors.Join(err, f.Close())
}

// sync puts a line on the disk that was written to an open file. One call does that for all that
// wait for it: tasks of a gang often end together. The file was made long before most often; with a
// new one, file systems that keep a journal write its name and its folders as well.
func (g *gangRecords) sync(f *os.File, line int) error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	if g.synced >= line {
		return nil
	}
	g.mu.Lock()
	written := g.written
	g.mu.Unlock()
	if err := f.Sync(); err != nil {
		return err
	}
	g.synced = written
	return nil
}

// add appends a line, which begins by ending what a torn write left, and returns the open file.
// g.mu is held.
func (g *gangRecords) add(who string, r *record) (*os.File, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(g.dir, recordsFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolder(g.dir); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString("\n" + who + " " + string(data) + "\n"); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeFolder makes the folder of an attempt. Most often that of its job is missing as well, so it
// is made without a look, which would cost more.
func makeFolder(path string) error {
	_ = os.Mkdir(filepath.Dir(path), 0o700) // the next one fails where it is missing
	if os.Mkdir(path, 0o700) == nil {
		return nil
	}
	return os.MkdirAll(path, 0o700)
}

// noted is what is kept of a task on the disk.
type noted struct {
	records *gangRecords // of its attempt
	read    bool         // the record was read
	begun   bool         // its pod may have been made
	record  record
}

// load reads the record of a task. begun says that its pod may have been made.
func (t *podTask) load() (begun bool, err error) {
	r, begun, err := t.records.load(t.number())
	if err == nil && begun {
		t.record, t.begun = r, true
	}
	return begun, err
}

// note adds the record of a task. A crash of the machine may lose it: then the API server and the
// seal tell the same.
func (t *podTask) note() error { return t.records.note(t.number(), &t.record, false) }

// save adds the record of a task; it is on the disk when this returns.
func (t *podTask) save() error { return t.records.note(t.number(), &t.record, true) }

// noteCreated notes which pod is a task's, before the pod gets what it needs to start. If that pod
// is gone later, a user has removed it with its finalizers, and it may still run: no other is made
// in its place.
func (t *podTask) noteCreated(pod *corev1.Pod) error {
	if t.record.Made != "" {
		return nil
	}
	t.record.Made = pod.UID
	err := t.note()
	if err != nil {
		t.record.Made = "" // it was not written
	}
	return err
}

// told is what the engine was told of a task.
type told struct {
	startTold   bool // its start
	endTold     bool // its end
	unknownTold bool // that its state is unknown
}
