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
)

// podTask is one run of one task. What is wanted of it is set under Executor.mu. All else belongs
// to the worker that settles it; the queue gives a key to one worker at a time.
type podTask struct {
	named
	dir   string // of its log; it is made with the first byte of that
	at    model.AttemptID
	start *model.Start     // nil for a stray
	ts    *model.TaskStart // likewise
	stray bool             // no engine knows it: nothing is told of it

	uid         types.UID // of its pod, once it is known
	madeVersion string    // the version of its pod as its making was answered
	lost        bool      // it counts as ended already, with its node: nothing is told of it
	known       bool      // it may have been started before this server
	stopOrder
	repeated bool         // its start was repeated: what is known is told again
	turns    *podRotation // its rotation; nil for a stray alone. It is replaced, never changed

	noted
	refused *model.TaskRefused // its pod is being ended, and then this is told
	told
	waiting
	said    podSaid
	log     *logCopier
	sent    sentLog // it has a lock of its own
	checked bool    // its claims were given what they ask for
	shared  sharedState
	fresh   freshPod
	endRequests
	doubts

	lastReport turnReport       // what its pod reported of its turns; under Executor.turning
	heard      time.Time        // when its pod last reported progress; under Executor.mu
	ran        bool             // it was seen to run; under Executor.mu
	usage      []executor.Usage // its usage of the last minutes; under Executor.mu
}

// stopOrder is whether and why the task is to end.
type stopOrder struct {
	stop  bool
	grace model.Duration
	cause model.EndCause
	by    *model.AttemptID
}

// freshPod is a task's pod as the API server answered its making, until the watch tells of it.
type freshPod struct {
	pod   *corev1.Pod // nil: the watch has told of it
	at    time.Time   // when it was made
	bound bool        // Comb has bound it
}

// waiting is what is unusual in how long a task waits.
type waiting struct {
	waitTold bool      // why it waits was told
	waits    time.Time // since when its pod waits, by the clock of this machine
	bound    bool      // it waits on its node, where its pod is bound
	stuck    time.Time // since when the container with Comb's program waits in vain
}

// wanted is what is wanted of a task now.
type wanted struct {
	stop, repeated, known bool
	lost                  bool // it counts as ended: the end of its pod matters only to its node
	grace                 time.Duration
	cause                 model.EndCause
	by                    *model.AttemptID
}

func (e *Executor) wantedOf(key string) (*podTask, wanted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[key]
	if t == nil {
		return nil, wanted{}
	}
	w := wanted{t.stop, t.repeated, t.known, t.lost, time.Duration(t.grace) * time.Microsecond, t.cause, t.by}
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
		if t.begun { // by an earlier server, which notes it before it asks for a pod
			t.since = time.Unix(max(1, t.record.Since), 0)
		}
		e.identify(t)
		if pod := e.spaces.pod(t.space, t.name); t.endTold && pod != nil && pod.UID == t.record.UID && !proven(pod) {
			health{e}.fenceUnproven(t, pod)
		}
	}
	if w.repeated {
		e.repeat(t)
	}
	again, err := e.settle(ctx, t, w)
	if t.fresh.pod != nil && err == nil && (again <= 0 || again > watchTime) {
		again = watchTime // the watch may never tell of it
	}
	return again, err
}

// settle is reconcile for a task whose record is read.
func (e *Executor) settle(ctx context.Context, t *podTask, w wanted) (time.Duration, error) {
	pod := t.newest(e.spaces.pod(t.space, t.name))
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

// newest is the task's pod: as the watch tells it, else as its making was answered.
func (t *podTask) newest(watched *corev1.Pod) *corev1.Pod {
	if watched != nil || t.fresh.pod == nil || time.Since(t.fresh.at) > watchTime {
		t.fresh.pod = nil
		return watched
	}
	return t.fresh.pod
}

// identify lets other goroutines know which pod is a task's.
func (e *Executor) identify(t *podTask) {
	if t.stray {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t.uid = t.record.UID
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
		return health{e}.dropVanished(t), nil
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
	if (t.begun || w.known) && e.spaces.blind(t) {
		return blindPause, nil
	}
	if t.space != "" && (t.begun || w.known) {
		pod, err := t.in(e).Get(ctx, t.name) // the watched copy may be behind
		switch {
		case err != nil:
			return 0, err
		case pod != nil && t.record.UID == "":
			return e.takeOver(ctx, t, w, pod)
		case pod != nil && pod.UID == t.record.UID:
			return time.Second, nil // the watch will tell it, too
		case cmp.Or(t.record.UID, t.record.Made, glimpsedOf(e, t)) != "":
			return e.tellUnknown(t, w, "its pod is gone, and its end was not seen")
		}
	}
	if left := e.untilKnownUnmade(t, w); left > 0 {
		if w.known {
			e.spaces.unseen(t)
		}
		return min(left, watchTime), nil // the watch may tell of it, or the API server when asked again
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
	if !t.home.begun(t) {
		return 0, nil // the first of its gang queues it
	}
	pod, own, refused, err := e.buildPod(ctx, t)
	switch {
	case err != nil:
		return 0, err
	case refused != nil:
		return 0, e.refuse(t, *refused)
	}
	if err := sp.pulls.add(ctx, sp.api, e.o.PullSecrets, pod, e.o.Log); err != nil {
		return 0, err
	}
	if err := t.records.begin(t.space, t.start); err != nil {
		return 0, err
	}
	t.begun = true
	node := pods.NodeOf(pod)
	pods.ChooseBinder(pod, e.node(node), e.others.ask(node) || e.spaces.releases(node), own.nothing())
	t.asks()
	made, err := t.in(e).Create(ctx, pod)
	if api.Unanswered(err) && pods.RunsByItself(pod) {
		t.unanswered = time.Now()
	}
	switch {
	case err == nil:
		e.mu.Lock()
		t.madeVersion = made.ResourceVersion
		if pods.RunsByItself(made) { // it may run, also where it cannot be noted
			t.glimpsed = made.UID
		}
		e.mu.Unlock()
		e.programs.made(made)
		if !own.nothing() {
			if err := t.noteCreated(made); err != nil {
				return 0, err
			}
		}
		if again, err := e.supply(ctx, t, made, own); err != nil || t.fresh.pod != made {
			return again, err
		}
		return e.bind(ctx, t, made) // else the making of all others would come before it
	case api.Exists(err):
		if made, err = t.in(e).Get(ctx, t.name); err != nil || made == nil {
			return 0, err
		}
		return e.takeOver(ctx, t, w, made)
	case api.NamespaceRefuses(err):
		next := namespaceNext(t.space, t.space == e.o.API.Namespace(), err)
		return 0, e.refuseForNamespace(t, fmt.Sprintf("Kubernetes refuses its pod in namespace %s: %s%s", t.space,
			api.ErrorText(err), next))
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
	service *corev1.Service     // of its gang; nil where the task does not lead one
	configs []*corev1.ConfigMap // likewise
}

// nothing reports that a pod owns nothing: then it is all there once it is made.
func (o *owned) nothing() bool {
	return len(o.secrets)+len(o.claims)+len(o.configs) == 0 && o.service == nil
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
	gang := e.ownedByGang(t)
	own.service, own.configs = gang.service, gang.configs
	pod, own.secrets, err = e.maker.Make(pods.Task{UID: int64(id.UID), GID: int64(id.GID), Network: network, Offers: pods.Offered(node), Attempt: t.at, Start: t.start, Task: t.ts, Space: t.space, Resource: cmp.Or(t.ts.SKU.Resource, resourceOf(node)), Shared: t.home.shared(e, t), Claims: namesOf(own.claims), Secrets: known, Storages: storages, Work: e.o.Work, DiskMB: e.o.DiskMB, MostMB: e.o.MostMB, ServerLink: e.o.ServerLink})
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
	for _, c := range own.configs {
		if c.OwnerReferences = owner; err == nil {
			what, err = "ConfigMap", t.in(e).MakeConfigMap(ctx, c)
		}
	}
	if own.service != nil && err == nil {
		own.service.OwnerReferences = owner
		what, err = "service", e.spaces.serve(ctx, t, own.service)
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
		e.events.on(pod, &t.said, eventWaits, func() string { return soon.Why })
		return claimPause, nil
	case errors.As(err, &soon) && time.Since(t.waits) < e.o.Limits.Binding:
		return claimPause, nil
	case errors.As(err, &soon):
		return refuse(soon.Why)
	case api.NeverAccepts(err):
		t.record.NamespaceFault = api.NamespaceRefuses(err)
		return refuse(fmt.Sprintf("Kubernetes refuses the %s of its pod: %s%s", what, api.ErrorText(err),
			namespaceNext(t.space, t.space == e.o.API.Namespace(), err)))
	case err != nil:
		return 0, fmt.Errorf("make the %s of pod %s: %w", what, t.name, err)
	}
	t.record.UID, t.waits = pod.UID, time.Time{}
	if err := t.note(); err != nil {
		t.record.UID = "" // it was not written: it is taken over again
		return 0, err
	}
	t.home.podMade(t)
	t.fresh.pod, t.fresh.at = pod, time.Now()
	e.identify(t)
	e.letFollow(t)
	e.queue.Add(t.key)
	return 0, nil
}

// bind binds a pod that waits for Comb to bind it. One whose maker was killed before that is bound
// by the next server. Where the API server says that the pod was changed, the watch tells how: it
// is gone, ends or is bound, or is to be bound again soon. What will never be bound is given up.
func (e *Executor) bind(ctx context.Context, t *podTask, pod *corev1.Pod) (time.Duration, error) {
	if t.fresh.bound || t.stray || !pods.WaitsForComb(pod) {
		return 0, nil
	}
	name := string(t.ts.Place.Node)
	if n := e.node(name); n != nil && pods.KeptFrom(n) {
		why := "node " + name + " takes no pods any more: it was cordoned or tainted before its pod was bound"
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: why})
	}
	err := t.in(e).Bind(ctx, pod, name)
	switch {
	case err == nil:
		t.fresh.bound = true
	case api.Changed(err):
		return bindPause, nil
	case api.NeverAccepts(err):
		t.record.NamespaceFault = true
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: "Kubernetes refuses the binding of its pod: " + api.ErrorText(err)})
	default:
		err = fmt.Errorf("bind pod %s to node %s: %w", t.name, name, err)
		return 0, err
	}
	return 0, nil
}

// bindPause is how long to wait before a pod that was changed is bound again.
const bindPause = time.Second

// giveUp ends a pod that will not run, and notes what to tell when it is gone.
func (e *Executor) giveUp(ctx context.Context, t *podTask, pod *corev1.Pod, f model.TaskRefused) error {
	t.refused, t.record.Refusing = &f, &f
	if err := t.note(); err != nil {
		return err
	}
	e.events.on(pod, &t.said, eventRefused, func() string { return f.Reason })
	_, err := t.askToEnd(ctx, t.in(e), pod, time.Second)
	return err
}

// takeOver takes over a pod whose making was not noted, if it is Comb's. A pod that is to end gets
// nothing more.
func (e *Executor) takeOver(ctx context.Context, t *podTask, w wanted, pod *corev1.Pod) (time.Duration, error) {
	sealed := t.record.Made != "" || e.maker.Sealed(pod)
	switch {
	case !sealed && !t.since.IsZero() && !pod.CreationTimestamp.Time.Before(t.since):
		t.record.UID, t.record.NamespaceFault = pod.UID, true
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: fmt.Sprintf("pod %s in namespace %s may be its own, "+
			"and what proves that Comb made it was taken off: it is ended", t.name, t.space)})
	case !sealed:
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
		own = e.ownedByGang(t)
	}
	return e.supply(ctx, t, pod, own)
}

// follow handles a task that has a pod.
func (e *Executor) follow(ctx context.Context, t *podTask, w wanted, pod *corev1.Pod) (time.Duration, error) {
	state := pods.Look(pod, w.stop)
	if on := pod.Spec.NodeName; !t.stray && t.refused == nil && on != "" && on != string(t.ts.Place.Node) {
		t.record.NamespaceFault = true // the node that Comb chose has not seen it
		why := fmt.Sprintf("its pod was bound to node %s, and not by Comb, which chose %s", on, t.ts.Place.Node)
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: why})
	}
	if state.Phase != pods.Ended && !w.stop && t.refused == nil {
		if err := (claims{e}).check(ctx, t, pod); err != nil || t.refused != nil {
			return 0, err
		}
	}
	if state.Ran && !t.startTold && t.refused == nil {
		t.startTold = true
		e.programs.began(pod)
		e.began(t, pod, state)
	}
	if gone := e.goneFor(pod.Spec.NodeName); state.Phase != pods.Ended && gone > 0 {
		if gone < e.o.Limits.Gone {
			return e.o.Limits.Gone - gone, nil
		}
		// What is watched may be behind: then the node is back, and may run the pod.
		if there, err := e.o.API.HasNode(ctx, pod.Spec.NodeName); err != nil || there {
			return nodePause, err
		}
		health{e}.fenceUnproven(t, pod)
		state.Phase, state.Exit = pods.Ended, model.Exit{Code: 137, Cause: model.NodeLost, Message: "its node was taken out of the Kubernetes cluster"}
	}
	switch {
	case state.Phase == pods.Ended && t.refused != nil && t.record.NamespaceFault:
		return 0, e.refuse(t, *t.refused)
	case state.Phase == pods.Ended && state.Refused != "" && state.Program && !t.stray:
		return 0, refuseForProgram(e, t, pod, state)
	case state.Phase == pods.Ended && state.Refused != "" && state.Added && !t.stray:
		return 0, refuseForAdded(ctx, e, t, pod, state)
	case state.Phase == pods.Ended && state.Refused != "" && !t.stray:
		e.events.on(pod, &t.said, eventRefused, func() string { return state.Refused })
		return 0, e.refuse(t, model.TaskRefused{Reason: state.Refused, Job: state.JobFault, Fetch: state.Fetch})
	case state.Phase == pods.Ended && t.refused != nil:
		return 0, e.refuse(t, *t.refused)
	case state.Phase == pods.Ended:
		if wait := (podLogs{e}).logLeft(t, pod); wait > 0 {
			return wait, nil
		}
		return 0, e.finish(t, state.Exit)
	case w.stop || t.refused != nil:
		if pod.DeletionTimestamp == nil {
			sayEnds(e, t, pod, w)
			return t.askToEnd(ctx, t.in(e), pod, w.grace)
		}
		return t.shorten(ctx, t.in(e), pod, w.grace)
	case state.Phase == pods.Waits:
		if again, err := e.bind(ctx, t, pod); err != nil || t.refused != nil {
			return again, err
		} else if again > 0 {
			left, err := e.wait(ctx, t, pod, state)
			return min(left, again), err
		}
		return e.wait(ctx, t, pod, state)
	}
	t.waits = time.Time{}
	e.mu.Lock()
	e.stateKnown(t)
	e.mu.Unlock()
	return sharedRequests{e}.take(ctx, t, pod)
}

// nodePause is how long the watch of nodes is given to tell of a node that is there.
const nodePause = time.Second

// sayEnds lets an event say why a pod is being ended, where that is not the ordinary course.
func sayEnds(e *Executor, t *podTask, pod *corev1.Pod, w wanted) {
	why := func() string { return "no task of Comb is known that this pod belongs to" }
	switch {
	case t.refused != nil: // an event says so already
		return
	case t.stray:
	case w.lost:
		why = func() string { return "its task counts as lost, with its node" }
	case e.o.WhyEnded == nil:
		return
	default:
		of := Ending{t.at, t.ts.Place.Node, w.cause, w.by}
		why = func() string { return e.o.WhyEnded(of) }
	}
	e.events.on(pod, &t.said, eventEnds, why)
}

// refuseForProgram tells that a task never ran, since the container with Comb's program did not do
// its work.
func refuseForProgram(e *Executor, t *podTask, pod *corev1.Pod, s pods.State) error {
	e.events.on(pod, &t.said, eventRefused, func() string { return s.Refused })
	if e.programs.failedFor(pod, s.Refused) {
		return e.refuse(t, model.TaskRefused{Reason: s.Refused})
	}
	return e.refuseForNamespace(t, s.Refused+
		"; no node is known where it starts, so an administrator has to see to it")
}

// began tells the start of a task, and copies its log from then on, unless its pod sends it. A task
// that has ended meanwhile is told to have ended at once.
func (e *Executor) began(t *podTask, pod *corev1.Pod, s pods.State) {
	if t.stray {
		return
	}
	f := model.TaskStarted{Attempt: t.at, Task: t.ts.Task, Host: s.Host}
	e.mu.Lock()
	t.ran = true
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
	case pods.HasOwnToken(pod) || (podLogs{e}).simulated(pod): // it sends its log, or has none
	default:
		t.log = podLogs{e}.followLog(t, podLogs{e}.copyLog)
	}
}

// patient is how long a pod may wait before its user is told why.
const patient = 3 * time.Second

// wait bounds how long a pod may wait for what may never come.
func (e *Executor) wait(ctx context.Context, t *podTask, pod *corev1.Pod, s pods.State) (time.Duration, error) {
	e.mu.Lock()
	e.stateKnown(t)
	e.mu.Unlock()
	if !e.server.away().IsZero() { // nothing is heard of it: it may run
		t.waits, t.stuck = time.Time{}, time.Time{}
		return patient, nil
	}
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
	case !s.Program:
		t.stuck = time.Time{}
	case t.stuck.IsZero():
		t.stuck = time.Now()
		fallthrough
	default: // another node may have the image, or no node has it: there is nothing to wait for long
		left = min(left, e.o.Limits.Binding-time.Since(t.stuck))
	}
	blame := !s.Added
	switch {
	case s.Program && !e.programs.current(pod): // the server has another image now
		blame, left = false, 0
	case s.Program && waited >= patient:
		blame = e.programs.failedFor(pod, s.Why)
	}
	switch {
	case left > 0 && s.Why == "":
		return left + 100*time.Millisecond, nil // most often the wait ends before that
	case s.Why == "":
		s.Why = s.Unexplained(limit)
	case left > 0 && waited < patient:
		return patient, nil
	case left > 0:
		if !t.stray && !t.waitTold {
			t.waitTold = true
			message := fmt.Sprintf("task %s of attempt %v waits on node %s: %s", t.title(), t.at,
				t.ts.Place.Node, s.Why)
			if s.Program || s.Added { // it names the node itself
				message = fmt.Sprintf("task %s of attempt %v waits: %s", t.title(), t.at, s.Why)
			}
			e.o.Tell(model.Notice{Job: t.at.Job, Message: message})
			e.events.on(pod, &t.said, eventWaits, func() string { return s.Why })
		}
		return left + 100*time.Millisecond, nil
	}
	lacks := !bound && strings.Contains(s.Why, "persistentvolumeclaim")
	t.record.NamespaceFault = !blame || lacks // it is not any node's fault
	return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: s.Why, Job: s.JobFault, Fetch: s.Fetch})
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
			x.Message = podLogs{e}.lastWords(t)
		}
		t.record.Exit = &x
		if err := t.save(); err != nil {
			return err
		}
		e.tell(t, model.TaskExited{Attempt: t.at, Task: t.ts.Task, Exit: x})
	}
	t.endTold = true
	e.letFollow(t)
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
	e.letFollow(t)
	e.queue.Add(t.key)
	return nil
}

// clean lets the pod of a task that is over be deleted, and then drops the task.
func (e *Executor) clean(ctx context.Context, t *podTask, pod *corev1.Pod) (time.Duration, error) {
	if pod == nil && t.released.IsZero() && (health{e}).isFenced(t) { // else it has said that it ended
		return health{e}.dropVanished(t), nil
	}
	if pod == nil || !t.stray && pod.UID != t.record.UID {
		e.drop(t)
		return 0, nil
	}
	switch {
	case proven(pod):
		e.unfence(t) // whatever else keeps its pod
	case pod.DeletionTimestamp == nil:
		return t.askToEnd(ctx, t.in(e), pod, time.Second)
	default: // Kubernetes says that it has ended, or the kubelet of its node, should that come back
		return t.shorten(ctx, t.in(e), pod, time.Second)
	}
	if e.first(t) {
		return 0, nil // the last of the others queues it
	}
	again, err := t.release(ctx, t.in(e), pod)
	if err != nil || pod.DeletionTimestamp != nil {
		return again, err
	}
	return t.askToEnd(ctx, t.in(e), pod, 0)
}

// drop forgets a task whose pod is gone.
func (e *Executor) drop(t *podTask) {
	if t.log != nil {
		t.log.stop()
	}
	t.sent.close()
	e.letFollow(t)
	defer e.unfence(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stateKnown(t)
	delete(e.tasks, t.key)
	e.tokens.forget(t.key)
	if t.ts != nil {
		delete(e.seenOf(string(t.ts.Place.Node)).tasks, t.key)
	} else {
		for _, seen := range e.seen { // it is at one of them
			delete(seen.strays, t.key)
		}
	}
	if c := e.crews[t.at.Job]; c != nil {
		if delete(c.tasks, t.key); len(c.tasks) == 0 {
			delete(e.crews, t.at.Job)
		}
	}
	left := slices.DeleteFunc(e.attempts[t.at], func(key string) bool { return key == t.key })
	if e.attempts[t.at] = left; len(left) == 0 {
		delete(e.attempts, t.at)
	} else if len(left) == 1 {
		e.queue.Add(left[0]) // the first is removed last
	}
}
