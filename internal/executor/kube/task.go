package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// podTask is one run of one task. What is wanted of it is set under Executor.mu. All else belongs
// to the worker that settles it; the queue gives a key to one worker at a time.
type podTask struct {
	named
	dir   string
	at    model.AttemptID
	start *model.Start     // nil for a stray
	ts    *model.TaskStart // likewise
	stray bool             // no engine knows it: nothing is told of it

	uid      types.UID // of its pod, once it is known
	lost     bool      // it counts as ended already, with its node: nothing is told of it
	known    bool      // it may have been started before this server
	stop     bool
	grace    model.Duration
	repeated bool         // its start was repeated: what is known is told again
	turns    *podRotation // its rotation; nil for a stray alone. It is replaced, never changed

	read        bool // the record was read
	record      record
	refused     *model.TaskRefused // its pod is being ended, and then this is told
	startTold   bool               // its start was told
	endTold     bool               // its end was told
	unknownTold bool               // it was told that its state is unknown
	waitTold    bool               // why it waits was told
	waits       time.Time          // since when its pod waits, by the clock of this machine
	bound       bool               // it waits on its node, where kube-scheduler has bound it
	log         *logCopier
	sent        sentLog // it has a lock of its own
	checked     bool    // its claims were given what they ask for
	shared      sharedState
	// released is the version of its pod from which Comb's finalizer was removed.
	released string

	lastReport turnReport       // what its pod reported of its turns; under Executor.turning
	heard      time.Time        // when its pod last reported progress; under Executor.mu
	usage      []executor.Usage // its usage of the last minutes; under Executor.mu
}

// sharedState says that CPUs and memory were reserved for a task on shared leaves (done), or that
// they cannot be had now and this was logged (none).
type sharedState struct{ done, none bool }

// title is a task's name for its user. The task is no stray.
func (t *podTask) title() string {
	return jobspec.RoleOf(t.start.Job, t.ts.Task) + "-" + fmt.Sprint(t.ts.Index)
}

// wanted is what is wanted of a task now.
type wanted struct {
	stop, repeated, known bool
	lost                  bool // it counts as ended: the end of its pod matters only to its node
	grace                 time.Duration
}

func (e *Executor) wantedOf(key string) (*podTask, wanted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[key]
	if t == nil {
		return nil, wanted{}
	}
	w := wanted{t.stop, t.repeated, t.known, t.lost, time.Duration(t.grace) * time.Microsecond}
	t.repeated = false
	return t, w
}

// reconcile brings a task's pod nearer to what is wanted of it, and tells what became of it. It may
// be called at any time. It is called again when the pod changes, and after the time that it
// returns.
func (e *Executor) reconcile(key string) (time.Duration, error) {
	t, w := e.wantedOf(key)
	if t == nil {
		return 0, nil // a pod of an attempt that is over, or not taken up yet
	}
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	if !t.read {
		if err := e.spaces.load(t); err != nil {
			return 0, err
		}
		t.read, t.endTold, t.refused = true, t.record.Exit != nil || t.record.Refused != nil, t.record.Refusing
		w.repeated = w.repeated || t.endTold
		e.identify(t)
	}
	if w.repeated {
		e.repeat(t)
	}
	pod := e.spaces.pod(t.space, t.name)
	switch {
	case t.endTold:
		return e.clean(ctx, t, pod)
	case pod == nil:
		return e.missing(ctx, t, w)
	case t.record.UID == "" && !t.stray:
		return e.takeOver(ctx, t, w, pod)
	case pod.UID != t.record.UID && !t.stray:
		return e.tellUnknown(t, w, "another pod has taken the place of its own")
	}
	return e.follow(ctx, t, w, pod)
}

// identify lets other goroutines know which pod is a task's.
func (e *Executor) identify(t *podTask) {
	if t.stray {
		return
	}
	e.mu.Lock()
	t.uid = t.record.UID
	e.mu.Unlock()
}

// repeat tells what was told before.
func (e *Executor) repeat(t *podTask) {
	t.startTold, t.unknownTold = false, false
	switch {
	case t.stray:
	case t.record.Refused != nil:
		e.tell(t, *t.record.Refused)
	case t.record.Exit != nil:
		e.tell(t, model.TaskExited{Attempt: t.at, Task: t.ts.Task, Exit: *t.record.Exit})
	}
}

func (e *Executor) tell(t *podTask, f model.Fact) {
	e.mu.Lock()
	silent := t.stray || t.lost
	e.mu.Unlock()
	if !silent {
		e.o.Tell(f)
	}
	e.mu.Lock()
	e.stateKnown(t)
	e.mu.Unlock()
}

// missing handles a task whose pod is not seen.
func (e *Executor) missing(ctx context.Context, t *podTask, w wanted) (time.Duration, error) {
	if t.stray {
		e.drop(t)
		return 0, nil
	}
	begun, err := t.load()
	if err != nil {
		return 0, err
	}
	if t.space == "" {
		again, err := e.spaces.decideNamespace(ctx, t, w.known)
		switch {
		case err != nil:
			return 0, err
		case again == blindPause || again > 0 && !w.stop:
			return again, nil
		}
	}
	if (begun || w.known) && e.spaces.blind(t) {
		return blindPause, nil
	}
	if t.space != "" && (begun || w.known) {
		pod, err := t.in(e).Get(ctx, t.name) // the watched copy may be behind
		switch {
		case err != nil:
			return 0, err
		case pod != nil && t.record.UID == "":
			return e.takeOver(ctx, t, w, pod)
		case pod != nil && pod.UID == t.record.UID:
			return time.Second, nil // the watch will tell it, too
		case cmp.Or(t.record.UID, t.record.Made) != "":
			return e.tellUnknown(t, w, "its pod is gone, and its end was not seen")
		}
	}
	switch {
	case t.refused != nil:
		return 0, e.refuse(t, *t.refused)
	case w.stop:
		return 0, e.finish(t, model.Exit{Cause: model.NeverStarted})
	}
	return e.create(ctx, t, w)
}

// create makes the pod, and then its secrets and claims, which the pod owns and which are deleted
// with it. It is noted before that the pod may exist, and its UID when all is there. If this
// process ends in between, takeOver makes the rest.
func (e *Executor) create(ctx context.Context, t *podTask, w wanted) (time.Duration, error) {
	sp, err := e.spaces.open(t.space)
	switch {
	case err != nil:
		return 0, err
	case sp.refused() != "":
		return 0, e.refuseForNamespace(t, fmt.Sprintf("Comb cannot see the pods of namespace %s: %s", t.space, sp.refused()))
	case !sp.synced():
		return spacePause, nil
	}
	if err := e.spaces.serve(ctx, sp); err != nil {
		return 0, err
	}
	pod, own, refused, err := e.buildPod(ctx, t)
	switch {
	case err != nil:
		return 0, err
	case refused != nil:
		return 0, e.refuse(t, *refused)
	}
	if err := t.note(); err != nil {
		return 0, err
	}
	made, err := t.in(e).Create(ctx, pod)
	switch {
	case err == nil:
		if err := t.noteCreated(made); err != nil {
			return 0, err
		}
		return e.supply(ctx, t, made, own)
	case api.Exists(err):
		if made, err = t.in(e).Get(ctx, t.name); err != nil || made == nil {
			return 0, err
		}
		return e.takeOver(ctx, t, w, made)
	case api.NamespaceRefuses(err):
		return 0, e.refuseForNamespace(t, fmt.Sprintf("Kubernetes refuses its pod in namespace %s: %s", t.space, api.ErrorText(err)))
	case api.NeverAccepts(err):
		return 0, e.refuse(t, model.TaskRefused{Reason: "Kubernetes refuses its pod: " + api.ErrorText(err)})
	}
	return 0, err
}

// spacePause is how long to wait until looking again whether the pods of a namespace are known,
// blindPause whether they can be seen.
const (
	spacePause = 200 * time.Millisecond
	blindPause = 5 * time.Second
)

// claimPause is how long to wait before asking again for a claim that others have.
const claimPause = 300 * time.Millisecond

// owned is what is made with a pod, and deleted with it.
type owned struct {
	secrets []*corev1.Secret
	claims  []*api.Claim
}

// buildPod returns a task's pod with what it owns, or why there can be none.
func (e *Executor) buildPod(ctx context.Context, t *podTask) (pod *corev1.Pod, own owned, refused *model.TaskRefused, err error) {
	node := e.node(string(t.ts.Place.Node))
	if node == nil {
		return nil, own, &model.TaskRefused{Reason: "the Kubernetes cluster has no node " + string(t.ts.Place.Node)}, nil
	}
	known, err := e.secretsOf(t)
	if err != nil {
		return nil, own, nil, err
	}
	storages, why := e.storagesOf(t.start.Job)
	if why != "" {
		return nil, own, &model.TaskRefused{Reason: why}, nil
	}
	if own.claims, refused, err = (claims{e}).of(ctx, t); err != nil || refused != nil {
		return nil, own, refused, err
	}
	network, err := networkOf(e, t)
	if err != nil {
		return nil, own, nil, err
	}
	id, err := t.home.whose()
	if err != nil {
		return nil, own, &model.TaskRefused{Reason: err.Error(), Job: true}, nil
	}
	pod, own.secrets, err = e.maker.Make(pods.Task{UID: int64(id.UID), GID: int64(id.GID), Network: network, Offers: offered(node), Attempt: t.at, Start: t.start, Task: t.ts, Space: t.space, Resource: cmp.Or(t.ts.SKU.Resource, resourceOf(node)), Claims: namesOf(own.claims), Secrets: known, Storages: storages, Work: e.o.Work, DiskMB: e.o.DiskMB, MostMB: e.o.MostMB, ServerLink: e.o.ServerLink})
	if cannot := (*pods.CannotError)(nil); errors.As(err, &cannot) {
		return nil, own, &model.TaskRefused{Reason: cannot.Why, Job: true}, nil
	}
	return pod, own, nil, err
}

// supply makes what a pod owns, and notes that the pod is the task's. What must wait for others
// to go is tried again after the time that it returns.
func (e *Executor) supply(ctx context.Context, t *podTask, pod *corev1.Pod, own owned) (time.Duration, error) {
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	what, err := "secret", error(nil)
	for _, s := range own.secrets {
		if s.OwnerReferences = owner; err == nil {
			err = t.in(e).MakeSecret(ctx, s)
		}
	}
	for _, c := range own.claims {
		if c.OwnerReferences = owner; err == nil {
			what, err = "resource claim", claims{e}.make(ctx, t, c)
		}
	}
	refuse := func(why string) (time.Duration, error) {
		t.record.UID = pod.UID
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: why})
	}
	soon := (*api.NotYet)(nil)
	switch {
	case errors.As(err, &soon) && t.waits.IsZero():
		t.waits = time.Now()
		return claimPause, nil
	case errors.As(err, &soon) && time.Since(t.waits) < e.o.Limits.Binding:
		return claimPause, nil
	case errors.As(err, &soon):
		return refuse(soon.Why)
	case api.NeverAccepts(err):
		t.record.NamespaceFault = api.NamespaceRefuses(err)
		return refuse(fmt.Sprintf("Kubernetes refuses the %s of its pod: %s", what, api.ErrorText(err)))
	case err != nil:
		return 0, fmt.Errorf("make the %s of pod %s: %w", what, t.name, err)
	}
	t.record.UID, t.waits = pod.UID, time.Time{}
	e.identify(t)
	if err := t.note(); err != nil {
		return 0, err
	}
	e.queue.Add(t.key)
	return 0, nil
}

// giveUp ends a pod that will not run, and notes what to tell when it is gone.
func (e *Executor) giveUp(ctx context.Context, t *podTask, pod *corev1.Pod, f model.TaskRefused) error {
	t.refused, t.record.Refusing = &f, &f
	if err := t.note(); err != nil {
		return err
	}
	return t.in(e).Delete(ctx, pod.Name, pod.UID, time.Second)
}

// takeOver takes over a pod whose making was not noted, if it is Comb's. A pod that is to end gets
// nothing more.
func (e *Executor) takeOver(ctx context.Context, t *podTask, w wanted, pod *corev1.Pod) (time.Duration, error) {
	switch {
	case t.record.Made == "" && !e.maker.Sealed(pod):
		return 0, e.refuseForNamespace(t, fmt.Sprintf("a pod named %s is in namespace %s already, and Comb did not make it: delete it", t.name, t.space))
	case t.record.Made != "" && t.record.Made != pod.UID:
		return e.tellUnknown(t, w, "another pod has taken the place of its own")
	}
	if err := t.noteCreated(pod); err != nil {
		return 0, err
	}
	if w.stop {
		return e.supply(ctx, t, pod, owned{})
	}
	_, own, refused, err := e.buildPod(ctx, t)
	switch {
	case err != nil:
		return 0, err
	case refused != nil: // it could be made earlier: what is missing now does not end it
		own = owned{}
	}
	return e.supply(ctx, t, pod, own)
}

// follow handles a task that has a pod.
func (e *Executor) follow(ctx context.Context, t *podTask, w wanted, pod *corev1.Pod) (time.Duration, error) {
	state := pods.Look(pod, w.stop)
	if state.Phase != pods.Ended && !w.stop && t.refused == nil {
		if err := (claims{e}).check(ctx, t, pod); err != nil || t.refused != nil {
			return 0, err
		}
	}
	if state.Ran && !t.startTold && t.refused == nil {
		t.startTold = true
		e.began(t, pod, state)
	}
	if gone := e.goneFor(pod.Spec.NodeName); state.Phase != pods.Ended && gone > 0 {
		if gone < e.o.Limits.Gone {
			return e.o.Limits.Gone - gone, nil
		}
		state.Phase, state.Exit = pods.Ended, model.Exit{Code: 137, Cause: model.NodeLost, Message: "its node was taken out of the Kubernetes cluster"}
	}
	switch {
	case state.Phase == pods.Ended && state.Refused != "" && !t.stray:
		return 0, e.refuse(t, model.TaskRefused{Reason: state.Refused})
	case state.Phase == pods.Ended && t.refused != nil:
		return 0, e.refuse(t, *t.refused)
	case state.Phase == pods.Ended:
		if wait := e.logLeft(t, pod); wait > 0 {
			return wait, nil
		}
		return 0, e.finish(t, state.Exit)
	case w.stop || t.refused != nil:
		if pod.DeletionTimestamp == nil {
			return 0, t.in(e).Delete(ctx, pod.Name, pod.UID, w.grace)
		}
		return 0, nil
	case state.Phase == pods.Waits:
		return e.wait(ctx, t, pod, state)
	}
	t.waits = time.Time{}
	e.mu.Lock()
	e.stateKnown(t)
	e.mu.Unlock()
	return sharedRequests{e}.take(ctx, t, pod)
}

// began tells the start of a task, and copies its log from then on, unless its pod sends it. A task
// that has ended meanwhile is told to have ended at once.
func (e *Executor) began(t *podTask, pod *corev1.Pod, s pods.State) {
	if t.stray {
		return
	}
	f := model.TaskStarted{Attempt: t.at, Task: t.ts.Task, Host: s.Host}
	e.mu.Lock()
	silent := t.lost
	e.mu.Unlock()
	switch {
	case silent:
	case s.Phase == pods.Ended:
		e.o.Tell(f)
	default:
		e.tell(t, f)
	}
	switch {
	case t.log != nil:
	case pods.HasOwnToken(pod) || (podLogs{e}).simulated(pod):
		if err := t.sent.begin(t.dir); err != nil {
			e.o.Log.Warn(logNotKept, "pod", t.name, "error", err)
		}
	default:
		t.log = e.followLog(t, e.copyLog)
	}
}

// patient is how long a pod may wait before its user is told why.
const patient = 3 * time.Second

// wait bounds how long a pod may wait for what may never come.
func (e *Executor) wait(ctx context.Context, t *podTask, pod *corev1.Pod, s pods.State) (time.Duration, error) {
	e.mu.Lock()
	e.stateKnown(t)
	e.mu.Unlock()
	limit, bound := e.o.Limits.Binding, pod.Spec.NodeName != ""
	if bound {
		limit = e.o.Limits.Image
	}
	if t.waits.IsZero() || bound != t.bound {
		t.waits, t.bound = time.Now(), bound
	}
	waited := time.Since(t.waits)
	left := limit - waited
	switch {
	case left > 0 && s.Why == "":
		return left + 100*time.Millisecond, nil // most often the wait ends before that
	case s.Why == "":
		s.Why = "Kubernetes has not started its pod after " + limit.String() + ", and gives no reason"
	case left > 0 && waited < patient:
		return patient, nil
	case left > 0:
		if !t.stray && !t.waitTold {
			t.waitTold = true
			e.o.Tell(model.Notice{Job: t.at.Job, Message: fmt.Sprintf("task %s of attempt %v waits on node %s: %s", t.title(), t.at, t.ts.Place.Node, s.Why)})
		}
		return left + 100*time.Millisecond, nil
	}
	t.record.NamespaceFault = !bound && strings.Contains(s.Why, "persistentvolumeclaim") // not any node's fault
	return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: s.Why, Job: s.JobFault, Fetch: s.Fetch})
}

func (e *Executor) secretsOf(t *podTask) (map[string]string, error) {
	if e.o.Secrets == nil {
		return nil, nil
	}
	known, err := e.o.Secrets(t.at.Job)
	if err != nil {
		return nil, fmt.Errorf("read the secrets of job %d: %w", t.at.Job, err)
	}
	return known, nil
}

// finish notes and tells the end of a task.
func (e *Executor) finish(t *podTask, x model.Exit) error {
	if !t.stray {
		e.turning.Lock()
		late := t.lastReport.why
		e.turning.Unlock()
		if late != "" && x.Cause == "" {
			x.Cause, x.Message, x.Own = model.SuspendTimeout, late, false
		}
		if x.Code != 0 && x.Cause == "" && x.Own && x.Message == "" {
			x.Message = e.lastWords(t)
		}
		t.record.Exit = &x
		if err := t.save(); err != nil {
			return err
		}
		e.tell(t, model.TaskExited{Attempt: t.at, Task: t.ts.Task, Exit: x})
	}
	t.endTold = true
	e.queue.Add(t.key)
	return nil
}

// refuse notes and tells that a task never ran.
func (e *Executor) refuse(t *podTask, f model.TaskRefused) error {
	if t.stray {
		return e.finish(t, model.Exit{})
	}
	if t.record.NamespaceFault {
		return e.refuseForNamespace(t, f.Reason)
	}
	f.Attempt, f.Task = t.at, t.ts.Task
	t.record.Refused = &f
	if err := t.save(); err != nil {
		return err
	}
	e.tell(t, f)
	t.endTold = true
	e.queue.Add(t.key)
	return nil
}

// tellUnknown tells, once, that it cannot be proven what became of a task. A task that already
// counts as ended is dropped: its user has said that nothing of it lives.
func (e *Executor) tellUnknown(t *podTask, w wanted, why string) (time.Duration, error) {
	if w.lost {
		e.drop(t)
		return 0, nil
	}
	if !t.unknownTold {
		t.unknownTold = true
		e.tell(t, model.TaskUnknown{Attempt: t.at, Task: t.ts.Task, Reason: why + "; look on its node, and say so with comb node declare-dead"})
	}
	return time.Minute, nil
}

// clean lets the pod of a task that is over be deleted, and then drops the task.
func (e *Executor) clean(ctx context.Context, t *podTask, pod *corev1.Pod) (time.Duration, error) {
	if pod == nil || !t.stray && pod.UID != t.record.UID {
		e.drop(t)
		return 0, nil
	}
	e.unfence(t) // it has ended, whatever else keeps its pod
	held := false
	for _, f := range pod.Finalizers {
		held = held || f == pods.Finalizer
	}
	if held && t.released != pod.ResourceVersion { // the seen pod may be older than the removal
		if err := t.in(e).Release(ctx, pod, pods.Finalizer); err != nil {
			return 0, err
		}
		t.released = pod.ResourceVersion
	}
	if pod.DeletionTimestamp == nil {
		return 0, t.in(e).Delete(ctx, pod.Name, pod.UID, 0)
	}
	return 0, nil
}

// drop forgets a task whose pod is gone.
func (e *Executor) drop(t *podTask) {
	if t.log != nil {
		t.log.stop()
	}
	t.sent.close()
	defer e.unfence(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stateKnown(t)
	delete(e.tasks, t.key)
	e.tokens.forget(t.key)
	if t.ts != nil {
		delete(e.seenOf(string(t.ts.Place.Node)).tasks, t.key)
	}
	if c := e.crews[t.at.Job]; c != nil {
		if delete(c.tasks, t.key); len(c.tasks) == 0 {
			delete(e.crews, t.at.Job)
		}
	}
	left := slices.DeleteFunc(e.attempts[t.at], func(key string) bool { return key == t.key })
	if e.attempts[t.at] = left; len(left) == 0 {
		delete(e.attempts, t.at)
	}
}

// unfence lets nodes up that waited for a pod to be gone.
func (e *Executor) unfence(t *podTask) {
	e.mu.Lock()
	var free []string
	if t.lost || t.stray {
		for node, s := range e.seen {
			if delete(s.lost, t.key); len(s.lost) == 0 && s.why != "" {
				free = append(free, node)
			}
		}
	}
	e.mu.Unlock()
	for _, node := range free {
		health{e}.changed(node)
	}
}
