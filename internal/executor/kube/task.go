package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/executor/kube/spool"
	"github.com/combsched/comb/internal/jobspec"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/storage"
)

// task is one run of one task. What is wanted of it is set under Executor.mu; all else is of the worker that settles
// it, and the queue gives a name to one worker at a time.
type task struct {
	name  string
	dir   string
	at    sched.AttemptID
	start *sched.Start     // nil for a stray
	ts    *sched.TaskStart // likewise
	stray bool             // no engine knows it: nothing is told of it

	known bool // an engine before may have started it
	stop  bool
	grace sched.Duration
	again bool // it was asked for once more: what is known is told again

	read    bool // the record was read
	record  record
	refused *sched.TaskRefused // its pod is to go, and then this is told
	begun   bool               // its start was told
	over    bool               // its end was told
	unknown bool               // that nothing is known of it was told
	noticed bool               // why it waits was told
	ended   time.Time          // when its end was first seen
	log     *follower

	heard time.Time // when its pod told its progress last; under Executor.mu
}

// record is what is kept of a task beside the API server: what a tenant can write there decides nothing.
type record struct {
	UID  types.UID   `json:"uid,omitempty"` // "" in one that is there: its pod may have been made
	Exit *sched.Exit `json:"exit,omitempty"`
	// Secrets says that objects with its job's secrets may be there; they go with the pod.
	Secrets bool `json:"secrets,omitempty"`
	// Refused is told again, as an exit is.
	Refused *sched.TaskRefused `json:"refused,omitempty"`
}

const recordFile = "pod.json"

// load reads the record. begun is that there is one.
func (t *task) load() (begun bool, err error) {
	data, err := os.ReadFile(filepath.Join(t.dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &t.record)
	}
	return err == nil, err
}

// save writes the record; it is on the disk when this returns.
func (t *task) save() error {
	data, err := json.Marshal(&t.record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(t.dir, recordFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// wanted is what of a task is asked for now.
type wanted struct {
	stop, again, known bool
	grace              time.Duration
}

func (e *Executor) wantedOf(name string) (*task, wanted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[name]
	if t == nil {
		return nil, wanted{}
	}
	w := wanted{t.stop, t.again, t.known, time.Duration(t.grace) * time.Microsecond}
	t.again = false
	return t, w
}

// pod is what was last heard of a pod; nil is that there is none.
func (e *Executor) pod(name string) *corev1.Pod {
	obj, ok, err := e.pods.GetByKey(e.o.API.Namespace() + "/" + name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*corev1.Pod)
}

// settle brings a task's pod nearer to what is wanted of it, and tells what has come of it. It may be called at any
// time, and is called again after the time that it returns, and when the pod changes.
func (e *Executor) settle(name string) (time.Duration, error) {
	t, w := e.wantedOf(name)
	if t == nil {
		return 0, nil // a pod of an attempt that is over, or not taken up yet
	}
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	if !t.read {
		if _, err := t.load(); err != nil {
			return 0, err
		}
		t.read, t.over = true, t.record.Exit != nil || t.record.Refused != nil
		w.again = w.again || t.over
	}
	if w.again {
		e.repeat(t)
	}
	pod := e.pod(name)
	switch {
	case t.over:
		return e.clean(ctx, t, pod)
	case pod == nil:
		return e.missing(ctx, t, w)
	case t.record.UID == "" && !t.stray:
		return 0, e.claim(t, pod)
	case pod.UID != t.record.UID && !t.stray:
		return e.lost(t, "another pod has taken the place of its own")
	}
	return e.follow(ctx, t, w, pod)
}

// repeat tells what was told before.
func (e *Executor) repeat(t *task) {
	switch {
	case t.record.Refused != nil:
		e.tell(t, *t.record.Refused)
	case t.record.Exit != nil:
		e.tell(t, sched.TaskExited{Attempt: t.at, Task: t.ts.Task, Exit: *t.record.Exit})
	}
}

func (e *Executor) tell(t *task, f sched.Fact) {
	if !t.stray {
		e.o.Tell(f)
	}
	e.mu.Lock()
	e.taken(t)
	e.mu.Unlock()
}

// missing is of a task without a pod, as far as is heard.
func (e *Executor) missing(ctx context.Context, t *task, w wanted) (time.Duration, error) {
	if t.stray {
		e.drop(t)
		return 0, nil
	}
	begun, err := t.load()
	if err != nil {
		return 0, err
	}
	if begun || w.known {
		pod, err := e.o.API.Get(ctx, t.name) // what is watched may be behind
		switch {
		case err != nil:
			return 0, err
		case pod != nil && t.record.UID == "":
			return 0, e.claim(t, pod)
		case pod != nil && pod.UID == t.record.UID:
			return time.Second, nil // the watch will say so, too
		case t.record.UID != "":
			return e.lost(t, "its pod is gone, and its end was not seen")
		}
	}
	switch {
	case t.refused != nil:
		return 0, e.refuse(t, *t.refused)
	case w.stop:
		return 0, e.finish(t, sched.Exit{Cause: sched.NeverStarted})
	}
	return 0, e.create(ctx, t)
}

// create makes the pod. That it may exist is on the disk before, and its UID after.
func (e *Executor) create(ctx context.Context, t *task) error {
	node := e.node(string(t.ts.Place.Node))
	if node == nil {
		return e.refuse(t, sched.TaskRefused{Reason: "the Kubernetes cluster has no node " + string(t.ts.Place.Node)})
	}
	known, err := e.secretsOf(t)
	if err != nil {
		return err
	}
	storages, why := e.storagesOf(t.start.Job)
	if why != "" {
		return e.refuse(t, sched.TaskRefused{Reason: why})
	}
	pod, secrets, err := e.maker.Make(pods.Task{Attempt: t.at, Start: t.start, Task: t.ts, Resource: resourceOf(node), Secrets: known, Storages: storages, Work: e.o.Work, Line: e.o.Line})
	if cannot := (*pods.CannotError)(nil); errors.As(err, &cannot) {
		return e.refuse(t, sched.TaskRefused{Reason: cannot.Why, Job: true})
	}
	if err != nil {
		return err
	}
	t.record.Secrets = len(secrets) > 0
	if err := t.save(); err != nil {
		return err
	}
	for _, s := range secrets {
		if err := e.o.API.MakeSecret(ctx, s); err != nil {
			return fmt.Errorf("make the secret of pod %s: %w", t.name, err)
		}
	}
	made, err := e.o.API.Create(ctx, pod)
	switch {
	case err == nil:
		t.record.UID = made.UID
		return t.save()
	case api.Exists(err):
		if made, err = e.o.API.Get(ctx, t.name); err != nil || made == nil {
			return err
		}
		return e.claim(t, made)
	case api.Refuses(err):
		return e.refuse(t, sched.TaskRefused{Reason: "Kubernetes refuses its pod: " + api.Words(err)})
	}
	return err
}

// storagesOf are those that a job names, or why it cannot have one.
func (e *Executor) storagesOf(job *sched.Job) (list []storage.Storage, why string) {
	for _, name := range job.Storages {
		var s storage.Storage
		ok := false
		if e.o.Storage != nil {
			s, ok = e.o.Storage(job.VC, name)
		}
		if !ok || s.Claim == "" {
			return nil, fmt.Sprintf("VC %s has no storage %s any more: an administrator adds it to the cluster file again, or submit the job without it", job.VC, name)
		}
		list = append(list, s)
	}
	return list, ""
}

// claim takes a pod whose making was not noted, if it is ours.
func (e *Executor) claim(t *task, pod *corev1.Pod) error {
	if !e.maker.Sealed(pod) {
		return e.refuse(t, sched.TaskRefused{Reason: "a pod named " + t.name + " is there already, and Comb did not make it: delete it"})
	}
	t.record.UID = pod.UID
	if err := t.save(); err != nil {
		return err
	}
	e.queue.Add(t.name)
	return nil
}

// follow is of a task that has a pod.
func (e *Executor) follow(ctx context.Context, t *task, w wanted, pod *corev1.Pod) (time.Duration, error) {
	state := pods.Look(pod, w.stop)
	if state.Ran && !t.begun && t.refused == nil {
		t.begun = true
		if !t.stray {
			e.tell(t, sched.TaskStarted{Attempt: t.at, Task: t.ts.Task, Host: state.Host})
			t.log = e.followLog(t)
		}
	}
	if gone := e.goneFor(pod.Spec.NodeName); state.Phase != pods.Ended && gone > 0 {
		if gone < e.o.Limits.Gone {
			return e.o.Limits.Gone - gone, nil
		}
		state.Phase, state.Exit = pods.Ended, sched.Exit{Code: 137, Cause: sched.NodeLost, Message: "its node was taken out of the Kubernetes cluster"}
	}
	switch {
	case state.Phase == pods.Ended && t.refused != nil:
		return 0, e.refuse(t, *t.refused)
	case state.Phase == pods.Ended:
		if wait := e.logLeft(t); wait > 0 {
			return wait, nil
		}
		return 0, e.finish(t, state.Exit)
	case w.stop || t.refused != nil:
		if pod.DeletionTimestamp == nil {
			return 0, e.o.API.Delete(ctx, pod.Name, pod.UID, w.grace)
		}
		return 0, nil
	case state.Phase == pods.Waits:
		return e.wait(ctx, t, pod, state)
	}
	e.mu.Lock()
	e.taken(t)
	e.mu.Unlock()
	return 0, nil
}

// patient is how long a pod may wait until its user is told why.
const patient = 3 * time.Second

// wait bounds how long a pod may wait for what may never come.
func (e *Executor) wait(ctx context.Context, t *task, pod *corev1.Pod, s pods.State) (time.Duration, error) {
	e.mu.Lock()
	e.taken(t)
	e.mu.Unlock()
	limit := e.o.Limits.Binding
	if pod.Spec.NodeName != "" {
		limit = e.o.Limits.Image
	}
	left := limit - time.Since(s.Since)
	switch waited := time.Since(s.Since); {
	case s.Why == "":
		return 0, nil // it changes before anything can be said
	case left > 0 && waited < patient:
		return patient, nil
	case left > 0:
		if !t.stray && !t.noticed {
			t.noticed = true
			e.o.Tell(sched.Notice{Job: t.at.Job, Message: fmt.Sprintf("task %s of attempt %v waits on node %s: %s", jobspec.RoleOf(t.start.Job, t.ts.Task)+"-"+fmt.Sprint(t.ts.Index), t.at, t.ts.Place.Node, s.Why)})
		}
		return left + 100*time.Millisecond, nil
	}
	t.refused = &sched.TaskRefused{Reason: s.Why, Job: s.Job}
	return 0, e.o.API.Delete(ctx, pod.Name, pod.UID, time.Second)
}

func (e *Executor) secretsOf(t *task) (map[string]string, error) {
	if e.o.Secrets == nil {
		return nil, nil
	}
	known, err := e.o.Secrets(t.at.Job)
	if err != nil {
		return nil, fmt.Errorf("read the secrets of job %d: %w", t.at.Job, err)
	}
	return known, nil
}

// lastWords is the last line that a task printed, without the values of its job's secrets.
func (e *Executor) lastWords(t *task) string {
	known, err := e.secretsOf(t)
	if err != nil {
		return "" // what is secret in it is not known
	}
	line := spool.LastLine(t.dir)
	for _, value := range known {
		if value != "" {
			line = strings.ReplaceAll(line, value, "***")
		}
	}
	return line
}

// finish notes and tells the end of a task.
func (e *Executor) finish(t *task, x sched.Exit) error {
	if !t.stray {
		if x.Code != 0 && x.Cause == "" && x.Own && x.Message == "" {
			x.Message = e.lastWords(t)
		}
		t.record.Exit = &x
		if err := t.save(); err != nil {
			return err
		}
		e.tell(t, sched.TaskExited{Attempt: t.at, Task: t.ts.Task, Exit: x})
	}
	t.over = true
	e.queue.Add(t.name)
	return nil
}

// refuse notes and tells that a task never ran.
func (e *Executor) refuse(t *task, f sched.TaskRefused) error {
	f.Attempt, f.Task = t.at, t.ts.Task
	t.record.Refused = &f
	if err := t.save(); err != nil {
		return err
	}
	e.tell(t, f)
	t.over = true
	e.queue.Add(t.name)
	return nil
}

// lost tells, once, that nothing proves what has become of a task.
func (e *Executor) lost(t *task, why string) (time.Duration, error) {
	if !t.unknown {
		t.unknown = true
		e.tell(t, sched.TaskUnknown{Attempt: t.at, Task: t.ts.Task, Reason: why + "; look on its node, and say so with comb node declare-dead"})
	}
	return time.Minute, nil
}

// clean lets the pod of a task that is over go, and forgets the task when it has.
func (e *Executor) clean(ctx context.Context, t *task, pod *corev1.Pod) (time.Duration, error) {
	if pod == nil || !t.stray && pod.UID != t.record.UID {
		if t.record.Secrets {
			for _, name := range pods.SecretNames(t.name) {
				if err := e.o.API.DropSecret(ctx, name); err != nil {
					return 0, err
				}
			}
		}
		e.drop(t)
		return 0, nil
	}
	held := false
	for _, f := range pod.Finalizers {
		held = held || f == pods.Finalizer
	}
	if held {
		if err := e.o.API.Release(ctx, pod, pods.Finalizer); err != nil {
			return 0, err
		}
	}
	if pod.DeletionTimestamp == nil {
		return 0, e.o.API.Delete(ctx, pod.Name, pod.UID, 0)
	}
	return 0, nil
}

// drop forgets a task whose pod is gone.
func (e *Executor) drop(t *task) {
	if t.log != nil {
		t.log.stop()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken(t)
	delete(e.tasks, t.name)
	left := slices.DeleteFunc(e.attempts[t.at], func(name string) bool { return name == t.name })
	if e.attempts[t.at] = left; len(left) == 0 {
		delete(e.attempts, t.at)
	}
}
