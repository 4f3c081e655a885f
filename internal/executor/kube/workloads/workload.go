package workloads

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// workload is an object that makes pods, or a pod that nothing makes. Executor.mu is held where
// its fields are used.
type workload struct {
	of   model.Foreign
	job  model.JobID // 0: none that has not ended
	at   *attempt    // nil: the job waits
	told bool        // the server was told that the object is gone
	over bool        // its job has ended, and the object is to make no pods any more
}

// attempt is an attempt of the job. Each task of it is a slot, which a pod fills. The object may
// fill it again after a pod that failed.
type attempt struct {
	id       model.AttemptID
	start    *model.Start
	stop     bool
	begun    bool         // gates were opened for it
	requeued bool         // the server was told that a user suspended its object
	ending   model.Action // why it is to stop
	slots    []slot
}

type slot struct {
	task    int32
	node    string
	pod     types.UID // "": none yet
	started bool
	told    bool // that it has started, since its node came up last
	ended   bool
	lost    bool // it counts as ended by the loss of its node
}

func newAttempt(a model.Action) *attempt {
	at := &attempt{id: a.Attempt, start: a.Start}
	for i := range a.Start.Tasks {
		ts := &a.Start.Tasks[i]
		at.slots = append(at.slots, slot{task: ts.Task, node: string(ts.Place.Node)})
	}
	return at
}

// slot is that of a task.
func (a *attempt) slot(task int32) *slot {
	for i := range a.slots {
		if a.slots[i].task == task {
			return &a.slots[i]
		}
	}
	return &slot{}
}

// workloadOf is what an object is known as. e.mu is held.
func (e *Executor) workloadOf(of model.Foreign) *workload {
	w := e.all[types.UID(of.UID)]
	if w == nil {
		w = &workload{of: of}
		e.all[types.UID(of.UID)] = w
	}
	return w
}

// seen is what is there of a workload now.
type seen struct {
	sp    *space
	kind  *kind                      // of the owner
	owner *unstructured.Unstructured // nil: it is gone, or of a kind that Comb does not know
	pods  []*corev1.Pod              // those of its making, by index and name
}

// find looks for an object in the copies of all namespaces. e.mu is held. ok is false until all
// that is in its namespace is known.
func (e *Executor) find(uid types.UID) (s seen, ok bool) {
	w := e.all[uid]
	for _, name := range sortedKeys(e.spaces) {
		sp := e.spaces[name]
		if w != nil && w.of.Namespace != name {
			continue
		}
		if !sp.synced() {
			if w != nil {
				return s, false
			}
			continue
		}
		one := sp.find(uid)
		if w != nil && w.at != nil {
			one.addOpened(w.at.id)
		}
		switch {
		case one.owner != nil || w != nil:
			return one, true
		case len(one.pods) > 0 && !ok: // unless its owner is in another namespace: then these only say so
			s, ok = one, true
		}
	}
	return s, ok
}

// find looks for an object and its pods in the copies of a namespace.
func (sp *space) find(uid types.UID) seen {
	s := seen{sp: sp}
	made, _ := sp.pods.ByIndex(api.ByOwner, string(uid))
	for _, obj := range made {
		s.pods = append(s.pods, obj.(*corev1.Pod))
	}
	for i := range kinds {
		if found, _ := sp.owners[i].ByIndex(api.ByUID, string(uid)); len(found) > 0 {
			s.kind, s.owner = &kinds[i], found[0].(*unstructured.Unstructured)
		}
	}
	if alone, _ := sp.pods.ByIndex(api.ByUID, string(uid)); len(alone) > 0 && s.owner == nil {
		p := alone[0].(*corev1.Pod)
		s.kind, s.owner, s.pods = &podKind, asObject(p), []*corev1.Pod{p}
	}
	slices.SortFunc(s.pods, inOrder)
	return s
}

// addOpened adds the pods that were opened for an attempt and name another owner now, or none.
func (s *seen) addOpened(id model.AttemptID) {
	known := map[types.UID]bool{}
	for _, p := range s.pods {
		known[p.UID] = true
	}
	opened, _ := s.sp.pods.ByIndex(api.ByOpened, id.String())
	for _, obj := range opened {
		if p := obj.(*corev1.Pod); !known[p.UID] {
			s.pods = append(s.pods, p)
		}
	}
}

// inOrder orders the pods of an object as it numbers them.
func inOrder(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(index(a), index(b)), cmp.Compare(a.Name, b.Name))
}

func index(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Labels["batch.kubernetes.io/job-completion-index"])
	if err != nil {
		return 0
	}
	return n
}

// gated reports whether a pod waits at its gate.
func gated(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == Gate })
}

// over reports whether a pod is no more, or will soon be.
func over(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || ended(p)
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// look brings a workload on its way. again is when to look anew though nothing was heard; 0 is
// never.
func (e *Executor) look(uid types.UID) (again time.Duration, err error) {
	e.mu.Lock()
	s, ok := e.find(uid)
	w := e.all[uid]
	var left []*corev1.Pod
	for _, p := range s.pods {
		if ok && e.adopted && e.swept && e.opened(p) && !over(p) && e.isLeft(p) {
			left = append(left, p)
		}
	}
	e.mu.Unlock()
	for _, p := range left {
		if err := s.sp.api.Delete(e.ctx, p.Name, p.UID, time.Duration(graceOf(p))*time.Microsecond); err != nil {
			return 0, err
		}
	}
	switch {
	case !ok && w != nil:
		return time.Second, nil // its namespace is not known yet
	case !ok:
		e.mu.Lock()
		delete(e.events, string(uid))
		e.mu.Unlock()
		return 0, nil
	case w == nil || w.job == 0:
		return e.propose(s, w)
	case w.at == nil:
		return 0, e.lookAtWaiting(s, w)
	}
	return e.drive(s, w)
}

// lookAtWaiting tells when the object of a job that waits is gone, or goes on.
func (e *Executor) lookAtWaiting(s seen, w *workload) error {
	if s.owner == nil || s.owner.GetDeletionTimestamp() != nil {
		return e.objectGone(w)
	}
	byUser := suspended(s.owner) && s.owner.GetAnnotations()[SuspendedNote] == ""
	var held *model.HoldStatus
	e.mu.Lock()
	job := w.job
	e.mu.Unlock()
	e.o.Read(func(st *core.State) {
		if j, ok := st.Job(job); ok {
			held = j.Held
		}
	})
	switch {
	case byUser && held == nil:
		return e.o.Give(e.ctx, model.Hold{Meta: system, Job: job, On: true, Reason: heldText(w)}).Err
	case !byUser && held != nil && held.By == system.Subject && held.Reason == heldText(w):
		return e.o.Give(e.ctx, model.Hold{Meta: system, Job: job}).Err
	}
	return nil
}

// heldText is why a job is held whose object a user suspended.
func heldText(w *workload) string {
	return w.of.String() + " was suspended by others than Comb; it waits until that ends"
}

// system gives the commands that follow from what users do with kubectl.
var system = model.Meta{Subject: "system"}

// heldByUser has a job wait whose object a user suspended while it ran.
func (e *Executor) heldByUser(w *workload) error {
	e.mu.Lock()
	job, at := w.job, w.at
	again := at == nil || at.requeued
	if at != nil {
		at.requeued = true
	}
	e.mu.Unlock()
	if again {
		return nil
	}
	return e.o.Give(e.ctx, model.Requeue{Meta: system, Job: job, Hold: true, Reason: heldText(w)}).Err
}

// objectGone stops the job of an object that was deleted.
func (e *Executor) objectGone(w *workload) error {
	e.mu.Lock()
	job, told := w.job, w.told
	e.mu.Unlock()
	if told {
		return nil
	}
	reply := e.o.Give(e.ctx, model.Stop{Meta: system, Job: job, Reason: w.of.String() + " was deleted"})
	if reply.Err != nil {
		return reply.Err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w.told = true
	return nil
}

// drive starts, follows or ends an attempt.
func (e *Executor) drive(s seen, w *workload) (again time.Duration, err error) {
	e.mu.Lock()
	at := w.at
	stop, gone := at.stop, s.owner == nil || s.owner.GetDeletionTimestamp() != nil
	e.mu.Unlock()
	switch {
	case stop:
		return e.end(s, w, at)
	case gone:
		if err := e.objectGone(w); err != nil {
			return 0, err
		}
		return 0, nil
	}
	none := e.tell(s, at)
	switch isOver, good, why := s.kind.end(s.owner); {
	case isOver && none:
		e.exitAll(w, at, func(*slot) model.Exit { return exitOf(good, why) })
		return 0, nil
	case isOver:
		return 0, nil // pods that have not ended still have their GPUs
	case suspended(s.owner) && s.owner.GetAnnotations()[SuspendedNote] == "":
		return 0, e.heldByUser(w)
	case suspended(s.owner) && none, !suspended(s.owner) && s.owner.GetAnnotations()[SuspendedNote] != "":
		return 0, e.suspend(s, false)
	}
	e.endSurplus(s, at)
	return 0, e.openGates(s, w, at)
}

// endSurplus ends slots for which the object makes no pods any more: so many have succeeded, or it
// was told to make fewer.
func (e *Executor) endSurplus(s seen, at *attempt) {
	want := s.kind.want(s.owner)
	var facts []model.Fact
	e.mu.Lock()
	var free []*slot
	for i := range at.slots {
		switch sl := &at.slots[i]; {
		case sl.ended:
		case sl.pod == "":
			free = append(free, sl)
		default:
			want--
		}
	}
	for int64(len(free)) > max(want, 0) && len(free) > 0 && s.kind.want(s.owner) > 0 {
		sl := free[len(free)-1]
		free = free[:len(free)-1]
		sl.ended = true
		facts = append(facts, model.TaskExited{Attempt: at.id, Task: sl.task, Exit: model.Exit{Own: true}})
	}
	e.mu.Unlock()
	for _, f := range facts {
		e.o.Tell(f)
	}
}

// exitOf is how the tasks of an object ended that has ended as a whole.
func exitOf(good bool, why string) model.Exit {
	if good {
		return model.Exit{Own: true}
	}
	return model.Exit{Code: 1, Own: true, Message: why}
}

// exitAll ends all tasks that have not ended.
func (e *Executor) exitAll(w *workload, at *attempt, exit func(*slot) model.Exit) {
	e.mu.Lock()
	var facts []model.Fact
	for i := range at.slots {
		if sl := &at.slots[i]; !sl.ended {
			sl.ended = true
			if !sl.lost {
				facts = append(facts, model.TaskExited{Attempt: at.id, Task: sl.task, Exit: exit(sl)})
			}
		}
	}
	if w.at == at {
		w.at = nil
		delete(e.attempts, at.id)
	}
	e.mu.Unlock()
	for _, f := range facts {
		e.o.Tell(f)
	}
}

// tell tells what the pods of an attempt do, and which slots are free again. It reports whether
// no pod fills any slot.
func (e *Executor) tell(s seen, at *attempt) (none bool) {
	var facts []model.Fact
	e.mu.Lock()
	none = true
	for _, p := range s.pods {
		sl := at.filledBy(p)
		if sl == nil || sl.ended {
			continue
		}
		at.begun = true
		switch {
		case ended(p):
			sl.pod = "" // the object makes another, or has failed; one that is asked to end still has its GPUs
		case p.Status.Phase == corev1.PodRunning && !sl.told:
			sl.started, sl.told = true, true
			facts = append(facts, model.TaskStarted{Attempt: at.id, Task: sl.task, Host: p.Status.PodIP})
			none = false
		default:
			none = false
		}
	}
	for i := range at.slots {
		sl := &at.slots[i]
		there := slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return p.UID == sl.pod })
		if sl.pod != "" && !sl.ended && !there {
			sl.pod = ""
		}
		none = none && (at.slots[i].ended || at.slots[i].pod == "")
	}
	e.mu.Unlock()
	for _, f := range facts {
		e.o.Tell(f)
	}
	return none
}

// filledBy is the slot that a pod fills; nil for a pod of another attempt, or none. After a restart
// the pod says so itself.
func (a *attempt) filledBy(p *corev1.Pod) *slot {
	for i := range a.slots {
		if a.slots[i].pod == p.UID {
			return &a.slots[i]
		}
	}
	if gated(p) || p.Labels[pods.OpenedLabel] != a.id.String() {
		return nil
	}
	task, err := strconv.ParseInt(p.Labels[pods.TaskLabel], 10, 32)
	if sl := a.slot(int32(task)); err == nil && sl.node != "" && sl.pod == "" {
		sl.pod = p.UID
		return sl
	}
	return nil
}

// openGates lets pods go to their nodes: none until there is one for each slot.
func (e *Executor) openGates(s seen, w *workload, at *attempt) error {
	e.mu.Lock()
	var waiting []*corev1.Pod
	for _, p := range s.pods {
		if gated(p) && !over(p) && at.start.Job.Roles[0].Launch.GPU == sum(asksOf(p)) {
			waiting = append(waiting, p)
		}
	}
	type opening struct {
		pod  *corev1.Pod
		slot *slot
	}
	var list []opening
	free := 0
	for i := range at.slots {
		if sl := &at.slots[i]; sl.pod == "" && !sl.ended {
			if free < len(waiting) {
				list = append(list, opening{waiting[free], sl})
			}
			free++
		}
	}
	began := slices.ContainsFunc(at.slots, func(sl slot) bool { return sl.pod != "" || sl.ended })
	e.mu.Unlock()
	if len(list) < free && !began {
		return nil // the object will make the others
	}
	if !began && len(list) > 0 {
		e.say(w.of, eventStarts, at.id.String(), fmt.Sprintf("job %s starts on %s", w.of.Name, nodesOf(at)))
	}
	for _, o := range list {
		if err := e.openGate(s.sp.api, w, at, o.pod, o.slot); err != nil {
			if api.Changed(err) {
				continue // it is another pod by now, and that will be told
			}
			return err
		}
		e.mu.Lock()
		o.slot.pod, at.begun = o.pod.UID, true
		e.mu.Unlock()
	}
	return nil
}

// nodesOf names the nodes of an attempt.
func nodesOf(at *attempt) string {
	var names []string
	for i := range at.slots {
		names = append(names, at.slots[i].node)
	}
	slices.Sort(names)
	return api.FirstFew(slices.Compact(names))
}

// openGate opens a pod's gate for a node, in one request.
func (e *Executor) openGate(c api.Workloads, w *workload, at *attempt, p *corev1.Pod, sl *slot) error {
	g := slices.IndexFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == Gate })
	path := "/spec/schedulingGates/" + strconv.Itoa(g)
	list := []api.Change{{Op: "test", Path: path + "/name", Value: Gate}, {Op: "remove", Path: path}}
	set := func(path string, have map[string]string, values map[string]string) {
		if len(have) == 0 {
			list = append(list, api.Change{Op: "add", Path: path, Value: values})
			return
		}
		for _, key := range sortedKeys(values) {
			list = append(list, api.Change{Op: "add", Path: api.Pointer(path, key), Value: values[key]})
		}
	}
	set("/metadata/labels", p.Labels, map[string]string{pods.ClusterLabel: e.o.Cluster,
		pods.JobLabel: strconv.FormatInt(int64(w.job), 10), pods.TaskLabel: strconv.Itoa(int(sl.task)),
		pods.OpenedLabel: at.id.String()})
	set("/spec/nodeSelector", p.Spec.NodeSelector, map[string]string{corev1.LabelHostname: sl.node})
	ctx, cancel := context.WithTimeout(e.ctx, 20*time.Second)
	defer cancel()
	_, err := c.ChangePod(ctx, p.Name, p.UID, list)
	return err
}

// suspend suspends an object, or has it go on. A pod that nothing makes is deleted.
func (e *Executor) suspend(s seen, on bool) error {
	ctx, cancel := context.WithTimeout(e.ctx, 20*time.Second)
	defer cancel()
	if s.kind == &podKind {
		p := s.pods[0]
		if p.DeletionTimestamp != nil {
			return nil
		}
		return s.sp.api.Delete(ctx, p.Name, p.UID, time.Duration(graceOf(p))*time.Microsecond)
	}
	note := any(nil)
	if on {
		note = "yes"
	}
	return s.sp.api.PatchKind(ctx, s.kind.ObjectKind, s.owner.GetName(), s.owner.GetUID(), map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{SuspendedNote: note}},
		"spec":     map[string]any{"suspend": on}})
}

// end has an object make no pods any more, deletes its pods with the grace of the stop, and tells
// of the tasks once these are gone.
func (e *Executor) end(s seen, w *workload, at *attempt) (time.Duration, error) {
	var live []*corev1.Pod
	e.mu.Lock()
	for _, p := range s.pods {
		if sl := at.filledBy(p); !ended(p) && sl != nil && !sl.lost {
			live = append(live, p)
		}
	}
	grace := time.Duration(at.ending.Grace) * time.Microsecond
	e.mu.Unlock()
	isOver, good, why, what := false, false, "", "deleted"
	if s.owner != nil {
		isOver, good, why = s.kind.end(s.owner)
		what = "suspended"
	}
	if s.owner != nil && !isOver && !suspended(s.owner) && s.owner.GetDeletionTimestamp() == nil {
		if text := e.o.WhyEnded(at.ending); text != "" {
			e.say(w.of, eventEnds, at.id.String(), text)
		}
		if err := e.suspend(s, true); err != nil && !api.Missing(err) {
			return 0, err
		}
	}
	for _, p := range live {
		if p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil &&
			time.Duration(*p.DeletionGracePeriodSeconds)*time.Second <= grace {
			continue
		}
		if err := s.sp.api.Delete(e.ctx, p.Name, p.UID, grace); err != nil {
			return 0, err
		}
	}
	if len(live) > 0 {
		return 0, nil
	}
	e.exitAll(w, at, func(sl *slot) model.Exit {
		switch {
		case isOver:
			return exitOf(good, why)
		case !sl.started:
			return model.Exit{Cause: model.NeverStarted}
		}
		text := fmt.Sprintf("its pod ended when %s was %s", w.of.String(), what)
		return model.Exit{Code: 143, Signal: 15, Message: text}
	})
	return 0, nil
}
