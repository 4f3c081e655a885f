// Package workloads makes jobs of the pods that others make on Kubernetes, and lets these pods run
// where Comb has cells for them. It makes no pod. A pod of others that asks for GPUs waits at its
// scheduling gate (Gate), which admission gives it. All pods of one object, such as a Job, are one
// job of Comb: a gang. It is submitted when they are there, placed and preempted as any other. To
// start it means to open the gates of its pods, each for its node. To end it means to suspend the
// object that makes them, or to delete a pod that nothing makes.
//
// It must not know how pods of Comb's own jobs are made; see package kube for these.
package workloads

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// What stands on objects of others. Admission lets only Comb write what begins with comb.dev/,
// except for the label pods.VCLabel.
const (
	// Gate keeps a pod from its node until Comb opens it.
	Gate = "comb.dev/place"
	// CreatorNote is the annotation that says which user made an object.
	CreatorNote = "comb.dev/creator"
	// SuspendedNote is the annotation that says that Comb suspended an object, and no user.
	SuspendedNote = "comb.dev/suspended"
	// SpaceLabel is on namespaces in which admission gates pods.
	SpaceLabel = "comb.dev/workloads"
)

// Options are the parts of an Executor.
type Options struct {
	API *api.Client
	// Own runs Comb's own jobs.
	Own executor.Executor
	// Cluster is this Comb's name, as it stands in the label pods.ClusterLabel.
	Cluster string
	Tell    func(model.Fact) // takes facts; it must not block for long
	// Give gives a command and waits for what came of it.
	Give func(context.Context, model.Command) engine.Reply
	// Read reads the present state. It reports false while there is none.
	Read func(func(*core.State)) bool
	// WhyEnded says in words why an attempt is being ended.
	WhyEnded func(model.Action) string
	// LookAt has it told anew whether a node can run tasks; see LeftOn. "" is all nodes.
	LookAt func(node string)
	// Resource is how a device plugin calls the devices of a SKU; "" where none does.
	Resource func(cell.SKU) string
	Log      *slog.Logger
}

// Executor runs workloads of others as jobs, and passes all other jobs on.
type Executor struct {
	executor.Executor
	o       Options
	queue   workqueue.TypedRateLimitingInterface[types.UID]
	nodes   workqueue.TypedInterface[string] // that are to be looked at
	began   time.Time
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	spaces   map[string]*space // the namespaces that are watched
	watches  bool              // it is known which these are
	all      map[types.UID]*workload
	attempts map[model.AttemptID]*workload
	adopted  bool                 // the jobs of before are known
	swept    bool                 // from now on a pod of an attempt that is not live is ended
	events   map[string]lastEvent // by the UID of an object
}

var (
	_ executor.Executor      = (*Executor)(nil)
	_ executor.HasConditions = (*Executor)(nil)
)

// workers is how many workloads are looked at at a time. lookEvery is how often it is asked what
// became of the jobs.
const (
	workers   = 16
	lookEvery = time.Second
	// knownWithin is how long nothing is told of nodes, after a start, since the pods of some
	// namespace are not known yet.
	knownWithin = time.Minute
)

// New returns an Executor over another one. It watches nothing until Watch says what.
func New(o Options) *Executor {
	e := &Executor{Executor: o.Own, o: o, spaces: map[string]*space{}, all: map[types.UID]*workload{},
		attempts: map[model.AttemptID]*workload{}, events: map[string]lastEvent{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 15*time.Second))}
	e.nodes, e.began = workqueue.NewTyped[string](), time.Now()
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.goes(e.lookAtNodes)
	for range workers {
		e.goes(e.work)
	}
	e.goes(e.follow)
	return e
}

func (e *Executor) goes(f func()) {
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		f()
	}()
}

// Close implements executor.Executor.
func (e *Executor) Close() {
	e.stop()
	e.queue.ShutDown()
	e.nodes.ShutDown()
	e.running.Wait()
	e.Executor.Close()
}

// Conditions implements executor.HasConditions.
func (e *Executor) Conditions() []executor.Condition {
	var list []executor.Condition
	if own, ok := e.Executor.(executor.HasConditions); ok {
		list = own.Conditions()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range sortedKeys(e.spaces) {
		for _, resource := range sortedKeys(e.spaces[name].refused) {
			list = append(list, executor.Condition{Admin: true, Text: fmt.Sprintf(
				"the workloads of namespace %s cannot be seen: %s; "+
					"kubectl apply -n %s -f deploy/kubernetes/workloads.yaml gives Comb the rights",
				name, e.spaces[name].refused[resource], name)})
		}
	}
	return list
}

// space is a namespace whose workloads are watched.
type space struct {
	name    string
	api     api.Workloads
	pods    cache.Indexer
	owners  []cache.Indexer // by the index of kinds
	synced  func() bool
	stop    context.CancelFunc
	refused map[string]string // why the API server does not show what is there, by resource
}

// Watch has the workloads of these namespaces watched from now on, and those of no other.
func (e *Executor) Watch(names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.watches {
		e.watches = true
		e.nodes.Add("")
	}
	for name, sp := range e.spaces {
		if !slices.Contains(names, name) && !e.hasJobs(name) {
			sp.stop()
			delete(e.spaces, name)
		}
	}
	for _, name := range names {
		if e.spaces[name] == nil {
			e.spaces[name] = e.watch(name)
		}
	}
}

// hasJobs reports whether jobs of workloads of a namespace have not ended. e.mu is held.
func (e *Executor) hasJobs(name string) bool {
	for _, w := range e.all { // in any order
		if w.of.Namespace == name && w.job != 0 {
			return true
		}
	}
	return false
}

// watch begins to watch a namespace.
func (e *Executor) watch(name string) *space {
	ctx, stop := context.WithCancel(e.ctx)
	sp := &space{name: name, refused: map[string]string{}, api: api.Workloads{Client: e.o.API.In(name)}, stop: stop}
	asked := func(resource string) func(error) {
		return func(err error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if delete(sp.refused, resource); err != nil && api.NeverAccepts(err) {
				sp.refused[resource] = api.ErrorText(err)
			}
		}
	}
	var runs []cache.Controller
	for _, k := range kinds {
		changed := func(u *unstructured.Unstructured) { e.queue.Add(u.GetUID()) }
		store, run := sp.api.WatchKind(k.ObjectKind, changed, asked(k.Resource))
		sp.owners, runs = append(sp.owners, store), append(runs, run)
	}
	store, run := sp.api.WatchWorkloads(func(p *corev1.Pod) {
		e.queue.Add(ownerUID(p))
		if e.opened(p) && p.Spec.NodeName != "" {
			e.nodes.Add(p.Spec.NodeName) // not from here: a look asks what this watch has seen
		}
		if id, ok := attemptOf(p); ok {
			e.mu.Lock()
			if w := e.attempts[id]; w != nil {
				e.queue.Add(types.UID(w.of.UID)) // also where the pod names another owner now
			}
			e.mu.Unlock()
		}
	}, asked("pods"))
	sp.pods, runs = store, append(runs, run)
	sp.synced = func() bool {
		return !slices.ContainsFunc(runs, func(c cache.Controller) bool { return !c.HasSynced() })
	}
	for _, run := range runs {
		e.goes(func() { run.RunWithContext(ctx) })
	}
	e.goes(func() {
		if cache.WaitForCacheSync(ctx.Done(), sp.synced) {
			e.nodes.Add("") // what is left on nodes is known now
		}
	})
	return sp
}

// opened reports whether Comb opened a pod's gate.
func (e *Executor) opened(p *corev1.Pod) bool {
	return p.Labels[pods.ClusterLabel] == e.o.Cluster && p.Labels[pods.OpenedLabel] != "" && !gated(p)
}

// LeftOn names a pod that is still on a node though the attempt is over for which its gate was
// opened; "" is none. known is false until the pods of all namespaces are known, but for such as
// Comb may not see.
func (e *Executor) LeftOn(node string) (pod string, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range sortedKeys(e.spaces) {
		sp := e.spaces[name]
		if !sp.synced() {
			if len(sp.refused) == 0 && time.Since(e.began) < knownWithin {
				return "", false
			}
			continue
		}
		on, _ := sp.pods.ByIndex(api.ByNode, node)
		for _, obj := range on {
			if p := obj.(*corev1.Pod); e.opened(p) && !ended(p) && e.isLeft(p) {
				return name + "/" + p.Name, true
			}
		}
	}
	return "", e.watches
}

// CameUp has it told again what runs on a node: while the node was down its tasks were unknown.
func (e *Executor) CameUp(node string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.attempts { // in any order
		for i := range w.at.slots {
			if sl := &w.at.slots[i]; sl.node == node && sl.told {
				sl.told = false
				e.queue.Add(types.UID(w.of.UID))
			}
		}
	}
}

// isLeft reports whether a pod with an open gate is of no attempt that lives. e.mu is held.
func (e *Executor) isLeft(p *corev1.Pod) bool {
	id, ok := attemptOf(p)
	w := e.attempts[id]
	if !ok || w == nil || w.at == nil || w.at.id != id {
		return true
	}
	sl := w.at.filledBy(p)
	return sl == nil || sl.lost || p.Spec.NodeName != "" && p.Spec.NodeName != sl.node // others bound it elsewhere
}

// attemptOf is the attempt for which a pod's gate was opened.
func attemptOf(p *corev1.Pod) (id model.AttemptID, ok bool) {
	n, err := fmt.Sscanf(p.Labels[pods.OpenedLabel], "%d.%d.%d", &id.Job, &id.Gang, &id.N)
	return id, n == 3 && err == nil
}

// ownerUID is that of what makes a pod; of the pod itself where nothing does.
func ownerUID(p *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return owner.UID
	}
	return p.UID
}

// lookAtNodes has it told which nodes can run tasks; "" stands for all.
func (e *Executor) lookAtNodes() {
	for {
		node, closed := e.nodes.Get()
		if closed {
			return
		}
		e.o.LookAt(node)
		e.nodes.Done(node)
	}
}

func (e *Executor) work() {
	for {
		uid, closed := e.queue.Get()
		if closed {
			return
		}
		again, err := e.look(uid)
		switch {
		case err != nil && e.ctx.Err() == nil:
			e.o.Log.Warn("a request about a workload failed; it is tried again", "uid", uid,
				"error", api.ErrorText(err))
			e.queue.AddRateLimited(uid)
		case again > 0:
			e.queue.Forget(uid)
			e.queue.AddAfter(uid, again)
		default:
			e.queue.Forget(uid)
		}
		e.queue.Done(uid)
	}
}

// Do implements engine.Executor.
func (e *Executor) Do(a model.Action) {
	e.mu.Lock()
	w := e.attempts[a.Attempt]
	if w == nil && (a.Start == nil || a.Start.Job.Foreign == nil) {
		e.mu.Unlock()
		e.Executor.Do(a)
		return
	}
	defer e.mu.Unlock()
	if w == nil {
		w = e.workloadOf(*a.Start.Job.Foreign)
		if w.at != nil {
			delete(e.attempts, w.at.id)
		}
		w.job, w.at = a.Start.ID, newAttempt(a)
		e.attempts[a.Attempt] = w
	}
	switch {
	case w.at == nil || w.at.id != a.Attempt || a.Start != nil:
	case a.Lost != nil:
		for _, task := range a.Lost {
			sl := w.at.slot(task)
			sl.lost = true
			e.nodes.Add(sl.node)
		}
	case a.Rotation == nil:
		w.at.stop, w.at.ending = true, a
	}
	e.queue.Add(types.UID(w.of.UID))
}

// EndStrays implements executor.Executor.
func (e *Executor) EndStrays(live []model.AttemptID) []string {
	e.mu.Lock()
	e.swept = true
	for _, sp := range e.spaces {
		for _, obj := range sp.pods.List() { // in any order
			e.queue.Add(ownerUID(obj.(*corev1.Pod)))
		}
	}
	e.mu.Unlock()
	return e.Executor.EndStrays(live)
}
