// Package kube runs tasks as pods of a Kubernetes cluster: Comb decides where, Kubernetes runs
// them. It is the only package, with those below it, that knows Kubernetes. It decides nothing
// itself, and deletes no pod that it was not told to end.
package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Options are the parts of an Executor.
type Options struct {
	API     *api.Client
	Dir     string                                       // of records and logs: a folder for each job
	KeyFile string                                       // of the key that seals pods; made when missing
	Cluster string                                       // this Comb's name among all
	Tell    func(model.Fact)                             // takes facts; it must not block for long
	Secrets func(model.JobID) (map[string]string, error) // of a job, by path; nil: no job has any
	// Identity says as which user and group the tasks of a user run now; see executor.IdentityOf.
	Identity func(user model.Subject) (executor.Identity, error)
	// Storage returns a storage that jobs of a virtual cluster may use now. nil: there are none.
	Storage func(cell.VCName, string) (model.Storage, bool)
	Leaves  func(cell.NodeName) []Leaf // of a configured node; nil: no leaf's health is told
	// Namespace is where pods of a virtual cluster go now, "" for the server's own. known is
	// false while that is not known yet. nil: all go to the server's own.
	Namespace func(cell.VCName) (space string, known bool)
	// Workloads are the namespaces whose pods of others are jobs of Comb: such pods have its label.
	// nil: there are none.
	Workloads func() []string
	// LeftOn names a pod of a workload that is still on a node though its attempt is over; "" is
	// none. Such a node is down. known is false until that is known; then nothing is told of the
	// node. nil: there are no workloads.
	LeftOn func(node string) (pod string, known bool)
	// CameUp is called once a node was told to be up: what runs there of workloads is told again.
	CameUp func(node string)
	// InfiniBand reports whether tasks of a virtual cluster may have RDMA network devices, and
	// whether that is known yet. nil: none may.
	InfiniBand func(cell.VCName) (may, known bool)
	Work       string           // the claim that keeps checkpoints; "": jobs can keep none
	DiskMB     int64            // what a task may write to its node when it asks for nothing; 0 is no limit
	MostMB     int64            // the most that a task may ask for of that; 0 is no limit
	ServerLink *pods.ServerLink // nil: pods send nothing to the server
	// WhyEnded says in words why a task is being ended, for users that look at its pod, or "" where
	// that is the ordinary course. It may take a while. nil: nothing is said.
	WhyEnded func(Ending) string
	// PullSecrets are Secrets of each namespace with pods, with which their images are fetched
	// besides those of the job and of the service account.
	PullSecrets []string
	// Code opens the code that a job brings, and returns its size in bytes. nil: no job brings
	// any.
	Code   func(*model.Job) (io.ReadCloser, int64, error)
	Log    *slog.Logger
	Limits Limits
}

// Limits are how long things may take.
type Limits struct {
	Binding time.Duration // until kube-scheduler has bound a pod
	Image   time.Duration // until an image is there, and a container is made
	Log     time.Duration // from the end of a pod until all that it printed is read
	Gone    time.Duration // from a node's removal until its pods are counted as gone
}

// Within returns the usual limits, with a given one for images.
func Within(image time.Duration) Limits {
	return Limits{Binding: time.Minute, Image: image, Log: 15 * time.Second, Gone: time.Minute}
}

// workers is how many requests are under way at a time.
const workers = 24

// Executor implements executor.Executor over pods.
type Executor struct {
	o     Options
	maker pods.Maker

	spaces  *podNamespaces // where pods are
	others  *podsOfOthers
	nodes   cache.Store // as the API server told last
	synced  func() bool // reports whether all nodes and pods were listed once
	queue   workqueue.TypedRateLimitingInterface[string]
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	opened  time.Time
	telling sync.Mutex // held while the health of nodes is told, to keep its order; before mu

	mu       sync.Mutex
	tasks    map[string]*podTask          // by pod name; for strays NAMESPACE/NAME
	attempts map[model.AttemptID][]string // the keys of each attempt's tasks
	crews    map[model.JobID]*jobMembers
	stopped  map[model.AttemptID]model.Duration
	seen     map[string]*nodeSeen // what was seen of each node
	swept    bool                 // from now on a pod without a task is a stray
	looked   bool                 // all earlier strays are known: nodes may be told to be up
	adopted  chan struct{}        // closed when the state of every task of before is known
	known    int                  // tasks from before the start whose state is not known yet

	turning sync.Mutex // held while a pod reports on its turns; never held together with mu

	server    *serverState // each of these has a lock of its own
	programs  *programs
	events    *podEvents
	published published
	fenced    *fencedPods
	tokens    *podTokens // after mu
	notKept   sparseWarning
}

var (
	_ executor.Executor      = (*Executor)(nil)
	_ executor.HasConditions = (*Executor)(nil)
)

// New watches pods and nodes. It does not wait for the API server.
func New(o Options) (*Executor, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	key, err := keyOf(o.KeyFile)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	maker := pods.Maker{Cluster: o.Cluster, Key: key, Space: o.API.Namespace(), Class: o.API.PriorityClass()}
	e := &Executor{o: o, maker: maker,
		tasks: map[string]*podTask{}, attempts: map[model.AttemptID][]string{}, crews: map[model.JobID]*jobMembers{}, stopped: map[model.AttemptID]model.Duration{}, seen: map[string]*nodeSeen{},
		adopted: make(chan struct{}), opened: time.Now(), tokens: newPodTokens(o.API.Issuer),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 15*time.Second)))}
	close(e.adopted)
	e.server = &serverState{api: o.API, log: o.Log, back: func() { queueAll(e) }}
	e.events = &podEvents{api: o.API, log: o.Log, server: e.server, queue: make(chan podEvent, eventQueue)}
	e.programs = &programs{log: o.Log, works: map[string]bool{}, fails: map[string]programFault{},
		there: func(node string) bool { return e.node(node) != nil }}
	if o.ServerLink != nil {
		e.programs.image = o.ServerLink.Image
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if e.fenced, err = openFencedPods(o.KeyFile); err != nil {
		return nil, err
	}
	e.fenced.each(func(node, key string) { e.seenOf(node).lost[key] = true })
	nodes, watch := o.API.WatchNodes(health{e}.changed)
	e.nodes = nodes
	if e.spaces, err = openPodNamespaces(e); err != nil {
		e.Close()
		return nil, err
	}
	first := e.spaces.all()
	e.others = &podsOfOthers{label: pods.ClusterLabel, cluster: e.maker.Short(), log: o.Log,
		ours: e.spaces.ours, look: health{e}.lookIfThere}
	others := e.others.watch(o.API)
	e.synced = func() bool {
		return watch.HasSynced() && e.others.seen() &&
			!slices.ContainsFunc(first, func(sp *podNamespace) bool { return !sp.seen() })
	}
	e.goes(func() { e.server.watch(e.ctx) })
	e.goes(func() { watch.RunWithContext(e.ctx) })
	e.goes(func() { others(e.ctx) })
	e.goes(e.begin)
	return e, nil
}

// Label is the value of pods.ClusterLabel on pods of this Comb.
func Label(e *Executor) string { return e.maker.Short() }

func (e *Executor) goes(f func()) {
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		f()
	}()
}

// begin lets the work begin once nodes and pods are listed.
func (e *Executor) begin() {
	if !cache.WaitForCacheSync(e.ctx.Done(), e.synced) {
		return
	}
	endStrays(e)
	for range workers {
		e.goes(e.work)
	}
	e.goes(e.lookAgain)
	e.spaces.lookForForged()
	e.goes(func() { e.events.write(e.ctx) })
	if e.programs.image == "" {
		return
	}
	for _, sp := range e.spaces.all() {
		for _, key := range sp.pods.ListKeys() {
			if pod := sp.pod(baseOf(key)); pod != nil && e.maker.Sealed(pod) && pods.Look(pod, false).Ran {
				e.programs.began(pod)
			}
		}
	}
	trial := imageTrial{programs: e.programs, api: e.o.API, maker: &e.maker, server: e.server,
		node: func() (string, []string) { return freest(e) },
		pulls: func(ctx context.Context, pod *corev1.Pod) error {
			own := e.spaces.watched(e.spaces.own())
			return own.pulls.add(ctx, own.api, e.o.PullSecrets, pod, e.o.Log)
		},
		seen: func(name string) *corev1.Pod { return e.spaces.pod(e.spaces.own(), name) }}
	e.goes(func() { trial.run(e.ctx) })
}

func (e *Executor) work() {
	for {
		name, closed := e.queue.Get()
		if closed {
			return
		}
		again, err := e.reconcile(name)
		switch {
		case err != nil && e.ctx.Err() == nil:
			if e.server.away().IsZero() { // else it is known why
				e.o.Log.Warn("a request about a pod failed; it is tried again", "pod", name, "error", api.ErrorText(err))
			}
			e.queue.AddRateLimited(name)
		case again > 0:
			e.queue.Forget(name)
			e.queue.AddAfter(name, again)
		default:
			e.queue.Forget(name)
		}
		e.queue.Done(name)
	}
}

// keyOf reads the key of the seals, or makes one.
func keyOf(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) == 32 {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the key that seals pods: %w", err)
	}
	key = make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(path+".new", key, 0o600); err != nil {
		return nil, fmt.Errorf("cannot keep the key that seals pods: %w", err)
	}
	return key, os.Rename(path+".new", path)
}

// Do implements engine.Executor.
func (e *Executor) Do(a model.Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case a.Start != nil:
		e.start(a)
	case a.Lost != nil:
		e.fence(a)
	case a.Rotation != nil:
		claims{e}.rotate(a.Attempt, a.Rotation)
	default:
		e.end(a)
	}
}

// start takes up the tasks of a gang.
func (e *Executor) start(a model.Action) {
	grace, stopped := e.stopped[a.Attempt]
	delete(e.stopped, a.Attempt)
	h := &home{known: a.Known, whose: executor.IdentityOf(a.Start.Job, e.o.Identity)}
	records := recordsOf(e, a.Attempt)
	for i := range a.Start.Tasks {
		ts := &a.Start.Tasks[i]
		name := e.maker.Name(a.Attempt, ts.Task)
		if e.tasks[name] == nil {
			e.add(&podTask{named: named{key: name, name: name, home: h},
				dir: records.taskDir(ts.Task), noted: noted{records: records}, at: a.Attempt,
				start: a.Start, ts: ts, known: a.Known,
				stopOrder: stopOrder{stop: stopped, grace: grace}})
			delete(e.seenOf(string(ts.Place.Node)).lost, name)
			if a.Known {
				if e.known++; e.known == 1 {
					e.adopted = make(chan struct{})
				}
			}
		} else {
			e.tasks[name].repeated = true
		}
		e.queue.Add(name)
	}
	claims{e}.rotate(a.Attempt, a.Start.Rotation)
}

// add notes a task. e.mu is held.
func (e *Executor) add(t *podTask) {
	e.tasks[t.key] = t
	e.crewOf(t.at.Job).tasks[t.key] = t
	e.attempts[t.at] = append(e.attempts[t.at], t.key)
	if t.ts != nil {
		e.seenOf(string(t.ts.Place.Node)).tasks[t.key] = t
	}
}

// end ends the tasks of an attempt. A stop may come before its start.
func (e *Executor) end(a model.Action) {
	names := e.attempts[a.Attempt]
	if len(names) == 0 {
		e.stopped[a.Attempt] = a.Grace
	}
	for _, name := range names {
		if t := e.tasks[name]; t != nil && !t.stop {
			t.stop, t.grace, t.cause, t.by = true, a.Grace, a.Cause, a.By
			e.queue.Add(name)
		}
	}
}

// fence ends tasks that already count as lost: their nodes stay down until the pods are gone.
// e.mu is held.
func (e *Executor) fence(a model.Action) {
	nodes := map[string]bool{}
	for _, n := range a.Lost {
		name := e.maker.Name(a.Attempt, n)
		t := e.tasks[name]
		if t == nil {
			continue
		}
		if !t.stop {
			t.stop, t.grace = true, 0
		}
		t.lost = true
		if t.ts != nil {
			e.seenOf(string(t.ts.Place.Node)).lost[name] = true
			nodes[string(t.ts.Place.Node)] = true
		}
		e.queue.Add(name)
	}
	e.goes(func() {
		health{e}.keep()
		for node := range nodes { // in any order
			health{e}.changed(node)
		}
	})
}

// Adopted implements engine.Adopter.
func (e *Executor) Adopted(ctx context.Context) {
	e.mu.Lock()
	done := e.adopted
	e.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(30 * time.Second): // the API server is away: its tasks stay as they were
	}
}

// stateKnown notes that the state of a task from before the start is known now. e.mu is held.
func (e *Executor) stateKnown(t *podTask) {
	if t.known && !t.unseen {
		e.countAdopted()
	}
	t.known = false
}

// countAdopted counts down the tasks whose state must be known before the work begins. e.mu is
// held.
func (e *Executor) countAdopted() {
	if e.known--; e.known == 0 {
		close(e.adopted)
	}
}

// Conditions implements executor.HasConditions.
func (e *Executor) Conditions() []executor.Condition {
	list := append(e.server.conditions(), e.programs.conditions()...)
	for _, sp := range e.spaces.all() {
		if why := sp.refused(); why != "" {
			text := fmt.Sprintf("nothing starts in namespace %s, and what becomes of its pods is not known: %s",
				sp.name, why)
			list = append(list, executor.Condition{Admin: true, Text: text})
		}
	}
	return list
}

// Abilities implements engine.AbilityReporter.
func (e *Executor) Abilities(l engine.Leaves) ([]model.Ability, string) {
	return claims{e}.abilities(l)
}

// EndStrays implements executor.Executor. All live tasks were started again before it: a pod of
// this cluster without a task is a stray, now and later. While the API server is away nothing is
// ended; strays are ended when it is back, and the log names them.
func (e *Executor) EndStrays([]model.AttemptID) []string {
	e.mu.Lock()
	e.swept = true
	e.mu.Unlock()
	return e.strays()
}

// queueAll lets all tasks be settled now, also those that would be tried again later.
func queueAll(e *Executor) {
	e.mu.Lock()
	keys := slices.Collect(maps.Keys(e.tasks))
	e.mu.Unlock()
	for _, key := range keys { // in any order
		e.queue.Add(key)
	}
}

// lookEvery is how often is checked what no event tells.
const lookEvery = 30 * time.Second

// lookAgain ends strays that came later, and tells again which nodes are down: the configuration
// may have named them only since.
func (e *Executor) lookAgain() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		endStrays(e)
		for _, f := range (health{e}).down() {
			e.o.Tell(f)
		}
		claims{e}.look()
		e.spaces.close()
		e.spaces.lookForForged()
		podLogs{e}.rest()
	}
}

func (e *Executor) jobDir(id model.JobID) string {
	return filepath.Join(e.o.Dir, fmt.Sprint(int64(id)))
}

// OpenLog implements executor.Executor. A pod has one stream: both outputs of a task are in its
// standard output.
func (e *Executor) OpenLog(ref executor.LogRef, from int64) (executor.Log, error) {
	dir := recordsOf(e, ref.Attempt).taskDir(ref.Task)
	l, err := readLog(dir, from)
	if errors.Is(err, executor.ErrNoLog) && (podLogs{e}).ran(ref) { // it has printed nothing
		l, err = executor.Log{ReadCloser: &reader{dir: dir}}, nil
	}
	if err != nil || ref.Stream == executor.Stdout {
		return l, err
	}
	return executor.Log{ReadCloser: io.NopCloser(strings.NewReader(""))}, l.Close()
}

// Checkpoints implements executor.Executor: they are in a claim, not on this machine.
func (e *Executor) Checkpoints(model.JobID) string { return "" }

// Usage implements executor.Executor: pods measure themselves, where they reach the server.
func (e *Executor) Usage(ref executor.TaskRef) []executor.Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.tasks[e.maker.Name(ref.Attempt, ref.Task)]; t != nil {
		return slices.Clone(t.usage)
	}
	return nil
}

// Forget implements executor.Executor.
func (e *Executor) Forget(id model.JobID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.crews[id]; c != nil {
		for name := range c.tasks {
			return fmt.Errorf("a pod of job %d, %s, is not gone yet", id, name)
		}
	}
	for node, s := range e.seen {
		for key := range s.lost { // also an earlier pod: once forgotten it would pass for a user's copy
			if at, _, ok := e.maker.Parse(key[strings.LastIndexByte(key, '/')+1:]); ok && at.Job == id {
				return fmt.Errorf("a pod of job %d, %s on node %s, is not proven gone yet", id, key, node)
			}
		}
	}
	if err := e.spaces.forgotten.note(id); err != nil {
		return err
	}
	return os.RemoveAll(e.jobDir(id))
}

// Close implements executor.Executor: pods run on.
func (e *Executor) Close() {
	e.stop()
	e.queue.ShutDown()
	e.running.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tasks {
		t.sent.close()
	}
}

func baseOf(key string) string {
	_, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return key
	}
	return name
}

// strays ends the pods of this cluster that have no task, and returns their names. A node with a
// stray is down until it is gone: else its GPUs could be given to others while it uses them.
func (e *Executor) strays() (ended []string) {
	e.mu.Lock()
	may := e.swept
	e.mu.Unlock()
	if !may || !e.synced() {
		return nil // what was not seen is not ended
	}
	nodes, read, unseen := map[string]bool{}, recordsRead{}, health{e}.unseen()
	for _, sp := range e.spaces.all() {
		for _, key := range sp.pods.ListKeys() {
			pod := sp.pod(baseOf(key))
			if pod == nil || !e.spaces.stray(sp, pod, read) {
				continue
			}
			at, n, _ := e.maker.Parse(pod.Name)
			nodes[pods.NodeOf(pod)] = true
			ended = append(ended, fmt.Sprintf("%v/%d", at, n))
			e.queue.Add(strayKey(sp.name, pod.Name))
		}
	}
	for _, node := range (health{e}).free(unseen) {
		nodes[node] = true
	}
	health{e}.keep()
	e.mu.Lock()
	first := !e.looked
	e.looked = true
	e.mu.Unlock()
	if first {
		for _, key := range e.nodes.ListKeys() {
			nodes[key] = true
		}
		e.mu.Lock()
		for name := range e.seen { // in any order: they are sorted below
			nodes[name] = true
		}
		e.mu.Unlock()
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		health{e}.changed(node)
	}
	return ended
}

// endStrays ends strays that no sweep reported.
func endStrays(e *Executor) {
	for _, name := range e.strays() {
		e.o.Log.Warn("a pod that no task is known of is ended", "task", name)
	}
}

// strayKey is the key of a stray: a task of the same name may be in another namespace.
func strayKey(space, pod string) string { return space + "/" + pod }

// stray takes up a pod that no task is known of, and reports whether it did.
func (s *podNamespaces) stray(sp *podNamespace, pod *corev1.Pod, read recordsRead) bool {
	e := s.e
	at, n, ok := e.maker.Parse(pod.Name)
	if !ok || !e.maker.Sealed(pod) && !s.notedAsOurs(at, n, pod, read) {
		return false
	}
	key := strayKey(sp.name, pod.Name)
	known := func() bool {
		t := e.tasks[pod.Name]
		return e.tasks[key] != nil || t != nil && (t.space == sp.name || t.space == "")
	}
	e.mu.Lock()
	has := known()
	e.mu.Unlock()
	if has || s.forged(at, n, pod, read) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known() {
		return false // it was taken up meanwhile
	}
	records := read.of(e, at)
	e.add(&podTask{named: named{key: key, name: pod.Name, space: sp.name},
		dir: records.taskDir(n), noted: noted{records: records}, at: at, uid: pod.UID, stray: true,
		stopOrder: stopOrder{stop: true, grace: model.Duration(pods.DefaultGrace.Microseconds())}})
	seen := e.seenOf(pods.NodeOf(pod))
	seen.lost[key], seen.strays[key] = true, named{key: key, name: pod.Name, space: sp.name}
	return true
}

// notedAsOurs reports whether a record says that Comb made a pod, or may have: a tenant may have
// removed its seal.
func (s *podNamespaces) notedAsOurs(at model.AttemptID, n int32, pod *corev1.Pod, read recordsRead) bool {
	r, begun, err := read.of(s.e, at).load(n)
	if own := cmp.Or(r.UID, r.Made); own != "" || !begun || err != nil {
		return begun && err == nil && own == pod.UID
	}
	here := cmp.Or(r.Namespace, s.own()) == pod.Namespace && (r.Node == "" || r.Node == pods.NodeOf(pod))
	return here && r.Exit == nil && r.Refused == nil
}

// forged reports whether a pod without a task is not Comb's: Comb's pod of that name was another
// one, or is gone.
func (s *podNamespaces) forged(at model.AttemptID, n int32, pod *corev1.Pod, read recordsRead) bool {
	if s.forgotten.has(at.Job) {
		return true
	}
	was, begun, err := read.of(s.e, at).load(n)
	own := cmp.Or(was.UID, was.Made)
	return begun && err == nil && own != "" && own != pod.UID
}
